//! `ledger verify`: checks every byte of a ledger.
//!
//! It writes nothing and takes no lock. The JSON lines are described in `format/verify-json.md`.

pub(crate) mod comparison;

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, RangeInclusive};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::{Args, ValueEnum};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::Environment;
use plan_ledger::internals::ledger::{
    LedgerCondition, VerifyLevel, VerifyPhase, VerifyProgress, VerifyReport, VerifyRequest,
};
use plan_ledger::log::{Completion, ExpectationResult, ExpectedChain, FindingClass, Verification};
use plan_ledger_views::{FindingLine, finding_text};

use crate::commands::root::signed_root;
use crate::commands::store::source::{environment_for, is_store};
use crate::json::line_text;
use crate::options::{AsJson, LedgerFolder};
use crate::output::{
    Code, Failure, LongTask, ProgressUnit, escape_lines, print_message, print_raw_to,
};
use crate::protocol::{
    OpeningJson, OpeningWord, RolledBackLine, counted, error_line_of_check, lost_records_text,
    opening,
};
use crate::server::rollback_text;

use comparison::{ComparisonLine, compare};

const EXAMPLES: &str = "\
Examples:
  ledger verify .ledger                            every checksum and every chain value
  ledger verify .ledger --level crc --jobs 1       checksums only, on one thread
  ledger verify .ledger --level replay --json      replay everything, compare every noted state
  ledger root .ledger > root.txt                   keep it somewhere else, and later:
  ledger verify .ledger --expect-head \"$(cat root.txt)\"
  ledger verify .ledger --root root.note --key night.pub
  ledger verify old.tar                            an archive, without unpacking it
  ledger verify .ledger --against backup           the same records as in another copy

It takes no lock, writes nothing, and may be used while a run is active. Exit codes: 0 valid,
4 damaged or not as expected, 6 written by a newer program, 3 stopped with Ctrl-C.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    /// How thoroughly to check: each level includes the ones before it
    #[arg(long, value_name = "LEVEL", default_value = "chain")]
    level: LevelChoice,
    /// A chain value that must be in the log: HASH at any record, or SEQ:HASH at that one
    #[arg(long, value_name = "HASH|SEQ:HASH")]
    expect_head: Option<ExpectedChain>,
    /// A signed root (`ledger root --sign`) that must be in the log, and signed by --key
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "expect_head")]
    root: Option<PathBuf>,
    /// The public key of the signed root: the key itself, or its file
    #[arg(long, value_name = "KEY", requires = "root")]
    key: Option<String>,
    /// Another copy of the ledger, to compare the chain value of each record
    #[arg(long, value_name = "DIR|URL")]
    against: Option<PathBuf>,
    /// How many threads to use [default: one per processor, at most 6]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    json: AsJson,
}

/// A ledger to verify, and the options.
#[derive(Debug, Clone, Copy)]
struct VerifyTarget<'a> {
    dir: &'a Path,
    options: &'a VerifyArgs,
}

/// How thoroughly to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum LevelChoice {
    /// Checksums of headers, frames and HEAD; order; links between segments; the end of the log
    Crc,
    /// Every chain value, computed again from the records
    Chain,
    /// The snapshots and large outputs beside the log, compared with it
    Snapshots,
    /// Everything, replayed from the first record (or anchor) and compared with every noted state
    Replay,
}

/// Each thread may hold the largest record twice, or a state: this bounds their memory.
const JOBS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(5);

/// How many threads to use by default.
pub(super) fn default_jobs() -> NonZeroUsize {
    available_parallelism().unwrap_or(NonZeroUsize::MIN).min(JOBS_MAX)
}

pub(crate) fn verify(args: &VerifyArgs) -> Result<Code, Failure> {
    verify_in(args, &Environment::system(), &mut std::io::stdout())
}

