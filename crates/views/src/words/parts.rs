//! Words for parts of a run that several views name.

use plan_ledger::plan::{PauseCause, QuestionSubject};

/// The pause of a run with its cause: `paused by ana`, `paused: its token budget is exhausted`.
#[must_use]
pub fn paused_text(cause: &PauseCause) -> String {
    match cause {
        PauseCause::Person { by } => format!("paused by {by}"),
        PauseCause::RunBudget { part } => {
            format!("paused: its {} budget is exhausted", part.adjective())
        }
        PauseCause::LedgerBudget { part } => {
            format!("paused: the ledger's {} budget is exhausted", part.adjective())
        }
        PauseCause::StepLimit { step } => {
            format!("paused: an attempt of step #{step} cost more than allowed")
        }
        PauseCause::Runner { reason } => format!("paused by its runner: {reason}"),
    }
}

/// The subject of a question, for people.
#[must_use]
pub fn question_subject_text(subject: &QuestionSubject) -> String {
    match subject {
        QuestionSubject::Gate => "whether to dispatch it".to_owned(),
        QuestionSubject::Failure { token } => format!("what to do about the failure of @{token}"),
        QuestionSubject::Plan { version } => format!("whether to activate version {version}"),
        QuestionSubject::Budget => "whether to raise the budget".to_owned(),
        QuestionSubject::Barrier { barrier: id } => format!("what to do about barrier {id}"),
    }
}

/// A count with its verb: `1 step is`, `2 steps are`.
pub(crate) fn counted_of(number: u32, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// A variant's name as lower-case words: `LeaseExpired` is `lease expired`.
#[must_use]
pub fn variant_words(variant: &impl std::fmt::Debug, joint: char) -> String {
    let mut out = String::new();
    for c in format!("{variant:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push(joint);
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
