//! A ledger without a disk: a state, its log, and short ways to ask.

use crate::format::content_hash;
use crate::plan::*;

/// Microseconds in a second.
pub(super) const SECOND: Micros = 1_000_000;

pub(super) struct World {
    pub(super) state: State,
    pub(super) log: Vec<(u64, Micros, Event)>,
    pub(super) now: Micros,
}

impl World {
    pub(super) fn new() -> Self {
        Self { state: State::default(), log: Vec::new(), now: 1_000 * SECOND }
    }

    /// A world with one run, number 1, of that plan.
    pub(super) fn with(plan: &Plan, policy: RunPolicy) -> Self {
        let mut world = Self::new();
        let name = "demo".to_owned();
        world.ask(Command::StartRun { name, policy, draft: draft(plan) }).unwrap();
        world
    }

    /// Judges a command and checks that the answer and the state belong together.
    #[expect(clippy::needless_pass_by_value, reason = "most commands are made for the call")]
    pub(super) fn ask(&mut self, command: Command) -> Result<Vec<Event>, Rejection> {
        let next = self.state.seq + 1;
        let before = self.state.seq;
        let events = execute(&mut self.state, next, self.now, &command);
        match &events {
            Ok(events) => {
                for (seq, event) in (next..).zip(events) {
                    self.log.push((seq, self.state.time, event.clone()));
                }
                assert_eq!(self.state.seq, before + u64::try_from(events.len()).unwrap());
            }
            Err(_) => assert_eq!(self.state.seq, before, "a refusal changes nothing"),
        }
        events
    }

    pub(super) fn run(&self) -> &Run {
        &self.state.runs[&RunId(1)]
    }

    pub(super) fn number(&self, id: &str) -> StepNumber {
        let place = self.run().steps.iter().position(|step| step.id == id).unwrap();
        StepNumber(u32::try_from(place + 1).unwrap())
    }

    pub(super) fn step(&self, id: &str) -> &StepState {
        self.run().step(self.number(id)).unwrap()
    }

    pub(super) fn status(&self, id: &str) -> StepStatus {
        self.step(id).status
    }

    /// Deals a step by name and answers with the token.
    pub(super) fn deal(&mut self, id: &str) -> AttemptToken {
        self.try_deal(id).unwrap()
    }

    pub(super) fn try_deal(&mut self, id: &str) -> Result<AttemptToken, Rejection> {
        let step = Some(self.number(id));
        self.ask(dispatch(step)).map(|_| self.step(id).attempt.as_ref().unwrap().token)
    }

    pub(super) fn report(&mut self, token: AttemptToken, receipt: Receipt) -> Vec<Event> {
        self.ask(Command::RecordReceipt { token, receipt }).unwrap()
    }

    /// Deals a step and reports success.
    pub(super) fn work(&mut self, id: &str) {
        let token = self.deal(id);
        self.report(token, Receipt::default());
    }

    /// Deals a step and reports a failure of that class.
    pub(super) fn fail(&mut self, id: &str, class: FailureClass) -> Vec<Event> {
        let token = self.deal(id);
        self.report(token, failed(class))
    }

    pub(super) fn propose(&mut self, plan: &Plan) -> Result<Vec<Event>, Rejection> {
        let reason = "a test".to_owned();
        self.ask(Command::ProposePlan { run: RunId(1), draft: draft(plan), reason, trigger: None })
    }
}

pub(super) fn dispatch(step: Option<StepNumber>) -> Command {
    Command::Dispatch { run: RunId(1), step, worker: "worker-1".to_owned() }
}

pub(super) fn failed(class: FailureClass) -> Receipt {
    let message = "it broke".to_owned();
    let outcome = Outcome::Failed { class, message, payload: Json::default() };
    Receipt { outcome, ..Receipt::default() }
}

pub(super) fn verdict(criterion: u32, ruling: Ruling, by: &str) -> Verdict {
    Verdict { criterion, ruling, by: by.to_owned(), evidence: "seen".to_owned() }
}

pub(super) fn trust() -> RunPolicy {
    RunPolicy { text: TextPolicy::Trust, ..RunPolicy::default() }
}

/// A step that waits for those.
pub(super) fn step(id: &str, after: &[&str]) -> Step {
    let after = after.iter().map(|&name| name.to_owned()).collect();
    Step { id: id.to_owned(), goal: format!("do {id}"), after, ..Step::default() }
}

pub(super) fn barrier(id: &str, members: &[&str], needs: BarrierNeeds) -> Barrier {
    let members = members.iter().map(|&name| name.to_owned()).collect();
    Barrier { id: id.to_owned(), members, needs, ..Barrier::default() }
}

pub(super) fn plan(steps: Vec<Step>) -> Plan {
    Plan { steps, ..Plan::default() }
}

/// A plan as the facade would propose it, valid or not.
pub(super) fn draft(plan: &Plan) -> PlanDraft {
    let mut header = Box::new(plan.clone());
    header.steps.clear();
    let hash = |text: &str| ContentHash(content_hash(text.as_bytes()));
    let hashed =
        |step: &Step| HashedStep { hash: hash(&step.identity(&plan.defaults)), step: step.clone() };
    PlanDraft {
        hash: hash(&plan.canonical()),
        header,
        steps: plan.steps.iter().map(hashed).collect(),
    }
}

/// What kind of events these are, in order, for comparison.
pub(super) fn kinds(events: &[Event]) -> String {
    let names: Vec<String> = events.iter().map(kind).collect();
    names.join(" ")
}

fn kind(event: &Event) -> String {
    let whole = match event {
        Event::Step(record) => format!("{:?}", record.event),
        other => format!("{other:?}"),
    };
    whole.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
}
