//! The segments in a log's folder: names and headers, where the log starts and ends, and whether
//! each segment follows from the one before.

use std::path::{Path, PathBuf};

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::format::{Head, HeaderFault, SegmentHeader, SegmentName};
use crate::log::errors::{IS_ALONE, damaged, is_missing, needs_ledger};
use crate::log::folder::{DATA_START, LedgerPaths, is_temporary};
use crate::log::notes::LoggedRetentionNote;
use crate::storage::{EntryKind, Storage};

use super::entry::{Segment, SegmentEntry, read_header, valid_segment};
use super::footer::{SealState, read_seal_state};
#[cfg(feature = "ledger")]
use super::manifest::ArchiveManifest;
use super::start::{LogStart, find_retention_note};

/// All segments of a log, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segments {
    pub(crate) folder: PathBuf,
    pub(crate) list: Vec<SegmentEntry>,
    /// Names of unknown files in the folder.
    pub(crate) unknown_files: Vec<String>,
    /// The required first segment.
    pub(crate) start: LogStart,
    /// The note that makes the log start later than segment 0, now or after an interrupted prune is
    /// completed.
    pub(crate) retention: Option<LoggedRetentionNote>,
    /// In an archive: the header that a successor of the last segment would have.
    pub(crate) end: Option<SegmentHeader>,
}

/// How often the folder is listed again because a listed file disappeared during a prune.
const LISTINGS_MAX: usize = 1000;

impl Segments {
    /// List the folder, read every header, and determine where the log starts. `known` is the
    /// newest retention note, if the caller knows it.
    pub(crate) fn list(
        storage: &dyn Storage,
        paths: &LedgerPaths,
        known: Option<&LoggedRetentionNote>,
    ) -> Result<Self> {
        let mut left = LISTINGS_MAX;
        loop {
            left -= 1;
            match Self::list_once(storage, paths, known) {
                Err(error) if is_missing(&error) && left > 0 => {}
                listed => return listed,
            }
        }
    }

    fn list_once(
        storage: &dyn Storage,
        paths: &LedgerPaths,
        known: Option<&LoggedRetentionNote>,
    ) -> Result<Self> {
        let mut segments = Self::files(storage, paths)?;
        segments.retention = known.cloned();
        let Some(first) = segments.list.first().map(|(name, _, _)| *name) else {
            return Ok(segments);
        };
        if first.ordinal > 0 {
            if IS_ALONE {
                return Err(needs_ledger("the log was pruned").at_path(&segments.folder));
            }
            if segments.retention.is_none() {
                segments.retention = find_retention_note(storage, &segments.list)?;
            }
            let note = segments.retention.as_ref();
            segments.start =
                note.map(|note| LogStart::after_prune(first, note)).unwrap_or_default();
        }
        Ok(segments)
    }

    /// The segments of an archive; its manifest names the start and end.
    #[cfg(feature = "ledger")]
    pub(crate) fn of_archive(
        storage: &dyn Storage,
        paths: &LedgerPaths,
        manifest: &ArchiveManifest,
        head: Option<&Head>,
    ) -> Result<Self> {
        let mut segments = Self::files(storage, paths)?;
        segments.start = manifest.start();
        segments.end = manifest.end(segments.list.last(), head);
        Ok(segments)
    }

