//! `ledger restore`: a folder with the log of a store.

use std::path::{Path, PathBuf};

use clap::Args;

use plan_ledger::ErrorKind;
use plan_ledger::internals::store::{
    self, FolderProgress, ObjectName, Objects, SegmentObject, segment_floor,
};

use crate::options::{AsJson, create_parents, environment};
use crate::output::{Code, Failure, print_message, print_result, progress_bar};
use crate::protocol::{counted, ledger_option, quoted};

use super::super::lines::RestoredLine;
use super::super::option::StoreOption;
use super::super::patience::patient_client;
use super::super::remote::at_store;
use super::blobs::{missing_blobs, missing_text};
use super::diverged::with_rejoin;

const EXAMPLES: &str = "\
Examples:
  ledger restore s3://my-ledgers/night .ledger     the machine is lost: the ledger as a folder
  ledger restore az://my-ledgers/night copy --json | jq -r .chain
  ledger serve --store s3://my-ledgers/night --ledger .ledger      continue in this folder

Every record is checked against the chain before the folder gets its name. A folder with a copy of this
ledger gets the records that it lacks. The store is only read: the process that holds the ledger continues.
The exit code is 2 if there is no ledger in the store or the folder has something else, 4 if an object is
damaged (it is named, and nothing is left behind), or if large outputs or the newest records are missing (they
are named, and the folder has everything else), 5 if a process has the folder, 6 if the folder has
another ledger or has diverged, and 7 if the store does not answer.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    store: StoreOption,
    /// The folder: a new one, an empty one, or a copy of this ledger
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    json: AsJson,
}

pub(crate) fn restore(args: &RestoreArgs) -> Result<Code, Failure> {
    let (store, environment) = (args.store.open()?, environment());
    let client = patient_client(&store, &environment);
    let (dir, created) = (&args.dir, is_free(&args.dir));
    let mut last = FolderProgress::default();
    let ack = if created {
        create_parents(dir)?;
        let bar = progress_bar(records_about(&*store.objects));
        let mut each = |progress: &FolderProgress| {
            bar.set_position(progress.last_seq);
            last = *progress;
        };
        let restored = store::restore(dir, environment.log_options(), &client, &mut each);
        bar.finish_and_clear();
        restored
    } else {
        let mut once = |progress: &FolderProgress| {
            last = *progress;
            false
        };
        store::replicate(dir, environment.log_options(), &client, &mut once)
    };
    let ack = ack.map_err(|error| match error.kind() {
        ErrorKind::NotALedger if !created => {
            error.with_hint("name a folder that does not exist yet")
        }
        _ => at_store(with_rejoin(error, client.url(), dir), client.url()),
    })?;
    print_derived_damage(&last, client.url(), dir);
    let missing = missing_blobs(dir, &environment)?;
    let line = RestoredLine {
        chain: ack.chain.to_string(),
        created,
        dir: dir.display().to_string(),
        missing_blobs: missing.iter().map(|blob| blob.object.clone()).collect(),
        seq: ack.seq,
        taken_in: last.taken_in,
        url: store.url.to_string(),
    };
    let text = text(&line, last.lost_after.is_none());
    print_result(args.json.0, &line, &text)?;
    if !missing.is_empty() {
        print_message(&missing_text(&missing, &line.url));
    }
    if let Some(sealed) = last.lost_after {
        print_message(&lost_end_text(&sealed, &line));
    }
    let is_whole = missing.is_empty() && last.lost_after.is_none();
    Ok(if is_whole { Code::Success } else { Code::Damaged })
}

/// The text about a store that lost its newest records.
fn lost_end_text(sealed: &SegmentObject, line: &RestoredLine) -> String {
    let RestoredLine { url, dir, .. } = line;
    format!(
        "the store lost its newest records: {url}/{} is there, which is created after record {}; \
         `ledger serve --store {}` with the folder of the last owner adds them again; if no folder has them: end every \
         process of the ledger, move that object out of the prefix, keep it, and serve {dir}",
        ObjectName::Segment(*sealed),
        sealed.last_seq.saturating_add(1),
        quoted(url),
    )
}

/// Name the object of the store that a person must replace: a restore needs only its records.
pub(crate) fn print_derived_damage(progress: &FolderProgress, url: &str, dir: &Path) {
    let Some(object) = progress.derived_damage else { return };
    print_message(&format!(
        "{url}/{}: its index or footer is damaged, and every record in it was restored; move this object out \
         of the prefix: `ledger serve --store {} {}` uploads it again",
        ObjectName::Segment(object),
        quoted(url),
        ledger_option(dir)
    ));
}

/// Whether a path does not exist, or is an empty folder.
pub(crate) fn is_free(dir: &Path) -> bool {
    match std::fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// The number of records in a store, estimated from the names of its objects for the progress bar.
pub(crate) fn records_about(objects: &dyn Objects) -> usize {
    let segments = objects.list("seg/").unwrap_or_default();
    let covered = segment_floor(&segments);
    let after = ObjectName::Slot(covered).to_string();
    let slots = objects.list_after("tail/", &after).unwrap_or_default();
    let first = slots.iter().filter_map(|listed| match ObjectName::parse(&listed.name)? {
        ObjectName::Slot(first) => Some(first),
        _ => None,
    });
    usize::try_from(first.max().unwrap_or(covered).max(1)).unwrap_or(usize::MAX)
}

fn text(line: &RestoredLine, is_next: bool) -> String {
    let RestoredLine { dir, url, .. } = line;
    let what = if line.created { "restored" } else { "brought up to date" };
    let (store, folder) = (quoted(url), ledger_option(Path::new(dir)));
    let next =
        format!("\n  next  `ledger serve --store {store} {folder}` continues the ledger here");
    format!(
        "{dir}: {what} from {url}, {} taken in, every one checked\n  root  {}:{}{}",
        counted(line.taken_in, "record"),
        line.seq,
        line.chain,
        if is_next { &next } else { "" },
    )
}
