//! Reviews of plan versions: what is proposed, how it differs, and the yes or no.

use clap::Args;
use serde_json::json;

use crate::server::{Act, Word, question_about, run_of};
use plan_ledger::ledger::time_text;
use plan_ledger::plan::{CompactPlan, PlanVersion, Question, Run, diff};

use super::acting::{Saying, Where};
use super::answer::command_line;
use super::exit::{Code, Failure};
use super::inspect::asked_json;
use super::outcome;
use super::planning::act_and_note;
use super::plans::{diff_json, diff_text};

const EXAMPLES: &str = "\
Examples:
  ledger plan review my-plan                       what waits for a yes, and how it differs
  ledger plan approve my-plan --by ana             let it become active
  ledger plan approve my-plan --by ana --shown 1f3a9c04d2b7   only if it is what was shown
  ledger plan reject my-plan --by ana --note 'step 3 is too risky'";

/// `ledger plan review`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReviewArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name
    run: String,
}

/// `ledger plan approve` and `ledger plan reject`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct VerdictArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name
    run: String,
    /// Who says so
    #[arg(long, value_name = "WHO")]
    by: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// Hash of what was shown, or how it begins: a verdict on anything else is refused
    #[arg(long, value_name = "HASH")]
    shown: Option<String>,
}

const WITHDRAW_EXAMPLES: &str = "\
Examples:
  ledger plan withdraw my-plan --by ana --reason 'it works after all'
  ledger plan withdraw my-plan --by planner --reason 'no more steps'";

/// `ledger plan withdraw`.
#[derive(Debug, Args)]
#[command(after_help = WITHDRAW_EXAMPLES)]
pub(super) struct WithdrawArgs {
    #[command(flatten)]
    said: Saying,
}

/// `ledger plan review`.
pub(super) fn show(args: &ReviewArgs) -> Result<Code, Failure> {
    args.place.look(|state| show_proposal(args, run_of(state, &args.run)?))
}

fn show_proposal(args: &ReviewArgs, run: &Run) -> Result<Code, Failure> {
    let Some((number, version)) = run.newest_proposal() else {
        let line = format!("run {}: no version of its plan waits for a yes", args.run);
        outcome(
            args.place.json,
            &json!({ "type": "review", "run": args.run, "version": null }),
            &line,
        )?;
        return Ok(Code::Fine);
    };
    let question = question_about(run, number).map(|(_, question)| question);
    let active = run.plan().map(CompactPlan::whole).unwrap_or_default();
    let found = diff(&active, &version.plan.whole());
    let value = json!({
        "type": "review", "run": args.run, "version": number, "hash": version.hash,
        "reason": version.reason, "active": run.active, "steps": version.step_count,
        "asked": question.map(|question| asked_json(&question.asked)),
        "diff": diff_json(&found),
    });
    let text = [
        heading(run, number, version),
        question.map(question_text).unwrap_or_default(),
        format!("against version {}:\n{}", run.active, diff_text(&found)),
        commands(args),
    ];
    let text: Vec<String> = text.into_iter().filter(|text| !text.is_empty()).collect();
    outcome(args.place.json, &value, &text.join("\n"))?;
    Ok(Code::Waiting)
}

fn heading(run: &Run, number: u32, version: &PlanVersion) -> String {
    let reason = match version.reason.as_str() {
        "" => String::new(),
        reason => format!(", because: {reason}"),
    };
    let (hash, steps) = (version.hash, version.step_count);
    format!("run {}: version {number}, {steps} steps{reason}\nhash {hash}", run.name)
}

fn question_text(question: &Question) -> String {
    let asked = &question.asked;
    let who = asked.to.as_ref().map(|who| format!(" (asked of {who})")).unwrap_or_default();
    let until = asked.deadline.map(|time| format!(", until {}", time_text(time)));
    format!("asked: {}{who}{}", asked.text, until.unwrap_or_default())
}

fn commands(args: &ReviewArgs) -> String {
    let line = |verb: &str| command_line(verb, &args.place.ledger, &[&args.run, "--by", "WHO"]);
    format!("to answer:\n  {}\n  {}", line("plan approve"), line("plan reject"))
}

/// `ledger plan approve`.
pub(super) fn approve(args: &VerdictArgs) -> Result<Code, Failure> {
    judge(args, Word::Approved)
}

/// `ledger plan reject`.
pub(super) fn reject(args: &VerdictArgs) -> Result<Code, Failure> {
    judge(args, Word::Rejected)
}

fn judge(args: &VerdictArgs, review: Word) -> Result<Code, Failure> {
    let VerdictArgs { place, run, by, note, shown } = args;
    let (run, by, note, shown) = (run.clone(), by.clone(), note.clone(), shown.clone());
    act_and_note(place, &Act::Review { run, review, by, note, shown })
}

/// `ledger plan withdraw`.
pub(super) fn withdraw(args: &WithdrawArgs) -> Result<Code, Failure> {
    let Saying { place, run, by, reason } = &args.said;
    let (run, by, reason) = (run.clone(), by.clone(), reason.clone());
    place.act(&Act::Withdraw { run, by, reason })
}
