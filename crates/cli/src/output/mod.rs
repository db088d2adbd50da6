//! The output of the commands: results, messages, progress bars, and files that appear only when
//! they are complete.
//!
//! Results go to standard output, everything else goes to standard error. A reader that closes
//! standard output is not an error: the command finishes its work without output. Text from plans,
//! workers and damaged files is escaped before it reaches a terminal ([`escape_control`]), so that
//! it cannot drive the terminal.
//!
//! The exit code names the class of the outcome: see [`Code`].

/// The way to continue with a damaged ledger, which its reader names.
pub(crate) const DAMAGE_HINT: &str = "restore a backup, or save what can be read with `ledger recover \
                                      --export NEW`";

mod absent_runner;
mod atomic_file;
mod export;
mod print;
mod printer;
mod progress_bar;
mod reader;
pub(crate) mod render;
mod replaced_file;
mod reporter;
mod run_json;
mod run_text;

#[cfg(any(feature = "http", feature = "mcp"))]
pub(crate) use absent_runner::absent_runners;
pub(crate) use absent_runner::print_absent_runners;
pub(crate) use atomic_file::{AtomicFile, expect_absent, output_file};
pub(crate) use export::{ExportRange, write_export};
pub(crate) use plan_ledger_views::{
    PlanDiffJson, PlanDiffLine, plan_diff_text, redone_steps, redone_text,
};
pub(crate) use print::{
    be_quiet, is_quiet, line_with_ledger, name_ledger, print_answer, print_answer_aside,
    print_error, print_json, print_line, print_message, print_note, print_raw, print_raw_to,
    print_result, print_text, wrapped_text,
};
pub(crate) use progress_bar::{LongTask, ProgressUnit, progress_bar};

pub(crate) use plan_ledger_views::{cost_text, phrase};
#[cfg(any(feature = "http", feature = "mcp"))]
pub(crate) use reader::for_agents;
pub(crate) use reader::{is_for_agent, is_for_reader, reader, write_for};
pub(crate) use render::{
    escape_control, escape_lines, is_printable, local_moment, parse_since, time_of_day,
};
pub(crate) use replaced_file::replace_file;
pub(crate) use reporter::{Audience, RunReporter};
pub(crate) use run_json::{SummaryLine, WaitsLine};
pub(crate) use run_text::{disk_text, held_text, summary_text};

pub(crate) use crate::protocol::{
    Code, Failure, code_of, option, quoted, quoted_folder, shell_command,
};
