//! A log that is open for reading: HEAD and all headers, read without the lock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Head, HeadSlots, HeaderFault, SegmentHeader, Uid};
use crate::log::blob::BlobReader;
#[cfg(not(feature = "ledger"))]
use crate::log::errors::needs_ledger;
use crate::log::folder::{FolderKind, LedgerPaths, check_folder, hold_folder, read_head};
use crate::log::notes::{ArchiveReference, LoggedRetentionNote};
#[cfg(feature = "ledger")]
use crate::log::segment::ArchiveManifest;
use crate::log::segment::{
    ChainCheck, ResumeCache, Segment, SegmentEntry, Segments, valid_segment,
};
use crate::log::snapshot::SnapshotListCache;
use crate::storage::Storage;

/// Summary of a segment.
#[derive(Debug, Clone)]
pub struct SegmentSummary {
    /// Its file.
    pub path: PathBuf,
    /// Its header, or the fault of the header.
    pub header: std::result::Result<SegmentHeader, HeaderFault>,
    /// Length of the file in bytes; 0 if it cannot be read.
    pub length: u64,
}

/// Minimum number of records for which a second thread pays.
const LONG_RECORDS: u64 = 4_096;
/// Minimum number of bytes of whole segments for which a second thread pays.
const LONG_BYTES: u64 = 2 << 20;

/// A log that is open for reading: HEAD and the headers as they were at that time.
#[derive(Debug, Clone)]
pub struct LogReader {
    /// The storage that has the folder open.
    pub(crate) storage: Arc<dyn Storage>,
    /// The storage in which a follower looks for the folder again.
    pub(crate) by_path: Arc<dyn Storage>,
    pub(crate) paths: LedgerPaths,
    pub(crate) segments: Segments,
    pub(crate) head_slots: HeadSlots,
    pub(crate) access: SegmentAccess,
    pub(crate) resume_cache: ResumeCache,
    pub(crate) snapshot_list: SnapshotListCache,
    pub(crate) chain_check: ChainCheck,
    #[cfg(feature = "ledger")]
    pub(crate) manifest: Option<Arc<ArchiveManifest>>,
}

/// How segments that have a successor are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentAccess {
    /// In windows: any process may change or damage the files.
    Windowed,
    /// Mapped: this process has the lock.
    Mapped,
}

impl LogReader {
    /// Open a log for reading, without the lock.
    ///
    /// # Errors
    /// `NotALedger`; `Corrupt` or `Unsupported` if this is an archive with an unreadable manifest;
    /// `Io`. Damage in the log is not an error here; a walk reports it.
    pub fn open(storage: &Arc<dyn Storage>, dir: &Path) -> Result<Self> {
        let paths = LedgerPaths::new(dir);
        let held = &hold_folder(storage, dir)?;
        let reader = match check_folder(&**held, &paths)? {
            FolderKind::Ledger | FolderKind::Bound => {
                Self::load(held, &paths, SegmentAccess::Windowed, None)?
            }
            FolderKind::Archive => Self::archive(held, &paths)?,
        };
        Ok(Self { by_path: storage.clone(), ..reader })
    }

    pub(crate) fn open_for_writer(
        storage: &Arc<dyn Storage>,
        dir: &Path,
        known: Option<&LoggedRetentionNote>,
        resume_cache: &ResumeCache,
    ) -> Result<Self> {
        let reader = Self::load(storage, &LedgerPaths::new(dir), SegmentAccess::Mapped, known)?;
        Ok(Self { resume_cache: resume_cache.clone(), ..reader })
    }

    /// HEAD is read first, so that the headers, which are read later, include everything that it
    /// covers.
    pub(crate) fn load(
        storage: &Arc<dyn Storage>,
        paths: &LedgerPaths,
        access: SegmentAccess,
        known: Option<&LoggedRetentionNote>,
    ) -> Result<Self> {
        let head_slots = read_head(&**storage, paths)?;
        let mut segments = Segments::list(&**storage, paths, known)?;
        segments.rebuild_headers(&**storage, head_slots.newest().map(|(_, head)| head))?;
        Ok(Self { access, ..Self::new(storage, paths, segments, head_slots) })
    }

    #[cfg(feature = "ledger")]
    fn archive(storage: &Arc<dyn Storage>, paths: &LedgerPaths) -> Result<Self> {
        let manifest = ArchiveManifest::read(&**storage, paths.dir())?;
        let head_slots = read_head(&**storage, paths)?;
        let head = head_slots.newest().map(|(_, head)| head);
        let segments = Segments::of_archive(&**storage, paths, &manifest, head)?;
        let manifest = Some(manifest.into());
        Ok(Self { manifest, ..Self::new(storage, paths, segments, head_slots) })
    }

    #[cfg(not(feature = "ledger"))]
    fn archive(_: &Arc<dyn Storage>, paths: &LedgerPaths) -> Result<Self> {
        Err(needs_ledger("this is an archive").at_path(paths.dir()))
    }

    fn new(
        storage: &Arc<dyn Storage>,
        paths: &LedgerPaths,
        segments: Segments,
        head_slots: HeadSlots,
    ) -> Self {
        Self {
            storage: storage.clone(),
            by_path: storage.clone(),
            paths: paths.clone(),
            segments,
            head_slots,
            access: SegmentAccess::Windowed,
            resume_cache: ResumeCache::default(),
            snapshot_list: SnapshotListCache::default(),
            chain_check: ChainCheck::Recompute,
            #[cfg(feature = "ledger")]
            manifest: None,
        }
    }

    /// The ledger of the newest valid segment.
    pub(crate) fn ledger_uid(&self) -> Option<[u8; 16]> {
        self.segments.list.iter().rev().find_map(valid_segment).map(|segment| segment.header.ledger)
    }

