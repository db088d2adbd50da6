//! Goal: in the shell of an agent session nothing decides for a person, unless the owner of the ledger
//! allowed it; every record that an agent makes names it; and no text for an agent has a command that decides
//! for a person.

use std::process::Command;

use regex::Regex;
use serde_json::{Value, json};

use super::command::{Ended, PROGRAM, Place, start};

/// The marks in an environment.
type Marks = &'static [(&'static str, &'static str)];

/// The environment of the shell of each host that marks it, and the name of the session.
const SHELLS: [(Marks, &str, &str); 5] = [
    (
        &[
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_SESSION_ID", "4f2c1d3e-aaaa-bbbb"),
            ("AI_AGENT", "claude-code_2-1-197_agent"),
        ],
        "claude-code",
        "claude-code/4f2c1d3e",
    ),
    (&[("CLAUDECODE", "1")], "claude-code", "claude-code"),
    (&[("CODEX_THREAD_ID", "0199-7a11-aaaa")], "codex", "codex/01997a11"),
    (&[("GEMINI_CLI", "1")], "gemini", "gemini"),
    (&[("OPENCODE", "1"), ("AGENT", "1")], "opencode", "opencode"),
];

/// The environment of a hook or a server of Claude Code.
const HARNESS: Marks = &[
    ("CLAUDECODE", "1"),
    ("CLAUDE_CODE_SESSION_ID", "4f2c1d3e-aaaa-bbbb"),
    ("AI_AGENT", "claude-code_2-1-197_harness"),
];

/// One step of each kind that waits for a person: an approval, a verdict, a decision, a person's work.
const WAITING: &str = "\
failure: {rules: [{id: ask, then: {escalate: {to: ana}}}]}
steps:
  - {id: judged, goal: Look at it, acceptance: [it looks good]}
  - {id: gated, goal: Publish it, gate: {question: Publish now?}}
  - {id: broken, goal: Fail}
  - {id: once, goal: Pay, idempotent: no}
  - {id: called, goal: Call them, owner: human}
";

/// A decision in every form.
const DECISIONS: [&str; 19] = [
    "accept plan judged",
    "reject plan judged",
    "answer 9 yes",
    "answer plan judged retry",
    "plan approve plan",
    "plan reject plan",
    "decide judged retry --run plan",
    "retry plan judged",
    "skip plan judged --reason none",
    "budget plan --attempts 99",
    "cap --run plan 9",
    "erase --record 1 --yes",
    "unpause plan",
    "cancel plan",
    "plan withdraw plan",
    "recover .ledger --fence --yes",
    "note hello --accept-rollback",
    "claim plan --owner human",
    "work plan --owner human -- true",
];

fn in_shell(place: &Place, marks: &[(&str, &str)], words: &[&str]) -> Ended {
    let mut command: Command = place.command(words);
    command.env_remove("LEDGER_BY").envs(marks.iter().copied());
    start(&mut command).end()
}

fn as_agent(place: &Place, marks: &[(&str, &str)], line: &str) -> Ended {
    in_shell(place, marks, &line.split(' ').collect::<Vec<_>>())
}

/// The events of a kind, oldest first.
fn events(place: &Place, kind: &str) -> Vec<Value> {
    let lines = place.ledger(&format!("inspect records --kind {kind} --json")).code(0).lines();
    let records = lines.into_iter().filter(|line| line["type"] == "record");
    records.map(|line| line["event"].clone()).collect()
}

