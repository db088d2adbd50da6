//! Goal: the requests and views of a ledger over HTTP do what the commands do, for each role; a repeated
//! request does nothing twice, a follower misses nothing, and bad input is refused with a reason.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::command::{Place, Running, report_skipped, start, wait_until};
use super::published;

const PLAN: &str = "\
title: Release <b>1.2</b>
steps:
  - {id: build, goal: Build the wheel, outputs: [wheel]}
  - {id: publish, goal: Publish it, after: [build]}
  - {id: notes, goal: Write the notes}
";

/// The address and the tokens of a running server.
#[derive(Debug, Clone)]
pub(super) struct Address {
    authority: String,
    info: Value,
}

/// A response.
#[derive(Debug)]
struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Reply {
    fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(it, _)| it == name);
        found.map_or("", |(_, value)| value)
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Address {
    /// The address in the ledger's folder, once a server listens there.
    pub(super) fn of(place: &Place) -> Self {
        Self::of_ledger(&place.path(".ledger"))
    }

    /// The address in a ledger's folder, once a server listens there.
    pub(super) fn of_ledger(ledger: &std::path::Path) -> Self {
        let path = ledger.join("http.json");
        let mut found = None;
        wait_until("a server listens", || {
            let info = std::fs::read_to_string(&path).ok();
            let info = info.and_then(|info| serde_json::from_str::<Value>(&info).ok());
            found = info.and_then(|info| {
                let address = info["address"].as_str()?.strip_prefix("http://")?.to_owned();
                TcpStream::connect(&address).ok()?;
                Some(Self { authority: address, info })
            });
            found.is_some()
        });
        found.unwrap()
    }

    fn token(&self, role: &str) -> &str {
        self.info["tokens"][role].as_str().unwrap()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.authority).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// The text of a request on a connection of its own.
    fn text(&self, role: &str, line: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut lines = vec![format!("{line} HTTP/1.1"), "Connection: close".to_owned()];
        if !headers.iter().any(|(name, _)| *name == "Host") {
            lines.push(format!("Host: {}", self.authority));
        }
        if !role.is_empty() {
            lines.push(format!("Authorization: Bearer {}", self.token(role)));
        }
        lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
        if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "Content-Type") {
            lines.push("Content-Type: application/json".to_owned());
        }
        lines.push(format!("Content-Length: {}", body.len()));
        format!("{}\r\n\r\n{body}", lines.join("\r\n"))
    }

    /// The response to a request; none if the server went away before it.
    fn try_ask(
        &self,
        role: &str,
        line: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Reply> {
        let mut stream = TcpStream::connect(&self.authority).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        stream.write_all(self.text(role, line, headers, body).as_bytes()).ok()?;
        reply(stream)
    }

    #[track_caller]
    fn ask(&self, role: &str, line: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let reply = self.try_ask(role, line, headers, body);
        let reply = reply.unwrap_or_else(|| panic!("no reply to {line}"));
        if reply.header("content-type").ends_with("json") && !reply.body.is_empty() {
            published::check_response(line, reply.status, &reply.json());
        }
        reply
    }

    /// The body of the response to a request, whatever its status is.
    #[track_caller]
    pub(super) fn answer(&self, role: &str, method: &str, path: &str, body: &str) -> String {
        self.ask(role, &format!("{method} {path}"), &[], body).body
    }

    #[track_caller]
    fn view(&self, path: &str) -> Reply {
        self.ask("viewer", &format!("GET {path}"), &[], "")
    }

    /// The tag of a view; empty if it has none.
    pub(super) fn tag_of(&self, path: &str) -> String {
        self.view(path).header("etag").to_owned()
    }

    /// The body of a view that must succeed.
    #[track_caller]
    pub(super) fn body(&self, role: &str, path: &str) -> String {
        let reply = self.ask(role, &format!("GET {path}"), &[], "");
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.body
    }

    /// The lines of a response that must succeed.
    #[track_caller]
    pub(super) fn lines(
        &self,
        role: &str,
        line: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Vec<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.ask(role, line, headers, &body);
        assert!(matches!(reply.status, 200 | 201), "{line}: {reply:?}");
        reply.json()["lines"].as_array().unwrap().clone()
    }
}

impl Address {
    /// What is wrong with a request that must be refused, and the hint.
    #[track_caller]
    pub(super) fn problem(&self, role: &str, line: &str, body: &Value) -> String {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.ask(role, line, &[], &body);
        assert!(reply.status >= 400, "{line}: {reply:?}");
        let problem = reply.json();
        let hint = problem["hint"].as_str().unwrap_or_default();
        format!("{}\n{hint}", problem["detail"].as_str().unwrap())
    }
}

fn reply(stream: impl std::io::Read) -> Option<Reply> {
    let mut all = Vec::new();
    BufReader::new(stream).read_to_end(&mut all).ok()?;
    let all = String::from_utf8(all).ok()?;
    let (head, body) = all.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let is_chunked = headers.iter().any(|(_, value)| value == "chunked");
    let body = if is_chunked { unchunked(body)? } else { body.to_owned() };
    Some(Reply { status, headers, body })
}

/// The chunks of a body, without their lengths. None if the last one is missing.
fn unchunked(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (length, rest) = body.split_once("\r\n")?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole += rest.get(..length)?;
        body = rest.get(length + 2..)?;
    }
}

