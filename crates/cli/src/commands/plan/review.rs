//! `ledger plan review`: the plan version that waits for approval, and how it differs.

use clap::Args;
use serde_json::json;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::internals::plan::{CompactPlan, PlanVersion, diff};
use plan_ledger::{Question, Run};

use crate::commands::read_state::read_state;
use crate::options::LedgerArgs;
use crate::output::{
    Code, Failure, plan_diff_json, plan_diff_text, print_result, question_json, shell_command,
};
use crate::requests::{question_about, run_of};

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
    /// The run's name
    run: String,
}

pub(super) fn review(args: &PlanReviewArgs) -> Result<Code, Failure> {
    read_state(&args.ledger.dir, |state| show_proposal(args, run_of(state, &args.run)?))
}

fn show_proposal(args: &PlanReviewArgs, run: &Run) -> Result<Code, Failure> {
    let Some((number, version)) = run.newest_proposal() else {
        let text = format!("run {}: no plan version waits for approval", args.run);
        let value = json!({ "type": "review", "run": args.run, "version": null });
        print_result(args.ledger.json, &value, &text)?;
        return Ok(Code::Success);
    };
    let question = question_about(run, number).map(|(_, question)| question);
    let active = run.plan().map(CompactPlan::decode).unwrap_or_default();
    let difference = diff(&active, &version.plan.decode());
    let value = json!({
        "type": "review", "run": args.run, "version": number, "hash": version.hash,
        "reason": version.reason, "active": run.active, "steps": version.step_count,
        "asked": question.map(|question| question_json(&question.asked)),
        "diff": plan_diff_json(&difference),
    });
    let text = [
        heading(run, number, version),
        question.map(question_text).unwrap_or_default(),
        format!("compared with version {}:\n{}", run.active, plan_diff_text(&difference)),
        commands(args),
    ];
    let text: Vec<String> = text.into_iter().filter(|text| !text.is_empty()).collect();
    print_result(args.ledger.json, &value, &text.join("\n"))?;
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
    let to = asked.to.as_ref().map(|to| format!(" (for {to})")).unwrap_or_default();
    let until = asked.deadline.map(|time| format!(", until {}", time_text(time)));
    format!("question: {}{to}{}", asked.text, until.unwrap_or_default())
}

fn commands(args: &PlanReviewArgs) -> String {
    let line = |verb: &str| shell_command(verb, &args.ledger.dir, &[&args.run, "--by", "WHO"]);
    format!("to answer:\n  {}\n  {}", line("plan approve"), line("plan reject"))
}
