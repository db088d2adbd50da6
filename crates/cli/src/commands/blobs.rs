//! `ledger blobs`: the large outputs that are stored beside the log.

use std::fmt::Write as _;
use std::io::Write;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::{BlobCheck, BlobSurvey, BlobUse};
use plan_ledger::log::BlobState;
use plan_ledger::{Environment, LedgerView};

use crate::json::line_text;
use crate::options::{AsJson, LedgerFolder, environment};
use crate::output::{Code, Failure, escape_lines, print_answer, print_message, print_raw_to};
use crate::protocol::{counted, size};
use crate::requests::{CollectBlobsAnswer, CollectBlobsRequest, line_of};
use crate::server::Client;

use super::store::source::environment_for;

const EXAMPLES: &str = "\
Examples:
  ledger blobs .ledger                             count them, and list damage
  ledger blobs .ledger --check --json | jq -c 'select(.state != \"ok\")'
  ledger blobs .ledger --collect                   remove those that no record names

Nothing is removed without --collect. A missing or damaged blob loses only its own output; the exit
code is then 4.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BlobsArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    /// Read every blob and compare its hash
    #[arg(long)]
    check: bool,
    /// Remove blobs that no record references; the lock holder does it
    #[arg(long)]
    collect: bool,
    #[command(flatten)]
    json: AsJson,
}

pub(crate) fn blobs(args: &BlobsArgs) -> Result<Code, Failure> {
    blobs_in(args, &environment(), &mut std::io::stdout())
}

/// Lists the blobs of a ledger on any storage.
pub(super) fn blobs_in(
    args: &BlobsArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    let mut collected = None;
    if args.collect {
        let answer = Client::new(&dir, environment).call(&CollectBlobsRequest {}.into())?;
        if answer.code != Code::Success.number() {
            return print_answer(args.json.0, &answer);
        }
        answer.messages.iter().for_each(|line| print_message(line));
        collected = line_of::<CollectBlobsAnswer>(&answer);
    }
    let collected = collected.as_ref();
    let check = if args.check { BlobCheck::Content } else { BlobCheck::Presence };
    let survey = LedgerView::open(&dir, &environment_for(&dir, environment)?)?.blobs(check)?;
    let totals = BlobTotals::of(&survey);
    if args.json.0 {
        print_raw_to(out, &json_lines(&survey, &totals, collected))?;
    } else {
        for blob in survey.blobs.iter().filter(|blob| blob.state != BlobState::Intact) {
            print_message(&damage_text(blob));
        }
        print_raw_to(out, &escape_lines(&text(&survey, &totals, collected)))?;
    }
    let is_good = totals.bad == 0 && survey.is_complete;
    Ok(if is_good { Code::Success } else { Code::Damaged })
}

#[derive(Debug, Default)]
struct BlobTotals {
    stored: u64,
    bytes: u64,
    named: u64,
    unnamed: u64,
    bad: u64,
}

impl BlobTotals {
    fn of(survey: &BlobSurvey) -> Self {
        let mut totals = Self::default();
        for blob in &survey.blobs {
            let is_stored = blob.state != BlobState::Missing;
            totals.stored += u64::from(is_stored);
            totals.bytes = totals.bytes.saturating_add(if is_stored { blob.id.length } else { 0 });
            totals.named += u64::from(blob.records > 0);
            totals.unnamed += u64::from(blob.records == 0);
            totals.bad += u64::from(blob.state != BlobState::Intact);
        }
        totals
    }
}

fn damage_text(blob: &BlobUse) -> String {
    let by = match blob.first_seq {
        Some(seq) => format!("first referenced by record {seq}"),
        None => "not referenced by any record".to_owned(),
    };
    format!("{}: {} (expected {} bytes, {by})", blob.path.display(), blob.state, blob.id.length)
}

fn text(
    survey: &BlobSurvey,
    totals: &BlobTotals,
    collected: Option<&CollectBlobsAnswer>,
) -> String {
    let mut text = String::new();
    if let Some(collected) = collected {
        let _ = writeln!(text, "{collected}");
    }
    let count = counted(totals.stored, "blob");
    let _ = writeln!(text, "{count}, {}", size(totals.bytes));
    let _ = writeln!(text, "  {} referenced by records", totals.named);
    if totals.unnamed > 0 {
        let _ = writeln!(
            text,
            "  {} not referenced by any record; --collect removes them",
            totals.unnamed
        );
    }
    if totals.bad > 0 {
        let _ = writeln!(text, "  {} missing or damaged", totals.bad);
    }
    for (paths, what) in [
        (&survey.unfinished, "unfinished, or being written"),
        (&survey.unknown_files, "unknown files, ignored"),
    ] {
        if !paths.is_empty() {
            let _ = writeln!(text, "  {} {what}", paths.len());
        }
    }
    if !survey.is_complete {
        text.push_str("  the log is damaged: unreadable records may reference other blobs\n");
    }
    text
}

fn json_lines(
    survey: &BlobSurvey,
    totals: &BlobTotals,
    collected: Option<&CollectBlobsAnswer>,
) -> String {
    let mut lines: String =
        survey.blobs.iter().map(|blob| line_text(&BlobLine::from(blob))).collect();
    lines.push_str(&line_text(&BlobsLine {
        bad: totals.bad,
        blobs: totals.stored,
        bytes: totals.bytes,
        collected: collected.cloned(),
        complete: survey.is_complete,
        named: totals.named,
        unfinished: survey.unfinished.len(),
        unknown_files: survey.unknown_files.len(),
        unnamed: totals.unnamed,
    }));
    lines
}

/// An output that is stored as a blob.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct BlobLine {
    /// Its state, for people.
    detail: String,
    /// The first record that refers to it.
    first_seq: Option<u64>,
    /// Its hash.
    hash: String,
    /// Its length.
    length: u64,
    /// Its file.
    path: String,
    /// The number of records that refer to it.
    records: u64,
    /// Its state.
    state: BlobStateWord,
}

impl From<&BlobUse> for BlobLine {
    fn from(blob: &BlobUse) -> Self {
        Self {
            detail: blob.state.to_string(),
            first_seq: blob.first_seq,
            hash: blob.id.hex(),
            length: blob.id.length,
            path: blob.path.display().to_string(),
            records: blob.records,
            state: match blob.state {
                BlobState::Intact => BlobStateWord::Ok,
                BlobState::Missing => BlobStateWord::Missing,
                BlobState::WrongLength(_) | BlobState::WrongHash(_) => BlobStateWord::Damaged,
                BlobState::Unreadable(_) => BlobStateWord::Unreadable,
            },
        }
    }
}

/// The state of a blob.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum BlobStateWord {
    /// It is intact, as far as it was checked.
    Ok,
    /// Its file is missing.
    Missing,
    /// Its length or its hash is wrong.
    Damaged,
    /// Its file cannot be read.
    Unreadable,
}

/// All blobs of a ledger.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct BlobsLine {
    /// The number of missing or damaged blobs.
    bad: u64,
    /// The number of stored blobs.
    blobs: u64,
    /// Their total size.
    bytes: u64,
    /// The blobs that `--collect` removed.
    collected: Option<CollectBlobsAnswer>,
    /// Whether the whole log was read; if not, unreadable records may refer to other blobs.
    complete: bool,
    /// The number of blobs that records reference.
    named: u64,
    /// The number of unfinished files.
    unfinished: usize,
    /// The number of files that do not belong there.
    unknown_files: usize,
    /// The number of blobs that no record references.
    unnamed: u64,
}
