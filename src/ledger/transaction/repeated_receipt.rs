//! Receipts that are sent again: the receipt that an attempt has already is accepted once more, and
//! changes nothing. A different one comes too late.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::ledger::codec::hash::hash_of;
use crate::ledger::codec::values;
use crate::ledger::history::step_events::step_events;
use crate::log::LogReader;
use crate::plan::{AttemptToken, ContentHash, Receipt, StepEvent};

/// How many receipts of this process are remembered. An earlier one is durable, and read from the log.
const REMEMBERED: usize = 4096;

/// The hashes of the last receipts that this process recorded, durable or not.
#[derive(Debug, Default)]
pub(crate) struct RecentReceipts(Mutex<BTreeMap<AttemptToken, ContentHash>>);

impl RecentReceipts {
    /// Remember the receipt of an attempt.
    pub(super) fn add(&self, token: AttemptToken, receipt: &Receipt) {
        let mut recent = self.lock();
        recent.insert(token, receipt_hash(receipt));
        while recent.len() > REMEMBERED {
            recent.pop_first();
        }
    }

    pub(super) fn get(&self, token: AttemptToken) -> Option<ContentHash> {
        self.lock().get(&token).copied()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptToken, ContentHash>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receipt of an attempt in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct EarlierReceipt(Option<ContentHash>);

impl EarlierReceipt {
    pub(super) const NONE: Self = Self(None);

    /// Find the durable receipt of an attempt: the events of its step are read from record `last`
    /// back to its dispatch. Record `last` must be durable.
    ///
    /// # Errors
    /// `Corrupt` if a record of the step cannot be read.
    pub(super) fn find(reader: &LogReader, last: u64, token: AttemptToken) -> Result<Self> {
        for read in step_events(reader, last) {
            let (record, event) = read?;
            match event {
                StepEvent::ReceiptRecorded(recorded) if recorded.token == token => {
                    return Ok(Self(Some(receipt_hash(&recorded.receipt))));
                }
                StepEvent::AttemptLost(lost) if lost.token == token => break,
                _ if record.seq <= token.0 => break,
                _ => {}
            }
        }
        Ok(Self::NONE)
    }

    /// Whether the attempt has this receipt.
    pub(super) fn is(
        self,
        recent: &RecentReceipts,
        token: AttemptToken,
        receipt: &Receipt,
    ) -> bool {
        let earlier = recent.get(token).or(self.0);
        earlier.is_some_and(|hash| hash == receipt_hash(receipt)) && !mutant!(SameReceiptRefused)
    }
}

fn receipt_hash(receipt: &Receipt) -> ContentHash {
    hash_of(|out| out.write_all(&values::bytes(receipt)))
}
