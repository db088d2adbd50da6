//! Turns at the disk: writing and syncing a group, going on in a new segment, and what happens
//! when that fails.
//!
//! The order is the promise: bytes, sync, HEAD, and only then the acknowledgement. After a failed
//! write or sync nothing is known about the bytes, and a second try that succeeds proves nothing:
//! the page cache may have dropped them. So: no second try, ever.

use std::sync::PoisonError;

use crate::error::{Error, Result};
use crate::format::{Head, HeadState, HeadSync, Reason, SegmentHeader};

use super::batch::{Ack, Durability};
use super::build::BuildError;
use super::engine::{Engine, QueueGuard};
use super::layout::DATA_START;
use super::options::Housekeeping;
use super::queue::{Active, Group, HeadOnDisk, Health, Queue, Sealable, Tip, Turn, head_content};
use super::scan::Links;
use super::seal::seal;

/// HEAD is synced at the first commit after so many microseconds without, in either direction: a
/// clock that was set back says nothing about how long it has been.
const HEAD_SYNC_INTERVAL: u64 = 1_000_000;

/// So often the processor is offered to others before a group is written: some microseconds where
/// nobody takes it.
const GATHER_YIELDS: usize = 64;

/// Why the log stops.
#[derive(Debug)]
pub(super) enum Stop {
    /// A call failed.
    Failed(Error),
    /// The right to write is lost.
    Fenced(String),
    /// Somebody else found out first.
    Already,
}

/// Somebody's turn at the disk. It ends when this is dropped, whatever happened.
struct AtDisk<'a> {
    engine: &'a Engine,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Begun,
    Finished,
}

impl<'a> AtDisk<'a> {
    fn begin(engine: &'a Engine, queue: &mut Queue, turn: Turn) -> Self {
        queue.turn = turn;
        Self { engine, progress: Progress::Begun }
    }

    fn finish(mut self, change: impl FnOnce(&mut Queue)) -> QueueGuard<'a> {
        let engine = self.engine;
        let mut queue = engine.lock();
        change(&mut queue);
        queue.turn = Turn::Free;
        self.progress = Progress::Finished;
        engine.hand_on(queue)
    }
}

impl Drop for AtDisk<'_> {
    fn drop(&mut self) {
        if self.progress == Progress::Begun {
            let mut queue = self.engine.lock();
            queue.stop(Health::Poisoned("a thread panicked while it was at the disk".to_owned()));
            queue.turn = Turn::Free;
            drop(self.engine.hand_on(queue));
        }
    }
}

impl Queue {
    /// The first reason to stop is the one that counts.
    pub(super) fn stop(&mut self, health: Health) {
        bug!(PoisonForgotten => return);
        if self.health == Health::Good {
            self.health = health;
        }
    }

    fn publish(&mut self, group: Group, durability: Durability, head: HeadOnDisk) {
        self.written = group.tip;
        // Somebody may have found out that HEAD cannot be relied on: then nothing more is proved.
        let is_durable = durability == Durability::Sync || bug!(WokenBeforeDurable);
        if is_durable && self.health == Health::Good {
            self.durable = if bug!(AckCoversNext) { self.encoded } else { group.tip };
            self.head = head;
        }
        self.activity += 1;
        self.give_back(group);
    }
}

