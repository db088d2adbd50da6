//! What an operator sees and types while a run waits: gates, delays, probes, budgets, pauses, forks
//! and failure decisions, in text and JSON.

use std::time::{Duration, Instant};

use plan_ledger::{Ending, Environment, LedgerView, RunStatus, State, StepStatus};

use super::command::{Place, ids, start};

const GATED: &str = "steps:
  - {id: build, command: 'echo build >> $TALLY'}
  - id: deploy
    after: [build]
    command: echo deploy >> $TALLY
    gate: {question: 'Is the window open?', to: ana, deadline_seconds: 86400, on_timeout: {answer: skip}}
";

/// The number of the ledger's only open question.
fn question(place: &Place) -> u64 {
    let state = place.state();
    let mut open = state.questions.keys();
    let id = open.next().expect("a question is open");
    assert!(open.next().is_none(), "{:?}", state.questions);
    id.0
}

/// A gated run ends with exit code 3 and names the question, the person and the command to type.
/// After the answer it continues where it was.
#[test]
fn gated_run_exits_3_and_continues_after_the_answer() {
    let place = Place::new();
    place.write("plan.yaml", GATED);
    let asked = ["step 2 (deploy)", "for ana", "Is the window open?", "ledger answer 9 skip"];
    place.ledger("run plan.yaml").code(3).says(&asked).says(&["ledger answer "]);
    place.ledger("run plan.yaml").code(3).says(&asked);
    assert_eq!(place.tally(), ["build"]);
    let id = question(&place);
    place.ledger("questions").code(0).says(&asked).says(&["run plan: question"]);
    let lines = place.ledger("questions --json").code(0).lines();
    assert_eq!(lines[0]["item"]["kind"], "question");
    assert_eq!(
        (lines[0]["step"].as_str(), lines[0]["item"]["question"].as_u64()),
        (Some("deploy"), Some(id))
    );
    assert_eq!(lines[0]["item"]["asked"]["to"], "ana");
    assert_eq!(lines[1]["waiting"], 1);

    place.ledger("inspect .ledger step plan deploy").code(0).says(&[
        "gated",
        "ana was asked",
        "type: ledger answer",
    ]);
    place
        .ledger("inspect .ledger")
        .code(0)
        .says(&["1 waiting for an answer", "ledger answer 9 no"]);

    let before = place.state().seq;
    place.ledger(&format!("answer {id} maybe --by ana")).code(6).complains(&["yes, no, skip"]);
    place.ledger("answer 1 yes --by ana").code(6).complains(&["question 1 is not open"]);
    place.ledger("answer some yes --by ana").code(2).complains(&["run plan has no step `some`"]);
    let other = format!("answer {id} yes --by ana --shown 00000000ff");
    place.ledger(&other).code(6).complains(&["you were shown 00000000ff", "read it again"]);
    place.ledger("answer plan build yes --by ana").code(6).complains(&["no question is open"]);
    assert_eq!(place.state().seq, before, "a rejected command records nothing");

    let answered = place.ledger("answer plan deploy yes --by ana --note seen --json").code(0);
    let lines = answered.lines();
    assert_eq!(
        (lines[0]["answer"].as_str(), lines[0]["status"].as_str()),
        (Some("yes"), Some("ready"))
    );
    place.ledger("questions").code(0).says(&["nothing waits for a person"]);
    place.ledger("run plan.yaml").code(0).says(&["run plan: done"]);
    assert_eq!(place.tally(), ["build", "deploy"]);
}

/// An answer can name the hash of what was shown. "no" fails the step.
#[test]
fn answer_can_be_bound_to_the_shown_hash() {
    let place = Place::new();
    place.write("plan.yaml", GATED);
    place.ledger("run plan.yaml").code(3);
    let id = question(&place);
    let shown = place.ledger("questions --json").lines()[0]["item"]["asked"]["shown"].to_string();
    let shown = shown.trim_matches('"').get(..12).unwrap().to_owned();
    let line = format!("answer @{id} no --by ana --shown {shown}");
    place.ledger(&line).code(0).says(&["the step is failed"]);
    place.ledger("run plan.yaml").code(1);
}

