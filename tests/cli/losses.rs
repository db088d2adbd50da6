//! Ledgers that lack records: damaged ones, salvaged ones with recorded losses, and ones that were rolled
//! back. Each command says so first.

use std::fs;

use plan_ledger::internals::ledger::decode;
use plan_ledger::plan::StepEvent;
use plan_ledger::{Environment, Event, LedgerView};

use super::command::{Place, start};

/// The first step fails once; the last one waits for a person.
const PLAN: &str = "
title: Release
steps:
  - id: build
    command: 'echo x >> tries; test $(wc -l < tries) -gt 1 || exit 75'
    retry: { max_attempts: 3 }
  - { id: docs, after: [build], command: 'echo docs' }
  - { id: ship, after: [docs], command: 'echo ship', gate: { question: Ship it? } }
";

/// Flips a bit in each record of steps that is chosen, by its place among those of its kind. Returns the
/// sequence numbers.
fn damage(place: &Place, is_chosen: impl Fn(&StepEvent) -> bool, most: usize) -> Vec<u64> {
    let view = LedgerView::open(&place.path(".ledger"), &Environment::system()).unwrap();
    let segment = view.log().segments().remove(0).path;
    let mut bytes = fs::read(&segment).unwrap();
    let mut damaged = Vec::new();
    for record in view.log().records(1).map(Result::unwrap) {
        let Ok(Some(Event::Step(step))) = decode(&record) else { continue };
        if damaged.len() < most && is_chosen(&step.event) {
            bytes[usize::try_from(record.offset).unwrap() + 50] ^= 1;
            damaged.push(record.seq);
        }
    }
    fs::write(&segment, bytes).unwrap();
    damaged
}

fn with_run() -> Place {
    let place = Place::new();
    place.write("release.yaml", PLAN);
    place.ledger("run release.yaml").code(3);
    place
}

/// Story: after the receipt of the first attempt was lost, the salvaged ledger showed the step in
/// flight for good, although its second attempt was accepted, and `verify` called the ledger whole.
#[test]
fn salvaged_step_shows_its_later_attempts() {
    // The receipt alone, and the receipt with the decision about it.
    let is_chosen = |event: &StepEvent| {
        matches!(event, StepEvent::ReceiptRecorded(_) | StepEvent::FailureDecided(_))
    };
    for most in [1, 2] {
        let place = with_run();
        let lost = damage(&place, is_chosen, most);
        assert_eq!(lost.len(), most);
        place.ledger("recover .ledger --export rescued").code(0);
        let text = match lost.as_slice() {
            [one] => format!("record {one} was lost before it was salvaged"),
            [first, .., last] => {
                format!("records {first} to {last} were lost before it was salvaged")
            }
            [] => unreachable!("something was damaged"),
        };
        let status = place.ledger("status rescued").code(0);
        assert!(status.out.starts_with(&format!("not complete: {text}")), "{status:?}");
        assert!(status.out.contains("Release: 2 of 3 steps"), "{status:?}");
        assert!(
            !status.out.contains("in flight") && !status.out.contains("working on"),
            "{status:?}"
        );
        let step = place.ledger("inspect rescued step release build --json").code(0).lines();
        let outcomes: Vec<_> =
            step.iter().filter(|line| line["type"] == "attempt").map(|it| &it["outcome"]).collect();
        assert_eq!(outcomes[1], "accepted");
        assert_eq!(outcomes[0], if most == 1 { "failed_and_retried" } else { "lost" });
        let gap = step.iter().find(|line| line["type"] == "lost").unwrap();
        assert_eq!(
            (&gap["first_seq"], &gap["last_seq"]),
            (&lost[0].into(), &lost[most - 1].into())
        );

        let whole = format!("ledger rescued: consistent, but not complete: {text}");
        place.ledger("verify rescued --level replay").code(0).says(&[&whole, "lost: "]);
        let verified = place.ledger("verify rescued --json").code(0).lines();
        let summary = verified.last().unwrap();
        assert_eq!((&summary["condition"], &summary["lost"]), (&"incomplete".into(), &1.into()));
        place.ledger("inspect rescued").code(0).says(&["consistent, but not complete", &text]);
        // The run continues where the records leave it.
        let continued = ["run", "release.yaml", "--ledger", "rescued"];
        place.ledger_with(&continued).code(3).says(&["2 of 3 steps accepted"]);
        assert_eq!(place.read("tries").lines().count(), 2, "accepted work is not repeated");
    }
}

/// Goal: what is wrong with the ledger comes before what the state says.
#[test]
fn damage_comes_first_in_status_and_resume_names_it() {
    let place = with_run();
    damage(&place, |event| matches!(event, StepEvent::Accepted(_)), 1);
    let status = place.ledger("status").code(4);
    let headline = "not all of the ledger can be read; this is the state after record";
    assert!(status.out.starts_with(headline), "{status:?}");
    assert_eq!(status.out.matches(headline).count(), 1, "{status:?}");
    place.ledger("resume").complains(&["warning: not all of the ledger can be read"]);
}

