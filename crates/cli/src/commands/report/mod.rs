//! `ledger report`: a run as one HTML file, which works without a network, a server or a script.
//!
//! `collect` folds the log once and keeps what the page shows, and the changes of its cells at each point
//! of time. `layout` places steps in layers, `page` writes the page. The script moves the page to an
//! earlier record: it puts the values of that record into the cells.
//!
//! Invariants:
//! - Everything that comes from plans, workers and people is escaped.
//! - The same ledger gives the same bytes.
//! - What the page says without its script is the state at the last record.

mod collect;
mod layout;
mod page;
mod points;

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Error, LedgerView};

use crate::options::{LedgerOption, RunArg, environment};
use crate::output::{AtomicFile, Code, Failure, print_result};

use collect::collect;
use page::page;

const EXAMPLES: &str = "\
Examples:
  ledger report --html night.html                  the active run, or the newest
  ledger report my-plan --html night.html
  ledger report --html then.html --at 900          as it was after record 900

The file needs no network and no server: open it in a browser, or send it to a colleague. Its slider
shows the run at any earlier record.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    run: RunArg,
    #[command(flatten)]
    place: LedgerOption,
    /// Write the page to this file, which must not exist
    #[arg(long, value_name = "FILE", required = true)]
    html: PathBuf,
    /// Show the run after this record
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// A page that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReportLine {
    /// The size of the file in bytes.
    bytes: usize,
    /// The file.
    file: String,
    /// The name of the run.
    run: String,
    /// The last record that the page shows.
    seq: u64,
}

pub(crate) fn report(args: &ReportArgs) -> Result<Code, Failure> {
    let part = AtomicFile::beside(&args.html)?;
    let environment = environment();
    let view = LedgerView::open(&args.place.dir, &environment)?;
    let collected = collect(&view, &args.place.dir, &environment, args.run.name(), args.at)?;
    let html = page(&collected);
    let failed = |error| Error::io("write the page", part.temporary_path(), error);
    let mut file = part.create().map_err(failed)?;
    file.write_all(html.as_bytes()).map_err(failed)?;
    drop(file);
    part.publish(&args.html)?;
    let line = ReportLine {
        bytes: html.len(),
        file: args.html.display().to_string(),
        run: collected.run.name.clone(),
        seq: collected.seq,
    };
    let text = format!("{} is written", args.html.display());
    print_result(args.json, &line, &text)?;
    Ok(collected.code)
}
