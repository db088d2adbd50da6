//! `ledger run` with hand-offs, judges, planners and people: what workers are told, who judges
//! their results, who replaces a plan that does not hold, and what the run waits for.

use std::fs;

use plan_ledger::plan::{AcceptedBasis, StepEvent};
use plan_ledger::{Ending, Environment, Event, Ledger, Run, RunStatus, StepStatus};
use serde_json::{Value, json};

use super::command::{Place, ids, start, wait_until};
use super::published::check_input;

/// Stores the hand-off in a file of its own.
const STORE: &str = "cat > hand_off-$LEDGER_STEP-$LEDGER_ATTEMPT.json; ";

/// The hand-off of an attempt, checked against its published schema.
fn hand_off(place: &Place, attempt: &str) -> Value {
    let hand_off = serde_json::from_str(&place.read(&format!("hand_off-{attempt}.json"))).unwrap();
    check_input("hand_off", &hand_off);
    hand_off
}

fn run_of(place: &Place) -> Run {
    place.state().run_named("plan").unwrap().clone()
}

/// The verdicts of a run in order: the judge, and whether it passed.
fn verdicts(place: &Place) -> Vec<(String, bool)> {
    let (ledger, _) = Ledger::open_with(&place.path(".ledger"), &Environment::system()).unwrap();
    let verdict = |event: Option<Event>| match event? {
        Event::Step(record) => match record.event {
            StepEvent::VerdictRecorded(each) => Some(each.verdict),
            _ => None,
        },
        Event::PlanVerdict(each) => Some(each.verdict),
        _ => None,
    };
    let all = ledger.replay(1).unwrap().into_iter().filter_map(|record| verdict(record.event));
    all.map(|it| (it.by, it.ruling == plan_ledger::Ruling::Pass)).collect()
}

/// The hand-off lists every earlier attempt with its failure: a failed one, one rejected by a
/// criterion, and one that was lost with its runner.
#[test]
fn hand_off_lists_all_earlier_attempts() {
    let place = Place::new();
    let command = format!(
        "{STORE} case $LEDGER_ATTEMPT in 1) echo 'no such table' >&2; exit 3;; 2) echo 7;; \
         3) touch begun; sleep 60;; *) echo 8;; esac"
    );
    place.write(
        "plan.yaml",
        format!(
            "title: t\nsteps:\n  - id: a\n    retry: {{max_attempts: 9}}\n    command: \"{}\"\n    \
             acceptance: [{{command: 'test $(cat) = 8 || {{ echo too few >&2; exit 1; }}'}}]\n",
            command.replace('"', "\\\"")
        ),
    );
    let running = start(&mut place.command(&["run", "plan.yaml"]));
    wait_until("the third attempt is running", || place.path("begun").exists());
    assert!(running.kill().was_killed());
    place.ledger("run plan.yaml --kill-orphans").code(0).says(&["run plan: done"]);
    assert_eq!(hand_off(&place, "a-1")["previous_attempts"], json!([]));
    let attempts = &hand_off(&place, "a-4")["previous_attempts"];
    assert_eq!(attempts.as_array().unwrap().len(), 3);
    assert_eq!(attempts[0]["outcome"], "failed");
    assert_eq!(attempts[0]["message"], "exit status 3: no such table");
    assert_eq!(attempts[0]["log_tail"], "no such table\n");
    assert_eq!((&attempts[1]["outcome"], &attempts[1]["attempt"]), (&json!("rejected"), &json!(2)));
    let verdict = &attempts[1]["failed_criteria"][0];
    assert_eq!(verdict["evidence"], "exit status 1\ntoo few");
    assert_eq!(
        (&attempts[2]["outcome"], &attempts[2]["class"]),
        (&json!("lost"), &json!("runner_died"))
    );
}

