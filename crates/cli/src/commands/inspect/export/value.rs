//! A value in a row of an exported table.

/// A value in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Number(i64),
    Text(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        // A database integer has 63 bits; a larger number is stored as text.
        i64::try_from(number).map_or_else(|_| Self::Text(number.to_string()), Self::Number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        if value.is_null() { Self::Null } else { Self::Text(value.to_string()) }
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of a row, each converted by its type.
macro_rules! row {
    ($($value:expr),* $(,)?) => { &[$(super::value::Value::from($value)),*] };
}
pub(super) use row;