/// A ledger with that plan as run `r`, and its server.
fn served(plan: &str) -> (Place, Running, Address) {
    let place = Place::new();
    place.write("plan.yaml", plan);
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml --run r").code(0);
    let server = start(&mut place.command(&["serve", "--http"]));
    let address = Address::of(&place);
    (place, server, address)
}

pub(super) fn stop(server: Running) -> super::command::Ended {
    let pid = Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    server.end()
}

fn records(place: &Place) -> Vec<Value> {
    let out = place.ledger("inspect records --json").code(0).out;
    let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == "record").collect()
}

/// Goal: a worker works through a plan, and a claim that is repeated under its key has one winner.
#[test]
fn plan_is_done_over_http() {
    let (place, server, http) = served(PLAN);
    let claim = |key: &str| {
        let headers = [("Idempotency-Key", key)];
        let secret = format!("{:032x}", key.len());
        let body = json!({ "worker": "w", "secret": secret }).to_string();
        let reply = http.ask("worker", "POST /v1/claims", &headers, &body);
        (reply.status, reply)
    };
    let (status, first) = claim("one");
    assert_eq!(status, 201, "{first:?}");
    assert_eq!(claim("one").1.body, first.body);
    let (_, second) = claim("two");
    let (status, none) = claim("three");
    assert_eq!((status, none.header("retry-after"), none.body.as_str()), (204, "1", ""));
    for task in [first, second] {
        let token = task.json()["lines"][0]["token"].clone();
        let token = token.as_str().map_or_else(|| token.to_string(), str::to_owned);
        let receipt = json!({ "receipt": { "outcome": "succeeded", "output": "x" } });
        let line = format!("POST /v1/claims/{token}/receipt");
        let lines = http.lines("worker", &line, &[], &receipt);
        assert_eq!(lines[0]["status"], "accepted", "{lines:?}");
        // The same receipt is answered as the first was.
        assert_eq!(http.lines("worker", &line, &[], &receipt)[0]["status"], "accepted");
    }
    let wait = [("Prefer", "wait=20")];
    let last = http.ask("worker", "POST /v1/claims", &wait, r#"{"worker":"w"}"#).json();
    let token = last["lines"][0]["token"].clone();
    let token = token.as_str().map_or_else(|| token.to_string(), str::to_owned);
    let line = format!("POST /v1/claims/{token}/receipt");
    http.lines("worker", &line, &[], &json!({ "receipt": { "outcome": "succeeded" } }));
    let over = http.ask("worker", "POST /v1/claims", &wait, r#"{"worker":"w"}"#);
    assert_eq!((over.status, &over.json()["lines"][0]["type"]), (200, &json!("nothing")));
    let run = http.view("/v1/runs").json();
    assert_eq!(run["lines"][0]["status"], "done");
    assert_eq!(run["lines"][0]["title"], "Release <b>1.2</b>");
    stop(server).code(0);
    assert!(!place.path(".ledger/http.json").exists());
    place.ledger("verify --level replay").code(0);
}

/// Goal: a step that a worker adds waits for a person; that of an operator is active at once.
#[test]
fn step_that_a_worker_adds_over_http_waits_for_a_person() {
    let (place, server, http) = served(PLAN);
    let active = |role: &str, id: &str| {
        let body = json!({ "step": { "id": id, "command": "make" }, "waits_for_approval": false });
        http.lines(role, "POST /v1/runs/r/steps", &[], &body)[0]["active"].clone()
    };
    assert_eq!(active("worker", "more"), false);
    let body = json!({ "act": "add_step", "run": "r", "step": { "id": "raw", "command": "make" } });
    assert_eq!(http.lines("worker", "POST /v1/requests", &[], &body)[0]["active"], false);
    let asked = http.view("/v1/runs/r/questions").json();
    let command = json!({ "kind": "command", "step": "raw", "value": "make" });
    let mut lines = asked["lines"].as_array().unwrap().iter();
    let shows = |line: &Value| line["executes"].as_array().is_some_and(|it| it.contains(&command));
    assert!(lines.any(shows), "{asked}");
    place.ledger("plan approve r").code(0);
    assert_eq!(active("operator", "last"), true);
    stop(server).code(0);
}

/// Goal: no client over HTTP takes the name of a step or of an agent, as author or as worker, for any request.
#[test]
fn reserved_names_are_refused_over_http() {
    let (place, server, http) = served(PLAN);
    let before = place.ledger("inspect records --json").out;
    for name in ["agent:codex/4f2c", "step:#1@7"] {
        let secret = "0".repeat(32);
        for (line, body) in [
            ("POST /v1/notes", json!({ "text": "x", "by": name })),
            ("POST /v1/claims", json!({ "worker": name, "secret": secret })),
            ("POST /v1/requests", json!({ "act": "set", "name": "x", "value": 1, "by": name })),
            ("POST /v1/requests", json!({ "act": "pause", "run": "r", "by": name })),
        ] {
            let refused = http.ask("operator", line, &[], &body.to_string());
            assert_eq!(refused.status, 400, "{line} {refused:?}");
            assert!(refused.body.contains("is reserved"), "{line} {refused:?}");
        }
    }
    assert_eq!(place.ledger("inspect records --json").out, before);
    stop(server).code(0);
}

/// Goal: what the description lists is there, needs a token, and belongs to the role that it says.
#[test]
fn every_operation_of_the_description_is_served() {
    let (place, server, http) = served(PLAN);
    let description = http.ask("", "GET /openapi.json", &[], "").json();
    let open = ["/", "/v1/health", "/v1/ready", "/openapi.json"];
    let before = records(&place).len();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let concrete = path
                .replace("{run}", "r")
                .replace("{step}", "build")
                .replace("{seq}", "1")
                .replace("{from}", "1")
                .replace("{to}", "2");
            let line = format!("{} {concrete}", method.to_uppercase());
            let status = http.ask("", &line, &[], "").status;
            assert_eq!(status == 401, !open.contains(&path.as_str()), "{line}: {status}");
            let reply = http.ask("viewer", &line, &[], "");
            if method == "get" {
                let is_missing = path.contains("{name}");
                assert_eq!(reply.status, if is_missing { 404 } else { 200 }, "{line}: {reply:?}");
            } else {
                // A viewer changes nothing: the request is incomplete, or its role is wrong.
                assert!(matches!(reply.status, 400 | 403), "{line}: {reply:?}");
            }
        }
    }
    assert_eq!(records(&place).len(), before);
    stop(server).code(0);
}