/// The hand-off has the neighbours of the step in the plan, also through barriers, or the full plan
/// on request.
#[test]
fn hand_off_has_the_neighbouring_steps_or_the_full_plan() {
    let place = Place::new();
    place.write(
        "plan.yaml",
        "goal: why\nsteps:
  - {id: a, goal: first}
  - {id: b, goal: second, changes: [b.txt]}
  - {id: c, goal: third, after: [both]}
  - {id: d, goal: fourth, after: [c], outputs: [x]}
  - {id: e, goal: apart}
barriers: [{id: both, members: [a, b]}]
",
    );
    let worker = format!("{STORE} echo 1");
    place.ledger_with(&["run", "plan.yaml", "--worker", &worker]).code(0);
    let ids = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    let near = &hand_off(&place, "c-1")["plan"]["near"];
    assert_eq!(ids(&near["before"]), ["a", "b"]);
    assert_eq!(near["before"][1]["changes"], json!(["b.txt"]));
    assert_eq!(ids(&near["after"]), ["d"]);
    assert_eq!(ids(&hand_off(&place, "a-1")["plan"]["near"]["after"]), ["c"]);
    let apart = &hand_off(&place, "e-1")["plan"];
    assert_eq!((&apart["near"]["before"], &apart["near"]["after"]), (&json!([]), &json!([])));
    assert_eq!((&apart["goal"], apart.get("full")), (&json!("why"), None));
    let full = ["run", "plan.yaml", "--run", "full", "--worker", &worker, "--plan-context", "full"];
    place.ledger_with(&full).code(0);
    assert_eq!(ids(&hand_off(&place, "e-1")["plan"]["full"]["steps"]), ["a", "b", "c", "d", "e"]);
}

/// The hand-off says which files changed since the plan was made, and an artifact outside the
/// step's `changes` is reported.
#[test]
fn hand_off_reports_changed_files_and_foreign_artifacts() {
    let place = Place::new();
    place.write("a.txt", "one");
    place.write("b.txt", "two");
    let receipt = r#"{"outcome":"succeeded","artifacts":[{"path":"b.txt"},{"path":"other.txt"}]}"#;
    let script = format!(
        "#!/bin/sh\n{STORE}\ncase $LEDGER_STEP in one) echo x >> a.txt;; two) echo y >> b.txt; \
         echo z > other.txt; echo '{receipt}' > $LEDGER_RECEIPT;; esac\n"
    );
    place.write("worker.sh", script);
    let plan = "steps:
  - {id: one, goal: g, changes: [a.txt, src]}
  - {id: two, goal: g, after: [one], changes: [a.txt, b.txt, new.txt]}
";
    fs::create_dir(place.path("src")).unwrap();
    place.write("plan.yaml", plan);
    let run = ["run", "plan.yaml", "--worker", "sh worker.sh"];
    let outside = "the artifact other.txt is outside the step's changes";
    let ended = place.ledger_with(&run).code(0).says(&["note: step 2 (two)", outside]);
    assert!(!ended.out.contains("b.txt"), "{}", ended.out);
    let files = hand_off(&place, "one-1")["changes"].clone();
    assert_eq!((&files[0]["state"], &files[0]["changed"]), (&json!("file"), &json!(false)));
    assert_eq!((&files[1]["state"], &files[1]["changed"]), (&json!("folder"), &Value::Null));
    let files = hand_off(&place, "two-1")["changes"].clone();
    let hash = |text: &str| {
        plan_ledger::internals::ledger::bytes_hash(&mut text.as_bytes()).unwrap().to_string()
    };
    assert_eq!(files[0]["planned_hash"], hash("one"));
    assert_eq!(files[0]["hash"], hash("onex\n"));
    let changed: Vec<_> =
        files.as_array().unwrap().iter().map(|it| it["changed"].clone()).collect();
    assert_eq!(changed, [json!(true), json!(false), json!(false)]);
    assert_eq!(files[2]["state"], "absent");
    let step = place.ledger_with(&["inspect", ".ledger", "step", "plan", "two", "--full"]).code(0);
    step.says(&[outside, &hash("twoy\n")]);

    // A new run takes the files as they are now.
    place.write("plan.yaml", plan.replace("[a.txt, b.txt", "[b.txt, a.txt"));
    place.ledger_with(&[&run[..], &["--replan"]].concat()).code(6);
    let again = [&run[..], &["--run", "again"]].concat();
    place.ledger_with(&again).code(0);
    assert_eq!(hand_off(&place, "one-1")["changes"][0]["changed"], false);
}

