//! The morning after a night with failures: many questions are answered at once, a budget is raised by an answer, and
//! two commands continue the run.

use serde_json::{Value, json};

use super::command::{Place, start};

/// Six steps that fail until a person has repaired something, each with a class of failure, and a gate.
const FAILING: &str = "
failure: {rules: [{id: ask, then: {escalate: {}}}]}
steps:
  - {id: a, command: ./fails.sh unknown}
  - {id: b, command: ./fails.sh unknown}
  - {id: c, command: ./fails.sh transient}
  - {id: d, command: ./fails.sh deterministic}
  - {id: limited, command: ./limited.sh}
  - {id: deploy, gate: {question: Deploy?}, command: 'true'}
";

/// A step that fails until the file `repaired` is there.
const FAILS: &str = r#"#!/bin/sh
[ -e repaired ] && exit 0
echo "{\"outcome\": \"failed\", \"class\": \"$1\", \"message\": \"no\"}" > "$LEDGER_RECEIPT"
"#;

/// A step at a usage limit that only a person ends.
const LIMITED: &str = r#"#!/bin/sh
[ -e repaired ] && exit 0
echo "You're out of usage credits" >&2
exit 1
"#;

fn executable(place: &Place, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    place.write(name, text);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path(name), mode).unwrap();
}

/// A run in which five failures wait for a person, and a gate.
fn failed() -> Place {
    let place = Place::new();
    place.write("plan.yaml", FAILING);
    executable(&place, "fails.sh", FAILS);
    executable(&place, "limited.sh", LIMITED);
    place.ledger("run plan.yaml --max-parallel 1").code(3);
    place
}

/// The steps of the lines of a type, in their order.
fn steps(lines: &[Value], of: &str) -> Vec<String> {
    let lines = lines.iter().filter(|line| line["type"] == of);
    lines.map(|line| line["step"].as_str().unwrap().to_owned()).collect()
}

/// One command answers all questions that take the answer, and names the others with the reason.
#[test]
fn all_questions_of_a_kind_are_answered_at_once() {
    let place = failed();
    let before = place.state().seq;
    let lines = place.ledger("answer --all retry --by ana --json").code(0).lines();
    assert_eq!(steps(&lines, "answered"), ["a", "b", "c", "d", "limited"]);
    assert!(lines.iter().filter(|line| line["type"] == "answered").all(|line| {
        line["status"] == "ready" && line["answer"] == "retry" && line["asked"].is_null()
    }));
    let others: Vec<_> = lines.iter().filter(|line| line["type"] == "not_answered").collect();
    assert_eq!(others.len(), 1);
    assert_eq!((&others[0]["step"], &others[0]["number"]), (&json!("deploy"), &json!(6)));
    assert_eq!(others[0]["why"], "its answers are yes, no, skip");
    // All answers are one batch, and each names its author.
    let records = place.ledger("inspect records --kind step_answered --json").lines();
    let records: Vec<_> = records.iter().filter(|line| line["type"] == "record").collect();
    assert_eq!(records.len(), 5);
    let end_of_batch = |record: &Value| {
        record["seq"].as_u64().zip(record["batch_left"].as_u64()).map(|(seq, left)| seq + left)
    };
    for record in &records {
        assert!(record["seq"].as_u64() > Some(before), "{record}");
        assert_eq!(end_of_batch(record), end_of_batch(records[0]));
        assert_eq!(record["event"]["by"], "ana");
    }
    let none = place.ledger("answer --all retry").code(6);
    none.complains(&["no open question was answered: question ", "its answers are yes, no, skip"]);
    place.write("repaired", "");
    place.ledger("answer --all yes").code(0).says(&["step 6 (deploy): the step is ready"]);
    place.ledger("resume").code(0).says(&["6 of 6 steps accepted"]);
    place.ledger("answer --all retry").code(6).complains(&["no question is open"]);
}

/// A class of failure limits the questions; the others stay open, with the reason.
#[test]
fn questions_about_a_class_of_failure_are_answered_alone() {
    let place = failed();
    let of_class = |class: &str, answer: &str| {
        let line = format!("answer --class {class} {answer} --run plan --json");
        place.ledger(&line).code(0).lines()
    };
    assert_eq!(steps(&of_class("usage-limit", "retry"), "answered"), ["limited"]);
    assert_eq!(steps(&of_class("unknown", "skip"), "answered"), ["a", "b"]);
    let lines = of_class("deterministic", "fail");
    assert_eq!(steps(&lines, "answered"), ["d"]);
    assert_eq!(steps(&lines, "not_answered"), ["deploy", "c"]);
    let why: Vec<_> = lines.iter().filter_map(|line| line["why"].as_str()).collect();
    assert_eq!(why, ["it is not about a failure of the class deterministic"; 2]);
    place.ledger("answer --class none retry").code(2);
    place.ledger("answer --all --class unknown --shown 12345678 retry").code(2);
}

