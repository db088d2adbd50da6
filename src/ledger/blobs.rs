//! Outputs that are too large for a record: stored before the command that brings them is
//! decided, resolved for who asks, listed, and collected on command.
//!
//! Invariants:
//! - A record names a blob only after the blob is durable.
//! - Folding never reads a blob: what is missing or damaged is an error for who asks for it.
//! - Nothing is collected while a command of this handle is between storing and naming, nor in a
//!   ledger of which any record cannot be read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::error::{Error, ErrorKind, Result};
use crate::log::{
    BlobId, BlobList, BlobReader, BlobState, BlobStore, Item, LogReader, LoggedRecord,
};
use crate::plan::{
    AttemptToken, BlobOutput, Command, ContentHash, Event, Json, Output, Receipt, Rejection, State,
    StepEvent, declared,
};

use super::Ledger;
use super::codec;
use super::kind::Kind;
use super::load::load_whole;
use super::replay::LedgerView;

/// The blobs of a ledger that is open for writing.
#[derive(Debug)]
pub(super) struct Blobs {
    store: BlobStore,
    /// Shared from storing a blob until the record that names it is durable; exclusive while
    /// collecting.
    naming: RwLock<()>,
}

impl Blobs {
    pub(super) fn new(store: BlobStore) -> Self {
        Self { store, naming: RwLock::new(()) }
    }

    /// To be held until the record that names what is stored is durable.
    pub(super) fn naming(&self) -> RwLockReadGuard<'_, ()> {
        self.naming.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How closely blobs are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlobCheck {
    /// Whether the files are there and have the right lengths.
    Presence,
    /// Their hashes too.
    Content,
}

/// A blob that is stored, or that a record names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobUse {
    /// Its name.
    pub id: BlobId,
    /// Its file.
    pub path: PathBuf,
    /// How many records name it; an anchor of a pruned log counts as one, since it stands for them.
    pub records: u64,
    /// The first of them, by sequence number.
    pub first_seq: Option<u64>,
    /// How it was found.
    pub state: BlobState,
}

/// All blobs of a ledger.
#[derive(Debug, Clone, Default)]
pub struct BlobSurvey {
    /// The blobs, by hash.
    pub blobs: Vec<BlobUse>,
    /// Blobs that were never finished, or are being written.
    pub unfinished: Vec<PathBuf>,
    /// Files that do not belong there.
    pub strangers: Vec<PathBuf>,
    /// Whether every record could be read: if not, any blob may be named by one that could not.
    pub is_complete: bool,
}

/// What collecting removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Blobs that no record named.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blobs that were never finished.
    pub unfinished: u64,
}

/// The blob that an event names, if it names one.
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

fn resolve(blobs: &BlobReader, output: &Output) -> Result<Json> {
    let blob = match output {
        Output::Inline(value) => return Ok(value.clone()),
        Output::Blob(blob) => id_of(blob),
    };
    let text = String::from_utf8(blobs.get(&blob)?).map_err(|_| {
        Error::new(ErrorKind::Corrupt, "the blob has the right hash, but is no text")
            .at_path(&blobs.path(&blob))
    })?;
    Ok(Json::from_canonical(text))
}

impl Ledger {
    /// What a worker produced, wherever it is kept.
    ///
    /// # Errors
    /// `Corrupt`, naming the file, if it is in a blob that is missing or damaged; `Io`.
    pub fn output(&self, output: &Output) -> Result<Json> {
        resolve(self.blobs.store.reader(), output)
    }

