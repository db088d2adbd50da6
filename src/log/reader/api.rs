//! The reading interface: every way to read a log is a method of [`LogReader`].
//!
//! No method writes, takes a lock or opens a file for writing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::{Chain, SnapshotHeader, SnapshotName};
use crate::log::bytes::lock;
use crate::log::notes::{Anchor, BatchKey};
use crate::log::record::{LoggedRecord, StreamRule};
use crate::log::snapshot::{SnapshotFolder, SnapshotList, SnapshotReader};

use super::follow::LogFollower;
use super::log_reader::LogReader;
use super::reverse::ReverseWalk;
use super::segment_info::SegmentInfo;
use super::select::{FilteredWalk, RecordFilter};
use super::unacknowledged_tail::UnacknowledgedTail;
use super::walk::Walk;
use super::{records, segment_info, snapshots, unacknowledged_tail};

impl LogReader {
    /// Everything from record `from` on: records, and damage in the place where it is found. Pruned
    /// records are skipped: the walk begins after them.
    #[must_use]
    pub fn walk(&self, from: u64) -> Walk<'_> {
        Walk::new(self, from)
    }

    /// The durable records from `from` on.
    ///
    /// # Errors
    /// `Pruned` if `from` is below [`LogReader::first_seq`]; `Corrupt` at the first damage, naming
    /// the place; `Io`.
    pub fn records(&self, from: u64) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        records::records(self, from)
    }

    /// The durable records from `from` to `last`. Nothing after the last one is read, so damage
    /// there does not matter.
    ///
    /// # Errors
    /// As [`LogReader::records`], for the records between the two.
    pub fn records_to(
        &self,
        from: u64,
        last: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        records::records_to(self, from, last)
    }

    /// Visit the durable records from `from` to `last` without copying their payloads.
    ///
    /// # Errors
    /// As [`LogReader::records_to`], and the first error of `visit`.
    pub fn for_each_record<E: From<Error>>(
        &self,
        from: u64,
        last: u64,
        visit: impl FnMut(LoggedRecord<&[u8]>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        records::for_each_record(self, from, last, visit)
    }

    /// Everything up to record `from`, newest first: the items of [`LogReader::walk`] in reverse
    /// order. In a damaged log the two may differ in which intact records are
    /// [`RecordStatus::AfterDamage`](crate::log::RecordStatus::AfterDamage).
    #[must_use]
    pub fn walk_reverse(&self, from: u64) -> ReverseWalk<'_> {
        ReverseWalk::new(self, from)
    }

    /// The durable records from `from` back to the first record of the log.
    ///
    /// # Errors
    /// `Corrupt` at the first damage, naming the place; `Io`.
    pub fn records_reverse(&self, from: u64) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        records::records_reverse(self, from)
    }

    /// The records of a kind from record `from` on, and all damaged ranges that may contain such
    /// records. In sealed segments only those records are read.
    #[must_use]
    pub fn walk_of_kind(&self, kind: u16, from: u64) -> FilteredWalk<'_> {
        FilteredWalk::new(self, RecordFilter::Kind(kind), from)
    }

    /// The records of a stream from record `from` on, and all damaged ranges that may contain such
    /// records. In segments that were sealed with the same rule only those records are read.
    #[must_use]
    pub fn walk_of_stream(&self, stream: u64, streams: StreamRule, from: u64) -> FilteredWalk<'_> {
        FilteredWalk::new(self, RecordFilter::Stream(stream, streams), from)
    }

    /// The durable records of a kind from record `from` on.
    ///
    /// # Errors
    /// `Pruned` if `from` is below [`LogReader::first_seq`]; `Corrupt` at the first damage that may
    /// contain such a record; `Io`.
    pub fn records_of_kind(
        &self,
        kind: u16,
        from: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        records::records_of_kind(self, kind, from)
    }

    /// The durable records of a stream from record `from` on.
    ///
    /// # Errors
    /// `Pruned` if `from` is below [`LogReader::first_seq`]; `Corrupt` at the first damage that may
    /// contain such a record; `Io`.
    pub fn records_of_stream(
        &self,
        stream: u64,
        streams: StreamRule,
        from: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        records::records_of_stream(self, stream, streams, from)
    }

    /// One durable record; `None` if no record has this number yet. A segment without an index is
    /// scanned once for all later calls of this reader.
    ///
    /// # Errors
    /// `Pruned` if the log no longer holds it; `Corrupt` if it is damaged or missing; `Io`.
    pub fn record(&self, seq: u64) -> Result<Option<LoggedRecord>> {
        records::record(self, seq)
    }

    /// The first and last sequence number of the durable batch with this key, searched from record
    /// `since_seq` on; the first one is the record of the key itself. `None` if no such batch was
    /// committed.
    ///
    /// After an append whose outcome is unknown, open the log again and call this to learn whether
    /// the batch was committed. `since_seq` must not be above the first record of the batch; the
    /// last acknowledgement before the append is a good choice.
    ///
    /// # Errors
    /// `Pruned` if the log no longer holds record `since_seq`; `Corrupt` if a record is damaged;
    /// `Io`.
    pub fn find_key(&self, key: &BatchKey, since_seq: u64) -> Result<Option<(u64, u64)>> {
        records::find_key(self, &key.payload(), since_seq)
    }

    /// Wait for records as they become durable, from record `from` on, while a writer in this or
    /// another process appends.
    #[must_use]
    pub fn follow(&self, from: u64) -> LogFollower {
        LogFollower::new(self, from)
    }

    /// The complete records after `last`, the last record that is served as durable. `None` if
    /// there are none, or if a writer has made them durable since this reader was opened.
    ///
    /// # Errors
    /// `Ambiguous` if HEAD is missing, damaged or stale, so that acknowledged records may be among
    /// them; `Corrupt` if bytes there are damaged; `Io`.
    pub fn unacknowledged_tail(&self, last: u64) -> Result<Option<UnacknowledgedTail>> {
        unacknowledged_tail::unacknowledged_tail(self, last)
    }

    /// All segments in order, according to their headers, their footers and HEAD.
    ///
    /// # Errors
    /// `Io`.
    pub fn segment_infos(&self) -> Result<Vec<SegmentInfo>> {
        segment_info::segment_infos(self)
    }

    /// Whether every segment is present, with a valid header that continues the one before. Records
    /// are not read.
    ///
    /// # Errors
    /// `Io`.
    pub fn segments_intact(&self) -> Result<bool> {
        segment_info::segments_intact(self)
    }

    /// The ledger's folder of snapshots.
    #[must_use]
    pub fn snapshot_folder(&self) -> SnapshotFolder<'_> {
        snapshots::snapshot_folder(self)
    }

    /// The files in the ledger's folder of snapshots.
    ///
    /// # Errors
    /// `Io`.
    pub fn snapshots(&self) -> Result<SnapshotList> {
        snapshots::snapshot_folder(self).list()
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
        snapshots::open_snapshot(self, name)
    }

    /// Check that a snapshot belongs to this log: the uids, and the chain value of its record.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Io`.
    pub fn check_matching(&self, header: &SnapshotHeader, path: &Path) -> Result<()> {
        snapshots::check_matching(self, header, path)
    }

    /// Whether a durable note in the log names a snapshot of this name.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_snapshot_name_noted(&self, name: &SnapshotName) -> Result<bool> {
        snapshots::is_snapshot_name_noted(self, name)
    }

    /// Whether the record of a snapshot is in the log, but after the durable end in HEAD.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_snapshot_ahead(&self, header: &SnapshotHeader) -> Result<bool> {
        snapshots::is_snapshot_ahead(self, header)
    }

    /// Whether a durable note in the log names exactly this snapshot: its projection, record, chain
    /// and state hash. Without one it must not be used, since the chain does not cover its state.
    ///
    /// # Errors
    /// `Io`.
    pub fn is_snapshot_noted(&self, header: &SnapshotHeader) -> Result<bool> {
        snapshots::is_snapshot_noted(self, header)
    }

    /// The chain value of a durable record, from the record itself or from a segment's header.
    ///
    /// # Errors
    /// `Io`.
    pub fn chain_at(&self, seq: u64) -> Result<Option<Chain>> {
        snapshots::chain_at(self, seq)
    }

    /// The snapshots that become useless when the records up to `last_seq` are pruned: those of
    /// earlier records, preceded by those that are based on one of them.
    ///
    /// # Errors
    /// `Io`.
    pub fn stale_snapshots(&self, last_seq: u64) -> Result<Vec<PathBuf>> {
        snapshots::stale_snapshots(self, last_seq)
    }

    /// Check the file of an anchor: its checksums, that it belongs to this log, and that it is the
    /// one in the note. Whether its state matches its hash is shown only by a replay.
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Io`.
    pub fn check_anchor(&self, anchor: &Anchor) -> Result<()> {
        snapshots::check_anchor(self, anchor)
    }
}
