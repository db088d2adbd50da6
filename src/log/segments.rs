//! The segments of a log as they are found in its folder: their names and headers, where the row
//! begins and ends, whether each follows from the one before.
//!
//! Left out on purpose: reading records (`row` and those it feeds).

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Head, HeaderFault, SEGMENT_HEADER_SIZE, SegmentHeader, SegmentName};
use crate::storage::{Access, EntryKind, Storage};

use super::archive::Manifest;
use super::beginning::{Beginning, find_note, is_missing};
use super::layout::{DATA_START, Layout, is_temporary};
use super::open::damaged;
use super::retention::Retention;
use super::sealed::read_replica;

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
    /// Which segment must be the first.
    pub(super) beginning: Beginning,
    /// The note by which that is not segment 0, or is about to be another one.
    pub(super) retention: Option<Retention>,
    /// In an archive, what a segment behind the last one would say.
    pub(super) ending: Option<SegmentHeader>,
}

/// How often a folder is listed anew of which a file went that was listed: a prune goes on.
const LISTINGS_MAX: usize = 1000;

impl Segments {
    /// List the folder, read every header, and find out where the log begins. `known` is the
    /// newest retention note, for who knows it already.
    pub(super) fn list(
        storage: &dyn Storage,
        layout: &Layout,
        known: Option<&Retention>,
    ) -> Result<Self> {
        let mut left = LISTINGS_MAX;
        loop {
            left -= 1;
            match Self::list_once(storage, layout, known) {
                Err(error) if is_missing(&error) && left > 0 => {}
                listed => return listed,
            }
        }
    }

    fn list_once(
        storage: &dyn Storage,
        layout: &Layout,
        known: Option<&Retention>,
    ) -> Result<Self> {
        let mut segments = Self::files(storage, layout)?;
        segments.retention = known.cloned();
        let Some(first) = segments.list.first().map(|(name, _, _)| *name) else {
            return Ok(segments);
        };
        if first.ordinal > 0 {
            if segments.retention.is_none() {
                segments.retention = find_note(storage, &segments)?;
            }
            let covered = segments.retention.as_ref();
            let covered = covered.map(|retention| Beginning::covered(first, retention));
            segments.beginning = covered.unwrap_or_default();
        }
        Ok(segments)
    }

    /// The segments of an archive, which begin and end where its manifest says.
    pub(super) fn of_archive(
        storage: &dyn Storage,
        layout: &Layout,
        manifest: &Manifest,
        head: Option<&Head>,
    ) -> Result<Self> {
        let mut segments = Self::files(storage, layout)?;
        segments.beginning = manifest.beginning();
        segments.ending = manifest.ending(&segments, head);
        Ok(segments)
    }

    /// List the folder and read every header.
    fn files(storage: &dyn Storage, layout: &Layout) -> Result<Self> {
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
        intact.map(|segment| &segment.header).chain(&self.ending).find(|next| {
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
            let ordinal = ordinal.saturating_add(self.beginning.ordinal);
            if let Some(problem) = self.link_problem(*name, ordinal, previous, segment) {
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

impl Segments {
    /// What is wrong with a segment's place in the row, if anything.
    pub(super) fn link_problem(
        &self,
        name: SegmentName,
        ordinal: u64,
        previous: Option<&Segment>,
        segment: &Segment,
    ) -> Option<String> {
        link_problem(name, ordinal, previous.ok_or(&self.beginning), segment)
    }
}

/// What is said of segments that are missing before the first.
pub(super) const NO_NOTE: &str = ", and no retention note that can be read says that it was pruned";

/// What is wrong with a segment's place behind another one, or at the beginning, if anything.
fn link_problem(
    name: SegmentName,
    ordinal: u64,
    previous: std::result::Result<&Segment, &Beginning>,
    segment: &Segment,
) -> Option<String> {
    let header = &segment.header;
    if header.name() != name {
        return Some(format!("the file is named {name}, but its header says {}", header.name()));
    }
    bug!(MissingSegmentSkipped => return None);
    if header.ordinal != ordinal {
        let note = if previous.is_err() { NO_NOTE } else { "" };
        return Some(format!(
            "segment {ordinal} is missing{note}: expected it here, found segment {}",
            header.ordinal
        ));
    }
    let previous = match previous {
        Ok(segment) => &segment.header,
        Err(beginning) => return beginning.problem(header),
    };
    bug!(StaleSegmentAccepted => return None);
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
    bug!(CutSegmentAccepted => return None);
    (previous.length < next.header.prev_data_end).then(|| {
        format!(
            "the file is cut short: expected at least {} bytes, found {}",
            next.header.prev_data_end, previous.length
        )
    })
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
