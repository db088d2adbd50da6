//! A text with parts that can be erased: text of a worker, and quotes of values.
//!
//! As a [`Json`](crate::plan::Json) value, a part may have a salt: its encoder can then detach it
//! (`detached.rs`). An erased part is `(erased DIGEST)`.
//!
//! Invariant: a text that quotes another one keeps its parts with a salt whole, so that every copy of a
//! part has the same digest.

use std::fmt;
use std::ops::{Deref, Range};

use ecow::EcoString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::detached::{self, DetachedText, Salt};

/// A text with parts that can be erased. Two texts are equal if their characters are equal.
#[derive(Clone, Default)]
pub struct Text {
    text: EcoString,
    /// The parts with a salt, in their order.
    parts: Option<Box<[Part]>>,
}

/// A part of a text that can be erased, or was.
#[derive(Clone)]
struct Part {
    place: Range<usize>,
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
    Parts(Vec<PartForm<T>>),
}

/// The bytes of a part of a text.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Part")]
enum PartForm<T> {
    Text(T),
    Detached,
}

impl Text {
    /// A text that can be erased as a whole, if it has a salt.
    pub(crate) fn salted(text: &str, salt: Salt) -> Self {
        let mut salted = Self::from(text);
        if salt != Salt::ERASED {
            salted.salt(salt);
        }
        salted
    }

    /// The texts one after the other.
    pub(crate) fn concat<'a>(texts: impl IntoIterator<Item = &'a Self>) -> Self {
        let (mut text, mut parts) = (EcoString::new(), Vec::new());
        for each in texts {
            let start = text.len();
            text.push_str(&each.text);
            let moved = each.parts().iter().map(|part| Part {
                place: start + part.place.start..start + part.place.end,
                salt: part.salt,
            });
            parts.extend(moved);
        }
        Self { text, parts: (!parts.is_empty()).then(|| parts.into_boxed_slice()) }
    }

    fn erased(digest: &[u8; 32]) -> Self {
        let (before, after) = ERASED_TEXT;
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::from(format!("{before}{hex}{after}")).whole(Salt::ERASED)
    }

    /// The text as one part.
    fn whole(mut self, salt: Salt) -> Self {
        let place = 0..self.text.len();
        self.parts = salt.is_some().then(|| [Part { place, salt }].into());
        self
    }

    fn parts(&self) -> &[Part] {
        self.parts.as_deref().unwrap_or_default()
    }

    fn part_text(&self, place: &Range<usize>) -> &str {
        self.text.get(place.clone()).unwrap_or_default()
    }

    /// Whether a part of it can be erased, or was: a text that cannot be erased must not quote it.
    #[must_use]
    pub fn is_erasable(&self) -> bool {
        !self.parts().is_empty()
    }

    /// The salts that its parts were stored with.
    pub(crate) fn salts(&self) -> impl Iterator<Item = Salt> {
        self.parts().iter().map(|part| part.salt)
    }

    /// Sets the salt of the whole text. An empty text, and a text with an erased part, stay as they
    /// are.
    pub(crate) fn salt(&mut self, salt: Salt) {
        if !self.text.is_empty() && self.salts().all(|own| own != Salt::ERASED) {
            *self = std::mem::take(self).whole(salt);
        }
    }

    fn detached(&self, Part { place, salt }: &Part) -> DetachedText {
        let text = self.part_text(place);
        let digest = (*salt == Salt::ERASED).then(|| {
            let hex = text.strip_prefix(ERASED_TEXT.0)?.strip_suffix(ERASED_TEXT.1)?;
            detached::digest_of(hex)
        });
        match digest.flatten() {
            Some(digest) => DetachedText::Erased(digest),
            None => DetachedText::Present(*salt, text.to_owned()),
        }
    }

    /// The form of a text with parts that are detached.
    fn form(&self) -> TextForm<&str> {
        if let [part] = self.parts()
            && part.place == (0..self.text.len())
        {
            detached::put(|| self.detached(part));
            return TextForm::Detached;
        }
        let (mut forms, mut end) = (Vec::new(), 0);
        for part in self.parts() {
            if part.place.start > end {
                forms.push(PartForm::Text(self.part_text(&(end..part.place.start))));
            }
            detached::put(|| self.detached(part));
            forms.push(PartForm::Detached);
            end = part.place.end;
        }
        if self.text.len() > end {
            forms.push(PartForm::Text(self.part_text(&(end..self.text.len()))));
        }
        TextForm::Parts(forms)
    }

    /// The next detached value.
    fn taken<E: serde::de::Error>() -> Result<Self, E> {
        match detached::take() {
            Some(DetachedText::Present(salt, text)) => Ok(Self::from(text).whole(salt)),
            Some(DetachedText::Erased(digest)) => Ok(Self::erased(&digest)),
            None => Err(E::custom("a detached text is missing")),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return self.text.serialize(serializer);
        }
        if !self.parts().is_empty() && detached::is_collecting() {
            return self.form().serialize(serializer);
        }
        TextForm::Text(self.text.as_str()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return EcoString::deserialize(deserializer).map(Self::from);
        }
        match TextForm::<EcoString>::deserialize(deserializer)? {
            TextForm::Text(text) => Ok(Self::from(text)),
            TextForm::Detached => Self::taken(),
            TextForm::Parts(forms) => {
                let part = |form: PartForm<EcoString>| match form {
                    PartForm::Text(text) => Ok(Self::from(text)),
                    PartForm::Detached => Self::taken(),
                };
                let parts = forms.into_iter().map(part).collect::<Result<Vec<_>, D::Error>>()?;
                Ok(Self::concat(&parts))
            }
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

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        self.text == *other
    }
}

impl From<EcoString> for Text {
    fn from(text: EcoString) -> Self {
        Self { text, parts: None }
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
