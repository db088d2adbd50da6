//! Reading a log: without the lock, without writing a byte, live or damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    Chain, Head, HeadView, HeaderFault, SEGMENT_HEADER_SIZE, SegmentHeader, SegmentName,
};
use crate::storage::{Access, EntryKind, Storage};

use super::backward::WalkBack;
use super::blob::BlobReader;
use super::follow::Follow;
use super::head_file::read_head;
use super::layout::{DATA_START, Layout, is_temporary};
use super::open::damaged;
use super::options::StreamOf;
use super::scan::Links;
use super::sealed::read_replica;
use super::seek::PlaceCache;
use super::select::{Selection, Wanted};
use super::walk::{Item, LoggedRecord, Proof, Walk};
use super::writer::not_a_ledger;

/// A segment whose header is known.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    pub(super) length: u64,
    /// What is wrong with the header in its place, if it was read from the footer.
    pub(super) fault: Option<HeaderFault>,
}

/// A file that is named like a segment.
pub(super) type Entry = (SegmentName, PathBuf, std::result::Result<Segment, HeaderFault>);

/// The segment in a file, if it is the one that the name says.
pub(super) fn good((name, _, read): &Entry) -> Option<&Segment> {
    read.as_ref().ok().filter(|segment| segment.header.name() == *name)
}

/// All segments of a log, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Segments {
    pub(super) folder: PathBuf,
    pub(super) list: Vec<Entry>,
    /// Names in the folder that are not ours.
    pub(super) strangers: Vec<String>,
}

impl Segments {
    /// List the folder and read every header.
    pub(super) fn list(storage: &dyn Storage, layout: &Layout) -> Result<Self> {
        let folder = layout.log();
        let entries =
            storage.list(&folder).map_err(|error| Error::io("list the folder", &folder, error))?;
        let mut segments = Self { folder: folder.clone(), ..Self::default() };
        for entry in entries {
            match SegmentName::parse(&entry.name) {
                Some(name) if entry.kind == EntryKind::File => {
                    let path = folder.join(&entry.name);
                    let read = read_header(storage, &path)?;
                    segments.list.push((name, path, read));
                }
                _ if entry.kind == EntryKind::File && is_temporary(&entry.name) => {}
                _ => segments.strangers.push(entry.name),
            }
        }
        segments.list.sort_by_key(|(name, _, _)| *name);
        Ok(segments)
    }

    /// The first good segment with that ordinal.
    pub(super) fn with_ordinal(&self, ordinal: u64) -> Option<&Segment> {
        self.list.iter().filter_map(good).find(|segment| segment.header.ordinal == ordinal)
    }

    /// The header of the segment that follows, whatever its file is named.
    pub(super) fn successor(&self, header: &SegmentHeader) -> Option<&SegmentHeader> {
        let intact = self.list.iter().filter_map(|(_, _, read)| read.as_ref().ok());
        intact.map(|segment| &segment.header).find(|next| {
            next.prev_segment == header.segment
                && Some(next.ordinal) == header.ordinal.checked_add(1)
        })
    }

    /// Whether HEAD stands in a segment that another one has taken the place of, and says what
    /// the successor's header rules out. (A crash may leave it there, behind the times.)
    pub(super) fn contradict(&self, head: &Head) -> bool {
        let header = |ordinal| self.with_ordinal(ordinal).map(|segment| &segment.header);
        let next = header(head.ordinal.saturating_add(1));
        let (Some(own), Some(next)) = (header(head.ordinal), next) else { return false };
        let is_its_end = head.durable_seq == next.prev_last_seq;
        head.ledger != own.ledger
            || head.segment != own.segment
            || head.durable_seq > next.prev_last_seq
            || head.data_end > next.prev_data_end
            || (is_its_end && (head.chain, head.data_end) != (next.prev_chain, next.prev_data_end))
    }

    /// The newest segment, if every header is good and each follows from the one before.
    pub(super) fn linked(&self) -> Result<&Segment> {
        let mut previous: Option<&Segment> = None;
        for (place, (name, path, read)) in self.list.iter().enumerate() {
            let segment = match read {
                Ok(segment) => segment,
                Err(fault) => return Err(header_error(path, fault)),
            };
            if let Some(fault) = &segment.fault {
                return Err(header_error(path, fault));
            }
            if segment.header.ro_compat != 0 {
                return Err(not_ours_to_write(path, segment.header.ro_compat));
            }
            let ordinal = u64::try_from(place).unwrap_or(u64::MAX);
            if let Some(problem) = link_problem(*name, ordinal, previous, segment) {
                return Err(damaged(path, 0, segment.header.base_seq, &problem));
            }
            if let Some(before) = previous
                && let Some(problem) = length_problem(before, segment)
            {
                let header = &before.header;
                let path = path.with_file_name(header.name().to_string());
                return Err(damaged(&path, before.length, header.base_seq, &problem));
            }
            previous = Some(segment);
        }
        previous.ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                "there is no segment, though a ledger always has one; restore it from a copy",
            )
            .at_path(&self.folder)
        })
    }
}

