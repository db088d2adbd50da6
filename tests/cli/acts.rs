//! One command for every request: the same answers alone and through a server.

use std::fs;

use serde_json::{Value, json};

use plan_ledger::{RunStatus, StepStatus};

use super::command::{Ended, Place, Running, ids, listed_commands, start, wait_until};

const PLAN: &str = "steps:
  - {id: a, goal: find the number, outputs: [number]}
  - {id: b, goal: use the number, after: [a], inputs: [number], acceptance: ['it is right']}
  - {id: c, goal: tell everybody, after: [b], idempotent: 'no'}
";

/// What may differ between two runs of the same story: times, and numbers of records.
fn masked(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if out.ends_with('0') => {}
            '0'..='9' => out.push('0'),
            c => out.push(c),
        }
    }
    out
}

/// The member of the only line that has it.
#[track_caller]
fn member(lines: &[Value], name: &str) -> u64 {
    lines.iter().rev().find_map(|line| line[name].as_u64()).unwrap()
}

/// The newest token in these lines.
fn token_in(lines: &[Value]) -> String {
    lines.iter().rev().find_map(|line| line["token"].as_str()).unwrap().to_owned()
}

fn number_of(token: &str) -> u64 {
    token.split('-').next().unwrap().parse().unwrap()
}

/// One command, as it was told: what it printed, and that it came to that code.
fn tell(place: &Place, form: &str, line: &str, code: i32) -> String {
    let ended = place.ledger(&format!("{line} {form}")).code(code);
    let told = fs::read_to_string(place.path("told")).unwrap_or_default();
    place.write("told", format!("{told}{}", ended.out));
    if !form.is_empty() && !ended.out.is_empty() {
        ended.lines();
    }
    let text = format!("$ {line}\n{}{}", ended.out, ended.err);
    // The trace of a run is that of its ledger.
    let traces = regex::Regex::new("00-[0-9a-f]{32}-[0-9a-f]{16}-01").unwrap();
    let text = traces.replace_all(&text, "TRACE");
    let secrets = regex::Regex::new("-[0-9a-f]{32}").unwrap();
    masked(&secrets.replace_all(&text, "-SECRET"))
}

/// The token of the newest attempt in flight, which a command has printed.
fn token(place: &Place) -> String {
    let number = place.state().in_flight.keys().last().unwrap().0;
    let told = place.read("told");
    let token = regex::Regex::new(&format!(r"\b{number}-[0-9a-f]{{32}}\b")).unwrap();
    token.find(&told).unwrap().as_str().to_owned()
}

/// The story of a run, told by every command that acts. What each of them printed and came to.
fn story(place: &Place, form: &str) -> Vec<String> {
    let mut told = Vec::new();
    let mut tell = |line: &str, code| told.push(tell(place, form, line, code));
    tell("next", 0);
    tell("claim plan --worker w1", 0);
    let first = token(place);
    tell("claim --step a --worker w2", 6);
    tell("claim --step nowhere", 2);
    tell("claim --worker process/1", 2);
    tell("claim --worker w2", 3);
    tell(&format!("renew {first}"), 0);
    tell(&format!("renew 1-{}", "9f".repeat(16)), 6);
    tell(&format!("effect mail:1 --token {first} --what mail"), 0);
    tell(&format!("effect mail:1 --token {first}"), 6);
    tell(&format!("effect mail:1 --token {first} --done"), 0);
    tell(&format!("effect mail:2 --token {first} --done"), 6);
    tell("set colour blue --run plan", 0);
    tell("set colour red --if-version 0", 6);
    tell("set colour red --if-version 1", 0);
    tell("get colour", 0);
    tell("get nothing", 2);
    tell("skip plan a --reason no", 6);
    tell("plan add extra --goal more --after c --reason found", 0);
    tell("inspect plan", 0);
    tell(&format!("receipt {first} --output {{\"number\":7}} --tokens 5 --next"), 0);
    tell(&format!("receipt {first} --output 8"), 6);
    let second = token(place);
    tell(&format!("receipt {second} --failed transient --message oops"), 0);
    tell("claim --worker w1", 0);
    tell(&format!("receipt {} --output done --next", token(place)), 3);
    tell("reject plan nowhere --by ana", 2);
    tell("accept plan b --by ana --evidence seen", 0);
    tell("accept plan b --by ana", 6);
    second_part(place, form, &mut told);
    told
}

