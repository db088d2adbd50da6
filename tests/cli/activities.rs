//! Goal: all interfaces give the same answer to how a run stands, what waits and what comes next: `status`, `next`,
//! `questions`, `inspect`, the prime, the hook of an agent host, MCP, HTTP and the page; with and without a runner, with
//! damage, and with several runs.

use std::fs::{self, File};

use plan_ledger::{Environment, Ledger};
use serde_json::{Value, json};

use crate::advice::{archived, flip_head, flip_header, flip_record, remove_head};
use crate::command::{Place, Running, start, wait_until};
use crate::http::{Address, stop};
use crate::mcp::Client;
use crate::printed_commands::commands;
use crate::random_commands::play;

/// What one interface says about a run, without the folder of the ledger and without distances in time.
#[derive(Debug, Clone, PartialEq)]
struct Answer {
    /// How the run stands.
    activity: Value,
    /// What comes next: the kind, the sentence and the commands.
    next: Vec<[String; 3]>,
}

/// The servers of a place.
struct Servers {
    server: Running,
    http: Address,
    agent: Client,
}

impl Servers {
    fn of(place: &Place) -> Self {
        let server = start(&mut place.command(&["serve", "--http"]));
        let http = Address::of(place);
        Self { server, http, agent: Client::of_session(place, &["--role", "viewer"]) }
    }

    fn end(self) {
        stop(self.server).code(0);
    }
}

/// A text without distances from now, such as `(in 5s)`, and without the folder of the ledger.
fn lasting(place: &Place, text: &str) -> String {
    let folder = place.path(".ledger").canonicalize().unwrap();
    let mut text = text.replace(&format!(" --ledger {}", folder.display()), "");
    while let Some((from, end)) = text.match_indices(" (").find_map(|(from, _)| {
        let end = from + text[from..].find(')')?;
        let inside = &text[from + 2..end];
        (inside.starts_with("in ") || inside.ends_with(" ago")).then_some((from, end))
    }) {
        text.replace_range(from..=end, "");
    }
    text
}

fn answer(place: &Place, activity: &Value, next: &Value, text: &str) -> Answer {
    let activity = serde_json::from_str(&lasting(place, &activity.to_string())).unwrap();
    let word = |value: &Value| lasting(place, value.as_str().unwrap_or_default());
    let commands = |value: &Value| {
        let lines = value.as_array().unwrap().iter().map(&word);
        lines.collect::<Vec<_>>().join("\n")
    };
    let next = next.as_array().unwrap().iter();
    let next = next
        .map(|item| [word(&item["action"]), word(&item[text]), commands(&item["commands"])])
        .collect();
    Answer { activity, next }
}

fn lines_of(place: &Place, line: &[&str], kind: &str) -> Vec<Value> {
    let lines = place.ledger_with(line).lines();
    lines.into_iter().filter(|line| line["type"] == kind).collect()
}

