//! Joining a store again with a folder that diverged from it.
//!
//! Invariant: nothing is deleted. The records that only the folder has are exported first, then the folder is renamed,
//! and only then a restored folder takes its name.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::format::to_u64;
use crate::log::{Ack, BoundAck, FolderPart, LogCopy, LogOptions, LoggedRecord, LostRecords};
use crate::storage::{Access, Storage, StorageFile};
use crate::store::session::{StoreEnd, StoreReading, StoreSession};
use crate::store::slot::{FrameWalk, walk_frames};

use super::client::StoreClient;
use super::follow::{CommonPosition, Divergence, Follower};
use super::open::{binding, check_binding, identity_of};
use super::restore::{bound, restore_after};
use super::ship::SHIPPED_SIZE;

/// The result for a folder that diverged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejoined {
    /// The last record that folder and store had in common.
    pub common_seq: u64,
    /// The number of records that only the folder has. They follow the last common one.
    pub lost: u64,
    /// The number of records that are known to be acknowledged. The others may be, too, if the mode
    /// was not `store`.
    pub acknowledged: u64,
    /// The folder that diverged, under its new name.
    pub kept: PathBuf,
    /// The file in it with the records that only it has, as JSON Lines; `None` if there are none.
    pub exported: Option<PathBuf>,
    /// The last record of the restored folder.
    pub end: Ack,
}

/// Rename a folder that diverged from a store, export the records that only it has, and restore the store
/// into a new folder of the old name. `line` makes the JSON of a record, without a newline.
///
/// # Errors
/// As [`super::open_bound`]; `Conflict` if the folder did not diverge: nothing was changed. After any other error it
/// can be called again, or `store::restore` if the folder has its new name already.
pub fn rejoin(
    dir: &Path,
    options: LogOptions,
    client: &StoreClient,
    line: &mut dyn FnMut(&LoggedRecord) -> String,
) -> Result<Rejoined> {
    let copy = LogCopy::open(dir, options.clone())?;
    let (identity, found) = (identity_of(&copy)?, bound(client)?);
    if identity != found {
        let message = "the store and the folder have the logs of different ledgers";
        return Err(Error::new(ErrorKind::Rejected, message).at_path(dir));
    }
    check_binding(&copy, client, &identity)?;
    let session = client.session(identity);
    let mut follower = Follower::new(copy, binding(client, &identity, BoundAck::Local));
    let refused = follower
        .common_position(&session)
        .and_then(|CommonPosition { end, ahead }| {
            follower.catch_up(&session, &mut StoreReading::from(end), ahead)
        })
        .err();
    let Follower { mut copy, divergence, .. } = follower;
    match refused {
        Some(error) if error.kind() == ErrorKind::Diverged => {}
        Some(error) => return Err(error),
        None => {
            let message = "the folder did not diverge from the store";
            return Err(Error::new(ErrorKind::Conflict, message)
                .with_hint("open it with the store")
                .at_path(dir));
        }
    }
    let Divergence { first, last, proven } = match divergence {
        Some(divergence) => divergence,
        // The folder has the same records in other segments, and maybe more.
        None => {
            let first = last_common(&mut copy, &session)? + 1;
            Divergence { first, last: copy.last().seq, proven: copy.proven_seq() }
        }
    };
    let storage = &*options.storage;
    let exported =
        if first <= last { Some(export(&mut copy, storage, (first, last), line)?) } else { None };
    let records = if first <= last {
        let chain = copy.find(last)?.map(|record| record.chain.to_string());
        chain.map(|chain| LostRecords { first, last, chain })
    } else {
        None
    };
    let kept = set_aside(&copy, storage, &format!("diverged-{}", copy.head_epoch()))?;
    let exported = exported.map(|name| kept.join(name));
    drop(copy);
    let end = restore_after(dir, options, client, records, &mut |_| ())?;
    let lost = (last + 1).saturating_sub(first);
    let acknowledged = (proven.min(last) + 1).saturating_sub(first);
    Ok(Rejoined { common_seq: first - 1, lost, acknowledged, kept, exported, end })
}

