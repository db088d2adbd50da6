//! Restoring a folder from a store.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::log::{Ack, BoundAck, LogCopy, LogOptions, LostRecords, StoreBinding};
use crate::store::binding::{LedgerIdentity, bound_ledger};
use crate::store::derived::{SnapshotSurvey, has_valid_index};
use crate::store::session::{StoreEnd, StoreReading, TakenIn, no_record};

use super::client::StoreClient;
use super::common::{AHEAD_FROM, read_ahead};
use super::follow::{CommonPosition, FolderProgress, Follower};
use super::open::binding;

/// Make a folder with the log of a store. The folder must be empty or must not exist. It gets its name after everything
/// is verified and durable, and is bound to the store. `each` is called with the progress. Returns the last record.
///
/// # Errors
/// `NotALedger` if the store has no ledger, or the name of the folder is taken; `OutOfRange` if the log has
/// no record; `Corrupt` with the name of a damaged object; `Io`, `DiskFull`.
pub fn restore(
    dir: &Path,
    options: LogOptions,
    client: &StoreClient,
    each: &mut dyn FnMut(&FolderProgress),
) -> Result<Ack> {
    restore_after(dir, options, client, None, each)
}

/// The same, in place of a folder that had these records alone: the next opening slot of the folder records them as
/// lost.
pub(super) fn restore_after(
    dir: &Path,
    options: LogOptions,
    client: &StoreClient,
    lost: Option<LostRecords>,
    each: &mut dyn FnMut(&FolderProgress),
) -> Result<Ack> {
    let identity = bound(client)?;
    let session = client.session(identity);
    let copy = LogCopy::create(dir, options)?;
    // No record is acknowledged here.
    let bound = StoreBinding { lost, ..binding(client, &identity, BoundAck::Store) };
    let mut follower = Follower::new(copy, bound);
    let CommonPosition { end, ahead } = follower.common_position(&session)?;
    let is_pruned = end != StoreEnd::start();
    let snapshots = SnapshotSurvey::list(&session)?;
    let mut snapshots = if is_pruned { snapshots } else { snapshots.of_newest() };
    // The owner may write as fast as this process reads.
    let slots_max = ahead.len() + AHEAD_FROM;
    let mut reading = StoreReading::from(end);
    read_ahead(&session, ahead, |session| {
        session.read_to_end_within(&mut reading, slots_max, &mut |taken| {
            follower.take_in(taken)?;
            if let TakenIn::Segment(segment) = taken
                && !has_valid_index(segment)
            {
                follower.progress.derived_damage.get_or_insert(*segment.object());
            }
            snapshots.look(taken);
            each(&follower.progress);
            Ok(())
        })
    })?;
    if reading.end() == &StoreEnd::start() {
        return Err(no_record());
    }
    follower.flush()?;
    follower.progress.lost_after = follower.lost_after(reading.end());
    each(&follower.progress);
    snapshots.take_in(&session, &follower.copy, is_pruned)?;
    follower.take_in_blobs(&session)?;
    follower.copy.finish()
}

/// The ledger of a store.
pub(super) fn bound(client: &StoreClient) -> Result<LedgerIdentity> {
    bound_ledger(client.objects(), client.retry())?.ok_or_else(|| {
        let message = "the store has no ledger at this place";
        Error::new(ErrorKind::NotALedger, message)
            .with_hint("check the address; opening a ledger with a store binds it")
    })
}
