//! Erasing values with the program: what it shows, what is gone, and what stays. A simulated
//! disk crashes an erasure at each call in `erasure_in_simulation.rs`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use plan_ledger::internals::format::{
    Codec, NewDetached, SALT_SIZE, covered_part, detach, read_detached,
};

use super::command::{Place, start};

const NEEDLE: &str = "correct-horse-battery-staple";

const PLAN: &str = "\
steps:
  - {id: login, outputs: [token]}
";

/// A run whose first step reports the needle, a note with it, and an export.
fn place() -> Place {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    let worker = format!(r#"echo '{{"token": "{NEEDLE}"}}'"#);
    place.ledger_with(&["run", "plan.yaml", "--worker", &worker, "--quiet"]).code(0);
    place.ledger_with(&["note", &format!("it is {NEEDLE}"), "--by", "ana"]).code(0);
    place.ledger("export -o old.jsonl").code(0);
    place
}

/// The files below a folder that contain the needle.
fn files_with_needle(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with_needle(&path));
        } else if fs::read(&path).is_ok_and(|bytes| {
            bytes.windows(NEEDLE.len()).any(|window| window == NEEDLE.as_bytes())
        }) {
            found.push(path);
        }
    }
    found
}

fn line(text: &str) -> Value {
    serde_json::from_str(text.lines().next().unwrap()).unwrap()
}

/// The number of the newest note.
fn note(place: &Place) -> u64 {
    let notes = place.ledger("inspect .ledger records --kind note --json").code(0).out;
    let lines = notes.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut seqs =
        lines.filter(|line| line["type"] == "record").filter_map(|line| line["seq"].as_u64());
    seqs.next_back().unwrap()
}

#[test]
fn erased_output_is_gone_and_the_ledger_is_whole() {
    let place = place();
    let root = place.ledger("root").code(0).out;
    // The note has a copy of it, which must be erased by its own record.
    let plan = place.ledger("erase --output login --json").code(1).out;
    let plan = line(&plan);
    assert_eq!(plan["type"], "erase_plan");
    assert_eq!(plan["erasable"][0]["kind"], "note");
    let kinds: Vec<&str> =
        plan["records"].as_array().unwrap().iter().filter_map(|it| it["kind"].as_str()).collect();
    assert_eq!(kinds, ["receipt_recorded", "variable_set"]);
    let copies = plan["copies"].as_array().unwrap();
    assert!(copies[0].as_str().unwrap().ends_with("old.jsonl"), "{copies:?}");
    assert!(!files_with_needle(&place.path(".ledger/log")).is_empty(), "nothing was erased");

    let record = note(&place).to_string();
    let done = place
        .ledger_with(&["erase", "--output", "login", "--record", &record, "--yes", "--by", "ana"])
        .code(1);
    assert!(done.out.contains("copies that may still hold it"), "{}", done.out);
    let work = place.path(".ledger/work");
    let left = files_with_needle(&place.path(".ledger"));
    assert!(left.iter().all(|path| path.starts_with(&work)), "{left:?}");
    for path in &left {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(done.out.contains(name), "{name}: {}", done.out);
    }
    place.ledger_with(&["verify", "--level", "replay", "--expect-head", root.trim()]).code(0);
    let value = place.ledger("get token").code(0).out;
    assert!(value.contains("erased"), "{value}");
    let notes = place.ledger("inspect .ledger records --kind note").code(0).out;
    assert!(notes.contains("(erased)"), "{notes}");
    let erasures = place.ledger("inspect .ledger records --kind erasure").code(0).out;
    assert!(erasures.contains("ana erased 3 values"), "{erasures}");

    // An export that is made later has the same chain, and can be imported.
    place.ledger("export -o new.jsonl").code(0);
    assert!(!place.read("new.jsonl").contains(NEEDLE));
    place.ledger("import new.jsonl --ledger copy").code(0);
    place.ledger("verify copy --level replay").code(0);
    let roots = ["root", "root copy"].map(|command| place.ledger(command).code(0).out);
    assert_eq!(roots[0], roots[1]);
}

#[test]
fn erasure_needs_a_target_and_the_lock() {
    let place = place();
    let none = place.ledger("erase --variable nothing --yes").code(6);
    assert!(none.err.contains("nothing to erase"), "{}", none.err);
    place.ledger("erase --yes").code(2);
    place.ledger("erase --blob 12 --yes").code(2);
    let server = start(&mut place.command(&["serve"]));
    while !place.path(".ledger/serve.sock").exists() {
        std::thread::yield_now();
    }
    let busy = place.ledger("erase --variable token --yes").code(5);
    assert!(!busy.err.is_empty());
    server.signal("TERM");
    server.end();
}

