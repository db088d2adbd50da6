//! The line of every value in a JSON or YAML text, by path.
//!
//! Built only when there is a diagnostic to place. The text has been parsed before, so it is
//! well-formed. A path that is not in the text has the line of its nearest ancestor.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::yaml::parse_yaml;

/// The stack of the thread that indexes a YAML text.
const STACK_BYTES: usize = 32 * 1024 * 1024;

/// Lines by path, such as `steps[3].after[1]`.
#[derive(Debug, Default)]
pub(crate) struct LineIndex(BTreeMap<String, u64>);

impl LineIndex {
    pub(crate) fn of_json(text: &str) -> Self {
        let mut scanner = JsonScanner { rest: text.as_bytes(), line: 1, lines: BTreeMap::new() };
        scanner.value("");
        Self(scanner.lines)
    }

    /// Indexes a JSON or YAML text.
    pub(crate) fn of_text(text: &str) -> Self {
        let is_json = text.trim_start().starts_with(['{', '[']);
        if is_json { Self::of_json(text) } else { Self::of_yaml(text) }
    }

    /// Indexes a YAML text; empty if the text cannot be parsed. A deeply nested text needs more
    /// stack than the caller's thread may have, so a thread with a large stack parses it.
    pub(crate) fn of_yaml(text: &str) -> Self {
        let read = || {
            let mut lines = Self::default();
            if let Ok(node) = parse_yaml::<Spanned<Node>>(text) {
                lines.add(String::new(), &node);
            }
            lines
        };
        std::thread::scope(|scope| {
            let reader = std::thread::Builder::new().stack_size(STACK_BYTES);
            let reader = reader.spawn_scoped(scope, read).ok();
            reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
        })
    }

    /// Whether the text could not be parsed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
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

    fn add(&mut self, path: String, node: &Spanned<Node>) {
        match &node.value {
            Node::Leaf => {}
            Node::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.add(format!("{path}[{index}]"), item);
                }
            }
            Node::Map(fields) => {
                for (name, value) in fields {
                    let path = child_path(&path, name);
                    self.add(path, value);
                }
            }
        }
        self.0.entry(path).or_insert(node.referenced.line());
    }
}

fn child_path(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The shape of a YAML value, without its content.
enum Node {
    Leaf,
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Node, D::Error> {
        IgnoredAny::deserialize(inner).map(|_| Node::Leaf)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }
}

/// A scan over well-formed JSON. It checks nothing; the parser has limited the nesting.
struct JsonScanner<'a> {
    rest: &'a [u8],
    line: u64,
    lines: BTreeMap<String, u64>,
}

impl JsonScanner<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        self.line = self.line.saturating_add(u64::from(*first == b'\n'));
        Some(*first)
    }

    /// The next byte after white space and commas, without consuming it.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let first = *self.rest.first()?;
            if !(first.is_ascii_whitespace() || first == b',') {
                return Some(first);
            }
            self.next();
        }
    }

    fn value(&mut self, path: &str) {
        let first = self.peek();
        self.lines.insert(path.to_owned(), self.line);
        match first {
            Some(b'{') => {
                self.next();
                while self.peek().is_some_and(|byte| byte == b'"') {
                    let name = self.string();
                    while self.peek() == Some(b':') {
                        self.next();
                    }
                    self.value(&child_path(path, &name));
                }
                self.next();
            }
            Some(b'[') => {
                self.next();
                let mut index = 0_usize;
                while self.peek().is_some_and(|byte| byte != b']') {
                    self.value(&format!("{path}[{index}]"));
                    index = index.saturating_add(1);
                }
                self.next();
            }
            Some(b'"') => drop(self.string()),
            _ => {
                // Consume at least one byte, so that the scan ends on any text.
                self.next();
                while self.rest.first().is_some_and(|byte| !b",]} \t\r\n".contains(byte)) {
                    self.next();
                }
            }
        }
    }

    fn string(&mut self) -> String {
        let start = self.rest;
        self.next();
        while let Some(byte) = self.next() {
            match byte {
                b'\\' => drop(self.next()),
                b'"' => break,
                _ => {}
            }
        }
        let length = start.len().saturating_sub(self.rest.len());
        start
            .get(..length)
            .and_then(|quoted| serde_json::from_slice(quoted).ok())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "{\"a\": 1,\n \"b\\\"]\": [true,\n  {\"c\": \"x]\\\\\", \"d\":\n null}],\n \"e\": \
                        {}}";
    const YAML: &str = "a: 1\nb\"]:\n  - true\n  - c: x\n    d:\n      - y\n";

    #[test]
    fn every_value_has_its_line() {
        let json = LineIndex::of_json(JSON);
        for (path, line) in
            [("a", 1), ("b\"]", 2), ("b\"][1]", 3), ("b\"][1].c", 3), ("b\"][1].d", 4), ("e", 5)]
        {
            assert_eq!(json.line(path), Some(line), "{path}");
        }
        assert_eq!(json.line("e.none[3].more"), Some(5));
        let yaml = LineIndex::of_yaml(YAML);
        for (path, line) in [("a", 1), ("b\"][0]", 3), ("b\"][1].c", 4), ("b\"][1].d[0]", 6)] {
            assert_eq!(yaml.line(path), Some(line), "{path}");
        }
    }

    #[test]
    fn scan_ends_on_malformed_text() {
        for text in ["", "{", "[", "{\"a", "{\"a\":", "[1,", "\"\\", "}", "]]", "{]", "[}", "{1}"] {
            LineIndex::of_json(text);
            LineIndex::of_yaml(text);
        }
    }
}
