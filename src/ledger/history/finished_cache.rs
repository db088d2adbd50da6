//! The results of the last finished steps: a dispatch passes them to the workers of the next steps
//! without reading the log.
//!
//! Invariants:
//! - An entry names the last record of its step that it includes, and is used only while this is
//!   still the last record of the step. So it never differs from the log.
//! - Memory is bounded: the cache keeps the last [`REMEMBERED`] to twice as many steps, and of each
//!   only the parts that a task includes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::plan::{Artifact, Event, Json, Outcome, Output, Receipt, RunId, StepEvent, StepNumber};

/// How many steps are remembered before the oldest ones are forgotten.
const REMEMBERED: usize = 512;

/// The longest list of artifacts that is remembered, in bytes of text. A longer one is read from the
/// log.
const ARTIFACT_BYTES_MAX: usize = 16 << 10;

/// The longest text of an output in a task, in bytes: enough for a result, not for a report. A step
/// that needs the whole output declares it as an input.
pub const FINISHED_OUTPUT_BYTES_MAX: usize = 1000;

/// The result of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StepResult {
    pub(super) output: String,
    pub(super) output_bytes: u64,
    pub(super) artifacts: Vec<Artifact>,
}

impl StepResult {
    pub(super) fn of(receipt: &Receipt) -> Self {
        if !matches!(receipt.outcome, Outcome::Succeeded) {
            // A person or a fallback finished the step, not this attempt.
            return Self::default();
        }
        let (output, output_bytes) = match &receipt.output {
            Output::Inline(value) => start_of(value),
            Output::Blob(blob) => (String::new(), blob.length),
        };
        Self { output, output_bytes, artifacts: receipt.artifacts.clone() }
    }
}

/// The start of a text that fits into a task, and the length of the whole; nothing for `null`.
fn start_of(value: &Json) -> (String, u64) {
    let text = value.as_str();
    if text == "null" {
        return (String::new(), 0);
    }
    let mut ends = (0..=FINISHED_OUTPUT_BYTES_MAX.min(text.len())).rev();
    let start = ends.find_map(|end| text.get(..end)).unwrap_or_default();
    (start.to_owned(), text.len().try_into().unwrap_or(u64::MAX))
}

/// The results of the steps that finished last.
#[derive(Debug, Default)]
pub(crate) struct FinishedCache(Mutex<Generations>);

type Key = (RunId, StepNumber);

/// The entries since the last time that there were [`REMEMBERED`] of them, and those before.
#[derive(Debug, Default)]
struct Generations {
    new: BTreeMap<Key, Known>,
    old: BTreeMap<Key, Known>,
}

/// The result of a step at one of its records.
#[derive(Debug, Clone)]
struct Known {
    last_seq: u64,
    result: StepResult,
}

impl FinishedCache {
    /// Follows the events of a batch, in the order of their records.
    pub(crate) fn follow(&self, events: &[(u64, Event)]) {
        let mut known = self.lock();
        for (seq, event) in events {
            let Event::Step(record) = event else { continue };
            let key = (record.run, record.step);
            if let StepEvent::ReceiptRecorded(recorded) = &record.event {
                let result = StepResult::of(&recorded.receipt);
                known.add(key, Known { last_seq: *seq, result });
            } else if let Some(entry) = known.get_mut(key)
                && entry.last_seq == record.previous
            {
                entry.last_seq = *seq;
            }
        }
    }

    /// Remembers a result that was read from the log.
    pub(super) fn add(&self, run: RunId, step: StepNumber, last_seq: u64, result: &StepResult) {
        let entry = Known { last_seq, result: result.clone() };
        self.lock().add((run, step), entry);
    }

    /// The result of a step at its last record, if it is known.
    pub(super) fn get(&self, run: RunId, step: StepNumber, last_seq: u64) -> Option<StepResult> {
        let mut known = self.lock();
        let entry = known.get_mut((run, step))?;
        (entry.last_seq == last_seq).then(|| entry.result.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // An entry is changed in one assignment, so all are valid even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn get_mut(&mut self, key: Key) -> Option<&mut Known> {
        self.new.get_mut(&key).or_else(|| self.old.get_mut(&key))
    }

    fn add(&mut self, key: Key, entry: Known) {
        let length = |artifact: &Artifact| artifact.path.len().saturating_add(artifact.hash.len());
        if entry.result.artifacts.iter().map(length).sum::<usize>() > ARTIFACT_BYTES_MAX {
            return;
        }
        if self.new.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(key, entry);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: an entry counts for the last record of its step only, and old ones are forgotten.

    use super::*;
    use crate::plan::StepRecord;
    use crate::plan::{Accepted, AcceptedBasis, AttemptToken, Json, Receipt, ReceiptRecorded};

    const RUN: RunId = RunId(1);

    fn event(seq: u64, number: u32, previous: u64, event: StepEvent) -> (u64, Event) {
        (seq, Event::Step(StepRecord { run: RUN, step: StepNumber(number), previous, event }))
    }

    fn receipt(seq: u64, number: u32, output: &str) -> (u64, Event) {
        let receipt = Receipt {
            output: Json::from(serde_json::Value::from(output)).into(),
            ..Receipt::default()
        };
        let recorded = ReceiptRecorded { token: AttemptToken(1), receipt };
        event(seq, number, seq - 1, StepEvent::ReceiptRecorded(recorded))
    }

    fn accepted(seq: u64, number: u32, previous: u64) -> (u64, Event) {
        let accepted = Accepted { basis: AcceptedBasis::Receipt };
        event(seq, number, previous, StepEvent::Accepted(accepted))
    }

    #[test]
    fn result_is_known_at_the_last_record_of_its_step_only() {
        let cache = FinishedCache::default();
        let output = |number, seq| Some(cache.get(RUN, StepNumber(number), seq)?.output);
        cache.follow(&[receipt(10, 1, "one"), accepted(11, 1, 10), receipt(12, 2, "two")]);
        assert_eq!(
            (output(1, 11), output(2, 12)),
            (Some("\"one\"".into()), Some("\"two\"".into()))
        );
        assert_eq!((output(1, 10), output(1, 12), output(3, 12)), (None, None, None));
        // Another process wrote record 15, which is why this one does not name record 12.
        cache.follow(&[accepted(16, 2, 15)]);
        assert_eq!((output(2, 16), output(2, 15)), (None, None));
        let read = StepResult { output: "3".to_owned(), ..StepResult::default() };
        cache.add(RUN, StepNumber(2), 16, &read);
        assert_eq!(output(2, 16), Some("3".into()));
    }

    #[test]
    fn only_the_last_results_are_remembered() {
        let cache = FinishedCache::default();
        let all = u32::try_from(2 * REMEMBERED + 1).unwrap();
        for number in 1..=all {
            cache.follow(&[receipt(u64::from(number) * 2, number, "x")]);
        }
        let is_known = |number| cache.get(RUN, StepNumber(number), u64::from(number) * 2).is_some();
        assert!(
            !is_known(1) && is_known(all) && is_known(all - u32::try_from(REMEMBERED).unwrap())
        );
        let artifact = Artifact { path: "p".repeat(ARTIFACT_BYTES_MAX), hash: "h".to_owned() };
        let many = StepResult { artifacts: vec![artifact], ..StepResult::default() };
        cache.add(RUN, StepNumber(all + 1), 9, &many);
        assert!(cache.get(RUN, StepNumber(all + 1), 9).is_none());
    }
}
