//! `ledger recover`: salvages a damaged ledger, or opens one with an ambiguous end.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{SalvageReport, salvage};
use plan_ledger::log::LostRange;
use plan_ledger::{Environment, OnAmbiguous};

use crate::options::{AsJson, LedgerFolder, environment, open_ledger};
use crate::output::{Code, Failure, print_line, print_text};
use crate::server::{check_root_of_folder, expect_person, keep_root};

const EXAMPLES: &str = "\
Examples:
  ledger recover .ledger --export rescued          copy what can be read into a new ledger
  ledger recover old.tar --export rescued          the same from an archive
  ledger recover .ledger --fence --yes             open a ledger whose end is ambiguous

--export only reads the damaged ledger. The new ledger keeps every readable record at its sequence
number and has a gap record for each unreadable one; it has its own identifier and its own chain.
--fence is for a ledger whose HEAD is missing, or that ends in bytes that may or may not have been
acknowledged: it keeps all intact records and seals off the rest. If the rest had been acknowledged,
it is lost to the ledger; its bytes stay in the file.

Exit codes: 0 if anything was salvaged, 4 if nothing was.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    #[command(flatten)]
    method: MethodArgs,
    /// Confirm --fence, which may lose acknowledged records
    #[arg(long, requires = "fence")]
    yes: bool,
    #[command(flatten)]
    json: AsJson,
}

/// How to recover.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct MethodArgs {
    /// Copy the readable records into this new ledger
    #[arg(long, value_name = "NEW")]
    export: Option<PathBuf>,
    /// Open for writing although it is unknown which records were acknowledged
    #[arg(long)]
    fence: bool,
}

pub(crate) fn recover(args: &RecoverArgs) -> Result<Code, Failure> {
    match &args.method.export {
        Some(to) => export(args, &args.folder.dir()?, to),
        None => fence(args, &args.folder.dir()?),
    }
}

fn export(args: &RecoverArgs, dir: &Path, to: &Path) -> Result<Code, Failure> {
    let salvaged = salvage(dir, to, &environment())?;
    if args.json.0 {
        print_line(&SalvagedLine::from(&salvaged))?;
    } else {
        print_text(&salvaged_text(&salvaged, to))?;
    }
    Ok(if salvaged.ack.is_some() { Code::Success } else { Code::Damaged })
}

fn fence(args: &RecoverArgs, dir: &Path) -> Result<Code, Failure> {
    if !args.yes {
        return Err(Failure::Usage(format!(
            "--fence discards the unreadable bytes at the end of {}, acknowledged or not\nhint: \
             copy the folder, look at it with `ledger inspect`, then add --yes; intact records are \
             kept, and the other bytes stay in the file",
            dir.display()
        )));
    }
    expect_person(dir, "")?;
    check_root_of_folder(dir, &environment())?;
    let environment = Environment { on_ambiguous: OnAmbiguous::Fence, ..environment() };
    let ledger = open_ledger(dir, &environment)?;
    let head = ledger.head();
    keep_root(dir, &ledger);
    ledger.close()?;
    if args.json.0 {
        let chain = head.chain.to_string();
        print_line(&FencedLine { chain, last_seq: head.seq })?;
    } else {
        print_text(&format!("{}: opened; the last record is {}\n", dir.display(), head.seq))?;
    }
    Ok(Code::Success)
}

fn range_text(first: u64, range: &LostRange) -> String {
    let records = match range.last.checked_sub(first) {
        None => "no record lost".to_owned(),
        Some(0) => format!("record {first}"),
        Some(_) => format!("records {first} to {}", range.last),
    };
    format!(
        "  {records}: {}, bytes {} to {}: {}\n",
        range.file, range.offset, range.end, range.what
    )
}

