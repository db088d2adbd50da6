//! `ledger drill`: crashes a run and checks that it resumes without losing or repeating work.
//!
//! Without options it kills a run with SIGKILL while a step is in flight, lets another process
//! resume it, and compares the result with a run that was not killed (`kill`). With
//! `--every-crash` it stops the runner's loop at every change that it makes to a simulated disk
//! (`every_crash`).

mod args;
mod every_crash;
pub(crate) mod every_crash_report;
mod keep;
mod kill;
pub(crate) mod kill_report;
mod last_drill;

pub(crate) use args::DrillArgs;
pub(crate) use last_drill::LastDrill;

use crate::output::{Code, Failure};

pub(crate) fn drill(args: &DrillArgs) -> Result<Code, Failure> {
    if args.every_crash { every_crash::every_crash(args) } else { kill::kill_and_resume(args) }
}