/// The commands in a text that decide for a person.
pub(crate) fn commands_of_persons(text: &str) -> Vec<String> {
    let pattern = r"ledger (--ledger \S+ )?(accept|reject|answer|plan approve|plan reject|decide|retry|skip|budget|cap|erase|unpause|cancel|plan withdraw|resume [^\n`]*--retry-failed|work [^\n`]*--judge-only)\b[^\n]*";
    let pattern = Regex::new(pattern).unwrap();
    pattern.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

/// Regression: an agent typed the command that its hook had shown, and the log said that its user did it.
#[test]
fn decision_in_an_agent_session_is_refused() {
    let place = Place::planned("steps: [{id: judged, acceptance: [it looks good]}]");
    let token = place.ledger("claim").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    let before = place.ledger("inspect records --json").out;
    for (marks, _, session) in SHELLS {
        for line in DECISIONS {
            let refused = as_agent(&place, marks, line).code(6);
            let refused = refused.complains(&["agent session", session, "only a person"]);
            assert_eq!(commands_of_persons(&refused.err), Vec::<String>::new());
        }
        as_agent(&place, marks, "note hello --by ana").code(6).complains(&["agent session"]);
        let refused = as_agent(&place, marks, "accept plan judged --json").code(6);
        assert_eq!(refused.lines()[0]["rejection"], "agent_session");
    }
    assert_eq!(place.ledger("inspect records --json").out, before);
    // Through a server, too, and by a client of its socket.
    let serving = place.serve();
    for (marks, ..) in SHELLS {
        as_agent(&place, marks, "accept plan judged").code(6);
    }
    serving.dismiss();
    // A hook or a server of the host is not the model's shell, and neither is the user's.
    in_shell(&place, HARNESS, &["note", "hello", "--by", "ana"]).code(0);
    place.ledger("accept plan judged --by ana").code(0);
}

/// The socket tells by the process at its other end, whatever that process says.
#[test]
fn socket_refuses_decisions_of_an_agent_session() {
    let place = Place::planned("steps: [{id: judged, acceptance: [it looks good]}]");
    place.write(
        "ask.py",
        "import socket, json, sys
s = socket.socket(socket.AF_UNIX)
s.connect('.ledger/serve.sock')
f = s.makefile('rw')
for request in [{'act': 'judge', 'run': 'plan', 'step': 'judged', 'ruling': 'pass', 'by': 'ana', 'evidence': ''},
                {'act': 'set', 'name': 'x', 'value': 1, 'by': 'ana'}]:
    f.write(json.dumps(request) + '\\n')
    f.flush()
    print(f.readline(), end='')
",
    );
    if Command::new("python3").arg("--version").output().is_err() {
        return super::command::report_skipped("python3 is not installed");
    }
    let serving = place.serve();
    let mut python = Command::new("python3");
    python.arg("ask.py").current_dir(place.path("")).env("CODEX_THREAD_ID", "0199-7a11-aaaa");
    let out = start(&mut python).end().code(0).out;
    serving.dismiss();
    let answers: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0]["lines"][0]["rejection"], "agent_session", "{answers:?}");
    assert_eq!(answers[1]["code"], 0, "{answers:?}");
    let set = events(&place, "variable_set");
    assert_eq!(set[0]["origin"], json!({ "is": "agent", "who": "agent:codex/01997a11" }));
}

#[test]
fn record_of_an_agent_names_it() {
    for (marks, _, session) in SHELLS {
        let place = Place::planned("steps: [{id: one}, {id: two}]");
        let agent = format!("agent:{session}");
        // The name of the user in the environment is not the agent's.
        let marks = [marks, &[("LEDGER_BY", "ana")]].concat();
        let run = |line: &str| {
            let mut command = place.command(&line.split(' ').collect::<Vec<_>>());
            command.envs(marks.iter().copied());
            start(&mut command).end().code(0)
        };
        run("note hello");
        run("set flag true");
        run("plan request plan --kind scope-change --reason more");
        run("pause plan");
        place.ledger("unpause plan").code(0);
        assert_eq!(events(&place, "note")[0]["by"], agent.as_str());
        let set = events(&place, "variable_set");
        assert_eq!(set[0]["origin"], json!({ "is": "agent", "who": agent }));
        let requested = events(&place, "replan_requested");
        assert!(requested[0].to_string().contains(&agent), "{requested:?}");
        place.ledger("inspect variables").code(0).says(&[&agent]);
        place.ledger("plan withdraw plan").code(0);
        // A worker without a name is the session, so that its hooks know its claims.
        run("claim plan");
        let attempt =
            place.state().runs.values().next().unwrap().steps[0].attempt().unwrap().clone();
        assert_eq!(attempt.worker, session);
        place.write("other.yaml", "steps: [{id: one}]");
        run("plan propose other.yaml");
        let proposed = events(&place, "plan_proposed").pop().unwrap();
        let author = proposed["provenance"]["author"].as_str();
        assert_eq!(author, Some(agent.as_str()), "{proposed}");
    }
}