/// Conditions, preconditions and criteria that read a value quote it, and so do decisions, questions,
/// reasons and the next worker's task. All of it is erased with the value.
#[test]
fn evidence_and_what_quotes_it_are_erased() {
    let place = Place::planned(
        "failure: {max_replans: 1}
test_criteria: [{cel: 'later == token'}]
steps:
  - {id: login, outputs: [token]}
  - {id: use, after: [login], condition: \"token != ''\", preconditions: [\"token != 'x'\"]}
  - id: check
    after: [login]
    retry: {max_attempts: 3}
    acceptance: [{cel: \"token == 'other'\"}, {cel: \"output.said == 'other'\"}]
  - {id: sum, after: [login], acceptance: [{cel: 'token > 1'}], retry: {max_attempts: 1}}
",
    );
    let claim = |step: &str| {
        place.ledger(&format!("claim plan --step {step} --worker w --json")).code(0).token()
    };
    let report = |step: &str, output: &str| {
        place.ledger_with(&["receipt", &claim(step), "--output", output]).code(0)
    };
    report("login", &format!("\"{NEEDLE}\""));
    report("check", r#"{"said": "nothing"}"#);
    report("sum", "1");
    let seen = place.ledger("inspect .ledger records").code(0).out;
    for kind in ["condition_judged", "verdict_recorded", "failure_decided"] {
        let quotes = |line: &str| line.contains(kind) && line.contains(NEEDLE);
        assert!(seen.lines().any(quotes), "{kind}: {seen}");
    }
    let plan = line(&place.ledger("erase --output login --json").code(0).out);
    assert_eq!(plan["left"].as_array().unwrap().len(), 0, "{plan}");
    let states = place.ledger("verify .ledger --level replay").code(0);
    place.ledger("erase --output login --yes --by ana").code(0);
    assert!(files_with_needle(&place.path(".ledger")).is_empty());
    place.ledger("verify .ledger --level replay").code(0);
    drop(states);
    for line in [
        "inspect .ledger records --json",
        "inspect .ledger step plan check",
        "status",
        "next",
        "questions",
    ] {
        let shown = place.ledger(line);
        assert!(!shown.out.contains(NEEDLE) && !shown.err.contains(NEEDLE), "{line}");
    }
    let task = place.ledger("claim plan --step check --worker w --json").code(0).out;
    assert!(!task.contains(NEEDLE) && task.contains("(erased "), "{task}");
    place.ledger("snapshot").code(0);
    place.ledger("verify .ledger --level replay").code(0);
}

/// Where a text of an erased value stays, it is listed, before and after, and the exit code says so.
#[test]
fn texts_that_cannot_be_erased_are_listed() {
    let place = Place::planned("steps: [{id: login, outputs: [token]}, {id: other}]\n");
    let token = place.ledger("claim plan --step login --worker w --json").code(0).token();
    place.ledger_with(&["receipt", &token, "--output", &format!("\"{NEEDLE}\"")]).code(0);
    let token = place.ledger("claim plan --step other --worker w --json").code(0).token();
    let message = format!("login with {NEEDLE} was refused");
    place
        .ledger_with(&["receipt", &token, "--failed", "deterministic", "--message", &message])
        .code(0);
    let preview = place.ledger("erase --output login").code(1);
    preview.says(&["still in these records", "receipt_recorded", "replace it"]);
    let plan = line(&place.ledger("erase --output login --json").code(1).out);
    let done = line(&place.ledger("erase --output login --json --yes --by ana").code(1).out);
    assert_eq!(done["left"], plan["left"]);
    let kinds: Vec<&str> =
        done["left"].as_array().unwrap().iter().filter_map(|it| it["kind"].as_str()).collect();
    assert!(kinds.contains(&"receipt_recorded") && kinds.contains(&"failure_decided"), "{kinds:?}");
}

/// A text with characters that JSON escapes, several lines or space at its ends is found in other values, in
/// messages and in variables.
#[test]
fn copies_of_texts_with_special_characters_are_listed() {
    let pem = "-----BEGIN KEY-----\nSEKRETpemLine1+/\nSEKRETpemLine2==\n-----END KEY-----\n";
    for text in ["\"SEK\"RETzz91\"", "C:\\key\\SEKRETwin", pem, "SEKRETtrim\n"] {
        let place = Place::planned(
            "steps: [{id: login, outputs: [token]}, {id: copy}, {id: fail}, {id: line}]\n",
        );
        let claim = |step: &str| {
            place.ledger(&format!("claim plan --step {step} --worker w --json")).code(0).token()
        };
        let value = serde_json::to_string(text).unwrap();
        let nested = serde_json::json!({ "deep": [format!("it is {text}!")] }).to_string();
        place.ledger_with(&["receipt", &claim("login"), "--output", &value]).code(0);
        place.ledger_with(&["receipt", &claim("copy"), "--output", &nested]).code(0);
        let one = text.lines().find(|line| line.contains("SEK")).unwrap().trim();
        let one = serde_json::to_string(one).unwrap();
        place.ledger_with(&["receipt", &claim("line"), "--output", &one]).code(0);
        place.ledger_with(&["set", "other", &value, "--run", "plan", "--by", "ana"]).code(0);
        place.ledger_with(&["note", &format!("it is {text}"), "--by", "ana"]).code(0);
        let message = format!("refused: {text}");
        let failed = ["--failed", "deterministic", "--message", &message];
        place.ledger_with(&[&["receipt", &claim("fail")], &failed[..]].concat()).code(0);
        let plan = line(&place.ledger("erase --output login --json").code(1).out);
        let kinds = |list: &str| -> Vec<String> {
            let records = plan[list].as_array().unwrap().iter();
            records.map(|it| it["kind"].as_str().unwrap().to_owned()).collect()
        };
        let expected = ["receipt_recorded", "receipt_recorded", "variable_set", "note"];
        assert_eq!(kinds("erasable"), expected, "{text:?}: {plan}");
        assert!(kinds("left").contains(&"receipt_recorded".to_owned()), "{text:?}: {plan}");

        // The command that is printed erases the first kind.
        let shown = place.ledger("erase --output login").code(1).out;
        let (_, rest) = shown.split_once("`ledger ").unwrap();
        let command = format!("{} --by ana", rest.split('`').next().unwrap());
        place.ledger(&command).code(1);
        let plan = line(&place.ledger("erase --output login --json").code(1).out);
        assert_eq!(plan["erasable"].as_array().unwrap().len(), 0, "{plan}");
    }
}

/// The default of an input is part of the plan: what shows it is listed, also after the variable got
/// another value.
#[test]
fn default_of_an_input_is_listed_as_what_stays() {
    let plan = "inputs: {tok: {default: SEKRETdef}}\nsteps: [{id: a, condition: \"tok != ''\"}]\n";
    let place = Place::planned(plan);
    let expect_listed = |words: &str| {
        let plan = line(&place.ledger(words).code(1).out);
        for kind in ["variable_set", "plan_proposed", "condition_judged"] {
            let mut left = plan["left"].as_array().unwrap().iter();
            assert!(left.any(|it| it["kind"] == kind), "{kind}: {plan}");
        }
    };
    for words in ["erase --variable tok --json", "erase --variable tok --json --yes --by ana"] {
        expect_listed(words);
    }
    place.ledger("erase --variable tok --yes --by ana").code(1).says(&["nothing can be erased"]);
    place.ledger("set tok another-value --run plan --by ana").code(0);
    expect_listed("erase --variable tok --json --yes --by ana");
    let values = place.ledger("inspect .ledger records").out;
    assert!(!values.contains("another-value"), "{values}");
}

/// The command of a runner is kept outside the ledger, with the values of its inputs.
#[test]
fn command_of_a_runner_with_the_value_is_listed() {
    let place = Place::new();
    place.write("plan.yaml", "inputs: {tok: {}}\nsteps: [{id: a}]\n");
    place.ledger("run plan.yaml --worker true --set tok=SEKRETset").code(0);
    let plan = line(&place.ledger("erase --variable tok --json").code(1).out);
    let file = plan["runner_files"][0].as_str().unwrap();
    assert!(fs::read_to_string(file).unwrap().contains("SEKRETset"), "{plan}");
    place
        .ledger("erase --variable tok --yes --by ana")
        .code(1)
        .says(&["commands of runners that hold it", file]);
}

/// A ledger that was rolled back is neither erased from nor fenced, unless that is accepted.
#[test]
fn rolled_back_ledger_is_not_erased_from() {
    let place = place();
    let old = place.snapshot();
    place.ledger_with(&["note", "later", "--by", "ana"]).code(0);
    for (path, bytes) in &old {
        if let Some(bytes) = bytes {
            fs::write(path, bytes).unwrap();
        }
    }
    place.ledger("erase --output login").complains(&["the ledger was rolled back", "is refused"]);
    for line in ["erase --output login --yes --by ana", "recover .ledger --fence --yes"] {
        place.ledger(line).code(6).complains(&["--accept-rollback"]);
    }
    place.ledger("erase --output login --yes --by ana --accept-rollback");
    place.ledger("recover .ledger --fence --yes --accept-rollback").code(0);
}

/// An erasure is remembered: an older copy, which still holds the value, is not taken for the ledger.
#[test]
fn copy_before_an_erasure_is_a_rollback() {
    let place = place();
    let old = place.snapshot();
    place.ledger("erase --output login --yes --by ana");
    fs::rename(place.path(".ledger"), place.path("newer")).unwrap();
    fs::create_dir(place.path(".ledger")).unwrap();
    for (path, bytes) in &old {
        match bytes {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None => fs::create_dir_all(path).unwrap(),
        }
    }
    place.ledger_with(&["note", "later", "--by", "ana"]).code(6).complains(&["was rolled back"]);
}

/// What stays is listed each time: the note of an erasure keeps its records. Nothing else is known of a text that is
/// gone.
#[test]
fn what_stays_is_listed_again_after_the_erasure() {
    let place =
        Place::planned("steps: [{id: login, outputs: [token]}, {id: other}, {id: third}]\n");
    let token = place.ledger("claim plan --step login --worker w --json").code(0).token();
    place.ledger_with(&["receipt", &token, "--output", &format!("\"{NEEDLE}\"")]).code(0);
    let token = place.ledger("claim plan --step other --worker w --json").code(0).token();
    let message = format!("login with {NEEDLE} was refused");
    place
        .ledger_with(&["receipt", &token, "--failed", "deterministic", "--message", &message])
        .code(0);
    let token = place.ledger("claim plan --step third --worker w --json").code(0).token();
    place.ledger_with(&["receipt", &token, "--output", &format!("\"{NEEDLE} again\"")]).code(0);
    let done = line(&place.ledger("erase --output login --json --yes --by ana").code(1).out);
    for line_of in ["erase --output login --json", "erase --output login --json --yes --by ana"] {
        let again = line(&place.ledger(line_of).code(1).out);
        assert_eq!((&again["left"], &again["erasable"]), (&done["left"], &done["erasable"]));
        assert_eq!(again["values"], 0);
    }
    place.ledger("erase --output login").code(1).says(&["nothing is left to erase", "replace it"]);
    // What was erased since is no longer listed.
    place.ledger("erase --output third --yes --by ana").code(0);
    let again = line(&place.ledger("erase --output login --json").code(1).out);
    assert_eq!((&again["left"], &again["erasable"]), (&done["left"], &serde_json::json!([])));
    place.ledger("verify .ledger --level replay").code(0);
    // Where nothing stays, there is nothing to list.
    let place = Place::planned("steps: [{id: login, outputs: [token]}]\n");
    let token = place.ledger("claim plan --worker w --json").code(0).token();
    place.ledger_with(&["receipt", &token, "--output", &format!("\"{NEEDLE}\"")]).code(0);
    place.ledger("erase --output login --yes --by ana").code(0);
    place.ledger("erase --output login --yes --by ana").code(6).complains(&["erased before"]);
}

/// The expression of a failure rule sees a failure that quotes two values of other steps. With each of them, every
/// copy is gone.
#[test]
fn text_of_a_rule_is_erased_with_each_value_that_it_quotes() {
    const OTHER: &str = "another-secret-phrase";
    for (step, needle) in [("one", NEEDLE), ("two", OTHER)] {
        let place = Place::planned(
            "failure: {rules: [{id: seen, when: {cel: 'failure.message.contains(\"hold\")'}, then: retry}]}
steps:
  - {id: one, outputs: [x]}
  - {id: two, outputs: [y], after: [one]}
  - {id: three, after: [two], retry: {max_attempts: 2}, acceptance: [{cel: 'x == y'}]}
",
        );
        for (step, output) in [("one", NEEDLE), ("two", OTHER), ("three", "done")] {
            let token = place.ledger(&format!("claim plan --step {step} --worker w --json"));
            let token = token.code(0).token();
            place.ledger_with(&["receipt", &token, "--output", &format!("\"{output}\"")]).code(0);
        }
        place.ledger("tick").code(0);
        let decided = place.ledger("inspect .ledger records --kind failure_decided").code(0);
        assert!(decided.out.contains("seen"), "{}", decided.out);
        place.ledger(&format!("erase --output {step} --yes --by ana")).code(0);
        for path in fs::read_dir(place.path(".ledger/log")).unwrap() {
            let bytes = fs::read(path.unwrap().path()).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(needle), "{step}: a copy of the value is left");
        }
        place.ledger("verify .ledger --level replay").code(0);
    }
}

/// Goal: a detached value that is not the one of its digest is never read: no bit of it may differ.
#[test]
fn changed_detached_value_is_rejected() {
    let values = [NewDetached::Present { salt: [7; SALT_SIZE], bytes: b"a long answer".to_vec() }];
    let payload = detach(b"body".to_vec(), &values);
    let covered = covered_part(Codec::Detached, &payload).len();
    assert_eq!(read_detached(&payload).unwrap().body, b"body");
    // After the length of the value come its salt and its bytes.
    let value = covered + 4..covered + 4 + SALT_SIZE + 13;
    for (at, bit) in value.flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut changed = payload.clone();
        changed[at] ^= 1 << bit;
        assert!(read_detached(&changed).is_none(), "bit {bit} of byte {at}");
    }
}
