//! Reads a tree as a value of a known type. The type of a field decides what a scalar is: `1.10` is a text where
//! a text belongs, and a number where a number does.
//!
//! An error has the place and the path of the value at which it was found, and a message in the terms of a
//! plan's author.

use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Value;

use super::messages::{form_message, form_of_type, plain_message};
use super::tree::{Field, Kind, Node, Place};
use crate::diagnostic::{Diagnostic, ReadError, Severity};

/// Reads a tree as a value of a type.
pub(crate) fn typed<'de, T: Deserialize<'de>>(node: &'de Node) -> Result<T, TypedError> {
    T::deserialize(Reader(node)).map_err(|error| error.at(node.place))
}

/// A value that its type does not allow.
#[derive(Debug)]
pub(crate) struct TypedError {
    place: Option<Place>,
    /// The path of the value, such as `steps[3].after`.
    path: String,
    message: String,
}

impl TypedError {
    /// The error as a diagnostic; `around` is the path of the value that was read.
    pub(crate) fn diagnostic(self, around: &str) -> Diagnostic {
        let Self { place, path, message } = self.inside(around);
        let (line, column) = (place.map(|place| place.line), place.map(|place| place.column));
        Diagnostic { severity: Severity::Problem, line, column, place: path, message }
    }

    /// The error with this place, if it has no nearer one.
    fn at(mut self, place: Place) -> Self {
        self.place.get_or_insert(place);
        self
    }

    /// The error of a value inside another one.
    fn inside(mut self, part: &str) -> Self {
        let is_joined = part.is_empty() || self.path.is_empty() || self.path.starts_with('[');
        let dot = if is_joined { "" } else { "." };
        self.path = format!("{part}{dot}{}", self.path);
        self
    }
}

impl fmt::Display for TypedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TypedError {}

impl de::Error for TypedError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { place: None, path: String::new(), message: plain_message(&message.to_string()) }
    }
}

impl From<TypedError> for ReadError {
    fn from(error: TypedError) -> Self {
        let Place { line, column } = error.place.unwrap_or(Place { line: 1, column: 1 });
        Self::at(line, column, &error.message).of_value(error.path)
    }
}

/// The error of a value in none of the forms that its field takes.
fn other_form(form: Option<&str>) -> TypedError {
    TypedError { place: None, path: String::new(), message: form_message(form) }
}

#[derive(Clone, Copy)]
struct Reader<'de>(&'de Node);