#[test]
fn agents_decide_only_where_the_owner_allowed_it() {
    for (marks, host, session) in SHELLS {
        let place = Place::planned("steps: [{id: one, acceptance: [it works]}]");
        let token = place.ledger("claim").code(0).token();
        place.ledger(&format!("receipt {token} --output done")).code(0);
        let allow = format!("setup {host} --agents-decide");
        as_agent(&place, marks, &allow).code(6).complains(&["agent session"]);
        as_agent(&place, marks, "accept plan one").code(6);
        place.ledger(&allow).code(0).says(&["agents may decide for a person"]);
        place.ledger(&format!("setup {host}")).code(0).says(&["agents may decide"]);
        // Not another host, and it cannot give what it has.
        let other = if host == "codex" { "gemini" } else { "codex" };
        let other_marks = SHELLS.iter().find(|(_, known, _)| *known == other).unwrap().0;
        as_agent(&place, other_marks, "accept plan one").code(6);
        as_agent(&place, marks, &format!("setup {other} --agents-decide")).code(6);
        place.ledger(&format!("setup {host} --agents-ask")).code(0);
        as_agent(&place, marks, "accept plan one").code(6);
        place.ledger(&allow).code(0);
        as_agent(&place, marks, "accept plan one").code(0);
        let judged = events(&place, "verdict_recorded").pop().unwrap().to_string();
        assert!(judged.contains(&format!("agent:{session}")), "{judged}");
        place.ledger(&format!("setup {host} --remove")).code(0);
        as_agent(&place, marks, "budget plan --attempts 9").code(6);
        assert!(!place.path(".ledger/AGENTS.json").exists());
    }
    let place = Place::new();
    place.ledger("setup codex --agents-decide").code(2).complains(&["no ledger"]);
}

/// A runner that an agent starts acts for no person, and its workers act for their steps.
#[test]
fn worker_of_a_runner_in_an_agent_session_acts_for_its_step() {
    for (marks, _, session) in SHELLS {
        let place = Place::new();
        place.write("plan.yaml", "steps: [{id: one, command: '$LEDGER note from-the-worker'}]");
        let mut run = place.command(&["run", "plan.yaml"]);
        run.env("LEDGER", PROGRAM).envs(marks.iter().copied());
        start(&mut run).end().code(0);
        let by = events(&place, "note")[0]["by"].as_str().unwrap().to_owned();
        assert!(by.starts_with("step:#1@"), "{by}");
        let proposed = events(&place, "plan_proposed").pop().unwrap().to_string();
        assert!(proposed.contains(&format!("agent:{session}")), "{proposed}");
    }
}

/// Commands in the list of another tool are approved by a person; a run of approved ones goes on.
#[test]
fn agent_session_approves_no_commands() {
    for (marks, ..) in SHELLS {
        let place = Place::new();
        place.ledger("init").code(0);
        place.write(
            "tasks.json",
            r#"[{"id": "a", "title": "Make it", "command": "touch made"}, {"id": "b", "title": "Look"}]"#,
        );
        for line in ["run tasks.json --yes --worker true", "plan propose tasks.json --yes"] {
            as_agent(&place, marks, line).code(6).complains(&["touch made", "agent session"]);
        }
        assert!(!place.path("made").exists());
        place.ledger("plan propose tasks.json --yes").code(0);
        as_agent(&place, marks, "run tasks.json --worker true").code(0);
        assert!(place.path("made").exists());
    }
}

