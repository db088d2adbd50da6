//! `ledger lab`: the engine's crash laboratory.
//!
//! It runs workloads on a simulated disk, crashes them, and checks that the engine keeps its
//! guarantees.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::Error;
use plan_ledger::internals::sim::Profile;
use plan_ledger_lab::{
    self as lab, Case, ExploreReport, ExploreScope, FailingCase, FaultCounts, FaultReport,
    ImageHash, SoakReport, explore_images, replay, soak,
};

use crate::options::AsJson;
use crate::output::{Code, Failure, print_line, print_text, progress_bar};
use crate::protocol::private_files;
use crate::protocol::{counted, hex};

const EXAMPLES: &str = "\
Examples:
  ledger lab run --ops 2                           all workloads of two operations: seconds
  ledger lab run --ops 4 --images 1000000          up to a million crash images
  ledger lab run --ops 3 --seed 7                  in another order
  ledger lab run --ops 1 --faults 1                failing and lying disks as well
  ledger lab run --ops 2 --device psow512          torn sectors contain garbage
  ledger lab run --ops 2 --hashes images.txt       to count the images of several runs
  ledger lab endure --ops 100000                   one ledger, crashed over and over
  ledger lab replay append+rotate/17,power:but5    replay one case";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    task: LabTask,
}

