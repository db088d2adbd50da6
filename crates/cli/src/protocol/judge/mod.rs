//! What a judge needs to check what others report: an approval of the commands, by a person; and the mark that says
//! that one is at work.

mod approval;
mod mark;

pub(crate) use approval::{commands_of, is_unapproved, unapproved_commands};
pub(crate) use mark::{
    checks_folder, has_judge, judge_mark, no_judge_text, step_lock, unchecked_text,
};
