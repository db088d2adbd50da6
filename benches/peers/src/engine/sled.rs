//! sled, flushed after each commit.

use std::path::Path;

use sled::{Batch, Db};

use super::number;
use crate::Result;
use crate::measure::{Engine, Visit};

pub struct Sled(Db);

impl Sled {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self(sled::open(dir.join("peer.sled"))?))
    }
}

impl Engine for Sled {
    fn append(&self, first: u64, payloads: &[Vec<u8>]) -> Result<()> {
        let mut batch = Batch::default();
        for (number, payload) in (first..).zip(payloads) {
            batch.insert(&number.to_be_bytes(), payload.as_slice());
        }
        self.0.apply_batch(batch)?;
        self.0.flush()?;
        Ok(())
    }
}

pub fn read(dir: &Path, visit: Visit<'_>) -> Result<()> {
    let sled = Sled::open(dir)?;
    for row in sled.0.iter() {
        let (key, payload) = row?;
        visit(number(&key)?, &payload)?;
    }
    Ok(())
}
