//! `ledger store probe`: tests whether a store keeps the promises on which a ledger relies.
//!
//! It tests the promises as far as a test can: it creates a name twice, lets several clients race for one name, and
//! checks that written objects can be read and listed at once. It removes all of its objects.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;

use plan_ledger::Environment;
use plan_ledger::internals::store::{
    self, CreatedObject, ListedObject, Objects, StoredObject, Unclear,
};

use crate::options::AsJson;
use crate::output::{Code, Failure, print_result};
use crate::protocol::{counted, hex, quoted};

use super::lines::StoreProbeLine;
use super::open::OpenStore;
use super::option::StoreOption;
use super::remote::unanswered;

const EXAMPLES: &str = "\
Examples:
  ledger store probe s3://my-ledgers/night
  AWS_ENDPOINT_URL=http://127.0.0.1:8333 ledger store probe s3://my-ledgers/night
  ledger store probe az://my-ledgers/night --json
  ledger store probe file:///srv/ledgers/night     a folder, on a disk of this machine

The probe sends about 60 requests and removes what it wrote. The exit code is 0 if the store is fit
to hold a ledger, 6 if it breaks a promise, and 7 if it does not answer or permits no create. A probe finds stores that
ignore the condition of a create; it cannot prove that a store never does.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ProbeArgs {
    #[command(flatten)]
    store: StoreOption,
    #[command(flatten)]
    json: AsJson,
}

pub(super) fn probe(args: &ProbeArgs) -> Result<Code, Failure> {
    let line = test(&args.store.open()?, &Environment::system())?;
    print_result(args.json.0, &line, &text(&line))?;
    Ok(if line.fit { Code::Success } else { Code::Rejected })
}

/// Refuse a store that breaks a promise.
pub(super) fn expect_fit(store: &OpenStore, environment: &Environment) -> Result<(), Failure> {
    let line = test(store, environment)?;
    if line.fit {
        return Ok(());
    }
    let (url, what) = (line.url, line.problems.join("; "));
    Err(Failure::Rejected(format!(
        "{url} is not fit to hold a ledger: {what}\nhint: `ledger store probe {}` shows more; use another store",
        quoted(&url)
    )))
}

fn test(store: &OpenStore, environment: &Environment) -> Result<StoreProbeLine, Failure> {
    let id = hex(&environment.ids.next_id());
    let observed = Observed { objects: Arc::clone(&store.objects), seen: Mutex::default() };
    let problems = store::probe(&observed, &id);
    let left = left_behind(store, &id)?;
    let refusal = observed.refusal();
    let line = observed.line(store, problems, left);
    if let Some(why) = refusal.filter(|_| line.created == 0) {
        return Err(unanswered(&why, &line.url));
    }
    Ok(line)
}

/// The objects of a probe that are still there.
fn left_behind(store: &OpenStore, id: &str) -> Result<Vec<String>, Failure> {
    let own = format!("probe/{id}-");
    let listing =
        store.objects.list("probe/").map_err(|why| unanswered(&why, &store.url.to_string()))?;
    let mut left: Vec<String> = listing.into_iter().map(|listed| listed.name).collect();
    left.retain(|name| name.starts_with(&own));
    left.sort();
    Ok(left)
}

/// A store that counts and times creates.
#[derive(Debug)]
struct Observed {
    objects: Arc<dyn Objects>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    created: Vec<Duration>,
    refused: u64,
    with_time: usize,
    /// The reason why the first unclear create was unclear.
    first_refusal: Option<Unclear>,
}

impl Observed {
    fn refusal(&self) -> Option<Unclear> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).first_refusal.clone()
    }

    fn line(&self, store: &OpenStore, problems: Vec<String>, left: Vec<String>) -> StoreProbeLine {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.created.sort();
        let micros = |time: &Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        StoreProbeLine {
            created: u64::try_from(seen.created.len()).unwrap_or(u64::MAX),
            create_median_micros: seen.created.get(seen.created.len() / 2).map(micros),
            create_slowest_micros: seen.created.last().map(micros),
            endpoint: store.endpoint.clone(),
            engine: store.url.engine.word(),
            fit: problems.is_empty(),
            left,
            problems,
            refused: seen.refused,
            server: store.server(),
            states_time: seen.with_time > 0 && seen.with_time == seen.created.len(),
            url: store.url.to_string(),
        }
    }
}

impl Objects for Observed {
    fn create(&self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear> {
        let start = Instant::now();
        let created = self.objects.create(name, bytes);
        let duration = start.elapsed();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &created {
            Ok(created) => {
                seen.created.push(duration);
                seen.with_time += usize::from(created.at.is_some());
            }
            Err(why) => {
                seen.refused += 1;
                seen.first_refusal.get_or_insert_with(|| why.clone());
            }
        }
        created
    }

    fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear> {
        self.objects.get(name, range)
    }

    fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ListedObject>, Unclear> {
        self.objects.list_after(folder, after)
    }

    fn put_hint(&self, name: &str, bytes: &[u8]) -> Result<(), Unclear> {
        self.objects.put_hint(name, bytes)
    }

    fn delete(&self, name: &str) -> Result<(), Unclear> {
        self.objects.delete(name)
    }
}

fn text(line: &StoreProbeLine) -> String {
    let verdict = if line.fit { "fit to hold a ledger" } else { "not fit to hold a ledger" };
    let mut text = format!("store {}: {verdict}\n", line.url);
    // Writing to a string does not fail.
    if let Some(endpoint) = &line.endpoint {
        let _ = writeln!(text, "  endpoint  {endpoint}");
    }
    if let Some(server) = &line.server {
        let _ = writeln!(text, "  server    {server}");
    }
    for problem in &line.problems {
        let _ = writeln!(text, "  problem   {problem}");
    }
    let _ = writeln!(
        text,
        "  creates   {} succeeded, {} of names that exist were refused",
        line.created, line.refused
    );
    if let (Some(median), Some(slowest)) = (line.create_median_micros, line.create_slowest_micros) {
        let _ =
            writeln!(text, "  speed     median {}, slowest {}", millis(median), millis(slowest));
    }
    if !line.states_time {
        text.push_str("  times     the store does not state them, so slots cannot be collected\n");
    }
    match line.left.as_slice() {
        [] => text.push_str("  removed   everything that the probe wrote"),
        left => {
            let count = counted(u64::try_from(left.len()).unwrap_or(u64::MAX), "object");
            let _ = write!(text, "  left      {count} in probe/, which may be removed at any time");
        }
    }
    text
}

/// A short duration: `2.6 ms`.
fn millis(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}
