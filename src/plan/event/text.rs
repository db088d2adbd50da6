//! A text that can be erased: what a worker wrote.
//!
//! As a [`Json`](crate::plan::Json) value it may have a salt: its encoder can then detach it
//! (`detached.rs`). An erased text is `(erased DIGEST)`.

use std::fmt;
use std::ops::Deref;

use ecow::EcoString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::value::detached::{self, DetachedText, Salt};

/// A text that can be erased. Two texts are equal if their characters are.
#[derive(Clone, Default)]
pub struct Text {
    text: EcoString,
    salt: Salt,
}

/// The marker of a text that was erased, before and after its digest.
const ERASED_TEXT: (&str, &str) = ("(erased ", ")");

/// The bytes of a text in binary formats.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Text")]
enum TextForm<T> {
    Text(T),
    Detached,
}

impl Text {
    fn erased(digest: &[u8; 32]) -> Self {
        let (before, after) = ERASED_TEXT;
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text: format!("{before}{hex}{after}").into(), salt: Salt::ERASED }
    }

    /// The digest, if the text was erased.
    fn erased_digest(&self) -> Option<[u8; 32]> {
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

    /// Sets the salt. An empty and an erased text stay as they are.
    pub(crate) fn salt(&mut self, salt: Salt) {
        if self.salt != Salt::ERASED && !self.text.is_empty() {
            self.salt = salt;
        }
    }

    fn detached(&self) -> DetachedText {
        match self.erased_digest() {
            Some(digest) => DetachedText::Erased(digest),
            None => DetachedText::Present(self.salt, self.text.to_string()),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return self.text.serialize(serializer);
        }
        if self.salt.is_some() && detached::put(|| self.detached()) {
            return TextForm::<&str>::Detached.serialize(serializer);
        }
        TextForm::Text(self.text.as_str()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return EcoString::deserialize(deserializer).map(Self::from);
        }
        match TextForm::deserialize(deserializer)? {
            TextForm::Text(text) => Ok(Self { text, salt: Salt::NONE }),
            TextForm::Detached => match detached::take() {
                Some(DetachedText::Present(salt, text)) => Ok(Self { text: text.into(), salt }),
                Some(DetachedText::Erased(digest)) => Ok(Self::erased(&digest)),
                None => Err(serde::de::Error::custom("a detached text is missing")),
            },
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Text {}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl From<EcoString> for Text {
    fn from(text: EcoString) -> Self {
        Self { text, salt: Salt::NONE }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        EcoString::from(text).into()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        EcoString::from(text).into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.text.into()
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}
