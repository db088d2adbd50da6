//! `ledger inspect DIR runs`: every run of the ledger, one line each, or one run in full.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{RunOverview, RunSummary};
use plan_ledger::{ContentHash, Cost, RunId, RunStatus, Timestamp};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::run::run_status_text;
use crate::commands::inspect::text::units::span;
use crate::json::TimeJson;
use crate::options::OneRunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, cost_text, escape_control};
use plan_ledger_views::RunStatusJson;

use super::run_state::run_state;
use plan_ledger_views::StateLine;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger runs
  ledger inspect .ledger runs my-plan              one run in full: steps, variables, barriers, questions
  ledger inspect .ledger runs --at 5000            which runs there were then
  ledger inspect .ledger runs --after 200 --limit 100   one page of a long list
  ledger inspect .ledger runs --json | jq 'select(.status == \"failed\") | .name'";

/// Every run: status, progress, cost; with RUN its whole state: steps, variables, barriers, questions
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunsArgs {
    #[command(flatten)]
    run: OneRunArg,
    /// Only runs after the one with this number
    #[arg(long, value_name = "NUMBER")]
    after: Option<u32>,
    /// At most this many runs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    #[command(flatten)]
    at: AtArg,
}

/// The line of a run, from its full state or from its summary.
struct RunRow {
    run: RunId,
    name: String,
    status: RunStatus,
    is_paused: bool,
    title: Option<String>,
    version: u32,
    hash: Option<ContentHash>,
    steps: u32,
    accepted: u32,
    skipped: u32,
    attempts: u64,
    spent: Cost,
    started: Timestamp,
    ended: Option<(u64, Timestamp)>,
    is_whole: bool,
}

/// A run in one line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RunRowLine<'a> {
    /// The number of accepted steps.
    accepted: u32,
    /// The number of dispatched attempts.
    attempts: u64,
    /// The end time.
    ended: Option<TimeJson>,
    /// The record that ended it.
    ended_seq: Option<u64>,
    /// The hash of the active version.
    hash: Option<ContentHash>,
    /// Its name.
    name: &'a str,
    /// Whether the run is paused.
    paused: bool,
    /// Its number.
    run: RunId,
    /// The number of skipped steps.
    skipped: u32,
    /// The spending.
    spent: Cost,
    /// The start time.
    started: TimeJson,
    /// Its status.
    status: RunStatusJson,
    /// The number of steps.
    steps: u32,
    /// The title of its plan; null if only totals are kept.
    title: Option<&'a str>,
    /// The active version of the plan; 0 before the first.
    version: u32,
    /// Whether the state has the whole run, and not only these totals.
    whole: bool,
}

impl RunRow {
    fn of(run: RunId, overview: &RunOverview) -> Self {
        let RunOverview { steps, accepted, skipped, attempts, spent, started, ended, .. } =
            *overview;
        let version = overview.version.as_ref();
        Self {
            run,
            name: overview.name.clone(),
            status: overview.status,
            is_paused: overview.pause.is_some(),
            title: version.map(|(title, ..)| title.clone()),
            version: version.map_or(0, |(_, number, _)| *number),
            hash: version.map(|(.., hash)| *hash),
            steps,
            accepted,
            skipped,
            attempts,
            spent,
            started,
            ended,
            is_whole: true,
        }
    }

    fn of_summary(run: RunId, summary: &RunSummary) -> Self {
        let RunSummary { name, ending, started, ended, seq, version, steps, .. } = summary.clone();
        Self {
            run,
            name,
            status: RunStatus::Ended(ending),
            is_paused: false,
            title: None,
            version: version.0,
            hash: Some(version.1),
            steps,
            accepted: summary.accepted,
            skipped: summary.skipped,
            attempts: summary.attempts,
            spent: summary.spent,
            started,
            ended: Some((seq, ended)),
            is_whole: false,
        }
    }

    fn line(&self) -> RunRowLine<'_> {
        RunRowLine {
            accepted: self.accepted,
            attempts: self.attempts,
            ended: self.ended.map(|(_, time)| time.into()),
            ended_seq: self.ended.map(|(seq, _)| seq),
            hash: self.hash,
            name: &self.name,
            paused: self.is_paused,
            run: self.run,
            skipped: self.skipped,
            spent: self.spent,
            started: self.started.into(),
            status: self.status.into(),
            steps: self.steps,
            title: self.title.as_deref(),
            version: self.version,
            whole: self.is_whole,
        }
    }

    fn cells(&self, now: Timestamp) -> [(Paint, String); 8] {
        let (paint, status) = run_status_text(self.status);
        let paused = if self.is_paused { ", paused" } else { "" };
        let until = self.ended.map_or(now, |(_, time)| time);
        let whole_seconds = until.saturating_sub(self.started) / 1_000_000 * 1_000_000;
        let cost =
            if self.spent == Cost::default() { "-".to_owned() } else { cost_text(self.spent) };
        [
            (Paint::None, self.run.to_string()),
            (Paint::Heading, escape_control(&self.name)),
            (paint, format!("{status}{paused}")),
            (Paint::None, format!("{}/{}", self.accepted + self.skipped, self.steps)),
            (Paint::None, self.attempts.to_string()),
            (Paint::None, cost),
            (Paint::None, span(whole_seconds)),
            (Paint::Faint, escape_control(self.title.as_deref().unwrap_or_default())),
        ]
    }
}

pub(crate) fn runs(
    args: &RunsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    if let Some(name) = args.run.name() {
        if args.after.is_some() || args.limit.is_some() {
            return Err(Failure::Usage("--after and --limit are for the list of runs".to_owned()));
        }
        let (ledger, id) = LedgerAt::of_run(context, args.at, Some(name))?;
        run_state(&ledger, id, out)?;
        return ledger.finish(out);
    }
    let ledger = LedgerAt::of(context, args.at)?;
    let whole = ledger.state.runs.overviews().map(|(id, overview)| RunRow::of(id, &overview));
    let gone = ledger.state.summaries.iter().map(|(id, summary)| RunRow::of_summary(*id, summary));
    let mut rows: Vec<RunRow> = whole.chain(gone).collect();
    rows.retain(|row| row.run.0 > args.after.unwrap_or(0));
    rows.sort_by_key(|row| row.run);
    rows.truncate(args.limit.and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX));
    match context.form {
        Form::Json => {
            rows.iter().try_for_each(|row| out.json(&row.line()))?;
            out.json(&StateLine::of(&ledger.state))?;
        }
        Form::Text => {
            ledger.print_past(out)?;
            if rows.is_empty() {
                let is_page = !ledger.state.names.is_empty();
                let none = if is_page { "no further run" } else { "no run has been started" };
                out.line(none)?;
            } else {
                let headings =
                    ["run", "name", "status", "steps", "attempts", "cost", "took", "title"];
                let mut table = Table::with_headings(&headings);
                for row in &rows {
                    table.row(row.cells(ledger.now));
                }
                out.table(&table, 0)?;
            }
            out.document(&StateLine::of(&ledger.state).document())?;
        }
    }
    ledger.finish(out)
}
