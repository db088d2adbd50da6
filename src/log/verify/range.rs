//! Ranges of a log that can be verified independently: from a segment up to the next one that is
//! linked on both sides.

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};
use crate::format::{HeaderFault, SEGMENT_HEADER_SIZE};
use crate::log::errors::is_missing;
use crate::log::reader::LogReader;
use crate::log::record::{Ack, Damage, LogItem, LoggedRecord, RecordStatus};
use crate::log::segment::{Segment, SegmentEntry, Segments, valid_segment};

use super::expect::FoundRecord;
use super::finding::{FindingClass, VerifyFinding};
use super::options::{FINDINGS_MAX, VerifyContext, VerifyCounts};
use super::parallel::parallel_map;

/// The bounds of a range.
#[derive(Debug, Clone)]
pub(crate) struct VerifyRange {
    /// The first record of its first segment, or of a piece of it.
    pub(crate) from: u64,
    /// For a piece: the record before which it ends.
    pub(crate) until: Option<u64>,
    /// The first segment of the next range: its file, ordinal and first record.
    pub(crate) next: Option<(PathBuf, u64, u64)>,
    /// Number of files that begin in it.
    pub(crate) segments: u64,
    /// Their total length.
    pub(crate) length: u64,
}

/// The result of walking over a range.
#[derive(Debug, Default)]
pub(crate) struct RangeResult {
    pub(crate) findings: Vec<VerifyFinding>,
    pub(crate) omitted: u64,
    pub(crate) counts: VerifyCounts,
    /// The last durable record.
    pub(crate) last: Option<Ack>,
    /// The first and the last record.
    span: Option<(RecordStamp, RecordStamp)>,
    /// The position after the last record: ordinal and offset.
    pub(crate) reached: Option<(u64, u64)>,
    pub(crate) found: FoundRecord,
    /// A file was gone when it was opened: a prune removed it after the log was listed.
    pub(crate) gone: Option<Error>,
}

/// A record without its payload.
type RecordStamp = LoggedRecord<()>;

/// Split a log into ranges. The first range includes everything before the first possible boundary.
pub(crate) fn split(reader: &LogReader) -> Vec<VerifyRange> {
    let list = &reader.segments.list;
    let mut ranges: Vec<VerifyRange> = Vec::new();
    for (place, entry) in list.iter().enumerate() {
        let (name, path, read) = entry;
        let length = read.as_ref().map_or(0, |segment| segment.length);
        let is_first = ranges.is_empty();
        if is_first || is_boundary(&reader.segments, place) {
            let from = if is_first { reader.first_seq() } else { name.base_seq };
            if let Some(before) = ranges.last_mut() {
                before.next = Some((path.clone(), name.ordinal, name.base_seq));
            }
            ranges.push(VerifyRange { from, until: None, next: None, segments: 0, length: 0 });
        }
        if let Some(range) = ranges.last_mut() {
            range.segments += 1;
            range.length = range.length.saturating_add(length);
        }
    }
    if ranges.is_empty() {
        let from = reader.first_seq();
        ranges.push(VerifyRange { from, until: None, next: None, segments: 0, length: 0 });
    }
    ranges
}

/// Whether a range may begin at the segment at this index: it follows from the one before, the next
/// one follows from it, and a walk from its first record begins in it.
fn is_boundary(segments: &Segments, place: usize) -> bool {
    let list = &segments.list;
    let at = |place: Option<usize>| place.and_then(|place| list.get(place));
    let before = at(place.checked_sub(1));
    let (Some(before), Some(here), Some(after)) =
        (before, at(Some(place)), at(place.checked_add(1)))
    else {
        return false;
    };
    let (Some(one), Some(two), Some(three)) =
        (valid_segment(before), valid_segment(here), valid_segment(after))
    else {
        return false;
    };
    let follows = |name, before: &_, segment: &Segment| {
        let ordinal = segment.header.ordinal;
        segments.link_problem(name, ordinal, Some(before), segment).is_none()
    };
    let base_seq = two.header.base_seq;
    let starts = |entry: &SegmentEntry| {
        valid_segment(entry).is_some_and(|each| each.header.base_seq <= base_seq)
    };
    Some(two.header.ordinal) == one.header.ordinal.checked_add(1)
        && Some(three.header.ordinal) == two.header.ordinal.checked_add(1)
        && follows(here.0, one, two)
        && follows(after.0, two, three)
        && list.iter().rposition(starts) == Some(place)
}

