//! Where things are in a ledger's folder, and how large segments are.

use std::path::{Path, PathBuf};

use crate::format::{SEGMENT_HEADER_SIZE, SegmentName};

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

    /// The folder in which this ledger is built before it has its name. Whatever is found there was
    /// left by an unfinished making: so it is no name that somebody gives to a copy.
    pub(super) fn under_construction(&self) -> Self {
        let mut name = self.dir.file_name().unwrap_or_default().to_owned();
        name.push(DRAFT_SUFFIX);
        Self { dir: self.dir.with_file_name(name) }
    }
}

/// What the name of a folder ends in where a ledger is made.
const DRAFT_SUFFIX: &str = ".new-ledger.tmp";

/// What the names of files end in that never got their own name.
pub(super) const TEMPORARY_SUFFIX: &str = ".tmp";

/// Whether that is the name of a segment which is being made, or never was finished. Other
/// people's temporary files are none of ours.
pub(super) fn is_temporary(name: &str) -> bool {
    name.strip_suffix(TEMPORARY_SUFFIX).is_some_and(|name| SegmentName::parse(name).is_some())
}