    /// List the folder and read every header.
    fn files(storage: &dyn Storage, paths: &LedgerPaths) -> Result<Self> {
        let folder = paths.log();
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
                _ => segments.unknown_files.push(entry.name),
            }
        }
        segments.list.sort_by_key(|(name, _, _)| *name);
        Ok(segments)
    }

    /// The first valid segment with this ordinal.
    pub(crate) fn with_ordinal(&self, ordinal: u64) -> Option<&Segment> {
        self.list.iter().filter_map(valid_segment).find(|segment| segment.header.ordinal == ordinal)
    }

    /// The header of the successor; its file may have any name.
    pub(crate) fn successor(&self, header: &SegmentHeader) -> Option<&SegmentHeader> {
        let intact = self.list.iter().filter_map(|(_, _, read)| read.as_ref().ok());
        intact.map(|segment| &segment.header).chain(&self.end).find(|next| {
            next.prev_segment == header.segment
                && Some(next.ordinal) == header.ordinal.checked_add(1)
        })
    }

    /// Whether a segment is sealed, and its footer.
    pub(crate) fn seal_state(
        &self,
        storage: &dyn Storage,
        path: &Path,
        segment: &Segment,
    ) -> Result<SealState> {
        let Segment { header, length, .. } = segment;
        read_seal_state(storage, path, header, *length, self.successor(header))
    }

    /// Whether HEAD names a position in a segment that has a successor, and contradicts the
    /// successor's header. A crash may leave HEAD there, stale but without contradiction.
    pub(crate) fn contradicts(&self, head: &Head) -> bool {
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

    /// The newest segment, if every header is valid and follows from the one before.
    pub(crate) fn newest_if_linked(&self) -> Result<&Segment> {
        let mut previous: Option<&Segment> = None;
        for (index, (name, path, read)) in self.list.iter().enumerate() {
            let segment = match read {
                Ok(segment) => segment,
                Err(fault) => return Err(header_error(path, fault)),
            };
            if let Some(fault) = &segment.fault {
                return Err(header_error(path, fault));
            }
            if segment.header.ro_compat != 0 {
                return Err(unknown_features(path, segment.header.ro_compat));
            }
            let ordinal = u64::try_from(index).unwrap_or(u64::MAX);
            let ordinal = ordinal.saturating_add(self.start.ordinal);
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
                "there is no segment, but a ledger always has one; restore it from a copy",
            )
            .at_path(&self.folder)
        })
    }
}

/// Added to the report of segments that are missing before the first one.
pub(crate) const NO_NOTE: &str = ", and no readable retention note says that it was pruned";

impl Segments {
    /// The fault in a segment's place after another one, or at the start of the log, if any.
    pub(crate) fn link_problem(
        &self,
        name: SegmentName,
        ordinal: u64,
        previous: Option<&Segment>,
        segment: &Segment,
    ) -> Option<String> {
        let header = &segment.header;
        if header.name() != name {
            return Some(format!(
                "the file is named {name}, but its header says {}",
                header.name()
            ));
        }
        mutant!(MissingSegmentSkipped => return None);
        if header.ordinal != ordinal {
            let note = if previous.is_none() { NO_NOTE } else { "" };
            return Some(format!(
                "segment {ordinal} is missing{note}: expected it here, found segment {}",
                header.ordinal
            ));
        }
        let Some(Segment { header: previous, .. }) = previous else {
            return self.start.problem(header);
        };
        mutant!(StaleSegmentAccepted => return None);
        let is_next = header.ledger == previous.ledger
            && header.genesis == previous.genesis
            && header.prev_segment == previous.segment
            && Some(header.base_seq) == header.prev_last_seq.checked_add(1)
            && header.base_seq >= previous.base_seq
            && header.writer_epoch >= previous.writer_epoch
            && header.prev_data_end >= previous.born_end.max(DATA_START)
            && header.prev_data_end <= previous.prealloc_len;
        (!is_next).then(|| {
            format!(
                "the segment does not follow from segment {}: its links differ",
                previous.ordinal
            )
        })
    }
}

/// The fault in the length of a segment with a successor, if any.
fn length_problem(previous: &Segment, next: &Segment) -> Option<String> {
    mutant!(TruncatedSegmentAccepted => return None);
    (previous.length < next.header.prev_data_end).then(|| {
        format!(
            "the file is truncated: expected at least {} bytes, found {}",
            next.header.prev_data_end, previous.length
        )
    })
}

/// Readers may use the segment; a writer needs features that this version lacks.
fn unknown_features(path: &Path, flags: u32) -> Error {
    let message = format!("writing needs unknown features (ro-compat flags {flags:#x})");
    Error::new(ErrorKind::Unsupported, message)
        .with_advice(Advice::UseNewerVersion)
        .at_path(path)
        .at_offset(0)
}

fn header_error(path: &Path, fault: &HeaderFault) -> Error {
    if fault.is_version() {
        return Error::new(ErrorKind::Unsupported, fault.to_string()).at_path(path).at_offset(0);
    }
    Error::new(ErrorKind::Corrupt, fault.to_string())
        .with_advice(Advice::ReadIntact)
        .at_path(path)
        .at_offset(0)
}
