//! Reads the JSON lines of responses.

use serde_json::Value;

use crate::output::{Code, Failure};
use crate::protocol::Answer;

/// The error in an answer, or the failure of the request, with its JSON line.
pub(super) fn error_of(outcome: &Result<Answer, Failure>) -> Option<(Code, Value)> {
    match outcome {
        Ok(answer) => {
            let line = answer.lines.first().filter(|line| is_type(line, "error"))?;
            Some((Code::of(answer.code), line.clone()))
        }
        Err(failure) => Some((failure.code(), failure.json())),
    }
}

/// Whether a response is final: the request was executed, or rejected by the ledger's rules.
pub(super) fn is_final(answer: &Answer) -> bool {
    let is_error = answer.lines.first().is_some_and(|line| is_type(line, "error"));
    !is_error || Code::of(answer.code) == Code::Rejected
}

/// Whether a receipt was recorded in time.
pub(super) fn is_recorded(answer: &Answer) -> bool {
    answer.lines.iter().any(|line| is_type(line, "receipt"))
}

/// The task in a response.
pub(super) fn task_of(answer: &Answer) -> Option<Value> {
    answer.lines.iter().find(|line| is_type(line, "task")).cloned()
}

/// Whether a step has criteria that are commands.
pub(super) fn has_command_criteria(task: &Value) -> bool {
    let criteria = task.pointer("/step/acceptance").and_then(Value::as_array);
    criteria.into_iter().flatten().any(|criterion| criterion.get("command").is_some())
}

/// Whether no attempt of the run is in flight.
pub(super) fn is_idle(answer: &Answer) -> bool {
    answer.lines.iter().any(|line| line.get("in_flight").is_some_and(|count| count == 0))
}

/// An answer without its `nothing` line and its messages.
pub(super) fn without_nothing(mut answer: Answer) -> Answer {
    answer.lines.retain(|line| !is_type(line, "nothing"));
    answer.messages.clear();
    answer
}

/// An answer without the message that says why nothing can be dispatched.
pub(super) fn without_reason(mut answer: Answer) -> Answer {
    answer.messages.retain(|message| !message.contains("nothing to dispatch: "));
    answer
}

/// The last run status in an answer.
pub(super) fn run_status(answer: &Answer) -> Option<String> {
    answer.lines.iter().rev().find_map(|line| {
        let status = line.get("run_status");
        let status = status.or_else(|| line.get("status").filter(|_| is_type(line, "nothing")));
        status?.as_str().map(str::to_owned)
    })
}

/// A text in the first line of an answer.
pub(super) fn text_in(answer: &Answer, member: &str) -> Option<String> {
    answer.lines.first()?.get(member)?.as_str().map(str::to_owned)
}

fn is_type(line: &Value, tag: &str) -> bool {
    line.get("type").is_some_and(|it| it == tag)
}
