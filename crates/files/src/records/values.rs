//! The values of a tree for the reader of records: a scalar under the name of an id or a dependency is a text, as it is
//! written, so that `1.10` is not `1.1`, and `007` is not `7`.

use serde_json::{Map, Number, Value};

use super::field_names::{
    BLOCKED, CHILDREN, DEPENDENCIES, FLAGS, IDS, PARENTS, PHASES, STATUSES, TARGETS,
};
use super::record_fields::{is_same_name, truth};
use crate::syntax::{Kind, Node};

/// The parts of a record that say whether it is done: its status in words, or if it is nothing else, the record
/// itself; and its truth values, with `true`.
pub(crate) fn status_nodes(record: &Node) -> Vec<(&Node, bool)> {
    if let Kind::Text(_) = &record.kind {
        return vec![(record, false)];
    }
    let named = |name: &str| {
        let same = record.fields().iter().filter(|field| is_same_name(name, &field.name));
        same.min_by_key(|field| &field.name).map(|field| &field.value)
    };
    let is_word = |node: &&Node| matches!(node.kind, Kind::Text(_)) || node.is_blank();
    let word = STATUSES.iter().filter_map(|name| named(name)).find(is_word);
    let is_flag = |node: &&Node| node.is_blank() || truth(&node.value()).is_some();
    let flags = FLAGS.iter().filter_map(|name| named(name)).filter(is_flag);
    word.map(|node| (node, false)).into_iter().chain(flags.map(|node| (node, true))).collect()
}

/// The value of a tree of records.
pub(crate) fn value_of(node: &Node) -> Value {
    read(node, false)
}

fn read(node: &Node, is_id: bool) -> Value {
    match &node.kind {
        Kind::Plain(plain) => match &plain.value {
            Value::Number(number) if is_id && !is_plain_number(number, &plain.source) => {
                Value::String(plain.source.clone())
            }
            value => value.clone(),
        },
        Kind::Text(text) => Value::String(text.clone()),
        Kind::List(items) => items.iter().map(|item| read(item, is_id)).collect(),
        Kind::Map(fields) => {
            let fields = fields.iter().filter(|field| !field.value.is_blank());
            let fields = fields
                .map(|field| (field.name.clone(), read(&field.value, is_id_name(&field.name))));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// Whether a number is written in its only spelling.
fn is_plain_number(number: &Number, source: &str) -> bool {
    number.to_string() == source
}

/// Whether the field of a name has ids.
fn is_id_name(name: &str) -> bool {
    [IDS, DEPENDENCIES, BLOCKED, PARENTS, CHILDREN, TARGETS, PHASES]
        .iter()
        .any(|names| names.iter().any(|known| is_same_name(known, name)))
}
