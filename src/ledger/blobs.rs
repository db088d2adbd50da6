//! Outputs that are too large for a record. They are stored as blobs before their command is decided,
//! resolved on request, listed, and garbage-collected on command.
//!
//! Invariants:
//! - A record names a blob only after the blob is durable.
//! - A fold never reads a blob. A missing or damaged blob is an error only for the reader of that
//!   output.
//! - Nothing is collected while a command of this handle holds a reservation, nor in a ledger with a
//!   record that cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::log::{
    BlobId, BlobList, BlobReader, BlobState, BlobStore, Log, LogItem, LogReader, LoggedRecord,
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
    /// Shared from storing a blob until the record that names it is durable; exclusive while
    /// collecting.
    reservations: RwLock<()>,
}

/// How thoroughly blobs are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobCheck {
    /// That the files exist and have the right lengths.
    Presence,
    /// Also their hashes.
    Content,
}

/// A blob that is stored, or named by a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobUse {
    /// Its name.
    pub id: BlobId,
    /// Its file.
    pub path: PathBuf,
    /// How many records name it. An anchor of a pruned log counts as one.
    pub records: u64,
    /// The first of them, by sequence number.
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
    /// Whether every record could be read: if not, any blob may be named by one that could not.
    pub is_complete: bool,
}

/// What a garbage collection removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectedBlobs {
    /// Blobs that no record named.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Unfinished blobs.
    pub unfinished: u64,
}

/// The blob that an event names, if any.
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
    Ok(Json::from_canonical(text))
}

impl OutputStore {
    pub(crate) fn new(store: BlobStore) -> Self {
        Self { store, reservations: RwLock::new(()) }
    }

