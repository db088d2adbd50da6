//! Archives: the oldest segments of a ledger and the blobs that they reference, in one file
//! (`format/retention.md`, section 5).
//!
//! Invariants:
//! - The file has a temporary name until it was read back and verified.
//! - The ledger is only read; no file is removed or overwritten except the archive's own temporary one.
//! - A blob that cannot be read is an error; a blob that is missing or damaged is listed as
//!   missing.

use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, Uid};
use crate::ledger::blobs::referenced_up_to;
use crate::ledger::environment::Environment;
use crate::ledger::verify::archive::{Content, SequentialReader, measure};
use crate::ledger::verify::report::{LedgerCondition, VerifyLevel, VerifyRequest};
use crate::log::{
    ARCHIVE_FORMAT, ArchiveManifest, ArchivedFile, BlobState, FindingClass, LogReader,
    MANIFEST_NAME, archive_head, uid_text,
};
use crate::storage::{Access, Storage, StorageFile, TarStorage, TarWriter};

use super::prune::{RetentionLimit, SegmentPrefix};

/// A new archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveReport {
    /// Its file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub length: u64,
    /// BLAKE3 of all of it, in hexadecimal.
    pub blake3: String,
    pub manifest: ArchiveManifest,
}

/// All entries except the manifest, in order.
type Contents = Vec<(String, Content)>;

/// Called with the bytes that are done and with all bytes, from any thread. If it returns `Break`, the work stops.
pub type ArchiveWatch<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

/// Make an archive of the oldest segments of the ledger `dir`: those in which all runs have ended,
/// up to record `through`. The file `to` must not exist. `None` if `watch` stopped it; then no file remains.
///
/// # Errors
/// `Rejected` without such a segment, naming the open run; `Corrupt` if a segment is damaged; `Io`,
/// also for a blob that cannot be read; `DiskFull`. No file remains after an error.
pub fn archive(
    dir: &Path,
    to: &Path,
    through: Option<u64>,
    environment: &Environment,
    watch: ArchiveWatch<'_>,
) -> Result<Option<ArchiveReport>> {
    let reader = LogReader::open(&environment.storage, dir)?;
    // The files of the ledger are read from the folder that is open.
    let storage = &reader.storage;
    if reader.manifest().is_some() {
        let message = "this is an archive already; copy the file";
        return Err(Error::new(ErrorKind::Rejected, message).at_path(dir));
    }
    if storage.open(to, Access::Read).is_ok() {
        let there = std::io::ErrorKind::AlreadyExists;
        return Err(Error::io("make the archive", to, there.into()));
    }
    let prefix = limited(&reader, through)?;
    let (contents, missing_blobs) = contents(&reader, &prefix)?;
    let manifest = manifest(&**storage, &reader, &prefix, &contents, missing_blobs)?;
    let (temporary, file) = create_beside(&**storage, to, || environment.ids.next_id())?;
    let work = Work::of(&manifest, watch);
    let made = write(&**storage, (&temporary, &*file), &manifest, &contents, &work)
        .and_then(|()| read_back(&temporary, environment, &work))
        .and_then(|()| {
            let (length, blake3) = measure(&**storage, &Content::File(temporary.clone()))?;
            publish(&**storage, &temporary, to)?;
            Ok(ArchiveReport { path: to.to_owned(), length, blake3, manifest })
        });
    if made.is_err() {
        let _ = storage.remove(&temporary);
    }
    match made {
        // A request to stop after the last byte comes too late.
        Ok(report) => Ok(Some(report)),
        Err(_) if work.is_stopped() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The progress of an archive: each byte is written and read back.
struct Work<'a> {
    watch: ArchiveWatch<'a>,
    /// The bytes to write.
    total: u64,
    written: AtomicU64,
    is_stopped: AtomicBool,
}

impl<'a> Work<'a> {
    fn of(manifest: &ArchiveManifest, watch: ArchiveWatch<'a>) -> Self {
        let total = manifest.files.iter().map(|file| file.length).sum();
        Self { watch, total, written: AtomicU64::new(0), is_stopped: AtomicBool::new(false) }
    }

    /// Asks whether to continue after a number of bytes.
    fn reach(&self, done: u64) -> ControlFlow<()> {
        let next = (self.watch)(done, self.total.saturating_mul(2));
        self.is_stopped.fetch_or(next.is_break(), Ordering::Relaxed);
        next
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// The content of a file, which ends with an error if the work stops.
    fn watched(&self, content: impl Read) -> impl Read {
        WatchedReader { content, work: self }
    }
}

struct WatchedReader<'a, R> {
    content: R,
    work: &'a Work<'a>,
}

impl<R: Read> Read for WatchedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        let read = u64::try_from(count).unwrap_or(u64::MAX);
        let written = self.work.written.fetch_add(read, Ordering::Relaxed).saturating_add(read);
        match self.work.reach(written) {
            ControlFlow::Continue(()) => Ok(count),
            ControlFlow::Break(()) => Err(io::Error::other("stopped")),
        }
    }
}

/// The segments in which all runs have ended, up to a record.
fn limited(reader: &LogReader, through: Option<u64>) -> Result<SegmentPrefix> {
    let limit = through.map_or(RetentionLimit::EndedRuns, RetentionLimit::EndedRunsUpTo);
    SegmentPrefix::of(reader, limit)
}