/// How it goes on: pauses, limits, unknown outcomes, failures, forks.
fn second_part(place: &Place, form: &str, told: &mut Vec<String>) {
    let mut tell = |line: &str, code| told.push(tell(place, form, line, code));
    tell("pause plan --by ana --reason lunch", 0);
    tell("claim", 3);
    tell("unpause plan --by ana", 0);
    tell("unpause plan --by ana", 6);
    tell("budget plan --tokens 100 --by ana", 0);
    tell("budget raise plan --tokens 50 --by ana", 0);
    tell("budget raise plan --attempts 5 --by ana", 6);
    tell("cap --run plan 1", 0);
    tell("claim --step c", 0);
    tell(&format!("release {} --begun --reason unplugged", token(place)), 0);
    tell("answer plan c did-not-happen --by ana --note looked", 0);
    tell("answer plan c yes --by ana", 6);
    tell("answer 99999 yes --by ana", 6);
    tell("claim --step c", 0);
    tell(&format!("receipt {} --failed deterministic", token(place)), 0);
    tell("decide plan c retry", 6);
    tell("decide plan c perhaps", 2);
    tell("plan withdraw plan --by ana", 6);
    tell("plan approve plan --by ana", 6);
    tell("tick", 0);
    tell("note hello --by ana --run plan --step b", 0);
    tell("note hello", 0);
    tell("note hello --step nowhere", 2);
    tell("snapshot .ledger", 0);
    tell("fork plan --at 6 --name other", 0);
    tell("fork plan --at 6 --name other", 6);
    tell("claim", 0);
    tell("cancel other --by ana --reason enough", 0);
    tell("cancel other --by ana", 6);
    tell("claim other", 1);
    tell("next other", 1);
}

/// Whichever process carries a request out, the answer is the same to the letter, for people and for
/// programs; and what programs get is what is published.
#[test]
fn acts_are_answered_alike_with_and_without_a_holder() {
    for form in ["", "--json"] {
        let (alone, beside) = (Place::planned(PLAN), Place::planned(PLAN));
        let told_alone = story(&alone, form);
        let holder = beside.serve();
        let told_beside = story(&beside, form);
        holder.dismiss();
        for (one, other) in told_alone.iter().zip(&told_beside) {
            // Paths of snapshots have a hash in their names.
            if !one.starts_with("$ snapshot") {
                assert_eq!(one, other);
            }
        }
        assert_eq!(told_alone.len(), told_beside.len());
        alone.ledger("verify .ledger --level replay").code(0);
        beside.ledger("verify .ledger --level replay").code(0);
    }
}

/// Goal: a claim is what a worker of `ledger run` gets, and what the claimer needs besides.
#[test]
fn a_claim_is_a_hand_off() {
    let place = Place::planned(PLAN);
    let lines = place.ledger("claim --worker me --json").code(0).lines();
    let task = &lines[0];
    assert_eq!((task["run"].as_str(), task["step"]["id"].as_str()), (Some("plan"), Some("a")));
    assert_eq!((task["worker"].as_str(), task["attempt"].as_u64()), (Some("me"), Some(1)));
    assert_eq!(task["idempotency_key"], "plan/a/1");
    let until = task["lease_until_micros"].as_u64().unwrap();
    let token = task["token"].as_str().unwrap();
    let renewed = place.ledger(&format!("renew {token} --json")).code(0).lines();
    assert!(renewed[0]["lease_until_micros"].as_u64().unwrap() > until);
    place.ledger("claim --step a --worker you").code(6).complains(&["claimed by me until 20"]);
    let refused = place.ledger("claim --step a --worker you --json").code(6).lines();
    assert_eq!(
        (refused[0]["rejection"].as_str(), refused[0]["worker"].as_str()),
        (Some("held_by"), Some("me"))
    );
    assert_eq!(refused[0]["lease_until_micros"], renewed[0]["lease_until_micros"]);
}

