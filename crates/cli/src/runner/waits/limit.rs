//! Usage limits: reads from the last output of a failed attempt when another one may succeed.
//!
//! Structured signs come first: JSON events and exit statuses of agent hosts. Without them the last lines are compared
//! with the sentences that the hosts print. Only the attempt's own last message counts, because code and texts that an
//! agent reads contain the same words.

use jiff::{Timestamp, Zoned};

use super::last_message::{LastMessage, last_message};
use super::sentence::without_escapes;
use super::{moment, sentence};

/// The exit status of the Gemini CLI for status 429, modulo 256.
const EXIT_TOO_MANY_REQUESTS: i32 = 173;

/// The end of the output of a failed attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastOutput<'a> {
    /// The exit status, if the worker exited.
    pub(crate) code: Option<i32>,
    /// The end of standard output.
    pub(crate) out: &'a str,
    /// The end of standard error.
    pub(crate) err: &'a str,
    /// When it was printed, in the machine's zone.
    pub(crate) printed: &'a Zoned,
}

/// A limit that an attempt met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) ends: LimitEnd,
    /// The text of the worker; empty if there is only a number.
    pub(crate) sentence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitEnd {
    /// At this time of the wall clock.
    At(Timestamp),
    /// At this time: the worker named a duration.
    After(Timestamp),
    /// A time that the worker did not name ends it.
    Later,
    /// No time ends it: a person must pay or allow something.
    Person,
}

impl LastOutput<'_> {
    /// The limit that the attempt met, if it met one.
    pub(crate) fn limit(self) -> Option<Limit> {
        let structured = last_message(self.out).or_else(|| last_message(self.err));
        let found = match &structured {
            Some(message) => self.limit_of(message),
            None => [self.err, self.out].into_iter().find_map(|text| limit_in(text, self.printed)),
        };
        let is_coded = self.code == Some(EXIT_TOO_MANY_REQUESTS);
        let sentence = structured.map(|message| message.text).unwrap_or_default();
        found.or_else(|| is_coded.then_some(Limit { ends: LimitEnd::Later, sentence }))
    }

    fn limit_of(self, message: &LastMessage) -> Option<Limit> {
        let said = limit_in(&message.text, self.printed);
        if said.is_none() && !message.is_limit {
            return None;
        }
        let ends = match (message.resets_at, said) {
            (Some(time), _) if time > self.printed.timestamp() => LimitEnd::At(time),
            (_, Some(said)) => said.ends,
            (_, None) => end_in(&message.text, self.printed).unwrap_or(LimitEnd::Later),
        };
        Some(Limit { ends, sentence: message.text.clone() })
    }
}

/// The last message about a failure in the JSON of an agent.
pub(crate) fn message_in(stream: &str) -> Option<String> {
    last_message(stream).map(|message| message.text).filter(|text| !text.is_empty())
}

/// The limit that the last lines of a text state.
pub(crate) fn limit_in(text: &str, printed: &Zoned) -> Option<Limit> {
    let sentence = sentence::last_sentence(&without_escapes(text))?;
    let ends = match end_in(&sentence, printed) {
        Some(end) => end,
        None if sentence::needs_person(&sentence) => LimitEnd::Person,
        None => LimitEnd::Later,
    };
    Some(Limit { ends, sentence })
}

/// The end that a sentence names.
fn end_in(sentence: &str, printed: &Zoned) -> Option<LimitEnd> {
    let found = moment::time_in(&sentence::straight(sentence), printed)?;
    Some(if found.is_delay { LimitEnd::After(found.time) } else { LimitEnd::At(found.time) })
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
