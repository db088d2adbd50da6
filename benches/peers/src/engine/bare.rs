//! The bare loop: a file that was filled with zeros before, with one positional write and one sync
//! a commit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::Result;
use crate::measure::Engine;

/// The size of the file in bytes.
const PREPARED: usize = 64 << 20;
/// The size of the pieces in which the file is filled, as for the segments of the engine. The
/// kernel keeps a file in parts as large as these writes, and syncs a few bytes of a large part
/// more slowly.
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
