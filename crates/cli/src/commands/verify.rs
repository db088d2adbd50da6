//! `ledger verify` and `ledger root`: is every byte the one that was written, and what to keep
//! elsewhere so that the question can be answered later too.
//!
//! Invariants: nothing is written and no lock is taken; the JSON lines are described in
//! `format/verify-json.md`.

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use plan_ledger::error::Error;
use plan_ledger::ledger::{
    Environment, LedgerCondition, VerifyLevel, VerifyPhase, VerifyProgress, VerifyReport,
    VerifyRequest,
};
use plan_ledger::log::{Class, Completion, Expectation, Expected, Finding, Verdict};

use super::exit::{Code, Failure};
use super::folder::Folder;
use super::watch::{Unit, Watch};

const VERIFY_EXAMPLES: &str = "\
Examples:
  ledger verify .ledger                            every checksum and every link of the chain
  ledger verify .ledger --level crc --jobs 1       checksums only, without haste
  ledger verify .ledger --level replay --json      fold everything, compare every noted state
  ledger root .ledger > root.txt                   keep it somewhere else, and later:
  ledger verify .ledger --expect-head \"$(cat root.txt)\"
  ledger verify old.tar                            an archive, without unpacking it

It takes no lock and writes nothing, and may be used while a run goes on. Exit codes: 0 whole,
4 damaged or not as expected, 6 written by a newer program, 3 stopped with Ctrl-C.";

/// `ledger verify`.
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    folder: Folder,
    #[command(flatten)]
    how: HowArgs,
    /// Print JSON Lines, as format/verify-json.md describes them
    #[arg(long)]
    json: bool,
}

/// Check every byte of the ledger, and name all that is damaged; as `ledger verify DIR`
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
pub(super) struct HowArgs {
    /// How thoroughly: each level includes the ones before it
    #[arg(long, value_name = "LEVEL", default_value = "chain")]
    level: LevelChoice,
    /// A chain value that must be in the log: HASH of any record, or SEQ:HASH of that one
    #[arg(long, value_name = "HASH|SEQ:HASH")]
    expect_head: Option<Expected>,
    /// How many threads share the work [default: one for each processor, at most 6]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// A ledger to verify, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) dir: &'a Path,
    pub(super) how: &'a HowArgs,
    pub(super) json: bool,
}

impl VerifyArgs {
    /// What is wanted of the ledger in that folder.
    pub(super) fn of<'a>(&'a self, dir: &'a Path) -> Wanted<'a> {
        Wanted { dir, how: &self.how, json: self.json }
    }

    /// The ledger that is meant.
    pub(super) fn dir(&self) -> Result<PathBuf, Failure> {
        self.folder.dir()
    }
}

/// How thoroughly a ledger is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum LevelChoice {
    /// Checksums of headers, frames and HEAD; order; links between segments; the log's end
    Crc,
    /// Every chain value, computed again from the records
    Chain,
    /// What lies beside the log: snapshots and large outputs, compared with it
    Snapshots,
    /// Everything folded from the first record (or anchor), and compared with every noted state
    Replay,
}

const ROOT_EXAMPLES: &str = "\
Examples:
  ledger root .ledger                              SEQ:CHAIN
  ledger root .ledger | ssh elsewhere 'cat >> roots'";

