//! A ledger as it was after one record: what every answer about runs begins with.
//!
//! Invariants:
//! - The state is that of the newest good snapshot and the records since; nothing else is read.
//! - Where damage stands in the way, the state before it is shown, and the exit code says so.
//! - A run that ended so long ago that only its sums are left is shown as it was when it ended; what
//!   other runs were then need not be there.

use clap::Args;
use serde_json::json;

use crate::output::{Code, Failure};
use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::ledger::{Fold, LedgerView, RunHistory, expect_sound};
use plan_ledger::log::Damage;
use plan_ledger::plan::{Micros, Run, RunId, RunSummary, State, StepNumber};

use super::super::Form;
use super::super::control_phrase::run_status;
use super::super::page::{Page, time_json};
use super::super::reference::{no_run, not_found, step_name, step_of};
use super::super::survey::{Health, damage_json, damage_text};
use super::super::text::{Paint, moment, plain, words};
use super::Look;

/// At which record.
#[derive(Debug, Args, Clone, Copy, Default)]
pub(in crate::commands) struct At {
    /// As it was after that record
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    pub(in crate::commands) at: Option<u64>,
}

/// Which step, of which run.
#[derive(Debug, Args)]
pub(in crate::commands::inspect) struct StepOf {
    /// The run, by name or number (#3); left out, the only one that there is is meant
    #[arg(value_name = "RUN")]
    first: String,
    /// The step, by id or number (#37)
    #[arg(value_name = "STEP")]
    second: Option<String>,
}

impl StepOf {
    /// The run, if it was named.
    pub(in crate::commands::inspect) fn run(&self) -> Option<&str> {
        self.second.as_ref().map(|_| self.first.as_str())
    }

    /// The step.
    pub(in crate::commands::inspect) fn step(&self) -> &str {
        self.second.as_deref().unwrap_or(&self.first)
    }
}

/// A ledger after one record.
#[derive(Debug)]
pub(in crate::commands::inspect) struct Scene<'a> {
    pub(in crate::commands::inspect) look: Look<'a>,
    pub(in crate::commands::inspect) view: LedgerView,
    pub(in crate::commands::inspect) state: State,
    /// Now; of the past, when its record was written.
    pub(in crate::commands::inspect) now: Micros,
    /// Why the state is not the newest one, if it is not.
    past: Option<String>,
    /// Damage that was met.
    damage: Vec<Damage>,
    /// What else could not be read.
    unread: Vec<String>,
}

