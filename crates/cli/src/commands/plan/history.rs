//! `ledger plan history`: the versions of a run's plan.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::{Provenance, Review};
use plan_ledger::{ContentHash, Run};

use crate::commands::inspect::read_state;
use crate::options::{LedgerArgs, RunArg};
use crate::output::{Code, Failure, print_line, print_text};
use crate::protocol::counted;
use crate::requests::run_or_only;

const EXAMPLES: &str = "\
Examples:
  ledger plan history my-plan
  ledger plan history my-plan --json | jq -r .reason

It takes no lock. `ledger inspect DIR plan` shows what each version changed.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanHistoryArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: RunArg,
}

pub(super) fn history(args: &PlanHistoryArgs) -> Result<Code, Failure> {
    read_state(args.ledger.dir(), |state| {
        list_versions(run_or_only(state, args.run.name())?, args.ledger.json)
    })
}

/// A version of a run's plan.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct VersionLine<'a> {
    /// Its hash.
    hash: ContentHash,
    /// Where it comes from: its author, the file and the hash of the file, and how sure the author is
    /// in percent.
    provenance: Option<&'a Provenance>,
    /// The note of its reviewer; empty without one.
    note: &'a str,
    /// The reason for it.
    reason: &'a str,
    /// The run.
    run: &'a str,
    /// Its status: `active`, `replaced`, `rejected` or `waiting` (for a review).
    status: &'static str,
    /// The number of its steps.
    steps: u32,
    /// Its number.
    version: u32,
}

/// Where a version comes from, as part of a line.
fn provenance_text(provenance: &Provenance) -> String {
    let Provenance { author, file, file_hash, confidence } = provenance;
    let author = author.as_ref().map(|author| format!(", by {author}"));
    let hash = file_hash.map(|hash| format!(" ({})", hash.short())).unwrap_or_default();
    let file = file.as_ref().map(|file| format!(", from {file}{hash}"));
    let confidence = confidence.map(|percent| format!(", {percent} % sure"));
    [author, file, confidence].into_iter().flatten().collect()
}

fn list_versions(run: &Run, as_json: bool) -> Result<Code, Failure> {
    for (number, version) in (1..).zip(&run.versions) {
        let status = match version.review {
            _ if number == run.active => "active",
            Some(Review::Rejected) => "rejected",
            None if number > run.active => "waiting",
            Some(Review::Approved) | None => "replaced",
        };
        if as_json {
            print_line(&VersionLine {
                hash: version.hash,
                provenance: version.provenance.as_ref(),
                note: &version.note,
                reason: &version.reason,
                run: &run.name,
                status,
                steps: version.step_count,
                version: number,
            })?;
            continue;
        }
        let reason = match version.reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        let note = match version.note.as_str() {
            note if version.review == Some(Review::Rejected) && !note.is_empty() => {
                format!(" ({note})")
            }
            _ => String::new(),
        };
        let (hash, steps) = (version.hash.short(), counted(u64::from(version.step_count), "step"));
        let from = version.provenance.as_ref().map(provenance_text).unwrap_or_default();
        print_text(&format!("version {number} ({hash}), {steps}{from}, {status}{note}{reason}\n"))?;
    }
    if !as_json {
        print_text(&format!("run {}, started {}\n", run.name, time_text(run.started)))?;
    }
    Ok(Code::Success)
}
