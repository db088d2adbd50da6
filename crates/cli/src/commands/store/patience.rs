//! Decides how often and how long a process repeats a call to a store.
//!
//! After the first unclear answer the process checks at once, because the store usually executed the request. Then the
//! pauses grow, up to two seconds.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plan_ledger::Environment;
use plan_ledger::internals::ledger::IdSource;
use plan_ledger::internals::store::{Objects, StoreClient};

use super::open::OpenStore;
use super::url::StoreUrl;

/// A process stops after this time without a clear answer of the store.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// After this long without an unclear answer, a thread counts from the start: a long log has many requests, and some of
/// them may meet a busy store.
const CALM: Duration = Duration::from_secs(60);

thread_local! {
    /// The unclear answers of late that this thread got.
    static OUTAGE: Cell<Option<Outage>> = const { Cell::new(None) };
}

/// A period without a clear answer of the store.
#[derive(Debug, Clone, Copy)]
struct Outage {
    since: Instant,
    last: Instant,
}

impl Outage {
    /// The outage after the n-th unclear answer in a row, as far as the caller counts.
    fn after(before: Option<Self>, unclear: u32, now: Instant) -> Self {
        let is_same = |outage: &Self| unclear > 1 && now.duration_since(outage.last) < CALM;
        let since = before.filter(is_same).map_or(now, |outage| outage.since);
        Self { since, last: now }
    }

    fn is_over_patience(&self) -> bool {
        self.last.duration_since(self.since) >= PATIENCE
    }
}

/// A client that repeats calls to the store for [`PATIENCE`].
pub(super) fn patient_client(store: &OpenStore, environment: &Environment) -> StoreClient {
    patient(&store.url, Arc::clone(&store.objects), environment)
}

/// A client of the store at an address that repeats calls for [`PATIENCE`].
pub(super) fn patient(
    url: &StoreUrl,
    objects: Arc<dyn Objects>,
    environment: &Environment,
) -> StoreClient {
    let ids = environment.ids.clone();
    StoreClient::new(url.to_string(), objects, move |unclear| ask_again(unclear, &*ids))
}

/// Wait after the n-th unclear answer, and return whether to ask again.
fn ask_again(unclear: u32, ids: &dyn IdSource) -> bool {
    let outage = Outage::after(OUTAGE.get(), unclear, Instant::now());
    OUTAGE.set(Some(outage));
    if outage.is_over_patience() {
        return false;
    }
    // Processes that the same outage stopped do not all return at the same moment.
    let random = ids.next_id().first().copied().unwrap_or_default();
    std::thread::sleep(pause(unclear).mul_f64(1.0 + f64::from(random) / 512.0));
    true
}

fn pause(unclear: u32) -> Duration {
    match unclear {
        0 | 1 => Duration::ZERO,
        more => SHORTEST_PAUSE.saturating_mul(1 << (more - 2).min(10)).min(LONGEST_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_two_seconds() {
        let millis = |unclear| pause(unclear).as_millis();
        let found: Vec<u128> = (1..=8).map(millis).collect();
        assert_eq!(found, [0, 50, 100, 200, 400, 800, 1600, 2000]);
        assert_eq!(millis(u32::MAX), 2000);
    }

    /// Goal: a process stops waiting for a silent store after the patience, but not for a busy one,
    /// even with a long log.
    #[test]
    fn only_a_store_that_does_not_answer_is_given_up() {
        let start = Instant::now();
        let (mut outage, mut waited) = (None, Duration::ZERO);
        for unclear in 1..1_000 {
            let found = Outage::after(outage, unclear, start + waited);
            if found.is_over_patience() {
                break;
            }
            (outage, waited) = (Some(found), waited + pause(unclear));
        }
        assert!((PATIENCE..PATIENCE * 2).contains(&waited), "{waited:?}");
        // One unclear answer from time to time: counted on, or from the start.
        for is_counted in [false, true] {
            let mut outage = None;
            for number in 1..1_000 {
                let unclear = if is_counted { number } else { 1 };
                let found = Outage::after(outage, unclear, start + CALM * number);
                assert!(!found.is_over_patience(), "{number}");
                outage = Some(found);
            }
        }
    }
}
