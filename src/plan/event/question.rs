//! Questions to people: about a step, a plan version, a budget, a barrier.
//!
//! Invariants:
//! - A question's id is the sequence number of the record that asked it.
//! - An answer is bound to what was shown: it names the same hash as the question.
//! - A question is open until it is answered, expires, or what it is about is gone. Waiting needs
//!   no process.

use serde::{Deserialize, Serialize};

use crate::plan::model::step::OnTimeout;
use crate::plan::value::ids::{AttemptToken, ContentHash, Micros, StepNumber};

/// Who answers where nobody did in time.
pub(crate) const TIMEOUT: &str = "policy:timeout";

/// A question: the sequence number of the record that asked it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QuestionId(pub u64);

/// Somebody was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// What about.
    pub subject: Subject,
    /// The question.
    pub text: String,
    /// Hash of what they are shown: of the step's work, or of the plan.
    pub shown: ContentHash,
    /// Answers that mean something; the first is a yes.
    pub options: Vec<String>,
    /// Who, where it is known.
    pub to: Option<String>,
    /// Until when.
    pub deadline: Option<Micros>,
    /// What happens then.
    pub on_timeout: Option<OnTimeout>,
}

/// What a question is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Subject {
    /// Whether a step may be dealt.
    Gate,
    /// What is done about a failed attempt.
    Failure(AttemptToken),
    /// Whether a plan version may become active.
    Plan(u32),
    /// Whether a run may spend more.
    Budget,
    /// What is done about a barrier that can no longer be met.
    Barrier(String),
}

/// A question was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// Which.
    pub question: QuestionId,
    /// One of its options.
    pub answer: String,
    /// Who answered.
    pub by: String,
    /// Why, in their words.
    pub note: String,
    /// Hash of what they were shown.
    pub shown: ContentHash,
}

/// Nobody answered in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expired {
    /// Which question.
    pub question: QuestionId,
    /// What the plan says to do then, if anything. What follows from it are events of their own:
    /// another question, an answer, the end of the run.
    pub then: Option<OnTimeout>,
}

/// An open question, as the state holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The step that it is about, if it is about one.
    pub step: Option<StepNumber>,
    /// When it was asked.
    pub time: Micros,
    /// What was asked.
    pub asked: Asked,
}

/// The first option of a question that asks for a yes.
pub const YES: &str = "yes";

/// The answer that refuses.
pub const NO: &str = "no";

/// The answer to a failed attempt: try it again.
pub const RETRY: &str = "retry";

/// The answer to a failed attempt, or a closed gate: go on without the step.
pub const SKIP: &str = "skip";

/// The answer to a failed attempt: the step has failed for good.
pub const FAIL: &str = "fail";

/// The answer to a failed attempt: another plan is needed.
pub const REPLAN: &str = "replan";

/// The answer to a question that no longer matters.
pub const WITHDRAWN: &str = "withdrawn";

/// The answer that ends the run.
pub const ABORT: &str = "abort";

/// The answer to a broken barrier: go on waiting.
pub const WAIT: &str = "wait";

/// The answer to a broken barrier: let what waits for it go on.
pub const RELEASE: &str = "release";
