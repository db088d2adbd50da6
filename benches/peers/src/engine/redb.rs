//! redb, each commit with immediate durability, which is its default.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::Engine;
use crate::Result;

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

pub struct Redb(Database);

impl Redb {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self(Database::create(dir.join("peer.redb"))?))
    }
}

impl Engine for Redb {
    fn append(&self, first: u64, payloads: Vec<Vec<u8>>) -> Result<()> {
        let transaction = self.0.begin_write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (number, payload) in (first..).zip(&payloads) {
                table.insert(number, payload.as_slice())?;
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

pub fn serve(dir: &Path, records: &mut Vec<(u64, Vec<u8>)>) -> Result<()> {
    let database = Database::open(dir.join("peer.redb"))?;
    let table = database.begin_read()?.open_table(TABLE)?;
    for row in table.iter()? {
        let (number, payload) = row?;
        records.push((number.value(), payload.value().to_vec()));
    }
    Ok(())
}
