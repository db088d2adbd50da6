//! Histories of answers: what concurrent clients were told must be true, in the order in which they
//! were told it. Clients cut connections, send requests again, use keys twice and report twice, while
//! the server is killed.
//!
//! Each claim is a register that one worker holds at a time, and each receipt is recorded at most once.
//! The checker knows only the requests, the answers and, at the end, the log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use plan_ledger::internals::sim::sweep;
use plan_ledger::plan::StepEvent;
use plan_ledger::{Environment, Event, LedgerView, Note};
use plan_ledger_cli::protocol::Answer;
use plan_ledger_cli::server::{SOCKET_NAME, while_serving};
use serde_json::{Value, json};

use crate::command::{Place, start, wait_until};
use crate::rng::Rng;
use crate::socket::{ledger, quiet};

/// A request and its answer, with the moments between which it was executed.
#[derive(Debug, Clone)]
struct Told {
    sent: u64,
    answered: u64,
    what: What,
    code: u8,
    /// The rejection or the kind of the error; empty for a success.
    why: String,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    /// A claim under a key, with the token and the step of its answer.
    Claim { key: String, token: Option<u64>, step: String },
    /// A receipt with that output.
    Receipt { token: u64, output: String },
    /// A renewal of the lease of a claim.
    Renew { token: u64 },
    /// A claim that the worker gives back.
    Release { token: u64 },
    /// A note with a text of its own.
    Note { text: String },
    /// A value of the variable that all clients set, with the version that the answer gave it.
    Set { version: Option<u64> },
    /// Any request under a key that another one has used.
    Reuse,
}

/// The secret of all claims: which of them a worker means is what is checked here.
fn secret() -> String {
    "9f".repeat(16)
}

fn text_of(token: u64) -> String {
    format!("{token}-{}", secret())
}

fn number_of(token: &str) -> u64 {
    token.split('-').next().unwrap().parse().unwrap()
}

/// What the log has at the end: the outputs of recorded receipts and of rejected ones, by token.
#[derive(Debug, Clone, Default)]
struct Recorded {
    dispatched: BTreeMap<u64, u32>,
    receipts: BTreeMap<u64, Vec<String>>,
    refused: BTreeSet<(u64, String)>,
    /// How often each note is there.
    notes: BTreeMap<String, usize>,
    /// The versions of the variable.
    versions: BTreeMap<u64, usize>,
}

fn violations(history: &[Told], log: &Recorded) -> Vec<String> {
    let mut found = Vec::new();
    let mut keys: BTreeMap<u64, &str> = BTreeMap::new();
    // The first moment at which a client knew of each claim, by step and token.
    let mut claims: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
    let mut accepted: BTreeMap<u64, (&str, u64)> = BTreeMap::new();
    for told in history {
        match &told.what {
            What::Claim { key, token: Some(token), step } => {
                if *keys.entry(*token).or_insert(key) != key {
                    found.push(format!("claim {token} was given to two clients"));
                }
                let known = claims.entry(step).or_default().entry(*token).or_insert(u64::MAX);
                *known = told.answered.min(*known);
                if !log.dispatched.contains_key(token) {
                    found.push(format!("claim {token} is not in the log"));
                }
            }
            What::Receipt { token, output } if told.code == 0 => {
                let first = accepted.entry(*token).or_insert((output, told.answered));
                first.1 = first.1.min(told.answered);
                if first.0 != output {
                    found.push(format!("two receipts of claim {token} were accepted"));
                }
            }
            What::Reuse if told.why != "key_reused" => {
                found.push(format!("a key was used for another request: {told:?}"));
            }
            _ => {}
        }
    }
    found.extend(violations_of_others(history, &claims, &accepted, log));
    for told in history {
        match &told.what {
            What::Receipt { token, output } if told.code != 0 => {
                let is_definite = told.why == "stale_token";
                match accepted.get(token) {
                    Some((first, answered)) if first == output && told.sent > *answered => {
                        found.push(format!("receipt of {token}: done, then answered as not done"));
                    }
                    _ if is_definite
                        && log.receipts.get(token).is_some_and(|all| all.contains(output)) =>
                    {
                        found.push(format!("receipt of {token} is recorded, answered as not done"));
                    }
                    _ if is_definite && !log.refused.contains(&(*token, output.clone())) => {
                        found.push(format!("a late receipt of {token} was not kept"));
                    }
                    _ => {}
                }
            }
            // A claim that is sent again after its receipt was accepted is over.
            What::Claim { token: Some(token), .. } => {
                if accepted.get(token).is_some_and(|(_, answered)| told.sent > *answered) {
                    found.push(format!("claim {token} is over and was answered as held"));
                }
                // A later claim of the step that was known before.
                let later = claims.values().find(|of_step| of_step.contains_key(token));
                let mut later = later.into_iter().flat_map(|of_step| of_step.range(token + 1..));
                if later.any(|(_, known)| told.sent > *known) {
                    found.push(format!("claim {token} was answered as held after another one"));
                }
            }
            _ => {}
        }
    }
    for (token, (output, answered)) in &accepted {
        if log.receipts.get(token).is_none_or(|all| all != &[(*output).to_owned()]) {
            found.push(format!("the accepted receipt of {token} is not the one in the log"));
        }
        let of_step = claims.values().find(|of_step| of_step.contains_key(token));
        let sent = history.iter().filter(|told| {
            matches!(&told.what, What::Receipt { token: it, .. } if it == token) && told.code == 0
        });
        let sent = sent.map(|told| told.sent).min().unwrap_or(*answered);
        let mut later = of_step.into_iter().flat_map(|of_step| of_step.range(token + 1..));
        if later.any(|(_, known)| *known < sent) {
            found.push(format!("the receipt of {token} was accepted after another claim"));
        }
    }
    found.extend(
        log.receipts
            .iter()
            .filter(|(_, all)| all.len() > 1)
            .map(|(token, all)| format!("claim {token} has {} receipts in the log", all.len())),
    );
    found
}

