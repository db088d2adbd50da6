//! `ledger answer`: answers a question, resolves a failure, or reports the outcome of a lost
//! attempt; with `--all` it answers all open questions that take an answer.
//!
//! An answer is bound to the hash that its question showed.

use clap::Args;

use crate::options::LedgerArgs;
use crate::output::{Code, Failure};
use crate::requests::{AnswerAllRequest, AnswerRequest, AnswerStepRequest, BudgetParts, Request};

const EXAMPLES: &str = "\
Examples:
  ledger answer 12 yes --by ana --note 'read it'           a question, by its number
  ledger answer deploy yes --by ana                        the question about a step
  ledger answer my-plan send-mail landed --by ana          a lost attempt did it: accept the step
  ledger answer my-plan '#12' did-not-happen --by ana      it did not: dispatch the step again
  ledger answer my-plan build retry --by ana               a failure that the plan does not resolve
  ledger answer --all retry                                all open questions that take `retry`
  ledger answer --class usage-limit retry                  those about failures of a class
  ledger answer 12 raise --money 1.00                      raise the exhausted budget by $1.00

`ledger questions` lists what is open, and the possible answers.";

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "ledger answer [OPTIONS] <QUESTION> <ANSWER>\n       \
                      ledger answer [OPTIONS] [RUN] <STEP> <ANSWER>\n       \
                      ledger answer [OPTIONS] --all [RUN] <ANSWER>"
)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// A question's number (12), or a step's id or number (#37), after the run's name if several runs
    /// are active; then the answer
    #[arg(required = true, num_args = 1..=3, value_name = "WHAT ANSWER")]
    words: Vec<String>,
    /// Answer all open questions that take the answer, of a run or of all runs; versions of a plan, values, amounts and
    /// questions to another person stay open
    #[arg(long, conflicts_with = "shown")]
    all: bool,
    #[command(flatten)]
    request: AnswerAllRequest,
    /// The hash that the question showed, or a prefix of it: if it has changed, the answer is
    /// rejected
    #[arg(long, value_name = "HASH")]
    shown: Option<String>,
    #[command(flatten)]
    raise: BudgetParts,
}

pub(crate) fn answer(args: &AnswerArgs) -> Result<Code, Failure> {
    let is_to_all = args.all || args.request.class.is_some();
    args.ledger.execute(if is_to_all { to_all(args)? } else { to_one(args)? })
}

fn to_all(args: &AnswerArgs) -> Result<Request, Failure> {
    if !args.raise.is_empty() {
        return Err(Failure::Usage("an amount is given to one question: name it".to_owned()));
    }
    let mut request = args.request.clone();
    request.answer = match args.words.as_slice() {
        [answer] => answer.clone(),
        [run, answer] => {
            request.run = run.clone().into();
            answer.clone()
        }
        _ => return Err(Failure::Usage("expected an answer, after a run at most".to_owned())),
    };
    Ok(request.into())
}

fn to_one(args: &AnswerArgs) -> Result<Request, Failure> {
    let AnswerAllRequest { run, by, note, .. } = args.request.clone();
    let (shown, raise) = (args.shown.clone(), args.raise.amounts()?);
    let (run, step, answer) = match args.words.as_slice() {
        [what, answer] => match question_number(what) {
            Some(question) => {
                let answer = answer.clone();
                return Ok(AnswerRequest { question, answer, by, note, shown, raise }.into());
            }
            None => (run.name(), what, answer),
        },
        [run, step, answer] => (Some(run.as_str()), step, answer),
        _ => {
            let message = "expected a question or a step, and an answer\n\
                           hint: `ledger questions` lists the questions; `--all` answers all that take the answer";
            return Err(Failure::Usage(message.to_owned()));
        }
    };
    if !raise.is_empty() {
        let message = "an amount is given to the question about a budget: name it by its number";
        return Err(Failure::Usage(message.to_owned()));
    }
    let (run, step, answer) = (run.map(str::to_owned).into(), step.clone(), answer.clone());
    Ok(AnswerStepRequest { run, step, answer, by, note, shown }.into())
}

/// A question's number: `12` or `@12`. Any other word is a step.
fn question_number(word: &str) -> Option<u64> {
    word.strip_prefix('@').unwrap_or(word).parse().ok()
}
