//! Blobs of outputs that are too large for a record. An output is stored before its command is
//! decided and read on request. Blobs are listed and garbage-collected on command.
//!
//! Invariants:
//! - A record references a blob only after the blob is durable.
//! - A fold never reads a blob, so a missing or damaged blob is not an error for a fold.
//! - Blobs are collected neither while a command of this handle holds a reservation, nor in a
//!   ledger with a record that cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::log::{
    BlobId, BlobList, BlobReader, BlobState, BlobStore, ErasureNote, KIND_ERASURE, Log, LogItem,
    LogReader, LoggedRecord,
};
use crate::plan::{
    BlobOutput, ContentHash, Event, Json, Output, Receipt, Rejection, State, StepEvent,
    output_values,
};

use super::codec::event::{decode, kind_of};
use super::codec::kind::Kind;
use super::snapshot::load::load_validated;

/// The blobs of an open ledger.
#[derive(Debug)]
pub(crate) struct OutputStore {
    store: BlobStore,
    /// Locked for reading from storing a blob until the record that references it is durable;
    /// locked for writing while collecting.
    reservations: RwLock<()>,
}

/// Whether the output of a receipt is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeepOutput {
    /// A record may name it.
    Stored,
    /// No record will: the receipt is compared with an earlier one, and not recorded.
    Compared,
}

/// How thoroughly blobs are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobCheck {
    /// Check that the files exist and have the right lengths.
    Presence,
    /// Also check their hashes.
    Content,
}

/// A blob that is stored, or that a record references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobUse {
    /// Its name.
    pub id: BlobId,
    /// Its file.
    pub path: PathBuf,
    /// The number of references: records, and anchors of a pruned log.
    pub records: u64,
    /// The sequence number of the first reference.
    pub first_seq: Option<u64>,
    /// The state of its file.
    pub state: BlobState,
}

/// All blobs of a ledger.
#[derive(Debug, Clone, Default)]
pub struct BlobSurvey {
    /// The blobs, by hash.
    pub blobs: Vec<BlobUse>,
    /// Blobs that are unfinished, or being written.
    pub unfinished: Vec<PathBuf>,
    /// Unknown files.
    pub unknown_files: Vec<PathBuf>,
    /// Whether every record could be read. If not, an unreadable record may reference any blob.
    pub is_complete: bool,
}

/// The result of a garbage collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectedBlobs {
    /// The number of blobs that no record references.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of unfinished blobs.
    pub unfinished: u64,
}

/// The blob that an event references, if any.
#[must_use]
pub fn blob_of(event: &Event) -> Option<BlobId> {
    let Event::Step(record) = event else { return None };
    let receipt = match &record.event {
        StepEvent::ReceiptRecorded(event) => &event.receipt,
        StepEvent::ReceiptRefused(event) => &event.receipt,
        _ => return None,
    };
    match &receipt.output {
        Output::Inline(_) => None,
        Output::Blob(blob) => Some(id_of(blob)),
    }
}

fn id_of(blob: &BlobOutput) -> BlobId {
    BlobId { hash: blob.hash.0, length: blob.length }
}

/// The value of an output, read from its blob if necessary.
pub(crate) fn resolve(blobs: &BlobReader, output: &Output) -> Result<Json> {
    let blob = match output {
        Output::Inline(value) => return Ok(value.clone()),
        Output::Blob(blob) => id_of(blob),
    };
    let text = String::from_utf8(blobs.get(&blob)?).map_err(|_| {
        Error::new(ErrorKind::Corrupt, "the blob has the right hash but is not UTF-8 text")
            .at_path(&blobs.path(&blob))
    })?;
    Ok(Json::from_canonical(&text))
}

impl OutputStore {
    pub(crate) fn new(store: BlobStore) -> Self {
        Self { store, reservations: RwLock::new(()) }
    }

