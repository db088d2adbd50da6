//! The run or the step that a command is about, where it is no member of a request.

use clap::Args;

use crate::requests::{RunOption, parse_name};

/// The message for a command line that names a run as an argument and as an option.
pub(crate) const RUN_TWICE: &str =
    "the run is named twice, as an argument and with `--run`\nhint: leave one of them out";

/// A run by its name, as an argument or as an option, where no name means all runs.
#[derive(Debug, Args)]
pub(crate) struct OneRunArg {
    /// Only this run [default: all]
    #[arg(id = "run_name", value_name = "RUN", value_parser = parse_name)]
    name: Option<String>,
    /// Only this run [default: all]
    #[arg(
        long = "run",
        id = "run",
        value_name = "RUN",
        env = "LEDGER_RUN",
        hide_env_values = true
    )]
    #[arg(value_parser = parse_name)]
    option: Option<String>,
}

impl OneRunArg {
    /// The name, if one is given.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref().or(self.option.as_deref())
    }
}

/// A step of a run, as the last of one or two arguments.
#[derive(Debug, Args)]
pub(crate) struct StepArg {
    /// The step's id or number (37 or #37), after the run's name if several runs are active
    #[arg(required = true, num_args = 1..=2, value_name = "[RUN] STEP")]
    words: Vec<String>,
    #[command(flatten)]
    option: RunOption,
}

impl StepArg {
    /// The run's name, if one is given.
    pub(crate) fn run(&self) -> Option<&str> {
        match self.words.as_slice() {
            [run, _] => Some(run),
            _ => self.option.name(),
        }
    }

    pub(crate) fn step(&self) -> &str {
        self.words.last().map_or("", String::as_str)
    }
}