/// Goal: `--next` is one commit: the receipt, all that follows from it, and the next claim.
#[test]
fn a_receipt_and_the_next_claim_are_one_commit() {
    let place =
        Place::planned("steps: [{id: a, outputs: [x]}, {id: b, after: [a]}, {id: c, after: [b]}]");
    let token = token_in(&place.ledger("claim --json").lines());
    let lines = place
        .ledger(&format!("receipt {token} --output {{\"x\":1}} --next --json"))
        .code(0)
        .lines();
    assert_eq!(
        (lines[0]["type"].as_str(), lines[1]["type"].as_str()),
        (Some("receipt"), Some("task"))
    );
    let records = place
        .ledger(&format!("inspect .ledger records --from {} --json", number_of(&token) + 1))
        .lines();
    let records: Vec<_> = records.iter().filter(|line| line["type"] == "record").collect();
    let kinds: Vec<_> = records
        .iter()
        .map(|line| line["kind_name"].as_str().or(line["kind"].as_str()).unwrap())
        .collect();
    assert_eq!(kinds, ["receipt_recorded", "accepted", "variable_set", "dispatched"]);
    let times: Vec<_> = records.iter().map(|line| line["time"].clone()).collect();
    assert!(times.iter().all(|time| *time == times[0]), "{records:?}");
    // The last one says that there is no more work, and is recorded.
    let token = token_in(&lines);
    let token = token_in(&place.ledger(&format!("receipt {token} --next --json")).code(0).lines());
    let lines = place.ledger(&format!("receipt {token} --next --json")).code(1).lines();
    assert_eq!(
        (lines[1]["type"].as_str(), lines[1]["status"].as_str()),
        (Some("nothing"), Some("done"))
    );
    let state = place.state();
    assert!(matches!(state.runs.values().next().unwrap().status, RunStatus::Ended(_)));
}

/// Goal: a claim that waits gets the step as soon as it is there, and gives up when it should.
#[test]
fn a_claim_waits_for_a_step() {
    for is_served in [true, false] {
        let place = Place::planned("steps: [{id: a}, {id: b, after: [a]}]");
        let token = token_in(&place.ledger("claim --worker ana --json").lines());
        let holder = is_served.then(|| place.serve());
        let held = "step 1 (a) is claimed by ana until";
        place.ledger("claim --wait 0.2").code(3).complains(&["nothing to dispatch", held]);
        let lines = place.ledger("claim --json").code(3).lines();
        let held = &lines[0]["held"];
        assert_eq!((&held[0]["step"], &held[0]["worker"]), (&json!("a"), &json!("ana")));
        assert_eq!(held.as_array().unwrap().len(), 1);
        let waiting = start(&mut place.command(&["claim", "--wait", "--json"]));
        place.ledger(&format!("receipt {token}")).code(0);
        assert_eq!(waiting.end().code(0).lines()[0]["step"]["id"], "b");
        holder.into_iter().for_each(Running::dismiss);
    }
}

const AGENT: &str = r#"#!/bin/sh
read task
echo "$LEDGER_STEP $LEDGER_ATTEMPT" >> $TALLY
case $LEDGER_STEP in
  flaky) test $LEDGER_ATTEMPT = 2 || exit 75;;
  told) echo '{"outcome":"succeeded","output":{"x":1},"variables":{"y":2}}' > $LEDGER_RECEIPT;;
esac
echo "$task" | grep -c "\"token\":\"$LEDGER_TOKEN\""
"#;