/// Goal: a response says which record it is about, and is not sent again while nothing happens.
#[test]
fn views_are_about_one_record() {
    let (_place, server, http) = served(PLAN);
    let first = http.view("/v1/runs/r/state");
    let tag = first.header("etag").to_owned();
    let known = [("If-None-Match", tag.as_str())];
    let same = http.ask("viewer", "GET /v1/runs/r/state", &known, "");
    assert_eq!((same.status, same.header("etag"), same.body.as_str()), (304, tag.as_str(), ""));
    http.lines("worker", "POST /v1/claims", &[], &json!({ "worker": "w" }));
    let changed = http.ask("viewer", "GET /v1/runs/r/state", &known, "");
    assert_eq!(changed.status, 200);
    let seq = tag.trim_matches('"').split('-').next().unwrap().to_owned();
    let then = http.view(&format!("/v1/runs/r/state?at={seq}"));
    assert_eq!((then.header("etag"), &then.body), (tag.as_str(), &first.body));
    let state = &first.json()["lines"][0];
    let hash = state["hash"].as_str().unwrap();
    assert_eq!(tag, format!("\"{seq}-{}\"", &hash[..16]), "{state}");
    let lines = [("Accept", "application/jsonl")];
    let lines = http.ask("viewer", "GET /v1/runs", &lines, "");
    assert_eq!(lines.header("content-type"), "application/jsonl");
    assert_eq!(
        lines.body.lines().count(),
        http.view("/v1/runs").json()["lines"].as_array().unwrap().len()
    );
    stop(server).code(0);
}

/// Goal: a follower whose connection is cut again and again gets each record once, in order.
#[test]
fn follower_gets_every_record_once() {
    let steps: Vec<_> = (0..60).map(|number| json!({ "id": format!("s{number}") })).collect();
    let (place, server, http) = served(&json!({ "steps": steps }).to_string());
    let done = AtomicBool::new(false);
    let followed = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            for number in 0..60 {
                let worker = json!({ "worker": format!("w{number}") });
                let task = &http.lines("worker", "POST /v1/claims", &[], &worker)[0];
                let token =
                    task["token"].as_str().map_or_else(|| task["token"].to_string(), str::to_owned);
                let line = format!("POST /v1/claims/{token}/receipt");
                http.lines("worker", &line, &[], &json!({ "receipt": { "outcome": "succeeded" } }));
            }
            done.store(true, Ordering::Release);
        });
        let mut followed: Vec<Value> = Vec::new();
        let mut round = 0;
        while followed.last().is_none_or(|last| last["kind"] != "run_ended") {
            round += 1;
            let last =
                followed.last().map_or_else(|| "0".to_owned(), |last| last["seq"].to_string());
            let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", last.as_str())];
            let mut stream = http.connect();
            let request = http.text("viewer", "GET /v1/records", &headers, "");
            stream.write_all(request.as_bytes()).unwrap();
            // The connection is cut in the middle of what it sends.
            let enough = followed.len() + 1 + round * 7 % 23;
            let mut event = String::new();
            for line in BufReader::new(&stream).lines() {
                let line = line.unwrap();
                if let Some(name) = line.strip_prefix("event: ") {
                    name.clone_into(&mut event);
                }
                if let Some(data) = line.strip_prefix("data: ").filter(|_| event == "record") {
                    followed.push(serde_json::from_str(data).unwrap());
                }
                let is_over = followed.last().is_some_and(|last| last["kind"] == "run_ended");
                if followed.len() >= enough || is_over {
                    break;
                }
            }
        }
        work.join().unwrap();
        followed
    });
    assert!(done.into_inner());
    let all = records(&place);
    assert_eq!(followed.len(), all.len());
    for (followed, recorded) in followed.iter().zip(&all) {
        assert_eq!((&followed["seq"], &followed["event"]), (&recorded["seq"], &recorded["event"]));
    }
    stop(server).code(0);
}

