//! Records of a log: what they hold, as one line of text and as JSON.

mod content;
mod decisions;
mod text;
mod view;

pub use content::{
    BatchKeyJson, FrameFieldJson, RecordContent, RecordLine, RecordStatusWord, content_text,
    kind_name, meaning,
};
pub use decisions::{AnswerOfAnother, answered, asked_person, decided_by};
pub use text::{
    basis_text, blob_text, cost_correction_text, decision_text, event_subject, event_text,
    fork_text, note_text, outcome_text, step_event_text, verdict_text,
};
pub use view::{RecordRow, frame_document, record_document};
