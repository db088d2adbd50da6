//! Goal: a session of an agent host gets the plan back when it starts and after a compaction, keeps its
//! leases while it works, and is held at most twice while a claim of it is open. A hook that fails blocks
//! nothing.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use super::command::{Ended, PROGRAM, Place, start, wait_until};

/// A step with a criterion that only a person can judge, and one after it.
const PLAN: &str = "\
title: Release 1.2
defaults: {lease_seconds: 600}
steps:
  - {id: build-wheel, goal: Build the wheel, acceptance: [it works]}
  - {id: publish, goal: Publish it, after: [build-wheel]}
";

const SESSION: &str = "4f2c1d3e-aaaa-bbbb";
const WORKER: &str = "claude-code/4f2c1d3e";

/// Sends an event with this input, as a host does.
fn send(place: &Place, host: &str, event: &str, input: impl AsRef<[u8]>) -> Ended {
    let input_path = place.write("hook-input", input);
    let mut command = place.command(&["hook", host, event]);
    command.env("XDG_STATE_HOME", place.path("state")).env_remove("CLAUDE_ENV_FILE");
    command.stdin(std::fs::File::open(input_path).unwrap());
    start(&mut command).end()
}

/// The answer to an event of a session in the folder of the place.
fn answer(place: &Place, host: &str, event: &str, members: &Value) -> Option<Value> {
    let mut input = json!({ "session_id": SESSION, "cwd": place.path("") });
    input.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let out = send(place, host, event, input.to_string()).code(0).out;
    (!out.is_empty()).then(|| serde_json::from_str(&out).unwrap())
}

fn context(answer: Option<Value>) -> String {
    answer.unwrap()["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
}

/// Claims the first step under a name that the session does not know, and shows the answer to its hook.
fn claim_with_a_tool(place: &Place, name: &str, answer_of_tool: impl Fn(&str) -> Value) -> String {
    let claimed = place.ledger(&format!("claim --worker {name} --json")).code(0);
    let token = claimed.lines()[0]["token"].as_str().unwrap().to_owned();
    let input = json!({ "tool_name": "Bash", "tool_response": answer_of_tool(&claimed.out) });
    assert_eq!(answer(place, "claude-code", "PostToolUse", &input), None);
    token
}

/// Story: the hooks of a checkout told the agents of a runner to claim steps and to report them.
#[test]
fn agent_of_a_runner_is_told_of_its_step_only() {
    let place = Place::new();
    place.write("input", json!({ "session_id": SESSION, "cwd": place.path("") }).to_string());
    let command = format!("{PROGRAM} hook claude-code SessionStart < input > told");
    let steps = format!("{{id: a, goal: Build the wheel, command: '{command}'}}");
    place.write("plan.yaml", format!("steps: [{steps}, {{id: other, command: 'true'}}]"));
    place.ledger("run plan.yaml --max-parallel 1").code(0);
    let told = place.read("told");
    for words in ["an attempt at step a of run plan: Build the wheel", "release no step"] {
        assert!(told.contains(words), "{told}");
    }
    assert!(!told.contains("#2") && !told.contains("ledger_claim"), "{told}");
}

/// A session learns that its ledger is gone, and decides nothing about it.
#[test]
fn session_is_told_of_a_ledger_that_is_gone() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    let mut run = place.command(&["run", "plan.yaml", "--stub"]);
    start(run.env("XDG_STATE_HOME", place.path("state"))).end().code(0);
    std::fs::remove_dir_all(place.path(".ledger")).unwrap();
    let text = context(answer(&place, "claude-code", "SessionStart", &json!({})));
    assert!(text.contains("a ledger with at least ") && text.contains("it is gone"), "{text}");
    assert!(text.contains("tell the user") && !text.contains("--accept-rollback"), "{text}");
    assert_eq!(answer(&place, "claude-code", "Stop", &json!({})), None);
}

