//! `Scenario`: one run in a ledger on a simulated disk, with a manual clock and power losses on
//! demand. The tests of `claims` and `workflows` share it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::sim::{Loss, SimDisk};
use plan_ledger::plan::*;
use plan_ledger::{Clock, Environment, Ledger, LedgerView, OpenQuestion, Reply, Task, state_hash};
use serde_json::Value;

use crate::golden::deterministic;

pub(crate) const HOUR: u64 = 3_600;

/// A clock that moves only when the test sets it.
#[derive(Debug)]
struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One run of one plan.
pub(crate) struct Scenario {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    /// `None` only while the machine is off.
    ledger: Option<Ledger>,
    pub(crate) run: RunId,
    losses: u64,
}

pub(crate) fn plan(of: &Value) -> Plan {
    serde_json::from_value(of.clone()).unwrap()
}

pub(crate) fn receipt(output: &Value) -> Receipt {
    Receipt { output: Json::new(output).into(), ..Receipt::default() }
}

pub(crate) fn money(money_micros: u64) -> Cost {
    Cost { money_micros, ..Cost::default() }
}

impl Scenario {
    pub(crate) fn begin(of: &Value) -> Self {
        let (disk, clock) =
            (SimDisk::new(), Arc::new(ManualClock(AtomicU64::new(1_700_000_000_000_000))));
        let environment = environment(&disk, &clock);
        let ledger = Ledger::create(Path::new("a.ledger"), &environment).unwrap();
        let run = ledger.start_run("scenario", &plan(of), RunPolicy::default()).unwrap();
        Self { disk, clock, ledger: Some(ledger), run, losses: 0 }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().unwrap()
    }

    /// Cuts the power and reopens the ledger: the acknowledged state must be unchanged.
    pub(crate) fn lose_power(&mut self) {
        let (head, hash) = (self.ledger().head(), self.ledger().state_hash().unwrap());
        self.losses += 1;
        let disk = self.disk.fork();
        disk.lose_power(Loss::Some(self.losses));
        self.ledger = None;
        self.disk = disk;
        let environment = environment(&self.disk, &self.clock);
        let (ledger, _) = Ledger::open_with(Path::new("a.ledger"), &environment).unwrap();
        let then = ledger.state_at(head.seq).unwrap();
        assert_eq!(state_hash(&then), hash, "a power loss changed the acknowledged state");
        self.ledger = Some(ledger);
    }

    /// A read-only view, opened without the lock.
    pub(crate) fn view(&self) -> LedgerView {
        LedgerView::open(Path::new("a.ledger"), &environment(&self.disk, &self.clock)).unwrap()
    }

    /// Advances the clock and ticks the ledger.
    pub(crate) fn wait(&self, seconds: u64) {
        self.clock.0.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
        self.ledger().tick().unwrap();
    }

    /// Sets the clock without a tick.
    pub(crate) fn set_clock(&self, time: u64) {
        self.clock.0.store(time, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    pub(crate) fn run(&self) -> Run {
        self.ledger().run(self.run).unwrap()
    }

    pub(crate) fn number(&self, id: &str) -> StepNumber {
        self.run().step_named(id).unwrap()
    }

    pub(crate) fn step(&self, id: &str) -> StepState {
        let run = self.run();
        run.step(run.step_named(id).unwrap()).unwrap().clone()
    }

    pub(crate) fn status(&self, id: &str) -> StepStatus {
        self.step(id).status
    }

    pub(crate) fn variable(&self, name: &str) -> Variable {
        self.run().variables[name].clone()
    }

    /// Dispatches the next step of the queue, which must be `id`.
    pub(crate) fn dispatch(&self, id: &str) -> Task {
        let task = self.ledger().dispatch(self.run, &format!("worker of {id}")).unwrap().unwrap();
        assert_eq!(task.step.id, id, "another step was dispatched");
        task
    }

    pub(crate) fn finish(&self, task: &Task, output: &Value) -> StepStatus {
        self.finish_for(task, output, 0)
    }

    /// Records a successful receipt with its cost.
    pub(crate) fn finish_for(&self, task: &Task, output: &Value, micros: u64) -> StepStatus {
        let receipt = Receipt { cost: money(micros), ..receipt(output) };
        self.ledger().record_receipt(task.token, receipt).unwrap()
    }

    /// Dispatches a step and reports success at once.
    pub(crate) fn complete(&self, id: &str, output: &Value) {
        assert_eq!(self.finish(&self.dispatch(id), output), StepStatus::Accepted, "{id}");
    }

    pub(crate) fn fail(
        &self,
        task: &Task,
        class: FailureClass,
        message: &str,
        micros: u64,
    ) -> StepStatus {
        let (message, payload) = (message.to_owned(), Json::default());
        let outcome = Outcome::Failed { class, message, payload };
        let receipt = Receipt { outcome, cost: money(micros), ..Receipt::default() };
        self.ledger().record_receipt(task.token, receipt).unwrap()
    }

    /// The only open question.
    pub(crate) fn question(&self) -> OpenQuestion {
        let mut open = self.ledger().questions().unwrap();
        assert_eq!(open.len(), 1, "{open:?}");
        open.remove(0)
    }

    /// Answers a question as a person who was shown its current subject.
    pub(crate) fn answer(
        &self,
        question: &OpenQuestion,
        by: &str,
        answer: &str,
    ) -> Result<(), plan_ledger::Error> {
        let note = "in the scenario".to_owned();
        let reply = Reply { note, ..Reply::to(question, answer, by) };
        self.ledger().answer(question.id, reply).map(drop)
    }

    /// All events of the log with their record numbers.
    pub(crate) fn events(&self) -> Vec<(u64, Event)> {
        let records = self.ledger().replay(1).unwrap();
        records.into_iter().filter_map(|each| Some((each.seq, each.event?))).collect()
    }

    /// All step events of the log.
    pub(crate) fn step_events(&self) -> Vec<StepRecord> {
        let of_step = |(_, event)| match event {
            Event::Step(record) => Some(record),
            _ => None,
        };
        self.events().into_iter().filter_map(of_step).collect()
    }

    /// The newest activation of a plan version.
    pub(crate) fn activated(&self) -> PlanActivated {
        let of_version = |(_, event)| match event {
            Event::PlanActivated(activated) => Some(activated),
            _ => None,
        };
        self.events().into_iter().rev().find_map(of_version).unwrap()
    }

    /// All failure decisions, in order.
    pub(crate) fn decisions(&self) -> Vec<FailureDecided> {
        let decided = |record: StepRecord| match record.event {
            StepEvent::FailureDecided(decided) => Some(decided),
            _ => None,
        };
        self.step_events().into_iter().filter_map(decided).collect()
    }

    pub(crate) fn ended(&self) -> Option<Ending> {
        match self.run().status {
            RunStatus::Ended(ending) => Some(ending),
            RunStatus::Proposed | RunStatus::Running => None,
        }
    }
}

fn environment(disk: &SimDisk, clock: &Arc<ManualClock>) -> Environment {
    Environment { storage: Arc::new(disk.clone()), clock: clock.clone(), ..deterministic() }
}

/// The rejection that a command must have come back with.
pub(crate) fn refusal<T>(result: Result<T, plan_ledger::Error>) -> Rejection {
    let Err(error) = result else { panic!("the command was not rejected") };
    error.rejection().unwrap_or_else(|| panic!("{error}")).clone()
}
