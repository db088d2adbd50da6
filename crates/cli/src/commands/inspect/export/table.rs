//! Tables, and the destination of their rows: a script or a database.
//!
//! Invariant: the tables are those of `format/inspect-export.sql`, which is the script's own first
//! part.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use crate::output::Failure;

use super::database::Database;
use super::value::Value;
use crate::output::is_printable;

/// The tables, as they are published.
pub(super) const TABLES: &str = include_str!("../../../../inspect-export.sql");

/// The destination of rows.
pub(super) enum TableWriter<'a> {
    Script(&'a mut dyn Write),
    Database(Database),
}

impl<'a> TableWriter<'a> {
    pub(super) fn script(out: &'a mut dyn Write) -> Self {
        Self::Script(out)
    }

    pub(super) fn database(path: &Path) -> Result<Self, Failure> {
        Database::create(path).map(Self::Database)
    }

    /// Begin the export and create the tables.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        self.run("BEGIN;\n")?;
        self.run(TABLES)
    }

    /// End the export after the last row.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.run("COMMIT;\n")?;
        match self {
            Self::Script(out) => out.flush().map_err(Failure::Output),
            Self::Database(_) => Ok(()),
        }
    }

    fn run(&mut self, script: &str) -> Result<(), Failure> {
        match self {
            Self::Script(out) => out.write_all(script.as_bytes()).map_err(Failure::Output),
            Self::Database(database) => database.run(script),
        }
    }

    /// A row of a table, in place of one with the same key.
    pub(super) fn put(&mut self, table: &str, values: &[Value]) -> Result<(), Failure> {
        self.execute(&format!("INSERT OR REPLACE INTO {table} VALUES"), values)
    }

    /// A row of a table, unless there is one with the same key.
    pub(super) fn put_missing(&mut self, table: &str, values: &[Value]) -> Result<(), Failure> {
        self.execute(&format!("INSERT OR IGNORE INTO {table} VALUES"), values)
    }

    /// The outcome of an attempt.
    pub(super) fn outcome(&mut self, outcome: &str, seq: u64, token: u64) -> Result<(), Failure> {
        let values = [Value::of(&outcome), Value::of(&seq), Value::of(&token)];
        match self {
            Self::Script(out) => {
                let [outcome, seq, token] = values.map(|value| literal(&value));
                let text = format!(
                    "UPDATE attempts SET outcome = {outcome}, ended_seq = {seq} WHERE token = {token};\n"
                );
                out.write_all(text.as_bytes()).map_err(Failure::Output)
            }
            Self::Database(database) => database
                .row("UPDATE attempts SET outcome = ?1, ended_seq = ?2 WHERE token = ?3", &values),
        }
    }

    fn execute(&mut self, start: &str, values: &[Value]) -> Result<(), Failure> {
        match self {
            Self::Script(out) => {
                let values: Vec<_> = values.iter().map(literal).collect();
                let line = format!("{start} ({});\n", values.join(", "));
                out.write_all(line.as_bytes()).map_err(Failure::Output)
            }
            Self::Database(database) => {
                let places = vec!["?"; values.len()].join(", ");
                database.row(&format!("{start} ({places})"), values)
            }
        }
    }
}

/// A value as an SQL literal.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Number(number) => number.to_string(),
        // Such text is written as hexadecimal bytes: a literal ends at a NUL, some tools read line
        // by line, and control characters must not reach a terminal.
        Value::Text(text) if !text.chars().all(is_printable) => {
            let mut out = "CAST(x'".to_owned();
            for byte in text.bytes() {
                // Writing to a string does not fail.
                let _ = write!(out, "{byte:02x}");
            }
            out + "' AS TEXT)"
        }
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: no text breaks out of its literal.

    use super::*;

    #[test]
    fn texts_stay_in_their_literals() {
        assert_eq!(literal(&Value::of(&"it's")), "'it''s'");
        assert_eq!(literal(&Value::of(&"a\0b")), "CAST(x'610062' AS TEXT)");
        assert_eq!(literal(&Value::of(&"\u{1b}[2J")), "CAST(x'1b5b324a' AS TEXT)");
        assert_eq!(literal(&Value::of(&"'); DROP TABLE runs; --")), "'''); DROP TABLE runs; --'");
        assert_eq!(literal(&Value::of(&u64::MAX)), "'18446744073709551615'");
        assert_eq!(literal(&Value::of(&None::<u32>)), "NULL");
    }
}