#[test]
fn session_gets_the_prime_at_its_start_and_after_a_compaction() {
    let place = Place::planned(PLAN);
    let text =
        context(answer(&place, "claude-code", "SessionStart", &json!({"source": "startup"})));
    assert!(text.len() <= 2048, "{} bytes", text.len());
    for part in ["Release 1.2", "#1 build-wheel", "How to work", WORKER] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let prompt = || answer(&place, "claude-code", "UserPromptSubmit", &json!({"prompt": "go on"}));
    assert_eq!(prompt(), None, "the context is still there");
    assert_eq!(answer(&place, "claude-code", "PreCompact", &json!({"trigger": "auto"})), None);
    // Some hosts lose what the start of the session after a compaction prints.
    let again = answer(&place, "claude-code", "SessionStart", &json!({"source": "compact"}));
    assert!(context(again).contains("#1 build-wheel"));
    assert!(context(prompt()).contains("#1 build-wheel"));
    assert_eq!(prompt(), None, "once is enough");
}

#[test]
fn session_learns_its_claim_again_after_a_compaction() {
    let place = Place::planned(PLAN);
    let token = claim_with_a_tool(&place, "w", |out| json!({ "stdout": out }));
    answer(&place, "claude-code", "PreCompact", &json!({}));
    let text = context(answer(&place, "claude-code", "UserPromptSubmit", &json!({})));
    assert!(text.contains(&format!("token {token}: #1 build-wheel")), "{text}");
}

#[test]
fn session_is_held_while_its_claim_is_open() {
    for form in [
        |out: &str| json!({ "stdout": out, "stderr": "" }),
        |out: &str| json!([{ "type": "text", "text": out }]),
        |out: &str| serde_json::from_str(out).unwrap(),
        |out: &str| json!(json!({ "text": out }).to_string()),
    ] {
        let place = Place::planned(PLAN);
        let stop = || answer(&place, "claude-code", "Stop", &json!({ "stop_hook_active": false }));
        assert_eq!(stop(), None, "the session has claimed nothing");
        let token = claim_with_a_tool(&place, "w", form);
        let held = stop().unwrap();
        assert_eq!(held["decision"], "block");
        assert!(held["reason"].as_str().unwrap().contains("build-wheel"), "{held}");
        place.ledger(&format!("receipt {token} --output done")).code(0);
        assert_eq!(stop(), None, "a verdict is not the agent's to give");
        // The step is not done.
        assert_eq!(place.state().runs.values().next().unwrap().reported.len(), 1);
        place.ledger("accept plan build-wheel").code(0);
        assert_eq!(stop(), None);
    }
}

/// Regression: a hook that held without an end made hosts send 1,690 requests to their model.
#[test]
fn stop_hook_holds_at_most_twice_in_a_session() {
    let place = Place::planned(PLAN);
    let stop = |host: &str, event: &str, members: &Value| {
        let mut input = json!({ "session_id": SESSION });
        input.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        answer(&place, host, event, &input).is_some()
    };
    // All hosts have the same count: one of them is asked as often as a host that never stops.
    let held = |host: &str, event: &str, members: &Value| {
        let times = if host == "claude-code" { 20 } else { 4 };
        (0..times).filter(|_| stop(host, event, members)).count()
    };
    for (host, event) in [
        ("claude-code", "Stop"),
        ("codex", "Stop"),
        ("gemini", "AfterAgent"),
        ("vscode", "Stop"),
        ("cursor", "stop"),
        ("opencode", "session.idle"),
    ] {
        let token = place.ledger(&format!("claim --worker {host}/4f2c1d3e")).code(0).token();
        for again in [json!({ "stop_hook_active": true }), json!({ "loop_count": 1 })] {
            assert_eq!(held(host, event, &again), 0, "{host}: it was just held");
        }
        assert_eq!(held(host, event, &json!({ "stop_hook_active": false })), 2, "{host}");
        assert_eq!(held(host, event, &json!({})), 0, "{host}");
        place.ledger(&format!("release {token}")).code(0);
    }
}

