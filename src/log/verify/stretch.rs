//! A part of a log that can be verified on its own: from a segment up to the next one that is
//! linked on both sides.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind};
use crate::format::{HeaderFault, SEGMENT_HEADER_SIZE};
use crate::log::batch::Ack;
use crate::log::reader::LogReader;
use crate::log::segments::{Segments, good};
use crate::log::walk::{Damage, Item, LoggedRecord, Proof};

use super::expect::Seen;
use super::finding::{Class, Finding};
use super::{Counts, FINDINGS_MAX, Shared};

/// Where a stretch begins and ends.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    /// The first record of its first segment, or of a piece of it.
    pub(super) from: u64,
    /// For a piece: the record before which it ends.
    pub(super) until: Option<u64>,
    /// The first segment of the next stretch: its file, its ordinal, its first record.
    pub(super) next: Option<(PathBuf, u64, u64)>,
    /// How many files begin in it.
    pub(super) segments: u64,
    /// Their length together.
    pub(super) length: u64,
}

/// What walking over a stretch came to.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) findings: Vec<Finding>,
    pub(super) omitted: u64,
    pub(super) counts: Counts,
    /// The last durable record.
    pub(super) last: Option<Ack>,
    /// Times of the first and of the last record, and where they are.
    times: Option<(Stamp, Stamp)>,
    /// Behind the last record: ordinal and offset.
    pub(super) reached: Option<(u64, u64)>,
    pub(super) seen: Seen,
}

#[derive(Debug, Clone, Copy)]
struct Stamp {
    seq: u64,
    time: u64,
    batch_left: u16,
    segment: u64,
    offset: u64,
    size: u64,
}

/// Cut a log. The first stretch takes what stands before the first good cut, however odd.
pub(super) fn cut(reader: &LogReader) -> Vec<Stretch> {
    let list = &reader.segments.list;
    let mut stretches: Vec<Stretch> = Vec::new();
    for (place, entry) in list.iter().enumerate() {
        let (name, path, read) = entry;
        let length = read.as_ref().map_or(0, |segment| segment.length);
        let is_first = stretches.is_empty();
        if is_first || is_cut(&reader.segments, place) {
            let from = if is_first { reader.first_seq() } else { name.base_seq };
            if let Some(before) = stretches.last_mut() {
                before.next = Some((path.clone(), name.ordinal, name.base_seq));
            }
            stretches.push(Stretch { from, until: None, next: None, segments: 0, length: 0 });
        }
        if let Some(stretch) = stretches.last_mut() {
            stretch.segments += 1;
            stretch.length = stretch.length.saturating_add(length);
        }
    }
    if stretches.is_empty() {
        let from = reader.first_seq();
        stretches.push(Stretch { from, until: None, next: None, segments: 0, length: 0 });
    }
    stretches
}

/// Whether a walk may begin at the segment in that place, and another one end there: it follows
/// from the one before, the next one follows from it, and a walk from its first record begins in
/// it and has something to say about it.
fn is_cut(segments: &Segments, place: usize) -> bool {
    let list = &segments.list;
    let at = |place: Option<usize>| place.and_then(|place| list.get(place));
    let before = at(place.checked_sub(1));
    let (Some(before), Some(here), Some(behind)) =
        (before, at(Some(place)), at(place.checked_add(1)))
    else {
        return false;
    };
    let (Some(one), Some(two), Some(three)) = (good(before), good(here), good(behind)) else {
        return false;
    };
    let follows = |name, before: &_, segment: &crate::log::segments::Segment| {
        let ordinal = segment.header.ordinal;
        segments.link_problem(name, ordinal, Some(before), segment).is_none()
    };
    let base_seq = two.header.base_seq;
    let starts = |entry: &crate::log::segments::Entry| {
        good(entry).is_some_and(|each| each.header.base_seq <= base_seq)
    };
    Some(two.header.ordinal) == one.header.ordinal.checked_add(1)
        && Some(three.header.ordinal) == two.header.ordinal.checked_add(1)
        && follows(here.0, one, two)
        && follows(behind.0, two, three)
        && list.iter().rposition(starts) == Some(place)
}

