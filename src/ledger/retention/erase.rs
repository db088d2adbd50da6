//! Erases values: outputs, variables, details of failures, error output and texts of notes, and
//! blobs, with their quotations (`format/retention.md`, *Erasure*). The log, its chain and every
//! state keep the digests of erased values, and so their hashes.
//!
//! Invariants:
//! - All values with one salt are erased together, in every record: they came with one request, or
//!   were made from one another, and one of them could reveal another.
//! - Nothing is erased before a durable note names it; an interrupted erasure is completed by the
//!   next opening.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Codec, SALT_SIZE, split_detached};
use crate::ledger::blobs::blob_of;
use crate::ledger::codec::event::decode;
use crate::ledger::codec::kind::Kind;
use crate::ledger::environment::Environment;
use crate::ledger::open;
use crate::ledger::snapshot::load::load_validated;
use crate::ledger::view::LedgerView;
use crate::log::{
    ArchiveReference, BlobId, ErasedFiles, ErasureNote, KIND_ERASURE, KIND_RETENTION_NOTE,
    LogReader, LoggedRetentionNote,
};
use crate::plan::{
    ContentHash, Event, Output, Receipt, Run, RunId, Salt, State, StepEvent, StepNumber, StepState,
    Text,
};
use crate::storage::{Access, EntryKind, Storage};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EraseTarget {
    /// The values of a record.
    Record(u64),
    /// A blob, and the values of the receipts that name it.
    Blob(ContentHash),
    /// Every value that a variable ever had.
    Variable(RunId, String),
    /// The values of every receipt of a step, with its output.
    Output(RunId, StepNumber),
}

/// The effect of an erasure, before it is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErasePreview {
    /// The records with a value to erase, and their kinds.
    pub records: Vec<(u64, Kind)>,
    /// The digests of the values.
    pub values: Vec<[u8; 32]>,
    pub blobs: Vec<BlobId>,
    /// The records that hold a text of an erased value in one of their own values, and their kinds:
    /// they can be erased, too.
    pub erasable: Vec<(u64, Kind)>,
    /// The records that hold a text of an erased value where it cannot be erased, and their kinds.
    pub left: Vec<(u64, Kind)>,
    /// The texts of the values, in each form in which a search looks for them.
    pub texts: BTreeSet<String>,
    /// The archives of this ledger that hold one of the records, as far as the log names them.
    pub archives: Vec<ArchiveReference>,
}

/// The result of an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EraseReport {
    /// The record of the erasure note.
    pub note_seq: u64,
    /// The erased values and blobs.
    pub preview: ErasePreview,
    /// The files that were changed.
    pub files: ErasedFiles,
}

/// A record with values.
#[derive(Debug)]
struct Holder {
    kind: Kind,
    values: Vec<(Salt, [u8; 32])>,
    blob: Option<BlobId>,
    subject: Subject,
    /// Whether a value of it was erased before.
    is_erased: bool,
}

/// The subject of a record, as far as a target can name it.
#[derive(Debug, PartialEq, Eq)]
enum Subject {
    Variable(RunId, String),
    Receipt(RunId, StepNumber),
    Other,
}

/// Erase values and blobs of a ledger that no other process has open. When this function returns,
/// they are gone from the files of the ledger.
///
/// # Errors
/// `Rejected` if there is no such value, or if an anchor of a pruned ledger holds it: nothing was
/// changed. Those of [`crate::Ledger::open`]. `Io` after the note is durable: the next opening continues.
pub fn erase(
    dir: &Path,
    environment: &Environment,
    targets: &[EraseTarget],
    by: &str,
) -> Result<EraseReport> {
    let (engine, _) = open::open(dir, environment)?;
    let view = LedgerView::open(dir, environment)?;
    let preview = view.preview_erase(targets)?;
    if let (true, true, Some(target)) =
        (preview.records.is_empty(), preview.blobs.is_empty(), targets.first())
    {
        return Err(view.nothing_to_erase(target));
    }
    engine.log.mark_erasing()?;
    let note_seq = engine.append_note(note_of(&preview, by).record(), None)?.seq;
    // The files are replaced by an opening, while no file of the log is open.
    engine.close()?;
    let (engine, report) = open::open(dir, environment)?;
    engine.close()?;
    let files = report.erased.map_err(|why| {
        let message = format!("the erasure is recorded, but not complete: {why}");
        Error::new(ErrorKind::Io, message).at_path(dir).with_hint(
            "repair the cause, then run any command that writes: it completes the erasure",
        )
    })?;
    Ok(EraseReport { note_seq, preview, files })
}

