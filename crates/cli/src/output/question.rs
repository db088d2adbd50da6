//! Questions of a run to a person, as text.

use plan_ledger::plan::QuestionSubject;

use super::render::escape_control;

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
