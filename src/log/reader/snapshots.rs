//! The snapshots of a ledger, checked against its log.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, SnapshotHeader, SnapshotName};
use crate::log::bytes::hex;
use crate::log::folder::LedgerPaths;
use crate::log::notes::{Anchor, KIND_SNAPSHOT_NOTE, SnapshotNote};
use crate::log::record::{LogItem, RecordStatus};
use crate::log::segment::{Segment, valid_segment};
use crate::log::snapshot::{SnapshotFolder, SnapshotReader, damaged_snapshot, list_snapshots};

use super::log_reader::LogReader;
use super::select::{FilteredWalk, RecordFilter};
use super::walk::Walk;

pub(crate) fn snapshot_folder(reader: &LogReader) -> SnapshotFolder<'_> {
    SnapshotFolder::of(&*reader.storage, reader.dir())
}

pub(crate) fn open_snapshot(reader: &LogReader, name: &SnapshotName) -> Result<SnapshotReader> {
    let snapshot = snapshot_folder(reader).open(name)?;
    check_matching(reader, snapshot.header(), snapshot.path())?;
    Ok(snapshot)
}

pub(crate) fn check_matching(
    reader: &LogReader,
    header: &SnapshotHeader,
    path: &Path,
) -> Result<()> {
    if reader.uids() != Some((header.ledger, header.genesis)) {
        return Err(damaged_snapshot(path, 16, "the snapshot belongs to another ledger"));
    }
    let seq = header.seq;
    match chain_at(reader, seq)? {
        Some(chain) if chain == header.chain || mutant!(SnapshotChainUnchecked) => Ok(()),
        Some(_) => {
            let what = format!("the snapshot does not match the log: record {seq} differs");
            Err(damaged_snapshot(path, 64, &what))
        }
        None => {
            let what = format!("the snapshot does not match the log, which has no record {seq}");
            Err(damaged_snapshot(path, 48, &what))
        }
    }
}

/// Whether the record of a snapshot is in the log, but after the durable end in HEAD. After a power
/// loss HEAD may be older than the snapshot by a second; the next opening adopts the record.
pub(crate) fn is_snapshot_ahead(reader: &LogReader, header: &SnapshotHeader) -> Result<bool> {
    for item in Walk::with_resume_points(reader, header.seq) {
        if let LogItem::Record(record, status) = item?
            && record.seq >= header.seq
        {
            return Ok(status == RecordStatus::Unacknowledged
                && (record.seq, record.chain) == (header.seq, header.chain));
        }
    }
    Ok(false)
}

/// Whether a durable note in the log, or the retention note of a prune, names exactly this snapshot.
pub(crate) fn is_snapshot_noted(reader: &LogReader, header: &SnapshotHeader) -> Result<bool> {
    let anchors = reader.retention().map(|retention| retention.note.anchors.as_slice());
    if anchors.unwrap_or_default().contains(&Anchor::of(header)) {
        return Ok(true);
    }
    let own = SnapshotNote::of(header);
    has_note(reader, header.seq, |note| *note == own)
}

/// Whether a note names a snapshot of this name. Its header must be compared as well.
pub(crate) fn is_snapshot_name_noted(reader: &LogReader, name: &SnapshotName) -> Result<bool> {
    let hash = hex(&name.hash);
    Ok(reader.retention().is_some_and(|retention| retention.is_anchor(name))
        || has_note(reader, name.seq, |note| {
            (note.seq, note.version) == (name.seq, name.version)
                && note.projection == name.projection
                && note.state_hash.starts_with(&hash)
        })?)
}

/// Whether a durable note after a record is the wanted one. A note follows the last record that its
/// snapshot includes, usually closely.
fn has_note(reader: &LogReader, seq: u64, is_it: impl Fn(&SnapshotNote) -> bool) -> Result<bool> {
    let notes = RecordFilter::Kind(KIND_SNAPSHOT_NOTE);
    for item in FilteredWalk::new(reader, notes, seq.saturating_add(1)) {
        match item? {
            LogItem::Record(_, RecordStatus::Unacknowledged) => return Ok(false),
            LogItem::Record(record, _)
                if SnapshotNote::from_record(&record).is_some_and(|note| is_it(&note)) =>
            {
                return Ok(true);
            }
            LogItem::Record(..)
            | LogItem::Damage(_)
            | LogItem::DerivedDamage(_)
            | LogItem::OpenEnd { .. } => {}
        }
    }
    Ok(false)
}

pub(crate) fn chain_at(reader: &LogReader, seq: u64) -> Result<Option<Chain>> {
    let follows = |segment: &&Segment| Some(segment.header.base_seq) == seq.checked_add(1);
    if let Some(next) = reader.segments.list.iter().filter_map(valid_segment).find(follows) {
        return Ok(Some(next.header.prev_chain));
    }
    if seq < reader.first_seq() {
        return Ok(None);
    }
    let is_head_present = reader.head_names_present_segment();
    // The caller usually reads on from there.
    for item in Walk::with_resume_points(reader, seq) {
        match item? {
            LogItem::Record(_, RecordStatus::Unacknowledged) if is_head_present => return Ok(None),
            LogItem::Record(record, _) => {
                return Ok((record.seq == seq).then_some(record.chain));
            }
            LogItem::Damage(damage) if damage.first_seq > seq => return Ok(None),
            LogItem::Damage(_) | LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    Ok(None)
}

pub(crate) fn stale_snapshots(reader: &LogReader, last_seq: u64) -> Result<Vec<PathBuf>> {
    let list = list_snapshots(&*reader.storage, reader.dir())?;
    let (below, rest): (Vec<_>, Vec<_>) =
        list.names.into_iter().partition(|name| name.seq < last_seq);
    let path = |name: &SnapshotName| list.folder.join(name.to_string());
    let mut stale: Vec<_> = below.iter().map(path).collect();
    let mut gone: BTreeSet<_> = below.into_iter().collect();
    // No snapshot is based on a later one; without one below there is nothing left to do.
    for name in if gone.is_empty() { Vec::new() } else { rest } {
        // An unreadable snapshot cannot be used, and does no harm.
        let header = snapshot_folder(reader).header(&name).ok().flatten();
        let base = header.and_then(|header| header.base_name());
        if base.is_some_and(|base| gone.contains(&base) && !mutant!(PruneOrphansDeltaSnapshots)) {
            stale.insert(0, path(&name));
            gone.insert(name);
        }
    }
    Ok(stale)
}

pub(crate) fn check_anchor(reader: &LogReader, anchor: &Anchor) -> Result<()> {
    let folder = LedgerPaths::new(reader.dir()).snapshots();
    let bad = |what: &str| {
        let message = format!("{what}; the pruned log starts from this snapshot");
        Error::new(ErrorKind::Corrupt, message).at_path(&folder.join(&anchor.file))
    };
    let name = anchor.name().ok_or_else(|| bad("the anchor does not name a snapshot"))?;
    let header = open_snapshot(reader, &name)?.check()?;
    if header.base.is_some() {
        return Err(bad("the anchor is based on another snapshot"));
    }
    if Anchor::of(&header) != *anchor {
        return Err(bad("the snapshot is not the one in the retention note"));
    }
    Ok(())
}
