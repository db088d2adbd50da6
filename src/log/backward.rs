//! Walking over a log from its newest record to its oldest.
//!
//! Invariants:
//! - The items are those of the walk forwards, in the opposite order: records, and damage where
//!   it stands. (Only which intact records are called *behind damage* may differ: that is said of
//!   what was read from the same place on.)
//! - Memory holds the items of one block, some 256 KiB and a record, besides the places where
//!   blocks may begin. A segment without an index is walked over once to find such places.

use std::sync::Arc;

use crate::error::Result;

use super::reader::LogReader;
use super::row::{Next, Opened, Row, told};
use super::segment_walk::{Place, SegmentWalk};
use super::walk::{Beside, Item};

/// The items of a log, newest first.
#[derive(Debug)]
pub struct WalkBack<'a> {
    reader: &'a LogReader,
    from: u64,
    /// What is still to come, the newest last; `None` before the first look.
    row: Option<Vec<Part<'a>>>,
    current: Option<Blocks<'a>>,
    /// Items that are ready, the newest last.
    ready: Vec<Item>,
    is_over: bool,
}

/// A part of the row.
#[derive(Debug)]
enum Part<'a> {
    Beside(Beside),
    Segment(Box<Opened<'a>>),
}

/// A segment that is walked over block by block, the last block first.
#[derive(Debug)]
struct Blocks<'a> {
    opened: Box<Opened<'a>>,
    places: Arc<[Place]>,
    /// How many places are still to come.
    left: usize,
    /// Where the block behind begins; `None` for the segment's end.
    stop: Option<u64>,
}

/// A block has at least so many bytes, if it can: as much as is read at a time.
const BLOCK: u64 = 256 * 1024;

impl<'a> WalkBack<'a> {
    pub(super) fn new(reader: &'a LogReader, from: u64) -> Self {
        let (row, ready) = (None, Vec::new());
        Self { reader, from, row, current: None, ready, is_over: false }
    }

    /// Look at all headers, from the first on: what is wrong with the row shows only so.
    fn survey(reader: &'a LogReader, from: u64) -> Result<Vec<Part<'a>>> {
        let mut row = Row::new(reader, 0);
        let mut parts = Vec::new();
        while let Some(next) = row.next().transpose()? {
            match next {
                Next::Item(item) => parts.push(Part::Beside(item)),
                Next::Segment(opened) => {
                    let (before, next_seq) = match opened.expected_ending() {
                        Some(ending) => ending,
                        None => told(&read_through(&opened)?.finish()),
                    };
                    row.closed(before, next_seq);
                    if opened.segment.header.base_seq <= from {
                        parts.push(Part::Segment(Box::new(opened)));
                    }
                }
            }
        }
        Ok(parts)
    }

    /// Turn to the part before. `None` when there is none.
    fn turn(&mut self) -> Result<Option<()>> {
        if self.row.is_none() {
            self.row = Some(Self::survey(self.reader, self.from)?);
        }
        match self.row.as_mut().and_then(Vec::pop) {
            None => return Ok(None),
            Some(Part::Beside(item)) => self.ready.push(item.among_records()),
            Some(Part::Segment(opened)) => {
                self.current = Some(Blocks::new(self.reader, opened, self.from)?);
            }
        }
        Ok(Some(()))
    }

    fn step(&mut self) -> Result<Option<Item>> {
        if let Some(item) = self.ready.pop() {
            return Ok(Some(item).filter(|item| self.wants(item)));
        }
        let Some(blocks) = &mut self.current else {
            self.is_over = self.turn()?.is_none();
            return Ok(None);
        };
        if blocks.read(&mut self.ready)? {
            self.current = None;
        }
        Ok(None)
    }

    fn wants(&self, item: &Item) -> bool {
        match item {
            Item::Record(record, _) => record.seq <= self.from,
            Item::Damage(damage) => damage.first_seq <= self.from,
            Item::Derived(_) | Item::OpenEnd { .. } => true,
        }
    }
}

/// A walk over a whole segment, at its end.
fn read_through(opened: &Opened<'_>) -> Result<SegmentWalk> {
    let mut walk = opened.walk()?;
    while walk.pass()?.is_some() {}
    Ok(walk)
}

impl<'a> Blocks<'a> {
    fn new(reader: &LogReader, opened: Box<Opened<'a>>, from: u64) -> Result<Self> {
        let places = reader.places(&opened, from)?;
        let left = places.partition_point(|place| place.at.next_seq <= from);
        // What begins behind `from` is not read, but only where a record does begin blocks part.
        let mut stop = None;
        for place in places.get(left..).unwrap_or_default() {
            if opened.walk()?.resume(place)? {
                stop = Some(place.at.offset);
                break;
            }
        }
        Ok(Self { opened, places, left, stop })
    }

    /// Read the block before into `items`, in its order. Whether it was the segment's first.
    fn read(&mut self, items: &mut Vec<Item>) -> Result<bool> {
        let mut walk = self.opened.walk()?;
        let end = self.stop.unwrap_or(self.opened.extent.end);
        let mut start = None;
        while start.is_none() && self.left > 1 {
            self.left -= 1;
            let Some(place) = self.places.get(self.left) else { break };
            let is_far = place.at.offset.saturating_add(BLOCK) <= end;
            if is_far && walk.resume(place)? {
                start = Some(place.at.offset);
            }
        }
        if start.is_none() {
            items.extend(self.opened.damaged_header().map(Beside::among_records));
        }
        while let Some(item) = walk.step_before(self.stop.unwrap_or(u64::MAX))? {
            items.push(item);
        }
        if self.stop.is_none() {
            let trailer = self.opened.trailer(walk.finish().item)?;
            items.extend(trailer.into_iter().map(Beside::among_records));
        }
        self.stop = start;
        Ok(start.is_none())
    }
}

impl Iterator for WalkBack<'_> {
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