const JUDGED: &str = "outcome: all is hand_off
steps:
  - {id: draft, command: 'echo text $LEDGER_ATTEMPT', acceptance: [{text: it is long}, {command: 'true'}]}
  - {id: print, after: [draft], command: 'true', acceptance: [{text: it is printed}]}
test_criteria: [{text: the reader is happy}]
";

/// A judge decides each text criterion, those of the plan included, after the commands, and its
/// verdicts carry its name.
#[test]
fn judge_decides_text_criteria() {
    let place = Place::new();
    place.write("plan.yaml", JUDGED);
    place.write(
        "judge.sh",
        r#"n=$(ls question-* 2>/dev/null | wc -l); cat > question-$n.json
           grep -q 'text 1' question-$n.json && { echo '{"verdict":"fail","evidence":"too short"}'; exit; }
           echo '{"verdict": "pass", "evidence": "read it"}'"#,
    );
    let run = ["run", "plan.yaml", "--judge", "sh judge.sh", "--max-parallel", "1"];
    place.ledger_with(&run).code(0).says(&["run plan: done", "2 of 2 steps accepted"]);
    let by = |judge: &str, pass| (judge.to_owned(), pass);
    assert_eq!(
        verdicts(&place),
        [
            by("runner", true),
            by("judge:judge.sh", false),
            by("runner", true),
            by("judge:judge.sh", true),
            by("judge:judge.sh", true),
            by("judge:judge.sh", true)
        ]
    );
    let question = |n: u32| -> Value {
        let asked = serde_json::from_str(&place.read(&format!("question-{n}.json"))).unwrap();
        check_input("judge_question", &asked);
        asked
    };
    let asked = question(1);
    assert_eq!((&asked["text"], &asked["criterion"]), (&json!("it is long"), &json!(0)));
    assert_eq!((&asked["output"], &asked["attempt"]), (&json!("text 2"), &json!(2)));
    assert_eq!(
        (&asked["step"]["id"], &asked["plan"]["outcome"]),
        (&json!("draft"), &json!("all is hand_off"))
    );
    let asked = question(3);
    assert_eq!((&asked["text"], &asked["step"]), (&json!("the reader is happy"), &Value::Null));
    let run = run_of(&place);
    assert!(run.steps.iter().all(|step| step.accepted() == Some(&AcceptedBasis::Verdicts)));
}

/// A judge that fails or prints no verdict is asked once; then the criterion waits for a person.
#[test]
fn judge_without_a_verdict_leaves_it_to_a_person() {
    let answers = [
        "echo rubbish",
        "echo '{\"verdict\":\"maybe\"}'",
        "echo '{\"verdict\":\"pass\"}'; exit 1",
        "/no/such/judge",
        "kill -9 $$",
    ];
    for answer in answers {
        let place = Place::new();
        place.write("plan.yaml", JUDGED);
        let judge = format!("echo x >> $TALLY; {answer}");
        let run = ["run", "plan.yaml", "--judge", &judge];
        let waits = ["step 1 (draft) waits for a verdict on: it is long", "gave no verdict"];
        place.ledger_with(&run).code(3).says(&waits).says(&["ledger accept plan draft"]);
        assert_eq!(place.tally().len(), 1, "{answer}");
        place.ledger("accept plan draft --by ana").code(0);
        place.ledger_with(&run).code(3).says(&["step 2 (print) waits"]);
    }
}

/// A person who lets a step be retried says why, and the next attempt reads it.
#[test]
fn note_of_an_answer_reaches_the_next_attempt() {
    let place = Place::new();
    let plan = format!(
        "failure: {{rules: [{{id: ask, then: {{escalate: {{to: ana}}}}}}]}}
steps: [{{id: a, command: '{STORE}test $LEDGER_ATTEMPT = 2'}}]"
    );
    place.write("plan.yaml", plan);
    place.ledger("run plan.yaml").code(3);
    let note = "use the small model";
    let answer = ["answer", "plan", "a", "retry", "--by", "ana", "--note", note];
    place.ledger_with(&answer).code(0);
    place.ledger("run plan.yaml").code(0);
    let task: Value = serde_json::from_str(&place.read("hand_off-a-2.json")).unwrap();
    let decided = &task["previous_attempts"][0]["decision"];
    assert_eq!(*decided, json!({ "decision": "retry", "by": "ana", "note": note }));
}

