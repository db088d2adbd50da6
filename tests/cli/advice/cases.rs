//! Goal: commands that the program printed, and refused when they were typed, are no longer printed; what is printed
//! instead is accepted.

use serde_json::Value;

use crate::command::{Ended, Place, start, wait_until};
use crate::http::Address;

use super::stories::{
    CHECKED, Situation, claimed, elsewhere, fork, inside, judge_missing, planned, ran,
    without_ledger,
};

/// Executes a command line as the reader of a situation.
fn typed(situation: &Situation, line: &str) -> Ended {
    let mut command = situation.place.shell(line);
    command.envs(situation.env.iter().map(|(name, value)| (name, value)));
    start(&mut command).end()
}

/// All that a command prints.
fn text(situation: &Situation, line: &str) -> String {
    let ended = typed(situation, line);
    format!("{}{}", ended.out, ended.err)
}

#[track_caller]
fn expect(text: &str, named: &[&str], missing: &[&str]) {
    for words in named {
        assert!(text.contains(words), "expected {words:?} in\n{text}");
    }
    for words in missing {
        assert!(!text.contains(words), "expected no {words:?} in\n{text}");
    }
}

#[test]
fn run_with_a_rejected_plan_needs_a_plan_and_no_runner() {
    let situation = ran("gate: {question: Start?}\nsteps: [{id: a, command: 'true'}]");
    let propose = "ledger plan propose plan.yaml --run plan";
    expect(&text(&situation, "ledger answer 4 no"), &[propose], &["ledger resume"]);
    expect(&text(&situation, "ledger prime"), &[propose], &["ledger resume"]);
    typed(&situation, "ledger resume").code(6).complains(&["version 1", "rejected", propose]);
}

#[test]
fn agent_is_told_of_a_missing_judge_without_its_command() {
    let situation = judge_missing();
    expect(&text(&situation, "ledger next"), &["--judge-only"], &[]);
    let host = "CLAUDECODE=1 LEDGER_BY= ledger prime";
    let told = ["no runner is at work until a person starts one"];
    expect(&text(&situation, host), &told, &["--judge-only"]);
}

#[test]
fn worker_is_offered_no_act_of_a_run() {
    let situation = inside();
    for line in ["next --json", "prime", "status", "inspect", "run plan", "resume --show"] {
        let acts = ["ledger resume", "ledger run plan", "ledger claim", "ledger skip"];
        expect(&text(&situation, &format!("ledger {line}")), &[], &acts);
    }
    typed(&situation, "ledger run nosuch").code(6).complains(&["works on step a"]);
    typed(&situation, "ledger resume --show").code(6).complains(&["works on step a"]);
}

#[test]
fn copy_of_a_ledger_is_resumed_by_a_person_who_confirms_it() {
    let situation = elsewhere(false);
    expect(&text(&situation, "ledger next plan"), &["ledger resume --yes"], &[]);
    expect(&text(&situation, "ledger run plan"), &["ledger resume plan --yes"], &[]);
    let host = "CLAUDECODE=1 LEDGER_BY= ledger next plan";
    expect(&text(&situation, host), &[], &["ledger resume"]);
    typed(&situation, "ledger resume").code(6);
    typed(&situation, "ledger resume --yes").complains(&["ledger run plan.yaml"]);
}

#[test]
fn word_near_a_view_is_a_run_before_it_is_a_view() {
    let situation = fork();
    expect(&text(&situation, "ledger inspect copy"), &["ledger status --run copy"], &["cost"]);
    // Two runs are active, so the view needs one.
    expect(&text(&situation, "ledger inspect coast"), &["`ledger inspect cost RUN`"], &[]);
}

#[test]
fn no_ledger_of_a_misspelled_name_is_proposed() {
    let situation = without_ledger(&[]);
    for line in ["ledger inspect nosuch", "ledger status nosuch"] {
        expect(&text(&situation, line), &["no ledger at nosuch", "--help"], &["ledger init"]);
    }
    let missing = text(&situation, "ledger run nosuch.yaml");
    expect(&missing, &["hint: ", "ledger help plan-file"], &[]);
    assert!(!situation.place.path("nosuch").exists());
}

#[test]
fn run_that_is_over_is_followed_by_one_of_its_plan_with_a_worker() {
    let situation = planned("steps: [{id: a}]", &["cancel plan"]);
    let another = "ledger run plan.yaml --run NEW --worker CMD";
    expect(&text(&situation, "ledger resume --show"), &[another], &[]);
}

#[test]
fn missing_value_is_set_and_no_plan_is_proposed() {
    let situation = planned("steps: [{id: a, preconditions: ['v > 3']}]", &[]);
    let next = text(&situation, "ledger next");
    expect(&next, &["ledger set v VALUE", "ledger plan withdraw"], &["ledger plan propose"]);
}

/// Its worker succeeded, and the plan leaves the decision about the failure to a person.
#[test]
fn step_without_its_outputs_waits_for_a_decision_and_not_for_a_verdict() {
    let plan = "failure: {decider: external}\nsteps: [{id: a, outputs: [x]}, {id: b, after: [a]}]";
    let situation = claimed(plan, "");
    let next = text(&situation, "ledger next");
    expect(&next, &["did not arrive", "ledger answer plan a retry"], &["ledger accept"]);
    typed(&situation, "ledger answer plan a retry").code(0);
}

#[test]
fn paused_run_with_a_budget_that_is_used_up_needs_a_higher_one_first() {
    let plan = "budget: {attempts: 1}\nsteps: [{id: a}, {id: b}]";
    let situation = claimed(plan, "--output done");
    typed(&situation, "ledger pause plan").code(0);
    let raise = "ledger budget raise plan --attempts 10";
    expect(
        &text(&situation, "ledger next"),
        &[raise, "raise the budget first"],
        &["ledger unpause"],
    );
    typed(&situation, "ledger unpause plan").code(6);
    typed(&situation, raise).code(0);
    expect(&text(&situation, "ledger next"), &["ledger unpause plan"], &["budget raise"]);
    typed(&situation, "ledger unpause plan").code(0);
}

#[test]
fn judge_without_work_says_what_it_waits_for() {
    let place = Place::approved(CHECKED);
    let judge = start(&mut place.command(&["work", "plan", "--judge-only", "--wait"]));
    wait_until("it says so", || judge.complained("waits for reports"));
    judge.dismiss();
}

#[test]
fn answer_over_http_says_that_no_runner_is_at_work() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, command: 'exit 3'}, {id: b, after: [a], command: 'true'}]",
    );
    place.ledger("run plan.yaml").code(3);
    let server = start(&mut place.command(&["serve", "--http"]));
    let address = Address::of(&place);
    let questions = "/v1/runs/plan/questions";
    let shown = |role: &str| address.answer(role, "GET", questions, "");
    expect(&shown("operator"), &["ledger answer"], &[]);
    expect(&shown("worker"), &["exit status 3"], &["ledger answer"]);
    let body = r#"{ "act": "skip", "run": "plan", "step": "a", "reason": "known", "by": "ana" }"#;
    let skipped = address.answer("operator", "POST", "/v1/requests", body);
    let skipped: Value = serde_json::from_str(&skipped).unwrap();
    expect(&skipped["said"].to_string(), &["no runner is at work", "ledger resume"], &[]);
    server.dismiss();
}
