//! Projections: pure folds of the log, including the ledger's own state.
//!
//! A fold passes every record to a projection as a [`RecordedEvent`]. A projection can be kept in
//! snapshots, so that a fold does not have to begin with record 1.
//!
//! Invariant: the result depends on the records alone.

use std::io;

use crate::error::Result;
use crate::format::is_projection_name;
use crate::log::{GapNote, KIND_GAP, LoggedRecord};
use crate::plan::{ContentHash, Event, State, Timestamp};

use super::codec::event::decode;
use super::codec::hash::hash_of;

/// A record of the log and its event.
#[derive(Debug, Clone)]
pub struct RecordedEvent {
    /// Sequence number.
    pub seq: u64,
    /// Microseconds since the Unix epoch.
    pub time: Timestamp,
    /// The event; `None` for a note.
    pub event: Option<Event>,
    /// Whether the record stands for one that was lost before the ledger was salvaged.
    pub is_lost: bool,
}

/// Decode a record.
///
/// # Errors
/// `Unsupported` for a record of a newer program; `Corrupt` for an invalid payload.
pub(crate) fn decode_record<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Result<RecordedEvent> {
    let is_lost = record.kind == KIND_GAP && GapNote::is_loss(record.payload.as_ref());
    Ok(RecordedEvent { seq: record.seq, time: record.time, event: decode(record)?, is_lost })
}

/// Fold a record into a state.
pub(crate) fn apply_record(state: &mut State, record: &RecordedEvent) {
    match &record.event {
        Some(event) => state.apply(record.seq, record.time, event),
        None if record.is_lost => state.lose_record(record.seq, record.time),
        None => state.skip_record(record.seq, record.time),
    }
}

/// As [`apply_record`], without a copy of the event.
pub(crate) fn apply_owned_record(state: &mut State, record: RecordedEvent) {
    match record.event {
        Some(event) => state.apply_owned(record.seq, record.time, event),
        None if record.is_lost => state.lose_record(record.seq, record.time),
        None => state.skip_record(record.seq, record.time),
    }
}

/// The owner of a projection. The type is not exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectionOwner {
    /// The ledger itself.
    Ledger,
    /// A program that uses the crate.
    User,
}

/// Whether the name of a projection is valid and not reserved.
///
/// A user's projection must not be called `state`: its snapshot notes would contradict those of the
/// ledger's own state. Such a program does not compile:
///
/// ```compile_fail
/// # use std::io;
/// # use plan_ledger::{Ledger, Projection, RecordedEvent};
/// #[derive(Default)]
/// struct Mine;
///
/// impl Projection for Mine {
///     const NAME: &'static str = "state";
///     const VERSION: u32 = 1;
///     // ...
/// #   fn apply(&mut self, _: &RecordedEvent) {}
/// #   fn encode(&self, _: &mut dyn io::Write) -> io::Result<()> { Ok(()) }
/// #   fn decode(_: &mut dyn io::Read) -> io::Result<Self> { Ok(Self) }
/// }
/// # fn keep(ledger: &Ledger) -> plan_ledger::Result<plan_ledger::Snapshot> {
/// ledger.snapshot::<Mine>()
/// # }
/// # fn main() { let _ = keep as fn(&Ledger) -> _; }
/// ```
///
/// Under any other name it does:
///
/// ```
/// # use std::io;
/// # use plan_ledger::{Ledger, Projection, RecordedEvent};
/// #[derive(Default)]
/// struct Mine;
///
/// impl Projection for Mine {
///     const NAME: &'static str = "mine";
///     const VERSION: u32 = 1;
///     // ...
/// #   fn apply(&mut self, _: &RecordedEvent) {}
/// #   fn encode(&self, _: &mut dyn io::Write) -> io::Result<()> { Ok(()) }
/// #   fn decode(_: &mut dyn io::Read) -> io::Result<Self> { Ok(Self) }
/// }
/// # fn keep(ledger: &Ledger) -> plan_ledger::Result<plan_ledger::Snapshot> {
/// ledger.snapshot::<Mine>()
/// # }
/// # fn main() { let _ = keep as fn(&Ledger) -> _; }
/// ```
pub(crate) const fn is_valid_name(owner: ProjectionOwner, name: &str) -> bool {
    let is_reserved = matches!(name.as_bytes(), b"state" | b"metrics");
    is_projection_name(name) && (!is_reserved || matches!(owner, ProjectionOwner::Ledger))
}

/// A fold of the log that can be kept in snapshots.
///
/// A projection is a pure function of the records: no clock, no randomness, no iteration order of a
/// hash map. Its default is its value before the first record.
pub trait Projection: Default {
    /// Its name in files: 1 to 64 characters of `a-z`, `0-9` and `_`, except `state` and `metrics`,
    /// which are the ledger's own. It is checked at compile time.
    const NAME: &'static str;

    /// Version of the meaning of `apply` and of the bytes of `encode`, from 1. A snapshot of another
    /// version is ignored: the log is folded instead.
    const VERSION: u32;

    /// The owner. Programs that use the crate must not override it.
    #[doc(hidden)]
    const OWNER: ProjectionOwner = ProjectionOwner::User;

    /// Fold one record into the projection. This cannot fail.
    fn apply(&mut self, record: &RecordedEvent);

    /// As [`Projection::apply`], for a record that the caller no longer needs.
    fn apply_owned(&mut self, record: RecordedEvent) {
        self.apply(&record);
    }

    /// Write everything that `decode` needs. Equal projections write equal bytes; only compressed
    /// parts may differ.
    ///
    /// # Errors
    /// Those of the writer. Any other error means that there can be no snapshot of this value.
    fn encode(&self, out: &mut dyn io::Write) -> io::Result<()>;

    /// Read the output of `encode` to the end. The checksums of the file are valid, but its bytes
    /// may still be invalid: do not trust any length in them.
    ///
    /// # Errors
    /// Errors of the reader, and bytes that do not encode this projection.
    fn decode(input: &mut dyn io::Read) -> io::Result<Self>;

    /// Write the differences from `base`, the value of an older snapshot.
    ///
    /// # Errors
    /// As [`Projection::encode`]; `Unsupported` for a projection without delta snapshots.
    fn encode_changes(&self, _base: &Self, _out: &mut dyn io::Write) -> io::Result<()> {
        Err(no_deltas())
    }

    /// Apply the output of [`Projection::encode_changes`] to `base`.
    ///
    /// # Errors
    /// As [`Projection::decode`]; `Unsupported` for a projection without delta snapshots.
    fn decode_changes(_base: Self, _input: &mut dyn io::Read) -> io::Result<Self> {
        Err(no_deltas())
    }

    /// The first error that was found while decoding the parts that `decode` deferred, if any.
    #[must_use]
    fn fault(&self) -> Option<&str> {
        None
    }

    /// Decode all parts that `decode` deferred, and return the first error, if any.
    #[must_use]
    fn validate(&self) -> Option<&str> {
        None
    }

    /// A hash that equal projections share: by default, of the bytes of `encode`.
    #[must_use]
    fn hash(&self) -> ContentHash {
        hash_of(|out| self.encode(out))
    }
}

fn no_deltas() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this projection has no delta snapshots")
}
