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

fn check(bytes: &[u8], identity: &LedgerIdentity) -> Result<()> {
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
    if !file.is_of(identity) {
        let message = format!(
            "the prefix belongs to ledger {}; use another prefix for this one",
            file.ledger_uid
        );
        return bad(ErrorKind::Rejected, &message);
    }
    Ok(())
}
