//! Archives: the oldest segments of a ledger whole, and the outputs that they name, in one file
//! (`format/retention.md`, section 5).
//!
//! Invariants:
//! - The file has its name only after it was read back and verified.
//! - The ledger is only read, and no file but the archive's own is removed.
//! - What cannot be read is not taken for what is missing: it may be whole.
//!
//! Left out on purpose: what a tar file looks like (`storage::archive`), and pruning.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, ContentHasher, content_hash};
use crate::log::{
    ARCHIVE_FORMAT, ArchivedFile, BlobId, BlobState, Class, Finding, Item, LogReader, MANIFEST,
    Manifest, archive_head, uid_text,
};
use crate::storage::{Access, ArchiveStorage, ArchiveWriter, EntryKind, Storage, StorageFile};

use super::archive_part::{create_beside, give_name};
use super::blobs::blob_of;
use super::environment::Environment;
use super::retention::{Prefix, Through};
use super::verify::{Condition, Level, VerifyReport, VerifyRequest};
use super::{codec, verify};

/// How much is read at once.
const PIECE: usize = 1 << 20;

/// An archive that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// Its file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub length: u64,
    /// BLAKE3 of all of it, in hexadecimal.
    pub blake3: String,
    /// What is in it.
    pub manifest: Manifest,
}

/// All entries but the manifest, in order.
type Contents = Vec<(String, Content)>;

/// Where the bytes of an entry come from.
enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// Make an archive of the oldest segments of the ledger `dir`: those whose runs have all ended,
/// and of them those up to record `through`. The file `to` is not there yet.
///
/// # Errors
/// `Rejected` if there is no such segment, naming the run that holds it back; `Corrupt` if what is
/// to be archived does not hold; `Io`, also for an output that is there and cannot be read, and
/// `DiskFull`. Nothing is left behind.
pub fn archive(
    dir: &Path,
    to: &Path,
    through: Option<u64>,
    environment: &Environment,
) -> Result<Archived> {
    let storage = &environment.storage;
    let reader = LogReader::open(storage, dir)?;
    if reader.manifest().is_some() {
        let message = "this is an archive itself: copy it";
        return Err(Error::new(ErrorKind::Rejected, message).at_path(dir));
    }
    if storage.open(to, Access::Read).is_ok() {
        let there = std::io::ErrorKind::AlreadyExists;
        return Err(Error::io("make the archive", to, there.into()));
    }
    let prefix = limited(&reader, through)?;
    let (contents, missing_blobs) = contents(&reader, &prefix)?;
    let manifest = manifest(&**storage, &reader, &prefix, &contents, missing_blobs)?;
    let (temporary, file) = create_beside(&**storage, to)?;
    let made = write(&**storage, (&temporary, &*file), &manifest, &contents)
        .and_then(|()| read_back(&temporary, environment))
        .and_then(|()| {
            let (length, blake3) = measure(&**storage, &Content::File(temporary.clone()))?;
            give_name(&**storage, &temporary, to)?;
            Ok(Archived { path: to.to_owned(), length, blake3, manifest })
        });
    if made.is_err() {
        let _ = storage.remove(&temporary);
    }
    made
}

/// The segments whose runs have ended, as far as somebody wants.
fn limited(reader: &LogReader, through: Option<u64>) -> Result<Prefix> {
    Prefix::of(reader, through.map_or(Through::Ended, Through::EndedUpTo))
}

/// All entries but the manifest, in order, and the blobs that should be there and are not.
fn contents(reader: &LogReader, prefix: &Prefix) -> Result<(Contents, Vec<String>)> {
    let Some((_, last, _)) = prefix.segments.last() else { return Ok((Vec::new(), Vec::new())) };
    let mut contents = vec![("HEAD".to_owned(), Content::Bytes(archive_head(last, &prefix.next)))];
    for (path, header, _) in &prefix.segments {
        contents.push((format!("log/{}", header.name()), Content::File(path.clone())));
    }
    let (blobs, mut missing) = (reader.blobs(), Vec::new());
    for id in named(reader, prefix.next.prev_last_seq)? {
        let (path, hex) = (blobs.path(&id), id.hex());
        match blobs.check(&id) {
            BlobState::Intact => {
                let name = format!("blob/{}/{hex}", hex.get(..2).unwrap_or_default());
                contents.push((name, Content::File(path)));
            }
            BlobState::Unreadable(why) => return Err(unreadable(&path, &why)),
            BlobState::Missing | BlobState::WrongLength(_) | BlobState::WrongHash(_) => {
                missing.push(hex);
            }
        }
    }
    Ok((contents, missing))
}

fn unreadable(path: &Path, why: &str) -> Error {
    let message = format!("an output that is to be archived cannot be read: {why}; try again");
    Error::new(ErrorKind::Io, message).at_path(path)
}

