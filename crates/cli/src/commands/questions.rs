//! What waits for somebody, and the one command by which they answer.
//!
//! Invariants:
//! - Looking takes no lock. An answer is bound to what its question showed.

use clap::Args;
use serde_json::{Value, json};

use crate::runner::{Pending, pending};
use crate::server::Act;
use plan_ledger::plan::{Run, State};

use super::acting::Where;
use super::exit::{Code, Failure};
use super::{answer_with, json, print, text};

const QUESTIONS_EXAMPLES: &str = "\
Examples:
  ledger questions                                 in .ledger
  ledger questions --ledger other --json

It takes no lock, and may be used while a run goes on.";

/// `ledger questions`.
#[derive(Debug, Args)]
#[command(after_help = QUESTIONS_EXAMPLES)]
pub(super) struct QuestionsArgs {
    #[command(flatten)]
    place: Where,
}

const ANSWER_EXAMPLES: &str = "\
Examples:
  ledger answer 12 yes --by ana --note 'read it'           a question, by its number
  ledger answer my-plan deploy yes --by ana                the question about a step
  ledger answer my-plan send-mail landed --by ana          a lost attempt did it: accept the step
  ledger answer my-plan '#12' did-not-happen --by ana      it did not: deal the step again
  ledger answer my-plan build retry --by ana               a failure that the plan leaves to others

`ledger questions` lists what is open, and what may be answered.";

/// `ledger answer`.
#[derive(Debug, Args)]
#[command(
    after_help = ANSWER_EXAMPLES,
    override_usage = "ledger answer [OPTIONS] --by <WHO> <QUESTION> <ANSWER>\n       \
                      ledger answer [OPTIONS] --by <WHO> <RUN> <STEP> <ANSWER>"
)]
pub(super) struct AnswerArgs {
    #[command(flatten)]
    place: Where,
    /// A question's number, or a run's name and a step's id or number (#37); then the answer
    #[arg(required = true, num_args = 2..=3, value_name = "WHAT ANSWER")]
    words: Vec<String>,
    /// Who says so
    #[arg(long, value_name = "WHO")]
    by: String,
    /// Why, or what was seen
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// Hash of what was shown, or how it begins: an answer to anything else is refused
    #[arg(long, value_name = "HASH")]
    shown: Option<String>,
}

/// `ledger questions`.
pub(super) fn questions(args: &QuestionsArgs) -> Result<Code, Failure> {
    args.place.look(|state| list(args, state))
}

fn list(args: &QuestionsArgs, state: &State) -> Result<Code, Failure> {
    let open = state.runs.open().filter_map(|id| state.runs.get(&id));
    let items: Vec<(&Run, Pending)> =
        open.flat_map(|run| for_people(run).map(move |item| (run, item))).collect();
    if args.place.json {
        for (run, item) in &items {
            print(&format!("{}\n", item_json(run, item)))?;
        }
        print(&format!("{}\n", json!({ "type": "summary", "waiting": items.len() })))?;
    } else if items.is_empty() {
        answer_with("nothing waits for anybody\n")?;
    }
    for (run, item) in items.iter().filter(|_| !args.place.json) {
        let text = text::pending(item, &run.name, &args.place.ledger);
        answer_with(&format!("run {}: {text}\n", run.name))?;
    }
    Ok(Code::Fine)
}

/// What a run waits for that somebody can do something about.
fn for_people(run: &Run) -> impl Iterator<Item = Pending> {
    let is_open = |item: &Pending| match item {
        Pending::Held { .. } | Pending::Caps { .. } | Pending::Blocked { .. } => false,
        // A run that has not come so far is not asked about.
        Pending::PlanVerdicts { criteria } => !criteria.is_empty(),
        Pending::Verdicts { .. }
        | Pending::Question { .. }
        | Pending::Review { .. }
        | Pending::Paused { .. }
        | Pending::Replan { .. }
        | Pending::Decision { .. }
        | Pending::Doubt { .. } => true,
    };
    pending(run).into_iter().filter(is_open)
}

fn item_json(run: &Run, item: &Pending) -> Value {
    let mut value = json::pending(item);
    if let Some(object) = value.as_object_mut() {
        object.insert("type".to_owned(), json!("waiting"));
        object.insert("run".to_owned(), json!(run.name));
    }
    value
}

/// `ledger answer`.
pub(super) fn answer(args: &AnswerArgs) -> Result<Code, Failure> {
    let (by, note, shown) = (args.by.clone(), args.note.clone(), args.shown.clone());
    let act = match args.words.as_slice() {
        [question, answer] => {
            let (question, answer) = (question_number(question)?, answer.clone());
            Act::Answer { question, answer, by, note, shown }
        }
        [run, step, answer] => {
            let (run, step, answer) = (run.clone(), step.clone(), answer.clone());
            Act::AnswerStep { run, step, answer, by, note, shown }
        }
        _ => return Err(Failure::Usage("expected a question or a step, and an answer".to_owned())),
    };
    args.place.act(&act)
}

/// A question's number: `12` or `@12`.
fn question_number(word: &str) -> Result<u64, Failure> {
    word.strip_prefix('@').unwrap_or(word).parse().map_err(|_| {
        Failure::Usage(format!(
            "`{word}` is no question's number; `ledger questions` lists them. About a step: give \
             run, step and answer"
        ))
    })
}