/// Goal: a follower of a log at rest sees that it is connected, and one of a log that was made anew is told.
#[test]
fn follower_is_answered_before_there_is_a_record() {
    let (place, server, http) = served(PLAN);
    let last = records(&place).len().to_string();
    let mut stream = http.connect();
    let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", last.as_str())];
    stream.write_all(http.text("viewer", "GET /v1/records", &headers, "").as_bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    for headers in [
        vec![("Accept", "text/event-stream"), ("Last-Event-ID", "1000000")],
        vec![("Last-Event-ID", "1000000")],
    ] {
        let reply = http.ask("viewer", "GET /v1/records", &headers, "");
        let problem = reply.json();
        assert_eq!((reply.status, &problem["kind"]), (404, &json!("out_of_range")), "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains("from its start"), "{problem}");
    }
    drop(stream);
    stop(server).code(0);
}

/// Goal: a server that stops ends its followers, and answers what has arrived.
#[test]
fn stopping_server_ends_its_followers() {
    let (_place, server, http) = served(PLAN);
    let mut stream = http.connect();
    let headers = [("Accept", "text/event-stream")];
    stream.write_all(http.text("viewer", "GET /v1/records", &headers, "").as_bytes()).unwrap();
    let mut first = [0; 16];
    stream.read_exact(&mut first).unwrap();
    let begun = Instant::now();
    stop(server).code(0);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30), "the stream ended late");
}

/// A request: the role of its token, its first line, its headers and its body; and the status and the name of
/// its problem.
type BadRequest = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
    u16,
    &'static str,
);

const NONE: &[(&str, &str)] = &[];

/// Stands for a body of more than 16 MiB.
const BIG: &str = "BIG";

/// A claim that names a process and a folder for its work.
const IN_FOLDER: &str = r#"{"act":"claim","run":"r","worker":"w",
    "secret":"9f2c6b1e04d8a7735c1f9ab2e6d0c384",
    "bound_to":{"process":{"pid":1,"start":1,"machine":"x","folder":"/etc"}}}"#;

const NEXT_IN_FOLDER: &str = r#"{"act":"receipt","token":"1-0-9f2c6b1e04d8a7735c1f9ab2e6d0c384",
    "receipt":{"outcome":"succeeded"},"next":{"secret":"9f2c6b1e04d8a7735c1f9ab2e6d0c385",
    "bound_to":{"process":{"pid":1,"start":1,"machine":"x","folder":"/etc"}}}}"#;

/// A key of 65 bytes.
const LONG_KEY: &str = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";