fn note_of(preview: &ErasePreview, by: &str) -> ErasureNote {
    let hex = |hash: &[u8; 32]| ContentHash(*hash).to_string();
    let seqs = |list: &[(u64, Kind)]| list.iter().map(|(seq, _)| *seq).collect();
    ErasureNote {
        by: by.to_owned(),
        records: seqs(&preview.records),
        erasable: seqs(&preview.erasable),
        left: seqs(&preview.left),
        values: preview.values.iter().map(hex).collect(),
        blobs: preview.blobs.iter().map(|id| hex(&id.hash)).collect(),
    }
}

#[doc(hidden)]
impl LedgerView {
    /// Preview an erasure. This writes nothing and takes no lock.
    ///
    /// # Errors
    /// As [`erase`].
    pub fn preview_erase(&self, targets: &[EraseTarget]) -> Result<ErasePreview> {
        let holders = holders(&self.reader)?;
        let defaults = defaults(&self.reader, targets)?;
        let (mut salts, mut blobs) = (BTreeSet::new(), BTreeSet::new());
        let mut erased_before = BTreeSet::new();
        for target in targets {
            let before = (salts.len(), blobs.len(), erased_before.len());
            for (seq, holder) in holders.iter().filter(|each| is_target(each, target)) {
                salts.extend(holder.values.iter().map(|(salt, _)| *salt));
                blobs.extend(holder.blob);
                if holder.is_erased {
                    erased_before.insert(*seq);
                }
            }
            let after = (salts.len(), blobs.len(), erased_before.len());
            if after == before && !defaults.iter().any(|it| it.is_of(target)) {
                return Err(self.nothing_to_erase(target));
            }
        }
        let kept = kept_before(&self.reader, &holders, &erased_before)?;
        let is_nothing_left = kept.erasable.is_empty() && kept.left.is_empty();
        let is_old = !erased_before.is_empty() && salts.is_empty() && blobs.is_empty();
        if let (true, true, true, Some(target)) =
            (is_old, is_nothing_left, defaults.is_empty(), targets.first())
        {
            return Err(self.nothing_to_erase(target));
        }
        // Values that came with an erased one, or with an erased blob, are erased, too.
        loop {
            let before = (salts.len(), blobs.len());
            for holder in holders.values() {
                let is_named = holder.values.iter().any(|(salt, _)| salts.contains(salt))
                    || holder.blob.is_some_and(|blob| blobs.contains(&blob));
                if is_named && !mutant!(EraseLeavesCopies) {
                    salts.extend(holder.values.iter().map(|(salt, _)| *salt));
                    blobs.extend(holder.blob);
                }
            }
            if (salts.len(), blobs.len()) == before {
                break;
            }
        }
        expect_no_anchor(&self.reader, &salts)?;
        let (mut records, mut values) = (Vec::new(), BTreeSet::new());
        for (seq, holder) in &holders {
            let own = holder.values.iter().filter(|(salt, _)| salts.contains(salt));
            let own: Vec<[u8; 32]> = own.map(|(_, digest)| *digest).collect();
            if !own.is_empty() {
                records.push((*seq, holder.kind));
                values.extend(own);
            }
        }
        let archives = archives_with(&self.reader, records.first().map_or(0, |(seq, _)| *seq))?;
        let mut found = leftovers(&self.reader, &salts, &defaults)?;
        found.add(kept);
        let Leftovers { erasable, left, texts } = found;
        let (values, blobs) = (values.into_iter().collect(), blobs.into_iter().collect());
        Ok(ErasePreview { records, values, blobs, erasable, left, texts, archives })
    }

