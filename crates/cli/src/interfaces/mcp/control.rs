//! The tools of an operator: plan, answer, control.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use plan_ledger::plan::{Criterion, Review};
use plan_ledger::{Ruling, RunPolicy, Step, TextPolicy, plan_hash};
use plan_ledger_files::{Diagnostic, FileReading, LintReport, Programs, ReadOptions, Severity};

use crate::commands::inspect::{OpenDecision, open_decisions};
use crate::commands::prime::ReadFrom;
use crate::protocol::Failure;
use crate::requests::{
    AddStepRequest, AnswerRequest, AnswerStepRequest, Author, JudgeRequest, ProposeRequest,
    Request, RetryRequest, ReviewRequest, RunArg, SkipRequest, run_or_only,
};

use super::arguments::{
    AnswerArguments, ControlArguments, PlanArguments, PlanMode, refused_action,
};
use super::call::{ToolCall, ToolOutcome, ToolRefusal};
use super::forms::{Form, PersonAnswer};
use super::key::{key_of, key_of_content};
use super::work::value_of;

/// How many problems and warnings of a plan an answer has.
const DIAGNOSTICS_MAX: usize = 20;

pub(super) fn plan(call: &ToolCall<'_>, arguments: PlanArguments) -> ToolOutcome {
    match arguments.mode {
        PlanMode::AddStep => add_step(call, arguments),
        PlanMode::Check => {
            let checked = read_plan(&arguments)?;
            Ok(diagnosed(&checked))
        }
        PlanMode::Propose => propose(call, arguments),
    }
}

fn read_plan(arguments: &PlanArguments) -> Result<LintReport, ToolRefusal> {
    let options = ReadOptions { reading: arguments.reading.clone(), ..ReadOptions::default() };
    match (&arguments.plan, &arguments.path) {
        (Some(text), None) => Ok(options.lint_text("plan", text)),
        (None, Some(path)) => {
            let options = ReadOptions { programs: Some(Programs::of_process()), ..options };
            options.lint(Path::new(path)).map_err(|error| Failure::of_input(error).into())
        }
        _ => Err(ToolRefusal::arguments("expected one of plan and path")),
    }
}

/// The problems of a plan.
fn diagnosed(report: &LintReport) -> Map<String, Value> {
    let list = |severity: Severity| -> Vec<String> {
        let found = report.diagnostics.iter().filter(|each| each.severity == severity);
        found.take(DIAGNOSTICS_MAX).map(diagnostic_text).collect()
    };
    let plan = report.plan_file.as_ref().map(|file| &file.plan);
    let file = report.plan_file.as_ref();
    let readings: Vec<String> =
        file.map_or(&[][..], |file| &file.readings).iter().map(reading_text).collect();
    let answer = json!({
        "valid": plan.is_some(),
        "problems": list(Severity::Problem),
        "warnings": list(Severity::Warning),
        "steps": plan.map(|plan| plan.steps.len()),
        "hash": plan.map(|plan| plan_hash(plan).to_string()),
    });
    let Value::Object(mut members) = answer else { return Map::new() };
    if !readings.is_empty() {
        members.insert("readings".to_owned(), json!(readings));
    }
    members
}

/// A reading of a plan that has several, and what it takes as what.
fn reading_text(reading: &FileReading) -> String {
    format!("{reading}: {}", reading.reading.meaning())
}

fn diagnostic_text(diagnostic: &Diagnostic) -> String {
    let line = diagnostic.line.map_or_else(String::new, |line| format!("line {line}: "));
    let Diagnostic { place, message, .. } = diagnostic;
    if place.is_empty() { format!("{line}{message}") } else { format!("{line}{place}: {message}") }
}

