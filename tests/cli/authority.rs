//! What a worker may do to the ledger: report about its own step, and nothing else. Real workers, which try
//! everything under the name of a person.

use std::fs;

use serde_json::Value;

use super::command::Place;

/// The commands that a worker may not use, in the words of a worker that pretends to be a person.
const FORBIDDEN: &[&str] = &[
    "accept one --by ana",
    "reject one --by ana",
    "skip two --reason none --by ana",
    "retry one",
    "answer 9 yes --by ana",
    "answer --all yes --by ana",
    "cancel --by ana",
    "pause --by ana",
    "unpause --by ana",
    "budget --attempts 99 --by ana",
    "cap --run plan 9",
    "claim --worker other",
    "work --worker other -- true",
    "decide two retry",
    "fork plan --at 2 --name copy",
    "plan propose plan.yaml --run more",
    "plan add more --goal more",
    "plan approve --by ana",
    "plan withdraw",
    "tick",
    "release --step one",
    "snapshot",
    "prune --ended --yes",
    "blobs --collect",
    "run plan.yaml --stub",
    "serve",
    "recover --fence --yes",
    "erase --record 1 --yes",
];

/// The results of a worker's commands: exit code and command.
fn results(place: &Place) -> Vec<(i32, String)> {
    let lines = place.read("results");
    let split = |line: &str| {
        let (code, command) = line.split_once(' ').unwrap();
        (code.parse().unwrap(), command.to_owned())
    };
    lines.lines().map(split).collect()
}

fn worker(commands: &[&str], prefix: &str) -> String {
    let each = |command: &&str| {
        format!("{prefix}$LEDGER {command} >out 2>>errors; echo \"$? {command}\" >> results\n")
    };
    commands.iter().map(each).collect()
}

/// Row S8: a worker accepted its own step as "ana", raised the budget and cancelled the run.
#[test]
fn s8_worker_controls_neither_its_run_nor_other_steps() {
    // With its environment, and without: then its parent gives it away.
    for prefix in ["", "env -i PATH=\"$PATH\" LEDGER_DIR=\"$LEDGER_DIR\" "] {
        let place = Place::new();
        place.write(
            "worker.sh",
            format!("[ $LEDGER_STEP = one ] || exit 0\n{}", worker(FORBIDDEN, prefix)),
        );
        place.write(
            "plan.yaml",
            "steps: [{id: one, acceptance: [a person looked]}, {id: two, after: [one]}]",
        );
        let mut run =
            place.command(&["run", "plan.yaml", "--worker", "sh worker.sh", "--text", "judge"]);
        run.env("LEDGER", super::command::PROGRAM);
        let ended = super::command::start(&mut run).end();
        ended.says(&["waiting"]);
        let results = results(&place);
        assert_eq!(results.len(), FORBIDDEN.len());
        let taken: Vec<_> = results.iter().filter(|(code, _)| *code != 6).collect();
        assert_eq!(taken, Vec::<&(i32, String)>::new(), "{}", place.read("errors"));
        let why =
            "this process works on step one, and a worker controls neither its run nor other steps";
        assert_eq!(place.read("errors").replace('\n', " ").matches(why).count(), FORBIDDEN.len());
        let state = place.state();
        assert_eq!(state.runs.len(), 1);
        let run = state.run_named("plan").unwrap();
        assert_eq!(run.count(plan_ledger::StepStatus::Reported), 1, "one waits for a judge");
        // A person accepts it.
        place.ledger("accept one --by ana").code(0);
    }
}

