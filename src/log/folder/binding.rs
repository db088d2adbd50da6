//! STORE.json: the store of a folder, and the moment at which its writer acknowledges
//! (`format/store.md`, section 8).
//!
//! Invariant: the file is durable before the first record is acknowledged in its mode.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::Uid;
use crate::log::bytes::{hex, is_hex};
use crate::storage::{Access, Storage};

use super::paths::{FolderKind, LedgerPaths};

/// The format that STORE.json names.
const FORMAT: &str = "plan-ledger binding 1";

/// The largest STORE.json that is read.
const SIZE_MAX: u64 = 64 << 10;

/// The condition under which the records of a folder are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundAck {
    /// The folder.
    Local,
    /// The folder; and the store has everything that is older than a bound.
    Bounded,
    /// The folder and the store.
    Store,
}

/// The binding of a folder to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreBinding {
    /// Address of the store, without credentials.
    pub url: String,
    /// The ledger.
    pub ledger: Uid,
    /// The condition under which the last writer of the folder acknowledged.
    pub ack: BoundAck,
    /// The records that only the previous folder had, until an opening slot states them.
    pub lost: Option<LostRecords>,
}

/// Records that a folder had and the log in the store has not: the store was joined again without them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LostRecords {
    /// The first one.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// The chain value of the last one, in hexadecimal.
    pub chain: String,
}

impl LostRecords {
    /// Whether the range is not empty and the chain value is well formed.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        (1..=self.last).contains(&self.first) && self.chain.len() == 64 && is_hex(&self.chain)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BindingFile {
    ack: BoundAck,
    format: String,
    ledger_uid: String,
    lost: Option<LostRecords>,
    url: String,
}

impl StoreBinding {
    fn encode(&self) -> Vec<u8> {
        let (ack, format) = (self.ack, FORMAT.to_owned());
        let (ledger_uid, url) = (hex(&self.ledger), self.url.clone());
        let file = BindingFile { ack, format, ledger_uid, lost: self.lost.clone(), url };
        let mut bytes = serde_json_canonicalizer::to_vec(&file)
            .expect("strings and integers always have a canonical form");
        bytes.push(b'\n');
        bytes
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, (ErrorKind, String)> {
        let invalid = || {
            let message = "the file does not name the store of the folder";
            (ErrorKind::Corrupt, message.to_owned())
        };
        let file: BindingFile = serde_json::from_slice(bytes).map_err(|_| invalid())?;
        if file.format != FORMAT {
            let message = format!("expected format `{FORMAT}`, found `{:.80}`", file.format);
            return Err((ErrorKind::Unsupported, message));
        }
        let ledger = parse_uid(&file.ledger_uid).ok_or_else(invalid)?;
        if file.lost.as_ref().is_some_and(|lost| !lost.is_valid()) {
            return Err(invalid());
        }
        Ok(Self { url: file.url, ledger, ack: file.ack, lost: file.lost })
    }
}

fn parse_uid(text: &str) -> Option<Uid> {
    let mut uid = Uid::default();
    if text.len() != 2 * uid.len() || !is_hex(text) {
        return None;
    }
    for (byte, place) in uid.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(place..place + 2)?, 16).ok()?;
    }
    Some(uid)
}

/// The binding of a ledger's folder to a store; `None` without a store.
///
/// # Errors
/// `Corrupt` or `Unsupported` if STORE.json cannot be interpreted; `Io`.
pub fn bound_store(storage: &dyn Storage, dir: &Path) -> Result<Option<StoreBinding>> {
    read_binding(storage, &LedgerPaths::new(dir))
}

