//! A ledger with many runs: a list reads the log once for all of them, and has pages.

use plan_ledger::{Environment, Ledger, Plan, RunPolicy};
use serde_json::{Value, json};

use super::command::{Place, start, wait_until};
use super::http::Address;
use super::system_calls::shim;

/// A folder with a ledger that has so many open runs. In each, a question for one person was answered by another one.
fn place_with(runs: u32) -> Place {
    let place = Place::new();
    let ledger = Ledger::create(&place.path("x.ledger"), &Environment::system()).unwrap();
    let plan = json!({ "steps": [
        { "id": "gated", "gate": { "question": "Now?", "to": "ana" } },
        { "id": "next", "after": ["gated"] },
    ] });
    let plan: Plan = serde_json::from_value(plan).unwrap();
    for number in 1..=runs {
        ledger.start_run(&format!("r{number}"), &plan, RunPolicy::default()).unwrap();
    }
    ledger.close().unwrap();
    place
}

/// Regression: `ledger status` read the answers in the log again for each run: 14 s for 1,000 runs.
#[test]
fn status_reads_the_log_once_for_all_runs() {
    let runs = 60;
    let place = place_with(runs);
    let Some(library) = shim(&place, "unreliable") else { return };
    for number in [1, 30, 60] {
        let state = super::command::state_of(&place.path("x.ledger"));
        let run = state.run_named(&format!("r{number}")).unwrap();
        let question = run.questions.keys().next().unwrap().0;
        place.ledger(&format!("answer {question} yes --by bob --ledger x.ledger")).code(0);
    }
    for option in ["", " --json"] {
        let line = format!("status x.ledger{option}");
        let mut status = place.command(&line.split(' ').collect::<Vec<_>>());
        // The segment that is opened for the 60th time would be gone.
        status.env("LD_PRELOAD", &library).env("UNRELIABLE_LOG", place.path("injected"));
        status.env("UNRELIABLE_CALL", "open").env("UNRELIABLE_HOW", "gone");
        let out = start(status.env("UNRELIABLE_NTH", runs.to_string())).end().code(0).out;
        assert_eq!(place.read("injected"), "", "{line}");
        let told = if option.is_empty() { "the question was for ana" } else { "\"asked\":\"ana\"" };
        assert_eq!(out.matches(told).count(), 3, "{out}");
    }
}

/// The names of the runs in lines of the list of runs.
fn names(lines: &[Value]) -> Vec<String> {
    let rows = lines.iter().filter(|line| line["type"] == "run_row");
    rows.map(|line| line["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn list_of_runs_has_pages() {
    let place = place_with(5);
    let page = |options: &str| {
        let line = format!("inspect x.ledger runs --json{options}");
        names(&place.ledger(&line).code(0).lines())
    };
    assert_eq!(page("").len(), 5);
    assert_eq!(page(" --limit 2"), ["r1", "r2"]);
    assert_eq!(page(" --after 2 --limit 2"), ["r3", "r4"]);
    assert_eq!(page(" --after 4 --limit 2"), ["r5"]);
    assert_eq!(page(" --after 5"), [""; 0]);
    place.ledger("inspect x.ledger runs --after 5").code(0).says(&["no further run"]);
    place.ledger("inspect x.ledger runs --limit 0").code(2);
    place.ledger("inspect x.ledger runs r1 --limit 1").code(2).complains(&["the list of runs"]);
}

#[test]
fn list_of_runs_has_pages_over_http() {
    let place = place_with(5);
    let mut serving = place.command(&["serve", "--http", "--ledger", "x.ledger"]);
    let server = start(&mut serving);
    wait_until("it serves", || server.said("serving"));
    let http = Address::of_ledger(&place.path("x.ledger"));
    let page = |query: &str| {
        names(&http.lines("viewer", &format!("GET /v1/runs{query}"), &[], &Value::Null))
    };
    assert_eq!(page("?limit=2"), ["r1", "r2"]);
    assert_eq!(page("?after=2&limit=2"), ["r3", "r4"]);
    assert_eq!(page("?after=4&limit=2"), ["r5"]);
    assert_eq!(page("").len(), 5);
    server.dismiss();
}

#[test]
fn lists_of_questions_and_variables_have_pages() {
    let place = place_with(5);
    for name in ["b", "d", "a", "c"] {
        place.ledger(&format!("set {name} 1 --run r1 --ledger x.ledger")).code(0);
    }
    let question = |run: &str| {
        let state = super::command::state_of(&place.path("x.ledger"));
        state.run_named(run).unwrap().questions.keys().next().unwrap().0
    };
    place.ledger(&format!("answer {} no --by ana --ledger x.ledger", question("r2"))).code(0);
    let of = |lines: &[Value], kind: &str, member: &str| -> Vec<String> {
        let of_kind = lines.iter().filter(|line| line["type"] == kind);
        of_kind.map(|line| line[member].as_str().unwrap().to_owned()).collect()
    };
    let asked = |options: &str| {
        let lines = place.ledger(&format!("questions --json --ledger x.ledger{options}")).lines();
        let waiting = lines.iter().find_map(|line| line["waiting"].as_u64()).unwrap();
        assert_eq!(waiting, 4, "it is the number of all");
        [of(&lines, "next", "run"), of(&lines, "decision", "run")].concat()
    };
    assert_eq!(asked(""), ["r1", "r3", "r4", "r5"]);
    assert_eq!(asked(" --limit 3"), ["r1", "r3", "r4"]);
    assert_eq!(asked(" --after 3 --limit 3"), ["r5"]);
    assert_eq!(asked(" --after 4"), [""; 0]);
    assert_eq!(asked(" --decided --after 3 --limit 3"), ["r5", "r1", "r1"]);
    assert_eq!(asked(" --decided --after 8 --limit 3"), ["r2"]);
    let variables = |options: &str| {
        let line = format!("inspect x.ledger variables r1 --json{options}");
        of(&place.ledger(&line).code(0).lines(), "variable", "name")
    };
    assert_eq!(variables(""), ["a", "b", "c", "d"]);
    assert_eq!(variables(" --limit 2"), ["a", "b"]);
    assert_eq!(variables(" --after b --limit 3"), ["c", "d"]);
    place.ledger("inspect x.ledger variables r1 --history a --limit 1").code(2);
    let mut serving = place.command(&["serve", "--http", "--ledger", "x.ledger"]);
    let server = start(&mut serving);
    wait_until("it serves", || server.said("serving"));
    let http = Address::of_ledger(&place.path("x.ledger"));
    let get = |path: &str| http.lines("viewer", &format!("GET /v1/runs/{path}"), &[], &Value::Null);
    assert_eq!(of(&get("r1/variables?after=a&limit=2"), "variable", "name"), ["b", "c"]);
    assert_eq!(of(&get("r1/questions?limit=1"), "next", "run"), ["r1"]);
    assert_eq!(of(&get("r1/questions?after=1&limit=1"), "next", "run"), [""; 0]);
    server.dismiss();
}