/// The last record that the log in the store and the folder have in common.
fn last_common(copy: &mut LogCopy, session: &StoreSession<'_>) -> Result<u64> {
    let mut common = 0;
    session.find_end(StoreEnd::start(), &mut |taken| {
        let mut records = Vec::new();
        taken.for_each_record(&mut |record| {
            records.push((record.header.stamp.seq, record.chain));
        });
        for (seq, chain) in records {
            if copy.find(seq)?.is_some_and(|own| own.chain == chain) {
                common = seq;
            }
        }
        Ok(())
    })?;
    Ok(common)
}

/// Write records of the folder to a file in it, and return the name of the file.
fn export(
    copy: &mut LogCopy,
    storage: &dyn Storage,
    (first, last): (u64, u64),
    line: &mut dyn FnMut(&LoggedRecord) -> String,
) -> Result<String> {
    let name = format!("lost-{first}-{last}.jsonl");
    let (path, temporary) = (copy.dir().join(&name), copy.dir().join(format!("{name}.tmp")));
    let failed = |error| Error::io("write the lost records", &path, error);
    // A crash may have left one.
    if storage.open(&temporary, Access::Read).is_ok() {
        storage.remove(&temporary).map_err(failed)?;
    }
    let file = storage.create(&temporary).map_err(failed)?;
    let (mut next, mut offset) = (first, 0);
    while next <= last {
        let Some(part) = copy.part(next, SHIPPED_SIZE)? else {
            let message = "the folder no longer has this record";
            return Err(Error::new(ErrorKind::Corrupt, message).at_path(copy.dir()).at_seq(next));
        };
        let lines = lines_of(&part, line)?;
        file.write_at(&lines, offset).map_err(failed)?;
        offset += to_u64(lines.len());
        next = part.last.seq + 1;
    }
    sync_as(storage, &*file, &temporary, &path).map_err(failed)?;
    Ok(name)
}

fn sync_as(
    storage: &dyn Storage,
    file: &dyn StorageFile,
    temporary: &Path,
    path: &Path,
) -> std::io::Result<()> {
    file.sync()?;
    storage.rename(temporary, path)?;
    storage.sync_dir(path.parent().unwrap_or(Path::new("")))
}

fn lines_of(part: &FolderPart, line: &mut dyn FnMut(&LoggedRecord) -> String) -> Result<Vec<u8>> {
    let FolderPart { segment, offset, frames, before, last, .. } = part;
    let (next_seq, chain) = (before.seq + 1, before.chain);
    let start = FrameWalk::at(next_seq, chain, *offset);
    let (mut lines, mut offset) = (Vec::new(), *offset);
    let walked = walk_frames(frames, segment, start, last.seq, &mut |record| {
        let payload = record.payload.to_vec();
        let record = LoggedRecord::of(record, payload, segment.ordinal, offset);
        offset += record.size;
        lines.extend_from_slice(line(&record).as_bytes());
        lines.push(b'\n');
    });
    walked.map_err(|fault| Error::new(ErrorKind::Corrupt, fault.to_string()).at_seq(next_seq))?;
    Ok(lines)
}

/// How many names are tried for a folder that is set aside.
const NAMES_MAX: u32 = 1000;

/// Give the folder another name, `NAME.WHY`, and return it.
pub(super) fn set_aside(copy: &LogCopy, storage: &dyn Storage, why: &str) -> Result<PathBuf> {
    let dir = copy.dir();
    let base = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for number in 1..=NAMES_MAX {
        let more = if number == 1 { String::new() } else { format!("-{number}") };
        let kept = dir.with_file_name(format!("{base}.{why}{more}"));
        let is_free =
            storage.list(&kept).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if !is_free {
            continue;
        }
        let parent = dir.parent().unwrap_or(Path::new(""));
        storage
            .rename(dir, &kept)
            .and_then(|()| storage.sync_dir(parent))
            .map_err(|error| Error::io("rename the folder", dir, error))?;
        return Ok(kept);
    }
    let message = format!("the folder was set aside {NAMES_MAX} times: every name for it is taken");
    Err(Error::new(ErrorKind::Rejected, message)
        .with_hint("move the folders of this name that are no longer needed")
        .at_path(dir))
}
