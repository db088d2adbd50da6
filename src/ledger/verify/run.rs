//! Runs a verification: the log first, then the other files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::format::{Codec, split_detached};
use crate::ledger::blobs::{self, ReferencedBlobs};
use crate::ledger::codec::event::kind_of;
use crate::ledger::environment::{Environment, LedgerTime};
use crate::log::{
    self, BlobId, ChainCheck, ErasureNote, FindingClass, GapNote, KIND_ERASURE, KIND_GAP,
    KIND_RETENTION_NOTE, KIND_SNAPSHOT_NOTE, LogReader, LoggedRecord, LostRange, VerifyFinding,
    VerifyOptions, is_missing,
};

use super::files::SnapshotVerifier;
use super::report::{VerifyLevel, VerifyPhase, VerifyProgress, VerifyReport, VerifyRequest};
use super::{anchors, archive, derived, expected_hashes};

impl VerifyRequest<'_> {
    /// Verify a ledger.
    ///
    /// # Errors
    /// `NotALedger`; `Io` if even the names or headers cannot be read. Damage is not an error.
    pub fn run(self, dir: &Path, environment: &Environment) -> Result<VerifyReport> {
        let mut attempts_left = ATTEMPTS_MAX;
        loop {
            attempts_left -= 1;
            match verify_once(dir, environment, self) {
                // A prune removed the file while the ledger was being read.
                Err(error) if is_missing(&error) && attempts_left > 0 => {
                    mutant!(PrunedFileEndsVerify => return Err(error));
                }
                verified => return verified,
            }
        }
    }
}

/// Maximum number of repetitions after a prune removed files during the verification.
const ATTEMPTS_MAX: u32 = 16;

fn verify_once(
    dir: &Path,
    environment: &Environment,
    request: VerifyRequest<'_>,
) -> Result<VerifyReport> {
    let noted = Mutex::new(NotedRecords::default());
    let examine = |record: &LoggedRecord<&[u8]>| {
        NotedRecords::add(&noted, record, request.level);
        // Payloads are validated by the level `replay`.
        kind_of(record).err()
    };
    let links =
        if request.level == VerifyLevel::Crc { ChainCheck::Trust } else { ChainCheck::Recompute };
    let watch =
        |done, total| (request.watch)(VerifyProgress { phase: VerifyPhase::Log, done, total });
    let options = VerifyOptions {
        chain_check: links,
        jobs: request.jobs,
        expected: request.expected,
        progress: &watch,
        check_record: &examine,
    };
    let log = log::verify(&environment.storage, dir, options)?;
    let mut report = VerifyReport { log, snapshots: 0, notes: 0, blobs: 0, state: None };
    if report.is_stopped() {
        return Ok(report);
    }
    let clocks = LedgerTime::of(&LogReader::open(&environment.storage, dir)?, environment);
    if let Some(what) = clocks.difference() {
        report.log.add_findings([VerifyFinding::new(
            FindingClass::Warning,
            dir.join("HEAD"),
            0..0,
            &what,
        )]);
    }
    let noted = noted.into_inner().unwrap_or_else(PoisonError::into_inner);
    let retention: Vec<_> = noted.retention.into_values().collect();
    let view = LogReader::open(&environment.storage, dir)?;
    report.log.add_findings(noted.losses.values().filter_map(|gap| recorded_loss(&view, gap)));
    let erasures = Erasures::of(noted.erasures.values());
    report.log.add_findings(erasures.unexplained(&view, &noted.erased));
    anchors::check_retention_notes(&view, &retention, &mut report)?;
    let bad =
        anchors::check_anchor_files(&|| LogReader::open(&environment.storage, dir), &mut report)?;
    archive::check(dir, environment, &view, &mut report)?;
    if request.level < VerifyLevel::Snapshots {
        return Ok(report);
    }
    // List the names first: a reader that is opened later knows every record they refer to.
    let list = LogReader::open(&environment.storage, dir)?.snapshots()?;
    let reader = LogReader::open(&environment.storage, dir)?;
    let expected = expected_hashes::from_notes(&reader, noted.snapshots.values(), &mut report)?;
    let storage = &environment.storage;
    let snapshots = SnapshotVerifier { reader: &reader, storage, list: &list, bad: &bad };
    let mut named = ReferencedBlobs::anchored(&reader);
    for ((seq, ..), id) in noted.blobs {
        named.add(id, seq);
    }
    let survey = blobs::survey(&reader, named)?;
    derived::check(&snapshots, &survey, expected, request, &mut report)?;
    Ok(report)
}

