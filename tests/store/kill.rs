//! The kill test: owners and standbys as processes on a real store, workers over HTTP with request keys, and SIGKILL
//! at random times. No acknowledged record may be lost, and none may be there twice.
//!
//! `LEDGER_STORE_KILLS` is the number of kills over all ledgers (8 by default), `LEDGER_STORE_LEDGERS` the number of
//! ledgers at once (8 on a server, 2 in a folder), `LEDGER_STORE_WORKERS` the number of workers of each (2), and
//! `LEDGER_STORE_SEED` the seed of the times. With one ledger, 64 workers and 20 kills it is a race for claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::process::{Place, Running, WORKER, ask, free_port, write_tokens};

/// Steps of each plan, and for each takeover: more than are done.
const STEPS: usize = 1000;
const STEPS_EACH: usize = 1000;

/// The pause of a worker between two steps, for each worker of its ledger.
const PAUSE: Duration = Duration::from_millis(10);

/// Of every so many takeovers, one is a hand-over, and one replaces a process that stands still.
const EVERY: usize = 10;

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

/// The workers of a ledger, and when the last answer came from each machine.
struct Work {
    ports: [u16; 2],
    stop: AtomicBool,
    start: Instant,
    pause: Duration,
    /// Microseconds after the start.
    answered: [AtomicU64; 2],
    told: Mutex<Acknowledged>,
}

