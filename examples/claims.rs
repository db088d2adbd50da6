//! How long a claim takes through the socket of a ledger that is served, and that its winner is one.
//!
//! `cargo run --release --example claims -- DIR [CLIENTS] [CLAIMS] [RATE]` makes a ledger in a folder
//! that is not there yet. Each client has a connection of its own, and reports what it claimed, so
//! that half of what is measured are claims, and half receipts.
//!
//! Without a rate each client asks again as soon as it is answered: so many are always waiting, and
//! how long they do is how many they are, divided by what the ledger can do. With a rate, so many
//! claims a second are due, over all clients and whatever became of those before; a claim is then
//! measured from when it was due, so that waiting for a late answer counts.
#![expect(clippy::print_stdout, reason = "it is a program that talks")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use plan_ledger::{Environment, Ledger, Plan, RunPolicy};
use plan_ledger_cli::protocol::Act;
use plan_ledger_cli::server::{Client, while_serving};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn plan(steps: usize) -> Result<Plan, Failure> {
    let step = |number| serde_json::json!({ "id": format!("s{number}"), "goal": "do it" });
    let steps: Vec<_> = (0..steps).map(step).collect();
    Ok(serde_json::from_value(serde_json::json!({ "title": "Claims", "steps": steps }))?)
}

/// What one client saw: how long claims and receipts took, and which tokens it was given.
#[derive(Default)]
struct Seen {
    claims: Vec<Duration>,
    receipts: Vec<Duration>,
    tokens: Vec<u64>,
}

/// When the claims of a client are due; without, as soon as the last receipt was answered.
#[derive(Clone, Copy)]
struct Schedule {
    next: Instant,
    every: Duration,
}

impl Schedule {
    /// Wait until a claim is due; when that was.
    fn wait(schedule: &mut Option<Self>) -> Instant {
        let Some(Self { next, every }) = schedule else { return Instant::now() };
        let due = *next;
        *next += *every;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due
    }
}

fn work(dir: &Path, worker: &str, mut schedule: Option<Schedule>) -> Result<Seen, Failure> {
    let mut client = Client::new(dir, &Environment::system());
    let mut seen = Seen::default();
    loop {
        let claim =
            Act::Claim { run: None, step: None, worker: worker.to_owned(), lease_seconds: None };
        let begun = Schedule::wait(&mut schedule);
        let answer = client.ask(&claim).map_err(|failure| failure.to_string())?;
        let took = begun.elapsed();
        let token = answer.lines.iter().find_map(|line| line.get("token")?.as_u64());
        let Some(token) = token else { return Ok(seen) };
        seen.claims.push(took);
        seen.tokens.push(token);
        let receipt = Act::Receipt {
            token,
            receipt: serde_json::json!({ "outcome": "succeeded", "output": worker }),
            duration_micros: 0,
            log_tail: String::new(),
            next: None,
        };
        let begun = Instant::now();
        client.ask(&receipt).map_err(|failure| failure.to_string())?;
        seen.receipts.push(begun.elapsed());
    }
}

fn figures(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 1000).copied().unwrap_or_default();
    let most = times.last().copied().unwrap_or_default();
    println!(
        "{name}: {} in all; half within {:?}, 99 % within {:?}, the longest {most:?}",
        times.len(),
        at(500),
        at(990)
    );
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let dir = words.next().ok_or("which folder?")?;
    let dir = Path::new(&dir);
    let clients: usize = words.next().map_or(Ok(64), |text| text.parse())?;
    let steps: usize = words.next().map_or(Ok(10_000), |text| text.parse())?;
    let rate: Option<u32> = words.next().map(|text| text.parse()).transpose()?;
    let ledger = Ledger::create(dir, &Environment::system())?;
    ledger.start_run("claims", &plan(steps)?, RunPolicy::default())?;
    let all = Mutex::new(Seen::default());
    let begun = Instant::now();
    while_serving(
        &ledger,
        dir,
        |text| println!("{text}"),
        || {
            std::thread::scope(|scope| {
                let all = &all;
                let start = |number: usize| {
                    scope.spawn(move || -> Result<(), Failure> {
                        let schedule = rate.map(|rate| {
                            let gap = Duration::from_secs(1) / rate.max(1);
                            let nth = |count: usize| gap * u32::try_from(count).unwrap_or(u32::MAX);
                            Schedule { next: begun + nth(number), every: nth(clients) }
                        });
                        let seen = work(dir, &format!("client-{number}"), schedule)?;
                        let mut all = all.lock().map_err(|error| error.to_string())?;
                        all.claims.extend(seen.claims);
                        all.receipts.extend(seen.receipts);
                        all.tokens.extend(seen.tokens);
                        Ok(())
                    })
                };
                let threads: Vec<_> = (0..clients).map(start).collect();
                threads.into_iter().try_for_each(|thread| match thread.join() {
                    Ok(done) => done,
                    Err(_) => Err("a client panicked".into()),
                })
            })
        },
    )?;
    let took = begun.elapsed();
    ledger.close()?;
    let all = all.into_inner()?;
    let winners: BTreeSet<u64> = all.tokens.iter().copied().collect();
    println!("{clients} clients, {} tokens, {} of them different", all.tokens.len(), winners.len());
    figures("claims", all.claims);
    figures("receipts", all.receipts);
    println!("{steps} steps in {took:?}");
    Ok(())
}
