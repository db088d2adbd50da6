//! redb, with immediate durability for each commit, which is its default.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::Result;
use crate::measure::{Engine, Visit};

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

pub struct Redb(Database);

impl Redb {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self(Database::create(dir.join("peer.redb"))?))
    }
}

impl Engine for Redb {
    fn append(&self, first: u64, payloads: &[Vec<u8>]) -> Result<()> {
        let transaction = self.0.begin_write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (number, payload) in (first..).zip(payloads) {
                table.insert(number, payload.as_slice())?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

pub fn read(dir: &Path, visit: Visit<'_>) -> Result<()> {
    let database = Database::open(dir.join("peer.redb"))?;
    let table = database.begin_read()?.open_table(TABLE)?;
    for row in table.iter()? {
        let (number, payload) = row?;
        visit(number.value(), payload.value())?;
    }
    Ok(())
}
