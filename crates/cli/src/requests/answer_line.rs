//! A line of an answer, for programs and for people.

use std::fmt;

use serde::de::DeserializeOwned;

use crate::json::{JsonLine, line_value};
use crate::protocol::{Answer, Code};

/// A line of an answer. Its fields are the members of the line; its text is for people.
pub(crate) trait AnswerLine: JsonLine + DeserializeOwned + fmt::Display {
    /// The member `type`.
    const WORD: &'static str;

    /// The exit code.
    fn code(&self) -> Code {
        Code::Success
    }

    /// Messages for people beside the text.
    fn messages(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The answer that consists of one line.
pub(super) fn answer_of<L: AnswerLine>(line: &L) -> Answer {
    let value = line_value(line);
    let (code, messages) = (line.code().number(), line.messages());
    Answer { code, lines: vec![value], messages, acked_by: None }
}
