//! JSON forms of values in events.
//!
//! One `Serialize` serves both codecs: a binary payload holds the fields as they are declared, and
//! JSON has the form that `format/inspect-json.md` specifies. Most types derive both. The types whose
//! JSON has another structure derive `Serialize` with `remote = "Self"`, and [`json_form`] adds the
//! function that turns the derived JSON into the specified one. JSON of events is only written.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Implements `Serialize` and `Deserialize` for types that derive them with `remote = "Self"`. In
/// JSON, a value is the given function of its derived form.
macro_rules! json_form {
    ($($type:ty => $form:path),* $(,)?) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if !serializer.is_human_readable() {
                    return <$type>::serialize(self, serializer);
                }
                let derived = <$type>::serialize(self, serde_json::value::Serializer);
                $form(derived.map_err(serde::ser::Error::custom)?).serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$type>::deserialize(deserializer)
            }
        }
    )*};
}
pub(crate) use json_form;

/// An enum as an object: `is` is the word of the variant, followed by its fields.
pub(crate) fn tagged(derived: Value) -> Value {
    let (word, fields) = match derived {
        Value::Object(variant) => match variant.into_iter().next() {
            Some((word, Value::Object(fields))) => (Value::String(word), fields),
            _ => (Value::Null, Map::new()),
        },
        word => (word, Map::new()),
    };
    let mut form = fields;
    form.insert("is".to_owned(), word);
    Value::Object(form)
}

/// Replaces a field that is an object by the members of this object.
pub(crate) fn flattened(derived: Value, field: &str) -> Value {
    let Value::Object(mut form) = derived else { return derived };
    if let Some(Value::Object(members)) = form.remove(field) {
        form.extend(members);
    }
    Value::Object(form)
}

/// A list of names and values as an object.
pub(crate) fn map<T: Serialize, S: Serializer>(
    pairs: &[(String, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if !serializer.is_human_readable() {
        return pairs.serialize(serializer);
    }
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}
