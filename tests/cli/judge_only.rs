//! Goal: what a session reports is checked by a judge that a person starts, which runs only commands that a
//! person approved, and only in the plan's folder or a worktree of its repository.

use std::path::Path;
use std::process::Command;

use super::command::{Place, start};

/// A step whose command criterion leaves a file, and one after it.
const PLAN: &str = "\
steps:
  - {id: build, goal: Build it, acceptance: [{command: touch ran && test -f built}]}
  - {id: publish, goal: Publish it, after: [build]}
";

/// A folder in which a session has the plan as run `plan`.
fn proposed() -> Place {
    Place::planned(PLAN)
}

/// A session claims a step and reports success.
fn report(place: &Place) {
    let token = place.ledger("claim plan").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0).says(&["reported"]);
}

fn status_of(place: &Place, step: &str) -> String {
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    let step = run.steps.iter().find(|each| each.id() == step).unwrap();
    step.status.to_string()
}

fn git(folder: &Path, words: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(words);
    assert!(git.current_dir(folder).output().unwrap().status.success(), "git {words:?}");
}

#[test]
fn judge_accepts_and_rejects_what_a_session_reports() {
    // A step that fails its criterion is dispatched again.
    for (is_built, status) in [(true, "accepted"), (false, "ready")] {
        let place = proposed();
        place.ledger("plan approve plan --by ana").code(0);
        if is_built {
            place.write("built", "");
        }
        report(&place);
        let judged = place.ledger("work --judge-only").code(0).says(&["1 step checked"]);
        assert_eq!(judged.out.contains("1 failed"), !is_built);
        assert_eq!(status_of(&place, "build"), status);
    }
}

#[test]
fn judge_that_waits_checks_what_is_reported_later() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    place.write("built", "");
    let judge = start(&mut place.command(&["work", "plan", "--judge-only", "--wait"]));
    report(&place);
    super::command::wait_until("it is accepted", || status_of(&place, "build") == "accepted");
    let token = place.ledger("claim plan").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    judge.end().code(0);
}

#[test]
fn unapproved_command_is_not_executed() {
    let place = proposed();
    place.write("built", "");
    report(&place);
    let asked = place.ledger("work --judge-only").code(3);
    asked.complains(&["stays reported", "touch ran && test -f built", "ledger plan approve plan"]);
    assert!(!place.path("ran").exists());
    assert_eq!(status_of(&place, "build"), "reported");
    place.ledger("plan review plan").code(0).says(&["build.check: touch ran && test -f built"]);
    place.ledger("plan approve plan --by ana").code(0);
    place.ledger("plan approve plan --by ana").code(6).complains(&["no version waits"]);
    place.ledger("work --judge-only").code(0);
    assert!(place.path("ran").exists());
    assert_eq!(status_of(&place, "build"), "accepted");
}

#[test]
fn version_with_the_same_commands_needs_no_approval() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    place.write("plan.yaml", PLAN.replace("Publish it", "Publish all of it"));
    place.ledger("plan propose plan.yaml --run plan").code(0);
    place.write("built", "");
    report(&place);
    place.ledger("work --judge-only").code(0);
    assert_eq!(status_of(&place, "build"), "accepted");
    // Another command needs one.
    let other = "steps: [{id: build, goal: Build, acceptance: [{command: touch other}]}]";
    place.write("plan.yaml", other);
    place.ledger("plan propose plan.yaml --run plan").code(0);
    report(&place);
    place.ledger("work --judge-only").code(3).complains(&["touch other"]);
    assert!(!place.path("other").exists());
}

#[test]
fn run_of_a_file_by_a_person_approves_its_commands() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    let run = ["run", "plan.yaml", "--worker", "true", "--tag", "none"];
    // In the shell of an agent session it does not.
    start(place.command(&run).env("CLAUDECODE", "1")).end().code(3);
    report(&place);
    place.ledger("work --judge-only").code(3).complains(&["no person approved"]);
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    place.write("built", "");
    place.ledger_with(&run).code(3);
    report(&place);
    place.ledger("work --judge-only").code(0);
    assert_eq!(status_of(&place, "build"), "accepted");
}

#[test]
fn work_is_checked_in_the_worktree_of_its_claim_and_nowhere_else() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    git(&place.path(""), &["init", "-q"]);
    git(&place.path(""), &["commit", "-q", "--allow-empty", "-m", "start"]);
    git(&place.path(""), &["worktree", "add", "-q", "tree"]);
    let ledger = place.path(".ledger");
    let claim_in = |folder: &Path| {
        let mut claim = place.command(&["claim", "plan", "--ledger", ledger.to_str().unwrap()]);
        let token = start(claim.current_dir(folder)).end().code(0).token();
        place.ledger(&format!("receipt {token} --output done")).code(0);
    };
    // A folder that its repository does not list.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("built"), "").unwrap();
    claim_in(elsewhere.path());
    place.ledger("work --judge-only").code(3).complains(&["git worktree list"]);
    assert!(!elsewhere.path().join("ran").exists() && !place.path("ran").exists());
    place.ledger("reject plan build --by ana").code(6);
    place.ledger("plan propose plan.yaml --run plan").code(6);
    place.write("plan.yaml", PLAN.replace("Build it", "Build it again"));
    place.ledger("plan propose plan.yaml --run plan").code(0);
    let tree = place.path("tree");
    std::fs::write(tree.join("built"), "").unwrap();
    claim_in(&tree);
    place.ledger("work --judge-only").code(0);
    assert!(tree.join("ran").exists() && !place.path("ran").exists());
    assert_eq!(status_of(&place, "build"), "accepted");
}

#[test]
fn judge_never_starts_in_an_attempt_or_an_agent_session() {
    let place = proposed();
    place.ledger("plan approve plan --by ana").code(0);
    place.write("built", "");
    report(&place);
    let judge = ["work", "--judge-only"];
    let refused = start(place.command(&judge).env("CLAUDECODE", "1")).end();
    refused.code(6).complains(&["agent session"]);
    place.write("other.yaml", "steps: [{id: a, goal: Judge}]");
    let worker = format!("{} work --judge-only; test $? = 6", super::command::PROGRAM);
    place.ledger("plan propose other.yaml").code(0);
    place.ledger_with(&["work", "other", "--", "sh", "-c", &worker]).code(0);
    assert_eq!(status_of(&place, "build"), "reported");
    assert!(!place.path("ran").exists());
}
