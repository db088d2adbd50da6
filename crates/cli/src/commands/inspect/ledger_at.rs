//! A ledger as it was after one record: what every answer about runs begins with.
//!
//! Invariants:
//! - The state is that of the newest good snapshot and the records since; nothing else is read.
//! - Where damage stands in the way, the state before it is shown, and the exit code says so.
//! - A run that ended so long ago that only its sums are left is shown as it was when it ended; what
//!   other runs were then need not be there.

use clap::Args;
use serde_json::json;

use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::ledger::{Fold, LedgerView, RunHistory, expect_sound};
use plan_ledger::log::Damage;
use plan_ledger::plan::{Micros, Run, RunId, RunSummary, State, StepNumber};

use crate::output::{Code, Failure, escape_control};

use super::context::{Form, InspectContext};
use super::health::{Health, damage_json, damage_text};
use super::lookup::{no_run, not_found, step_of};
use super::output::{Output, time_json};
use super::style::{Paint, moment, words};
use super::text::run::run_status_text;

/// AtArg which record.
#[derive(Debug, Args, Clone, Copy, Default)]
pub(crate) struct AtArg {
    /// As it was after that record
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) at: Option<u64>,
}

/// Which step, of which run.
#[derive(Debug, Args)]
pub(crate) struct StepSelector {
    /// The run, by name or number (#3); left out, the only one that there is is meant
    #[arg(value_name = "RUN")]
    first: String,
    /// The step, by id or number (#37)
    #[arg(value_name = "STEP")]
    second: Option<String>,
}

impl StepSelector {
    /// The run, if it was named.
    pub(crate) fn run(&self) -> Option<&str> {
        self.second.as_ref().map(|_| self.first.as_str())
    }

    /// The step.
    pub(crate) fn step(&self) -> &str {
        self.second.as_deref().unwrap_or(&self.first)
    }
}

/// A ledger after one record.
#[derive(Debug)]
pub(crate) struct LedgerAt<'a> {
    pub(crate) context: InspectContext<'a>,
    pub(crate) view: LedgerView,
    pub(crate) state: State,
    /// Now; of the past, when its record was written.
    pub(crate) now: Micros,
    /// Why the state is not the newest one, if it is not.
    past: Option<String>,
    /// Damage that was met.
    damage: Vec<Damage>,
    /// What else could not be read.
    unread: Vec<String>,
}

