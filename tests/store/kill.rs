//! The kill test: owners and standbys as processes on a real store, workers over HTTP with request keys, and SIGKILL
//! at random times. No acknowledged record may be lost, and none may be there twice.
//!
//! `LEDGER_STORE_KILLS` is the number of kills over all ledgers (8 by default), `LEDGER_STORE_LEDGERS` the number of
//! ledgers at once (8 on a server, 2 in a folder), `LEDGER_STORE_WORKERS` the number of workers of each (2), and
//! `LEDGER_STORE_SEED` the seed of the times. With one ledger, 64 workers and 20 kills it is a race for claims.
//!
//! At the end the folders of both machines, the store, and a folder that is restored from it have the same root and the
//! same hash of the state.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::process::{OPERATOR, Place, Running, WORKER, ask, write_tokens};

/// The steps of each run. A run follows when fewer than these are left, so that memory and requests do not grow with
/// the number of kills.
const STEPS: usize = 1000;

/// The pause of a worker between two steps, for each worker of its ledger.
const PAUSE: Duration = Duration::from_millis(10);

/// Of every so many takeovers, one is a hand-over, and one replaces a process that stands still.
const EVERY: usize = 10;

/// How many kills are between two lines about the progress.
const REPORT_EVERY: usize = 50;

/// The longest time to wait for an answer of a new owner: a machine with much other work is no failure.
const ANSWER_MAX: Duration = Duration::from_secs(300);

pub(crate) fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// Random numbers from a seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// What workers were told.
#[derive(Default)]
pub(crate) struct Acknowledged {
    /// The worker of each claimed attempt, by its token.
    pub(crate) claims: BTreeMap<u64, String>,
    /// The attempt of each output whose receipt was acknowledged.
    pub(crate) receipts: BTreeMap<String, u64>,
}

/// The workers of a ledger, and when the first answer came from each machine.
struct Work {
    ports: [u16; 2],
    stop: AtomicBool,
    start: Instant,
    pause: Duration,
    /// Microseconds after the start; 0 before the answer.
    answered: [AtomicU64; 2],
    /// The steps of all runs.
    steps: AtomicUsize,
    told: Mutex<Acknowledged>,
}

/// So many steps without dependencies.
fn steps() -> Value {
    (0..STEPS).map(|step| json!({ "id": format!("s{step}"), "goal": "x" })).collect()
}