/// A plan whose second step cannot succeed.
const STUCK: &str = "failure: {max_replans: 2}
steps:
  - {id: a, command: 'echo a >> $TALLY'}
  - {id: b, after: [a], command: 'echo it cannot work >&2; false', retry: {max_attempts: 1}}
  - {id: c, after: [b], command: 'echo c >> $TALLY'}
";

/// A planner that stores its requests and prints `answer`.
fn planner(place: &Place, answer: &str) -> String {
    place.write("answer", answer);
    let script = "n=$(ls request-* 2>/dev/null | wc -l); cat > request-$n.json; cat answer";
    place.write("planner.sh", script);
    "sh planner.sh".to_owned()
}

fn request(place: &Place, n: u32) -> Value {
    let asked = serde_json::from_str(&place.read(&format!("request-{n}.json"))).unwrap();
    check_input("planner_request", &asked);
    asked
}

/// The planner gets the state of the run and its plan is proposed: with `auto` it becomes active,
/// with `ask` it waits for approval. Accepted work is kept, and the run continues with the same
/// file.
#[test]
fn planner_is_asked_when_the_plan_fails() {
    for approve in ["auto", "ask"] {
        let place = Place::new();
        place.write("plan.yaml", STUCK);
        let better = STUCK.replace("echo it cannot work >&2; false", "echo b >> $TALLY");
        let planner = planner(&place, &better);
        let run = ["run", "plan.yaml", "--planner", &planner, "--approve", approve];
        if approve == "ask" {
            let words = ["version 2 of the plan", "ledger plan approve plan"];
            place.ledger_with(&run).code(3).says(&words);
            place.ledger_with(&run).code(3).says(&words);
            assert_eq!(place.tally(), ["a"], "nothing is dispatched before the approval");
            assert!(
                !place.path("request-1.json").exists(),
                "the planner is not asked while its plan waits"
            );
            place.ledger("plan approve plan --by ana").code(0);
        }
        place.ledger_with(&run).code(0).says(&["3 of 3 steps accepted"]);
        assert_eq!(place.tally(), ["a", "b", "c"]);
        let asked = request(&place, 0);
        assert_eq!(asked["request"]["trigger"]["is"], "retries_exhausted");
        assert_eq!((&asked["request"]["from"], &asked["version"]), (&json!("b"), &json!(1)));
        assert_eq!(asked["steps"][1]["last_failure"]["message"], "exit status 1: it cannot work");
        assert_eq!(
            (&asked["steps"][0]["status"], &asked["replans"]["max"]),
            (&json!("accepted"), &json!(2))
        );
        let run_now = run_of(&place);
        assert_eq!(run_now.active, 2);
        assert!(
            run_now.versions[1].reason.starts_with("planner:planner.sh: "),
            "{}",
            run_now.versions[1].reason
        );
        place.ledger_with(&run).code(0).complains(&["is done"]);
    }
}

/// A file changed since the plan was made, and the plan wants another version then: the planner is asked by the same
/// runner. Without a planner, the request names the ways out once.
#[test]
fn planner_is_asked_when_files_are_stale() {
    let place = Place::new();
    let plan = |goal: &str| {
        format!(
            "failure: {{on_stale: replan, max_replans: 2}}
steps: [{{id: a, goal: {goal}, changes: [f.txt], command: 'echo {goal} >> $TALLY'}}]"
        )
    };
    let planner = planner(&place, &plan("new"));
    place.ledger("init").code(0);
    for run in ["asked", "alone"] {
        place.write("plan.yaml", plan("old"));
        place.write("f.txt", "as planned");
        place.ledger(&format!("plan propose plan.yaml --run {run}")).code(0);
        place.write("f.txt", "changed since");
        if run == "asked" {
            let asked = ["run", "plan.yaml", "--run", run, "--planner", &planner];
            let asked = [asked.as_slice(), &["--approve", "auto"]].concat();
            place.ledger_with(&asked).code(0).says(&["1 of 1 steps accepted"]);
            assert_eq!(place.tally(), ["new"]);
            continue;
        }
        place.ledger("run plan.yaml --run alone").code(3);
        let status =
            place.ledger("status --run alone").code(0).says(&["a new plan version is needed"]);
        assert_eq!(status.out.matches("ledger retry alone a").count(), 1, "{status:?}");
        assert!(!status.out.contains("failed permanently"), "{status:?}");
    }
}

