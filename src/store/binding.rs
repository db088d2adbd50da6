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

    fn is_of(&self, identity: &LedgerIdentity) -> bool {
        let [ledger, genesis] =
            [&identity.ledger, &identity.genesis].map(|uid| Hex(uid).to_string());
        (&self.ledger_uid, &self.genesis_uid) == (&ledger, &genesis)
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
    for unclear in 1.. {
        let why = match objects.get(&name, None) {
            Ok(Some(found)) => return check(&found.bytes, identity),
            Ok(None) => match objects.create(&name, &file.encode()) {
                Ok(_) => return Ok(()),
                Err(why) => why,
            },
            Err(why) => why,
        };
        if !retry(unclear) {
            let message = format!("the store does not answer: {why}");
            return Err(Error::new(ErrorKind::Io, message).at_path(name.as_ref()));
        }
    }
    unreachable!("the loop ends with a result")
}

/// The ledger to which a prefix is bound; `None` if it is not bound. Nothing is written. `retry` is as
/// in [`bind`].
///
/// # Errors
/// `Unsupported` if a newer program bound it; `Corrupt` if the object is invalid; `Io` if the store does
/// not answer.
pub fn bound_ledger(
    objects: &dyn Objects,
    retry: &dyn Fn(u32) -> bool,
) -> Result<Option<LedgerIdentity>> {
    let name = ObjectName::Ledger.to_string();
    let mut unclear = 0;
    let found = loop {
        let why = match objects.get(&name, None) {
            Ok(found) => break found,
            Err(why) => why,
        };
        unclear += 1;
        if !retry(unclear) {
            let error = Error::new(ErrorKind::Io, format!("the store does not answer: {why}"));
            let error = error.with_hint("check the connection, and try again");
            return Err(error.at_path(name.as_ref()));
        }
    };
    let Some(found) = found else { return Ok(None) };
    let file = read(&found.bytes)?;
    let uids = (parse_uid(&file.ledger_uid), parse_uid(&file.genesis_uid));
    let (Some(ledger), Some(genesis)) = uids else {
        let message = "expected identifiers of 32 hexadecimal digits, found others";
        return Err(Error::new(ErrorKind::Corrupt, message).at_path(name.as_ref()));
    };
    Ok(Some(LedgerIdentity { ledger, genesis }))
}

/// An identifier from exactly the text that it is written as.
fn parse_uid(text: &str) -> Option<Uid> {
    let mut uid = Uid::default();
    let digits = text.as_bytes();
    for (at, byte) in uid.iter_mut().enumerate() {
        let pair = std::str::from_utf8(digits.get(2 * at..2 * at + 2)?).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    (Hex(&uid).to_string() == text).then_some(uid)
}

fn check(bytes: &[u8], identity: &LedgerIdentity) -> Result<()> {
    let file = read(bytes)?;
    if !file.is_of(identity) {
        let message = format!(
            "the prefix belongs to ledger {}; use another prefix for this one",
            file.ledger_uid
        );
        let name = ObjectName::Ledger.to_string();
        return Err(Error::new(ErrorKind::Rejected, message).at_path(name.as_ref()));
    }
    Ok(())
}

/// The content of `LEDGER.json`, in the form and the version that this program writes.
fn read(bytes: &[u8]) -> Result<LedgerFile> {
    let name = ObjectName::Ledger.to_string();
    let bad = |kind, message: &str| Err(Error::new(kind, message).at_path(name.as_ref()));
    let Ok(file) = serde_json::from_slice::<LedgerFile>(bytes) else {
        return bad(ErrorKind::Corrupt, "this does not state to which ledger the prefix belongs");
    };
    if file.format != FORMAT {
        let message = format!(
            "expected store format `{FORMAT}`, found `{:.80}`; use a newer `ledger`",
            file.format
        );
        return bad(ErrorKind::Unsupported, &message);
    }
    if file.encode() != bytes {
        return bad(ErrorKind::Corrupt, "the object is not canonical");
    }
    Ok(file)
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
