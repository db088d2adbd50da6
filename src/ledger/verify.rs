//! Verifying a whole ledger: the log, and on request what was derived from it.
//!
//! Invariants:
//! - Nothing is written and no lock is taken.
//! - Each level includes the ones before it.
//! - Nothing that is found ends the verification.
//!
//! Left out on purpose: repairing anything.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Codec;
use crate::log::{
    self, Class, Completion, Expected, Finding, Item, KIND_SNAPSHOT_NOTE, Links, LogReader,
    LoggedRecord, Proof, VerifyOptions,
};
use crate::plan::{ContentHash, State};

use super::codec;
use super::environment::Environment;
use super::hash::state_hash;
use super::replay::{fold, recorded};

/// How thoroughly a ledger is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every checksum: of headers, frames and HEAD; order, links between segments, the log's end.
    Crc,
    /// Every chain value, computed again from the records.
    Chain,
    /// What the log says of snapshots.
    Snapshots,
    /// Everything folded from the first record, and the state compared with what was noted.
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
    /// Folding it.
    Replay,
}

/// How a ledger is verified.
#[derive(Clone, Copy)]
pub struct VerifyRequest<'a> {
    /// How thoroughly.
    pub level: Level,
    /// How many threads read the log. Each holds one window of it, or one record.
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
    /// How many snapshot notes of the log were compared.
    pub notes: u64,
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
    let notes = Mutex::new(Vec::new());
    let examine = |record: &LoggedRecord| {
        if record.kind == KIND_SNAPSHOT_NOTE && request.level >= Level::Snapshots {
            notes.lock().unwrap_or_else(PoisonError::into_inner).push(record.clone());
        }
        // Whether a payload makes sense is a question of the level `replay`.
        codec::decode(record).err().filter(|error| error.kind() == ErrorKind::Unsupported)
    };
    let links = if request.level == Level::Crc { Links::Trusted } else { Links::Computed };
    let tell = |phase| move |done, total| (request.watch)(Progress { phase, done, total });
    let options = VerifyOptions {
        links,
        jobs: request.jobs,
        expected: request.expected,
        watch: &tell(Phase::Log),
        examine: &examine,
    };
    let log = log::verify(&environment.storage, dir, options)?;
    let mut report = VerifyReport { log, notes: 0, state: None };
    if report.is_stopped() || request.level < Level::Snapshots {
        return Ok(report);
    }
    let reader = LogReader::open(&environment.storage, dir)?;
    let mut claims = Vec::new();
    let mut notes = notes.into_inner().unwrap_or_else(PoisonError::into_inner);
    notes.sort_by_key(|note| note.seq);
    for note in notes {
        report.notes += 1;
        match Claim::of_note(&reader, &note) {
            Ok(claim) => claims.push(claim),
            Err(finding) => report.log.keep([finding]),
        }
    }
    for claim in &claims {
        report.log.keep(claim.check_chain(&reader)?);
    }
    if request.level == Level::Replay {
        replay(&reader, &claims, &mut report, &tell(Phase::Replay))?;
    }
    Ok(report)
}

/// Somebody says what the state was at a record.
#[derive(Debug)]
struct Claim {
    /// Where it says so.
    place: Finding,
    seq: u64,
    chain: String,
    state_hash: String,
    is_state: bool,
}

/// A snapshot note's payload.
#[derive(Deserialize)]
struct Note {
    projection: String,
    version: u64,
    seq: u64,
    chain: String,
    state_hash: String,
}

impl Claim {
    fn of_note(reader: &LogReader, record: &LoggedRecord) -> std::result::Result<Self, Finding> {
        let segments = reader.segments();
        let own = segments.iter().find(|segment| {
            segment.header.as_ref().is_ok_and(|header| header.ordinal == record.segment)
        });
        let place = |what: String| Finding {
            class: Class::Damage,
            path: own.map(|segment| segment.path.clone()).unwrap_or_default(),
            offset: record.offset,
            end: record.offset.saturating_add(record.size),
            missing: None,
            what: format!("record {}: {what}", record.seq),
        };
        let parsed = (record.codec == Codec::Json)
            .then(|| serde_json::from_slice::<Note>(&record.payload).ok())
            .flatten()
            .filter(|note| note.seq > 0 && note.seq < record.seq);
        let Some(note) = parsed else {
            return Err(place("intact snapshot note that does not say what it must".to_owned()));
        };
        Ok(Self {
            place: place("the snapshot note".to_owned()),
            seq: note.seq,
            chain: note.chain,
            state_hash: note.state_hash,
            is_state: note.projection == "state" && note.version == 1,
        })
    }

    fn differs(&self, what: &str, found: &str) -> Finding {
        let claimed = if what == "chain" { &self.chain } else { &self.state_hash };
        let what = format!(
            "{} says that the {what} of record {} is {claimed}, found {found}",
            self.place.what, self.seq
        );
        Finding { what, ..self.place.clone() }
    }

    /// Compare with the record that it is about, if that can be read.
    fn check_chain(&self, reader: &LogReader) -> Result<Option<Finding>> {
        let chain = match reader.walk(self.seq).next().transpose()? {
            Some(Item::Record(record, _)) if record.seq == self.seq => record.chain.to_string(),
            _ => return Ok(None),
        };
        Ok((chain != self.chain).then(|| self.differs("chain", &chain)))
    }
}

/// Fold everything up to the first damage, and compare the state with what was noted of it.
fn replay(
    reader: &LogReader,
    claims: &[Claim],
    report: &mut VerifyReport,
    watch: &dyn Fn(u64, u64) -> ControlFlow<()>,
) -> Result<()> {
    let total = report.log.counts.frame_bytes;
    let (mut state, mut done) = (State::default(), 0_u64);
    for item in reader.walk(1) {
        // Damage was reported; behind it there is nothing to fold on.
        let Item::Record(record, Proof::Proven) = item? else { break };
        match recorded(&record) {
            Ok(recorded) => fold(&mut state, &recorded),
            Err(error) => {
                report.log.keep(undecodable(&error, reader, &record));
                break;
            }
        }
        let about = claims.iter().filter(|claim| claim.is_state && claim.seq == record.seq);
        for claim in about {
            let hash = state_hash(&state).to_string();
            if hash != claim.state_hash {
                report.log.keep([claim.differs("state hash", &hash)]);
            }
        }
        done = done.saturating_add(record.size);
        if record.seq.is_multiple_of(WATCH_STEP) && watch(done.min(total), total).is_break() {
            report.log.completion = Completion::Stopped;
            return Ok(());
        }
    }
    report.state = Some((state.seq, state_hash(&state)));
    Ok(())
}

/// How many records are folded between two calls of the watch.
const WATCH_STEP: u64 = 1024;

/// A newer program's record was found before.
fn undecodable(error: &Error, reader: &LogReader, record: &LoggedRecord) -> Option<Finding> {
    let segments = reader.segments();
    let own = segments.iter().find(|segment| {
        segment.header.as_ref().is_ok_and(|header| header.ordinal == record.segment)
    });
    (error.kind() != ErrorKind::Unsupported).then(|| Finding {
        class: Class::Damage,
        path: own.map(|segment| segment.path.clone()).unwrap_or_default(),
        offset: record.offset,
        end: record.offset.saturating_add(record.size),
        missing: None,
        what: error.to_string(),
    })
}

/// The last durable record of a ledger, for keeping elsewhere.
///
/// # Errors
/// `NotALedger`; `Ambiguous` and `Corrupt` where it cannot be told; `Io`.
pub fn root(dir: &Path, environment: &Environment) -> Result<log::Ack> {
    log::root(&environment.storage, dir)
}
