//! Helpers for the fields of plan files: data of other tools, and defaults that are omitted.

use std::collections::BTreeMap;

use serde_json::Value;

/// Data of other tools, by name. It is stored unchanged.
pub type Extra = BTreeMap<String, Value>;

/// Whether a field holds its default, so that it is omitted from the canonical form.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
