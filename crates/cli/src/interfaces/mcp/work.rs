//! The tools of a worker: claim, report, heartbeat, release.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use plan_ledger::{Cost, FailureClass};

use crate::commands::inspect::{OpenDecision, open_decisions};
use crate::commands::prime::ReadFrom;
use crate::output::Code;
use crate::protocol::{Answer, ArtifactEntry, OutcomeWord, ReceiptFile};
use crate::requests::{
    AnswerRequest, ClaimRequest, EffectRequest, NextStep, ReceiptRequest, ReleaseRequest,
    RenewRequest, Request, Work,
};

use super::arguments::{ClaimArguments, HeartbeatArguments, ReleaseArguments, ReportArguments};
use super::call::{ToolCall, ToolOutcome, ToolRefusal};
use super::forms::{Form, PersonAnswer};
use super::key::{key_of, secret_of};
use super::result::task;

/// The longest wait of a call, in seconds: hosts give up after a minute.
const WAIT_SECONDS_MAX: u64 = 50;

pub(super) fn claim(call: &ToolCall<'_>, arguments: ClaimArguments) -> ToolOutcome {
    let wait = arguments.wait_seconds.unwrap_or(0);
    if wait > WAIT_SECONDS_MAX {
        let message = format!("wait_seconds: expected at most {WAIT_SECONDS_MAX}, found {wait}");
        return Err(ToolRefusal::arguments(&message));
    }
    let key = call.own_key("ledger_claim", arguments.key.as_deref())?;
    // A repeated call has the same secret.
    let secret = secret_of(&["claim", &call.server.seed, &key]);
    let run = call.run(arguments.run);
    let request: Request = ClaimRequest {
        run: run.clone().into(),
        step: arguments.step,
        worker: arguments.worker.unwrap_or_else(|| call.server.worker.clone()),
        lease_seconds: arguments.lease_seconds,
        owners: arguments.owners,
        tags: arguments.tags,
        bound_to: call.server.bound_to.clone(),
        ..ClaimRequest::new(secret)
    }
    .into();
    // Ask before waiting: a decision may make a step ready.
    let mut answer = call.request(request.clone(), &key)?;
    let mut asked = Vec::new();
    while is_nothing(&answer) && decide_next(call, run.as_deref(), &mut asked)? {
        answer = call.request(request.clone(), &key)?;
    }
    if is_nothing(&answer) && wait > 0 {
        answer = call.request_until_ready(&request, &key, Duration::from_secs(wait))?;
    }
    let mut claimed = first_line(&answer).map(task_or_nothing).unwrap_or_default();
    if is_nothing(&answer) {
        let open = decisions(call, run.as_deref())?;
        if !open.is_empty() {
            claimed.insert("decisions".to_owned(), open.iter().map(decision_json).collect());
        }
    }
    Ok(claimed)
}

fn is_nothing(answer: &Answer) -> bool {
    Code::of(answer.code) == Code::Waiting
}

/// The items that wait for a person in a run, or in the only one.
fn decisions(call: &ToolCall<'_>, run: Option<&str>) -> Result<Vec<OpenDecision>, ToolRefusal> {
    let read = ReadFrom::open(&call.server.dir, &call.server.environment)?;
    Ok(open_decisions(read.state(), run, &call.server.dir))
}

