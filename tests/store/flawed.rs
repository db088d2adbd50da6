//! Stores with flaws: each must be refused, and an answer that does not arrive must be called unknown.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::commands::{Ended, ledger};

/// A server of `flawed.py`. It ends with its owner.
pub(crate) struct FlawedServer {
    child: Child,
    pub(crate) port: u16,
}

impl FlawedServer {
    pub(crate) fn start(flaw: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/store/flawed.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(flaw).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 is needed");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }

    /// Run `ledger` with these words, split at spaces, on this server.
    pub(crate) fn ledger(&self, line: &str) -> Ended {
        ledger(line, &self.environment())
    }

    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ACCESS_KEY_ID", "ACCESS-KEY".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "SECRET-KEY".to_owned()),
        ]
    }

    /// The names of all objects.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET /-/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        body.lines().map(str::to_owned).collect()
    }
}

impl Drop for FlawedServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PROBE: &str = "store probe s3://bucket/night";

#[test]
fn store_without_a_flaw_is_accepted_and_left_as_it_was() {
    let server = FlawedServer::start("none");
    let ended = server.ledger(PROBE);
    ended.code(0);
    assert!(ended.out.contains("fit to hold a ledger"), "{}", ended.out);
    assert!(ended.out.contains("flawed/none"), "{}", ended.out);
    assert_eq!(server.names(), Vec::<String>::new());
}

#[test]
fn every_flaw_is_found() {
    for (flaw, problem) in [
        ("ignores", "a name can be created twice"),
        ("races", "created the same name"),
        ("lists-late", "was created and is not listed"),
    ] {
        let server = FlawedServer::start(flaw);
        let ended = server.ledger(PROBE);
        ended.code(6);
        assert!(ended.out.contains(problem), "{flaw}: {}", ended.out);
        assert!(ended.out.contains("not fit to hold a ledger"), "{flaw}: {}", ended.out);
        assert_eq!(server.names(), Vec::<String>::new(), "{flaw}");
    }
}

/// The object exists although no answer arrived, so nothing may be concluded from its absence.
#[test]
fn create_without_an_answer_is_unknown() {
    for (flaw, words) in [
        ("stalls", "no answer within 1 s, so its outcome is unknown"),
        ("drops", "the connection ended before the answer, so its outcome is unknown"),
    ] {
        let server = FlawedServer::start(flaw);
        let ended = server.ledger(&format!("{PROBE} --timeout 1"));
        ended.code(7);
        assert!(ended.err.contains(words), "{flaw}: {}", ended.err);
    }
}

#[test]
fn failures_name_place_and_remedy_and_quote_no_key() {
    let denying = FlawedServer::start("denies");
    let ended = denying.ledger(PROBE);
    ended.code(7);
    for words in
        ["s3://bucket/night", "access is denied (403 SignatureDoesNotMatch)", "hint: set AWS_"]
    {
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    }
    let json = denying.ledger(&format!("{PROBE} --json"));
    for text in [&ended.err, &json.out, &json.err] {
        assert!(
            !["QUOTED", "ACCESS-KEY", "SECRET-KEY"].iter().any(|it| text.contains(it)),
            "{text}"
        );
    }
    let ended = FlawedServer::start("no-bucket").ledger(PROBE);
    ended.code(2);
    assert!(ended.err.contains("there is no such bucket (404 NoSuchBucket)"), "{}", ended.err);
    let port = FlawedServer::start("none").port;
    let gone = [
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
        ("AWS_SKIP_SIGNATURE", "true".to_owned()),
    ];
    let ended = ledger(PROBE, &gone);
    ended.code(7);
    assert!(ended.err.contains("no connection can be made"), "{}", ended.err);
}

/// Regression: a store that was full or permitted no creates was said not to answer, with a hint about the network.
#[test]
fn store_that_refuses_creates_says_what_it_answered() {
    for (flaw, words) in [
        (
            "forbids",
            [
                "the credentials may not do this (403 AccessDenied)",
                "grant s3:ListBucket, s3:GetObject and s3:PutObject",
            ],
        ),
        (
            "full",
            ["the store is full (507 XMinioStorageFull)", "hint: free some space in the store"],
        ),
    ] {
        let ended = FlawedServer::start(flaw).ledger(PROBE);
        ended.code(7);
        for word in words {
            assert!(ended.err.contains(word), "{flaw}: {}", ended.err);
        }
        assert!(
            ended.err.contains("s3://bucket/night: the store answers with an error"),
            "{flaw}: {}",
            ended.err
        );
        let is_wrong =
            ["does not answer", "network", "QUOTED"].iter().any(|it| ended.err.contains(it));
        assert!(!is_wrong, "{flaw}: {}", ended.err);
    }
}

#[test]
fn plain_requests_to_other_machines_are_not_sent() {
    let endpoint = [
        ("AWS_ENDPOINT_URL", "http://192.0.2.1:9".to_owned()),
        ("AWS_SKIP_SIGNATURE", "true".to_owned()),
    ];
    let ended = ledger(PROBE, &endpoint);
    ended.code(2);
    assert!(ended.err.contains("--allow-http"), "{}", ended.err);
    // Allowed, it is sent, and finds no server.
    let ended = ledger(&format!("{PROBE} --allow-http --timeout 1"), &endpoint);
    ended.code(7);
}
