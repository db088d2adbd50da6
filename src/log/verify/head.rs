//! HEAD's own slots, and names in the folder that are not the log's.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::{HEAD_SIZE, HEAD_SLOT_SIZE, Head, HeadView};
use crate::log::layout::Layout;
use crate::log::reader::LogReader;
use crate::storage::{Access, Storage};

use super::finding::{Class, Finding};

/// What is wrong with HEAD itself.
pub(super) fn findings(
    storage: &dyn Storage,
    dir: &Path,
    reader: &LogReader,
) -> Result<Vec<Finding>> {
    let path = Layout::new(dir).head();
    let finding = |class, offset, end, what: &str| Finding {
        class,
        path: path.clone(),
        offset,
        end,
        missing: None,
        what: what.to_owned(),
    };
    let Some(bytes) = bytes(storage, &path)? else {
        return Ok(vec![finding(
            Class::Damage,
            0,
            0,
            "the file is missing: nothing vouches for the end of the log",
        )]);
    };
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if bytes.len() != HEAD_SIZE {
        let what = format!("expected a file of {HEAD_SIZE} bytes, found another length");
        return Ok(vec![finding(Class::Damage, 0, length, &what)]);
    }
    let view = HeadView::decode(&bytes);
    let mut findings = Vec::new();
    for (slot, bytes) in bytes.chunks(HEAD_SLOT_SIZE).enumerate() {
        let is_never_written = bytes.iter().all(|byte| *byte == 0);
        if Head::decode(bytes).is_some() || (is_never_written && view.newest().is_some()) {
            continue;
        }
        let offset = u64::try_from(slot * HEAD_SLOT_SIZE).unwrap_or(u64::MAX);
        let end = offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let (class, what) = match view.newest() {
            Some(_) => {
                let what = "slot is not valid: a write of it was cut short, or it is damaged; the \
                            other one counts";
                (Class::Warning, what)
            }
            None => (Class::Damage, "slot is not valid, and neither is the other one"),
        };
        findings.push(finding(class, offset, end, what));
    }
    if let [Some(one), Some(other)] = &view.slots
        && one.generation == other.generation
        && one != other
    {
        findings.push(finding(Class::Damage, 0, length, "two different slots of one generation"));
    }
    if let Some((slot, head)) = view.newest()
        && reader.head() == Some(head)
        && reader.segments.contradict(head)
    {
        let offset = u64::try_from(slot * HEAD_SLOT_SIZE).unwrap_or(u64::MAX);
        let end = offset.saturating_add(132);
        let what = "it says what the header of a later segment rules out";
        findings.push(finding(Class::Damage, offset, end, what));
    }
    Ok(findings)
}

/// The bytes of HEAD, looked at again where a writer may have been at it; at most one more than
/// there should be.
fn bytes(storage: &dyn Storage, path: &Path) -> Result<Option<Vec<u8>>> {
    const ATTEMPTS: usize = 3;
    let file = match storage.open(path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open HEAD", path, error)),
    };
    let mut bytes = Vec::new();
    for _ in 0..ATTEMPTS {
        bytes = vec![0; HEAD_SIZE + 1];
        let count =
            file.read_at(&mut bytes, 0).map_err(|error| Error::io("read HEAD", path, error))?;
        bytes.truncate(count);
        if HeadView::decode(&bytes).is_whole() {
            break;
        }
    }
    Ok(Some(bytes))
}

/// Names in the log's folder that are not the log's.
pub(super) fn strangers(reader: &LogReader) -> impl Iterator<Item = Finding> + '_ {
    let folder = &reader.segments.folder;
    reader.strangers().iter().map(move |name| Finding {
        class: Class::Warning,
        path: folder.join(name),
        offset: 0,
        end: 0,
        missing: None,
        what: "this does not belong here; it is left alone".to_owned(),
    })
}
