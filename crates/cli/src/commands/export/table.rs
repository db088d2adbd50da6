//! The tables of an export, and the database that gets their rows.
//!
//! Invariant: the tables are those of `format/export-forms.sql`.

use std::path::Path;

use crate::output::Failure;

use super::database::Database;
use super::value::Value;

/// The tables, as they are published.
const TABLES: &str = include_str!("../../../export-forms.sql");

/// The destination of rows.
pub(super) struct TableWriter(Database);

impl TableWriter {
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        Database::create(path).map(Self)
    }

    /// Begin the export and create the tables.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        self.0.run("BEGIN;\n")?;
        self.0.run(TABLES)
    }

    /// End the export after the last row.
    pub(super) fn end(self) -> Result<(), Failure> {
        self.0.run("COMMIT;\n")
    }

    /// A row of a table, in place of one with the same key.
    pub(super) fn put(&mut self, table: &str, values: &[Value]) -> Result<(), Failure> {
        self.insert(&format!("INSERT OR REPLACE INTO {table}"), values)
    }

    /// A row of a table, unless there is one with the same key.
    pub(super) fn put_missing(&mut self, table: &str, values: &[Value]) -> Result<(), Failure> {
        self.insert(&format!("INSERT OR IGNORE INTO {table}"), values)
    }

    /// The outcome of an attempt.
    pub(super) fn outcome(&mut self, outcome: &str, seq: u64, token: u64) -> Result<(), Failure> {
        let values = [Value::of(&outcome), Value::of(&seq), Value::of(&token)];
        self.0.row("UPDATE attempts SET outcome = ?1, ended_seq = ?2 WHERE token = ?3", &values)
    }

    fn insert(&mut self, start: &str, values: &[Value]) -> Result<(), Failure> {
        let places = vec!["?"; values.len()].join(", ");
        self.0.row(&format!("{start} VALUES ({places})"), values)
    }
}