/// An option of a runner that decides about failures is a person's.
#[test]
fn agent_session_retries_no_failed_steps() {
    for (marks, host, session) in SHELLS {
        let place = Place::new();
        place.write("plan.yaml", "steps: [{id: one, command: 'test -e fixed'}]");
        place.ledger("run plan.yaml --on-unknown fail").code(1);
        place.write("fixed", "");
        let before = place.ledger("inspect records --json").out;
        for line in ["run plan.yaml --retry-failed", "resume --retry-failed --yes"] {
            as_agent(&place, marks, line).code(6).complains(&["agent session", session]);
        }
        assert_eq!(place.ledger("inspect records --json").out, before);
        place.ledger(&format!("setup {host} --agents-decide")).code(0);
        as_agent(&place, marks, "resume --retry-failed --yes").code(0);
        let by = format!("agent:{session}");
        assert_eq!(events(&place, "reopened")[0]["by"], by.as_str());
        assert_eq!(events(&place, "run_reopened")[0]["by"], by.as_str());
    }
}

/// Another plan version can drop gates, criteria and budgets: from an agent it waits for a person.
#[test]
fn plan_version_of_an_agent_waits_for_a_person() {
    for (marks, host, _) in SHELLS {
        for line in ["run plan.yaml --replan", "plan propose plan.yaml"] {
            let place = Place::new();
            place.write("plan.yaml", "steps: [{id: one, command: 'true', gate: {question: Go?}}]");
            place.ledger("run plan.yaml").code(3);
            let active = || place.state().runs.values().next().unwrap().active;
            place.write("plan.yaml", "steps: [{id: one, command: touch made}]");
            as_agent(&place, marks, line);
            assert_eq!(active(), 1, "{line}");
            assert_eq!(place.state().runs.values().next().unwrap().versions.len(), 2, "{line}");
            assert!(!place.path("made").exists());
            place.ledger("questions").code(0).says(&["Go?"]);
            // What waits is not proposed again, and a person approves it.
            as_agent(&place, marks, "run plan.yaml --replan");
            assert_eq!(place.state().runs.values().next().unwrap().versions.len(), 2, "{line}");
            place.ledger("plan approve plan").code(0);
            assert_eq!(active(), 2, "{line}");
            place.ledger(&format!("setup {host} --agents-decide")).code(0);
            place.write("plan.yaml", "steps: [{id: one, command: touch other}]");
            as_agent(&place, marks, line).code(0);
            assert_eq!(active(), 3, "{line}");
        }
    }
}

/// A step with a command that an agent adds runs only after a person approved it, on the command line and through
/// a server.
#[test]
fn step_that_an_agent_adds_waits_for_a_person() {
    for (marks, host, _) in SHELLS {
        let place = Place::planned("steps: [{id: one}]");
        let versions = || {
            let state = place.state();
            let run = state.runs.values().next().unwrap();
            (run.active, run.versions.len())
        };
        as_agent(&place, marks, "plan add --step {\"id\":\"two\",\"command\":\"make\"}")
            .says(&["waiting for review"]);
        assert_eq!(versions(), (1, 2));
        let serving = place.serve();
        as_agent(&place, marks, "plan add --step {\"id\":\"three\",\"command\":\"make\"}")
            .says(&["waiting for review"]);
        serving.dismiss();
        assert_eq!(versions(), (1, 3));
        place.ledger("questions").code(0).says(&["two.command: make", "three.command: make"]);
        place.ledger("plan approve plan").code(0);
        assert_eq!(versions(), (3, 3));
        place
            .ledger("plan add --step {\"id\":\"four\",\"command\":\"make\"}")
            .code(0)
            .says(&["active"]);
        place.ledger(&format!("setup {host} --agents-decide")).code(0);
        as_agent(&place, marks, "plan add --step {\"id\":\"five\",\"command\":\"make\"}")
            .code(0)
            .says(&["active"]);
        assert_eq!(versions(), (5, 5));
    }
}

