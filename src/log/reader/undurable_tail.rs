//! The complete records after the last durable one, which a caller leaves out and must report.
//!
//! Invariant: an acknowledged record is never reported as unacknowledged. The writer updates HEAD
//! before it writes any frame that proves more than HEAD does. So HEAD, read after such a frame, is
//! never below what the frame proves, unless HEAD itself is stale.

use crate::error::{Error, ErrorKind, Result};
use crate::log::folder::read_head;
use crate::log::record::{Item, Proof};

use super::log_reader::LogReader;
use super::walk::Walk;

/// Complete records after the last durable one. According to HEAD they were not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UndurableTail {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

pub(crate) fn undurable_tail(reader: &LogReader, last: u64) -> Result<Option<UndurableTail>> {
    let (mut tail, mut proven) = (None, 0);
    let mut walk = Walk::new(reader, last.saturating_add(1));
    while let Some(item) = walk.next_ref() {
        match item? {
            Item::Record(record, Proof::Unproven) => {
                let seq = record.seq;
                let first = tail.map_or(seq, |tail: UndurableTail| tail.first);
                tail = Some(UndurableTail { first, last: seq });
                proven = walk.durable_before().max(proven);
            }
            Item::Damage(damage) => return Err(damage.into_error()),
            Item::Record(..) | Item::Derived(_) | Item::OpenEnd { .. } => {}
        }
    }
    if !reader.has_witness() {
        return Err(ambiguous(reader, &no_head(tail)));
    }
    let Some(tail) = tail else { return Ok(None) };
    let view = read_head(&*reader.storage, &reader.layout)?;
    let now = view.newest().map_or(0, |(_, head)| head.durable_seq).max(last);
    if proven > now {
        return Err(ambiguous(reader, &stale_head(now, proven, tail)));
    }
    Ok(Some(tail).filter(|tail| tail.last > now))
}

fn ambiguous(reader: &LogReader, message: &str) -> Error {
    Error::new(ErrorKind::Ambiguous, message).at_path(&reader.layout.head())
}

impl UndurableTail {
    fn left_out(self) -> String {
        if self.first == self.last {
            format!("complete record {} is left out", self.first)
        } else {
            format!("complete records {} to {} are left out", self.first, self.last)
        }
    }
}

fn no_head(tail: Option<UndurableTail>) -> String {
    let left =
        tail.map_or_else(|| "no complete record is left out".to_owned(), UndurableTail::left_out);
    format!(
        "HEAD is missing, damaged or names an absent segment, so the durable end is unknown: {left}; \
         run `ledger recover` to keep all complete records"
    )
}

fn stale_head(last: u64, proven: u64, tail: UndurableTail) -> String {
    format!(
        "HEAD is stale: it names record {last} as durable, a later record proves {proven}: {}; open \
         the ledger for writing to keep all complete records",
        tail.left_out()
    )
}
