//! Second owners: while a usage limit holds an owner, the workers of another one take its steps. Real processes
//! that print what agents print.

use plan_ledger::StepStatus;

use super::command::{Place, ids, start, wait_until};

const OWNERS: &str = "owners: {claude: {limit: {then: codex}}, codex: {}}";

/// A place with a plan, and with an agent for each of the two owners. Each writes its name and its step into the
/// tally; `claude` meets a limit while there is no file `over`, `codex` while there is a file `exhausted`.
fn place(steps: &str, limit: &str) -> Place {
    let place = Place::new();
    place.write("plan.yaml", format!("{OWNERS}\ndefaults: {{owner: claude}}\nsteps:\n{steps}"));
    let agent = |name: &str, is_limited: &str, limit: &str| {
        let met =
            format!("{{ echo \"You've hit your usage limit. Try again in {limit}.\"; exit 1; }}");
        let text = format!("echo {name} $LEDGER_STEP >> $TALLY\nif {is_limited}; then {met}; fi\n");
        place.write(&format!("{name}.sh"), text);
    };
    agent("claude", "[ ! -e over ]", limit);
    agent("codex", "[ -e exhausted ]", "2 hours");
    place
}

const RUN: [&str; 8] = [
    "run",
    "plan.yaml",
    "--worker-for",
    "claude=sh claude.sh",
    "--worker-for",
    "codex=sh codex.sh",
    "--max-parallel",
    "1",
];

fn second_owners(place: &Place) -> usize {
    let records = place.ledger("inspect .ledger records --json").code(0);
    records.out.matches("\"second_owner\":\"codex\"").count()
}

#[test]
fn step_at_a_limit_goes_to_the_second_owner_and_back_after_the_limit() {
    let steps = "  - {id: a, retry: {max_attempts: 1}}
  - {id: b}
  - {id: pause, owner: shell, after: [a, b], command: 'touch over; sleep 3'}
  - {id: c, after: [pause]}
";
    let place = place(steps, "2 seconds");
    let ended = place.ledger_with(&RUN).code(0);
    ended.complains(&[
        "steps of claude go to codex until ",
        "step 1 (a): dispatched to codex, attempt 2",
        "step 2 (b): dispatched to codex",
        "step 4 (c): dispatched\n",
    ]);
    assert_eq!(place.tally(), ["claude a", "codex a", "codex b", "claude c"]);
    let state = place.state();
    let run = state.run_named("plan").unwrap();
    assert!(run.steps.iter().all(|step| step.failures == 0), "a limit uses up no attempt");
    assert_eq!(second_owners(&place), 2);
}

/// Where both are at a limit, the first one that ends is not waited for longer than it lasts.
#[test]
fn first_owner_is_used_again_while_the_second_one_is_at_its_limit() {
    let place = place("  - {id: a}\n  - {id: b}\n", "2 seconds");
    place.write("exhausted", "");
    let run = start(&mut place.command(&RUN));
    wait_until("both are at their limits", || place.tally() == ["claude a", "codex a"]);
    place.write("over", "");
    run.end().code(0);
    let mut tally = place.tally();
    tally.drain(..2);
    tally.sort();
    assert_eq!(tally, ["claude a", "claude b"]);
}

/// What a person reads while the second owner works.
#[test]
fn second_owner_at_work_is_named() {
    let place = place(
        "  - {id: a}\n  - {id: b}\n  - {id: own, command: 'echo own >> $TALLY'}\n",
        "2 hours",
    );
    let held = "while [ ! -e done ]; do sleep 0.01; done";
    place.write("codex.sh", format!("echo codex $LEDGER_STEP >> $TALLY; {held}"));
    let run = start(&mut place.command(&RUN));
    wait_until("codex is at work", || place.tally() == ["claude a", "codex a"]);
    // A step with a command of its own has nothing for another agent: it waits.
    let wait = ", its steps go to codex, 1 ready step: a usage limit: exit status 1: You've hit";
    let status = place.ledger("status").code(0);
    status.says(&[
        "owner claude waits until 2",
        wait,
        "by process/1 of codex, the second owner, for ",
    ]);
    place.ledger("status --json").code(0).says(&["\"ready\":[3]", "\"second_owner\":\"codex\""]);
    let why = place.ledger("inspect .ledger why plan a").code(0);
    why.says(&["process/1 of codex holds the lease of step 1 (a)"]);
    place.write("done", "");
    wait_until("codex did both", || {
        ids(place.state().run_named("plan").unwrap(), StepStatus::Accepted).len() == 2
    });
    assert_eq!(place.tally(), ["claude a", "codex a", "codex b"]);
    run.signal("TERM");
    run.end();
}

/// The plan names a second owner for whom this runner has no worker.
#[test]
fn second_owner_without_a_worker_gets_no_step() {
    let place = place("  - {id: a}\n", "2 seconds");
    place.write("claude.sh", "echo claude >> $TALLY; [ -e over ] || { touch over; echo 'usage limit reached, try again in 2s'; exit 1; }");
    let words = ["run", "plan.yaml", "--worker", "sh claude.sh"];
    place.ledger_with(&words).code(0).complains(&["steps of claude wait until "]);
    assert_eq!((place.tally(), second_owners(&place)), (vec!["claude".to_owned(); 2], 0));
}

#[test]
fn second_owner_that_is_unknown_or_leads_back_is_rejected_with_its_place() {
    let place = Place::new();
    for (owners, problem) in [
        (
            "{claude: {limit: {then: codx}}, codex: {limit: {then: claude}}}",
            "owners.claude.limit.then: there is no owner `codx`; did you mean `codex`?",
        ),
        (
            "{claude: {limit: {then: codex}}, codex: {limit: {then: claude}}}",
            "owners.claude.limit.then: the second owners lead back: claude -> codex -> claude",
        ),
        ("{claud: {}}", "owners.claud: no step has the owner `claud`; did you mean `claude`?"),
        ("{claude: {limit: {than: codex}}}", "than"),
    ] {
        place.write("plan.yaml", format!("owners: {owners}\nsteps: [{{id: a, owner: claude}}]"));
        place.ledger("plan lint plan.yaml").code(2).says(&[problem]);
    }
    let words = ["run", "plan.yaml", "--worker-for", "codex"];
    place.ledger_with(&words).code(2).complains(&["expected OWNER=CMD"]);
}