/// Without a runner, three workers come by and do what there is, each with one command.
#[test]
fn workers_do_a_plan_among_themselves() {
    let steps = ["plain", "flaky", "told"].map(|id| format!("  - {{id: {id}}}\n"));
    let own = "  - {id: own, command: 'echo own >> $TALLY', after: [plain, flaky, told]}\n";
    for is_served in [false, true] {
        let place = Place::planned(&format!("steps:\n{}{own}", steps.concat()));
        let agent = place.write("agent.sh", AGENT);
        let holder = is_served.then(|| place.serve());
        let work = |name: &str| {
            let words =
                ["work", "--worker", name, "--wait", "--json", "--", "sh", agent.to_str().unwrap()];
            start(&mut place.command(&words))
        };
        let workers: Vec<_> = ["w1", "w2", "w3"].map(work).into_iter().collect();
        let ended: Vec<Ended> = workers.into_iter().map(|worker| worker.end().code(0)).collect();
        let done: u64 = ended.iter().map(|ended| member(&ended.lines(), "steps")).sum();
        assert_eq!(done, 5, "{ended:#?}");
        holder.into_iter().for_each(Running::dismiss);
        let mut tally = place.tally();
        tally.sort();
        assert_eq!(tally, ["flaky 1", "flaky 2", "own", "plain 1", "told 1"]);
        let state = place.state();
        let run = state.runs.values().next().unwrap();
        assert_eq!(ids(run, StepStatus::Accepted).len(), 4);
        assert_eq!(run.variables["y"].value.as_str(), "2");
    }
}

/// Goal: a worker that is told to end finishes its step, or, told twice, is ended and says so.
#[test]
fn a_worker_that_is_told_to_end_leaves_nothing_open() {
    for insists in [false, true] {
        let place = Place::planned("steps: [{id: a}, {id: b}]");
        let script = "echo $LEDGER_STEP >> $TALLY; sleep 1";
        let script = if insists { "echo x >> $TALLY; sleep 600" } else { script };
        let mut worker = start(&mut place.command(&["work", "--", "sh", "-c", script]));
        wait_until("it works", || !place.tally().is_empty());
        worker.signal("INT");
        // Two that it finds at once are one to it.
        wait_until("it ends", || {
            std::thread::sleep(std::time::Duration::from_millis(250));
            if insists && !worker.is_over() {
                worker.signal("INT");
            }
            !insists || worker.is_over()
        });
        // As of an interrupted `ledger run`: there is work left.
        worker.end().code(3);
        let state = place.state();
        let run = state.runs.values().next().unwrap();
        assert_eq!(run.in_flight, 0);
        assert_eq!(ids(run, StepStatus::Accepted).len(), usize::from(!insists));
        assert_eq!(place.tally().len(), 1);
    }
}

/// Goal: `LEDGER_DIR` names the ledger wherever `--ledger` does, and a worker's own token is known.
#[test]
fn the_environment_names_the_ledger_and_the_token() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, command: '$LEDGER renew && $LEDGER set seen $LEDGER_TOKEN && $LEDGER effect k'}]",
    );
    let mut run = place.command(&["run", "plan.yaml", "--ledger", "elsewhere.ledger"]);
    run.env("LEDGER", env!("CARGO_BIN_EXE_ledger"));
    start(&mut run).end().code(0);
    let mut get = place.command(&["get", "seen"]);
    get.env("LEDGER_DIR", place.path("elsewhere.ledger"));
    let seen = start(&mut get).end().code(0).out;
    let state = super::command::state_of(&place.path("elsewhere.ledger"));
    let run = state.runs.values().next().unwrap();
    assert_eq!(number_of(seen.trim().trim_matches('"')), run.dispatched.first().unwrap().0);
    assert!(run.effects.contains_key("k"));
}

