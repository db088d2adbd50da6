//! `ledger blobs`: the outputs that lie beside the log.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use clap::Args;
use serde_json::json;

use crate::server::{Act, Answer, hand_over};
use plan_ledger::ledger::{BlobCheck, BlobSurvey, BlobUse, Environment, LedgerView};
use plan_ledger::log::BlobState;

use super::acting::{self, print_answer};
use super::exit::{Code, Failure};
use super::folder::Folder;
use super::inspect::{counted, size};
use super::{harmless, print_to, say};

const EXAMPLES: &str = "\
Examples:
  ledger blobs .ledger                             how many there are, and what is wrong
  ledger blobs .ledger --check --json | jq -c 'select(.state != \"ok\")'
  ledger blobs .ledger --collect                   remove those that no record names

Nothing is ever removed without --collect. A blob that is missing or damaged costs nothing but
the output that it held; the exit code is then 4.";

/// `ledger blobs`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct BlobsArgs {
    #[command(flatten)]
    folder: Folder,
    /// Read every blob and compare its hash
    #[arg(long)]
    check: bool,
    /// Remove blobs that no record names; whoever holds the ledger does it
    #[arg(long)]
    collect: bool,
    /// Print JSON Lines: one for each blob, and a summary
    #[arg(long)]
    json: bool,
}

pub(super) fn blobs(args: &BlobsArgs) -> Result<Code, Failure> {
    let (dir, environment) = (args.folder.dir()?, acting::environment());
    let mut collected = None;
    if args.collect {
        let answer = hand_over(&dir, &Act::CollectBlobs {}, &environment)?;
        if answer.code != Code::Fine.number() {
            return print_answer(args.json, &answer);
        }
        answer.said.iter().for_each(|line| say(line));
        collected = Some(answer);
    }
    let collected = collected.as_ref();
    let check = if args.check { BlobCheck::Content } else { BlobCheck::Presence };
    let out = &mut std::io::stdout();
    list(&dir, check, args.json, collected, &environment, out)
}

/// List the blobs of a ledger, and what is wrong with them.
pub(super) fn list(
    dir: &Path,
    check: BlobCheck,
    as_json: bool,
    collected: Option<&Answer>,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let survey = LedgerView::open(dir, &super::at(dir, environment)?)?.blobs(check)?;
    let sums = Sums::of(&survey);
    if as_json {
        print_to(out, &json_lines(&survey, &sums, collected))?;
    } else {
        for blob in survey.blobs.iter().filter(|blob| blob.state != BlobState::Intact) {
            say(&bad(blob));
        }
        print_to(out, &harmless(&text(&survey, &sums, collected)))?;
    }
    let is_good = sums.bad == 0 && survey.is_complete;
    Ok(if is_good { Code::Fine } else { Code::Damaged })
}

/// What the blobs add up to.
#[derive(Debug, Default)]
struct Sums {
    stored: u64,
    bytes: u64,
    named: u64,
    unnamed: u64,
    bad: u64,
}

impl Sums {
    fn of(survey: &BlobSurvey) -> Self {
        let mut sums = Self::default();
        for blob in &survey.blobs {
            let is_stored = blob.state != BlobState::Missing;
            sums.stored += u64::from(is_stored);
            sums.bytes = sums.bytes.saturating_add(if is_stored { blob.id.length } else { 0 });
            sums.named += u64::from(blob.records > 0);
            sums.unnamed += u64::from(blob.records == 0);
            sums.bad += u64::from(blob.state != BlobState::Intact);
        }
        sums
    }
}

fn bad(blob: &BlobUse) -> String {
    let by = match blob.first_seq {
        Some(seq) => format!("first named by record {seq}"),
        None => "no record names it".to_owned(),
    };
    format!("{}: {} ({} bytes expected, {by})", blob.path.display(), blob.state, blob.id.length)
}

fn text(survey: &BlobSurvey, sums: &Sums, collected: Option<&Answer>) -> String {
    let mut text = String::new();
    if let Some(collected) = collected {
        let _ = writeln!(text, "{}", collected.text);
    }
    let count = counted(sums.stored, "blob");
    let _ = writeln!(text, "{count}, {}", size(sums.bytes));
    let _ = writeln!(text, "  {} named by records", sums.named);
    if sums.unnamed > 0 {
        let _ = writeln!(text, "  {} that no record names; --collect removes them", sums.unnamed);
    }
    if sums.bad > 0 {
        let _ = writeln!(text, "  {} missing or damaged", sums.bad);
    }
    for (paths, what) in [
        (&survey.unfinished, "unfinished, or being written"),
        (&survey.unknown_files, "that do not belong there"),
    ] {
        if !paths.is_empty() {
            let _ = writeln!(text, "  {} {what}", paths.len());
        }
    }
    if !survey.is_complete {
        text.push_str("  the log is damaged: records that cannot be read may name others\n");
    }
    text
}

fn json_lines(survey: &BlobSurvey, sums: &Sums, collected: Option<&Answer>) -> String {
    let blob = |blob: &BlobUse| {
        json!({
            "type": "blob", "hash": blob.id.hex(), "length": blob.id.length,
            "path": blob.path.display().to_string(), "records": blob.records,
            "first_seq": blob.first_seq, "state": word(&blob.state),
            "detail": blob.state.to_string(),
        })
    };
    let collected = collected.and_then(|answer| answer.lines.first()).map(|line| {
        let number = |name: &str| line.get(name);
        json!({
            "blobs": number("blobs"), "bytes": number("bytes"), "unfinished": number("unfinished"),
        })
    });
    let summary = json!({
        "type": "summary", "blobs": sums.stored, "bytes": sums.bytes, "named": sums.named,
        "unnamed": sums.unnamed, "bad": sums.bad, "unfinished": survey.unfinished.len(),
        "strangers": survey.unknown_files.len(), "complete": survey.is_complete,
        "collected": collected,
    });
    let lines = survey.blobs.iter().map(blob).chain([summary]);
    lines.map(|line| format!("{line}\n")).collect()
}

fn word(state: &BlobState) -> &'static str {
    match state {
        BlobState::Intact => "ok",
        BlobState::Missing => "missing",
        BlobState::WrongLength(_) | BlobState::WrongHash(_) => "damaged",
        BlobState::Unreadable(_) => "unreadable",
    }
}