/// Regression: `ledger set approved true --by ana` in a worker was recorded as an act of ana.
#[test]
fn record_inside_an_attempt_names_its_step() {
    let place = Place::new();
    let allowed =
        ["note hello", "set flag true", "plan request plan --kind scope-change --reason more"];
    let named = [
        "set approved true --by ana",
        "note hello --by ana",
        "plan request plan --reason more --by ana",
        "release --by ana",
    ];
    // A release that was taken would dispatch the step again and again.
    let script = format!(
        "[ ! -e results ] || exit 1\n{}{}{}{}",
        worker(&allowed, ""),
        worker(&["note mine"], "env -i PATH=\"$PATH\" LEDGER_DIR=\"$LEDGER_DIR\" "),
        worker(&named, ""),
        worker(&["set approved true"], "LEDGER_BY=ana "),
    );
    place.write("worker.sh", script);
    place.write(
        "plan.yaml",
        "steps: [{id: zero, command: 'true'}, {id: one, after: [zero], command: sh worker.sh}]",
    );
    let mut run = place.command(&["run", "plan.yaml"]);
    run.env("LEDGER", super::command::PROGRAM).env("LEDGER_BY", "bob");
    super::command::start(&mut run).end();
    let codes: Vec<i32> = results(&place).iter().map(|(code, _)| *code).collect();
    assert_eq!(
        codes,
        [0, 0, 0, 0, 6, 6, 6, 6, 6],
        "{:?} {}",
        results(&place),
        place.read("errors")
    );
    let errors = place.read("errors").replace('\n', " ");
    assert_eq!(
        errors.matches("works on step one, and its records name the step").count(),
        5,
        "{errors}"
    );
    let records = place.ledger("inspect records --json").code(0).lines();
    let events = |kind: &str| -> Vec<Value> {
        let of_kind = records.iter().filter(|line| line["kind"] == kind);
        of_kind.map(|line| line["event"].clone()).collect()
    };
    let set = events("variable_set");
    assert_eq!(set.len(), 1, "{set:?}");
    let origin = &set[0]["origin"];
    assert_eq!((&origin["is"], &origin["step"]), (&"step".into(), &2.into()), "{origin}");
    let by = format!("step:#2@{}", origin["token"]);
    for note in events("note") {
        assert_eq!(note["by"], by.as_str());
    }
    let requested = events("replan_requested");
    assert_eq!(requested.len(), 1);
    for request in requested {
        assert!(request.to_string().contains(&by), "{request}");
    }
    place.ledger("inspect variables").code(0).says(&["one"]);
}

/// What a worker is there for is taken.
#[test]
fn s8_worker_reports_about_its_own_step() {
    let place = Place::new();
    let allowed = [
        "effect mail-1",
        "effect mail-1 --done",
        "set count 3",
        "get count",
        "note hello",
        "renew",
        "status",
        "next",
        "status --view user",
        "receipt --output 5",
    ];
    place.write("worker.sh", worker(&allowed, ""));
    place.write("plan.yaml", "steps: [{id: one, outputs: [x]}]");
    let mut run = place.command(&["run", "plan.yaml", "--worker", "sh worker.sh"]);
    run.env("LEDGER", super::command::PROGRAM);
    super::command::start(&mut run).end();
    for (code, command) in results(&place) {
        // `next` says with its code that the run is at work.
        assert!(code == 0 || command == "next", "{code} {command}: {}", place.read("errors"));
    }
}

/// A request over the socket is recognized by the process that sends it.
#[test]
fn s8_socket_knows_its_peer() {
    let place = Place::new();
    place.write(
        "ask.py",
        "import socket, json, os, sys
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ['LEDGER_DIR'] + '/serve.sock')
f = s.makefile('rw')
for request in [{'act': 'cancel', 'run': 'plan', 'by': 'ana'},
                {'act': 'verdict', 'run': 'plan', 'criterion': 0, 'ruling': 'pass', 'by': 'ana'},
                {'act': 'note', 'text': 'hello', 'by': 'w'}]:
    f.write(json.dumps(request) + '\\n')
    f.flush()
    open('answers', 'a').write(f.readline())
",
    );
    place.write("plan.yaml", "steps: [{id: one, command: 'python3 ask.py'}]");
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        super::command::report_skipped("python3 is not installed");
        return;
    }
    place.ledger("run plan.yaml").code(0);
    let answers = fs::read_to_string(place.path("answers")).unwrap();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let codes: Vec<_> = answers.iter().map(|answer| answer["code"].as_u64().unwrap()).collect();
    assert_eq!(codes, [6, 6, 0], "{answers:?}");
    assert_eq!(answers[0]["lines"][0]["rejection"], "inside_attempt");
}

