//! What stands behind the last durable record: for those who leave it out, and must say so.
//!
//! Invariant: a record of which somebody was told is never passed over as one of which nobody was.
//! HEAD is written before any later frame can say what it covers, so that HEAD, read behind such a
//! frame, is never below what that frame proves; unless HEAD is an older one.

use crate::error::{Error, ErrorKind, Result};

use super::head_file::read_head;
use super::reader::LogReader;
use super::walk::{Item, Proof};

/// Whole records behind the last durable one. As far as HEAD says, nobody was told of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
}

impl LogReader {
    /// What is whole behind `last`, the last record that is served as durable. `None` for nothing,
    /// also where a writer has made it durable since this reader looked.
    ///
    /// # Errors
    /// `Ambiguous` where HEAD is missing, damaged or an older one, so that records of which somebody
    /// was told may be among them; `Corrupt` for damage there; `Io`.
    pub fn behind(&self, last: u64) -> Result<Option<Behind>> {
        let (mut whole, mut proven) = (None, 0);
        let mut walk = self.walk(last.saturating_add(1));
        while let Some(item) = walk.pass() {
            match item? {
                Item::Record(record, Proof::Unproven) => {
                    let seq = record.seq;
                    let first = whole.map_or(seq, |whole: Behind| whole.first);
                    whole = Some(Behind { first, last: seq });
                    proven = walk.durable_before().max(proven);
                }
                Item::Damage(damage) => return Err(damage.into_error()),
                Item::Record(..) | Item::Derived(_) | Item::OpenEnd { .. } => {}
            }
        }
        if !self.has_witness() {
            return Err(self.ambiguous(&no_head(whole)));
        }
        let Some(whole) = whole else { return Ok(None) };
        let view = read_head(&*self.storage, &self.layout)?;
        let now = view.newest().map_or(0, |(_, head)| head.durable_seq).max(last);
        if proven > now {
            return Err(self.ambiguous(&older_head(now, proven, whole)));
        }
        Ok(Some(whole).filter(|whole| whole.last > now))
    }

    fn ambiguous(&self, message: &str) -> Error {
        Error::new(ErrorKind::Ambiguous, message).at_path(&self.layout.head())
    }
}

impl Behind {
    fn named(self) -> String {
        if self.first == self.last {
            format!("record {}, which is whole, is left out", self.first)
        } else {
            format!("records {} to {}, which are whole, are left out", self.first, self.last)
        }
    }
}

fn no_head(whole: Option<Behind>) -> String {
    let left = whole.map_or_else(|| "none that is whole is left out".to_owned(), Behind::named);
    format!(
        "HEAD is missing or damaged, or names a segment that is not here, so it cannot be told which \
         records at the end of the log are durable: {left}; `ledger recover` takes over what is whole"
    )
}

fn older_head(last: u64, proven: u64, whole: Behind) -> String {
    format!(
        "HEAD is an older one: it says that record {last} is the last durable one, but a later record \
         proves that record {proven} was: {}; the next opening for writing takes over what is whole",
        whole.named()
    )
}
