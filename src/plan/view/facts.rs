//! What views of other packages ask of a run.

use crate::plan::state::run::{Run, RunStatus, Timer};
use crate::plan::value::ids::{StepNumber, Timestamp};

#[doc(hidden)]
impl Run {
    /// Whether more steps will follow those of the active version.
    #[must_use]
    pub fn continues(&self) -> bool {
        let is_open = !matches!(self.status, RunStatus::Ended(_));
        is_open && self.plan().is_some_and(|plan| plan.header().continues)
    }

    /// When the first delay ends, and the step that is delayed.
    #[must_use]
    pub fn first_delay(&self) -> Option<(Timestamp, StepNumber)> {
        self.timers.iter().find_map(|(until, timer)| match timer {
            Timer::Delay(number) => Some((*until, *number)),
            _ => None,
        })
    }
}
