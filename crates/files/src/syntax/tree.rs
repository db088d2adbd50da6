//! The tree of a structured text: JSON, YAML, TOML, front matter, and the rows of tables.
//!
//! A library parses each form; the tree is what all of them give. Every value and every name of a field has
//! its place. A scalar that is no text (`1.10`, `007`, `null`) keeps its source, because only the reader of
//! a field knows whether the field is a number or an id: see [`typed`](super::typed).
//!
//! Invariants: an object has each name once; a name that is given twice is an error with both places. The
//! depth is limited by the parsers.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::diagnostic::{ReadError, ReadResult};

/// A line and a column, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Text(String),
    Plain(Plain),
    List(Vec<Node>),
    Map(Vec<Field>),
}

/// A number, a truth value or nothing.
#[derive(Debug, Clone)]
pub(crate) struct Plain {
    /// The value by the rules of the form.
    pub(crate) value: Value,
    /// The text in the file.
    pub(crate) source: String,
    /// Whether it is a text where a text belongs, as in YAML.
    pub(crate) may_be_text: bool,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The place of its text; without text, the place for one.
    pub(crate) place: Place,
    pub(crate) text: String,
}

/// A field of an object.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) value: Node,
}

impl Node {
    /// An object; an error if a name is given twice.
    pub(super) fn map(place: Place, fields: Vec<Field>) -> ReadResult<Self> {
        let mut first: BTreeMap<&str, Place> = BTreeMap::new();
        for Field { name, place, .. } in &fields {
            if let Some(first) = first.insert(name, *place) {
                return Err(name_twice(name, *place, Some(first)));
            }
        }
        Ok(Self { place, kind: Kind::Map(fields) })
    }

    /// A list of values that begins on the line of the first one.
    pub(crate) fn list(items: Vec<Self>) -> Self {
        let place = items.first().map_or(Place { line: 1, column: 1 }, |item| item.place);
        Self { place, kind: Kind::List(items) }
    }

    /// The rows of a table as objects with the names in the first row; `None` without rows. A column that is there
    /// several times is a list. A cell without text is blank: it has a place, and no value.
    pub(crate) fn rows(rows: Vec<Vec<Cell>>) -> Option<Self> {
        let mut rows = rows.into_iter();
        let names = rows.next()?;
        let object = |row: Vec<Cell>| {
            let line = row.first().map_or(1, |cell| cell.place.line);
            let mut fields: Vec<Field> = Vec::new();
            for (name, cell) in names.iter().zip(row).filter(|(name, _)| !name.text.is_empty()) {
                let Cell { place, text } = cell;
                let is_blank = text.is_empty();
                let value = if is_blank { Self::blank(place) } else { Self::text(text, place) };
                let known = fields.iter_mut().find(|field| field.name == name.text);
                match known.map(|field| &mut field.value) {
                    Some(_) if value.is_blank() => {}
                    Some(first) if first.is_blank() => *first = value,
                    Some(Self { kind: Kind::List(cells), .. }) => cells.push(value),
                    Some(first) => *first = Self::list(vec![first.clone(), value]),
                    None => fields.push(Field { name: name.text.clone(), place, value }),
                }
            }
            Self { place: Place { line, column: 1 }, kind: Kind::Map(fields) }
        };
        let rows: Vec<Self> = rows.map(object).collect();
        (!rows.is_empty()).then(|| Self::list(rows))
    }

    /// A text at one place of a file.
    pub(crate) fn text(text: String, place: Place) -> Self {
        Self { place, kind: Kind::Text(text) }
    }

    /// Sets a field of an object.
    pub(crate) fn set_field(&mut self, name: &str, value: Self) {
        let Kind::Map(fields) = &mut self.kind else { return };
        match fields.iter_mut().find(|field| field.name == name) {
            Some(field) => field.value = value,
            None => fields.push(Field { name: name.to_owned(), place: value.place, value }),
        }
    }

    /// A cell without text.
    fn blank(place: Place) -> Self {
        let plain = Plain { value: Value::Null, source: String::new(), may_be_text: false };
        Self { place, kind: Kind::Plain(plain) }
    }

