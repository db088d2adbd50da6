//! This engine: its log without plans, with the default options of a ledger.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use plan_ledger::BackgroundWork;
use plan_ledger::internals::format::{Codec, NewRecord};
use plan_ledger::log::{Batch, ChainCheck, Log, LogItem, LogOptions, LogReader, UidSource};
use plan_ledger::internals::storage::{DiskStorage, Storage};

use crate::Result;
use crate::measure::{Engine, Visit};
use crate::record::{mix, payload};

/// A kind that readers may skip.
const KIND: u16 = 0x9000;
/// The number of tickets in flight.
const WINDOW: usize = 512;

pub struct Ours(Log);

pub fn options() -> LogOptions {
    let now = UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
    let next = AtomicU64::new(mix(u64::from(now) << 32 | u64::from(std::process::id())));
    let uids = UidSource::new(move || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let (low, high) = (mix(number).to_le_bytes(), mix(!number).to_le_bytes());
        std::array::from_fn(|at| *low.iter().chain(&high).nth(at).unwrap_or(&0))
    });
    let background_work = BackgroundWork::Thread;
    LogOptions { background_work, ..LogOptions::new(Arc::new(DiskStorage), uids) }
}

impl Ours {
    pub fn open(dir: &Path) -> Result<Self> {
        let dir = dir.join("peer.ledger");
        Ok(Self(if dir.exists() {
            Log::open(&dir, options(), 3)?.0
        } else {
            Log::create(&dir, options(), 1)?
        }))
    }
}

fn record(payload: &[u8]) -> NewRecord {
    NewRecord { kind: KIND, codec: Codec::Raw, schema: 1, payload: payload.to_vec() }
}

impl Engine for Ours {
    fn append(&self, _: u64, payloads: &[Vec<u8>]) -> Result<()> {
        let records: Vec<NewRecord> = payloads.iter().map(|payload| record(payload)).collect();
        self.0.append(&records, 2)?;
        Ok(())
    }

    fn pipeline(&self, time: Duration) -> Option<Result<u64>> {
        Some(pipeline(&self.0, time))
    }
}

fn pipeline(log: &Log, time: Duration) -> Result<u64> {
    let payload = payload(1);
    let mut open = VecDeque::new();
    let (started, mut count) = (Instant::now(), 0);
    while started.elapsed() < time {
        open.push_back(log.submit(&Batch::new(vec![record(&payload)], 2))?);
        if open.len() > WINDOW
            && let Some(ticket) = open.pop_front()
        {
            log.wait(ticket)?;
            count += 1;
        }
    }
    Ok(count)
}

/// Read all intact records; the rest is an error. A reader takes no lock and needs no writer.
pub fn read(dir: &Path, links: ChainCheck, visit: Visit<'_>) -> Result<()> {
    let dir = dir.join("peer.ledger");
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    let reader = LogReader::open(&storage, &dir)?.with_chain_check(links);
    let mut trouble = None;
    let mut walk = reader.walk(1);
    while let Some(item) = walk.next_ref() {
        match item? {
            LogItem::Record(record, _) if record.kind == KIND => visit(record.seq, record.payload)?,
            LogItem::Damage(damage) => trouble = Some(damage.into_error()),
            LogItem::Record(..) | LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    trouble.map_or(Ok(()), |error| Err(error.into()))
}

/// Open for writing.
pub fn reopen(dir: &Path) -> Result<()> {
    Ok(Log::open(&dir.join("peer.ledger"), options(), 3)?.0.close()?)
}
