//! `ledger archive`: the oldest segments in one file, and on command out of the ledger.
//!
//! Invariants: nothing is removed before the archive is durable and was read back, nor where an
//! output is not in it; nothing is removed without `--yes`. The JSON lines are described in `format/cli-json.md`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::server::{Act, Extent, hand_over};
use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::ledger::{ArchiveReport, Environment, LedgerView};
use plan_ledger::log::ArchivedIn;

use super::acting::{self, print_answer};
use super::exit::{Code, Failure};
use super::folder::Folder;
use super::inspect::{counted, size};
use super::part::expect_free;
use super::prune::tell_planned;
use super::{answer_with, print, say};

const EXAMPLES: &str = "\
Examples:
  ledger archive .ledger --to old.tar              all segments whose runs have ended
  ledger archive .ledger --to old.tar --through 120000
  ledger archive .ledger --to old.tar --prune      what would leave the ledger after that
  ledger archive .ledger --to old.tar --prune --yes --by ana
  ledger verify old.tar                            is it still what was put in?
  ledger inspect old.tar records                   look into it, without unpacking

An archive is a tar file: unpacked, it is a ledger to be read. It is read back and verified before
it gets its name, and before anything is pruned. Where an output is missing or damaged, nothing is
pruned: put it back from a copy, or use `ledger prune`.";

/// `ledger archive`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ArchiveArgs {
    #[command(flatten)]
    folder: Folder,
    /// The archive's file, which is not there yet
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// No more than the whole segments up to this record
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    through: Option<u64>,
    /// Then remove from the ledger what is in the archive; needs --yes, else nothing is done
    #[arg(long)]
    prune: bool,
    /// Do what --prune says
    #[arg(long, requires = "prune")]
    yes: bool,
    /// Who asks for it, for the note in the log
    #[arg(long, value_name = "WHO", default_value = "operator")]
    by: String,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn archive(args: &ArchiveArgs) -> Result<Code, Failure> {
    let (dir, environment) = (args.folder.dir()?, acting::environment());
    expect_free(&args.to)?;
    match (args.prune, args.yes) {
        (false, _) => {
            let made = plan_ledger::ledger::archive(&dir, &args.to, args.through, &environment)?;
            tell(args, &made)?;
        }
        (true, false) => plan(args, &dir, &environment)?,
        (true, true) => return archive_and_prune(args, &dir, &environment),
    }
    Ok(Code::Fine)
}

fn plan(args: &ArchiveArgs, dir: &Path, environment: &Environment) -> Result<(), Failure> {
    let plan = LedgerView::open(dir, environment)?.plan_prune(extent(args).into())?;
    tell_planned(&plan, args.json)?;
    if !args.json {
        say("nothing was archived or removed: --yes does both");
    }
    Ok(())
}

/// What is archived, and may go after that.
fn extent(args: &ArchiveArgs) -> Extent {
    args.through.map_or(Extent::Ended, Extent::EndedUpTo)
}

fn archive_and_prune(
    args: &ArchiveArgs,
    dir: &Path,
    environment: &Environment,
) -> Result<Code, Failure> {
    // Whatever stands in the way of the prune is told before an archive is made for nothing.
    let view = LedgerView::open(dir, environment)?;
    let last = view.plan_prune(extent(args).into())?.last_seq;
    let made = plan_ledger::ledger::archive(dir, &args.to, Some(last), environment)?;
    tell(args, &made)?;
    expect_complete(&made)?;
    let name = args.to.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let archive = Some(ArchivedIn { file: name, blake3: made.blake3.clone() });
    // Nothing goes that is not in the archive, nor what a run needs that goes on again meanwhile.
    let extent = Extent::EndedUpTo(made.manifest.last_seq);
    let act = Act::Prune { extent, archive, by: args.by.clone() };
    print_answer(args.json, &hand_over(dir, &act, environment)?)
}

/// Refuse to prune what is not in the archive: what is left of a damaged output may be all there is.
fn expect_complete(made: &ArchiveReport) -> Result<(), Failure> {
    let ArchiveReport { path, manifest, .. } = made;
    if manifest.missing_blobs.is_empty() {
        return Ok(());
    }
    let message = format!(
        "nothing was pruned: {} missing or damaged, and not in the archive; put what is missing back \
         from a copy, and archive again, or give it up: `ledger prune --through {} --yes`",
        match manifest.missing_blobs.len() {
            1 => "an output is".to_owned(),
            count => format!("{count} outputs are"),
        },
        manifest.last_seq
    );
    Err(Failure::Ledger(Error::new(ErrorKind::Rejected, message).at_path(path)))
}

fn tell(args: &ArchiveArgs, made: &ArchiveReport) -> Result<(), Failure> {
    let manifest = &made.manifest;
    let is_segment = |name: &str| name.starts_with("log/");
    let is_blob = |name: &str| name.starts_with("blob/");
    let count = |is: &dyn Fn(&str) -> bool| {
        u64::try_from(manifest.files.iter().filter(|file| is(&file.name)).count()).unwrap_or(0)
    };
    let (segments, blobs) = (count(&is_segment), count(&is_blob));
    if args.json {
        let value = json!({
            "type": "archive",
            "file": made.path.display().to_string(),
            "length": made.length,
            "blake3": made.blake3,
            "first_seq": manifest.first_seq,
            "last_seq": manifest.last_seq,
            "chain_before": manifest.chain_before,
            "chain": manifest.chain,
            "segments": segments,
            "blobs": blobs,
            "missing_blobs": manifest.missing_blobs,
        });
        return print(&format!("{value}\n"));
    }
    for missing in &manifest.missing_blobs {
        say(&format!("left out: the output {missing}, which is missing or damaged"));
    }
    answer_with(&format!(
        "archived: records {} to {}, {}, {}\n{}: {}, blake3 {}\n",
        manifest.first_seq,
        manifest.last_seq,
        counted(segments, "segment"),
        counted(blobs, "large output"),
        made.path.display(),
        size(made.length),
        made.blake3
    ))
}
