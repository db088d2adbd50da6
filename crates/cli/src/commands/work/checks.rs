//! The commands that judge what a worker did, and the plan behind the last step.
//!
//! Invariants:
//! - Nothing is checked without its turn: of several processes that could, one runs the command, and
//!   the others look at what came of it.
//! - A worker checks what it reported itself, and what another one of its name left that is gone.

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::runner::{
    Checked, Criteria, Order, StopRequest, Subject, Turn, WorkerKind, check_outside, has_check,
};
use crate::server::{Act, Answer, RulingWord, run_or_only};
use plan_ledger::ledger::{Environment, LedgerView, expect_sound};
use plan_ledger::plan::{Ruling, Run, State, StepNumber};

use super::{Code, Failure, Worker, text_in, without_nothing};

/// Between two looks at whether another process has ended its turn.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What came of waiting for a turn.
enum Got {
    /// It was free.
    AtOnce(Turn),
    /// Another process had it until then.
    AfterOther(Turn),
}

impl Worker<'_> {
    /// Run the commands that judge what an earlier worker of this name reported before it died.
    pub(super) fn check_what_was_left(&mut self) -> Result<(), Failure> {
        plan_ledger::bug!(CheckForgotten => return Ok(()));
        // Whether there is such a ledger, and such a run, is for the first claim to find out.
        let Ok((state, _)) = self.look() else { return Ok(()) };
        let Ok(run) = run_or_only(&state, self.args.run.as_deref()) else { return Ok(()) };
        let is_own = |number: &&StepNumber| {
            let attempt = run.step(**number).and_then(|step| step.attempt());
            attempt.is_some_and(|attempt| attempt.worker == self.args.who.worker)
        };
        let is_to_check = |number: &StepNumber| has_check(run, Criteria::OfStep(*number));
        let own: Vec<StepNumber> =
            run.reported.iter().filter(is_own).copied().filter(is_to_check).collect();
        for criteria in own.into_iter().map(Criteria::OfStep) {
            // Whoever has the turn lives, and it was not left.
            let Some(_turn) = Turn::take(&self.ledger, run.id, criteria)? else { continue };
            while let Some(answer) = self.check(&run.name, criteria)? {
                self.args.place.print(&answer)?;
            }
        }
        Ok(())
    }

    /// Where there is nothing to deal, run the commands that judge the plan, if its steps are
    /// settled; whether there were any.
    pub(super) fn check_plan(&mut self, nothing: &Answer) -> Result<bool, Failure> {
        let Some(run) = text_in(nothing, "run") else { return Ok(false) };
        let (mut is_any, _turn) = match self.turn(&run, Criteria::OfPlan)? {
            None => return Ok(false),
            Some(Got::AtOnce(turn)) => (false, turn),
            Some(Got::AfterOther(turn)) => (true, turn),
        };
        while !self.is_to_stop()
            && let Some(answer) = self.check(&run, Criteria::OfPlan)?
        {
            if !is_any {
                self.args.place.print(&without_nothing(nothing.clone()))?;
            }
            is_any = true;
            self.args.place.print(&answer)?;
        }
        Ok(is_any)
    }

    /// Run the commands that judge a step that was just reported; the last answer.
    pub(super) fn checked(&mut self, reported: Answer) -> Result<Answer, Failure> {
        let line = reported.lines.first();
        let number = line.and_then(|line| line.get("number")).and_then(Value::as_u64);
        let number = number.and_then(|number| u32::try_from(number).ok());
        let (Some(run), Some(number)) = (text_in(&reported, "run"), number) else {
            return Ok(reported);
        };
        let criteria = Criteria::OfStep(StepNumber(number));
        let Some(_turn) = self.turn(&run, criteria)? else { return Ok(reported) };
        let mut last = reported;
        while let Some(answer) = self.check(&run, criteria)? {
            self.args.place.print(&std::mem::replace(&mut last, answer))?;
        }
        Ok(last)
    }

    /// Wait for the turn to run the commands among these criteria; `None` if there are none, or this
    /// is to stop.
    fn turn(&self, run: &str, criteria: Criteria) -> Result<Option<Got>, Failure> {
        let (state, _) = self.look()?;
        let Some(run) = named(&state, run)?.filter(|run| has_check(run, criteria)) else {
            return Ok(None);
        };
        let mut got: fn(Turn) -> Got = Got::AtOnce;
        while !self.is_to_stop() {
            if let Some(turn) = Turn::take(&self.ledger, run.id, criteria)? {
                return Ok(Some(got(turn)));
            }
            got = Got::AfterOther;
            sleep(LOOK_AGAIN);
        }
        Ok(None)
    }

    /// In one's turn, run one command that judges, and record what came of it.
    fn check(&mut self, run: &str, criteria: Criteria) -> Result<Option<Answer>, Failure> {
        let (state, view) = self.look()?;
        let Some(run) = named(&state, run)? else { return Ok(None) };
        let signals = &self.signals;
        let order = || match signals.request() {
            StopRequest::Kill => Order::Stop,
            StopRequest::None | StopRequest::Drain => Order::GoOn,
        };
        let places = (self.ledger.as_path(), self.files.path());
        let found = check_outside(&view, run, criteria, places, order)?;
        let ruling_of = |it: &Checked| {
            it.ruling.or(plan_ledger::bug!(EndedCheckPasses).then_some(Ruling::Pass))
        };
        let found = found.and_then(|it| ruling_of(&it).map(|ruling| (it, ruling)));
        let Some((checked, ruling)) = found else { return Ok(None) };
        let token = match checked.subject {
            Subject::Attempt(token) | Subject::Doubt(token) => Some(token.0),
            Subject::Plan(_) | Subject::Replan(_) => None,
        };
        let answer = self.say_verdict(&Act::Verdict {
            token,
            run: Some(run.name.clone()),
            criterion: checked.criterion,
            ruling: match ruling {
                Ruling::Pass => RulingWord::Pass,
                Ruling::Fail => RulingWord::Fail,
            },
            by: WorkerKind::Process.judge().to_owned(),
            evidence: checked.evidence,
        })?;
        if answer.code == Code::Fine.number() {
            return Ok(Some(answer));
        }
        // Somebody else was faster, or took the step away.
        if answer.code != Code::Refused.number() {
            self.args.place.print(&answer)?;
        }
        Ok(None)
    }

    /// The ledger as it is now, beside whoever holds it.
    fn look(&self) -> Result<(State, LedgerView), Failure> {
        let view = LedgerView::open(&self.ledger, &Environment::system())?;
        Ok((view.fold_recent()?.state, view))
    }
}

/// The run of that name.
fn named<'a>(state: &'a State, name: &str) -> Result<Option<&'a Run>, Failure> {
    let run = state.run_named(name);
    expect_sound(state)?;
    Ok(run)
}
