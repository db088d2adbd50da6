//! Commands that need no fixed ledger: help, plan files, ledgers that the program makes itself, the
//! laboratory.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::command::listed_commands;

use super::session::Session;

/// A plan whose steps have commands of their own.
const PLAN: &str = "\
title: Tea
caps: { run: 1 }
steps:
  - { id: boil, goal: Boil water, command: 'echo 100', outputs: [degrees] }
  - { id: steep, goal: Steep it, after: [boil], command: 'echo done' }
  - { id: taste, goal: Taste it, after: [steep] }
";

/// The same plan, changed.
const CHANGED: &str = "\
title: Tea
caps: { run: 2 }
steps:
  - { id: steep, goal: Steep it for long, command: 'echo done' }
  - { id: boil, goal: Boil water, command: 'echo 100', outputs: [degrees] }
  - { id: milk, after: [steep] }
";

/// A plan that fails.
const FAILING: &str = "\
title: Fails
steps:
  - { id: breaks, command: 'echo broken >&2; exit 3', retry: { max_attempts: 2 } }
  - { id: never, after: [breaks], command: 'true' }
";

/// A plan that waits for a person.
const ASKING: &str = "\
title: Asks
steps:
  - { id: gated, command: 'echo 1', gate: { question: 'Go on?', to: ana } }
  - { id: judged, command: 'echo 2', acceptance: [It is good] }
";

/// Files that are no plan.
const WRONG: [(&str, &str); 6] = [
    ("empty.yaml", ""),
    ("cycle.yaml", "steps:\n  - { id: a, after: [b] }\n  - { id: b, after: [a] }\n"),
    ("unknown.yaml", "steps:\n  - { id: a, colour: red }\n  - { id: a }\n"),
    ("broken.json", "{\"steps\": [{\"id\": \"a\",}]}"),
    ("cel.yaml", "steps:\n  - { id: a, condition: 'x >' }\n  - { id: b, after: [unknown] }\n"),
    ("text.md", "Only words.\n"),
];

const TOOLS: &str = "tools:\n  shell: { timeout_seconds: 60, retry: { max_attempts: 2 } }\n";

fn with_plans(mut session: Session) -> Session {
    session.write("plan.yaml", PLAN);
    session.write("changed.yaml", CHANGED);
    session.write("failing.yaml", FAILING);
    session.write("asking.yaml", ASKING);
    session.write("tools.yaml", TOOLS);
    session.write(
        "rough.yaml",
        "steps:\n  - { id: a, tools: [shell] }\n  - { id: b, tools: [odd] }\n",
    );
    for (name, text) in WRONG {
        session.write(name, text);
    }
    let fixtures =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fixtures/plans");
    for entry in fs::read_dir(fixtures).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        session.write(&format!("tools/{name}"), &fs::read_to_string(&path).unwrap());
    }
    session.note(
        "plan.yaml, changed.yaml, failing.yaml, asking.yaml and wrong files are in the folder",
    );
    session
}

/// Goal: the help of every command and subcommand is as recorded.
#[test]
fn help_of_every_command() {
    let mut session = Session::reading(&[]);
    session.run_all(&["--help", "-h", "--version", "", "nonsense", "inspct", "--nonsense"]);
    let top = listed_commands(&session.quietly("help --all"));
    assert!(top.len() >= 43, "{top:?}");
    for command in &top {
        session.run(&format!("{command} --help"));
    }
    session.run("help");
    session.run("help run");
    session.assert_recorded("help");
    for command in ["inspect", "plan", "lab"] {
        let mut session = Session::reading(&[]);
        session.run(&format!("{command} --help"));
        let nested = listed_commands(&session.quietly(&format!("{command} --help")));
        assert!(nested.len() >= 3, "{nested:?}");
        for name in nested {
            session.run(&format!("{command} {name} --help"));
        }
        session.run(command);
        session.run(&format!("{command} nonsense"));
        session.run(&format!("{command} help nonsense"));
        session.assert_recorded(&format!("help-{command}"));
    }
}

