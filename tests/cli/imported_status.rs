//! `marks` in a plan file: steps that the file declares done or dropped are never dispatched,
//! however and whenever the run starts on that plan version.

use plan_ledger::StepStatus;

use super::command::{Place, start, wait_until};

const GATE: &str = "gate: {question: 'Is this the plan?', to: ana}\n";
const PAID: &str = "steps:
  - {id: pay, command: 'echo paid >> $TALLY'}
  - {id: ship, after: [pay], command: 'echo ship >> $TALLY'}
marks: {done: {pay: 'tasks.md: line 3'}}
";

/// Marks count when a person approves the plan while the runner waits. The runner used to dispatch
/// the marked step again.
#[test]
fn marks_apply_when_the_plan_is_approved() {
    let place = Place::new();
    place.write("plan.yaml", format!("{GATE}{PAID}"));
    let run = start(&mut place.command(&["run", "plan.yaml", "--wait"]));
    wait_until("the question is open", || {
        place.ledger("questions").out.contains("Is this the plan?")
    });
    place.ledger("plan approve plan --by ana").code(0);
    run.end().code(0).complains(&["1 step is done already, as the file says"]);
    assert_eq!(place.tally(), ["ship"]);
}

/// Marks of a later version count when it is approved, during the run and after it. The marked step
/// used to be dispatched both times.
#[test]
fn marks_of_a_later_version_apply_when_it_is_approved() {
    let slow =
        "steps:\n  - {id: slow, command: 'touch begun; until test -e go; do sleep 0.01; done'}\n";
    for is_at_work in [true, false] {
        let place = Place::new();
        if !is_at_work {
            place.write("go", "");
        }
        place.write(
            "plan.yaml",
            format!("{slow}  - {{id: last, gate: {{question: 'Go?'}}, command: 'true'}}\n"),
        );
        place.ledger("init").code(0);
        place.ledger("plan propose plan.yaml").code(0);
        let later = PAID.replace("steps:\n", slow);
        place.write("plan.yaml", format!("{GATE}{later}"));
        let run = start(&mut place.command(&["run", "plan.yaml", "--replan"]));
        if is_at_work {
            wait_until("the step is running", || place.path("begun").exists());
            place.ledger("plan approve plan --by ana").code(0);
            place.write("go", "");
            run.end().code(0);
        } else {
            run.end().code(3);
            place.ledger("plan approve plan --by ana").code(0);
            place.ledger("run plan.yaml").code(0);
        }
        assert_eq!(place.tally(), ["ship"], "{is_at_work}");
    }
}

const TASKS: &str = r#"{"tasks": [
    {"id": 1, "title": "one", "status": "done", "dependencies": []},
    {"id": 2, "title": "two", "status": "pending", "dependencies": []},
    {"id": 3, "title": "three", "status": "cancelled", "dependencies": []},
    {"id": 4, "title": "four", "status": "cancelled", "dependencies": []}]}"#;

/// Marks count when the runner starts on a run that has already begun: one proposed without a
/// runner, or one whose runner died between two marks.
#[test]
fn marks_apply_to_a_run_that_has_begun() {
    for (earlier, dispatched) in
        [("claim tasks --step 2", &[][..]), ("skip tasks 3 --reason dropped", &["2"])]
    {
        let place = Place::new();
        place.write("tasks.json", TASKS);
        place.ledger("init").code(0);
        place
            .ledger("plan propose tasks.json --text trust")
            .code(0)
            .complains(&["`ledger run` takes them"]);
        place.ledger(earlier).code(0);
        place.ledger_with(&["run", "tasks.json", "--worker", "echo $LEDGER_STEP >> $TALLY"]);
        assert_eq!(place.tally(), dispatched, "{earlier}");
        let state = place.state();
        let run = state.run_named("tasks").unwrap();
        let closed = [StepStatus::Accepted, StepStatus::Skipped].map(|status| run.count(status));
        assert_eq!(closed, [1 + u32::try_from(dispatched.len()).unwrap(), 2], "{earlier}");
    }
}

/// A mark that is added while the run is stopped counts for a gated step.
#[test]
fn checkbox_ticked_between_runs_is_honoured() {
    let place = Place::new();
    let plan = |marks: &str| {
        format!(
            "steps:
  - {{id: first, command: 'echo first >> $TALLY; exit 1', retry: {{max_attempts: 9, backoff_seconds: 1}}}}
  - {{id: pay, gate: {{question: 'Pay?'}}, command: 'echo paid >> $TALLY'}}
marks: {{done: {{{marks}}}}}
"
        )
    };
    place.write("plan.yaml", plan(""));
    let run = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the first step fails", || place.tally().len() == 1);
    run.signal("INT");
    run.end().code(3);
    place.write("plan.yaml", plan("first: 'by ana', pay: 'by ana'"));
    let run = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the first step is retried", || place.tally().len() > 1);
    run.signal("INT");
    run.end().complains(&["1 step is done already", "mark of `first` is ignored"]);
    let pay = place.ledger("inspect .ledger step plan pay").code(0);
    pay.says(&["accepted"]);
    assert!(!place.tally().contains(&"paid".to_owned()));
}
