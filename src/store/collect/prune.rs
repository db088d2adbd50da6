//! Deleting the segments in a store that a retention note covers (`format/retention.md`): the log in the store then
//! starts later, from the two snapshots that the note names.
//!
//! Invariants:
//! - Nothing is deleted unless the store keeps both snapshots that the note names as anchors. Objects of other
//!   snapshots do not count: a collector whose plan is older than the note may delete them.
//! - Segments are deleted oldest first, and the object of a segment that readers prefer is deleted last. So the log
//!   begins with a complete segment even if deleting stops early.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Chain;
use crate::log::{Anchor, LogOptions, LogReader, RetentionNote};
use crate::storage::{Access, SectorRead, read_sectors};
use crate::store::derived::{SnapshotSurvey, anchor_object, snapshot_object};
use crate::store::name::{SEGMENTS, SNAPSHOTS};
use crate::store::segments::{ends_too_early, lost_end, segment_floor, segment_object};
use crate::store::session::{StoreSession, TakenIn, retention_note};

use super::removable::{RemovableClass, RemovableObject, removable};
use super::snapshots::read_snapshot;

/// The newest prune that the log in a store notes, and the pruned objects that the store still has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePrune {
    /// The record with the retention note.
    pub seq: u64,
    pub note: RetentionNote,
    /// The segment objects that the note covers, then the snapshots that are no longer the start of
    /// a fold, in the order of deletion.
    pub objects: Vec<RemovableObject>,
    /// The start snapshots that the store has, but does not keep as anchors yet.
    pub unkept: Vec<Anchor>,
    /// Those that are not in the store.
    pub missing: Vec<Anchor>,
    /// Whether the log in the store begins later already, so that it needs them now.
    pub is_pruned: bool,
}

impl StorePrune {
    /// Find the newest retention note, and the segments that may be deleted because of it. `None` without a note. Nothing
    /// is deleted.
    ///
    /// # Errors
    /// `Corrupt` with the name of a damaged object, or if the note does not fit the log; `Io` if the store does not answer.
    pub fn find(session: &StoreSession<'_>) -> Result<Option<Self>> {
        let (mut newest, mut starts) = (None, Vec::new());
        let start = session.start()?;
        let is_pruned = start.position.next_seq > 1;
        let end = session.find_end(start, &mut |taken| {
            let header = match taken {
                TakenIn::Segment(segment) => &segment.place().header,
                TakenIn::Slot(slot) => &slot.place().header,
            };
            let start = (header.ordinal, header.base_seq, header.prev_chain);
            if starts.last() != Some(&start) {
                starts.push(start);
            }
            taken.for_each_record(&mut |record| {
                let seq = record.header.stamp.seq;
                newest = retention_note(record).map(|note| (seq, note)).or(newest.take());
            });
            Ok(())
        })?;
        let Some((seq, note)) = newest else { return Ok(None) };
        expect_start(&starts, seq, &note)?;
        let listing = session.list(SEGMENTS, &mut 0)?;
        if let Some(sealed) = ends_too_early(&listing, end.position.next_seq) {
            return Err(lost_end(&sealed));
        }
        let newest = segment_floor(&listing);
        let mut covered: Vec<_> = listing
            .iter()
            .filter_map(|listed| Some((segment_object(listed)?, listed)))
            .filter(|(object, _)| {
                object.ordinal <= note.last_ordinal
                    && object.last_seq <= note.last_seq
                    && (object.last_seq < newest || mutant!(NewestSegmentPruned))
            })
            .collect();
        covered.sort_by_key(|(object, _)| (object.base_seq, object.form, object.last_seq));
        let segments = covered.iter().map(|(_, listed)| removable(RemovableClass::Pruned, listed));
        let survey = SnapshotSurvey::list(session)?;
        let stale = survey.listed.iter().chain(&survey.kept);
        let stale = stale.filter(|(name, _)| name.seq < note.last_seq);
        let stale = stale.map(|(_, listed)| removable(RemovableClass::Snapshot, listed));
        let objects = segments.chain(stale).collect();
        let (mut unkept, mut missing) = (Vec::new(), Vec::new());
        for anchor in &note.anchors {
            let Some(name) = anchor.name() else { continue };
            let is_it = |object: &str| -> Result<bool> {
                let found = read_snapshot(session, object, &name)?;
                let header = found.map(|(header, _)| header);
                Ok(header.is_some_and(|it| it.base.is_none() && Anchor::of(&it) == *anchor))
            };
            if is_it(&anchor_object(&name))? {
                continue;
            }
            let is_stored = is_it(&snapshot_object(&name))?;
            if !is_stored {
                missing.push(anchor.clone());
            } else if !mutant!(CollectableAnchorTrusted) {
                unkept.push(anchor.clone());
            }
        }
        Ok(Some(StorePrune { seq, note, objects, unkept, missing, is_pruned }))
    }
}

