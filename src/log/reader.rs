//! Reading a log: without the lock, without writing a byte, live or damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::{Head, HeadView, HeaderFault, SegmentHeader, SegmentName};
use crate::storage::{EntryKind, Storage};

use super::archive::{MANIFEST, Manifest};
use super::beginning::Form;
use super::blob::BlobReader;
use super::head_file::read_head;
use super::layout::Layout;
use super::retention::Retention;
use super::scan::Links;
use super::seek::PlaceCache;
use super::segments::{Entry, Segment, Segments, good};
use super::snapshot_reader::Listed;
use super::writer::not_a_ledger;

/// Refuse a folder that is no ledger, without touching it; whether it is an archive.
pub(super) fn expect_ledger(storage: &dyn Storage, layout: &Layout) -> Result<Form> {
    let dir = layout.dir();
    let entries = storage.list(dir).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => not_a_ledger(dir, "there is no such folder"),
        std::io::ErrorKind::NotADirectory => not_a_ledger(dir, "this is a file"),
        _ => Error::io("list the folder", dir, error),
    })?;
    let has = |name: &str, kind| entries.iter().any(|e| e.name == name && e.kind == kind);
    if !has("log", EntryKind::Folder) {
        return Err(not_a_ledger(dir, "it has no folder `log`"));
    }
    // Many folders have one of that name. A ledger that lost its HEAD still has segments.
    let is_ledger = has("HEAD", EntryKind::File) || {
        let folder = layout.log();
        let names = storage.list(&folder).map_err(|e| Error::io("list the folder", &folder, e))?;
        names.iter().any(|entry| SegmentName::parse(&entry.name).is_some())
    };
    if !is_ledger {
        return Err(not_a_ledger(dir, "it has no file `HEAD`, and `log` holds no segment"));
    }
    Ok(if has(MANIFEST, EntryKind::File) { Form::Archive } else { Form::Ledger })
}

/// One segment, for people.
#[derive(Debug, Clone)]
pub struct SegmentSummary {
    /// Its file.
    pub path: PathBuf,
    /// Its header, or what is wrong with it.
    pub header: std::result::Result<SegmentHeader, HeaderFault>,
    /// The file's length in bytes; 0 if nothing of it can be read.
    pub length: u64,
}

/// A view of a log: what HEAD and the headers said when it was taken.
#[derive(Debug, Clone)]
pub struct LogReader {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) layout: Layout,
    pub(super) segments: Segments,
    pub(super) view: HeadView,
    pub(super) access: Superseded,
    pub(super) places: PlaceCache,
    pub(super) listed: Listed,
    pub(super) links: Links,
    pub(super) manifest: Option<Arc<Manifest>>,
}

/// How segments are read that a later one has taken the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Superseded {
    /// In windows: anybody may change or damage the files.
    Windowed,
    /// Mapped: this process holds the lock.
    Mapped,
}

impl LogReader {
    /// Look at a log without taking its lock.
    ///
    /// # Errors
    /// `NotALedger`, and `Io`. Damage is no error here: the walk names it; but `Corrupt` or
    /// `Unsupported` for an archive whose manifest cannot be read.
    pub fn open(storage: &Arc<dyn Storage>, dir: &Path) -> Result<Self> {
        let layout = Layout::new(dir);
        match expect_ledger(&**storage, &layout)? {
            Form::Ledger => Self::view(storage, &layout, Superseded::Windowed, None),
            Form::Archive => Self::archive(storage, &layout),
        }
    }

    pub(super) fn open_superseded(
        storage: &Arc<dyn Storage>,
        dir: &Path,
        known: Option<&Retention>,
        places: &PlaceCache,
    ) -> Result<Self> {
        let reader = Self::view(storage, &Layout::new(dir), Superseded::Mapped, known)?;
        Ok(Self { places: places.clone(), ..reader })
    }

    /// HEAD first: whatever it covers, the headers that are read later know of.
    pub(super) fn view(
        storage: &Arc<dyn Storage>,
        layout: &Layout,
        access: Superseded,
        known: Option<&Retention>,
    ) -> Result<Self> {
        let view = read_head(&**storage, layout)?;
        let segments = Segments::list(&**storage, layout, known)?;
        let (storage, places) = (storage.clone(), PlaceCache::default());
        let (layout, listed, manifest) = (layout.clone(), Listed::default(), None);
        let links = Links::Computed;
        Ok(Self { storage, layout, segments, view, access, places, listed, links, manifest })
    }

    /// The ledger that the newest intact segment belongs to.
    pub(super) fn ledger_uid(&self) -> Option<[u8; 16]> {
        self.segments.list.iter().rev().find_map(good).map(|segment| segment.header.ledger)
    }

    /// What walks of this reader do about the chain. They compute every link again unless this says
    /// otherwise; checksums and order are checked in any case.
    #[must_use]
    pub fn with_links(self, links: Links) -> Self {
        Self { links, ..self }
    }

    fn archive(storage: &Arc<dyn Storage>, layout: &Layout) -> Result<Self> {
        let manifest = Manifest::read(&**storage, layout.dir())?;
        let view = read_head(&**storage, layout)?;
        let head = view.newest().map(|(_, head)| head);
        let segments = Segments::of_archive(&**storage, layout, &manifest, head)?;
        let (storage, places) = (storage.clone(), PlaceCache::default());
        let (layout, listed) = (layout.clone(), Listed::default());
        let (links, manifest) = (Links::Computed, Some(manifest.into()));
        let access = Superseded::Windowed;
        Ok(Self { storage, layout, segments, view, access, places, listed, links, manifest })
    }

    /// The valid slot of HEAD that counts.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        self.view.newest().map(|(_, head)| head)
    }

    /// Whether HEAD says anything about the segments that are here. Without it nothing in the
    /// newest segment is known to be durable, or not to be.
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
    pub fn head_view(&self) -> &HeadView {
        &self.view
    }

    /// All segments, in order.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentSummary> {
        let summary = |(_, path, read): &Entry| SegmentSummary {
            path: path.clone(),
            header: match read {
                Ok(Segment { fault: Some(fault), .. }) | Err(fault) => Err(fault.clone()),
                Ok(segment) => Ok(segment.header.clone()),
            },
            length: read.as_ref().map_or(0, |each| each.length),
        };
        self.segments.list.iter().map(summary).collect()
    }

    /// Names in the log's folder that do not belong there.
    #[must_use]
    pub fn strangers(&self) -> &[String] {
        &self.segments.strangers
    }

    /// The blobs that records name.
    #[must_use]
    pub fn blobs(&self) -> BlobReader {
        // The folder of the segments lies in the ledger's.
        let dir = self.segments.folder.parent().unwrap_or(Path::new(""));
        BlobReader::new(&self.storage, &Layout::new(dir))
    }
}
