//! What is known of the processes of a run, as the caller found it: a view looks for no process.

mod at_work;
mod known;

pub use at_work::{AtWork, CheckAtWork, InsideWait, LeftWorker, Repeat, RepeatingAttempt};
pub use known::{
    GoneClaim, KnownRunner, RunnerPresence, RunnerWait, gone_steps, hosted_steps, steps_in_flight,
    waits_of,
};
