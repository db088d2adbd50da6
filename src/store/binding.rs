//! The object `LEDGER.json`, which binds a prefix of a store to one ledger.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Hex, SEGMENT_HEADER_SIZE, SegmentHeader, to_u64};

use super::name::{ObjectName, SEGMENTS, TAIL};
use super::objects::{Objects, Unclear};
use super::slot::SlotHeader;

pub use super::name::LedgerIdentity;
pub(super) use super::name::parse_uid;

/// The format that `LEDGER.json` names.
const FORMAT: &str = "plan-ledger store 1";

/// The content of `LEDGER.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LedgerFile {
    format: String,
    ledger_uid: String,
    genesis_uid: String,
    created: u64,
}

impl LedgerFile {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json_canonicalizer::to_vec(self)
            .expect("strings and integers always have a canonical form");
        bytes.push(b'\n');
        bytes
    }
}

/// Bind a prefix to a ledger, or check that it is bound to it. `created` is in microseconds since the Unix epoch, for
/// information. After the n-th unclear answer, `retry` waits and decides whether to try again.
///
/// # Errors
/// `Rejected` if the prefix, or the log in it, is another ledger's; `Unsupported` if a newer program bound it; `Corrupt`
/// if the object is invalid, or names another ledger than the log beside it; `Io` if the store does not answer.
pub fn bind(
    objects: &dyn Objects,
    identity: &LedgerIdentity,
    created: u64,
    retry: &dyn Fn(u32) -> bool,
) -> Result<()> {
    let [ledger_uid, genesis_uid] =
        [&identity.ledger, &identity.genesis].map(|uid| Hex(uid).to_string());
    let file = LedgerFile { format: FORMAT.to_owned(), ledger_uid, genesis_uid, created };
    let name = ObjectName::Ledger.to_string();
    let (mut unclear, mut refused) = (0, None);
    loop {
        let why = match (objects.get(&name, None), refused.take()) {
            (Ok(Some(found)), _) => {
                let bound = named_ledger(&found.bytes)?;
                return if bound == *identity {
                    Ok(())
                } else {
                    Err(other_ledger(&bound, find_log(objects, retry)?.as_ref(), identity))
                };
            }
            // The object may be lost although the log is there.
            (Ok(None), None) => match find_log(objects, retry)? {
                Some(log) if log.identity.is_some_and(|it| it != *identity) => {
                    return Err(unnamed(&log, ErrorKind::Rejected));
                }
                _ => match objects.create(&name, &file.encode()) {
                    Ok(_) => return Ok(()),
                    // Another process may have been first: read the object before the answer counts as unclear.
                    Err(why) => {
                        refused = Some(why);
                        continue;
                    }
                },
            },
            (Ok(None), Some(why)) | (Err(why), _) => why,
        };
        unclear += 1;
        if !retry(unclear) {
            return Err(why.error().at_path(name.as_ref()));
        }
    }
}

/// The ledger to which a prefix is bound; `None` if the prefix is free. `retry` is as for [`bind`].
///
/// # Errors
/// `Unsupported` if a newer program bound it; `Corrupt` if the object is invalid, or is missing although there is a log;
/// `Io` if the store does not answer.
pub fn bound_ledger(
    objects: &dyn Objects,
    retry: &dyn Fn(u32) -> bool,
) -> Result<Option<LedgerIdentity>> {
    let name = ObjectName::Ledger.to_string();
    let get = || answered(&name, retry, &|| objects.get(&name, None));
    if let Some(found) = get()? {
        return named_ledger(&found.bytes).map(Some);
    }
    let Some(log) = find_log(objects, retry)? else { return Ok(None) };
    // Another process may have bound the prefix in between.
    match get()? {
        Some(found) => named_ledger(&found.bytes).map(Some),
        None => Err(unnamed(&log, ErrorKind::Corrupt)),
    }
}

/// Whether a prefix is bound to a ledger, or has the log of one.
///
/// # Errors
/// `Io` if the store does not answer.
pub fn has_log(objects: &dyn Objects, retry: &dyn Fn(u32) -> bool) -> Result<bool> {
    match bound_ledger(objects, retry) {
        Ok(bound) => Ok(bound.is_some()),
        Err(error) if error.kind() == ErrorKind::Io => Err(error),
        Err(_) => Ok(true),
    }
}

/// A log that a prefix has.
struct FoundLog {
    /// The name of an object of it.
    object: String,
    /// The ledger of this object; `None` if the object is damaged.
    identity: Option<LedgerIdentity>,
}

