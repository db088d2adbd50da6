//! Blobs: values too large for a record. Each is an object with its hash as the name.
//!
//! Invariants:
//! - The store has a blob before it has a record that refers to it.
//! - A folder copies only bytes that match the hash in their name.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::log::{BlobId, LogCopy};
use crate::store::name::BLOBS;
use crate::store::session::StoreSession;

pub(super) fn blob_name(hash: &str) -> String {
    format!("{BLOBS}{hash}")
}

/// The hashes of all blobs in the store.
fn stored(session: &StoreSession<'_>) -> Result<BTreeSet<String>> {
    let listing = session.list(BLOBS, &mut 0)?;
    let hash =
        |name: &str| name.strip_prefix(BLOBS).filter(|hash| hash.len() == 64).map(str::to_owned);
    Ok(listing.iter().filter_map(|listed| hash(&listed.name)).collect())
}

/// Add the blobs of a folder to the store.
pub(super) fn ship_blobs(session: &StoreSession<'_>, copy: &LogCopy) -> Result<()> {
    let (blobs, stored) = (copy.blobs(), stored(session)?);
    for blob in blobs.reader().list()?.blobs {
        let hash = blob.id.hex();
        if !stored.contains(&hash) {
            session.create_same(&blob_name(&hash), &blobs.reader().get(&blob.id)?)?;
        }
    }
    Ok(())
}

/// Copy the blobs of the store that a folder lacks. A damaged one is left out like a missing one:
/// the records of the log do not depend on it.
pub(super) fn take_in_blobs(session: &StoreSession<'_>, copy: &LogCopy) -> Result<()> {
    let blobs = copy.blobs();
    let own: BTreeSet<String> =
        blobs.reader().list()?.blobs.iter().map(|blob| blob.id.hex()).collect();
    for hash in stored(session)?.difference(&own) {
        let name = blob_name(hash);
        let Some(found) = session.get(&name, &mut 0)? else { continue };
        if BlobId::of(&found.bytes).hex() == *hash {
            blobs.put(&found.bytes)?;
        }
    }
    Ok(())
}
