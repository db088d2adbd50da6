//! The tables of a Markdown text that have tasks, as one list of rows.
//!
//! The first table that has tasks shows the columns. Tables with the same first columns are its continuation, each a
//! phase with the title of its section; other tables are named, and not read.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::markdown::Outline;
use crate::records;
use crate::syntax::{Cell, Node};

/// The tables with tasks.
pub(super) struct TaskTables {
    pub(super) rows: Node,
    /// The other tables with tasks: their line, the title of their section, and how many rows they have.
    pub(super) others: Vec<(u64, String, usize)>,
    /// How many rows repeat one of an earlier table.
    pub(super) repeated: usize,
}

/// A table: its line, its section, the names of its columns, and its rows.
struct Table {
    line: u64,
    section: String,
    names: Vec<String>,
    rows: Node,
}

/// Finds the tables of which each alone is a list of tasks.
pub(super) fn task_tables(
    outline: &Outline<'_>,
    is_tasks: impl Fn(&Node) -> bool,
) -> Option<TaskTables> {
    let mut tables = outline.tables().iter().filter_map(|table| {
        let line = table.line();
        let section = outline.section_title(line).to_owned();
        let mut rows = table.rows.clone();
        let column = id_column(&rows);
        let header = rows.first_mut()?;
        if let Some(name) = column.and_then(|at| header.get_mut(at)) {
            "id".clone_into(&mut name.text);
        }
        let names: Vec<String> = header.iter().map(|name| name.text.clone()).collect();
        let rows = Node::rows(rows).filter(|rows| is_tasks(rows))?;
        Some(Table { line, section, names, rows })
    });
    let first = tables.next()?;
    let is_alike = |table: &Table| first.names.iter().take(2).eq(table.names.iter().take(2));
    let (alike, others): (Vec<Table>, Vec<Table>) = tables.partition(is_alike);
    let others = others.into_iter();
    let others =
        others.map(|table| (table.line, table.section, table.rows.items().len())).collect();
    if alike.is_empty() {
        return Some(TaskTables { rows: first.rows, others, repeated: 0 });
    }
    let all = std::iter::once(first).chain(alike);
    let (rows, repeated) = joined(all);
    Some(TaskTables { rows, others, repeated })
}

/// The column that has the ids under another name: `#`, unless it only counts the rows, or the column of the tasks, if
/// another one describes them.
fn id_column(rows: &[Vec<Cell>]) -> Option<usize> {
    let names = rows.first()?;
    let position = |known: &[&str]| names.iter().position(|name| known.contains(&name.text.trim()));
    let texts = |row: &'_ Vec<Cell>, column: usize| row.get(column).map(|cell| cell.text.clone());
    let cells = |column: usize| rows.iter().skip(1).filter_map(move |row| texts(row, column));
    let is_named = |id: String| {
        let letters = id.chars().take_while(char::is_ascii_uppercase).count();
        letters > 0 && id.chars().skip(letters).all(|c| c.is_ascii_digit() || "-._".contains(c))
    };
    let number = position(&["#", "\u{2116}", "No."]);
    let number = number.filter(|at| cells(*at).any(|id| id.contains(char::is_alphabetic)));
    let has_text = position(&["Description", "Title", "Name", "Summary"]).is_some();
    let task = position(&["Task", "Step"]).filter(|at| has_text && cells(*at).all(is_named));
    number.or(task)
}

/// The rows of all tables. An id that another task of an earlier table has gets the number of the table as a
/// prefix; the same row in a later table is the same task.
fn joined(tables: impl Iterator<Item = Table>) -> (Node, usize) {
    let mut repeated = 0_usize;
    let mut rows: Vec<Node> = Vec::new();
    let mut known: BTreeMap<String, (usize, Option<Value>)> = BTreeMap::new();
    for (number, table) in (1_usize..).zip(tables) {
        let id_name = table.names.first().filter(|name| records::is_id_name(name));
        let id_name = id_name.map(String::as_str).unwrap_or_default();
        let text_name = table.names.get(1).map(String::as_str).unwrap_or_default();
        for mut row in table.rows.into_items() {
            let place = row.place;
            let value = |name: &str| row.field(name).filter(|it| !it.is_blank()).map(Node::value);
            let id = value(id_name).and_then(|id| id.as_str().map(str::to_owned));
            let text = value(text_name);
            if let Some(id) = id {
                match known.get(&id) {
                    Some((_, same)) if *same == text => {
                        repeated = repeated.saturating_add(1);
                        continue;
                    }
                    Some((before, _)) if *before != number => {
                        row.set_field(id_name, Node::text(format!("{number}.{id}"), place));
                    }
                    Some(_) => {}
                    None => drop(known.insert(id, (number, text))),
                }
            }
            if !table.section.is_empty() && value_is_absent(&row, "phase") {
                row.set_field("phase", Node::text(table.section.clone(), place));
            }
            rows.push(row);
        }
    }
    (Node::list(rows), repeated)
}

fn value_is_absent(row: &Node, name: &str) -> bool {
    row.field(name).is_none_or(Node::is_blank)
}