    /// Whether this is a cell without text, which is no value.
    pub(crate) fn is_blank(&self) -> bool {
        matches!(&self.kind, Kind::Plain(plain) if plain.source.is_empty() && !plain.may_be_text)
    }

    /// A list of values, each on a line of its file.
    pub(crate) fn list_of(values: Vec<(u64, Value)>) -> Self {
        let item = |(line, value): (u64, Value)| Self::of_value(&value, Place { line, column: 1 });
        Self::list(values.into_iter().map(item).collect())
    }

    /// The items of a list.
    pub(crate) fn items(&self) -> &[Self] {
        if let Kind::List(items) = &self.kind { items } else { &[] }
    }

    /// The items of a list.
    pub(crate) fn into_items(self) -> Vec<Self> {
        if let Kind::List(items) = self.kind { items } else { Vec::new() }
    }

    /// The value as JSON. A text stays a text; other scalars have the type that the form gives them.
    pub(crate) fn value(&self) -> Value {
        match &self.kind {
            Kind::Text(text) => Value::String(text.clone()),
            Kind::Plain(plain) => plain.value.clone(),
            Kind::List(items) => items.iter().map(Self::value).collect(),
            Kind::Map(fields) => {
                let fields = fields.iter().filter(|field| !field.value.is_blank());
                let fields = fields.map(|field| (field.name.clone(), field.value.value()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    /// The fields of an object.
    pub(crate) fn fields(&self) -> &[Field] {
        if let Kind::Map(fields) = &self.kind { fields } else { &[] }
    }

    /// The field of an object with a name.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.fields().iter().find(|field| field.name == name).map(|field| &field.value)
    }

    /// A value that stands at one place of a file.
    pub(crate) fn of_value(value: &Value, place: Place) -> Self {
        let kind = match value {
            Value::String(text) => Kind::Text(text.clone()),
            Value::Array(items) => {
                Kind::List(items.iter().map(|item| Self::of_value(item, place)).collect())
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| {
                    let value = Self::of_value(value, place);
                    Field { name: name.clone(), place, value }
                });
                Kind::Map(fields.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                let source = value.to_string();
                Kind::Plain(Plain { value: value.clone(), source, may_be_text: false })
            }
        };
        Self { place, kind }
    }
}

/// The error of a name that an object has twice.
pub(super) fn name_twice(name: &str, place: Place, first: Option<Place>) -> ReadError {
    let other = match first {
        Some(first) if first.line == place.line => format!(", first in column {}", first.column),
        Some(first) => format!(", first on line {}", first.line),
        None => String::new(),
    };
    ReadError::at(place.line, place.column, &format!("duplicate field `{name}`{other}; remove one"))
}

/// The line of every value of a tree, by its path, such as `steps[3].after[1]`.
#[derive(Debug, Default)]
pub(crate) struct LineIndex(BTreeMap<String, u64>);

impl LineIndex {
    pub(crate) fn of(tree: &Node) -> Self {
        let mut lines = Self::default();
        lines.add(String::new(), tree);
        lines
    }

    /// The line of a path, or of its nearest ancestor.
    pub(crate) fn line(&self, path: &str) -> Option<u64> {
        let mut path = path;
        loop {
            if let Some(line) = self.0.get(path) {
                return Some(*line);
            }
            path = path.get(..path.rfind(['.', '['])?)?;
        }
    }

    fn add(&mut self, path: String, node: &Node) {
        match &node.kind {
            Kind::Text(_) | Kind::Plain(_) => {}
            Kind::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add(format!("{path}[{index}]"), item);
                }
            }
            Kind::Map(fields) => {
                for Field { name, value, .. } in fields {
                    let is_top = path.is_empty();
                    let path = if is_top { name.clone() } else { format!("{path}.{name}") };
                    self.add(path, value);
                }
            }
        }
        self.0.entry(path).or_insert(node.place.line);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json_tree, toml_tree, yaml_tree};
    use super::*;

    const JSON: &str = "{\"a\": 1,\n \"b\\\"]\": [true,\n  {\"c\": \"x]\\\\\", \"d\":\n null}],\n \"e\": \
                        {}}";
    const YAML: &str = "a: 1\nb\"]:\n  - true\n  - c: x\n    d:\n      - y\n";
    const TOML: &str = "a = 1\n\n[b]\nc = [\n  1.10,\n  2,\n]\n[[d]]\ne = 1\n[[d]]\ne = 2\n";

    #[test]
    fn every_value_has_its_line() {
        let json = LineIndex::of(&json_tree(JSON).unwrap());
        for (path, line) in
            [("a", 1), ("b\"]", 2), ("b\"][1]", 3), ("b\"][1].c", 3), ("b\"][1].d", 4), ("e", 5)]
        {
            assert_eq!(json.line(path), Some(line), "{path}");
        }
        assert_eq!(json.line("e.none[3].more"), Some(5));
        let yaml = LineIndex::of(&yaml_tree(YAML).unwrap());
        for (path, line) in [("a", 1), ("b\"][0]", 3), ("b\"][1].c", 4), ("b\"][1].d[0]", 6)] {
            assert_eq!(yaml.line(path), Some(line), "{path}");
        }
        let toml = LineIndex::of(&toml_tree(TOML).unwrap());
        for (path, line) in [("a", 1), ("b.c[0]", 5), ("b.c[1]", 6), ("d[0].e", 9), ("d[1].e", 11)]
        {
            assert_eq!(toml.line(path), Some(line), "{path}");
        }
    }

    #[test]
    fn scalars_keep_their_source() {
        let source = |node: &Node| match &node.kind {
            Kind::Plain(plain) => plain.source.clone(),
            Kind::Text(text) => format!("text {text}"),
            Kind::List(_) | Kind::Map(_) => String::new(),
        };
        let list = |tree: Node| match tree.kind {
            Kind::Map(mut fields) => match fields.remove(0).value.kind {
                Kind::List(items) => items.iter().map(source).collect::<Vec<_>>(),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let json = json_tree("{\"x\": [1.10, 1e3, true, null, -0, \"1.10\", \"\u{e9}\"]}").unwrap();
        assert_eq!(list(json), ["1.10", "1e3", "true", "null", "-0", "text 1.10", "text \u{e9}"]);
        let yaml = "\u{e9}: [1.10, 007, no, ~, &a 0x10, *a, \"1.10\", True, 1_0, !!str 5]\n";
        let yaml = list(yaml_tree(yaml).unwrap());
        let expected =
            ["1.10", "007", "text no", "~", "0x10", "0x10", "text 1.10", "True", "1_0", "text 5"];
        assert_eq!(yaml, expected);
        let toml = toml_tree("x = [1.10, 1_000, true, 2026-01-02, '1.10']\n").unwrap();
        assert_eq!(list(toml), ["1.10", "1_000", "true", "text 2026-01-02", "text 1.10"]);
    }

    #[test]
    fn name_that_is_given_twice_is_an_error_with_both_places() {
        let message =
            |read: ReadResult<Node>| plan_ledger::Error::from(read.unwrap_err()).to_string();
        for (text, expected) in [
            (
                "{\"a\": 1,\n \"b\": {\"c\": 1, \"c\": 2}}",
                "line 2, column 16: duplicate field `c`, first in column 8; remove one",
            ),
            (
                "[{\"a\": 1,\n \"a\": 2}]",
                "line 2, column 2: duplicate field `a`, first on line 1; remove one",
            ),
        ] {
            assert_eq!(message(json_tree(text)), expected, "{text}");
        }
        let yaml = "a:\n  b: 1\nc:\n  b: 1\n  d: 1\n  b: 2\n";
        let expected = "line 6, column 3: duplicate field `b`, first on line 4; remove one";
        assert_eq!(message(yaml_tree(yaml)), expected);
        let toml = "a = 1\n[b]\nc = 1\nc = 2\n";
        assert!(message(toml_tree(toml)).starts_with("line 4, column 1: duplicate"), "{toml}");
    }

    #[test]
    fn trees_of_malformed_texts_are_errors() {
        for text in ["{", "[", "{\"a", "{\"a\":", "[1,", "\"\\", "}", "]]", "{]", "[}", "{1}"] {
            assert!(json_tree(text).is_err(), "{text}");
            drop(yaml_tree(text));
            drop(toml_tree(text));
        }
    }
}
