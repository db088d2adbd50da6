//! This engine: its log, without the plan.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::format::{Codec, NewRecord};
use plan_ledger::log::{Item, Log, LogOptions, LogReader, UidSource};
use plan_ledger::storage::{DiskStorage, Storage};

use super::Engine;
use crate::Result;
use crate::record::mix;

/// A kind that a reader may skip.
const KIND: u16 = 0x9000;

pub struct Ours(Log);

fn options() -> LogOptions {
    let next = AtomicU64::new(1);
    let uids = UidSource::new(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let (low, high) = (mix(number).to_le_bytes(), mix(!number).to_le_bytes());
        std::array::from_fn(|at| *low.iter().chain(&high).nth(at).unwrap_or(&0))
    });
    LogOptions::new(Arc::new(DiskStorage), uids)
}

impl Ours {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self(Log::create(&dir.join("peer.ledger"), options(), 1)?))
    }

    /// The log, for what only this engine offers.
    pub fn log(&self) -> &Log {
        &self.0
    }
}

pub fn record(payload: Vec<u8>) -> NewRecord {
    NewRecord { kind: KIND, codec: Codec::Raw, schema: 1, payload }
}

impl Engine for Ours {
    fn append(&self, _: u64, payloads: Vec<Vec<u8>>) -> Result<()> {
        let records: Vec<NewRecord> = payloads.into_iter().map(record).collect();
        self.0.append(&records, 2)?;
        Ok(())
    }
}

/// A reader serves what it can and names the rest; a writer then opens, or refuses.
pub fn serve(dir: &Path, records: &mut Vec<(u64, Vec<u8>)>) -> Result<()> {
    let dir = dir.join("peer.ledger");
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let reader = LogReader::open(&storage, &dir)?;
    let mut trouble = None;
    for item in reader.walk(1) {
        match item? {
            Item::Record(record, _) if record.kind == KIND => {
                records.push((record.seq, record.payload));
            }
            Item::Damage(damage) => trouble = Some(damage.into_error()),
            Item::Record(..) | Item::Derived(_) | Item::OpenEnd { .. } => {}
        }
    }
    Log::open(&dir, options(), 3)?.0.close()?;
    trouble.map_or(Ok(()), |error| Err(error.into()))
}
