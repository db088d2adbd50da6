//! The recipes of `examples/recipes`, each with a fake of the agent that it drives: how the agent is
//! called, what it is told, and what becomes of its answer.

use std::path::Path;
use std::process::Command;

use plan_ledger::plan::{Event, Receipt, StepEvent};
use plan_ledger::{Environment, Ledger};
use serde_json::{Value, json};

use super::command::{Ended, Place, passed_over, start};
use super::published::check_told;

/// Keeps how it was called, and prints the file that is next.
const FAKE: &str = r#"#!/bin/bash
n=$(ls "$FAKES"/called-* 2>/dev/null | wc -l)
printf '%s\0' "$@" > "$FAKES/called-$n"
cat > "$FAKES/told-$n"
for word in "$@"; do test "$last" = --output-last-message && cat "$FAKES/said-$n" > "$word"; last=$word; done
cat "$FAKES/answer-$n"
test ! -e "$FAKES/status-$n" || exit $(cat "$FAKES/status-$n")
"#;

struct Kitchen {
    place: Place,
}

impl Kitchen {
    /// With these agents; `None` where there is no jq.
    fn with(agents: &[&str]) -> Option<Self> {
        if !Command::new("jq").arg("--version").output().is_ok_and(|it| it.status.success()) {
            passed_over("jq is not installed");
            return None;
        }
        let place = Place::new();
        std::fs::create_dir(place.path("bin")).unwrap();
        for agent in agents {
            let path = place.write(&format!("bin/{agent}"), FAKE);
            assert!(Command::new("chmod").arg("+x").arg(path).status().unwrap().success());
        }
        Some(Self { place })
    }

    fn answers(&self, n: u32, answer: &Value) {
        self.place.write(&format!("answer-{n}"), answer.to_string());
    }

    fn run(&self, options: &[&str]) -> Ended {
        let path =
            format!("{}:{}", self.place.path("bin").display(), std::env::var("PATH").unwrap());
        let words = [&["run", "plan.yaml"], options].concat();
        let mut command = self.place.command(&words);
        command
            .env("PATH", path)
            .env("FAKES", self.place.path(""))
            .env("CLAUDE_FLAGS", "--model m");
        command.env("CODEX_FLAGS", "--model m");
        start(&mut command).end()
    }

    /// The words that an agent was called with.
    fn called(&self, n: u32) -> Vec<String> {
        let words = self.place.read(&format!("called-{n}"));
        words.trim_end_matches('\0').split('\0').map(str::to_owned).collect()
    }

    /// The value of an option that an agent was called with.
    fn option(&self, n: u32, name: &str) -> String {
        let words = self.called(n);
        let place = words.iter().position(|word| word == name);
        words[place.unwrap_or_else(|| panic!("no {name} in {words:?}")) + 1].clone()
    }