impl Stretch {
    fn ends_before(&self, record: &LoggedRecord<&[u8]>) -> bool {
        self.next.as_ref().is_some_and(|next| record.segment >= next.1)
            || self.until.is_some_and(|until| record.seq >= until)
    }
}

/// How many bytes are walked over between two calls of the watch.
const WATCH_STEP: u64 = 1 << 20;

/// Verify one stretch.
pub(super) fn walk(shared: &Shared<'_>, stretch: &Stretch) -> Walked {
    let mut walked = Walked::default();
    walked.counts.segments = stretch.segments;
    let next = stretch.next.as_ref();
    let (mut pending, mut told) = (0_u64, 0_u64);
    let mut walk = shared.reader.walk(stretch.from);
    while let Some(item) = walk.pass() {
        if shared.tally.is_stopped() {
            break;
        }
        match item {
            Ok(Item::Record(ref record, _)) if stretch.ends_before(record) => break,
            Ok(Item::Damage(damage)) if next.is_some_and(|next| damage.path == next.0) => break,
            Ok(Item::Derived(damage)) if next.is_some_and(|next| damage.path == next.0) => break,
            Ok(Item::Record(ref record, proof)) => {
                pending = pending.saturating_add(record.size);
                walked.record(shared, record, proof);
            }
            Ok(Item::Damage(damage)) => {
                pending = pending.saturating_add(damage.end.saturating_sub(damage.offset));
                walked.damage(shared, damage);
            }
            Ok(Item::Derived(damage)) => walked.keep(damage.into()),
            // What stands behind the last record is looked at as a whole.
            Ok(Item::OpenEnd { .. }) => {}
            Err(error) => {
                walked.unreadable(&error, stretch);
                break;
            }
        }
        if pending >= WATCH_STEP {
            told = told.saturating_add(pending);
            shared.tally.advance(std::mem::take(&mut pending));
        }
    }
    shared.tally.advance(stretch.length.saturating_sub(told));
    walked
}

/// Time never goes back, not from one stretch to the next either.
pub(super) fn junction(reader: &LogReader, before: &Walked, behind: &Walked) -> Option<Finding> {
    let ((_, last), (first, _)) = (before.times?, behind.times?);
    let goes_back = last.seq.checked_add(1) == Some(first.seq) && first.time < last.time;
    let what = "intact record whose time is before that of the record before";
    goes_back.then(|| broken(path_of(reader, first.segment), first, what))
}

fn broken(path: PathBuf, stamp: Stamp, what: &str) -> Finding {
    let (offset, end) = (stamp.offset, stamp.offset.saturating_add(stamp.size));
    let what = format!("record {}: {what}", stamp.seq);
    Finding { class: Class::Damage, path, offset, end, missing: None, what }
}

impl Walked {
    /// Whether it is what a walk would have come by that had gone on where another one ended: that
    /// one found nothing, and its last record is the one before the first one here.
    pub(super) fn continues(&self, before: &Self) -> bool {
        bug!(PiecesTrusted => return true);
        let (Some((_, last)), Some((first, _))) = (before.times, self.times) else { return false };
        before.findings.is_empty()
            && before.omitted == 0
            && before.reached == Some((first.segment, first.offset))
            && last.seq.checked_add(1) == Some(first.seq)
            && succession(last, first).is_empty()
    }