    fn nothing_to_erase(&self, target: &EraseTarget) -> Error {
        let what = match target {
            EraseTarget::Record(seq) => return self.record_is_kept(*seq),
            EraseTarget::Blob(hash) => format!("no record names the blob {hash}"),
            EraseTarget::Variable(run, name) => {
                format!("run {run} has no record of a value of the variable `{name}`")
            }
            EraseTarget::Output(run, step) => {
                format!("step {step} of run {run} has no receipt with a value")
            }
        };
        let what = format!("nothing to erase: {what}, or it was erased before");
        Error::new(ErrorKind::Rejected, what).at_path(self.reader.dir()).with_hint(
            "outputs, variables, details of failures, error output and texts of notes can be erased; \
             see `ledger inspect records`",
        )
    }

    /// Why a record has nothing to erase.
    fn record_is_kept(&self, seq: u64) -> Error {
        let record = self.reader.records(seq).next().and_then(std::result::Result::ok);
        let what = match record.filter(|record| record.seq == seq) {
            None => format!("the log has no record {seq}"),
            Some(record) => match Kind::from_number(record.kind) {
                Some(kind) if record.codec == Codec::Detached => {
                    format!("the values of record {seq} ({}) were erased before", kind.name())
                }
                Some(kind) => format!("record {seq} ({}) has {}", kind.name(), kept_content(kind)),
                None => format!("record {seq} is of a kind that this program does not know"),
            },
        };
        let message = format!("nothing to erase: {what}");
        Error::new(ErrorKind::Rejected, message).at_path(self.reader.dir()).with_hint(
            "outputs, variables, details of failures, error output and texts of notes can be erased; \
             a name, plan, message or answer stays: make what it reveals worthless",
        )
    }
}

/// The content of a record without detached values, and the reason why it stays.
fn kept_content(kind: Kind) -> &'static str {
    match kind {
        Kind::ReceiptRecorded | Kind::ReceiptRefused | Kind::VariableSet => "no value",
        Kind::PlanProposed | Kind::PlanSteps => "a plan, which the replay of later records needs",
        _ if kind.number() >= crate::format::SKIPPABLE_KINDS_FROM => {
            "data that the log itself needs"
        }
        _ => "names and texts that later records depend on or quote",
    }
}

fn is_target((seq, holder): &(&u64, &Holder), target: &EraseTarget) -> bool {
    match target {
        EraseTarget::Record(wanted) => *seq == wanted,
        EraseTarget::Blob(hash) => holder.blob.is_some_and(|blob| blob.hash == hash.0),
        EraseTarget::Variable(run, name) => {
            matches!(&holder.subject, Subject::Variable(of, own) if of == run && own == name)
        }
        EraseTarget::Output(run, step) => holder.subject == Subject::Receipt(*run, *step),
    }
}

/// The records with values that are still present, or with a blob that is.
fn holders(reader: &LogReader) -> Result<BTreeMap<u64, Holder>> {
    let mut holders = BTreeMap::new();
    let blobs = reader.blobs();
    for record in reader.records(reader.first_seq()) {
        let record = record?;
        let Some(kind) = Kind::from_number(record.kind) else { continue };
        let is_receipt = matches!(kind, Kind::ReceiptRecorded | Kind::ReceiptRefused);
        if record.codec != Codec::Detached && !is_receipt {
            continue;
        }
        let parts = (record.codec == Codec::Detached).then(|| split_detached(&record.payload));
        let values = parts.flatten().map(|parts| parts.values).unwrap_or_default();
        let is_erased = values.iter().any(|value| value.content.is_none());
        let present = |value: &crate::format::Detached<'_>| Some((value.content?.0, value.digest));
        let values: Vec<(Salt, [u8; 32])> =
            values.iter().filter_map(present).map(|(salt, digest)| (Salt(salt), digest)).collect();
        let event = decode(&record)?;
        let blob = event.as_ref().and_then(blob_of);
        let blob = blob.filter(|blob| blobs.check(blob) != crate::log::BlobState::Missing);
        if values.is_empty() && blob.is_none() && !is_erased {
            continue;
        }
        let subject = match event {
            Some(Event::VariableSet(set)) => Subject::Variable(set.run, set.name),
            Some(Event::Step(step)) => match step.event {
                StepEvent::ReceiptRecorded(_) | StepEvent::ReceiptRefused(_) => {
                    Subject::Receipt(step.run, step.step)
                }
                _ => Subject::Other,
            },
            _ => Subject::Other,
        };
        holders.insert(record.seq, Holder { kind, values, blob, subject, is_erased });
    }
    Ok(holders)
}