fn salvaged_text(salvaged: &SalvageReport, to: &Path) -> String {
    let mut text = match salvaged.ack {
        None => "nothing was salvaged: no record can be read\n".to_owned(),
        Some(ack) => format!(
            "{}: {} records salvaged, {} lost; the last is {}\n",
            to.display(),
            salvaged.records,
            salvaged.lost,
            ack.seq
        ),
    };
    for (first, range) in &salvaged.ranges {
        text.push_str(&range_text(*first, range));
    }
    if salvaged.omitted_ranges > 0 {
        let _ = writeln!(text, "  and {} more ranges", salvaged.omitted_ranges);
    }
    if let Some((first, last)) = salvaged.unbridged_range {
        let _ = writeln!(
            text,
            "too many lost records ({first} to {last}): nothing after them was salvaged"
        );
    }
    for (count, what) in [
        (salvaged.unbatched, "records of incomplete batches were kept as single records"),
        (salvaged.unacknowledged, "records are intact but, according to HEAD, not acknowledged"),
        (salvaged.blobs, "blobs copied"),
        (salvaged.blobs_lost, "referenced blobs are missing or damaged"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "  {count} {what}");
        }
    }
    text
}

/// A ledger that was opened although its end is ambiguous.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct FencedLine {
    /// The chain value of the last record.
    chain: String,
    /// The last record.
    last_seq: u64,
}

/// A ledger that was copied as far as it can be read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SalvagedLine<'a> {
    /// The number of records of incomplete batches, kept as single records.
    alone: u64,
    /// The number of blobs copied.
    blobs: u64,
    /// The number of referenced blobs that are missing or damaged.
    blobs_lost: u64,
    /// The chain value of the last record of the copy.
    chain: Option<String>,
    /// The last record of the copy; null if no record can be read.
    last_seq: Option<u64>,
    /// The number of lost records.
    lost: u64,
    /// The lost records after which nothing was copied, because they are too many.
    not_bridged: Option<SeqRangeJson>,
    /// The ranges of bytes that cannot be read.
    ranges: Vec<LostRangeJson<'a>>,
    /// The number of ranges that are not listed.
    ranges_more: u64,
    /// The number of records copied.
    records: u64,
    /// The number of intact records that, according to HEAD, were not acknowledged.
    unacknowledged: u64,
}

/// A range of records.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct SeqRangeJson {
    /// The first record.
    first: u64,
    /// The last record.
    last: u64,
}

/// A range of bytes that cannot be read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct LostRangeJson<'a> {
    /// The chain value after the range.
    chain_after: Option<&'a str>,
    /// The chain value before the range.
    chain_before: Option<&'a str>,
    /// The end of the range.
    end: u64,
    /// The file.
    file: &'a str,
    /// The first lost record.
    first: u64,
    /// The last lost record.
    last: u64,
    /// The start of the range.
    offset: u64,
    /// The problem, for people.
    what: &'a str,
}

impl<'a> From<&'a SalvageReport> for SalvagedLine<'a> {
    fn from(salvaged: &'a SalvageReport) -> Self {
        let range = |(first, range): &'a (u64, LostRange)| LostRangeJson {
            chain_after: range.chain_after.as_deref(),
            chain_before: range.chain_before.as_deref(),
            end: range.end,
            file: &range.file,
            first: *first,
            last: range.last,
            offset: range.offset,
            what: &range.what,
        };
        Self {
            alone: salvaged.unbatched,
            blobs: salvaged.blobs,
            blobs_lost: salvaged.blobs_lost,
            chain: salvaged.ack.map(|ack| ack.chain.to_string()),
            last_seq: salvaged.ack.map(|ack| ack.seq),
            lost: salvaged.lost,
            not_bridged: salvaged.unbridged_range.map(|(first, last)| SeqRangeJson { first, last }),
            ranges: salvaged.ranges.iter().map(range).collect(),
            ranges_more: salvaged.omitted_ranges,
            records: salvaged.records,
            unacknowledged: salvaged.unacknowledged,
        }
    }
}
