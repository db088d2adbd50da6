//! open-wal, with one commit for each append. It has one writer: threads take turns. A batch is durable as
//! a whole, but a crash can keep its first records only.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use open_wal::{Lsn, TailState, Wal, WalConfig};

use crate::Result;
use crate::measure::{Engine, Visit};

pub struct OpenWal(Mutex<Wal>);

impl OpenWal {
    pub fn open(dir: &Path) -> Result<Self> {
        let (wal, _) = Wal::open(&dir.join("peer.open-wal"), WalConfig::default())?;
        Ok(Self(Mutex::new(wal)))
    }
}

impl Engine for OpenWal {
    fn append(&self, _: u64, payloads: &[Vec<u8>]) -> Result<()> {
        let mut wal = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for payload in payloads {
            wal.append(payload)?;
        }
        wal.commit()?;
        Ok(())
    }
}

pub fn read(dir: &Path, visit: Visit<'_>) -> Result<()> {
    let (wal, report) = Wal::open(&dir.join("peer.open-wal"), WalConfig::default())?;
    let mut reader = wal.reader_from(Lsn(0))?;
    while let Some(record) = reader.next() {
        let (_, payload) = record?;
        let number = payload.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        visit(number, payload)?;
    }
    match report.tail_state {
        TailState::Clean => Ok(()),
        cut @ TailState::TruncatedAt { .. } => Err(format!("{cut:?}").into()),
    }
}
