//! Goal: the tables of `format/events.md` follow from the definitions of the events.
//!
//! A deserializer that reads nothing records which types each payload asks for. Notes in the page
//! are kept; a row that differs is written again with `UPDATE_GOLDEN=1`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::value::{Error, U32Deserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::kind::Kind;
use crate::format::{Codec, SKIPPABLE_KINDS_FROM};
use crate::plan::*;

/// The types that were recorded so far.
#[derive(Default)]
struct Shapes {
    /// The fields of each struct.
    structs: BTreeMap<&'static str, String>,
    /// The variants of each enum with their fields, and how often it was asked for.
    enums: BTreeMap<&'static str, (Vec<String>, usize)>,
}

impl Shapes {
    /// The name of a payload's struct. Each pass takes another variant of each enum.
    fn of<'de, T: Deserialize<'de>>(&mut self) -> String {
        let mut name = String::new();
        for _ in 0..64 {
            name.clear();
            T::deserialize(Shape { shapes: self, text: &mut name }).expect("a plain payload");
        }
        name
    }
}

/// Records the type that is asked for.
struct Shape<'a> {
    shapes: &'a mut Shapes,
    text: &'a mut String,
}

macro_rules! scalars {
    ($($ask:ident $visit:ident $name:literal $value:expr;)*) => {$(
        fn $ask<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.text.push_str($name);
            visitor.$visit($value)
        }
    )*};
}

impl<'de> Deserializer<'de> for Shape<'_> {
    type Error = Error;

    scalars! {
        deserialize_u8 visit_u8 "u8" 0;
        deserialize_u32 visit_u32 "u32" 0;
        deserialize_u64 visit_u64 "u64" 0;
        deserialize_string visit_str "string" "";
        deserialize_str visit_str "string" "";
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text.push_str("optional ");
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.text.push_str("list of ");
        let mut items = Vec::new();
        let value = visitor.visit_seq(Items { shapes: self.shapes, texts: &mut items, left: 1 })?;
        self.text.push_str(&items.concat());
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, n: usize, v: V) -> Result<V::Value, Error> {
        let mut items = Vec::new();
        let value = v.visit_seq(Items { shapes: self.shapes, texts: &mut items, left: n })?;
        let is_hash = n == 32 && items.iter().all(|item| item == "u8");
        let text = if is_hash { "Hash".to_owned() } else { format!("({})", items.join(", ")) };
        self.text.push_str(&text);
        Ok(value)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name != "Json" {
            return visitor.visit_newtype_struct(self);
        }
        self.text.push_str(name);
        // Its forms are in the table of types.
        let mut inside = Shapes::default();
        visitor.visit_newtype_struct(Shape { shapes: &mut inside, text: &mut String::new() })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.text.push_str(name);
        let (value, text) = members(self.shapes, fields, visitor)?;
        self.shapes.structs.insert(name, text);
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.text.push_str(name);
        if name == "Text" {
            // Its forms are in the table of types.
            let (mut inside, mut text) = (Shapes::default(), String::new());
            return visitor.visit_enum(Variant { shapes: &mut inside, index: 0, text: &mut text });
        }
        let (_, asked) = self
            .shapes
            .enums
            .entry(name)
            .or_insert_with(|| (vec![String::new(); variants.len()], 0));
        let index = *asked % variants.len();
        *asked += 1;
        let mut text = String::new();
        let variant = Variant { shapes: self.shapes, index, text: &mut text };
        let value = visitor.visit_enum(variant)?;
        let word = camel(variants[index]);
        self.shapes.enums.get_mut(name).unwrap().0[index] = format!("{index} {word}{text}");
        Ok(value)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("no type of a payload"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u16 f32 f64 char bytes byte_buf unit unit_struct tuple_struct map
        identifier ignored_any
    }
}

/// The fields of a struct or of a variant: `name type, name type`.
fn members<'de, V: Visitor<'de>>(
    shapes: &mut Shapes,
    fields: &[&str],
    visitor: V,
) -> Result<(V::Value, String), Error> {
    let mut types = Vec::new();
    let value = visitor.visit_seq(Items { shapes, texts: &mut types, left: fields.len() })?;
    let named = fields.iter().zip(types).map(|(name, of)| format!("{name} {of}"));
    Ok((value, named.collect::<Vec<_>>().join(", ")))
}

struct Items<'a> {
    shapes: &'a mut Shapes,
    texts: &'a mut Vec<String>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut text = String::new();
        let value = seed.deserialize(Shape { shapes: self.shapes, text: &mut text })?;
        self.texts.push(text);
        Ok(Some(value))
    }
}

