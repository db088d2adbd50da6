//! Idempotency keys of tool calls.
//!
//! The protocol has no keys of its own, and hosts repeat calls whose answer was lost. A key that the
//! client chooses counts; else the content of the call is the key where the same call never means
//! something new, and else the identifier of the call within this process.

use serde_json::{Map, Value};

use plan_ledger::internals::ledger::bytes_hash;

/// The longest key that a client may choose.
pub(super) const KEY_LENGTH_MAX: usize = 64;

/// A key for whatever the parts say.
pub(super) fn key_of(parts: &[&str]) -> String {
    // Parts are separated by a byte that no JSON text has.
    let bytes = parts.join("\u{0}");
    let hash = bytes_hash(&mut bytes.as_bytes()).expect("reading bytes in memory never fails");
    hash.to_string().chars().take(32).collect()
}

/// The key of a call by its content.
pub(super) fn key_of_content(tool: &str, arguments: &Map<String, Value>) -> String {
    let arguments = Value::Object(arguments.clone()).to_string();
    key_of(&["content", tool, &arguments])
}