/// Goal: plan files are checked, shown, written and compared as recorded.
#[test]
fn plan_files() {
    let mut session = with_plans(Session::reading(&[]));
    let names = ["plan.yaml", "changed.yaml", "asking.yaml", "failing.yaml", "missing.yaml"];
    for name in names.into_iter().chain(WRONG.map(|(name, _)| name)) {
        session.run(&format!("plan lint {name}"));
        session.run(&format!("plan lint {name} --json"));
        session.run(&format!("plan show {name}"));
        session.run(&format!("plan show {name} --json"));
    }
    session.run_all(&[
        "plan lint plan.yaml --strict",
        "plan lint",
        "plan show",
        "plan lint --plan-tag x plan.yaml",
    ]);
    session.run_all(&["plan show plan.yaml --format md", "plan export plan.yaml --form nonsense"]);
    session.assert_recorded("plan-lint-show");

    let mut session = with_plans(Session::reading(&[]));
    for form in ["yaml", "json", "md", "dot", "mermaid"] {
        session.run(&format!("plan export plan.yaml --form {form}"));
    }
    session.run_all(&[
        "plan export plan.yaml -o out.yaml",
        "plan export plan.yaml -o out.yaml",
        "plan export cycle.yaml",
        "plan export",
        "plan diff plan.yaml changed.yaml",
        "plan diff plan.yaml changed.yaml --json",
        "plan diff plan.yaml plan.yaml",
        "plan diff plan.yaml plan.yaml --json",
        "plan diff plan.yaml",
        "plan diff plan.yaml missing.yaml",
        "plan diff plan.yaml broken.json",
        "plan enrich rough.yaml --tools tools.yaml",
        "plan enrich rough.yaml --tools tools.yaml -o rich.json",
        "plan enrich rough.yaml --tools tools.yaml -o rich.json",
        "plan enrich rough.yaml",
        "plan enrich rough.yaml --tools missing.yaml",
        "plan enrich rough.yaml --tools plan.yaml",
    ]);
    session.assert_recorded("plan-export-diff-enrich");

    let mut session = with_plans(Session::reading(&[]));
    let mut names: Vec<String> = fs::read_dir(session.path().join("tools"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names {
        session.run(&format!("plan lint tools/{name}"));
        session.run(&format!("plan lint tools/{name} --json"));
        session.run(&format!("plan show tools/{name}"));
        session.run(&format!("plan show tools/{name} --json"));
    }
    session.assert_recorded("plan-other-tools");
}

/// Goal: the commands that propose and review plans answer as recorded.
#[test]
fn plan_versions() {
    let mut session = with_plans(Session::writing(&["waiting"]));
    session.run_all(&[
        "plan review versions --ledger waiting",
        "plan review versions --ledger waiting --json",
        "plan review proposed --ledger waiting",
        "plan review attention --ledger waiting",
        "plan review attention --ledger waiting --json",
        "plan approve versions --ledger waiting --by ana --shown 123456789abc",
        "plan approve versions --ledger waiting",
        "plan approve attention --ledger waiting --by ana",
        "plan approve versions --ledger waiting --by ana --note fine",
        "plan approve proposed --ledger waiting --by ana --json",
        "plan propose changed.yaml --run versions --ledger waiting --approval required --reason why",
        "plan reject versions --ledger waiting --by ana --note 'too risky'",
        "plan propose changed.yaml --run versions --ledger waiting --approval required --json",
        "plan reject versions --ledger waiting --by ana --json",
        "plan reject versions --ledger waiting --by ana",
        "plan reject versions --ledger waiting",
        "plan withdraw versions --ledger waiting --by ana --reason 'it works'",
        "plan withdraw versions --ledger waiting --by ana --json",
        "plan withdraw versions --ledger waiting",
        "plan add lint --goal 'run it' --after ready --run attention --ledger waiting",
        "plan add --step '{\"id\": \"more\", \"after\": [\"lint\"]}' --run attention --ledger waiting --json",
        "plan add lint --run attention --ledger waiting",
        "plan add --step '{\"id\":' --run attention --ledger waiting",
        "plan add --run attention --ledger waiting",
        "plan add x --run nonsense --ledger waiting",
        "plan propose plan.yaml --ledger waiting",
        "plan propose plan.yaml --ledger waiting",
        "plan propose plan.yaml --ledger waiting --run again --json",
        "plan propose cycle.yaml --ledger waiting",
        "plan propose missing.yaml --ledger waiting",
        "plan propose plan.yaml --ledger missing",
        "plan propose plan.yaml --ledger waiting --approval nonsense",
        "plan make --goal 'Do it' --planner 'cat plan.yaml' --run made --ledger waiting",
        "plan make --goal 'Do it' --planner 'cat plan.yaml' --ledger waiting --json",
        "plan make --goal 'Do it' --planner 'cat cycle.yaml' --ledger waiting",
    ]);
    session.run_with_input("plan propose - --run standard --ledger waiting", PLAN);
    session.assert_recorded("plan-versions");

    let mut session = Session::writing(&["waiting"]);
    session.run_all(&[
        "plan reject versions --ledger waiting --by ana --note 'too risky'",
        "plan reject proposed --ledger waiting --by ana --json",
        "inspect waiting plan versions",
        "claim attention --ledger waiting --worker w1",
    ]);
    let token = session.token("waiting", "attention", "flying");
    session.run(&format!("receipt {token} --ledger waiting --replan 'it needs a net'"));
    session.run_all(&[
        "questions --ledger waiting",
        "plan withdraw attention --ledger waiting --by ana --reason 'it works'",
    ]);
    session.assert_recorded("plan-versions-rejected");

    let mut session = Session::writing(&["waiting"]);
    session.run("claim attention --ledger waiting --worker w1");
    let token = session.token("waiting", "attention", "flying");
    session.run(&format!("receipt {token} --ledger waiting --replan 'it needs more' --json"));
    session.run("plan withdraw attention --ledger waiting --by ana --json");
    session.assert_recorded("plan-versions-withdrawn");

    let mut session = Session::writing(&["waiting"]);
    session.run_all(&[
        "plan request attention --ledger waiting --by ana --kind new-evidence --reason 'a signal'",
        "plan request attention --ledger waiting --by ana --reason again",
        "plan withdraw attention --ledger waiting --by ana",
        "plan request attention --ledger waiting --by ana --reason again --json",
    ]);
    session.assert_recorded("plan-versions-requested");
}

/// Goal: `ledger run` reports what it does as recorded.
#[test]
fn runs_of_plans() {
    let mut session = with_plans(Session::writing(&[]));
    session.run_all(&[
        "run plan.yaml --stub --max-parallel 1 --ledger stub",
        "run plan.yaml --stub --max-parallel 1 --ledger stub",
        "run plan.yaml --stub --max-parallel 1 --ledger stub --json",
        "run plan.yaml --stub --max-parallel 1 --ledger other --json",
        "run plan.yaml --stub --max-parallel 1 --ledger quiet --quiet",
        "run changed.yaml --run plan --stub --max-parallel 1 --ledger stub",
        "run changed.yaml --run plan --stub --max-parallel 1 --ledger stub --replan --reason scope",
        "run plan.yaml --max-parallel 1 --ledger none",
        "run plan.yaml --max-parallel 1 --ledger none --worker 'echo tasted'",
        "run failing.yaml --max-parallel 1 --ledger fails",
        "run failing.yaml --max-parallel 1 --ledger fails",
        "run failing.yaml --max-parallel 1 --ledger fails --retry-failed --json",
        "run failing.yaml --max-parallel 1 --ledger fast --fail-fast",
        "run asking.yaml --max-parallel 1 --ledger asks",
        "run asking.yaml --max-parallel 1 --ledger asks --json",
        "run asking.yaml --max-parallel 1 --ledger judged --stub --text trust",
        "run plan.yaml --stub --max-parallel 1 --ledger shot --kill-at 2",
        "resume --ledger shot --show",
        "resume --ledger shot --show --json -q",
        "resume --ledger shot",
        "resume --ledger missing",
        "run plan.yaml --stub --max-parallel 1 --ledger shot",
        "run cycle.yaml --stub --ledger wrong",
        "run empty.yaml --stub --ledger wrong",
        "run missing.yaml --stub --ledger wrong",
        "run plan.yaml --stub --worker x",
        "run plan.yaml --max-parallel 0",
        "run plan.yaml --reason x",
        "run plan.yaml --text nonsense",
        "run",
        "run plan.yaml --stub --ledger plan.yaml",
    ]);
    session.assert_recorded("run");
}

/// Goal: drills report what they checked as recorded.
#[test]
fn drills() {
    let mut session = with_plans(Session::writing(&[]));
    session.run_all(&[
        "drill plan.yaml --max-parallel 1",
        "drill plan.yaml --max-parallel 1 --kill-at 2 --json",
        "drill plan.yaml --max-parallel 1 --keep kept",
        "drill plan.yaml --max-parallel 1 --keep kept",
        "drill plan.yaml --every-crash --at 5",
        "drill plan.yaml --every-crash --at 5 --json",
        "drill plan.yaml --every-crash --at 99999",
        "drill plan.yaml --every-crash --agents flaky --seed 7 --at 9",
        "drill plan.yaml --kill-at 99",
        "drill plan.yaml --agents flaky",
        "drill plan.yaml --every-crash --kill-at 3",
        "drill cycle.yaml",
        "drill missing.yaml",
        "drill",
    ]);
    session.assert_recorded("drill");
}

/// Goal: the laboratory reports its figures as recorded.
#[test]
fn laboratory() {
    let mut session = Session::timed();
    session.run_all(&[
        "lab run --ops 0 --jobs 1",
        "lab run --ops 0 --jobs 1 --json",
        "lab run --ops 1 --jobs 1 --seed 2 --images 20",
        "lab run --ops 0 --jobs 1 --device psow512 --json",
        "lab run --ops 0 --jobs 1 --hashes images.txt",
        "lab run --ops 0 --jobs 1 --hashes missing/images.txt",
        "lab run --ops 0 --jobs 1 --faults 0",
        "lab run --ops 0 --jobs 1 --faults 0 --json",
        "lab run --ops 99",
        "lab run --device nonsense",
        "lab replay append+rotate/17,power:but5",
        "lab replay append/3,kill",
        "lab replay nonsense",
        "lab replay",
        "lab endure --ops 50",
        "lab endure --ops 50 --seed 2 --json",
        "lab endure --ops x",
        "lab",
    ]);
    session.assert_recorded("lab");
}

/// Goal: the commands for agent hosts print what was recorded; settings and answers of hooks have tests
/// of their own.
#[test]
fn agent_hosts() {
    let mut session = Session::reading(&["complete", "killed", "damaged", "waiting"]);
    session.run_all(&[
        "prime --ledger complete",
        "prime --ledger killed",
        "prime --ledger killed --json",
        "prime --ledger damaged",
        "prime --ledger waiting",
        "prime attention --ledger waiting",
        "prime nonsense --ledger waiting",
        "prime",
        "prime --json",
        "setup claude-code --check",
        "setup claude-code",
        "setup claude-code",
        "setup claude-code --check --json",
        "setup claude-code --remove",
        "setup opencode --json",
        "setup emacs",
        "setup claude-code --check --remove",
        "hook claude-code Stop",
        "hook emacs Stop",
        "hook gemini Stop",
        "hook",
        "mcp",
        "mcp --role nonsense",
        "mcp --help",
    ]);
    session.run_with_input("hook claude-code Stop", "{");
    session.run_with_input(
        "LEDGER_DIR=killed XDG_STATE_HOME=state hook gemini SessionStart",
        "{\"session_id\": \"5f2c1d3e\"}",
    );
    session.assert_recorded("agent-hosts");
}

/// Goal: completions and manual pages are written for what is asked; their text follows the help.
#[test]
fn completions_and_manual() {
    let mut session = Session::reading(&[]);
    session.run("man");
    session.run("man --to pages");
    session.run("man --to pages");
    session.run("man extra");
    session.listing("pages");
    session.run("completions fish");
    for shell in ["bash", "zsh", "elvish", "powershell"] {
        session.run_for_digest(&format!("completions {shell}"));
    }
    session.run_all(&["completions", "completions nonsense"]);
    session.assert_recorded("completions-man");
}

/// The commands whose result has a form of its own: with `--json` their errors are JSON.
const ERRORS_AS_JSON: [&str; 10] = [
    "completions",
    "export",
    "hook",
    "import",
    "lab replay",
    "man",
    "mcp",
    "plan enrich",
    "plan export",
    "resume",
];

/// Goal: no command is missing: each is recorded with a good answer and with a refusal, and with
/// `--json`.
#[test]
fn every_command_is_recorded() {
    let session = Session::reading(&[]);
    let mut names = Vec::new();
    for command in listed_commands(&session.quietly("help --all")) {
        if command == "help" {
            continue;
        }
        if ["inspect", "plan", "lab"].contains(&command.as_str()) {
            let help = session.quietly(&format!("{command} --help"));
            let nested = listed_commands(&help).into_iter().filter(|name| name != "help");
            names.extend(nested.map(|name| format!("{command} {name}")));
        } else {
            names.push(command);
        }
    }
    let mut missing = Vec::new();
    let found = recorded();
    for name in names {
        let has_json = !ERRORS_AS_JSON.contains(&name.as_str());
        let of_name: Vec<_> = found.iter().filter(|each| each.name == name).collect();
        let has = |is: &dyn Fn(&Recorded) -> bool| of_name.iter().any(|each| is(each));
        for (what, is_recorded) in [
            ("--help", has(&|each| each.line.ends_with("--help"))),
            ("success", has(&|each| each.code == "0" && !each.line.ends_with("--help"))),
            ("failure", has(&|each| each.code != "0")),
            ("--json", !has_json || has(&|each| each.line.contains("--json") && each.code == "0")),
        ] {
            if !is_recorded {
                missing.push(format!("{name}: {what}"));
            }
        }
    }
    assert!(missing.is_empty(), "not recorded:\n{}", missing.join("\n"));
}

/// An invocation in a snapshot.
struct Recorded {
    name: String,
    line: String,
    code: String,
}

/// All invocations in the snapshots.
fn recorded() -> Vec<Recorded> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/snapshots");
    let mut found = Vec::new();
    let views: BTreeSet<&str> = ["inspect", "plan", "lab"].into();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "snap") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let Some(line) = line.strip_prefix("$ ledger ") else { continue };
            let code = lines.peek().and_then(|next| next.strip_prefix("exit code: "));
            let mut words = line.split(' ').filter(|word| !word.contains('='));
            let command = words.next().unwrap_or_default();
            let mut name = command.to_owned();
            if command == "inspect" && !line.ends_with("--help") {
                words.next();
            }
            if let Some(view) = words.next().filter(|_| views.contains(command)) {
                name = format!("{command} {view}");
            }
            let code = code.unwrap_or_default().to_owned();
            found.push(Recorded { name, line: line.to_owned(), code });
        }
    }
    found
}
