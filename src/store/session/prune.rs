//! Looks for the retention note that explains why a log begins later than with record 1.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Codec, Record};
use crate::log::{KIND_RETENTION_NOTE, RetentionNote};

/// The note that was found so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prune {
    /// The first record, and the chain value before it.
    first: Option<(u64, Chain)>,
    is_noted: bool,
}

impl Prune {
    /// `first` is the position at which the reading begins, if nothing is known about the log before it: a sequence
    /// number, and the chain value of the previous record.
    pub(super) fn new(first: Option<(u64, Chain)>) -> Self {
        Self { first: first.filter(|(seq, _)| *seq > 1), is_noted: false }
    }

    /// Whether the note is still needed.
    pub(super) fn is_sought(&self) -> bool {
        self.first.is_some() && !self.is_noted
    }

    pub(super) fn look(&mut self, record: &Record<'_>) {
        let Some((first_seq, chain)) = self.first else { return };
        self.is_noted |= retention_note(record).is_some_and(|note| {
            // An interrupted prune left segments that the note covers.
            note.last_seq >= first_seq
                || (note.last_seq + 1 == first_seq && note.chain() == Some(chain))
        });
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.first {
            Some((first_seq, _)) if !self.is_noted => Err(unnoted(first_seq)),
            _ => Ok(()),
        }
    }
}

/// The retention note in a record, if it is a valid one.
pub(in crate::store) fn retention_note(record: &Record<'_>) -> Option<RetentionNote> {
    let header = &record.header;
    if (header.kind, header.codec, header.schema) != (KIND_RETENTION_NOTE, Codec::Json, 1) {
        return None;
    }
    let note: RetentionNote = serde_json::from_slice(record.payload).ok()?;
    note.is_valid(header.stamp.seq).then_some(note)
}

pub(super) fn unnoted(first_seq: u64) -> Error {
    let message = format!(
        "no segment object holds this record, although later ones exist: the first one begins at record \
         {first_seq}, and no retention note says that the records before it were pruned"
    );
    Error::new(ErrorKind::Corrupt, message).at_seq(1)
}
