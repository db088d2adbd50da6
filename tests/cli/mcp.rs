//! Goal: the tools over the Model Context Protocol do what the commands do, for each role, in both eras
//! of the protocol; a repeated call does nothing twice, and bad input is refused with a reason.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plan_ledger::internals::sim::sweep;
use serde_json::{Value, json};

use super::agents::{commands_of_persons, waiting_place};
use super::command::{Place, start, wait_until};

const PLAN: &str = "\
title: Release 1.2
steps:
  - {id: build, goal: Build the wheel, acceptance: [it works]}
  - {id: publish, goal: Publish it, after: [build]}
";

/// A client that speaks the protocol by hand.
pub(super) struct Client {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    id: u64,
    /// Whether each request carries what the stateless era demands.
    is_stateless: bool,
    /// What the client can do.
    capabilities: Value,
}

impl Client {
    fn start(place: &Place, words: &[&str]) -> Self {
        Self::start_in(place, words, &[])
    }

    /// A client of a server in the environment of a host.
    fn start_in(place: &Place, words: &[&str], marks: &[(&str, &str)]) -> Self {
        let mut command = place.command(&[&["mcp"], words].concat());
        command.envs(marks.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from, id: 0, is_stateless: false, capabilities: json!({}) }
    }

    /// A client of the era with `initialize`.
    pub(super) fn of_session(place: &Place, words: &[&str]) -> Self {
        Self::of_session_with(place, words, &json!({}))
    }

    /// A client of that era that can do something.
    fn of_session_with(place: &Place, words: &[&str], capabilities: &Value) -> Self {
        Self::start(place, words).initialized(capabilities)
    }

    /// A client of that era, of a server in the environment of a host.
    pub(super) fn of_host(place: &Place, words: &[&str], marks: &[(&str, &str)]) -> Self {
        Self::start_in(place, words, marks).initialized(&json!({}))
    }

