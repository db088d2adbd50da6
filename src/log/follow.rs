//! Following a log while it grows: in the writer's process or in another one, without its lock.
//!
//! Invariants:
//! - Only what HEAD proves to be durable is returned, each record once and in order: over
//!   rotations, over fences, and when the writer was killed in between.
//! - The newest segment is never read twice: only what HEAD has newly covered is.
//! - Nothing is written.
//!
//! Waiting is `std::thread::sleep`, between looks at HEAD that are at most [`PAUSE_MAX`] apart.
//! Left out on purpose: going on behind damage, which a new `follow` from there does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Head, SegmentHeader, SegmentName};
use crate::storage::{Access, EntryKind, Storage};

use super::head_file::read_head;
use super::layout::Layout;
use super::open::damaged;
use super::reader::{LogReader, expect_ledger};
use super::row::{Next, Row};
use super::scan::{Position, Scan, Source};
use super::segment_walk::logged;
use super::segments::read_header;
use super::walk::{Item, LoggedRecord};

/// From one look at HEAD to the next; doubled up to the maximum as long as nothing comes.
const PAUSE_MIN: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Waits for records as they become durable.
#[derive(Debug)]
pub struct Follow {
    storage: Arc<dyn Storage>,
    layout: Layout,
    /// The record that is due.
    next_seq: u64,
    /// Chain value of the record before, if it was returned.
    chain: Option<Chain>,
    head: Option<Head>,
    cursor: Option<Cursor>,
}

/// A place in a segment.
#[derive(Debug)]
struct Cursor {
    header: SegmentHeader,
    path: PathBuf,
    at: Position,
    /// `None` after an error: the file is opened again.
    scan: Option<Scan>,
    /// The successor, once HEAD stands behind this segment.
    next: Option<SegmentHeader>,
}

/// What one look comes to.
enum Look {
    Record(Box<LoggedRecord>),
    /// Something changed: look again.
    Again,
    /// HEAD covers nothing more.
    Nothing,
}

impl Follow {
    pub(super) fn new(reader: &LogReader, from: u64) -> Self {
        Self {
            storage: reader.storage.clone(),
            layout: reader.layout.clone(),
            next_seq: from.max(1),
            chain: None,
            head: None,
            cursor: None,
        }
    }