/// Verifies a ledger on any storage and prints the result.
pub(super) fn verify_in(
    args: &VerifyArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let dir = &args.folder.dir()?;
    let target = VerifyTarget { dir, options: args };
    let (options, json) = (args, args.json.0);
    let expected = match (&options.root, &options.key) {
        (Some(note), Some(key)) => Some(signed_root(note, key)?),
        _ => options.expect_head,
    };
    if options.level == LevelChoice::Crc && expected.is_some() {
        let message = "--expect-head and --root need --level chain, snapshots or replay: level crc does not \
                       check chain values";
        return Err(Failure::Usage(message.to_owned()));
    }
    // A store that gives no answer is awaited before signals are handled: then they end the process.
    let readable = environment_for(dir, environment)?;
    let task = LongTask::start(ProgressUnit::Bytes, dir)?;
    let jobs = options.jobs.unwrap_or_else(default_jobs);
    let watch = |progress: VerifyProgress| {
        let message = match progress.phase {
            VerifyPhase::Log => "reading",
            VerifyPhase::Files => "comparing",
        };
        task.show(message, progress.done, progress.total);
        if task.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let level = level(options.level);
    let request = VerifyRequest { level, jobs, expected, watch: &watch };
    let report = request.run(dir, &readable);
    task.finish();
    let report = report?;
    let against = options.against.as_deref();
    let compared = against.map(|against| compare(dir, against, environment)).transpose()?;
    let rollback = rollback_text(dir, environment);
    if json {
        let before = rollback.map(|what| line_text(&RolledBackLine { what }));
        print_raw_to(out, &before.unwrap_or_default())?;
        print_raw_to(out, &json_lines(&report, target, expected, compared.as_ref()))?;
    } else {
        let compared = compared.as_ref();
        print_raw_to(out, &escape_lines(&text(&report, target, expected, rollback, compared)))?;
    }
    if is_store(dir) {
        print_message(UNSEEN_IN_A_STORE);
    }
    let is_different = compared.is_some_and(|compared| compared.is_different());
    Ok(match report.condition() {
        LedgerCondition::Valid | LedgerCondition::Incomplete if is_different => Code::Damaged,
        LedgerCondition::Valid | LedgerCondition::Incomplete => Code::Success,
        LedgerCondition::Damaged => Code::Damaged,
        LedgerCondition::NewerFormat => Code::Rejected,
        LedgerCondition::Stopped => Code::Waiting,
    })
}

/// The limits of a verification of a store, for people.
const UNSEEN_IN_A_STORE: &str = "not checked: slots that segment objects replace, versions of objects that \
                                 the store hides, and what was never uploaded (`--against DIR` shows that)";

fn level(choice: LevelChoice) -> VerifyLevel {
    match choice {
        LevelChoice::Crc => VerifyLevel::Crc,
        LevelChoice::Chain => VerifyLevel::Chain,
        LevelChoice::Snapshots => VerifyLevel::Snapshots,
        LevelChoice::Replay => VerifyLevel::Replay,
    }
}

fn level_name(level: LevelChoice) -> &'static str {
    match level {
        LevelChoice::Crc => "crc",
        LevelChoice::Chain => "chain",
        LevelChoice::Snapshots => "snapshots",
        LevelChoice::Replay => "replay",
    }
}