impl Reader<'_> {
    /// Whether nothing stands where YAML allows a list or an object without content.
    fn is_empty(self) -> bool {
        matches!(&self.0.kind, Kind::Plain(plain) if plain.may_be_text && plain.value.is_null())
    }
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = TypedError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypedError> {
        match &self.0.kind {
            Kind::Text(text) => visitor.visit_borrowed_str(text),
            Kind::List(items) => visitor.visit_seq(Items { items: items.iter(), at: 0 }),
            Kind::Map(fields) => visitor.visit_map(Fields { fields: fields.iter(), value: None }),
            Kind::Plain(plain) => match &plain.value {
                Value::Bool(is_set) => visitor.visit_bool(*is_set),
                Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                    (Some(number), _) => visitor.visit_u64(number),
                    (_, Some(number)) => visitor.visit_i64(number),
                    _ => visitor.visit_f64(number.as_f64().unwrap_or_default()),
                },
                _ => visitor.visit_unit(),
            },
        }
        .map_err(|error: TypedError| error.at(self.0.place))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypedError> {
        match &self.0.kind {
            Kind::Plain(plain) if plain.may_be_text && !plain.value.is_null() => {
                let read = visitor.visit_borrowed_str(&plain.source);
                read.map_err(|error: TypedError| error.at(self.0.place))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypedError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypedError> {
        match &self.0.kind {
            Kind::Plain(plain) if plain.value.is_null() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
        .map_err(|error: TypedError| error.at(self.0.place))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypedError> {
        match &self.0.kind {
            // The fields of an object have names; a list of their values is not read.
            Kind::List(_) => {
                Err(TypedError::invalid_type(Unexpected::Seq, &visitor).at(self.0.place))
            }
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypedError> {
        let form = form_of_type(name);
        let word = |name| Choice { name, place: self.0.place, value: None, form };
        let choice = match &self.0.kind {
            Kind::Text(text) => Some(word(text.as_str())),
            Kind::Plain(plain) if plain.may_be_text && !plain.value.is_null() => {
                Some(word(plain.source.as_str()))
            }
            Kind::Map(fields) => match fields.as_slice() {
                [Field { name, place, value }] => {
                    Some(Choice { name, place: *place, value: Some(value), form })
                }
                _ => None,
            },
            Kind::Plain(_) | Kind::List(_) => None,
        };
        let read = choice.map_or_else(|| Err(other_form(form)), |it| visitor.visit_enum(it));
        read.map_err(|error: TypedError| error.at(self.0.place))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypedError> {
        if self.is_empty() {
            return visitor.visit_seq(Items { items: [].iter(), at: 0 });
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypedError> {
        if self.is_empty() {
            return visitor.visit_map(Fields { fields: [].iter(), value: None });
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, TypedError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TypedError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        tuple tuple_struct identifier
    }
}

/// The items of a list.
struct Items<'de> {
    items: std::slice::Iter<'de, Node>,
    at: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = TypedError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, TypedError> {
        let Some(node) = self.items.next() else { return Ok(None) };
        let part = format!("[{}]", self.at);
        self.at = self.at.saturating_add(1);
        let read = seed.deserialize(Reader(node));
        read.map(Some).map_err(|error| error.at(node.place).inside(&part))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The fields of an object.
struct Fields<'de> {
    fields: std::slice::Iter<'de, Field>,
    /// The field whose name was read.
    value: Option<&'de Field>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = TypedError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, TypedError> {
        let Some(field) = self.fields.next() else { return Ok(None) };
        self.value = Some(field);
        let read = seed.deserialize(BorrowedStrDeserializer::new(&field.name));
        read.map(Some).map_err(|error: TypedError| error.at(field.place).inside(&field.name))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, TypedError> {
        let field = self.value.take().expect("a name is read before its value");
        let read = seed.deserialize(Reader(&field.value));
        read.map_err(|error| error.at(field.value.place).inside(&field.name))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.fields.len())
    }
}

/// One of several words, or an object with one field.
struct Choice<'de> {
    name: &'de str,
    place: Place,
    value: Option<&'de Node>,
    /// The forms of the field, for a message.
    form: Option<&'static str>,
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = TypedError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), TypedError> {
        let name: StrDeserializer<'_, TypedError> = self.name.into_deserializer();
        let read = seed.deserialize(name).map_err(|error| error.at(self.place))?;
        Ok((read, self))
    }
}

impl<'de> Choice<'de> {
    fn value(&self) -> Result<Reader<'de>, TypedError> {
        self.value.map(Reader).ok_or_else(|| other_form(self.form).at(self.place))
    }

    fn placed<T>(&self, read: Result<T, TypedError>) -> Result<T, TypedError> {
        let place = self.value.map_or(self.place, |node| node.place);
        read.map_err(|error| error.at(place).inside(self.name))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = TypedError;

    fn unit_variant(self) -> Result<(), TypedError> {
        match self.value {
            None => Ok(()),
            Some(node) => self.placed(Deserialize::deserialize(Reader(node))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, TypedError> {
        let read = seed.deserialize(self.value()?);
        self.placed(read)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, TypedError> {
        let read = self.value()?.deserialize_seq(visitor);
        self.placed(read)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TypedError> {
        let read = self.value()?.deserialize_struct("", fields, visitor);
        self.placed(read)
    }
}
