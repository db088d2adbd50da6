//! The runs of a ledger, one line each.

use std::borrow::Cow;

use plan_ledger::plan::{RunOverview, RunSummary, UtcTime};
use plan_ledger::{ContentHash, Cost, Run, RunId, RunStatus, State, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::heading::activity_paint;
use crate::activity::{RunActivity, RunActivityJson};
use crate::json::RunStatusJson;
use crate::layout::{Document, Paint, Table};
use crate::words::{cost_text, run_status_text, span};

/// A run in one line.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunRowLine {
    /// The number of accepted steps.
    accepted: u32,
    /// How it stands; null after its end.
    activity: Option<RunActivityJson>,
    /// The number of dispatched attempts.
    attempts: u64,
    /// The end time.
    ended: Option<UtcTime>,
    /// The record that ended it.
    ended_seq: Option<u64>,
    /// The hash of the active version.
    hash: Option<ContentHash>,
    /// Its name.
    name: String,
    /// Whether the run is paused.
    paused: bool,
    /// Its number.
    pub run: RunId,
    /// The number of skipped steps.
    skipped: u32,
    /// The spending.
    spent: Cost,
    /// The start time.
    started: UtcTime,
    /// Its status.
    status: RunStatusJson,
    /// The number of steps.
    steps: u32,
    /// The title of its plan; null if only totals are kept.
    title: Option<String>,
    /// The active version of the plan; 0 before the first.
    version: u32,
    /// Whether the state has the whole run, and not only these totals.
    whole: bool,
    #[serde(skip)]
    painted_status: (Paint, String),
}

impl RunRowLine {
    /// A run that the state has whole; `stands`: how it stands, unless it has ended.
    fn of(run: RunId, overview: &RunOverview, stands: Option<&RunActivity>) -> Self {
        let RunOverview { steps, accepted, skipped, attempts, spent, started, ended, .. } =
            *overview;
        let version = overview.version.as_ref();
        let painted = stands.map(|stands| (activity_paint(stands), stands.activity.to_string()));
        Self {
            accepted,
            activity: stands.map(RunActivityJson::of),
            attempts,
            ended: ended.map(|(_, time)| time.into()),
            ended_seq: ended.map(|(seq, _)| seq),
            hash: version.map(|(.., hash)| *hash),
            name: overview.name.clone(),
            painted_status: painted.unwrap_or_else(|| run_status_text(overview.status)),
            paused: overview.pause.is_some(),
            run,
            skipped,
            spent,
            started: started.into(),
            status: overview.status.into(),
            steps,
            title: version.map(|(title, ..)| title.clone()),
            version: version.map_or(0, |(_, number, _)| *number),
            whole: true,
        }
    }

    /// A run of which only totals are kept.
    pub(super) fn of_summary(run: RunId, summary: &RunSummary) -> Self {
        let RunSummary { name, ending, started, ended, seq, version, steps, .. } = summary;
        let status = RunStatus::Ended(*ending);
        Self {
            accepted: summary.accepted,
            activity: None,
            attempts: summary.attempts,
            ended: Some((*ended).into()),
            ended_seq: Some(*seq),
            hash: Some(version.1),
            name: name.clone(),
            painted_status: run_status_text(status),
            paused: false,
            run,
            skipped: summary.skipped,
            spent: summary.spent,
            started: (*started).into(),
            status: status.into(),
            steps: *steps,
            title: None,
            version: version.0,
            whole: false,
        }
    }

    fn cells(&self, now: Timestamp) -> [(Paint, String); 8] {
        let (paint, status) = &self.painted_status;
        let until = self.ended.as_ref().map_or(now, |time| time.micros);
        let whole_seconds = until.saturating_sub(self.started.micros) / 1_000_000 * 1_000_000;
        let cost =
            if self.spent == Cost::default() { "-".to_owned() } else { cost_text(self.spent) };
        [
            (Paint::None, self.run.to_string()),
            (Paint::Heading, self.name.clone()),
            (*paint, status.clone()),
            (Paint::None, format!("{}/{}", self.accepted + self.skipped, self.steps)),
            (Paint::None, self.attempts.to_string()),
            (Paint::None, cost),
            (Paint::None, span(whole_seconds)),
            (Paint::Faint, self.title.clone().unwrap_or_default()),
        ]
    }
}

/// A page of the runs of a ledger.
#[derive(Debug)]
pub struct Runs {
    /// A line for each run, in the order of their numbers.
    pub lines: Vec<RunRowLine>,
}

impl Runs {
    /// At most so many runs after the one with that number. `stands`: how an open run stands.
    #[must_use]
    pub fn of(
        state: &State,
        (after, max): (u32, usize),
        stands: impl Fn(&Run) -> RunActivity,
    ) -> Self {
        let whole = state.runs.overviews().map(|(id, overview)| (id, Some(overview)));
        let gone = state.ended_runs().map(|(id, _)| (id, None));
        let mut all: Vec<_> = whole.chain(gone).filter(|(id, _)| id.0 > after).collect();
        all.sort_by_key(|(id, _)| *id);
        let line = |(id, overview): (RunId, Option<Cow<'_, RunOverview>>)| match overview {
            Some(overview) => {
                let open = state.runs.get(&id).filter(|_| overview.is_open());
                Some(RunRowLine::of(id, &overview, open.map(&stands).as_ref()))
            }
            None => Some(RunRowLine::of_summary(id, state.ended_run(id)?)),
        };
        let lines = all.into_iter().take(max).filter_map(line).collect();
        Self { lines }
    }

    /// What it shows at that time; `none` is said of an empty page.
    #[must_use]
    pub fn document(&self, none: &str, now: Timestamp) -> Document {
        let mut document = Document::default();
        if self.lines.is_empty() {
            document.line(none);
            return document;
        }
        let headings = ["run", "name", "status", "steps", "attempts", "cost", "took", "title"];
        let mut table = Table::with_headings(&headings);
        self.lines.iter().for_each(|line| table.row(line.cells(now)));
        document.table(0, table);
        document
    }
}
