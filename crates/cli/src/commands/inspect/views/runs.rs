//! `ledger inspect DIR runs`: every run of the ledger, one line each.

use clap::Args;
use serde_json::{Value, json};

use plan_ledger::internals::plan::{RunOverview, RunSummary};
use plan_ledger::{Cost, RunId, RunStatus, Timestamp};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::json::event::cost_json;
use crate::commands::inspect::json::run::status_word;
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::{Output, time_json};
use crate::commands::inspect::style::{Paint, Table, span};
use crate::commands::inspect::text::run::run_status_text;
use crate::output::{Code, Failure, cost_text, escape_control};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger runs
  ledger inspect .ledger runs --at 5000            which runs there were then
  ledger inspect .ledger runs --json | jq 'select(.status == \"failed\") | .name'";

/// Every run: status, progress, cost
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunsArgs {
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
    hash: Option<plan_ledger::ContentHash>,
    steps: u32,
    accepted: u32,
    skipped: u32,
    attempts: u64,
    spent: Cost,
    started: Timestamp,
    ended: Option<(u64, Timestamp)>,
    is_whole: bool,
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

    fn json(&self) -> Value {
        json!({
            "run": self.run,
            "name": self.name,
            "status": status_word(self.status),
            "paused": self.is_paused,
            "title": self.title,
            "version": self.version,
            "hash": self.hash,
            "steps": self.steps,
            "accepted": self.accepted,
            "skipped": self.skipped,
            "attempts": self.attempts,
            "spent": cost_json(self.spent),
            "started": time_json(self.started),
            "ended": self.ended.map(|(_, time)| time_json(time)),
            "ended_seq": self.ended.map(|(seq, _)| seq),
            "whole": self.is_whole,
        })
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
    let ledger = LedgerAt::of(context, args.at)?;
    let whole = ledger.state.runs.overviews().map(|(id, overview)| RunRow::of(id, &overview));
    let gone = ledger.state.summaries.iter().map(|(id, summary)| RunRow::of_summary(*id, summary));
    let mut rows: Vec<RunRow> = whole.chain(gone).collect();
    rows.sort_by_key(|row| row.run);
    match context.form {
        Form::Json => rows.iter().try_for_each(|row| out.json("run_row", &row.json()))?,
        Form::Text => {
            ledger.print_past(out)?;
            if rows.is_empty() {
                out.line("no run has been started")?;
            } else {
                let headings =
                    ["run", "name", "status", "steps", "attempts", "cost", "took", "title"];
                let mut table = Table::with_headings(&headings);
                for row in &rows {
                    table.row(row.cells(ledger.now));
                }
                out.table(&table, 0)?;
            }
        }
    }
    ledger.finish(out)
}
