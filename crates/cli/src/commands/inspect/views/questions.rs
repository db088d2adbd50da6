//! `ledger questions`: the items that wait for a person, the commands that resolve them, and the decisions of people.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{RunHistory, time_text};
use plan_ledger::plan::{CompactStep, ExecutedPart, Route, VALUE};
use plan_ledger::{Event, Json, QuestionId, Run, RunStatus, State, StepNumber, StepState};

use crate::commands::inspect::answers::{answered, asked_person, author};
use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::event::{event_subject, event_text};
use crate::json::TimeJson;
use crate::options::{LedgerArgs, OneRunArg};
use crate::output::render::{Paint, Table};
use crate::output::{
    Code, Failure, PendingJson, cost_text, escape_control, escape_lines, pending_commands,
    pending_text,
};
use crate::protocol::StepName;
use crate::requests::run_or_only;
use crate::runner::{Pending, misplaced, pending};

use super::view::report_rollback;

const EXAMPLES: &str = "\
Examples:
  ledger questions                                 of all runs in .ledger
  ledger questions my-plan
  ledger questions --ledger other --json
  ledger questions my-plan --decided               also what people decided, and whom it was for
  ledger questions --at 900                        what waited after record 900

It takes no lock, and may be used while a run is active.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct QuestionsArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    run: OneRunArg,
    /// Also list the decisions of people
    #[arg(long)]
    decided: bool,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn questions(
    args: &QuestionsArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    report_rollback(context, out)?;
    let (mut ledger, runs) = if let Some(name) = args.run.name() {
        let (ledger, id) = LedgerAt::of_run(context, args.at, Some(name))?;
        (ledger, vec![id])
    } else {
        let ledger = LedgerAt::of(context, args.at)?;
        let runs = if args.decided {
            ledger.state.runs.keys().copied().collect()
        } else {
            ledger.state.runs.open().collect()
        };
        (ledger, runs)
    };
    ledger.announce_problems(out)?;
    let mut waiting = 0;
    for id in &runs {
        let run = ledger.run(*id)?;
        for item in waiting_items(run) {
            waiting += 1;
            print_item(run, &item, context, out)?;
        }
    }
    if waiting == 0 && context.form == Form::Text && ledger.code() == Code::Success {
        out.line("nothing waits for a person")?;
    }
    if args.decided {
        for id in &runs {
            let history = ledger.run_history(*id)?;
            print_decisions(&ledger, ledger.run(*id)?, &history, out)?;
        }
    }
    if context.form == Form::Json {
        out.json(&QuestionsLine { waiting })?;
    }
    ledger.finish(out)
}

/// What waits for a person in a run.
fn waiting_items(run: &Run) -> Vec<Pending> {
    if matches!(run.status, RunStatus::Ended(_)) {
        return Vec::new();
    }
    let items = pending(run, &Route::default()).into_iter().chain(misplaced(run));
    items.filter(Pending::needs_person).collect()
}

fn print_item(
    run: &Run,
    item: &Pending,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    if context.form == Form::Json {
        let (why, advice) = pending_commands(item, &run.name, context.dir);
        return out.json(&WaitingItemLine {
            advice,
            context: step_context(run, item),
            executes: item.executes(run),
            item: item.into(),
            run: &run.name,
            why,
        });
    }
    let text = pending_text(item, &run.name, context.dir);
    out.line(&escape_lines(&format!("run {}: {text}", run.name)))?;
    facts(run, item).iter().try_for_each(|QuestionFact { name, value }| {
        out.line(&format!("      {}: {}", escape_control(name), escape_control(value)))
    })
}

/// An item that waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WaitingItemLine<'a> {
    /// Commands that resolve it, after the one that shows what it lets the run execute.
    advice: Vec<String>,
    /// What a person needs to know for the answer.
    context: Vec<QuestionFact>,
    /// What the answer lets the run execute: the commands come first.
    executes: Vec<ExecutedPart>,
    #[serde(flatten)]
    item: PendingJson,
    /// The run.
    run: &'a str,
    /// The reason, for people.
    why: String,
}

/// The number of all items.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct QuestionsLine {
    /// The number of items that wait for a person.
    waiting: usize,
}

/// A decision of a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DecisionLine<'a> {
    /// The person whom the question was for; null if that person answered, or it was for any person.
    asked: Option<&'a str>,
    /// The person.
    by: &'a str,
    /// The decision.
    #[cfg_attr(test, schemars(with = "crate::json::EventSchema"))]
    event: &'a Event,
    /// The number of the step; null if it is about the run.
    number: Option<StepNumber>,
    /// The run.
    run: &'a str,
    /// The record.
    seq: u64,
    /// The id of the step; null if it is about the run.
    step: Option<&'a str>,
    /// The time.
    time: TimeJson,
}

/// The decisions of people in a run.
fn decisions<'a>(run: &'a Run, history: &'a RunHistory) -> Vec<DecisionLine<'a>> {
    let events = || history.records.iter().filter_map(|it| Some((it.seq, it.event.as_ref()?)));
    let asked: BTreeMap<QuestionId, &str> =
        events().filter_map(|(seq, event)| asked_person(seq, event)).collect();
    let records = history.records.iter().filter_map(|it| Some((it, it.event.as_ref()?)));
    let decided = records.filter_map(|(record, event)| {
        let by = author(event)?;
        let asked = answered(event).and_then(|question| asked.get(&question).copied());
        let number = event_subject(event).1;
        Some(DecisionLine {
            asked: asked.filter(|asked| *asked != by),
            by,
            event,
            number,
            run: &run.name,
            seq: record.seq,
            step: number.and_then(|number| run.step(number)).map(StepState::id),
            time: record.time.into(),
        })
    });
    decided.collect()
}

fn print_decisions(
    ledger: &LedgerAt<'_>,
    run: &Run,
    history: &RunHistory,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let decisions = decisions(run, history);
    if ledger.context.form == Form::Json {
        return decisions.iter().try_for_each(|decision| out.json(decision));
    }
    out.line("")?;
    out.painted(Paint::Heading, &format!("decided in run {}", escape_control(&run.name)))?;
    ledger.print_first_record(out)?;
    if decisions.is_empty() {
        return out.line("no decision by a person");
    }
    let time_of = |seq| history.records.iter().find(|it| it.seq == seq).map(|it| it.time);
    let mut table = Table::with_headings(&["record", "when", "by", "step", "event"]);
    for DecisionLine { asked, by, event, number, seq, .. } in &decisions {
        let step = number.map_or_else(|| "-".to_owned(), |step| format!("#{step}"));
        let asked = asked.map(|asked| format!("; it was for {}", escape_control(asked)));
        table.row([
            (Paint::None, seq.to_string()),
            (Paint::None, time_of(*seq).map(time_text).unwrap_or_default()),
            (Paint::Heading, escape_control(by)),
            (Paint::None, step),
            (Paint::None, format!("{}{}", event_text(event), asked.unwrap_or_default())),
        ]);
    }
    out.table(&table, 2)
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
    waiting_items(run).iter().map(|item| open_decision(run, item, dir)).collect()
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