/// The records among these that keep a text of an earlier erased value, according to the erasure
/// notes. A value that was erased since then keeps nothing.
fn kept_before(
    reader: &LogReader,
    holders: &BTreeMap<u64, Holder>,
    erased: &BTreeSet<u64>,
) -> Result<Leftovers> {
    let (mut erasable, mut left) = (BTreeSet::new(), BTreeSet::new());
    if erased.is_empty() {
        return Ok(Leftovers::default());
    }
    for record in reader.records_of_kind(KIND_ERASURE, reader.first_seq()) {
        let Some(note) = ErasureNote::from_record(&record?) else { continue };
        if note.records.iter().any(|seq| erased.contains(seq)) {
            erasable.extend(note.erasable);
            left.extend(note.left);
        }
    }
    erasable.retain(|seq| holders.get(seq).is_some_and(|holder| !holder.values.is_empty()));
    let mut found = Leftovers::default();
    for record in reader.records(reader.first_seq()) {
        let record = record?;
        let Some(kind) = Kind::from_number(record.kind) else { continue };
        if erasable.contains(&record.seq) {
            found.erasable.push((record.seq, kind));
        }
        if left.contains(&record.seq) {
            found.left.push((record.seq, kind));
        }
    }
    Ok(found)
}

/// The minimum length of a text for a search for copies. Shorter texts are in many records.
const COPY_MIN: usize = 6;

/// The default of an input as the value of a variable: the plan states it, so it cannot be erased.
#[derive(Debug)]
struct DefaultValue {
    seq: u64,
    run: RunId,
    name: String,
    value: Vec<u8>,
}

impl DefaultValue {
    fn is_of(&self, target: &EraseTarget) -> bool {
        matches!(target, EraseTarget::Variable(run, name) if *run == self.run && *name == self.name)
    }
}

/// The defaults that the variables to erase had as values.
fn defaults(reader: &LogReader, targets: &[EraseTarget]) -> Result<Vec<DefaultValue>> {
    let mut found = Vec::new();
    if !targets.iter().any(|target| matches!(target, EraseTarget::Variable(..))) {
        return Ok(found);
    }
    for record in reader.records_of_kind(Kind::VariableSet.number(), reader.first_seq()) {
        let record = record?;
        let Some(Event::VariableSet(set)) = decode(&record)? else { continue };
        if record.codec == Codec::Detached {
            continue;
        }
        let value = set.value.as_str().as_bytes().to_vec();
        let default = DefaultValue { seq: record.seq, run: set.run, name: set.name, value };
        if targets.iter().any(|target| default.is_of(target)) {
            found.push(default);
        }
    }
    Ok(found)
}

/// Records with texts of erased values, apart from these values.
#[derive(Debug, Default)]
struct Leftovers {
    erasable: Vec<(u64, Kind)>,
    left: Vec<(u64, Kind)>,
    texts: BTreeSet<String>,
}

impl Leftovers {
    /// Adds those of earlier erasures.
    fn add(&mut self, earlier: Self) {
        for (own, earlier) in
            [(&mut self.erasable, earlier.erasable), (&mut self.left, earlier.left)]
        {
            own.extend(earlier);
            own.sort_by_key(|(seq, _)| *seq);
            own.dedup_by_key(|(seq, _)| *seq);
        }
    }
}

