//! What the stories share: a ledger on a simulated disk, a clock that is set by hand, and a power
//! loss wherever the story wants one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::ledger::Clock;
use plan_ledger::plan::*;
use plan_ledger::sim::{Loss, SimDisk};
use plan_ledger::{Environment, Ledger, LedgerView, OpenQuestion, Reply, Task, state_hash};
use serde_json::Value;

use crate::golden::deterministic;

pub(crate) const HOUR: u64 = 3_600;

/// A clock that only moves when it is told to.
#[derive(Debug)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One run of one plan.
pub(crate) struct Story {
    disk: SimDisk,
    clock: Arc<Hands>,
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

impl Story {
    pub(crate) fn begin(of: &Value) -> Self {
        let (disk, clock) =
            (SimDisk::new(), Arc::new(Hands(AtomicU64::new(1_700_000_000_000_000))));
        let environment = environment(&disk, &clock);
        let ledger = Ledger::create(Path::new("a.ledger"), &environment).unwrap();
        let run = ledger.start_run("story", &plan(of), RunPolicy::default()).unwrap();
        Self { disk, clock, ledger: Some(ledger), run, losses: 0 }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().unwrap()
    }

    /// The power goes, and comes back: what was acknowledged is there, and nothing else counts.
    pub(crate) fn lose_power(&mut self) {
        let (head, hash) = (self.ledger().head(), self.ledger().state_hash().unwrap());
        self.losses += 1;
        let disk = self.disk.fork();
        disk.lose_power(Loss::Some(self.losses));
        self.ledger = None;
        self.disk = disk;
        let environment = environment(&self.disk, &self.clock);
        let (ledger, _) = Ledger::open(Path::new("a.ledger"), &environment).unwrap();
        let then = ledger.state_at(head.seq).unwrap();
        assert_eq!(state_hash(&then), hash, "what was acknowledged is another state now");
        self.ledger = Some(ledger);
    }

    /// The ledger as somebody sees it who takes no lock.
    pub(crate) fn view(&self) -> LedgerView {
        LedgerView::open(Path::new("a.ledger"), &environment(&self.disk, &self.clock)).unwrap()
    }

    /// Let time pass, and the ledger notice.
    pub(crate) fn wait(&self, seconds: u64) {
        self.clock.0.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
        self.ledger().tick().unwrap();
    }

    /// The clock moves, and nobody tells the ledger.
    pub(crate) fn set_clock(&self, time: u64) {
        self.clock.0.store(time, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    pub(crate) fn state(&self) -> Run {
        self.ledger().run(self.run).unwrap()
    }

    pub(crate) fn number(&self, id: &str) -> StepNumber {
        self.state().step_named(id).unwrap()
    }

    pub(crate) fn step(&self, id: &str) -> StepState {
        let run = self.state();
        run.step(run.step_named(id).unwrap()).unwrap().clone()
    }

    pub(crate) fn status(&self, id: &str) -> StepStatus {
        self.step(id).status
    }

    pub(crate) fn variable(&self, name: &str) -> Variable {
        self.state().variables[name].clone()
    }

    /// Deal the step that is next in the queue, which is this one.
    pub(crate) fn take(&self, id: &str) -> Task {
        let task = self.ledger().dispatch(self.run, &format!("worker of {id}")).unwrap().unwrap();
        assert_eq!(task.step.id, id, "another step was dealt");
        task
    }

    pub(crate) fn finish(&self, task: &Task, output: &Value) -> StepStatus {
        self.finish_for(task, output, 0)
    }

    /// A successful receipt that says what the attempt cost.
    pub(crate) fn finish_for(&self, task: &Task, output: &Value, micros: u64) -> StepStatus {
        let receipt = Receipt { cost: money(micros), ..receipt(output) };
        self.ledger().record_receipt(task.token, receipt).unwrap()
    }

    /// The whole way of a step whose worker succeeds at once.
    pub(crate) fn walk(&self, id: &str, output: &Value) {
        assert_eq!(self.finish(&self.take(id), output), StepStatus::Accepted, "{id}");
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

    /// The one question that is open.
    pub(crate) fn question(&self) -> OpenQuestion {
        let mut open = self.ledger().questions().unwrap();
        assert_eq!(open.len(), 1, "{open:?}");
        open.remove(0)
    }

    /// Answer a question as somebody who was shown what it is about.
    pub(crate) fn answer(
        &self,
        question: &OpenQuestion,
        by: &str,
        answer: &str,
    ) -> Result<(), plan_ledger::Error> {
        let shown = question.question.asked.shown;
        let (answer, by) = (answer.to_owned(), by.to_owned());
        let reply = Reply { answer, by, note: "in the story".to_owned(), shown };
        self.ledger().answer(question.id, reply).map(drop)
    }

    /// Everything that happened, with its record.
    pub(crate) fn events(&self) -> Vec<(u64, Event)> {
        let records = self.ledger().replay(1).unwrap();
        records.into_iter().filter_map(|each| Some((each.seq, each.event?))).collect()
    }

    /// What happened to steps.
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

    /// What was decided about failures, in order.
    pub(crate) fn decisions(&self) -> Vec<FailureDecided> {
        let decided = |record: StepRecord| match record.event {
            StepEvent::FailureDecided(decided) => Some(decided),
            _ => None,
        };
        self.step_events().into_iter().filter_map(decided).collect()
    }

    pub(crate) fn ended(&self) -> Option<Ending> {
        match self.state().status {
            RunStatus::Ended(ending) => Some(ending),
            RunStatus::Proposed | RunStatus::Running => None,
        }
    }
}

fn environment(disk: &SimDisk, clock: &Arc<Hands>) -> Environment {
    Environment { storage: Arc::new(disk.clone()), clock: clock.clone(), ..deterministic() }
}

/// Why somebody was refused.
pub(crate) fn refusal<T>(result: Result<T, plan_ledger::Error>) -> Rejection {
    let Err(error) = result else { panic!("it was not refused") };
    error.rejection().unwrap_or_else(|| panic!("{error}")).clone()
}