impl VerifyRange {
    fn ends_before(&self, record: &LoggedRecord<&[u8]>) -> bool {
        self.next.as_ref().is_some_and(|next| record.segment >= next.1)
            || self.until.is_some_and(|until| record.seq >= until)
    }
}

/// Number of bytes between two calls of the progress callback.
const WATCH_STEP: u64 = 1 << 20;

pub(crate) fn walk(shared: &VerifyContext<'_>, range: &VerifyRange) -> RangeResult {
    let mut result = RangeResult::default();
    result.counts.segments = range.segments;
    let next = range.next.as_ref();
    let (mut pending, mut reported) = (0_u64, 0_u64);
    let mut walk = shared.reader.walk(range.from);
    while let Some(item) = walk.next_ref() {
        if shared.progress.is_stopped() {
            break;
        }
        match item {
            Ok(LogItem::Record(ref record, _)) if range.ends_before(record) => break,
            Ok(LogItem::Damage(damage)) if next.is_some_and(|next| damage.path == next.0) => break,
            Ok(LogItem::DerivedDamage(damage))
                if next.is_some_and(|next| damage.path == next.0) =>
            {
                break;
            }
            Ok(LogItem::Record(ref record, status)) => {
                pending = pending.saturating_add(record.size);
                result.record(shared, record, status);
            }
            Ok(LogItem::Damage(damage)) => {
                pending = pending.saturating_add(damage.end.saturating_sub(damage.offset));
                result.damage(shared, damage);
            }
            Ok(LogItem::DerivedDamage(damage)) => result.add_finding(damage.into()),
            // The bytes after the last record are checked as a whole.
            Ok(LogItem::OpenEnd { .. }) => {}
            Err(error) if is_missing(&error) => {
                result.gone = Some(error);
                break;
            }
            Err(error) => {
                result.unreadable(&error, range);
                break;
            }
        }
        if pending >= WATCH_STEP {
            reported = reported.saturating_add(pending);
            shared.progress.advance(std::mem::take(&mut pending));
        }
    }
    shared.progress.advance(range.length.saturating_sub(reported));
    result
}

/// Time must not go back from one range to the next.
pub(crate) fn check_boundary(
    reader: &LogReader,
    before: &RangeResult,
    after: &RangeResult,
) -> Option<VerifyFinding> {
    let ((_, last), (first, _)) = (before.span.as_ref()?, after.span.as_ref()?);
    let goes_back = last.seq.checked_add(1) == Some(first.seq) && first.time < last.time;
    let what = "the record is intact, but its time is before that of the previous record";
    goes_back.then(|| record_finding(reader, first, what))
}

fn record_finding(reader: &LogReader, record: &RecordStamp, what: &str) -> VerifyFinding {
    VerifyFinding::at_record(reader, record, &format!("record {}: {what}", record.seq))
}

impl RangeResult {
    /// Whether a walk that continued after `before` would have given this result: `before` has no
    /// findings, and its last record directly precedes the first one here.
    pub(crate) fn continues(&self, before: &Self) -> bool {
        mutant!(RangeBoundaryUnchecked => return true);
        let (Some((_, last)), Some((first, _))) = (&before.span, &self.span) else { return false };
        before.findings.is_empty()
            && before.omitted == 0
            && before.reached == Some((first.segment, first.offset))
            && last.seq.checked_add(1) == Some(first.seq)
            && succession(last, first).is_empty()
    }