/// The runner waits for backoff delays and says until when and for which step.
#[test]
fn runner_waits_for_backoff_delays() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:
  - id: flaky
    command: echo x >> $TALLY; test $LEDGER_ATTEMPT = 3
    retry: {max_attempts: 3, backoff_seconds: 1}
",
    );
    let begun = Instant::now();
    let flaky = super::command::start(&mut place.command(&["run", "plan.yaml"]));
    let failing = Place::new();
    failing.write(
        "plan.yaml",
        "steps: [{id: a, command: 'false', retry: {max_attempts: 2, backoff_seconds: 1}}]",
    );
    let lines = failing.ledger("run plan.yaml --json").code(1).lines();
    let ended = flaky.end().code(0);
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    ended.complains(&["waiting until", "step 1 (flaky) is retried then"]);
    assert_eq!(place.tally().len(), 3);
    let waiting = lines.iter().filter(|line| line["type"] == "waiting");
    assert_eq!(waiting.count(), 1);
    assert_eq!(lines.last().unwrap()["session"]["retries"], 1);
}

/// A run that an answer ends prints its `summary` line. It used to print `ended`, the line of a run
/// that had ended earlier.
#[test]
fn run_ended_by_an_answer_prints_a_summary() {
    for (verb, outcome, code) in [("accept", "done", 0), ("reject", "failed", 1)] {
        let place = Place::new();
        let plan =
            "steps: [{id: a, command: 'true', acceptance: [good], retry: {max_attempts: 1}}]";
        place.write("plan.yaml", plan);
        let words = ["run", "plan.yaml", "--wait", "--json"];
        let run = super::command::start(&mut place.command(&words));
        super::command::wait_until("the runner waits", || run.said("\"waits\""));
        place.ledger(&format!("{verb} plan a --by ana")).code(0);
        let lines = run.end().code(code).lines();
        let last = lines.last().unwrap();
        assert_eq!((&last["type"], &last["outcome"]), (&"summary".into(), &outcome.into()));
        assert!(lines.iter().all(|line| line["type"] != "ended"));
    }
}

/// Ctrl-C ends a waiting run at once; it says what it waited for, and nothing is dispatched early.
#[test]
fn waiting_run_can_be_interrupted() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:
  - {id: slow, command: 'echo x >> $TALLY; false', retry: {max_attempts: 2, backoff_seconds: 3600}}
  - id: next
    command: 'true'
    preconditions: ['rows > 0']
  - {id: count, after: [slow], command: echo 1, outputs: [rows]}
",
    );
    for dispatched in [1, 0] {
        let run = super::command::start(&mut place.command(&["run", "plan.yaml", "--json"]));
        let is_delayed = || {
            let view = LedgerView::open(&place.path(".ledger"), &Environment::system());
            let fold = view.and_then(|view| view.fold(u64::MAX));
            let is_delayed = |state: &State| {
                let run = state.run_named("plan");
                run.is_some_and(|run| ids(run, StepStatus::Delayed) == ["slow"])
            };
            fold.is_ok_and(|fold| is_delayed(&fold.state))
        };
        // The `waiting` line is printed last.
        super::command::wait_until("the runner waits", || is_delayed() && run.said("\"waiting\""));
        run.signal("INT");
        let lines = run.end().code(3).lines();
        assert_eq!(lines.last().unwrap()["outcome"], "interrupted");
        assert_eq!(lines.last().unwrap()["session"]["dispatched"], dispatched);
    }
    assert_eq!(place.tally(), ["x"]);
    let step = |id: &str| place.ledger(&format!("inspect .ledger step plan {id}")).code(0);
    step("slow").says(&[
        "delayed",
        "it failed and is delayed, until",
        "(in 59m",
        "after: exit status 1",
    ]);
    step("next").says(&["waiting", "precondition 1 `rows > 0` does not hold"]);
    let words = ["1 delayed", "no runner is at work", "#1 slow is to be retried"];
    place.ledger("inspect .ledger").code(0).says(&words);
}

