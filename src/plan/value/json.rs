//! JSON values as the log stores them: canonical text (RFC 8785) in which whole numbers of up to 64
//! bits keep all digits.
//!
//! Two values are equal if and only if their texts are equal. A record stores a JSON value as this
//! text, so its format does not have to be self-describing.
//!
//! The text is shared: a clone costs the same for any length. A receipt is therefore copied only
//! when it is encoded, although the batch, the state and copies of the state all have it.

use std::fmt;

use ecow::EcoString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json_form::json_form;

/// Maximum nesting depth of a value of a run (an output or a variable): the limit of the JSON
/// parser. Values in plans have a lower limit, [`crate::plan::VALUE_DEPTH_MAX`].
pub const JSON_DEPTH_MAX: usize = 127;

/// A JSON value in canonical form: in binary formats its text, in JSON the value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Json(EcoString);

impl Json {
    /// The canonical form of a value.
    #[must_use]
    pub fn new(value: &Value) -> Self {
        let mut text = String::new();
        write_value(value, &mut text);
        Self(text.into())
    }

    /// A value from its canonical text, which is not checked.
    pub(crate) fn from_canonical(text: &str) -> Self {
        Self(text.into())
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The nesting depth of lists and objects.
    #[must_use]
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0);
        let (mut is_quoted, mut is_escaped) = (false, false);
        for byte in self.0.bytes() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                b'[' | b'{' if !is_quoted => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' if !is_quoted => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }
}

impl Json {
    /// The parsed value. Text that is not JSON, which only a forged record can contain, becomes a
    /// JSON string, so that reading a ledger never fails on it.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_else(|_| Value::String(self.0.to_string()))
    }
}

json_form! {
    Json => parsed,
}

fn parsed(text: Value) -> Value {
    match text {
        Value::String(text) => Json(text.into()).value(),
        other => other,
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "description": "Any JSON." })
    }
}

impl Default for Json {
    /// `null`.
    fn default() -> Self {
        Self(EcoString::inline("null"))
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self::new(&value)
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Self::new(value)
    }
}

/// A JSON string.
impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self(canonical(&text).into())
    }
}

/// A JSON string.
impl From<String> for Json {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Value::from(value).into()
    }
}

impl From<i64> for Json {
    fn from(number: i64) -> Self {
        Value::from(number).into()
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Self {
        Value::from(number).into()
    }
}

/// `null`.
impl From<()> for Json {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Appends the canonical text of a value.
fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) if number.is_f64() => out.push_str(&canonical(number)),
        // A double would lose digits.
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&canonical(value)),
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by(|one, other| one.0.encode_utf16().cmp(other.0.encode_utf16()));
            out.push('{');
            for (place, (name, member)) in members.into_iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                out.push_str(&canonical(name));
                out.push(':');
                write_value(member, out);
            }
            out.push('}');
        }
    }
}

/// The canonical text (RFC 8785) of a value that serializes to JSON with string keys.
#[must_use]
pub fn canonical<T: Serialize>(value: &T) -> String {
    // Only a map with other keys than strings, or a number that is not finite, can fail. Neither a
    // `serde_json::Value` nor a type of this module has one.
    serde_json_canonicalizer::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::support::*;
    use crate::plan::{
        Command, FailureClass, Outcome, Proof, Receipt, Rejection, RunId, RunPolicy,
    };

    fn nested(depth: usize) -> Json {
        // Brackets in strings do not count.
        let inner = serde_json::json!({ "[{\"\\": "\\\"[[" });
        Json::new(&(1..depth).fold(inner, |value, _| serde_json::json!([value])))
    }

    /// A worker returned order number 1234567890123456789, and the next step was told to ship order
    /// 1234567890123456800.
    #[test]
    fn whole_numbers_of_64_bits_keep_their_digits() {
        let text = r#"{"least":-9223372036854775808,"most":18446744073709551615,"order":1234567890123456789}"#;
        let value = Json::new(&serde_json::from_str(text).unwrap());
        assert_eq!(value.as_str(), text);
        assert_eq!(Json::new(&value.value()), value);
    }

    #[test]
    fn rust_values_become_json() {
        let nothing: Json = ().into();
        let values = [
            ("x \"y\"".into(), r#""x \"y\"""#),
            (String::from("z").into(), r#""z""#),
            (true.into(), "true"),
            (i64::MIN.into(), "-9223372036854775808"),
            (u64::MAX.into(), "18446744073709551615"),
            ((&serde_json::json!({ "n": 1 })).into(), r#"{"n":1}"#),
            (nothing, "null"),
        ];
        for (value, text) in values {
            let value: Json = value;
            assert_eq!(value.as_str(), text);
            assert_eq!(Json::new(&value.value()), value);
        }
    }

    /// All other values have the standard canonical form.
    #[test]
    fn other_values_are_canonical() {
        for text in [
            "null",
            "-0",
            "-0.0",
            "1.0",
            "1e20",
            "1e21",
            "1e19",
            "0.1",
            "9007199254740992",
            "5e-324",
            r#""\u0000\u001f\u007f\u00e9\"\\\/\b\f\n\r\t\ud83d\ude00""#,
            r#"{"\ufb33":1,"\ud83d\ude00":2,"a":[],"":{},"\u0000":[true,[false]]}"#,
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            let json = Json::new(&value);
            assert_eq!(json.as_str(), canonical(&value), "{text}");
            assert_eq!(Json::new(&json.value()), json, "{text}");
        }
    }

    /// A value deeper than the limit of the JSON parser was accepted, and came back as a string:
    /// `[[...]]` as `"[[...]]"`.
    #[test]
    fn too_deeply_nested_values_are_rejected() {
        let mut world = TestLedger::with(&plan(vec![step("a", &[])]), RunPolicy::default());
        let token = world.dispatch("a");
        let set = |value| {
            let (run, name, by) = (RunId(1), "v".to_owned(), "me".to_owned());
            Command::SetVariable { run, name, value, expected_version: None, by }
        };
        let report = |receipt| Command::RecordReceipt { proof: Proof::LockHolder, token, receipt };
        let output = |value: Json| report(Receipt { output: value.into(), ..Receipt::default() });
        let failure = |payload| {
            let (class, message) = (FailureClass::Unknown, String::new());
            let outcome = Outcome::Failed { class, message, payload };
            report(Receipt { outcome, ..Receipt::default() })
        };
        let (most, over) = (nested(JSON_DEPTH_MAX), nested(JSON_DEPTH_MAX + 1));
        assert_eq!(Json::new(&most.value()), most);
        assert_ne!(Json::new(&over.value()), over);
        let refused = Rejection::TooDeep { found: JSON_DEPTH_MAX + 1, limit: JSON_DEPTH_MAX };
        for command in [set(over.clone()), output(over.clone()), failure(over)] {
            assert_eq!(world.execute(command), Err(refused.clone()));
        }
        for command in [set(most.clone()), output(most)] {
            world.execute(command).unwrap();
        }
    }
}
