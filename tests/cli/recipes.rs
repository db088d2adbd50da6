//! The recipes of `examples/recipes`, each with a fake agent: the agent's command line, its input, and
//! the receipt made from its answer.

use std::path::Path;
use std::process::Command;

use plan_ledger::plan::StepEvent;
use plan_ledger::{Environment, Event, FailureClass, Ledger, Outcome, Receipt};
use serde_json::{Value, json};

use super::command::{Ended, Place, Running, report_skipped, start, wait_until};
use super::published::check_input;

/// A fake agent that records its arguments and input, and prints the next prepared answer.
const FAKE_AGENT: &str = r#"#!/bin/bash
n=$(ls "$FAKES"/called-* 2>/dev/null | wc -l)
printf '%s\0' "$@" > "$FAKES/called-$n"
cat > "$FAKES/input-$n"
for word in "$@"; do test "$last" = --output-last-message && cat "$FAKES/message-$n" > "$word"; last=$word; done
cat "$FAKES/answer-$n"
test ! -e "$FAKES/status-$n" || exit $(cat "$FAKES/status-$n")
"#;

/// A folder with fake agents on the path.
struct RecipeTest {
    place: Place,
}

impl RecipeTest {
    /// Sets up fake agents; `None` if jq is not installed.
    fn new(agents: &[&str]) -> Option<Self> {
        if !Command::new("jq").arg("--version").output().is_ok_and(|it| it.status.success()) {
            report_skipped("jq is not installed");
            return None;
        }
        let place = Place::new();
        std::fs::create_dir(place.path("bin")).unwrap();
        for agent in agents {
            let path = place.write(&format!("bin/{agent}"), FAKE_AGENT);
            assert!(Command::new("chmod").arg("+x").arg(path).status().unwrap().success());
        }
        Some(Self { place })
    }

    fn set_answer(&self, n: u32, answer: &Value) {
        self.place.write(&format!("answer-{n}"), answer.to_string());
    }

    fn run(&self, options: &[&str]) -> Ended {
        let words = [&["run", "plan.yaml", "--on-unknown", "retry"], options].concat();
        let mut command = self.place.command(&words);
        command
            .env("PATH", self.search_path())
            .env("FAKES", self.place.path(""))
            .env("CLAUDE_FLAGS", "--model m");
        command.env("CODEX_FLAGS", "--model m");
        start(&mut command).end()
    }

    fn start(&self, options: &[&str]) -> Running {
        let words = [&["run", "plan.yaml"], options].concat();
        let mut command = self.place.command(&words);
        command.env("PATH", self.search_path()).env("FAKES", self.place.path(""));
        start(&mut command)
    }

    /// Runs a recipe without a runner, on a task.
    fn by_hand(&self, name: &str, task: &Value) -> Ended {
        let input = self.place.write("task", task.to_string());
        let mut command = Command::new(recipe(name));
        command.env("PATH", self.search_path()).env("FAKES", self.place.path(""));
        command.env("LEDGER_RECEIPT", self.place.path("receipt"));
        start(command.stdin(std::fs::File::open(input).unwrap())).end()
    }

    fn search_path(&self) -> String {
        format!("{}:{}", self.place.path("bin").display(), std::env::var("PATH").unwrap())
    }

    /// The arguments of call `n` of the agent.
    fn arguments(&self, n: u32) -> Vec<String> {
        let words = self.place.read(&format!("called-{n}"));
        words.trim_end_matches('\0').split('\0').map(str::to_owned).collect()
    }

    /// The value of an option in call `n`.
    fn option(&self, n: u32, name: &str) -> String {
        let words = self.arguments(n);
        let place = words.iter().position(|word| word == name);
        words[place.unwrap_or_else(|| panic!("no {name} in {words:?}")) + 1].clone()
    }