/// Without an identifier there is no count: a host that does not say whether it was held is not held.
#[test]
fn session_without_an_identifier_is_held_only_at_a_first_stop() {
    let place = Place::planned(PLAN);
    place.ledger("claim --worker codex/session").code(0);
    let stop = |members: &Value| {
        let mut input = json!({ "cwd": place.path("") });
        input.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        !send(&place, "codex", "Stop", input.to_string()).code(0).out.is_empty()
    };
    assert!(stop(&json!({ "stop_hook_active": false })));
    assert!(!stop(&json!({ "stop_hook_active": true })));
    assert!(!stop(&json!({ "session_id": "../..", "stop_hook_active": true })));
    assert!(!stop(&json!({})));
}

/// A session whose count cannot be written is not held.
#[test]
fn uncounted_session_is_not_held() {
    let place = Place::planned(PLAN);
    place.ledger(&format!("claim --worker {WORKER}")).code(0);
    std::fs::create_dir_all(place.path(".ledger/work")).unwrap();
    std::fs::write(place.path(".ledger/work/holds"), "in the way").unwrap();
    assert_eq!(answer(&place, "claude-code", "Stop", &json!({})), None);
}

/// Exit code 2 tells a host that it must not stop.
#[test]
fn usage_errors_of_a_hook_never_have_the_code_that_blocks_a_host() {
    let place = Place::planned(PLAN);
    for line in [
        "hook",
        "hook claude-code",
        "hook claude-code Stop more",
        "hook claude-code Stop --unknown",
        "hook --unknown claude-code Stop",
        "hook claude-code Stop --color sometimes",
        "--color sometimes hook claude-code Stop",
        "--unknown hook claude-code Stop",
        "--unknown word hook codex Stop",
        "hook claude-code StopOfAnotherVersion",
        "hook another-host Stop",
    ] {
        let ended = place.ledger(line).code(1);
        assert!(ended.out.is_empty() && !ended.err.is_empty(), "{line}: {ended:?}");
    }
    // The code in the JSON is that of the process.
    for line in ["hook claude-code --json", "--json hook", "hook --json --unknown codex Stop"] {
        let ended = place.ledger(line).code(1);
        assert_eq!(ended.lines()[0]["exit_code"], 1, "{line}: {ended:?}");
    }
    assert_eq!(place.ledger("note --unknown --json").code(2).lines()[0]["exit_code"], 2);
    place.ledger("hook --help").code(0);
    // Other commands keep the code of wrong usage, whatever their words are.
    place.ledger("note --unknown hook").code(2);
    place.ledger("help --unknown hook").code(2);
}

/// Regression: the hook named the number of the claim as its token, which is refused without its secret.
#[test]
fn hook_names_no_token_that_it_does_not_know() {
    let place = Place::planned(PLAN);
    let token = place.ledger(&format!("claim --worker {WORKER}")).code(0).token();
    let number = token.split('-').next().unwrap().to_owned();
    let held = answer(&place, "claude-code", "Stop", &json!({})).unwrap()["reason"].to_string();
    let release = "ledger release --step build-wheel --run plan";
    assert!(held.contains(release) && held.contains("ledger claim"), "{held}");
    let prime = context(answer(&place, "claude-code", "SessionStart", &json!({})));
    for text in [held, prime] {
        for wrong in [format!("token {number}"), format!("receipt {number}")] {
            assert!(!text.contains(&wrong), "{wrong} in {text}");
        }
    }
    // It is its own claim, so the session may release it.
    let words: Vec<&str> = release.split(' ').skip(1).collect();
    let mut command = place.command(&words);
    command.env_remove("LEDGER_BY").envs([
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_SESSION_ID", SESSION),
        ("AI_AGENT", "claude-code_2-1-197_agent"),
    ]);
    start(&mut command).end().code(0);
    assert_eq!(answer(&place, "claude-code", "Stop", &json!({})), None);
}

