//! `TestLedger`: a state, its event log and a clock in memory, with short helpers for commands.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::format::content_hash;
use crate::plan::*;

pub(in crate::plan) struct TestLedger {
    pub(in crate::plan) state: State,
    pub(in crate::plan) log: Vec<(u64, Timestamp, Event)>,
    pub(in crate::plan) now: Timestamp,
}

impl TestLedger {
    pub(in crate::plan) fn new() -> Self {
        Self { state: State::default(), log: Vec::new(), now: 1_000 * SECOND }
    }

    /// A ledger with one run, number 1, of that plan.
    pub(in crate::plan) fn with(plan: &Plan, policy: RunPolicy) -> Self {
        let mut ledger = Self::new();
        let name = "demo".to_owned();
        ledger
            .execute(Command::StartRun {
                name,
                policy,
                reason: String::new(),
                draft: draft(plan),
                inputs: BTreeMap::new(),
            })
            .unwrap();
        ledger
    }

    /// Executes a command, logs its events, and checks that only accepted commands change the
    /// state.
    #[expect(clippy::needless_pass_by_value, reason = "most commands are made for the call")]
    pub(in crate::plan) fn execute(&mut self, command: Command) -> Result<Vec<Event>, Rejection> {
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
            Err(_) => assert_eq!(self.state.seq, before, "a rejected command changes nothing"),
        }
        events
    }

    pub(in crate::plan) fn run(&self) -> &Run {
        &self.state.runs[&RunId(1)]
    }

    pub(in crate::plan) fn number(&self, id: &str) -> StepNumber {
        let place = self.run().steps.iter().position(|step| step.id() == id).unwrap();
        StepNumber(u32::try_from(place + 1).unwrap())
    }

    pub(in crate::plan) fn step(&self, id: &str) -> &StepState {
        self.run().step(self.number(id)).unwrap()
    }

    pub(in crate::plan) fn status(&self, id: &str) -> StepStatus {
        self.step(id).status
    }

    /// Dispatches a step by name; returns the token.
    pub(in crate::plan) fn dispatch(&mut self, id: &str) -> AttemptToken {
        self.try_dispatch(id).unwrap()
    }

    pub(in crate::plan) fn try_dispatch(&mut self, id: &str) -> Result<AttemptToken, Rejection> {
        let step = Some(self.number(id));
        self.execute(dispatch_command(step)).map(|_| self.step(id).attempt().unwrap().token)
    }

    pub(in crate::plan) fn report(&mut self, token: AttemptToken, receipt: Receipt) -> Vec<Event> {
        self.execute(Command::RecordReceipt { proof: Proof::LockHolder, token, receipt }).unwrap()
    }

    /// Dispatches a step and reports success.
    pub(in crate::plan) fn complete(&mut self, id: &str) {
        let token = self.dispatch(id);
        // Not null: then a declared output would be missing.
        let output = Json::new(&serde_json::json!({})).into();
        self.report(token, Receipt { output, ..Receipt::default() });
    }

    /// Dispatches a step and reports a failure of that class.
    pub(in crate::plan) fn fail(&mut self, id: &str, class: FailureClass) -> Vec<Event> {
        let token = self.dispatch(id);
        self.report(token, failed(class))
    }

    /// Reports an attempt as lost, as the lock holder.
    pub(in crate::plan) fn lose(&mut self, token: AttemptToken, cause: LostCause) {
        let (proof, detail) = (Proof::LockHolder, String::new());
        self.execute(Command::ReportLost { proof, token, cause, detail }).unwrap();
    }

    /// Sets a variable of run 1.
    pub(in crate::plan) fn set(
        &mut self,
        name: &str,
        value: impl Into<serde_json::Value>,
    ) -> Vec<Event> {
        let (name, value) = (name.to_owned(), Json::new(&value.into()));
        let (expected_version, origin) = (None, Origin::person("ann".to_owned()));
        let run = RunId(1);
        self.execute(Command::SetVariable { run, name, value, expected_version, origin }).unwrap()
    }

    pub(in crate::plan) fn propose(&mut self, plan: &Plan) -> Result<Vec<Event>, Rejection> {
        let reason = "a test".to_owned();
        self.execute(Command::ProposePlan {
            run: RunId(1),
            draft: draft(plan),
            reason,
            trigger: None,
            approval: ApprovalPolicy::Automatic,
        })
    }
}

pub(in crate::plan) fn dispatch_command(step: Option<StepNumber>) -> Command {
    Command::Dispatch {
        process: None,
        secret: SecretHash::default(),
        run: RunId(1),
        step,
        worker: "worker-1".to_owned(),
        route: Route::default(),
        lease: None,
    }
}

pub(in crate::plan) fn failed(class: FailureClass) -> Receipt {
    let message = "it broke".to_owned();
    let outcome = Outcome::Failed { class, message, payload: Json::default() };
    Receipt { outcome, ..Receipt::default() }
}

pub(in crate::plan) fn verdict(criterion: u32, ruling: Ruling, by: &str) -> Verdict {
    Verdict { criterion, ruling, by: by.to_owned(), evidence: "seen".into() }
}

pub(in crate::plan) fn trust() -> RunPolicy {
    RunPolicy { text: TextPolicy::Trust, ..RunPolicy::default() }
}

/// A step that depends on `after`.
pub(in crate::plan) fn step(id: &str, after: &[&str]) -> Step {
    let after = after.iter().map(|&name| name.to_owned()).collect();
    Step { id: id.to_owned(), goal: format!("do {id}"), after, ..Step::default() }
}

pub(in crate::plan) fn barrier(id: &str, members: &[&str], needs: BarrierNeeds) -> Barrier {
    let members = members.iter().map(|&name| name.to_owned()).collect();
    Barrier { id: id.to_owned(), members, needs, ..Barrier::default() }
}

/// A plan of these steps that states how they are retried.
pub(in crate::plan) fn plan(steps: Vec<Step>) -> Plan {
    let defaults = Defaults { retry: Some(RetryPolicy::default()), ..Defaults::default() };
    Plan { steps, defaults, ..Plan::default() }
}

/// A plan as the ledger would propose it, valid or not.
pub(in crate::plan) fn draft(plan: &Plan) -> PlanDraft {
    let mut header = Box::new(plan.clone());
    header.steps.clear();
    let hash = |text: &str| ContentHash(content_hash(text.as_bytes()));
    let hashed = |step: &Step| HashedStep {
        hash: hash(&step.identity(&plan.defaults)),
        step: Arc::new(step.clone()),
    };
    PlanDraft {
        hash: hash(&plan.canonical()),
        header,
        steps: plan.steps.iter().map(hashed).collect(),
        provenance: None,
        commands: None,
    }
}

/// The names of the events, in order.
pub(in crate::plan) fn kinds(events: &[Event]) -> String {
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