    /// A reservation. Keep it until the record that references the stored blob is durable.
    pub(crate) fn reserve(&self) -> RwLockReadGuard<'_, ()> {
        self.reservations.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`crate::Ledger::output`].
    pub(crate) fn resolve(&self, output: &Output) -> Result<Json> {
        resolve(self.store.reader(), output)
    }

    /// Remove the blobs that no record references, and unfinished blobs; see
    /// [`crate::Ledger::collect_blobs`].
    pub(crate) fn collect(&self, log: &Log) -> Result<CollectedBlobs> {
        log.check_process()?;
        let _no_reservations = self.reservations.write().unwrap_or_else(PoisonError::into_inner);
        let mut referenced = BTreeSet::new();
        let reader = log.reader()?;
        referenced.extend(anchored(&reader)?.into_iter().map(|(id, _)| id.hash));
        for record in reader.records(reader.first_seq()) {
            let record = record?;
            if let Some(id) = decode(&record)?.as_ref().and_then(blob_of) {
                referenced.insert(id.hash);
            }
        }
        // Reading the log and removing files may take long: check the right to write each time.
        let remove = |path: &Path| {
            if !mutant!(FencedWriterCollectsBlobs) {
                log.check_writer()?;
            }
            self.store.remove(path)
        };
        let BlobList { blobs, unfinished, unknown: _ } = self.store.reader().list()?;
        let mut collected = CollectedBlobs::default();
        for blob in blobs.iter().filter(|blob| !referenced.contains(&blob.id.hash)) {
            remove(&blob.path)?;
            collected.blobs += 1;
            collected.bytes = collected.bytes.saturating_add(blob.id.length);
        }
        for path in &unfinished {
            remove(path)?;
            collected.unfinished += 1;
        }
        Ok(collected)
    }

    /// Store the output of a receipt as a blob if it is larger than the threshold, and return the
    /// output that replaces it. A blob that the receipt references must exist. `declared_outputs`
    /// has the names that the step declares; `None` for a receipt that will be rejected.
    pub(crate) fn store(
        &self,
        receipt: &Receipt,
        threshold: usize,
        keep: KeepOutput,
        declared_outputs: impl FnOnce() -> Result<Option<Vec<String>>>,
    ) -> Result<Option<Output>> {
        let value = match &receipt.output {
            Output::Inline(value) => value,
            Output::Blob(blob) => return self.confirm_exists(blob).map(|()| None),
        };
        if value.as_str().len() <= threshold {
            return Ok(None);
        }
        // No record would reference the blob of a receipt that is rejected.
        let Some(names) = declared_outputs()? else { return Ok(None) };
        let values: Vec<_> =
            output_values(names.iter().map(String::as_str), value).into_iter().collect();
        // The values that a fold needs stay in the record. If they make up most of the output, a
        // blob saves nothing.
        let kept: usize = values.iter().map(|(_, value)| value.as_str().len()).sum();
        if value.as_str().len().saturating_sub(kept) <= threshold {
            return Ok(None);
        }
        value.expect_readable()?;
        let bytes = value.as_str().as_bytes();
        let id = match keep {
            KeepOutput::Compared if !mutant!(RejectedOutputStored) => BlobId::of(bytes),
            _ => self.store.put(bytes)?,
        };
        let blob = BlobOutput { hash: ContentHash(id.hash), length: id.length, values };
        Ok(Some(Output::Blob(blob)))
    }

    /// Check that a blob exists that a caller references. No record references it yet, so a missing
    /// blob is the caller's mistake and not damage.
    fn confirm_exists(&self, blob: &BlobOutput) -> Result<()> {
        let (id, store) = (id_of(blob), &self.store);
        store.confirm(&id).map_err(|error| match store.reader().check(&id) {
            BlobState::Missing | BlobState::WrongLength(_) => {
                Rejection::NoSuchOutput(blob.hash).into()
            }
            BlobState::Intact | BlobState::WrongHash(_) | BlobState::Unreadable(_) => error,
        })
    }
}

/// The state of an output's blob; `None` for an inline output.
pub(crate) fn blob_state(log: &LogReader, output: &Output) -> Option<BlobState> {
    match output {
        Output::Inline(_) => None,
        Output::Blob(blob) => Some(log.blobs().check(&id_of(blob))),
    }
}

/// See [`crate::LedgerView::blobs`].
pub(crate) fn survey_with(log: &LogReader, check: BlobCheck) -> Result<BlobSurvey> {
    let mut survey = survey(log, referenced(log)?)?;
    if check == BlobCheck::Content {
        let reader = log.blobs();
        for blob in &mut survey.blobs {
            blob.state = reader.check(&blob.id);
        }
    }
    Ok(survey)
}

