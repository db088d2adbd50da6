//! Names, amounts, times and statuses as people read them.

mod amounts;
mod parts;
mod phrase;
mod run;
mod status;
mod step_name;
mod times;
mod worker_kind;

pub use amounts::{cost_text, count, counted, hex, limits_text, money_text, size};
pub(crate) use parts::counted_of;
pub use parts::{paused_text, question_subject_text, variant_words};
pub use phrase::phrase;
pub(crate) use phrase::word;
pub use run::{progress_text, spent_text};
pub use status::{barrier_paint, barrier_word, legend, run_status_text, status_mark, status_paint};
pub use step_name::{StepName, step_name, step_title, text_of, title_line};
pub use times::{moment, seconds, span};
pub use worker_kind::WorkerKind;
