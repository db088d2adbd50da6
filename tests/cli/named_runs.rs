//! Goal: every view of runs takes the run in one way: as an argument, with `--run`, or from `LEDGER_RUN`.

use super::command::{Place, start};

/// A ledger in which three runs wait for the answer to a question of their own.
fn three_runs() -> Place {
    let place = Place::new();
    place.ledger("init").code(0);
    for run in ["one", "two", "three"] {
        place.write("p.yaml", format!("steps: [{{id: a, gate: {{question: 'go {run}?'}}}}]"));
        place.ledger(&format!("plan propose p.yaml --run {run}")).code(0);
    }
    place
}

#[test]
fn questions_are_those_of_the_named_run() {
    let place = three_runs();
    let all = place.ledger("questions").code(0).says(&["go one?", "go two?", "go three?"]);
    assert!(all.err.is_empty(), "{all:?}");
    let of_variable = start(place.command(&["questions"]).env("LEDGER_RUN", "two")).end();
    let ways = [of_variable, place.ledger("questions two"), place.ledger("questions --run two")];
    for ended in ways {
        let shown = ended.code(0).says(&["go two?"]);
        assert!(!shown.out.contains("go one?") && !shown.out.contains("three"), "{}", shown.out);
    }
    let json = place.ledger("questions --run two --json").code(0).lines();
    assert_eq!((&json[0]["run"], &json[1]["waiting"]), (&"two".into(), &1.into()));
    place
        .ledger("questions --run four")
        .code(2)
        .complains(&["there is no run four", "one, two, three"]);
    place.ledger("questions one --run two").code(2).complains(&["the run is named twice"]);
    // A run that has ended waits for nothing.
    place.ledger("cancel two").code(0);
    place.ledger("questions --run two").code(0).says(&["nothing waits for a person"]);
    place.ledger("questions").code(0).says(&["go one?", "go three?"]);
}

#[test]
fn state_after_a_record_is_that_of_the_named_run() {
    let place = three_runs();
    let last = place.state().seq;
    let at = format!("inspect runs --at {last}");
    for way in [format!("{at} two"), format!("{at} --run two")] {
        let shown = place.ledger(&way).code(0).says(&["run two"]);
        assert!(!shown.out.contains("run three"), "{}", shown.out);
    }
}
