//! Delays before the next attempt of a step that failed: by the `retry` of the plan, else, after a transient
//! failure, a default.
//!
//! The first default delay is short, each further one twice as long, up to a few minutes. A seed, the token of
//! the attempt, shortens it, so that workers that failed together do not return together.

use crate::plan::model::step::RetryPolicy;
use crate::plan::value::ids::{Micros, SECOND};

/// The default delay after the first attempt in seconds.
const FIRST: u64 = 2;

/// The longest default delay in seconds.
const MAX: u64 = 300;

/// By how much the seed shortens a default delay at most, in percent.
const JITTER_PERCENT: u64 = 20;

impl RetryPolicy {
    /// The delays after the first transient failure, the second and so on, in seconds, if neither
    /// the worker nor the plan sets one.
    #[must_use]
    pub fn default_delay_seconds(failures: u32, seed: u64) -> u64 {
        let doubled = failures.saturating_sub(1).min(MAX.ilog2());
        let delay = (FIRST << doubled).min(MAX);
        // Consecutive tokens must not give consecutive delays.
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        delay - mixed % (delay * JITTER_PERCENT / 100 + 1)
    }
}

/// The delay after the `failures`-th failure, as the plan says.
pub(super) fn planned_delay(policy: &RetryPolicy, failures: u32, token: u64) -> Micros {
    let mut wait = Micros::from(policy.backoff_seconds).saturating_mul(SECOND);
    let most = policy.backoff_max_seconds.map(|most| Micros::from(most).saturating_mul(SECOND));
    let growth = u64::from(policy.backoff_percent.unwrap_or(100));
    for _ in 1..failures.min(64) {
        wait = wait.saturating_mul(growth) / 100;
    }
    let wait = wait.min(most.unwrap_or(Micros::MAX));
    let Some(percent) = policy.jitter_percent.filter(|percent| *percent > 0) else { return wait };
    let span = wait / 100 * u64::from(percent.min(100));
    // Jitter only shortens the delay, so that the maximum holds.
    wait.saturating_sub(mix(token) % span.saturating_add(1))
}

/// The `SplitMix64` finalizer, which maps consecutive tokens to unrelated numbers.
fn mix(token: u64) -> u64 {
    let mut z = token.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    //! Goal: default delays grow from seconds to minutes, and differ between attempts.

    use super::*;

    #[test]
    fn delays_double_up_to_minutes() {
        for (failures, most) in
            [(1, 2), (2, 4), (3, 8), (7, 128), (8, 256), (9, 300), (u32::MAX, 300)]
        {
            let delays: Vec<u64> =
                (0..100).map(|seed| RetryPolicy::default_delay_seconds(failures, seed)).collect();
            assert_eq!(delays.iter().max(), Some(&most), "{failures}");
            assert!(*delays.iter().min().unwrap() >= most * 8 / 10, "{failures}");
        }
        assert_ne!(
            RetryPolicy::default_delay_seconds(9, 412),
            RetryPolicy::default_delay_seconds(9, 413)
        );
        assert_eq!(
            RetryPolicy::default_delay_seconds(9, 412),
            RetryPolicy::default_delay_seconds(9, 412)
        );
    }
}
