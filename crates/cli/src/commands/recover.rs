//! `ledger recover`: salvages a damaged ledger, or opens one whose end is ambiguous.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use plan_ledger::internals::ledger::{SalvageReport, salvage};
use plan_ledger::internals::log::LostRange;
use plan_ledger::{Environment, OnAmbiguous};

use crate::options::{LedgerFolder, open_ledger};
use crate::output::{Code, Failure, print_json, print_text};

const EXAMPLES: &str = "\
Examples:
  ledger recover .ledger --export rescued          copy what can be read into a new ledger
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
    /// Print the result as one line of JSON
    #[arg(long)]
    json: bool,
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
    let salvaged = salvage(dir, to, &Environment::system())?;
    if args.json {
        print_json(&salvaged_json(&salvaged))?;
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
    let environment = Environment { on_ambiguous: OnAmbiguous::Fence, ..Environment::system() };
    let ledger = open_ledger(dir, &environment)?;
    let head = ledger.head();
    ledger.close()?;
    if args.json {
        let chain = head.chain.to_string();
        print_json(&json!({ "type": "fenced", "last_seq": head.seq, "chain": chain }))?;
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

fn salvaged_json(salvaged: &SalvageReport) -> serde_json::Value {
    let range = |(first, range): &(u64, LostRange)| {
        json!({
            "first": first, "last": range.last, "file": range.file, "offset": range.offset,
            "end": range.end, "what": range.what, "chain_before": range.chain_before,
            "chain_after": range.chain_after,
        })
    };
    let not_bridged =
        salvaged.unbridged_range.map(|(first, last)| json!({ "first": first, "last": last }));
    json!({
        "type": "salvaged",
        "last_seq": salvaged.ack.map(|ack| ack.seq),
        "chain": salvaged.ack.map(|ack| ack.chain.to_string()),
        "records": salvaged.records,
        "alone": salvaged.unbatched,
        "unacknowledged": salvaged.unacknowledged,
        "lost": salvaged.lost,
        "ranges": salvaged.ranges.iter().map(range).collect::<Vec<_>>(),
        "ranges_more": salvaged.omitted_ranges,
        "not_bridged": not_bridged,
        "blobs": salvaged.blobs,
        "blobs_lost": salvaged.blobs_lost,
    })
}