/// The blobs that the records up to `last` name.
fn named(reader: &LogReader, last: u64) -> Result<BTreeSet<BlobId>> {
    let mut named = BTreeSet::new();
    for item in reader.walk(reader.first_seq()) {
        match item? {
            Item::Record(record, _) if record.seq > last => break,
            Item::Record(record, _) => {
                named.extend(codec::decode(&record)?.as_ref().and_then(blob_of));
            }
            Item::Damage(damage) => return Err(damage.into_error()),
            Item::Derived(_) | Item::OpenEnd { .. } => {}
        }
    }
    Ok(named)
}

fn manifest(
    storage: &dyn Storage,
    reader: &LogReader,
    prefix: &Prefix,
    contents: &[(String, Content)],
    missing_blobs: Vec<String>,
) -> Result<Manifest> {
    let mut files = Vec::new();
    for (name, content) in contents {
        let (length, blake3) = measure(storage, content)?;
        files.push(ArchivedFile { name: name.clone(), length, blake3 });
    }
    let (first, next) = (prefix.segments.first().map(|(_, header, _)| header), &prefix.next);
    Ok(Manifest {
        format: ARCHIVE_FORMAT.to_owned(),
        ledger_uid: uid_text(&next.ledger),
        genesis_uid: uid_text(&next.genesis),
        first_ordinal: first.map_or(0, |first| first.ordinal),
        last_ordinal: next.ordinal.saturating_sub(1),
        first_seq: reader.first_seq(),
        last_seq: next.prev_last_seq,
        chain_before: first.map_or(Chain::GENESIS, |first| first.prev_chain).to_string(),
        chain: next.prev_chain.to_string(),
        files,
        missing_blobs,
    })
}

/// Length and hash.
fn measure(storage: &dyn Storage, content: &Content) -> Result<(u64, String)> {
    let path = match content {
        Content::Bytes(bytes) => {
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            return Ok((length, Chain(content_hash(bytes)).to_string()));
        }
        Content::File(path) => path,
    };
    let io = |error| Error::io("read what is archived", path, error);
    let mut file = Whole { file: storage.open(path, Access::Read).map_err(io)?, at: 0 };
    let (mut hasher, mut piece) = (ContentHasher::default(), vec![0; PIECE]);
    loop {
        let count = file.read(&mut piece).map_err(io)?;
        if count == 0 {
            return Ok((file.at, Chain(hasher.finish()).to_string()));
        }
        hasher.update(piece.get(..count).unwrap_or_default());
    }
}

/// A file from its start to its end.
struct Whole {
    file: Box<dyn StorageFile>,
    at: u64,
}

impl Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += u64::try_from(count).map_err(std::io::Error::other)?;
        Ok(count)
    }
}

fn write(
    storage: &dyn Storage,
    (path, file): (&Path, &dyn StorageFile),
    manifest: &Manifest,
    contents: &[(String, Content)],
) -> Result<()> {
    let io = |error| Error::io("write the archive", path, error);
    let mut writer = ArchiveWriter::new(file);
    let head = manifest.encode();
    let length = u64::try_from(head.len()).unwrap_or(u64::MAX);
    writer.add(MANIFEST, length, &mut head.as_slice()).map_err(io)?;
    for ((name, content), entry) in contents.iter().zip(&manifest.files) {
        match content {
            Content::Bytes(bytes) => writer.add(name, entry.length, &mut bytes.as_slice()),
            Content::File(source) => {
                let open = storage.open(source, Access::Read);
                let file =
                    open.map_err(|error| Error::io("read what is archived", source, error))?;
                writer.add(name, entry.length, &mut Whole { file, at: 0 })
            }
        }
        .map_err(io)?;
    }
    writer.finish().map_err(io)
}

/// Whether what was written is an archive that holds.
fn read_back(path: &Path, environment: &Environment) -> Result<()> {
    let inside = archive_environment(path, environment)?;
    let request = VerifyRequest {
        level: Level::Snapshots,
        jobs: NonZeroUsize::MIN,
        expected: None,
        watch: &|_| ControlFlow::Continue(()),
    };
    let report = verify::verify(path, &inside, request)?;
    if report.condition() == Condition::Whole {
        return Ok(());
    }
    let found = report.log.findings.iter().find(|finding| finding.class != Class::Warning);
    let what = found.map_or_else(String::new, |finding| format!(": {finding}"));
    let message = format!("the archive does not hold when it is read back{what}; try again");
    Err(Error::new(ErrorKind::Corrupt, message).at_path(path))
}

/// An environment in which the archive in that file is a ledger at the file's own path, to be read.
///
/// # Errors
/// `NotALedger` for a file that is not an archive; `Corrupt` for one of which a byte outside of its
/// files is not the one that was written; `Io`.
pub fn archive_environment(path: &Path, environment: &Environment) -> Result<Environment> {
    let storage = ArchiveStorage::open(&environment.storage, path, MANIFEST);
    let storage = storage.map_err(|error| match error.kind() {
        std::io::ErrorKind::Unsupported => {
            let message = "not a ledger: this is a file, and it is not an archive; name a folder that \
                           `ledger init` or `ledger run` made, or a file that `ledger archive` made";
            Error::new(ErrorKind::NotALedger, message).at_path(path)
        }
        std::io::ErrorKind::InvalidData => {
            Error::io("read the archive", path, error).as_kind(ErrorKind::Corrupt)
        }
        _ => Error::io("read the archive", path, error),
    })?;
    Ok(Environment { storage: Arc::new(storage), ..environment.clone() })
}