/// What is wrong with a segment's place in the row, if anything.
pub(super) fn link_problem(
    name: SegmentName,
    ordinal: u64,
    previous: Option<&Segment>,
    segment: &Segment,
) -> Option<String> {
    let header = &segment.header;
    if header.name() != name {
        return Some(format!("the file is named {name}, but its header says {}", header.name()));
    }
    if header.ordinal != ordinal {
        return Some(format!(
            "segment {ordinal} is missing: expected it here, found segment {}",
            header.ordinal
        ));
    }
    let Some(previous) = previous.map(|segment| &segment.header) else {
        let is_first = header.base_seq == 1 && header.prev_chain == Chain::GENESIS;
        return (!is_first).then(|| "the first segment does not begin at record 1".to_owned());
    };
    let is_next = header.ledger == previous.ledger
        && header.genesis == previous.genesis
        && header.prev_segment == previous.segment
        && Some(header.base_seq) == header.prev_last_seq.checked_add(1)
        && header.base_seq >= previous.base_seq
        && header.writer_epoch >= previous.writer_epoch
        && header.prev_data_end >= previous.born_end.max(DATA_START)
        && header.prev_data_end <= previous.prealloc_len;
    (!is_next).then(|| {
        format!("the segment does not follow from segment {}: its links differ", previous.ordinal)
    })
}

/// What is wrong with the length of a segment that a later one has taken the place of.
fn length_problem(previous: &Segment, next: &Segment) -> Option<String> {
    (previous.length < next.header.prev_data_end).then(|| {
        format!(
            "the file is cut short: expected at least {} bytes, found {}",
            next.header.prev_data_end, previous.length
        )
    })
}

/// Refuse a folder that is no ledger, without touching it.
pub(super) fn expect_ledger(storage: &dyn Storage, layout: &Layout) -> Result<()> {
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
    Ok(())
}

/// A reader may look at it, a writer must know more than this one does.
fn not_ours_to_write(path: &Path, flags: u32) -> Error {
    let message = format!(
        "writing to it needs features that this program does not know (ro-compat flags \
         {flags:#x}); use a newer `ledger`, or look on with `ledger inspect`"
    );
    Error::new(ErrorKind::Unsupported, message).at_path(path).at_offset(0)
}

fn header_error(path: &Path, fault: &HeaderFault) -> Error {
    if fault.is_version() {
        return Error::new(ErrorKind::Unsupported, fault.to_string()).at_path(path).at_offset(0);
    }
    let message =
        format!("{fault}; nothing was changed, and `ledger inspect` shows what can be read");
    Error::new(ErrorKind::Corrupt, message).at_path(path).at_offset(0)
}

