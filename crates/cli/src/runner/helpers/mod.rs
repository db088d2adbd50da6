//! Helpers: commands that judge text criteria or write plans, what they read and print, and what they
//! must leave alone.

pub(crate) mod approved_commands;
pub(crate) mod command_gate;
pub(crate) mod commands;
pub(crate) mod folder_state;
pub(crate) mod judge;
pub(crate) mod planner_request;