/// The violations of renewals, releases, notes and values.
fn violations_of_others(
    history: &[Told],
    claims: &BTreeMap<&str, BTreeMap<u64, u64>>,
    accepted: &BTreeMap<u64, (&str, u64)>,
    log: &Recorded,
) -> Vec<String> {
    let mut found = Vec::new();
    let done = |told: &&Told| told.code == 0;
    let mut released: BTreeMap<u64, u64> = BTreeMap::new();
    for told in history.iter().filter(done) {
        if let What::Release { token } = told.what {
            let first = released.entry(token).or_insert(u64::MAX);
            *first = told.answered.min(*first);
        }
    }
    let mut versions = BTreeSet::new();
    for told in history.iter().filter(done) {
        match &told.what {
            What::Renew { token } => {
                let is_reported = accepted.get(token).is_some_and(|(_, at)| told.sent > *at);
                let is_released = released.get(token).is_some_and(|at| told.sent > *at);
                let of_step = claims.values().find(|of_step| of_step.contains_key(token));
                let mut later = of_step.into_iter().flat_map(|it| it.range(token + 1..));
                if is_reported || is_released || later.any(|(_, known)| told.sent > *known) {
                    found.push(format!("claim {token} is over and was renewed"));
                }
            }
            What::Receipt { token, .. }
                if released.get(token).is_some_and(|at| told.sent > *at) =>
            {
                found.push(format!("the receipt of {token} was accepted after its release"));
            }
            What::Note { text } => {
                let count = log.notes.get(text).copied().unwrap_or(0);
                if count != 1 {
                    found.push(format!("note {text} is there {count} times"));
                }
            }
            What::Set { version: Some(version) }
                if !versions.insert(*version) || log.versions.get(version) != Some(&1) =>
            {
                found.push(format!("version {version} was given to two values"));
            }
            _ => {}
        }
    }
    found
}

/// What the log of a ledger has.
fn recorded(dir: &Path) -> Recorded {
    let view = LedgerView::open(dir, &Environment::system()).unwrap();
    let mut found = Recorded::default();
    for record in view.log().records(1) {
        let record = record.unwrap();
        if let Some(note) = Note::in_record(&record) {
            *found.notes.entry(note.text).or_default() += 1;
        }
        let step = match plan_ledger::internals::ledger::decode(&record).unwrap() {
            Some(Event::Step(step)) => step,
            Some(Event::VariableSet(set)) => {
                *found.versions.entry(set.version).or_default() += 1;
                continue;
            }
            _ => continue,
        };
        let output = |receipt: &plan_ledger::Receipt| {
            let value = receipt.output.inline().unwrap().value();
            value.as_str().unwrap().to_owned()
        };
        match &step.event {
            StepEvent::Dispatched(_) => drop(found.dispatched.insert(record.seq, step.step.0)),
            StepEvent::ReceiptRecorded(it) => {
                found.receipts.entry(it.token.0).or_default().push(output(&it.receipt));
            }
            StepEvent::ReceiptRefused(it) => {
                found.refused.insert((it.token.0, output(&it.receipt)));
            }
            _ => {}
        }
    }
    found
}

