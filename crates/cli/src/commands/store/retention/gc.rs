//! `ledger store gc`: deletes slots with records in segment objects, and objects that longer ones
//! and later snapshots replaced.

use std::fmt::Write as _;

use clap::Args;

use plan_ledger::Environment;
use plan_ledger::internals::store::{CollectPlan, RemovableClass, bound_ledger, remove};

use crate::options::{AsJson, environment};
use crate::output::{Code, Failure, print_result};
use plan_ledger_views::count;

use crate::protocol::counted;

use super::super::lines::StoreGcLine;
use super::super::option::{StoreOption, no_ledger};
use super::super::patience::patient_client;
use super::super::remote::failure_at_store;
use super::plan::{Sum, headline, interrupted, store_time};

const EXAMPLES: &str = "\
Examples:
  ledger store gc s3://my-ledgers/night            show what could be deleted, and why it is safe
  ledger store gc s3://my-ledgers/night --yes      delete it

A store keeps each record twice: in the slot of its commit, and later in a segment object. The slot is not
needed any longer if the segment object is there and the store says that the slot is 48 hours old. Slots
that open an epoch stay: they stop writers that were replaced. So does the newest segment object. Parts of
segments and index objects go when longer ones replaced them 48 hours ago, and snapshots when two later ones
did; the snapshots from which a pruned ledger starts stay. All of the log is read and verified first; nothing is
deleted if any of it is damaged. It is safe at any time, from any machine, and twice at once. It needs the
right to delete, which a writer does not have (docs/src/reach.md, Rights). The exit code is 2 if there is
no ledger, 4 if an object is damaged, and 7 if the store does not answer.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    store: StoreOption,
    /// Delete; without this, only show what would be deleted
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    json: AsJson,
}

pub(crate) fn gc(args: &GcArgs) -> Result<Code, Failure> {
    let environment = environment();
    let url = args.store.url()?.to_string();
    let collected = collect(args, &environment);
    let line = collected.map_err(|failure| failure_at_store(failure, &url))?;
    print_result(args.json.0, &line, &text(&line))?;
    Ok(Code::Success)
}

fn collect(args: &GcArgs, environment: &Environment) -> Result<StoreGcLine, Failure> {
    let store = args.store.open_existing()?;
    let client = patient_client(&store, environment);
    let url = store.url.to_string();
    let identity =
        bound_ledger(client.objects(), client.retry())?.ok_or_else(|| no_ledger(&store.url))?;
    let session = client.session(identity);
    let now = store_time(&client, &*environment.ids)?;
    let plan = CollectPlan::of(&session, now)?;
    let mut deleted = 0;
    if args.yes {
        remove(&session, &plan.objects, &mut |_| deleted += 1)
            .map_err(|error| interrupted(&error, deleted, plan.objects.len()))?;
    }
    Ok(line_of(&plan, url, args.yes))
}

fn line_of(plan: &CollectPlan, url: String, done: bool) -> StoreGcLine {
    let sum = |class| Sum::of(&plan.objects, class);
    let (slots, parts) = (sum(RemovableClass::Slot), sum(RemovableClass::Part));
    let (indexes, snapshots) = (sum(RemovableClass::Index), sum(RemovableClass::Snapshot));
    StoreGcLine {
        done,
        floor: plan.floor,
        index_bytes: indexes.bytes,
        indexes: indexes.objects,
        kept_invalid: plan.invalid,
        kept_opening: plan.opening,
        kept_uncovered: plan.uncovered,
        kept_young: plan.young,
        part_bytes: parts.bytes,
        parts: parts.objects,
        slot_bytes: slots.bytes,
        slots: slots.objects,
        snapshot_bytes: snapshots.bytes,
        snapshots: snapshots.objects,
        url,
    }
}

