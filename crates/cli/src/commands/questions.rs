//! `ledger questions`: the items that wait for a person, and the commands that resolve them.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::plan::Route;
use plan_ledger::{Run, State};

use crate::options::LedgerArgs;
use crate::output::{Code, Failure, PendingJson, pending_text, print_line, print_text};
use crate::runner::{Pending, pending};

use super::read_state::read_state;

const EXAMPLES: &str = "\
Examples:
  ledger questions                                 in .ledger
  ledger questions --ledger other --json

It takes no lock, and may be used while a run is active.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QuestionsArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
}

pub(crate) fn questions(args: &QuestionsArgs) -> Result<Code, Failure> {
    read_state(args.ledger.dir(), |state| list(args, state))
}

fn list(args: &QuestionsArgs, state: &State) -> Result<Code, Failure> {
    let open = state.runs.open().filter_map(|id| state.runs.get(&id));
    let items: Vec<(&Run, Pending)> = open
        .flat_map(|run| {
            let items = pending(run, &Route::default()).into_iter();
            items.filter(Pending::needs_person).map(move |item| (run, item))
        })
        .collect();
    if args.ledger.json {
        for (run, item) in &items {
            print_line(&WaitingItemLine { item: item.into(), run: &run.name })?;
        }
        print_line(&QuestionsLine { waiting: items.len() })?;
        return Ok(Code::Success);
    }
    if items.is_empty() {
        print_text("nothing waits for a person\n")?;
    }
    for (run, item) in &items {
        let text = pending_text(item, &run.name, args.ledger.dir());
        print_text(&format!("run {}: {text}\n", run.name))?;
    }
    Ok(Code::Success)
}

/// An item that waits for a person.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitingItemLine<'a> {
    #[serde(flatten)]
    item: PendingJson,
    /// The run.
    run: &'a str,
}

/// All items, the last line.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QuestionsLine {
    /// The number of items that wait for a person.
    waiting: usize,
}