/// What a person must choose alone is not answered with others: a version of the plan, and what another person was asked.
#[test]
fn plan_versions_and_questions_for_others_are_answered_alone() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "gate: {question: Start?}\nsteps: [{id: a, command: 'true', gate: {question: Now?, to: bob}}]",
    );
    place.ledger("run plan.yaml").code(3);
    let refused = place.ledger("answer --all yes --by ana").code(6);
    refused.complains(&["a version of a plan is reviewed alone: `ledger plan review plan`"]);
    place.ledger("plan approve plan --by ana").code(0);
    let refused = place.ledger("answer --all yes --by ana").code(6);
    refused.complains(&["question ", ", step 1 (a): it is for bob"]);
    place.ledger("answer --all yes --by bob").code(0).says(&["step 1 (a): the step is ready"]);
}

/// An agent session decides for no person, for none of many questions either.
#[test]
fn agent_session_answers_no_questions_at_once() {
    let place = failed();
    for words in [&["answer", "--all", "retry"][..], &["answer", "--class", "unknown", "retry"]] {
        let ended = start(place.command(words).env("CLAUDECODE", "1")).end();
        ended.code(6).complains(&["agent"]);
    }
    assert_eq!(place.state().questions.len(), 6, "all are open");
}

/// Spends 110 of 100 tokens in its first step.
const OVERRUN: &str = r#"
budget: {tokens: 100}
steps:
  - id: a
    command: 'echo "{\"outcome\": \"succeeded\", \"cost\": {\"tokens\": 110}}" > "$LEDGER_RECEIPT"'
  - {id: b, after: [a], command: 'true'}
"#;

/// The question of an exhausted budget is answered with an amount, and a raise that is too small changes nothing.
#[test]
fn exhausted_budget_is_raised_by_an_answer() {
    let place = Place::new();
    place.write("plan.yaml", OVERRUN);
    place.ledger("run plan.yaml").code(3).says(&["ledger answer ", " raise --tokens 100000"]);
    let line = place.ledger("questions --json").lines().remove(0);
    let question = line["item"]["question"].as_u64().unwrap();
    assert_eq!(line["item"]["asked"]["options"], json!(["raise", "replan", "abort"]));
    let answer = |words: &str| place.ledger(&format!("answer {question} {words} --by ana"));
    let seq = place.state().seq;
    answer("raise").code(2).complains(&["needs an amount", "raise --tokens 100000"]);
    answer("raise --tokens 10").code(6).complains(&["the raise is too small"]);
    answer("raise --money 1").code(6).complains(&["there is no limit on money to raise"]);
    answer("replan --tokens 10").code(2).complains(&["only `raise` does"]);
    place.ledger("answer --all raise").code(6).complains(&["it needs an amount"]);
    assert_eq!(place.state().seq, seq, "nothing is recorded");
    answer("raise --tokens 50").code(0).says(&["answered raise; run plan is open"]);
    place.ledger("questions --decided").says(&["raise"]);
    place.ledger("run plan.yaml").code(0);
}

/// Story: `next` listed the question about a budget, and the pause that it had caused: one answer resolves both.
#[test]
fn budget_question_and_its_pause_are_one_item() {
    let place = Place::new();
    place.write("plan.yaml", OVERRUN);
    let ended = place.ledger("run plan.yaml").code(3);
    assert!(!ended.out.contains("the run is paused"), "{}", ended.out);
    let lines = place.ledger("next --json").lines();
    let actions: Vec<_> = lines.iter().filter_map(|line| line["action"].as_str()).collect();
    assert_eq!(actions.iter().filter(|it| ["question", "unpause"].contains(it)).count(), 1);
    place.ledger("status").code(0).says(&["paused: its token budget", "raise --tokens 100000"]);
    let why = place.ledger("inspect why plan b").code(0);
    why.says(&["raise --tokens 100000"]);
}

/// Story: each of many failures listed all its answers, and what they do.
#[test]
fn common_answers_to_failures_are_listed_once() {
    let place = failed();
    let run = place.ledger("run plan.yaml --max-parallel 1").code(3).out;
    let questions = place.ledger("questions").code(0).out;
    for text in [run, questions] {
        let count = |what: &str| text.matches(what).count();
        assert_eq!(count("ledger answer --all plan retry"), 1, "{text}");
        assert_eq!(
            (count("dispatches the steps again"), count("dispatches the step again")),
            (1, 0)
        );
        assert_eq!(count("what to do about the failure"), 5, "{text}");
    }
    let lines = place.ledger("questions --json").lines();
    let commands = lines.iter().filter(|line| line["item"]["kind"] == "question");
    assert!(
        commands.clone().count() == 6 && commands.into_iter().all(|it| it["commands"] != json!([]))
    );
}