fn text(line: &StoreGcLine) -> String {
    let objects = line.slots + line.parts + line.indexes + line.snapshots;
    let bytes = line.slot_bytes + line.part_bytes + line.index_bytes + line.snapshot_bytes;
    let mut text = headline(&line.url, line.done, objects, bytes);
    Sum { objects: line.slots, bytes: line.slot_bytes }.line(
        &mut text,
        "slots",
        ("slot", "slots"),
        "segment objects have their records, and the store says that they are 48 h old",
    );
    Sum { objects: line.parts, bytes: line.part_bytes }.line(
        &mut text,
        "parts",
        ("first part of a segment", "first parts of segments"),
        "longer objects replaced them 48 h ago",
    );
    Sum { objects: line.indexes, bytes: line.index_bytes }.line(
        &mut text,
        "indexes",
        ("index object", "index objects"),
        "longer ones replaced them 48 h ago",
    );
    Sum { objects: line.snapshots, bytes: line.snapshot_bytes }.line(
        &mut text,
        "snapshots",
        ("snapshot", "snapshots"),
        "two later ones replaced them 48 h ago",
    );
    let kept = [
        (line.kept_opening, "opens an epoch", "open epochs"),
        (line.kept_young, "is younger than 48 h", "are younger than 48 h"),
        (line.kept_uncovered, "is in no segment object", "are in no segment object"),
        (line.kept_invalid, "cannot be read", "cannot be read"),
    ];
    let reasons: Vec<String> = kept
        .into_iter()
        .filter(|(slots, ..)| *slots > 0)
        .map(|(slots, one, many)| {
            format!("{} {}", count(slots), if slots == 1 { one } else { many })
        })
        .collect();
    let slots = kept.into_iter().map(|(slots, ..)| slots).sum();
    let kept = if reasons.is_empty() {
        "no slot".to_owned()
    } else {
        format!("{}: {}", counted(slots, "slot"), reasons.join(", "))
    };
    // Writing to a string does not fail.
    let _ = write!(text, "  kept      {kept}");
    if objects > 0 && !line.done {
        let _ = write!(text, "\n  next      add --yes: it deletes them");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan_ledger::internals::store::RemovableObject;

    fn removable(class: RemovableClass, name: &str) -> RemovableObject {
        RemovableObject { class, name: name.to_owned(), length: 512 }
    }

    #[test]
    fn text_says_what_is_deleted_and_why() {
        let plan = CollectPlan {
            objects: ["tail/2", "tail/3"]
                .map(|name| removable(RemovableClass::Slot, name))
                .to_vec(),
            floor: 3,
            opening: 1,
            young: 4,
            uncovered: 0,
            invalid: 0,
        };
        let shown = text(&line_of(&plan, "s3://b/x".to_owned(), false));
        assert!(shown.starts_with("s3://b/x: 2 objects, 1.0 KiB, can be deleted\n"), "{shown}");
        assert!(shown.contains("  slots     2 slots, 1.0 KiB: segment objects have"), "{shown}");
        assert!(!shown.contains("parts"), "{shown}");
        let kept = "  kept      5 slots: 1 opens an epoch, 4 are younger than 48 h\n";
        assert!(shown.contains(kept), "{shown}");
        assert!(shown.ends_with("add --yes: it deletes them"), "{shown}");
        let shown = text(&line_of(&plan, "s3://b/x".to_owned(), true));
        assert!(shown.starts_with("s3://b/x: deleted 2 objects"), "{shown}");
        let snapshot = vec![removable(RemovableClass::Snapshot, "snap/1")];
        let shown = text(&line_of(
            &CollectPlan { objects: snapshot, ..CollectPlan::default() },
            "s3://b/x".to_owned(),
            false,
        ));
        assert!(shown.starts_with("s3://b/x: 1 object, 512 B, can be deleted\n"), "{shown}");
        assert!(shown.contains("  snapshots 1 snapshot, 512 B: two later ones"), "{shown}");
        let none = CollectPlan::default();
        let shown = text(&line_of(&none, "s3://b/x".to_owned(), true));
        assert_eq!(shown, "s3://b/x: nothing to delete\n  kept      no slot");
    }
}