    /// The input of call `n`.
    fn input(&self, n: u32) -> Value {
        let text = self.place.read(&format!("input-{n}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn receipts(&self) -> Vec<Receipt> {
        let ledger = self.place.path(".ledger");
        let (ledger, _) = Ledger::open_with(&ledger, &Environment::system()).unwrap();
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

/// The documented output of Claude Code in print mode.
fn claude_answer(result: &str, subtype: &str) -> Value {
    json!({
        "type": "result", "subtype": subtype, "is_error": subtype != "success", "result": result,
        "total_cost_usd": 0.0125, "num_turns": 2,
        "usage": { "input_tokens": 10, "cache_read_input_tokens": 200, "output_tokens": 7 },
    })
}

/// The first attempt fails, the second one gets its error and succeeds, and both costs count.
#[test]
fn claude_code_recipe_retries_and_counts_costs() {
    let Some(test) = RecipeTest::new(&["claude"]) else { return };
    let plan = "steps: [{id: a, goal: make it, tools: ['Bash(make *)', Edit], changes: [x.txt]}]\n";
    test.place.write("plan.yaml", plan);
    test.set_answer(0, &claude_answer("I could not", "error_during_execution"));
    test.set_answer(1, &claude_answer(r#"{"rows": 3}"#, "success"));
    let worker = recipe("claude-code.sh");
    test.run(&["--worker", &worker]).code(0).says(&["cost $0.025 and 434 tokens"]);
    let words = test.arguments(0);
    assert_eq!((words[0].as_str(), words.last().unwrap().as_str()), ("-p", "m"));
    assert!(words[1].contains("previous_attempts"), "{words:?}");
    assert_eq!(test.option(0, "--output-format"), "json");
    assert_eq!(test.option(0, "--permission-mode"), "acceptEdits");
    assert_eq!(test.option(0, "--allowedTools"), "Bash(make *),Edit");
    check_input("hand_off", &test.input(1));
    assert_eq!(test.input(1)["previous_attempts"][0]["message"], "I could not");
    let receipts = test.receipts();
    assert_eq!(receipts[1].output.inline().unwrap().value(), json!({ "rows": 3 }));
    assert_eq!(receipts[1].cost.money_micros, 12_500);
}

/// What the last receipt says about a failure: its class, and how long to wait.
fn failure(test: &RecipeTest) -> (FailureClass, Option<u64>) {
    match test.receipts().pop().unwrap().outcome {
        Outcome::Failed { class, payload, .. } => {
            (class, payload.value()["retry_after_seconds"].as_u64())
        }
        outcome => panic!("{outcome:?}"),
    }
}

/// Runs until the first attempt has failed, and stops the runner, which would wait for the next one.
fn run_until_failure(test: &RecipeTest, worker: &str) {
    let mut run = test.start(&["--worker", worker, "--grace", "0"]);
    wait_until("the attempt failed", || run.complained("failed: ") || run.is_over());
    run.signal("TERM");
    run.end();
}

const LIMIT_OF_CLAUDE: &str = "You've hit your limit \u{b7} resets 3:30am (Europe/Moscow)";
const OVERLOAD_OF_CLAUDE: &str = "API Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}";

/// A usage limit, an overload and a missing login: each is a failure of its own class, and says when to
/// try again.
#[test]
fn claude_code_recipe_waits_for_limits() {
    let cases = [
        (LIMIT_OF_CLAUDE, FailureClass::Transient, 60..86_500),
        ("Claude AI usage limit reached|4000000000", FailureClass::Transient, 1_000_000..u64::MAX),
        (OVERLOAD_OF_CLAUDE, FailureClass::Transient, 60..61),
        ("Invalid API key \u{b7} Please run /login", FailureClass::Deterministic, 0..0),
    ];
    for (message, class, wait) in cases {
        let Some(test) = RecipeTest::new(&["claude"]) else { return };
        test.place.write("plan.yaml", "steps: [{id: a, goal: make it}]\n");
        let mut answer = claude_answer(message, "success");
        answer["is_error"] = true.into();
        answer["session_id"] = "0199-session".into();
        test.set_answer(0, &answer);
        test.place.write("status-0", "1");
        run_until_failure(&test, &recipe("claude-code.sh"));
        let (found, seconds) = failure(&test);
        assert_eq!(found, class, "{message}");
        assert_eq!(seconds.is_some(), !wait.is_empty(), "{message}");
        assert!(seconds.is_none_or(|seconds| wait.contains(&seconds)), "{message}: {seconds:?}");
        assert_eq!(test.receipts()[0].cost.money_micros, 12_500);
    }
}

/// The session of an attempt that was interrupted is continued, and a refused permission is in the log.
#[test]
fn claude_code_recipe_continues_the_session_of_an_interrupted_attempt() {
    let Some(test) = RecipeTest::new(&["claude"]) else { return };
    let mut answer = claude_answer("made it", "success");
    answer["permission_denials"] =
        json!([{ "tool_name": "Bash", "tool_input": { "command": "rm" } }]);
    test.set_answer(0, &answer);
    let attempt = json!({ "class": "transient", "log_tail": "session: 0199-a\n" });
    let task = json!({ "step": { "goal": "g" }, "previous_attempts": [attempt] });
    let ended = test.by_hand("claude-code.sh", &task);
    ended.code(0).complains(&["permission denied: Bash {\"command\":\"rm\"}"]);
    assert_eq!(test.option(0, "--resume"), "0199-a");
    let receipt: Value = serde_json::from_str(&test.place.read("receipt")).unwrap();
    assert_eq!(receipt["output"], "made it");
}

/// Goal: the night does not burn the attempts of a plan at the limits of Codex and Gemini.
#[test]
fn codex_and_gemini_recipes_wait_for_limits() {
    let codex = |message: &str| {
        let failed = json!({ "type": "turn.failed", "error": { "message": message } });
        let error = json!({ "type": "error", "message": message });
        let started = json!({ "type": "thread.started", "thread_id": "0199-t" });
        format!("{started}\nnot JSON\n{error}\n{failed}\n")
    };
    let gemini = |message: &str, code: u32| {
        let error = json!({ "type": "ApiError", "message": message, "code": code });
        json!({ "session_id": "s", "error": error }).to_string()
    };
    let limit = FailureClass::Transient;
    let cases = [
        (
            "codex",
            codex("You've hit your usage limit. Upgrade, or try again in 2 hours 13 minutes."),
            limit,
            7_980,
        ),
        ("codex", codex("stream error: stream disconnected before completion"), limit, 60),
        ("codex", codex("unexpected status 401 Unauthorized"), FailureClass::Deterministic, 0),
        ("gemini", gemini("Your quota will reset after 2h15m30s.", 429), limit, 8_130),
        ("gemini", gemini("The model is overloaded. Please try again later.", 503), limit, 60),
    ];
    for (agent, answer, class, wait) in cases {
        let Some(test) = RecipeTest::new(&[agent]) else { return };
        test.place.write("plan.yaml", "steps: [{id: a, goal: make it}]\n");
        test.place.write("answer-0", &answer);
        test.place.write("status-0", "1");
        run_until_failure(&test, &recipe(&format!("{agent}.sh")));
        let (found, seconds) = failure(&test);
        assert_eq!(found, class, "{answer}");
        assert!(seconds.unwrap_or(0).abs_diff(wait) <= 2, "{answer}: {seconds:?}");
    }
}

/// Gemini's answer is the output, its tokens count, and what is not an answer is a failure.
#[test]
fn gemini_recipe_takes_the_response_as_output() {
    let Some(test) = RecipeTest::new(&["gemini"]) else { return };
    test.place
        .write("plan.yaml", "steps: [{id: a, goal: g, tools: ['run_shell_command(make)']}]\n");
    test.place.write("answer-0", "Segmentation fault");
    test.place.write("status-0", "139");
    let tokens = |total: u64| json!({ "api": {}, "tokens": { "prompt": 1, "total": total } });
    let models = json!({ "gemini-2.5-pro": tokens(100), "gemini-2.5-flash": tokens(20) });
    let answer =
        json!({ "session_id": "s", "response": "{\"rows\": 3}", "stats": { "models": models } });
    test.place.write("answer-1", format!("Loaded cached credentials.\n{answer:#}\n"));
    test.run(&["--worker", &recipe("gemini.sh")]).code(0).says(&["120 tokens"]);
    assert_eq!(test.option(0, "--approval-mode"), "auto_edit");
    assert_eq!(test.option(0, "--allowed-tools"), "run_shell_command(make)");
    let receipts = test.receipts();
    assert_eq!(receipts[1].output.inline().unwrap().value(), json!({ "rows": 3 }));
}

/// The loops of both SDKs: a limit, an overload, a connection that breaks, a crash, and an answer.
#[test]
fn sdk_loops_report_limits_and_survive_a_crash() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|it| it.status.success()) {
        report_skipped("python3 is not installed");
        return;
    }
    let usage = json!({ "input_tokens": 100, "output_tokens": 20,
        "cache_creation_input_tokens": null, "cache_read_input_tokens": 5 });
    let text = json!({ "type": "text", "text": "{\"rows\": 3}" });
    let answers = [
        (
            "anthropic",
            json!({ "id": "msg_1", "stop_reason": "end_turn", "content": [text], "usage": usage }),
            125,
        ),
        (
            "openai",
            json!({ "id": "resp_1", "status": "completed", "output_text": "{\"rows\": 3}",
            "usage": usage, "incomplete_details": null }),
            120,
        ),
    ];
    for (sdk, answer, tokens) in answers {
        let place = Place::planned(
            "steps: [{id: a, goal: g, outputs: [rows], retry: {max_attempts: 9}}]\n",
        );
        let limit = json!({ "status_code": 429, "retry_after": "1", "message": "rate limit" });
        let overload = json!({ "status_code": 529, "retry_after": "0.2", "message": "Overloaded" });
        let lines = [limit, overload, json!({ "crash": true }), answer];
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let file = place.write("answers", lines.join("\n"));
        let run = || {
            let program = Path::new(env!("CARGO_BIN_EXE_ledger")).parent().unwrap();
            let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
            let mut python = Command::new("python3");
            python.arg(recipe(&format!("{sdk}_loop.py"))).current_dir(place.path(""));
            python.env("PATH", path).env("ANSWERS", &file).env("PYTHONDONTWRITEBYTECODE", "1");
            python.env("PYTHONPATH", format!("{root}/tests/fixtures/sdk"));
            python.env("ANTHROPIC_MODEL", "m").env("OPENAI_MODEL", "m");
            python.env("PRICE_IN", "3").env("PRICE_OUT", "15");
            start(&mut python).end()
        };
        run().code(9);
        run().code(0).says(&["the run is done"]);
        let state = place.state();
        assert_eq!(state.run_named("plan").unwrap().spent().tokens, tokens, "{sdk}");
        place.ledger("get rows").code(0).says(&["3"]);
        let records = place.ledger("inspect records --kind receipt_recorded").out;
        assert!(records.contains("status 429") && records.contains("status 529"), "{records}");
    }
}

/// A person reads that the host of an agent was killed, and no event of it.
#[test]
fn killed_agent_is_named_by_its_recipe() {
    for (program, script, answer) in
        [("claude", "claude-code.sh", ""), ("codex", "codex.sh", "{\"type\":\"turn.started\"}\n")]
    {
        let Some(test) = RecipeTest::new(&[program]) else { return };
        test.place.write("answer-0", answer);
        test.place.write("status-0", "137");
        let ended = test.by_hand(script, &json!({"step": {"id": "a"}})).code(137);
        ended.complains(&[&format!("{program} gave no answer, it was killed by signal 9\n")]);
    }
}

/// Empty or non-JSON output is a failed attempt; a line with REPLAN: requests a new plan.
#[test]
fn claude_code_recipe_reports_failures_and_replan_requests() {
    let Some(test) = RecipeTest::new(&["claude"]) else { return };
    test.place.write("plan.yaml", "steps: [{id: a, goal: make it}]\nfailure: {max_replans: 1}\n");
    test.place.write("answer-0", "");
    test.place.write("status-0", "9");
    test.place.write("answer-1", "Overloaded");
    test.set_answer(2, &claude_answer("REPLAN: there is no Makefile", "success"));
    let worker = recipe("claude-code.sh");
    test.run(&["--worker", &worker]).code(3).says(&["a new plan version is needed", "no Makefile"]);
    let input = test.input(2);
    let attempts = input["previous_attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert!(attempts[0]["message"].as_str().unwrap().starts_with("exit status 9"), "{input}");
    assert!(
        attempts[1]["message"].as_str().unwrap().contains("claude gave no answer: Overloaded"),
        "{input}"
    );
    assert_eq!(test.option(0, "--allowedTools"), "Read,Edit,Write,Glob,Grep");
}

/// Codex runs non-interactively, its last message is the output, and its tokens count.
#[test]
fn codex_recipe_takes_the_last_message_as_output() {
    let Some(test) = RecipeTest::new(&["codex"]) else { return };
    test.place.write(
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
        test.place.write(&format!("answer-{n}"), events);
    }
    test.place.write("message-0", "made it\n");
    test.place.write("message-1", "REPLAN: there is nothing next");
    test.run(&["--worker", &recipe("codex.sh")]).code(3).says(&["there is nothing next"]);
    let words = test.arguments(0);
    assert_eq!((words[0].as_str(), words.last().unwrap().as_str()), ("exec", "-"));
    assert_eq!(test.option(0, "--sandbox"), "workspace-write");
    assert_eq!(test.option(0, "--model"), "m");
    assert!(words.contains(&"--json".to_owned()), "{words:?}");
    let input = test.place.read("input-0");
    let task: Value = serde_json::from_str(input.trim_end().lines().last().unwrap()).unwrap();
    check_input("hand_off", &task);
    assert_eq!(task["step"]["goal"], "make it");
    let receipts = test.receipts();
    assert_eq!(receipts[0].output.inline().unwrap().value(), json!("made it"));
    assert_eq!(receipts[0].cost.tokens, 105);
}

/// The recipe runs the script of a step or the default script, and fails a step without one.
#[test]
fn plain_recipe_runs_a_script_for_each_step() {
    let Some(test) = RecipeTest::new(&[]) else { return };
    let place = &test.place;
    place.write("plan.yaml", "steps: [{id: a, goal: g}, {id: b, goal: g, inputs: [v]}]\n");
    std::fs::create_dir(place.path("steps")).unwrap();
    let worker = recipe("plain.sh");
    place.write("steps/a.sh", "test $LEDGER_ATTEMPT = 2 || exit 75; echo '{\"v\": 1}'");
    let ended = test.run(&["--worker", &worker]).code(1);
    ended.says(&["failed: step 2 (b): deterministic: there is no script for this step"]);
    place.write("steps/default.sh", "jq -c '{step: .step.id, inputs}'");
    test.run(&["--worker", &worker, "--retry-failed"]).code(0);
    let last = test.receipts().pop().unwrap();
    assert_eq!(
        last.output.inline().unwrap().value(),
        json!({ "step": "b", "inputs": { "v": null } })
    );
}

/// The judge answers fail, then pass, then without a verdict, which leaves the criterion to a person.
#[test]
fn judge_recipe_returns_verdicts_or_leaves_them_to_a_person() {
    let Some(test) = RecipeTest::new(&["claude"]) else { return };
    let plan = "steps: [{id: a, command: echo work, acceptance: [it is good, it is short]}]\n";
    test.place.write("plan.yaml", plan);
    let verdict = |verdict: &str| {
        let output = json!({ "verdict": verdict, "evidence": "I looked" });
        json!({ "type": "result", "is_error": false, "result": "", "structured_output": output })
    };
    test.set_answer(0, &verdict("fail"));
    test.set_answer(1, &verdict("pass"));
    test.set_answer(2, &claude_answer("I do not know", "success"));
    let judge = recipe("judge.sh");
    let ended = test.run(&["--judge", &judge]).code(3);
    ended
        .complains(&["judged by judge:judge.sh: I looked"])
        .says(&["waits for a verdict on: it is short"]);
    check_input("judge_question", &test.input(1));
    assert_eq!(test.input(1)["output"], "work");
    let schema: Value = serde_json::from_str(&test.option(0, "--json-schema")).unwrap();
    assert_eq!(schema["properties"]["verdict"]["enum"], json!(["pass", "fail"]));
    assert_eq!(test.option(0, "--allowedTools"), "Read,Glob,Grep");
}

/// Models often answer in a code block.
#[test]
fn planner_recipe_accepts_a_plan_in_a_code_block() {
    let Some(test) = RecipeTest::new(&["claude"]) else { return };
    let plan =
        "steps: [{id: a, command: 'false', retry: {max_attempts: 1}}]\nfailure: {max_replans: 1}\n";
    test.place.write("plan.yaml", plan);
    let better =
        json!({ "steps": [{ "id": "a", "command": "true" }], "failure": { "max_replans": 1 } });
    test.set_answer(0, &claude_answer(&format!("```json\n{better}\n```"), "success"));
    let planner = recipe("planner.sh");
    let run = ["--planner", &planner, "--approve", "auto"];
    test.run(&run).code(0).complains(&["planner:planner.sh proposed version 2"]);
    check_input("planner_request", &test.input(0));
    assert!(test.arguments(0)[1].contains("unusable_answers"));
}
