//! Verifying a whole ledger: the log, and on request what was derived from it.
//!
//! Invariants:
//! - Nothing is written and no lock is taken.
//! - Each level includes the ones before it.
//! - Nothing that is found ends the verification.
//!
//! Left out on purpose: repairing anything.

mod anchors;
mod beside;
mod claim;
mod derived;
mod replay;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::log::{
    self, BlobId, Class, Completion, Expected, Finding, KIND_RETENTION_NOTE, KIND_SNAPSHOT_NOTE,
    Links, LogReader, LoggedRecord, VerifyOptions,
};
use crate::plan::ContentHash;

use super::blobs::Named;
use super::environment::Environment;
use super::{archive, blobs, codec};
use beside::Snapshots;

/// How thoroughly a ledger is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every checksum: of headers, frames and HEAD; order, links between segments, the log's end.
    Crc,
    /// Every chain value, computed again from the records.
    Chain,
    /// What lies beside the log: snapshots, what the log says of them, and large outputs.
    Snapshots,
    /// Everything folded from the first record, or from the older anchor of a log that begins later,
    /// and the state compared with what was noted.
    Replay,
}

/// How far a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What it is at.
    pub phase: Phase,
    /// Bytes that are done.
    pub done: u64,
    /// Bytes that there are.
    pub total: u64,
}

/// The parts of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Reading the log.
    Log,
    /// Comparing what was derived from it, and folding it.
    Derived,
}

/// How a ledger is verified.
#[derive(Clone, Copy)]
pub struct VerifyRequest<'a> {
    /// How thoroughly.
    pub level: Level,
    /// How many threads share the work. Each holds one window of the log, one record, or one state.
    pub jobs: NonZeroUsize,
    /// A chain value that must be in the log.
    pub expected: Option<Expected>,
    /// Who is told how far it is, from any of the threads, and may ask to stop.
    pub watch: &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync),
}

/// What verifying a ledger found.
#[derive(Debug)]
pub struct VerifyReport {
    /// What was found: in the log first, then in what is derived from it.
    pub log: log::Verification,
    /// How many snapshots were checked.
    pub snapshots: u64,
    /// How many snapshot notes of the log were compared.
    pub notes: u64,
    /// How many outputs that lie beside the log were checked.
    pub blobs: u64,
    /// The last record of the state that was folded, and its hash.
    pub state: Option<(u64, ContentHash)>,
}

/// How a ledger is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Everything that was looked at is as it should be.
    Whole,
    /// Something is damaged, or the expected chain value is not there.
    Damaged,
    /// What can be read is whole; a newer program wrote the rest.
    Newer,
    /// It was asked to stop before anything was found.
    Stopped,
}

impl VerifyReport {
    /// How the ledger is.
    #[must_use]
    pub fn condition(&self) -> Condition {
        let is_as_expected = self.log.expectation.is_none_or(log::Expectation::is_met);
        if self.log.is_damaged() || !is_as_expected {
            Condition::Damaged
        } else if self.log.count(Class::Newer) > 0 {
            Condition::Newer
        } else if self.is_stopped() {
            Condition::Stopped
        } else {
            Condition::Whole
        }
    }

    fn is_stopped(&self) -> bool {
        self.log.completion == Completion::Stopped
    }
}

/// Verify a ledger.
///
/// # Errors
/// `NotALedger`, and `Io` where not even names and headers can be read. Damage is no error.
pub fn verify(
    dir: &Path,
    environment: &Environment,
    request: VerifyRequest<'_>,
) -> Result<VerifyReport> {
    let seen = Mutex::new(Seen::default());
    let examine = |record: &LoggedRecord<&[u8]>| {
        Seen::note(&seen, record, request.level);
        // Whether a payload makes sense is a question of the level `replay`.
        codec::kind_of(record).err()
    };
    let links = if request.level == Level::Crc { Links::Trusted } else { Links::Computed };
    let watch = |done, total| (request.watch)(Progress { phase: Phase::Log, done, total });
    let options = VerifyOptions {
        links,
        jobs: request.jobs,
        expected: request.expected,
        watch: &watch,
        examine: &examine,
    };
    let log = log::verify(&environment.storage, dir, options)?;
    let mut report = VerifyReport { log, snapshots: 0, notes: 0, blobs: 0, state: None };
    if report.is_stopped() {
        return Ok(report);
    }
    let seen = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    let retention: Vec<_> = seen.retention.into_values().collect();
    let view = LogReader::open(&environment.storage, dir)?;
    anchors::notes(&view, &retention, &mut report)?;
    let bad = anchors::files(&|| LogReader::open(&environment.storage, dir), &mut report)?;
    archive::check(dir, environment, &view, &mut report)?;
    if request.level < Level::Snapshots {
        return Ok(report);
    }
    // The names first: whatever they are about, a reader that is opened later knows of.
    let list = LogReader::open(&environment.storage, dir)?.snapshots()?;
    let reader = LogReader::open(&environment.storage, dir)?;
    let claims = claim::of_notes(&reader, seen.snapshots.values(), &mut report)?;
    let storage = &environment.storage;
    let snapshots = Snapshots { reader: &reader, storage, list: &list, bad: &bad };
    let mut named = Named::anchored(&reader);
    for ((seq, ..), id) in seen.blobs {
        named.add(id, seq);
    }
    let survey = blobs::survey(&reader, named)?;
    derived::check(&snapshots, &survey, claims, request, &mut report)?;
    Ok(report)
}

/// What is noted while the log is read, of which a part may be looked at twice.
#[derive(Default)]
struct Seen {
    retention: BTreeMap<Place, LoggedRecord>,
    snapshots: BTreeMap<Place, LoggedRecord>,
    blobs: BTreeMap<Place, BlobId>,
}

/// A record's number, segment and offset.
type Place = (u64, u64, u64);

impl Seen {
    fn note(all: &Mutex<Self>, record: &LoggedRecord<&[u8]>, level: Level) {
        // Few records are noted.
        let all = || all.lock().unwrap_or_else(PoisonError::into_inner);
        let is_deep = level >= Level::Snapshots;
        let place = (record.seq, record.segment, record.offset);
        match record.kind {
            KIND_RETENTION_NOTE => {
                all().retention.insert(place, record.clone().into_owned());
            }
            KIND_SNAPSHOT_NOTE if is_deep => {
                all().snapshots.insert(place, record.clone().into_owned());
            }
            _ if is_deep => {
                if let Ok(Some(id)) = blobs::named_in(record) {
                    all().blobs.insert(place, id);
                }
            }
            _ => {}
        }
    }
}

/// Something that is wrong with an intact record.
fn at_record<P>(reader: &LogReader, record: &LoggedRecord<P>, what: String) -> Finding {
    Finding {
        class: Class::Damage,
        path: segment_of(reader, record),
        offset: record.offset,
        end: record.offset.saturating_add(record.size),
        missing: None,
        what,
    }
}

fn segment_of<P>(reader: &LogReader, record: &LoggedRecord<P>) -> PathBuf {
    let segments = reader.segments().into_iter();
    let is_own = |ordinal: u64| ordinal == record.segment;
    let mut own =
        segments.filter(|each| each.header.as_ref().is_ok_and(|header| is_own(header.ordinal)));
    own.next().map(|segment| segment.path).unwrap_or_default()
}

/// The last durable record of a ledger, for keeping elsewhere.
///
/// # Errors
/// `NotALedger`; `Ambiguous` and `Corrupt` where it cannot be told; `Io`.
pub fn root(dir: &Path, environment: &Environment) -> Result<log::Ack> {
    log::root(&environment.storage, dir)
}
