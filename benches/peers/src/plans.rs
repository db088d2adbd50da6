//! Plans and receipts for the measurements of whole ledgers, and the memory of this process.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use plan_ledger::internals::ledger::plan_draft;
use plan_ledger::plan::{Route, SecretHash, StepEvent, execute};
use plan_ledger::{AttemptToken, Command, Event, Json, Plan, Receipt, RunId, RunPolicy, State};

use crate::Result;

/// A plan of independent steps of typical length.
pub fn plan(steps: u64) -> Result<Plan> {
    // As text, because a tree of values leaves the memory full of small gaps: the allocator would join
    // them during the measurement.
    let step = |number: u64| {
        let out = number % 20;
        format!(
            r#"{{"id":"s{number}","title":"Step number {number}","goal":"do what a step of a plan does","outputs":["out{out}"]}}"#
        )
    };
    let steps: Vec<_> = (0..steps).map(step).collect();
    Ok(serde_json::from_str(&format!(r#"{{"title":"Large","steps":[{}]}}"#, steps.join(",")))?)
}

/// The command that starts a run of a plan, for measurements without a ledger.
pub fn start(name: String, plan: &Plan) -> Result<Command> {
    let draft = plan_draft(plan).map_err(|rejection| rejection.to_string())?;
    Ok(Command::StartRun {
        name,
        policy: RunPolicy::default(),
        reason: String::new(),
        draft,
        inputs: BTreeMap::new(),
    })
}

pub fn dispatch(run: RunId) -> Command {
    Command::Dispatch { process: None,
        secret: SecretHash::default(),
        run,
        step: None,
        worker: "worker".to_owned(),
        route: Route::default(),
        lease: None,
    }
}

pub fn receipt() -> Receipt {
    let value = serde_json::json!({ "done": true, "text": "what the step of a plan came to" });
    Receipt { output: Json::new(&value).into(), ..Receipt::default() }
}

/// The token of the attempt that these events dispatch, if any.
pub fn dispatched_token(first: u64, events: &[Event]) -> Option<AttemptToken> {
    (first..).zip(events).find_map(|(seq, event)| match event {
        Event::Step(record) if matches!(record.event, StepEvent::Dispatched(_)) => {
            Some(AttemptToken(seq))
        }
        _ => None,
    })
}

/// Execute a command on a state.
pub fn ask(state: &mut State, now: u64, command: &Command) -> Result<Vec<Event>> {
    let next = state.seq + 1;
    execute(state, next, now, command).map_err(|rejection| rejection.to_string().into())
}

/// Microseconds since the Unix epoch.
pub fn now() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}

/// A line of `/proc/self/status`, in bytes: `VmRSS` is the resident memory, `VmHWM` its maximum so
/// far.
pub fn memory(name: &str) -> Result<u64> {
    memory_of("self", name)
}

/// The same of another process.
pub fn memory_of(process: &str, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
    let kibibytes: u64 = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse()?;
    Ok(kibibytes << 10)
}