/// With `--wait` the runner also waits for deadlines and carries out their default answer.
#[test]
fn waiting_run_waits_for_deadlines() {
    let place = Place::new();
    let soon = GATED.replace("86400", "1");
    place.write("plan.yaml", soon);
    place.ledger("run plan.yaml --wait").code(0).says(&["1 of 2 steps accepted, 1 skipped"]);
    assert_eq!(place.tally(), ["build"]);
}

const PROBED: &str = "steps:
  - id: send
    idempotent: no
    timeout_seconds: 2
    command: echo sent >> $TALLY; touch begun; sleep 30
    probe: echo $LEDGER_IDEMPOTENCY_KEY > key; exit $(cat verdict)
";

/// After a runner was killed, the next one runs the probe of a non-idempotent step and records its
/// finding. An inconclusive probe leaves the decision to a person.
#[test]
fn probe_resolves_an_unknown_outcome() {
    for (verdict, code, tally) in [("0", 0, 1), ("1", 0, 2), ("7", 3, 1)] {
        let place = Place::new();
        place.write("plan.yaml", PROBED);
        let mut first = super::command::start(&mut place.command(&["run", "plan.yaml"]));
        super::command::wait_until("the worker has started", || {
            place.path("begun").exists() || first.is_over()
        });
        assert!(first.kill().was_killed());
        place.write("verdict", verdict);
        // A `sleep` that returns at once, for the second attempt.
        place.write("sleep", "#!/bin/sh\n");
        let path = format!("{}:{}", place.path("").display(), std::env::var("PATH").unwrap());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(place.path("sleep"), mode).unwrap();
        let mut command = place.command(&["run", "plan.yaml", "--json"]);
        let ended = super::command::start(command.env("PATH", path)).end().code(code);
        let lines = ended.lines();
        let probed: Vec<_> = lines.iter().filter(|line| line["type"] == "probed").collect();
        assert_eq!(probed.len(), 1, "{lines:#?}");
        let evidence = probed[0]["evidence"].as_str().unwrap();
        assert_eq!(evidence, format!("exit status {verdict}"));
        assert_eq!(place.read("key"), "plan/send/1\n");
        assert_eq!(place.tally().len(), tally, "{verdict}");
        let waiting_for = ended.lines().last().unwrap()["waiting_for"].to_string();
        assert_eq!(waiting_for.contains("outcome_unknown"), code == 3, "{waiting_for}");
        let records =
            place.ledger("inspect .ledger records --kind outcome_resolved --json").lines();
        let found = records.iter().find(|line| line["type"] == "record");
        assert_eq!(found.is_some(), code == 0);
        if let Some(found) = found {
            assert_eq!(found["event"]["by"], "runner");
        } else {
            let line = "answer plan send did-not-happen --by ana --note looked";
            place.ledger("answer plan send perhaps --by ana").code(2).complains(&["`landed`"]);
            place.ledger(line).code(0).says(&["the step is ready"]);
        }
    }
}

/// A non-idempotent attempt whose worker is stopped by a timeout or a signal has an unknown outcome
/// and is probed, not repeated. A worker that exits with a failure is believed and retried.
#[test]
fn stopped_non_idempotent_attempt_is_probed_not_repeated() {
    let ends = [("sleep 60", 0, 1), ("kill -9 $$", 0, 1), ("exit 1", 1, 3)];
    for work in ["run plan.yaml", "work -- true"] {
        for (end, code, sent) in ends {
            let place = Place::new();
            let plan = format!(
                "steps:
  - id: send
    idempotent: no
    timeout_seconds: 1
    retry: {{max_attempts: 3}}
    command: echo sent >> $TALLY; {end}
    probe: test -s $TALLY
"
            );
            place.write("plan.yaml", plan);
            place.ledger("init").code(0);
            place.ledger("plan propose plan.yaml").code(0);
            place.ledger(work);
            assert_eq!(place.tally().len(), sent, "{work}: {end}");
            // The probe is run by the runner, whichever command ran the worker.
            place.ledger("run plan.yaml").code(code);
            assert_eq!(place.tally().len(), sent, "{work}: {end}");
        }
    }
}