/// Regression: the first write to another ledger while the folder was away made the program forget what it knew of the
/// ledger, so a rollback was not noticed. What is known of folders that are gone for long is removed.
#[test]
fn rollback_is_noticed_after_the_folder_was_away() {
    let place = Place::planned("steps: [{id: a}, {id: b}]\n");
    let state = place.path("state");
    let ledger = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        start(place.command(&words).env("XDG_STATE_HOME", &state)).end()
    };
    let newest = place.path("newest");
    let copied = std::process::Command::new("cp")
        .args(["-r".into(), place.path(".ledger"), place.path("older")])
        .status();
    assert!(copied.unwrap().success());
    ledger("claim --worker w").code(0);
    fs::rename(place.path(".ledger"), &newest).unwrap();
    let write_to_another = |name: &str| {
        ledger(&format!("init --ledger {name}")).code(0);
        ledger(&format!("plan propose plan.yaml --ledger {name}")).code(0);
    };
    write_to_another("second");
    fs::rename(place.path("older"), place.path(".ledger")).unwrap();
    ledger("verify .ledger").code(0).says(&["the ledger was rolled back"]);

    let roots = || fs::read_dir(state.join("plan-ledger/roots")).unwrap().map(Result::unwrap);
    let count = roots().count();
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    for root in roots() {
        let kept = fs::read_to_string(root.path()).unwrap();
        let mut kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
        kept["time"] = (kept["time"].as_u64().unwrap() - 100 * 86_400_000_000).into();
        fs::write(root.path(), kept.to_string()).unwrap();
    }
    write_to_another("third");
    assert_eq!(roots().count(), count, "one was forgotten, and one was added");
}

/// Regression: once a rolled-back ledger had grown beyond the record that was known, it was accepted, and finished work was
/// given out again.
#[test]
fn rollback_that_has_grown_is_noticed() {
    let place = Place::planned("steps: [{id: a}, {id: b}]\n");
    let ledger = |user: &str, line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        start(place.command(&words).env("XDG_STATE_HOME", place.path(user))).end()
    };
    let copied = std::process::Command::new("cp")
        .args(["-r".into(), place.path(".ledger"), place.path("older")])
        .status();
    assert!(copied.unwrap().success());
    let token = ledger("me", "claim --worker w --json").code(0).token();
    ledger("me", &format!("receipt {token} --output 1")).code(0);
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    fs::rename(place.path("older"), place.path(".ledger")).unwrap();
    // Another user does not know the ledger.
    for number in 0..8 {
        ledger("other", &format!("note text-{number}")).code(0);
    }
    let text = "the ledger was rolled back, and other records were written since then: record ";
    ledger("me", "claim --worker w").code(6).complains(&[text, "--accept-rollback"]);
    ledger("me", "verify .ledger").code(0).says(&[text]);
    ledger("other", "claim --worker w").code(0);
    ledger("me", "claim --worker w --accept-rollback").code(0);
    ledger("me", "verify .ledger").code(0).says(&["whole"]);
}

/// What is read of a rolled-back ledger is older than what was done: every reader says so, and an agent is told to stop.
#[test]
fn readers_tell_of_a_rollback() {
    let place = Place::planned("steps: [{id: a}, {id: b}]\n");
    let copied = std::process::Command::new("cp")
        .args(["-r".into(), place.path(".ledger"), place.path("older")])
        .status();
    assert!(copied.unwrap().success());
    place.ledger("note hello").code(0);
    fs::remove_dir_all(place.path(".ledger")).unwrap();
    fs::rename(place.path("older"), place.path(".ledger")).unwrap();
    let text = "the ledger was rolled back: it ends at record 5, and had record 6 at ";
    let readers = [
        "status",
        "next",
        "questions",
        "inspect",
        "inspect .ledger",
        "inspect queue",
        "inspect why a",
        "questions --decided",
    ];
    for line in readers {
        place.ledger(line).code(0).complains(&[text]);
    }
    place.ledger("verify .ledger").code(0).says(&[text]);
    for line in readers.iter().chain(&["verify .ledger"]) {
        let first = place.ledger(&format!("{line} --json")).code(0).lines().remove(0);
        assert_eq!(first["type"], "rolled_back", "{line}: {first}");
        assert!(first["what"].as_str().unwrap().starts_with(text), "{line}: {first}");
    }
    let prime = place.ledger("prime").code(0).says(&[text, "Stop: claim and propose nothing"]);
    assert!(!prime.out.contains("How to work"), "{}", prime.out);
    place.ledger("claim --worker w").code(6).complains(&[text]);
    place.ledger("note again --accept-rollback").code(0);
    let shown = place.ledger("next").code(0);
    assert!(!shown.err.contains(text), "{shown:?}");
    place.ledger("prime").code(0).says(&["How to work"]);
}

/// Story: an output in broken JSON was recorded as text without a word.
#[test]
fn broken_json_is_taken_as_text_with_a_warning() {
    let place = Place::planned("steps: [{id: a}, {id: b}, {id: c}]\n");
    for (output, problem) in [
        ("{\"rows\": 12,}", "line 1, column 13: expected the name of a field in double quotes"),
        ("[1, 2", "line 1, column 5: the text ends inside a list; close it with `]`"),
    ] {
        let token = place.ledger("claim --worker w --json").code(0).token();
        let words = ["receipt", &token, "--output", output];
        let warning = "warning: the value is taken as text, not as JSON: ";
        place.ledger_with(&words).code(0).complains(&[warning, problem]);
    }
    let quiet = place.ledger_with(&["set", "name", "plain text"]).code(0);
    assert!(!quiet.err.contains("warning"), "{quiet:?}");
    place.ledger("inspect stp x").code(2).complains(&["did you mean `ledger inspect step`?"]);
    place.write("gate.yaml", "steps: [{id: a, gate: yes, timeout: 5, depends_on: [b]}]\n");
    place.ledger("plan lint gate.yaml").code(2).says(&[
        "such as {question: Deploy?}",
        "did you mean `timeout_seconds`?",
        "did you mean `after`?",
    ]);
}
