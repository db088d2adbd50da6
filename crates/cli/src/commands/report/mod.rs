//! `ledger report`: a run as one HTML file that works without a network, a server or a script; and
//! the same page for the server, which keeps the page up to date.
//!
//! `collect` folds the log once and keeps the contents of the page, which are views or values from them; `points` has
//! the changes of its cells at each record, with `why` for the reasons. `page` writes the page, with `steps`, `plans`,
//! `pictures` and the `forms` of an operator. `report.js` moves the page to an earlier
//! record; `live.js` follows the server.
//!
//! Invariants:
//! - All text of plans, workers and people is escaped: that of cells where they are made, all other at the end.
//! - The same ledger gives the same bytes.
//! - Without its script, the page shows the state at the last record.

mod collect;
mod forms;
mod page;
mod pictures;
mod plans;
mod points;
mod steps;
mod why;

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Environment, Error, LedgerView};

use crate::options::{AsJson, LedgerOption, RunArg, environment};
use crate::output::{
    AtomicFile, Code, Failure, LongTask, ProgressUnit, expect_absent, print_result,
};

use super::inspect::health::overtaken::beside_prune;
use super::inspect::ledger_at::AtArg;
use super::store::source::environment_for;

use collect::collect;
use page::page;

pub(crate) use forms::Audience;
#[cfg(feature = "http")]
pub(crate) use page::{live_page, live_policy};

const EXAMPLES: &str = "\
Examples:
  ledger report --html night.html                  the active run, or the newest
  ledger report my-plan --html night.html
  ledger report --html then.html --at 900          as it was after record 900

The file needs no network and no server: open it in a browser, or send it to a colleague. Its slider
shows the run at any earlier record. `ledger serve --http` has the same page, kept current.";

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
    #[command(flatten)]
    at: AtArg,
    #[command(flatten)]
    json: AsJson,
}

/// A page that was written.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
    expect_absent(&args.html)?;
    // A store that gives no answer is awaited before signals are taken over: then they end the process.
    let environment = environment_for(&args.place.dir, &environment())?;
    let task = LongTask::start(ProgressUnit::Records, &args.place.dir)?;
    let part = AtomicFile::beside(&args.html, &task)?;
    let mut watch = |done, all| {
        task.show("reading", done, all);
        if task.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let written = beside_prune(|| {
        let view = LedgerView::open(&args.place.dir, &environment)?;
        write_page(&view, &args.place.dir, &environment, &PageOf::file(args), &mut watch)
    });
    task.finish();
    let Page { html, run, seq, code } = written?;
    let failed = |error| Error::io("write the page", &args.html, error);
    let mut file = part.create().map_err(failed)?;
    file.write_all(html.as_bytes()).map_err(failed)?;
    drop(file);
    part.publish(&args.html)?;
    let line = ReportLine { bytes: html.len(), file: args.html.display().to_string(), run, seq };
    let text = format!("{} is written", args.html.display());
    print_result(args.json.0, &line, &text)?;
    Ok(code)
}

/// The kind of the page.
#[derive(Debug)]
pub(crate) struct PageOf<'a> {
    /// The run; the active or the newest one by default.
    pub(crate) run: Option<&'a str>,
    /// The last record of the page.
    pub(crate) at: Option<u64>,
    /// The record of the page that the reader has; 0 for none.
    pub(crate) known: u64,
    pub(crate) audience: Audience,
}

impl<'a> PageOf<'a> {
    fn file(args: &'a ReportArgs) -> Self {
        Self { run: args.run.name(), at: args.at.at, known: 0, audience: Audience::File }
    }
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) html: String,
    pub(crate) run: String,
    pub(crate) seq: u64,
    pub(crate) code: Code,
}

/// Writes a page. `watch` gets the number of records that were read, and the total; it may stop the reading.
pub(crate) fn write_page(
    view: &LedgerView,
    dir: &Path,
    environment: &Environment,
    of: &PageOf<'_>,
    watch: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Page, Failure> {
    let collected = collect(view, dir, environment, of.run, of.at, watch)?;
    // A reader of another ledger, or of one that was restored, has no part of this page.
    let known = if of.known > collected.seq { 0 } else { of.known };
    let html = page(&collected, of.audience, known);
    Ok(Page { html, run: collected.run.name, seq: collected.seq, code: collected.code })
}
