//! Commands that the program prints: a shell reads each name in them as one word, and executes nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use plan_ledger_views::end_of_command;
use serde_json::Value;

use super::command::{PROGRAM, Place, start, wait_until};
use super::http::Address;

/// Names that mean something to a shell, or look like options.
const NAMES: [&str; 12] = [
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "a' 'touch pwned",
    "a\"$(touch pwned)",
    "-rf",
    "--yes",
    "a b",
    "~root",
    "*",
    "$HOME",
    "a&touch pwned&",
];

/// The commands in a text: in backquotes, or on a line of their own.
pub(crate) fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let parts: Vec<&str> = line.split("`ledger ").skip(1).collect();
        found.extend(parts.iter().map(|part| format!("ledger {}", &part[..end_of_command(part)])));
        if parts.is_empty() && line.starts_with("ledger ") {
            found.push(line.to_owned());
        }
    }
    found
}

/// What a shell makes of a command line: its words, one a line.
fn words(place: &Place, line: &str) -> Vec<String> {
    let script = format!("ledger() {{ printf '%s\\n' \"$@\"; }}; {line}");
    let mut shell = Command::new("bash");
    let ended = shell.args(["-c", &script]).current_dir(place.path("")).output().unwrap();
    assert!(!place.path("pwned").exists(), "executed: {line}");
    String::from_utf8_lossy(&ended.stdout).lines().map(str::to_owned).collect()
}

/// Executes a command line with this program; whether the program can read it.
fn is_readable(place: &Place, line: &str) -> bool {
    let folder = Path::new(PROGRAM).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("timeout");
    shell.args(["60", "bash", "-c", line]).env("PATH", path).current_dir(place.path(""));
    shell.env("XDG_STATE_HOME", place.state_home());
    let status = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.unwrap().code() != Some(2)
}

/// The printed commands about a plan with these names, and how often the name was in one.
fn check(name: &str, run: &str, step: &str, owner: &str, dir: &str) -> usize {
    let place = Place::new();
    let plan = serde_json::json!({ "steps": [
        { "id": step, "gate": { "question": "ok?", "to": owner } },
        { "id": "done", "outputs": ["known"], "acceptance": ["good"] },
        { "id": "human", "owner": owner },
        { "id": "fails", "command": "exit 3" },
    ] });
    place.write("p.json", plan.to_string());
    fs::write(place.path("q.json"), r#"{"steps": [{"id": "x", "gate": {"question": "ok?"}}]}"#)
        .unwrap();
    let (dir_option, run_option) = (format!("--ledger={dir}"), format!("--run={run}"));
    let ledger = |words: &[&str]| {
        let ended = place.ledger_with(&[words, &[&dir_option]].concat());
        format!("{}\n{}", ended.out, ended.err)
    };
    let mut texts = ledger(&["run", "p.json", &run_option, "--worker", "true"]);
    texts.push_str(&ledger(&["run", "q.json", "--run=other", "--worker", "true"]));
    for words in [
        &["status"][..],
        &["next"],
        &["questions"],
        &["prime"],
        &["get", "zz", &run_option],
        &["budget", "raise", run],
        &["plan", "review", &run_option],
        &["resume", run],
        &["run", run],
        &["skip", "--reason=x", "nothere", &run_option],
        &["fork"],
    ] {
        texts.push_str(&ledger(words));
    }
    let mut found = 0;
    for line in BTreeSet::from_iter(commands(&texts)) {
        let words = words(&place, &line);
        let is_placeholder =
            |word: &String| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase());
        let is_named = |word: &String| {
            word == name
                || ["=", "/"].iter().any(|before| word.ends_with(&format!("{before}{name}")))
        };
        if words.iter().any(is_named) {
            found += 1;
            let is_whole = !words.iter().any(is_placeholder);
            assert!(!is_whole || is_readable(&place, &line), "{line}");
            assert!(!place.path("pwned").exists(), "executed: {line}");
        } else {
            let part: String = name.chars().take(6).collect();
            assert!(!line.contains(&part), "{name:?} is not one word of {line}: {words:?}");
        }
    }
    found
}

#[test]
fn names_in_printed_commands_are_one_word() {
    for name in NAMES {
        // A run's name does not begin like an option.
        let run = if name.starts_with('-') { "r" } else { name };
        let in_runs = check(name, run, name, name, "l");
        assert!(in_runs > 0 || run == "r", "{name}: no command names the run");
        assert!(check(name, "r", "s", "ana", name) > 0, "{name}: no command names the ledger");
    }
}

/// A message of a server, or of the command itself, is about the ledger of the reader: pasted in the reader's folder, its
/// commands find that ledger.
#[test]
fn commands_in_messages_find_the_ledger_of_the_reader() {
    let place = Place::new();
    place.write("p.json", r#"{"steps": [{"id": "a", "gate": {"question": "ok?"}}, {"id": "b"}]}"#);
    fs::create_dir(place.path("there")).unwrap();
    place.ledger("init --ledger there/.ledger").code(0);
    place.ledger("plan propose p.json --run r --ledger there/.ledger").code(0);
    for is_served in [false, true] {
        let server = is_served.then(|| {
            let mut serving = place.command(&["serve", "--http"]);
            let server = start(serving.current_dir(place.path("there")));
            wait_until("it serves", || server.said("serving"));
            server
        });
        let mut found = 0;
        for line in [
            "retry a",
            "answer 999 yes",
            "accept r b",
            "set zz 1 --if-version 4",
            "get zz",
            "receipt 1-00",
        ] {
            for option in ["", " --json"] {
                let ended = place.ledger(&format!("{line} --ledger there/.ledger{option}"));
                let text = format!("{}\n{}", ended.out.replace("\\n", "\n"), ended.err);
                for command in commands(&text) {
                    found += 1;
                    assert!(command.contains("--ledger there/.ledger"), "{line}: {command}");
                    assert!(is_readable(&place, &command), "{line}: {command}");
                }
            }
        }
        assert!(found >= 8, "{found}");
        // The reader of an answer over HTTP may be in any folder.
        if let Some(server) = server {
            let ledger = place.path("there/.ledger");
            let http = Address::of_ledger(&ledger);
            let option = format!("--ledger {}", ledger.display());
            let by = serde_json::json!({ "by": "ana" });
            let detail = http.problem("operator", "POST /v1/runs/r/steps/a/retry", &by);
            let told = commands(&detail);
            assert!(!told.is_empty() && told.iter().all(|it| it.contains(&option)), "{detail}");
            let lines = http.lines("viewer", "GET /v1/runs/r/questions", &[], &Value::Null);
            let told: Vec<&Value> =
                lines.iter().filter_map(|line| line["commands"].as_array()).flatten().collect();
            assert!(!told.is_empty(), "{lines:?}");
            for command in told {
                assert!(command.as_str().unwrap().contains(&option), "{command}");
                assert!(is_readable(&place, command.as_str().unwrap()), "{command}");
            }
            server.dismiss();
        }
    }
}
