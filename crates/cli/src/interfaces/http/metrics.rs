//! The metrics for a monitor. `docs/src/guides/http.md` lists the names, which are stable.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use plan_ledger::{Error, ErrorKind, Ledger};

#[cfg(feature = "store")]
use crate::commands::store::lines::StoreHealthLine;
use crate::protocol::Failure;
use plan_ledger_views::status_word;

/// Upper bounds of the buckets of durations, in seconds: from below a sync to the longest wait.
const BUCKETS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// The counters between two scrapes.
#[derive(Debug)]
pub(super) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    durations: Family<PathLabels, Histogram>,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    path: String,
    status: u32,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PathLabels {
    method: String,
    path: String,
}

#[cfg(feature = "store")]
#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RoleLabels {
    role: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StatusLabels {
    status: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(BUCKETS);
        Self { requests: Family::default(), durations: Family::new_with_constructor(durations) }
    }
}

/// The start of all names.
const PREFIX: &str = "plan_ledger";

/// Micro-dollars in a dollar.
const MICROS: u32 = 1_000_000;

impl Metrics {
    /// Counts a response.
    pub(super) fn count(&self, method: &str, path: &str, status: u16, took: Duration) {
        let (method, path) = (method.to_owned(), path.to_owned());
        let of_path = PathLabels { method: method.clone(), path: path.clone() };
        self.durations.get_or_create(&of_path).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { method, path, status: status.into() }).inc();
    }

    /// The text for a monitor: the counters, and the current state of the ledger. `add` registers more metrics.
    pub(super) fn text(
        &self,
        ledger: &Ledger,
        add: impl FnOnce(&mut Registry),
    ) -> Result<String, Failure> {
        let mut registry = Registry::with_prefix(PREFIX);
        add(&mut registry);
        registry.register("http_requests", "Responses", self.requests.clone());
        registry.register(
            "http_duration_seconds",
            "Time until the head of a response",
            self.durations.clone(),
        );
        let state = ledger.state()?;
        let records = Gauge::<i64>::default();
        records.set(clamped(ledger.head().seq));
        registry.register("records", "The last durable record", records);
        let (runs, steps) = (Family::default(), Family::default());
        let (in_flight, questions) = (Gauge::<i64>::default(), Gauge::<i64>::default());
        let (spent, tokens) = (Gauge::<f64, AtomicU64>::default(), Gauge::<i64>::default());
        for (_, run) in state.runs.overviews() {
            let status = status_word(run.status).to_owned();
            gauge(&runs, status).inc();
            in_flight.inc_by(run.in_flight.into());
            spent.inc_by(dollars(run.spent.money_micros));
            tokens.inc_by(clamped(run.spent.tokens));
        }
        for id in state.runs.open() {
            let Some(run) = state.runs.get(&id) else { continue };
            questions.inc_by(i64::try_from(run.questions.len()).unwrap_or(i64::MAX));
            for (status, count) in &run.counts {
                let word = serde_json::to_value(status).unwrap_or_default();
                let word = word.as_str().unwrap_or_default().to_owned();
                gauge(&steps, word).inc_by((*count).into());
            }
        }
        registry.register("runs", "Runs by status", runs);
        registry.register("steps", "Steps of the runs that have not ended, by status", steps);
        registry.register("attempts_in_flight", "Attempts in flight", in_flight);
        registry.register("open_questions", "Questions that wait for a person", questions);
        registry.register("spent_dollars", "Money that was spent", spent);
        registry.register("spent_tokens", "Tokens that were spent", tokens);
        encoded(&registry)
    }
}

fn encoded(registry: &Registry) -> Result<String, Failure> {
    let mut text = String::new();
    encode(&mut text, registry).map_err(|error| {
        Failure::Ledger(Error::new(ErrorKind::Io, format!("cannot write the metrics: {error}")))
    })?;
    Ok(text)
}

/// The metrics of a standby, about the store. `docs/src/reach.md` lists the names.
#[cfg(feature = "store")]
pub(super) fn store_text(health: &StoreHealthLine) -> Result<String, Failure> {
    let mut registry = Registry::with_prefix(PREFIX);
    register_store(&mut registry, health);
    encoded(&registry)
}

/// Registers the metrics of a ledger in a store.
#[cfg(feature = "store")]
pub(super) fn register_store(registry: &mut Registry, health: &StoreHealthLine) {
    let mut whole = |name: &str, help: &str, value: Option<u64>| {
        if let Some(value) = value {
            let metric = Gauge::<i64>::default();
            metric.set(clamped(value));
            registry.register(name, help, metric);
        }
    };
    whole("store_epoch", "The epoch of the owner", Some(health.epoch));
    whole("store_records", "The last record that the store is known to have", Some(health.seq));
    whole("store_lag_records", "Records that the store lacks", health.lag_records);
    whole("store_lag_bytes", "Bytes of the records that the store lacks", health.lag_bytes);
    whole(
        "store_damaged_objects",
        "Objects of the store that are missing or damaged, and that the owner cannot repair",
        health.damaged,
    );
    let mut seconds = |name: &str, help: &str, micros: Option<u64>| {
        if let Some(micros) = micros {
            let metric = Gauge::<f64, AtomicU64>::default();
            metric.set(Duration::from_micros(micros).as_secs_f64());
            registry.register(name, help, metric);
        }
    };
    seconds(
        "store_lag_seconds",
        "Age of the oldest record that the store lacks",
        health.lag_micros,
    );
    seconds(
        "store_contact_seconds",
        "Time since the last answer of the store",
        health.contact_micros,
    );
    let roles = Family::<RoleLabels, Gauge>::default();
    roles.get_or_create(&RoleLabels { role: health.role.word().to_owned() }).set(1);
    registry.register("store_role", "1 for the state of the process", roles);
}

fn gauge(family: &Family<StatusLabels, Gauge>, status: String) -> Gauge {
    family.get_or_create(&StatusLabels { status }).clone()
}

/// Dollars, exact up to four billion of them.
fn dollars(micros: u64) -> f64 {
    let part = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    part(micros / u64::from(MICROS)) + part(micros % u64::from(MICROS)) / f64::from(MICROS)
}

fn clamped(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_few_thousand_dollars_are_counted() {
        for (micros, expected) in [(0, "0"), (1_250_000, "1.25"), (9_000_000_000_000, "9000000")] {
            assert_eq!(dollars(micros).to_string(), expected);
        }
    }
}
