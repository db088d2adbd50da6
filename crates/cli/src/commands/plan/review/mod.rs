//! `ledger plan review`: the plan version that waits for approval, and how it differs.

mod approve;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{commands_hash, time_text};
use plan_ledger::plan::{
    CommandsApproval, CompactPlan, ExecutedPart, PlanDiff, PlanVersion, Provenance, QuestionBody,
    diff,
};
use plan_ledger::{ContentHash, Plan, Question, Run, RunStatus};
use plan_ledger_views::approve_version;

use crate::commands::drill::LastDrill;
use crate::commands::inspect::read_state;
use crate::options::{LedgerArgs, RunArg};
use crate::output::{
    Code, Failure, PlanDiffJson, cost_text, is_for_reader, plan_diff_text, print_result,
    redone_steps, redone_text, shell_command,
};
use crate::protocol::{approval_of, counted, unapproved_commands};
use crate::requests::{question_about, run_or_only};
use crate::runner::folder_here;

pub(super) use approve::{approve, reject};

const EXAMPLES: &str = "\
Examples:
  ledger plan review my-plan                       show the version that waits, and how it differs
  ledger plan approve my-plan --by ana             make it active
  ledger plan reject my-plan --by ana --note 'step 3 is too risky'

It takes no lock. Exit code 3: a version waits for approval.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanReviewArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    #[command(flatten)]
    run: RunArg,
}

pub(super) fn review(args: &PlanReviewArgs) -> Result<Code, Failure> {
    read_state(args.ledger.dir(), |state| show_proposal(args, run_or_only(state, args.run.name())?))
}

fn show_proposal(args: &PlanReviewArgs, run: &Run) -> Result<Code, Failure> {
    let is_open = !matches!(run.status, RunStatus::Ended(_));
    let Some((number, version)) = run.newest_proposal().filter(|_| is_open) else {
        let mut text = format!("run {}: no plan version waits for approval", run.name);
        if let Some(approved) = approval_of(run) {
            text = format!("{text}; {}", approved_text(run, approved));
        }
        if let (Some(plan), Some(_), true) = (run.plan(), unapproved_commands(run), is_open) {
            let hash = run.active_version().map(|active| active.hash).unwrap_or_default();
            let approve = approve_by(args, run, hash);
            let executes = plan.decode().executed_text();
            text = format!(
                "{text}, but a judge runs no command of version {} before a person approves \
                 them\n{executes}",
                run.active
            );
            if is_for_reader(&approve) {
                text = format!("{text}\nto approve them{}:\n  {approve}", here_text());
            }
        }
        let line = ReviewLine { proposal: None, ..ReviewLine::of(run) };
        print_result(args.ledger.json.0, &line, &text)?;
        return Ok(Code::Success);
    };
    let question = question_about(run, number).map(|(_, question)| question);
    let active = run.plan().map(CompactPlan::decode).unwrap_or_default();
    let plan = version.plan.decode();
    let difference = diff(&active, &plan);
    let preview = run.preview_activation(number).filter(|_| run.active > 0);
    let redone = preview.map(|preview| redone_steps(run, &preview)).unwrap_or_default();
    let drill = LastDrill::of(version.hash);
    let proposal = ProposalJson {
        active: run.active,
        asked: question.map(|question| &question.asked),
        executes: plan.executed(),
        diff: NestedDiff { differences: (&difference).into(), kind: DiffWord::Diff },
        drill: drill.as_ref(),
        hash: version.hash,
        plan: &plan,
        provenance: version.provenance.as_ref(),
        reason: &version.reason,
        redone: &redone,
        steps: version.step_count,
    };
    let line =
        ReviewLine { proposal: Some(proposal), version: Some(number), ..ReviewLine::of(run) };
    let text = [
        heading(run, number, version),
        drill.as_ref().map(LastDrill::text).unwrap_or_default(),
        question.map(question_text).unwrap_or_default(),
        plan.executed_text(),
        steps_text(&plan),
        compared_text(run.active, &difference),
        redone_text(&redone),
        commands(args, run, (version.hash, &plan)),
    ];
    let text: Vec<String> = text.into_iter().filter(|text| !text.is_empty()).collect();
    print_result(args.ledger.json.0, &line, &text.join("\n"))?;
    Ok(Code::Waiting)
}

/// The plan version that waits for approval.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ReviewLine<'a> {
    /// The folder in which a judge runs the commands of the active version; null if no person
    /// approved them, or the folder is not known.
    approved_in: Option<&'a str>,
    /// The folder in which a judge may run the commands after the approval here; null if it is not
    /// known.
    approves_in: Option<String>,
    #[serde(flatten)]
    proposal: Option<ProposalJson<'a>>,
    /// The run.
    run: &'a str,
    /// The version; null if none waits, and then the members about it are absent.
    version: Option<u32>,
}