#[test]
fn claim_under_the_name_of_the_session_is_its_own() {
    let place = Place::planned(PLAN);
    let stop = || answer(&place, "claude-code", "Stop", &json!({}));
    let token = place.ledger("claim --worker other").code(0).token();
    assert_eq!(stop(), None, "another worker has the step");
    place.ledger(&format!("release {token}")).code(0);
    let token = place.ledger(&format!("claim --worker {WORKER}")).code(0).token();
    assert_eq!(stop().unwrap()["decision"], "block");
    place.ledger(&format!("release {token}")).code(0);
    assert_eq!(stop(), None, "a released claim holds nothing");
}

#[test]
fn tokens_that_the_agent_only_mentions_are_not_claims() {
    let place = Place::planned(PLAN);
    let other = place.ledger("claim --worker other --json").code(0);
    let input = json!({
        "tool_input": { "command": other.out },
        "tool_response": { "stdout": "token 6 is in use" },
    });
    assert_eq!(answer(&place, "claude-code", "PostToolUse", &input), None);
    assert_eq!(answer(&place, "claude-code", "Stop", &json!({})), None);
}

#[test]
fn each_host_gets_its_own_form() {
    let hosts = [
        ("claude-code", "SessionStart", "Stop", "/decision"),
        ("codex", "SessionStart", "Stop", "/decision"),
        ("gemini", "SessionStart", "AfterAgent", "/decision"),
        ("vscode", "SessionStart", "Stop", "/hookSpecificOutput/decision"),
        ("cursor", "sessionStart", "stop", "/followup_message"),
        ("opencode", "session.created", "session.idle", "/hold"),
    ];
    for (host, start, stop, hold) in hosts {
        let place = Place::planned(PLAN);
        let ids = json!({ "conversation_id": SESSION, "sessionId": SESSION, "sessionID": SESSION });
        let primed = answer(&place, host, start, &ids).unwrap();
        assert!(primed.to_string().contains("#1 build-wheel"), "{host}: {primed}");
        place.ledger(&format!("claim --worker {host}/4f2c1d3e")).code(0);
        let held = answer(&place, host, stop, &ids).unwrap();
        assert!(held.pointer(hold).is_some(), "{host}: {held}");
        assert!(held.to_string().contains("build-wheel"), "{host}: {held}");
    }
}

#[test]
fn task_of_the_host_is_completed_only_when_its_step_is_accepted() {
    let place = Place::planned(PLAN);
    let complete = |subject: &str| {
        let input =
            json!({ "session_id": SESSION, "cwd": place.path(""), "task_subject": subject });
        send(&place, "claude-code", "TaskCompleted", input.to_string())
    };
    complete("write the changelog").code(0);
    complete("publish the notes").code(0);
    for subject in ["build-wheel", "Do #1 first", "publish: upload", "step `publish`"] {
        complete(subject).code(2).complains(&["has not accepted"]);
    }
    let token = place.ledger("claim --worker w").code(0).token();
    place.ledger(&format!("receipt {token} --output done")).code(0);
    complete("build-wheel").code(2).complains(&["it is reported", "not yours to give"]);
    place.ledger("accept plan build-wheel").code(0);
    complete("build-wheel").code(0);
}

/// A task of the host is held back at most twice in a session; then its user is told that the step is not accepted.
#[test]
fn task_of_the_host_is_held_back_at_most_twice() {
    let place = Place::planned(PLAN);
    let complete = |session: Option<&str>, subject: &str| {
        let mut input = json!({ "cwd": place.path(""), "task_subject": subject });
        input["session_id"] = session.into();
        send(&place, "claude-code", "TaskCompleted", input.to_string())
    };
    let told = |ended: Ended| -> String {
        let out: Value = serde_json::from_str(&ended.code(0).out).unwrap();
        out["systemMessage"].as_str().unwrap().to_owned()
    };
    for (session, subject) in [("s1", "build-wheel"), ("s1", "Do #1 first"), ("s2", "build-wheel")]
    {
        for _ in 0..2 {
            complete(Some(session), subject).code(2).complains(&["has not accepted"]);
        }
        for _ in 0..20 {
            let text = told(complete(Some(session), subject));
            assert!(text.contains("has not accepted #1 build-wheel"), "{text}");
        }
    }
    // Its stops are counted on their own.
    place.ledger("claim --worker claude-code/s1").code(0);
    let stop = || answer(&place, "claude-code", "Stop", &json!({ "session_id": "s1" }));
    assert_eq!((0..9).filter(|_| stop().is_some()).count(), 2);
    // Without an identifier there is no count.
    assert!(told(complete(None, "build-wheel")).contains("the step stays as it is"));
}