    fn initialized(self, capabilities: &Value) -> Self {
        let mut client = self;
        let answer = client.ask(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": capabilities,
                "clientInfo": { "name": "test", "version": "0" },
            }),
        );
        assert_eq!(answer["protocolVersion"], "2025-06-18");
        assert_eq!(answer["serverInfo"]["name"], "plan-ledger");
        assert!(answer["instructions"].as_str().unwrap().len() <= 1000);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    /// A client of the stateless era.
    fn stateless(place: &Place, words: &[&str]) -> Self {
        let mut client = Self::start(place, words);
        client.is_stateless = true;
        client
    }

    fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    fn send_text(&mut self, line: &str) {
        let to = self.to.as_mut().unwrap();
        to.write_all(line.as_bytes()).and_then(|()| to.write_all(b"\n")).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn request(&mut self, method: &str, mut params: Value) -> Value {
        self.id += 1;
        if self.is_stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
        }
        json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params })
    }

    /// The result or the error of a request.
    fn exchange(&mut self, method: &str, params: Value) -> Value {
        let request = self.request(method, params);
        self.send(&request);
        let answer = self.receive();
        assert_eq!(answer["id"], self.id, "{answer}");
        answer
    }

    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.exchange(method, params);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    pub(super) fn call_any(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// The structure of a result, which has the same data as its text.
    #[track_caller]
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.call_any(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"]);
        assert!(text.to_string().len() <= 8 << 10, "{} bytes", text.to_string().len());
        text
    }

    /// The reason why a call is refused.
    #[track_caller]
    pub(super) fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call_any(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert!(result["structuredContent"].is_null(), "{result}");
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(text.starts_with("rejection: "), "{text}");
        text
    }

    /// Ends the input and waits for the end of the server.
    pub(super) fn end(mut self) {
        drop(self.to.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names(list: &Value, member: &str) -> Vec<String> {
    let items = list[member].as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

fn both_eras(check: impl Fn(&Place, Client)) {
    for is_stateless in [false, true] {
        let place = Place::planned(PLAN);
        let role = ["--role", "operator"];
        let client = if is_stateless {
            Client::stateless(&place, &role)
        } else {
            Client::of_session(&place, &role)
        };
        check(&place, client);
    }
}

#[test]
fn plan_is_worked_off_in_both_eras() {
    both_eras(|place, mut client| {
        if client.is_stateless {
            let found = client.ask("server/discover", json!({}));
            assert!(found["supportedVersions"].to_string().contains("2026-07-28"), "{found}");
        }
        let status = client.call("ledger_status", &json!({}));
        assert!(status["status"].as_str().unwrap().contains("#1 build"), "{status}");
        let task = client.call("ledger_claim", &json!({ "worker": "w" }));
        assert_eq!((&task["got"], &task["step"]["id"]), (&json!(true), &json!("build")), "{task}");
        let token = &task["token"];
        let nothing = client.call("ledger_claim", &json!({ "wait_seconds": 1 }));
        assert_eq!(nothing["got"], false, "{nothing}");
        assert_eq!(nothing["held"][0]["worker"], "w");
        let renewed = client.call(
            "ledger_heartbeat",
            &json!({
                "token": token, "effect": "upload", "effect_state": "intended",
            }),
        );
        assert!(renewed["lease_until_micros"].is_u64(), "{renewed}");
        let report = client.call(
            "ledger_report",
            &json!({
                "token": token, "outcome": "succeeded", "output": "{\"wheel\": 1}", "next": true,
            }),
        );
        // The model says that it is done: the ledger does not.
        assert_eq!(
            (&report["status"], &report["next"]["got"]),
            (&json!("reported"), &json!(false))
        );
        place.ledger("accept build --by ana").code(0);
        let task = client.call("ledger_claim", &json!({}));
        assert_eq!(task["step"]["id"], "publish");
        let released = client.call(
            "ledger_release",
            &json!({
                "token": task["token"], "began": false,
            }),
        );
        assert_eq!(released["status"], "ready");
        let task = client.call("ledger_claim", &json!({ "step": "publish" }));
        client.call("ledger_report", &json!({ "token": task["token"], "outcome": "succeeded" }));
        let over = client.call("ledger_claim", &json!({}));
        assert_eq!((&over["got"], &over["status"]), (&json!(false), &json!("done")), "{over}");
        place.ledger("status").code(0).says(&["2 of 2"]);
        client.end();
    });
}

#[test]
fn each_role_has_its_tools() {
    let place = Place::planned(PLAN);
    for (role, count) in [("viewer", 2), ("worker", 6), ("operator", 9)] {
        let mut client = Client::of_session(&place, &["--role", role]);
        let tools = names(&client.ask("tools/list", json!({})), "tools");
        assert_eq!(tools.len(), count, "{tools:?}");
        assert!(tools.contains(&"ledger_show".to_owned()));
        let prompts = names(&client.ask("prompts/list", json!({})), "prompts");
        assert_eq!(prompts.contains(&"review".to_owned()), role == "operator");
        let claims = client.call_any("ledger_claim", &json!({}));
        assert_eq!(claims["isError"], role == "viewer", "{claims}");
        let control = json!({ "action": "pause", "by": "ana" });
        if role != "operator" {
            let why = client.refused("ledger_control", &control);
            assert!(why.contains("rejection: wrong_role") && why.contains("operator"), "{why}");
            assert!(place.state().runs.values().all(|run| run.pause.is_none()));
        }
        if let Some(token) = claims["structuredContent"]["token"].as_str() {
            place.ledger(&format!("release {token}")).code(0);
        }
    }
}

#[test]
fn report_says_why_and_from_where_a_new_plan_is_needed() {
    let place =
        Place::planned("failure: {max_replans: 2}\nsteps: [{id: a}, {id: b, after: [a]}]\n");
    let mut client = Client::of_session(&place, &["--worker", "w"]);
    let first = client.call("ledger_claim", &json!({}))["token"].clone();
    client.call("ledger_report", &json!({ "token": first, "outcome": "succeeded" }));
    let second = client.call("ledger_claim", &json!({}))["token"].clone();
    let mut report = json!({
        "token": second, "outcome": "succeeded", "from": "a", "kind": "new_evidence",
    });
    let refused = client.refused("ledger_report", &report);
    assert!(refused.contains("valid only with the outcome `replan_requested`"), "{refused}");
    report["outcome"] = json!("replan_requested");
    report["message"] = json!("the bureau is another one");
    let reported = client.call("ledger_report", &report);
    assert_eq!(reported["replan"], json!({ "from": "a", "kind": "new_evidence" }));
    let kind = place.ledger("inspect .ledger records --kind replan_requested --json").lines();
    assert_eq!(kind[0]["event"]["trigger"]["is"], "new_evidence");
    client.end();
}

#[test]
fn repeated_calls_do_nothing_twice() {
    let place = Place::planned("steps: [{id: a}, {id: b}, {id: c}]\n");
    let mut client = Client::of_session(&place, &["--worker", "w"]);
    // A claim under a key, from two processes.
    let first = client.call("ledger_claim", &json!({ "key": "k" }));
    let again = client.call("ledger_claim", &json!({ "key": "k" }));
    assert_eq!(first["token"], again["token"]);
    let mut other = Client::of_session(&place, &["--worker", "w"]);
    assert_eq!(other.call("ledger_claim", &json!({ "key": "k" }))["token"], first["token"]);
    let differs = other.refused("ledger_claim", &json!({ "key": "k", "step": "b" }));
    assert!(differs.contains("key_reused"), "{differs}");
    // The same message again, as after a lost answer.
    let request = client.request("tools/call", json!({ "name": "ledger_claim", "arguments": {} }));
    client.send(&request);
    let token = client.receive()["result"]["structuredContent"]["token"].clone();
    client.send(&request);
    assert_eq!(client.receive()["result"]["structuredContent"]["token"], token);
    // A report, by its content.
    let report = json!({ "token": token, "outcome": "succeeded", "output": "1" });
    client.call("ledger_report", &report);
    let seq = place.state().seq;
    client.call("ledger_report", &report);
    other.call("ledger_report", &report);
    assert_eq!(place.state().seq, seq);
    let other_content = json!({ "token": token, "outcome": "failed" });
    assert!(client.refused("ledger_report", &other_content).contains("stale_token"));
    let release = json!({ "token": first["token"], "began": false });
    client.call("ledger_release", &release);
    client.call("ledger_release", &release);
    assert_eq!(place.state().in_flight.len(), 0);
}

/// Goal: models send objects where a text is expected, such as a plan.
#[test]
fn object_is_accepted_where_text_is() {
    let place = Place::planned(PLAN);
    let mut client = Client::of_session(&place, &["--role", "operator"]);
    let plan = json!({ "title": "T", "steps": [{ "id": "a" }, { "id": "b", "after": ["a"] }] });
    let as_text = client.call("ledger_plan", &json!({ "mode": "check", "plan": plan.to_string() }));
    let as_object = client.call("ledger_plan", &json!({ "mode": "check", "plan": plan }));
    assert_eq!((&as_object, &as_object["steps"]), (&as_text, &json!(2)));
    let note = json!({ "action": "note", "step": 1, "text": { "seen": [1, 2] }, "by": "ana" });
    assert_eq!(client.call("ledger_control", &note)["step"], "build");
    assert!(place.ledger("inspect records").out.contains("{\"seen\":[1,2]}"));
    client.end();
}

/// Goal: models send numbers as text, in every tool; they count if the text is exactly a number.
#[test]
fn text_of_a_number_is_accepted_where_a_number_is() {
    let place = Place::planned(PLAN);
    let mut client = Client::of_session(&place, &["--role", "operator"]);
    let claim = json!({ "lease_seconds": "600", "wait_seconds": "0" });
    let token = client.call("ledger_claim", &claim)["token"].clone();
    let renew = json!({ "token": token, "lease_seconds": "1200" });
    client.call("ledger_heartbeat", &renew);
    let report = json!({ "token": token, "outcome": "succeeded", "tokens": "7" });
    client.call("ledger_report", &report);
    let at = place.state().seq.to_string();
    client.call("ledger_show", &json!({ "what": "plan", "at": at }));
    for text in ["07", "+7", " 7", "7.0", "-7", "seven", ""] {
        let why = client.refused("ledger_claim", &json!({ "lease_seconds": text }));
        assert!(why.contains("lease_seconds: expected a whole number, found"), "{text:?}: {why}");
    }
    client.end();
}

#[test]
fn bad_input_is_refused_with_a_reason() {
    let place = Place::planned(PLAN);
    let mut client = Client::of_session(&place, &["--role", "operator"]);
    let unknown = format!("99-{}", "9f".repeat(16));
    for (tool, arguments, why) in [
        ("ledger_claim", json!({ "colour": 1 }), "unknown field `colour`"),
        ("ledger_claim", json!({ "wait_seconds": 51 }), "at most 50"),
        ("ledger_claim", json!({ "run": "nothing" }), "no run `nothing`"),
        ("ledger_claim", json!({ "worker": "process/1" }), "reserved"),
        ("ledger_claim", json!({ "key": "x".repeat(65) }), "1 to 64 bytes"),
        ("ledger_report", json!({ "outcome": "succeeded" }), "missing field `token`"),
        (
            "ledger_report",
            json!({ "token": "x", "outcome": "failed" }),
            "token: expected the whole token",
        ),
        ("ledger_report", json!({ "token": unknown, "outcome": "failed" }), "stale_token"),
        (
            "ledger_report",
            json!({ "token": unknown, "outcome": "perhaps" }),
            "unknown value `perhaps`, expected one of `succeeded`",
        ),
        ("ledger_show", json!({ "what": "status" }), "`questions`"),
        ("ledger_claim", json!({ "colour": 1 }), "hint: ledger_claim takes key (text); "),
        (
            "ledger_report",
            json!({ "token": unknown, "outcome": "sucess" }),
            "outcome, needed (succeeded | failed | replan_requested); token, needed (text); ",
        ),
        ("ledger_heartbeat", json!({ "token": unknown, "effect": "e" }), "expected both or none"),
        ("ledger_show", json!({ "what": "step" }), "needs the id"),
        ("ledger_show", json!({ "what": "step", "id": "nothing" }), "no step"),
        ("ledger_show", json!({ "what": "plan", "cursor": "x" }), "next_cursor"),
        ("ledger_show", json!({ "what": "plan", "at": 999 }), "999"),
        (
            "ledger_plan",
            json!({ "mode": "propose", "plan": "steps: 3", "run": "r" }),
            "invalid_plan",
        ),
        ("ledger_plan", json!({ "mode": "check" }), "one of plan and path"),
        ("ledger_plan", json!({ "mode": "check", "path": "nothing.yaml" }), "nothing.yaml"),
        ("ledger_answer", json!({ "answer": "yes", "by": "ana" }), "question or step"),
        ("ledger_answer", json!({ "question": 7, "answer": "yes", "by": "" }), "name of a person"),
        ("ledger_control", json!({ "action": "set", "by": "ana" }), "set: missing field `name`"),
        (
            "ledger_control",
            json!({ "action": "cap", "limit": "many", "by": "ana" }),
            "limit: expected a whole number, found \"many\"\nhint: ledger_control takes",
        ),
        (
            "ledger_control",
            json!({ "action": "unpause", "value": 1, "by": "ana" }),
            "unknown field `value`, expected `run` or `by`\nhint: unpause takes action, needed",
        ),
        (
            "ledger_control",
            json!({ "action": "budget", "name": "tokens", "value": 50000, "by": "ana" }),
            "hint: budget takes action, needed (withdraw | set | budget | cap | pause | unpause | cancel | note); \
             by, needed (text); change (object. Of budget: `{\"raise\": {\"tokens\": 50000}}`",
        ),
        (
            "ledger_control",
            json!({ "action": "cap", "value": 3, "by": "ana" }),
            "by, needed (text); limit (integer); run (text)",
        ),
        (
            "ledger_control",
            json!({ "action": "budget", "change": "more", "by": "ana" }),
            "change: expected an object, found \"more\"\nhint: ledger_control takes",
        ),
        (
            "ledger_answer",
            json!({ "question": 7, "step": "build", "answer": "yes", "by": "ana" }),
            "expected one of question and step, found both",
        ),
        (
            "ledger_control",
            json!({ "action": "stop", "by": "ana" }),
            "expected one of `withdraw`, `set`",
        ),
    ] {
        let text = client.refused(tool, &arguments);
        assert!(text.contains(why), "{tool} {arguments}: {text}");
    }
    client.end();
}

#[test]
fn bad_messages_are_answered_and_the_next_call_works() {
    let place = Place::planned(PLAN);
    let mut client = Client::of_session(&place, &["--role", "operator"]);
    let error = client.exchange("tools/call", json!({ "name": "ledger_dance" }))["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("ledger_claim"), "{error}");
    let error = client.exchange("resources/read", json!({ "uri": "ledger://nothing" }));
    assert!(error["error"]["message"].as_str().unwrap().contains("no resource"), "{error}");
    let error = client.exchange("prompts/get", json!({ "name": "nothing" }));
    assert!(error["error"]["message"].as_str().unwrap().contains("no prompt"), "{error}");
    assert!(client.exchange("nothing/at_all", json!({}))["error"]["code"].is_i64());
    // Not JSON, no request, and too long: each is answered, and the next call works.
    for (line, code) in [
        ("{\"jsonrpc\": ", -32700),
        ("\u{7f}\u{0}garbage", -32700),
        ("{\"jsonrpc\": \"2.0\", \"id\": 1}", -32600),
        (&format!("{{\"a\": \"{}\"}}", "x".repeat(1 << 20)), -32600),
    ] {
        client.send_text(line);
        let answer = client.receive();
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    // A message over the limit is answered under its identifier, wherever it stands in the message.
    let text = "x".repeat(1 << 20);
    for line in [
        format!("{{\"id\": 77, \"method\": \"tools/call\", \"params\": \"{text}\"}}"),
        format!(
            "{{\"params\": {{\"id\": 3, \"a\": \"{text}\"}}, \"id\": 77, \"jsonrpc\": \"2.0\"}}"
        ),
    ] {
        client.send_text(&line);
        let answer = client.receive();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(77), &json!(-32600)));
        assert!(answer["error"]["message"].as_str().unwrap().contains("files"), "{answer}");
    }
    let long = json!({ "token": format!("6-{}", "9f".repeat(16)), "outcome": "succeeded", "output": "x".repeat(900_000) });
    assert!(client.refused("ledger_report", &long).contains("stale_token"));
    assert_eq!(client.call("ledger_claim", &json!({}))["got"], true);
    client.end();
}

/// A session that waits for a step, the token on which that step depends.
fn waiting_session(place: &Place) -> (Client, String) {
    let token = place.ledger("claim --worker other").code(0).token();
    let mut client = Client::of_session(place, &[]);
    let arguments = json!({ "name": "ledger_claim", "arguments": { "wait_seconds": 50 } });
    let waits = client.request("tools/call", arguments);
    client.send(&waits);
    (client, token)
}

/// A host that dies: what still waits must not claim for it, and a message that was cut off counts for
/// nothing.
#[test]
fn cut_pipe_ends_the_server_and_claims_nothing() {
    let place = Place::planned("steps: [{id: a}, {id: b, after: [a]}]\n");
    let (mut client, token) = waiting_session(&place);
    let to = client.to.as_mut().unwrap();
    to.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/call\",\"params\":").unwrap();
    drop(client.to.take());
    wait_until("the end of the server", || client.child.try_wait().unwrap().is_some());
    place.ledger(&format!("receipt {token} --output done")).code(0);
    assert_eq!(place.state().in_flight.len(), 0);
}

/// Goal: the claims of a session end with it, however it ends: the next session has the step at once.
#[test]
fn ended_session_frees_its_step_at_once() {
    for is_served in [false, true] {
        let place = Place::planned("defaults: {lease_seconds: 36000}\nsteps: [{id: a}]\n");
        let server = is_served.then(|| {
            let server = start(place.command(&["serve"]).stdin(Stdio::null()));
            wait_until("the server listens", || place.path(".ledger/serve.sock").exists());
            server
        });
        for attempt in [1, 2, 3] {
            let mut session = Client::of_session(&place, &[]);
            let claimed = session.call("ledger_claim", &json!({}));
            assert_eq!(claimed["got"], true, "attempt {attempt}: {claimed}");
            assert_eq!(claimed["attempt"], attempt, "{claimed}");
            let mut other = Client::of_session(&place, &[]);
            assert_eq!(other.call("ledger_claim", &json!({}))["got"], false);
            if attempt == 2 {
                session.child.kill().unwrap();
                session.child.wait().unwrap();
            } else {
                session.end();
            }
        }
        let gone = place.ledger("status").code(0).says(&["its worker is gone: #1 a"]);
        assert!(!gone.out.contains("working on"), "{gone:?}");
        if let Some(server) = server {
            server.kill();
        }
    }
}

#[test]
fn waiting_claim_gets_the_step_as_soon_as_it_is_ready() {
    let place = Place::planned("steps: [{id: a}, {id: b, after: [a]}]\n");
    let (mut client, token) = waiting_session(&place);
    // Other calls are answered meanwhile.
    let arguments = json!({ "name": "ledger_status", "arguments": {} });
    let status = client.request("tools/call", arguments);
    client.send(&status);
    assert_eq!(client.receive()["id"], status["id"]);
    place.ledger(&format!("receipt {token} --output done")).code(0);
    let task = client.receive();
    assert_eq!(task["result"]["structuredContent"]["step"]["id"], "b", "{task}");
}

#[test]
fn long_answers_are_cut_and_read_page_by_page() {
    let steps: String = (0..300)
        .map(|n| format!("  - {{id: s{n}, goal: '{}'}}\n", format!("words {n} ").repeat(60)))
        .collect();
    let place = Place::planned(&format!("steps:\n{steps}"));
    let mut client = Client::of_session(&place, &[]);
    let mut text = String::new();
    let mut arguments = json!({ "what": "plan" });
    let mut pages = 0;
    loop {
        let page = client.call("ledger_show", &arguments);
        text.push_str(page["text"].as_str().unwrap());
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(cursor) => arguments["cursor"] = cursor.into(),
            None => break,
        }
        // A change in between does not mix two answers.
        place.ledger("note seen").code(0);
    }
    assert!(pages > 2, "{pages}");
    let seq = client.call("ledger_status", &json!({}))["seq"].as_u64().unwrap();
    let first = seq - (pages - 1);
    let whole = place.ledger(&format!("inspect .ledger plan --at {first}")).code(0).out;
    // The second line says how long ago the record was written.
    let plan = |text: &str| text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(plan(&text), plan(&whole));
    let task = client.call("ledger_claim", &json!({}));
    assert_eq!(task["step"]["id"], "s0");
}

#[test]
fn resources_and_prompts_are_read() {
    let place = Place::planned(PLAN);
    let mut client = Client::of_session(&place, &["--role", "viewer"]);
    let listed = client.ask("resources/list", json!({}));
    assert_eq!(listed["resources"][0]["uri"], "ledger://runs");
    let templates = client.ask("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 4);
    for (uri, expected) in [
        ("ledger://runs", "plan"),
        ("ledger://run/plan", "Release 1.2"),
        ("ledger://run/plan/plan", "build"),
        ("ledger://run/plan/step/build", "Build the wheel"),
        ("ledger://run/plan/step/%231", "Build the wheel"),
        ("ledger://run/plan/records", "version 1"),
    ] {
        let read = client.ask("resources/read", json!({ "uri": uri }));
        let text = read["contents"][0]["text"].as_str().unwrap();
        assert!(text.contains(expected), "{uri}: {text}");
    }
    let prompt = client.ask("prompts/get", json!({ "name": "resume" }));
    assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().contains("ledger_status"));
}

#[test]
fn operator_tools_plan_answer_and_control() {
    let place = Place::planned(PLAN);
    // The user is asked by no form, and lets the model decide.
    place.ledger("setup codex --agents-decide").code(0);
    let mut client = Client::of_session(&place, &["--role", "operator", "--run", "plan"]);
    let checked = client.call("ledger_plan", &json!({ "mode": "check", "plan": PLAN }));
    assert_eq!((&checked["valid"], &checked["steps"]), (&json!(true), &json!(2)), "{checked}");
    let broken = client.call("ledger_plan", &json!({ "mode": "check", "plan": "steps: [{}]" }));
    assert_eq!(broken["valid"], false);
    let new = json!({ "mode": "propose", "plan": PLAN, "run": "second" });
    assert_eq!(client.call("ledger_plan", &new)["run"], "second");
    let added = client.call("ledger_plan", &json!({
        "mode": "add_step", "id": "lint", "goal": "Run the linter", "acceptance": ["no warning"],
    }));
    assert_eq!(added["version"], 2, "{added}");
    let control = |client: &mut Client, arguments: Value| {
        let mut arguments = arguments;
        arguments["by"] = "ana".into();
        client.call("ledger_control", &arguments)
    };
    control(&mut client, json!({ "action": "pause" }));
    assert_eq!(client.call("ledger_claim", &json!({}))["reason"], "paused");
    control(&mut client, json!({ "action": "unpause" }));
    control(&mut client, json!({ "action": "set", "name": "v", "value": "[1, 2]" }));
    control(&mut client, json!({ "action": "note", "text": "seen", "step": "build" }));
    control(&mut client, json!({ "action": "cap", "limit": "1" }));
    let change = json!({ "raise": { "tokens": 5 } });
    let raise = json!({ "action": "budget", "change": change, "by": "ana" });
    assert!(client.refused("ledger_control", &raise).contains("no limit on tokens"));
    place.ledger("get v --run plan").code(0).says(&["[1,2]"]);
    for what in ["queue", "variables", "questions", "records", "plan"] {
        client.call("ledger_show", &json!({ "what": what }));
    }
    for what in ["step", "why"] {
        client.call("ledger_show", &json!({ "what": what, "id": "build" }));
    }
    control(&mut client, json!({ "action": "cancel", "reason": "enough" }));
    assert_eq!(client.call("ledger_claim", &json!({}))["status"], "cancelled");
}

/// A server that a model starts in its shell decides for no person. Where a host marks its servers like its
/// shell, the two are not told apart.
#[test]
fn server_in_the_shell_of_a_model_decides_for_no_person() {
    let claude = [("CLAUDECODE", "1"), ("CLAUDE_CODE_SESSION_ID", "4f2c1d3e-aaaa-bbbb")];
    for (marks, agent) in [
        ([claude[0], claude[1], ("AI_AGENT", "claude-code_2-1-197_agent")], true),
        ([claude[0], claude[1], ("AI_AGENT", "claude-code_2-1-197_harness")], false),
        ([("CODEX_THREAD_ID", "0199-7a11"), ("A", "1"), ("B", "1")], true),
        ([("GEMINI_CLI", "1"), ("A", "1"), ("B", "1")], false),
        ([("OPENCODE", "1"), ("A", "1"), ("B", "1")], false),
    ] {
        let place = Place::planned(PLAN);
        let words = ["--role", "operator", "--run", "plan"];
        let mut client = Client::start_in(&place, &words, &marks);
        client.is_stateless = true;
        client.capabilities = json!({ "elicitation": { "form": {} } });
        let cap = json!({ "action": "cap", "limit": 1, "by": "ana" });
        let result =
            call_with_forms(&mut client, ("ledger_control", &cap), &mut |_| accepted("yes"));
        assert_eq!(result["isError"], agent, "{result}");
        assert_eq!(result.to_string().contains("agent session"), agent, "{result}");
        client.call("ledger_claim", &json!({}));
    }
}

/// Variables in the environment of a process.
type Marks = &'static [(&'static str, &'static str)];

/// The marks of a host's server, the host, and another one.
const SERVERS: [(Marks, &str, &str); 3] = [
    (&[("CLAUDECODE", "1"), ("AI_AGENT", "claude-code_2-1-197_harness")], "claude-code", "codex"),
    (&[("GEMINI_CLI", "1")], "gemini", "codex"),
    (&[], "codex", "gemini"),
];

/// In a client that shows no form, the word of a model is no decision of a person: it counts only where the owner of
/// the ledger allowed it, and as the model's.
#[test]
fn model_decides_only_where_the_owner_allowed_it() {
    for (marks, host, other) in SERVERS {
        let place = Place::planned("steps: [{id: one, gate: {question: Go?}}, {id: two}]");
        let words = ["--role", "operator", "--run", "plan"];
        let mut client = Client::start_in(&place, &words, marks);
        client.is_stateless = true;
        place.ledger("plan request plan --reason more").code(0);
        place.ledger("pause plan").code(0);
        let question =
            place.state().runs.values().next().unwrap().questions.keys().next().unwrap().0;
        let answer = json!({ "question": question, "answer": "yes", "by": "ana" });
        let control = |action: &str| match action {
            "budget" => {
                let change = json!({ "raise": { "tokens": 1 } });
                json!({ "action": action, "change": change, "by": "ana" })
            }
            "cap" => json!({ "action": action, "limit": 1, "by": "ana" }),
            _ => json!({ "action": action, "by": "ana" }),
        };
        let before = place.ledger("inspect records --json").out;
        let refuse_all = |client: &mut Client| {
            let answers = ["approve", "reject"].map(|word| json!({ "answer": word, "by": "ana" }));
            let steps = ["pass", "fail", "retry", "skip", "landed", "did-not-happen"]
                .map(|word| json!({ "step": "two", "answer": word, "by": "ana" }));
            let answers = answers.iter().chain(&steps).chain([&answer]);
            let answers = answers.map(|arguments| ("ledger_answer", arguments.clone()));
            let controls = ["unpause", "cancel", "budget", "cap", "withdraw"];
            let controls = controls.map(|action| ("ledger_control", control(action)));
            for (tool, arguments) in answers.chain(controls) {
                let refused = client.refused(tool, &arguments);
                assert!(refused.starts_with("rejection: agent_session\n"), "{arguments} {refused}");
                for part in ["only a person", "`ledger questions`", "--agents-decide"] {
                    assert!(refused.contains(part), "{refused}");
                }
                assert_eq!(commands_of_persons(&refused), Vec::<String>::new());
            }
        };
        refuse_all(&mut client);
        place.ledger(&format!("setup {other} --agents-decide")).code(0);
        refuse_all(&mut client);
        assert_eq!(place.ledger("inspect records --json").out, before);
        place.ledger(&format!("setup {host} --agents-decide")).code(0);
        client.call("ledger_answer", &answer);
        client.call("ledger_control", &control("unpause"));
        let named = place.ledger("inspect records --json").out;
        assert_eq!(named.matches(&format!("\"by\":\"agent:{host}\"")).count(), 2, "{named}");
        // A model takes no name of an agent or a step by itself.
        let note = json!({ "action": "note", "text": "x", "by": "agent:codex" });
        assert!(client.refused("ledger_control", &note).contains("reserved"));
        client.end();
    }
}

/// Goal: what a model proposes to do with a run is done if the user agrees in a form, and not else.
#[test]
fn control_of_a_model_is_a_proposal_to_the_user() {
    with_forms(|place, client| {
        let cancel = json!({ "action": "cancel", "reason": "late", "by": "ana" });
        for result in [json!({ "action": "decline" }), accepted("no")] {
            let mut fill = |form: &Value| {
                let message = form["message"].as_str().unwrap();
                assert_eq!(message, "Run plan. The agent proposes, for ana: cancel (late)");
                result.clone()
            };
            let refused = call_with_forms(client, ("ledger_control", &cancel), &mut fill);
            let text = refused["content"][0]["text"].as_str().unwrap();
            assert!(text.starts_with("rejection: declined\n"), "{text}");
        }
        let call = ("ledger_control", &cancel);
        let result = call_with_forms(client, call, &mut |_| accepted("yes"));
        assert_eq!(result["structuredContent"]["type"], "cancelled", "{result}");
        place.ledger("status").says(&["cancelled"]);
        // What does not wait is not decided without a form.
        let none = json!({ "question": 99, "answer": "yes", "by": "ana" });
        let refused = client.refused("ledger_answer", &none);
        assert!(refused.contains("nothing that waits for the user"), "{refused}");
    });
}

/// The versions that a model makes over its server wait for a person, in every host; where the owner allowed its
/// agents to decide, they are active at once.
#[test]
fn plan_version_of_a_model_waits_for_a_person() {
    for (marks, host, other) in SERVERS {
        let place = Place::planned(PLAN);
        let active = |id: &str| {
            let mut client =
                Client::start_in(&place, &["--role", "operator", "--run", "plan"], marks);
            client.is_stateless = true;
            let step = json!({ "mode": "add_step", "id": id, "goal": "more" });
            let added = client.call("ledger_plan", &step)["active"].clone();
            let plan = format!("steps: [{{id: {id}, command: make}}]");
            let new = json!({ "mode": "propose", "plan": plan, "run": "plan" });
            let proposed = client.call("ledger_plan", &new)["active"].clone();
            assert_eq!(added, proposed, "{id}");
            proposed
        };
        assert_eq!(active("waits"), false, "{host}");
        place.ledger(&format!("setup {other} --agents-decide")).code(0);
        assert_eq!(active("still"), false, "{host}");
        place.ledger("plan approve plan").code(0);
        place.ledger(&format!("setup {host} --agents-decide")).code(0);
        assert_eq!(active("decides"), true, "{host}");
    }
}

/// Two winners of one claim are the most frequent complaint about other tools. The lock holder is killed
/// again and again meanwhile.
#[test]
fn sweep_claims_over_all_interfaces_have_one_winner() {
    let (claims, workers) = sweep((90, 6), (400, 9), (10_000, 64));
    let steps: Vec<String> = (0..claims).map(|n| format!("{{id: s{n}}}")).collect();
    let place = Place::planned(&format!("steps: [{}]\n", steps.join(", ")));
    let is_over = AtomicBool::new(false);
    let mut won: Vec<u64> = std::thread::scope(|scope| {
        let (place, over) = (&place, &is_over);
        let killer = scope.spawn(move || {
            while !over.load(Ordering::Acquire) {
                let server = start(&mut place.command(&["serve"]));
                wait_until("it serves", || server.said("serving") || over.load(Ordering::Acquire));
                std::thread::sleep(Duration::from_millis(300));
                server.kill();
            }
        });
        let threads: Vec<_> = (0..workers)
            .map(|number| {
                scope.spawn(move || match number % 3 {
                    0 => {
                        let (session, won) = claim_over_mcp(place, number);
                        (Some(session), won)
                    }
                    1 => (None, claim_over_the_socket(place, number, over)),
                    _ => (None, claim_by_command(place, number)),
                })
            })
            .collect();
        // The claims of a session end with it.
        let (sessions, won): (Vec<_>, Vec<_>) =
            threads.into_iter().map(|thread| thread.join().unwrap()).unzip();
        over.store(true, Ordering::Release);
        killer.join().unwrap();
        drop(sessions);
        won.into_iter().flatten().collect()
    });
    won.sort_unstable();
    let count = won.len();
    won.dedup();
    assert_eq!((count, won.len()), (claims, claims), "one winner each");
    assert_eq!(place.state().in_flight.len(), claims);
}

/// The number of a token.
fn number_of(token: &str) -> u64 {
    token.split('-').next().unwrap().parse().unwrap()
}

fn claim_over_mcp(place: &Place, number: usize) -> (Client, Vec<u64>) {
    let mut client = Client::of_session(place, &["--worker", &format!("m{number}")]);
    let mut tokens = Vec::new();
    loop {
        let key = json!({ "key": format!("m{number}/{}", tokens.len()) });
        let result = client.call_any("ledger_claim", &key);
        if result["isError"] == true {
            assert!(result.to_string().contains("locked"), "{result}");
        } else {
            match result["structuredContent"]["token"].as_str().map(number_of) {
                Some(token) => tokens.push(token),
                None => return (client, tokens),
            }
        }
    }
}

/// Claims over the socket alone: while there is no server it tries again, under the same key.
fn claim_over_the_socket(place: &Place, number: usize, over: &AtomicBool) -> Vec<u64> {
    let mut tokens = Vec::new();
    let mut stream: Option<BufReader<UnixStream>> = None;
    while !over.load(Ordering::Acquire) {
        let claim = json!({
            "act": "claim", "worker": format!("s{number}"), "secret": "9f".repeat(16), "once": format!("s{number}/{}", tokens.len()),
        });
        let mut ask = || -> Option<Value> {
            let connected = match stream.take() {
                Some(connected) => connected,
                None => BufReader::new(UnixStream::connect(place.path(".ledger/serve.sock")).ok()?),
            };
            let connected = stream.insert(connected);
            writeln!(connected.get_mut(), "{claim}").ok()?;
            let mut line = String::new();
            connected.read_line(&mut line).ok()?;
            let answer: Value = serde_json::from_str(&line).ok()?;
            Some(answer["lines"][0].clone())
        };
        match ask() {
            Some(line) if line["type"] == "task" => {
                tokens.push(number_of(line["token"].as_str().unwrap()));
            }
            Some(line) if line["type"] == "nothing" => return tokens,
            _ => {
                stream = None;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    tokens
}

fn claim_by_command(place: &Place, number: usize) -> Vec<u64> {
    let mut tokens = Vec::new();
    loop {
        let claimed = place.ledger(&format!("claim --worker c{number} --json"));
        let line = claimed.lines()[0].clone();
        match line["token"].as_str().map(number_of) {
            Some(token) => tokens.push(token),
            None if line["type"] == "nothing" => return tokens,
            None => assert_eq!(line["kind"], "locked", "{line}"),
        }
    }
}

/// A plan that begins with a question.
const GATED: &str = "\
title: Release 1.2
steps:
  - {id: publish, goal: Publish it, gate: {question: Publish now?}}
  - {id: tell, after: [publish], gate: {question: Tell whom?, options: [team, world]}}
";

/// A client that shows forms, and its user, who fills in what `fill` says for each form.
fn call_with_forms(
    client: &mut Client,
    (tool, arguments): (&str, &Value),
    fill: &mut dyn FnMut(&Value) -> Value,
) -> Value {
    let mut params = json!({ "name": tool, "arguments": arguments });
    if client.is_stateless {
        loop {
            let result = client.ask("tools/call", params.clone());
            if result["resultType"] != "input_required" {
                return result;
            }
            for (key, form) in result["inputRequests"].as_object().unwrap() {
                assert_eq!(form["method"], "elicitation/create");
                params["inputResponses"][key] = fill(&form["params"]);
            }
        }
    }
    let request = client.request("tools/call", params);
    client.send(&request);
    loop {
        let message = client.receive();
        if message["method"] != "elicitation/create" {
            assert_eq!(message["id"], request["id"], "{message}");
            return message["result"].clone();
        }
        let result = fill(&message["params"]);
        client.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
    }
}

fn with_forms(check: impl Fn(&Place, &mut Client)) {
    for is_stateless in [false, true] {
        let place = Place::planned(GATED);
        let words = ["--role", "operator", "--by", "ana"];
        let capabilities = json!({ "elicitation": { "form": {} } });
        let mut client = if is_stateless {
            let mut client = Client::stateless(&place, &words);
            client.capabilities = capabilities;
            client
        } else {
            Client::of_session_with(&place, &words, &capabilities)
        };
        check(&place, &mut client);
    }
}

fn accepted(answer: &str) -> Value {
    json!({ "action": "accept", "content": { "answer": answer, "note": "seen" } })
}

/// Goal: a claim that finds nothing because of a question asks the user, in both eras, records the answer
/// under the user's name, and gets the step.
#[test]
fn claim_asks_the_user_about_an_open_question() {
    with_forms(|place, client| {
        let mut forms = Vec::new();
        let mut yes = |form: &Value| {
            forms.push(form.clone());
            accepted("yes")
        };
        let result = call_with_forms(client, ("ledger_claim", &json!({})), &mut yes);
        assert_eq!(result["structuredContent"]["step"]["id"], "publish", "{result}");
        assert_eq!(forms.len(), 1, "{forms:?}");
        let form = &forms[0];
        assert!(form["message"].as_str().unwrap().contains("Publish now?"), "{form}");
        assert!(form["message"].as_str().unwrap().contains("goal: Publish it"), "{form}");
        let schema = &form["requestedSchema"];
        assert_eq!(schema["properties"]["answer"]["enum"], json!(["yes", "no", "skip"]), "{form}");
        assert_eq!(schema["required"], json!(["answer"]));
        let answered = place.ledger("questions --decided").code(0);
        answered.says(&["answered yes by ana: seen"]);
        // The next question has options of its own.
        let token = result["structuredContent"]["token"].clone();
        client.call("ledger_report", &json!({ "token": token, "outcome": "succeeded" }));
        let mut team = |form: &Value| {
            assert_eq!(
                form["requestedSchema"]["properties"]["answer"]["enum"],
                json!(["team", "world", "skip"])
            );
            accepted("team")
        };
        let result = call_with_forms(client, ("ledger_claim", &json!({})), &mut team);
        // The answer is the result of the step, and the run is done.
        assert_eq!(result["structuredContent"]["status"], "done", "{result}");
        place.ledger("inspect step tell").code(0).says(&["team"]);
    });
}

/// Goal: without an answer of the user nothing is decided, and the answer of the call says what waits; the
/// same for a client that shows no forms, and for a worker.
#[test]
fn undecided_question_is_answered_with_what_waits() {
    let undecided = |result: &Value, place: &Place| {
        let answer = &result["structuredContent"];
        assert_eq!(
            (&answer["got"], &result["isError"]),
            (&json!(false), &json!(false)),
            "{result}"
        );
        let decision = &answer["decisions"][0];
        assert!(decision["text"].as_str().unwrap().contains("Publish now?"), "{answer}");
        assert_eq!(commands_of_persons(&answer.to_string()), Vec::<String>::new());
        assert_eq!(place.state().runs.values().next().unwrap().questions.len(), 1);
    };
    with_forms(|place, client| {
        for result in [
            json!({ "action": "decline" }),
            json!({ "action": "cancel" }),
            json!({ "action": "accept" }),
            json!("nonsense"),
        ] {
            let mut forms = 0;
            let mut fill = |_: &Value| {
                forms += 1;
                result.clone()
            };
            let result = call_with_forms(client, ("ledger_claim", &json!({})), &mut fill);
            undecided(&result, place);
            assert_eq!(forms, 1);
        }
        // An answer that the question does not have is rejected.
        let result =
            call_with_forms(client, ("ledger_claim", &json!({})), &mut |_| accepted("perhaps"));
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(place.state().runs.values().next().unwrap().questions.len(), 1);
    });
    let place = Place::planned(GATED);
    let forms = json!({ "elicitation": {} });
    let plain = json!({ "elicitation": { "url": {} } });
    for (role, capabilities) in [("operator", &plain), ("worker", &forms)] {
        let mut client = Client::of_session_with(&place, &["--role", role], capabilities);
        undecided(&client.call_any("ledger_claim", &json!({})), &place);
        undecided(&client.call_any("ledger_claim", &json!({ "wait_seconds": 1 })), &place);
    }
}

/// Goal: a model reads no command that decides for a person.
#[test]
fn answers_have_no_command_of_a_person() {
    let place = waiting_place();
    for role in ["viewer", "worker", "operator"] {
        let mut client = Client::of_session(&place, &["--role", role, "--run", "plan"]);
        let mut texts = vec![client.call_any("ledger_status", &json!({})).to_string()];
        for what in ["step", "why", "plan", "queue", "variables", "questions", "records"] {
            let ids: &[&str] = match what {
                "step" | "why" => &["judged", "gated", "broken", "once", "called"],
                _ => &[""],
            };
            for id in ids {
                let mut arguments = json!({ "what": what });
                if !id.is_empty() {
                    arguments["id"] = json!(id);
                }
                texts.push(client.call_any("ledger_show", &arguments).to_string());
            }
        }
        texts.push(client.call_any("ledger_claim", &json!({})).to_string());
        texts.push(client.call_any("ledger_claim", &json!({ "step": "judged" })).to_string());
        for text in texts {
            let text = text.replace("\\n", "\n");
            assert_eq!(commands_of_persons(&text), Vec::<String>::new(), "{text}");
        }
    }
}

/// Goal: what the user chooses in the form is recorded, not what the model passed; a user who declines
/// decides nothing.
#[test]
fn answer_of_a_model_is_a_proposal_to_the_user() {
    with_forms(|place, client| {
        let question = |place: &Place| {
            let run = place.state().runs.values().next().unwrap().clone();
            run.questions.keys().next().map(|id| id.0)
        };
        let number = question(place).unwrap();
        let arguments = json!({ "question": number, "answer": "yes", "by": "ana", "note": "sure" });
        let call = ("ledger_answer", &arguments);
        let declined = call_with_forms(client, call, &mut |_| json!({ "action": "decline" }));
        let text = declined["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("rejection: declined\n"), "{declined}");
        assert_eq!(question(place), Some(number));
        let mut no = |form: &Value| {
            let message = form["message"].as_str().unwrap();
            assert!(message.contains("Publish now?"), "{message}");
            assert!(message.contains("The agent proposes, for ana: yes (sure)"), "{message}");
            accepted("no")
        };
        let result = call_with_forms(client, call, &mut no);
        assert_eq!(result["structuredContent"]["answer"], "no", "{result}");
        assert_ne!(question(place), Some(number));
    });
    let place = Place::planned(PLAN);
    let capabilities = json!({ "elicitation": {} });
    let mut client = Client::of_session_with(&place, &["--role", "operator"], &capabilities);
    let task = client.call("ledger_claim", &json!({}));
    client.call("ledger_report", &json!({ "token": task["token"], "outcome": "succeeded" }));
    let arguments = json!({ "step": "build", "answer": "pass", "by": "ana" });
    let mut fail = |form: &Value| {
        assert_eq!(
            form["requestedSchema"]["properties"]["answer"]["enum"],
            json!(["pass", "fail"])
        );
        accepted("fail")
    };
    let result = call_with_forms(&mut client, ("ledger_answer", &arguments), &mut fail);
    assert_eq!(result["isError"], false, "{result}");
    place.ledger("inspect step build").code(0).says(&["seen"]);
    assert!(!place.ledger("status").out.contains("1 of 2"));
}
