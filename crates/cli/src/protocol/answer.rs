//! The response to a request, for people and for programs. It is the same for every process that
//! executes the request.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::failure::{Code, Failure};

/// The response to a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The exit code of the process; see [`Code`].
    pub code: u8,
    /// For programs: one JSON object per line.
    pub lines: Vec<Value>,
    /// For people, on standard output, without the final line end.
    #[serde(default)]
    pub text: String,
    /// For people, on standard error, in text and JSON mode.
    #[serde(default, rename = "said")]
    pub messages: Vec<String>,
}

impl Answer {
    /// Success, as one JSON line and a text.
    #[must_use]
    pub fn success(line: Value, text: String) -> Self {
        Self { code: Code::Success.number(), lines: vec![line], text, messages: Vec::new() }
    }

    /// This response followed by another one, which determines the exit code.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.code = other.code;
        self.lines.extend(other.lines);
        self.messages.extend(other.messages);
        let texts = [self.text, other.text];
        let texts: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        self.text = texts.join("\n");
        self
    }
}

/// The error kind that asks a client to try again later.
const BUSY: &str = "busy";

impl Answer {
    /// The server has no room for another client.
    pub(crate) fn busy(clients: usize) -> Self {
        let code = Code::Locked.number();
        let message = format!("the server is busy with {clients} clients; try again");
        let line = json!({
            "type": "error", "kind": BUSY, "rejection": null, "message": message, "exit_code": code,
        });
        Self { code, lines: vec![line], text: String::new(), messages: vec![message] }
    }

    /// Whether the server had no room for this client.
    pub(crate) fn is_busy(&self) -> bool {
        self.lines.iter().any(|line| line.get("kind").is_some_and(|kind| kind == BUSY))
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self {
            code: failure.code().number(),
            lines: vec![failure.json()],
            text: String::new(),
            messages: vec![failure.to_string()],
        }
    }
}
