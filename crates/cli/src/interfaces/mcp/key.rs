//! Idempotency keys of tool calls.
//!
//! The protocol has no keys, and hosts repeat calls after a lost answer. A key that the client
//! chooses comes first. Otherwise the content of the call is the key, if the same call never means
//! something new. Otherwise the identifier of the call within this process is the key.

use std::fs;
use std::io::Write as _;

use serde_json::{Map, Value};

use plan_ledger::internals::ledger::bytes_hash;
use plan_ledger::plan::Secret;

use crate::protocol::private_files;
use crate::server::state_folder;

/// The longest key that a client may choose.
pub(super) const KEY_LENGTH_MAX: usize = 64;

/// A key for the content of the parts.
pub(super) fn key_of(parts: &[&str]) -> String {
    // Parts are separated by a byte that no JSON text has.
    let bytes = parts.join("\u{0}");
    let hash = bytes_hash(&mut bytes.as_bytes()).expect("reading bytes in memory never fails");
    hash.to_string().chars().take(32).collect()
}

/// The secret that follows from other secrets.
pub(super) fn secret_of(parts: &[&str]) -> Secret {
    let bytes = parts.join("\u{0}");
    let hash = bytes_hash(&mut bytes.as_bytes()).expect("reading bytes in memory never fails");
    let mut secret = Secret([0; 16]);
    secret.0.iter_mut().zip(hash.0).for_each(|(to, from)| *to = from);
    secret
}

/// The secret of this user for deriving the secrets of claims; `None` if the user has no home.
pub(super) fn user_seed(new: &Secret) -> Option<String> {
    let folder = state_folder("mcp")?;
    private_files::create_folders(&folder).ok()?;
    let path = folder.join("seed");
    let draft = folder.join(format!("seed.{}.part", std::process::id()));
    if !path.exists() {
        let mut file = private_files::create(&draft).ok()?;
        file.write_all(serde_json::to_string(new).ok()?.as_bytes()).ok()?;
        // The first of several processes wins.
        let _ = fs::hard_link(&draft, &path);
        let _ = fs::remove_file(&draft);
    }
    fs::read_to_string(&path).ok().filter(|seed| !seed.is_empty())
}

/// The key of a call by its content.
pub(super) fn key_of_content(tool: &str, arguments: &Map<String, Value>) -> String {
    let arguments = Value::Object(arguments.clone()).to_string();
    key_of(&["content", tool, &arguments])
}