/// A worker whose step a new plan version removes is killed at once.
#[test]
fn worker_of_a_removed_step_is_killed() {
    let place = Place::new();
    let long = "  - {id: long, command: 'echo $$ >> $TALLY; exec sleep 600'}\n";
    place.write("plan.yaml", format!("{STUCK}{long}"));
    let planner = planner(&place, &STUCK.replace("echo it cannot work >&2; false", "true"));
    let slow = format!("while ! grep -q '^[0-9]' tally; do sleep 0.01; done; {planner}");
    let run = ["run", "plan.yaml", "--planner", &slow, "--approve", "auto"];
    place.ledger_with(&run).code(0).says(&["3 of 3 steps accepted"]);
    let pid = place.tally().into_iter().find(|line| line.parse::<u32>().is_ok()).unwrap();
    // Its parent was killed with it, so it may not be reaped yet.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "the worker is still alive: {stat}");
}

/// The runner renews the lease of a worker that takes longer.
#[test]
fn lease_is_renewed_while_the_worker_runs() {
    let place = Place::new();
    let step = "{id: a, lease_seconds: 1, command: 'echo x >> $TALLY; sleep 2.5'}";
    place.write("plan.yaml", format!("steps:\n  - {step}\n"));
    place.ledger("run plan.yaml").code(0).says(&["1 of 1 steps accepted", "1 attempt in total"]);
    assert_eq!(place.tally(), ["x"]);
    let renewed = place.ledger("inspect .ledger records --kind lease_renewed").code(0);
    assert!(renewed.out.lines().count() >= 2, "{}", renewed.out);
}

/// A planner that outlived its killed runner is ended by the next runner, which asks again.
#[test]
fn planner_of_a_killed_runner_is_ended_and_asked_again() {
    let place = Place::new();
    place.write("plan.yaml", STUCK);
    let planner = planner(&place, &STUCK.replace("echo it cannot work >&2; false", "true"));
    let slow = format!("test -e asked || {{ touch asked; sleep 600; }}; {planner}");
    let run = ["run", "plan.yaml", "--planner", &slow, "--approve", "auto"];
    let running = start(&mut place.command(&run));
    wait_until("the planner is running", || place.path("asked").exists());
    assert!(running.kill().was_killed());
    let ended = place.ledger_with(&run).code(0);
    ended.complains(&["an attempt or a check of an earlier runner left", "killed: s"]);
}

/// A run that its planner changed continues with the same file; `--replan` proposes the file again.
#[test]
fn run_continues_with_the_plan_of_its_planner() {
    let place = Place::new();
    let plan = format!("{STUCK}test_criteria: [{{text: good}}]\n");
    place.write("plan.yaml", &plan);
    let planner = planner(&place, &plan.replace("echo it cannot work >&2; false", "true"));
    let run = ["run", "plan.yaml", "--planner", &planner, "--approve", "auto"];
    place.ledger_with(&run).code(3).says(&["the plan waits for a verdict"]);
    place.ledger("run plan.yaml").code(3).complains(&["continues with plan version 2"]);
    place.ledger("run plan.yaml --replan").code(1);
    assert_eq!(run_of(&place).active, 3);
}