    /// The next durable record; `None` if there is none until `timeout` is over. A timeout of zero
    /// looks once.
    ///
    /// After an error the next call looks again for the same record.
    ///
    /// # Errors
    /// `Pruned`: the record that is due is not in the log any more.
    /// `Corrupt`: the record that is due is damaged or missing. `Tampered`: what was returned is
    /// not what the log holds. At once, however long the timeout is: `NotALedger` where the ledger's
    /// folder is gone, `Ambiguous` where HEAD is gone or damaged. `Io`.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<LoggedRecord>> {
        let deadline = Instant::now().checked_add(timeout);
        let mut pause = PAUSE_MIN;
        loop {
            let look = self.look();
            if look.is_err()
                && let Some(cursor) = &mut self.cursor
            {
                cursor.scan = None;
            }
            if look.is_err() {
                self.expect_unpruned()?;
            }
            match look? {
                Look::Record(record) => return Ok(Some(*record)),
                Look::Again => continue,
                Look::Nothing => {}
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Nothing, unless what is due was pruned since it was looked for: then that is what is wrong.
    fn expect_unpruned(&self) -> Result<()> {
        match LogReader::open(&self.storage, self.layout.dir()) {
            Ok(reader) => reader.expect_unpruned(self.next_seq),
            Err(_) => Ok(()),
        }
    }

    /// Why HEAD says nothing: no writer, and no prune, leaves it like that for a moment.
    fn no_head(&self) -> Error {
        if let Err(error) = expect_ledger(&*self.storage, &self.layout) {
            return error;
        }
        Error::new(
            ErrorKind::Ambiguous,
            "both slots of HEAD are missing or damaged, so nothing proves what is durable; \
             `ledger inspect` shows what is there",
        )
        .at_path(&self.layout.head())
    }

    fn look(&mut self) -> Result<Look> {
        let Some(cursor) = &mut self.cursor else { return self.enter() };
        let end = cursor.end(self.head.as_ref());
        if cursor.at.offset < end {
            let before = cursor.at;
            let record = cursor.read(&*self.storage, end)?;
            let taken = self.take(record);
            if taken.is_err()
                && let Some(cursor) = &mut self.cursor
            {
                // Or the next call would go on behind what is wrong.
                cursor.at = before;
            }
            return taken;
        }
        if let Some(next) = &cursor.next {
            let next = next.clone();
            return self.turn(next);
        }
        if let Some(head) = &self.head {
            cursor.agrees(head)?;
        }
        self.look_at_head()
    }

    /// What HEAD says now. A slot that is just being written does not count; the other one does.
    fn look_at_head(&mut self) -> Result<Look> {
        let view = read_head(&*self.storage, &self.layout)?;
        let Some(head) = view.newest().map(|(_, head)| head) else { return Err(self.no_head()) };
        if self.head.as_ref() == Some(head) {
            return Ok(Look::Nothing);
        }
        if let Some(cursor) = &mut self.cursor {
            let header = &cursor.header;
            if head.ledger != header.ledger
                || (head.ordinal == header.ordinal && head.segment != header.segment)
            {
                return Err(not_the_same(&cursor.path, cursor.at));
            }
            if head.ordinal > header.ordinal {
                cursor.next = Some(successor(&*self.storage, &self.layout, cursor)?);
            }
            // The window may hold what was there before the bytes that HEAD has newly covered.
            if let Some(scan) = &mut cursor.scan {
                scan.source.refresh();
            }
        }
        // Only now: what is wrong with it must be found again by the next look.
        self.head = Some(head.clone());
        Ok(Look::Again)
    }

    /// Find the place of the record that is due, once HEAD has come as far as its segment.
    fn enter(&mut self) -> Result<Look> {
        let reader = LogReader::open(&self.storage, self.layout.dir())?;
        reader.expect_unpruned(self.next_seq)?;
        let Some(head) = reader.head() else { return Err(self.no_head()) };
        self.head = Some(head.clone());
        let opened = match Row::new(&reader, self.next_seq).next().transpose()? {
            Some(Next::Segment(opened)) => opened,
            Some(Next::Item(Item::Damage(damage))) => return Err(damage.into_error()),
            _ => return Ok(Look::Nothing),
        };
        let header = opened.segment.header.clone();
        if header.ordinal > head.ordinal {
            return Ok(Look::Nothing);
        }
        let mut walk = opened.walk()?;
        reader.seek(&opened, &mut walk, self.next_seq)?;
        let at = walk.place().at;
        let mut cursor =
            Cursor { header, path: opened.path.to_owned(), at, scan: None, next: None };
        if head.ordinal > cursor.header.ordinal {
            cursor.next = Some(successor(&*self.storage, &self.layout, &cursor)?);
        }
        self.cursor = Some(cursor);
        Ok(Look::Again)
    }

    /// Return a record, if it is due and not one that was returned before a fence moved it.
    fn take(&mut self, record: LoggedRecord) -> Result<Look> {
        let before = self.next_seq.saturating_sub(1);
        if record.seq == before && self.chain.is_some_and(|chain| chain != record.chain) {
            let path = self.cursor.as_ref().map(|cursor| cursor.path.clone()).unwrap_or_default();
            let at = Position { offset: record.offset, next_seq: record.seq, chain: None };
            return Err(not_the_same(&path, at));
        }
        if record.seq < self.next_seq {
            return Ok(Look::Again);
        }
        self.next_seq = record.seq.saturating_add(1);
        self.chain = Some(record.chain);
        Ok(Look::Record(Box::new(record)))
    }

    /// Go on in the segment that has taken the place of the current one.
    fn turn(&mut self, header: SegmentHeader) -> Result<Look> {
        let Some(cursor) = &mut self.cursor else { return Ok(Look::Again) };
        let at = Position::start(&header);
        if at.next_seq > cursor.at.next_seq {
            let what = "acknowledged records are missing at the end of the segment";
            return Err(damaged(&cursor.path, cursor.at.offset, cursor.at.next_seq, what));
        }
        if at.next_seq == cursor.at.next_seq
            && cursor.at.chain.is_some_and(|it| Some(it) != at.chain)
        {
            return Err(not_the_same(&cursor.path, cursor.at));
        }
        let path = self.layout.segment(header.name());
        let mut behind = Cursor { header, path, at, scan: None, next: None };
        if let Some(head) = &self.head
            && head.ordinal > behind.header.ordinal
        {
            behind.next = Some(successor(&*self.storage, &self.layout, &behind)?);
        }
        *cursor = behind;
        Ok(Look::Again)
    }
}

impl Cursor {
    /// Up to where the segment is proved to be durable.
    fn end(&self, head: Option<&Head>) -> u64 {
        if let Some(next) = &self.next {
            return next.prev_data_end;
        }
        bug!(FollowedBeyondHead => return self.header.prealloc_len);
        // HEAD may be older than what was read: a power loss can take it back.
        let here = head.filter(|head| head.segment == self.header.segment);
        here.map_or(0, |head| head.data_end)
    }

    /// Whether HEAD, if it stands where this does, says the same of the record before.
    fn agrees(&self, head: &Head) -> Result<()> {
        let is_here = head.segment == self.header.segment && head.data_end == self.at.offset;
        let is_same = Some(self.at.next_seq) == head.durable_seq.checked_add(1)
            && self.at.chain.is_none_or(|chain| chain == head.chain);
        if is_here && !is_same { Err(not_the_same(&self.path, self.at)) } else { Ok(()) }
    }

    fn read(&mut self, storage: &dyn Storage, end: u64) -> Result<LoggedRecord> {
        let io = |error| Error::io("read a record", &self.path, error).at_offset(self.at.offset);
        let scan = match &mut self.scan {
            Some(scan) => scan,
            none => {
                let file = storage.open(&self.path, Access::Read).map_err(io)?;
                none.insert(Scan::new(Source::windowed(file), &self.header, end))
            }
        };
        scan.end = end;
        let at = self.at;
        let found = scan
            .next(&mut self.at)
            .map_err(|error| Error::io("read a record", &self.path, error).at_offset(at.offset))?;
        match found {
            Ok(found) => Ok(logged(found.into_owned(), self.header.ordinal)),
            Err(fault) => Err(damaged(&self.path, at.offset, at.next_seq, fault.describe())),
        }
    }
}

/// The segment that has taken the place of the cursor's, which there is: HEAD stands behind it.
fn successor(storage: &dyn Storage, layout: &Layout, cursor: &Cursor) -> Result<SegmentHeader> {
    let folder = layout.log();
    let entries =
        storage.list(&folder).map_err(|error| Error::io("list the folder", &folder, error))?;
    let ordinal = cursor.header.ordinal.checked_add(1);
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        if SegmentName::parse(&entry.name).is_some_and(|name| Some(name.ordinal) == ordinal)
            && let Ok(segment) = read_header(storage, &folder.join(&entry.name))?
            && segment.header.prev_segment == cursor.header.segment
            && segment.header.name().to_string() == entry.name
        {
            return Ok(segment.header);
        }
    }
    let what = format!("segment {} is missing or damaged", ordinal.unwrap_or(u64::MAX));
    Err(damaged(&folder, 0, cursor.at.next_seq, &what))
}

fn not_the_same(path: &std::path::Path, at: Position) -> Error {
    let what = "this is not the log that was followed: what it holds differs from what was read; \
                nothing was changed, and `ledger inspect` shows what is there";
    Error::new(ErrorKind::Tampered, what).at_path(path).at_offset(at.offset).at_seq(at.next_seq)
}
