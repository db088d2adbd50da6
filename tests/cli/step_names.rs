//! How commands name steps and runs: by id or name, or by number as `#37`. A bare number is a step's
//! number where no step has it as its id, and never a run's number. An ambiguous word is rejected.

use super::command::{Place, start};

/// The status of step `number` (from 1).
fn status(place: &Place, number: usize) -> String {
    place.state().run_named("plan").unwrap().steps[number - 1].status.to_string()
}

/// A bare number is the id of a step if some step has it, removed or not, and else a step number. A
/// removed step is reported as removed.
#[test]
fn bare_number_is_a_step_id_before_a_step_number() {
    let first = "steps: [{id: '1.1'}, {id: '1'}, {id: '2'}, {id: '3'}]";
    let place = Place::planned(first);
    place.write("plan.yaml", first.replace(", {id: '3'}", ""));
    place.ledger("plan propose plan.yaml").code(0);
    let before = place.state().seq;
    let gone = "step `3` was removed";
    for line in ["skip plan 3 --reason x", "retry plan 3", "claim plan --step 3"] {
        place.ledger(line).code(2).complains(&[gone]);
    }
    place.ledger("decide plan 3 retry").code(2).complains(&[gone]);
    place.ledger("answer plan 3 yes --by me").code(6).complains(&["step 4 (3)", "is removed"]);
    place.ledger("accept plan 3 --by me").code(6).complains(&["step 4 (3)", "is removed"]);
    place.ledger("inspect step plan 3").code(0).says(&["#4 3"]);
    place.ledger("skip plan 4 --reason x").code(2).complains(&["step `4` was removed"]);
    place.ledger("inspect step plan 4").code(0).says(&["#4 3"]);
    place.ledger("skip plan 5 --reason x").code(2).complains(&["no step `5`"]);
    assert_eq!(place.state().seq, before);
    place.ledger_with(&["skip", "plan", "#3", "--reason", "x"]).code(0).says(&["step 3 (2)"]);
    assert_eq!([status(&place, 3), status(&place, 4)], ["skipped", "removed"]);
    let tens = Place::planned("steps: [{id: '10.1'}, {id: '3'}, {id: '20'}]");
    tens.ledger("skip plan 3 --reason x").code(0).says(&["step 2 (3)"]);
    tens.ledger("claim plan --step 1").code(0);
    assert_eq!([1, 2, 3].map(|number| status(&tens, number)), ["dispatched", "skipped", "ready"]);
}

/// A word that is the id of one step and the number of another is rejected with both spellings, and
/// the commands that the program suggests are unambiguous.
#[test]
fn ambiguous_step_word_is_rejected() {
    let place = Place::planned("steps: [{id: '#2'}, {id: two}]\nfailure: {decider: external}");
    let both = "the id of one step and the number of another";
    place.ledger_with(&["skip", "plan", "#2", "--reason", "x"]).code(2).complains(&[both]);
    let token = place.ledger("claim plan --step two --json").code(0).lines()[0]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    place.ledger(&format!("receipt {token}")).code(0);
    let token =
        place.ledger("claim plan --json").code(0).lines()[0]["token"].as_str().unwrap().to_owned();
    place.ledger(&format!("receipt {token} --failed unknown")).code(0);
    place.ledger("next plan").says(&["ledger answer plan '#1' "]);
    place.ledger_with(&["answer", "plan", "#1", "fail", "--by", "me"]).code(0);
    assert_eq!(status(&place, 1), "failed");
}

/// Where no step has it as its id, a bare number is a step number.
#[test]
fn bare_number_is_a_step_number_where_no_step_has_that_id() {
    let place = Place::planned("steps: [{id: a}, {id: b}, {id: c}]");
    place.ledger("skip plan 2 --reason x").code(0).says(&["step 2 (b)"]);
    assert_eq!(status(&place, 2), "skipped");
    place.ledger("skip plan 4 --reason x").code(2).complains(&["no step `4`"]);
    place.ledger("skip plan +1 --reason x").code(2).complains(&["no step `+1`"]);
}

/// The same rule for runs. `ledger cancel 1` used to cancel the first run, named `2`.
#[test]
fn bare_number_is_a_run_name() {
    let place = Place::planned("steps: [{id: a}]");
    place.ledger("plan propose plan.yaml --run 1").code(0);
    let named = |word: &str| {
        let lines = place.ledger_with(&["next", word, "--json"]).code(0).lines();
        lines[0]["run"].as_str().unwrap().to_owned()
    };
    assert_eq!(["1", "#1", "#2"].map(named), ["1", "plan", "1"]);
    for line in ["pause 2 --by me", "next 2", "inspect queue 2", "inspect records --run 2"] {
        place.ledger(line).code(2).complains(&["no run"]);
    }
}

/// A run that is named twice is rejected; a variable of the environment is only a default.
#[test]
fn run_is_named_once() {
    let place = Place::planned("steps: [{id: a}, {id: b}]");
    let twice = "the run is named twice";
    for line in [
        "next plan --run plan",
        "skip plan a --run plan --reason x",
        "inspect step plan a --run plan",
        "budget plan --run plan",
        "budget raise plan --run plan --tokens 1",
    ] {
        place.ledger(line).code(2).complains(&[twice]);
    }
    place.ledger("budget --run plan").code(0).says(&["budget of run plan"]);
    place.ledger("inspect records --step a").code(0);
    let mut command = place.command(&["skip", "plan", "a", "--reason", "x"]);
    start(command.env("LEDGER_RUN", "other")).end().code(0);
    place.ledger("status plan").code(2).complains(&["`ledger status --run plan` shows the run"]);
}
