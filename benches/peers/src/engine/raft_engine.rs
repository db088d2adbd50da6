//! raft-engine, a synced batch a commit, a key a record.

use std::path::Path;

use raft_engine::{Config, Engine as Store, LogBatch};

use super::{Engine, number};
use crate::Result;

/// One group holds all of it.
const REGION: u64 = 1;

pub struct RaftEngine(Store);

impl RaftEngine {
    pub fn open(dir: &Path) -> Result<Self> {
        let dir = dir.join("peer.raft").to_str().ok_or("a name that is no text")?.to_owned();
        Ok(Self(Store::open(Config { dir, ..Config::default() })?))
    }
}

impl Engine for RaftEngine {
    fn append(&self, first: u64, payloads: Vec<Vec<u8>>) -> Result<()> {
        let mut batch = LogBatch::default();
        for (number, payload) in (first..).zip(payloads) {
            batch.put(REGION, number.to_be_bytes().to_vec(), payload)?;
        }
        self.0.write(&mut batch, true)?;
        Ok(())
    }
}

pub fn serve(dir: &Path, records: &mut Vec<(u64, Vec<u8>)>) -> Result<()> {
    let store = RaftEngine::open(dir)?;
    let mut is_odd = false;
    store.0.scan_raw_messages(REGION, None, None, false, |key, payload| {
        match number(key) {
            Ok(number) => records.push((number, payload.to_vec())),
            Err(_) => is_odd = true,
        }
        true
    })?;
    if is_odd { Err("a key that was never written".into()) } else { Ok(()) }
}
