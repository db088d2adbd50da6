//! How a run stands, and how far it is.

mod json;
mod progress;
mod run;

pub use json::{ActivityJson, RunActivityJson};
pub use progress::RunProgress;
pub use run::{Activity, RunActivity, recorded_status, recorded_text, start_or_resume};