/// A root that one user signs is checked by another one, who has the public key only.
#[test]
fn signed_root_is_checked_with_its_public_key() {
    let place = Place::new();
    place.ledger("init").code(0);
    place.ledger("note one").code(0);
    let public = place.ledger("root --new-key example.org/night --key night.key").code(0).out;
    place.write("night.pub", &public);
    let note = place.ledger("root --sign night.key").code(0).out;
    place.write("root.note", &note);
    place.ledger("note two").code(0);
    place
        .ledger("verify --root root.note --key night.pub")
        .code(0)
        .says(&["as expected: record 1"]);
    place.ledger_with(&["verify", "--root", "root.note", "--key", public.trim()]).code(0);
    // Another text, another key, another ledger.
    let forged = note.replace("seq 1", "seq 2");
    place.write("forged.note", forged);
    let wrong = place.ledger("verify --root forged.note --key night.pub").code(6);
    wrong.complains(&["the signature does not fit", "example.org/night"]);
    let other = place.ledger("root --new-key other --key other.key").code(0).out;
    place.write("other.pub", other);
    let unsigned = place.ledger("verify --root root.note --key other.pub").code(6);
    unsigned.complains(&["it has no signature by this key"]);
    place.ledger("init --ledger new").code(0);
    place.ledger("note three --ledger new").code(0);
    place.ledger("verify new --root root.note --key night.pub").code(4).says(&["not as expected"]);
    // Wrong usage.
    place.ledger("root --new-key night --key night.key").code(2).complains(&["night.key"]);
    place.ledger_with(&["root", "--new-key", "a b", "--key", "k"]).code(2);
    place.ledger("root --sign root.note").code(2).complains(&["not a key of a signed note"]);
    place
        .ledger("verify --root night.pub --key night.pub")
        .code(2)
        .complains(&["not a signed note"]);
    place.ledger("verify --root root.note").code(2);
}

/// Any process that could count reported, renewed and released for another worker.
#[test]
fn token_with_another_secret_is_rejected() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: one}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let claimed = place.ledger("claim --json").code(0).lines();
    let token = claimed[0]["token"].as_str().unwrap();
    let (number, secret) = token.split_once('-').unwrap();
    let guessed = format!("{number}-{}", "9f".repeat(16));
    for command in [
        "renew TOKEN",
        "effect mail --token TOKEN",
        "release TOKEN",
        "receipt TOKEN --output forged",
        "plan request --from one --reason forged --token TOKEN",
    ] {
        let rejected = place.ledger(&command.replace("TOKEN", &guessed)).code(6);
        rejected.complains(&["is not active", "with this token"]);
        let number_alone = place.ledger(&command.replace("TOKEN", number)).code(2);
        number_alone.complains(&["expected a token as a claim prints it"]);
    }
    place.ledger(&format!("effect mail --token {token}")).code(0);
    place.ledger(&format!("renew {token}")).code(0);
    // The log has the hash of the secret alone, and so has everything that is read from it.
    for line in [
        "inspect records --json",
        "inspect step plan one --json",
        "status --view operator",
        "status --json",
        "export",
    ] {
        let shown = place.ledger(line).code(0).out;
        assert!(!shown.contains(secret) && !shown.is_empty(), "{line}: {shown}");
    }
    let folder = place.path(".ledger");
    let folders = [folder.join("log"), folder.join("snap"), folder];
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    for path in files.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let bytes = fs::read(&path).unwrap();
        let (text, raw) = (secret.as_bytes(), raw(secret));
        assert!(!bytes.windows(32).any(|part| part == text), "{}", path.display());
        assert!(!bytes.windows(16).any(|part| part == raw), "{}", path.display());
    }
    place.ledger(&format!("receipt {token} --output done")).code(0);
    // Afterwards, too: not even a late receipt is recorded.
    place.ledger(&format!("receipt {guessed} --output late")).code(6);
    let late = place.ledger("inspect records --kind receipt_refused --json").code(0).lines();
    assert_eq!(late.iter().filter(|line| line["type"] == "record").count(), 0);
}

