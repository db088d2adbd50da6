//! Decides which snapshots a writer uploads, and which snapshots of a store belong to the log (`format/store.md`,
//! section 7).
//!
//! Snapshots are derived data: a missing, damaged or foreign one only makes a fold longer. The exceptions are the
//! anchors of a pruned log, which have separate objects that no collector deletes.
//!
//! Invariants:
//! - A snapshot is uploaded after the store has the note that names it, and so all records of its state.
//! - All snapshots of a projection have at most [`BYTES_PER_RECORD`] bytes for each record of the log.
//! - A reader does not trust a snapshot because it is in the store: it compares the file, ids, chain value and note
//!   with the log.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Codec, SnapshotHeader, SnapshotName, to_u64};
use crate::log::{Anchor, KIND_SNAPSHOT_NOTE, LogCopy, LogReader, SnapshotNote};

use crate::store::name::SNAPSHOTS;
use crate::store::objects::ListedObject;
use crate::store::session::{StoreSession, TakenIn, retention_note};
use crate::store::slot::SLOT_SIZE_MAX;

/// The maximum number of bytes of an uploaded snapshot for each record after the previous one in the store: about the
/// size of these records.
const BYTES_PER_RECORD: u64 = 512;
/// After this many later records, a snapshot without a note is no longer checked.
const NOTE_WITHIN: u64 = 65_536;

/// The suffix that makes the name of an anchor from the name of its snapshot.
pub(in crate::store) const ANCHOR_SUFFIX: &str = ".anchor";

/// The name of the object of a snapshot.
pub(in crate::store) fn snapshot_object(name: &SnapshotName) -> String {
    format!("{SNAPSHOTS}{name}")
}

/// The name of the object that keeps a snapshot as an anchor.
pub(in crate::store) fn anchor_object(name: &SnapshotName) -> String {
    format!("{SNAPSHOTS}{name}{ANCHOR_SUFFIX}")
}

/// The snapshot that an object of a listing is named as.
fn snapshot_name(listed: &ListedObject) -> Option<SnapshotName> {
    listed.name.strip_prefix(SNAPSHOTS).and_then(SnapshotName::parse)
}

/// The snapshot that an object of a listing keeps as an anchor, by its name.
fn anchor_name(listed: &ListedObject) -> Option<SnapshotName> {
    let name = listed.name.strip_prefix(SNAPSHOTS)?.strip_suffix(ANCHOR_SUFFIX)?;
    SnapshotName::parse(name)
}

/// The projection of a snapshot, with its version.
type ProjectionKey = (String, u32);

pub(in crate::store) fn projection_of(name: &SnapshotName) -> ProjectionKey {
    (name.projection.clone(), name.version)
}

/// The snapshots in a store, as a process that uploads them knows them.
#[derive(Debug, Default)]
pub(in crate::store) struct StoredSnapshots {
    /// The record of the newest one of each projection, once they were listed.
    newest: Option<BTreeMap<ProjectionKey, u64>>,
    /// Those of the folder that are not uploaded after the newest ones.
    left_out: BTreeSet<SnapshotName>,
}

/// The decision about a snapshot of a folder.
enum Judgement {
    Upload(Vec<u8>),
    /// The store may get its note later.
    Wait,
    LeaveOut,
}

