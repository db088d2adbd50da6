//! The snapshots of a ledger, checked against its log.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, SnapshotHeader, SnapshotName};
use crate::log::bytes::{hex, lock};
use crate::log::folder::LedgerPaths;
use crate::log::notes::{Anchor, KIND_SNAPSHOT_NOTE, SnapshotNote};
use crate::log::record::{LogItem, LoggedRecord, RecordStatus};
use crate::log::segment::{Segment, valid_segment};
use crate::log::snapshot::{
    SnapshotFolder, SnapshotList, SnapshotReader, damaged_snapshot, list_snapshots,
};

use super::log_reader::LogReader;

#[doc(hidden)]
impl LogReader {
    /// The ledger's folder of snapshots.
    #[must_use]
    pub fn snapshot_folder(&self) -> SnapshotFolder<'_> {
        SnapshotFolder::of(&*self.storage, self.dir())
    }

    /// The files in the ledger's folder of snapshots.
    ///
    /// # Errors
    /// `Io`.
    pub fn snapshots(&self) -> Result<SnapshotList> {
        self.snapshot_folder().list()
    }

    /// List the files in the ledger's folder of snapshots, and keep the list for
    /// [`LogReader::cached_snapshots`].
    ///
    /// # Errors
    /// `Io`.
    pub fn refresh_snapshot_cache(&self) -> Result<Arc<SnapshotList>> {
        let list = Arc::new(self.snapshots()?);
        *lock(&self.snapshot_list) = Some(list.clone());
        Ok(list)
    }

    /// The last result of [`LogReader::refresh_snapshot_cache`]. The folder may have changed since.
    #[must_use]
    pub fn cached_snapshots(&self) -> Option<Arc<SnapshotList>> {
        lock(&self.snapshot_list).clone()
    }

    /// Open a snapshot; check its header, name and length, and that it belongs to this log.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Unsupported`; `Io`.
    pub fn open_snapshot(&self, name: &SnapshotName) -> Result<SnapshotReader> {
        let snapshot = self.snapshot_folder().open(name)?;
        self.check_matching(snapshot.header(), snapshot.path())?;
        Ok(snapshot)
    }

    /// Check that a snapshot belongs to this log: the uids, and the chain value of its record.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Io`.
    pub fn check_matching(&self, header: &SnapshotHeader, path: &Path) -> Result<()> {
        if self.uids() != Some((header.ledger, header.genesis)) {
            return Err(damaged_snapshot(path, 16, "the snapshot belongs to another ledger"));
        }
        let seq = header.seq;
        match self.chain_at(seq)? {
            Some(chain) if chain == header.chain || mutant!(SnapshotChainUnchecked) => Ok(()),
            Some(_) => {
                let what = format!("the snapshot does not match the log: record {seq} differs");
                Err(damaged_snapshot(path, 64, &what))
            }
            None => {
                let what =
                    format!("the snapshot does not match the log, which has no record {seq}");
                Err(damaged_snapshot(path, 48, &what))
            }
        }
    }

    /// Whether the record of a snapshot is in the log, but after the durable end in HEAD. After a power
    /// loss HEAD may be older than the snapshot by a second; the next opening adopts the record.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_snapshot_ahead(&self, header: &SnapshotHeader) -> Result<bool> {
        let own = (header.seq, header.chain);
        let found = self.first_record_from(header.seq)?;
        Ok(found.is_some_and(|(record, status)| {
            status == RecordStatus::Unacknowledged && (record.seq, record.chain) == own
        }))
    }

    /// Whether a durable note in the log, or the retention note of a prune, names exactly this
    /// snapshot: its projection, record, chain and state hash. Without one it must not be used, since
    /// the chain does not cover its state.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_snapshot_noted(&self, header: &SnapshotHeader) -> Result<bool> {
        Ok(self.snapshot_note(header)?.is_some())
    }

    /// The record of the durable note that names exactly this snapshot, as [`Self::is_snapshot_noted`] says.
    ///
    /// # Errors
    /// `Io`.
    pub fn snapshot_note(&self, header: &SnapshotHeader) -> Result<Option<u64>> {
        let anchor = Anchor::of(header);
        if let Some(prune) = self.retention().filter(|prune| prune.note.anchors.contains(&anchor)) {
            return Ok(Some(prune.seq));
        }
        let own = SnapshotNote::of(header);
        find_note(self, header.seq, |note| *note == own)
    }

    /// Whether a durable note in the log names a snapshot of this name. Its header must be compared as
    /// well.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_snapshot_name_noted(&self, name: &SnapshotName) -> Result<bool> {
        let hash = hex(&name.hash);
        Ok(self.retention().is_some_and(|retention| retention.is_anchor(name))
            || find_note(self, name.seq, |note| {
                (note.seq, note.version) == (name.seq, name.version)
                    && note.projection == name.projection
                    && note.state_hash.starts_with(&hash)
            })?
            .is_some())
    }

    /// The chain value of a durable record, from the record itself or from a segment's header.
    ///
    /// # Errors
    /// `Io`.
    pub fn chain_at(&self, seq: u64) -> Result<Option<Chain>> {
        let follows = |segment: &&Segment| Some(segment.header.base_seq) == seq.checked_add(1);
        if let Some(next) = self.segments.list.iter().filter_map(valid_segment).find(follows) {
            return Ok(Some(next.header.prev_chain));
        }
        if seq < self.first_seq() {
            return Ok(None);
        }
        let found = self.first_record_from(seq)?.filter(|(record, status)| {
            let is_unacknowledged = *status == RecordStatus::Unacknowledged;
            record.seq == seq && !(is_unacknowledged && self.head_names_present_segment())
        });
        Ok(found.map(|(record, _)| record.chain))
    }

    /// The first record from `seq` on, and whether it is durable. The caller usually reads on from
    /// there.
    fn first_record_from(&self, seq: u64) -> Result<Option<(LoggedRecord, RecordStatus)>> {
        for item in self.walk_with_resume_points(seq) {
            if let LogItem::Record(record, status) = item? {
                return Ok(Some((record, status)));
            }
        }
        Ok(None)
    }

    /// The snapshots that become useless when the records up to `last_seq` are pruned: those of
    /// earlier records, preceded by those that are based on one of them.
    ///
    /// # Errors
    /// `Io`.
    pub fn stale_snapshots(&self, last_seq: u64) -> Result<Vec<PathBuf>> {
        let list = list_snapshots(&*self.storage, self.dir())?;
        let (below, rest): (Vec<_>, Vec<_>) =
            list.names.into_iter().partition(|name| name.seq < last_seq);
        let path = |name: &SnapshotName| list.folder.join(name.to_string());
        let mut stale: Vec<_> = below.iter().map(path).collect();
        let mut gone: BTreeSet<_> = below.into_iter().collect();
        // No snapshot is based on a later one; without one below there is nothing left to do.
        for name in if gone.is_empty() { Vec::new() } else { rest } {
            // An unreadable snapshot cannot be used, and does no harm.
            let header = self.snapshot_folder().header(&name).ok().flatten();
            let base = header.and_then(|header| header.base_name());
            if base.is_some_and(|base| gone.contains(&base) && !mutant!(PruneOrphansDeltaSnapshots))
            {
                stale.insert(0, path(&name));
                gone.insert(name);
            }
        }
        Ok(stale)
    }

    /// Check the file of an anchor: its checksums, that it belongs to this log, and that it is the
    /// one in the note. Whether its state matches its hash is shown only by a replay.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Io`.
    pub fn check_anchor(&self, anchor: &Anchor) -> Result<()> {
        let folder = LedgerPaths::new(self.dir()).snapshots();
        let bad = |what: &str| {
            let message = format!("{what}; the pruned log starts from this snapshot");
            Error::new(ErrorKind::Corrupt, message).at_path(&folder.join(&anchor.file))
        };
        let name = anchor.name().ok_or_else(|| bad("the anchor does not name a snapshot"))?;
        let header = self.open_snapshot(&name)?.check()?;
        if header.base.is_some() {
            return Err(bad("the anchor is based on another snapshot"));
        }
        if Anchor::of(&header) != *anchor {
            return Err(bad("the snapshot is not the one in the retention note"));
        }
        Ok(())
    }
}

/// The first durable note after a record that is the wanted one. A note follows the last record that its
/// snapshot includes, usually closely.
fn find_note(
    reader: &LogReader,
    seq: u64,
    is_it: impl Fn(&SnapshotNote) -> bool,
) -> Result<Option<u64>> {
    let walk = reader.walk_of_kind(KIND_SNAPSHOT_NOTE, seq.saturating_add(1));
    // The caller reads on from there.
    for item in walk.with_resume_points() {
        match item? {
            LogItem::Record(_, RecordStatus::Unacknowledged) => return Ok(None),
            LogItem::Record(record, _)
                if SnapshotNote::from_record(&record).is_some_and(|note| is_it(&note)) =>
            {
                return Ok(Some(record.seq));
            }
            LogItem::Record(..)
            | LogItem::Damage(_)
            | LogItem::DerivedDamage(_)
            | LogItem::OpenEnd { .. } => {}
        }
    }
    Ok(None)
}