/// An exhausted budget pauses the run, which prints how to raise it. A raised budget unpauses it.
#[test]
fn exhausted_budget_pauses_and_prints_how_to_raise_it() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "budget: {attempts: 2}
steps:
  - {id: a, command: 'echo a >> $TALLY'}
  - {id: b, after: [a], command: 'echo b >> $TALLY'}
  - {id: c, after: [b], command: 'echo c >> $TALLY'}
",
    );
    let words = ["the run's attempt budget is exhausted", " raise --attempts 10 "];
    place.ledger("run plan.yaml").code(3).says(&words).says(&["replan", "abort"]);
    place.ledger("run plan.yaml").code(3).says(&words);
    assert_eq!(place.tally(), ["a", "b"]);
    place.ledger("inspect .ledger").code(0).says(&["paused: its attempt budget", "2 attempts"]);
    place.ledger("unpause plan --by ana").code(6).complains(&["its attempt budget is exhausted"]);
    place
        .ledger("budget plan")
        .code(0)
        .says(&["attempts  2      -         -          2         0", "paused: its attempt budget"]);
    place.ledger("budget plan --attempts many --by ana").code(2).complains(&["a whole number"]);
    place.ledger("budget other --attempts 5 --by ana").code(2).complains(&["no run `other`"]);
    let set = place.ledger("budget plan --attempts 5 --by ana --json").code(0).lines();
    assert_eq!(
        (set[0]["limits"]["attempts"].as_u64(), set[0]["is_paused"].as_bool()),
        (Some(5), Some(false))
    );
    place.ledger("run plan.yaml").code(0).says(&["3 of 3"]);
    assert_eq!(place.tally(), ["a", "b", "c"]);
    place
        .ledger("budget --tokens 5 --by ana")
        .code(0)
        .says(&["budget of the ledger", "-          5         5 "]);
    place
        .ledger("budget --tokens none --by ana")
        .code(0)
        .says(&["budget of the ledger", "tokens    -      -         -          no limit"]);
}

/// A paused run dispatches nothing until it is unpaused.
#[test]
fn paused_run_dispatches_nothing_until_unpaused() {
    let place = Place::new();
    place.write("plan.yaml", GATED);
    place.ledger("run plan.yaml").code(3);
    place.ledger("pause plan --by ana --reason lunch").code(0).says(&["dispatch is paused"]);
    place.ledger("pause plan --by ana").code(6).complains(&["the run is paused by ana"]);
    place.ledger("answer plan deploy yes --by ana").code(0);
    let ended = place.ledger("run plan.yaml").code(3);
    ended.says(&["the run is paused by ana", "ledger unpause plan"]);
    place.ledger("inspect .ledger step plan deploy").code(0).says(&["the run is paused by ana"]);
    assert_eq!(place.ledger("unpause plan --by ana --json").code(0).lines()[0]["type"], "unpaused");
    place.ledger("unpause plan --by ana").code(6).complains(&["the run is not paused"]);
    place.ledger("pause none --by ana").code(2).complains(&["there is no run `none`"]);
    place.ledger("run plan.yaml").code(0);
}