/// `--approve auto` lets the versions of a planner run without a person, so an agent does not choose it.
#[test]
fn agent_session_lets_no_planner_approve_itself() {
    for (marks, host, session) in SHELLS {
        let place = Place::new();
        place.write("plan.yaml", "steps: [{id: one, command: 'true'}]");
        place.ledger("init").code(0);
        let before = place.ledger("inspect records --json").out;
        let line = "run plan.yaml --planner true";
        let refused = as_agent(&place, marks, &format!("{line} --approve auto")).code(6);
        refused.complains(&["agent session", session, "only a person chooses `--approve auto`"]);
        assert_eq!(place.ledger("inspect records --json").out, before);
        as_agent(&place, marks, line).code(0);
        place.ledger(&format!("setup {host} --agents-decide")).code(0);
        as_agent(&place, marks, &format!("{line} --approve auto --run other")).code(0);
    }
}

/// An agent repeats no command line with an option that decides for a person, and is told which, and who can.
#[test]
fn agent_session_resumes_with_no_option_of_a_person() {
    for (option, line) in [
        ("--approve auto", "run plan.yaml --planner true --approve auto"),
        ("--owner human", "run plan.yaml --owner human --worker true"),
    ] {
        let (marks, host, session) = SHELLS[0];
        let place = Place::new();
        place.write("plan.yaml", "steps: [{id: one, command: 'true', gate: {question: Go?}}]");
        place.ledger(line).code(3);
        let before = place.ledger("inspect records --json").out;
        let refused = as_agent(&place, marks, "resume --yes").code(6);
        let only = format!("only a person chooses `{option}`");
        refused.complains(&[session, &only, "tell the user", "in a shell that no agent host"]);
        assert_eq!(place.ledger("inspect records --json").out, before);
        place.ledger(&format!("setup {host} --agents-decide")).code(0);
        as_agent(&place, marks, "resume").code(3);
        place.ledger("resume").code(3);
    }
}

/// A person starts no judge that an agent chose without having seen it.
#[test]
fn command_line_of_an_agent_is_shown_to_a_person() {
    // Each option, and each shell; one does not depend on the other.
    let options = ["--judge true", "--judge=true", "--planner true", "--text trust"];
    for ((marks, host, session), option) in SHELLS.into_iter().zip(options.iter().cycle()) {
        let place = Place::new();
        place.write("plan.yaml", "steps: [{id: one, command: 'true', gate: {question: Go?}}]");
        let line = format!("run plan.yaml {option}");
        as_agent(&place, marks, &line).code(3);
        let name = option.split([' ', '=']).next().unwrap();
        let shown = format!("an agent session ({session}) chose {name}");
        let shown = [shown.as_str(), "ledger run plan.yaml", option, "add --yes"];
        place.ledger("resume").code(6).complains(&shown);
        // The agent itself repeats what it chose, and the person is asked as before.
        as_agent(&place, marks, "resume").code(3);
        place.ledger("resume").code(6).complains(&shown);
        // With --yes it is the person's, also after the agent repeated it.
        place.ledger("resume --yes").code(3);
        as_agent(&place, marks, "resume").code(3);
        place.ledger("resume").code(3);
        place.ledger(&format!("setup {host} --agents-decide")).code(0);
        as_agent(&place, marks, &format!("{line} --grace 9s")).code(3);
        place.ledger("resume").code(3);
    }
    // What decides nothing is repeated at once.
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: one, command: 'true', gate: {question: Go?}}]");
    as_agent(&place, SHELLS[0].0, "run plan.yaml --grace 9s").code(3);
    place.ledger("resume").code(3);
}

