//! The written records, and their fold: dispatches and receipts of 256 bytes, derived from the
//! record's number.
//!
//! Odd records dispatch a step, even records are its receipts. All engines use the same decoding
//! and the same fold, so that replays differ only by the engine.

use bincode::Options as _;
use serde::{Deserialize, Serialize};

use crate::Result;

/// The size of a payload in bytes.
pub const LENGTH: usize = 256;

/// Steps in the plan of the records.
const STEPS: u64 = 100_000;

/// A number that depends only on the seed (splitmix64).
pub fn mix(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The event in a record.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Event<'a> {
    Dispatched { step: u32, attempt: u32, lease_until: u64, worker: &'a str, key: &'a [u8] },
    Received { step: u32, attempt: u32, cost: u64, output: &'a [u8] },
}

/// The payload of a record: its number, then the event with incompressible noise.
pub fn payload(number: u64) -> Vec<u8> {
    let noise: Vec<u8> =
        (1..).flat_map(|at: u64| mix(number ^ (at << 40)).to_le_bytes()).take(LENGTH).collect();
    let step = u32::try_from(number.saturating_sub(1) / 2 % STEPS).unwrap_or(0);
    let attempt = 1;
    let event = |noise| {
        if number % 2 == 1 {
            Event::Dispatched { step, attempt, lease_until: number, worker: "worker-1", key: noise }
        } else {
            Event::Received { step, attempt, cost: number % 1000, output: noise }
        }
    };
    // The noise fills the record; a length above 250 takes three bytes.
    let all = 8 + bytes(&event(&[])).len();
    let filled = event(noise.get(..LENGTH - all).unwrap_or_default());
    [number.to_le_bytes().to_vec(), bytes(&filled)].concat()
}

fn bytes(event: &Event<'_>) -> Vec<u8> {
    bincode::DefaultOptions::new().serialize(event).expect("plain structs encode")
}

/// The state of a step.
#[derive(Debug, Default, Clone, Copy)]
struct Step {
    attempt: u32,
    is_done: bool,
    lease_until: u64,
}

/// The fold of the records.
#[derive(Debug)]
pub struct Sum {
    steps: Vec<Step>,
    pub records: u64,
    pub done: u64,
    pub cost: u64,
}

impl Sum {
    pub fn new() -> Self {
        let steps = vec![Step::default(); usize::try_from(STEPS).unwrap_or(0)];
        Self { steps, records: 0, done: 0, cost: 0 }
    }

    /// Decode a record and fold it.
    pub fn add(&mut self, payload: &[u8]) -> Result<()> {
        let event = payload.get(8..).ok_or("the record is too short")?;
        let event = bincode::DefaultOptions::new().with_limit(1 << 20).deserialize(event)?;
        self.records += 1;
        let slot = |step: u32| usize::try_from(step).unwrap_or(usize::MAX);
        match event {
            Event::Dispatched { step, attempt, lease_until, .. } => {
                let step = self.steps.get_mut(slot(step)).ok_or("no such step")?;
                *step = Step { attempt, is_done: false, lease_until };
            }
            Event::Received { step, attempt, cost, .. } => {
                let step = self.steps.get_mut(slot(step)).ok_or("no such step")?;
                if step.attempt == attempt && !step.is_done && step.lease_until > 0 {
                    step.is_done = true;
                    self.done += 1;
                    self.cost += cost;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_payload_has_its_length_and_folds() {
        let mut sum = Sum::new();
        for number in 1..=2_000 {
            let payload = payload(number);
            assert_eq!(payload.len(), LENGTH);
            sum.add(&payload).unwrap();
        }
        assert_eq!((sum.records, sum.done), (2_000, 1_000));
    }
}
