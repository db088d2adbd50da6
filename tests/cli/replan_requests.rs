//! An open request for a new plan is never lost: the run waits for the version, the withdrawal or the
//! planner, and what the version may change is not dispatched meanwhile.

use plan_ledger::{Ending, Run, RunStatus, StepStatus};
use serde_json::json;

use super::command::{Ended, PROGRAM, Place, start, wait_until};

fn run_of(place: &Place) -> Run {
    place.state().run_named("plan").unwrap().clone()
}

/// Steps of which the first requests another plan while it is at work.
fn asking(request: &str, rest: &str) -> Place {
    let place = Place::new();
    place.write("request.sh", format!("{PROGRAM} plan request {request} --reason 'also business'"));
    let first = "  - {id: a, command: 'echo a >> $TALLY; sh request.sh'}\n";
    place.write("plan.yaml", format!("steps:\n{first}{rest}"));
    place
}

/// The steps that were done, in the order of their names: steps beside each other end in any order.
fn done(place: &Place) -> Vec<String> {
    let mut done = place.tally();
    done.sort();
    done
}

const REST: &str = "  - {id: b, command: 'echo b >> $TALLY'}\n";

/// A plan without a planner or a limit of replans. All steps are done, and the request is still open: the
/// run waits for a person, and every list of what waits shows it.
#[test]
fn open_request_keeps_the_run_from_ending() {
    let place = asking("--kind scope-change", REST);
    let words = ["a new plan version is needed: also business", "ledger plan withdraw plan"];
    place.ledger("run plan.yaml").code(3).says(&words);
    place.ledger("status").says(&["ledger plan propose plan.yaml --run plan"]);
    assert_eq!(done(&place), ["a", "b"]);
    for line in ["status", "next", "questions --decided", "prime"] {
        let shown = place.ledger(line);
        assert!(shown.out.contains("also business"), "{line}: {}{}", shown.out, shown.err);
    }
    let next = place.ledger("next plan --json").lines();
    assert_eq!(next[0]["action"], "replan");
    assert!(next[0]["command"].is_null(), "a person decides: {}", next[0]);
    place.ledger("run plan.yaml").code(3).says(&words);
    // A person rejects the request, with a note.
    place
        .ledger_with(&["plan", "withdraw", "plan", "--by", "ana", "--reason", "next year"])
        .code(0);
    place.ledger("run plan.yaml").code(0);
    assert_eq!(run_of(&place).status, RunStatus::Ended(Ending::Done));
    let history = place.ledger("inspect .ledger records --kind replan_withdrawn").code(0);
    assert!(history.out.contains("next year"), "{}", history.out);
}

/// A new version answers the request, and the run ends.
#[test]
fn new_version_answers_the_request() {
    let place = asking("--kind scope-change", REST);
    place.ledger("run plan.yaml").code(3);
    let more = format!(
        "{}  - {{id: business, command: 'echo business >> $TALLY'}}\n",
        place.read("plan.yaml")
    );
    place.write("plan.yaml", more);
    place.ledger("run plan.yaml --replan").code(0).says(&["3 of 3 steps accepted"]);
    assert_eq!(done(&place), ["a", "b", "business"]);
}

/// The step that a request names and the steps after it are not dispatched; others are.
#[test]
fn named_step_and_what_follows_are_held() {
    let rest = "  - {id: pay, idempotent: no, after: [a], command: 'echo pay >> $TALLY'}
  - {id: ship, after: [pay], command: 'echo ship >> $TALLY'}
  - {id: b, idempotent: no, after: [a], command: 'echo b >> $TALLY'}
";
    let place = asking("--from pay", rest);
    place.ledger("run plan.yaml").code(3).says(&["from step 2 (pay) on: also business"]);
    assert_eq!(done(&place), ["a", "b"]);
    place
        .ledger("inspect .ledger why plan pay")
        .says(&["requested a new plan from step 2 on: also business"]);
    let claimed = place.ledger("claim plan --step pay --worker ana").code(3);
    assert!(format!("{}{}", claimed.out, claimed.err).contains("requested a new plan"));
    place.ledger_with(&["plan", "withdraw", "plan", "--by", "ana"]).code(0);
    place.ledger("run plan.yaml").code(0);
    assert_eq!(done(&place), ["a", "b", "pay", "ship"]);
}

