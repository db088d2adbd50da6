//! The last record of each ledger that this user wrote to, kept outside of the ledger.
//!
//! A ledger that was rolled back, by `git checkout` or by a copy of an older folder, is consistent:
//! it does not show that records are missing. Their work would be dispatched again. So each process
//! that writes keeps the last record and its chain value in the user's state folder, and compares
//! them when a ledger is opened for writing. A ledger that is gone, by `git clean` or `rm`, is an
//! extreme case: a new one would begin at the first step. If the folder around it has been
//! replaced, as in a script that creates its folder again, the command warns and makes the new
//! ledger; the same applies below a folder whose ledger is gone.
//!
//! Invariants:
//! - A root belongs to one folder and one ledger: a copy in another folder, and a new ledger in the
//!   same folder, have roots of their own.
//! - The root is never a precondition: a ledger also works without a state folder.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use plan_ledger::internals::ledger::time_text;
use plan_ledger::{Chain, Environment, Error, ErrorKind, Ledger, LedgerView, Timestamp};

use crate::protocol::private_files;
use crate::protocol::{Failure, OWN_LEDGER, counted, hex};

use super::state_folder;

/// How long the root of a lost folder is kept after its last record: 90 days, in microseconds.
const FORGET_AFTER: Timestamp = 90 * 24 * 60 * 60 * 1_000_000;

/// Whether the command line has `--accept-rollback`.
static ROLLBACK_ACCEPTED: AtomicBool = AtomicBool::new(false);

/// Opens ledgers even if they were rolled back.
pub(crate) fn accept_rollback() {
    ROLLBACK_ACCEPTED.store(true, Ordering::Relaxed);
}

/// Whether this process opens ledgers even if they were rolled back.
pub(crate) fn is_rollback_accepted() -> bool {
    ROLLBACK_ACCEPTED.load(Ordering::Relaxed)
}

/// The last record of a ledger that this user wrote to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KnownRoot {
    /// The ledger's folder, absolute.
    folder: PathBuf,
    /// The folder around it, to tell it from one that is made in its place later.
    around: Option<FolderIdentity>,
    /// The identifier of the ledger.
    ledger: String,
    seq: u64,
    /// The chain value of the record.
    chain: String,
    /// When it was kept.
    time: Timestamp,
}

/// The identity of a folder; a later folder under the same path has another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FolderIdentity {
    inode: u64,
    /// When it was made, where the file system knows. Numbers are used again.
    created: Option<SystemTime>,
}

impl FolderIdentity {
    /// The identity of the folder around a folder.
    fn around(folder: &Path) -> Option<Self> {
        let found = fs::metadata(folder.parent()?).ok()?;
        Some(Self { inode: found.ino(), created: found.created().ok() })
    }
}

/// Keeps the last record of an open ledger. A failure is not an error: only a rollback would be
/// missed.
pub(crate) fn keep_root(dir: &Path, ledger: &Ledger) {
    let _ = keep(dir, ledger);
}

/// The same for a ledger that a function of the library opened and closed.
pub(crate) fn keep_root_of_folder(dir: &Path, environment: &Environment) {
    let known = || {
        let view = LedgerView::open(dir, environment).ok()?;
        let (id, _) = view.log().uids()?;
        let root = plan_ledger::log::root(&environment.storage, dir).ok()?;
        Some((hex(&id), root.seq, root.chain))
    };
    if let Some((ledger, seq, chain)) = known() {
        let _ = keep_as(dir, ledger, (seq, chain), environment.clock.now());
    }
}

/// Forgets the last record of the ledger in a folder, after a person replaced the folder by the log of its store.
#[cfg(feature = "store")]
pub(crate) fn forget_root(dir: &Path) {
    if let Some((path, _)) = file_of(dir) {
        // Without it, nothing is known.
        let _ = fs::remove_file(path);
    }
}

fn keep(dir: &Path, ledger: &Ledger) -> Option<()> {
    let head = ledger.head();
    let (path, folder) = file_of(dir)?;
    let id = fs::metadata(dir).ok().and_then(|_| ledger.uid().ok());
    // Without it, the folder was removed while it was open, or the ledger is not on a real disk and leaves nothing.
    let known = || read(&path).filter(|it| it.folder == folder && it.seq <= head.seq);
    let id = id.map(|id| hex(&id)).or_else(|| known().map(|known| known.ledger))?;
    keep_as(dir, id, (head.seq, head.chain), ledger.now())
}

