//! Receipts that are sent again: the recorded receipt of an attempt is accepted once more, and
//! changes nothing. A different one comes too late: it is recorded as rejected, but only a few
//! times for each attempt, so that a worker that never stops cannot fill the disk.

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

/// How many receipts that came too late are recorded for one attempt.
const LATE_MAX: usize = 8;

/// The last attempts that got a receipt in this process, durable or not.
#[derive(Debug, Default)]
pub(crate) struct RecentReceipts(Mutex<BTreeMap<AttemptToken, EarlierReceipt>>);

impl RecentReceipts {
    /// Remember the receipt of an attempt.
    pub(super) fn add(&self, token: AttemptToken, receipt: &Receipt) {
        let mut recent = self.lock();
        recent.insert(token, EarlierReceipt { hash: Some(receipt_hash(receipt)), late: 0 });
        while recent.len() > REMEMBERED {
            recent.pop_first();
        }
    }

    /// Remember that a receipt of an attempt came too late.
    pub(super) fn add_late(&self, token: AttemptToken) {
        if let Some(known) = self.lock().get_mut(&token) {
            known.late += 1;
        }
    }

    pub(super) fn get(&self, token: AttemptToken) -> Option<EarlierReceipt> {
        self.lock().get(&token).copied()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptToken, EarlierReceipt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receipts of an attempt in the log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EarlierReceipt {
    /// The hash of the valid receipt, if there is one.
    hash: Option<ContentHash>,
    /// How many came too late.
    late: usize,
}

impl EarlierReceipt {
    /// Find the durable receipts of an attempt: the events of its step are read from record `last`
    /// back to its dispatch. Record `last` must be durable.
    ///
    /// # Errors
    /// `Corrupt` if a record of the step cannot be read.
    pub(super) fn find(reader: &LogReader, last: u64, token: AttemptToken) -> Result<Self> {
        let mut found = Self::default();
        for read in step_events(reader, last) {
            let (record, event) = read?;
            match event {
                StepEvent::ReceiptRecorded(recorded) if recorded.token == token => {
                    found.hash = Some(receipt_hash(&recorded.receipt));
                    break;
                }
                StepEvent::ReceiptRefused(refused) if refused.token == token => found.late += 1,
                StepEvent::AttemptLost(lost) if lost.token == token => break,
                _ if record.seq <= token.0 => break,
                _ => {}
            }
        }
        Ok(found)
    }

    /// Whether the attempt has this receipt.
    pub(super) fn is(self, receipt: &Receipt) -> bool {
        let is_same = self.hash.is_some_and(|hash| hash == receipt_hash(receipt));
        is_same && !mutant!(SameReceiptRefused)
    }

    /// Whether so many receipts came late that no more are recorded.
    pub(super) fn is_full(self) -> bool {
        self.late >= LATE_MAX && !mutant!(LateReceiptsUnlimited)
    }
}

fn receipt_hash(receipt: &Receipt) -> ContentHash {
    hash_of(|out| out.write_all(&values::bytes(receipt)))
}