/// What a judge or a check decided is no decision of a person.
#[test]
fn verdict_of_a_judge_is_no_decision_of_a_person() {
    let (marks, ..) = SHELLS[0];
    let place = Place::new();
    place.write("judge.sh", r#"echo '{"verdict": "pass", "evidence": "read it"}'"#);
    let plan = "steps: [{id: one, command: 'true', acceptance: [it works, {command: 'true'}]}]";
    place.write("plan.yaml", plan);
    in_shell(&place, marks, &["run", "plan.yaml", "--judge", "sh judge.sh"]).code(3);
    // The check waits for a judge in an environment of its own.
    let judged = events(&place, "verdict_recorded");
    let judge = |it: &Value| it["verdict"]["by"].as_str().unwrap().to_owned();
    let judges: Vec<String> = judged.iter().map(judge).collect();
    assert_eq!(judges, ["judge:judge.sh (chosen by claude-code/4f2c1d3e)"], "{judged:?}");
    // That of a person has no such mark.
    place.ledger("run plan.yaml --run other --yes --judge").code(2);
    let run = ["run", "plan.yaml", "--run", "other", "--yes", "--judge", "sh judge.sh"];
    place.ledger_with(&run).code(0);
    let judges: Vec<String> = events(&place, "verdict_recorded").iter().map(judge).collect();
    assert!(judges[1..].contains(&"judge:judge.sh".to_owned()), "{judges:?}");
    place.ledger("questions --decided").code(0).says(&["no decision by a person"]);
    let lines = place.ledger("questions --decided --json").code(0).lines();
    assert!(lines.iter().all(|line| line["type"] != "decision"), "{lines:?}");
}

/// A mark in a file that an agent imports is the agent's word.
#[test]
fn mark_that_an_agent_imports_names_it() {
    for (marks, _, session) in SHELLS {
        let place = Place::new();
        place.write(
            "tasks.json",
            r#"{"master": {"tasks": [
                {"id": 1, "title": "one", "status": "done", "dependencies": []},
                {"id": 2, "title": "two", "status": "cancelled", "dependencies": []}]}}"#,
        );
        as_agent(&place, marks, "run tasks.json --worker true").code(0);
        let agent = format!("agent:{session}");
        assert_eq!(events(&place, "skipped")[0]["by"], agent.as_str());
        let accepted = events(&place, "accepted")[0].to_string();
        assert!(accepted.contains(&format!("imported by {agent}")), "{accepted}");
    }
}

/// The refusal of an author says what the agent can do; the refusal of a decision says whose it is.
#[test]
fn refusal_in_an_agent_session_says_what_it_is_about() {
    let place = Place::planned("steps: [{id: one}]");
    let (marks, _, session) = SHELLS[0];
    let author = as_agent(&place, marks, "note hello --by ana --json").code(6);
    let author = &author.lines()[0];
    assert_eq!(author["rejection"], "agent_session");
    let message = author["message"].as_str().unwrap();
    assert!(message.contains(session) && message.contains("its records name the agent"));
    assert!(!message.contains("a person"), "{message}");
    assert_eq!(author["hint"], "leave out `--by`");
    let decision = as_agent(&place, marks, "skip plan one --reason x --by ana").code(6);
    let decision =
        decision.complains(&[session, "only a person decides this", "hint: tell the user"]);
    assert!(!decision.err.contains("--by"), "{}", decision.err);
}