impl Work {
    /// Ask both machines in turn until one answers for good.
    fn ask(&self, line: &str, key: &str, body: &Value) -> Option<(u16, String)> {
        for turn in 0.. {
            let machine = turn % 2;
            if let Some((status, body)) = ask(self.ports[machine], WORKER, line, key, body) {
                // A standby answers where the owner is, or that there is none.
                let is_final = !matches!(status, 307 | 423 | 429 | 500..);
                // A machine that ends may have no right to answer any more.
                if is_final && !body.contains("fenced") {
                    let at = u64::try_from(self.start.elapsed().as_micros()).unwrap();
                    self.answered[machine].store(at, Ordering::SeqCst);
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

    /// Claim a step and report on it, until the end.
    fn work(&self, name: &str) {
        for round in 0_u64.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(self.pause);
            let secret = format!("{:0>32}", format!("{round:x}"));
            let claim = json!({ "worker": name, "run": "r", "secret": secret });
            let Some((status, body)) =
                self.ask("POST /v1/claims", &format!("{name}-claim-{round}"), &claim)
            else {
                return;
            };
            assert_eq!(status, 201, "{body}");
            let answer: Value = serde_json::from_str(&body).unwrap();
            let token = answer["lines"][0]["token"].as_str().unwrap().to_owned();
            let seq: u64 = token.split('-').next().unwrap().parse().unwrap();
            let before = self.told.lock().unwrap().claims.insert(seq, name.to_owned());
            assert_eq!(before, None, "attempt {seq} was given twice");
            let output = format!("{name}-output-{round}");
            let receipt = json!({ "receipt": { "outcome": "succeeded", "output": output } });
            let line = format!("POST /v1/claims/{token}/receipt");
            let key = format!("{name}-receipt-{round}");
            let Some((status, body)) = self.ask(&line, &key, &receipt) else { return };
            assert_eq!(status, 200, "{body}");
            self.told.lock().unwrap().receipts.insert(output, seq);
        }
    }

    /// How long after this moment the first answer of a machine came.
    fn first_answer(&self, machine: usize, after: Instant) -> Duration {
        let after = u64::try_from((after - self.start).as_micros()).unwrap();
        let until = Instant::now() + Duration::from_secs(180);
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

/// What was measured.
#[derive(Default)]
struct Measured {
    /// From SIGKILL to the first answer of the new owner.
    killed: Vec<Duration>,
    /// From the end of the old owner to the first answer of the new one.
    handed_over: Vec<Duration>,
    /// From SIGSTOP to the first answer of the new owner.
    stopped: Vec<Duration>,
    acknowledged: usize,
}

fn start(place: &Place, ports: [u16; 2], machine: usize, more: &str) -> Running {
    let (folder, port) = (["a", "b"][machine], ports[machine]);
    // The probe is tested elsewhere; here it would be most of the requests.
    place.start(&format!(
        "serve --ledger @{folder} --store URL --no-probe --token-file @tokens --http 127.0.0.1:{port}{more}"
    ))
}

/// Kill the owner of one ledger so many times.
fn kill_one(kills: usize, workers: usize, seed: u64, measured: &Mutex<Measured>) {
    let (place, mut random) = (Place::new(), Random(seed));
    let takeovers = kills + 2 * kills.div_ceil(EVERY);
    let steps =
        (0..STEPS + takeovers * STEPS_EACH).map(|step| format!("  - {{id: s{step}, goal: x}}\n"));
    let steps: String = steps.collect();
    place.plan("a", &format!("steps:\n{steps}"));
    write_tokens(&place.path("tokens"));
    let ports = [free_port(), free_port()];
    let work = Arc::new(Work {
        ports,
        stop: AtomicBool::new(false),
        start: Instant::now(),
        pause: PAUSE.saturating_mul(u32::try_from(workers).unwrap()),
        answered: Default::default(),
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
        standby.wait_for("standing by");
        // It works for a while: the owner is killed at any point of it.
        std::thread::sleep(Duration::from_millis(1200 + random.below(1500)));
        let other = 1 - machine;
        let at = Instant::now();
        match kill % (EVERY + 2) {
            1 => {
                assert_eq!(owner.stop(), 0, "{}", owner.err());
                let waited = work.first_answer(other, at);
                measured.lock().unwrap().handed_over.push(waited);
            }
            2 => {
                owner.signal(Signal::STOP);
                let waited = work.first_answer(other, at);
                measured.lock().unwrap().stopped.push(waited);
                owner.signal(Signal::CONT);
                assert_eq!(owner.end(), 6, "{}", owner.err());
                assert!(owner.err().contains("took over the ledger"), "{}", owner.err());
            }
            _ => {
                owner.signal(Signal::KILL);
                let waited = work.first_answer(other, at);
                measured.lock().unwrap().killed.push(waited);
                owner.end();
            }
        }
        // The machine comes back, as a standby.
        let back = start(&place, ports, machine, " --standby");
        (owner, standby, machine) = (standby, back, other);
    }
    work.stop.store(true, Ordering::SeqCst);
    for worker in threads {
        worker.join().unwrap();
    }
    standby.wait_for("standing by");
    assert_eq!(standby.stop(), 0, "{}", standby.err());
    assert_eq!(owner.stop(), 0, "{}", owner.err());
    check(&place, &work.told.lock().unwrap(), workers);
    measured.lock().unwrap().acknowledged += work.told.lock().unwrap().receipts.len();
}

/// Every acknowledged claim and receipt is in the store, once, and every folder has the same log. At most the last
/// request of so many workers got no answer.
pub(crate) fn check(place: &Place, told: &Acknowledged, workers: usize) {
    let restored = place.json("restore URL @restored --json");
    let root = format!("{}:{}", restored["seq"], restored["chain"].as_str().unwrap());
    place.ledger(&format!("verify @restored --expect-head {root}"));
    let (mut claims, mut receipts) = (BTreeMap::new(), BTreeMap::new());
    let (mut claimed, mut accepted) = (BTreeSet::new(), BTreeSet::new());
    let out = place.ledger("inspect @restored records --json");
    for line in out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let event = &line["event"];
        match line["kind"].as_str() {
            Some("dispatched") => {
                let worker = event["worker"].as_str().unwrap().to_owned();
                claims.insert(line["seq"].as_u64().unwrap(), worker);
                let step = event["step"].as_u64().unwrap();
                assert!(claimed.insert(step), "step {step} was claimed twice");
            }
            Some("receipt_recorded") => {
                let output = event["receipt"]["output"].as_str().unwrap().to_owned();
                let before = receipts.insert(output, event["token"].as_u64().unwrap());
                assert_eq!(before, None, "a receipt is there twice: {line}");
            }
            Some("accepted") => {
                let step = event["step"].as_u64().unwrap();
                assert!(accepted.insert(step), "step {step} was accepted twice");
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
    for folder in ["a", "b"] {
        place.ledger(&format!("verify @{folder}"));
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn line(what: &str, times: &mut [Duration]) -> String {
    let median = median(times);
    let of = |time: Option<&Duration>| time.copied().unwrap_or_default().as_secs_f64();
    format!(
        "{what}: {}, median {:.2} s, fastest {:.2} s, slowest {:.2} s",
        times.len(),
        median.as_secs_f64(),
        of(times.first()),
        of(times.last())
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
    let measured = Mutex::new(Measured::default());
    std::thread::scope(|scope| {
        for ledger in 0..ledgers {
            let measured = &measured;
            let seed = seed.wrapping_mul(1000).wrapping_add(u64::try_from(ledger).unwrap());
            scope.spawn(move || kill_one(kills, workers, seed, measured));
        }
    });
    let mut found = measured.into_inner().unwrap();
    println!(
        "kill test: {ledgers} ledgers with {workers} workers each, {} results acknowledged, 0 lost, 0 doubled",
        found.acknowledged
    );
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("  load average at the end: {}", load.trim());
    println!("  {}", line("SIGKILL to the first answer", &mut found.killed));
    println!("  {}", line("orderly end to the first answer", &mut found.handed_over));
    println!("  {}", line("SIGSTOP to the first answer", &mut found.stopped));
    assert!(median(&mut found.killed) <= Duration::from_secs(8), "takeovers are slow");
}