    /// A reservation, to be kept until the record that names a stored blob is durable.
    pub(crate) fn reserve(&self) -> RwLockReadGuard<'_, ()> {
        self.reservations.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`crate::Ledger::output`].
    pub(crate) fn resolve(&self, output: &Output) -> Result<Json> {
        resolve(self.store.reader(), output)
    }

    /// Remove the blobs that no record names, and unfinished ones; see
    /// [`crate::Ledger::collect_blobs`].
    pub(crate) fn collect(&self, log: &Log) -> Result<CollectedBlobs> {
        log.check_process()?;
        let _no_reservations = self.reservations.write().unwrap_or_else(PoisonError::into_inner);
        let mut named = BTreeSet::new();
        let reader = log.reader()?;
        named.extend(anchored(&reader)?.into_iter().map(|(id, _)| id.hash));
        for record in reader.records(reader.first_seq()) {
            let record = record?;
            if let Some(id) = decode(&record)?.as_ref().and_then(blob_of) {
                named.insert(id.hash);
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
        for blob in blobs.iter().filter(|blob| !named.contains(&blob.id.hash)) {
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

    /// Store the output of a receipt as a blob if it is larger than the threshold, and return what
    /// replaces it. A blob that the receipt names must exist. `declared_outputs` has the names that the
    /// step declares; `None` if the attempt was never dispatched.
    pub(crate) fn store(
        &self,
        receipt: &Receipt,
        threshold: usize,
        declared_outputs: impl FnOnce() -> Result<Option<Vec<String>>>,
    ) -> Result<Option<Output>> {
        let value = match &receipt.output {
            Output::Inline(value) => value,
            Output::Blob(blob) => return self.keep_named(blob).map(|()| None),
        };
        if value.as_str().len() <= threshold {
            return Ok(None);
        }
        // A receipt for an attempt that was never dispatched is rejected: nothing will name the blob.
        let Some(names) = declared_outputs()? else { return Ok(None) };
        let values: Vec<_> =
            output_values(names.iter().map(String::as_str), value).into_iter().collect();
        // The values that a fold needs stay in the record. If they are most of the output, a blob
        // saves nothing.
        let kept: usize = values.iter().map(|(_, value)| value.as_str().len()).sum();
        if value.as_str().len().saturating_sub(kept) <= threshold {
            return Ok(None);
        }
        value.expect_readable()?;
        let id = self.store.put(value.as_str().as_bytes())?;
        let blob = BlobOutput { hash: ContentHash(id.hash), length: id.length, values };
        Ok(Some(Output::Blob(blob)))
    }

    /// Make sure that a blob exists which a caller names. No record names it yet, so a missing one is
    /// the caller's mistake and not damage.
    fn keep_named(&self, blob: &BlobOutput) -> Result<()> {
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
    let mut survey = survey(log, named(log)?)?;
    if check == BlobCheck::Content {
        let reader = log.blobs();
        for blob in &mut survey.blobs {
            blob.state = reader.check(&blob.id);
        }
    }
    Ok(survey)
}

/// The blobs that intact records and anchors name.
pub(crate) fn named(log: &LogReader) -> Result<NamedBlobs> {
    let mut named = NamedBlobs::anchored(log);
    let mut walk = log.walk(1);
    while let Some(item) = walk.next_ref() {
        match item? {
            LogItem::Record(record, _) => match decode(&record) {
                Ok(event) => {
                    if let Some(id) = event.as_ref().and_then(blob_of) {
                        named.add(id, record.seq);
                    }
                }
                Err(_) => named.is_complete = false,
            },
            LogItem::Damage(_) => named.is_complete = false,
            LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    Ok(named)
}

/// The blobs that the records up to `last` name.
///
/// # Errors
/// `Corrupt`, `Unsupported` and `Io` if a record cannot be read.
pub(crate) fn named_up_to(reader: &LogReader, last: u64) -> Result<BTreeSet<BlobId>> {
    let mut named = BTreeSet::new();
    for item in reader.walk(reader.first_seq()) {
        match item? {
            LogItem::Record(record, _) if record.seq > last => break,
            LogItem::Record(record, _) => {
                named.extend(decode(&record)?.as_ref().and_then(blob_of));
            }
            LogItem::Damage(damage) => return Err(damage.into_error()),
            LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    Ok(named)
}

/// The blob that a record names, if any.
///
/// # Errors
/// `Unsupported` and `Corrupt` if the record cannot be decoded.
pub(crate) fn named_in<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Result<Option<BlobId>> {
    match kind_of(record)? {
        Some(Kind::ReceiptRecorded | Kind::ReceiptRefused) => {
            Ok(decode(record)?.as_ref().and_then(blob_of))
        }
        _ => Ok(None),
    }
}

/// The blobs that records name, how often, and the first record of each.
#[derive(Debug)]
pub(crate) struct NamedBlobs {
    uses: BTreeMap<BlobId, (u64, Option<u64>)>,
    /// Whether every record could be read.
    is_complete: bool,
}

impl NamedBlobs {
    /// The blobs that the anchors of a log name: anchors come before all records.
    pub(crate) fn anchored(log: &LogReader) -> Self {
        let anchored = anchored(log);
        let mut named = Self { uses: BTreeMap::new(), is_complete: anchored.is_ok() };
        for (id, seq) in anchored.into_iter().flatten() {
            named.add(id, seq);
        }
        named
    }

    /// Whether a blob is or may be named.
    pub(crate) fn may_have(&self, id: &BlobId) -> bool {
        !self.is_complete || self.uses.contains_key(id)
    }

    /// Add a record that names a blob. Records are added in order.
    pub(crate) fn add(&mut self, id: BlobId, seq: u64) {
        self.uses.entry(id).or_insert((0, Some(seq))).0 += 1;
    }
}

/// The stored blobs and the named ones, and whether they exist with the right lengths. The files are
/// listed after the records were read: a blob is stored before it is named.
pub(crate) fn survey(log: &LogReader, named: NamedBlobs) -> Result<BlobSurvey> {
    let NamedBlobs { uses: mut named, is_complete } = named;
    let reader = log.blobs();
    let BlobList { blobs, unfinished, unknown: unknown_files } = reader.list()?;
    let stored: BTreeMap<_, _> = blobs.iter().map(|blob| (blob.id.hash, blob.id.length)).collect();
    for blob in blobs {
        let is_named = named.range(from_hash(blob.id.hash)..).next();
        if is_named.is_none_or(|(id, _)| id.hash != blob.id.hash) {
            named.insert(blob.id, (0, None));
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
    let blobs = named.into_iter().map(of).collect();
    Ok(BlobSurvey { blobs, unfinished, unknown_files, is_complete })
}

/// The blobs that the anchors of a pruned log name, each with the anchor's record: the records that
/// named them first may be gone.
fn anchored(reader: &LogReader) -> Result<Vec<(BlobId, u64)>> {
    let retention = reader.retention().filter(|_| reader.first_seq() > 1);
    let anchors = retention.map(|retention| retention.note.anchors.as_slice()).unwrap_or_default();
    let mut named = Vec::new();
    for anchor in anchors {
        reader.check_anchor(anchor)?;
        let Some(name) = anchor.name() else { continue };
        let (state, _) = load_validated::<State>(reader, &name)?;
        let steps = state.runs.values().flat_map(|run| &run.steps);
        let receipts = steps.filter_map(|step| step.attempt()).filter_map(|it| it.receipt.as_ref());
        named.extend(receipts.filter_map(|receipt| match &receipt.output {
            Output::Inline(_) => None,
            Output::Blob(blob) => Some((id_of(blob), anchor.seq)),
        }));
    }
    Ok(named)
}

fn from_hash(hash: [u8; 32]) -> BlobId {
    BlobId { hash, length: 0 }
}