impl<'a> LedgerAt<'a> {
    /// The ledger now, or after that record.
    pub(crate) fn of(context: InspectContext<'a>, at: AtArg) -> Result<Self, Failure> {
        let view = LedgerView::open(context.dir, context.environment)?;
        let (fold, error, refusal) = match at.at.map(|seq| view.state_at(seq)) {
            None => {
                let fold = || view.fold_recent();
                let (fold, health) = Health::beside(&view, context.dir, context.environment, fold)?;
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
        let mut unread: Vec<String> =
            unreadable.or(error).iter().map(|what| escape_control(what)).collect();
        unread.extend(refusal);
        let past = at.at.map(|_| format!("as it was after record {}", state.seq));
        let now = if past.is_some() {
            state.time
        } else {
            context.environment.clock.now().max(state.time)
        };
        Ok(Self { context, view, state, now, past, damage, unread })
    }

    /// The same, and the run of that name or number in it. No name means the only run, or the
    /// only one that has not ended.
    pub(crate) fn of_run(
        context: InspectContext<'a>,
        at: AtArg,
        name: Option<&str>,
    ) -> Result<(Self, RunId), Failure> {
        let mut ledger = Self::of(context, at)?;
        let id = match name {
            Some(name) => ledger.named(name)?,
            None => ledger.only()?,
        };
        if !ledger.state.runs.contains_key(&id) {
            ledger.go_back_to(id)?;
        }
        Ok((ledger, id))
    }

    /// The number of the run that is meant by a word.
    pub(crate) fn named(&self, text: &str) -> Result<RunId, Failure> {
        let state = &self.state;
        state.find_run(text).ok_or_else(|| {
            let names: Vec<_> = state.runs.overviews().map(|(_, overview)| overview).collect();
            let names: Vec<&str> = names.iter().map(|overview| overview.name.as_str()).collect();
            not_found(no_run(text, &names), self.code())
        })
    }

    fn only(&self) -> Result<RunId, Failure> {
        let all: Vec<_> = self.state.runs.overviews().collect();
        let open: Vec<RunId> = self.state.runs.open().collect();
        match (all.as_slice(), open.as_slice()) {
            ([(one, _)], _) | (_, [one]) => Ok(*one),
            ([], _) => Err(not_found("the ledger has no run yet".to_owned(), self.code())),
            (all, _) => {
                let newest = all.iter().rev().take(8);
                let names: Vec<_> =
                    newest.map(|(_, overview)| escape_control(&overview.name)).collect();
                let more = all.len().saturating_sub(names.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let message = format!("which run? there are {}{more}", names.join(", "));
                Err(Failure::Usage(message))
            }
        }
    }

    /// Show a run as it was when it ended.
    fn go_back_to(&mut self, id: RunId) -> Result<(), Failure> {
        let Some(summary) = self.state.summaries.get(&id).cloned() else {
            return Err(not_found(format!("there is no run {id}"), self.code()));
        };
        self.state = match self.view.state_of_run(id, summary.seq)? {
            Some(state) => state,
            None => self.view.state_at(summary.seq).map_err(|error| only_sums(&summary, &error))?,
        };
        if !self.state.runs.contains_key(&id) {
            let what = "the state at its end does not hold it";
            return Err(only_sums(&summary, &Error::new(ErrorKind::Corrupt, what)).into());
        }
        self.now = self.state.time;
        self.past =
            Some(format!("it ended at record {}, and is shown as it was then", summary.seq));
        Ok(())
    }

    /// The run, which is there.
    pub(crate) fn run(&self, id: RunId) -> Result<&Run, Failure> {
        let missing = || not_found(format!("there is no run {id}"), self.code());
        let run = self.state.runs.get(&id);
        expect_sound(&self.state)?;
        run.ok_or_else(missing)
    }

    /// The step of that id or number.
    pub(crate) fn step(&self, run: &Run, text: &str) -> Result<StepNumber, Failure> {
        step_of(run, text, self.code())
    }

    /// What the log has about a run up to the record of the scene; what is missing is noted.
    pub(crate) fn run_history(&mut self, run: RunId) -> Result<RunHistory, Failure> {
        let history = self.view.run_history(run, self.state.seq)?;
        for damage in &history.damage {
            self.meet(damage.clone());
        }
        if let Some(seq) = history.unreadable.first() {
            let count = history.unreadable.len();
            let what =
                format!("{count} records cannot be read by this program, the first is {seq}");
            self.miss(what);
        }
        Ok(history)
    }

    /// Something could not be read.
    pub(crate) fn miss(&mut self, what: String) {
        if !self.unread.contains(&what) {
            self.unread.push(what);
        }
    }

    /// Damage that stands in the way.
    pub(crate) fn meet(&mut self, damage: Damage) {
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }

    /// Whether all that the answer needs could be read.
    pub(crate) fn code(&self) -> Code {
        if self.unread.is_empty() && self.damage.is_empty() { Code::Fine } else { Code::Damaged }
    }

    /// What one looks at: `queue of run demo (1): running`.
    pub(crate) fn heading(
        &self,
        what: &str,
        run: &Run,
        out: &mut Output<'_>,
    ) -> Result<(), Failure> {
        let name = format!("{what} of run {}", escape_control(&run.name));
        let name = out.style.paint(Paint::Heading, &name);
        let (paint, status) = run_status_text(run.status);
        let status = out.style.paint(paint, &status);
        out.line(&format!("{name} ({}): {status}", run.id))?;
        self.print_past(out)
    }

    /// Which record the answer is about, if it is not the newest.
    pub(crate) fn print_past(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        let Some(past) = &self.past else { return Ok(()) };
        let time = moment(self.state.time, self.context.environment.clock.now());
        out.painted(Paint::Notice, &format!("{past}, {time}"))
    }

    /// The last lines: what could not be read, and for programs which record the answer is about.
    pub(crate) fn end(&self, out: &mut Output<'_>) -> Result<Code, Failure> {
        expect_sound(&self.state)?;
        match self.context.form {
            Form::Json => {
                for damage in &self.damage {
                    out.json("damage", &damage_json(damage))?;
                }
                out.json(
                    "as_of",
                    &json!({
                        "seq": self.state.seq,
                        "time": time_json(self.state.time),
                        "first_seq": self.view.log().first_seq(),
                        "unread": self.unread,
                    }),
                )?;
            }
            Form::Text => self.print_unread(out)?,
        }
        Ok(self.code())
    }

    fn print_unread(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        if self.code() == Code::Fine {
            return Ok(());
        }
        out.line("")?;
        let seq = self.state.seq;
        let text =
            format!("not all of the ledger could be read; shown is the state of record {seq}");
        out.painted(Paint::Bad, &text)?;
        let damage = self.damage.iter().map(|damage| format!("damage: {}", damage_text(damage)));
        let mut all = damage.chain(self.unread.iter().cloned());
        all.try_for_each(|what| out.painted(Paint::Bad, &format!("  {what}")))
    }

    /// A line that says from which record on the log can tell, if it does not tell all.
    pub(crate) fn since(&self, out: &mut Output<'_>) -> Result<(), Failure> {
        let first = self.view.log().first_seq();
        if first == 1 || self.context.form == Form::Json {
            return Ok(());
        }
        let text = format!("the log begins at record {first}; what happened before was pruned");
        out.painted(Paint::Notice, &text)
    }
}

/// Whether the state before it can be shown instead.
fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Tampered | ErrorKind::Unsupported)
}

/// All that is left of a run.
fn only_sums(summary: &RunSummary, error: &Error) -> Error {
    let RunSummary { name, ending, seq, steps, accepted, skipped, attempts, .. } = summary;
    let message = format!(
        "run {} ended at record {seq} ({}; {accepted} of {steps} steps accepted, {skipped} skipped, \
         {attempts} attempts), and only these sums are left of it: {error}",
        escape_control(name),
        words(ending, ' ')
    );
    Error::new(error.kind(), message)
}
