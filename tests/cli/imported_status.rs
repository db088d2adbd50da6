//! What a plan file marks as done or dropped: it is not dealt, however and whenever the run comes to it.

use plan_ledger::plan::StepStatus;

use super::command::{Place, start, wait_until};

const GATE: &str = "gate: {question: 'Is this the plan?', to: ana}\n";
const PAID: &str = "steps:
  - {id: pay, command: 'echo paid >> $TALLY'}
  - {id: ship, after: [pay], command: 'echo ship >> $TALLY'}
marks: {done: {pay: 'tasks.md: line 3'}}
";

/// Story: the plan had to be approved, its first step was done by hand before. Ana said yes while
/// the runner waited for her, and the runner paid a second time.
#[test]
fn marks_are_taken_when_a_plan_is_approved() {
    let place = Place::new();
    place.write("plan.yaml", format!("{GATE}{PAID}"));
    let run = start(&mut place.command(&["run", "plan.yaml", "--wait"]));
    wait_until("somebody is asked", || place.ledger("questions").out.contains("Is this the plan?"));
    place.ledger("plan approve plan --by ana").code(0);
    run.end().code(0).complains(&["1 step is done already, as the file says"]);
    assert_eq!(place.tally(), ["ship"]);
}

/// Story: the file's next version, with work that was done meanwhile, waited for a yes. It was given to
/// the runner that was at work, or after it had ended: both times the done step was dealt.
#[test]
fn marks_of_a_later_version_are_taken_when_it_is_approved() {
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
            wait_until("it is at work", || place.path("begun").exists());
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

/// Story: a run was begun without its file (`plan propose` says that `ledger run` takes the marks), or
/// its runner was killed after it had skipped the first of two steps. The next runner found a run in
/// which something had happened, and dealt what was done, and what was dropped.
#[test]
fn marks_are_taken_by_who_comes_to_a_run_that_has_begun() {
    for (earlier, dealt) in
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
        assert_eq!(place.tally(), dealt, "{earlier}");
        let state = place.state();
        let run = state.run_named("tasks").unwrap();
        let closed = [StepStatus::Accepted, StepStatus::Skipped].map(|status| run.count(status));
        assert_eq!(closed, [1 + u32::try_from(dealt.len()).unwrap(), 2], "{earlier}");
    }
}

/// Story: the box of a step that waited for a yes was ticked while the run stood, and the step was dealt
/// all the same, without a word.
#[test]
fn a_box_that_is_ticked_while_the_run_stands_counts() {
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
    wait_until("the first one fails", || place.tally().len() == 1);
    run.signal("INT");
    run.end().code(3);
    place.write("plan.yaml", plan("first: 'by ana', pay: 'by ana'"));
    let run = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the first one is tried again", || place.tally().len() > 1);
    run.signal("INT");
    run.end().complains(&["1 step is done already", "mark of `first` does not count"]);
    let pay = place.ledger("inspect .ledger step plan pay").code(0);
    pay.says(&["accepted"]);
    assert!(!place.tally().contains(&"paid".to_owned()));
}
