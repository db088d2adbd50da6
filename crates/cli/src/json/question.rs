//! Questions to people.

use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::plan::{OnTimeout, QuestionBody, QuestionSubject};
use plan_ledger::{AttemptToken, ContentHash};

use super::time::TimeJson;

/// A question.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct QuestionJson {
    /// The time until which it can be answered.
    deadline: Option<TimeJson>,
    /// What happens if no answer arrives in time.
    on_timeout: Option<TimeoutJson>,
    /// The possible answers.
    options: Vec<String>,
    /// The hash of what is shown with the question.
    shown: ContentHash,
    /// What the question is about.
    subject: SubjectJson,
    /// The text of the question.
    text: String,
    /// The person who is asked; null for any person.
    to: Option<String>,
}

impl From<&QuestionBody> for QuestionJson {
    fn from(asked: &QuestionBody) -> Self {
        let QuestionBody { subject, text, shown, options, to, deadline, on_timeout } = asked;
        Self {
            deadline: deadline.map(TimeJson::from),
            on_timeout: on_timeout.as_ref().map(TimeoutJson::from),
            options: options.clone(),
            shown: *shown,
            subject: subject.into(),
            text: text.clone(),
            to: to.clone(),
        }
    }
}

/// What a question is about.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum SubjectJson {
    /// Whether to dispatch the step.
    Gate,
    /// What to do about a failed attempt.
    Failure {
        /// The attempt.
        token: AttemptToken,
    },
    /// Whether to activate a version of the plan.
    Plan {
        /// The version.
        version: u32,
    },
    /// Whether to raise the budget.
    Budget,
    /// What to do about a broken barrier.
    Barrier {
        /// Its id.
        barrier: String,
    },
}

impl From<&QuestionSubject> for SubjectJson {
    fn from(subject: &QuestionSubject) -> Self {
        match subject {
            QuestionSubject::Gate => Self::Gate,
            QuestionSubject::Failure { token } => Self::Failure { token: *token },
            QuestionSubject::Plan { version } => Self::Plan { version: *version },
            QuestionSubject::Budget => Self::Budget,
            QuestionSubject::Barrier { barrier: id } => Self::Barrier { barrier: id.clone() },
        }
    }
}

/// What happens if no answer arrives in time.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum TimeoutJson {
    /// Another person is asked.
    EscalateTo {
        /// The person.
        who: String,
    },
    /// An answer is taken.
    Answer {
        /// The answer.
        answer: String,
    },
    /// The run is aborted.
    Abort,
}

impl From<&OnTimeout> for TimeoutJson {
    fn from(then: &OnTimeout) -> Self {
        match then {
            OnTimeout::EscalateTo(person) => Self::EscalateTo { who: person.clone() },
            OnTimeout::Answer(answer) => Self::Answer { answer: answer.clone() },
            OnTimeout::Abort => Self::Abort,
        }
    }
}
