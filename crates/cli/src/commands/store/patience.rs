//! How often a process asks a store again, and for how long.
//!
//! The first answer that says nothing is followed by a look at once: mostly the request was carried out. After that
//! the pauses grow, up to two seconds.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plan_ledger::Environment;
use plan_ledger::internals::ledger::IdSource;
use plan_ledger::internals::store::StoreClient;

use super::open::OpenStore;

/// How long the store may give no clear answer before a process gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

thread_local! {
    /// When the store last began to give this thread no clear answer.
    static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A client that asks the store again for [`PATIENCE`].
pub(super) fn patient_client(store: &OpenStore, environment: &Environment) -> StoreClient {
    let ids = environment.ids.clone();
    StoreClient::new(store.url.to_string(), Arc::clone(&store.objects), move |unclear| {
        ask_again(unclear, &*ids)
    })
}

/// Wait after the n-th unclear answer, and return whether to ask again.
fn ask_again(unclear: u32, ids: &dyn IdSource) -> bool {
    let now = Instant::now();
    let since = SINCE.with(|since| {
        if unclear <= 1 {
            since.set(Some(now));
        }
        since.get().unwrap_or(now)
    });
    if now.duration_since(since) >= PATIENCE {
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
}
