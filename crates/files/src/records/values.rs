//! The values of a tree for the reader of records: a scalar under the name of an id or a dependency is a text, as it is
//! written, so that `1.10` is not `1.1`, and `007` is not `7`.

use serde_json::{Map, Number, Value};

use super::field_names::{BLOCKED, CHILDREN, DEPENDENCIES, IDS, PARENTS, PHASES, TARGETS};
use super::record_fields::is_same_name;
use crate::syntax::{Kind, Node};

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
            let fields = fields
                .iter()
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