/// A fork before a gated step starts in the state of that time and gets another answer.
#[test]
fn fork_starts_in_the_state_before_the_step() {
    let place = Place::new();
    place.write("plan.yaml", GATED);
    place.ledger("run plan.yaml").code(3);
    place.ledger("answer plan deploy yes --by ana").code(0);
    place.ledger("run plan.yaml").code(0);
    place.ledger("fork plan --step none --name x").code(2).complains(&["no step `none`"]);
    place.ledger("fork none --at 3 --name x").code(2).complains(&["there is no run `none`"]);
    place.ledger("fork plan --at 99999 --name x").code(2).complains(&["99999"]);
    place
        .ledger("fork plan --at 9 --name plan")
        .code(6)
        .complains(&["a run with this name already exists"]);
    let forked = place.ledger("fork plan --step deploy --name again --json").code(0).lines();
    assert_eq!(
        (forked[0]["run"].as_str(), forked[0]["parent"].as_str()),
        (Some("again"), Some("plan"))
    );
    let state = place.state();
    let run = state.run_named("again").unwrap();
    assert_eq!(run.fork.as_ref().unwrap().at_seq, forked[0]["at_seq"].as_u64().unwrap());
    assert_eq!(ids(run, StepStatus::Accepted), ["build"]);
    place.ledger("inspect .ledger").code(0).says(&["forked from run 1 at record"]);
    place.ledger("run plan.yaml --run again").code(3).says(&["Is the window open?"]);
    place.ledger("answer again deploy skip --by ben").code(0);
    place.ledger("run plan.yaml --run again").code(0).complains(&["run again is done"]);
    assert_eq!(place.tally(), ["build", "deploy"], "only the first run deployed");
}

/// With an external decider the run asks for the decision, and `answer` records it.
#[test]
fn external_decision_about_a_failure_is_recorded() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "failure: {decider: external}
steps: [{id: a, command: 'echo $LEDGER_ATTEMPT >> $TALLY; test -e repaired'}]
",
    );
    let words = ["waits for a decision about its failure", "ledger answer plan a escalate"];
    place.ledger("run plan.yaml").code(3).says(&words);
    place.ledger("questions").code(0).says(&words);
    place.ledger("inspect .ledger").code(0).says(&words);
    place.ledger("answer plan a fallback --by ana").code(6).complains(&["no available fallback"]);
    place.ledger("answer plan a dance --by ana").code(6).complains(&["no question is open"]);
    place.write("repaired", "");
    place.ledger("answer plan a retry --by ana --note repaired").code(0).says(&["is ready"]);
    place.ledger("run plan.yaml").code(0);
    assert_eq!(place.tally(), ["1", "2"]);
    let records = place.ledger("inspect .ledger records --kind failure_decided --json").lines();
    assert_eq!(records[0]["event"]["rule"], "answer:ana");
}

/// An escalated failure takes each of its answers.
#[test]
fn escalated_failure_takes_each_answer() {
    for (answer, code, status) in [
        ("skip", 0, RunStatus::Ended(Ending::Done)),
        ("fail", 1, RunStatus::Ended(Ending::Failed)),
        ("abort", 1, RunStatus::Ended(Ending::Aborted)),
        ("replan", 3, RunStatus::Running),
    ] {
        let place = Place::new();
        place.write(
            "plan.yaml",
            "failure: {rules: [{id: ask, then: {escalate: {to: ana}}}]}
steps: [{id: a, command: 'echo broken >&2; false'}]
",
        );
        let words = [
            "what to do about the failure of @",
            "for ana",
            "broken",
            " retry   # dispatches the step again\n",
            " abort   # ends the run\n",
        ];
        place.ledger("run plan.yaml").code(3).says(&words);
        place.ledger(&format!("answer plan a {answer} --by ana")).code(0);
        place.ledger("run plan.yaml").code(code);
        assert_eq!(place.state().run_named("plan").unwrap().status, status, "{answer}");
        if answer == "replan" {
            let asked = ["a new plan version is needed", "ledger plan withdraw plan"];
            place.ledger("run plan.yaml").code(3).says(&asked);
            place.ledger("plan withdraw plan --by ana --reason no").code(0).says(&["is failed"]);
            place.ledger("plan withdraw plan --by ana").code(6);
        }
    }
}

/// A receipt with the disposition `landed` prevents a second attempt, and failed criteria are in
/// the next hand-off.
#[test]
fn landed_disposition_prevents_a_second_attempt() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        r#"steps:
  - id: pay
    idempotent: no
    command: >-
      echo pay >> $TALLY;
      echo '{"outcome":"failed","message":"no paper","disposition":"landed"}' > $LEDGER_RECEIPT