/// Story: a person answered while no runner was at work, and was told that the run is running.
#[test]
fn decision_says_that_no_runner_is_at_work() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'true', gate: {question: now?}}]");
    place.ledger("run plan.yaml").code(3);
    let start = "`ledger resume` starts the last runner again";
    place.ledger("prime").code(0).says(&["waiting for a person; no runner is at work", start]);
    place.ledger("inspect runs").code(0).says(&["waiting for a person"]);
    let answered = place.ledger("answer a yes --by ana").code(0);
    answered.complains(&["run plan: no runner is at work", start]);
    let runs = place.ledger("inspect runs --json").lines();
    assert_eq!(
        (&runs[0]["status"], &runs[0]["activity"]["is"]),
        (&json!("running"), &json!("stopped"))
    );
    place.ledger("run plan.yaml").code(0);
    let runs = place.ledger("inspect runs --json").lines();
    assert_eq!((&runs[0]["status"], &runs[0]["activity"]), (&json!("done"), &Value::Null));
}

/// `ledger budget raise` is the same answer.
#[test]
fn raised_budget_is_recorded_as_the_answer() {
    let place = Place::new();
    place.write("plan.yaml", OVERRUN);
    place.ledger("run plan.yaml").code(3);
    place.ledger("budget raise plan --tokens 50 --by ana").code(0);
    let records = place.ledger("inspect records --kind question_answered --json").lines();
    assert_eq!(records[0]["event"]["answered"]["answer"], "raise", "{records:?}");
}

/// Where more than the limit is spent, each view says so, and none shows a budget that is just used up.
#[test]
fn overrun_is_named_in_every_view_of_a_budget() {
    let place = Place::new();
    place.write("plan.yaml", OVERRUN);
    place.ledger("run plan.yaml").code(3).complains(&["token budget is overrun: 110 % is used"]);
    place.ledger("status").says(&["the run's token budget is overrun by 10 tokens"]);
    place.ledger("budget plan").code(0).says(&["[################] overrun by 10", "reserved"]);
    place.ledger("budget").code(0).says(&["its token budget is exhausted", "ledger budget plan"]);
    place.ledger("report plan --html page.html").code(0);
    let page = place.read("page.html");
    assert!(page.contains("overrun by 10"), "the page names it");
}

/// Forty steps of agents that fail in the usual ways. Every sixth fails for a reason that no rule resolves, and so does the one that is killed.
fn night() -> String {
    let step = |number: u32| {
        let timeout = if number == 9 { ", timeout_seconds: 1" } else { "" };
        let check = if number == 17 { ", acceptance: [command: test -e done-17]" } else { "" };
        format!("  - {{id: s{number}{timeout}{check}}}\n")
    };
    format!("title: Night\nsteps:\n{}", (1..=40).map(step).collect::<String>())
}

/// An agent that hangs once, lies once, is killed once, and otherwise fails at every sixth step.
const AGENT: &str = r#"#!/bin/sh
echo "$LEDGER_STEP" >> "$TALLY"
case "$LEDGER_ATTEMPT $LEDGER_STEP" in
'1 s9') sleep 600 ;;
'1 s13') kill -9 $$ ;;
'1 s17') exit 0 ;;
'1 s6' | '1 s12' | '1 s18' | '1 s24' | '1 s30' | '1 s36') echo 'no such model' >&2; exit 1 ;;
esac
touch "done-${LEDGER_STEP#s}"
"#;

/// The status of the morning fits one screen: what went wrong is there, before what comes next, and what went well is
/// counted.
fn expect_one_screen(place: &Place) {
    let status = place.ledger("status --since 9h").code(0).says(&[
        "7 questions are about failures: one answer for all of them, or for each one by its number",
        "ledger answer --all night retry   # dispatches the steps again",
        "and 2 more of these",
        "8 failed attempts, 1 failed check, ",
        " steps accepted, cost $0.00",
        "#17 s17: criterion 1 fails",
        "; accepted since",
        "#36 s36: failed (unknown): exit status 1: no such model",
    ]);
    let lines: Vec<&str> = status.out.lines().collect();
    assert!((24..=40).contains(&lines.len()), "{} lines:\n{}", lines.len(), status.out);
    assert!(!status.out.contains(": accepted\n"), "{}", status.out);
    let place_of = |text: &str| lines.iter().position(|line| line.contains(text)).unwrap();
    assert!(place_of("--all night retry") < place_of("question ") + 5);
    assert!(place_of("and 2 more of these") < place_of("ledger resume"));
}