/// The records that keep a text of the values with these salts, or of these defaults: in a value of
/// another source, which can be erased, too, or in a name, a message or a plan.
fn leftovers(
    reader: &LogReader,
    salts: &BTreeSet<Salt>,
    defaults: &[DefaultValue],
) -> Result<Leftovers> {
    let is_erased = |value: &crate::format::Detached<'_>| {
        value.content.is_some_and(|(salt, _)| salts.contains(&Salt(salt)))
    };
    let mut found = Leftovers::default();
    let mut texts = BTreeSet::new();
    for default in defaults {
        collect_texts(&default.value, &mut texts);
    }
    for record in reader.records(reader.first_seq()) {
        let record = record?;
        let parts = (record.codec == Codec::Detached).then(|| split_detached(&record.payload));
        for value in parts.flatten().iter().flat_map(|parts| parts.values.iter()) {
            if is_erased(value)
                && let Some((_, bytes)) = value.content
            {
                collect_texts(bytes, &mut texts);
            }
        }
    }
    found.texts = forms_of(&texts);
    if found.texts.is_empty() && defaults.is_empty() {
        return Ok(found);
    }
    for record in reader.records(reader.first_seq()) {
        let record = record?;
        let Some(kind) = Kind::from_number(record.kind) else { continue };
        let holds = |bytes: &[u8]| {
            let shown = String::from_utf8_lossy(bytes);
            found.texts.iter().any(|text| shown.contains(text.as_str()))
        };
        let parts = (record.codec == Codec::Detached).then(|| split_detached(&record.payload));
        let (is_erasable, is_left) = match parts.flatten() {
            Some(parts) => {
                let kept = parts.values.iter().filter(|value| !is_erased(value));
                let is_kept = kept.filter_map(|value| value.content).any(|(_, it)| holds(it));
                (is_kept, holds(parts.body))
            }
            None => (false, holds(&record.payload)),
        };
        if is_erasable {
            found.erasable.push((record.seq, kind));
        }
        if is_left || defaults.iter().any(|default| default.seq == record.seq) {
            found.left.push((record.seq, kind));
        }
    }
    Ok(found)
}

/// The forms of a text in a file: the text itself, its lines, and both as parts of a JSON string,
/// and of a JSON text in a JSON string.
fn forms_of(texts: &BTreeSet<String>) -> BTreeSet<String> {
    let mut forms = texts.clone();
    for text in texts {
        forms.insert(text.trim().to_owned());
        forms.extend(text.lines().map(|line| line.trim().to_owned()));
    }
    for _ in 0..2 {
        forms = forms.iter().flat_map(|form| [form.clone(), escaped(form)]).collect();
    }
    forms.retain(|form| form.len() >= COPY_MIN);
    forms
}

/// A text as the inside of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.unwrap_or(text).to_owned()
}

/// The texts of a value: its strings and numbers, or the whole value if it is not JSON.
fn collect_texts(bytes: &[u8], texts: &mut BTreeSet<String>) {
    match serde_json::from_slice::<serde_json::Value>(bytes) {
        Ok(serde_json::Value::String(text)) => drop(texts.insert(text)),
        Ok(serde_json::Value::Number(number)) => drop(texts.insert(number.to_string())),
        Ok(serde_json::Value::Array(items)) => {
            for item in items {
                collect_texts(item.to_string().as_bytes(), texts);
            }
        }
        Ok(serde_json::Value::Object(members)) => {
            for item in members.values() {
                collect_texts(item.to_string().as_bytes(), texts);
            }
        }
        Ok(serde_json::Value::Null | serde_json::Value::Bool(_)) => {}
        Err(_) => drop(texts.insert(String::from_utf8_lossy(bytes).into_owned())),
    }
}

/// Reject an erasure of a value that an anchor of a pruned log holds: it is the only record of the
/// pruned ones.
fn expect_no_anchor(reader: &LogReader, salts: &BTreeSet<Salt>) -> Result<()> {
    let Some(retention) = reader.retention() else { return Ok(()) };
    for anchor in &retention.note.anchors {
        let Some(name) = anchor.name() else { continue };
        let (state, _) = load_validated::<State>(reader, &name)?;
        if salts_of(&state).iter().any(|salt| salts.contains(salt)) {
            let message = format!(
                "the state at record {} holds a value to erase, and replaces the pruned records",
                anchor.seq
            );
            return Err(Error::new(ErrorKind::Rejected, message).at_path(reader.dir()).with_hint(
                "make two new snapshots after the value is no longer in the state, prune up to \
                 them, then erase",
            ));
        }
    }
    Ok(())
}

