//! Measures the latency of claims through the socket of a server, and checks that each step has one
//! winner.
//!
//! `cargo run --release -p plan-ledger-cli --features examples --example claims -- DIR [CLIENTS]
//! [CLAIMS] [RATE]` creates a ledger in a new folder. Each client has its own connection and reports
//! each claim, so that one half of the requests are claims and the other half receipts.
//!
//! Without a rate, each client claims again as soon as it has an answer (closed loop). With a rate,
//! that many claims per second are due over all clients, regardless of earlier ones (open
//! loop), and the latency of a claim counts from its due time, so that waiting for a late answer is
//! included.
#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use plan_ledger::plan::Token;
use plan_ledger::{Environment, Ledger, Plan, RunPolicy};
use plan_ledger_cli::protocol::ReceiptFile;
use plan_ledger_cli::requests::{ClaimRequest, ReceiptRequest};
use plan_ledger_cli::server::{Client, while_serving};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn plan(steps: usize) -> Result<Plan, Failure> {
    let step = |number| serde_json::json!({ "id": format!("s{number}"), "goal": "do it" });
    let steps: Vec<_> = (0..steps).map(step).collect();
    Ok(serde_json::from_value(serde_json::json!({ "title": "Claims", "steps": steps }))?)
}

/// The latencies and tokens of one client.
#[derive(Default)]
struct ClientResult {
    claims: Vec<Duration>,
    receipts: Vec<Duration>,
    tokens: Vec<Token>,
}

/// The due times of the claims of a client.
#[derive(Clone, Copy)]
struct Schedule {
    next: Instant,
    every: Duration,
}

impl Schedule {
    /// Wait until a claim is due. Returns the due time.
    fn wait(schedule: &mut Option<Self>) -> Instant {
        let Some(Self { next, every }) = schedule else { return Instant::now() };
        let due = *next;
        *next += *every;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due
    }
}

fn work(dir: &Path, worker: &str, mut schedule: Option<Schedule>) -> Result<ClientResult, Failure> {
    let environment = Environment::system();
    let mut client = Client::new(dir, &environment);
    let mut result = ClientResult::default();
    loop {
        let new = ClaimRequest::new(environment.new_secret());
        let claim = ClaimRequest { worker: worker.to_owned(), ..new };
        let start = Schedule::wait(&mut schedule);
        let answer = client.call(&claim.into()).map_err(|failure| failure.to_string())?;
        let elapsed = start.elapsed();
        let token = answer.lines.iter().find_map(|line| line.get("token")?.as_str());
        let Some(token) = token else { return Ok(result) };
        let token: Token = token.parse()?;
        result.claims.push(elapsed);
        result.tokens.push(token);
        let receipt = ReceiptRequest {
            token,
            receipt: ReceiptFile { output: Some(worker.into()), ..ReceiptFile::default() },
            duration_micros: 0,
            log_tail: String::new(),
            next: None,
        };
        let start = Instant::now();
        client.call(&receipt.into()).map_err(|failure| failure.to_string())?;
        result.receipts.push(start.elapsed());
    }
}

fn print_latencies(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 1000).copied().unwrap_or_default();
    let most = times.last().copied().unwrap_or_default();
    println!(
        "{name}: {} requests; p50 {:?}, p99 {:?}, max {most:?}",
        times.len(),
        at(500),
        at(990)
    );
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let dir = words.next().ok_or("expected a folder")?;
    let dir = Path::new(&dir);
    let clients: usize = words.next().map_or(Ok(64), |text| text.parse())?;
    let steps: usize = words.next().map_or(Ok(10_000), |text| text.parse())?;
    let rate: Option<u32> = words.next().map(|text| text.parse()).transpose()?;
    let ledger = Ledger::create(dir, &Environment::system())?;
    ledger.start_run("claims", &plan(steps)?, RunPolicy::default())?;
    let all = Mutex::new(ClientResult::default());
    let start = Instant::now();
    while_serving(
        &ledger,
        dir,
        |text| println!("{text}"),
        || {
            std::thread::scope(|scope| {
                let all = &all;
                let spawn = |number: usize| {
                    scope.spawn(move || -> Result<(), Failure> {
                        let schedule = rate.map(|rate| {
                            let gap = Duration::from_secs(1) / rate.max(1);
                            let nth = |count: usize| gap * u32::try_from(count).unwrap_or(u32::MAX);
                            Schedule { next: start + nth(number), every: nth(clients) }
                        });
                        let result = work(dir, &format!("client-{number}"), schedule)?;
                        let mut all = all.lock().map_err(|error| error.to_string())?;
                        all.claims.extend(result.claims);
                        all.receipts.extend(result.receipts);
                        all.tokens.extend(result.tokens);
                        Ok(())
                    })
                };
                let threads: Vec<_> = (0..clients).map(spawn).collect();
                threads.into_iter().try_for_each(|thread| match thread.join() {
                    Ok(done) => done,
                    Err(_) => Err("a client panicked".into()),
                })
            })
        },
    )?;
    let elapsed = start.elapsed();
    ledger.close()?;
    let all = all.into_inner()?;
    let winners: BTreeSet<Token> = all.tokens.iter().copied().collect();
    println!("{clients} clients, {} tokens, {} of them different", all.tokens.len(), winners.len());
    print_latencies("claims", all.claims);
    print_latencies("receipts", all.receipts);
    println!("{steps} steps in {elapsed:?}");
    Ok(())
}
