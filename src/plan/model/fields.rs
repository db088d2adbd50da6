//! Helpers for the fields of plan files: unknown fields, and defaults that are omitted.

use std::collections::BTreeMap;

use serde_json::Value;

/// Unknown fields of the author's tool, by name.
pub type Extra = BTreeMap<String, Value>;

/// Whether a field holds its default, so that it is omitted from the canonical form.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