/// Goal: versions that wait for a yes are proposed, judged and listed by the same acts.
#[test]
fn a_version_waits_for_its_yes() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    place.ledger("plan propose plan.yaml").code(2).complains(&[".ledger"]);
    place.ledger("init --json").code(0).lines();
    place.ledger("init").code(0).says(&["already a ledger"]);
    place.ledger("plan propose nowhere.yaml").code(2);
    place
        .ledger("plan propose plan.yaml --approval required")
        .code(0)
        .says(&["waiting for review"]);
    place.ledger("claim").code(3);
    place.ledger("plan approve plan --by ana --shown 00000000").code(6);
    let lines = place.ledger("plan approve plan --by ana --json").code(0).lines();
    assert_eq!(
        (lines[0]["review"].as_str(), lines[0]["version"].as_u64()),
        (Some("approved"), Some(1))
    );
    place.ledger("plan propose plan.yaml").code(6);
    place.write("plan.yaml", format!("{PLAN}  - {{id: d}}\n"));
    let lines = place.ledger("plan propose plan.yaml --json").code(0).lines();
    assert_eq!(
        (lines[0]["version"].as_u64(), lines[0]["active"].as_bool()),
        (Some(2), Some(false))
    );
    let lines = place.ledger("plan reject plan --by ana --json").code(0).lines();
    assert_eq!(lines[0]["review"], "rejected");
    let line = place.ledger("inspect plan --json").code(0).lines().remove(0);
    let versions = line["versions"].as_array().unwrap();
    let reviews: Vec<_> = versions.iter().map(|it| it["review"].as_str().unwrap()).collect();
    assert_eq!((line["active"].as_u64(), &reviews[..]), (Some(1), &["approved", "rejected"][..]));
    place.ledger("plan add a --goal again").code(2).complains(&["the id is taken"]);
}

/// Goal: what cannot be meant is refused before anything is written, in words and as JSON.
#[test]
fn wrong_words_are_refused() {
    let place = Place::planned(PLAN);
    place.ledger("plan propose plan.yaml --run second").code(0);
    place.ledger("claim").code(2).complains(&["2 runs are active: plan, second", "LEDGER_RUN"]);
    let before = place.state().seq;
    for line in [
        "claim --wait soon",
        "claim nowhere",
        "claim --worker stub/2",
        "renew x",
        "release",
        "receipt TOKEN --failed sometimes",
        "receipt TOKEN --message why",
        "receipt TOKEN --output @nowhere.json",
        "receipt TOKEN --receipt nowhere.json",
        "receipt TOKEN --receipt plan.yaml",
        "receipt TOKEN --wait",
        "receipt TOKEN --output 1 --receipt x",
        "effect",
        "work",
        "retry nowhere a",
        "retry plan nowhere",
        "skip plan a",
        "decide plan a",
        "set a",
        "set a 1 --run nowhere",
        "set a 1 --if-version -1",
        "get",
        "get a --run nowhere",
        "next nowhere",
        "note",
        "cancel nowhere --by ana",
        "budget raise plan --tokens none --by ana",
        "budget plan other --tokens 5 --by ana",
        "plan propose",
        "plan propose plan.yaml --run",
        "plan add",
        "plan add --step 7",
        "plan add --step {\"colour\":1}",
        "inspect plan nowhere",
        "tick now",
        "status --view unknown",
    ] {
        let token = format!("5-{}", "9f".repeat(16));
        let ended = place.ledger(&line.replace("TOKEN", &token)).code(2);
        assert!(ended.out.is_empty() && !ended.err.is_empty(), "{line}: {ended:?}");
    }
    for line in ["claim nowhere --json", "renew 1 --json", "get a --run nowhere --json"] {
        let ended = place.ledger(line);
        let lines = ended.lines();
        assert_eq!(lines[0]["type"], "error");
        assert_eq!(
            lines[0]["exit_code"].as_i64().and_then(|code| i32::try_from(code).ok()),
            ended.status.code()
        );
    }
    assert_eq!(place.state().seq, before);
}

/// A watcher sees every change, and the end.
#[test]
fn a_watcher_sees_the_run_to_its_end() {
    let place = Place::planned("steps: [{id: a}, {id: b, after: [a]}]");
    let watching = start(&mut place.command(&["status", "--watch", "--json"]));
    wait_until("it shows the run", || watching.said("user_view"));
    place.ledger("work --wait -- true").code(0);
    let lines = watching.end().code(0).lines();
    let views: Vec<_> = lines.iter().filter(|line| line["type"] == "user_view").collect();
    assert!(views.len() > 1, "{lines:?}");
    assert_eq!(views.last().unwrap()["activity"]["is"], "done");
}

