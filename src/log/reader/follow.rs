//! Following a log while it grows, from the writer's process or another one, without the lock.
//!
//! Invariants:
//! - Only records up to the durable end in HEAD are returned, each once and in order: across
//!   rotations, fences and a killed writer.
//! - The newest segment is never read twice: only the bytes that HEAD has newly covered are read.
//! - Nothing is written. A folder that was moved or replaced is noticed: files are opened by path, since
//!   no folder is kept open.
//!
//! It polls HEAD and sleeps between two polls, for at most [`PAUSE_MAX`]. It stops at damage; a new
//! follower can start after it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Advice, Error, ErrorKind, Result};
use crate::format::{Chain, Head, SegmentHeader, SegmentName};
use crate::log::errors::damaged;
use crate::log::folder::{LedgerPaths, check_folder, read_head};
use crate::log::record::{LogItem, LoggedRecord};
use crate::log::segment::{FramePosition, Scan, SegmentBytes, read_header};
use crate::storage::{Access, EntryKind, Storage};

use super::log_reader::LogReader;
use super::seek::seek;
use super::sequence::{SegmentSequence, SequenceItem};

impl LogReader {
    /// Wait for records as they become durable, from record `from` on, while a writer in this or
    /// another process appends.
    #[must_use]
    pub fn follow(&self, from: u64) -> LogFollower {
        LogFollower::new(self, from)
    }
}

/// Pause between two polls of HEAD; doubled up to the maximum while nothing changes.
const PAUSE_MIN: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Waits for records as they become durable.
#[derive(Debug)]
pub struct LogFollower {
    storage: Arc<dyn Storage>,
    paths: LedgerPaths,
    /// The next record to return.
    next_seq: u64,
    /// Chain value of the last returned record.
    chain: Option<Chain>,
    head: Option<Head>,
    position: Option<FollowPosition>,
}

/// A position in a segment.
#[derive(Debug)]
struct FollowPosition {
    header: SegmentHeader,
    path: PathBuf,
    at: FramePosition,
    /// `None` after an error: the file is opened again.
    scan: Option<Scan>,
    /// The successor, once HEAD is beyond this segment.
    next: Option<SegmentHeader>,
}

enum PollResult {
    Record(Box<LoggedRecord>),
    /// Something changed: poll again.
    Changed,
    /// HEAD covers no further record.
    Nothing,
}

impl LogFollower {
    pub(crate) fn new(reader: &LogReader, from: u64) -> Self {
        Self {
            storage: reader.by_path.clone(),
            paths: reader.paths.clone(),
            next_seq: from.max(1),
            chain: None,
            head: None,
            position: None,
        }
    }

