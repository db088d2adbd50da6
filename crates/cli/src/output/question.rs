//! Questions of a run to a person, as text.

use plan_ledger::plan::QuestionSubject;

use super::render::escape_control;

pub(crate) fn question_subject_text(subject: &QuestionSubject) -> String {
    escape_control(&plan_ledger_views::question_subject_text(subject))
}
