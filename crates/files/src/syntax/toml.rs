//! TOML, parsed by its library into a tree. Dates become text.

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::tree::{Field, Kind, Node, Place, Plain};
use crate::diagnostic::{ReadError, ReadResult};

/// The tree of a TOML text.
pub(crate) fn toml_tree(text: &str) -> ReadResult<Node> {
    let starts = text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
    let reader = Reader { text, lines: std::iter::once(0).chain(starts).collect() };
    match DeTable::parse(text) {
        Ok(table) => reader.table(table.span().start, table.into_inner()),
        Err(error) => {
            let place = reader.place(error.span().map_or(0, |span| span.start));
            Err(ReadError::at(place.line, place.column, error.message()))
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    /// The offset of each line.
    lines: Vec<usize>,
}

impl Reader<'_> {
    fn place(&self, at: usize) -> Place {
        let line = self.lines.partition_point(|start| *start <= at);
        let start = line.checked_sub(1).and_then(|line| self.lines.get(line)).copied();
        let before = self.text.get(start.unwrap_or(0)..at).unwrap_or_default();
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Place { line: number(line), column: number(before.chars().count().saturating_add(1)) }
    }

    fn table(&self, at: usize, table: DeTable<'_>) -> ReadResult<Node> {
        let field = |(name, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
            let place = self.place(name.span().start);
            Ok(Field { name: String::from(name.into_inner()), place, value: self.node(value)? })
        };
        Node::map(self.place(at), table.into_iter().map(field).collect::<ReadResult<_>>()?)
    }

    fn node(&self, found: Spanned<DeValue<'_>>) -> ReadResult<Node> {
        let span = found.span();
        let place = self.place(span.start);
        let plain = |value: Value| {
            let source = self.text.get(span.clone()).unwrap_or_default().to_owned();
            Kind::Plain(Plain { value, source, may_be_text: false })
        };
        let wrong = || ReadError::at(place.line, place.column, "the number is too large");
        let kind = match found.into_inner() {
            DeValue::String(text) => Kind::Text(text.into_owned()),
            DeValue::Integer(number) => {
                let digits = number.as_str().replace('_', "");
                let number = i64::from_str_radix(&digits, number.radix()).map_err(|_| wrong())?;
                plain(number.into())
            }
            DeValue::Float(number) => {
                let number: f64 = number.as_str().replace('_', "").parse().map_err(|_| wrong())?;
                plain(number.into())
            }
            DeValue::Boolean(is_set) => plain(is_set.into()),
            DeValue::Datetime(time) => Kind::Text(time.to_string()),
            DeValue::Array(items) => {
                let items = items.into_iter().map(|item| self.node(item));
                Kind::List(items.collect::<ReadResult<_>>()?)
            }
            DeValue::Table(table) => return self.table(span.start, table),
        };
        Ok(Node { place, kind })
    }
}