/// A text as it stands in a page.
fn in_page(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What the hook of an agent host tells a session that starts.
fn told_by_hook(place: &Place) -> String {
    let input = json!({ "session_id": "4f2c1d3e-aaaa-bbbb", "cwd": place.path("") });
    let input = place.write("hook-input", input.to_string());
    let mut command = place.command(&["hook", "claude-code", "SessionStart"]);
    command.env_remove("CLAUDE_ENV_FILE").stdin(File::open(input).unwrap());
    let told: Value = serde_json::from_str(&start(&mut command).end().code(0).out).unwrap();
    told["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
}

/// Asks every interface about a run, and expects one answer.
#[track_caller]
fn one_answer(place: &Place, run: &str, servers: Option<&mut Servers>) -> Answer {
    let status = lines_of(place, &["status", "--run", run, "--json"], "user_view").remove(0);
    let said = answer(place, &status["activity"], &status["actions"], "text");
    let text = said.activity["text"].as_str().unwrap();

    let heading = format!("status of run {run} (");
    let shown = place.ledger_with(&["status", "--run", run]).out;
    let first = shown.lines().find(|line| line.starts_with(&heading)).unwrap_or_default();
    assert!(first.ends_with(&format!("): {text}")), "{first:?} is not {text:?}");

    let next = Value::from(lines_of(place, &["next", run, "--json"], "next"));
    let found = answer(place, &status["activity"], &next, "text");
    assert_eq!(found, said, "next about {run}");

    let runs = lines_of(place, &["inspect", ".ledger", "--json"], "run");
    let line = runs.iter().find(|line| line["name"] == run).unwrap();
    assert_eq!(answer(place, &line["activity"], &line["next"], "text"), said, "inspect of {run}");

    // What waits for people is not limited in `questions` and `status`, and the same.
    let questions = lines_of(place, &["questions", run, "--json"], "next");
    let texts = |items: &[Value], member: &str| -> Vec<String> {
        items.iter().map(|item| lasting(place, item[member].as_str().unwrap())).collect()
    };
    let needs = texts(status["needs"].as_array().unwrap(), "text");
    assert_eq!(texts(&questions, "text"), needs, "questions of {run}");
    assert_eq!(said.activity["for_people"], needs.len(), "{said:?}");

    let prime = lines_of(place, &["prime", run, "--json"], "prime").remove(0);
    assert_eq!(answer(place, &prime["activity"], &json!([]), "text").activity, said.activity);
    let waiting = texts(prime["waiting"].as_array().unwrap(), "text");
    let own = waiting.iter().filter(|text| !text.contains(" is reported, and "));
    let shown: Vec<_> = needs.iter().take(5).collect();
    assert_eq!(own.collect::<Vec<_>>(), shown, "prime of {run}");

    place.ledger_with(&["report", run, "--html", "page.html"]);
    let page = place.read("page.html");
    fs::remove_file(place.path("page.html")).unwrap();
    assert!(lasting(place, &page).contains(&in_page(text)), "the page of {run} lacks {text:?}");

    let head = lasting(place, place.ledger_with(&["prime", run]).out.lines().next().unwrap());
    if let Some(servers) = servers {
        let Servers { http, agent, .. } = servers;
        let told = agent.call("ledger_status", &json!({ "run": run }));
        let told = lasting(place, told["status"].as_str().unwrap());
        assert!(told.starts_with(&head), "{told} is not {head:?}");
        let name = run.replace(' ', "%20");
        let lines = http.lines("viewer", &format!("GET /v1/runs/{name}"), &[], &Value::Null);
        let view = lines.iter().find(|line| line["type"] == "user_view").unwrap();
        assert_eq!(answer(place, &view["activity"], &view["actions"], "text"), said, "HTTP");
        let live = http.body("viewer", &format!("/v1/page?run={name}"));
        assert!(
            lasting(place, &live).contains(&in_page(text)),
            "the live page of {run} lacks {text:?}"
        );
    }
    if runs.len() == 1 {
        let told = lasting(place, &told_by_hook(place));
        assert!(told.starts_with(&head), "{told} is not {head:?}");
    }
    said
}

/// The answer while no record comes in between.
#[track_caller]
fn agreed(place: &Place, run: &str, mut servers: Option<&mut Servers>) -> Answer {
    loop {
        let before = place.state().seq;
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            one_answer(place, run, servers.as_deref_mut())
        }));
        match asked {
            Ok(answer) => return answer,
            Err(_) if place.state().seq != before => {}
            Err(problem) => std::panic::resume_unwind(problem),
        }
    }
}

#[test]
fn interfaces_agree_about_random_runs() {
    for seed in 0..4 {
        let place = Place::new();
        let ledger = Ledger::create(&place.path(".ledger"), &Environment::system()).unwrap();
        play(&ledger, seed, 40 + 20 * seed);
        ledger.close().unwrap();
        let names: Vec<String> = place.state().runs.values().map(|run| run.name.clone()).collect();
        let mut servers = Servers::of(&place);
        // `inspect` shows some runs in full.
        for name in names.iter().rev().take(4) {
            agreed(&place, name, Some(&mut servers));
        }
        servers.end();
    }
}

/// Story: the page and HTTP said that a run was running, whose runner was gone.
#[test]
fn interfaces_agree_about_a_runner_that_is_gone() {
    let place = Place::new();
    place.write("hold", "");
    let command = "while [ -e hold ]; do sleep 0.01; done";
    let steps =
        format!("steps: [{{id: a, command: '{command}'}}, {{id: b, after: [a], command: 'true'}}]");
    place.write("plan.yaml", steps);
    let runner = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the step is at work", || place.ledger("status").out.contains("working on: #1 a"));
    let working = agreed(&place, "plan", None);
    assert_eq!(working.activity["is"], "working");
    assert!(runner.kill().was_killed());
    let mut servers = Servers::of(&place);
    let gone = agreed(&place, "plan", Some(&mut servers));
    assert_eq!(gone.activity["is"], "stopped");
    assert_eq!(gone.activity["start"], "ledger resume");
    assert_eq!(gone.activity["absence"], "no runner is at work");
    assert_eq!(gone.next[0][2], "ledger resume");
    // The answer changes without a record, so it has no tag.
    let tag = |path: &str| servers.http.tag_of(path);
    assert_eq!(tag("/v1/runs/plan"), "");
    assert_ne!(tag("/v1/runs/plan/state"), "");
    assert_ne!(tag("/v1/runs/plan?at=3"), "");
    servers.end();
    fs::remove_file(place.path("hold")).unwrap();
}