/// Check that the log continues after the pruned records with the chain value of the note.
fn expect_start(starts: &[(u64, u64, Chain)], seq: u64, note: &RetentionNote) -> Result<()> {
    let next = starts.iter().find(|(ordinal, _, _)| *ordinal == note.last_ordinal + 1);
    let fits = next.is_some_and(|(_, base_seq, prev_chain)| {
        *base_seq == note.last_seq + 1 && Some(*prev_chain) == note.chain()
    });
    if fits {
        return Ok(());
    }
    let message = format!(
        "this note says that records up to {} were pruned, but no segment continues there",
        note.last_seq
    );
    Err(Error::new(ErrorKind::Corrupt, message).at_seq(seq))
}

impl StorePrune {
    /// Create the snapshots that a prune needs in the store: a folder of the ledger has them. Each is verified first.
    /// Returns their names.
    ///
    /// # Errors
    /// `Rejected` if the folder is of another ledger; `Corrupt` if a snapshot is missing there or damaged, or the store
    /// has another one of its name; `Io`.
    pub fn upload_anchors(
        &self,
        dir: &Path,
        options: &LogOptions,
        session: &StoreSession<'_>,
    ) -> Result<Vec<String>> {
        let reader = LogReader::open(&options.storage, dir)?;
        let identity = (session.identity.ledger, session.identity.genesis);
        if reader.uids() != Some(identity) {
            let message = "the store and the folder have the logs of different ledgers";
            return Err(Error::new(ErrorKind::Rejected, message).at_path(dir));
        }
        let mut created = Vec::new();
        for anchor in &self.missing {
            reader.check_anchor(anchor)?;
            let path = dir.join(SNAPSHOTS).join(&anchor.file);
            let failed = |error| Error::io("read the snapshot", &path, error);
            let file = options.storage.open(&path, Access::Read).map_err(failed)?;
            let length = file.length().map_err(failed)?;
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            read_sectors(&*file, &mut bytes, 0).and_then(SectorRead::complete).map_err(failed)?;
            created.extend(keep(session, anchor, &bytes)?);
        }
        Ok(created)
    }
}

impl StorePrune {
    /// Keep snapshots of the store as anchors, before the records that they replace are deleted. Returns the names of the
    /// objects.
    ///
    /// # Errors
    /// `Corrupt` if a snapshot is gone or damaged by now, or the store has another object of that name; `Io`.
    pub fn keep_anchors(&self, session: &StoreSession<'_>) -> Result<Vec<String>> {
        let mut created = Vec::new();
        for anchor in &self.unkept {
            let Some(name) = anchor.name() else { continue };
            let object = snapshot_object(&name);
            let found = read_snapshot(session, &object, &name)?;
            let Some((_, bytes)) = found.filter(|(header, _)| Anchor::of(header) == *anchor) else {
                let message = "this snapshot is not in the store any more";
                return Err(Error::new(ErrorKind::Corrupt, message)
                    .with_hint("repeat the command; name a folder that has it with --ledger")
                    .at_path(object.as_ref()));
            };
            created.extend(keep(session, anchor, &bytes)?);
        }
        Ok(created)
    }
}

fn keep(session: &StoreSession<'_>, anchor: &Anchor, bytes: &[u8]) -> Result<Option<String>> {
    let Some(name) = anchor.name() else { return Ok(None) };
    let object = anchor_object(&name);
    session.create_same(&object, bytes)?;
    Ok(Some(object))
}
