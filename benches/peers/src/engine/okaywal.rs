//! okaywal, with one entry for each commit and one chunk for each record.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use okaywal::{Configuration, Entry, EntryId, LogManager, SegmentReader, WriteAheadLog};

use crate::Result;
use crate::measure::{Engine, Visit};

pub struct Okaywal(WriteAheadLog);

/// Collects the recovered entries. Checkpoints discard their entries.
#[derive(Debug, Clone, Default)]
struct Recovered(Arc<Mutex<Vec<Vec<u8>>>>);

impl LogManager for Recovered {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        if let Some(chunks) = entry.read_all_chunks()? {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(chunks);
        }
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: EntryId,
        _: &mut SegmentReader,
        _: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

/// Open without checkpoints, because a checkpoint would discard the history.
fn recover(dir: &Path, recovered: Recovered) -> io::Result<WriteAheadLog> {
    let usual = Configuration::default_for(dir.join("peer.okaywal"));
    usual.checkpoint_after_bytes(1 << 40).open(recovered)
}

impl Okaywal {
    pub fn open(dir: &Path) -> Result<Self> {
        Ok(Self(recover(dir, Recovered::default())?))
    }
}

impl Engine for Okaywal {
    fn append(&self, _: u64, payloads: &[Vec<u8>]) -> Result<()> {
        let mut entry = self.0.begin_entry()?;
        for payload in payloads {
            entry.write_chunk(payload)?;
        }
        entry.commit()?;
        Ok(())
    }
}

pub fn read(dir: &Path, visit: Visit<'_>) -> Result<()> {
    let recovered = Recovered::default();
    let opened = recover(dir, recovered.clone());
    for payload in recovered.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let number = payload.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        visit(number, payload)?;
    }
    opened?.shutdown()?;
    Ok(())
}