/// The clients' common clock and notebook.
struct Recorder {
    clock: AtomicU64,
    told: Mutex<Vec<Told>>,
    requests: AtomicU64,
}

/// A client that behaves badly.
struct Client<'a> {
    number: u64,
    sent: u64,
    dir: &'a Path,
    rng: Rng,
    recorder: &'a Recorder,
    connection: Option<UnixStream>,
}

impl Client<'_> {
    fn now(&self) -> u64 {
        self.recorder.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn key(&mut self) -> String {
        self.sent += 1;
        format!("{}-{}", self.number, self.sent)
    }

    /// Sends a request until it is answered. Now and then the connection is cut before the answer.
    fn ask(&mut self, request: &Value) -> Answer {
        let message = format!("{request}\n");
        loop {
            let answer = self.try_ask(&message);
            // A stopped writer answers no more; the next process does.
            match answer.filter(|answer| !matches!(answer.code, 5 | 7)) {
                Some(answer) => return answer,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn try_ask(&mut self, message: &str) -> Option<Answer> {
        let connect = || UnixStream::connect(self.dir.join(SOCKET_NAME)).ok();
        let stream = self.connection.take().or_else(connect)?;
        (&stream).write_all(message.as_bytes()).ok()?;
        self.recorder.requests.fetch_add(1, Ordering::Relaxed);
        if self.rng.below(100) < 5 {
            return None;
        }
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).ok().filter(|count| *count > 0)?;
        self.connection = Some(stream);
        serde_json::from_str(&line).ok()
    }

    fn tell(&self, sent: u64, what: What, answer: &Answer) {
        let line = answer.lines.first().cloned().unwrap_or_default();
        let word = |name: &str| line[name].as_str().map(str::to_owned);
        let is_error = line["type"] == "error";
        let why = word("rejection").or_else(|| word("kind")).filter(|_| is_error);
        let (answered, code) = (self.now(), answer.code);
        let told = Told { sent, answered, what, code, why: why.unwrap_or_default() };
        self.recorder.told.lock().unwrap().push(told);
    }

    fn claim(&mut self, key: &str, lease: u32) -> Option<u64> {
        let request = json!({ "act": "claim", "run": null, "worker": format!("w{}", self.number), "secret": secret(),
            "lease_seconds": lease, "once": key });
        let sent = self.now();
        let answer = self.ask(&request);
        let line = answer.lines.first().cloned().unwrap_or_default();
        let token = line["token"].as_str().filter(|_| answer.code == 0).map(number_of);
        let step = line["step"]["id"].as_str().unwrap_or_default().to_owned();
        self.tell(sent, What::Claim { key: key.to_owned(), token, step }, &answer);
        token
    }

    fn receipt(&mut self, key: &str, token: u64, output: &str) {
        let receipt = json!({ "outcome": "succeeded", "output": output });
        let request =
            json!({ "act": "receipt", "token": text_of(token), "receipt": receipt, "once": key });
        let sent = self.now();
        let answer = self.ask(&request);
        self.tell(sent, What::Receipt { token, output: output.to_owned() }, &answer);
    }

    /// Sends a request once, or twice under the same key.
    fn repeat(&mut self, request: Value, what: impl Fn(&Value) -> What) {
        let (mut request, key) = (request, self.key());
        request["once"] = json!(key);
        let times = 1 + u64::from(self.rng.below(100) < 20);
        let mut first = None;
        for _ in 0..times {
            let sent = self.now();
            let answer = self.ask(&request);
            let line = answer.lines.first().cloned().unwrap_or_default();
            let what = what(&line);
            // The second answer is that to the first request, so it is told only if it differs.
            if first.as_ref() != Some(&what) {
                self.tell(sent, what.clone(), &answer);
            }
            first = Some(what);
        }
    }

    fn note(&mut self) {
        let text = format!("note {} {}", self.number, self.sent);
        let request = json!({ "act": "note", "text": text, "by": "me" });
        self.repeat(request, |_| What::Note { text: text.clone() });
    }

    fn set(&mut self) {
        let request = json!({ "act": "set", "name": "shared", "value": self.sent, "by": "me" });
        self.repeat(request, |line| What::Set { version: line["version"].as_u64() });
    }

    fn renew(&mut self, token: u64) {
        let request = json!({ "act": "renew", "token": text_of(token), "lease_seconds": 600 });
        let sent = self.now();
        let answer = self.ask(&request);
        self.tell(sent, What::Renew { token }, &answer);
    }

    fn release(&mut self, token: u64) {
        let request = json!({ "act": "release", "token": text_of(token), "reason": "given back" });
        self.repeat(request, |_| What::Release { token });
    }

    /// Claims a step and reports it, with everything that can be done wrong.
    fn work(&mut self) {
        if self.rng.below(100) < 30 {
            self.note();
        }
        if self.rng.below(100) < 30 {
            self.set();
        }
        let key = self.key();
        let lease = if self.rng.below(100) < 2 { 1 } else { 600 };
        let Some(token) = self.claim(&key, lease) else {
            std::thread::sleep(Duration::from_millis(5));
            return;
        };
        if self.rng.below(100) < 20 {
            self.claim(&key, lease);
        }
        if self.rng.below(100) < 20 {
            let request = json!({ "act": "note", "text": "x", "by": "me", "once": key });
            let sent = self.now();
            let answer = self.ask(&request);
            self.tell(sent, What::Reuse, &answer);
        }
        if lease == 1 {
            // Its lease ends, or not quite.
            std::thread::sleep(Duration::from_millis(900 + self.rng.below(300)));
        }
        if lease != 1 && self.rng.below(100) < 30 {
            self.renew(token);
        }
        if self.rng.below(100) < 20 {
            self.release(token);
        }
        let output = format!("{key} output");
        let report = self.key();
        self.receipt(&report, token, &output);
        if self.rng.below(100) < 20 {
            self.receipt(&report, token, &output);
        }
        if self.rng.below(100) < 20 {
            let again = self.key();
            self.receipt(&again, token, &output);
        }
        if self.rng.below(100) < 10 {
            let other = self.key();
            self.receipt(&other, token, &format!("{key} another output"));
        }
        if self.rng.below(100) < 20 {
            self.claim(&key, lease);
        }
        if self.rng.below(100) < 10 {
            self.renew(token);
        }
    }
}

/// Clients work on the ledger in that folder until they sent so many requests.
fn clients(dir: &Path, count: u64, requests: u64, seed: u64) -> Recorder {
    let (clock, told) = (AtomicU64::new(1), Mutex::default());
    let recorder = Recorder { clock, told, requests: AtomicU64::new(0) };
    std::thread::scope(|scope| {
        for number in 0..count {
            let recorder = &recorder;
            scope.spawn(move || {
                let (rng, connection) = (Rng(seed * 1000 + number), None);
                let mut client = Client { number, sent: 0, dir, rng, recorder, connection };
                while recorder.requests.load(Ordering::Relaxed) < requests {
                    client.work();
                }
            });
        }
    });
    recorder
}

/// How many answers of each kind a history has.
type Counts = BTreeMap<&'static str, usize>;

fn counts(history: &[Told]) -> Counts {
    let mut counts = Counts::new();
    for told in history {
        let (name, is_done) = match &told.what {
            What::Claim { token, .. } => ("claim", token.is_some()),
            What::Receipt { .. } => ("receipt", told.code == 0),
            What::Renew { .. } => ("renew", told.code == 0),
            What::Release { .. } => ("release", told.code == 0),
            What::Note { .. } => ("note", told.code == 0),
            What::Set { .. } => ("set", told.code == 0),
            What::Reuse => ("key of another request", true),
        };
        *counts.entry(name).or_default() += usize::from(is_done);
        if let (What::Receipt { .. }, false) = (&told.what, is_done) {
            *counts.entry("receipt that came too late").or_default() += 1;
        }
    }
    counts
}

#[track_caller]
fn expect_true(recorder: Recorder, dir: &Path) -> (Vec<Told>, Recorded) {
    let (mut history, log) = (recorder.told.into_inner().unwrap(), recorded(dir));
    history.sort_by_key(|told| told.answered);
    let found = violations(&history, &log);
    assert!(found.is_empty(), "{} violations: {:?}", found.len(), &found[..found.len().min(5)]);
    (history, log)
}

/// Concurrent clients of one server: every answer is true. Each planted violation is found.
#[test]
fn answers_of_a_server_are_true_and_planted_violations_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("a.ledger");
    let ledger = ledger(&dir, 4000);
    let recorder = while_serving(&ledger, &dir, quiet, || clients(&dir, 8, 1500, 1));
    ledger.close().unwrap();
    let (history, log) = expect_true(recorder, &dir);
    assert!(counts(&history).values().all(|count| *count >= 20), "{:?}", counts(&history));
    let find = |is: &dyn Fn(&Told) -> bool| history.iter().position(is).unwrap();
    let a_claim = find(&|it| matches!(it.what, What::Claim { token: Some(_), .. }));
    let accepted = find(&|it| matches!(it.what, What::Receipt { .. }) && it.code == 0);
    let What::Receipt { token, output } = history[accepted].what.clone() else { unreachable!() };
    let late = |code: u8, why: &str, output: &str| {
        let last = u64::MAX - 10;
        let what = What::Receipt { token, output: output.to_owned() };
        Told { sent: last, answered: last + 1, what, code, why: why.to_owned() }
    };
    let mut to_two = history[a_claim].clone();
    if let What::Claim { key, .. } = &mut to_two.what {
        key.push_str(" of another client");
    }
    let mut is_over = history
        .iter()
        .rev()
        .find(|it| matches!(it.what, What::Claim { token: Some(it), .. } if it == token))
        .unwrap()
        .clone();
    (is_over.sent, is_over.answered) = (u64::MAX - 1, u64::MAX);
    let mut reused = history[find(&|it| it.what == What::Reuse)].clone();
    (reused.code, reused.why) = (0, String::new());
    let other =
        |what| Told { sent: u64::MAX - 9, answered: u64::MAX, what, code: 0, why: String::new() };
    let version = history.iter().find_map(|it| match it.what {
        What::Set { version } => version,
        _ => None,
    });
    let released = history.iter().find_map(|it| match it.what {
        What::Release { token } if it.code == 0 => Some(token),
        _ => None,
    });
    let after_release =
        What::Receipt { token: released.unwrap(), output: "after the release".to_owned() };
    for (planted, name) in [
        (other(What::Renew { token }), "is over and was renewed"),
        (other(after_release), "was accepted after its release"),
        (other(What::Note { text: "never sent".to_owned() }), "is there 0 times"),
        (other(What::Set { version }), "was given to two values"),
        (to_two, "was given to two clients"),
        (is_over, "is over and was answered as held"),
        (late(6, "stale_token", &output), "done, then answered as not done"),
        (late(0, "", "another"), "two receipts"),
        (late(6, "stale_token", "never recorded"), "was not kept"),
        (reused, "a key was used for another request"),
    ] {
        let mut history = history.clone();
        history.push(planted);
        let found = violations(&history, &log);
        assert!(found.iter().any(|it| it.contains(name)), "{name}: {found:?}");
    }
    let mut lost = log.clone();
    lost.receipts.remove(&token);
    assert!(!violations(&history, &lost).is_empty(), "a lost receipt");
    let mut twice = log.clone();
    twice.receipts.get_mut(&token).unwrap().push(output);
    assert!(!violations(&history, &twice).is_empty(), "a receipt that was recorded twice");
    let mut undone = log;
    undone.dispatched.clear();
    assert!(!violations(&history, &undone).is_empty(), "a claim that was lost");
}

/// The same while the server is killed again and again, in several ledgers.
#[test]
fn sweep_answers_are_true_while_the_server_is_killed() {
    let (rounds, requests, minimum) = sweep((1, 800, 1), (1, 2500, 1), (30, 5000, 1000));
    let (mut all, mut sent) = (Counts::new(), 0);
    for round in 0..rounds {
        let (counts, requests) = killed(requests, 2 + round);
        sent += requests;
        for (name, count) in counts {
            *all.entry(name).or_default() += count;
        }
    }
    println!("measured: histories: {sent} requests");
    for (name, count) in &all {
        println!("measured: histories: {count} answers: {name}");
    }
    // How many requests reach a server that is killed all the time depends on the machine.
    assert!(all.len() == 8 && all.values().all(|count| *count >= minimum), "{all:?}");
}

/// A history with kills: the counts of its answers, and the number of requests.
fn killed(requests: u64, seed: u64) -> (Counts, u64) {
    let place = Place::new();
    let steps: Vec<String> = (0..requests).map(|number| format!("{{id: s{number}}}")).collect();
    place.write("plan.yaml", format!("steps: [{}]", steps.join(", ")));
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let (dir, is_over) = (place.path(".ledger"), AtomicBool::new(false));
    let recorder = std::thread::scope(|scope| {
        let (place, over) = (&place, &is_over);
        scope.spawn(move || {
            let mut round = 0;
            while !over.load(Ordering::Acquire) {
                let server = start(&mut place.command(&["serve"]));
                wait_until("it serves", || server.said("serving") || over.load(Ordering::Acquire));
                std::thread::sleep(Duration::from_millis(300 + round % 7 * 50));
                server.kill();
                round += 1;
            }
        });
        let recorder = clients(&dir, 16, requests, seed);
        is_over.store(true, Ordering::Release);
        recorder
    });
    let sent = recorder.requests.load(Ordering::Relaxed);
    let (history, _) = expect_true(recorder, &dir);
    place.ledger("verify .ledger --level replay").code(0);
    (counts(&history), sent)
}
