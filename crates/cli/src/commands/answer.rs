//! `ledger answer`: answers a question, resolves a failure, or reports the outcome of a lost
//! attempt.
//!
//! An answer is bound to the hash that its question showed.

use clap::Args;

use crate::options::{ByOption, LedgerArgs, RunOption};
use crate::output::{Code, Failure};
use crate::requests::{AnswerRequest, AnswerStepRequest, Request};

use super::inspect::run_name;

const EXAMPLES: &str = "\
Examples:
  ledger answer 12 yes --by ana --note 'read it'           a question, by its number
  ledger answer deploy yes --by ana                        the question about a step
  ledger answer my-plan send-mail landed --by ana          a lost attempt did it: accept the step
  ledger answer my-plan '#12' did-not-happen --by ana      it did not: dispatch the step again
  ledger answer my-plan build retry --by ana               a failure that the plan does not resolve

`ledger questions` lists what is open, and the possible answers.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "ledger answer [OPTIONS] <QUESTION> <ANSWER>\n       \
                      ledger answer [OPTIONS] [RUN] <STEP> <ANSWER>"
)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// A question's number (12), or a step's id or number (#37), after the run's name if several runs
    /// are active; then the answer
    #[arg(required = true, num_args = 2..=3, value_name = "WHAT ANSWER")]
    words: Vec<String>,
    #[command(flatten)]
    run: RunOption,
    #[command(flatten)]
    author: ByOption,
    /// The reason, or your observation
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// The hash that the question showed, or a prefix of it: if it has changed, the answer is
    /// rejected
    #[arg(long, value_name = "HASH")]
    shown: Option<String>,
}

pub(crate) fn answer(args: &AnswerArgs) -> Result<Code, Failure> {
    let (by, note, shown) = (args.author.by.clone(), args.note.clone(), args.shown.clone());
    let request: Request = match args.words.as_slice() {
        [what, answer] => match question_number(what) {
            Some(question) => {
                AnswerRequest { question, answer: answer.clone(), by, note, shown }.into()
            }
            None => {
                let run = run_name(&args.ledger, args.run.run.as_deref())?;
                let (step, answer) = (what.clone(), answer.clone());
                AnswerStepRequest { run, step, answer, by, note, shown }.into()
            }
        },
        [run, step, answer] => {
            let (run, step, answer) = (run.clone(), step.clone(), answer.clone());
            AnswerStepRequest { run, step, answer, by, note, shown }.into()
        }
        _ => return Err(Failure::Usage("expected a question or a step, and an answer".to_owned())),
    };
    args.ledger.execute(request)
}

/// A question's number: `12` or `@12`. Any other word is a step.
fn question_number(word: &str) -> Option<u64> {
    word.strip_prefix('@').unwrap_or(word).parse().ok()
}
