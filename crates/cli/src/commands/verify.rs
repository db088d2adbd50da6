//! `ledger verify`: checks every byte of a ledger.
//!
//! It writes nothing and takes no lock. The JSON lines are described in `format/verify-json.md`.

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::thread::available_parallelism;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use plan_ledger::internals::ledger::{
    self, LedgerCondition, VerifyLevel, VerifyPhase, VerifyProgress, VerifyReport, VerifyRequest,
};
use plan_ledger::internals::log::{
    Completion, ExpectationResult, ExpectedChain, FindingClass, TailVerdict, VerifyFinding,
};
use plan_ledger::{Environment, Error};

use crate::options::{LedgerFolder, environment_for};
use crate::output::{Code, Failure, LongTask, ProgressUnit, escape_lines, print_raw_to};
use crate::protocol::counted;

const EXAMPLES: &str = "\
Examples:
  ledger verify .ledger                            every checksum and every chain value
  ledger verify .ledger --level crc --jobs 1       checksums only, on one thread
  ledger verify .ledger --level replay --json      replay everything, compare every noted state
  ledger root .ledger > root.txt                   keep it somewhere else, and later:
  ledger verify .ledger --expect-head \"$(cat root.txt)\"
  ledger verify old.tar                            an archive, without unpacking it

It takes no lock, writes nothing, and may be used while a run is active. Exit codes: 0 valid,
4 damaged or not as expected, 6 written by a newer program, 3 stopped with Ctrl-C.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    #[command(flatten)]
    options: VerifyOptions,
    /// Print JSON Lines, as format/verify-json.md describes them
    #[arg(long)]
    json: bool,
}

/// Check every byte of the ledger, and list all damage; same as `ledger verify DIR`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct VerifyOptions {
    /// How thoroughly to check: each level includes the ones before it
    #[arg(long, value_name = "LEVEL", default_value = "chain")]
    level: LevelChoice,
    /// A chain value that must be in the log: HASH at any record, or SEQ:HASH at that one
    #[arg(long, value_name = "HASH|SEQ:HASH")]
    expect_head: Option<ExpectedChain>,
    /// How many threads to use [default: one per processor, at most 6]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// A ledger to verify, and the options.
#[derive(Debug, Clone, Copy)]
pub(super) struct VerifyTarget<'a> {
    pub(super) dir: &'a Path,
    pub(super) options: &'a VerifyOptions,
    pub(super) json: bool,
}

/// How thoroughly to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
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
    let dir = args.folder.dir()?;
    let target = VerifyTarget { dir: &dir, options: &args.options, json: args.json };
    verify_ledger(target, &Environment::system(), &mut std::io::stdout())
}

/// Verifies a ledger and prints the result.
pub(super) fn verify_ledger(
    target: VerifyTarget<'_>,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let VerifyTarget { dir, options, json } = target;
    if options.level == LevelChoice::Crc && options.expect_head.is_some() {
        let message = "--expect-head needs --level chain, snapshots or replay: level crc does not \
                       check chain values";
        return Err(Failure::Usage(message.to_owned()));
    }
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
    let request = VerifyRequest { level, jobs, expected: options.expect_head, watch: &watch };
    let report = environment_for(dir, environment)
        .and_then(|environment| ledger::verify(dir, &environment, request));
    task.finish();
    let report = report?;
    if json {
        print_raw_to(out, &json_lines(&report, target))?;
    } else {
        print_raw_to(out, &escape_lines(&text(&report, target)))?;
    }
    Ok(match report.condition() {
        LedgerCondition::Valid => Code::Success,
        LedgerCondition::Damaged => Code::Damaged,
        LedgerCondition::NewerFormat => Code::Rejected,
        LedgerCondition::Stopped => Code::Waiting,
    })
}

fn level(choice: LevelChoice) -> VerifyLevel {
    match choice {
        LevelChoice::Crc => VerifyLevel::Crc,
        LevelChoice::Chain => VerifyLevel::Chain,
        LevelChoice::Snapshots => VerifyLevel::Snapshots,
        LevelChoice::Replay => VerifyLevel::Replay,
    }
}

fn class_name(class: FindingClass) -> &'static str {
    match class {
        FindingClass::Damage => "damage",
        FindingClass::DerivedDamage => "derived",
        FindingClass::NewerFormat => "newer",
        FindingClass::Warning => "warning",
    }
}