/// If what was verified is an archive: whether everything that its manifest says is so, and
/// nothing else is there.
pub(super) fn check(
    dir: &Path,
    environment: &Environment,
    reader: &LogReader,
    report: &mut VerifyReport,
) -> Result<()> {
    let Some(manifest) = reader.manifest() else { return Ok(()) };
    let storage = &*environment.storage;
    let mut wrong = Vec::new();
    let mut found = BTreeMap::new();
    list(storage, dir, "", &mut found)?;
    for entry in &manifest.files {
        let path = dir.join(&entry.name);
        let Some(content) = found.remove(&entry.name) else {
            wrong.push((path, 0, "the manifest names it, and it is not there".to_owned()));
            continue;
        };
        let (length, blake3) = measure(storage, &content)?;
        if (length, &blake3) != (entry.length, &entry.blake3) {
            let what = format!(
                "expected {} bytes with the blake3 {}, found {length} with {blake3}",
                entry.length, entry.blake3
            );
            wrong.push((path, length, what));
        }
    }
    found.remove(MANIFEST);
    for name in found.into_keys() {
        wrong.push((dir.join(name), 0, "the manifest does not name it".to_owned()));
    }
    wrong.extend(disagreements(reader, manifest).map(|what| (dir.join(MANIFEST), 0, what)));
    report.log.keep(wrong.into_iter().map(|(path, end, what)| Finding {
        class: Class::Damage,
        path,
        offset: 0,
        end,
        missing: None,
        what,
    }));
    Ok(())
}

/// All files below a folder, by their names from the top.
fn list(
    storage: &dyn Storage,
    dir: &Path,
    folder: &str,
    found: &mut BTreeMap<String, Content>,
) -> Result<()> {
    let path = dir.join(folder);
    let entries = storage.list(&path);
    for entry in entries.map_err(|error| Error::io("list the folder", &path, error))? {
        let name = if folder.is_empty() { entry.name } else { format!("{folder}/{}", entry.name) };
        if entry.kind == EntryKind::Folder {
            list(storage, dir, &name, found)?;
        } else {
            let content = Content::File(dir.join(&name));
            found.insert(name, content);
        }
    }
    Ok(())
}

/// What a manifest says that the log in the archive does not.
fn disagreements(reader: &LogReader, manifest: &Manifest) -> impl Iterator<Item = String> {
    let headers: Vec<_> =
        reader.segments().into_iter().filter_map(|segment| segment.header.ok()).collect();
    let (first, last) = (headers.first(), headers.last());
    let head = reader.head();
    let said = |text: &str| text.to_owned();
    let pairs = [
        ("ledger_uid", said(&manifest.ledger_uid), first.map(|it| uid_text(&it.ledger))),
        ("genesis_uid", said(&manifest.genesis_uid), first.map(|it| uid_text(&it.genesis))),
        (
            "first_ordinal",
            manifest.first_ordinal.to_string(),
            first.map(|it| it.ordinal.to_string()),
        ),
        ("last_ordinal", manifest.last_ordinal.to_string(), last.map(|it| it.ordinal.to_string())),
        ("first_seq", manifest.first_seq.to_string(), first.map(|it| it.base_seq.to_string())),
        ("last_seq", manifest.last_seq.to_string(), head.map(|it| it.durable_seq.to_string())),
        ("chain_before", said(&manifest.chain_before), first.map(|it| it.prev_chain.to_string())),
        ("chain", said(&manifest.chain), head.map(|it| it.chain.to_string())),
    ];
    let differs = pairs.into_iter().filter_map(|(field, said, found)| {
        let found = found.filter(|found| *found != said)?;
        Some(format!("{field}: expected {said}, as the manifest says, found {found}"))
    });
    let names: BTreeSet<_> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    // Where a record cannot be read that was reported, and says nothing about blobs.
    let missing = named(reader, manifest.last_seq).ok().map(|blobs| {
        let is_missing = |id: &&BlobId| {
            let hex = id.hex();
            !names.contains(format!("blob/{}/{hex}", hex.get(..2).unwrap_or_default()).as_str())
        };
        blobs.iter().filter(is_missing).map(BlobId::hex).collect::<Vec<_>>()
    });
    let is_other = missing.is_some_and(|missing| missing != manifest.missing_blobs);
    let other = is_other.then(|| "missing_blobs are not those that the records name".to_owned());
    differs.chain(other).collect::<Vec<_>>().into_iter()
}
