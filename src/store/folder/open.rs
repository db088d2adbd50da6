//! Opening a folder that is bound to a store: it is brought to the end of the log there, and takes over.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Uid;
use crate::log::{BoundAck, FolderPart, Log, LogCopy, LogOptions, RecoveryReport, StoreBinding};
use crate::store::binding::{LedgerIdentity, bind, has_log};
use crate::store::session::{StoreEnd, StoreReading};
use crate::store::slot::{EncodedSlot, SlotPart, SlotWriter, WriterNote, WriterReason};

use super::ack::{AckMode, MonotonicClock};
use super::client::StoreClient;
use super::common::{bound_elsewhere, emptied};
use super::follow::{FolderProgress, Follower};
use super::keeper::StoreKeeper;

/// How a process opens a folder that is bound to a store.
#[derive(Debug, Clone)]
pub struct StoreOpening {
    /// When a commit is acknowledged.
    pub ack: AckMode,
    /// The process. It is unique.
    pub node: Uid,
    /// The time, in microseconds since the Unix epoch.
    pub time: u64,
    /// The clock that measures the age of records that the store does not have.
    pub clock: MonotonicClock,
}

/// A log that is open for writing and sends its records to a store.
#[derive(Debug)]
pub struct BoundLog {
    pub log: Log,
    /// The report about opening the folder.
    pub recovery: RecoveryReport,
    /// The changes that made the folder equal to the log in the store.
    pub progress: FolderProgress,
    /// The epoch that this process opened.
    pub epoch: u64,
    /// Brings the groups of the log to the store.
    pub keeper: Arc<StoreKeeper>,
}

/// Open the log of a folder that is bound to a store, or bind it: bring the folder to the end of
/// the log in the store, add the records that only the folder has, and open an epoch there. After a
/// failure it can be called again.
///
/// # Errors
/// As [`Log::open`]. `Rejected` if the store has the log of another ledger, or the folder is bound to
/// another store. `Diverged` if the folder has
/// records that may be acknowledged and are not in the log: nothing was changed. `Corrupt` with the name of
/// a damaged object; `Io` if the store does not answer.
pub fn open_bound(
    dir: &Path,
    options: LogOptions,
    client: &StoreClient,
    opening: &StoreOpening,
) -> Result<BoundLog> {
    let copy = LogCopy::open(dir, options)?;
    let identity = identity_of(&copy)?;
    check_binding(&copy, client, &identity)?;
    let is_bound = copy.binding().is_some();
    if (is_bound || copy.first_seq() > 1) && !has_log(client.objects(), client.retry())? {
        return Err(emptied(&copy, client.url()));
    }
    bind(client.objects(), &identity, opening.time, client.retry())?;
    let session = client.session(identity);
    let mut follower = Follower::new(copy, binding(client, &identity, BoundAck::Local));
    let reading = follower.join(&session)?;
    follower.expect_end(reading.end())?;
    open_epoch(client, identity, follower, reading, opening)
}

/// Open an epoch with a folder that followed the log up to here.
pub(super) fn open_epoch(
    client: &StoreClient,
    identity: LedgerIdentity,
    mut follower: Follower,
    mut reading: StoreReading,
    opening: &StoreOpening,
) -> Result<BoundLog> {
    let StoreOpening { ack, node, time, ref clock } = *opening;
    let session = client.session(identity);
    if !follower.is_equal_to(reading.end()) && !reading.is_at_end() {
        // Only at the end it is known which records the store lacks.
        follower.catch_up(&session, &mut reading, Vec::new())?;
    }
    follower.expect_no_doubt(reading.end())?;
    if !follower.is_equal_to(reading.end()) {
        let end = follower.ship(&session, node, reading.end().clone())?;
        reading = StoreReading::from(end);
    }
    follower.write_head()?;
    // From here on, the store has every record of the folder, and the folder writes no record that the store lacks.
    let bound = binding(client, &identity, ack.bound_ack());
    let lost = follower.copy.binding().and_then(|binding| binding.lost.clone());
    let is_rejoin = lost.is_some();
    follower.copy.bind(StoreBinding { lost, ..bound.clone() })?;

    let opening = RefCell::new(Opening { follower, identity, node, time, made: None });
    let held = session.take_over_after(
        reading,
        &mut |taken| opening.borrow_mut().follower.take_in(taken),
        &mut |end| opening.borrow_mut().build(end),
    )?;
    let Opening { mut follower, made, .. } = opening.into_inner();
    let (part, writer) = made.expect("an epoch is open after its opening slot was built");
    // The folder contains the records that were committed since it last followed, and they may refer to blobs.
    follower.take_in_blobs(&session)?;
    let Follower { mut copy, progress, .. } = follower;
    copy.append(&part)?;
    if is_rejoin {
        // Now the log contains it.
        copy.bind(bound)?;
    }
    let progress = FolderProgress { last_seq: copy.last().seq, epoch: writer.epoch, ..progress };
    let epoch = writer.epoch;
    let (modes, reader) = ((ack, clock.clone()), copy.reader()?);
    let keeper = Arc::new(StoreKeeper::new(client.clone(), writer, held, reader, modes));
    let (log, recovery) = Log::of_copy(copy, epoch, time, keeper.clone())?;
    Ok(BoundLog { log, recovery, progress, epoch, keeper })
}