/// A claim in the shell of a host that tells no session is the session's once a hook sees the answer; one whose
/// answer no hook sees is not.
#[test]
fn claim_in_a_shell_without_a_session_is_known_by_its_answer() {
    for (mark, host, used, stops) in [
        ("GEMINI_CLI", "gemini", "AfterTool", "AfterAgent"),
        ("OPENCODE", "opencode", "tool.execute.after", "session.idle"),
    ] {
        let place = Place::planned(PLAN);
        let claim = || {
            let mut command = place.command(&["claim"]);
            start(command.env(mark, "1")).end().code(0)
        };
        let hidden = claim().token();
        assert_eq!(answer(&place, host, stops, &json!({})), None, "{host}");
        place.ledger(&format!("release {hidden}")).code(0);
        let shown = claim().out;
        let used_tool = json!({ "tool_response": { "llmContent": format!("Output: {shown}") } });
        assert_eq!(answer(&place, host, used, &used_tool), None, "{host}");
        let held = answer(&place, host, stops, &json!({})).unwrap().to_string();
        assert!(held.contains("build-wheel"), "{host}: {held}");
    }
}

#[test]
fn use_of_a_tool_renews_a_lease_that_is_half_over() {
    let place = Place::planned(&PLAN.replace("600", "2"));
    claim_with_a_tool(&place, "w", |out| json!({ "stdout": out }));
    let lease = || {
        let state = place.state();
        let run = state.runs.values().next().unwrap();
        run.steps[0].attempt().map(|attempt| attempt.lease_until)
    };
    let first = lease().unwrap();
    wait_until("a renewal", || {
        answer(&place, "claude-code", "PostToolUse", &json!({ "tool_response": "ok" }));
        lease().unwrap() > first
    });
}

#[test]
fn agent_is_told_that_another_worker_has_its_step() {
    let place = Place::planned(PLAN);
    let token = claim_with_a_tool(&place, "w", |out| json!({ "stdout": out }));
    place.ledger(&format!("release {token}")).code(0);
    place.ledger("claim --worker other").code(0);
    let told = answer(&place, "claude-code", "PostToolUse", &json!({ "tool_response": "ok" }));
    let text = context(told);
    assert!(text.contains("Stop working on #1 build-wheel") && text.contains("other"), "{text}");
    assert_eq!(answer(&place, "claude-code", "PostToolUse", &json!({})), None, "once");
}

#[test]
fn hook_without_a_ledger_answers_nothing() {
    let place = Place::new();
    for event in ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "TaskCompleted"] {
        assert_eq!(answer(&place, "claude-code", event, &json!({})), None, "{event}");
    }
}

#[test]
fn hook_that_fails_blocks_nothing() {
    let place = Place::planned(PLAN);
    let bad: [&[u8]; 4] = [b"{", b"[1]", b"\xff\xfe", b"nonsense"];
    for input in bad {
        let ended = send(&place, "claude-code", "Stop", input).code(1);
        assert!(ended.out.is_empty() && !ended.err.is_empty(), "{ended:?}");
    }
    send(&place, "claude-code", "Stop", vec![b' '; (16 << 20) + 1]).code(1).complains(&["at most"]);
    send(&place, "emacs", "Stop", "{}").code(1).complains(&["emacs", "claude-code"]);
    send(&place, "gemini", "Stop", "{}").code(1).complains(&["AfterAgent"]);
    // Members of other types than expected, and an identifier that is a path.
    let odd = json!({ "session_id": "../../etc", "cwd": 7, "source": [], "tool_response": null });
    send(&place, "claude-code", "PostToolUse", odd.to_string()).code(0);
    std::fs::write(place.path(".ledger/HEAD"), "damaged").unwrap();
    let ended = send(&place, "claude-code", "SessionStart", "{}");
    assert!(ended.status.code() != Some(2), "{ended:?}");
}