fn text(
    report: &VerifyReport,
    target: VerifyTarget<'_>,
    expected: Option<ExpectedChain>,
    rollback: Option<String>,
    compared: Option<&ComparisonLine>,
) -> String {
    let options = target.options;
    let log = &report.log;
    let mut lines: Vec<String> = Vec::new();
    lines.extend(rollback.map(|what| format!("warning: {what}")));
    lines.extend(log.findings.iter().map(finding_text));
    if log.omitted > 0 {
        lines.push(format!("and {} more findings", log.omitted));
    }
    if let Err(error) = &log.opening {
        lines.push(format!("cannot be opened for writing: {}", error_line_of_check(error)));
    }
    if let (Some(expected), Some(outcome)) = (expected, log.expectation) {
        lines.push(expectation_text(expected, outcome));
    }
    let dir = target.dir.display();
    let condition = match report.condition() {
        LedgerCondition::Valid => "whole",
        LedgerCondition::Incomplete => &format!("consistent, but not complete: {}", lost_text(log)),
        LedgerCondition::Damaged => "damaged",
        LedgerCondition::NewerFormat => "partly written by a newer program; use a newer `ledger`",
        LedgerCondition::Stopped => "unknown: the check was stopped",
    };
    lines.push(format!("ledger {dir}: {condition}"));
    let counts = log.counts;
    let unacknowledged = match counts.unacknowledged {
        0 => String::new(),
        some => format!(" ({some} of them after the durable end that HEAD names)"),
    };
    lines.push(format!(
        "  checked  level {}: {}{unacknowledged} in {}, {} bytes of frames",
        level_name(options.level),
        counted(counts.records, "record"),
        counted(counts.segments, "segment"),
        counts.frame_bytes
    ));
    if options.level >= LevelChoice::Snapshots {
        lines.push(format!(
            "  derived  {}, {} and {}",
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
    lines.push(format!("  opening  {}", OpeningWord::from(&log.opening).text()));
    lines.extend(compared.map(ComparisonLine::text));
    lines.push(String::new());
    lines.join("\n")
}

/// The records that were lost before the ledger was salvaged.
fn lost_text(log: &Verification) -> String {
    let lost = log.findings.iter().filter(|finding| finding.class == FindingClass::RecordedLoss);
    let ranges = lost.filter_map(|finding| finding.missing.clone());
    lost_records_text(&ranges.map(RangeInclusive::into_inner).collect::<Vec<_>>())
}

fn expectation_text(expected: ExpectedChain, outcome: ExpectationResult) -> String {
    match outcome {
        ExpectationResult::Met { seq } => {
            format!("as expected: record {seq} has chain {}", expected.chain)
        }
        ExpectationResult::Differs { seq, found } => format!(
            "not as expected: record {seq}: expected chain {}, found {found}; this record or an \
             earlier one has changed since the value was kept",
            expected.chain
        ),
        ExpectationResult::Pruned { first } => format!(
            "not as expected: the record of {expected} was pruned; the first record is now \
             {first}: expect a later root, or verify the archive"
        ),
        ExpectationResult::Missing { last } => match expected.seq {
            Some(seq) => format!(
                "not as expected: expected record {seq} with chain {}; the last record is {last}",
                expected.chain
            ),
            None => format!(
                "not as expected: expected a record with chain {}, found none; the last record is \
                 {last}",
                expected.chain
            ),
        },
    }
}

fn json_lines(
    report: &VerifyReport,
    target: VerifyTarget<'_>,
    expected: Option<ExpectedChain>,
    compared: Option<&ComparisonLine>,
) -> String {
    let log = &report.log;
    let mut out: String =
        log.findings.iter().map(|finding| line_text(&FindingLine::from(finding))).collect();
    if let (Some(expected), Some(outcome)) = (expected, log.expectation) {
        out.push_str(&line_text(&ExpectationLine::of(expected, outcome)));
    }
    out.extend(compared.map(line_text));
    out.push_str(&line_text(&VerifiedLine::of(report, target)));
    out
}

/// The result of `--expect-head`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ExpectationLine {
    /// The expected chain value.
    expected: String,
    /// The found chain value; null without a record.
    found: Option<String>,
    /// The result.
    outcome: ExpectationWord,
    /// The record; null if none has the value.
    seq: Option<u64>,
}

/// The result of an expectation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum ExpectationWord {
    /// The record has the chain value.
    Met,
    /// The record has another chain value.
    Differs,
    /// No record has the value, or the record does not exist.
    Missing,
    /// The record was pruned, so it cannot be compared.
    Pruned,
}

impl ExpectationLine {
    fn of(expected: ExpectedChain, outcome: ExpectationResult) -> Self {
        let (outcome, seq, found) = match outcome {
            ExpectationResult::Met { seq } => {
                (ExpectationWord::Met, Some(seq), Some(expected.chain))
            }
            ExpectationResult::Differs { seq, found } => {
                (ExpectationWord::Differs, Some(seq), Some(found))
            }
            ExpectationResult::Missing { .. } => (ExpectationWord::Missing, expected.seq, None),
            ExpectationResult::Pruned { .. } => (ExpectationWord::Pruned, expected.seq, None),
        };
        let found = found.map(|chain| chain.to_string());
        Self { expected: expected.chain.to_string(), found, outcome, seq }
    }
}

/// The result of a verification, the last line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct VerifiedLine {
    /// The number of blobs checked; 0 below the level `snapshots`.
    blobs: u64,
    /// Whether everything was checked; if not, the other members cover a part of the log.
    complete: bool,
    /// The condition of the ledger.
    condition: ConditionWord,
    /// The number of lines of type `damage`.
    damage: usize,
    /// The number of lines of type `derived`.
    derived: usize,
    /// The folder or archive file, as given.
    dir: String,
    /// The total size of the frames of intact records.
    frame_bytes: u64,
    /// How thoroughly the ledger was verified.
    level: LevelChoice,
    /// The number of lines of type `lost`.
    lost: usize,
    /// The number of lines of type `newer`.
    newer: usize,
    /// The number of snapshot notes in the log compared; 0 below the level `snapshots`.
    notes: u64,
    /// The number of findings that are not listed.
    omitted: u64,
    /// The result of opening the ledger for writing now.
    opening: OpeningJson,
    /// The number of intact records.
    records: u64,
    /// The last durable record.
    root: Option<RootJson>,
    /// The number of segment files.
    segments: u64,
    /// The number of snapshots checked; 0 below the level `snapshots`.
    snapshots: u64,
    /// The replayed state; null below the level `replay`.
    state: Option<ReplayedJson>,
    /// The number of records after the durable end in HEAD.
    unacknowledged: u64,
    /// The number of lines of type `warning`.
    warnings: usize,
}

