//! The file `store-health.json` in the folder of a ledger with its log in a store: the view of the
//! process of this machine that holds the ledger, or is a standby with the folder. A client that
//! may not write to the folder finds the address of the ledger there.
//!
//! Invariant: a file that was not written for a while does not count: its process is dead or stopped.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

/// The name of the file.
pub(crate) const STORE_HEALTH_NAME: &str = "store-health.json";

/// How long a file counts.
pub(crate) const STORE_HEALTH_FRESH_FOR: Duration = Duration::from_secs(10);

/// The longest file that is read.
const LENGTH_MAX: u64 = 1 << 16;

/// The content of the file; `None` without a valid file.
pub(crate) fn store_health_text(dir: &Path) -> Option<String> {
    let file = File::open(dir.join(STORE_HEALTH_NAME)).ok()?;
    let age = file.metadata().ok()?.modified().ok()?.elapsed().unwrap_or_default();
    if age > STORE_HEALTH_FRESH_FOR {
        return None;
    }
    let mut text = String::new();
    file.take(LENGTH_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// A standby that follows a store with a folder.
#[derive(Debug, Deserialize)]
pub(super) struct StandbyHere {
    /// The address for clients of the process that holds the ledger, if it is known.
    owner: Option<String>,
}

/// The role of a process of this machine for a folder, as far as it matters here.
#[derive(Debug, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Role {
    Standby(StandbyHere),
    #[serde(other)]
    Other,
}

impl StandbyHere {
    /// The standby that follows with a folder; `None` without one.
    pub(super) fn in_folder(dir: &Path) -> Option<Self> {
        match serde_json::from_str(&store_health_text(dir)?).ok()? {
            Role::Standby(standby) => Some(standby),
            Role::Other => None,
        }
    }

    /// The reason why a request cannot be made in the folder, and the remedy.
    pub(super) fn refusal(&self, store: &str) -> (String, String) {
        match &self.owner {
            Some(owner) => (
                format!("a standby follows {store} with this folder; the ledger is held at {owner}"),
                format!(
                    "make the request there: a worker's with `--server {owner}`, any other on that machine or over HTTP"
                ),
            ),
            None => (
                format!(
                    "a standby follows {store} with this folder; where the ledger is held is not known here"
                ),
                "make the request on the machine that holds the ledger; a standby knows the address of an owner with \
                 `--http`, and then `--server URL` reaches it"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: only a live standby is named.

    use super::*;

    #[test]
    fn only_a_standby_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |text: &str| std::fs::write(folder.path().join(STORE_HEALTH_NAME), text).unwrap();
        let found = || StandbyHere::in_folder(folder.path()).map(|standby| standby.owner);
        assert_eq!(found(), None);
        write("{\"role\":\"owner\",\"owner\":null}");
        assert_eq!(found(), None);
        write("{\"role\":\"standby\",\"owner\":\"https://a:1\",\"seq\":7}");
        assert_eq!(found(), Some(Some("https://a:1".to_owned())));
        write("{\"role\":\"standby\",\"owner\":null}");
        assert_eq!(found(), Some(None));
        write("{");
        assert_eq!(found(), None);
    }
}