/// `ledger root`.
#[derive(Debug, Args)]
#[command(after_help = ROOT_EXAMPLES)]
pub(super) struct RootArgs {
    #[command(flatten)]
    folder: Folder,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// No more than can each hold the largest record twice, or a state, and stay small together.
const JOBS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(5);

/// How many threads share the work if nobody says so.
pub(super) fn jobs() -> NonZeroUsize {
    available_parallelism().unwrap_or(NonZeroUsize::MIN).min(JOBS_MAX)
}

pub(super) fn verify(
    wanted: Wanted<'_>,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let Wanted { dir, how: args, json } = wanted;
    if args.level == LevelChoice::Crc && args.expect_head.is_some() {
        let message = "--expect-head needs --level chain, snapshots or replay: the level crc takes \
                       chain values for what they are";
        return Err(Failure::Usage(message.to_owned()));
    }
    let shown = Watch::new(Unit::Bytes, dir)?;
    let jobs = args.jobs.unwrap_or_else(jobs);
    let watch = |progress: VerifyProgress| {
        let message = match progress.phase {
            VerifyPhase::Log => "reading",
            VerifyPhase::Derived => "comparing",
        };
        shown.show(message, progress.done, progress.total);
        if shown.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let level = level(args.level);
    let request = VerifyRequest { level, jobs, expected: args.expect_head, watch: &watch };
    let report = super::at(dir, environment)
        .and_then(|environment| plan_ledger::ledger::verify(dir, &environment, request));
    shown.finish();
    let report = report?;
    if json {
        super::print_to(out, &lines(&report, wanted))?;
    } else {
        super::print_to(out, &super::harmless(&text(&report, wanted)))?;
    }
    Ok(match report.condition() {
        LedgerCondition::Whole => Code::Fine,
        LedgerCondition::Damaged => Code::Damaged,
        LedgerCondition::Newer => Code::Refused,
        LedgerCondition::Stopped => Code::Waiting,
    })
}

pub(super) fn root(args: &RootArgs, environment: &Environment) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    let root = plan_ledger::ledger::root(&dir, &super::at(&dir, environment)?)?;
    if args.json {
        let line = json!({ "type": "root", "seq": root.seq, "chain": root.chain.to_string() });
        super::print(&format!("{line}\n"))?;
    } else {
        super::print(&format!("{}:{}\n", root.seq, root.chain))?;
    }
    Ok(Code::Fine)
}

fn level(choice: LevelChoice) -> VerifyLevel {
    match choice {
        LevelChoice::Crc => VerifyLevel::Crc,
        LevelChoice::Chain => VerifyLevel::Chain,
        LevelChoice::Snapshots => VerifyLevel::Snapshots,
        LevelChoice::Replay => VerifyLevel::Replay,
    }
}

fn class_word(class: Class) -> &'static str {
    match class {
        Class::Damage => "damage",
        Class::Derived => "derived",
        Class::Newer => "newer",
        Class::Warning => "warning",
    }
}

fn condition_word(condition: LedgerCondition) -> &'static str {
    match condition {
        LedgerCondition::Whole => "whole",
        LedgerCondition::Damaged => "damaged",
        LedgerCondition::Newer => "newer",
        LedgerCondition::Stopped => "stopped",
    }
}

fn level_word(level: LevelChoice) -> &'static str {
    match level {
        LevelChoice::Crc => "crc",
        LevelChoice::Chain => "chain",
        LevelChoice::Snapshots => "snapshots",
        LevelChoice::Replay => "replay",
    }
}

fn opening_word(opening: &Result<Verdict, Error>) -> &'static str {
    match opening {
        Ok(Verdict::Clean) => "clean",
        Ok(Verdict::Unproven) => "unproven_tail",
        Ok(_) => "torn",
        Err(_) => "refused",
    }
}

/// What was found, for people.
fn text(report: &VerifyReport, wanted: Wanted<'_>) -> String {
    let args = wanted.how;
    let log = &report.log;
    let mut lines: Vec<String> = Vec::new();
    for finding in &log.findings {
        lines.push(format!("{}: {finding}", class_word(finding.class)));
    }
    if log.omitted > 0 {
        lines.push(format!("and {} more findings, which are not listed", log.omitted));
    }
    if let Err(error) = &log.opening {
        lines.push(format!("opening it for writing is refused: {error}"));
    }
    if let (Some(expected), Some(outcome)) = (args.expect_head, log.expectation) {
        lines.push(expectation_text(expected, outcome));
    }
    let dir = wanted.dir.display();
    let condition = match report.condition() {
        LedgerCondition::Whole => "whole",
        LedgerCondition::Damaged => "damaged",
        LedgerCondition::Newer => "partly written by a newer program; use a newer `ledger`",
        LedgerCondition::Stopped => "not known: it was asked to stop",
    };
    lines.push(format!("ledger {dir}: {condition}"));
    let counts = log.counts;
    let unproven = match counts.unproven {
        0 => String::new(),
        some => format!(" ({some} of them beyond what HEAD says is durable)"),
    };
    lines.push(format!(
        "  checked  level {}: {}{unproven} in {}, {} bytes of frames",
        level_word(args.level),
        counted(counts.records, "record"),
        counted(counts.segments, "segment"),
        counts.frame_bytes
    ));
    if args.level >= LevelChoice::Snapshots {
        lines.push(format!(
            "  beside   {}, {} and {}",
            counted(report.snapshots, "snapshot"),
            counted(report.notes, "snapshot note"),
            counted(report.blobs, "large output")
        ));
    }
    if let Some((seq, hash)) = report.state {
        lines.push(format!("  state    at record {seq}: {hash}"));
    }
    match log.last {
        Some(last) => lines.push(format!("  root     {}:{}", last.seq, last.chain)),
        None => lines.push("  root     no record is durable".to_owned()),
    }
    lines.push(format!("  opening  {}", opening_word(&log.opening).replace('_', " ")));
    lines.push(String::new());
    lines.join("\n")
}