/// The condition of a ledger.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum ConditionWord {
    /// Nothing is damaged.
    Whole,
    /// Nothing is damaged, but records were lost before the ledger was salvaged.
    Incomplete,
    /// Something is damaged, or the expectation is not met.
    Damaged,
    /// A part was written by a newer program.
    Newer,
    /// The verification was interrupted.
    Stopped,
}

/// The last durable record.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct RootJson {
    /// Its chain value.
    chain: String,
    /// Its sequence number.
    seq: u64,
}

/// A replayed state.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct ReplayedJson {
    /// Its hash.
    hash: String,
    /// Its last record.
    seq: u64,
}

impl VerifiedLine {
    fn of(report: &VerifyReport, target: VerifyTarget<'_>) -> Self {
        let (log, counts) = (&report.log, report.log.counts);
        let count = |class| log.count(class);
        Self {
            blobs: report.blobs,
            complete: log.completion == Completion::Complete,
            condition: match report.condition() {
                LedgerCondition::Valid => ConditionWord::Whole,
                LedgerCondition::Incomplete => ConditionWord::Incomplete,
                LedgerCondition::Damaged => ConditionWord::Damaged,
                LedgerCondition::NewerFormat => ConditionWord::Newer,
                LedgerCondition::Stopped => ConditionWord::Stopped,
            },
            damage: count(FindingClass::Damage),
            derived: count(FindingClass::DerivedDamage),
            dir: target.dir.display().to_string(),
            frame_bytes: counts.frame_bytes,
            level: target.options.level,
            lost: count(FindingClass::RecordedLoss),
            newer: count(FindingClass::NewerFormat),
            notes: report.notes,
            omitted: log.omitted,
            opening: opening(&log.opening),
            records: counts.records,
            root: log.last.map(|last| RootJson { chain: last.chain.to_string(), seq: last.seq }),
            segments: counts.segments,
            snapshots: report.snapshots,
            state: report.state.map(|(seq, hash)| ReplayedJson { hash: hash.to_string(), seq }),
            unacknowledged: counts.unacknowledged,
            warnings: count(FindingClass::Warning),
        }
    }
}