    /// The next durable record; `None` if there is none within `timeout`. A timeout of zero polls
    /// once.
    ///
    /// After an error the next call tries the same record again.
    ///
    /// # Errors
    /// `Pruned`: the log no longer holds the next record. `Corrupt`: it is damaged or missing.
    /// `Tampered`: the log differs from what was returned. Without waiting for the timeout:
    /// `NotALedger` if the folder is gone, `Ambiguous` if HEAD is missing or damaged. `Io`.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<LoggedRecord>> {
        let deadline = Instant::now().checked_add(timeout);
        let mut pause = PAUSE_MIN;
        loop {
            let poll = self.poll();
            if poll.is_err()
                && let Some(position) = &mut self.position
            {
                position.scan = None;
            }
            if poll.is_err() {
                self.check_unpruned()?;
            }
            match poll? {
                PollResult::Record(record) => return Ok(Some(*record)),
                PollResult::Changed => continue,
                PollResult::Nothing => {}
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// If the record was pruned after it was searched for, this is the error to report.
    fn check_unpruned(&self) -> Result<()> {
        match LogReader::open(&self.storage, self.paths.dir()) {
            Ok(reader) => reader.check_unpruned(self.next_seq),
            Err(_) => Ok(()),
        }
    }

    /// The error for a HEAD without a valid slot. Neither a writer nor a prune leaves HEAD in this
    /// state, even temporarily.
    fn invalid_head(&self) -> Error {
        if let Err(error) = check_folder(&*self.storage, &self.paths) {
            return error;
        }
        Error::new(
            ErrorKind::Ambiguous,
            "both slots of HEAD are missing or damaged, so the durable end is unknown",
        )
        .with_advice(Advice::ReadIntact)
        .at_path(&self.paths.head())
    }

    fn poll(&mut self) -> Result<PollResult> {
        let Some(position) = &mut self.position else { return self.start() };
        let end = position.end(self.head.as_ref());
        if position.at.offset < end {
            let before = position.at;
            let record = position.read(&*self.storage, end)?;
            let taken = self.accept(record);
            if taken.is_err()
                && let Some(position) = &mut self.position
            {
                // Otherwise the next call would continue after the fault.
                position.at = before;
            }
            return taken;
        }
        if let Some(next) = &position.next {
            let next = next.clone();
            return self.switch_segment(next);
        }
        if let Some(head) = &self.head {
            position.check_agrees_with_head(head)?;
        }
        self.poll_head()
    }

    /// Read HEAD. A slot that is being written is invalid; the other one is used.
    fn poll_head(&mut self) -> Result<PollResult> {
        let head_slots = read_head(&*self.storage, &self.paths)?;
        let Some(head) = head_slots.newest().map(|(_, head)| head) else {
            return Err(self.invalid_head());
        };
        if self.head.as_ref() == Some(head) {
            return Ok(PollResult::Nothing);
        }
        if let Some(position) = &mut self.position {
            let header = &position.header;
            if head.ledger != header.ledger
                || (head.ordinal == header.ordinal && head.segment != header.segment)
            {
                return Err(log_replaced(&position.path, position.at));
            }
            if head.ordinal > header.ordinal {
                position.next = Some(successor(&*self.storage, &self.paths, position)?);
            }
            // The window may hold bytes from before the write that HEAD has newly covered.
            if let Some(scan) = &mut position.scan {
                scan.source.refresh();
            }
        }
        // Only now: a fault must be found again by the next poll.
        self.head = Some(head.clone());
        Ok(PollResult::Changed)
    }

    /// Find the position of the next record, once HEAD has reached its segment.
    fn start(&mut self) -> Result<PollResult> {
        let reader = LogReader::open(&self.storage, self.paths.dir())?;
        reader.check_unpruned(self.next_seq)?;
        let Some(head) = reader.head() else { return Err(self.invalid_head()) };
        self.head = Some(head.clone());
        let segment = match SegmentSequence::new(&reader, self.next_seq).next().transpose()? {
            Some(SequenceItem::Segment(segment)) => segment,
            Some(SequenceItem::Anomaly(LogItem::Damage(damage))) => return Err(damage.into_error()),
            _ => return Ok(PollResult::Nothing),
        };
        let header = segment.segment.header.clone();
        if header.ordinal > head.ordinal {
            return Ok(PollResult::Nothing);
        }
        let mut cursor = segment.cursor()?;
        seek(&reader, &segment, &mut cursor, self.next_seq)?;
        self.move_to(header, segment.path.to_owned(), cursor.resume_point().at)
    }

    /// Continue at a position.
    fn move_to(
        &mut self,
        header: SegmentHeader,
        path: PathBuf,
        at: FramePosition,
    ) -> Result<PollResult> {
        let mut position = FollowPosition { header, path, at, scan: None, next: None };
        if self.head.as_ref().is_some_and(|head| head.ordinal > position.header.ordinal) {
            position.next = Some(successor(&*self.storage, &self.paths, &position)?);
        }
        self.position = Some(position);
        Ok(PollResult::Changed)
    }

    /// Return a record, unless it was already returned before a fence copied it to a new segment.
    fn accept(&mut self, record: LoggedRecord) -> Result<PollResult> {
        let before = self.next_seq.saturating_sub(1);
        if record.seq == before && self.chain.is_some_and(|chain| chain != record.chain) {
            let path =
                self.position.as_ref().map(|position| position.path.clone()).unwrap_or_default();
            let at = FramePosition { offset: record.offset, next_seq: record.seq, chain: None };
            return Err(log_replaced(&path, at));
        }
        if record.seq < self.next_seq {
            return Ok(PollResult::Changed);
        }
        self.next_seq = record.seq.saturating_add(1);
        self.chain = Some(record.chain);
        Ok(PollResult::Record(Box::new(record)))
    }

    /// Continue in the successor of the current segment.
    fn switch_segment(&mut self, header: SegmentHeader) -> Result<PollResult> {
        let Some(position) = &self.position else { return Ok(PollResult::Changed) };
        let at = FramePosition::start(&header);
        if at.next_seq > position.at.next_seq {
            let what = "acknowledged records are missing at the end of the segment";
            return Err(damaged(&position.path, position.at.offset, position.at.next_seq, what));
        }
        if at.next_seq == position.at.next_seq
            && position.at.chain.is_some_and(|it| Some(it) != at.chain)
        {
            return Err(log_replaced(&position.path, position.at));
        }
        let path = self.paths.segment(header.name());
        self.move_to(header, path, at)
    }
}

impl FollowPosition {
    /// The durable end of the segment.
    fn end(&self, head: Option<&Head>) -> u64 {
        if let Some(next) = &self.next {
            return next.prev_data_end;
        }
        mutant!(FollowerReadsPastHead => return self.header.prealloc_len);
        // HEAD may be older than the records already read: a power loss can revert it.
        let here = head.filter(|head| head.segment == self.header.segment);
        here.map_or(0, |head| head.data_end)
    }

    /// If HEAD is at this position, check that it names the same last record.
    fn check_agrees_with_head(&self, head: &Head) -> Result<()> {
        let is_here = head.segment == self.header.segment && head.data_end == self.at.offset;
        let is_same = Some(self.at.next_seq) == head.durable_seq.checked_add(1)
            && self.at.chain.is_none_or(|chain| chain == head.chain);
        if is_here && !is_same { Err(log_replaced(&self.path, self.at)) } else { Ok(()) }
    }

    fn read(&mut self, storage: &dyn Storage, end: u64) -> Result<LoggedRecord> {
        let io = |error| Error::io("read a record", &self.path, error).at_offset(self.at.offset);
        let scan = match &mut self.scan {
            Some(scan) => scan,
            none => {
                let file = storage.open(&self.path, Access::Read).map_err(io)?;
                none.insert(Scan::new(SegmentBytes::windowed(file), &self.header, end))
            }
        };
        scan.end = end;
        let at = self.at;
        let found = scan
            .next(&mut self.at)
            .map_err(|error| Error::io("read a record", &self.path, error).at_offset(at.offset))?;
        match found {
            Ok(found) => Ok(found.into_owned()),
            Err(fault) => Err(damaged(&self.path, at.offset, at.next_seq, fault.describe())),
        }
    }
}

/// The successor of the segment of a position. It exists, because HEAD is beyond this segment.
fn successor(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    position: &FollowPosition,
) -> Result<SegmentHeader> {
    let folder = paths.log();
    let entries =
        storage.list(&folder).map_err(|error| Error::io("list the folder", &folder, error))?;
    let ordinal = position.header.ordinal.checked_add(1);
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        if SegmentName::parse(&entry.name).is_some_and(|name| Some(name.ordinal) == ordinal)
            && let Ok(segment) = read_header(storage, &folder.join(&entry.name))?
            && segment.header.prev_segment == position.header.segment
            && segment.header.name().to_string() == entry.name
        {
            return Ok(segment.header);
        }
    }
    let what = format!("segment {} is missing or damaged", ordinal.unwrap_or(u64::MAX));
    Err(damaged(&folder, 0, position.at.next_seq, &what))
}

fn log_replaced(path: &std::path::Path, at: FramePosition) -> Error {
    let what = "the log is not the one that was followed: its content differs from the records that were read";
    Error::new(ErrorKind::Tampered, what)
        .with_advice(Advice::ReadIntact)
        .at_path(path)
        .at_offset(at.offset)
        .at_seq(at.next_seq)
}
