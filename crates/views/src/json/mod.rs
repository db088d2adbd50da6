//! The parts of JSON that several views share.

#[cfg(feature = "schema")]
mod event;
mod failure;
mod flight;
mod reason;
mod replan;
mod run_status;
mod stale_files;
mod state;
mod time;
mod value;

#[cfg(feature = "schema")]
pub use event::{EventSchema, event_definition};
pub use failure::FailureJson;
pub use flight::FlightJson;
pub use reason::StepReasonsJson;
pub use replan::ReplanRequestJson;
pub use run_status::{RunStatusJson, status_word};
pub use stale_files::StaleFilesJson;
pub use state::{OpenQuestionJson, QuestionLine, StepStateLine};
pub use time::TimeJson;
pub(crate) use time::time_json;
pub use value::AnyJson;
