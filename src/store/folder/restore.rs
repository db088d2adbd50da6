//! Restoring a folder from a store, and following the store with a folder that does not write.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::log::{Ack, BoundAck, LogCopy, LogOptions};
use crate::store::binding::{LedgerIdentity, bound_ledger};
use crate::store::session::StoreEnd;

use super::blobs::{take_in_blobs, take_in_snapshots};
use super::client::StoreClient;
use super::follow::{FolderProgress, Follower};
use super::open::{binding, check_binding, identity_of};

/// Make a folder with the log of a store. The folder does not exist, or is empty; it gets its name after
/// everything is verified and durable, and is bound to the store. `each` is told about the progress.
/// Returns the last record.
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
    let identity = bound(client)?;
    let session = client.session(identity);
    let mut copy = LogCopy::create(dir, options)?;
    // Nothing is acknowledged here.
    let mut follower = Follower::new(&mut copy, binding(client, &identity, BoundAck::Store));
    let start = session.start()?;
    session.find_end(start.clone(), &mut |taken| {
        follower.take_in(taken)?;
        each(&follower.progress);
        Ok(())
    })?;
    if start != StoreEnd::start() {
        take_in_snapshots(&session, &copy)?;
    }
    take_in_blobs(&session, &copy)?;
    copy.finish()
}

/// Follow a store with a folder, which is made if it does not exist: take in what other processes commit,
/// so that the folder can take over at once ([`super::open_bound`]). `each` is told about the progress each
/// time that the end of the log was reached; it waits as long as it sees fit, and says whether to continue.
/// Then the folder is closed, and can be opened. Returns the last record.
///
/// # Errors
/// As [`restore`] and [`super::open_bound`].
pub fn replicate(
    dir: &Path,
    options: LogOptions,
    client: &StoreClient,
    each: &mut dyn FnMut(&FolderProgress) -> bool,
) -> Result<Ack> {
    if crate::log::is_free(&*options.storage, dir) {
        restore(dir, options.clone(), client, &mut |_| ())?;
    }
    let mut copy = LogCopy::open(dir, options)?;
    let (identity, found) = (identity_of(&copy)?, bound(client)?);
    if identity != found {
        let message = "the store has the log of another ledger than the folder";
        return Err(Error::new(ErrorKind::Rejected, message)
            .with_hint("name another folder, or the place of this ledger in the store")
            .at_path(dir));
    }
    check_binding(&copy, client, &identity)?;
    let session = client.session(identity);
    let mut follower = Follower::new(&mut copy, binding(client, &identity, BoundAck::Local));
    let mut end = follower.common_position(&session)?;
    loop {
        let before = follower.progress.taken_in;
        end = follower.follow(&session, end)?;
        follower.expect_no_doubt(&end)?;
        // HEAD covers nothing that the store does not have.
        let is_equal = follower.copy.last().seq.checked_add(1) == Some(end.position.next_seq);
        if is_equal && follower.progress.taken_in > before {
            follower.copy.write_head()?;
        }
        if !each(&follower.progress) {
            return if is_equal { copy.finish() } else { Ok(copy.last()) };
        }
    }
}

/// The ledger whose log a store has.
pub(super) fn bound(client: &StoreClient) -> Result<LedgerIdentity> {
    bound_ledger(client.objects(), client.retry())?.ok_or_else(|| {
        let message = "the store has no ledger at this place";
        Error::new(ErrorKind::NotALedger, message)
            .with_hint("check the address; opening a ledger with a store binds it")
    })
}
