//! The answer to a request. It is the same for every process that executes the request; the process
//! that made the request renders it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::line_value;

use super::failure::{Code, ErrorLine, Failure};

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The exit code of the process; see [`Code`].
    pub code: u8,
    /// The result: one JSON object per line, each with its `type`.
    pub lines: Vec<Value>,
    /// Messages for people, beside the result.
    #[serde(default, rename = "said")]
    pub messages: Vec<String>,
    /// The place of everything that was recorded before the answer was made, if the log is in a
    /// store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_by: Option<AckedBy>,
}

/// The place of a recorded result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AckedBy {
    /// On the disk of the server. It may be in the store, or get there soon.
    Local,
    /// On the disk of the server, and in the store.
    Store,
}

impl Answer {
    /// This answer followed by another one, which determines the exit code.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.code = other.code;
        self.lines.extend(other.lines);
        self.messages.extend(other.messages);
        self.acked_by = other.acked_by.or(self.acked_by);
        self
    }
}

/// The error kind that asks a client to try again later.
const BUSY: &str = "busy";

impl Answer {
    /// The server has no room for another client.
    pub(crate) fn busy(clients: usize) -> Self {
        let message = format!("the server is busy with {clients} clients; try again");
        let line = line_value(&ErrorLine::new(BUSY, &message, Code::Locked));
        let code = Code::Locked.number();
        Self { code, lines: vec![line], messages: vec![message], acked_by: None }
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
            messages: vec![failure.to_string()],
            acked_by: None,
        }
    }
}
