//! `ledger retry`: retries failed steps, and does accepted ones again.

use std::path::Path;

use clap::Args;

use plan_ledger::State;

use crate::options::LedgerArgs;
use crate::output::{Code, Failure, option, shell_command};
use crate::requests::{RetryRequest, run_or_only};

use super::inspect::read_state;

const EXAMPLES: &str = "\
Examples:
  ledger retry build                               one step that failed
  ledger retry                                     all of them
  ledger retry my-plan build --by ana              a step of one of several runs
  ledger retry my-plan test                        one that is delayed, before its time
  ledger retry build --reason 'wrong version'      an accepted step, and its dependents

A run that failed because of them continues. The question about a failure is answered with retry.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// The step's id or number (37 or #37), after the run's name if several runs are active [default:
    /// all failed steps]
    #[arg(num_args = 0..=2, value_name = "[RUN] STEP")]
    words: Vec<String>,
    #[command(flatten)]
    request: RetryRequest,
}

pub(crate) fn retry(args: &RetryArgs) -> Result<Code, Failure> {
    let mut request = args.request.clone();
    match args.words.as_slice() {
        [run, step] => (request.run, request.step) = (run.clone().into(), Some(step.clone())),
        [word] => {
            let (dir, named) = (args.ledger.dir(), args.request.run.name());
            let (run, step) = read_state(dir, |state| step_or_run((state, dir), named, word))?;
            (request.run, request.step) = (run.into(), step);
        }
        _ => {}
    }
    args.ledger.execute(request)
}

/// A single word is a step of the run, or the name of a run.
fn step_or_run(
    (state, dir): (&State, &Path),
    named: Option<&str>,
    word: &str,
) -> Result<(String, Option<String>), Failure> {
    let run = run_or_only(state, named);
    let is_step = run.as_ref().is_ok_and(|run| run.find_step(word).is_some());
    let is_run = named.is_none() && state.runs.overviews().any(|(_, run)| run.name == word);
    match (run, is_step, is_run) {
        (Ok(run), true, true) => Err(Failure::Usage(format!(
            "`{word}` is a run, and a step of run {}\nhint: name both: `{}`, or use `{}`",
            run.name,
            shell_command("retry", dir, &[&run.name, word]),
            option("--run", word)
        ))),
        (_, false, true) => Ok((word.to_owned(), None)),
        (run, ..) => Ok((run?.name.clone(), Some(word.to_owned()))),
    }
}
