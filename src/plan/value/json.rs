//! JSON values as the log stores them: canonical text (RFC 8785) in which whole numbers of up to 64
//! bits keep all digits.
//!
//! Two values are equal if and only if their texts are equal. A record stores a JSON value as this
//! text, so its format does not have to be self-describing.
//!
//! A value may have a salt: its encoder can then detach it, so that it can be erased (`detached.rs`).
//! An erased value is `{"erased": DIGEST}`.
//!
//! The text is shared: a clone costs the same for any length. A receipt is therefore copied only
//! when it is encoded, although the batch, the state and copies of the state all have it.

use std::cmp::Ordering;
use std::fmt;

use ecow::EcoString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::canonical::canonical;
use super::detached::{self, DetachedText, Salt};

/// Maximum nesting depth of a value of a run (an output or a variable): the limit of the JSON
/// parser. Values in plans have a lower limit, [`crate::plan::VALUE_DEPTH_MAX`].
pub const JSON_DEPTH_MAX: usize = 127;

/// A JSON value in canonical form: in binary formats its text, in JSON the value.
#[derive(Clone)]
pub struct Json {
    text: EcoString,
    salt: Salt,
}

/// The text of a value that was erased, before and after its digest.
const ERASED_TEXT: (&str, &str) = (r#"{"erased":""#, r#""}"#);

/// The bytes of a value in binary formats.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Json")]
struct JsonBytes<T>(JsonForm<T>);

#[derive(Serialize, Deserialize)]
enum JsonForm<T> {
    Text(T),
    Detached,
}

impl Json {
    /// The canonical form of a value.
    #[must_use]
    pub fn new(value: &Value) -> Self {
        let mut text = String::new();
        write_value(value, &mut text);
        Self::of(text.into())
    }

    fn of(text: EcoString) -> Self {
        Self { text, salt: Salt::NONE }
    }

    /// A value from its canonical text, which is not checked.
    pub(crate) fn from_canonical(text: &str) -> Self {
        Self::of(text.into())
    }

    /// The stated marker of a value that was erased.
    pub(crate) fn erased(digest: &[u8; 32]) -> Self {
        let (before, after) = ERASED_TEXT;
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text: format!("{before}{hex}{after}").into(), salt: Salt::ERASED }
    }

    /// The digest, if the value was erased.
    #[must_use]
    pub fn erased_digest(&self) -> Option<[u8; 32]> {
        if self.salt != Salt::ERASED {
            return None;
        }
        let hex = self.text.strip_prefix(ERASED_TEXT.0)?.strip_suffix(ERASED_TEXT.1)?;
        detached::digest_of(hex)
    }

    /// The salt that it was stored with.
    pub(crate) fn own_salt(&self) -> Salt {
        self.salt
    }

    /// The same value with a salt, so that it can be erased. `null` and an erased value stay as they
    /// are.
    #[must_use]
    pub(crate) fn with_salt(self, salt: Salt) -> Self {
        if self.salt == Salt::ERASED || self.text == "null" { self } else { Self { salt, ..self } }
    }

    /// Sets the salt: see [`Json::with_salt`].
    pub(crate) fn salt(&mut self, salt: Salt) {
        *self = std::mem::take(self).with_salt(salt);
    }

    fn detached(&self) -> DetachedText {
        match self.erased_digest() {
            Some(digest) => DetachedText::Erased(digest),
            None => DetachedText::Present(self.salt, self.text.to_string()),
        }
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The nesting depth of lists and objects.
    #[must_use]
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0);
        let (mut is_quoted, mut is_escaped) = (false, false);
        for byte in self.text.bytes() {
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
        serde_json::from_str(&self.text).unwrap_or_else(|_| Value::String(self.text.to_string()))
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return self.value().serialize(serializer);
        }
        if self.salt.is_some() && detached::put(|| self.detached()) {
            return JsonBytes(JsonForm::<&str>::Detached).serialize(serializer);
        }
        JsonBytes(JsonForm::Text(self.as_str())).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return EcoString::deserialize(deserializer).map(Self::of);
        }
        match JsonBytes::deserialize(deserializer)?.0 {
            JsonForm::Text(text) => Ok(Self::of(text)),
            JsonForm::Detached => match detached::take() {
                Some(DetachedText::Present(salt, text)) => Ok(Self { text: text.into(), salt }),
                Some(DetachedText::Erased(digest)) => Ok(Self::erased(&digest)),
                None => Err(serde::de::Error::custom("a detached value is missing")),
            },
        }
    }
}

/// Two values are equal if their texts are equal: the salt is not part of the value.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Json {}

impl PartialOrd for Json {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Json {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
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
        Self::of(EcoString::inline("null"))
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
        Self::of(canonical(&text).into())
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
        f.write_str(&self.text)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::support::*;
    use crate::plan::{
        Command, FailureClass, Origin, Outcome, Proof, Receipt, Rejection, RunId, RunPolicy,
    };

    fn nested(depth: usize) -> Json {
        // Brackets in strings do not count.
        let inner = serde_json::json!({ "[{\"\\": "\\\"[[" });
        Json::new(&(1..depth).fold(inner, |value, _| serde_json::json!([value])))
    }

    /// Story: a worker returned order number 1234567890123456789, and the next step shipped order
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
            let (run, name, origin) = (RunId(1), "v".to_owned(), Origin::person("me"));
            Command::SetVariable { run, name, value, expected_version: None, origin }
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
