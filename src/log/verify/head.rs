//! Verifying HEAD's slots, and reporting unknown files in the log's folder.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{HEAD_FIELDS_SIZE, HEAD_SIZE, HEAD_SLOT_SIZE, HeadCopies};
use crate::log::bytes::len_u64;
use crate::log::folder::{HeadBytes, LedgerPaths};
use crate::log::reader::LogReader;
use crate::storage::{Access, Storage};

use super::finding::{FindingClass, VerifyFinding};

/// The findings about HEAD itself.
pub(crate) fn findings(
    storage: &dyn Storage,
    dir: &Path,
    reader: &LogReader,
) -> Result<Vec<VerifyFinding>> {
    let path = LedgerPaths::new(dir).head();
    let finding =
        |range, what: &str| VerifyFinding::new(FindingClass::Damage, path.clone(), range, what);
    let Some(read) = read(storage, &path)? else {
        return Ok(vec![finding(0..0, "HEAD is missing, so the durable end is unknown")]);
    };
    let bytes = &read.bytes;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if bytes.len() != HEAD_SIZE {
        let found = if bytes.len() > HEAD_SIZE { "more".to_owned() } else { length.to_string() };
        let what = format!("expected a file of {HEAD_SIZE} bytes, found {found}");
        return Ok(vec![finding(0..length, &what)]);
    }
    let head_slots = read.slots();
    let mut findings = Vec::new();
    let slots = bytes.chunks(HEAD_SLOT_SIZE).zip(read.is_readable);
    for (slot, (bytes, is_readable)) in slots.enumerate() {
        let copies = head_slots.copies.get(slot).copied().unwrap_or_default();
        if copies == HeadCopies::Equal {
            continue;
        }
        let is_valid = head_slots.slots.get(slot).is_some_and(Option::is_some);
        let offset = u64::try_from(slot * HEAD_SLOT_SIZE).unwrap_or(u64::MAX);
        let end = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let what = match head_slots.newest() {
            Some(_) if is_valid && !is_readable => {
                "the storage cannot read some sectors of the slot; its other copies are used"
            }
            Some(_) if copies == HeadCopies::Mixed => {
                "a write of the slot was interrupted; its newest copy is used"
            }
            Some(_) if is_valid => "a copy in the slot is damaged; the newest valid one is used",
            Some(_) if !is_readable => "the storage cannot read the slot; the other slot is used",
            Some(_) => "invalid slot; the other slot is used",
            None if !is_readable => {
                "the storage cannot read the slot, and the other one is not valid"
            }
            None => "invalid slot, like the other one",
        };
        let class = match copies {
            HeadCopies::Mixed => FindingClass::Warning,
            HeadCopies::Damaged | HeadCopies::Equal => FindingClass::Damage,
        };
        findings.push(VerifyFinding::new(class, path.clone(), offset..end, what));
    }
    if let [Some(one), Some(other)] = &head_slots.slots
        && one.generation == other.generation
        && one != other
    {
        findings.push(finding(0..length, "two different slots of one generation"));
    }
    if let Some((slot, head)) = head_slots.newest()
        && reader.head() == Some(head)
        && reader.segments.contradicts(head)
    {
        let offset = u64::try_from(slot * HEAD_SLOT_SIZE).unwrap_or(u64::MAX);
        let end = offset.saturating_add(len_u64(&[0; HEAD_FIELDS_SIZE]));
        let what = "it contradicts the header of a later segment";
        findings.push(finding(offset..end, what));
    }
    Ok(findings)
}

/// The bytes of HEAD; `None` without such a file.
fn read(storage: &dyn Storage, path: &Path) -> Result<Option<HeadBytes>> {
    let file = match storage.open(path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open HEAD", path, error)),
    };
    HeadBytes::read(&*file).map(Some).map_err(|error| Error::io("read HEAD", path, error))
}

/// Unknown files in the log's folder.
pub(crate) fn unknown_files(reader: &LogReader) -> impl Iterator<Item = VerifyFinding> + '_ {
    let folder = &reader.segments.folder;
    reader.unknown_files().iter().map(move |name| {
        let what = "unknown file, ignored";
        VerifyFinding::new(FindingClass::Warning, folder.join(name), 0..0, what)
    })
}