pub(crate) fn read_binding(
    storage: &dyn Storage,
    paths: &LedgerPaths,
) -> Result<Option<StoreBinding>> {
    let path = paths.binding();
    let failed = |error| Error::io("read", &path, error);
    let file = match storage.open(&path, Access::Read) {
        Ok(file) => file,
        // A file in the place of the folder is not a ledger; the caller reports this better.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let length = file.length().map_err(failed)?.min(SIZE_MAX);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let count = file.read_at(&mut bytes, 0).map_err(failed)?;
    bytes.truncate(count);
    StoreBinding::decode(&bytes).map(Some).map_err(|(kind, message)| {
        Error::new(kind, message)
            .with_hint(
                "to leave the store, end its servers on all machines and remove the file STORE.json; \
                 reading needs no store",
            )
            .at_path(&path)
    })
}

/// Bind a folder to a store, durably. The caller has its lock.
pub(crate) fn write_binding(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    binding: &StoreBinding,
) -> Result<()> {
    let (temporary, path) = (paths.temporary_binding(), paths.binding());
    let failed = |error| Error::io("write", &path, error);
    // A crash may have left one.
    if storage.open(&temporary, Access::Read).is_ok() {
        storage.remove(&temporary).map_err(failed)?;
    }
    storage
        .create(&temporary)
        .and_then(|file| file.write_at(&binding.encode(), 0).and_then(|()| file.sync()))
        .and_then(|()| storage.rename(&temporary, &path))
        .map_err(failed)?;
    mutant!(BindingUnsynced => return Ok(()));
    storage.sync_dir(paths.dir()).map_err(failed)
}

/// Refuse to write to a folder that is bound to a store.
///
/// # Errors
/// `Rejected`, naming the store.
pub(crate) fn check_unbound(
    storage: &dyn Storage,
    paths: &LedgerPaths,
    kind: FolderKind,
) -> Result<()> {
    if kind != FolderKind::Bound || mutant!(BindingIgnored) {
        return Ok(());
    }
    let Some(binding) = read_binding(storage, paths)? else { return Ok(()) };
    let message =
        format!("this ledger is bound to the store {}: writing to it needs the store", binding.url);
    Err(Error::new(ErrorKind::Rejected, message)
        .with_hint(
            "name the store when you open it; to leave the store, end its servers on all machines and \
             remove the file STORE.json in the folder; reading needs no store",
        )
        .at_path(paths.dir()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;

    fn binding() -> StoreBinding {
        let url = "s3://bucket/a path".to_owned();
        StoreBinding { url, ledger: [0xAB; 16], ack: BoundAck::Bounded, lost: None }
    }

    /// Goal: a binding is read back, and written over another one; the bytes are those of the
    /// specification.
    #[test]
    fn binding_is_read_back() {
        let disk = SimDisk::new();
        disk.create_dir(Path::new("/l")).unwrap();
        let paths = LedgerPaths::new(Path::new("/l"));
        assert_eq!(read_binding(&disk, &paths).unwrap(), None);
        let lost = Some(LostRecords { first: 3, last: 4, chain: "0f".repeat(32) });
        let other = StoreBinding { ack: BoundAck::Store, lost, ..binding() };
        for binding in [other, binding()] {
            write_binding(&disk, &paths, &binding).unwrap();
            assert_eq!(read_binding(&disk, &paths).unwrap(), Some(binding));
        }
        let text = String::from_utf8(disk.read(&paths.binding()).unwrap()).unwrap();
        assert_eq!(
            text,
            "{\"ack\":\"bounded\",\"format\":\"plan-ledger binding 1\",\"ledger_uid\":\
             \"abababababababababababababababab\",\"lost\":null,\"url\":\"s3://bucket/a path\"}\n"
        );
    }

    /// Goal: an invalid binding is an error, and the folder is not treated like one without a
    /// store.
    #[test]
    fn invalid_binding_is_refused() {
        let whole = String::from_utf8(binding().encode()).unwrap();
        for (from, to, kind) in [
            ("\"bounded\"", "\"often\"", ErrorKind::Corrupt),
            ("abab", "ABAB", ErrorKind::Corrupt),
            ("abab", "ab", ErrorKind::Corrupt),
            ("\"url\"", "\"uri\"", ErrorKind::Corrupt),
            ("{", "", ErrorKind::Corrupt),
            ("null", "{\"chain\":\"00\",\"first\":1,\"last\":2}", ErrorKind::Corrupt),
            ("binding 1", "binding 2", ErrorKind::Unsupported),
        ] {
            let changed = whole.replacen(from, to, 1);
            assert_ne!(changed, whole);
            let (found, _) = StoreBinding::decode(changed.as_bytes()).unwrap_err();
            assert_eq!(found, kind, "{to}");
        }
        assert_eq!(StoreBinding::decode(&[]).unwrap_err().0, ErrorKind::Corrupt);
    }
}
