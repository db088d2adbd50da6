//! `ledger recover`: what to do with a ledger that refuses to be opened for writing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use plan_ledger::ledger::{Environment, OnAmbiguous, SalvageReport, salvage};
use plan_ledger::log::LostRange;

use super::exit::{Code, Failure};
use super::folder::Folder;
use super::{answer_with, open, print};

const EXAMPLES: &str = "\
Examples:
  ledger recover .ledger --export rescued          what can be read, as a new ledger
  ledger recover .ledger --fence --yes             go on behind what cannot be judged

--export only reads the damaged ledger. The new one keeps every record that can be read at its
sequence number, and has a gap record for each that cannot; it has an identifier and a chain of
its own. --fence is for a ledger whose HEAD is gone, or that ends in bytes of which nobody can
tell whether they were acknowledged: it takes over all records that are whole and closes the rest
off. If the rest had been acknowledged, it is lost to the ledger; the bytes stay in the file.

Exit codes: 0 if anything was salvaged, 4 if nothing was.";

/// `ledger recover`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RecoverArgs {
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    how: HowArgs,
    /// Yes, fence: records that were acknowledged may be given up by it
    #[arg(long, requires = "fence")]
    yes: bool,
    /// Print what was done as one line of JSON
    #[arg(long)]
    json: bool,
}

/// What to do.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct HowArgs {
    /// Copy what can be read into this new ledger
    #[arg(long, value_name = "NEW")]
    export: Option<PathBuf>,
    /// Open for writing where it cannot be told what was acknowledged
    #[arg(long)]
    fence: bool,
}

pub(super) fn recover(args: &RecoverArgs) -> Result<Code, Failure> {
    match &args.how.export {
        Some(to) => export(args, &args.folder.dir()?, to),
        None => fence(args, &args.folder.dir()?),
    }
}

fn export(args: &RecoverArgs, dir: &Path, to: &Path) -> Result<Code, Failure> {
    let done = salvage(dir, to, &Environment::system())?;
    if args.json {
        print(&format!("{}\n", salvaged_json(&done)))?;
    } else {
        answer_with(&salvaged_text(&done, to))?;
    }
    Ok(if done.ack.is_some() { Code::Fine } else { Code::Damaged })
}

fn fence(args: &RecoverArgs, dir: &Path) -> Result<Code, Failure> {
    if !args.yes {
        return Err(Failure::Usage(format!(
            "--fence gives up whatever cannot be read at the end of {}, even if it had been \
             acknowledged: all whole records before are taken over, the rest stays in the file \
             but is dead to the ledger. Make a copy of the folder, look at it with `ledger \
             inspect`, and add --yes to go on",
            dir.display()
        )));
    }
    let environment = Environment { on_ambiguous: OnAmbiguous::Fence, ..Environment::system() };
    let ledger = open(dir, &environment)?;
    let head = ledger.head();
    ledger.close()?;
    if args.json {
        let chain = head.chain.to_string();
        print(&format!("{}\n", json!({ "type": "fenced", "last_seq": head.seq, "chain": chain })))?;
    } else {
        let dir = dir.display();
        answer_with(&format!("{dir}: opened, the last record is {}\n", head.seq))?;
    }
    Ok(Code::Fine)
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

fn salvaged_text(done: &SalvageReport, to: &Path) -> String {
    let mut text = match done.ack {
        None => "nothing can be salvaged: no record can be read\n".to_owned(),
        Some(ack) => format!(
            "{}: {} records taken over, {} lost; the last is {}\n",
            to.display(),
            done.records,
            done.lost,
            ack.seq
        ),
    };
    for (first, range) in &done.ranges {
        text.push_str(&range_text(*first, range));
    }
    if done.ranges_more > 0 {
        let _ = writeln!(text, "  and {} more places", done.ranges_more);
    }
    if let Some((first, last)) = done.not_bridged {
        let _ = writeln!(
            text,
            "records {first} to {last} are too many to be bridged: nothing behind them was taken \
             over"
        );
    }
    for (count, what) in [
        (done.unbatched, "records of batches that are not whole stand alone now"),
        (done.unproven, "records that were written but, as far as HEAD says, never acknowledged"),
        (done.blobs, "blobs copied"),
        (done.blobs_lost, "blobs that records name are missing or damaged"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "  {count} {what}");
        }
    }
    text
}

fn salvaged_json(done: &SalvageReport) -> serde_json::Value {
    let range = |(first, range): &(u64, LostRange)| {
        json!({
            "first": first, "last": range.last, "file": range.file, "offset": range.offset,
            "end": range.end, "what": range.what, "chain_before": range.chain_before,
            "chain_after": range.chain_after,
        })
    };
    json!({
        "type": "salvaged",
        "last_seq": done.ack.map(|ack| ack.seq),
        "chain": done.ack.map(|ack| ack.chain.to_string()),
        "records": done.records,
        "alone": done.unbatched,
        "unproven": done.unproven,
        "lost": done.lost,
        "ranges": done.ranges.iter().map(range).collect::<Vec<_>>(),
        "ranges_more": done.ranges_more,
        "not_bridged": done.not_bridged.map(|(first, last)| json!({ "first": first, "last": last })),
        "blobs": done.blobs,
        "blobs_lost": done.blobs_lost,
    })
}