fn propose(call: &ToolCall<'_>, arguments: PlanArguments) -> ToolOutcome {
    let report = read_plan(&arguments)?;
    let answer = diagnosed(&report);
    let Some(file) = report.plan_file else {
        let problems = answer.get("problems").cloned().unwrap_or_default();
        return Err(ToolRefusal::new("invalid_plan", format!("the plan is invalid: {problems}")));
    };
    let named = arguments.path.as_deref().and_then(|path| Path::new(path).file_stem()?.to_str());
    let run = call.run(arguments.run).or_else(|| named.map(str::to_owned));
    let Some(run) = run else {
        return Err(ToolRefusal::arguments("run: a new run needs a name"));
    };
    if arguments.reading.is_none() && !file.readings.is_empty() {
        let readings: Vec<String> = file.readings.iter().map(reading_text).collect();
        let message = format!("reading: choose one of {}", readings.join("; or "));
        return Err(ToolRefusal::arguments(&message));
    }
    // As for `ledger run`: the texts in files of other tools are not criteria.
    let text = if file.format.is_native() { TextPolicy::Judge } else { TextPolicy::Trust };
    let policy = RunPolicy { text, ..RunPolicy::default() };
    let hash = plan_hash(&file.plan).to_string();
    let key = call_key(call, &["propose", &run, &hash])?;
    let request = ProposeRequest {
        reason: arguments.reason.unwrap_or_default(),
        policy,
        waits_for_approval: call.server.versions_wait(),
        ..ProposeRequest::of(run, file.plan)
    };
    let proposed = call.request(request, &key)?;
    let mut answer = answer;
    answer.extend(line(proposed.lines.into_iter().next()));
    Ok(answer)
}

fn add_step(call: &ToolCall<'_>, arguments: PlanArguments) -> ToolOutcome {
    let Some(id) = arguments.id else {
        return Err(ToolRefusal::arguments("id: add_step needs the id of the new step"));
    };
    let step = Step {
        id,
        goal: arguments.goal.unwrap_or_default(),
        after: arguments.after,
        acceptance: arguments.acceptance.into_iter().map(Criterion::Text).collect(),
        ..Step::default()
    };
    let request = AddStepRequest {
        run: call.run(arguments.run),
        step: Box::new(step),
        reason: arguments.reason.unwrap_or_default(),
        waits_for_approval: call.server.versions_wait(),
        by: None,
    };
    let key = call_key(call, &["add_step"])?;
    let answer = call.request(request, &key)?;
    Ok(line(answer.lines.into_iter().next()))
}

/// What an answer names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Question,
    Step,
    /// Neither: the version of the plan that waits.
    Version,
}

/// A decision of a person, with what it needs of the arguments.
struct Decision {
    question: u64,
    run: RunArg,
    step: String,
    answer: String,
    by: Author,
    note: String,
    shown: Option<String>,
}

/// The decisions about what an answer names, and the request that records them.
struct DecisionRow {
    named: Named,
    /// The answers; empty for those that the question offers.
    answers: &'static [&'static str],
    /// What the user is asked, before and after the name of the step; empty for the text of the open question.
    asked: [&'static str; 2],
    request: fn(Decision) -> Request,
}

/// As `format/mcp.md` lists them. The first row that fits counts.
static DECISIONS: [DecisionRow; 6] = [
    DecisionRow {
        named: Named::Question,
        answers: &[],
        asked: ["", ""],
        request: |Decision { question, answer, by, note, shown, .. }| {
            AnswerRequest { question, answer, by, note, shown, raise: BTreeMap::new() }.into()
        },
    },
    DecisionRow {
        named: Named::Version,
        answers: &["approve", "reject"],
        asked: ["", ""],
        request: |Decision { run, answer, by, note, shown, .. }| {
            let is_approved = answer == "approve";
            let review = if is_approved { Review::Approved } else { Review::Rejected };
            ReviewRequest { run, review, by, note, shown }.into()
        },
    },
    DecisionRow {
        named: Named::Step,
        answers: &["pass", "fail"],
        asked: ["Do the criteria of step ", " hold?"],
        request: |Decision { run, step, answer, by, note, .. }| {
            let ruling = if answer == "pass" { Ruling::Pass } else { Ruling::Fail };
            JudgeRequest { run, step, ruling, by, evidence: note }.into()
        },
    },
    DecisionRow {
        named: Named::Step,
        answers: &["retry", "skip"],
        asked: ["Retry or skip step ", "?"],
        request: |Decision { run, step, answer, by, note: reason, .. }| {
            if answer == "skip" {
                return SkipRequest { run, step, by, reason }.into();
            }
            RetryRequest { run: Option::from(run).into(), step: Some(step), by, reason }.into()
        },
    },
    DecisionRow {
        named: Named::Step,
        answers: &["landed", "did-not-happen"],
        asked: ["Did the lost attempt of step ", " do its work?"],
        request: answer_step,
    },
    DecisionRow { named: Named::Step, answers: &[], asked: ["", ""], request: answer_step },
];

