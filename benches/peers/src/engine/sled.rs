//! sled, flushed after each commit.

use std::path::Path;

use sled::{Batch, Db};

use super::{Engine, number};
use crate::Result;

pub struct Sled(Db);

impl Sled {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self(sled::open(dir.join("peer.sled"))?))
    }
}

impl Engine for Sled {
    fn append(&self, first: u64, payloads: Vec<Vec<u8>>) -> Result<()> {
        let mut batch = Batch::default();
        for (number, payload) in (first..).zip(payloads) {
            batch.insert(&number.to_be_bytes(), payload);
        }
        self.0.apply_batch(batch)?;
        self.0.flush()?;
        Ok(())
    }
}

pub fn serve(dir: &Path, records: &mut Vec<(u64, Vec<u8>)>) -> Result<()> {
    let sled = Sled::open(dir)?;
    for row in sled.0.iter() {
        let (key, payload) = row?;
        records.push((number(&key)?, payload.to_vec()));
    }
    Ok(())
}