#[derive(Debug, Subcommand)]
enum LabTask {
    /// Crash short workloads at every write to a simulated disk, and check the result
    Run(LabRunArgs),
    /// Replay one case
    Replay(LabReplayArgs),
    /// Run one ledger for a long time with repeated crashes and concurrent reads
    Endure(LabEndureArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct LabRunArgs {
    /// The maximum number of operations of a workload
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=8))]
    ops: u32,
    /// Stop after this many crash images
    #[arg(long, value_name = "N")]
    images: Option<u64>,
    /// The seed of all samples and of their order
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The effect of a power loss on writes in progress
    #[arg(long, value_name = "KIND", default_value = "atomic-sector", value_parser = parse_device)]
    device: Profile,
    /// How many threads to use [default: one per processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Also make every disk call of all workloads of this many operations fail, and lie
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=3))]
    faults: Option<u32>,
    /// Write the hash of each different image to this file, sorted
    #[arg(long, value_name = "FILE")]
    hashes: Option<PathBuf>,
    #[command(flatten)]
    json: AsJson,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct LabReplayArgs {
    /// The case, as a run printed it
    case: String,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct LabEndureArgs {
    /// How many operations
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    ops: u64,
    /// The seed of all operations and crashes
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    json: AsJson,
}

/// A device on which all guarantees apply.
fn parse_device(name: &str) -> Result<Profile, String> {
    let devices = || Profile::ALL.into_iter().filter(|it| *it != Profile::NonPsow);
    devices().find(|it| it.name() == name).ok_or_else(|| {
        format!("expected {}", devices().map(Profile::name).collect::<Vec<_>>().join(", "))
    })
}

pub(crate) fn lab(args: &LabArgs) -> Result<Code, Failure> {
    match &args.task {
        LabTask::Run(args) => run(args),
        LabTask::Replay(args) => replay_case(args),
        LabTask::Endure(args) => run_endurance(args),
    }
}

fn replay_case(args: &LabReplayArgs) -> Result<Code, Failure> {
    let Some(case) = Case::parse(&args.case) else {
        let message = format!(
            "`{}` is not a case\nhint: `ledger lab run` prints the case that failed",
            args.case
        );
        return Err(Failure::Usage(message));
    };
    match replay(&case) {
        Ok(()) => {
            print_text("all guarantees hold\n")?;
            Ok(Code::Success)
        }
        Err(broken) => report_broken(&broken),
    }
}

fn run_endurance(args: &LabEndureArgs) -> Result<Code, Failure> {
    let start = Instant::now();
    let bar = progress_bar(usize::try_from(args.ops).unwrap_or(usize::MAX));
    let outcome = soak(args.ops, args.seed, &mut |endured| bar.set_position(endured.ops));
    bar.finish_and_clear();
    let SoakReport { ops, crashes, records, reads } = match outcome {
        Ok(endured) => endured,
        Err(broken) => return report_broken(&broken),
    };
    let (seed, seconds) = (args.seed, start.elapsed().as_secs_f64());
    if args.json.0 {
        let (broken, looks) = (0, reads);
        print_line(&EnduredLine { broken, crashes, looks, ops, records, seconds, seed })?;
    } else {
        print_text(&format!(
            "{}, seed {seed}: {crashes} crashes, {records} records, {reads} reads of an open \
             reader, {seconds:.0} s\nall guarantees hold\n",
            counted(ops, "operation")
        ))?;
    }
    Ok(Code::Success)
}

fn report_broken(broken: &FailingCase) -> Result<Code, Failure> {
    print_text(&format!("a guarantee was violated: {broken}\n"))?;
    Ok(Code::Failed)
}

fn run(args: &LabRunArgs) -> Result<Code, Failure> {
    let start = Instant::now();
    let all = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let jobs = args.jobs.unwrap_or(all);
    let scope = ExploreScope {
        ops: args.ops,
        seed: args.seed,
        jobs,
        device: args.device,
        ..ExploreScope::FULL
    };
    // First, so that a wrong path does not end a long run.
    let create = |path| match private_files::create(path) {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(hashes_failed(path, error)),
    };
    let hashes = args.hashes.as_deref().map(create).transpose()?;
    let bar = progress_bar(usize::try_from(scope.workloads()).unwrap_or(usize::MAX));
    let watch = |tally: &ExploreReport| {
        bar.set_position(tally.workloads);
        let is_full = args.images.is_some_and(|images| tally.tried() >= images);
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let explored = explore_images(&scope, &watch);
    bar.finish_and_clear();
    let (tally, images) = match explored {
        Ok(explored) => explored,
        Err(broken) => return report_broken(&broken),
    };
    if let Some((path, file)) = hashes {
        write_hashes(file, &images).map_err(|error| hashes_failed(path, error))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    if args.json.0 {
        print_line(&LabLine::of(&tally, args, seconds))?;
    } else {
        print_text(&(tally_text(&tally, args, seconds).join("\n") + "\n"))?;
    }
    match args.faults {
        None => Ok(Code::Success),
        Some(ops) => inject_faults(args, ops),
    }
}

fn hashes_failed(path: &Path, error: io::Error) -> Failure {
    Failure::Ledger(Error::io("write the hashes", path, error))
}

/// One hash on a line: the files of several runs can be merged with `sort -mu`, and counted.
fn write_hashes(file: File, images: &BTreeSet<ImageHash>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    for hash in images {
        writeln!(out, "{}", hex(hash))?;
    }
    out.flush()
}

/// Injects failing and lying disks.
fn inject_faults(args: &LabRunArgs, ops: u32) -> Result<Code, Failure> {
    let start = Instant::now();
    let all = ExploreScope { ops, ..ExploreScope::FULL }.workloads();
    let bar = progress_bar(usize::try_from(all).unwrap_or(usize::MAX));
    let watch = |faults: &FaultReport| {
        bar.set_position(faults.workloads);
        ControlFlow::Continue(())
    };
    let faults = lab::inject_faults(ops, args.seed, &watch);
    bar.finish_and_clear();
    let faults = match faults {
        Ok(faults) => faults,
        Err(broken) => return report_broken(&broken),
    };
    let seconds = start.elapsed().as_secs_f64();
    if args.json.0 {
        for (name, counts) in &faults.classes {
            print_line(&FaultLine::of(name, counts))?;
        }
        print_line(&FaultsLine {
            ops,
            seconds,
            seed: args.seed,
            workloads: faults.workloads,
            workloads_all: faults.workloads_all,
        })?;
    } else {
        print_text(&faults_text(&faults, ops, seconds))?;
    }
    Ok(Code::Success)
}

/// A long life in which all guarantees hold.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct EnduredLine {
    /// The number of violated guarantees: 0.
    broken: u64,
    /// The number of crashes.
    crashes: u64,
    /// The number of reads of an open reader.
    looks: u64,
    /// The number of operations.
    ops: u64,
    /// The number of records.
    records: u64,
    /// The duration in seconds.
    seconds: f64,
    /// The seed of all operations and crashes.
    seed: u64,
}

/// A scope in which all guarantees hold.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LabLine {
    /// Images without a ledger.
    absent: u64,
    /// Images that a person must judge.
    asked: u64,
    /// Those of them whose HEAD is ambiguous; the others have an ambiguous tail.
    asked_heads: u64,
    /// The number of violated guarantees: 0.
    broken: u64,
    /// Images with a clean end.
    clean: u64,
    /// The device.
    device: &'static str,
    /// The digest of all images.
    digest: String,
    /// Distinct images of the first crash.
    distinct: u64,
    /// Distinct images of the second crash.
    distinct_again: u64,
    /// Distinct images of the third crash.
    distinct_third: u64,
    /// All distinct images.
    examined: u64,
    /// Images of the first crash.
    images: u64,
    /// Images of the second crash.
    images_again: u64,
    /// Images of the third crash.
    images_third: u64,
    /// The maximum number of operations of a workload.
    ops: u32,
    /// Points of the first crash.
    points: u64,
    /// Points of the second crash.
    points_again: u64,
    /// Points of the second crash with every subset of the unsynced writes.
    points_again_whole: u64,
    /// Points of the first crash with every subset of the unsynced writes.
    points_whole: u64,
    /// The duration in seconds.
    seconds: f64,
    /// The seed.
    seed: u64,
    /// Images with a torn end.
    torn: u64,
    /// All images.
    tried: u64,
    /// Images with an unacknowledged tail.
    unacknowledged: u64,
    /// The number of workloads that were run.
    workloads: u64,
    /// The number of workloads of the scope.
    workloads_all: u64,
}

impl LabLine {
    fn of(tally: &ExploreReport, args: &LabRunArgs, seconds: f64) -> Self {
        Self {
            absent: tally.absent,
            asked: tally.ambiguous,
            asked_heads: tally.ambiguous_heads,
            broken: 0,
            clean: tally.clean,
            device: args.device.name(),
            digest: hex(&tally.digest),
            distinct: tally.distinct,
            distinct_again: tally.distinct_again,
            distinct_third: tally.distinct_third,
            examined: tally.examined(),
            images: tally.images,
            images_again: tally.images_again,
            images_third: tally.images_third,
            ops: args.ops,
            points: tally.points,
            points_again: tally.points_again,
            points_again_whole: tally.points_again_whole,
            points_whole: tally.points_whole,
            seconds,
            seed: args.seed,
            torn: tally.torn,
            tried: tally.tried(),
            unacknowledged: tally.unacknowledged,
            workloads: tally.workloads,
            workloads_all: tally.workloads_all,
        }
    }
}

fn tally_text(tally: &ExploreReport, args: &LabRunArgs, seconds: f64) -> Vec<String> {
    vec![
        format!(
            "{} of {} workloads of up to {} operations, seed {}, {}, {seconds:.0} s",
            tally.workloads,
            tally.workloads_all,
            args.ops,
            args.seed,
            args.device.name()
        ),
        format!(
            "  first crash    {} points ({} with every subset of the unsynced writes), {} images, \
             {} distinct",
            tally.points, tally.points_whole, tally.images, tally.distinct
        ),
        format!(
            "  second crash   {} points ({} with every subset), {} images, {} distinct",
            tally.points_again, tally.points_again_whole, tally.images_again, tally.distinct_again
        ),
        format!(
            "  third crash    {} images, {} distinct",
            tally.images_third, tally.distinct_third
        ),
        format!("  all            {} images, {} distinct", tally.tried(), tally.examined()),
        format!(
            "  found          {} clean, {} with an unacknowledged tail, {} torn, {} without a \
             ledger, {} that a person must judge ({} because of HEAD)",
            tally.clean,
            tally.unacknowledged,
            tally.torn,
            tally.absent,
            tally.ambiguous,
            tally.ambiguous_heads
        ),
        format!("  digest         {}", hex(&tally.digest)),
        "all guarantees hold".to_owned(),
    ]
}

/// A kind of fault of the disk.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct FaultLine<'a> {
    /// Images with the state before the last acknowledged one, which the fault permits.
    earlier: u64,
    /// The fault.
    fault: &'a str,
    /// Images after the fault.
    images: u64,
    /// Images that an open refuses.
    refused: u64,
    /// Images with reported damage.
    reported: u64,
    /// How often it was injected.
    struck: u64,
    /// Images with every acknowledged record.
    whole: u64,
}

impl<'a> FaultLine<'a> {
    fn of(name: &'a str, counts: &FaultCounts) -> Self {
        Self {
            earlier: counts.earlier,
            fault: name,
            images: counts.images,
            refused: counts.refused,
            reported: counts.reported,
            struck: counts.faults,
            whole: counts.whole,
        }
    }
}

/// All faults of the disk.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct FaultsLine {
    /// The maximum number of operations of a workload.
    ops: u32,
    /// The duration in seconds.
    seconds: f64,
    /// The seed.
    seed: u64,
    /// The number of workloads that were run.
    workloads: u64,
    /// The number of workloads of the scope.
    workloads_all: u64,
}

fn faults_text(faults: &FaultReport, ops: u32, seconds: f64) -> String {
    let line = |(name, it): (&&str, &FaultCounts)| {
        format!("  {name:32} injected {:5} times, {:6} images\n", it.faults, it.images)
    };
    let lines: String = faults.classes.iter().map(line).collect();
    let FaultReport { workloads, workloads_all, .. } = faults;
    format!(
        "failing and lying disks: every call of {workloads} of {workloads_all} workloads of up to \
         {ops} operations, {seconds:.0} s\n{lines}all guarantees hold\n"
    )
}
