//! The reader's view of a log: HEAD and all headers, read without the lock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Head, HeadSlots, HeaderFault, SegmentHeader, Uid};
use crate::log::blob::BlobReader;
use crate::log::folder::{FolderKind, Layout, expect_ledger, read_head};
use crate::log::notes::{ArchiveReference, RetentionRecord};
use crate::log::segment::{
    ArchiveManifest, ChainCheck, ResumeCache, Segment, SegmentEntry, Segments, good,
};
use crate::log::snapshot::SnapshotListCache;
use crate::storage::Storage;

/// Summary of a segment.
#[derive(Debug, Clone)]
pub struct SegmentSummary {
    /// Its file.
    pub path: PathBuf,
    /// Its header, or what is wrong with it.
    pub header: std::result::Result<SegmentHeader, HeaderFault>,
    /// Length of the file in bytes; 0 if it cannot be read.
    pub length: u64,
}

/// A view of a log: HEAD and the headers as they were when it was opened.
#[derive(Debug, Clone)]
pub struct LogReader {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) layout: Layout,
    pub(crate) segments: Segments,
    pub(crate) view: HeadSlots,
    pub(crate) access: SegmentAccess,
    pub(crate) resume_cache: ResumeCache,
    pub(crate) snapshot_list: SnapshotListCache,
    pub(crate) check: ChainCheck,
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
        let layout = Layout::new(dir);
        match expect_ledger(&**storage, &layout)? {
            FolderKind::Ledger => Self::view(storage, &layout, SegmentAccess::Windowed, None),
            FolderKind::Archive => Self::archive(storage, &layout),
        }
    }

    pub(crate) fn open_for_writer(
        storage: &Arc<dyn Storage>,
        dir: &Path,
        known: Option<&RetentionRecord>,
        resume_cache: &ResumeCache,
    ) -> Result<Self> {
        let reader = Self::view(storage, &Layout::new(dir), SegmentAccess::Mapped, known)?;
        Ok(Self { resume_cache: resume_cache.clone(), ..reader })
    }

    /// HEAD is read first, so that the headers, which are read later, include everything that it
    /// covers.
    pub(crate) fn view(
        storage: &Arc<dyn Storage>,
        layout: &Layout,
        access: SegmentAccess,
        known: Option<&RetentionRecord>,
    ) -> Result<Self> {
        let view = read_head(&**storage, layout)?;
        let segments = Segments::list(&**storage, layout, known)?;
        let (storage, resume_cache) = (storage.clone(), ResumeCache::default());
        let (layout, snapshot_list, manifest) =
            (layout.clone(), SnapshotListCache::default(), None);
        let check = ChainCheck::Recompute;
        Ok(Self {
            storage,
            layout,
            segments,
            view,
            access,
            resume_cache,
            snapshot_list,
            check,
            manifest,
        })
    }

    /// The ledger of the newest valid segment.
    pub(crate) fn ledger_uid(&self) -> Option<[u8; 16]> {
        self.segments.list.iter().rev().find_map(good).map(|segment| segment.header.ledger)
    }

    /// Set whether walks recompute the chain, as they do by default. Checksums and order are always
    /// checked.
    #[must_use]
    pub fn with_chain_check(self, check: ChainCheck) -> Self {
        Self { check, ..self }
    }

    fn archive(storage: &Arc<dyn Storage>, layout: &Layout) -> Result<Self> {
        let manifest = ArchiveManifest::read(&**storage, layout.dir())?;
        let view = read_head(&**storage, layout)?;
        let head = view.newest().map(|(_, head)| head);
        let segments = Segments::of_archive(&**storage, layout, &manifest, head)?;
        let (storage, resume_cache) = (storage.clone(), ResumeCache::default());
        let (layout, snapshot_list) = (layout.clone(), SnapshotListCache::default());
        let (check, manifest) = (ChainCheck::Recompute, Some(manifest.into()));
        let access = SegmentAccess::Windowed;
        Ok(Self {
            storage,
            layout,
            segments,
            view,
            access,
            resume_cache,
            snapshot_list,
            check,
            manifest,
        })
    }

    /// The newest valid slot of HEAD.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        self.view.newest().map(|(_, head)| head)
    }

    /// Whether HEAD names one of the segments that are present. Otherwise it is unknown which
    /// records of the newest segment are durable.
    #[must_use]
    pub fn has_witness(&self) -> bool {
        self.head().is_some_and(|head| {
            let mut segments =
                self.segments.list.iter().filter_map(|(_, _, read)| read.as_ref().ok());
            segments.any(|segment| segment.header.segment == head.segment)
        })
    }

    /// Both slots of HEAD.
    #[must_use]
    pub fn head_view(&self) -> &HeadSlots {
        &self.view
    }

    /// All segments, in order.
    #[must_use]
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

    /// Unknown files in the log's folder.
    #[must_use]
    pub fn unknown_files(&self) -> &[String] {
        &self.segments.unknown_files
    }

    /// The ledger's blobs.
    #[must_use]
    pub fn blobs(&self) -> BlobReader {
        // The ledger's folder is the parent of the log's.
        let dir = self.segments.folder.parent().unwrap_or(Path::new(""));
        BlobReader::new(&self.storage, &Layout::new(dir))
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
        let first = self.segments.list.first().and_then(good);
        let own = first.filter(|first| first.header.base_seq == self.first_seq());
        self.segments.start.chain.or_else(|| own.map(|first| first.header.prev_chain))
    }

    /// The retention note that makes the log start after record 1, or is about to.
    #[must_use]
    pub fn retention(&self) -> Option<&RetentionRecord> {
        self.segments.retention.as_ref()
    }

    /// The error for a record before the first one.
    #[must_use]
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
    pub fn expect_unpruned(&self, from: u64) -> Result<()> {
        if from.max(1) < self.first_seq() { Err(self.pruned(from.max(1))) } else { Ok(()) }
    }

    /// The ledger's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.segments.folder.parent().unwrap_or(&self.segments.folder)
    }

    /// The ledger's uid and that of its genesis, if any segment is readable.
    #[must_use]
    pub fn uids(&self) -> Option<(Uid, Uid)> {
        let first = self.segments.list.iter().find_map(good)?;
        Some((first.header.ledger, first.header.genesis))
    }

    /// The manifest, if this is an archive.
    #[must_use]
    pub fn manifest(&self) -> Option<&ArchiveManifest> {
        self.manifest.as_deref()
    }
}
