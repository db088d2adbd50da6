//! The floor: one file filled with zeros beforehand, one positional write and one sync a commit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::Result;
use crate::measure::Engine;

/// How much is filled with zeros beforehand, in bytes.
const PREPARED: usize = 64 << 20;
/// In pieces of what size: those that the engine fills its segments in. The system keeps a file in
/// parts as large as what was written at once, and syncs few bytes of a large part more slowly.
const PIECE: usize = 64 << 10;

pub struct Bare {
    file: File,
    end: Mutex<u64>,
}

impl Bare {
    pub fn open(dir: &Path) -> Result<Self> {
        let file = File::create(dir.join("bare"))?;
        let zeros = vec![0; PIECE];
        for place in (0..PREPARED).step_by(PIECE) {
            file.write_all_at(&zeros, u64::try_from(place)?)?;
        }
        file.sync_all()?;
        Ok(Self { file, end: Mutex::new(0) })
    }
}

impl Engine for Bare {
    fn append(&self, _: u64, payloads: &[Vec<u8>]) -> Result<()> {
        let bytes = payloads.concat();
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if *end + u64::try_from(bytes.len())? > u64::try_from(PREPARED)? {
            *end = 0;
        }
        self.file.write_all_at(&bytes, *end)?;
        self.file.sync_data()?;
        *end += u64::try_from(bytes.len())?;
        Ok(())
    }
}
