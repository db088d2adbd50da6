//! The conditions for checking the reports of other processes: an approval of the commands by a
//! person, and a folder; the mark that shows that a judge is at work; and the reason why none
//! checks a step.

mod mark;
mod unchecked;
mod work_folder;

pub(crate) use mark::{checks_folder, has_judge, judge_mark, step_lock};
pub(crate) use unchecked::{Unchecked, WorkElsewhere, no_judge_text, unchecked_text};
pub(crate) use work_folder::check_folder;