/// The next worker of a step gets the history of its attempts, by a claim and by a receipt's next.
#[test]
fn who_claims_a_step_again_is_told_how_it_went() {
    let place = Place::planned("steps: [{id: a, retry: {max_attempts: 3}}]");
    let told = |lines: &[Value]| {
        let task = lines.last().unwrap();
        let before = task["previous_attempts"].as_array().unwrap().iter();
        let messages: Vec<_> =
            before.map(|it| it["message"].as_str().unwrap().to_owned()).collect();
        (task["token"].as_str().unwrap().to_owned(), messages)
    };
    let ask = |line: &str| told(&place.ledger(&format!("{line} --json")).code(0).lines());
    let (token, before) = ask("claim");
    assert!(before.is_empty(), "{before:?}");
    place.ledger(&format!("receipt {token} --failed transient --message paper")).code(0);
    let (token, before) = ask("claim --step a --worker w");
    assert_eq!(before, ["paper"]);
    let (_, before) = ask(&format!("receipt {token} --failed transient --message ink --next"));
    assert_eq!(before, ["paper", "ink"]);
}

/// Goal: one failed step is tried again, and the run that failed by it goes on.
#[test]
fn one_failed_step_is_tried_again() {
    let place = Place::planned("steps: [{id: a}, {id: b}]\ndefaults: {retry: {max_attempts: 1}}");
    for _ in 0..2 {
        let token = token_in(&place.ledger("claim --json").code(0).lines());
        place.ledger(&format!("receipt {token} --failed deterministic --message no")).code(0);
    }
    place.ledger("claim").code(1);
    let lines = place.ledger("retry plan b --json").code(0).lines();
    assert_eq!(
        (lines[0]["numbers"][0].as_u64(), lines[0]["status"].as_str()),
        (Some(2), Some("running"))
    );
    assert_eq!(place.ledger("claim --json").code(0).lines()[0]["step"]["id"], "b");
    place.ledger("retry plan b").code(6);
    place.ledger("retry plan --json").code(0).lines();
    assert_eq!(place.ledger("claim --json").code(0).lines()[0]["step"]["id"], "a");
}

/// Goal: what the README prints for people who write in Python or shell works as it is printed.
#[test]
fn the_readme_works_from_nothing() {
    let readme = include_str!("../../README.md");
    let (_, section) = readme.split_once("## Your own loop").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let block = |mark: &str| -> Vec<&str> {
        section.split(mark).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
    };
    let (shell, python) = (block("```sh\n"), block("```python\n"));
    assert_eq!((shell.len(), python.len()), (2, 1));
    let place = Place::new();
    let binaries = std::path::Path::new(env!("CARGO_BIN_EXE_ledger")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let run = |program: &str, option: &str, text: &str| {
        let mut command = std::process::Command::new(program);
        command.args([option, text]).current_dir(place.path("")).env("PATH", &path);
        command.env("LEDGER_DIR", place.path("loop.ledger"));
        start(&mut command).end().code(0)
    };
    run("sh", "-ec", shell[0]);
    let state = || super::command::state_of(&place.path("loop.ledger"));
    if std::process::Command::new("python3").arg("--version").output().is_ok() {
        run("python3", "-c", python[0]).says(&["done"]);
    } else {
        super::command::report_skipped("python3 is not installed");
        place.ledger("work first --ledger loop.ledger --wait -- true").code(0);
    }
    run("sh", "-ec", shell[1]).says(&["3 steps done; the run is done"]);
    for name in ["first", "again", "once-more"] {
        let state = state();
        let run = state.run_named(name).unwrap();
        assert_eq!(ids(run, StepStatus::Accepted).len(), 3, "{name}");
    }
}

/// Story: a loop that took longer than its lease reported with `receipt TOKEN --next`, and was told that
/// the worker needs a name: the step had no worker any more. The receipt was not
/// even kept. It is refused and kept, as without `--next`, and a token that never was is refused.
#[test]
fn a_late_receipt_that_wants_the_next_step_is_refused_as_late() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let unknown = format!("receipt 4711-{} --next", "9f".repeat(16));
    place.ledger(&unknown).code(6).complains(&["attempt 4711 is not active"]);
    let claimed = place.ledger("claim --lease 1s --json").code(0).lines();
    let token = claimed[0]["token"].as_str().unwrap().to_owned();
    wait_until("the lease runs out", || {
        place.ledger("tick").code(0);
        !place.state().in_flight.keys().any(|each| each.0 == number_of(&token))
    });
    let late = place.ledger(&format!("receipt {token} --output done --next")).code(6);
    late.complains(&["is not active", "the receipt was recorded as rejected"]);
    let records = place.ledger("inspect records --kind receipt_refused --json").code(0).lines();
    assert_eq!(records.iter().filter(|line| line["type"] == "record").count(), 1);
}

