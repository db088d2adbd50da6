//! Notices the files that a worker changes although its step does not list them.
//!
//! Workers on this machine may share the working folder. A file that the step of another claim may change is not
//! reported for this one. If a claim has no list, or a claim came and went between two checks, no file is reported.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::runner::{ClaimsLook, FolderState};

/// The files before an attempt, and those that may change.
pub(super) struct FileWatch<'a> {
    ledger: &'a Path,
    before: FolderState,
    /// The files of its step and of concurrent steps; `None` if any file may change.
    allowed: Option<BTreeSet<String>>,
    look: ClaimsLook,
}

impl<'a> FileWatch<'a> {
    /// Looks at the working folder before the worker of a task begins, if its step lists files.
    pub(super) fn start(ledger: &'a Path, task: &Value) -> Option<Self> {
        let own = changes_of(task);
        if own.is_empty() {
            return None;
        }
        let look = ClaimsLook::at(ledger);
        let before = FolderState::of_working_folder(ledger);
        let mut watch = Self { ledger, before, allowed: Some(own), look: ClaimsLook::default() };
        watch.follow(look);
        Some(watch)
    }

    /// Looks for other workers.
    pub(super) fn look(&mut self) {
        if self.allowed.is_some() {
            self.follow(ClaimsLook::at(self.ledger));
        }
    }

    fn follow(&mut self, now: ClaimsLook) {
        if now.missed_any_since(&self.look) {
            self.allowed = None;
        }
        for task in now.tasks() {
            let changes = changes_of(task);
            match &mut self.allowed {
                Some(allowed) if !changes.is_empty() => allowed.extend(changes),
                _ => self.allowed = None,
            }
        }
        self.look = now;
    }

    /// A note about the files that changed and are not in a list.
    pub(super) fn finish(mut self) -> Option<String> {
        self.look();
        let allowed: Vec<String> = self.allowed?.into_iter().collect();
        self.before.changes_outside(&FolderState::of_working_folder(self.ledger), &allowed)
    }
}

fn changes_of(task: &Value) -> BTreeSet<String> {
    let changes = task.pointer("/step/changes").cloned();
    changes.and_then(|list| serde_json::from_value(list).ok()).unwrap_or_default()
}