struct Variant<'a> {
    shapes: &'a mut Shapes,
    index: usize,
    text: &'a mut String,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let index = u32::try_from(self.index).unwrap();
        let index: U32Deserializer<Error> = index.into_deserializer();
        Ok((seed.deserialize(index)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let mut text = String::new();
        let value = seed.deserialize(Shape { shapes: self.shapes, text: &mut text })?;
        *self.text = format!(" ({text})");
        Ok(value)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("fields of a variant have names"))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (value, text) = members(self.shapes, fields, visitor)?;
        *self.text = format!(" ({text})");
        Ok(value)
    }
}

/// Records only the names of a struct's fields.
struct Names<'a>(&'a mut String);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields.join(", ");
        Err(Error::custom("the names suffice"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("no struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The name of a variant or a kind in the page: `RetryAt` for `retry_at`.
fn camel(word: &str) -> String {
    word.split('_').map(|part| part[..1].to_uppercase() + &part[1..]).collect()
}

macro_rules! payload {
    ($shapes:ident Bincode $payload:ty) => {{
        let name = $shapes.of::<$payload>();
        $shapes.structs.remove(name.as_str()).unwrap()
    }};
    ($shapes:ident Json $payload:ty) => {{
        let mut names = String::new();
        let _ = <$payload>::deserialize(Names(&mut names));
        format!("object: {names}")
    }};
}

macro_rules! define_payloads {
    (
        ledger { $(
            $(#[$doc:meta])* $number:literal $name:ident $variant:ident($payload:ty)
            $codec:ident $stream:ident;
        )* }
        step { $(
            $(#[$step_doc:meta])* $step_number:literal $step_name:ident
            $step_variant:ident($step_payload:ty);
        )* }
    ) => {
        /// The payload of each kind on the page.
        fn payloads(shapes: &mut Shapes) -> Vec<(Kind, String)> {
            vec![
                $((Kind::$variant, payload!(shapes $codec $payload)),)*
                $((Kind::$step_variant, {
                    let name = shapes.of::<$step_payload>();
                    let is_shared = name != stringify!($step_variant);
                    let fields = if is_shared {
                        format!("all fields of {name}")
                    } else {
                        shapes.structs.remove(name.as_str()).unwrap()
                    };
                    format!("step prefix, {fields}")
                }),)*
            ]
        }
    };
}

with_events!(define_payloads);

/// A row without its notes, and without the names in tuples.
fn without_notes(row: &str) -> String {
    let (mut out, mut rest) = (String::new(), row);
    while let Some(start) = rest.find(" (") {
        let end = start + rest[start..].find(')').unwrap();
        let (before, inside) = (&rest[..start], &rest[start + 2..end]);
        let is_note = ["section", "the ", "from "].iter().any(|note| inside.starts_with(note));
        out.push_str(before);
        if before.ends_with(" of") || before.ends_with("optional") {
            let types: Vec<_> =
                inside.split(", ").map(|item| item.rsplit(' ').next().unwrap()).collect();
            out = format!("{out} ({})", types.join(", "));
        } else if !is_note {
            out.push_str(&rest[start..=end]);
        }
        rest = &rest[end + 1..];
    }
    out + rest
}

#[test]
fn page_of_events_matches_their_definitions() {
    let mut shapes = Shapes::default();
    let mut rows: Vec<String> = payloads(&mut shapes)
        .into_iter()
        .map(|(kind, payload)| {
            let codec = if kind.codec() == Codec::Json { 2 } else { 1 };
            format!("| {} | {} | {codec} | {payload} |", kind.number(), camel(kind.name()))
        })
        .collect();
    let events = Kind::ALL.iter().filter(|kind| kind.number() < SKIPPABLE_KINDS_FROM);
    assert_eq!(rows.len(), events.count());
    rows.extend(shapes.structs.iter().map(|(name, fields)| format!("| {name} | {fields} |")));
    rows.extend(
        shapes.enums.iter().map(|(name, (all, _))| format!("| {name} | {} |", all.join(", "))),
    );

    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("format/events.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let key = |row: &str| {
        let cells: Vec<_> = row.split(" | ").collect();
        cells[..if cells.len() > 2 { 2 } else { 1 }].join(" | ")
    };
    let mut updated = page.clone();
    let mut missing = Vec::new();
    for row in &rows {
        let found = page.lines().find(|line| key(line) == key(row));
        match found {
            Some(line) if without_notes(line) == without_notes(row) => {}
            Some(line) => updated = updated.replace(line, row),
            None => missing.push(row.clone()),
        }
    }
    // A new kind follows the one before it.
    for row in missing {
        let place = rows.iter().position(|each| *each == row).unwrap();
        let before = key(&rows[place.saturating_sub(1)]);
        let line = updated.lines().find(|line| key(line) == before).expect("a row").to_owned();
        updated = updated.replacen(&line, &format!("{line}\n{row}"), 1);
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &updated).unwrap();
    } else {
        assert!(page == updated, "format/events.md is stale; run with UPDATE_GOLDEN=1:\n{}", {
            let new = updated.lines().filter(|line| !page.contains(*line));
            new.collect::<Vec<_>>().join("\n")
        });
    }
}