/// The finding about the range of records that a gap record replaces.
fn recorded_loss(reader: &LogReader, record: &LoggedRecord) -> Option<VerifyFinding> {
    let LostRange { last, file, offset, what, .. } = GapNote::decode(&record.payload)?.range?;
    let what = format!("lost before the ledger was salvaged, at {file}, byte {offset}: {what}");
    let finding = VerifyFinding::at_record(reader, record, &what);
    let (class, missing) = (FindingClass::RecordedLoss, Some(record.seq..=last));
    Some(VerifyFinding { class, missing, ..finding })
}

/// Records that later checks need. They are collected while the log is read; parts of the log may
/// be read twice.
#[derive(Default)]
struct NotedRecords {
    retention: BTreeMap<RecordPlace, LoggedRecord>,
    /// The first gap record of each range of lost records.
    losses: BTreeMap<RecordPlace, LoggedRecord>,
    snapshots: BTreeMap<RecordPlace, LoggedRecord>,
    blobs: BTreeMap<RecordPlace, BlobId>,
    erasures: BTreeMap<RecordPlace, LoggedRecord>,
    /// The digests of the erased values in each record.
    erased: BTreeMap<RecordPlace, (LoggedRecord, Vec<[u8; 32]>)>,
}

/// The values and blobs that the erasure notes of a log name.
#[derive(Default)]
struct Erasures {
    values: BTreeSet<[u8; 32]>,
}

impl Erasures {
    fn of<'a>(records: impl Iterator<Item = &'a LoggedRecord>) -> Self {
        let mut all = Self::default();
        for note in records.filter_map(ErasureNote::from_record) {
            all.values.extend(note.digests());
        }
        all
    }

    /// Findings about erased values that no note names: zeros over a value are not an erasure by
    /// themselves.
    fn unexplained<'a>(
        &'a self,
        reader: &'a LogReader,
        erased: &'a BTreeMap<RecordPlace, (LoggedRecord, Vec<[u8; 32]>)>,
    ) -> impl Iterator<Item = VerifyFinding> + 'a {
        let is_unexplained = |digest: &[u8; 32]| !self.values.contains(digest);
        let records =
            erased.values().filter(move |(_, digests)| digests.iter().any(is_unexplained));
        records.map(|(record, _)| {
            let what = "a value of this record is zero, and no record says that it was erased";
            VerifyFinding::at_record(reader, record, what)
        })
    }
}

/// A record's number, segment and offset.
type RecordPlace = (u64, u64, u64);

impl NotedRecords {
    fn add(all: &Mutex<Self>, record: &LoggedRecord<&[u8]>, level: VerifyLevel) {
        // The lock is rarely contended: few records are collected.
        let all = || all.lock().unwrap_or_else(PoisonError::into_inner);
        let is_deep = level >= VerifyLevel::Snapshots;
        let place = (record.seq, record.segment, record.offset);
        if record.codec == Codec::Detached && !mutant!(ErasedWithoutNoteAccepted) {
            let values = split_detached(record.payload).map(|parts| parts.values);
            let erased = values.into_iter().flatten().filter(|value| value.content.is_none());
            let digests: Vec<_> = erased.map(|value| value.digest).collect();
            if !digests.is_empty() {
                let record = record.with_payload(Vec::new());
                all().erased.insert(place, (record, digests));
            }
        }
        match record.kind {
            KIND_RETENTION_NOTE => {
                all().retention.insert(place, record.clone().into_owned());
            }
            KIND_ERASURE => {
                all().erasures.insert(place, record.clone().into_owned());
            }
            KIND_GAP => {
                let note = GapNote::decode(record.payload);
                if note.is_some_and(|note| note.range.is_some() && !note.no_loss) {
                    all().losses.insert(place, record.clone().into_owned());
                }
            }
            KIND_SNAPSHOT_NOTE if is_deep => {
                all().snapshots.insert(place, record.clone().into_owned());
            }
            _ if is_deep => {
                if let Ok(Some(id)) = blobs::blob_of_record(record) {
                    all().blobs.insert(place, id);
                }
            }
            _ => {}
        }
    }
}
