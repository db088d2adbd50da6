//! The state of a session of a host between two hooks: the claims that its tools got, and whether it was compacted.
//!
//! It is a folder in the user's state folder with one file for each fact, so that hooks that run at
//! the same time change nothing of each other, and a hook that is killed leaves nothing half written.
//! It is never a precondition: without it, the session's claims are found by its worker name alone.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use plan_ledger::plan::Token;
use plan_ledger::{AttemptToken, Timestamp};

use crate::options::Host;
use crate::protocol::private_files;
use crate::server::state_folder;

/// The extension of the file of a claim.
const CLAIM: &str = "claim";

/// The file that says that the session was compacted and not primed since.
const COMPACTED: &str = "compacted";

/// How many characters of the session's identifier are used.
const ID_LENGTH_MAX: usize = 64;

/// How many characters of the session's identifier are in its worker name.
const SHORT_ID_LENGTH: usize = 8;

/// After this time without a hook, a session is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Debug)]
pub(super) struct HostSession {
    /// The name under which it claims.
    worker: String,
    /// The host and the identifier; `None` without an identifier.
    name: Option<String>,
    /// The folder with its facts; `None` if the user has no home, or the session has no identifier.
    folder: Option<PathBuf>,
}

impl HostSession {
    pub(super) fn of(host: Host, id: Option<&str>) -> Self {
        let id: String = id
            .unwrap_or_default()
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(ID_LENGTH_MAX)
            .collect();
        let name = if id.is_empty() { None } else { Some(format!("{}-{id}", host.name())) };
        let folder = state_folder("sessions").zip(name.as_ref()).map(|(all, name)| all.join(name));
        let short: String = id.chars().take(SHORT_ID_LENGTH).collect();
        let short = if short.is_empty() { "session" } else { &short };
        Self { worker: format!("{}/{short}", host.name()), name, folder }
    }

    /// The host and the identifier of the session; `None` if the host gave no identifier.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The name under which the session claims.
    pub(super) fn worker(&self) -> &str {
        &self.worker
    }

    /// Writes the worker name where Claude Code reads the environment of its shell commands.
    pub(super) fn offer_worker_name(&self, now: Timestamp) {
        self.forget_old_sessions(now);
        let Some(path) = std::env::var_os("CLAUDE_ENV_FILE") else { return };
        // Without it, the agent passes the name.
        if let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(path) {
            let _ = writeln!(file, "export LEDGER_WORKER={}", self.worker);
        }
    }

    pub(super) fn is_compacted(&self) -> bool {
        self.folder.as_ref().is_some_and(|folder| folder.join(COMPACTED).exists())
    }

    pub(super) fn note_compaction(&self) {
        self.write(COMPACTED, "");
    }

    pub(super) fn forget_compaction(&self) {
        self.remove(COMPACTED);
    }

    /// The tokens that the tools of the session got from a ledger.
    pub(super) fn tokens(&self, ledger: &Path) -> Vec<Token> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let prefix = format!("{}-", ledger_key(ledger));
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let own = names.filter(|name| name.starts_with(&prefix) && name.ends_with(CLAIM));
        let tokens = own.filter_map(|name| {
            let text = fs::read_to_string(folder.join(name)).ok()?;
            text.lines().next()?.parse().ok()
        });
        tokens.collect()
    }

    pub(super) fn keep_token(&self, ledger: &Path, token: Token) {
        let text = format!("{token}\n{}\n", ledger.display());
        self.write(&claim_name(ledger, token.seq), &text);
    }

    pub(super) fn forget_token(&self, ledger: &Path, token: AttemptToken) {
        self.remove(&claim_name(ledger, token));
    }

    fn write(&self, name: &str, text: &str) {
        let Some(folder) = &self.folder else { return };
        // A token is for this user only.
        let _ = private_files::create_folders(folder)
            .and_then(|()| private_files::create(&folder.join(name)))
            .and_then(|mut file| file.write_all(text.as_bytes()));
    }

    fn remove(&self, name: &str) {
        if let Some(folder) = &self.folder {
            let _ = fs::remove_file(folder.join(name));
            // Only an empty folder is removed.
            let _ = fs::remove_dir(folder);
        }
    }

    fn forget_old_sessions(&self, now: Timestamp) {
        let Some(all) = self.folder.as_ref().and_then(|folder| folder.parent()) else { return };
        let Ok(entries) = fs::read_dir(all) else { return };
        let before = UNIX_EPOCH + Duration::from_micros(now).saturating_sub(FORGOTTEN_AFTER);
        for entry in entries.flatten() {
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            if changed.is_ok_and(|changed| changed < before) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn claim_name(ledger: &Path, token: AttemptToken) -> String {
    format!("{}-{token}.{CLAIM}", ledger_key(ledger))
}

/// A short name for a ledger's folder.
fn ledger_key(ledger: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    ledger.canonicalize().unwrap_or_else(|_| ledger.to_owned()).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