/// Story: a person answered on the page; the run stayed as it was, and nothing said that its runner was gone.
#[test]
fn runs_that_wait_for_people_say_that_no_runner_is_at_work() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'true', gate: {question: now?}}]");
    place.ledger("run plan.yaml").code(3);
    let mut servers = Servers::of(&place);
    let Answer { activity, next } = agreed(&place, "plan", Some(&mut servers));
    assert_eq!(
        (&activity["is"], &activity["for_people"]),
        (&"waiting_for_people".into(), &1.into())
    );
    assert_eq!(activity["start"], "ledger resume");
    assert_eq!(next[1][2], "ledger resume");
    place.ledger("status").code(0).says(&["waiting for a person; no runner is at work"]);
    servers.end();
}

#[test]
fn interfaces_agree_about_two_runs() {
    let place = Place::planned("steps: [{id: a}, {id: b, acceptance: [it is good]}]\n");
    place.write("other.yaml", "steps: [{id: c, gate: {question: now?}}]");
    place.ledger("plan propose other.yaml").code(0);
    let token = place.ledger("claim plan --worker w --step b").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    let mut servers = Servers::of(&place);
    let (plan, other) =
        (agreed(&place, "plan", Some(&mut servers)), agreed(&place, "other", Some(&mut servers)));
    assert_eq!((&plan.activity["is"], &plan.activity["for_people"]), (&"ready".into(), &1.into()));
    assert_eq!(other.activity["is"], "waiting_for_people");
    servers.end();
}

/// Nothing is concluded from records that cannot be read, by no interface, with and without a server.
#[test]
fn damage_makes_the_activity_of_a_run_unknown() {
    for damage in [flip_record, flip_head, remove_head] {
        for is_served in [false, true] {
            let place = Place::planned("steps: [{id: a}, {id: b}]\n");
            let token = place.ledger("claim --worker w --step a").code(0).token();
            place.ledger(&format!("receipt {token} --output done")).code(0);
            let mut servers = is_served.then(|| Servers::of(&place));
            damage(&place.path(".ledger"));
            let Answer { activity, next } = one_answer(&place, "plan", servers.as_mut());
            assert_eq!((&activity["is"], &activity["for_people"]), (&"unknown".into(), &0.into()));
            assert_eq!(next.len(), 1);
            assert_eq!((next[0][0].as_str(), next[0][2].as_str()), ("verify", "ledger verify"));
            let prime = place.ledger("prime").code(0);
            let prime = prime.says(&["unknown: not all of the ledger can be read", "Damage: "]).out;
            assert!(!prime.contains("Next:") && !prime.contains("steps are done"), "{prime}");
            if let Some(servers) = servers {
                servers.server.kill();
            }
        }
    }
}

/// Story: the header of the only segment was damaged, and every view said that no run had been started, and how to start
/// one.
#[test]
fn run_that_cannot_be_read_was_not_never_started() {
    let place = Place::planned("steps: [{id: a}, {id: b}]\n");
    flip_header(&place.path(".ledger"));
    let mut agent = Client::of_session(&place, &["--role", "viewer"]);
    let told = agent.call("ledger_status", &json!({}))["status"].as_str().unwrap().to_owned();
    let mut texts = vec![told_by_hook(&place), told];
    for line in [
        "status",
        "next",
        "questions",
        "inspect",
        "inspect runs",
        "inspect plan",
        "inspect why a",
        "budget",
        "plan review",
        "resume",
        "resume plan",
        "get x",
    ] {
        let ended = place.ledger(line).code(4);
        texts.push(format!("{line}: {}\n{}", ended.out, ended.err));
    }
    texts.push(place.ledger("prime").code(0).out);
    for text in texts {
        assert!(text.contains("damage") || text.contains("can be read"), "{text}");
        for untrue in ["no run has been started", "no run yet", "ledger run", "ledger init"] {
            assert!(!text.contains(untrue), "{untrue:?} in {text}");
        }
    }
}

/// An archive is only read: what waited when it was made is told, and nothing is offered.
#[test]
fn archive_offers_no_command() {
    let place = archived().place;
    let ledger = |line: &str| place.ledger(&format!("{line} --ledger old.tar"));
    for line in ["status", "next", "questions", "inspect", "prime", "inspect why a"] {
        let ended = ledger(line);
        let told = format!("{}\n{}", ended.out, ended.err);
        // The heading of the contents is no command.
        let offered: Vec<String> =
            commands(&told).into_iter().filter(|it| it != "ledger old.tar").collect();
        assert_eq!(offered, Vec::<String>::new(), "{line}");
    }
    let next = ledger("next --json").lines().remove(0);
    assert_eq!((&next["action"], &next["commands"]), (&"none".into(), &json!([])));
    let status = ledger("status --json").lines();
    let view = status.iter().find(|line| line["type"] == "user_view").unwrap();
    assert_eq!(
        (&view["activity"]["is"], &view["activity"]["start"]),
        (&"failed".into(), &Value::Null)
    );
}
