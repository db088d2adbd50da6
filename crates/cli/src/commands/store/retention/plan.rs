//! The common parts of plans to delete objects.

use std::fmt::Write as _;

use plan_ledger::internals::ledger::IdSource;
use plan_ledger::internals::store::{RemovableClass, RemovableObject, StoreClient, StoreTime};
use plan_ledger::{Error, ErrorKind};

use crate::output::Failure;
use plan_ledger_views::count;

use crate::protocol::{counted, hex, size};

/// The current time of the store. It cannot be compared with the clock of a machine, so this creates and deletes a test
/// object. Without the right to create one, it is at least the time of the newest object of the log.
pub(super) fn store_time(client: &StoreClient, ids: &dyn IdSource) -> Result<StoreTime, Failure> {
    let name = format!("probe/{}", hex(&ids.next_id()));
    let created = client.objects().create(&name, b"what time is it?\n");
    if let Ok(created) = &created
        && let Some(at) = created.at
    {
        // It is a test object, which may stay.
        let _ = client.objects().delete(&name);
        return Ok(at);
    }
    let newest = ["tail/", "seg/"].into_iter().filter_map(|folder| newest(client, folder)).max();
    newest.ok_or_else(|| {
        let error = Error::new(ErrorKind::Io, "the store does not report its time");
        error
            .with_hint("check that the credentials may list objects, and create them in probe/")
            .into()
    })
}

fn newest(client: &StoreClient, folder: &str) -> Option<StoreTime> {
    let listing = client.objects().list(folder).ok()?;
    listing.into_iter().filter_map(|listed| listed.at).max()
}

/// The number of objects of a class, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

impl Sum {
    pub(super) fn of(objects: &[RemovableObject], class: RemovableClass) -> Self {
        let own = objects.iter().filter(|object| object.class == class);
        own.fold(Self::default(), |sum, object| Self {
            objects: sum.objects + 1,
            bytes: sum.bytes.saturating_add(object.length),
        })
    }

    /// A line of text for people, if there are any.
    pub(super) fn line(self, text: &mut String, label: &str, (one, many): (&str, &str), why: &str) {
        if self.objects > 0 {
            let what = if self.objects == 1 { one } else { many };
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "  {label:<9} {} {what}, {}: {why}",
                count(self.objects),
                size(self.bytes)
            );
        }
    }
}

/// The deleted or deletable objects, in one line.
pub(super) fn headline(url: &str, is_done: bool, objects: u64, bytes: u64) -> String {
    if objects == 0 {
        return format!("{url}: nothing to delete\n");
    }
    let (objects, bytes) = (counted(objects, "object"), size(bytes));
    if is_done {
        format!("{url}: deleted {objects}, {bytes}\n")
    } else {
        format!("{url}: {objects}, {bytes}, can be deleted\n")
    }
}

/// Deleting stopped before its end.
pub(super) fn interrupted(error: &Error, deleted: u64, all: usize) -> Error {
    let message = format!("{}; {deleted} of {all} objects were deleted", error.message());
    let repeat = "repeat the command to continue";
    let hint = error.hint().map_or_else(|| repeat.to_owned(), |hint| format!("{hint}; {repeat}"));
    let stopped = Error::new(error.kind(), message).with_hint(hint);
    match error.location().path.clone() {
        Some(path) => stopped.at_path(&path),
        None => stopped,
    }
}
