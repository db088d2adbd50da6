//! The ledger after one record: the starting point of every view of runs.
//!
//! Invariants:
//! - The state comes from the newest valid snapshot and the records after it; nothing else is read.
//! - If damage prevents that, the state before the damage is shown, and the exit code reports it.
//! - A run that is only kept as a summary is shown in its state at the record that ended it; other
//!   runs may be absent from that state.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{Fold, LedgerTime, RunHistory, expect_valid};
use plan_ledger::log::Damage;
use plan_ledger::plan::{RunSummary, UtcTime};
use plan_ledger::{Error, ErrorKind, LedgerView, Run, RunId, State, StepNumber, Timestamp};

use crate::commands::store::source::damage_hint;
use crate::output::{Code, Failure, reader};
use crate::protocol::{Missing, error_line_of_view, in_ledger};
use crate::requests::default_run;
use crate::runner::{
    check_folders, checks_at_work, inside_wait, is_at_work_alone, repeating_attempts,
    worker_at_work,
};
use crate::server::Surroundings;
use plan_ledger_views::{
    AnswerOfAnother, AtWork, Block, Document, FindingLine, InsideWait, KnownRun, LeftWorker,
    RepeatingAttempt, RunActivity, hosted_steps, lost_lines, lost_text, moment, no_run_text,
    run_heading, steps_in_flight, unread_document, variant_words, waits_of,
};

use super::answers::answers_of_others;
use super::context::{Form, InspectContext};
use super::health::Health;
use super::lookup::{no_run, no_run_yet, not_found, step_of};
use super::output::Output;
use crate::output::render::Paint;

/// The record of the state that is shown.
#[derive(Debug, Args, Clone, Copy, Default)]
pub(crate) struct AtArg {
    /// Show the state after this record
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) at: Option<u64>,
}

/// The ledger after one record.
#[derive(Debug)]
pub(crate) struct LedgerAt<'a> {
    pub(crate) context: InspectContext<'a>,
    pub(crate) view: LedgerView,
    pub(crate) state: State,
    /// The current time; with `--at`, the time of that record.
    pub(crate) now: Timestamp,
    around: Surroundings,
    /// The reason why the state is not the newest one; `None` if it is.
    past: Option<String>,
    /// The questions that another person answered, in all of the log; read when a view needs them.
    answers: OnceCell<BTreeMap<RunId, Vec<AnswerOfAnother>>>,
    /// The folders of checks of all runs; listed when a view needs them.
    check_folders: OnceCell<Vec<PathBuf>>,
    damage: Vec<Damage>,
    /// Other problems that made records unreadable.
    unread: Vec<String>,
    /// Whether all records are readable apart from those that the damage names.
    is_whole: bool,
    /// How many problems were printed before the view.
    announced: Option<usize>,
}

impl<'a> LedgerAt<'a> {
    /// Opens the ledger at the newest record, or at the one of `at`.
    pub(crate) fn of(context: InspectContext<'a>, at: AtArg) -> Result<Self, Failure> {
        let view = LedgerView::open(context.dir, context.environment)?;
        let (fold, error, refusal) = match at.at.map(|seq| view.state_at(seq)) {
            None => {
                let fold = || view.fold_recent();
                let (fold, health) =
                    Health::check_while(&view, context.dir, context.environment, fold)?;
                (fold?, None, health.refusal())
            }
            Some(Ok(state)) => (Fold::of(state), None, None),
            Some(Err(error)) if is_damage(&error) => {
                (view.fold(at.at.unwrap_or(u64::MAX))?, Some(error), None)
            }
            Some(Err(error)) => return Err(error.into()),
        };
        let Fold { state, damage, unreadable, .. } = fold;
        let error = error.map(|error| error.to_string()).filter(|_| damage.is_empty());
        let mut unread: Vec<String> = unreadable.or(error).into_iter().collect();
        let is_whole = unread.is_empty();
        unread.extend(refusal);
        let past = at.at.map(|_| format!("the state after record {}", state.seq));
        let now = if past.is_some() {
            state.time
        } else {
            LedgerTime::of(view.log(), context.environment).now.max(state.time)
        };
        let around = if past.is_some() {
            Surroundings::past(context.dir, view.log())
        } else {
            Surroundings::now(context.dir, view.log(), &state, now)
        };
        Ok(Self {
            context,
            view,
            state,
            now,
            around,
            past,
            answers: OnceCell::new(),
            check_folders: OnceCell::new(),
            damage,
            unread,
            is_whole,
            announced: None,
        })
    }