    /// Both results together.
    pub(crate) fn merge(mut self, after: Self) -> Self {
        self.findings.extend(after.findings);
        self.omitted += after.omitted;
        self.counts.add(after.counts);
        self.last = after.last.or(self.last);
        self.span = match (self.span, after.span) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (before, after) => before.or(after),
        };
        self.reached = after.reached.or(self.reached);
        self.found.add(after.found);
        self.gone = self.gone.or(after.gone);
        self
    }

    fn add_finding(&mut self, finding: VerifyFinding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.omitted += 1;
        }
    }

    fn record(
        &mut self,
        shared: &VerifyContext<'_>,
        record: &LoggedRecord<&[u8]>,
        status: RecordStatus,
    ) {
        let stamp = record.with_payload(());
        self.counts.records += 1;
        self.counts.unacknowledged += u64::from(status == RecordStatus::Unacknowledged);
        self.counts.frame_bytes = self.counts.frame_bytes.saturating_add(record.size);
        let finding = |what: &str| record_finding(shared.reader, &stamp, what);
        let previous = self.span.as_ref().map(|(_, last)| last);
        for what in rules(previous, &stamp) {
            self.add_finding(finding(what));
        }
        if let Some(error) = (shared.options.check_record)(record) {
            let is_newer = error.kind() == ErrorKind::Unsupported;
            let class = if is_newer { FindingClass::NewerFormat } else { FindingClass::Damage };
            self.add_finding(VerifyFinding { class, what: error.to_string(), ..finding("") });
        }
        if let Some(head) = shared.reader.head()
            && head.durable_seq == record.seq
            && head.ordinal == record.segment
            && record.batch_left > 0
        {
            let what = "HEAD names it as the last durable record, but it is inside a batch";
            self.add_finding(finding(what));
        }
        let first = self.span.take().map_or_else(|| stamp.clone(), |(first, _)| first);
        self.span = Some((first, stamp));
        self.reached = Some((record.segment, record.offset.saturating_add(record.size)));
        if status != RecordStatus::Unacknowledged {
            self.last = Some(Ack { seq: record.seq, chain: record.chain });
        }
        let expected = shared.options.expected;
        self.found
            .add(FoundRecord(expected.and_then(|each| each.candidate(record.seq, record.chain))));
    }

    fn damage(&mut self, shared: &VerifyContext<'_>, damage: Damage) {
        let mut finding = VerifyFinding::from(damage);
        let mut entries = shared.reader.segments.list.iter();
        // A damaged header is reported as a whole: its checksum does not show which bytes are
        // wrong.
        if finding.end == 0 && entries.any(|(_, path, read)| *path == finding.path && read.is_err())
        {
            finding.end = u64::try_from(SEGMENT_HEADER_SIZE).unwrap_or(u64::MAX);
        }
        let class = if is_newer(shared.reader, &finding.path) {
            FindingClass::NewerFormat
        } else {
            FindingClass::Damage
        };
        self.add_finding(VerifyFinding { class, ..finding });
    }

    /// The storage cannot read on, so the rest of the range is missing.
    fn unreadable(&mut self, error: &Error, range: &VerifyRange) {
        let finding = VerifyFinding::of_error(FindingClass::Damage, error);
        let first = self.span.as_ref().map_or(range.from, |(_, last)| last.seq.saturating_add(1));
        let last = range.next.as_ref().map(|(_, _, base_seq)| base_seq.saturating_sub(1));
        let missing = last.filter(|last| first <= *last).map(|last| first..=last);
        self.add_finding(VerifyFinding { missing, ..finding });
    }
}

/// The rules that an intact record breaks.
fn rules(previous: Option<&RecordStamp>, record: &RecordStamp) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if record.kind == 0 || record.schema == 0 {
        faults.push("the record is intact, but has kind or schema 0");
    }
    // After damage nothing is known about the previous record.
    let previous = previous.filter(|each| each.seq.checked_add(1) == Some(record.seq));
    faults.extend(previous.into_iter().flat_map(|previous| succession(previous, record)));
    faults
}

/// The rules that an intact record breaks as the successor of another one.
fn succession(previous: &RecordStamp, record: &RecordStamp) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if record.time < previous.time {
        faults.push("the record is intact, but its time is before that of the previous record");
    }
    if let Some(left) = previous.batch_left.checked_sub(1)
        && (record.batch_left != left || record.segment != previous.segment)
    {
        faults.push("the record is intact, but does not continue the batch of the previous record");
    }
    faults
}

/// Whether a newer program wrote the file.
fn is_newer(reader: &LogReader, path: &Path) -> bool {
    reader
        .segments
        .list
        .iter()
        .any(|(_, each, read)| each == path && read.as_ref().is_err_and(HeaderFault::is_version))
}

pub(crate) fn total_length(ranges: &[VerifyRange]) -> u64 {
    ranges.iter().map(|range| range.length).sum()
}

/// The result of each range; `None` for ranges that were not reached.
pub(crate) fn run(shared: &VerifyContext<'_>, ranges: &[VerifyRange]) -> Vec<Option<RangeResult>> {
    let jobs = shared.options.jobs;
    let mut order: Vec<(usize, &VerifyRange)> = ranges.iter().enumerate().collect();
    if jobs > NonZeroUsize::MIN {
        // The longest first, so that the last one to start does not delay the result.
        order.sort_by_key(|(_, range)| Reverse(range.length));
    }
    let mut result = parallel_map(jobs, order, |(place, range)| {
        (place, (!shared.progress.is_stopped()).then(|| walk(shared, range)))
    });
    result.sort_by_key(|(place, _)| *place);
    result.into_iter().map(|(_, result)| result).collect()
}