impl Work {
    /// Ask both machines in turn until one answers for good.
    fn ask(&self, role: &str, line: &str, key: &str, body: &Value) -> Option<(u16, String)> {
        for turn in 0.. {
            let machine = turn % 2;
            if let Some((status, body)) = ask(self.ports[machine], role, line, key, body) {
                // A standby answers where the owner is, or that there is none.
                let is_final = !matches!(status, 307 | 423 | 429 | 500..);
                // A machine that ends may have no right to answer any more.
                if is_final && !body.contains("fenced") {
                    let at = u64::try_from(self.start.elapsed().as_micros()).unwrap();
                    let _ = self.answered[machine].compare_exchange(
                        0,
                        at,
                        Ordering::SeqCst,
                        Ordering::SeqCst,
                    );
                    return Some((status, body));
                }
            }
            // A request that has no answer yet is asked again after the end, too: its outcome counts.
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// Start another run if few steps are left.
    fn add_steps(&self) {
        let claimed = || self.told.lock().unwrap().claims.len();
        while self.steps.load(Ordering::SeqCst) < claimed() + STEPS {
            let name = format!("r{}", self.steps.load(Ordering::SeqCst) / STEPS);
            let body = json!({ "run": name, "plan": { "steps": steps() } });
            let asked = self.ask(OPERATOR, "POST /v1/runs", &format!("run-{name}"), &body);
            let (status, body) = asked.unwrap();
            assert_eq!(status, 201, "{body}");
            self.steps.fetch_add(STEPS, Ordering::SeqCst);
        }
    }

    /// Claim a step and report on it, until the end.
    fn work(&self, name: &str) {
        for round in 0_u64.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(self.pause);
            let secret = format!("{:0>32}", format!("{round:x}"));
            let claim = json!({ "worker": name, "every_run": true, "secret": secret });
            let key = format!("{name}-claim-{round}");
            let Some((status, body)) = self.ask(WORKER, "POST /v1/claims", &key, &claim) else {
                return;
            };
            assert!(matches!(status, 200 | 201), "{status}: {body}");
            let answer: Value = serde_json::from_str(&body).unwrap();
            // A worker that is faster than its machines change waits for the next run.
            let Some(token) = answer["lines"][0]["token"].as_str() else {
                assert_eq!(answer["lines"][0]["type"], "nothing", "{body}");
                continue;
            };
            let token = token.to_owned();
            let seq: u64 = token.split('-').next().unwrap().parse().unwrap();
            let before = self.told.lock().unwrap().claims.insert(seq, name.to_owned());
            assert_eq!(before, None, "attempt {seq} was given twice");
            let output = format!("{name}-output-{round}");
            let receipt = json!({ "receipt": { "outcome": "succeeded", "output": output } });
            let line = format!("POST /v1/claims/{token}/receipt");
            let key = format!("{name}-receipt-{round}");
            let Some((status, body)) = self.ask(WORKER, &line, &key, &receipt) else { return };
            assert_eq!(status, 200, "{body}");
            self.told.lock().unwrap().receipts.insert(output, seq);
        }
    }

    /// From now on the first answer of a machine counts, which holds no ledger yet.
    fn expect_answer(&self, machine: usize) -> Instant {
        self.answered[machine].store(0, Ordering::SeqCst);
        Instant::now()
    }

    /// How long after this moment the first answer of a machine came.
    fn first_answer(&self, machine: usize, after: Instant) -> Duration {
        let after = u64::try_from((after - self.start).as_micros()).unwrap();
        let until = Instant::now() + ANSWER_MAX;
        loop {
            let at = self.answered[machine].load(Ordering::SeqCst);
            if at > after {
                return Duration::from_micros(at - after);
            }
            assert!(Instant::now() < until, "machine {machine} does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[derive(Default)]
struct Measured {
    /// From SIGKILL to the first answer of the new owner.
    killed: Vec<Duration>,
    /// From SIGTERM to the first answer of the new owner.
    handed_over: Vec<Duration>,
    /// From SIGSTOP to the first answer of the new owner.
    stopped: Vec<Duration>,
    acknowledged: usize,
    /// Objects and bytes in the store, of all ledgers.
    objects: u64,
    bytes: u64,
    /// The largest memory of an owner at the end, in KiB.
    memory: u64,
}

impl Measured {
    #[expect(clippy::print_stdout, reason = "a long test shows how far it is")]
    fn report(&self, begun: Instant) {
        println!(
            "  {} kills after {:.0} s, load average {}\n    {}\n    {}\n    {}",
            self.killed.len(),
            begun.elapsed().as_secs_f64(),
            std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
            line("SIGKILL to the first answer", &self.killed),
            line("orderly end to the first answer", &self.handed_over),
            line("SIGSTOP to the first answer", &self.stopped)
        );
    }
}

/// All ledgers of the test.
struct Ledgers {
    begun: Instant,
    measured: Mutex<Measured>,
    /// Whether one of them has failed: the others need not continue.
    has_failed: AtomicBool,
}

/// Notes that a thread ends in a failure.
struct Failing<'a>(&'a AtomicBool);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

fn start(place: &Place, ports: [u16; 2], machine: usize, more: &str) -> Running {
    let (folder, port) = (["a", "b"][machine], ports[machine]);
    // The probe is tested elsewhere; here it would be most of the requests.
    place.start(&format!(
        "serve --ledger @{folder} --store URL --no-probe --token-file @tokens --http 127.0.0.1:{port}{more}"
    ))
}

/// So many pairs of ports, all different.
fn port_pairs(count: usize) -> Vec<[u16; 2]> {
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let pairs: Vec<_> = (0..count).map(|_| [listen(), listen()]).collect();
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    pairs.iter().map(|[one, other]| [port(one), port(other)]).collect()
}

/// Kill the owner of one ledger so many times.
fn kill_one(kills: usize, workers: usize, seed: u64, ports: [u16; 2], all: &Ledgers) {
    let _failing = Failing(&all.has_failed);
    let (place, mut random) = (Place::new(), Random(seed));
    let takeovers = kills + 2 * kills.div_ceil(EVERY);
    place.plan("a", &json!({ "steps": steps() }).to_string());
    write_tokens(&place.path("tokens"));
    let work = Arc::new(Work {
        ports,
        stop: AtomicBool::new(false),
        start: Instant::now(),
        pause: PAUSE.saturating_mul(u32::try_from(workers).unwrap()),
        answered: Default::default(),
        steps: AtomicUsize::new(STEPS),
        told: Mutex::default(),
    });
    let mut owner = start(&place, ports, 0, "");
    owner.wait_for("serving");
    let mut standby = start(&place, ports, 1, " --standby");
    let threads: Vec<_> = (0..workers)
        .map(|worker| {
            let work = Arc::clone(&work);
            std::thread::spawn(move || work.work(&format!("w{worker}")))
        })
        .collect();
    let mut machine = 0;
    for kill in 1..=takeovers {
        work.add_steps();
        standby.wait_for("standing by");
        // It works for a while: the owner is killed at any point of it.
        std::thread::sleep(Duration::from_millis(1200 + random.below(1500)));
        assert!(!threads.iter().any(JoinHandle::is_finished), "a worker has failed");
        if all.has_failed.load(Ordering::SeqCst) {
            return;
        }
        let other = 1 - machine;
        let at = work.expect_answer(other);
        match kill % (EVERY + 2) {
            1 => {
                assert_eq!(owner.stop(), 0, "{}", owner.err());
                let waited = work.first_answer(other, at);
                all.measured.lock().unwrap().handed_over.push(waited);
            }
            2 => {
                owner.signal(Signal::STOP);
                let waited = work.first_answer(other, at);
                all.measured.lock().unwrap().stopped.push(waited);
                owner.signal(Signal::CONT);
                assert_eq!(owner.end(), 6, "{}", owner.err());
                assert!(owner.err().contains("took over the ledger"), "{}", owner.err());
            }
            _ => {
                owner.signal(Signal::KILL);
                let waited = work.first_answer(other, at);
                let mut measured = all.measured.lock().unwrap();
                measured.killed.push(waited);
                if measured.killed.len().is_multiple_of(REPORT_EVERY) {
                    measured.report(all.begun);
                }
                drop(measured);
                owner.end();
            }
        }
        // The machine comes back, as a standby.
        let back = start(&place, ports, machine, " --standby");
        (owner, standby, machine) = (standby, back, other);
    }
    standby.wait_for("standing by");
    work.stop.store(true, Ordering::SeqCst);
    for worker in threads {
        worker.join().unwrap();
    }
    let memory = owner.memory();
    assert_eq!(standby.stop(), 0, "{}", standby.err());
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    let told = work.told.lock().unwrap();
    check(&place, &told, workers);
    let status = place.json("store status URL --json");
    let number = |name: &str| status[name].as_u64().unwrap();
    let mut measured = all.measured.lock().unwrap();
    measured.acknowledged += told.receipts.len();
    measured.objects += number("slots") + number("segments") + number("indexes");
    measured.bytes += number("slot_bytes") + number("segment_bytes") + number("index_bytes");
    measured.memory = measured.memory.max(memory);
}

/// The root of a ledger and the hash of its state, after all of it was verified.
fn verified(place: &Place, ledger: &str) -> Value {
    let found = place.json(&format!("verify {ledger} --level replay --json"));
    assert_eq!(found["condition"], "whole", "{ledger}: {found}");
    assert_eq!(found["state"]["seq"], found["root"]["seq"], "{ledger}: {found}");
    json!({ "root": found["root"], "state": found["state"] })
}

/// Every acknowledged claim and receipt is in the store, once, and every folder has the same log and the same state. At
/// most the last request of so many workers got no answer. All processes have ended.
pub(crate) fn check(place: &Place, told: &Acknowledged, workers: usize) {
    let restored = place.json("restore URL @restored --json");
    let root = json!({ "seq": restored["seq"], "chain": restored["chain"] });
    let copy = verified(place, "@restored");
    assert_eq!(copy["root"], root);
    assert_eq!(verified(place, "URL"), copy);
    // The last owner has everything. The folder of the standby may lack the last records, and gets them.
    assert!(
        ["@a", "@b"].iter().any(|folder| verified(place, folder) == copy),
        "no owner has {root}"
    );
    for folder in ["@a", "@b"] {
        place.ledger(&format!("restore URL {folder}"));
        assert_eq!(verified(place, folder), copy, "{folder}");
    }
    let (mut claims, mut receipts) = (BTreeMap::new(), BTreeMap::new());
    let (mut claimed, mut accepted) = (BTreeSet::new(), BTreeSet::new());
    let out = place.ledger("inspect @restored records --json");
    for line in out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let event = &line["event"];
        match line["kind"].as_str() {
            Some("dispatched") => {
                let worker = event["worker"].as_str().unwrap().to_owned();
                claims.insert(line["seq"].as_u64().unwrap(), worker);
                assert!(claimed.insert(step_of(event)), "a step was claimed twice: {line}");
            }
            Some("receipt_recorded") => {
                let output = event["receipt"]["output"].as_str().unwrap().to_owned();
                let before = receipts.insert(output, event["token"].as_u64().unwrap());
                assert_eq!(before, None, "a receipt is there twice: {line}");
            }
            Some("accepted") => {
                assert!(accepted.insert(step_of(event)), "a step was accepted twice: {line}");
            }
            _ => {}
        }
    }
    for (seq, worker) in &told.claims {
        assert_eq!(claims.get(seq), Some(worker), "the claim {seq} is lost");
    }
    for (output, seq) in &told.receipts {
        assert_eq!(receipts.get(output), Some(seq), "the receipt {output} is lost");
    }
    assert!(claims.len() <= told.claims.len() + workers, "claims were doubled");
    assert!(receipts.len() <= told.receipts.len() + workers, "receipts were doubled");
    assert!(!told.receipts.is_empty());
    // A receipt whose step was not accepted would be lost as well.
    assert!(accepted.len() >= told.receipts.len(), "results are not accepted");
}

/// The run and the step of an event.
fn step_of(event: &Value) -> (u64, u64) {
    (event["run"].as_u64().unwrap(), event["step"].as_u64().unwrap())
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn line(what: &str, times: &[Duration]) -> String {
    let median = median(times);
    let of = |time: Option<&Duration>| time.copied().unwrap_or_default().as_secs_f64();
    format!(
        "{what}: {}, median {:.2} s, fastest {:.2} s, slowest {:.2} s",
        times.len(),
        median.as_secs_f64(),
        of(times.iter().min()),
        of(times.iter().max())
    )
}

/// Goal: whenever the owner is killed, no acknowledged record is lost or doubled, and a standby answers soon.
#[test]
fn killed_owners_lose_nothing() {
    let is_folder = std::env::var("LEDGER_STORE_URL").map_or(true, |url| url.starts_with("file:"));
    let ledgers = number("LEDGER_STORE_LEDGERS", if is_folder { 2 } else { 8 });
    let kills = number("LEDGER_STORE_KILLS", 8).div_ceil(ledgers);
    let workers = number("LEDGER_STORE_WORKERS", 2);
    let seed = u64::try_from(number("LEDGER_STORE_SEED", 39)).unwrap();
    let (begun, measured) = (Instant::now(), Mutex::default());
    let all = Ledgers { begun, measured, has_failed: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        for (ledger, ports) in (0_u64..).zip(port_pairs(ledgers)) {
            let (all, seed) = (&all, seed.wrapping_mul(1000).wrapping_add(ledger));
            scope.spawn(move || kill_one(kills, workers, seed, ports, all));
        }
    });
    let found = all.measured.into_inner().unwrap();
    println!(
        "kill test: {ledgers} ledgers with {workers} workers each, {} results acknowledged, 0 lost, 0 doubled",
        found.acknowledged
    );
    found.report(begun);
    println!(
        "  the store has {} objects with {}, and the largest owner had {} of memory",
        found.objects,
        megabytes(found.bytes),
        megabytes(found.memory * 1024)
    );
    assert!(median(&found.killed) <= Duration::from_secs(8), "takeovers are slow");
}

fn megabytes(bytes: u64) -> String {
    let tenths = bytes / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}
