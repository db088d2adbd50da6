//! Questions to people: about a gate, a failure, a plan version, a budget or a barrier.
//!
//! Invariants:
//! - The id of a question is the sequence number of the record that asked it.
//! - An answer names the same hash as the question, so it is bound to the content that its author
//!   saw.
//! - A question stays open until it is answered or withdrawn, times out, or its subject no longer
//!   exists. No process has to wait for it.

use serde::{Deserialize, Serialize, Serializer};

use super::json_form::{json_form, tagged};
use crate::plan::model::step::OnTimeout;
use crate::plan::value::ids::{AttemptToken, ContentHash, StepNumber, Timestamp};
use crate::plan::value::text::Text;
use crate::plan::value::time;
#[cfg(feature = "schema")]
use crate::plan::value::time::UtcTime;

/// The `by` of an answer that is given by a timeout.
pub(crate) const TIMEOUT: &str = "policy:timeout";

/// Id of a question: the sequence number of the record that asked it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionId(pub u64);

/// The content of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionBody {
    /// The subject of the question.
    pub subject: QuestionSubject,
    /// Text of the question.
    pub text: Text,
    /// Hash of the content shown with the question: the step's work, or the plan.
    pub shown: ContentHash,
    /// The valid answers.
    pub options: Vec<String>,
    /// Addressee, if any.
    pub to: Option<String>,
    /// Deadline, if any.
    #[serde(serialize_with = "time::serialize")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<UtcTime>"))]
    pub deadline: Option<Timestamp>,
    /// The action at the deadline.
    #[serde(serialize_with = "timeout")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeoutAction<'static>>"))]
    pub on_timeout: Option<OnTimeout>,
}

/// The subject of a question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(tag = "is"))]
pub enum QuestionSubject {
    /// Whether a step may be dispatched.
    Gate,
    /// How to continue after a failed attempt.
    Failure {
        /// The attempt.
        token: AttemptToken,
    },
    /// Whether a plan version may become active.
    Plan {
        /// The version.
        version: u32,
    },
    /// Whether a run may spend more.
    Budget,
    /// How to continue after a barrier broke.
    Barrier {
        /// Id of the barrier.
        barrier: String,
    },
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionAnswer {
    /// The question.
    pub question: QuestionId,
    /// One of the options of the question.
    pub answer: String,
    /// Author of the answer.
    pub by: String,
    /// Note of the author.
    pub note: String,
    /// Hash of the content that the author saw.
    pub shown: ContentHash,
}

/// A question timed out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionExpiry {
    /// The question.
    pub question: QuestionId,
    /// The action that the plan specifies. The consequence is a separate event: another question,
    /// an answer, or the end of the run.
    #[serde(serialize_with = "timeout")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<TimeoutAction<'static>>"))]
    pub then: Option<OnTimeout>,
}

/// An open question in the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The step, if the question is about one.
    pub step: Option<StepNumber>,
    /// When it was asked.
    pub time: Timestamp,
    /// Content of the question.
    pub asked: QuestionBody,
}

json_form! {
    QuestionSubject => tagged,
}

/// The JSON form of the action when a question times out.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum TimeoutAction<'a> {
    /// Another person is asked.
    EscalateTo {
        /// The person.
        who: &'a str,
    },
    /// This answer is used.
    Answer {
        /// The answer.
        answer: &'a str,
    },
    /// The run is aborted.
    Abort,
}

impl<'a> From<&'a OnTimeout> for TimeoutAction<'a> {
    fn from(action: &'a OnTimeout) -> Self {
        match action {
            OnTimeout::EscalateTo(who) => Self::EscalateTo { who },
            OnTimeout::Answer(answer) => Self::Answer { answer },
            OnTimeout::Abort => Self::Abort,
        }
    }
}

#[expect(clippy::ref_option, reason = "serde passes references")]
fn timeout<S: Serializer>(action: &Option<OnTimeout>, serializer: S) -> Result<S::Ok, S::Error> {
    if !serializer.is_human_readable() {
        return action.serialize(serializer);
    }
    action.as_ref().map(TimeoutAction::from).serialize(serializer)
}

/// Answer: approve.
pub const YES: &str = "yes";

/// Answer: refuse.
pub const NO: &str = "no";

/// Option of a gate that takes any JSON value as the answer; other text is a string.
pub const VALUE: &str = "value";

/// Answer to a failure: try again.
pub const RETRY: &str = "retry";

/// Answer to a failure or a gate: skip the step.
pub const SKIP: &str = "skip";

/// Answer to a failure or a broken barrier: fail.
pub const FAIL: &str = "fail";

/// Answer to a failure or a budget: request a new plan.
pub const REPLAN: &str = "replan";

/// Answer to an exhausted budget: raise it. It is recorded when the budget is changed and covers more.
pub const RAISE: &str = "raise";

/// Recorded for a question that was withdrawn.
pub const WITHDRAWN: &str = "withdrawn";

/// Answer: abort the run.
pub const ABORT: &str = "abort";

/// Answer to a broken barrier: keep waiting.
pub const WAIT: &str = "wait";

/// Answer to a broken barrier: release it.
pub const RELEASE: &str = "release";
