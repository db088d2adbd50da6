//! The inputs of a run: declared in its plan, given when it starts, on record.

use crate::command::Place;

const LOAN: &str = "\
inputs:
  applicant_id: {type: string}
  amount: {type: integer, default: 1000}
steps:
  - id: verify_identity
    inputs: [applicant_id, amount]
    preconditions: ['applicant_id != \"\"']
    command: 'cat > seen.json; echo true'
    outputs: [identity_verified]
";

fn loan() -> Place {
    let place = Place::new();
    place.write("loan.yaml", LOAN);
    place
}

// S2: a run gets its inputs.

#[test]
fn s2_run_gets_its_inputs_and_they_are_on_record() {
    let place = loan();
    place.ledger("run loan.yaml --set applicant_id=A-7291").code(0);
    let seen: serde_json::Value = serde_json::from_str(&place.read("seen.json")).unwrap();
    assert_eq!(seen["inputs"], serde_json::json!({"applicant_id": "A-7291", "amount": 1000}));
    let lines = place.ledger("inspect .ledger records --kind variable_set --json").lines();
    let sets: Vec<String> = lines.iter().map(|line| line["event"].to_string()).collect();
    assert!(sets.iter().any(|it| it.contains("A-7291") && it.contains("input")), "{sets:?}");
    assert!(sets.iter().any(|it| it.contains("1000") && it.contains("plan")), "{sets:?}");
    // A run that is started again has its inputs.
    place.ledger("run loan.yaml --set applicant_id=other").code(0).complains(&["is ignored"]);
    place.ledger("verify .ledger").code(0);
}

#[test]
fn s2_missing_input_is_refused_before_anything_is_written() {
    let place = loan();
    let hint = "hint: add --set applicant_id=VALUE";
    let refused = place.ledger("run loan.yaml").code(6);
    refused.complains(&["the plan needs values for its inputs: applicant_id", hint]);
    assert!(!place.path(".ledger").exists());
    place.ledger("init").code(0);
    place.ledger("plan propose loan.yaml").code(6).complains(&[hint]);
    assert!(place.state().runs.is_empty());
    place.ledger("plan propose loan.yaml --set applicant_id=7").code(0);
    let run = place.state().run_named("loan").unwrap().clone();
    assert_eq!(run.variables["applicant_id"].value.value(), "7", "a string stays one");
}

#[test]
fn s2_inputs_have_types_and_names() {
    let place = loan();
    let run = |more: &str| place.ledger(&format!("run loan.yaml --set applicant_id=A {more}"));
    run("--set amount=many").code(6).complains(&["expected a value of type integer"]);
    run("--set amuont=1")
        .code(6)
        .complains(&["input amuont", "its inputs are amount, applicant_id"]);
    run("--set amount").code(2).complains(&["expected NAME=VALUE"]);
    run("--set amount=5 --set amount=6").code(2).complains(&["twice"]);
    place.write("bad.yaml", "inputs: {n: {type: integer, default: x}}\nsteps: [{id: a}]\n");
    place.ledger("plan lint bad.yaml").code(2).says(&["inputs.n.default", "not of type integer"]);
    place.ledger("plan lint loan.yaml").code(0);
    // A plan without inputs takes any.
    place.write("free.yaml", "steps:\n  - {id: a, command: 'true', condition: 'go'}\n");
    place.ledger("run free.yaml --set go=true").code(0);
    place.ledger("inspect .ledger step free a").says(&["accepted"]);
}

#[test]
fn s2_later_version_needs_values_for_its_inputs() {
    let place = Place::planned("steps: [{id: a}]");
    let plan = |more: &str| format!("inputs: {{n: {{{more}}}}}\nsteps: [{{id: a}}, {{id: b}}]\n");
    place.write("plan.yaml", plan("type: integer"));
    place.ledger("plan propose plan.yaml").code(6).complains(&["`ledger set n VALUE`"]);
    place.write("plan.yaml", plan("default: 3"));
    place.ledger("plan propose plan.yaml").code(0);
    place.ledger("get n").code(0).says(&["3"]);
}

#[test]
fn s2_drill_takes_inputs() {
    let place = loan();
    place.write("loan.yaml", LOAN.replace("    command: 'cat > seen.json; echo true'\n", ""));
    place.ledger("drill loan.yaml --set applicant_id=A-7291").code(0);
    place.ledger("drill loan.yaml --set applicant_id=A-7291 --every-crash --at 3").code(0);
}
