//! `store-health.json` in the folder of a ledger: the view of its owner or standby about the store.
//! `ledger status` reads it, and so do clients that find a standby here. The process writes it
//! every two seconds, and removes it at an orderly end.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::commands::store::lines::StoreHealthLine;
use crate::server::{STORE_HEALTH_NAME, store_health_text};

use super::life::SIGN_EVERY;

/// Writes the file. It is removed with this.
#[derive(Debug)]
pub(super) struct HealthFile {
    path: PathBuf,
    written: Option<Instant>,
}

impl HealthFile {
    pub(super) fn new(dir: &Path) -> Self {
        Self { path: dir.join(STORE_HEALTH_NAME), written: None }
    }

    /// Write the file if it is time. Without it, `ledger status` shows less.
    pub(super) fn write_if_due(&mut self, health: impl FnOnce() -> StoreHealthLine) {
        if self.written.is_none_or(|written| written.elapsed() >= SIGN_EVERY) {
            self.written = Some(Instant::now());
            let _ = self.write(&health().line());
        }
    }

    fn write(&self, line: &str) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(line.as_bytes())?;
        file.persist(&self.path)?;
        Ok(())
    }
}

impl Drop for HealthFile {
    fn drop(&mut self) {
        if self.written.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The health that a process of this machine wrote for the ledger in a folder; `None` without a
/// file.
pub(crate) fn store_health(dir: &Path) -> Option<StoreHealthLine> {
    serde_json::from_str(&store_health_text(dir)?).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;
    use crate::server::STORE_HEALTH_FRESH_FOR;

    fn health() -> StoreHealthLine {
        StoreHealthLine::of_standby(7, None)
    }

    /// Goal: the file of a live process is read, and the file of a dead one is not.
    #[test]
    fn stale_file_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(store_health(folder.path()).is_none());
        let mut file = HealthFile::new(folder.path());
        file.write_if_due(health);
        file.write_if_due(|| panic!("it was written a moment ago"));
        assert_eq!(store_health(folder.path()).unwrap().epoch, 7);
        let path = folder.path().join(STORE_HEALTH_NAME);
        let written = path.metadata().unwrap().modified().unwrap();
        let old = written - STORE_HEALTH_FRESH_FOR - Duration::from_secs(1);
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        assert!(store_health(folder.path()).is_none());
        drop(file);
        assert!(!path.exists());
        // A process that never wrote the file does not remove it.
        fs::write(&path, "{}").unwrap();
        drop(HealthFile::new(folder.path()));
        assert!(path.exists() && store_health(folder.path()).is_none());
    }
}