fn keep_as(dir: &Path, ledger: String, (seq, chain): (u64, Chain), time: Timestamp) -> Option<()> {
    let (path, folder) = file_of(dir)?;
    let around = FolderIdentity::around(&folder);
    let root = KnownRoot { folder, around, ledger, seq, chain: chain.to_string(), time };
    write(&path, &root).ok()
}

/// Checks that a ledger which was opened for writing has the last record that this user wrote to it.
///
/// # Errors
/// `Rejected` if records are missing or replaced by others, unless that is accepted.
pub(crate) fn check_root(
    dir: &Path,
    ledger: &Ledger,
    environment: &Environment,
) -> Result<(), Failure> {
    let (id, head) = (hex(&ledger.uid()?), ledger.head());
    let chain_at = |seq| LedgerView::open(dir, environment).ok()?.log().chain_at(seq).ok()?;
    refused(dir, rollback(dir, &id, (head.seq, head.chain), chain_at))
}

/// The same for a ledger that is not open, before this process does something irreversible. A ledger that cannot be
/// read proves nothing.
///
/// # Errors
/// As [`check_root`].
pub(crate) fn check_root_of_folder(dir: &Path, environment: &Environment) -> Result<(), Failure> {
    refused(dir, rollback_text(dir, environment))
}

/// Checks, before a ledger is created, that this user has never written to a ledger in its folder.
/// If the folder around it has been replaced, returns a warning for people.
///
/// # Errors
/// `Rejected` if there was one in the same folder, unless that is accepted.
pub(crate) fn expect_not_gone(dir: &Path) -> Result<Option<String>, Failure> {
    plan_ledger::mutant!(GoneLedgerForgotten => return Ok(None));
    let shown = dir.display();
    match gone(dir).filter(|_| !ROLLBACK_ACCEPTED.load(Ordering::Relaxed)) {
        Some(gone) if gone.is_folder_there => {
            Err(Failure::Rejected(format!("{shown}: {}\nhint: {}", gone.text, gone.hint())))
        }
        Some(gone) => Ok(Some(format!("{shown}: {}; a new one begins", gone.text))),
        None => Ok(gone_above(dir).map(|(above, gone)| {
            format!("{}: {}; a new one begins here", above.display(), gone.text)
        })),
    }
}

/// The error for a folder without a ledger, or about a folder that was removed, with the known
/// facts about the former ledger.
pub(crate) fn with_gone(error: Error) -> Error {
    gone_error(&error).unwrap_or(error)
}

/// The same; `None` if no ledger is lost.
pub(crate) fn gone_error(error: &Error) -> Option<Error> {
    if !matches!(error.kind(), ErrorKind::NotALedger | ErrorKind::Io) {
        return None;
    }
    let path = error.location().path.as_ref()?;
    let mut folders = path.ancestors().take(2).filter(|folder| folder.file_name().is_some());
    let (folder, gone) =
        folders.find_map(|it| Some((it.to_owned(), gone(it)?))).or_else(|| gone_above(path))?;
    Some(Error::new(error.kind(), &gone.text).with_hint(gone.hint()).at_path(&folder))
}

/// The nearest lost ledger in a folder above that of a ledger that was found, not named. A command
/// below it would have found it.
fn gone_above(dir: &Path) -> Option<(PathBuf, Gone)> {
    let (_, ledger) = file_of(dir)?;
    let name = ledger.file_name().filter(|name| *name == OWN_LEDGER)?;
    let mut above = ledger.parent()?.ancestors().skip(1).map(|folder| folder.join(name));
    let found = above.find(|found| found.is_dir() || gone(found).is_some())?;
    gone(&found).filter(|gone| gone.is_folder_there).map(|gone| (found, gone))
}

/// The known facts about a lost ledger, and the remedy, in one line; `None` if none is lost. For an
/// agent the line states that a person decides.
pub(crate) fn gone_ledger_text(dir: &Path, is_for_agent: bool) -> Option<String> {
    let gone = gone(dir)?;
    let help = if is_for_agent {
        "tell the user: a backup can be restored, and only the user decides to start a new ledger"
    } else {
        gone.hint()
    };
    Some(format!("{}: {}: {help}", dir.display(), gone.text))
}

/// Whether this user wrote to a ledger in a folder that has none now, and the folder around it is still there.
pub(crate) fn is_gone(dir: &Path) -> bool {
    gone(dir).is_some_and(|gone| gone.is_folder_there)
}

/// A ledger that is gone.
struct Gone {
    text: String,
    /// Whether the folder around it is still the same.
    is_folder_there: bool,
}

