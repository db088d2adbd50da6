//! Keys of batches: written once, and found again.
//!
//! Invariant: a key that is in the log is only ever answered with where it stands.
//!
//! Left out on purpose: remembering keys for ever. A writer looks back over
//! [`KEY_WINDOW`] records; whoever must look back further asks [`LogReader::find_key`].

use std::collections::{BTreeMap, VecDeque};

use crate::error::Result;

use super::batch::{Ack, BatchKey, Ticket};
use super::note::KIND_BATCH_KEY;
use super::reader::LogReader;

/// How many records a writer looks back for a key that it is given.
pub const KEY_WINDOW: u64 = 65_536;

/// The keys among the last records.
#[derive(Debug, Default)]
pub(super) struct KeyWindow {
    landed: BTreeMap<BatchKey, (u64, Ack)>,
    /// Sequence numbers of the keys, oldest first.
    order: VecDeque<(u64, BatchKey)>,
}

impl KeyWindow {
    /// The keys among the last durable records before `next_seq`.
    pub(super) fn load(reader: &LogReader, next_seq: u64) -> Result<Self> {
        let mut window = Self::default();
        bug!(KeysForgotten => return Ok(window));
        let mut open: Option<(u64, BatchKey)> = None;
        // A prune takes no key of the window along.
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

    /// Note where a key stands. The newest of the log's records is the ticket's last.
    pub(super) fn add(&mut self, key: BatchKey, ticket: &Ticket) {
        while let Some((first, _)) = self.order.front()
            && first + KEY_WINDOW <= ticket.first
        {
            let (first, key) = self.order.pop_front().expect("just looked at");
            if self.landed.get(&key).is_some_and(|landed| landed.0 == first) {
                self.landed.remove(&key);
            }
        }
        self.order.push_back((ticket.first, key.clone()));
        self.landed.insert(key, (ticket.first, ticket.last));
    }

    /// Where a key stands among the last records before `next_seq`.
    pub(super) fn find(&self, key: &BatchKey, next_seq: u64) -> Option<Ticket> {
        let (first, last) = *self.landed.get(key)?;
        (first + KEY_WINDOW >= next_seq).then_some(Ticket { first, last })
    }
}

impl LogReader {
    /// Where the batch with that key stands, among the durable records from `since_seq` on: the
    /// sequence numbers of its first record (the key) and of its last. `None`: it did not land.
    ///
    /// After an append whose outcome is unknown, and after opening the log again, this says
    /// whether it landed. `since_seq` may be any number that is not above the batch's first, such
    /// as that of the last ack before; the less, the longer it takes.
    ///
    /// # Errors
    /// `Pruned` if records from there on are not in the log any more; `Corrupt` if some are damaged,
    /// and `Io`.
    pub fn find_key(&self, key: &BatchKey, since_seq: u64) -> Result<Option<(u64, u64)>> {
        for record in self.records(since_seq) {
            let record = record?;
            if record.kind == KIND_BATCH_KEY && record.payload == key.as_bytes() {
                return Ok(Some((record.seq, record.seq + u64::from(record.batch_left))));
            }
        }
        Ok(None)
    }
}
