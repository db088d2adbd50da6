//! Reviews of plan versions: what is proposed, how it differs, and the yes or no.
//!
//! Invariant: a yes is bound to the hash of what was shown. Where the plan itself asks the
//! question, the answer is one to that question, so that it is closed with it.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::ledger::{Environment, LedgerView, Reply, time_text};
use crate::plan::{
    Command, NO, Plan, PlanVersion, Question, QuestionId, Review, Run, Subject, YES, diff,
};

use super::answer::{command_line, run_of, status};
use super::exit::{Code, Failure};
use super::inspect::asked_json;
use super::plans::{diff_json, diff_text};
use super::questions::begins_with;
use super::{open, outcome};

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
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,
    /// The run's name
    run: String,
    /// Print the version as JSON
    #[arg(long)]
    json: bool,
}

/// `ledger plan approve` and `ledger plan reject`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct VerdictArgs {
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,
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
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

const WITHDRAW_EXAMPLES: &str = "\
Examples:
  ledger plan withdraw my-plan --by ana --reason 'it works after all'
  ledger plan withdraw my-plan --by planner --reason 'no more steps'";

/// `ledger plan withdraw`.
#[derive(Debug, Args)]
#[command(after_help = WITHDRAW_EXAMPLES)]
pub(super) struct WithdrawArgs {
    /// The ledger's folder
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,
    /// The run's name
    run: String,
    /// Who says so
    #[arg(long, value_name = "WHO")]
    by: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

/// `ledger plan review`.
pub(super) fn show(args: &ReviewArgs) -> Result<Code, Failure> {
    let view = LedgerView::open(&args.ledger, &Environment::system())?;
    let state = view.fold(u64::MAX)?.state;
    let run = run_of(&state, &args.run)?;
    let Some((number, version)) = run.newest_proposal() else {
        let line = format!("run {}: no version of its plan waits for a yes", args.run);
        outcome(args.json, &json!({ "type": "review", "run": args.run, "version": null }), &line)?;
        return Ok(Code::Fine);
    };
    let question = question_about(run, number).map(|(_, question)| question);
    let nothing = Plan::default();
    let found = diff(run.plan().unwrap_or(&nothing), &version.plan);
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
    outcome(args.json, &value, &text.join("\n"))?;
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
    let line = |verb: &str| command_line(verb, &args.ledger, &[&args.run, "--by", "WHO"]);
    format!("to answer:\n  {}\n  {}", line("plan approve"), line("plan reject"))
}

fn question_about(run: &Run, version: u32) -> Option<(QuestionId, &Question)> {
    let subject = Subject::Plan(version);
    let mut about = run.questions.iter().filter(|(_, each)| each.asked.subject == subject);
    about.next().map(|(id, question)| (*id, question))
}

/// `ledger plan approve`.
pub(super) fn approve(args: &VerdictArgs) -> Result<Code, Failure> {
    judge(args, Review::Approved)
}

/// `ledger plan reject`.
pub(super) fn reject(args: &VerdictArgs) -> Result<Code, Failure> {
    judge(args, Review::Rejected)
}

fn judge(args: &VerdictArgs, review: Review) -> Result<Code, Failure> {
    let ledger = open(&args.ledger, &Environment::system())?;
    let state = ledger.state();
    let run = run_of(&state, &args.run)?;
    let Some((version, proposed)) = run.newest_proposal() else {
        let message = format!("run {}: no version of its plan waits for a yes", args.run);
        return Err(Failure::Refused(message));
    };
    let hash = proposed.hash;
    if let Some(seen) = args.shown.as_ref().filter(|seen| !begins_with(hash, seen)) {
        let found = hash.short();
        let message = format!(
            "you were shown {seen}, but version {version} is {found}: look at it again with \
             `ledger plan review`"
        );
        return Err(Failure::Refused(message));
    }
    let (by, note) = (args.by.clone(), args.note.clone());
    let (answer, word) = match review {
        Review::Approved => (YES, "approved"),
        Review::Rejected => (NO, "rejected"),
    };
    if let Some((id, question)) = question_about(run, version) {
        let answer = answer.to_owned();
        ledger.answer(id, Reply { answer, by, note, shown: question.asked.shown })?;
    } else {
        let run = run.id;
        ledger.execute(&Command::ReviewPlan { run, version, hash, review, by, note })?;
    }
    let now = status(&ledger, run.id);
    let value: Value = json!({
        "type": "reviewed", "run": args.run, "version": version, "hash": hash, "review": word,
    });
    ledger.close()?;
    let line = format!("run {}: version {version} is {word}; the run is {now}", args.run);
    outcome(args.json, &value, &line)?;
    Ok(Code::Fine)
}

/// `ledger plan withdraw`.
pub(super) fn withdraw(args: &WithdrawArgs) -> Result<Code, Failure> {
    let ledger = open(&args.ledger, &Environment::system())?;
    let run = run_of(&ledger.state(), &args.run)?.id;
    ledger.withdraw_replan(run, &args.by, &args.reason)?;
    let now = status(&ledger, run);
    ledger.close()?;
    let value = json!({ "type": "withdrawn", "run": args.run, "status": now });
    let line = format!("run {}: no other plan is needed; the run is {now}", args.run);
    outcome(args.json, &value, &line)?;
    Ok(Code::Fine)
}