/// A request that names no step holds what cannot be done again; idempotent steps go on.
#[test]
fn request_without_a_step_holds_what_is_not_idempotent() {
    let rest = "  - {id: pay, idempotent: no, after: [a], command: 'echo pay >> $TALLY'}
  - {id: b, after: [a], command: 'echo b >> $TALLY'}
";
    let place = asking("--kind new-evidence", rest);
    place.ledger("run plan.yaml").code(3);
    assert_eq!(done(&place), ["a", "b"]);
    place.ledger("inspect .ledger why plan pay").says(&["requested a new plan: also business"]);
}

/// A worker's request on a plan that allows no replan by itself waits for a person. The version that the
/// person proposes answers it, and counts as a replan for a problem.
#[test]
fn request_of_a_worker_waits_on_a_plain_plan() {
    let place = Place::planned("steps: [{id: a}, {id: b, after: [a]}]\n");
    let done = json!({ "outcome": "succeeded" });
    let asks = json!({ "outcome": "replan_requested", "message": "the API is gone", "from": "a" });
    place.write("worker.sh", format!(
        "case \"$LEDGER_STEP\" in a) echo '{done}';; *) [ -e better ] && echo '{done}' || echo '{asks}';; esac > \"$LEDGER_RECEIPT\""
    ));
    let run = ["run", "plan.yaml", "--run", "plan", "--worker", "sh worker.sh"];
    let words = ["a new plan version is needed from step 1 (a) on", "the API is gone"];
    place.ledger_with(&run).code(3).says(&words);
    let request = run_of(&place).request.unwrap();
    assert_eq!(request.from.map(|from| from.0), Some(1));
    place.write("better", "");
    place.write("plan.yaml", "steps: [{id: a, goal: another API}, {id: b, after: [a]}]\n");
    place.ledger_with(&[&run[..], &["--replan"]].concat()).code(0);
    let metrics = place.ledger("inspect .ledger metrics --json").lines();
    let precision = &metrics.iter().find(|line| line["replan_precision"].is_object()).unwrap()["replan_precision"];
    assert_eq!(precision["of"], 1, "{precision}");
    let replans = place.ledger("inspect .ledger plan --replans --json").lines();
    let replan = replans.iter().find(|line| line["type"] == "replan_record").unwrap();
    assert_eq!(replan["trigger_kind"], "executor_request");
}

/// A planner that was asked is waited for, although every step is done by then.
#[test]
fn answer_of_the_planner_is_waited_for() {
    let place = asking("--kind scope-change", REST);
    let better = format!(
        "{}  - {{id: business, command: 'echo business >> $TALLY'}}\n",
        place.read("plan.yaml")
    );
    place.write("answer", better);
    place
        .write("planner.sh", "while ! grep -q b tally; do sleep 0.01; done; sleep 0.5; cat answer");
    let run = ["run", "plan.yaml", "--planner", "sh planner.sh", "--approve", "auto", "--yes"];
    place.ledger_with(&run).code(0).says(&["3 of 3 steps accepted"]);
    assert_eq!(done(&place), ["a", "b", "business"]);
}

/// The request of a step stays open when its attempt fails and the step is retried.
#[test]
fn request_outlives_a_retry_of_the_attempt_that_made_it() {
    let place = Place::new();
    place.write(
        "request.sh",
        format!(
            "[ -e asked ] && exit 0; touch asked; {PROGRAM} plan request --reason unclear; exit 1"
        ),
    );
    place.write(
        "plan.yaml",
        "steps: [{id: a, retry: {max_attempts: 3}, command: 'sh request.sh'}]\n",
    );
    place.ledger("run plan.yaml --on-unknown retry").code(3).says(&["unclear"]);
    assert!(run_of(&place).request.is_some());
}

/// Reports that the worker of a step requests another plan from a step on.
fn report_request(place: &Place, step: &str, from: &str, why: &str) -> Ended {
    let claim = format!("claim plan --step {step} --worker {step}-worker --json");
    let token = place.ledger(&claim).code(0).token();
    let asks = json!({ "outcome": "replan_requested", "message": why, "from": from });
    place.write("asks.json", asks.to_string());
    place.ledger_with(&["receipt", &token, "--receipt", "asks.json"]).code(0)
}