fn answer_step(decision: Decision) -> Request {
    let Decision { run, step, answer, by, note, shown, .. } = decision;
    AnswerStepRequest { run, step, answer, by, note, shown }.into()
}

impl DecisionRow {
    /// The row of an answer to what the arguments name.
    fn of(named: Named, answer: &str) -> Option<&'static Self> {
        let fits = |row: &&Self| row.answers.is_empty() || row.answers.contains(&answer);
        DECISIONS.iter().filter(|row| row.named == named).find(fits)
    }
}

impl AnswerArguments {
    fn named(&self) -> Result<Named, ToolRefusal> {
        match (self.question, &self.step) {
            (Some(_), None) => Ok(Named::Question),
            (None, Some(_)) => Ok(Named::Step),
            (None, None) => Ok(Named::Version),
            (Some(_), Some(_)) => {
                Err(ToolRefusal::arguments("expected one of question and step, found both"))
            }
        }
    }
}

pub(super) fn answer(call: &ToolCall<'_>, arguments: AnswerArguments) -> ToolOutcome {
    let named = arguments.named()?;
    let arguments = confirmed(call, named, arguments)?;
    let AnswerArguments { run, question, step, answer, by, note, shown } = arguments;
    let note = note.unwrap_or_default();
    let content = object(json!({
        "run": run, "question": question, "step": step, "answer": answer, "by": by, "note": note,
    }));
    let Some(row) = DecisionRow::of(named, &answer) else {
        let message =
            "expected question or step, or the answer approve or reject for a plan version";
        return Err(ToolRefusal::arguments(message));
    };
    // A question has its own number.
    let run = match named {
        Named::Question => RunArg::default(),
        Named::Step | Named::Version => active_run(call, run)?.into(),
    };
    let (question, step) = (question.unwrap_or_default(), step.unwrap_or_default());
    let by = Author::from(by);
    let request = (row.request)(Decision { question, run, step, answer, by, note, shown });
    // A decision about a step may be made again after its next attempt, so the record counts, too.
    let key = match named {
        Named::Question | Named::Version => key_of_content("ledger_answer", &content),
        Named::Step => call_key(call, &["answer"])?,
    };
    let answer = call.request(request, &key)?;
    Ok(line(answer.lines.into_iter().next()))
}

/// The decision of the person. In a client that shows forms, the user decides there, and the arguments of the model are
/// a proposal.
fn confirmed(
    call: &ToolCall<'_>,
    named: Named,
    arguments: AnswerArguments,
) -> Result<AnswerArguments, ToolRefusal> {
    let Some((what, options)) = decided(call, named, &arguments)? else { return Ok(arguments) };
    let AnswerArguments { answer, by, note, .. } = &arguments;
    let note_text = note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
    let message = format!("{what}\nThe agent proposes, for {by}: {answer}{note_text}");
    let key = format!("answer-{}", key_of(&[&message, &options.join("\n")]));
    match call.ask(Form { key, message, options })? {
        None => Ok(arguments),
        Some(PersonAnswer::Given { answer, note }) => {
            let note = if note.is_empty() { arguments.note } else { Some(note) };
            Ok(AnswerArguments { answer, note, ..arguments })
        }
        Some(PersonAnswer::None) => Err(declined()),
    }
}