/// Where several failures wait for a person, one command for all of them comes first; then each failure, and then what is
/// no problem. Each answer says what it does, for people and for programs.
#[test]
fn next_offers_one_answer_to_many_failures_first() {
    let place = failed();
    let next = place.ledger("next").code(0).says(&[
        "run plan: 5 questions are about failures: ",
        "ledger answer --all plan retry   # dispatches the steps again\n",
        "ledger answer --all plan skip    # continues without the steps\n",
        "ledger answer --all plan abort   # ends the run\n",
        " yes   # dispatches the step\n",
        " no    # fails the step, which is not dispatched\n",
    ]);
    assert!(
        !next.out.contains("retry  # dispatches the step again"),
        "once is enough: {}",
        next.out
    );
    let lines = place.ledger("next --json").code(0).lines();
    let of_person: Vec<&Value> = lines.iter().filter(|line| line["group"] == "person").collect();
    let actions: Vec<_> = of_person.iter().map(|line| line["action"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        ["answer_all", "question", "question", "question", "question", "question", "question"]
    );
    assert_eq!((&of_person[1]["step"], &of_person[6]["step"]), (&json!("a"), &json!("deploy")));
    assert_eq!(of_person[0]["commands"][0], "ledger answer --all plan retry");
    assert_eq!(of_person[1]["commands"].as_array().unwrap().len(), 5, "programs get each one");
    for line in of_person {
        let count = |member: &str| line[member].as_array().unwrap().len();
        assert_eq!(count("commands"), count("effects"), "{line}");
    }
    let agent = start(place.command(&["next"]).env("CLAUDECODE", "1")).end();
    assert!(!agent.out.contains("ledger answer"), "{}", agent.out);
}

/// A single failure says what each of its answers does.
#[test]
fn each_answer_to_a_failure_says_what_it_does() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'false'}]");
    let effects = [
        "retry   # dispatches the step again\n",
        "skip    # continues without the step\n",
        "fail    # fails the step permanently, which blocks its dependents\n",
        "replan  # requests a new version of the plan\n",
        "abort   # ends the run\n",
    ];
    let of_run = place.ledger("run plan.yaml").code(3);
    of_run.says(&effects);
    for view in ["status", "next", "questions"] {
        place.ledger(view).code(0).says(&effects);
    }
}

/// The runner is killed in the night, and seven steps wait for a decision: two commands are typed in the morning.
#[test]
fn morning_after_a_night_of_failures_takes_two_commands() {
    let place = Place::new();
    place.write("night.yaml", night());
    executable(&place, "agent.sh", AGENT);
    let evening =
        ["run", "night.yaml", "--worker", "./agent.sh", "--max-parallel", "1", "--kill-at", "38"];
    assert!(place.ledger_with(&evening).was_killed());
    let open = place.ledger("questions --json").lines();
    assert_eq!(steps(&open, "next"), ["s6", "s12", "s13", "s18", "s24", "s30", "s36"]);
    expect_one_screen(&place);
    let mut typed = Vec::new();
    let mut person = |line: &str| {
        typed.push(line.to_owned());
        place.ledger(line)
    };
    person("answer --all retry").code(0).says(&["step 36 (s36): the step is ready"]);
    person("resume").code(0).says(&["40 of 40 steps accepted"]);
    assert!(typed.len() <= 2, "{typed:?}");
    // What was accepted in the evening was not done again.
    let attempts = place.tally();
    for number in 1..=40 {
        let step = format!("s{number}");
        let count = attempts.iter().filter(|it| **it == step).count();
        assert!((1..=2).contains(&count), "{step}: {attempts:?}");
    }
}

/// A run that its runner paused because every worker failed continues with the command that retries what failed.
#[test]
fn retrying_what_failed_continues_a_run_that_its_runner_paused() {
    let place = Place::new();
    let steps: Vec<String> = (0..8).map(|n| format!("{{id: s{n}}}")).collect();
    place.write("plan.yaml", format!("steps: [{}]", steps.join(", ")));
    let worker = "[ -e repaired ] || { echo not logged in >&2; exit 1; }";
    let evening = ["run", "plan.yaml", "--worker", worker, "--limit-waits", "1s,1s,1s"];
    place.ledger_with(&evening).code(3).says(&["paused by its runner"]);
    place.write("repaired", "");
    place.ledger("resume --retry-failed").code(0).says(&["8 of 8 steps accepted"]);
}