/// An agent can tell its user only what it is told; the commands are the user's.
#[test]
fn agent_is_told_what_waits_for_a_person() {
    let place = waiting_place();
    let (marks, host, _) = SHELLS[0];
    let shown = |line: &str| as_agent(&place, marks, line).code(0).out;
    let status = shown("status --run plan");
    for part in ["waits for a person", "it looks good", "Publish now?", "called", "once", "broken"]
    {
        assert!(status.contains(part), "{part} in {status}");
    }
    assert_eq!(commands_of_persons(&status), Vec::<String>::new());
    let other = shown("status --run other");
    assert!(other.contains("waits for a person") && other.contains("version 1"), "{other}");
    // Where it may decide, it is shown everything that a person is.
    place.ledger(&format!("setup {host} --agents-decide")).code(0);
    let of_person = commands_of_persons(&place.ledger("status --run plan").code(0).out);
    assert!(!of_person.is_empty());
    assert_eq!(commands_of_persons(&shown("status --run plan")), of_person);
    let line = format!("status --run plan --ledger {}", place.path(".ledger").display());
    assert!(!commands_of_persons(&shown(&line)).is_empty());
}

/// The names of steps and of agents are given by the ledger: no person takes one.
#[test]
fn reserved_name_is_refused_as_an_author() {
    let place = Place::planned("steps: [{id: judged, acceptance: [it looks good]}]");
    let before = place.ledger("inspect records --json").out;
    place.write(
        "ask.py",
        "import socket, json, sys
s = socket.socket(socket.AF_UNIX)
s.connect('.ledger/serve.sock')
f = s.makefile('rw')
f.write(json.dumps({'act': 'note', 'text': 'x', 'by': sys.argv[1]}) + '\\n')
f.flush()
print(f.readline(), end='')
",
    );
    let has_python = Command::new("python3").arg("--version").output().is_ok();
    let serving = place.serve();
    for name in ["step:#1@7", "agent:claude-code/4f2c1d3e", "agent:"] {
        for line in ["note hello", "cap --run plan 9", "pause plan"] {
            let refused = place.ledger(&format!("{line} --by {name}")).code(2);
            refused.complains(&["reserved", "hint"]);
        }
        let refused = place.ledger(&format!("claim --worker {name}")).code(2);
        refused.complains(&["reserved", "hint"]);
        if has_python {
            let mut python = Command::new("python3");
            python.args(["ask.py", name]).current_dir(place.path(""));
            let out = start(&mut python).end().code(0).out;
            assert!(out.contains("reserved"), "{out}");
        }
    }
    serving.dismiss();
    assert_eq!(place.ledger("inspect records --json").out, before);
    place.ledger("note hello --by agent").code(0);
}

/// An agent releases its own claims; those of others are a person's to release.
#[test]
fn agent_releases_no_claim_of_another_worker() {
    for (marks, host, _) in SHELLS {
        let place = Place::planned("steps: [{id: one}, {id: two}]");
        place.ledger("claim plan --step one --worker other").code(0);
        as_agent(&place, marks, "claim plan --step two").code(0);
        let refused = as_agent(&place, marks, "release --step one --run plan").code(6);
        refused.complains(&["agent session"]);
        as_agent(&place, marks, "release --step two --run plan").code(0);
        let serving = place.serve();
        as_agent(&place, marks, "release --step one --run plan").code(6);
        serving.dismiss();
        place.ledger(&format!("setup {host} --agents-decide")).code(0);
        as_agent(&place, marks, "release --step one --run plan").code(0);
    }
}

/// What is decided through a server is a person's, also if an agent started the server.
#[test]
fn server_that_an_agent_started_serves_persons() {
    let place = Place::planned("steps: [{id: one, acceptance: [it works]}]");
    let token = place.ledger("claim").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    let mut serve = place.command(&["serve"]);
    serve.env("GEMINI_CLI", "1");
    let serving = start(&mut serve);
    super::command::wait_until("it serves", || serving.said("serving"));
    place.ledger("accept plan one --by ana").code(0);
    let judged = events(&place, "verdict_recorded").pop().unwrap().to_string();
    assert!(judged.contains("\"ana\""), "{judged}");
    serving.dismiss();
}

