//! SQLite with a write-ahead log, `synchronous = FULL`, otherwise with its defaults.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, params};

use crate::Result;
use crate::measure::{Engine, Visit};

pub struct Sqlite(Mutex<Connection>);

fn connect(dir: &Path) -> Result<Connection> {
    let connection = Connection::open(dir.join("peer.sqlite"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

impl Sqlite {
    pub fn open(dir: &Path) -> Result<Self> {
        let connection = connect(dir)?;
        connection.execute(
            "CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, payload BLOB NOT NULL)",
            [],
        )?;
        Ok(Self(Mutex::new(connection)))
    }
}

impl Engine for Sqlite {
    fn append(&self, first: u64, payloads: &[Vec<u8>]) -> Result<()> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO log VALUES (?1, ?2)")?;
            for (number, payload) in (i64::try_from(first)?..).zip(payloads) {
                insert.execute(params![number, payload])?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

pub fn read(dir: &Path, visit: Visit<'_>) -> Result<()> {
    let connection = connect(dir)?;
    let mut select = connection.prepare("SELECT number, payload FROM log ORDER BY number")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let number = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(u64::MAX);
        visit(number, row.get_ref(1)?.as_blob()?)?;
    }
    Ok(())
}
