//! The complete records after the last durable one. A caller that leaves them out must report them.
//!
//! Invariant: an acknowledged record is never reported as unacknowledged. The `inflight` field of a
//! frame states which record was durable when the frame was written, and the writer puts that
//! record into HEAD first. So a HEAD that is read after the frame names this record or a later one,
//! unless HEAD is stale.

use crate::error::{Error, ErrorKind, Result};
use crate::log::folder::read_head;
use crate::log::record::{LogItem, RecordStatus};

use super::log_reader::LogReader;

/// Complete records after the last durable one. According to HEAD they were not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnacknowledgedTail {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

#[doc(hidden)]
impl LogReader {
    /// The complete records after `last`, the last record that is served as durable. `None` if
    /// there are none, or if a writer has made them durable since this reader was opened.
    ///
    /// # Errors
    /// `Ambiguous` if HEAD is missing, damaged or stale, so that acknowledged records may be among
    /// them; `Corrupt` if bytes there are damaged; `Io`.
    pub fn unacknowledged_tail(&self, last: u64) -> Result<Option<UnacknowledgedTail>> {
        let (mut tail, mut proven) = (None, 0);
        let mut walk = self.walk(last.saturating_add(1));
        while let Some(item) = walk.next_ref() {
            match item? {
                LogItem::Record(record, RecordStatus::Unacknowledged) => {
                    let seq = record.seq;
                    let first = tail.map_or(seq, |tail: UnacknowledgedTail| tail.first);
                    tail = Some(UnacknowledgedTail { first, last: seq });
                    proven = walk.durable_before().max(proven);
                }
                LogItem::Damage(damage) if damage.is_of_header_only() => {}
                LogItem::Damage(damage) => return Err(damage.into_error()),
                LogItem::Record(..) | LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
            }
        }
        if !self.head_names_present_segment() {
            return Err(ambiguous(self, &invalid_head(tail)));
        }
        let Some(tail) = tail else { return Ok(None) };
        let head_slots = read_head(&*self.storage, &self.paths)?;
        let now = head_slots.newest().map_or(0, |(_, head)| head.durable_seq).max(last);
        if proven > now {
            return Err(ambiguous(self, &stale_head(now, proven, tail)));
        }
        Ok(Some(tail).filter(|tail| tail.last > now))
    }
}

fn ambiguous(reader: &LogReader, message: &str) -> Error {
    Error::new(ErrorKind::Ambiguous, message).at_path(&reader.paths.head())
}

impl UnacknowledgedTail {
    fn left_out(self) -> String {
        if self.first == self.last {
            format!("complete record {} is left out", self.first)
        } else {
            format!("complete records {} to {} are left out", self.first, self.last)
        }
    }
}

fn invalid_head(tail: Option<UnacknowledgedTail>) -> String {
    let left = tail
        .map_or_else(|| "no complete record is left out".to_owned(), UnacknowledgedTail::left_out);
    format!(
        "HEAD is missing, damaged or names an absent segment, so the durable end is unknown: {left}; \
         run `ledger recover` to keep all complete records"
    )
}

fn stale_head(last: u64, proven: u64, tail: UnacknowledgedTail) -> String {
    format!(
        "HEAD is stale: it names record {last} as durable, a later record proves {proven}: {}; open \
         the ledger for writing to keep all complete records",
        tail.left_out()
    )
}