    /// Remove the blobs that no record names, and what was never finished.
    ///
    /// # Errors
    /// `Corrupt` and `Unsupported` if a record cannot be read, which might name any blob: nothing was
    /// removed then; `Poisoned` and `Fenced`, since the next writer may name what this one knows no record of; `Io`.
    pub fn collect_blobs(&self) -> Result<Collected> {
        self.log.expect_own_process()?;
        let _nobody_names_any = self.blobs.naming.write().unwrap_or_else(PoisonError::into_inner);
        let mut named = BTreeSet::new();
        let reader = self.reader()?;
        named.extend(anchored(&reader)?.into_iter().map(|(id, _)| id.hash));
        for record in reader.records(reader.first_seq()) {
            let record = record?;
            if let Some(id) = codec::decode(&record)?.as_ref().and_then(blob_of) {
                named.insert(id.hash);
            }
        }
        let store = &self.blobs.store;
        // Reading the log may have taken long, and so may removing.
        let remove = |path: &Path| {
            if !bug!(CollectedByAnyone) {
                self.log.expect_writer()?;
            }
            store.remove(path)
        };
        let BlobList { blobs, unfinished, strangers: _ } = store.reader().list()?;
        let mut collected = Collected::default();
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

    /// A command with its output where it belongs. What a receipt brings inline and is too large
    /// becomes a blob; a blob that a caller names must be there.
    pub(super) fn stored<'a>(&self, command: &'a Command) -> Result<Cow<'a, Command>> {
        let Command::RecordReceipt { token, receipt } = command else {
            return Ok(Cow::Borrowed(command));
        };
        Ok(match self.stored_output(*token, receipt)? {
            None => Cow::Borrowed(command),
            Some(output) => {
                let receipt = Receipt { output, ..receipt.clone() };
                Cow::Owned(Command::RecordReceipt { token: *token, receipt })
            }
        })
    }

    /// See to it that the output is there that a caller names. No record names it yet: if there is none,
    /// that is the caller's mistake, and nothing is damaged.
    fn keep_named(&self, blob: &BlobOutput) -> Result<()> {
        let (id, store) = (id_of(blob), &self.blobs.store);
        store.keep(&id).map_err(|error| match store.reader().check(&id) {
            BlobState::Missing | BlobState::WrongLength(_) => {
                Rejection::NoSuchOutput(blob.hash).into()
            }
            BlobState::Intact | BlobState::WrongHash(_) | BlobState::Unreadable(_) => error,
        })
    }

    /// The output that takes the receipt's place, if another one does.
    fn stored_output(&self, token: AttemptToken, receipt: &Receipt) -> Result<Option<Output>> {
        let value = match &receipt.output {
            Output::Inline(value) => value,
            Output::Blob(blob) => return self.keep_named(blob).map(|()| None),
        };
        let threshold = self.environment.blob_threshold;
        if value.as_str().len() <= threshold {
            return Ok(None);
        }
        let outputs = {
            let mut shared = self.lock()?;
            shared.refresh(&self.log)?;
            let state = &shared.state;
            // An attempt that was never dealt is refused: nothing will name the blob.
            let Some((run, step)) = state.dealt.get(&token) else { return Ok(None) };
            state
                .runs
                .get(run)
                .and_then(|run| run.plan_step(*step))
                .map(|step| step.outputs().owned())
        };
        let values: Vec<_> =
            declared(outputs.iter().flatten().map(String::as_str), value).into_iter().collect();
        // What the fold needs stays in the record. Where that is most of it, nothing is gained.
        let kept: usize = values.iter().map(|(_, value)| value.as_str().len()).sum();
        if value.as_str().len().saturating_sub(kept) <= threshold {
            return Ok(None);
        }
        value.expect_readable()?;
        let id = self.blobs.store.put(value.as_str().as_bytes())?;
        let blob = BlobOutput { hash: ContentHash(id.hash), length: id.length, values };
        Ok(Some(Output::Blob(blob)))
    }
}

impl LedgerView {
    /// What a worker produced, wherever it is kept.
    ///
    /// # Errors
    /// As [`Ledger::output`].
    pub fn output(&self, output: &Output) -> Result<Json> {
        resolve(&self.log().blobs(), output)
    }

