//! `ledger store prune`: deletes the segments in a store that the ledger pruned.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use plan_ledger::internals::store::{RemovableClass, StorePrune, bound_ledger, remove};
use plan_ledger::log::LogReader;
use plan_ledger::{Environment, Error, ErrorKind};

use crate::options::{AsJson, environment};
use crate::output::{Code, Failure, print_result};
use plan_ledger_views::count;

use crate::protocol::counted;

use super::super::lines::StorePruneLine;
use super::super::option::{StoreOption, no_ledger};
use super::super::patience::patient_client;
use super::super::remote::failure_at_store;
use super::plan::{Sum, headline, interrupted};

const EXAMPLES: &str = "\
Examples:
  ledger prune .ledger --ended --yes               first prune the ledger, which notes it
  ledger store prune s3://my-ledgers/night         show what the store could delete because of that
  ledger store prune s3://my-ledgers/night --ledger .ledger --yes      delete it

A prune of the ledger removes segments from its folder only; the store keeps them, and `ledger inspect` reads
them there. This deletes them in the store too, the oldest first, if a retention note in the store's log
covers them; never the newest one; and then the snapshots of these records. The log in the store then begins
later, from two snapshots: if the store lacks them, --ledger names a folder that has them, and they are created
there first. Nothing brings the records back, unless an archive has them. The exit code is 2 if there is no
ledger, 4 if an object or a snapshot is damaged or missing, 6 if the folder has another ledger, and 7 if the
store does not answer.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    store: StoreOption,
    /// A folder of the ledger that has the snapshots at the new start of the log
    #[arg(long, value_name = "DIR")]
    ledger: Option<PathBuf>,
    /// Delete; without this, only show what would be deleted
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    json: AsJson,
}

pub(crate) fn prune(args: &PruneArgs) -> Result<Code, Failure> {
    let environment = environment();
    let url = args.store.url()?.to_string();
    let pruned = carry_out(args, &environment);
    let line = pruned.map_err(|failure| failure_at_store(failure, &url))?;
    print_result(args.json.0, &line, &text(&line))?;
    Ok(Code::Success)
}

fn carry_out(args: &PruneArgs, environment: &Environment) -> Result<StorePruneLine, Failure> {
    let store = args.store.open_existing()?;
    let client = patient_client(&store, environment);
    let url = store.url.to_string();
    let identity =
        bound_ledger(client.objects(), client.retry())?.ok_or_else(|| no_ledger(&store.url))?;
    let session = client.session(identity);
    let plan = StorePrune::find(&session)?;
    let mut created = Vec::new();
    // A log that already begins later needs its snapshots even if there is nothing left to delete.
    if let Some(plan) = plan.as_ref().filter(|plan| args.yes && is_needed(plan)) {
        if !plan.missing.is_empty() {
            let dir = args.ledger.as_ref().ok_or_else(|| no_snapshots(plan))?;
            created = plan.upload_anchors(dir, &environment.log_options(), &session)?;
        }
        created.extend(plan.keep_anchors(&session)?);
        let mut deleted = 0;
        remove(&session, &plan.objects, &mut |_| deleted += 1)
            .map_err(|error| interrupted(&error, deleted, plan.objects.len()))?;
    }
    let mut line = line_of(plan.as_ref(), url, created, args.yes);
    if let (Some(plan), Some(dir), false) = (&plan, &args.ledger, args.yes) {
        expect_snapshots(dir, environment, plan)?;
        line.found_in = (!line.missing.is_empty()).then(|| dir.display().to_string());
    }
    Ok(line)
}

/// Whether there are segments to delete, or snapshots to create for a log that begins later.
fn is_needed(plan: &StorePrune) -> bool {
    let is_pruned = plan.is_pruned && !(plan.missing.is_empty() && plan.unkept.is_empty());
    is_pruned || !plan.objects.is_empty()
}

/// Refuse a folder without the snapshots that the store lacks, before anything is deleted.
fn expect_snapshots(
    dir: &Path,
    environment: &Environment,
    plan: &StorePrune,
) -> Result<(), Failure> {
    if plan.missing.is_empty() {
        return Ok(());
    }
    let reader = LogReader::open(&environment.storage, dir)?;
    for anchor in &plan.missing {
        reader.check_anchor(anchor)?;
    }
    Ok(())
}

