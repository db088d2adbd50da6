//! Where things are in a ledger's folder, and how large segments are.

use std::path::{Path, PathBuf};

use crate::format::{SEGMENT_HEADER_SIZE, SegmentName};

/// Size of a ledger's first segment, and of one that a fence makes.
pub(super) const SEGMENT_SIZE_MIN: u64 = 1 << 20;
/// Segments double at each rotation up to this size.
pub(super) const SEGMENT_SIZE_MAX: u64 = 64 << 20;
/// Offset of a segment's first frame.
pub(super) const DATA_START: u64 = 4096;

const _: () = assert!(SEGMENT_HEADER_SIZE == 4096, "DATA_START is the header's size");

/// The paths of one ledger.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    dir: PathBuf,
}

impl Layout {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.dir.join("LOCK")
    }

    pub(super) fn head(&self) -> PathBuf {
        self.dir.join("HEAD")
    }

    /// Where a new HEAD is made before it has its name.
    pub(super) fn head_draft(&self) -> PathBuf {
        self.dir.join(format!("HEAD{TEMPORARY_SUFFIX}"))
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub(super) fn blob(&self) -> PathBuf {
        self.dir.join("blob")
    }

    pub(super) fn snapshots(&self) -> PathBuf {
        self.dir.join("snap")
    }

    pub(super) fn segment(&self, name: SegmentName) -> PathBuf {
        self.log().join(name.to_string())
    }

    pub(super) fn temporary(&self, name: SegmentName) -> PathBuf {
        self.log().join(format!("{name}{TEMPORARY_SUFFIX}"))
    }

    /// The folder in which this ledger is built before it has its name.
    pub(super) fn under_construction(&self) -> Self {
        let mut name = self.dir.file_name().unwrap_or_default().to_owned();
        name.push(TEMPORARY_SUFFIX);
        Self { dir: self.dir.with_file_name(name) }
    }
}

/// What the names of files end in that never got their own name.
pub(super) const TEMPORARY_SUFFIX: &str = ".tmp";

/// Whether that is the name of a segment which is being made, or never was finished. Other
/// people's temporary files are none of ours.
pub(super) fn is_temporary(name: &str) -> bool {
    name.strip_suffix(TEMPORARY_SUFFIX).is_some_and(|name| SegmentName::parse(name).is_some())
}

/// The size of a segment that must hold `needed` bytes of frames, when `usual` would do.
pub(super) fn segment_size(usual: u64, needed: u64) -> u64 {
    usual
        .clamp(SEGMENT_SIZE_MIN, SEGMENT_SIZE_MAX)
        .max((DATA_START + needed).next_multiple_of(4096))
}
