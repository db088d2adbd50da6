//! Runs that the summary does not show in full: because there are many, or because they ended so
//! long ago that only their sums are kept.
//!
//! Left out on purpose: what happened in them. The log still has it: `trace` and the state at the
//! record that ended one show it whole.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;

use crate::output::Failure;
use plan_ledger::ledger::time_text;
use plan_ledger::plan::{RunId, RunStatus, RunSummary, State};

use super::control_phrase::cost_text;
use super::control_phrase::run_status;
use super::event_json::cost_json;
use super::page::{Page, time_json};
use super::text::{count, counted, plain, plain_path, words};

/// One line for each, after the runs that are whole.
pub(super) fn print(state: &State, page: &mut Page<'_>) -> Result<(), Failure> {
    if state.summaries.is_empty() {
        return Ok(());
    }
    let count = u64::try_from(state.summaries.len()).unwrap_or(u64::MAX);
    page.line("")?;
    page.line(&format!(
        "{} that ended before, of which only the sums are kept:",
        counted(count, "run")
    ))?;
    state.summaries.values().try_for_each(|summary| page.line(&line(summary)))
}

/// How many there are beside those that were shown, by how they stand.
pub(super) fn print_others(
    others: impl Iterator<Item = RunStatus>,
    dir: &Path,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    let mut counts = BTreeMap::new();
    for status in others {
        *counts.entry(run_status(status).1).or_insert(0_u64) += 1;
    }
    if counts.is_empty() {
        return Ok(());
    }
    let counts: Vec<_> =
        counts.iter().map(|(status, many)| format!("{} {status}", count(*many))).collect();
    let (counts, dir) = (counts.join(", "), plain_path(dir));
    page.line("")?;
    page.line(&format!("more runs: {counts}; `ledger inspect {dir} runs` lists all"))
}

fn line(summary: &RunSummary) -> String {
    let RunSummary { name, ending, ended, seq, version, steps, accepted, skipped, .. } = summary;
    let attempts = counted(summary.attempts, "attempt");
    format!(
        "  {}: {} {}, record {seq}; version {}, {accepted} of {steps} accepted, {skipped} skipped; \
         {attempts}, cost {}",
        plain(name),
        words(ending, ' '),
        time_text(*ended),
        version.0,
        cost_text(summary.spent)
    )
}

/// The same for programs.
pub(super) fn print_json(state: &State, page: &mut Page<'_>) -> Result<(), Failure> {
    state
        .summaries
        .iter()
        .try_for_each(|(run, summary)| page.json("ended_run", &json_of(*run, summary)))
}

fn json_of(run: RunId, summary: &RunSummary) -> serde_json::Value {
    let RunSummary { name, ending, started, ended, seq, version, steps, .. } = summary;
    let RunSummary { accepted, skipped, attempts, spent, .. } = summary;
    json!({
        "run": run, "name": name, "ending": words(ending, '_'), "started": time_json(*started),
        "ended": time_json(*ended), "seq": seq, "version": version.0,
        "hash": version.1.to_string(), "steps": steps, "accepted": accepted, "skipped": skipped,
        "attempts": attempts, "spent": cost_json(*spent),
    })
}
