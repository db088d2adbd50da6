//! What an act came to: the same for people and programs, whoever carried it out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Code, Failure};

/// The answer to an act.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What the process ends with; see [`Code`].
    pub code: u8,
    /// For programs: one JSON object a line.
    pub lines: Vec<Value>,
    /// For people, on standard output; without its last line end.
    #[serde(default)]
    pub text: String,
    /// For people, on standard error, whichever form was asked for.
    #[serde(default)]
    pub said: Vec<String>,
}

impl Answer {
    /// It was done, and this is all there is to say.
    #[must_use]
    pub fn fine(line: Value, text: String) -> Self {
        Self { code: Code::Fine.number(), lines: vec![line], text, said: Vec::new() }
    }

    /// One answer behind the other. The second one's code counts.
    #[must_use]
    pub(super) fn and(mut self, other: Self) -> Self {
        self.code = other.code;
        self.lines.extend(other.lines);
        self.said.extend(other.said);
        let texts = [self.text, other.text];
        let texts: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        self.text = texts.join("\n");
        self
    }
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        Self {
            code: failure.code().number(),
            lines: vec![failure.json()],
            text: String::new(),
            said: vec![failure.to_string()],
        }
    }
}
