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
mod value;

#[cfg(feature = "schema")]
pub use event::{EventSchema, event_definition};
pub use failure::FailureJson;
pub use flight::FlightJson;
pub use reason::StepReasonsJson;
pub use replan::ReplanRequestJson;
pub use run_status::{RunStatusJson, status_word};
pub use stale_files::StaleFilesJson;
pub use state::{QuestionLine, StepStateLine};
pub use value::AnyJson;
