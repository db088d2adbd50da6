//! Idempotency keys: the keys among the last records, so that a repeated batch is not written
//! again.
//!
//! A writer looks back over [`KEY_WINDOW`] records; [`LogReader::find_key`] searches further. For a
//! key in the window it always returns the sequence numbers of the existing batch.

use std::collections::{BTreeMap, VecDeque};

use crate::error::Result;
use crate::log::notes::{BatchKey, KIND_BATCH_KEY};
use crate::log::reader::LogReader;
use crate::log::record::Ack;

use super::batch::Ticket;

/// How many records a writer looks back for a key.
pub const KEY_WINDOW: u64 = 65_536;

/// The keys among the last records.
#[derive(Debug, Default)]
pub(crate) struct KeyWindow {
    committed: BTreeMap<BatchKey, (u64, Ack)>,
    /// Sequence numbers of the keys, oldest first.
    order: VecDeque<(u64, BatchKey)>,
}

impl KeyWindow {
    /// The keys among the last durable records before `next_seq`.
    pub(crate) fn load(reader: &LogReader, next_seq: u64) -> Result<Self> {
        let mut window = Self::default();
        mutant!(IdempotencyKeysNotLoaded => return Ok(window));
        let mut open: Option<(u64, BatchKey)> = None;
        // A prune never removes a key of the window.
        let from = next_seq.saturating_sub(KEY_WINDOW).max(reader.first_seq());
        for record in reader.records(from) {
            let record = record?;
            if record.kind == KIND_BATCH_KEY
                && let Ok(key) = BatchKey::new(&record.payload)
            {
                open = Some((record.seq, key));
            }
            if record.batch_left == 0
                && let Some((first, key)) = open.take()
            {
                let last = Ack { seq: record.seq, chain: record.chain };
                window.add(key, &Ticket { first, last });
            }
        }
        Ok(window)
    }

    /// Add a key. Its batch is the newest one of the log.
    pub(crate) fn add(&mut self, key: BatchKey, ticket: &Ticket) {
        while let Some((first, _)) = self.order.front()
            && first + KEY_WINDOW <= ticket.first
        {
            let (first, key) = self.order.pop_front().expect("the front exists");
            if self.committed.get(&key).is_some_and(|committed| committed.0 == first) {
                self.committed.remove(&key);
            }
        }
        self.order.push_back((ticket.first, key.clone()));
        self.committed.insert(key, (ticket.first, ticket.last));
    }

    /// The ticket of the batch with this key, if it is among the last records before `next_seq`.
    pub(crate) fn find(&self, key: &BatchKey, next_seq: u64) -> Option<Ticket> {
        let (first, last) = *self.committed.get(key)?;
        (first + KEY_WINDOW >= next_seq).then_some(Ticket { first, last })
    }
}
