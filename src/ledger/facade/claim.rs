//! Claims of workers, and the tasks that they get.
//!
//! A claim dispatches one step to a worker, or says why no step can be dispatched now. The task ends
//! with a receipt. A task that is dropped stays claimed until its lease expires.

use std::ops::Deref;
use std::time::Duration;

use crate::error::Result;
use crate::ledger::transaction::dispatch;
use crate::ledger::transaction::task::Task;
use crate::plan::{
    AttemptToken, Ending, FailureClass, Json, LostCause, Outcome, Receipt, Rejection, Route, RunId,
    RunStatus, State, StepStatus, Timestamp,
};

use super::ledger::Ledger;

/// The answer to a claim.
#[derive(Debug)]
pub enum Claim<'l> {
    /// A step was dispatched to the worker.
    Task(ClaimedTask<'l>),
    /// No step can be dispatched now. Claim again after another task of the run has ended, a person
    /// has decided, or `retry_after` has passed.
    Wait {
        /// The time until the next lease, delay or deadline of the ledger. `None` without any of
        /// these: only a receipt or a person can then change the state.
        retry_after: Option<Duration>,
        /// The reason: nothing is ready, a cap is reached, or the run is paused. It also says how many
        /// questions of the run are open.
        reason: String,
    },
    /// The run has ended.
    Done(Ending),
}

/// A dispatched step, with its lease held by the worker. It has all fields of [`Task`].
#[derive(Debug)]
#[must_use = "a task that is dropped stays claimed until its lease expires"]
pub struct ClaimedTask<'l> {
    ledger: &'l Ledger,
    task: Box<Task>,
}

impl Deref for ClaimedTask<'_> {
    type Target = Task;

    fn deref(&self) -> &Task {
        &self.task
    }
}

impl ClaimedTask<'_> {
    /// Record that the work succeeded, with its output, and return the step's status.
    ///
    /// # Errors
    /// As [`Ledger::record_receipt`].
    pub fn succeed(self, output: impl Into<Json>) -> Result<StepStatus> {
        self.report(Receipt { output: output.into().into(), ..Receipt::default() })
    }

    /// Record that the work failed, and return the step's status. The plan's failure policy decides
    /// how the run continues.
    ///
    /// # Errors
    /// As [`Ledger::record_receipt`].
    pub fn fail(self, class: FailureClass, message: impl Into<String>) -> Result<StepStatus> {
        let (message, payload) = (message.into(), Json::default());
        let outcome = Outcome::Failed { class, message, payload };
        self.report(Receipt { outcome, ..Receipt::default() })
    }

    /// Record any receipt: with cost, artifacts, variables or side effects.
    ///
    /// # Errors
    /// As [`Ledger::record_receipt`].
    pub fn report(self, receipt: Receipt) -> Result<StepStatus> {
        self.ledger.record_receipt(self.task.token, receipt)
    }

    /// Renew the lease, and return when it expires now: a [`Timestamp`], in microseconds since the Unix
    /// epoch. From another thread, use [`Ledger::renew`] with the token.
    ///
    /// # Errors
    /// `Rejected` with `StaleToken` if the lease has expired, or the run was cancelled: stop working.
    pub fn renew(&mut self) -> Result<Timestamp> {
        self.task.lease_until = self.ledger.renew(self.task.token)?;
        Ok(self.task.lease_until)
    }
}