/// Upload the oldest snapshot of a folder that is small enough, if the log in the store has its note. `end_seq` is the
/// last record there. Returns whether there was one. Without a snapshot in the folder, this makes no request.
///
/// # Errors
/// `Io`: a later call continues.
pub(in crate::store) fn upload_snapshot(
    reader: &LogReader,
    session: &StoreSession<'_>,
    end_seq: u64,
    stored: &mut StoredSnapshots,
) -> Result<bool> {
    let durable = reader.head().map_or(0, |head| head.durable_seq);
    let end_seq = if mutant!(SnapshotUploadedEarly) { durable } else { end_seq.min(durable) };
    let mut names = reader.snapshots()?.names;
    names.retain(|name| name.seq <= end_seq && !stored.left_out.contains(name));
    if names.is_empty() {
        return Ok(false);
    }
    let newest = match &mut stored.newest {
        Some(newest) => newest,
        None => stored.newest.insert(newest_in(session, end_seq)?),
    };
    for name in names {
        let projection = projection_of(&name);
        let before = newest.get(&projection).copied().unwrap_or(0);
        if name.seq <= before {
            continue;
        }
        match judge(reader, &name, before, end_seq)? {
            Judgement::Wait => {}
            Judgement::LeaveOut => {
                stored.left_out.insert(name);
            }
            Judgement::Upload(bytes) => {
                create(session, &name, &bytes)?;
                newest.insert(projection, name.seq);
                // Earlier snapshots are no longer checked.
                stored.left_out.retain(|left| left.seq > name.seq);
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The newest snapshots of a listing up to the end of the log. A later one belongs to another log.
fn newest_in(session: &StoreSession<'_>, end_seq: u64) -> Result<BTreeMap<ProjectionKey, u64>> {
    let listing = session.list(SNAPSHOTS, &mut 0)?;
    let names = listing.iter().filter_map(snapshot_name).filter(|name| name.seq <= end_seq);
    // The names are sorted by their records.
    Ok(names.map(|name| (projection_of(&name), name.seq)).collect())
}

fn judge(reader: &LogReader, name: &SnapshotName, before: u64, end_seq: u64) -> Result<Judgement> {
    let snapshot = match reader.open_snapshot(name) {
        Ok(snapshot) => snapshot,
        // The process that writes the folder may have removed it.
        Err(error) if error.kind() == ErrorKind::Io => return Ok(Judgement::Wait),
        Err(_) => return Ok(Judgement::LeaveOut),
    };
    let header = snapshot.header().clone();
    let length = header.file_length().unwrap_or(u64::MAX);
    let most = BYTES_PER_RECORD.saturating_mul(name.seq - before).min(to_u64(SLOT_SIZE_MAX));
    if header.base.is_some() || length > most {
        return Ok(Judgement::LeaveOut);
    }
    match reader.snapshot_note(&header)? {
        Some(seq) if seq <= end_seq => {}
        None if end_seq - name.seq > NOTE_WITHIN => return Ok(Judgement::LeaveOut),
        _ => return Ok(Judgement::Wait),
    }
    let bytes = snapshot.bytes();
    match bytes.and_then(|bytes| Ok((snapshot.check()?, bytes))) {
        Ok((_, bytes)) => Ok(Judgement::Upload(bytes)),
        Err(error) if error.kind() == ErrorKind::Io => Ok(Judgement::Wait),
        Err(_) => Ok(Judgement::LeaveOut),
    }
}

/// Create the object of a snapshot. If there is another one of its name, it stays: another program may have packed the
/// same state in another way.
fn create(session: &StoreSession<'_>, name: &SnapshotName, bytes: &[u8]) -> Result<()> {
    match session.create_same(&snapshot_object(name), bytes) {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(()),
        created => created,
    }
}

/// The snapshots of a listing, and the notes about them that the log contains.
#[derive(Debug)]
pub(in crate::store) struct SnapshotSurvey {
    /// Those of the listing, the newest last.
    pub(in crate::store) listed: Vec<(SnapshotName, ListedObject)>,
    /// Those that are kept as anchors, the newest last.
    pub(in crate::store) kept: Vec<(SnapshotName, ListedObject)>,
    /// Their records.
    wanted: BTreeSet<u64>,
    /// Objects that end before this record are not read.
    from: u64,
    /// The chain values of their records.
    chains: BTreeMap<u64, Chain>,
    notes: Vec<SnapshotNote>,
    /// The anchors of all retention notes, by their file names.
    pub(in crate::store) anchors: BTreeMap<String, Anchor>,
    /// Those of the newest one.
    newest_anchors: Vec<Anchor>,
}

/// How many of the newest snapshots of a projection a restored folder tries: the first that is valid is enough.
const TRIED: usize = 4;

impl SnapshotSurvey {
    /// List the snapshots of a store before reading the log to its end, so that the log has the notes of all listed
    /// snapshots.
    ///
    /// # Errors
    /// `Io` if the store does not answer.
    pub(in crate::store) fn list(session: &StoreSession<'_>) -> Result<Self> {
        let listing = session.list(SNAPSHOTS, &mut 0)?;
        // It is sorted, by records.
        let named = |name: fn(&ListedObject) -> Option<SnapshotName>| -> Vec<_> {
            listing.iter().filter_map(|it| Some((name(it)?, it.clone()))).collect()
        };
        let (listed, kept) = (named(snapshot_name), named(anchor_name));
        Ok(Self {
            wanted: listed.iter().chain(&kept).map(|(name, _)| name.seq).collect(),
            listed,
            kept,
            from: 0,
            chains: BTreeMap::new(),
            notes: Vec::new(),
            anchors: BTreeMap::new(),
            newest_anchors: Vec::new(),
        })
    }

    /// The same for a reader that needs only the newest valid one.
    pub(in crate::store) fn of_newest(mut self) -> Self {
        self.from = self.newest().map(|name| name.seq).min().unwrap_or(u64::MAX);
        self
    }

    /// The newest snapshots of each projection, the newest first.
    fn newest(&self) -> impl Iterator<Item = &SnapshotName> {
        let names: BTreeSet<_> = self.listed.iter().chain(&self.kept).map(|it| &it.0).collect();
        let mut tried = BTreeMap::new();
        names.into_iter().rev().filter(move |name| {
            let count: &mut usize = tried.entry(projection_of(name)).or_default();
            *count += 1;
            *count <= TRIED
        })
    }

    /// Collect the notes about snapshots from some records of the log.
    pub(in crate::store) fn look(&mut self, taken: &TakenIn<'_>) {
        let last_seq = match taken {
            TakenIn::Segment(segment) => segment.object().last_seq,
            TakenIn::Slot(slot) => slot.header().last_seq,
        };
        // If the store has no snapshot, the notes show whether one is needed.
        if last_seq < self.from {
            return;
        }
        taken.for_each_record(&mut |record| {
            let (header, seq) = (&record.header, record.header.stamp.seq);
            if self.wanted.contains(&seq) {
                self.chains.insert(seq, record.chain);
            }
            if let Some(note) = retention_note(record) {
                self.newest_anchors.clone_from(&note.anchors);
                let anchors = note.anchors.into_iter();
                self.anchors.extend(anchors.map(|anchor| (anchor.file.clone(), anchor)));
            }
            let kind = (header.kind, header.codec, header.schema);
            if kind == (KIND_SNAPSHOT_NOTE, Codec::Json, 1) {
                self.notes.extend(serde_json::from_slice::<SnapshotNote>(record.payload).ok());
            }
        });
    }

    /// Whether a snapshot belongs to the log that was read: its ids, its chain value, and its note.
    pub(in crate::store) fn is_of_log(
        &self,
        session: &StoreSession<'_>,
        header: &SnapshotHeader,
    ) -> bool {
        let identity = (session.identity.ledger, session.identity.genesis);
        if header.base.is_some() || (header.ledger, header.genesis) != identity {
            return false;
        }
        let anchor = Anchor::of(header);
        // The chain covers the note, which has the chain value.
        if self.anchors.get(&anchor.file) == Some(&anchor) {
            return true;
        }
        let is_chained = self.chains.get(&header.seq) == Some(&header.chain);
        (is_chained && self.notes.contains(&SnapshotNote::of(header)))
            || mutant!(StoredSnapshotUnchecked)
    }

    /// Give a folder that is being restored the newest snapshot of each projection that is valid and belongs to the log
    /// and, if the log was pruned, those that are kept as anchors, and the anchors of the newest retention note.
    ///
    /// # Errors
    /// `Corrupt` with the name of an anchor that is damaged; `Io`, `DiskFull`.
    pub(in crate::store) fn take_in(
        &self,
        session: &StoreSession<'_>,
        copy: &LogCopy,
        is_pruned: bool,
    ) -> Result<()> {
        let needed: BTreeSet<_> = self.newest_anchors.iter().filter_map(Anchor::name).collect();
        let kept = self.kept.iter().map(|(name, _)| name.clone());
        let anchors: BTreeSet<_> = kept.chain(needed.iter().cloned()).collect();
        let mut added = BTreeSet::new();
        for name in anchors.into_iter().filter(|_| is_pruned) {
            match self.add(session, copy, &name)? {
                Some(true) => {
                    added.insert(name);
                }
                found if needed.contains(&name) && !mutant!(MissingAnchorIgnored) => {
                    let what = match found {
                        Some(_) => "this snapshot is damaged, or not the one in the retention note",
                        None => "this snapshot is missing",
                    };
                    let message = format!("{what}; the pruned log starts from it");
                    let object = anchor_object(&name);
                    return Err(Error::new(ErrorKind::Corrupt, message).at_path(object.as_ref()));
                }
                _ => {}
            }
        }
        let mut done = BTreeSet::new();
        for name in self.newest() {
            let projection = projection_of(name);
            let is_needed = !done.contains(&projection);
            if is_needed && (added.contains(name) || self.add(session, copy, name)? == Some(true)) {
                done.insert(projection);
            }
        }
        Ok(())
    }

    /// Add a snapshot to a folder, from either of its objects. `None` if the store does not have it.
    fn add(
        &self,
        session: &StoreSession<'_>,
        copy: &LogCopy,
        name: &SnapshotName,
    ) -> Result<Option<bool>> {
        let mut added = None;
        for (listed, object) in self.kept.iter().chain(&self.listed) {
            if listed == name
                && added != Some(true)
                && let Some(found) = session.get(&object.name, &mut 0)?
            {
                let is_own = |header: &SnapshotHeader| self.is_of_log(session, header);
                added = Some(copy.add_snapshot(name, &found.bytes, &is_own)?);
            }
        }
        Ok(added)
    }
}