/// A ledger in which everything waits for a person.
pub(crate) fn waiting_place() -> Place {
    let place = Place::planned(WAITING);
    let claim = |words: &str| place.ledger(&format!("claim plan --step {words}")).code(0).token();
    claim("once --lease 1s");
    place.ledger(&format!("receipt {} --output done", claim("judged"))).code(0);
    let token = claim("broken");
    place.ledger(&format!("receipt {token} --failed deterministic --message no")).code(0);
    super::command::wait_until("the outcome is unknown", || {
        place.ledger("tick");
        place.ledger("questions").out.contains("is unknown")
    });
    place.write("other.yaml", "steps: [{id: one}]");
    place.ledger("plan propose other.yaml --approval required").code(0);
    place
}

#[test]
fn texts_for_agents_have_no_command_of_a_person() {
    let place = waiting_place();
    let of_person = place.ledger("questions").code(0).out;
    for verb in ["accept", "answer", "plan approve", "skip"] {
        let found = commands_of_persons(&of_person);
        assert!(found.iter().any(|line| line.contains(verb)), "{verb} in {of_person}");
    }
    let mut texts = vec![
        place.ledger("prime plan").code(0).out,
        place.ledger("prime other").code(0).out,
        place.ledger("prime plan --json").code(0).out,
    ];
    for part in ["it looks good", "Publish now?", "a person"] {
        assert!(texts[0].contains(part), "{part} in {}", texts[0]);
    }
    for (host, event) in [
        ("claude-code", "SessionStart"),
        ("claude-code", "UserPromptSubmit"),
        ("claude-code", "PostToolUse"),
        ("claude-code", "Stop"),
        ("claude-code", "TaskCompleted"),
        ("gemini", "AfterAgent"),
        ("opencode", "session.created"),
    ] {
        let input = json!({
            "session_id": "4f2c1d3e", "cwd": place.path(""), "task_subject": "judged: look",
        });
        let path = place.write("input", input.to_string());
        let mut hook = place.command(&["hook", host, event]);
        hook.env("XDG_STATE_HOME", place.path("state")).env_remove("CLAUDE_ENV_FILE");
        hook.stdin(std::fs::File::open(path).unwrap());
        let ended = start(&mut hook).end();
        texts.extend([ended.out, ended.err]);
    }
    for (marks, ..) in SHELLS {
        for line in [
            "status --run plan",
            "questions",
            "next plan",
            "next plan --json",
            "questions --decided --run plan",
            "status --view operator --run plan",
            "inspect why judged --run plan",
            "inspect why gated --run plan",
            "inspect why broken --run plan",
            "inspect why once --run plan",
            "inspect why called --run plan",
            "inspect step plan judged",
            "claim plan --worker w",
            "plan review other",
            "prime",
        ] {
            let ended = as_agent(&place, marks, line);
            assert!(matches!(ended.status.code(), Some(0 | 3)), "{line}: {ended:?}");
            texts.extend([ended.out, ended.err]);
        }
    }
    for text in texts {
        assert_eq!(commands_of_persons(&text), Vec::<String>::new(), "{text}");
    }
}

/// Regression: an agent whose run had spent its budget forked it, and the fork had the whole budget again.
#[test]
fn agent_forks_no_run_with_a_budget() {
    for (budget, code) in [("budget: {attempts: 1}\n", 6), ("", 0)] {
        let steps = "steps: [{id: a, command: 'true'}, {id: b, command: 'true'}]";
        let place = Place::planned(&format!("{budget}{steps}"));
        place.ledger("run plan.yaml");
        let fork = |name: &str| format!("fork plan --step a --name {name}");
        for (number, (marks, ..)) in SHELLS.into_iter().enumerate() {
            let forked = as_agent(&place, marks, &fork(&format!("of-agent-{number}"))).code(code);
            assert_eq!(forked.err.contains("only a person gives"), code == 6, "{}", forked.err);
        }
        let serving = place.serve();
        as_agent(&place, SHELLS[0].0, &fork("served")).code(code);
        serving.dismiss();
        place.ledger(&fork("of-person")).code(0);
    }
}