/// Look for a log in a prefix, independent of `LEDGER.json`.
fn find_log(objects: &dyn Objects, retry: &dyn Fn(u32) -> bool) -> Result<Option<FoundLog>> {
    let mut found = None;
    for folder in [SEGMENTS, TAIL] {
        let listing = answered(folder, retry, &|| objects.list(folder))?;
        let names = listing.into_iter().map(|listed| listed.name);
        for object in names.filter(|name| ObjectName::parse(name).is_some()).take(3) {
            let range = Some(0..to_u64(SEGMENT_HEADER_SIZE));
            let got = answered(&object, retry, &|| objects.get(&object, range.clone()))?;
            let identity = got.and_then(|got| identity_in(folder, &got.bytes));
            let is_clear = identity.is_some();
            found = Some(FoundLog { object, identity });
            if is_clear {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

/// The ledger of an object, from its header.
fn identity_in(folder: &str, bytes: &[u8]) -> Option<LedgerIdentity> {
    if folder == TAIL {
        let SlotHeader { ledger, genesis, .. } = SlotHeader::decode(bytes).ok()?;
        return Some(LedgerIdentity { ledger, genesis });
    }
    let SegmentHeader { ledger, genesis, .. } = SegmentHeader::decode(bytes).ok()?;
    Some(LedgerIdentity { ledger, genesis })
}

/// Repeat a call until its answer is clear, or until `retry` says to stop.
fn answered<T>(
    name: &str,
    retry: &dyn Fn(u32) -> bool,
    ask: &dyn Fn() -> std::result::Result<T, Unclear>,
) -> Result<T> {
    let mut unclear = 0;
    loop {
        let why = match ask() {
            Ok(answer) => return Ok(answer),
            Err(why) => why,
        };
        unclear += 1;
        if !retry(unclear) {
            return Err(why.error().at_path(name.as_ref()));
        }
    }
}

/// The error of a prefix with a log but without the name of its ledger.
fn unnamed(log: &FoundLog, kind: ErrorKind) -> Error {
    let whose =
        log.identity.map_or_else(String::new, |it| format!(" of ledger {}", Hex(&it.ledger)));
    let message =
        format!("the object is missing, although the log{whose} is there: {}", log.object);
    bad(kind, &message).with_hint(if kind == ErrorKind::Rejected {
        "use another prefix for this ledger; nothing was changed"
    } else {
        "`ledger serve --store` or `ledger replicate` with a folder of this ledger creates it again; nothing else is lost \
         by it"
    })
}

/// The error of a prefix that is bound to another ledger, unless the log in it belongs to this one.
fn other_ledger(bound: &LedgerIdentity, log: Option<&FoundLog>, own: &LedgerIdentity) -> Error {
    let found = Hex(&bound.ledger);
    if log.and_then(|log| log.identity).is_some_and(|it| it == *own) {
        let message = format!(
            "the object names ledger {found}, but the log in the prefix belongs to this ledger"
        );
        return bad(ErrorKind::Corrupt, &message).with_hint(
            "move this object, and nothing else, out of the prefix with the tool of the store, \
             keep it, and start again: the server creates a new one",
        );
    }
    let message = format!("the prefix belongs to ledger {found}; use another prefix for this one");
    bad(ErrorKind::Rejected, &message)
}

/// Whether the log in a prefix is that of this ledger, although `LEDGER.json` names another one.
///
/// # Errors
/// `Rejected` if it is not: the prefix belongs to the other ledger; `Io` if the store does not answer.
pub(super) fn expect_own_log(
    objects: &dyn Objects,
    bound: &LedgerIdentity,
    own: &LedgerIdentity,
    retry: &dyn Fn(u32) -> bool,
) -> Result<()> {
    let error = other_ledger(bound, find_log(objects, retry)?.as_ref(), own);
    if error.is_corrupt() || mutant!(ForeignPrefixRepaired) { Ok(()) } else { Err(error) }
}

/// The ledger that the bytes of `LEDGER.json` name.
pub(super) fn named_ledger(bytes: &[u8]) -> Result<LedgerIdentity> {
    let Ok(file) = serde_json::from_slice::<LedgerFile>(bytes) else {
        let message = "the object does not name the ledger of the prefix";
        return Err(bad(ErrorKind::Corrupt, message));
    };
    if file.format != FORMAT {
        let message = format!(
            "expected store format `{FORMAT}`, found `{:.80}`; use a newer `ledger`",
            file.format
        );
        return Err(bad(ErrorKind::Unsupported, &message));
    }
    let uids = parse_uid(&file.ledger_uid).zip(parse_uid(&file.genesis_uid));
    match uids {
        Some((ledger, genesis)) if file.encode() == bytes => Ok(LedgerIdentity { ledger, genesis }),
        _ => Err(bad(ErrorKind::Corrupt, "the object is not canonical")),
    }
}

fn bad(kind: ErrorKind, message: &str) -> Error {
    Error::new(kind, message).at_path(ObjectName::Ledger.to_string().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimStore;

    /// Goal: the binding of a prefix can be read back, and no other bytes pass for one.
    #[test]
    fn bound_ledger_is_read_back() {
        let store = SimStore::new();
        assert_eq!(bound_ledger(&store, &|_| false).unwrap(), None);
        let identity = LedgerIdentity { ledger: [0xA1; 16], genesis: [0x0B; 16] };
        bind(&store, &identity, 7, &|_| false).unwrap();
        assert_eq!(bound_ledger(&store, &|_| false).unwrap(), Some(identity));
        let whole = store.peek("LEDGER.json").unwrap();
        let text = String::from_utf8(whole).unwrap();
        for (from, to) in [
            ("a1a1", "A1A1"),
            ("a1a1", "a1"),
            ("a1a1", "a1a1a1"),
            ("a1a1", "+1a1"),
            ("a1a1", "zza1"),
            ("ledger_uid", "ledger"),
            ("}\n", "} "),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            store.tamper("LEDGER.json", Some(changed.into_bytes()));
            assert_eq!(
                bound_ledger(&store, &|_| false).unwrap_err().kind(),
                ErrorKind::Corrupt,
                "{to}"
            );
        }
        let newer = text.replace("store 1", "store 2");
        store.tamper("LEDGER.json", Some(newer.into_bytes()));
        assert_eq!(bound_ledger(&store, &|_| false).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