fn counted(number: u64, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

fn expectation_text(expected: Expected, outcome: Expectation) -> String {
    match outcome {
        Expectation::Met { seq } => {
            format!("as expected: record {seq} has the chain {}", expected.chain)
        }
        Expectation::Differs { seq, found } => format!(
            "not as expected: record {seq}: expected the chain {}, found {found}; this record, or \
             one before it, is not the one that was there when the value was kept",
            expected.chain
        ),
        Expectation::Pruned { first } => format!(
            "not as expected: {expected} is about a record that was pruned, and cannot be compared; \
             the first one that is left is {first}: expect a later root, or verify the archive"
        ),
        Expectation::Missing { last } => match expected.seq {
            Some(seq) => format!(
                "not as expected: expected record {seq} with the chain {}, found no such record; \
                 the last one is {last}",
                expected.chain
            ),
            None => format!(
                "not as expected: expected a record with the chain {}, found none; the last record \
                 is {last}",
                expected.chain
            ),
        },
    }
}

/// What was found, as JSON Lines.
fn lines(report: &VerifyReport, wanted: Wanted<'_>) -> String {
    let args = wanted.how;
    let log = &report.log;
    let mut out: Vec<Value> = log.findings.iter().map(finding_json).collect();
    if let (Some(expected), Some(outcome)) = (args.expect_head, log.expectation) {
        out.push(expectation_json(expected, outcome));
    }
    let counts = log.counts;
    let count = |class| log.count(class);
    out.push(json!({
        "type": "summary",
        "dir": wanted.dir.display().to_string(),
        "condition": condition_word(report.condition()),
        "level": level_word(args.level),
        "segments": counts.segments,
        "records": counts.records,
        "unproven": counts.unproven,
        "frame_bytes": counts.frame_bytes,
        "root": log.last.map(|last| json!({ "seq": last.seq, "chain": last.chain.to_string() })),
        "snapshots": report.snapshots,
        "notes": report.notes,
        "blobs": report.blobs,
        "state": report.state.map(|(seq, hash)| json!({ "seq": seq, "hash": hash.to_string() })),
        "damage": count(Class::Damage),
        "derived": count(Class::Derived),
        "newer": count(Class::Newer),
        "warnings": count(Class::Warning),
        "omitted": log.omitted,
        "opening": {
            "verdict": opening_word(&log.opening),
            "refusal": log.opening.as_ref().err().map(ToString::to_string),
        },
        "complete": log.completion == Completion::Complete,
    }));
    out.iter().map(|value| format!("{value}\n")).collect()
}

fn finding_json(finding: &Finding) -> Value {
    let Finding { class, path, offset, end, missing, what } = finding;
    json!({
        "type": class_word(*class),
        "path": path.display().to_string(),
        "offset": offset,
        "end": end,
        "first_seq": missing.as_ref().map(|range| *range.start()),
        "last_seq": missing.as_ref().map(|range| *range.end()),
        "what": what,
    })
}

fn expectation_json(expected: Expected, outcome: Expectation) -> Value {
    let (word, seq, found) = match outcome {
        Expectation::Met { seq } => ("met", Some(seq), Some(expected.chain)),
        Expectation::Differs { seq, found } => ("differs", Some(seq), Some(found)),
        Expectation::Missing { .. } => ("missing", expected.seq, None),
        Expectation::Pruned { .. } => ("pruned", expected.seq, None),
    };
    json!({
        "type": "expectation",
        "outcome": word,
        "seq": seq,
        "expected": expected.chain.to_string(),
        "found": found.map(|chain| chain.to_string()),
    })
}
