//! raft-engine, with one synced batch for each commit and one key for each record.

use std::path::Path;

use raft_engine::{Config, Engine as Store, LogBatch};

use super::number;
use crate::Result;
use crate::measure::{Engine, Visit};

/// All records are in one group.
const REGION: u64 = 1;

pub struct RaftEngine(Store);

impl RaftEngine {
    pub fn open(dir: &Path) -> Result<Self> {
        let dir = dir.join("peer.raft").to_str().ok_or("the path is not UTF-8")?.to_owned();
        Ok(Self(Store::open(Config { dir, ..Config::default() })?))
    }
}

impl Engine for RaftEngine {
    fn append(&self, first: u64, payloads: &[Vec<u8>]) -> Result<()> {
        let mut batch = LogBatch::default();
        for (number, payload) in (first..).zip(payloads) {
            batch.put(REGION, number.to_be_bytes().to_vec(), payload.clone())?;
        }
        self.0.write(&mut batch, true)?;
        Ok(())
    }
}

pub fn read(dir: &Path, visit: Visit<'_>) -> Result<()> {
    let store = RaftEngine::open(dir)?;
    let mut trouble = None;
    store.0.scan_raw_messages(REGION, None, None, false, |key, payload| {
        let seen = number(key).and_then(|number| visit(number, payload));
        trouble = trouble.take().or(seen.err());
        true
    })?;
    trouble.map_or(Ok(()), Err)
}