pub(super) fn read_header(
    storage: &dyn Storage,
    path: &Path,
) -> Result<std::result::Result<Segment, HeaderFault>> {
    let io = |what, error| Error::io(what, path, error);
    let file = storage.open(path, Access::Read).map_err(|error| io("open the segment", error))?;
    let length = file.length().map_err(|error| io("measure the segment", error))?;
    let mut bytes = vec![0; SEGMENT_HEADER_SIZE];
    let count = file.read_at(&mut bytes, 0).map_err(|error| io("read the header", error))?;
    bytes.truncate(count);
    let fault = match SegmentHeader::decode(&bytes) {
        Ok(header) => return Ok(Ok(Segment { header, length, fault: None })),
        Err(fault) if fault.is_version() => return Ok(Err(fault)),
        Err(fault) => fault,
    };
    let replica = read_replica(&*file, length).map_err(|error| io("read the footer", error))?;
    Ok(match replica {
        Some(header) => Ok(Segment { header, length, fault: Some(fault) }),
        None => Err(fault),
    })
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
    pub(super) links: Links,
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
    /// `NotALedger`, and `Io`. Damage is no error here: the walk names it.
    pub fn open(storage: &Arc<dyn Storage>, dir: &Path) -> Result<Self> {
        let layout = Layout::new(dir);
        expect_ledger(&**storage, &layout)?;
        Self::view(storage, &layout, Superseded::Windowed)
    }

    pub(super) fn open_superseded(storage: &Arc<dyn Storage>, dir: &Path) -> Result<Self> {
        Self::view(storage, &Layout::new(dir), Superseded::Mapped)
    }

    /// HEAD first: whatever it covers, the headers that are read later know of.
    pub(super) fn view(
        storage: &Arc<dyn Storage>,
        layout: &Layout,
        access: Superseded,
    ) -> Result<Self> {
        let view = read_head(&**storage, layout)?;
        let segments = Segments::list(&**storage, layout)?;
        let (storage, places) = (storage.clone(), PlaceCache::default());
        let (layout, links) = (layout.clone(), Links::Computed);
        Ok(Self { storage, layout, segments, view, access, places, links })
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

    /// Everything from record `from` on: records, and damage where it stands.
    #[must_use]
    pub fn walk(&self, from: u64) -> Walk<'_> {
        Walk::new(self, from)
    }

    /// The durable records from `from` on.
    ///
    /// # Errors
    /// `Corrupt` at the first damage, naming the place; `Io`.
    pub fn records(&self, from: u64) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        durable(self.walk(from))
    }

    /// Everything up to record `from`, newest first: the items of [`LogReader::walk`] in the
    /// opposite order. Of a damaged log, which intact records are called
    /// [`Proof::BehindDamage`] may differ.
    #[must_use]
    pub fn walk_back(&self, from: u64) -> WalkBack<'_> {
        WalkBack::new(self, from)
    }

    /// The durable records from `from` back to the first.
    ///
    /// # Errors
    /// `Corrupt` at the first damage, naming the place; `Io`.
    pub fn records_back(&self, from: u64) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        let is_durable = |item: &Result<Item>| {
            !matches!(item, Ok(Item::Record(_, Proof::Unproven) | Item::OpenEnd { .. }))
        };
        durable(self.walk_back(from).filter(is_durable))
    }

    /// The records of a kind from record `from` on, and every damage that may have held one. In
    /// sealed segments only those records are read.
    #[must_use]
    pub fn walk_of_kind(&self, kind: u16, from: u64) -> Selection<'_> {
        Selection::new(self, Wanted::Kind(kind), from)
    }

    /// The records of a stream from record `from` on, and every damage that may have held one. In
    /// segments that were sealed with the same rule only those records are read.
    #[must_use]
    pub fn walk_of_stream(&self, stream: u64, streams: StreamOf, from: u64) -> Selection<'_> {
        Selection::new(self, Wanted::Stream(stream, streams), from)
    }

    /// The durable records of a kind from record `from` on.
    ///
    /// # Errors
    /// `Corrupt` at the first damage that may have held one; `Io`.
    pub fn records_of_kind(
        &self,
        kind: u16,
        from: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        durable(self.walk_of_kind(kind, from))
    }

    /// The durable records of a stream from record `from` on.
    ///
    /// # Errors
    /// `Corrupt` at the first damage that may have held one; `Io`.
    pub fn records_of_stream(
        &self,
        stream: u64,
        streams: StreamOf,
        from: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        durable(self.walk_of_stream(stream, streams, from))
    }

    /// One durable record; `None` if there is none of that number yet. Where its segment has no
    /// index, the segment is walked over once for all later calls of this reader.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged or missing; `Io`.
    pub fn record(&self, seq: u64) -> Result<Option<LoggedRecord>> {
        for item in Walk::with_places(self, seq) {
            match item? {
                Item::Record(record, Proof::Proven | Proof::BehindDamage) => {
                    return Ok(Some(record).filter(|record| record.seq == seq));
                }
                Item::Damage(damage) if (damage.first_seq..=damage.last_seq).contains(&seq) => {
                    return Err(damage.into_error());
                }
                Item::Record(..) | Item::OpenEnd { .. } => return Ok(None),
                Item::Damage(_) | Item::Derived(_) => {}
            }
        }
        Ok(None)
    }

    /// Wait for records as they become durable, from record `from` on, while a writer, of this
    /// process or another one, goes on.
    #[must_use]
    pub fn follow(&self, from: u64) -> Follow {
        Follow::new(self, from)
    }
}

/// The durable records among some items, up to the first damage.
pub(super) fn durable<'a>(
    mut items: impl Iterator<Item = Result<Item>> + 'a,
) -> impl Iterator<Item = Result<LoggedRecord>> + 'a {
    let mut is_over = false;
    std::iter::from_fn(move || {
        while !is_over {
            let item = match items.next()? {
                Ok(Item::Record(_, Proof::Unproven) | Item::OpenEnd { .. }) => None,
                Ok(Item::Derived(_)) => continue,
                Ok(Item::Record(record, _)) => Some(Ok(record)),
                Ok(Item::Damage(damage)) => Some(Err(damage.into_error())),
                Err(error) => Some(Err(error)),
            };
            is_over = !matches!(item, Some(Ok(_)));
            return item;
        }
        None
    })
}
