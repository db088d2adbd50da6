//! Goal: a person who approves a plan sees what it executes, asks and may spend: whole, escaped, and in
//! every place that shows a plan before it is active.

use serde_json::{Value, json};

use super::command::Place;

/// A command that is long, has two lines, and would clear a terminal.
fn long_command() -> String {
    format!("rm -rf x\n\u{1b}[2J # {}", "x".repeat(700))
}

/// The command as text shows it: in one line, whole.
fn shown_command() -> String {
    format!("rm -rf x\\n\\u{{1b}}[2J # {}", "x".repeat(700))
}

/// A plan with a command, a gate and a limit of every kind.
fn plan() -> Value {
    json!({
        "title": "docs", "failure": {"decider": "external", "max_replans": 3,
            "rules": [{"id": "again", "when": {"class": "unknown"}, "then": "retry"}]},
        "budget": {"attempts": 9}, "caps": {"run": 2}, "gate": {"question": "May it start?"},
        "test_criteria": [{"command": "wget plan-check"}],
        "steps": [
            {"id": "a", "goal": "Format the docs", "command": long_command(), "probe": "curl probe | sh",
                "acceptance": [{"command": "wget evil"}], "idempotent": "no", "cost_limit": {"tokens": 77},
                "fallback": {"owner": "root"}, "retry": {"max_attempts": 44}, "timeout_seconds": 55,
                "gate": {"question": "really?"}},
            {"id": "b", "goal": "g", "after": ["a"]},
        ],
    })
}

/// What every text must have about that plan.
fn expected() -> Vec<String> {
    let mut all = vec![format!("a.command: {}", shown_command())];
    all.extend(
        [
            "a.probe: curl probe | sh",
            "a.check: wget evil",
            "plan.check: wget plan-check",
            "a.idempotent: no",
            "a.fallback: {\"owner\":\"root\"}",
            "a.retry: {\"max_attempts\":44}",
            "a.timeout_seconds: 55",
            "plan.rule: {\"id\":\"again\",\"then\":\"retry\",\"when\":{\"class\":\"unknown\"}}",
            "plan.decider: external",
            "plan.max_replans: 3",
            "a.gate: {\"question\":\"really?\"}",
            "plan.gate: {\"question\":\"May it start?\"}",
            "a.cost_limit: {\"money_micros\":0,\"tokens\":77}",
            "plan.budget: {\"attempts\":9}",
            "plan.caps: {\"run\":2}",
        ]
        .map(str::to_owned),
    );
    all
}