impl Gone {
    /// The hint for a person.
    fn hint(&self) -> &'static str {
        if self.is_folder_there {
            "restore a backup; or to start a new ledger, add --accept-rollback to `run` or `init`: finished work is done \
             again"
        } else {
            "restore a backup; or start a new ledger with `ledger run` or `ledger init`: finished work is done again"
        }
    }
}

fn gone(dir: &Path) -> Option<Gone> {
    let (path, folder) = file_of(dir)?;
    let known = read(&path).filter(|known| known.folder == folder)?;
    // A damaged ledger, or one with a link in it, is not gone.
    let is_there = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    if folder.is_file() || ["HEAD", "log"].into_iter().any(is_there) {
        return None;
    }
    let is_folder_there = known.around == FolderIdentity::around(&folder);
    let place = if is_folder_there { "here" } else { "in the folder that was here" };
    let records = counted(known.seq, "record");
    let time = moment(known.time);
    // A process that was killed kept no later one.
    let text = format!("a ledger with at least {records} was {place} until {time}; it is gone");
    Some(Gone { text, is_folder_there })
}

/// A time to the second.
fn moment(time: Timestamp) -> String {
    let text = time_text(time);
    format!("{}Z", text.split_once('.').map_or(text.as_str(), |(whole, _)| whole))
}

fn refused(dir: &Path, rollback: Option<String>) -> Result<(), Failure> {
    match rollback {
        Some(text) if !ROLLBACK_ACCEPTED.load(Ordering::Relaxed) => {
            Err(Failure::Rejected(format!(
                "{}: {text}\nhint: restore the newer state, or add --accept-rollback to continue \
                 from this one: work since then is done again",
                dir.display()
            )))
        }
        _ => Ok(()),
    }
}

/// The missing records of a ledger that was rolled back, for people; `None` if it was not.
pub(crate) fn rollback_text(dir: &Path, environment: &Environment) -> Option<String> {
    let view = LedgerView::open(dir, environment).ok()?;
    let (id, _) = view.log().uids()?;
    let root = plan_ledger::log::root(&environment.storage, dir).ok()?;
    let chain_at = |seq| view.log().chain_at(seq).ok()?;
    rollback(dir, &hex(&id), (root.seq, root.chain), chain_at)
}

/// A ledger that was rolled back may have grown since then, so the known record is compared, not only the number of the
/// last one. A record that was pruned or cannot be read proves nothing.
fn rollback(
    dir: &Path,
    id: &str,
    (seq, chain): (u64, Chain),
    chain_at: impl Fn(u64) -> Option<Chain>,
) -> Option<String> {
    let (path, folder) = file_of(dir)?;
    let known = read(&path).filter(|known| known.folder == folder && known.ledger == id)?;
    let time = moment(known.time);
    if seq < known.seq {
        return Some(format!(
            "the ledger was rolled back: it ends at record {seq}, and had record {} at {time}",
            known.seq
        ));
    }
    let found = if seq == known.seq { Some(chain) } else { chain_at(known.seq) };
    plan_ledger::mutant!(GrownRollbackAccepted => return None);
    found.filter(|found| found.to_string() != known.chain).map(|_| {
        format!(
            "the ledger was rolled back, and other records were written since then: record {} is not the one that it \
             had at {time}",
            known.seq
        )
    })
}

/// The file with the root of the ledger in a folder, and the absolute path of the folder.
fn file_of(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let folder = dir.canonicalize().or_else(|_| absolute_if_missing(dir)).ok()?;
    // The file has the whole path: if two folders had the same hash, the later one would win.
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    let name = format!("{}.json", hex(&hasher.finish().to_le_bytes()));
    Some((state_folder("roots")?.join(name), folder))
}

/// The former absolute path of a lost folder.
fn absolute_if_missing(dir: &Path) -> io::Result<PathBuf> {
    let name = dir.file_name().ok_or(io::ErrorKind::NotFound)?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok(parent.unwrap_or(Path::new(".")).canonicalize()?.join(name))
}

fn read(path: &Path) -> Option<KnownRoot> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

fn write(path: &Path, root: &KnownRoot) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    private_files::create_folders(folder)?;
    if !path.exists() {
        forget_removed_folders(folder, root.time);
    }
    // A process that is killed leaves the old root or the new one.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(root)?)?;
    file.persist(path)?;
    Ok(())
}

/// Removes the roots of folders that were lost long ago: a folder that was moved or is not mounted
/// may come back.
fn forget_removed_folders(folder: &Path, now: Timestamp) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_gone = |known: KnownRoot| {
            now.saturating_sub(known.time) >= FORGET_AFTER && !known.folder.exists()
        };
        if read(&path).is_some_and(is_gone) {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}