/// The salts of the values in a state.
fn salts_of(state: &State) -> BTreeSet<Salt> {
    let mut salts = BTreeSet::new();
    for run in state.runs.values() {
        salts.extend(run.variables.values().map(|variable| variable.value.own_salt()));
        salts.extend(texts_of(run).flat_map(Text::salts));
        let attempts = run.steps.iter().filter_map(|step| step.attempt());
        for receipt in attempts.filter_map(|attempt| attempt.receipt.as_ref()) {
            salts.extend(receipt_salts(receipt));
        }
    }
    salts.remove(&Salt([0; SALT_SIZE]));
    salts
}

/// The texts of a step that quote values.
fn texts_of_step(step: &StepState) -> impl Iterator<Item = &Text> {
    let attempts = step.attempt().into_iter().flat_map(|attempt| attempt.verdicts.values());
    let verdicts = attempts.chain(step.failed_criteria()).map(|verdict| &verdict.evidence);
    verdicts.chain(step.last_failure().map(|(_, message)| message))
}

/// The texts of a run that quote values.
fn texts_of(run: &Run) -> impl Iterator<Item = &Text> {
    let verdicts = run.plan_verdicts.values().map(|verdict| &verdict.evidence);
    let questions = run.questions.values().map(|question| &question.asked.text);
    let reasons = run.request.iter().map(|request| &request.reason).chain(&run.abort_reason);
    run.steps.iter().flat_map(texts_of_step).chain(verdicts).chain(questions).chain(reasons)
}

fn receipt_salts(receipt: &Receipt) -> Vec<Salt> {
    let mut salts: Vec<Salt> =
        receipt.variables.iter().map(|(_, value)| value.own_salt()).collect();
    salts.extend(receipt.log_tail.salts());
    match &receipt.output {
        Output::Inline(value) => salts.push(value.own_salt()),
        Output::Blob(blob) => salts.extend(blob.values.iter().map(|(_, value)| value.own_salt())),
    }
    if let crate::plan::Outcome::Failed { payload, .. } = &receipt.outcome {
        salts.push(payload.own_salt());
    }
    salts
}

/// The archives that prunes name and that may hold record `first` or a later one.
fn archives_with(reader: &LogReader, first: u64) -> Result<Vec<ArchiveReference>> {
    let mut archives = Vec::new();
    for record in reader.records_of_kind(KIND_RETENTION_NOTE, reader.first_seq()) {
        let note = LoggedRetentionNote::from_record(&record?);
        let note = note.filter(|note| note.note.last_seq >= first);
        archives.extend(note.and_then(|note| note.note.archive));
    }
    Ok(archives)
}

/// The exports and archives of a ledger among the files of a folder. They keep values that are
/// erased later.
///
/// # Errors
/// `Io` if the folder cannot be listed.
#[doc(hidden)]
pub fn copies_in(folder: &Path, view: &LedgerView) -> Result<Vec<PathBuf>> {
    let Some((ledger, genesis)) = view.log().uids() else { return Ok(Vec::new()) };
    let marks = [ledger, genesis].map(|uid| crate::log::uid_text(&uid).into_bytes());
    let storage = &*view.log().storage;
    let entries =
        storage.list(folder).map_err(|error| Error::io("list the folder", folder, error))?;
    let mut found = Vec::new();
    for entry in entries {
        if entry.kind != EntryKind::File {
            continue;
        }
        let path = folder.join(&entry.name);
        // A file that cannot be read was not made by this user.
        let head = first_bytes(storage, &path).unwrap_or_default();
        let is_ours = [b"{\"type\":\"header\"".as_slice(), b"ARCHIVE.json"];
        let is_copy = is_ours.iter().any(|start| head.starts_with(start))
            && marks.iter().any(|mark| head.windows(mark.len()).any(|window| window == mark));
        if is_copy {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// How much of a file is read: enough for the header of an export, and the manifest of most archives.
const HEAD_LENGTH: usize = 4096;

fn first_bytes(storage: &dyn Storage, path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEAD_LENGTH];
    let count = storage.open(path, Access::Read)?.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}