/// Goal: what is next in a run that failed, and behind a step that did, is to try again what failed,
/// all of it at once, or to skip it where that may be; what is said to type works.
#[test]
fn next_names_the_ways_out_of_a_failure() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}, {id: b c}, {id: d, after: [b c]}]");
    place
        .ledger("run plan.yaml --worker false --max-quick-failures 0 --on-unknown fail --quiet")
        .code(1);
    let next = || {
        let ended = place.ledger("next --json plan");
        (ended.lines()[0].clone(), place.ledger("next plan").out)
    };
    let (line, text) = next();
    let retries = ["ledger retry plan a", "ledger retry plan 'b c'"];
    let skips = ["ledger skip plan a --reason WHY", "ledger skip plan 'b c' --reason WHY"];
    let all = ["ledger retry plan", "ledger resume --retry-failed"];
    let ways = [all[0], skips[0], skips[1], all[1]];
    let ways = serde_json::json!(ways);
    assert_eq!((&line["action"], &line["commands"]), (&"retry".into(), &ways), "{line}");
    assert_eq!(line["command"], all[0]);
    for said in ["#1 a, #2 b c", "--retry-failed", all[0], skips[1]] {
        assert!(text.contains(said), "{said}: {text}");
    }
    place.ledger(&retries[0][7..]).code(0);
    assert_eq!(next().0["step"], "a");
    let summary = place.ledger("inspect .ledger --json").code(0).lines();
    let run = summary.iter().find(|line| line["type"] == "run").unwrap();
    let last = run["next"].as_array().unwrap().last().unwrap();
    let ways = [retries[1], "ledger skip plan 'b c' --reason WHY"];
    assert_eq!(last["commands"], serde_json::json!(ways), "{run}");
    let why = place.ledger("inspect .ledger why plan d").code(0).out;
    assert!(ways.iter().all(|way| why.contains(way)), "{why}");
    place.ledger_with(&["skip", "plan", "b c", "--reason", "WHY"]).code(0);
    let state = place.state();
    assert_eq!(state.run_named("plan").unwrap().count(StepStatus::Ready), 2);
}

/// Story: ten shells began with `ledger init`, one of them made the ledger, and most of the others died
/// of what it had left them: a folder that was not empty, or one that was gone. Goal: one of them makes
/// it, and the others find it.
#[test]
fn a_ledger_is_made_once_by_all_who_ask_at_once() {
    for _ in 0..6 {
        let place = Place::new();
        let start = |_| super::command::start(&mut place.command(&["init"]));
        let all: Vec<_> = (0..8).map(start).collect();
        let told: Vec<_> = all.into_iter().map(|each| each.end().code(0).out).collect();
        assert_eq!(
            told.iter().filter(|told| told.ends_with(": created an empty ledger\n")).count(),
            1,
            "{told:?}"
        );
        place.ledger("inspect").code(0);
    }
}

/// Story: `claim --step b --wait 60` is said to take that step if it becomes ready within a minute, and
/// was refused at once. Goal: it waits for that step and no other, ends with 3 when its patience does,
/// and with 6 for a step that never will be ready, or that is claimed.
#[test]
fn a_claim_waits_for_the_step_that_it_names() {
    for is_served in [true, false] {
        let place = Place::planned("steps: [{id: a}, {id: b, after: [a]}, {id: c}]");
        let token = token_in(&place.ledger("claim --step a --worker ana --json").lines());
        let holder = is_served.then(|| place.serve());
        let early = place.ledger("claim --step b --wait 0.2 --json").code(3);
        let line = &early.complains(&["step #2 is not ready: it is waiting"]).lines()[0];
        assert_eq!((&line["type"], &line["reason"]), (&json!("nothing"), &json!("not_ready")));
        place.ledger("claim --step a --wait").code(6).complains(&["claimed by ana"]);
        let waiting = start(&mut place.command(&["claim", "--step", "b", "--wait", "--json"]));
        place.ledger(&format!("receipt {token}")).code(0);
        assert_eq!(waiting.end().code(0).lines()[0]["step"]["id"], "b");
        place.ledger("claim --step a --wait").code(6).complains(&["it is accepted"]);
        holder.into_iter().for_each(Running::dismiss);
    }
}