impl<'a> ReviewLine<'a> {
    /// The line of a run without a waiting version.
    fn of(run: &'a Run) -> Self {
        let approved_in = approval_of(run).and_then(|approved| approved.folder.as_deref());
        let (approves_in, run) = (folder_here(), run.name.as_str());
        Self { approved_in, approves_in, proposal: None, run, version: None }
    }
}

/// A version that waits for approval.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct ProposalJson<'a> {
    /// The active version; 0 before the first.
    active: u32,
    /// The question about it.
    asked: Option<&'a QuestionBody>,
    /// The differences from the active version.
    diff: NestedDiff<'a>,
    /// The last drill of the plan on this machine.
    drill: Option<&'a LastDrill>,
    /// Everything that it executes, asks and may spend: the commands come first.
    executes: Vec<ExecutedPart>,
    /// Its hash.
    hash: ContentHash,
    /// The plan, as in a plan file.
    plan: &'a Plan,
    /// The source of the version.
    provenance: Option<&'a Provenance>,
    /// The reason for it.
    reason: &'a str,
    /// The ids of steps that it redoes.
    redone: &'a [String],
    /// The number of its steps.
    steps: u32,
}

/// The differences between two plans, as `ledger plan diff` prints them.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct NestedDiff<'a> {
    #[serde(flatten)]
    differences: PlanDiffJson<'a>,
    /// The type of the line of `ledger plan diff`.
    #[serde(rename = "type")]
    kind: DiffWord,
}

/// The type of a line with differences.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum DiffWord {
    /// Differences between two plans.
    Diff,
}

/// The differences from the active version; empty without an active version.
fn compared_text(active: u32, difference: &PlanDiff) -> String {
    match active {
        0 => String::new(),
        active => format!("compared with version {active}:\n{}", plan_diff_text(difference)),
    }
}

/// The most steps in the text of a review.
const STEPS_SHOWN: usize = 50;

/// The steps of a plan, each with its goal, its criteria and its expected cost.
fn steps_text(plan: &Plan) -> String {
    let mut lines = Vec::new();
    for (place, step) in plan.steps.iter().take(STEPS_SHOWN).enumerate() {
        let text = if step.title.is_empty() { &step.goal } else { &step.title };
        let text = text.lines().next().unwrap_or_default();
        let cost = step.cost_estimate.map(|cost| format!(" ({})", cost_text(cost)));
        lines.push(format!("{}. {}: {text}{}", place + 1, step.id, cost.unwrap_or_default()));
        lines.extend(step.acceptance.iter().map(|each| format!("     must hold: {}", each.body())));
        if let Some(gate) = &step.gate {
            lines.push(format!("     asks: {}", gate.question));
        }
    }
    let more = plan.steps.len().saturating_sub(STEPS_SHOWN);
    lines.extend((more > 0).then(|| format!("and {more} more: ledger inspect plan")));
    lines.join("\n")
}

fn heading(run: &Run, number: u32, version: &PlanVersion) -> String {
    let reason = match version.reason.as_str() {
        "" => String::new(),
        reason => format!(", because: {reason}"),
    };
    let (hash, steps) = (version.hash, counted(u64::from(version.step_count), "step"));
    let author = version.provenance.as_ref().and_then(|it| it.author.as_ref());
    let author = author.map(|author| format!(", by {author}")).unwrap_or_default();
    format!("run {}: version {number}{author}, {steps}{reason}\nhash {hash}", run.name)
}

fn question_text(question: &Question) -> String {
    let asked = &question.asked;
    let to = asked.to.as_ref().map(|to| format!(" (for {to})")).unwrap_or_default();
    let until = asked.deadline.map(|time| format!(", until {}", time_text(time)));
    format!("question: {}{to}{}", asked.text, until.unwrap_or_default())
}

/// The command that approves the version that is shown.
fn approve_by(args: &PlanReviewArgs, run: &Run, hash: ContentHash) -> String {
    format!("{} --by WHO", approve_version(&run.name, args.ledger.dir(), hash))
}

/// The folder in which a judge runs the commands of the active version, and the person who approved
/// them.
fn approved_text(run: &Run, approved: &CommandsApproval) -> String {
    let place = approved.folder.as_ref().map(|folder| format!(" in {folder}")).unwrap_or_default();
    format!(
        "a judge runs the commands of version {}{place}, as {} approved",
        run.active, approved.by
    )
}

/// The folder in which a judge runs the commands that are approved here.
fn here_text() -> String {
    let folder = folder_here().map(|folder| format!(" (a judge then runs commands in {folder})"));
    folder.unwrap_or_default()
}

fn commands(args: &PlanReviewArgs, run: &Run, (hash, plan): (ContentHash, &Plan)) -> String {
    let reject = shell_command("plan reject", args.ledger.dir(), &[&run.name, "--by", "WHO"]);
    let lines = [approve_by(args, run, hash), reject];
    if !lines.iter().all(|line| is_for_reader(line)) {
        return "it waits for a person".to_owned();
    }
    let place = commands_hash(plan).map(|_| here_text());
    format!("to answer{}:\n  {}", place.unwrap_or_default(), lines.join("\n  "))
}