impl<'a> Scene<'a> {
    /// The ledger now, or after that record.
    pub(in crate::commands::inspect) fn of(look: Look<'a>, at: At) -> Result<Self, Failure> {
        let view = LedgerView::open(look.dir, look.environment)?;
        let (fold, error, refusal) = match at.at.map(|seq| view.state_at(seq)) {
            None => {
                let fold = || view.fold_recent();
                let (fold, health) = Health::beside(&view, look.dir, look.environment, fold)?;
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
        let mut unread: Vec<String> = unreadable.or(error).iter().map(|what| plain(what)).collect();
        unread.extend(refusal);
        let past = at.at.map(|_| format!("as it was after record {}", state.seq));
        let now =
            if past.is_some() { state.time } else { look.environment.clock.now().max(state.time) };
        Ok(Self { look, view, state, now, past, damage, unread })
    }

    /// The same, and the run of that name or number in it. No name means the only run, or the
    /// only one that has not ended.
    pub(in crate::commands::inspect) fn of_run(
        look: Look<'a>,
        at: At,
        name: Option<&str>,
    ) -> Result<(Self, RunId), Failure> {
        let mut scene = Self::of(look, at)?;
        let id = match name {
            Some(name) => scene.named(name)?,
            None => scene.only()?,
        };
        if !scene.state.runs.contains_key(&id) {
            scene.go_back_to(id)?;
        }
        Ok((scene, id))
    }

    /// The number of the run that is meant by a word.
    pub(super) fn named(&self, text: &str) -> Result<RunId, Failure> {
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
                let names: Vec<_> = newest.map(|(_, overview)| plain(&overview.name)).collect();
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
    pub(in crate::commands::inspect) fn run(&self, id: RunId) -> Result<&Run, Failure> {
        let missing = || not_found(format!("there is no run {id}"), self.code());
        let run = self.state.runs.get(&id);
        expect_sound(&self.state)?;
        run.ok_or_else(missing)
    }

    /// The step of that id or number.
    pub(in crate::commands::inspect) fn step(
        &self,
        run: &Run,
        text: &str,
    ) -> Result<StepNumber, Failure> {
        step_of(run, text, self.code())
    }

    /// What the log has about a run up to the record of the scene; what is missing is noted.
    pub(in crate::commands::inspect) fn chronicle(
        &mut self,
        run: RunId,
    ) -> Result<RunHistory, Failure> {
        let chronicle = self.view.run_history(run, self.state.seq)?;
        for damage in &chronicle.damage {
            self.meet(damage.clone());
        }
        if let Some(seq) = chronicle.unreadable.first() {
            let count = chronicle.unreadable.len();
            let what =
                format!("{count} records cannot be read by this program, the first is {seq}");
            self.miss(what);
        }
        Ok(chronicle)
    }

    /// Something could not be read.
    pub(in crate::commands::inspect) fn miss(&mut self, what: String) {
        if !self.unread.contains(&what) {
            self.unread.push(what);
        }
    }

    /// Damage that stands in the way.
    pub(in crate::commands::inspect) fn meet(&mut self, damage: Damage) {
        if !self.damage.contains(&damage) {
            self.damage.push(damage);
        }
    }

    /// Whether all that the answer needs could be read.
    pub(in crate::commands::inspect) fn code(&self) -> Code {
        if self.unread.is_empty() && self.damage.is_empty() { Code::Fine } else { Code::Damaged }
    }

    /// What one looks at: `queue of run demo (1): running`.
    pub(in crate::commands::inspect) fn heading(
        &self,
        what: &str,
        run: &Run,
        page: &mut Page<'_>,
    ) -> Result<(), Failure> {
        let name = format!("{what} of run {}", plain(&run.name));
        let name = page.style.paint(Paint::Heading, &name);
        let (paint, status) = run_status(run.status);
        let status = page.style.paint(paint, &status);
        page.line(&format!("{name} ({}): {status}", run.id))?;
        self.print_past(page)
    }

    /// Which record the answer is about, if it is not the newest.
    pub(in crate::commands::inspect) fn print_past(
        &self,
        page: &mut Page<'_>,
    ) -> Result<(), Failure> {
        let Some(past) = &self.past else { return Ok(()) };
        let time = moment(self.state.time, self.look.environment.clock.now());
        page.painted(Paint::Notice, &format!("{past}, {time}"))
    }

    /// The last lines: what could not be read, and for programs which record the answer is about.
    pub(in crate::commands::inspect) fn end(&self, page: &mut Page<'_>) -> Result<Code, Failure> {
        expect_sound(&self.state)?;
        match self.look.form {
            Form::Json => {
                for damage in &self.damage {
                    page.json("damage", &damage_json(damage))?;
                }
                page.json(
                    "as_of",
                    &json!({
                        "seq": self.state.seq,
                        "time": time_json(self.state.time),
                        "first_seq": self.view.log().first_seq(),
                        "unread": self.unread,
                    }),
                )?;
            }
            Form::Text => self.print_unread(page)?,
        }
        Ok(self.code())
    }

    fn print_unread(&self, page: &mut Page<'_>) -> Result<(), Failure> {
        if self.code() == Code::Fine {
            return Ok(());
        }
        page.line("")?;
        let seq = self.state.seq;
        let text =
            format!("not all of the ledger could be read; shown is the state of record {seq}");
        page.painted(Paint::Bad, &text)?;
        let damage = self.damage.iter().map(|damage| format!("damage: {}", damage_text(damage)));
        let mut all = damage.chain(self.unread.iter().cloned());
        all.try_for_each(|what| page.painted(Paint::Bad, &format!("  {what}")))
    }

    /// A line that says from which record on the log can tell, if it does not tell all.
    pub(in crate::commands::inspect) fn since(&self, page: &mut Page<'_>) -> Result<(), Failure> {
        let first = self.view.log().first_seq();
        if first == 1 || self.look.form == Form::Json {
            return Ok(());
        }
        let text = format!("the log begins at record {first}; what happened before was pruned");
        page.painted(Paint::Notice, &text)
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
        plain(name),
        words(ending, ' ')
    );
    Error::new(error.kind(), message)
}

/// The name of a step, and what it is about.
pub(super) fn titled(run: &Run, number: StepNumber) -> (String, String) {
    let plan = super::super::reference::text_of(run, number).map(|(_, step)| step);
    let said =
        plan.and_then(|step| [step.title(), step.goal()].into_iter().find(|text| !text.is_empty()));
    (step_name(run, number), said.map_or_else(String::new, plain))
}
