//! How a run stands, and how far it is.

mod progress;
mod run;

pub use progress::RunProgress;
pub use run::{Activity, RunActivity, start_or_resume};
