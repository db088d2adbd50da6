//! Checks the manifest of an archive against the files in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::{Chain, ContentHasher, content_hash};
use crate::ledger::blobs::referenced_up_to;
use crate::ledger::environment::Environment;
use crate::log::{
    ArchiveManifest, BlobId, FindingClass, LogReader, MANIFEST_NAME, VerifyFinding, uid_text,
};
use crate::storage::{Access, EntryKind, Storage, StorageFile};

use super::report::VerifyReport;

/// The number of bytes that are read at once.
const PIECE: usize = 1 << 20;

/// The content of an archive entry.
pub(crate) enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

/// Length and hash of a content.
pub(crate) fn measure(storage: &dyn Storage, content: &Content) -> Result<(u64, String)> {
    let path = match content {
        Content::Bytes(bytes) => {
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            return Ok((length, Chain(content_hash(bytes)).to_string()));
        }
        Content::File(path) => path,
    };
    let io = |error| Error::io("read a file to archive", path, error);
    let mut file = SequentialReader::new(storage.open(path, Access::Read).map_err(io)?);
    let (mut hasher, mut piece) = (ContentHasher::default(), vec![0; PIECE]);
    loop {
        let count = file.read(&mut piece).map_err(io)?;
        if count == 0 {
            return Ok((file.at, Chain(hasher.finish()).to_string()));
        }
        hasher.update(piece.get(..count).unwrap_or_default());
    }
}

/// Reads a file from its start to its end.
pub(crate) struct SequentialReader {
    file: Box<dyn StorageFile>,
    at: u64,
}

impl SequentialReader {
    pub(crate) fn new(file: Box<dyn StorageFile>) -> Self {
        Self { file, at: 0 }
    }
}

impl Read for SequentialReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += u64::try_from(count).map_err(std::io::Error::other)?;
        Ok(count)
    }
}

/// If the ledger is an archive, check its manifest, and that it has no other files.
pub(crate) fn check(
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
            wrong.push((path, 0, "the manifest names this file, but it is missing".to_owned()));
            continue;
        };
        let (length, blake3) = match measure(storage, &content) {
            Ok(measured) => measured,
            Err(error) => {
                wrong.push((path, entry.length, format!("the file cannot be read: {error}")));
                continue;
            }
        };
        if (length, &blake3) != (entry.length, &entry.blake3) {
            let what = format!(
                "expected {} bytes with the blake3 {}, found {length} with {blake3}",
                entry.length, entry.blake3
            );
            wrong.push((path, length, what));
        }
    }
    found.remove(MANIFEST_NAME);
    for name in found.into_keys() {
        wrong.push((dir.join(name), 0, "the manifest does not name this file".to_owned()));
    }
    wrong.extend(disagreements(reader, manifest).map(|what| (dir.join(MANIFEST_NAME), 0, what)));
    report.log.add_findings(wrong.into_iter().map(|(path, end, what): (_, _, String)| {
        VerifyFinding::new(FindingClass::Damage, path, 0..end, &what)
    }));
    Ok(())
}

/// All files below a folder, by their path from the top.
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

/// The differences between a manifest and the log in the archive.
fn disagreements(reader: &LogReader, manifest: &ArchiveManifest) -> impl Iterator<Item = String> {
    let headers: Vec<_> =
        reader.segments().into_iter().filter_map(|segment| segment.header.ok()).collect();
    let (first, last) = (headers.first(), headers.last());
    let head = reader.head();
    let claimed = |text: &str| text.to_owned();
    let pairs = [
        ("ledger_uid", claimed(&manifest.ledger_uid), first.map(|it| uid_text(&it.ledger))),
        ("genesis_uid", claimed(&manifest.genesis_uid), first.map(|it| uid_text(&it.genesis))),
        (
            "first_ordinal",
            manifest.first_ordinal.to_string(),
            first.map(|it| it.ordinal.to_string()),
        ),
        ("last_ordinal", manifest.last_ordinal.to_string(), last.map(|it| it.ordinal.to_string())),
        ("first_seq", manifest.first_seq.to_string(), first.map(|it| it.base_seq.to_string())),
        ("last_seq", manifest.last_seq.to_string(), head.map(|it| it.durable_seq.to_string())),
        (
            "chain_before",
            claimed(&manifest.chain_before),
            first.map(|it| it.prev_chain.to_string()),
        ),
        ("chain", claimed(&manifest.chain), head.map(|it| it.chain.to_string())),
    ];
    let differs = pairs.into_iter().filter_map(|(field, claimed, found)| {
        let found = found.filter(|found| *found != claimed)?;
        Some(format!("{field}: the manifest has {claimed}, the log {found}"))
    });
    let names: BTreeSet<_> = manifest.files.iter().map(|file| file.name.as_str()).collect();
    // An unreadable record was already reported. Its blobs are unknown, so this check is skipped.
    let missing = referenced_up_to(reader, manifest.last_seq).ok().map(|blobs| {
        let is_missing = |id: &&BlobId| {
            let hex = id.hex();
            !names.contains(format!("blob/{}/{hex}", hex.get(..2).unwrap_or_default()).as_str())
        };
        blobs.iter().filter(is_missing).map(BlobId::hex).collect::<Vec<_>>()
    });
    let differ = missing.is_some_and(|missing| missing != manifest.missing_blobs);
    let blobs =
        differ.then(|| "missing_blobs does not match the missing blobs of the records".to_owned());
    differs.chain(blobs).collect::<Vec<_>>().into_iter()
}
