//! Snapshots that later ones replace. Those that a retention note names stay, so that a prune of the store needs no
//! folder; it keeps them under other names, since a collector may be late.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::SnapshotReader;
use crate::storage::StorageFile as _;
use crate::store::derived::{SnapshotSurvey, projection_of, snapshot_object};
use crate::store::objects::StoreTime;
use crate::store::reading::MemoryFile;
use crate::store::session::StoreSession;

use super::removable::{RemovableClass, RemovableObject, is_old, removable};

/// How many of the newest snapshots of a projection stay.
const KEPT: usize = 2;

/// Whether a snapshot can replace older ones, apart from its age.
type Replaces<'a> = &'a mut dyn FnMut(&SnapshotName) -> Result<bool>;

/// Whether a snapshot may be deleted, as far as the listing shows.
pub(super) fn may_have_superseded(survey: &SnapshotSurvey, now: StoreTime) -> bool {
    find(survey, now, &mut |_| Ok(true)).is_ok_and(|found| !found.is_empty())
}

/// The snapshots that may be deleted, the oldest first. The survey saw all of the log.
pub(super) fn superseded(
    session: &StoreSession<'_>,
    survey: &SnapshotSurvey,
    now: StoreTime,
) -> Result<Vec<RemovableObject>> {
    find(survey, now, &mut |name| is_valid(session, survey, name))
}

fn find(
    survey: &SnapshotSurvey,
    now: StoreTime,
    replaces: Replaces<'_>,
) -> Result<Vec<RemovableObject>> {
    let (mut later, mut found) = (BTreeMap::new(), Vec::new());
    for (name, listed) in survey.listed.iter().rev() {
        let later = later.entry(projection_of(name)).or_insert(0);
        let is_anchor = survey.anchors.contains_key(&name.to_string());
        if *later < KEPT {
            *later += usize::from(is_old(listed.at, now) && replaces(name)?);
        } else if !is_anchor || mutant!(NotedAnchorCollected) {
            found.push(removable(RemovableClass::Snapshot, listed));
        }
    }
    found.reverse();
    Ok(found)
}

/// Whether an object is the snapshot of its name, undamaged, and belongs to the log.
fn is_valid(
    session: &StoreSession<'_>,
    survey: &SnapshotSurvey,
    name: &SnapshotName,
) -> Result<bool> {
    let found = read_snapshot(session, &snapshot_object(name), name)?;
    Ok(found.is_some_and(|(header, _)| survey.is_of_log(session, &header)))
}

/// The header and the bytes of an object that has a snapshot, if it is the one of that name and undamaged.
pub(super) fn read_snapshot(
    session: &StoreSession<'_>,
    object: &str,
    name: &SnapshotName,
) -> Result<Option<(SnapshotHeader, Vec<u8>)>> {
    let Some(found) = session.get(object, &mut 0)? else { return Ok(None) };
    let (file, path) = (MemoryFile::default(), snapshot_object(name));
    let written = file.write_at(&found.bytes, 0);
    written.map_err(|error| Error::io("keep the snapshot", path.as_ref(), error))?;
    let read = SnapshotReader::of_file(Box::new(file), path.as_ref());
    match read.and_then(SnapshotReader::check) {
        Ok(header) => Ok(Some((header, found.bytes))),
        Err(error) if error.kind() == ErrorKind::Io => Err(error),
        Err(_) => Ok(None),
    }
}
