//! `ledger questions`: the items that wait for a person, and the commands that resolve them.

use std::path::Path;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{CompactStep, ExecutedPart, Route, VALUE};
use plan_ledger::{Json, Run, RunStatus, State};

use crate::options::{LedgerArgs, OneRunArg};
use crate::output::{
    Code, Failure, PendingJson, cost_text, escape_control, pending_commands, pending_text,
    print_line, print_text,
};
use crate::protocol::StepName;
use crate::requests::{run_of, run_or_only};
use crate::runner::{Pending, misplaced, pending};

use super::read_state::{read_state, report_rollback};

const EXAMPLES: &str = "\
Examples:
  ledger questions                                 of all runs in .ledger
  ledger questions my-plan
  ledger questions --ledger other --json

It takes no lock, and may be used while a run is active.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QuestionsArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: OneRunArg,
}

pub(crate) fn questions(args: &QuestionsArgs) -> Result<Code, Failure> {
    report_rollback(args.ledger.dir(), args.ledger.json)?;
    read_state(args.ledger.dir(), |state| list(args, state))
}

fn list(args: &QuestionsArgs, state: &State) -> Result<Code, Failure> {
    let runs = match args.run.name() {
        Some(name) => vec![run_of(state, name)?],
        None => state.runs.open().filter_map(|id| state.runs.get(&id)).collect(),
    };
    let open = runs.into_iter().filter(|run| !matches!(run.status, RunStatus::Ended(_)));
    let items: Vec<(&Run, Pending)> = open
        .flat_map(|run| {
            let items = pending(run, &Route::default()).into_iter().chain(misplaced(run));
            items.filter(Pending::needs_person).map(move |item| (run, item))
        })
        .collect();
    if args.ledger.json {
        for (run, item) in &items {
            print_line(&WaitingItemLine {
                context: step_context(run, item),
                executes: item.executes(run),
                item: item.into(),
                run: &run.name,
            })?;
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
        for QuestionFact { name, value } in facts(run, item) {
            let name = escape_control(&name);
            print_text(&format!("      {name}: {}\n", escape_control(&value)))?;
        }
    }
    Ok(Code::Success)
}

/// An item that waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WaitingItemLine<'a> {
    /// What a person needs to know for the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    context: Vec<QuestionFact>,
    /// What the answer lets the run execute: the commands come first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    executes: Vec<ExecutedPart>,
    #[serde(flatten)]
    item: PendingJson,
    /// The run.
    run: &'a str,
}

/// All items, the last line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct QuestionsLine {
    /// The number of items that wait for a person.
    waiting: usize,
}

/// A decision of a run that waits for a person.
#[derive(Debug)]
#[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only a form of MCP shows it"))]
pub(crate) struct OpenDecision {
    /// The number of the question; `None` if it is decided in another way.
    pub(crate) question: Option<u64>,
    /// Whether a version of the plan waits for approval.
    pub(crate) is_review: bool,
    /// The id of its step, if it is about one.
    pub(crate) step: Option<String>,
    pub(crate) text: String,
    /// What a person needs to know for the answer, in lines.
    pub(crate) facts: Vec<String>,
    /// The possible answers; empty for a value.
    pub(crate) options: Vec<String>,
    /// The hash of what the question shows.
    pub(crate) shown: String,
}

/// The decisions that wait for a person in the named run, or in the only active one.
#[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only a form of MCP shows it"))]
pub(crate) fn open_decisions(state: &State, run: Option<&str>, dir: &Path) -> Vec<OpenDecision> {
    let Ok(run) = run_or_only(state, run) else { return Vec::new() };
    let items = pending(run, &Route::default()).into_iter().chain(misplaced(run));
    let items = items.filter(Pending::needs_person);
    items.map(|item| open_decision(run, &item, dir)).collect()
}