pub(super) fn identity_of(copy: &LogCopy) -> Result<LedgerIdentity> {
    let (ledger, genesis) = copy.identity().ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, "the folder has no segment").at_path(copy.dir())
    })?;
    Ok(LedgerIdentity { ledger, genesis })
}

/// The content of STORE.json of a folder.
pub(super) fn binding(
    client: &StoreClient,
    identity: &LedgerIdentity,
    ack: BoundAck,
) -> StoreBinding {
    StoreBinding { url: client.url().to_owned(), ledger: identity.ledger, ack, lost: None }
}

/// Refuse a folder that is bound to another store, or has the STORE.json of another ledger.
pub(super) fn check_binding(
    copy: &LogCopy,
    client: &StoreClient,
    identity: &LedgerIdentity,
) -> Result<()> {
    let Some(found) = copy.binding() else { return Ok(()) };
    let message = if found.ledger != identity.ledger {
        "STORE.json in the folder names another ledger".to_owned()
    } else if found.url != client.url() {
        format!("the folder is bound to the store {}, not to {}", found.url, client.url())
    } else {
        return Ok(());
    };
    Err(bound_elsewhere(copy.dir(), message, "name"))
}

/// Builds the opening slot.
struct Opening {
    follower: Follower,
    identity: LedgerIdentity,
    node: Uid,
    time: u64,
    made: Option<(FolderPart, SlotWriter)>,
}

impl Opening {
    fn build(&mut self, end: &StoreEnd) -> Result<EncodedSlot> {
        self.follower.flush()?;
        let Follower { copy, last_writer, .. } = &self.follower;
        let before = copy.last();
        let StoreEnd { position, time, place } = end;
        if (before.seq.checked_add(1), before.chain) != (Some(position.next_seq), position.chain) {
            let message = format!(
                "the folder ends at record {}, and the store at record {}",
                before.seq,
                position.next_seq - 1
            );
            return Err(Error::new(ErrorKind::Diverged, message)
                .with_hint("open the ledger again")
                .at_path(copy.dir()));
        }
        let epoch = position.epoch.max(copy.epoch()) + 1;
        let why = match last_writer {
            None => WriterReason::Create,
            Some((last, _)) if *last == copy.head_epoch() => WriterReason::Open,
            Some(_) => WriterReason::Takeover,
        };
        let lost = copy.binding().and_then(|binding| binding.lost.clone());
        let lost = lost.filter(|_| !mutant!(RejoinForgotten));
        let note = WriterNote::new(epoch, &self.node, why, *last_writer).with_lost(lost).record();
        let known = place.as_ref().map(|place| (&place.header, place.end));
        let part = copy.opening(known, &note, epoch, copy.time(self.time).max(*time))?;
        let writer = SlotWriter { identity: self.identity, node: self.node, epoch };
        let slot = writer.encode(&SlotPart {
            segment: &part.segment,
            offset: part.offset,
            frames: &part.frames,
            last_seq: before.seq,
            chain: before.chain,
            time: *time,
        })?;
        self.made = Some((part, writer));
        Ok(slot)
    }
}