fn raw(digits: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// A restored copy gives the same number to another attempt.
#[test]
fn token_of_before_a_restore_is_stale() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: pay-alice}, {id: pay-bob}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    place.ledger("export -o backup.jsonl").code(0);
    let claim = |step: &str| {
        let lines = place.ledger(&format!("claim --step {step} --json")).code(0).lines();
        lines[0]["token"].as_str().unwrap().to_owned()
    };
    let before = claim("pay-alice");
    fs::rename(place.path(".ledger"), place.path("lost")).unwrap();
    place.ledger("import backup.jsonl --ledger .ledger").code(0);
    let after = claim("pay-bob");
    let number = |token: &str| token.split('-').next().unwrap().to_owned();
    assert_eq!(number(&before), number(&after), "the story needs the same record");
    let late = place.ledger(&format!("receipt {before} --output paid")).code(6);
    late.complains(&["is not active"]);
    assert_eq!(place.state().in_flight.len(), 1, "bob is not paid yet");
    place.ledger(&format!("receipt {after} --output paid")).code(0);
}

/// The token of a worker that is gone is gone, too.
#[test]
fn person_releases_a_claim_without_its_token() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: one}, {id: two}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    place.ledger("claim --step one").code(0);
    place.ledger("release --step one --by ana --json").code(0);
    let lost = place.ledger("inspect records --kind attempt_lost --json").code(0).out;
    assert!(lost.contains("released by ana: its worker is gone"), "{lost}");
    place.ledger("release --step one --by ana").code(6).complains(&["nothing to release"]);
    place.ledger("claim --step one").code(0);
    place.ledger("release").code(2);
}

/// One line to the socket said that the command `false` had passed, and the step was accepted.
#[test]
fn verdict_on_a_command_is_taken_from_its_process_only() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        super::command::report_skipped("python3 is not installed");
        return;
    }
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: one, acceptance: [{command: 'test -e done'}]}]");
    place.write(
        "ask.py",
        "import socket, json, sys
s = socket.socket(socket.AF_UNIX)
s.connect('.ledger/serve.sock')
f = s.makefile('rw')
f.write(json.dumps({'act': 'verdict', 'token': int(sys.argv[1]), 'criterion': 0,
                    'ruling': 'pass', 'by': 'process'}) + '\\n')
f.flush()
print(f.readline())
",
    );
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let serving = place.serve();
    let token = place.ledger("claim").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    let number = token.split('-').next().unwrap();
    let python = std::process::Command::new("python3")
        .args(["ask.py", number])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&python.stdout).unwrap();
    assert_eq!(answer["code"], 6, "{answer}");
    let message = answer["lines"][0]["message"].as_str().unwrap();
    assert!(message.contains("only from the process that ran it"), "{message}");
    assert!(place.state().run_named("plan").unwrap().reported.len() == 1);
    // A receipt that asserts it is not believed either: the command is run.
    place.write("done", "");
    place.ledger("plan approve plan --by ana").code(0);
    place.ledger("work --worker worker -- true");
    assert_eq!(place.state().run_named("plan").unwrap().reported.len(), 0);
    serving.dismiss();
}