/// A person who retries or skips the failed step that asked does not decide about its request: it stays
/// open and holds what it names, until it is withdrawn.
#[test]
fn retry_and_skip_by_a_person_leave_the_request_open() {
    for line in ["retry plan a --by ana", "skip plan a --by ana --reason useless"] {
        let place = Place::planned("steps: [{id: a}, {id: b, idempotent: no, after: [a]}]\n");
        report_request(&place, "a", "b", "unclear");
        let status = place.ledger("status").out;
        let items = place.ledger("next --json").lines();
        let next = items.iter().find(|item| item["action"] == "replan").expect("the request");
        let next = next["commands"].to_string();
        assert!(!next.contains("ledger retry") && !next.contains("ledger skip"), "{next}");
        for offer in ["ledger plan propose", "ledger plan withdraw"] {
            assert!(status.contains(offer), "{offer}: {status}");
        }
        let request = run_of(&place).request.unwrap().seq;
        place.ledger(line).code(0).complains(&[&format!(
            "the request for a new plan (record {request}) stays open: `ledger plan withdraw plan \
             --reason WHY` rejects it"
        )]);
        if line.starts_with("retry") {
            let token = place.ledger("claim plan --step a --worker w --json").code(0).token();
            place.ledger(&format!("receipt {token}")).code(0);
        }
        place.ledger("claim plan --step b --worker w").code(3);
        place.ledger("run plan.yaml --run plan --worker true").code(3).says(&["unclear"]);
        place.ledger("plan withdraw plan --by ana --reason fine").code(0);
        place.ledger("run plan.yaml --run plan --worker true").code(0);
        assert_eq!(run_of(&place).status, RunStatus::Ended(Ending::Done));
    }
}

/// A worker's request while another one is open waits: what both name is held, and each is resolved by
/// itself.
#[test]
fn second_request_waits_for_the_first() {
    let place = Place::planned(
        "steps: [{id: a}, {id: b}, {id: c, after: [a]}, {id: d, after: [b]}, {id: e}, {id: f, after: [e]}]\n",
    );
    report_request(&place, "a", "c", "c is wrong");
    let first = run_of(&place).request.unwrap().seq;
    report_request(&place, "b", "f", "f is wrong").says(&[
        "another plan is requested from step f on",
        &format!("it waits until the request for a new plan (record {first}) is resolved"),
    ]);
    place.ledger("status").says(&["c is wrong", "f is wrong"]);
    let refused = place.ledger("skip plan b --by ana --reason useless").code(6);
    assert!(refused.err.contains(&format!("record {first}")), "{}", refused.err);
    let run = ["run", "plan.yaml", "--run", "plan", "--worker", "true"];
    place.ledger_with(&run).code(3).says(&["c is wrong", "f is wrong"]);
    let status = |step: &str| {
        let run = run_of(&place);
        run.step(run.step_named(step).unwrap()).unwrap().status
    };
    assert_eq!([status("e"), status("f")], [StepStatus::Accepted, StepStatus::Ready]);

    // The second request is open once the first is rejected.
    place.ledger("plan withdraw plan --by ana --reason fine").code(0);
    let second = run_of(&place).request.unwrap();
    assert!(second.seq > first && second.reason.contains("f is wrong"), "{second:?}");
    place.ledger_with(&run).code(3).says(&["f is wrong"]);
    assert_eq!(status("f"), StepStatus::Ready);
    place.ledger("plan withdraw plan --by ana --reason fine").code(0);
    assert!(run_of(&place).request.is_none());
}

/// A version that leaves the step of the second request alone does not answer it.
#[test]
fn version_for_the_first_request_keeps_the_second() {
    let place = Place::planned("steps: [{id: a}, {id: b}]\n");
    report_request(&place, "a", "a", "a is wrong");
    report_request(&place, "b", "b", "b is wrong");
    place.write("plan.yaml", "steps: [{id: a, goal: better}, {id: b}]\n");
    place.ledger("plan propose plan.yaml --run plan").code(0);
    let second = run_of(&place).request.unwrap();
    assert!(second.reason.contains("b is wrong"), "{second:?}");
    place.write("plan.yaml", "steps: [{id: a, goal: better}, {id: b, goal: better}]\n");
    place.ledger("plan propose plan.yaml --run plan").code(0);
    assert!(run_of(&place).request.is_none());
    place.ledger("run plan.yaml --run plan --worker true").code(0);
}

/// A worker's request waits for a person, although the plan's limit of replans is used up. The person
/// makes it a change of scope, or rejects it.
#[test]
fn request_over_the_replan_limit_asks_a_person() {
    let plan = "failure: {max_replans: 0}\nsteps: [{id: a}, {id: b, after: [a]}]\n";
    let place = Place::planned(plan);
    report_request(&place, "a", "b", "unclear").says(&["another plan is requested from step b on"]);
    place
        .ledger("run plan.yaml --run plan --worker true")
        .code(3)
        .says(&["unclear", "the replan limit (0) is reached"]);
    place.ledger("status").says(&[
        "the replan limit (0) is reached",
        "ledger plan request plan --kind scope-change --reason WHY",
        "ledger plan withdraw plan",
    ]);
    let better = plan.replace("{id: a}", "{id: a, goal: better}");
    place.write("plan.yaml", better);
    place.ledger("plan propose plan.yaml --run plan").code(6);
    place.ledger("plan request plan --kind scope-change --reason better --by ana").code(0);
    assert_eq!(run_of(&place).request.unwrap().from.map(|from| from.0), Some(2));
    place.ledger("plan propose plan.yaml --run plan").code(0);
    place.ledger("run plan.yaml --run plan --worker true").code(0);
    assert_eq!((run_of(&place).replans, run_of(&place).active), (0, 2));
}