#[track_caller]
fn assert_shows_all(text: &str) {
    for words in expected() {
        assert!(text.contains(&words), "expected {words:?} in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let place = |words: &str| text.find(words).unwrap();
    assert!(place("a.command: ") < place("a.gate: "), "commands come first\n{text}");
}

/// A ledger with that plan as the first version of run `rv`, which waits for approval.
fn waiting() -> Place {
    let place = Place::new();
    place.write("rv.json", plan().to_string());
    place.ledger("init").code(0);
    place.ledger("plan propose rv.json --run rv").code(0);
    place
}

#[test]
fn plan_file_is_shown_with_what_it_executes() {
    let place = Place::new();
    place.write("evil.json", plan().to_string());
    let shown = place.ledger("plan show evil.json").code(0).out;
    assert_shows_all(&shown);
    assert!(shown.find("a.command: ") < shown.find("[ ] a"), "{shown}");
    let json: Value =
        serde_json::from_str(&place.ledger("plan show evil.json --json").code(0).out).unwrap();
    assert_eq!(json["steps"][0]["command"], long_command());
}

#[test]
fn version_that_waits_is_shown_with_what_it_executes() {
    let place = waiting();
    for line in ["plan review rv", "questions", "inspect .ledger plan rv"] {
        let ended = place.ledger(line);
        assert_shows_all(&ended.out);
    }
    let review = &place.ledger("plan review rv --json").lines()[0];
    let command = json!({"kind": "command", "step": "a", "value": long_command()});
    assert_eq!(review["executes"][0], command);
    assert_eq!(review["executes"].as_array().unwrap().len(), expected().len());
    for line in ["questions --json", "questions --decided --json"] {
        let asked = &place.ledger(line).lines()[0];
        assert_eq!(asked["executes"], review["executes"], "{line}");
    }
    // The plan of the version that waits can be exported, and reads back as it.
    let exported = place.ledger("plan export rv --form json").code(0);
    exported.complains(&["version 1 of run rv, which waits for approval"]);
    place.ledger("inspect .ledger step rv a").complains(&["ledger plan review rv"]);
}

/// The page has the commands of a version before it is active.
#[test]
fn page_shows_what_a_waiting_version_executes() {
    let place = waiting();
    place.ledger("report rv --html page.html").code(0);
    let page = place.read("page.html");
    let escaped = shown_command();
    for words in [escaped.as_str(), "curl probe | sh", "wget evil", "wget plan-check"] {
        assert!(page.contains(words), "expected {words:?}");
    }
    assert!(page.contains("<details class=\"executes\" open>"));
}

/// A question about a gate names the commands of its step, and of no other step.
#[test]
fn question_of_a_gate_shows_the_commands_of_its_step() {
    let plan = "steps:\n  - {id: a, command: rm -rf x, gate: {question: really?}}\n  - {id: b, command: other}\n";
    let place = Place::planned(plan);
    let questions = place.ledger("questions").code(0).says(&["really?", "a.command: rm -rf x"]);
    assert!(!questions.out.contains("other"), "{}", questions.out);
}

/// Where an answer is offered that lets commands run, the first command shows them: of a version that asks, of one
/// that waits for a review, and of a gate. It is accepted, and shows the command whole.
#[test]
fn offered_answer_comes_after_the_command_that_shows_what_it_executes() {
    let gated = "steps: [{id: a, command: rm -rf x, gate: {question: really?}}]\n";
    for (plan, approval) in [
        ("gate: {question: start?}\nsteps: [{id: a, command: rm -rf x}]\n", "automatic"),
        ("steps: [{id: a, command: rm -rf x}]\n", "required"),
        (gated, "automatic"),
    ] {
        let place = Place::new();
        place.write("rv.yaml", plan);
        place.ledger("init").code(0);
        place.ledger(&format!("plan propose rv.yaml --approval {approval}")).code(0);
        let mut shown = Vec::new();
        let why = (plan == gated).then_some("inspect why a --run rv");
        let lines = ["status", "next", "questions", "questions --decided", "run rv.yaml"];
        for line in lines.into_iter().chain(why) {
            let ended = place.ledger(line);
            let text = format!("{}{}", ended.out, ended.err);
            let commands: Vec<&str> =
                text.lines().map(str::trim).filter(|each| each.starts_with("ledger ")).collect();
            let is_answer =
                |each: &&str| ["answer", "plan approve"].iter().any(|it| each.contains(it));
            let first = commands.first().unwrap_or_else(|| panic!("{line} offers nothing\n{text}"));
            assert!(!is_answer(first), "{line}: {first}\n{text}");
            shown.push((*first).to_owned());
        }
        shown.dedup();
        assert_eq!(shown.len(), 1, "{shown:?}");
        let words: Vec<&str> = shown[0].split(' ').skip(1).collect();
        let ended = place.ledger_with(&words);
        assert!(ended.out.contains("rm -rf x"), "{shown:?}: {}", ended.out);
        assert!(!ended.out.contains(&format!("type: {}", shown[0])), "{}", ended.out);
    }
}

/// A difference shows old and new commands whole: of two files, two versions, a proposal and a refusal.
#[test]
fn differences_show_old_and_new_commands() {
    let place = Place::new();
    let old = "steps:\n  - {id: a, command: make}\n  - {id: gone, probe: old-probe}\n";
    place.write("old.yaml", old);
    let new = json!({"steps": [{"id": "a", "command": long_command(), "acceptance": [{"command": "wget evil"}]},
        {"id": "z", "command": "curl z | sh"}]});
    place.write("new.json", new.to_string());
    place.ledger("init").code(0);
    place.ledger("plan propose old.yaml --run r").code(0);
    let words = [
        format!("a.command:\n  - make\n  + {}", shown_command()),
        "z.command:\n  + curl z | sh".to_owned(),
        "gone.probe:\n  - old-probe".to_owned(),
        "a.check:\n  + wget evil".to_owned(),
    ];
    let check = |text: &str| {
        let text: String = text.lines().map(|line| line.trim_start().to_owned() + "\n").collect();
        for words in &words {
            let words = words.replace("\n  ", "\n");
            assert!(text.contains(&words), "expected {words:?} in\n{text}");
        }
    };
    check(&place.ledger("plan diff old.yaml new.json").code(0).out);
    check(&place.ledger("plan diff new.json r").code(0).out);
    check(&place.ledger("run new.json --run r --worker true").code(6).err);
    let json = &place.ledger("plan diff old.yaml new.json --json").lines()[0];
    let change = json!({"kind": "command", "step": "a", "old": "make", "new": long_command()});
    assert_eq!(json["executes"][0], change);
    place.ledger("plan propose new.json --run r").code(0);
    check(&place.ledger("inspect .ledger plan r --diff 1 2").code(0).out);
}

/// A command of two lines and a command with the two characters `\n` never look alike.
#[test]
fn newline_and_its_escape_look_different() {
    let place = Place::new();
    place.ledger("init").code(0);
    for (name, command, shown) in
        [("two", "true\nfalse", r"true\nfalse"), ("one", r"true\nfalse", r"true\\nfalse")]
    {
        place.write(
            &format!("{name}.json"),
            json!({"steps": [{"id": "a", "command": command}]}).to_string(),
        );
        place.ledger(&format!("plan propose {name}.json --run {name}"));
        let words = format!("a.command: {shown}");
        for line in [format!("plan show {name}.json"), format!("inspect .ledger plan {name}")] {
            let ended = place.ledger(&line);
            assert!(ended.out.contains(&words), "expected {words:?} in\n{}", ended.out);
        }
    }
    let changed = place.ledger("plan diff two.json one.json").code(0).out;
    assert!(changed.contains(r"- true\nfalse") && changed.contains(r"+ true\\nfalse"), "{changed}");
}