fn condition_name(condition: LedgerCondition) -> &'static str {
    match condition {
        LedgerCondition::Valid => "whole",
        LedgerCondition::Damaged => "damaged",
        LedgerCondition::NewerFormat => "newer",
        LedgerCondition::Stopped => "stopped",
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

fn opening_name(opening: &Result<TailVerdict, Error>) -> &'static str {
    match opening {
        Ok(TailVerdict::Clean) => "clean",
        Ok(TailVerdict::Unacknowledged) => "unacknowledged_tail",
        Ok(_) => "torn",
        Err(_) => "refused",
    }
}

fn text(report: &VerifyReport, target: VerifyTarget<'_>) -> String {
    let options = target.options;
    let log = &report.log;
    let mut lines: Vec<String> = Vec::new();
    for finding in &log.findings {
        lines.push(format!("{}: {finding}", class_name(finding.class)));
    }
    if log.omitted > 0 {
        lines.push(format!("and {} more findings", log.omitted));
    }
    if let Err(error) = &log.opening {
        lines.push(format!("cannot be opened for writing: {error}"));
    }
    if let (Some(expected), Some(outcome)) = (options.expect_head, log.expectation) {
        lines.push(expectation_text(expected, outcome));
    }
    let dir = target.dir.display();
    let condition = match report.condition() {
        LedgerCondition::Valid => "whole",
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
    lines.push(format!("  opening  {}", opening_name(&log.opening).replace('_', " ")));
    lines.push(String::new());
    lines.join("\n")
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

fn json_lines(report: &VerifyReport, target: VerifyTarget<'_>) -> String {
    let options = target.options;
    let log = &report.log;
    let mut out: Vec<Value> = log.findings.iter().map(finding_json).collect();
    if let (Some(expected), Some(outcome)) = (options.expect_head, log.expectation) {
        out.push(expectation_json(expected, outcome));
    }
    let counts = log.counts;
    let count = |class| log.count(class);
    out.push(json!({
        "type": "summary",
        "dir": target.dir.display().to_string(),
        "condition": condition_name(report.condition()),
        "level": level_name(options.level),
        "segments": counts.segments,
        "records": counts.records,
        "unacknowledged": counts.unacknowledged,
        "frame_bytes": counts.frame_bytes,
        "root": log.last.map(|last| json!({ "seq": last.seq, "chain": last.chain.to_string() })),
        "snapshots": report.snapshots,
        "notes": report.notes,
        "blobs": report.blobs,
        "state": report.state.map(|(seq, hash)| json!({ "seq": seq, "hash": hash.to_string() })),
        "damage": count(FindingClass::Damage),
        "derived": count(FindingClass::DerivedDamage),
        "newer": count(FindingClass::NewerFormat),
        "warnings": count(FindingClass::Warning),
        "omitted": log.omitted,
        "opening": {
            "verdict": opening_name(&log.opening),
            "refusal": log.opening.as_ref().err().map(ToString::to_string),
        },
        "complete": log.completion == Completion::Complete,
    }));
    out.iter().map(|value| format!("{value}\n")).collect()
}

fn finding_json(finding: &VerifyFinding) -> Value {
    let VerifyFinding { class, path, offset, end, missing, what } = finding;
    json!({
        "type": class_name(*class),
        "path": path.display().to_string(),
        "offset": offset,
        "end": end,
        "first_seq": missing.as_ref().map(|range| *range.start()),
        "last_seq": missing.as_ref().map(|range| *range.end()),
        "what": what,
    })
}

fn expectation_json(expected: ExpectedChain, outcome: ExpectationResult) -> Value {
    let (word, seq, found) = match outcome {
        ExpectationResult::Met { seq } => ("met", Some(seq), Some(expected.chain)),
        ExpectationResult::Differs { seq, found } => ("differs", Some(seq), Some(found)),
        ExpectationResult::Missing { .. } => ("missing", expected.seq, None),
        ExpectationResult::Pruned { .. } => ("pruned", expected.seq, None),
    };
    json!({
        "type": "expectation",
        "outcome": word,
        "seq": seq,
        "expected": expected.chain.to_string(),
        "found": found.map(|chain| chain.to_string()),
    })
}