fn no_snapshots(plan: &StorePrune) -> Error {
    let names: Vec<&str> = plan.missing.iter().map(|anchor| anchor.file.as_str()).collect();
    let message =
        format!("the store lacks the snapshots that replace the records: {}", names.join(", "));
    Error::new(ErrorKind::Corrupt, message)
        .with_hint("name a folder of this ledger with --ledger: it has them in `snap`")
        .at_seq(plan.seq)
}

fn line_of(
    plan: Option<&StorePrune>,
    url: String,
    created: Vec<String>,
    done: bool,
) -> StorePruneLine {
    let sum =
        |class| plan.map_or_else(Sum::default, |plan: &StorePrune| Sum::of(&plan.objects, class));
    let (segments, snapshots) = (sum(RemovableClass::Pruned), sum(RemovableClass::Snapshot));
    let missing = plan.filter(|_| !done).map_or_else(Vec::new, |plan| {
        plan.missing.iter().map(|anchor| anchor.file.clone()).collect()
    });
    StorePruneLine {
        created,
        done,
        found_in: None,
        last_seq: plan.map(|plan| plan.note.last_seq),
        missing,
        note_seq: plan.map(|plan| plan.seq),
        segment_bytes: segments.bytes,
        segments: segments.objects,
        snapshot_bytes: snapshots.bytes,
        snapshots: snapshots.objects,
        url,
    }
}

fn text(line: &StorePruneLine) -> String {
    let objects = line.segments + line.snapshots;
    let bytes = line.segment_bytes + line.snapshot_bytes;
    let mut text = headline(&line.url, line.done, objects, bytes);
    let Some((seq, last_seq)) = line.note_seq.zip(line.last_seq) else {
        text.push_str(
            "  why       no retention note: `ledger prune` prunes the ledger and notes it",
        );
        return text;
    };
    Sum { objects: line.segments, bytes: line.segment_bytes }.line(
        &mut text,
        "segments",
        ("segment object", "segment objects"),
        "the ledger pruned their records",
    );
    Sum { objects: line.snapshots, bytes: line.snapshot_bytes }.line(
        &mut text,
        "snapshots",
        ("snapshot", "snapshots"),
        "of these records",
    );
    // Writing to a string does not fail.
    let _ = write!(text, "  note      record {seq}: records up to {} were pruned", count(last_seq));
    if !line.created.is_empty() {
        let _ = write!(text, "\n  created   {}", line.created.join(", "));
    }
    if !line.missing.is_empty() {
        let snapshots = counted(u64::try_from(line.missing.len()).unwrap_or(u64::MAX), "snapshot");
        let where_from = match &line.found_in {
            Some(dir) => format!("{dir} has them, and --yes creates them in the store"),
            None => "name a folder that has them with --ledger".to_owned(),
        };
        let _ = write!(text, "\n  lacks     {snapshots}: {where_from}");
    }
    if !line.done && (objects > 0 || line.found_in.is_some()) {
        let what = if objects > 0 { "it deletes them" } else { "it creates them" };
        let is_named = line.missing.is_empty() || line.found_in.is_some();
        let options = if is_named { "--yes" } else { "--ledger DIR --yes" };
        let _ = write!(text, "\n  next      add {options}: {what}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_says_what_is_deleted_and_what_is_missing() {
        let line = StorePruneLine {
            created: Vec::new(),
            done: false,
            found_in: None,
            last_seq: Some(1_200),
            missing: vec!["a.snap".to_owned()],
            note_seq: Some(1_500),
            segment_bytes: 2 << 20,
            segments: 2,
            snapshot_bytes: 0,
            snapshots: 0,
            url: "s3://b/x".to_owned(),
        };
        let shown = text(&line);
        assert!(shown.starts_with("s3://b/x: 2 objects, 2.0 MiB, can be deleted\n"), "{shown}");
        assert!(shown.contains("record 1500: records up to 1,200 were pruned"), "{shown}");
        assert!(shown.contains("lacks     1 snapshot: name a folder"), "{shown}");
        assert!(shown.ends_with("add --ledger DIR --yes: it deletes them"), "{shown}");
        let found = StorePruneLine { found_in: Some("night".to_owned()), ..line };
        let shown = text(&found);
        assert!(shown.contains("lacks     1 snapshot: night has them, and --yes"), "{shown}");
        assert!(shown.ends_with("add --yes: it deletes them"), "{shown}");
        let none = StorePruneLine { note_seq: None, last_seq: None, segments: 0, ..found };
        assert!(text(&none).contains("no retention note"), "{}", text(&none));
    }
}