    /// The folder of the ledger; `None` for a past state, about which it says nothing.
    pub(crate) fn present_dir(&self) -> Option<&Path> {
        self.past.is_none().then_some(self.context.dir)
    }

    /// Like [`Self::of`], with the run of that name or number. Without a name: the only active run, or
    /// the newest if none is active.
    pub(crate) fn of_run(
        context: InspectContext<'a>,
        at: AtArg,
        name: Option<&str>,
    ) -> Result<(Self, RunId), Failure> {
        let mut ledger = Self::of(context, at)?;
        let id = match name {
            Some(name) => ledger.find_run(name)?,
            None => default_run(&ledger.state)?.ok_or_else(|| no_run_yet(ledger.code()))?,
        };
        if !ledger.state.runs.contains_key(&id) {
            ledger.move_to_end_of(id)?;
        }
        Ok((ledger, id))
    }

    /// What a view says that shows no run.
    pub(crate) fn no_run_text(&self) -> &'static str {
        no_run_text(self.code() != Code::Damaged)
    }

    /// The run of that name or number.
    pub(crate) fn find_run(&self, text: &str) -> Result<RunId, Failure> {
        let state = &self.state;
        state.find_run(text).ok_or_else(|| {
            let names: Vec<_> = state.runs.overviews().map(|(_, overview)| overview).collect();
            let names: Vec<&str> = names.iter().map(|overview| overview.name.as_str()).collect();
            not_found(Missing::Run, no_run(text, &names), self.code())
        })
    }

    /// Moves to the record that ended a run.
    fn move_to_end_of(&mut self, id: RunId) -> Result<(), Failure> {
        let Some(summary) = self.state.summaries.get(&id).cloned() else {
            return Err(not_found(Missing::Run, format!("there is no run {id}"), self.code()));
        };
        // The records of one run do not show earlier losses.
        let alone = if self.state.lost.is_empty() {
            self.view.state_of_run(id, summary.seq)?
        } else {
            None
        };
        self.state = match alone {
            Some(state) => state,
            None => self
                .view
                .state_at(summary.seq)
                .map_err(|error| summary_only_error(&summary, &error))?,
        };
        if !self.state.runs.contains_key(&id) {
            let what = "the state at its end does not contain it";
            return Err(summary_only_error(&summary, &Error::new(ErrorKind::Corrupt, what)).into());
        }
        self.now = self.state.time;
        self.past =
            Some(format!("it ended at record {} and is shown in its final state", summary.seq));
        Ok(())
    }

    /// The run with that number.
    pub(crate) fn run(&self, id: RunId) -> Result<&Run, Failure> {
        let missing = || not_found(Missing::Run, format!("there is no run {id}"), self.code());
        let run = self.state.runs.get(&id);
        expect_valid(&self.state)?;
        run.ok_or_else(missing)
    }

    /// A run, and all that its views know of it.
    pub(crate) fn known<'b>(&'b self, run: &'b Run) -> KnownRun<'b> {
        let is_damaged = self.code() == Code::Damaged;
        self.around.known((&self.state, run), self.now, is_damaged, reader())
    }

    /// How a run stands.
    pub(crate) fn activity(&self, run: &Run) -> RunActivity {
        self.known(run).activity()
    }

    /// The processes of a run that are at work; none for a past state.
    pub(crate) fn at_work(&self, run: &Run) -> AtWork {
        let Some(dir) = self.present_dir() else { return AtWork::default() };
        let folders = self.check_folders.get_or_init(|| check_folders(dir));
        let token = |step: StepNumber| Some(run.step(step)?.attempt()?.token);
        let left = |step: StepNumber| match worker_at_work(dir, run.id, token(step)?) {
            Some(process) => Some((step, LeftWorker::Process(process))),
            None => {
                is_at_work_alone(dir, run.id, token(step)?).then_some((step, LeftWorker::Alone))
            }
        };
        let hosted = hosted_steps(&self.state, run).filter(|_| self.around.runner.is_absent());
        AtWork {
            checks: checks_at_work(dir, folders, &self.state, run.id),
            repeats: self.repeats(run),
            inside: steps_in_flight(&self.state, run)
                .filter_map(|(step, _)| Some((step, self.inside_wait(dir, run, step)?)))
                .collect(),
            left: hosted.filter_map(|(step, _)| left(step)).collect(),
        }
    }

    /// The wait of the worker of a step in its process, for the end of a usage limit.
    fn inside_wait(&self, dir: &Path, run: &Run, number: StepNumber) -> Option<InsideWait> {
        let step = run.step(number)?;
        let owner = step.owner_at_work().map(str::to_owned);
        let is_limited = waits_of(&self.around.waits, run)
            .any(|wait| wait.is_limit && !wait.is_whole_run && wait.owner == owner);
        inside_wait(dir, run.id, step.attempt()?.token, is_limited)
    }

    /// Repeated output of the workers of a run; none for a past state.
    pub(crate) fn repeats(&self, run: &Run) -> Vec<RepeatingAttempt> {
        let dir = self.present_dir();
        dir.map_or_else(Vec::new, |dir| repeating_attempts(dir, &self.state, run.id))
    }

    /// The questions of a run that another person answered, up to the record of this state.
    pub(crate) fn answers_of_others(&self, run: RunId) -> Vec<AnswerOfAnother> {
        let all = self.answers.get_or_init(|| answers_of_others(self.view.log()));
        let of_run = all.get(&run).into_iter().flatten();
        of_run.filter(|answer| answer.seq <= self.state.seq).cloned().collect()
    }

    /// The step of that id or number.
    pub(crate) fn step(&self, run: &Run, text: &str) -> Result<StepNumber, Failure> {
        step_of(run, text, self.code())
    }

    /// The records of a run up to the record of this state. Damage is collected for `end`.
    pub(crate) fn run_history(&mut self, run: RunId) -> Result<RunHistory, Failure> {
        let history = self.view.run_history(run, self.state.seq)?;
        for damage in &history.damage {
            self.add_damage(damage.clone());
        }
        if let Some(seq) = history.unreadable.first() {
            let count = history.unreadable.len();
            let what =
                format!("{count} records cannot be read by this program, the first is {seq}");
            self.add_unread(what);
        }
        Ok(history)
    }

    /// Records that something could not be read.
    pub(crate) fn add_unread(&mut self, what: String) {
        self.is_whole = false;
        if !self.unread.contains(&what) {
            self.unread.push(what);
        }
    }

    /// Records damage that affects the view.
    pub(crate) fn add_damage(&mut self, damage: Damage) {
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }

    /// The exit code: `Damaged` if anything could not be read.
    pub(crate) fn code(&self) -> Code {
        if self.unread.is_empty() && self.damage.is_empty() { Code::Success } else { Code::Damaged }
    }

    /// Prints the heading of a view: `queue of run demo (1): working on 2 steps`.
    pub(crate) fn heading(
        &self,
        what: &str,
        run: &Run,
        out: &mut Output<'_>,
    ) -> Result<(), Failure> {
        out.document(&run_heading(what, run, &self.activity(run)))?;
        self.print_past(out)
    }

    /// Whether records were lost before the ledger was salvaged.
    pub(crate) fn has_losses(&self) -> bool {
        !self.state.lost.is_empty()
    }

    /// Whether the state is not the newest one.
    pub(crate) fn is_past(&self) -> bool {
        self.past.is_some()
    }

    /// Prints the record of the state if it is not the newest.
    pub(crate) fn print_past(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        let Some(past) = &self.past else { return Ok(()) };
        let now = LedgerTime::of(self.view.log(), self.context.environment).now;
        let time = moment(self.state.time, now);
        out.document(&Document::of_line((Paint::Notice, format!("{past}, {time}"))))
    }

    /// Prints the damage of the ledger before the view, since it affects the meaning of the view.
    pub(crate) fn announce_problems(&mut self, out: &mut Output<'_>) -> Result<(), Failure> {
        if self.context.form == Form::Json {
            return Ok(());
        }
        self.announced = Some(self.damage.len() + self.unread.len());
        if let Some(text) = lost_text(&self.state) {
            out.document(&Document::of_line((Paint::Notice, text)))?;
        }
        if self.code() == Code::Success {
            return Ok(());
        }
        self.print_unread(out)?;
        out.document(&Document::of(Block::Gap))
    }

    /// Prints the unreadable parts and, in JSON, the record of the state.
    pub(crate) fn finish(&self, out: &mut Output<'_>) -> Result<Code, Failure> {
        expect_valid(&self.state)?;
        match self.context.form {
            Form::Json => {
                lost_lines(&self.state, self.context.dir).try_for_each(|line| out.json(&line))?;
                for damage in &self.damage {
                    out.json(&FindingLine::from(damage))?;
                }
                out.json(&AsOfLine {
                    first_seq: self.view.log().first_seq(),
                    seq: self.state.seq,
                    time: self.state.time.into(),
                    unread: &self.unread,
                })?;
            }
            Form::Text => {
                let is_announced = self.announced == Some(self.damage.len() + self.unread.len());
                if self.code() != Code::Success && !is_announced {
                    out.document(&Document::of(Block::Gap))?;
                    self.print_unread(out)?;
                }
            }
        }
        Ok(self.code())
    }

    fn print_unread(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        let dir = self.context.dir;
        let hint = in_ledger(&damage_hint(Some(dir)), dir);
        let Self { state, damage, unread, is_whole, .. } = self;
        out.document(&unread_document(state.seq, damage, unread, *is_whole, &hint))
    }

    /// Prints the first record of the log if older records were pruned.
    pub(crate) fn print_first_record(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        let first = self.view.log().first_seq();
        if first == 1 || self.context.form == Form::Json {
            return Ok(());
        }
        let text = format!("the log begins at record {first}; earlier records were pruned");
        out.document(&Document::of_line((Paint::Notice, text)))
    }
}

/// The last line of a view: the state that it shows.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct AsOfLine<'a> {
    /// The first record in the log; earlier records were pruned.
    first_seq: u64,
    /// The last record that the answer includes.
    seq: u64,
    /// The time of that record.
    time: UtcTime,
    /// Other problems with reading; together with damage they cause exit code 4.
    unread: &'a [String],
}

/// Whether the state before the error can be shown instead.
fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Tampered | ErrorKind::Unsupported)
}

/// The error for a run that is only kept as a summary.
fn summary_only_error(summary: &RunSummary, error: &Error) -> Error {
    let RunSummary { name, ending, seq, steps, accepted, skipped, attempts, .. } = summary;
    let message = format!(
        "run {name} ended at record {seq} ({}; {accepted} of {steps} steps accepted, {skipped} skipped, \
         {attempts} attempts), and only these sums are left of it: {}",
        variant_words(ending, ' '),
        error_line_of_view(error)
    );
    Error::new(error.kind(), message)
}
