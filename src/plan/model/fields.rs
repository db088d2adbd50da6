//! TODO

use std::collections::BTreeMap;

use serde_json::Value;

/// Names and settings of fields that the author's tool wrote and this crate does not know.
pub type Extra = BTreeMap<String, Value>;

/// Whether a field holds its default and is left out of the canonical form.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
