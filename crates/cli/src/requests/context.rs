//! The context in which a request is executed.

use std::cell::RefCell;
use std::path::Path;

use plan_ledger::internals::ledger::CommitOptions;
use plan_ledger::plan::Proof;
use plan_ledger::{
    AttemptToken, Command, Error, Event, Ledger, LostCause, Rejection, RunId, State, Submitted,
    Transaction,
};

use crate::protocol::{Failure, Peer, StepName, claim_record, gone_attempts, gone_text};

use super::find::{run_after, run_or_only, run_status, step_status};
use super::gone::GoneLooks;
use super::members::RunArg;

/// The source of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    /// The process that makes it.
    pub(crate) peer: &'a Peer,
    /// The folder of the ledger, and the schedule of looks for attempts of dead processes; `None`
    /// if the request does not look.
    pub(crate) looks: Option<(&'a Path, &'a GoneLooks)>,
}

impl Origin<'_> {
    /// Another machine, or an unknown process.
    pub(crate) const ELSEWHERE: Self = Self { peer: &Peer::Elsewhere, looks: None };
}

/// The ledger, the way to commit a request, and the dependencies of its response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestContext<'a, 'l> {
    pub(crate) ledger: &'l Ledger,
    /// Its idempotency key, and the evaluations that it may do in the event loop of a server.
    pub(crate) options: CommitOptions<'a>,
    pub(crate) origin: Origin<'a>,
    pub(crate) commits: &'a RefCell<Submitted<'l, ()>>,
}

impl<'a, 'l> RequestContext<'a, 'l> {
    /// Builds a command from the state, executes it, and reads the result, with no other command in
    /// between.
    pub(crate) fn execute<T>(
        self,
        make: &dyn Fn(&State) -> Result<Command, Failure>,
        mut read: impl FnMut(&State, &[(u64, Event)]) -> T,
    ) -> Result<T, Failure> {
        self.transact(|transaction| {
            transaction.run_with(make)?;
            Ok(read(transaction.state(), transaction.events()))
        })
    }

    /// As `execute`, with another command in the same commit that is built from the state after the
    /// first one.
    pub(crate) fn execute_with<T>(
        self,
        make: &dyn Fn(&State) -> Result<Command, Failure>,
        then: &dyn Fn(&State) -> Option<Command>,
        mut read: impl FnMut(&State, &[(u64, Event)]) -> T,
    ) -> Result<T, Failure> {
        self.transact(|transaction| {
            transaction.run_with(make)?;
            if let Some(command) = then(transaction.state()) {
                transaction.run(&command)?;
            }
            Ok(read(transaction.state(), transaction.events()))
        })
    }

    /// The same context for a transaction with a command that is prepared before the lock is taken.
    pub(super) fn with_command(self, command: &'a Command) -> Self {
        Self { options: CommitOptions { command: Some(command), ..self.options }, ..self }
    }

    /// Executes commands in one commit. If it fails, nothing is recorded.
    pub(super) fn transact<T>(
        self,
        act: impl FnMut(&mut Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let done = self.include(self.ledger.transact_with(self.options, act));
        done.map_err(|failure| self.explained(failure))
    }

    /// Executes a command on a run. The answer has its name and its status after that.
    pub(crate) fn execute_on_run<T>(
        self,
        run: &RunArg,
        make: impl Fn(RunId) -> Command,
        answer: impl Fn(String, String) -> T,
    ) -> Result<T, Failure> {
        let make = |state: &State| Ok(make(run_or_only(state, run.name())?.id));
        self.execute(&make, |state, events| {
            let run = run_after(state, events, run.name())?;
            Ok(answer(run.name.clone(), run_status(run)))
        })?
    }

    /// A failure about an attempt that is over, with the known facts about it.
    fn explained(self, failure: Failure) -> Failure {
        let Failure::Ledger(error) = failure else { return failure };
        let Some(Rejection::StaleToken(token)) = error.rejection() else {
            return Failure::Ledger(error);
        };
        let token = *token;
        let hint = self.read(|state| stale_token_hint(state, token)).ok();
        Failure::Ledger(match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        })
    }

    /// Whether the request has its own thread, which may wait.
    pub(crate) fn may_wait(self) -> bool {
        self.options.evaluations.is_none()
    }

    /// Records everything that is due. In the event loop of a server it does not wait for the disk,
    /// and leaves a backlog to the thread that ticks.
    pub(crate) fn tick(self) -> Result<(), Failure> {
        if self.may_wait() {
            return Ok(self.ledger.tick()?);
        }
        if !self.ledger.is_tick_due()? {
            return Ok(());
        }
        let options = CommitOptions { key: None, ..self.options };
        let tick = |transaction: &mut Transaction<'_>| transaction.run(&Command::Tick);
        Ok(self.include(self.ledger.transact_with(options, tick))?)
    }

    /// Records the attempts of dead worker processes as lost. Returns whether there were any.
    pub(super) fn release_gone(self) -> Result<bool, Failure> {
        let Some((dir, looks)) = self.origin.looks else { return Ok(false) };
        let read = |state: &State| {
            let gone = gone_attempts(state)
                .filter_map(|attempt| Some((attempt.token, attempt.process.as_ref()?.pid)));
            gone.collect::<Vec<_>>()
        };
        let Some(gone) = looks.look(|| self.read(read)).transpose()? else { return Ok(false) };
        let mut is_any = false;
        for (token, process) in gone {
            if claim_record(dir, token).exists() {
                continue;
            }
            let (proof, cause) = (Proof::LockHolder, LostCause::RunnerDied);
            let lost = Command::ReportLost { token, proof, cause, detail: gone_text(process) };
            // A separate commit, regardless of the key of the request.
            let options = CommitOptions { key: None, ..self.options };
            match self
                .include(self.ledger.transact_with(options, |transaction| transaction.run(&lost)))
            {
                Ok(()) => is_any = true,
                // Its attempt ended meanwhile.
                Err(error) if Error::rejection(&error).is_some() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(is_any)
    }

    /// Reads the state, which may not be durable yet.
    pub(crate) fn read<T>(self, read: impl FnOnce(&State) -> T) -> Result<T, Failure> {
        Ok(self.include(self.ledger.read(read))?)
    }

    fn include<T, E>(self, submitted: Submitted<'l, T, E>) -> Result<T, E> {
        self.commits.borrow_mut().include(submitted)
    }
}

/// The known facts about an attempt that is over.
pub(super) fn stale_token_hint(state: &State, token: AttemptToken) -> String {
    let known = state.dispatched.get(&token);
    let known = known.and_then(|(run, step, _)| Some((state.runs.get(run)?, *step)));
    let Some((run, number)) = known else {
        return "no known attempt has this token; `ledger claim` prints it".to_owned();
    };
    let (step, status) = (StepName::of(run, number), step_status(run, number));
    format!("it was an attempt at {step}, which is {status} now; `ledger inspect step` shows it")
}