/// The decision in the arguments of an answer, and the possible answers. `None` if nothing that they name is open, which
/// the request reports.
fn decided(
    call: &ToolCall<'_>,
    named: Named,
    arguments: &AnswerArguments,
) -> Result<Option<(String, Vec<String>)>, ToolRefusal> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    if let Some(step) = &arguments.step
        && let Some(row) = DecisionRow::of(named, &arguments.answer)
        && let [before, after] = row.asked
        && !after.is_empty()
    {
        return Ok(Some((format!("{before}{step}{after}"), words(row.answers))));
    }
    let read = ReadFrom::open(&call.server.dir, &call.server.environment)?;
    let run = call.run(arguments.run.clone());
    let open = open_decisions(read.state(), run.as_deref(), &call.server.dir);
    let is_meant = |it: &&OpenDecision| match named {
        Named::Question => it.question == arguments.question,
        Named::Step => it.question.is_some() && it.step == arguments.step,
        Named::Version => it.is_review,
    };
    Ok(open.iter().find(is_meant).map(|it| {
        let text =
            std::iter::once(&it.text).chain(&it.facts).cloned().collect::<Vec<_>>().join("\n");
        let options = if it.is_review { words(&["approve", "reject"]) } else { it.options.clone() };
        (text, options)
    }))
}

/// Makes the request that the action names: its members are the arguments.
pub(super) fn control(call: &ToolCall<'_>, mut arguments: ControlArguments) -> ToolOutcome {
    let run = active_run(call, arguments.run.take())?;
    arguments.run = Some(run.clone());
    arguments.value = arguments.value.map(value_of);
    let by = arguments.by.clone();
    let reason = arguments.reason.clone().unwrap_or_default();
    let mut members = object(serde_json::to_value(arguments).unwrap_or_default());
    let action = members.get("act").and_then(Value::as_str).unwrap_or_default().to_owned();
    let what = what_of(&members);
    // A model limits one run, not the ledger.
    if action == "cap"
        && let Some(run) = members.remove("run")
    {
        members.insert("scope".to_owned(), json!({ "run": run }));
    }
    let request: Request = serde_json::from_value(Value::Object(members))
        .map_err(|error| refused_action(&action, &error))?;
    if request.rules().decides {
        let proposed = (by, format!("{}{what}", action.replace('_', " ")), reason);
        confirm_control(call, &run, &proposed)?;
    }
    let key = call_key(call, &["control"])?;
    let answer = call.request(request, &key)?;
    Ok(line(answer.lines.into_iter().next()))
}

/// The members that say what an action does, for people.
fn what_of(members: &Map<String, Value>) -> String {
    let is_own = |name: &&String| !["act", "run", "by", "reason"].contains(&name.as_str());
    let own = members.iter().filter(|(name, _)| is_own(name));
    own.map(|(name, value)| match value {
        Value::Object(parts) => words_of(parts),
        value => format!(" {name} {value}"),
    })
    .collect()
}

/// The names and the values of an object and of those in it.
fn words_of(parts: &Map<String, Value>) -> String {
    let word = |(name, value): (&String, &Value)| match value {
        Value::Object(parts) => format!(" {name}{}", words_of(parts)),
        value => format!(" {name} {value}"),
    };
    parts.iter().map(word).collect()
}

/// Asks the user, in a client with forms, whether to do the proposed action of the model.
fn confirm_control(
    call: &ToolCall<'_>,
    run: &str,
    (by, what, reason): &(String, String, String),
) -> Result<(), ToolRefusal> {
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let message = format!("Run {run}. The agent proposes, for {by}: {what}{reason}");
    let key = format!("control-{}", key_of(&[&message]));
    let options = ["yes", "no"].map(str::to_owned).to_vec();
    match call.ask(Form { key, message, options })? {
        None => Ok(()),
        Some(PersonAnswer::Given { answer, .. }) if answer == "yes" => Ok(()),
        Some(_) => Err(declined()),
    }
}

fn declined() -> ToolRefusal {
    ToolRefusal::new("declined", "the user did not decide this; nothing was recorded")
}

/// The key of a call that may mean something new each time.
fn call_key(call: &ToolCall<'_>, parts: &[&str]) -> Result<String, ToolRefusal> {
    let own = call.own_key("", None)?;
    Ok(key_of(&[&[own.as_str()], parts].concat()))
}

/// The name of the run in question, looked up before the request.
fn active_run(call: &ToolCall<'_>, named: Option<String>) -> Result<String, ToolRefusal> {
    match call.run(named) {
        Some(run) => Ok(run),
        None => {
            let read = ReadFrom::open(&call.server.dir, &call.server.environment)?;
            Ok(run_or_only(read.state(), None)?.name.clone())
        }
    }
}

fn line(line: Option<Value>) -> Map<String, Value> {
    object(line.unwrap_or_default())
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
