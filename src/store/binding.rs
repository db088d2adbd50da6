//! Whose log a prefix of a store is: the object `LEDGER.json`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Hex, Uid};

use super::name::ObjectName;
use super::objects::Objects;

/// The format that `LEDGER.json` names.
const FORMAT: &str = "plan-ledger store 1";

/// A ledger, and the genesis of its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerIdentity {
    /// The ledger.
    pub ledger: Uid,
    /// The uid from which the key of the chain derives.
    pub genesis: Uid,
}

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

/// Bind a prefix to a ledger, or check that it is bound to it. `created` is in microseconds since the
/// Unix epoch, for information. `retry` is asked after the n-th unclear answer whether to try again; it
/// waits as long as it sees fit.
///
/// # Errors
/// `Rejected` if the prefix is another ledger's; `Unsupported` if a newer program bound it; `Corrupt` if
/// the object is invalid; `Io` if the store does not answer.
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
            (Ok(Some(found)), _) => return check(&found.bytes, identity),
            (Ok(None), None) => match objects.create(&name, &file.encode()) {
                Ok(_) => return Ok(()),
                // Another process may have been first: look before the answer counts as unclear.
                Err(why) => {
                    refused = Some(why);
                    continue;
                }
            },
            (Ok(None), Some(why)) | (Err(why), _) => why,
        };
        unclear += 1;
        if !retry(unclear) {
            return Err(why.error().at_path(name.as_ref()));
        }
    }
}

/// The ledger to which a prefix is bound; `None` if there is none. `retry` is as for [`bind`].
///
/// # Errors
/// `Unsupported` if a newer program bound it; `Corrupt` if the object is invalid; `Io` if the store does not
/// answer.
pub fn bound_ledger(
    objects: &dyn Objects,
    retry: &dyn Fn(u32) -> bool,
) -> Result<Option<LedgerIdentity>> {
    let name = ObjectName::Ledger.to_string();
    for unclear in 1.. {
        let why = match objects.get(&name, None) {
            Ok(None) => return Ok(None),
            Ok(Some(found)) => return read(&found.bytes).map(Some),
            Err(why) => why,
        };
        if !retry(unclear) {
            return Err(why.error().at_path(name.as_ref()));
        }
    }
    unreachable!("the loop ends with a result")
}

fn check(bytes: &[u8], identity: &LedgerIdentity) -> Result<()> {
    let found = read(bytes)?;
    if found == *identity {
        return Ok(());
    }
    let message = format!(
        "the prefix belongs to ledger {}; use another prefix for this one",
        Hex(&found.ledger)
    );
    Err(bad(ErrorKind::Rejected, &message))
}

/// The ledger that the bytes of `LEDGER.json` name.
fn read(bytes: &[u8]) -> Result<LedgerIdentity> {
    let Ok(file) = serde_json::from_slice::<LedgerFile>(bytes) else {
        let message = "this does not state to which ledger the prefix belongs";
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

/// A uid, if the text is its lower-case hexadecimal form.
pub(super) fn parse_uid(text: &str) -> Option<Uid> {
    let mut uid = Uid::default();
    for (byte, digits) in uid.iter_mut().zip((0..text.len()).step_by(2)) {
        *byte = u8::from_str_radix(text.get(digits..digits + 2)?, 16).ok()?;
    }
    (Hex(&uid).to_string() == text).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimStore;

    /// Goal: what a prefix is bound to is read back, and nothing else is taken for it.
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