/// An unusable answer of the planner is recorded and shown to it in the next request. After three
/// the runner stops asking, also over restarts.
#[test]
fn planner_is_given_up_after_three_unusable_answers() {
    let cases = [
        ("no plan at all", "expected"),
        ("steps: []", "step"),
        ("steps: [{id: x, after: [x]}]", "cycle"),
        (STUCK, "version 1"),
    ];
    for (answer, problem) in cases {
        let place = Place::new();
        place.write("plan.yaml", STUCK);
        let planner = planner(&place, answer);
        let run = ["run", "plan.yaml", "--planner", &planner, "--approve", "auto"];
        let ended = place.ledger_with(&run).code(3).says(&["a new plan version is needed"]);
        let ended = ended.says(&["gave no usable plan", "3 of its replies were unusable"]);
        assert!(ended.out.contains("ledger plan withdraw plan"), "{}", ended.out);
        let last = request(&place, 2);
        let problems = last["unusable_answers"].as_array().unwrap();
        assert_eq!(problems.len(), 2, "{last}");
        assert!(problems[0].as_str().unwrap().contains(problem), "{problems:?}");
        place.ledger_with(&run).code(3);
        assert!(!place.path("request-3.json").exists(), "the next runner asked again");
        place.ledger("inspect .ledger variables plan").code(0).says(&["ledger.planner"]);
    }
}

/// No planner is asked once the replan limit is reached.
#[test]
fn planner_is_not_asked_beyond_the_replan_limit() {
    let place = Place::new();
    place.write("plan.yaml", STUCK.replace("max_replans: 2", "max_replans: 1"));
    let worse =
        STUCK.replace("max_replans: 2", "max_replans: 1").replace("cannot work", "still fails");
    let planner = planner(&place, &worse);
    place.ledger_with(&["run", "plan.yaml", "--planner", &planner, "--approve", "auto"]).code(1);
    assert!(place.path("request-0.json").exists() && !place.path("request-1.json").exists());
    assert_eq!(run_of(&place).status, RunStatus::Ended(Ending::Failed));
}

/// The planner extends a plan whenever few steps are open, until it says that there is no more.
#[test]
fn planner_extends_the_plan_until_it_is_complete() {
    let place = Place::new();
    place.write(
        "plan.json",
        r#"{"continues": true, "extend_at": 2, "steps": [{"id": "s0", "goal": "g"}]}"#,
    );
    place.write(
        "planner.sh",
        r#"python3 -c '
import json, sys
asked = json.load(sys.stdin)
plan, count = asked["plan"], len(asked["plan"]["steps"])
if count == 4:
    print(json.dumps({"no_more": "four are enough"}))
else:
    plan["steps"].append({"id": f"s{count}", "goal": "g"})
    print(json.dumps(plan))'"#,
    );
    let run = ["run", "plan.json", "--worker", "echo $LEDGER_STEP >> $TALLY", "--planner"];
    let run = [&run[..], &["sh planner.sh", "--approve", "auto"]].concat();
    place.ledger_with(&run).code(0).says(&["4 of 4 steps accepted"]);
    let mut tally = place.tally();
    tally.sort();
    assert_eq!(tally, ["s0", "s1", "s2", "s3"]);
}