"#,
    );
    place
        .ledger("run plan.yaml")
        .code(3)
        .says(&["the work took effect, but the attempt failed: no paper"]);
    assert_eq!(place.tally(), ["pay"]);
    place.ledger("answer plan pay skip --by ana").code(0);
    place.ledger("run plan.yaml").code(0);
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps:
  - id: a
    command: cat >> hand_off; echo $LEDGER_ATTEMPT
    acceptance: [{cel: 'output == 2'}]
",
    );
    place.ledger("run plan.yaml").code(0);
    let hand_off = place.read("hand_off");
    let second: serde_json::Value = serde_json::from_str(hand_off.lines().nth(1).unwrap()).unwrap();
    assert_eq!(second["failed_criteria"][0]["criterion"], 0);
}

/// `inspect why` suggests no command that the state of the run would reject.
#[test]
fn cancelled_run_suggests_no_commands() {
    let place = Place::new();
    let plan = "steps:
  - {id: a, command: 'false', retry: {max_attempts: 1}}
  - {id: b, command: 'true', gate: {question: 'Go?'}}
";
    place.write("plan.yaml", plan);
    place.ledger("run plan.yaml").code(3);
    place.ledger("inspect .ledger why plan a").code(0).says(&["ledger retry plan a"]);
    place.ledger("cancel plan --by ana").code(0);
    let why = place.ledger("inspect .ledger why plan a").code(0);
    assert!(!why.out.contains("ledger retry"), "{why:?}");
    place.ledger("retry plan a").code(6);
}

/// Criteria count from 1 in every text for people.
#[test]
fn criteria_count_from_1_in_all_texts() {
    let place = Place::new();
    let criteria = "[{command: 'true'}, {command: 'false'}]";
    place.write(
        "plan.yaml",
        format!("steps: [{{id: a, command: 'true', acceptance: {criteria}, retry: {{max_attempts: 1}}}}]"),
    );
    place.ledger("run plan.yaml").code(1).complains(&["criterion 2 does not hold"]);
    let records = place.ledger("inspect .ledger records --kind verdict_recorded").code(0);
    records.says(&["criterion 1 passes", "criterion 2 fails"]);
}

/// A step whose attempts time out and did not happen by its probe is dispatched as often as its
/// retry policy allows; then a person is asked. Timeouts used not to count as attempts.
#[test]
fn timeouts_and_probes_respect_the_attempt_limit() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "steps: [{id: a, command: 'echo x >> tally; sleep 60', timeout_seconds: 1, \
         idempotent: 'no', probe: 'exit 1', retry: {max_attempts: 2}}]",
    );
    place
        .ledger("run plan.yaml --ledger l")
        .code(3)
        .says(&["the outcome of step 1 (a) is unknown"]);
    assert_eq!(std::fs::read_to_string(place.path("tally")).unwrap(), "x\nx\n");
}

/// A probe does not accept an attempt that a criterion rejected, not even after a new plan version.
#[test]
fn probe_does_not_accept_a_rejected_attempt() {
    let place = Place::new();
    let plan = |more: &str| {
        format!(
            "steps:
  - {{id: pay, command: echo pay >> $TALLY, idempotent: 'no', acceptance: [{{command: 'exit 1'}}],
     probe: touch probed}}
  - {{id: z, after: [pay], command: 'true'}}
{more}"
        )
    };
    place.write("plan.yaml", plan(""));
    place.ledger("run plan.yaml").code(3).says(&["the work took effect, but the attempt failed"]);
    place.ledger("answer plan pay fail --by ana").code(0);
    place.write("plan.yaml", plan("  - {id: y, command: 'true'}\n"));
    place.ledger("plan propose plan.yaml --run plan").code(0);
    place
        .ledger("run plan.yaml")
        .code(3)
        .says(&["the outcome of step 1 (pay) is unknown: a lost attempt may have done it"]);
    assert!(!place.path("probed").exists(), "the outcome is known, so no probe is needed");
    place.ledger("answer plan pay landed --by ana").code(0);
    place.ledger("run plan.yaml").code(0);
    assert_eq!(place.tally(), ["pay"]);
}