    /// What both came by.
    pub(super) fn and(mut self, behind: Self) -> Self {
        self.findings.extend(behind.findings);
        self.omitted += behind.omitted;
        self.counts.add(behind.counts);
        self.last = behind.last.or(self.last);
        self.times = match (self.times, behind.times) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (before, behind) => before.or(behind),
        };
        self.reached = behind.reached.or(self.reached);
        self.seen.add(behind.seen);
        self
    }

    fn keep(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.omitted += 1;
        }
    }

    fn record(&mut self, shared: &Shared<'_>, record: &LoggedRecord<&[u8]>, proof: Proof) {
        let stamp = Stamp {
            seq: record.seq,
            time: record.time,
            batch_left: record.batch_left,
            segment: record.segment,
            offset: record.offset,
            size: record.size,
        };
        self.counts.records += 1;
        self.counts.unproven += u64::from(proof == Proof::Unproven);
        self.counts.frame_bytes = self.counts.frame_bytes.saturating_add(record.size);
        let path = || path_of(shared.reader, record.segment);
        let previous = self.times.map(|(_, last)| last);
        for what in rules(previous, stamp, record) {
            self.keep(broken(path(), stamp, what));
        }
        if let Some(error) = (shared.options.examine)(record) {
            let is_newer = error.kind() == ErrorKind::Unsupported;
            let class = if is_newer { Class::Newer } else { Class::Damage };
            let place = broken(path(), stamp, "");
            self.keep(Finding { class, what: error.to_string(), ..place });
        }
        if let Some(head) = shared.reader.head()
            && head.durable_seq == record.seq
            && head.ordinal == record.segment
            && record.batch_left > 0
        {
            self.keep(broken(
                path(),
                stamp,
                "HEAD names it as the last durable one, in the middle of a batch",
            ));
        }
        let first = self.times.map_or(stamp, |(first, _)| first);
        self.times = Some((first, stamp));
        self.reached = Some((record.segment, record.offset.saturating_add(record.size)));
        if proof != Proof::Unproven {
            self.last = Some(Ack { seq: record.seq, chain: record.chain });
        }
        let expected = shared.options.expected;
        self.seen.add(Seen(expected.and_then(|each| each.look(record.seq, record.chain))));
    }

    fn damage(&mut self, shared: &Shared<'_>, damage: Damage) {
        let mut finding = Finding::from(damage);
        let mut entries = shared.reader.segments.list.iter();
        // A damaged header is named as a whole: its sums do not say which of its bytes it is.
        if finding.end == 0 && entries.any(|(_, path, read)| *path == finding.path && read.is_err())
        {
            finding.end = u64::try_from(SEGMENT_HEADER_SIZE).unwrap_or(u64::MAX);
        }
        let class =
            if is_newer(shared.reader, &finding.path) { Class::Newer } else { Class::Damage };
        self.keep(Finding { class, ..finding });
    }

    /// The disk cannot read on: the rest of the stretch is lost to us.
    fn unreadable(&mut self, error: &Error, stretch: &Stretch) {
        let finding = Finding::of_error(Class::Damage, error);
        let first = self.times.map_or(stretch.from, |(_, last)| last.seq.saturating_add(1));
        let last = stretch.next.as_ref().map(|(_, _, base_seq)| base_seq.saturating_sub(1));
        let missing = last.filter(|last| first <= *last).map(|last| first..=last);
        self.keep(Finding { missing, ..finding });
    }
}

/// The rules that a record breaks although its bytes are intact.
fn rules(previous: Option<Stamp>, stamp: Stamp, record: &LoggedRecord<&[u8]>) -> Vec<&'static str> {
    let mut broken = Vec::new();
    if record.kind == 0 || record.schema == 0 {
        broken.push("intact record with a kind or schema of 0");
    }
    // Behind damage nothing is known about the record before.
    let previous = previous.filter(|each| each.seq.checked_add(1) == Some(stamp.seq));
    broken.extend(previous.into_iter().flat_map(|previous| succession(previous, stamp)));
    broken
}

/// The rules that a record breaks as the one behind another.
fn succession(previous: Stamp, stamp: Stamp) -> Vec<&'static str> {
    let mut broken = Vec::new();
    if stamp.time < previous.time {
        broken.push("intact record whose time is before that of the record before");
    }
    if let Some(left) = previous.batch_left.checked_sub(1)
        && (stamp.batch_left != left || stamp.segment != previous.segment)
    {
        broken.push("intact record that does not continue the batch of the record before");
    }
    broken
}

fn path_of(reader: &LogReader, ordinal: u64) -> PathBuf {
    let segments = reader.segments.list.iter();
    let own = segments.filter(|entry| entry.0.ordinal == ordinal && good(entry).is_some());
    own.map(|(_, path, _)| path.clone()).next().unwrap_or_else(|| reader.segments.folder.clone())
}

/// Whether a file is intact as far as can be told, and a newer program wrote it.
fn is_newer(reader: &LogReader, path: &Path) -> bool {
    reader
        .segments
        .list
        .iter()
        .any(|(_, each, read)| each == path && read.as_ref().is_err_and(HeaderFault::is_version))
}