    /// Set whether walks recompute the chain, as they do by default. Checksums and order are always
    /// checked.
    #[must_use]
    pub fn with_chain_check(self, chain_check: ChainCheck) -> Self {
        Self { chain_check, ..self }
    }

    /// The newest valid slot of HEAD.
    #[must_use]
    #[doc(hidden)]
    pub fn head(&self) -> Option<&Head> {
        self.head_slots.newest().map(|(_, head)| head)
    }

    /// Whether HEAD names one of the segments that are present. Otherwise it is unknown which
    /// records of the newest segment are durable.
    #[must_use]
    #[doc(hidden)]
    pub fn head_names_present_segment(&self) -> bool {
        self.head().is_some_and(|head| {
            let mut segments =
                self.segments.list.iter().filter_map(|(_, _, read)| read.as_ref().ok());
            segments.any(|segment| segment.header.segment == head.segment)
        })
    }

    /// Both slots of HEAD.
    #[must_use]
    #[doc(hidden)]
    pub fn head_slots(&self) -> &HeadSlots {
        &self.head_slots
    }

    /// All segments, in order.
    #[must_use]
    #[doc(hidden)]
    pub fn segments(&self) -> Vec<SegmentSummary> {
        let summary = |(_, path, read): &SegmentEntry| SegmentSummary {
            path: path.clone(),
            header: match read {
                Ok(Segment { fault: Some(fault), .. }) | Err(fault) => Err(fault.clone()),
                Ok(segment) => Ok(segment.header.clone()),
            },
            length: read.as_ref().map_or(0, |each| each.length),
        };
        self.segments.list.iter().map(summary).collect()
    }

    /// The file of the segment with an ordinal; the folder if the file does not exist.
    pub(crate) fn segment_path(&self, ordinal: u64) -> PathBuf {
        let is_own = |entry: &&SegmentEntry| {
            valid_segment(entry).is_some_and(|segment| segment.header.ordinal == ordinal)
        };
        let own = self.segments.list.iter().find(is_own).map(|(_, path, _)| path);
        own.unwrap_or(&self.segments.folder).clone()
    }

    /// Unknown files in the log's folder.
    #[must_use]
    pub fn unknown_files(&self) -> &[String] {
        &self.segments.unknown_files
    }

    /// The ledger's blobs.
    #[must_use]
    #[doc(hidden)]
    pub fn blobs(&self) -> BlobReader {
        BlobReader::new(&self.storage, &self.paths)
    }

    /// The first record of the log: 1, unless earlier records were pruned or are in another
    /// archive.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.segments.start.seq
    }

    /// Chain value of the record before the first one, if known.
    #[must_use]
    pub fn chain_before(&self) -> Option<Chain> {
        let first = self.segments.list.first().and_then(valid_segment);
        let own = first.filter(|first| first.header.base_seq == self.first_seq());
        self.segments.start.chain.or_else(|| own.map(|first| first.header.prev_chain))
    }

    /// The retention note that makes the log start after record 1, now or after an interrupted
    /// prune is completed.
    #[must_use]
    #[doc(hidden)]
    pub fn retention(&self) -> Option<&LoggedRetentionNote> {
        self.segments.retention.as_ref()
    }

    /// The error for a record before the first one.
    #[must_use]
    #[doc(hidden)]
    pub fn pruned(&self, seq: u64) -> Error {
        let first = self.first_seq();
        let why = match self.retention().map(|retention| &retention.note.archive) {
            Some(Some(ArchiveReference { file, blake3 })) => {
                let hash: String = blake3.chars().take(8).collect();
                format!("the last pruned records are in the archive {file} (blake3 {hash}...)")
            }
            Some(None) => "the last pruned records were deleted without an archive".to_owned(),
            None => "earlier records are in an earlier archive".to_owned(),
        };
        let message = format!("not in this log, which begins at record {first}; {why}");
        Error::new(ErrorKind::Pruned, message).at_path(self.dir()).at_seq(seq)
    }

    /// Check that no record from `from` on was pruned.
    ///
    /// # Errors
    /// `Pruned`.
    #[doc(hidden)]
    pub fn check_unpruned(&self, from: u64) -> Result<()> {
        if from.max(1) < self.first_seq() { Err(self.pruned(from.max(1))) } else { Ok(()) }
    }

    /// The ledger's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.paths.dir()
    }

    /// The ledger's uid and that of its genesis, if any segment is readable.
    #[must_use]
    pub fn uids(&self) -> Option<(Uid, Uid)> {
        let first = self.segments.list.iter().find_map(valid_segment)?;
        Some((first.header.ledger, first.header.genesis))
    }

    /// Whether the range from `from` to `last` is so long that a second thread should read it.
    pub(crate) fn is_long(&self, from: u64, last: u64) -> bool {
        let Some(head) = self.head() else { return false };
        let last = last.min(head.durable_seq);
        let records = last.saturating_add(1).saturating_sub(from);
        // The records of a plan are few and large.
        let segments = self.segments.list.iter().filter_map(valid_segment);
        let inside = segments.filter(|segment| (from..=last).contains(&segment.header.base_seq));
        let bytes = inside.map(|segment| {
            if segment.header.ordinal == head.ordinal { head.data_end } else { segment.length }
        });
        records >= LONG_RECORDS || (records > 1 && bytes.sum::<u64>() >= LONG_BYTES)
    }

    /// The manifest, if this is an archive.
    #[cfg(feature = "ledger")]
    #[must_use]
    #[doc(hidden)]
    pub fn manifest(&self) -> Option<&ArchiveManifest> {
        self.manifest.as_deref()
    }
}