/// Claims.
impl Ledger {
    /// Claim the next step of a run for a worker, but no step of a person ([`Step::owner`]). Due
    /// events, such as expired leases, are recorded first.
    ///
    /// [`Step::owner`]: crate::Step::owner
    ///
    /// ```
    /// # fn main() -> plan_ledger::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let ledger = plan_ledger::Ledger::open(folder.path().join("ledger"))?;
    /// # let plan = serde_json::from_str(r#"{"steps": [{"id": "build"}]}"#).unwrap();
    /// use plan_ledger::{Claim, FailureClass};
    ///
    /// let run = ledger.start_or_resume("demo", &plan)?;
    /// if let Claim::Task(task) = ledger.claim(run, "worker-1")? {
    ///     task.fail(FailureClass::Transient, "the build server is down")?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Rejected` if there is no such run or it has no active plan; as [`Ledger::execute`].
    pub fn claim(&self, run: RunId, worker: &str) -> Result<Claim<'_>> {
        let route = Route::default();
        match dispatch::try_dispatch(&self.engine, run, (worker, &route), &|_| true)? {
            Ok(task) => Ok(Claim::Task(ClaimedTask { ledger: self, task: Box::new(task) })),
            Err(rejection) => {
                let now = self.now();
                self.read(|state| no_task(state, run, rejection.as_ref(), now)).wait()
            }
        }
    }

    /// Record that all attempts in flight of a run will never report, so that their steps are
    /// dispatched again, and return their number. Call this after opening the ledger if all workers
    /// of the run were threads of a process that has ended. A step with `idempotent: no` gets the
    /// status `outcome_unknown` instead.
    ///
    /// # Errors
    /// As [`Ledger::execute`].
    pub fn recover_abandoned(&self, run: RunId) -> Result<usize> {
        let of_run = |state: &State| -> Vec<AttemptToken> {
            let of_run =
                |(token, (of, _)): (&AttemptToken, &(RunId, _))| (*of == run).then_some(*token);
            state.in_flight.iter().filter_map(of_run).collect()
        };
        let mut recovered = 0;
        for token in self.read(of_run).wait()? {
            match self.report_lost(token, LostCause::RunnerDied, "the worker's process has ended") {
                Ok(_) => recovered += 1,
                // It ended in the meantime.
                Err(error) if matches!(error.rejection(), Some(Rejection::StaleToken(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(recovered)
    }
}

/// The answer to a claim that dispatched nothing.
fn no_task<'l>(
    state: &State,
    run: RunId,
    rejection: Option<&Rejection>,
    now: Timestamp,
) -> Claim<'l> {
    if let Some(ending) = ending_of(state, run) {
        return Claim::Done(ending);
    }
    let retry_after = state.next_due().map(|due| Duration::from_micros(due.saturating_sub(now)));
    let paused = || state.runs.get(&run).and_then(|run| run.pause.clone()).map(Rejection::Paused);
    let reason = match rejection.cloned().or_else(paused) {
        Some(rejection) => rejection.to_string(),
        None => "nothing is ready".to_owned(),
    };
    let questions = match state.questions.values().filter(|of| **of == run).count() {
        0 => String::new(),
        1 => "; 1 question waits for an answer".to_owned(),
        open => format!("; {open} questions wait for an answer"),
    };
    Claim::Wait { retry_after, reason: reason + &questions }
}

fn ending_of(state: &State, run: RunId) -> Option<Ending> {
    match state.runs.get(&run).map(|run| run.status) {
        Some(RunStatus::Ended(ending)) => Some(ending),
        Some(_) => None,
        None => state.summaries.get(&run).map(|summary| summary.ending),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: this interface is enough for a worker to execute a plan.

    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::plan::{Plan, ResolvedOutcome, RunPolicy, StepNumber};
    use crate::sim::SimDisk;
    use crate::sim::environment;
    use crate::{Reply, plan_hash};

    fn plan(text: &str) -> Plan {
        serde_json::from_str(text).unwrap()
    }

    fn ledger(disk: &SimDisk) -> Ledger {
        Ledger::options().environment(environment(disk)).open(Path::new("/l")).unwrap()
    }

    fn task(claim: Claim<'_>) -> ClaimedTask<'_> {
        match claim {
            Claim::Task(task) => task,
            other => panic!("expected a task, found {other:?}"),
        }
    }

    #[test]
    fn claims_answer_task_wait_and_done() {
        let ledger = ledger(&SimDisk::new());
        assert!(ledger.open_report().created);
        let plan = plan(r#"{"steps": [{"id": "a"}, {"id": "b", "after": ["a"]}]}"#);
        let run = ledger.start_or_resume("demo", &plan).unwrap();
        assert_eq!(ledger.start_or_resume("demo", &plan).unwrap(), run);
        let mut first = task(ledger.claim(run, "w").unwrap());
        assert_eq!((first.number, first.step.id.as_str()), (StepNumber(1), "a"));
        assert!(first.renew().unwrap() >= first.lease_until);
        let waiting = ledger.claim(run, "w").unwrap();
        assert!(
            matches!(&waiting, Claim::Wait { retry_after: Some(_), reason }
            if reason.contains("ready")),
            "{waiting:?}"
        );
        assert_eq!(first.succeed(json!({ "n": 1 })).unwrap(), StepStatus::Accepted);
        let second = task(ledger.claim(run, "w").unwrap());
        let status = second.fail(FailureClass::Deterministic, "broken").unwrap();
        assert_eq!(status, StepStatus::Failed);
        let done = ledger.claim(run, "w").unwrap();
        assert!(matches!(done, Claim::Done(Ending::Failed)), "{done:?}");
        ledger.retry(run, StepNumber(2), "ana").unwrap();
        task(ledger.claim(run, "w").unwrap()).succeed(json!(null)).unwrap();
        let done = ledger.claim(run, "w").unwrap();
        assert!(matches!(done, Claim::Done(Ending::Done)), "{done:?}");
    }

    #[test]
    fn abandoned_attempts_are_dispatched_again() {
        let disk = SimDisk::new();
        let steps = plan(r#"{"steps": [{"id": "a"}, {"id": "b"}]}"#);
        let (run, other) = {
            let ledger = ledger(&disk);
            let run = ledger.start_or_resume("demo", &steps).unwrap();
            let other = ledger.start_run("other", &steps, RunPolicy::default()).unwrap();
            for run in [run, run, other] {
                let _ = task(ledger.claim(run, "w").unwrap());
            }
            (run, other)
        };
        let ledger = ledger(&disk);
        assert_eq!(ledger.recover_abandoned(run).unwrap(), 2);
        assert_eq!(ledger.recover_abandoned(run).unwrap(), 0);
        assert_eq!(task(ledger.claim(run, "w").unwrap()).attempt, 2);
        assert_eq!(ledger.state().unwrap().runs[&other].in_flight, 1, "the other run is untouched");
        ledger.skip(run, StepNumber(2), "ana", "not needed").unwrap();
        ledger.cancel(run, "ana", "enough").unwrap();
        assert!(matches!(ledger.claim(run, "w").unwrap(), Claim::Done(Ending::Cancelled)));
        let error = ledger.cancel(run, "ana", "again").unwrap_err();
        assert!(error.is_rejected() && !error.is_retryable() && !error.must_reopen(), "{error}");
    }

    /// A lost step with `idempotent: no` could be resolved with names of `internals` only.
    #[test]
    fn unknown_outcome_is_resolved_through_the_public_api() {
        let ledger = ledger(&SimDisk::new());
        let mails =
            r#"{"steps": [{"id": "a", "idempotent": "no"}, {"id": "b", "idempotent": "no"}]}"#;
        let run = ledger.start_or_resume("demo", &plan(mails)).unwrap();
        for _ in 0..2 {
            let _ = task(ledger.claim(run, "w").unwrap());
        }
        assert_eq!(ledger.recover_abandoned(run).unwrap(), 2);
        let waiting = ledger.claim(run, "w").unwrap();
        assert!(
            matches!(&waiting, Claim::Wait { reason, .. } if reason.contains("2 of unknown outcome")),
            "{waiting:?}"
        );
        let unknown: Vec<StepNumber> =
            ledger.run(run).unwrap().outcome_unknown.into_iter().collect();
        assert_eq!(unknown, [StepNumber(1), StepNumber(2)]);
        let resolve = |step, finding| ledger.resolve_outcome(run, step, finding, "ana", "seen");
        let landed = resolve(unknown[0], ResolvedOutcome::Landed).unwrap();
        let repeated = resolve(unknown[1], ResolvedOutcome::DidNotHappen).unwrap();
        assert_eq!((landed, repeated), (StepStatus::Accepted, StepStatus::Ready));
        let again = resolve(unknown[0], ResolvedOutcome::Landed).unwrap_err();
        assert!(again.is_rejected(), "{again}");
        let second = task(ledger.claim(run, "w").unwrap());
        assert_eq!((second.step.id.as_str(), second.attempt), ("b", 2));
        second.succeed("sent").unwrap();
        assert!(matches!(ledger.claim(run, "w").unwrap(), Claim::Done(Ending::Done)));
    }

    /// Story: a worker learned only that no step was ready, and a person needed the hash of the
    /// question for an answer.
    #[test]
    fn wait_names_open_questions_and_a_reply_answers_them() {
        let ledger = ledger(&SimDisk::new());
        let gates = r#"{"steps": [{"id": "a", "gate": {"question": "Send it?"}},
            {"id": "b", "gate": {"question": "Send it again?"}}]}"#;
        let run = ledger.start_or_resume("demo", &plan(gates)).unwrap();
        let reason = || match ledger.claim(run, "w").unwrap() {
            Claim::Wait { reason, .. } => reason,
            other => panic!("expected to wait, found {other:?}"),
        };
        assert_eq!(reason(), "no step is ready; 2 questions wait for an answer");
        let open = ledger.questions().unwrap();
        let stale = Reply { shown: plan_hash(&plan(gates)), ..Reply::to(&open[0], "yes", "ana") };
        assert!(ledger.answer(open[0].id, stale).unwrap_err().is_rejected());
        ledger.answer(open[0].id, Reply::to(&open[0], "yes", "ana")).unwrap();
        task(ledger.claim(run, "w").unwrap()).succeed("sent").unwrap();
        assert_eq!(reason(), "no step is ready; 1 question waits for an answer");
    }

    /// A program that was started with another plan under the same name executed the old plan, without
    /// a word.
    #[test]
    fn start_or_resume_rejects_a_different_plan() {
        let ledger = ledger(&SimDisk::new());
        let first = plan(r#"{"steps": [{"id": "a"}]}"#);
        let second = plan(r#"{"steps": [{"id": "a"}, {"id": "b"}]}"#);
        let run = ledger.start_or_resume("demo", &first).unwrap();
        let before = ledger.head();
        let error = ledger.start_or_resume("demo", &second).unwrap_err();
        assert!(matches!(error.rejection(), Some(Rejection::DifferentPlan(of)) if *of == run));
        assert_eq!(ledger.head(), before, "it wrote something");
        // The run has both versions now: the program that started it may continue it.
        ledger.propose(run, &second, "more work").unwrap();
        for each in [&first, &second] {
            assert_eq!(ledger.start_or_resume("demo", each).unwrap(), run);
        }
        assert_eq!(ledger.find_run("demo").unwrap(), Some(run));
        assert_eq!(ledger.find_run("other").unwrap(), None);
    }

    #[test]
    fn must_exist_creates_no_ledger() {
        let disk = SimDisk::new();
        let options = Ledger::options().environment(environment(&disk)).must_exist();
        assert_eq!(options.open("/l").unwrap_err().kind(), crate::error::ErrorKind::NotALedger);
        let _open = ledger(&disk);
        assert!(options.open("/l").unwrap_err().is_locked());
    }
}
