//! The run or the step that a command is about, where it is no member of a request. The argument RUN and the
//! option `--run` are those of `RunArg` and `RunOption`, also where no name has another meaning.

use clap::{Arg, Args};

use crate::requests::{RunArg, RunOption};

/// The message for a command line that names a run as an argument and as an option.
pub(crate) const RUN_TWICE: &str =
    "the run is named twice, as an argument and with `--run`\nhint: leave one of them out";

/// A run where no name means all runs.
#[derive(Debug, Args)]
#[expect(clippy::duplicated_attributes, reason = "the option has the help of the argument")]
#[command(mut_arg("run_name", of_all), mut_arg("run", of_all))]
pub(crate) struct OneRunArg {
    #[command(flatten)]
    run: RunArg,
}

fn of_all(run: Arg) -> Arg {
    run.help("Only this run [default: all]")
}

/// The option for commands that are about the whole ledger unless their command line names a run.
pub(crate) fn without_environment(run: Arg) -> Arg {
    run.env(None::<&'static str>)
}

impl OneRunArg {
    /// The name, if one is given.
    pub(crate) fn name(&self) -> Option<&str> {
        self.run.name()
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
