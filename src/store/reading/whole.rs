//! Reads the whole log in its store, and verifies everything before it shows anything.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::log::LogOptions;
use crate::store::binding::{LedgerIdentity, bound_ledger};
use crate::store::folder::StoreClient;
use crate::store::name::{ObjectName, SEGMENTS, TAIL};
use crate::store::segments::{object_with, segment_floor};

use super::image::{Image, NewFile};
use super::storage::StoreStorage;

/// Read the ledger in a store. Its files appear below the path `root`. This path is not a real one:
/// errors and findings name files with it.
///
/// # Errors
/// `NotALedger` if the store has no ledger; `OutOfRange` if the log is empty; `Corrupt` with the
/// name of a damaged object; `Unsupported` if a newer program wrote it; `Io` if the store does not
/// answer.
pub fn read_in_place(
    root: &Path,
    options: &LogOptions,
    client: &StoreClient,
    new_file: NewFile<'_>,
) -> Result<StoreStorage> {
    read_with_names(root, || read(root, options, client, new_file))
}

pub(super) fn read_with_names(
    root: &Path,
    read: impl FnOnce() -> Result<StoreStorage>,
) -> Result<StoreStorage> {
    read().map_err(|error| located(error, root))
}

/// An error about an object names its place in the store.
fn located(error: Error, root: &Path) -> Error {
    match error.location().path.clone() {
        None => error.at_path(root),
        Some(path) if path.starts_with(root) => error,
        Some(path) => error.at_path(&root.join(path)),
    }
}

pub(super) fn stored_ledger(client: &StoreClient) -> Result<LedgerIdentity> {
    bound_ledger(client.objects(), client.retry())?.ok_or_else(|| {
        let message = "the store has no ledger at this place";
        Error::new(ErrorKind::NotALedger, message).with_hint("check the address")
    })
}

pub(super) fn read(
    root: &Path,
    options: &LogOptions,
    client: &StoreClient,
    new_file: NewFile<'_>,
) -> Result<StoreStorage> {
    let session = client.session(stored_ledger(client)?);
    let mut unclear = 0;
    let segments = session.list(SEGMENTS, &mut unclear)?;
    let floor = segment_floor(&segments);
    let slots = session.list(TAIL, &mut unclear)?;
    let mut needed = Vec::new();
    let from = session.start()?;
    let mut next_seq = from.position.next_seq;
    while let Some(object) = object_with(&segments, next_seq) {
        let name = ObjectName::Segment(object).to_string();
        needed.extend(segments.iter().find(|listed| listed.name == name).cloned());
        next_seq = object.last_seq.saturating_add(1);
    }
    needed.extend(slots.into_iter().filter(|listed| {
        matches!(ObjectName::parse(&listed.name), Some(ObjectName::Slot(first)) if first > floor)
    }));

    let mut files = StoreStorage::new(root, client, &options.storage);
    // Before the end of the log is known, so that the log has the notes of all of them; and after its start is known.
    files.list_snapshots().map_err(|error| Error::io("list the snapshots", root, error))?;
    let mut image = Image::new(new_file, needed);
    let end = image.read(&session, from)?;
    files.list_blobs().map_err(|error| Error::io("list the blobs", root, error))?;
    image.finish(&mut files, root, options, (&end, &segments))?;
    // After the segments: they decide whether an index object is right.
    image.check_index_objects(&session, &segments)?;
    Ok(files)
}