    fn told(&self, n: u32) -> Value {
        let text = self.place.read(&format!("told-{n}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn receipts(&self) -> Vec<Receipt> {
        let ledger = self.place.path(".ledger");
        let (ledger, _) = Ledger::open(&ledger, &Environment::system()).unwrap();
        let receipt = |event: Option<Event>| match event? {
            Event::Step(record) => match record.event {
                StepEvent::ReceiptRecorded(recorded) => Some(recorded.receipt),
                _ => None,
            },
            _ => None,
        };
        let records = ledger.replay(1).unwrap();
        records.into_iter().filter_map(|record| receipt(record.event)).collect()
    }
}

fn recipe(name: &str) -> String {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("examples/recipes")
        .join(name)
        .display()
        .to_string()
}

/// What Claude Code prints in print mode, as far as it is documented.
fn claude(result: &str, subtype: &str) -> Value {
    json!({
        "type": "result", "subtype": subtype, "is_error": subtype != "success", "result": result,
        "total_cost_usd": 0.0125, "num_turns": 2,
        "usage": { "input_tokens": 10, "cache_read_input_tokens": 200, "output_tokens": 7 },
    })
}

/// Story: the agent fails at first, is told why, and succeeds; what both times cost is counted.
#[test]
fn claude_code_works_as_it_is_told() {
    let Some(kitchen) = Kitchen::with(&["claude"]) else { return };
    let plan = "steps: [{id: a, goal: make it, tools: ['Bash(make *)', Edit], changes: [x.txt]}]\n";
    kitchen.place.write("plan.yaml", plan);
    kitchen.answers(0, &claude("I could not", "error_during_execution"));
    kitchen.answers(1, &claude(r#"{"rows": 3}"#, "success"));
    let worker = recipe("claude-code.sh");
    kitchen.run(&["--worker", &worker]).code(0).says(&["cost 0.025000 and 434 tokens"]);
    let words = kitchen.called(0);
    assert_eq!((words[0].as_str(), words.last().unwrap().as_str()), ("-p", "m"));
    assert!(words[1].contains("previous_attempts"), "{words:?}");
    assert_eq!(kitchen.option(0, "--output-format"), "json");
    assert_eq!(kitchen.option(0, "--permission-mode"), "acceptEdits");
    assert_eq!(kitchen.option(0, "--allowedTools"), "Bash(make *),Edit");
    check_told("hand_off", &kitchen.told(1));
    assert_eq!(kitchen.told(1)["previous_attempts"][0]["message"], "I could not");
    let receipts = kitchen.receipts();
    assert_eq!(receipts[1].output.inline().unwrap().value(), json!({ "rows": 3 }));
    assert_eq!(receipts[1].cost.money_micros, 12_500);
}

/// Story: the agent finds that the plan is wrong, and says so. An agent that prints nothing, or no
/// JSON, has failed.
#[test]
fn claude_code_may_ask_for_another_plan_or_fail() {
    let Some(kitchen) = Kitchen::with(&["claude"]) else { return };
    kitchen
        .place
        .write("plan.yaml", "steps: [{id: a, goal: make it}]\nfailure: {max_replans: 1}\n");
    kitchen.place.write("answer-0", "");
    kitchen.place.write("status-0", "9");
    kitchen.place.write("answer-1", "Overloaded");
    kitchen.answers(2, &claude("REPLAN: there is no Makefile", "success"));
    let worker = recipe("claude-code.sh");
    kitchen.run(&["--worker", &worker]).code(3).says(&["another plan is needed", "no Makefile"]);
    let told = kitchen.told(2);
    let attempts = told["previous_attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert!(attempts[0]["message"].as_str().unwrap().starts_with("exit status 9"), "{told}");
    assert!(
        attempts[1]["message"].as_str().unwrap().contains("claude gave no answer: Overloaded"),
        "{told}"
    );
    assert_eq!(kitchen.option(0, "--allowedTools"), "Read,Edit,Write,Glob,Grep");
}

/// Goal: Codex is called without its terminal, its last message is the output, its tokens are counted.
#[test]
fn codex_works_as_it_is_told() {
    let Some(kitchen) = Kitchen::with(&["codex"]) else { return };
    kitchen.place.write(
        "plan.yaml",
        "steps: [{id: a, goal: make it}, {id: b, after: [a], goal: next}]\n\
         failure: {max_replans: 1}\n",
    );
    let usage =
        |input| json!({ "input_tokens": input, "cached_input_tokens": 1, "output_tokens": 5 });
    for n in 0..2 {
        let events = format!(
            "{}\n{}\n",
            json!({ "type": "thread.started", "thread_id": "t" }),
            json!({ "type": "turn.completed", "usage": usage(100) })
        );
        kitchen.place.write(&format!("answer-{n}"), events);
    }
    kitchen.place.write("said-0", "made it\n");
    kitchen.place.write("said-1", "REPLAN: there is nothing next");
    kitchen.run(&["--worker", &recipe("codex.sh")]).code(3).says(&["there is nothing next"]);
    let words = kitchen.called(0);
    assert_eq!((words[0].as_str(), words.last().unwrap().as_str()), ("exec", "-"));
    assert_eq!(kitchen.option(0, "--sandbox"), "workspace-write");
    assert_eq!(kitchen.option(0, "--model"), "m");
    assert!(words.contains(&"--json".to_owned()), "{words:?}");
    let told = kitchen.place.read("told-0");
    let task: Value = serde_json::from_str(told.trim_end().lines().last().unwrap()).unwrap();
    check_told("hand_off", &task);
    assert_eq!(task["step"]["goal"], "make it");
    let receipts = kitchen.receipts();
    assert_eq!(receipts[0].output.inline().unwrap().value(), json!("made it"));
    assert_eq!(receipts[0].cost.tokens, 105);
}

/// Goal: a plain script does what its step says, and says what it cannot do.
#[test]
fn plain_scripts_work() {
    let Some(kitchen) = Kitchen::with(&[]) else { return };
    let place = &kitchen.place;
    place.write("plan.yaml", "steps: [{id: a, goal: g}, {id: b, goal: g, inputs: [v]}]\n");
    std::fs::create_dir(place.path("steps")).unwrap();
    let worker = recipe("plain.sh");
    place.write("steps/a.sh", "test $LEDGER_ATTEMPT = 2 || exit 75; echo '{\"v\": 1}'");
    let ended = kitchen.run(&["--worker", &worker]).code(1);
    ended.says(&["failed: step 2 (b): deterministic: there is no script for this step"]);
    place.write("steps/default.sh", "jq -c '{step: .step.id, inputs}'");
    kitchen.run(&["--worker", &worker, "--retry-failed"]).code(0);
    let last = kitchen.receipts().pop().unwrap();
    assert_eq!(
        last.output.inline().unwrap().value(),
        json!({ "step": "b", "inputs": { "v": null } })
    );
}

/// Story: the judge finds the work wanting, then good, then has no verdict: a person must say.
#[test]
fn a_judge_is_asked_and_believed_when_it_is_clear() {
    let Some(kitchen) = Kitchen::with(&["claude"]) else { return };
    let plan = "steps: [{id: a, command: echo work, acceptance: [it is good, it is short]}]\n";
    kitchen.place.write("plan.yaml", plan);
    let verdict = |verdict: &str| {
        let said = json!({ "verdict": verdict, "evidence": "I looked" });
        json!({ "type": "result", "is_error": false, "result": "", "structured_output": said })
    };
    kitchen.answers(0, &verdict("fail"));
    kitchen.answers(1, &verdict("pass"));
    kitchen.answers(2, &claude("I do not know", "success"));
    let judge = recipe("judge.sh");
    let ended = kitchen.run(&["--judge", &judge]).code(3);
    ended
        .complains(&["says judge:judge.sh: I looked"])
        .says(&["waits for a verdict on: it is short"]);
    check_told("judge_question", &kitchen.told(1));
    assert_eq!(kitchen.told(1)["output"], "work");
    let schema: Value = serde_json::from_str(&kitchen.option(0, "--json-schema")).unwrap();
    assert_eq!(schema["properties"]["verdict"]["enum"], json!(["pass", "fail"]));
    assert_eq!(kitchen.option(0, "--allowedTools"), "Read,Glob,Grep");
}

/// Story: the planner answers in a code block, as models do; its plan is taken all the same.
#[test]
fn a_planner_is_asked_and_its_plan_taken() {
    let Some(kitchen) = Kitchen::with(&["claude"]) else { return };
    let plan =
        "steps: [{id: a, command: 'false', retry: {max_attempts: 1}}]\nfailure: {max_replans: 1}\n";
    kitchen.place.write("plan.yaml", plan);
    let better =
        json!({ "steps": [{ "id": "a", "command": "true" }], "failure": { "max_replans": 1 } });
    kitchen.answers(0, &claude(&format!("```json\n{better}\n```"), "success"));
    let planner = recipe("planner.sh");
    let run = ["--planner", &planner, "--approve", "auto"];
    kitchen.run(&run).code(0).complains(&["planner:planner.sh made version 2"]);
    check_told("planner_request", &kitchen.told(0));
    assert!(kitchen.called(0)[1].contains("unusable_answers"));
}
