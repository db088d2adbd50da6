//! `ledger archive`: the oldest segments in one file, and on command out of the ledger.
//!
//! Invariants: nothing is removed before the archive is durable and was read back; nothing is
//! removed without `--yes`. The JSON lines are described in `format/cli-json.md`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::ledger::{Archived, Environment, LedgerView, Through};
use crate::log::ArchivedIn;

use super::exit::{Code, Failure};
use super::inspect::{counted, size};
use super::prune::{Outcome, plan_json, plan_text};
use super::{answer_with, open, print, say};

const EXAMPLES: &str = "\
Examples:
  ledger archive .ledger --to old.tar              all segments whose runs have ended
  ledger archive .ledger --to old.tar --through 120000
  ledger archive .ledger --to old.tar --prune      what would leave the ledger after that
  ledger archive .ledger --to old.tar --prune --yes --by ana
  ledger verify old.tar                            is it still what was put in?
  ledger inspect old.tar records                   look into it, without unpacking

An archive is a tar file: unpacked, it is a ledger to be read. It is read back and verified before
it gets its name, and before anything is pruned.";

/// `ledger archive`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ArchiveArgs {
    /// The ledger's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
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
    let environment = Environment::system();
    match (args.prune, args.yes) {
        (false, _) => {
            let made = crate::ledger::archive(&args.dir, &args.to, args.through, &environment)?;
            tell(args, &made)?;
        }
        (true, false) => plan(args, &environment)?,
        (true, true) => archive_and_prune(args, &environment)?,
    }
    Ok(Code::Fine)
}

fn plan(args: &ArchiveArgs, environment: &Environment) -> Result<(), Failure> {
    let view = LedgerView::open(&args.dir, environment)?;
    let plan = view.plan_prune(Through::Ended)?;
    let plan = match args.through.filter(|through| *through < plan.last_seq) {
        Some(through) => view.plan_prune(Through::Record(through))?,
        None => plan,
    };
    if args.json {
        print(&format!("{}\n", plan_json(&plan, Outcome::Planned)))?;
    } else {
        answer_with(&plan_text(&plan, Outcome::Planned))?;
        say("nothing was archived or removed: --yes does both");
    }
    Ok(())
}

fn archive_and_prune(args: &ArchiveArgs, environment: &Environment) -> Result<(), Failure> {
    // Held from here on, so that what is pruned is what was archived.
    let ledger = open(&args.dir, environment)?;
    // Whatever stands in the way of the prune is told before an archive is made for nothing.
    let view = LedgerView::open(&args.dir, environment)?;
    let ended = view.plan_prune(Through::Ended)?;
    let through = args.through.map_or(ended.last_seq, |through| through.min(ended.last_seq));
    let made = crate::ledger::archive(&args.dir, &args.to, Some(through), environment)?;
    tell(args, &made)?;
    let name = args.to.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let archive = ArchivedIn { file: name, blake3: made.blake3.clone() };
    let last = made.manifest.last_seq;
    let pruned = ledger.prune(Through::Record(last), Some(archive), &args.by)?;
    ledger.close()?;
    if args.json {
        print(&format!("{}\n", plan_json(&pruned.plan, Outcome::Done)))?;
    } else {
        answer_with(&plan_text(&pruned.plan, Outcome::Done))?;
    }
    Ok(())
}

fn tell(args: &ArchiveArgs, made: &Archived) -> Result<(), Failure> {
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