fn open_decision(run: &Run, item: &Pending, dir: &Path) -> OpenDecision {
    let (text, _) = pending_commands(item, &run.name, dir);
    let fact = |QuestionFact { name, value }| format!("{name}: {value}");
    let facts = facts(run, item).into_iter().map(fact).collect();
    let is_review = matches!(item, Pending::Review { .. });
    let (mut question, mut options, mut shown) = (None, Vec::new(), String::new());
    if let Pending::Question { id, asked, .. } = item {
        question = Some(id.0);
        shown = asked.shown.to_string();
        if !asked.options.iter().any(|option| option == VALUE) {
            options.clone_from(&asked.options);
        }
    }
    let step = match item {
        Pending::Question { step, .. } => step.as_ref().map(|step| step.id.clone()),
        _ => None,
    };
    OpenDecision { question, is_review, step, text, facts, options, shown }
}

/// One fact for the answer to a question.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct QuestionFact {
    /// What it is.
    name: String,
    /// The fact, in one line.
    value: String,
}

/// The longest value of a fact, in characters.
const FACT_LENGTH_MAX: usize = 400;

/// What a person needs to know for the answer, as text: what it lets the run execute, and the facts about the
/// step.
fn facts(run: &Run, item: &Pending) -> Vec<QuestionFact> {
    let executes = item.executes(run).into_iter();
    let executes = executes.map(|each| QuestionFact { name: each.name(), value: each.text() });
    executes.chain(step_context(run, item)).collect()
}

/// What a person needs to know about the step of a question: its goal, the variables that it reads, and for a
/// failure its class, its output, its log and its cost.
fn step_context(run: &Run, item: &Pending) -> Vec<QuestionFact> {
    let (Pending::Question { step: Some(step), .. }
    | Pending::Decision { step, .. }
    | Pending::OutcomeUnknown { step }
    | Pending::Verdicts { step, .. }) = item
    else {
        return Vec::new();
    };
    let StepName { number, .. } = step;
    let (Some(state), Some(plan)) = (run.step(*number), run.plan_step(*number)) else {
        return Vec::new();
    };
    let mut facts = Vec::new();
    let mut add = |name: &str, value: &str| {
        let value: String = value.trim().chars().take(FACT_LENGTH_MAX).collect();
        if !value.is_empty() && value != "null" {
            facts.push(QuestionFact { name: name.to_owned(), value: value.replace('\n', " | ") });
        }
    };
    add("goal", if plan.goal().is_empty() { plan.title() } else { plan.goal() });
    for name in read_by(run, plan) {
        if let Some(variable) = run.variables.get(&name) {
            add(&name, variable.value.as_str());
        }
    }
    let attempts = state.attempts;
    if let Some((class, message)) = state.last_failure() {
        let class = serde_json::to_value(class).unwrap_or_default();
        add("failure", &format!("{}: {message}", class.as_str().unwrap_or_default()));
    }
    if let Some(receipt) = state.attempt().and_then(|attempt| attempt.receipt.as_ref()) {
        add("attempt", &attempts.to_string());
        add("output", receipt.output.inline().map_or("", Json::as_str));
        add("log", &receipt.log_tail);
        add("cost", &cost_text(receipt.cost));
    }
    facts
}

/// The variables that a step reads: its inputs, and those of its condition and its preconditions.
fn read_by(run: &Run, step: CompactStep<'_>) -> Vec<String> {
    let expressions: Vec<&str> = step.condition().into_iter().chain(step.preconditions()).collect();
    let words = |text: &str| -> Vec<String> {
        let is_word = |char: char| char.is_alphanumeric() || char == '_';
        text.split(|char| !is_word(char)).map(str::to_owned).collect()
    };
    let named = expressions.into_iter().flat_map(words);
    let mut names: Vec<String> = step.inputs().map(str::to_owned).chain(named).collect();
    names.retain(|name| run.variables.contains_key(name));
    names.sort();
    names.dedup();
    names
}
