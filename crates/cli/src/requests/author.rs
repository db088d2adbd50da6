//! The author of a request, for the record: a name that is not empty.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Reads the name of an author.
pub(super) fn author<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    if name.trim().is_empty() {
        return Err(D::Error::custom("`by` is empty: name the author"));
    }
    Ok(name)
}