/// Without `--by`, the author is `LEDGER_BY`, else the login name. The commands of a worker are
/// recorded as acts of its step, never under the person who started the runner.
#[test]
fn author_is_ledger_by_else_the_login_name() {
    let plan = "steps: [{id: a, command: '$LEDGER note from-the-worker'}]";
    let place = Place::planned(plan);
    let by = |set: &[(&str, &str)], line: &str| {
        let mut command = place.command(&line.split(' ').collect::<Vec<_>>());
        command.env_remove("LEDGER_BY").envs(set.iter().copied());
        command.env("LEDGER", env!("CARGO_BIN_EXE_ledger"));
        start(&mut command).end().code(0);
        let lines = place.ledger("inspect records --json").lines();
        let mut notes = lines.iter().filter(|line| line["kind"] == "note");
        notes.next_back().unwrap()["event"]["by"].as_str().unwrap().to_owned()
    };
    assert_eq!(by(&[("LEDGER_BY", "ana")], "note hello"), "ana");
    let id = std::process::Command::new("id").arg("-un").output().unwrap();
    assert_eq!(by(&[], "note hello"), String::from_utf8(id.stdout).unwrap().trim());
    assert_eq!(by(&[("LEDGER_BY", "ana")], "note hello --by bob"), "bob");
    let of_worker = by(&[("LEDGER_BY", "ana")], "run plan.yaml");
    assert!(of_worker.starts_with("step:#1@"), "{of_worker}");
}

/// Commands find the ledger in the folders above, and the nearest one first; `init` and an option do
/// not look there.
#[test]
fn ledger_is_found_in_the_folders_above() {
    let place = Place::planned("steps: [{id: a}]");
    let below = place.path("src/deep");
    std::fs::create_dir_all(&below).unwrap();
    let run = |line: &str| {
        let mut command = place.command(&line.split(' ').collect::<Vec<_>>());
        start(command.current_dir(&below)).end()
    };
    run("status").code(0).says(&["plan"]);
    run("note from-below").code(0);
    run("verify").code(0);
    run("status --ledger .ledger").code(2).complains(&["no ledger at .ledger"]);
    run("init").code(0).says(&[".ledger: created"]);
    run("status").code(0);
    run("next plan").code(2).complains(&["no run"]);
}

/// `--color` decides for results and errors alike; without it, pipes get no color.
#[test]
fn color_is_chosen_by_the_option() {
    let place = Place::planned("steps: [{id: a}]");
    let has_color = |text: &str| text.contains("\u{1b}[");
    for (option, expected) in [("--color always", true), ("--color never", false), ("", false)] {
        let status = place.ledger(format!("{option} status").trim()).code(0);
        assert_eq!(has_color(&status.out), expected, "{option}: {}", status.out);
        let error = place.ledger(format!("{option} get nothing --run none").trim()).code(2);
        assert_eq!(has_color(&error.err), expected, "{option}: {}", error.err);
    }
    place.ledger("--color sometimes status").code(2).complains(&["--color"]);
}

/// Every command takes `-q`: results and errors stay, notes do not.
#[test]
fn quiet_leaves_out_notes_alone() {
    let place = Place::planned("steps: [{id: a}]");
    place.ledger("pause plan -q").code(0).says(&["dispatch is paused"]);
    let told = place.ledger("claim plan --worker w").code(3);
    assert!(told.err.contains("nothing to dispatch"), "{told:?}");
    let quiet = place.ledger("-q claim plan --worker w").code(3);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
    let quiet = place.ledger("claim plan --worker w --json --quiet").code(3);
    assert!(quiet.out.contains("\"type\":\"nothing\"") && quiet.err.is_empty(), "{quiet:?}");
    place.ledger("claim nothing --worker w -q").code(2).complains(&["there is no run `nothing`"]);
}