/// The blobs that intact records and anchors reference.
pub(crate) fn referenced(log: &LogReader) -> Result<ReferencedBlobs> {
    let mut referenced = ReferencedBlobs::anchored(log);
    let mut walk = log.walk(1);
    while let Some(item) = walk.next_ref() {
        match item? {
            LogItem::Record(record, _) => match decode(&record) {
                Ok(event) => {
                    if let Some(id) = event.as_ref().and_then(blob_of) {
                        referenced.add(id, record.seq);
                    }
                }
                Err(_) => referenced.is_complete = false,
            },
            LogItem::Damage(_) => referenced.is_complete = false,
            LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    Ok(referenced)
}

/// The blobs that the records up to `last` reference.
///
/// # Errors
/// `Corrupt`, `Unsupported` and `Io` if a record cannot be read.
pub(crate) fn referenced_up_to(reader: &LogReader, last: u64) -> Result<BTreeSet<BlobId>> {
    let mut referenced = BTreeSet::new();
    for item in reader.walk(reader.first_seq()) {
        match item? {
            LogItem::Record(record, _) if record.seq > last => break,
            LogItem::Record(record, _) => {
                referenced.extend(decode(&record)?.as_ref().and_then(blob_of));
            }
            LogItem::Damage(damage) => return Err(damage.into_error()),
            LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    Ok(referenced)
}

/// The blob that a record references, if any.
///
/// # Errors
/// `Unsupported` and `Corrupt` if the record cannot be decoded.
pub(crate) fn blob_of_record<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Result<Option<BlobId>> {
    match kind_of(record)? {
        Some(Kind::ReceiptRecorded | Kind::ReceiptRefused) => {
            Ok(decode(record)?.as_ref().and_then(blob_of))
        }
        _ => Ok(None),
    }
}

/// The referenced blobs, with the number of references and the first one.
#[derive(Debug)]
pub(crate) struct ReferencedBlobs {
    uses: BTreeMap<BlobId, (u64, Option<u64>)>,
    /// Whether every record could be read.
    is_complete: bool,
}

impl ReferencedBlobs {
    /// The blobs that the anchors of a log reference: anchors come before all records.
    pub(crate) fn anchored(log: &LogReader) -> Self {
        let anchored = anchored(log);
        let mut referenced = Self { uses: BTreeMap::new(), is_complete: anchored.is_ok() };
        for (id, seq) in anchored.into_iter().flatten() {
            referenced.add(id, seq);
        }
        referenced
    }

    /// Whether a record references, or may reference, a blob.
    pub(crate) fn may_reference(&self, id: &BlobId) -> bool {
        !self.is_complete || self.uses.contains_key(id)
    }

    /// Add a reference to a blob. References are added in order.
    pub(crate) fn add(&mut self, id: BlobId, seq: u64) {
        self.uses.entry(id).or_insert((0, Some(seq))).0 += 1;
    }
}

/// The stored and the referenced blobs, with the state of their files by length. The files are
/// listed after the records were read, since a blob is stored before it is referenced.
pub(crate) fn survey(log: &LogReader, referenced: ReferencedBlobs) -> Result<BlobSurvey> {
    let ReferencedBlobs { uses: mut referenced, is_complete } = referenced;
    let reader = log.blobs();
    let BlobList { blobs, unfinished, unknown: unknown_files } = reader.list()?;
    let stored: BTreeMap<_, _> = blobs.iter().map(|blob| (blob.id.hash, blob.id.length)).collect();
    for blob in blobs {
        let is_named = referenced.range(from_hash(blob.id.hash)..).next();
        if is_named.is_none_or(|(id, _)| id.hash != blob.id.hash) {
            referenced.insert(blob.id, (0, None));
        }
    }
    let found = |id: &BlobId| match stored.get(&id.hash) {
        None => BlobState::Missing,
        Some(length) if *length == id.length => BlobState::Intact,
        Some(length) => BlobState::WrongLength(*length),
    };
    let of = |(id, (records, first_seq))| BlobUse {
        id,
        path: reader.path(&id),
        records,
        first_seq,
        state: found(&id),
    };
    let erased = erased(log);
    let is_there =
        |blob: &BlobUse| blob.state != BlobState::Missing || !erased.contains(&blob.id.hash);
    let blobs = referenced.into_iter().map(of).filter(is_there).collect();
    Ok(BlobSurvey { blobs, unfinished, unknown_files, is_complete })
}

/// The hashes of the blobs that erasures removed. The absence of such a blob is not damage; a later
/// output with the same content may have written it again. A note that cannot be read is reported
/// as damage of the log.
pub(crate) fn erased(log: &LogReader) -> BTreeSet<[u8; 32]> {
    let notes = log.records_of_kind(KIND_ERASURE, log.first_seq()).filter_map(Result::ok);
    let notes = notes.filter_map(|record| ErasureNote::from_record(&record));
    notes.flat_map(|note| note.blob_hashes().collect::<Vec<_>>()).collect()
}

/// The blobs that the anchors of a pruned log reference, each with the anchor's record. The records
/// that referenced them first may have been pruned.
fn anchored(reader: &LogReader) -> Result<Vec<(BlobId, u64)>> {
    let retention = reader.retention().filter(|_| reader.first_seq() > 1);
    let anchors = retention.map(|retention| retention.note.anchors.as_slice()).unwrap_or_default();
    let mut referenced = Vec::new();
    for anchor in anchors {
        reader.check_anchor(anchor)?;
        let Some(name) = anchor.name() else { continue };
        let (state, _) = load_validated::<State>(reader, &name)?;
        let steps = state.runs.values().flat_map(|run| &run.steps);
        let receipts = steps.filter_map(|step| step.attempt()).filter_map(|it| it.receipt.as_ref());
        referenced.extend(receipts.filter_map(|receipt| match &receipt.output {
            Output::Inline(_) => None,
            Output::Blob(blob) => Some((id_of(blob), anchor.seq)),
        }));
    }
    Ok(referenced)
}

fn from_hash(hash: [u8; 32]) -> BlobId {
    BlobId { hash, length: 0 }
}