/// Asks the user about the next question that was not asked in this call, and records the answer.
/// Returns whether there was one.
fn decide_next(
    call: &ToolCall<'_>,
    run: Option<&str>,
    asked: &mut Vec<String>,
) -> Result<bool, ToolRefusal> {
    for decision in decisions(call, run)? {
        let Some(question) = decision.question else { continue };
        let OpenDecision { text, facts, options, shown, .. } = decision;
        let key = format!("question-{question}-{shown}");
        if asked.contains(&key) {
            continue;
        }
        asked.push(key.clone());
        let message = std::iter::once(text).chain(facts).collect::<Vec<_>>().join("\n");
        let answered = call.ask(Form { key: key.clone(), message, options })?;
        if let Some(PersonAnswer::Given { answer, note }) = answered {
            let (by, shown) = (call.server.person.clone(), Some(shown));
            let request =
                AnswerRequest { question, answer, by, note, shown, raise: BTreeMap::new() };
            call.request(request, &key_of(&["form", &key]))?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// The items that wait for a person. A model would type a command that it reads here.
fn decision_json(decision: &OpenDecision) -> Value {
    let text = Value::from(decision.text.as_str());
    Value::Object([("text".to_owned(), text)].into_iter().collect())
}

pub(super) fn report(call: &ToolCall<'_>, arguments: ReportArguments) -> ToolOutcome {
    let token = arguments.token;
    let outcome = arguments.outcome;
    let class = match (outcome, arguments.class) {
        (OutcomeWord::Failed, class) => Some(class.unwrap_or(FailureClass::Unknown)),
        (_, Some(_)) => {
            return Err(ToolRefusal::arguments("class: only with the outcome `failed`"));
        }
        (_, None) => None,
    };
    let artifact = |path| ArtifactEntry { path, hash: String::new() };
    let receipt = ReceiptFile {
        outcome,
        class,
        message: arguments.message,
        from: arguments.from,
        kind: arguments.kind,
        output: arguments.output.map(value_of),
        variables: arguments.variables.into_iter().collect(),
        artifacts: arguments.artifacts.into_iter().map(artifact).collect(),
        cost: Cost { money_micros: arguments.money_micros, tokens: arguments.tokens },
        ..ReceiptFile::default()
    };
    let request = ReceiptRequest {
        token,
        receipt,
        duration_micros: 0,
        log_tail: String::new(),
        next: arguments.next.then(|| NextStep {
            worker: None,
            // It follows from the token, so that a repeated call has the same secret.
            secret: secret_of(&["next", &token.to_string()]),
            owners: Vec::new(),
            tags: Vec::new(),
            bound_to: call.server.bound_to.clone(),
        }),
    };
    // The same report of the same attempt is always the same.
    let key = key_of_request(&request)?;
    let answer = call.request(request, &key)?;
    let mut lines = answer.lines.into_iter().filter_map(object);
    let mut report = lines.next().unwrap_or_default();
    if let Some(next) = lines.next() {
        report.insert("next".to_owned(), Value::Object(task_or_nothing(next)));
    }
    Ok(report)
}

pub(super) fn heartbeat(call: &ToolCall<'_>, arguments: HeartbeatArguments) -> ToolOutcome {
    let HeartbeatArguments { token, lease_seconds, effect, effect_state } = arguments;
    let key = call.own_key("ledger_heartbeat", None)?;
    let mut lines = Map::new();
    match (effect, effect_state) {
        (None, None) => {}
        (Some(effect), Some(state)) => {
            let request = EffectRequest { token, key: effect, effect: String::new(), state };
            let answer = call.request(request, &key_of(&[&key, "effect"]))?;
            lines.insert("effect".to_owned(), first(&answer));
        }
        _ => {
            let message = "effect and effect_state: expected both or none";
            return Err(ToolRefusal::arguments(message));
        }
    }
    let answer = call.request(RenewRequest { token, lease_seconds }, &key)?;
    lines.extend(first_line(&answer).unwrap_or_default());
    Ok(lines)
}

pub(super) fn release(call: &ToolCall<'_>, arguments: ReleaseArguments) -> ToolOutcome {
    let ReleaseArguments { token, began, reason } = arguments;
    let work = if began { Work::Begun } else { Work::NotBegun };
    let request = ReleaseRequest { token, work, reason: reason.unwrap_or_default() };
    let key = key_of_request(&request)?;
    let answer = call.request(request, &key)?;
    Ok(first_line(&answer).unwrap_or_default())
}

/// The key of a request that means the same whenever it is made.
fn key_of_request(request: &impl serde::Serialize) -> Result<String, ToolRefusal> {
    let text = serde_json::to_string(request);
    let text = text.map_err(|error| ToolRefusal::arguments(&error.to_string()))?;
    Ok(key_of(&["content", &text]))
}

/// A value that a model wrote as JSON or as text with JSON in it; both are common.
pub(super) fn value_of(value: Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        value => value,
    }
}

/// A task, or the reason for none.
fn task_or_nothing(line: Map<String, Value>) -> Map<String, Value> {
    let got = line.get("type").is_some_and(|it| it == "task");
    let mut line = if got { task(line) } else { line };
    line.insert("got".to_owned(), got.into());
    line
}

fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(members) => Some(members),
        _ => None,
    }
}

fn first(answer: &Answer) -> Value {
    answer.lines.first().cloned().unwrap_or_default()
}

fn first_line(answer: &Answer) -> Option<Map<String, Value>> {
    object(first(answer))
}
