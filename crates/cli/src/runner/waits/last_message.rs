//! The last message of an agent that prints JSON: Claude Code, Codex and the Gemini CLI.

use jiff::Timestamp;
use serde_json::Value;

/// The last message about a failure.
#[derive(Debug, Default)]
pub(super) struct LastMessage {
    pub(super) text: String,
    /// When the limit ends, by an event before the message.
    pub(super) resets_at: Option<Timestamp>,
    /// Whether a status or a code means that a limit is reached.
    pub(super) is_limit: bool,
}

/// The status of too many requests.
const TOO_MANY_REQUESTS: u64 = 429;

/// The last message in the end of a stream; `None` if it is not JSON of an agent, or the agent succeeded.
pub(super) fn last_message(stream: &str) -> Option<LastMessage> {
    let mut resets_at = None;
    let mut last = None;
    for line in stream.lines().filter(|line| line.starts_with('{')) {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        resets_at = rejection(&value).or(resets_at);
        match value.get("type").and_then(Value::as_str) {
            Some("turn.completed") => last = None,
            Some("turn.started") => (last, resets_at) = (None, None),
            _ => last = message(&value).or(last),
        }
    }
    let last = last.or_else(|| message(&last_object(stream)?));
    last.filter(|it| !it.text.is_empty() || it.is_limit)
        .map(|message| LastMessage { resets_at, ..message })
}

/// An object over several lines at the end of a stream.
fn last_object(stream: &str) -> Option<Value> {
    let start = if stream.starts_with('{') { 0 } else { stream.rfind("\n{")? };
    serde_json::from_str(stream.get(start..)?.trim()).ok()
}

/// When a limit ends that rejected the agent's request.
fn rejection(value: &Value) -> Option<Timestamp> {
    let info = value
        .get("rate_limit_info")
        .filter(|_| value.get("type").and_then(Value::as_str) == Some("rate_limit_event"))?;
    let is_rejected = info.get("status").and_then(Value::as_str) == Some("rejected");
    let seconds = info.get("resetsAt").and_then(Value::as_i64).filter(|_| is_rejected)?;
    Timestamp::from_second(seconds).ok()
}

fn message(value: &Value) -> Option<LastMessage> {
    let text = |at: &str| value.pointer(at).and_then(Value::as_str).map(str::to_owned);
    let number = |at: &str| value.pointer(at).and_then(Value::as_u64);
    let is_status = |at: &str| number(at) == Some(TOO_MANY_REQUESTS);
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
    let (text, is_limit) = match kind {
        "result" => {
            let has_failed = value.get("is_error").and_then(Value::as_bool).unwrap_or_default();
            let said = text("/result").filter(|_| has_failed).unwrap_or_default();
            (said, has_failed && is_status("/api_error_status"))
        }
        "turn.failed" => (text("/error/message")?, false),
        "error" if value.get("message").is_some() => (text("/message")?, false),
        _ => {
            let error = value.get("error").filter(|error| error.is_object())?;
            let said = error.get("message").and_then(Value::as_str).unwrap_or_default();
            (said.to_owned(), is_status("/error/code") || is_status("/error/status"))
        }
    };
    Some(LastMessage { text, is_limit, resets_at: None })
}