/// `run --wait` continues when a person answers in another terminal, long before the deadline of the gate,
/// then waits for a verdict until it is interrupted. Started again, it waits for the verdict to its end.
#[test]
fn waiting_run_takes_answers_from_other_terminals() {
    for options in [&[][..], &["--json"]] {
        let place = Place::new();
        let plan = "steps:
  - {id: a, command: 'echo a >> $TALLY', gate: {question: Shall we?, deadline_seconds: 86400}}
  - {id: b, after: [a], command: 'echo b >> $TALLY', acceptance: [{text: fine}]}
";
        place.write("plan.yaml", plan);
        let words = [&["run", "plan.yaml", "--wait"], options].concat();
        let is_asked = || {
            place.path(".ledger").exists() && place.ledger("questions").out.contains("Shall we?")
        };
        let mut running = start(&mut place.command(&words));
        wait_until("the question is open", is_asked);
        assert!(!running.is_over());
        let question = match options {
            [] => "plan a".to_owned(),
            _ => run_of(&place).questions.keys().next().unwrap().0.to_string(),
        };
        let answer = format!("answer {question} yes --by ana");
        place.ledger(&answer).code(0).says(&["the step is ready"]);
        wait_until("the work is done", || place.tally() == ["a", "b"]);
        // Printed last; an earlier Ctrl-C would interrupt work, not a wait.
        wait_until("a verdict is waited for", || {
            running.complained("waits for a verdict on: fine") || running.said("\"verdicts\"")
        });
        assert!(!running.is_over());
        running.signal("INT");
        let ended = running.end().code(3);
        if options.is_empty() {
            let ended = ended.complains(&["Shall we?", "waits for a verdict on: fine"]);
            ended.says(&["run plan: waiting", "ledger accept plan b"]);
        } else {
            let lines = ended.lines();
            let waits = lines.iter().filter(|line| line["type"] == "waits");
            let kinds: Vec<_> = waits.map(|line| line["waiting_for"][0]["kind"].clone()).collect();
            assert_eq!(kinds, [json!("question"), json!("verdicts")]);
            assert_eq!(lines.last().unwrap()["outcome"], "waiting");
        }
        let run = run_of(&place);
        assert_eq!(ids(&run, StepStatus::Accepted), ["a"]);
        if options.is_empty() {
            let again = start(&mut place.command(&words));
            wait_until("a verdict is waited for", || again.complained("waits for a verdict on"));
            place.ledger("accept plan b --by ana").code(0);
            again.end().code(0).says(&["run plan: done"]);
            assert_eq!(place.tally(), ["a", "b"]);
        }
    }
}

/// What a planner made is kept: a missing ledger is created and a bad file is refused before it is called,
/// the plan is in the file, and the run is done by name.
#[test]
fn made_plan_is_kept_and_run_by_name() {
    let place = Place::new();
    let planner = "echo called >> calls; echo 'steps: [{id: a, command: echo done}]'";
    let make = |more: &[&str]| {
        let words = ["plan", "make", "--goal", "g", "--run", "made", "--planner", planner];
        place.ledger_with(&[&words[..], more].concat())
    };
    place.write("taken.yaml", "steps: []");
    make(&["-o", "taken.yaml"]).code(2).complains(&["cannot write taken.yaml: it exists"]);
    make(&["-o", "no/where.yaml"]).code(2).complains(&["its folder does not exist"]);
    assert!(!place.path("calls").exists(), "the planner was called in vain");
    let ended = make(&["-o", "plan.json"]).code(0);
    ended.complains(&[".ledger: created an empty ledger", "plan.json: the plan"]);
    assert_eq!(place.read("calls"), "called\n");
    let written: Value = serde_json::from_str(&place.read("plan.json")).unwrap();
    assert_eq!(written["steps"][0]["command"], "echo done");
    let active = place.ledger("plan approve made --by ana").code(0);
    active.says(&["is approved"]);
    let hint = place.ledger("resume made").code(2);
    hint.complains(&["start one with `ledger run made`"]);
    place.ledger("run made").code(0).says(&["run made: done"]);
    place.ledger("plan diff plan.json made").code(0);
}

/// A decider that answers `retry` forever is not obeyed forever: after the last attempt a person is asked.
#[test]
fn decider_retries_no_more_often_than_the_step_permits() {
    for (retry, attempts) in [("", 3), ("retry: {max_attempts: 2}, ", 2)] {
        let place = Place::new();
        let plan = format!(
            "failure: {{decider: external}}\nsteps: [{{id: a, {retry}command: 'echo x >> tries; exit 1'}}]"
        );
        place.write("plan.yaml", plan);
        let line =
            ["run", "plan.yaml", "--decider", r#"echo '{"decision": "retry", "reason": "again"}'"#];
        place.ledger_with(&line).code(3);
        assert_eq!(place.read("tries").lines().count(), attempts);
        place.ledger("questions").code(0).says(&["no attempt is left: again"]);
        // A person may.
        place.ledger("retry plan a").code(0);
        place.ledger("resume").code(3);
        assert_eq!(place.read("tries").lines().count(), attempts + 1);
    }
}