const BAD_REQUESTS: &[BadRequest] = &[
    ("", "GET /v1/runs", NONE, "", 401, "no_access"),
    ("", "GET /v1/runs", &[("Authorization", "Bearer wrong-token-123456")], "", 401, "no_access"),
    ("", "GET /v1/runs", &[("Authorization", "Basic eDp5")], "", 401, "no_access"),
    ("viewer", "POST /v1/claims", NONE, r#"{"worker":"w"}"#, 403, "wrong_role"),
    ("worker", "POST /v1/runs/r/pause", NONE, r#"{"by":"w"}"#, 403, "wrong_role"),
    (
        "worker",
        "POST /v1/requests",
        NONE,
        r#"{"act":"cancel","run":"r","by":"w"}"#,
        403,
        "wrong_role",
    ),
    ("operator", "GET /v1/runs", &[("Host", "evil.example")], "", 421, "wrong_host"),
    (
        "operator",
        "POST /v1/runs/r/pause",
        &[("Origin", "http://evil.example")],
        r#"{"by":"w"}"#,
        403,
        "wrong_origin",
    ),
    ("worker", "POST /v1/claims", NONE, "{broken", 400, "usage"),
    ("worker", "POST /v1/claims", NONE, "[1]", 400, "usage"),
    ("worker", "POST /v1/claims", NONE, r#"{"worker":"w","wrong":1}"#, 400, "usage"),
    ("worker", "POST /v1/claims", NONE, r#"{"worker":7}"#, 400, "usage"),
    ("worker", "POST /v1/claims", NONE, r#"{"worker":"w","bound_to":"peer"}"#, 400, "usage"),
    ("worker", "POST /v1/requests", NONE, IN_FOLDER, 400, "usage"),
    ("worker", "POST /v1/requests", NONE, NEXT_IN_FOLDER, 400, "usage"),
    ("worker", "POST /v1/claims", NONE, BIG, 413, "too_large"),
    (
        "worker",
        "POST /v1/claims",
        &[("Idempotency-Key", LONG_KEY)],
        r#"{"worker":"w"}"#,
        400,
        "usage",
    ),
    ("worker", "POST /v1/claims", &[("Prefer", "wait=soon")], r#"{"worker":"w"}"#, 400, "usage"),
    ("operator", "POST /v1/runs/r/pause", NONE, r#"{"by":"a","run":"other"}"#, 400, "usage"),
    ("operator", "POST /v1/runs/none/pause", NONE, r#"{"by":"a"}"#, 404, "no_such_run"),
    (
        "operator",
        "POST /v1/runs/r/steps/none/skip",
        NONE,
        r#"{"by":"a","reason":"r"}"#,
        404,
        "no_such_step",
    ),
    ("operator", "POST /v1/requests", NONE, r#"{"act":"nothing"}"#, 400, "usage"),
    (
        "operator",
        "POST /v1/requests",
        NONE,
        r#"{"act":"verdict","run":"r","criterion":0,"ruling":"pass","by":"a"}"#,
        409,
        "rejected",
    ),
    (
        "operator",
        "POST /v1/requests",
        NONE,
        r#"{"act":"set","run":"r","name":"n","value":123456789012345678901234567890,"by":"a"}"#,
        400,
        "usage",
    ),
    (
        "operator",
        "PUT /v1/runs/r/variables/n",
        &[("If-Match", "\"9\"")],
        r#"{"value":1,"by":"a"}"#,
        412,
        "version_differs",
    ),
    ("viewer", "GET /v1/nowhere", NONE, "", 404, "no_such_path"),
    ("viewer", "GET /v1/../../etc/passwd", NONE, "", 404, "no_such_path"),
    ("viewer", "PUT /v1/runs", NONE, "", 405, "no_such_method"),
    ("viewer", "GET /v1/runs/none", NONE, "", 404, "no_such_run"),
    ("viewer", "GET /v1/runs/--help", NONE, "", 404, "no_such_run"),
    ("viewer", "GET /v1/runs/r/steps/--help", NONE, "", 404, "no_such_step"),
    ("viewer", "GET /v1/runs/r/steps/..%2F..%2Fetc", NONE, "", 404, "no_such_step"),
    ("viewer", "GET /v1/runs/r/steps/a%00b", NONE, "", 400, "usage"),
    ("viewer", "GET /v1/runs?at=zero", NONE, "", 400, "usage"),
    ("viewer", "GET /v1/runs?at=999999", NONE, "", 404, "out_of_range"),
    ("viewer", "GET /v1/runs?ledger=/etc", NONE, "", 400, "usage"),
    ("viewer", "GET /v1/records?after=-1", NONE, "", 400, "usage"),
    ("viewer", "GET /v1/records?kind=--ledger", NONE, "", 400, "usage"),
];

/// Goal: bad input is refused with its reason, nothing is changed by it, and the server lives on.
#[test]
fn bad_input_is_refused() {
    let (place, server, http) = served(PLAN);
    let before = records(&place).len();
    let big = format!("{{\"worker\":\"{}\"}}", "x".repeat(17 << 20));
    for (role, line, headers, body, status, name) in BAD_REQUESTS {
        let body = if *body == BIG { big.as_str() } else { body };
        let Some(reply) = http.try_ask(role, line, headers, body) else {
            // A body that is too long may be refused while it is sent.
            assert_eq!(*status, 413, "{line}: no reply");
            continue;
        };
        let problem = reply.json();
        assert_eq!(
            (reply.status, &problem["type"]),
            (*status, &json!(format!("urn:plan-ledger:{name}"))),
            "{line}: {problem}"
        );
        assert_eq!(reply.header("content-type"), "application/problem+json", "{line}");
        assert_eq!(problem["status"], *status, "{line}");
        assert!(!problem["detail"].as_str().unwrap().is_empty(), "{line}");
    }
    assert_eq!(records(&place).len(), before);
    stop(server).code(0);
}

/// Goal: what is no request, or not a whole one, is not made, and disturbs no other client.
#[test]
fn broken_connections_disturb_no_client() {
    let (place, server, http) = served(PLAN);
    let before = records(&place).len();
    for bytes in [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "POST /v1/claims HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "\u{0}\u{1}\u{2}",
        "PRI * HTTP/2.0\r\n\r\n",
    ] {
        let mut stream = http.connect();
        stream.write_all(bytes.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let answered = reply(stream);
        assert!(answered.is_none_or(|reply| reply.status >= 400), "{bytes:?}");
    }
    // A request that is cut before its end is not made.
    let mut cut = http.connect();
    let text = http.text("worker", "POST /v1/claims", &[], r#"{"worker":"cut"}"#);
    cut.write_all(&text.as_bytes()[..text.len() - 3]).unwrap();
    drop(cut);
    // Clients that say nothing, or half a head, stop only themselves.
    let silent: Vec<_> = (0..40).map(|_| http.connect()).collect();
    for mut stream in &silent {
        stream.write_all(b"GET /v1/runs HTTP/1.1\r\nHost:").unwrap();
    }
    assert_eq!(http.view("/v1/runs").status, 200);
    assert_eq!(records(&place).len(), before);
    drop(silent);
    stop(server).code(0);
}

/// Goal: clients that do not read what they asked for stop only themselves. The number of followers is bounded,
/// other requests are answered and recorded, and what the slow ones occupied is free again when they are gone.
#[test]
fn slow_readers_disturb_no_client() {
    const FOLLOWERS: usize = 64;
    const STALLED: usize = 2;
    let (place, server, http) = served(PLAN);
    // More than a connection takes without being read.
    let value = json!({ "value": "x".repeat(5 << 20), "by": "ana" });
    http.lines("operator", "PUT /v1/runs/r/variables/big", &[], &value);
    let head = records(&place).last().unwrap()["seq"].as_u64().unwrap();
    let unread = |line: &str, headers: &[(&str, &str)]| {
        let mut stream = http.connect();
        stream.write_all(http.text("viewer", line, headers, "").as_bytes()).unwrap();
        stream
    };
    let events = [("Accept", "text/event-stream")];
    let mut slow: Vec<_> = (0..STALLED).map(|_| unread("GET /v1/records", &events)).collect();
    slow.extend((0..STALLED).map(|_| unread("GET /v1/runs/r/variables/big", &[])));
    let rest = format!("GET /v1/records?after={head}");
    slow.extend((STALLED..FOLLOWERS).map(|_| unread(&rest, &events)));
    wait_until("no further follower is taken", || {
        let refused = http.view("/v1/records?limit=1");
        refused.status == 429 && refused.json()["type"] == "urn:plan-ledger:busy"
    });
    let claim = json!({ "worker": "w", "step": "notes" });
    let token = http.lines("worker", "POST /v1/claims", &[], &claim)[0]["token"].clone();
    let token = token.as_str().map_or_else(|| token.to_string(), str::to_owned);
    let receipt = json!({ "receipt": { "outcome": "succeeded", "output": 1 } });
    http.lines("worker", &format!("POST /v1/claims/{token}/receipt"), &[], &receipt);
    assert_eq!(http.view("/v1/runs").status, 200);
    let all = records(&place);
    let count = |kind: &str| all.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!((count("dispatched"), count("receipt_recorded")), (1, 1));
    drop(slow);
    wait_until("followers are taken again", || http.view("/v1/records?limit=1").status == 200);
    stop(server).code(0);
}

/// Goal: clients whose server is killed again and again claim each step once, and lose no receipt.
#[test]
fn claims_over_http_have_one_winner_while_the_server_is_killed() {
    const STEPS: usize = 150;
    const CLIENTS: usize = 8;
    let steps: Vec<_> = (0..STEPS).map(|number| json!({ "id": format!("s{number}") })).collect();
    let (place, server, _) = served(&json!({ "steps": steps }).to_string());
    let server = Mutex::new(Some(server));
    let (winners, acknowledged) = (Mutex::new(BTreeSet::new()), Mutex::new(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(300));
                let running = server.lock().unwrap().take().unwrap();
                let pid = Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap();
                kill_process(pid, Signal::KILL).unwrap();
                drop(running.end());
                let next = start(&mut place.command(&["serve", "--http"]));
                *server.lock().unwrap() = Some(next);
            }
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (place, winners, acknowledged) = (&place, &winners, &acknowledged);
                scope.spawn(move || {
                    // Asks until there is an answer; the key makes a repetition safe.
                    let ask = |line: &str, key: &str, body: &Value| loop {
                        let http = Address::of(place);
                        let headers = [("Idempotency-Key", key)];
                        let reply = http.try_ask("worker", line, &headers, &body.to_string());
                        match reply {
                            Some(reply)
                                if reply.status < 500
                                    && reply.status != 401
                                    && reply.status != 423 =>
                            {
                                return reply;
                            }
                            _ => std::thread::sleep(Duration::from_millis(20)),
                        }
                    };
                    for number in 0.. {
                        let secret = format!("{:032x}", client * 1000 + number);
                        let worker = json!({ "worker": format!("w{client}"), "secret": secret });
                        let reply = ask("POST /v1/claims", &format!("c{client}-{number}"), &worker);
                        if reply.status == 200 {
                            return;
                        }
                        if reply.status == 204 {
                            std::thread::sleep(Duration::from_millis(50));
                            continue;
                        }
                        assert_eq!(reply.status, 201, "{reply:?}");
                        let task = &reply.json()["lines"][0];
                        let step = task["step"]["id"].as_str().unwrap().to_owned();
                        assert!(
                            winners.lock().unwrap().insert(step.clone()),
                            "{step} has two winners"
                        );
                        let token = task["token"]
                            .as_str()
                            .map_or_else(|| task["token"].to_string(), str::to_owned);
                        let line = format!("POST /v1/claims/{token}/receipt");
                        let receipt =
                            json!({ "receipt": { "outcome": "succeeded", "output": step } });
                        let reply = ask(&line, &format!("r{client}-{number}"), &receipt);
                        assert_eq!(reply.status, 200, "{reply:?}");
                        *acknowledged.lock().unwrap() += 1;
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        done.store(true, Ordering::Release);
    });
    Address::of(&place);
    stop(server.into_inner().unwrap().unwrap()).code(0);
    assert_eq!(
        (winners.into_inner().unwrap().len(), acknowledged.into_inner().unwrap()),
        (STEPS, STEPS)
    );
    let all = records(&place);
    let count = |kind: &str| all.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!((count("dispatched"), count("receipt_recorded")), (STEPS, STEPS));
    place.ledger("verify --level replay").code(0);
}

/// Goal: tokens do not cross a network as they are, and a certificate protects them.
#[test]
fn other_machines_need_encryption() {
    let place = Place::new();
    place.ledger("init").code(0);
    let refused = place.ledger("serve --http 0.0.0.0:0").code(2);
    assert!(refused.err.contains("--tls-cert"), "{}", refused.err);
    place.write("bad.pem", "no certificate");
    place.ledger("serve --http --tls-cert bad.pem --tls-key bad.pem").code(2);
    place.write("tokens", "operator short\n");
    let refused = place.ledger("serve --http --token-file tokens").code(2);
    assert!(refused.err.contains("tokens:1"), "{}", refused.err);
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(place.path("."))
        .output();
    let has_curl = std::process::Command::new("curl").arg("--version").output().is_ok();
    let Some(made) = made.ok().filter(|_| has_curl) else {
        return report_skipped("openssl or curl is not installed");
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    place.write("tokens", "# of this test\nviewer viewer-token-for-tls\n");
    let words = [
        "serve",
        "--http",
        "0.0.0.0:0",
        "--tls-cert",
        "cert.pem",
        "--tls-key",
        "key.pem",
        "--token-file",
        "tokens",
        "--http-host",
        "localhost",
    ];
    let server = start(&mut place.command(&words));
    let info = place.path(".ledger/http.json");
    wait_until("a server listens", || info.exists());
    let info: Value = serde_json::from_str(&std::fs::read_to_string(info).unwrap()).unwrap();
    assert!(info["tokens"].is_null());
    let port = info["address"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    let curl = |words: &[&str]| {
        let mut command = std::process::Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "20", "--cacert", "cert.pem"]);
        command.args(words).arg(format!("https://localhost:{port}/v1/runs"));
        let output = command.current_dir(place.path(".")).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(curl(&["-H", "Authorization: Bearer viewer-token-for-tls"]).contains("\"as_of\""));
    assert!(curl(&[]).contains("no_access"));
    stop(server).code(0);
}

/// Goal: a body that its client calls something else than JSON is not taken for JSON.
#[test]
fn body_is_accepted_only_as_json() {
    let (place, server, http) = served(PLAN);
    let before = records(&place).len();
    let pause = r#"{"by": "ana"}"#;
    let ask = |kind: &str| {
        http.ask("operator", "POST /v1/runs/r/pause", &[("Content-Type", kind)], pause)
    };
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonl", ""] {
        let reply = ask(kind);
        let problem = reply.json();
        assert_eq!((reply.status, &problem["kind"]), (415, &json!("wrong_content_type")), "{kind}");
        assert!(problem["hint"].as_str().unwrap().contains("application/json"), "{problem}");
    }
    assert_eq!(records(&place).len(), before);
    assert_eq!(ask("Application/JSON; charset=utf-8").status, 200);
    stop(server).code(0);
}

/// Goal: the tools of the Model Context Protocol are those of the token's role.
#[test]
fn tools_over_http_are_those_of_the_role() {
    let (_place, server, http) = served(PLAN);
    let accept = ("Accept", "application/json, text/event-stream");
    let kind = ("Content-Type", "application/json");
    let answer = |role: &str, method: &str, mut params: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let era = ("MCP-Protocol-Version", "2026-07-28");
        let mut headers = vec![accept, kind, era, ("Mcp-Method", method)];
        headers.extend((!name.is_empty()).then_some(("Mcp-Name", name.as_str())));
        let reply = http.ask(role, "POST /mcp", &headers, &message.to_string());
        assert_eq!(reply.status, 200, "{reply:?}");
        let data = reply
            .body
            .lines()
            .find_map(|line| line.strip_prefix("data: ").filter(|data| data.contains("result")));
        let answer: Value = serde_json::from_str(data.unwrap_or(&reply.body)).unwrap();
        answer["result"].clone()
    };
    let names =
        |role: &str| answer(role, "tools/list", json!({}))["tools"].as_array().unwrap().len();
    assert_eq!((names("viewer"), names("worker"), names("operator")), (2, 6, 9));
    let claim = answer("viewer", "tools/call", json!({ "name": "ledger_claim", "arguments": {} }));
    let why =
        "the tool ledger_claim needs the role worker; the token of this client has the role viewer";
    assert!(claim["content"][0]["text"].as_str().unwrap().contains(why), "{claim}");
    assert_eq!(http.ask("", "POST /mcp", &[accept, kind], "{}").status, 401);
    stop(server).code(0);
}

/// Goal: the live page says nothing about the ledger before it has a token, runs nothing but its own script,
/// and then gets the page that `ledger report` writes; only an operator's has buttons.
#[test]
fn live_page_is_the_report_and_belongs_to_a_role() {
    let (place, server, http) = served(PLAN);
    let shell = http.ask("", "GET /", &[], "");
    assert_eq!(shell.status, 200, "{shell:?}");
    assert!(!shell.body.contains("Release"), "{}", shell.body);
    let policy = shell.header("content-security-policy");
    for part in [
        "default-src 'none'",
        "script-src 'sha256-",
        "connect-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert_eq!(shell.body.matches("<script>").count(), 1);
    assert_eq!(shell.body.matches("</script>").count(), 1, "nothing ends the script early");
    assert_eq!(http.ask("", "GET /v1/page", &[], "").status, 401);

    let body = |role: &str, path: &str| {
        let reply = http.ask(role, &format!("GET {path}"), &[], "");
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        assert!(reply.header("content-security-policy").contains("sandbox"), "{reply:?}");
        reply.body
    };
    place.ledger("report --html own.html").code(0);
    assert_eq!(body("viewer", "/v1/page"), place.read("own.html"));
    assert_eq!(body("worker", "/v1/page?run=r"), place.read("own.html"));
    place.ledger("report --html then.html --at 4").code(0);
    assert_eq!(body("viewer", "/v1/page?at=4"), place.read("then.html"));
    let operator = body("operator", "/v1/page");
    for path in ["/pause", "/skip"] {
        assert!(
            operator.contains(&format!("data-path=\"/v1/runs/{{run}}{path}"))
                || operator.contains(&format!("/steps/{{step}}{path}")),
            "{path}"
        );
    }
    assert!(!body("viewer", "/v1/page").contains("data-path"));
    assert!(!operator.contains("<b>1.2</b>"), "a title is text");

    // A client that knows the page gets what has changed.
    let head = records(&place).last().unwrap()["seq"].as_u64().unwrap();
    let same = body("viewer", &format!("/v1/page?known={head}"));
    assert_eq!(
        (same.matches("<details class=\"step\" id=").count(), same.contains("[]")),
        (0, true)
    );
    http.lines("worker", "POST /v1/claims", &[], &json!({ "worker": "w", "step": "notes" }));
    let changed = body("viewer", &format!("/v1/page?known={head}"));
    assert_eq!(changed.matches("<details class=\"step\" id=").count(), 1, "{changed}");
    assert!(changed.contains("id=\"step-3\""));
    let whole = body("viewer", "/v1/page?known=999999");
    assert_eq!(whole.matches("<details class=\"step\" id=").count(), 3, "another ledger was known");

    let wrong = http.view("/v1/page?run=none");
    assert!(matches!(wrong.status, 400 | 404), "{wrong:?}");
    assert_eq!(http.view("/v1/page?seq=1").status, 400);
    stop(server).code(0);
}

/// Goal: a wrong address is explained with an example, in words of this program.
#[test]
fn wrong_address_is_explained() {
    let place = Place::new();
    place.ledger("init").code(0);
    for wrong in ["nonsense", "127.0.0.1", "localhost:80", ":8080", "127.0.0.1:70000"] {
        let ended = place.ledger(&format!("serve --http {wrong}"));
        ended.code(2).complains(&["expected an IP address and a port, such as 127.0.0.1:8080"]);
    }
}

/// Goal: a monitor finds the metrics under the names that are published, and no others.
#[test]
fn metrics_have_their_published_names() {
    let (_place, server, http) = served(PLAN);
    http.lines("worker", "POST /v1/claims", &[], &json!({ "worker": "w" }));
    let text = http.view("/metrics").body;
    let served: BTreeSet<_> = text
        .lines()
        .filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned()))
        .collect();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/guides/http.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let rows = guide.lines().filter(|line| line.starts_with("| `plan_ledger_"));
    let names = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let names = names.filter_map(|name| name.split('{').next());
    let published: BTreeSet<_> =
        names.map(|name| name.trim_end_matches("_total").to_owned()).collect();
    assert_eq!(served, published);
    assert!(text.contains("plan_ledger_attempts_in_flight 1\n"), "{text}");
    stop(server).code(0);
}

/// Goal: without the name of a run, and with several active ones, an answer lists them; with it, the page
/// shows that run.
#[test]
fn several_runs_are_listed() {
    let (place, server, http) = served(PLAN);
    place.write("other.yaml", PLAN);
    place.ledger("plan propose other.yaml --run other").code(0);
    let claim = r#"{"worker":"w"}"#;
    let page = http.view("/v1/page");
    for reply in [&page, &http.ask("worker", "POST /v1/claims", NONE, claim)] {
        assert_eq!(reply.status, 400, "{reply:?}");
        let problem = reply.json();
        assert_eq!(problem["runs"], json!(["r", "other"]), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("2 runs are active: r, other"), "{detail}");
        assert!(!detail.contains("LEDGER_RUN"), "a client has no variables: {detail}");
    }
    let page = http.view("/v1/page?run=other");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("data-run=\"other\""));
    server.kill();
}

/// A client over HTTP works on no folder that is known here: its work is checked where a person approved the
/// commands, and not where the server runs.
#[test]
fn work_over_http_is_checked_where_its_commands_were_approved() {
    let (place, server, _) =
        served("steps: [{id: build, goal: Build it, acceptance: [{command: touch ran}]}]");
    stop(server);
    let (ledger, elsewhere) = (place.path(".ledger"), tempfile::tempdir().unwrap());
    let words = ["serve", "--http", "--checks", "--ledger", ledger.to_str().unwrap()];
    let server = start(place.command(&words).current_dir(elsewhere.path()));
    wait_until("it serves", || server.said("serving"));
    let address = Address::of(&place);
    let claim = json!({ "run": "r", "worker": "ana" });
    let task = &address.lines("worker", "POST /v1/claims", &[], &claim)[0];
    let path = format!("POST /v1/claims/{}/receipt", task["token"].as_str().unwrap());
    let receipt = json!({ "receipt": { "outcome": "succeeded", "output": "done" } });
    let told = &address.lines("worker", &path, &[], &receipt)[0];
    let why = told["unchecked"].as_str().unwrap();
    assert!(why.contains("before a person approves the commands"), "{why}");
    let page = address.view("/v1/page?run=r").body;
    let text = "nothing is checked before a person approves the commands of the plan: `ledger plan review r`";
    assert!(page.contains(&format!("data-k=\"unchecked\" data-row>{text} lists them")), "{page}");
    let asked = address.lines("viewer", "GET /v1/runs/r/questions", &[], &Value::Null);
    let asked: Vec<Value> =
        asked.into_iter().filter(|line| line["item"]["kind"] == "commands").collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["executes"][0]["value"], "touch ran");
    let review = asked[0]["commands"][0].as_str().unwrap();
    assert!(review.starts_with("ledger plan review ") && review.ends_with(" r"), "{review}");
    let approved = place.ledger("plan approve r --by ana").code(0);
    let page = address.view("/v1/page?run=r").body;
    assert!(page.contains("data-k=\"unchecked\" data-row hidden"), "{page}");
    let folder = place.path("");
    let folder = folder.to_str().unwrap().trim_end_matches('/');
    approved.says(&[&format!("a judge runs its commands in {folder}")]);
    wait_until("it is accepted", || {
        let run = place.state().run_named("r").cloned();
        run.is_some_and(|run| run.count(plan_ledger::StepStatus::Accepted) == 1)
    });
    assert!(place.path("ran").exists() && !elsewhere.path().join("ran").exists());
    stop(server);
}
