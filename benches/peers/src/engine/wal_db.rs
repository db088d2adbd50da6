//! wal-db in one file, with one sync for each append. A batch is durable as a whole, but a crash can keep
//! its first records only.

use std::path::Path;

use wal_db::Wal;

use crate::Result;
use crate::measure::{Engine, Visit};

pub struct WalDb(Wal);

impl WalDb {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self(Wal::open(dir.join("peer.wal-db"))?))
    }
}

impl Engine for WalDb {
    fn append(&self, _: u64, payloads: &[Vec<u8>]) -> Result<()> {
        for payload in payloads {
            let _ = self.0.append(payload)?;
        }
        Ok(self.0.sync()?)
    }
}

pub fn read(dir: &Path, visit: Visit<'_>) -> Result<()> {
    let wal = Wal::open(dir.join("peer.wal-db"))?;
    for record in wal.iter()? {
        let record = record?;
        let payload = record.data();
        let number = payload.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        visit(number, payload)?;
    }
    match wal.truncated_on_open() {
        0 => Ok(()),
        cut => Err(format!("{cut} bytes were cut off").into()),
    }
}