/// A host whose process ends while the hook reads its input.
#[test]
fn hook_whose_input_is_cut_blocks_nothing() {
    let place = Place::planned(PLAN);
    let mut command = place.command(&["hook", "claude-code", "Stop"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"session_id\": \"a").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
}

/// Of several hooks at once, none loses the claim of another.
#[test]
fn parallel_hooks_keep_every_claim() {
    let steps: String = (0..8).map(|n| format!("  - {{id: s{n}, goal: g}}\n")).collect();
    let place = Place::planned(&format!("steps:\n{steps}"));
    std::thread::scope(|scope| {
        for number in 0..8 {
            let place = &place;
            scope.spawn(move || {
                let claimed = place.ledger(&format!("claim --worker w{number} --json")).code(0);
                let input = json!({
                    "session_id": SESSION, "cwd": place.path(""), "tool_response": claimed.out,
                });
                let path = place.write(&format!("input{number}"), input.to_string());
                let mut command = place.command(&["hook", "claude-code", "PostToolUse"]);
                command.env("XDG_STATE_HOME", place.path("state"));
                command.stdin(std::fs::File::open(path).unwrap());
                start(&mut command).end().code(0);
            });
        }
    });
    let held = answer(&place, "claude-code", "Stop", &json!({})).unwrap();
    assert!(held["reason"].as_str().unwrap().contains("And 5 more"), "{held}");
}

/// The plugin of `OpenCode` in node, called as `OpenCode` calls it.
struct OpenCode {
    child: std::process::Child,
    to: std::process::ChildStdin,
    from: std::io::BufReader<std::process::ChildStdout>,
}

impl OpenCode {
    /// `None` if there is no node. `path` is where programs are searched.
    fn start(place: &Place, path: &str) -> Option<Self> {
        let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/interfaces/opencode.mjs");
        let mut command = std::process::Command::new("node");
        command.arg(driver).arg(place.path(".opencode/plugins/plan-ledger.js")).arg(place.path(""));
        command.current_dir(place.path("")).env("XDG_STATE_HOME", place.path("state"));
        command.env("PATH", path).env_remove("LEDGER_DIR");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            super::command::report_skipped("node is not installed");
            return None;
        };
        let (to, from) = (child.stdin.take()?, std::io::BufReader::new(child.stdout.take()?));
        Some(Self { child, to, from })
    }

    fn call(&mut self, call: &Value) -> Value {
        use std::io::BufRead as _;
        writeln!(self.to, "{call}").unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// What a message of the user has become.
    fn message(&mut self, text: &str) -> String {
        let part = json!({ "id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "text", "text": text });
        let file =
            json!({ "id": "prt_0", "type": "file", "mime": "text/plain", "url": "file:///x" });
        let answer = self.call(&json!({
            "hook": "chat.message",
            "input": { "sessionID": "ses_1", "agent": "build", "messageID": "msg_1" },
            "output": { "message": { "id": "msg_1", "role": "user" }, "parts": [file, part] },
        }));
        answer["output"]["parts"][1]["text"].as_str().unwrap().to_owned()
    }

    /// What the output of a tool has become.
    fn tool(&mut self, output: &str) -> String {
        let answer = self.call(&json!({
            "hook": "tool.execute.after",
            "input": { "tool": "bash", "sessionID": "ses_1", "callID": "call_1" },
            "output": { "title": "ledger", "output": output, "metadata": { "exit": 0 } },
        }));
        answer["output"]["output"].as_str().unwrap().to_owned()
    }

    /// The texts with which the plugin continues the session after an event.
    fn event(&mut self, kind: &str) -> Vec<String> {
        let event = json!({ "type": kind, "properties": { "sessionID": "ses_1" } });
        let answer = self.call(&json!({ "event": event }));
        let prompts = answer["prompts"].as_array().unwrap().iter();
        let text = |prompt: &Value| {
            assert_eq!(prompt["path"]["id"], "ses_1", "{prompt}");
            prompt["body"]["parts"][0]["text"].as_str().unwrap().to_owned()
        };
        prompts.map(text).collect()
    }
}

impl Drop for OpenCode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Story: the plugin of `OpenCode` was never run.
/// Goal: called as `OpenCode` calls it, it primes a session at its first message and after a compaction, renews
/// the leases of its claims, and continues it while one is open, at most twice.
#[test]
fn plugin_of_opencode_primes_renews_and_holds() {
    // A lease is renewed when it is half over.
    let place = Place::planned(&PLAN.replace("lease_seconds: 600", "lease_seconds: 20"));
    place.ledger("setup opencode").code(0);
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ledger")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let Some(mut host) = OpenCode::start(&place, &path) else { return };
    let first = host.message("Go on");
    assert!(first.starts_with("Go on\n\n") && first.contains("#1 build-wheel"), "{first}");
    assert_eq!(host.message("Go on"), "Go on", "the context is still there");
    for kind in ["session.updated", "message.part.updated", "session.idle"] {
        assert_eq!(host.event(kind), Vec::<String>::new(), "{kind}: nothing is claimed");
    }
    let nothing = host.call(&json!({ "event": { "type": "server.connected", "properties": {} } }));
    assert_eq!(nothing["prompts"], json!([]));

    let claimed = place.ledger("claim --worker w --json").code(0);
    let token = claimed.lines()[0]["token"].as_str().unwrap().to_owned();
    assert_eq!(host.tool(&claimed.out), claimed.out);
    let lease = || {
        let state = place.state();
        let (run, number) = *state.in_flight.values().next().unwrap();
        let attempt =
            state.runs.get(&run).unwrap().step(number).unwrap().attempt().unwrap().clone();
        attempt.lease_until
    };
    let before = lease();
    wait_until("the lease is renewed", || {
        host.tool("some output");
        lease() > before
    });
    let held = host.event("session.idle");
    assert!(held.len() == 1 && held[0].contains("build-wheel"), "{held:?}");
    assert_eq!(host.event("session.compacted"), Vec::<String>::new());
    let again = host.message("Go on");
    assert!(again.contains(&format!("token {token}: #1 build-wheel")), "{again}");
    let held: usize = (0..12).map(|_| host.event("session.idle").len()).sum();
    assert_eq!(held, 1, "twice, the first one included");

    place.ledger(&format!("receipt {token}")).code(0);
    place.ledger("accept build-wheel --by ana").code(0);
    assert_eq!(host.event("session.idle"), Vec::<String>::new());
}

/// A session goes on where there is no program `ledger`, and where there is no ledger.
#[test]
fn plugin_of_opencode_without_a_ledger_changes_nothing() {
    let place = Place::new();
    place.ledger("setup opencode").code(0);
    let folder = place.path("bin");
    std::fs::create_dir(&folder).unwrap();
    let node = std::env::var("PATH")
        .unwrap()
        .split(':')
        .map(|it| format!("{it}/node"))
        .find(|it| std::path::Path::new(it).exists());
    let Some(node) = node else {
        return super::command::report_skipped("node is not installed");
    };
    std::os::unix::fs::symlink(node, folder.join("node")).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ledger")).parent().unwrap();
    for path in
        [folder.display().to_string(), format!("{}:{}", program.display(), folder.display())]
    {
        let Some(mut host) = OpenCode::start(&place, &path) else { return };
        assert_eq!(host.message("Go on"), "Go on", "{path}");
        assert_eq!(host.tool("output"), "output");
        assert_eq!(host.event("session.idle"), Vec::<String>::new());
    }
}
