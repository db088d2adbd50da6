//! Questions of a run to a person, as JSON and as text.

use serde_json::{Value, json};

use plan_ledger::ledger::time_text;
use plan_ledger::plan::{OnTimeout, QuestionBody, QuestionSubject, Timestamp};

use super::escape::escape_control;

/// A question, as `format/inspect-json.md` describes it.
pub(crate) fn question_json(asked: &QuestionBody) -> Value {
    let QuestionBody { subject, text, shown, options, to, deadline, on_timeout } = asked;
    json!({
        "subject": question_subject_json(subject), "text": text, "shown": shown,
        "options": options, "to": to, "deadline": deadline.map(time_json),
        "on_timeout": on_timeout.as_ref().map(question_timeout_json),
    })
}

/// The subject of a question.
pub(crate) fn question_subject_json(subject: &QuestionSubject) -> Value {
    match subject {
        QuestionSubject::Gate => json!({ "is": "gate" }),
        QuestionSubject::Failure(token) => json!({ "is": "failure", "token": token }),
        QuestionSubject::Plan(version) => json!({ "is": "plan", "version": version }),
        QuestionSubject::Budget => json!({ "is": "budget" }),
        QuestionSubject::Barrier(id) => json!({ "is": "barrier", "barrier": id }),
    }
}

/// The subject of a question.
pub(crate) fn question_subject_text(subject: &QuestionSubject) -> String {
    match subject {
        QuestionSubject::Gate => "whether to dispatch it".to_owned(),
        QuestionSubject::Failure(token) => format!("what to do about the failure of @{token}"),
        QuestionSubject::Plan(version) => format!("whether to activate version {version}"),
        QuestionSubject::Budget => "whether to raise the budget".to_owned(),
        QuestionSubject::Barrier(id) => format!("what to do about barrier {}", escape_control(id)),
    }
}

/// The action after a question's deadline has passed without an answer.
pub(crate) fn question_timeout_json(then: &OnTimeout) -> Value {
    match then {
        OnTimeout::EscalateTo(person) => json!({ "is": "escalate_to", "who": person }),
        OnTimeout::Answer(answer) => json!({ "is": "answer", "answer": answer }),
        OnTimeout::Abort => json!({ "is": "abort" }),
    }
}

fn time_json(time: Timestamp) -> Value {
    json!({ "utc": time_text(time), "micros": time })
}