/// A gate for ana was answered by bob, and nothing said so.
#[test]
fn answer_of_another_person_is_reported() {
    let place = Place::new();
    let gate = |id: &str| format!("  - {{id: {id}, gate: {{question: Go?, to: ana}}}}\n");
    place.write("plan.yaml", format!("steps:\n{}{}{}", gate("one"), gate("two"), gate("three")));
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    place.ledger("answer plan one yes --by bob").code(0).says(&["the question was for ana"]);
    let lines = place.ledger("answer plan two yes --by bob --json").code(0).lines();
    assert_eq!(lines[0]["asked"], "ana");
    let lines = place.ledger("answer plan three yes --by ana --json").code(0).lines();
    assert_eq!(lines[0]["asked"], Value::Null);
    let decisions = place.ledger("questions plan --decided --json").code(0).lines();
    let of = |line: &&Value| line["type"] == "decision";
    let asked: Vec<_> = decisions.iter().filter(of).map(|line| line["asked"].clone()).collect();
    assert_eq!(asked, [Value::from("ana"), Value::from("ana"), Value::Null]);
    place.ledger("questions plan --decided").code(0).says(&["it was for ana"]);
    place.ledger("status --run plan").code(0).says(&["the question was for ana, and bob answered"]);
    let lines = place.ledger("status --run plan --json").code(0).lines();
    let view = lines.iter().find(|line| line["type"] == "user_view").unwrap();
    let answers = view["answers_of_others"].as_array().unwrap();
    let of: Vec<_> = answers.iter().map(|it| (it["asked"].clone(), it["by"].clone())).collect();
    assert_eq!(of, [("ana".into(), "bob".into()), ("ana".into(), "bob".into())]);
}

/// Story: every output showed direction marks as escapes, but `plan export` printed them as they were: a
/// reviewer read another plan than the one that runs.
/// Goal: no output has a direction mark or a control character, whatever a plan, a worker or a person wrote.
#[test]
fn direction_marks_are_escaped_in_every_output() {
    const MARKED: &str = "a\u{202e}b\u{2066}c\u{1b}[2J\u{9b}31md";
    let place = Place::new();
    let plan = serde_json::json!({
        "title": MARKED,
        "goal": MARKED,
        "steps": [
            { "id": "one", "title": MARKED, "goal": MARKED, "command": "sh work.sh" },
            { "id": "two", "after": ["one"], "gate": { "question": MARKED, "to": "ana" } },
        ],
    });
    place.write("plan.json", plan.to_string());
    let worker = format!("printf '%s' '{MARKED}' >&2\nprintf '%s' '{MARKED}'\n");
    place.write("work.sh", worker);
    place.ledger("run plan.json --worker true --quiet");
    place.ledger_with(&["note", MARKED, "--by", "ana"]).code(0);
    place.ledger("snapshot").code(0);
    let mut lines: Vec<String> = [
        "status",
        "next",
        "plan show",
        "inspect plan plan",
        "inspect",
        "inspect queue",
        "inspect step plan one --full",
        "inspect records",
        "inspect records --json",
        "status --view operator",
        "inspect plan",
        "inspect timeline plan",
        "inspect graph plan",
        "status --json",
        "export",
    ]
    .map(str::to_owned)
    .to_vec();
    let forms = [
        "yaml",
        "json",
        "md",
        "plan",
        "spec-kit",
        "tasks",
        "task-master",
        "beads",
        "cursor",
        "dot",
        "mermaid",
    ];
    for source in ["plan.json", "plan"] {
        lines.extend(forms.map(|form| format!("plan export {source} --form {form}")));
    }
    let mut shown = 0;
    for line in &lines {
        let ended = place.ledger(line);
        for text in [&ended.out, &ended.err] {
            let bad = |c: &char| {
                (c.is_control() && *c != '\n')
                    || matches!(*c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            };
            assert_eq!(text.chars().find(bad), None, "{line}: {text}");
            shown += usize::from(text.contains("202e"));
        }
    }
    assert!(shown > 20, "the text is in few outputs: {shown}");
}

/// What else a worker is there for: to ask for another plan, and to give its attempt back with its token.
#[test]
fn s8_worker_asks_for_a_plan_and_releases_its_attempt() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: one}, {id: two}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let commands = [
        "plan request --from one --reason unclear",
        "release $LEDGER_TOKEN --reason mine",
        "release --step two --by ana",
    ];
    place.write("worker.sh", format!("[ -e results ] && exit 0\n{}", worker(&commands, "")));
    place.ledger("claim --step two").code(0);
    let words = ["work", "--worker", "w", "--max", "1", "--", "sh", "worker.sh"];
    let mut work = place.command(&words);
    work.env("LEDGER", super::command::PROGRAM);
    super::command::start(&mut work).end();
    let codes: Vec<i32> = results(&place).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, [0, 0, 6], "{}", place.read("errors"));
}
