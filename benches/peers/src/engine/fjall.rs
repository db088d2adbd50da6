//! fjall, each commit persisted with `SyncAll`.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::number;
use crate::Result;
use crate::measure::{Engine, Visit};

pub struct Fjall {
    database: Database,
    log: Keyspace,
}

impl Fjall {
    pub fn open(dir: &Path) -> Result<Self> {
        let database = Database::builder(dir.join("peer.fjall")).open()?;
        let log = database.keyspace("log", KeyspaceCreateOptions::default)?;
        Ok(Self { database, log })
    }
}

impl Engine for Fjall {
    fn append(&self, first: u64, payloads: &[Vec<u8>]) -> Result<()> {
        let mut batch = self.database.batch();
        for (number, payload) in (first..).zip(payloads) {
            batch.insert(&self.log, number.to_be_bytes(), payload.as_slice());
        }
        batch.commit()?;
        self.database.persist(PersistMode::SyncAll)?;
        Ok(())
    }
}

pub fn read(dir: &Path, visit: Visit<'_>) -> Result<()> {
    let fjall = Fjall::open(dir)?;
    for row in fjall.log.iter() {
        let (key, payload) = row.into_inner()?;
        visit(number(&key)?, &payload)?;
    }
    Ok(())
}
