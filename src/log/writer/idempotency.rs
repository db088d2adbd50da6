//! Idempotency keys: the keys among the last records, so that a repeated batch is not written
//! again.
//!
//! A writer looks back over [`KEY_WINDOW`] records; [`LogReader::find_key`] searches further. For a
//! key in the window it always returns the sequence numbers of the existing batch, unless that batch
//! was of another request: then the key was used twice by mistake, and nothing may be written.

use std::collections::{BTreeMap, VecDeque};

use crate::error::{Error, ErrorKind, Result};
use crate::log::notes::{BatchKey, KIND_BATCH_KEY};
use crate::log::reader::LogReader;
use crate::log::record::{Ack, LogItem, RecordStatus};

use super::batch::Ticket;

/// How many records a writer looks back for a key.
pub const KEY_WINDOW: u64 = 65_536;

/// The keys among the last records.
#[derive(Debug, Default)]
pub(crate) struct KeyWindow {
    committed: BTreeMap<Vec<u8>, CommittedKey>,
    /// Sequence numbers of the keys, oldest first.
    order: VecDeque<(u64, Vec<u8>)>,
}

/// The batch of a key.
#[derive(Debug)]
struct CommittedKey {
    key: BatchKey,
    first: u64,
    /// `None` if a record of the batch after the key cannot be read.
    last: Option<Ack>,
}

impl KeyWindow {
    /// The keys among the last durable records before `next_seq`. A record that cannot be read only
    /// affects its own key, or the rest of its batch.
    pub(crate) fn load(reader: &LogReader, next_seq: u64) -> Result<Self> {
        let mut window = Self::default();
        mutant!(IdempotencyKeysNotLoaded => return Ok(window));
        let mut open: Option<(u64, BatchKey)> = None;
        // A prune never removes a key of the window.
        let from = next_seq.saturating_sub(KEY_WINDOW).max(reader.first_seq());
        for item in reader.walk(from) {
            let record = match item? {
                LogItem::Record(_, RecordStatus::Unacknowledged) | LogItem::OpenEnd { .. } => break,
                // Another writer took over in the meantime, and this one has not noticed yet.
                LogItem::Record(record, _) if record.seq >= next_seq => break,
                LogItem::Record(record, _) => record,
                LogItem::DerivedDamage(_) => continue,
                LogItem::Damage(damage) if damage.is_of_header_only() => continue,
                LogItem::Damage(_damage) => {
                    mutant!(DamagedRecordEndsKeys => return Err(_damage.into_error()));
                    if let Some((first, key)) = open.take() {
                        window.insert(key, first, None);
                    }
                    continue;
                }
            };
            if record.kind == KIND_BATCH_KEY
                && let Ok(key) = BatchKey::from_payload(&record.payload)
            {
                open = Some((record.seq, key));
            }
            if record.batch_left == 0
                && let Some((first, key)) = open.take()
            {
                window.insert(key, first, Some(Ack { seq: record.seq, chain: record.chain }));
            }
        }
        Ok(window)
    }

    /// Add a key. Its batch is the newest one of the log.
    pub(crate) fn add(&mut self, key: BatchKey, ticket: &Ticket) {
        self.insert(key, ticket.first, Some(ticket.last));
    }

    fn insert(&mut self, key: BatchKey, first: u64, last: Option<Ack>) {
        while let Some((oldest, _)) = self.order.front()
            && oldest + KEY_WINDOW <= first
        {
            let (oldest, key) = self.order.pop_front().expect("the front exists");
            if self.committed.get(&key).is_some_and(|committed| committed.first == oldest) {
                self.committed.remove(&key);
            }
        }
        let bytes = key.as_bytes().to_vec();
        self.order.push_back((first, bytes.clone()));
        self.committed.insert(bytes, CommittedKey { key, first, last });
    }

    /// The ticket of the batch with this key, if it is among the last records before `next_seq`.
    ///
    /// # Errors
    /// `KeyReused` if the batch was of another request; `Corrupt` if the batch cannot be read.
    pub(crate) fn find(&self, key: &BatchKey, next_seq: u64) -> Result<Option<Ticket>> {
        let Some(CommittedKey { key: committed, first, last }) = self
            .committed
            .get(key.as_bytes())
            .filter(|committed| committed.first + KEY_WINDOW >= next_seq)
        else {
            return Ok(None);
        };
        if committed.request() != key.request() && !mutant!(KeyOfAnotherRequestAccepted) {
            return Err(reused(*first));
        }
        let last = last.ok_or_else(|| unreadable(*first))?;
        Ok(Some(Ticket { first: *first, last }))
    }
}

fn unreadable(first: u64) -> Error {
    let message = "the request was carried out under this idempotency key, but its records cannot be \
                   read; nothing was done again";
    Error::new(ErrorKind::Corrupt, message)
        .with_hint("`ledger verify` lists the damage")
        .at_seq(first)
}

fn reused(first: u64) -> Error {
    let message = "the idempotency key was used for another request; nothing was done";
    Error::new(ErrorKind::KeyReused, message)
        .with_hint("use a new random key for every request")
        .at_seq(first)
}