/// All entries except the manifest, and the missing blobs.
fn contents(reader: &LogReader, prefix: &SegmentPrefix) -> Result<(Contents, Vec<String>)> {
    let Some((_, last, _)) = prefix.segments.last() else { return Ok((Vec::new(), Vec::new())) };
    let mut contents = vec![("HEAD".to_owned(), Content::Bytes(archive_head(last, &prefix.next)))];
    for (path, header, _) in &prefix.segments {
        contents.push((format!("log/{}", header.name()), Content::File(path.clone())));
    }
    let (blobs, mut missing) = (reader.blobs(), Vec::new());
    for id in referenced_up_to(reader, prefix.next.prev_last_seq)? {
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
    let message = format!("cannot read an output to archive: {why}; try again");
    Error::new(ErrorKind::Io, message).at_path(path)
}

fn manifest(
    storage: &dyn Storage,
    reader: &LogReader,
    prefix: &SegmentPrefix,
    contents: &[(String, Content)],
    missing_blobs: Vec<String>,
) -> Result<ArchiveManifest> {
    let mut files = Vec::new();
    for (name, content) in contents {
        let (length, blake3) = measure(storage, content)?;
        files.push(ArchivedFile { name: name.clone(), length, blake3 });
    }
    let (first, next) = (prefix.segments.first().map(|(_, header, _)| header), &prefix.next);
    Ok(ArchiveManifest {
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

fn write(
    storage: &dyn Storage,
    (path, file): (&Path, &dyn StorageFile),
    manifest: &ArchiveManifest,
    contents: &[(String, Content)],
    work: &Work<'_>,
) -> Result<()> {
    let io = |error| Error::io("write the archive", path, error);
    let mut writer = TarWriter::new(file);
    let head = manifest.encode();
    let length = u64::try_from(head.len()).unwrap_or(u64::MAX);
    writer.add(MANIFEST_NAME, length, &mut head.as_slice()).map_err(io)?;
    for ((name, content), entry) in contents.iter().zip(&manifest.files) {
        match content {
            Content::Bytes(bytes) => {
                writer.add(name, entry.length, &mut work.watched(bytes.as_slice()))
            }
            Content::File(source) => {
                let open = storage.open(source, Access::Read);
                let file =
                    open.map_err(|error| Error::io("read a file to archive", source, error))?;
                writer.add(name, entry.length, &mut work.watched(SequentialReader::new(file)))
            }
        }
        .map_err(io)?;
    }
    writer.finish().map_err(io)
}

/// Verify the archive that was written.
fn read_back(path: &Path, environment: &Environment, work: &Work<'_>) -> Result<()> {
    let inside = environment.in_archive(path)?;
    let request = VerifyRequest {
        level: VerifyLevel::Snapshots,
        jobs: NonZeroUsize::MIN,
        expected: None,
        watch: &|progress| work.reach(work.total.saturating_add(progress.done.min(work.total))),
    };
    let report = request.run(path, &inside)?;
    if report.condition() == LedgerCondition::Valid {
        return Ok(());
    }
    let is_harmless = |class| matches!(class, FindingClass::Warning | FindingClass::RecordedLoss);
    let found = report.log.findings.iter().find(|finding| !is_harmless(finding.class));
    let what = found.map_or_else(String::new, |finding| format!(": {finding}"));
    let message = format!("the archive is invalid when it is read back{what}; try again");
    Err(Error::new(ErrorKind::Corrupt, message).at_path(path))
}

#[doc(hidden)]
impl Environment {
    /// An environment that reads an archive file as a ledger at the file's path.
    ///
    /// # Errors
    /// `NotALedger` for a file that is not an archive; `Corrupt` if a byte of the archive outside of
    /// the archived files is invalid; `Io`.
    pub fn in_archive(&self, path: &Path) -> Result<Self> {
        let storage = TarStorage::open(&self.storage, path, MANIFEST_NAME);
        let storage = storage.map_err(|error| match error.kind() {
            std::io::ErrorKind::Unsupported => {
                Error::new(ErrorKind::NotALedger, "this file is not an archive")
                    .with_hint("name the folder of a ledger, or the file of an archive")
                    .at_path(path)
            }
            std::io::ErrorKind::InvalidData => {
                Error::io("read the archive", path, error).as_kind(ErrorKind::Corrupt)
            }
            _ => Error::io("read the archive", path, error),
        })?;
        Ok(Environment { storage: Arc::new(storage), ..self.clone() })
    }
}

/// Create a temporary file beside the archive. Its name has random digits, so that no other user can
/// prepare or block it.
fn create_beside(
    storage: &dyn Storage,
    to: &Path,
    mut random: impl FnMut() -> Uid,
) -> Result<(PathBuf, Box<dyn StorageFile>)> {
    let mut attempts_left = NAME_ATTEMPTS;
    loop {
        attempts_left -= 1;
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", uid_text(&random())));
        let path = to.with_file_name(name);
        match storage.create(&path) {
            Ok(file) => return Ok((path, file)),
            // Of a process that was killed, with the same source of random bytes.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts_left > 0 => {}
            Err(error) => return Err(Error::io("write the archive", &path, error)),
        }
    }
}

/// How many names are tried.
const NAME_ATTEMPTS: u32 = 8;

/// Rename the temporary file durably.
fn publish(storage: &dyn Storage, temporary: &Path, to: &Path) -> Result<()> {
    storage.rename(temporary, to).map_err(|error| Error::io("rename the archive", to, error))?;
    let folder = to.parent().unwrap_or(Path::new(""));
    storage.sync_dir(folder).map_err(|error| Error::io("sync the folder", folder, error))
}
