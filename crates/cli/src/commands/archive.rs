//! `ledger archive`: copies the oldest segments into one file, and optionally prunes them.
//!
//! Segments are pruned only with `--yes`, after the archive is durable and verified, and only if no
//! output is missing from it. The JSON lines are described in `format/cli-json.md`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{self, ArchiveReport, RetentionLimit};
use plan_ledger::log::ArchiveReference;
use plan_ledger::{Environment, Error, ErrorKind, LedgerView};

use crate::options::{AsJson, Author, LedgerFolder, environment};
use crate::output::{
    Code, Failure, LongTask, ProgressUnit, expect_absent, print_answer, print_line, print_message,
    print_text,
};
use crate::protocol::{counted, size};
use crate::requests::PruneRequest;
use crate::server::{Client, expect_writer};

use super::prune::print_plan;

const EXAMPLES: &str = "\
Examples:
  ledger archive .ledger --to old.tar              all segments whose runs have all ended
  ledger archive .ledger --to old.tar --through 120000
  ledger archive .ledger --to old.tar --prune      show what would be pruned
  ledger archive .ledger --to old.tar --prune --yes --by ana
  ledger verify old.tar                            check that the archive is intact
  ledger inspect old.tar records                   read it without unpacking it

An archive is a tar file: unpacked, it is a ledger that can be read. It is verified before it gets
its name, and before anything is pruned. If an output is missing or damaged, nothing is pruned:
restore it from a copy, or use `ledger prune`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ArchiveArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    /// The archive's file, which must not exist
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Only whole segments up to this record
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    through: Option<u64>,
    /// Then prune the archived segments; without --yes, only show them
    #[arg(long)]
    prune: bool,
    /// Archive and prune
    #[arg(long, requires = "prune")]
    yes: bool,
    #[command(flatten)]
    author: Author,
    #[command(flatten)]
    json: AsJson,
}

pub(crate) fn archive(args: &ArchiveArgs) -> Result<Code, Failure> {
    let (dir, environment) = (args.folder.dir()?, environment());
    expect_absent(&args.to)?;
    match (args.prune, args.yes) {
        (false, _) => {
            let Some(archived) = archived(args, &dir, args.through, &environment)? else {
                return Ok(Code::Waiting);
            };
            report(args, &archived)?;
        }
        (true, false) => show_plan(args, &dir, &environment)?,
        (true, true) => return archive_and_prune(args, &dir, &environment),
    }
    Ok(Code::Success)
}

fn show_plan(args: &ArchiveArgs, dir: &Path, environment: &Environment) -> Result<(), Failure> {
    let plan = LedgerView::open(dir, environment)?.preview_prune(extent(args))?;
    print_plan(&plan, args.json.0)?;
    if !args.json.0 {
        print_message("nothing was archived or pruned: add --yes to do both");
    }
    Ok(())
}

/// The segments to archive and prune.
fn extent(args: &ArchiveArgs) -> RetentionLimit {
    args.through.map_or(RetentionLimit::EndedRuns, RetentionLimit::EndedRunsUpTo)
}

/// Makes the archive; `None`, with a message, if a signal stopped it.
fn archived(
    args: &ArchiveArgs,
    dir: &Path,
    through: Option<u64>,
    environment: &Environment,
) -> Result<Option<ArchiveReport>, Failure> {
    let task = LongTask::start(ProgressUnit::Bytes, &args.to)?;
    let watch = |done, all| {
        task.show("archiving", done, all);
        if task.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let archived = ledger::archive(dir, &args.to, through, environment, &watch);
    task.finish();
    let archived = archived?;
    if archived.is_none() {
        print_message("stopped: nothing was archived");
    }
    Ok(archived)
}

fn archive_and_prune(
    args: &ArchiveArgs,
    dir: &Path,
    environment: &Environment,
) -> Result<Code, Failure> {
    // An obstacle to the prune is reported before the archive is written.
    expect_writer(dir, environment)?;
    let view = LedgerView::open(dir, environment)?;
    let last = view.preview_prune(extent(args))?.last_seq;
    let Some(archived) = archived(args, dir, Some(last), environment)? else {
        return Ok(Code::Waiting);
    };
    report(args, &archived)?;
    expect_complete(&archived)?;
    let name = args.to.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let archive = Some(ArchiveReference { file: name, blake3: archived.blake3.clone() });
    // Prune only archived segments, and none of a run that has continued meanwhile.
    let extent = RetentionLimit::EndedRunsUpTo(archived.manifest.last_seq);
    let request = PruneRequest { extent, archive, by: args.author.clone() };
    print_answer(args.json.0, &Client::new(dir, environment).call(&request.into())?)
}

/// Rejects a prune if outputs are missing from the archive: the damaged original may be the only
/// copy.
fn expect_complete(archived: &ArchiveReport) -> Result<(), Failure> {
    let ArchiveReport { path, manifest, .. } = archived;
    if manifest.missing_blobs.is_empty() {
        return Ok(());
    }
    let message = format!(
        "nothing was pruned: {} missing or damaged, and not in the archive\nhint: restore from a \
         copy and archive again, or prune without it: `ledger prune --through {} --yes`",
        match manifest.missing_blobs.len() {
            1 => "an output is".to_owned(),
            count => format!("{count} outputs are"),
        },
        manifest.last_seq
    );
    Err(Failure::Ledger(Error::new(ErrorKind::Rejected, message).at_path(path)))
}

/// An archive.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ArchiveLine<'a> {
    /// The BLAKE3 hash of the file.
    blake3: &'a str,
    /// The number of blobs in it.
    blobs: u64,
    /// The chain value of its last record.
    chain: &'a str,
    /// The chain value before its first record.
    chain_before: &'a str,
    /// The file.
    file: String,
    /// Its first record.
    first_seq: u64,
    /// Its last record.
    last_seq: u64,
    /// The length of the file.
    length: u64,
    /// The hashes of outputs that are missing or damaged, and not in the archive.
    missing_blobs: &'a [String],
    /// The number of segments in it.
    segments: u64,
}

fn report(args: &ArchiveArgs, archived: &ArchiveReport) -> Result<(), Failure> {
    let manifest = &archived.manifest;
    let count = |prefix: &str| {
        let files = manifest.files.iter().filter(|file| file.name.starts_with(prefix));
        u64::try_from(files.count()).unwrap_or(0)
    };
    let (segments, blobs) = (count("log/"), count("blob/"));
    if args.json.0 {
        return print_line(&ArchiveLine {
            blake3: &archived.blake3,
            blobs,
            chain: &manifest.chain,
            chain_before: &manifest.chain_before,
            file: archived.path.display().to_string(),
            first_seq: manifest.first_seq,
            last_seq: manifest.last_seq,
            length: archived.length,
            missing_blobs: &manifest.missing_blobs,
            segments,
        });
    }
    for missing in &manifest.missing_blobs {
        print_message(&format!("left out: output {missing}, which is missing or damaged"));
    }
    print_text(&format!(
        "archived records {} to {}: {}, {}\n{}: {}, blake3 {}\n",
        manifest.first_seq,
        manifest.last_seq,
        counted(segments, "segment"),
        counted(blobs, "large output"),
        archived.path.display(),
        size(archived.length),
        archived.blake3
    ))
}