impl Engine {
    /// Take a turn: write what is pending and, if asked to, make it durable. It is nobody's turn
    /// when this is called; when it returns, it may be the next one's. After an error the log has
    /// stopped, and whoever asked is refused: nobody tries twice, whatever the queue says.
    pub(super) fn commit<'a>(
        &'a self,
        mut queue: QueueGuard<'a>,
        durability: Durability,
    ) -> std::result::Result<QueueGuard<'a>, QueueGuard<'a>> {
        let at_disk = AtDisk::begin(self, &mut queue, Turn::Commit);
        queue = self.gather(queue);
        let mut group = queue.take_group();
        drop(queue);
        match self.write_group(&mut group, durability) {
            Ok(head) => Ok(at_disk.finish(|queue| queue.publish(group, durability, head))),
            Err(stop) => Err(self.stop(at_disk, stop)),
        }
    }

    /// Let those whom the turn before answered come back with what they have next: they are awake
    /// already, and a group of all takes no longer to sync than one of half of them. Who does not
    /// come is not waited for, and no clock is asked.
    fn gather<'a>(&'a self, mut queue: QueueGuard<'a>) -> QueueGuard<'a> {
        let expected = std::mem::take(&mut queue.expected);
        for _ in 0..GATHER_YIELDS {
            if queue.pending() >= expected {
                break;
            }
            drop(queue);
            std::thread::yield_now();
            queue = self.lock();
        }
        queue
    }

    fn write_group(
        &self,
        group: &mut Group,
        durability: Durability,
    ) -> std::result::Result<HeadOnDisk, Stop> {
        self.begin_write(group)?;
        let (file, offset, name) = (group.file.clone(), group.offset, group.header.name());
        let io = |what, error| {
            let path = self.layout.segment(name);
            Stop::Failed(Error::io(what, &path, error).at_offset(offset))
        };
        let bytes = group.stamp();
        bug!(RegionReused => let _ = file.write_at(bytes, offset));
        if !bytes.is_empty() {
            file.write_at(bytes, offset).map_err(|error| io("write the records", error))?;
        }
        if durability == Durability::Buffered {
            return Ok(HeadOnDisk::Written);
        }
        bug!(AckBeforeSync => return self.write_head(&group.header, &group.tip, Due::Usual));
        bug!(HeadBeforeSync => let _ = self.write_head(&group.header, &group.tip, Due::Usual));
        bug!(SyncRetried => let _ = file.sync());
        file.sync().map_err(|error| io("sync the records", error))?;
        self.write_head(&group.header, &group.tip, Due::Usual)
    }

    /// See whether this may be written, also whether nobody else has found out meanwhile that it may
    /// not: so that whoever is told that nothing was written is told the truth.
    fn begin_write(&self, group: &Group) -> std::result::Result<(), Stop> {
        self.ownership.check().map_err(Stop::Fenced)?;
        let mut queue = self.lock();
        if queue.health != Health::Good {
            return Err(Stop::Already);
        }
        queue.begun = group.tip.ack.seq;
        Ok(())
    }

    /// Say in HEAD what is durable now, and sync it when it is due. The right to write is looked
    /// at again: since the look before the write a sync has passed, which may take seconds, and
    /// this process may have been stopped for hours. Who took over before this look is seen by it;
    /// who takes over after it finds in the file what was synced before it.
    fn write_head(
        &self,
        header: &SegmentHeader,
        tip: &Tip,
        due: Due,
    ) -> std::result::Result<HeadOnDisk, Stop> {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = {
            let queue = self.lock();
            if queue.health != Health::Good {
                return Err(Stop::Already);
            }
            queue.clock
        };
        if !bug!(TakeoverUnseen) {
            self.ownership.check().map_err(Stop::Fenced)?;
        }
        head.write(self.head_content(header, tip, HeadState::Open)).map_err(Stop::Failed)?;
        let is_due = (due == Due::Now && !bug!(SealedBeforeHead))
            || self.options.head_sync == HeadSync::EveryCommit
            || clock.abs_diff(head.synced_at) >= HEAD_SYNC_INTERVAL;
        if !is_due {
            return Ok(HeadOnDisk::Written);
        }
        head.sync().map_err(Stop::Failed)?;
        head.synced_at = clock;
        Ok(HeadOnDisk::Synced)
    }

    fn head_content(&self, header: &SegmentHeader, tip: &Tip, state: HeadState) -> Head {
        head_content(header, tip, self.ownership.epoch, self.options.head_sync, state)
    }

    /// Sync HEAD while nobody appends. Only the log's own thread does; an append that comes in
    /// between writes and syncs its records meanwhile.
    pub(super) fn sync_head(&self) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lock().health != Health::Good {
            return;
        }
        let synced = match self.ownership.check() {
            Ok(()) => head.sync().map_err(Stop::Failed),
            Err(why) => Err(Stop::Fenced(why)),
        };
        let mut queue = self.lock();
        match synced {
            // HEAD's lock is held: what was written to it before is all that was written.
            Ok(()) => {
                queue.head = HeadOnDisk::Synced;
                head.synced_at = queue.clock;
            }
            Err(Stop::Failed(error)) => queue.stop(Health::Poisoned(error.to_string())),
            Err(Stop::Fenced(why)) => queue.stop(Health::Fenced(why)),
            Err(Stop::Already) => {}
        }
        let content = self.poison_mark(&queue);
        drop(self.hand_on(queue));
        if let Some(content) = content {
            let _ = head.write(content).and_then(|()| head.sync());
        }
    }

    /// End a turn with which the log ends.
    fn stop<'a>(&'a self, at_disk: AtDisk<'a>, stop: Stop) -> QueueGuard<'a> {
        {
            let mut queue = self.lock();
            match stop {
                Stop::Failed(error) => queue.stop(Health::Poisoned(error.to_string())),
                Stop::Fenced(why) => queue.stop(Health::Fenced(why)),
                Stop::Already => {}
            }
        }
        self.mark_poisoned();
        at_disk.finish(|_| {})
    }

    /// Say in HEAD, if it can still be said, that nothing beyond it is to be relied on.
    fn mark_poisoned(&self) {
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let content = self.poison_mark(&self.lock());
        if let Some(content) = content
            && self.ownership.check().is_ok()
        {
            let _ = head.write(content).and_then(|()| head.sync());
        }
    }

    fn poison_mark(&self, queue: &Queue) -> Option<Head> {
        let is_poisoned = matches!(queue.health, Health::Poisoned(_));
        let (header, tip) = (&queue.active.header, &queue.durable);
        is_poisoned.then(|| self.head_content(header, tip, HeadState::Poisoned))
    }

    /// Take a turn: make what is pending durable, then go on in a new segment with room for
    /// `needed` bytes. If there is no room on the disk, nothing has changed.
    pub(super) fn rotate<'a>(
        &'a self,
        mut queue: QueueGuard<'a>,
        needed: u64,
        time: u64,
    ) -> Result<QueueGuard<'a>> {
        self.expect_own_process()?;
        let is_durable = queue.is_durable();
        let mut group = queue.take_group();
        let at_disk = AtDisk::begin(self, &mut queue, Turn::Rotate);
        drop(queue);
        if is_durable {
            if let Err(why) = self.ownership.check() {
                return Err(self.stop(at_disk, Stop::Fenced(why)).no_place());
            }
        } else {
            match self.write_group(&mut group, Durability::Sync) {
                Ok(head) => self.lock().publish(group, Durability::Sync, head),
                Err(stop) => return Err(self.stop(at_disk, stop).no_place()),
            }
        }
        let (before, tip, health) = {
            let queue = self.lock();
            (queue.active.header.clone(), queue.durable, queue.health.clone())
        };
        if health != Health::Good {
            return Err(self.stop(at_disk, Stop::Already).no_place());
        }
        let mut header = self.next_header(&before, &tip, needed, time);
        let next = tip.ack.seq + 1;
        let file = match self.make_segment(&mut header, needed) {
            Ok(file) => file,
            Err(BuildError::BeforeName(error)) => {
                drop(at_disk.finish(|_| {}));
                return Err(error);
            }
            Err(BuildError::NotOurs(why)) => {
                return Err(self.stop(at_disk, Stop::Fenced(why)).no_place());
            }
            Err(BuildError::AfterName(error)) => {
                return Err(self.stop(at_disk, Stop::Failed(error)).refusal(next, next));
            }
        };
        let start = Tip { end: DATA_START, ..tip };
        let active = Active { header, file: file.into() };
        match self.write_head(&active.header, &start, Due::Now) {
            // The successor is durable and HEAD is synced: the old segment may be sealed.
            Ok(head) => {
                let sealable = (before, active.header.clone());
                let rest = self.seal_inline(sealable);
                Ok(at_disk.finish(|queue| {
                    queue.turn_to(active, DATA_START);
                    queue.head = head;
                    queue.to_seal.extend(rest);
                }))
            }
            Err(stop) => Err(self.stop(at_disk, stop).refusal(next, next)),
        }
    }

    /// Seal a segment now, if this thread is the one that does it; else give it back. Nothing
    /// depends on its success: the next opening does what is left.
    fn seal_inline(&self, sealable: Sealable) -> Option<Sealable> {
        match self.options.housekeeping {
            Housekeeping::Inline => {
                self.seal(&sealable);
                None
            }
            Housekeeping::Thread => Some(sealable),
        }
    }

    /// Seal a segment that a rotation closed.
    pub(super) fn seal(&self, (header, next): &Sealable) {
        let (storage, streams) = (&*self.options.storage, self.options.stream_of);
        let _ = seal(storage, &self.layout, streams, (header, next), Links::Trusted);
    }

    fn next_header(
        &self,
        before: &SegmentHeader,
        Tip { ack: Ack { seq, chain }, end, time: last }: &Tip,
        needed: u64,
        time: u64,
    ) -> SegmentHeader {
        SegmentHeader {
            segment: self.options.uids.next(),
            ordinal: before.ordinal + 1,
            base_seq: seq + 1,
            prev_chain: *chain,
            prev_segment: before.segment,
            prev_data_end: *end,
            prev_last_seq: *seq,
            writer_epoch: self.ownership.epoch,
            created: time.max(*last),
            prealloc_len: self.options.segments.fitting(before.prealloc_len * 2, needed),
            reason: Reason::Rotate,
            born_last: 0,
            born_end: 0,
            ..before.clone()
        }
    }
}

/// When HEAD is synced after it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// As the mode says.
    Usual,
    Now,
}