/// A runner that waits does not hide a request that arrives while it is at work.
#[test]
fn request_of_a_person_during_a_run_holds_later_steps() {
    let place = Place::new();
    place.write("hold", "");
    place.write(
        "plan.yaml",
        "steps:
  - {id: a, command: 'echo a >> $TALLY; while [ -e hold ]; do sleep 0.01; done'}
  - {id: pay, idempotent: no, after: [a], command: 'echo pay >> $TALLY'}
",
    );
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the worker is at work", || place.tally() == ["a"]);
    place
        .ledger("plan request plan --kind scope-change --from pay --reason fraud --by ana")
        .code(0);
    std::fs::remove_file(place.path("hold")).unwrap();
    runner.end().code(3).says(&["fraud"]);
    assert_eq!(done(&place), ["a"]);
}

/// A fork has the request that was open at its record.
#[test]
fn fork_keeps_the_open_request() {
    let place = asking("--kind scope-change", REST);
    place.ledger("run plan.yaml").code(3);
    let seq = place.state().seq;
    let forked = place.ledger(&format!("fork plan --at {seq} --name other")).code(0);
    forked.complains(&["stays open", "`ledger next other` says what answers it"]);
    place.ledger("run plan.yaml --run other").code(3).says(&["also business"]);
    place.ledger("plan withdraw other --by ana --reason fine").code(0);
    place.ledger("run plan.yaml --run other").code(0);
    assert!(run_of(&place).request.is_some(), "that of the other run is its own");
}

/// A planner plans once for all that was requested.
#[test]
fn planner_gets_every_request() {
    let place = Place::planned(
        "failure: {max_replans: 2}\nsteps: [{id: a}, {id: b}, {id: c, after: [b]}]\n",
    );
    report_request(&place, "a", "a", "a is wrong");
    report_request(&place, "b", "c", "c is wrong");
    let run = ["run", "plan.yaml", "--worker", "true", "--planner", "cat > asked; exit 1"];
    place.ledger_with(&run).code(3);
    let asked: serde_json::Value = serde_json::from_str(&place.read("asked")).unwrap();
    assert_eq!(asked["request"]["reason"], "the worker requested a new plan: a is wrong");
    let waiting = json!([{"step": "b", "from": "c", "reason": "c is wrong"}]);
    assert_eq!(asked["waiting_requests"], waiting);
}

/// The runner was killed while its planner was at work: its next start asks the planner again.
#[test]
fn runner_that_waited_for_its_planner_is_offered_again() {
    let place = asking("--kind scope-change", REST);
    place.write("planner.sh", "touch asked; while [ -e asked ]; do sleep 0.05; done; exit 1");
    let run = ["run", "plan.yaml", "--planner", "sh planner.sh"];
    let runner = start(&mut place.command(&run));
    wait_until("the planner is asked", || place.path("asked").exists());
    let accepted = || run_of(&place).count(StepStatus::Accepted);
    wait_until("all steps are accepted", || accepted() == 2);
    assert!(runner.kill().was_killed());
    let status = place.ledger("status").code(0);
    std::fs::remove_file(place.path("asked")).unwrap();
    status.says(&["its planner is to make a new plan version: start it again", "ledger resume"]);
}

/// One item is enough: the version that waits for approval answers the request.
#[test]
fn request_is_not_shown_beside_the_version_that_answers_it() {
    let place = asking("--kind scope-change", REST);
    let better = format!("{}  - {{id: more, command: 'true'}}\n", place.read("plan.yaml"));
    place.write("answer", better);
    let run = ["run", "plan.yaml", "--planner", "cat answer"];
    let waiting = place.ledger_with(&run).code(3).says(&["version 2 of the plan"]);
    assert!(!waiting.out.contains("a new plan version is needed"), "{}", waiting.out);
    place.ledger_with(&["plan", "reject", "plan", "--by", "ana", "--note", "no"]).code(0);
    place.ledger("status").says(&["a new plan version is needed: also business"]);
}
