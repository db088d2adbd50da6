//! Questions of a run to a person, as JSON and as text.

use plan_ledger::internals::plan::{OnTimeout, QuestionBody, QuestionSubject};

use crate::json::{QuestionJson, SubjectJson, TimeoutJson};

use super::escape::escape_control;

/// A question.
pub(crate) fn question_json(asked: &QuestionBody) -> QuestionJson {
    asked.into()
}

/// The subject of a question.
pub(crate) fn question_subject_json(subject: &QuestionSubject) -> SubjectJson {
    subject.into()
}

/// The subject of a question.
pub(crate) fn question_subject_text(subject: &QuestionSubject) -> String {
    match subject {
        QuestionSubject::Gate => "whether to dispatch it".to_owned(),
        QuestionSubject::Failure { token } => format!("what to do about the failure of @{token}"),
        QuestionSubject::Plan { version } => format!("whether to activate version {version}"),
        QuestionSubject::Budget => "whether to raise the budget".to_owned(),
        QuestionSubject::Barrier { barrier: id } => {
            format!("what to do about barrier {}", escape_control(id))
        }
    }
}

/// The action after a question's deadline has passed without an answer.
pub(crate) fn question_timeout_json(then: &OnTimeout) -> TimeoutJson {
    then.into()
}
