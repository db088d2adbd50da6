//! The records of one kind, or of one stream.
//!
//! Invariants:
//! - What is found is what a walk over everything would find: the records that match, and every
//!   damage that may have held one.
//! - A posting only says where to look. A frame that is not there, or is not what it should be,
//!   makes the rest of the segment be read as if it were not sealed.

use std::collections::VecDeque;

use crate::error::{Error, Result};

use super::options::StreamOf;
use super::reader::LogReader;
use super::row::{Next, Opened, Row, told};
use super::segment_walk::{SegmentWalk, logged};
use super::walk::{Beside, Item, LoggedRecord};

/// The records of one kind or stream, and the damage that may have held some.
#[derive(Debug)]
pub struct Selection<'a> {
    reader: &'a LogReader,
    row: Row<'a>,
    wanted: Wanted,
    from: u64,
    last: u64,
    current: Option<Current<'a>>,
    ready: VecDeque<Item>,
    is_over: bool,
}

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted {
    Kind(u16),
    Stream(u64, StreamOf),
}

impl Wanted {
    fn matches(&self, record: &LoggedRecord) -> bool {
        match self {
            Self::Kind(kind) => record.kind == *kind,
            Self::Stream(stream, streams) => streams.stream(record) == Some(*stream),
        }
    }
}

/// A segment that is being read.
#[derive(Debug)]
struct Current<'a> {
    opened: Opened<'a>,
    walk: SegmentWalk,
    /// Where its postings say that records are, the first last; `None` to walk over all.
    postings: Option<Vec<u64>>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(reader: &'a LogReader, wanted: Wanted, from: u64) -> Self {
        let from = from.max(1);
        let (row, ready) = (Row::new(reader, from), VecDeque::new());
        let last = u64::MAX;
        Self { reader, row, wanted, from, last, current: None, ready, is_over: false }
    }

    /// The same, without what stands behind record `last`: it is not read.
    #[must_use]
    pub fn up_to(self, last: u64) -> Self {
        Self { last, ..self }
    }

    /// Turn to the next segment. `None` when there is no more.
    fn turn(&mut self) -> Result<Option<()>> {
        match self.row.next().transpose()? {
            None => return Ok(None),
            Some(Next::Item(item)) => self.ready.push_back(item.among_records()),
            Some(Next::Segment(opened)) if opened.segment.header.base_seq > self.last => {
                return Ok(None);
            }
            Some(Next::Segment(opened)) => {
                self.ready.extend(opened.damaged_header().map(Beside::among_records));
                let postings = self.postings(&opened)?;
                let mut walk = opened.walk()?;
                if postings.is_none() {
                    self.reader.seek(&opened, &mut walk, self.from)?;
                }
                self.current = Some(Current { opened, walk, postings });
            }
        }
        Ok(Some(()))
    }

    /// Where a segment's index says that the wanted records are, the first last.
    fn postings(&self, opened: &Opened<'_>) -> Result<Option<Vec<u64>>> {
        let Some(Ok(index)) = opened.index()? else { return Ok(None) };
        let mut found: Vec<u64> = match self.wanted {
            Wanted::Kind(kind) => index.of_kind(kind).collect(),
            Wanted::Stream(stream, streams) if opened.has_streams(streams.rule) => {
                index.of_stream(stream).collect()
            }
            Wanted::Stream(..) => return Ok(None),
        };
        // The records between the last seek entry before `from` and `from` itself are looked at
        // all the same: what the index says of their numbers is not trusted.
        let start = index.seeks().take_while(|seek| seek.seq <= self.from).last();
        let start = start.map_or(0, |seek| seek.offset);
        found.drain(..found.partition_point(|offset| *offset < start));
        found.reverse();
        Ok(Some(found))
    }

    fn step(&mut self) -> Result<Option<Item>> {
        if let Some(item) = self.ready.pop_front() {
            return Ok(Some(item));
        }
        let Some(mut current) = self.current.take() else {
            self.is_over = self.turn()?.is_none();
            return Ok(None);
        };
        let item = match current.next(&self.wanted)? {
            Found::Item(item) => item,
            Found::End => {
                self.close(current)?;
                return Ok(None);
            }
            Found::Astray => {
                // From the start, since nothing that the index says is to be believed.
                current.walk = current.opened.walk()?;
                current.postings = None;
                self.current = Some(current);
                return Ok(None);
            }
        };
        self.current = Some(current);
        Ok(self.pick(item))
    }

    /// The item, if it is wanted and is not one that was there already.
    fn pick(&mut self, item: Item) -> Option<Item> {
        match item {
            Item::Record(record, _) if record.seq > self.last => {
                self.is_over = true;
                None
            }
            Item::Record(record, proof) => {
                let is_wanted = record.seq >= self.from && self.wanted.matches(&record);
                is_wanted.then(|| {
                    self.from = record.seq.saturating_add(1);
                    Item::Record(record, proof)
                })
            }
            Item::OpenEnd { .. } => None,
            item => Some(item),
        }
    }

    /// Turn away from a segment.
    fn close(&mut self, current: Current<'_>) -> Result<()> {
        let Current { opened, walk, postings } = current;
        // Where not all of it was read, the end is where the headers say.
        let told_before = postings.and_then(|_| opened.expected_ending());
        let ending = if let Some((before, next_seq)) = told_before {
            self.row.closed(before, next_seq);
            None
        } else {
            let ending = walk.finish();
            let (before, next_seq) = told(&ending);
            self.row.closed(before, next_seq);
            ending.item
        };
        let trailer = opened.trailer(ending)?;
        self.ready.extend(trailer.into_iter().map(Beside::among_records));
        Ok(())
    }
}

/// What comes next in a segment.
enum Found {
    Item(Item),
    End,
    /// What the index names is not there.
    Astray,
}

impl Current<'_> {
    fn next(&mut self, wanted: &Wanted) -> Result<Found> {
        let Some(postings) = &mut self.postings else {
            return Ok(self.walk.step()?.map_or(Found::End, Found::Item));
        };
        let Some(offset) = postings.pop() else { return Ok(Found::End) };
        let extent = self.opened.extent;
        let io = |error| Error::io("read a record", self.opened.path, error).at_offset(offset);
        let Ok(found) = self.walk.linked(offset).map_err(io)? else { return Ok(Found::Astray) };
        let header = &self.opened.segment.header;
        let record = logged(found, header.ordinal);
        let is_inside = (header.base_seq..=extent.last_seq).contains(&record.seq)
            && record.offset.saturating_add(record.size) <= extent.end;
        if !is_inside || !wanted.matches(&record) {
            return Ok(Found::Astray);
        }
        Ok(Found::Item(Item::Record(record, self.walk.place().proof)))
    }
}

impl Iterator for Selection<'_> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        while !self.is_over {
            match self.step() {
                Ok(None) => {}
                Ok(Some(item)) => return Some(Ok(item)),
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