    /// How the blob of an output is found; `None` for one that is no blob.
    #[must_use]
    pub fn blob_state(&self, output: &Output) -> Option<BlobState> {
        match output {
            Output::Inline(_) => None,
            Output::Blob(blob) => Some(self.log().blobs().check(&id_of(blob))),
        }
    }

    /// All blobs: those that are stored, and those that records name. Damage is no error here.
    pub fn blobs(&self, check: BlobCheck) -> Result<BlobSurvey> {
        let mut survey = survey(self.log(), named(self.log())?)?;
        if check == BlobCheck::Content {
            let reader = self.log().blobs();
            for blob in &mut survey.blobs {
                blob.state = reader.check(&blob.id);
            }
        }
        Ok(survey)
    }
}

/// The blobs that intact records name, and anchors.
pub(super) fn named(log: &LogReader) -> Result<Named> {
    let mut named = Named::anchored(log);
    let mut walk = log.walk(1);
    while let Some(item) = walk.pass() {
        match item? {
            Item::Record(record, _) => match codec::decode(&record) {
                Ok(event) => {
                    if let Some(id) = event.as_ref().and_then(blob_of) {
                        named.add(id, record.seq);
                    }
                }
                Err(_) => named.is_complete = false,
            },
            Item::Damage(_) => named.is_complete = false,
            Item::Derived(_) | Item::OpenEnd { .. } => {}
        }
    }
    Ok(named)
}

/// The blob that a record names, if it names one.
///
/// # Errors
/// `Unsupported` and `Corrupt` where it cannot be told.
pub(super) fn named_in<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Result<Option<BlobId>> {
    match codec::kind_of(record)? {
        Some(Kind::ReceiptRecorded | Kind::ReceiptRefused) => {
            Ok(codec::decode(record)?.as_ref().and_then(blob_of))
        }
        _ => Ok(None),
    }
}

/// The blobs that records name, how often and where first.
#[derive(Debug)]
pub(super) struct Named {
    uses: BTreeMap<BlobId, (u64, Option<u64>)>,
    /// Whether every record could be read.
    is_complete: bool,
}

impl Named {
    /// Those that the anchors of a log name: what they stand for comes before its records.
    pub(super) fn anchored(log: &LogReader) -> Self {
        let anchored = anchored(log);
        let mut named = Self { uses: BTreeMap::new(), is_complete: anchored.is_ok() };
        for (id, seq) in anchored.into_iter().flatten() {
            named.add(id, seq);
        }
        named
    }

    /// Whether it is named, as far as that can be told.
    pub(super) fn may_have(&self, id: &BlobId) -> bool {
        !self.is_complete || self.uses.contains_key(id)
    }

    /// This record names it; those that were added before come before it.
    pub(super) fn add(&mut self, id: BlobId, seq: u64) {
        self.uses.entry(id).or_insert((0, Some(seq))).0 += 1;
    }
}

/// The blobs that are stored, and those that are named; whether they are there, with the right
/// lengths. What is named is looked for after it was named: it was stored before.
pub(super) fn survey(log: &LogReader, named: Named) -> Result<BlobSurvey> {
    let Named { uses: mut named, is_complete } = named;
    let reader = log.blobs();
    let BlobList { blobs, unfinished, strangers } = reader.list()?;
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
    Ok(BlobSurvey { blobs, unfinished, strangers, is_complete })
}

/// The blobs that the anchors of a log name which begins later, and the anchor's record: the records
/// that named them first may be gone.
fn anchored(reader: &LogReader) -> Result<Vec<(BlobId, u64)>> {
    let retention = reader.retention().filter(|_| reader.first_seq() > 1);
    let anchors = retention.map(|retention| retention.note.anchors.as_slice()).unwrap_or_default();
    let mut named = Vec::new();
    for anchor in anchors {
        reader.check_anchor(anchor)?;
        let Some(name) = anchor.name() else { continue };
        let (state, _) = load_whole::<State>(reader, &name)?;
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