/// Story: three steps failed, and `ledger work` said "3 steps done; the run is failed". Goal: those that
/// failed are counted apart, also where a criterion says so, in words and for programs.
#[test]
fn what_a_worker_failed_at_is_not_done() {
    let place = Place::planned("steps: [{id: a}, {id: b}]\ndefaults: {retry: {max_attempts: 1}}");
    let one = place.ledger("work --max 1 -- false").code(0);
    one.says(&["0 steps done, 1 attempt failed; the run is open"]);
    let lines = place.ledger("work --json -- false").code(1).lines();
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], &last["steps"]), (&json!("worked"), &json!(1)));
    assert_eq!((&last["failed"], &last["status"]), (&json!(1), &json!("failed")));
    let judged = Place::approved(
        "steps: [{id: a, acceptance: [{command: 'false'}]}, {id: b}]\n\
         defaults: {retry: {max_attempts: 1}}",
    );
    judged
        .ledger("work -- true")
        .code(1)
        .says(&["1 step done, 1 attempt failed; the run is failed"]);
}

/// Story: a receipt set a variable without a name, and one whose name had two lines, which
/// `ledger set` refuses. Goal: a receipt sets what can be set.
#[test]
fn a_receipt_sets_no_variable_that_has_no_name() {
    let place = Place::planned("steps: [{id: a}]");
    let token = token_in(&place.ledger("claim --json").code(0).lines());
    let report = |name: &str| {
        place.write(
            "r.json",
            json!({ "outcome": "succeeded", "variables": { name: 1 } }).to_string(),
        );
        place.ledger(&format!("receipt {token} --receipt r.json"))
    };
    for name in ["", " ", "two\nlines"] {
        report(name).code(2).complains(&["the variable name is empty or has a control character"]);
    }
    report("x").code(0);
    place.ledger("get x").code(0).says(&["1"]);
}

/// Story: `answer RUN STEP landed` on a ready step said "step 1 is not ready: it is ready". Goal: it
/// says that nothing is asked.
#[test]
fn answer_about_a_known_outcome_is_rejected() {
    let place = Place::planned("steps: [{id: a}]");
    let words = ["step 1 (a): no question is open; the step is ready"];
    for answer in ["landed", "did-not-happen", "retry"] {
        place.ledger(&format!("answer plan a {answer} --by me")).code(6).complains(&words);
    }
}

/// Story: a program that starts others by names of its own gave this one a name that is no UTF-8, and
/// every command that opens a ledger panicked. Goal: what it is called does not matter.
#[test]
fn the_program_may_have_any_name() {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::process::CommandExt as _;
    let place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"ledger\xff");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ledger"));
    let dir = place.path(".ledger");
    start(command.arg0(name).arg("init").arg("--ledger").arg(dir)).end().code(0);
}

/// Goal: every command has examples in its help, as the README says.
#[test]
fn every_command_has_examples() {
    let mut left = vec![Vec::new()];
    let mut seen = 0;
    while let Some(words) = left.pop() {
        let mut line: Vec<String> = words.clone();
        line.push("--help".to_owned());
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let help = Place::new().ledger_with(&line).code(0).out;
        assert!(help.contains("Example"), "{words:?}");
        seen += 1;
        let listed = match words.as_slice() {
            [] => Place::new().ledger("help --all").code(0).out,
            _ => help,
        };
        for name in listed_commands(&listed).into_iter().filter(|name| name != "help") {
            let mut words = words.clone();
            words.push(name);
            left.push(words);
        }
    }
    assert!(seen > 40, "{seen}");
}
