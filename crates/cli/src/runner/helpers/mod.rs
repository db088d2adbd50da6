//! Helpers: commands that judge text criteria or write plans, their input and output, and the files that they must not
//! change.

pub(crate) mod approved_commands;
pub(crate) mod command_gate;
pub(crate) mod commands;
pub(crate) mod folder_state;
pub(crate) mod judge;
pub(crate) mod planner_request;
