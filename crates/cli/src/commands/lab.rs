//! `ledger lab`: the engine's own crash laboratory, for whoever must trust it.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::json;

use plan_ledger::lab::{
    Broken, Case, Endured, Scope, Strikes, Tally, endure, explore, replay, strike,
};
use plan_ledger::sim::Profile;

use super::exit::{Code, Failure};
use super::{answer_with, print};

const EXAMPLES: &str = "\
Examples:
  ledger lab run --ops 2                           all histories of two operations: seconds
  ledger lab run --ops 4 --images 1000000          up to a million crash images
  ledger lab run --ops 3 --minutes 5 --seed 7      as far as it gets, in another order
  ledger lab run --ops 1 --faults 1                failing and lying disks as well
  ledger lab run --ops 2 --device psow512          torn sectors hold garbage
  ledger lab endure --ops 100000                   one ledger, crashed over and over
  ledger lab replay append+rotate/17,power:but5    one case again";

/// `ledger lab`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct LabArgs {
    #[command(subcommand)]
    task: LabTask,
}

#[derive(Debug, Subcommand)]
enum LabTask {
    /// Crash small histories at every change of a simulated disk, and judge what is left
    Run(LabRunArgs),
    /// Try one case again
    Replay(LabReplayArgs),
    /// Use one ledger for long, crash it over and over, and read it all the while
    Endure(LabEndureArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct LabRunArgs {
    /// The most operations of a history
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=8))]
    ops: u32,
    /// Stop after so many crash images
    #[arg(long, value_name = "N")]
    images: Option<u64>,
    /// Stop after so many minutes
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// What is sampled, and in which order, depends on this number alone
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// What a power loss does to writes under way
    #[arg(long, value_name = "KIND", default_value = "atomic-sector", value_parser = device)]
    device: Profile,
    /// How many threads [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Then let every call of all histories of so many operations fail, and lie
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=3))]
    faults: Option<u32>,
    /// Print the figures as JSON Lines
    #[arg(long)]
    json: bool,
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
    /// What happens depends on this number alone
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print the figures as a JSON line
    #[arg(long)]
    json: bool,
}

/// A device on which every promise is to be kept.
fn device(name: &str) -> Result<Profile, String> {
    let kept = || Profile::ALL.into_iter().filter(|it| *it != Profile::NonPsow);
    kept().find(|it| it.name() == name).ok_or_else(|| {
        format!("expected {}", kept().map(Profile::name).collect::<Vec<_>>().join(", "))
    })
}

/// `ledger lab`.
pub(super) fn lab(args: &LabArgs) -> Result<Code, Failure> {
    match &args.task {
        LabTask::Run(args) => run(args),
        LabTask::Replay(args) => again(args),
        LabTask::Endure(args) => endured(args),
    }
}

fn again(args: &LabReplayArgs) -> Result<Code, Failure> {
    let Some(case) = Case::parse(&args.case) else {
        let message =
            format!("`{}` is no case: expected one as `ledger lab run` prints it", args.case);
        return Err(Failure::Usage(message));
    };
    match replay(&case) {
        Ok(()) => {
            answer_with("every promise was kept\n")?;
            Ok(Code::Fine)
        }
        Err(broken) => fail(&broken),
    }
}

fn endured(args: &LabEndureArgs) -> Result<Code, Failure> {
    let start = Instant::now();
    let bar = super::progress::bar(usize::try_from(args.ops).unwrap_or(usize::MAX));
    let lived = endure(args.ops, args.seed, &mut |endured| bar.set_position(endured.ops));
    bar.finish_and_clear();
    let Endured { ops, crashes, records, looks } = match lived {
        Ok(endured) => endured,
        Err(broken) => return fail(&broken),
    };
    let (seed, seconds) = (args.seed, start.elapsed().as_secs_f64());
    if args.json {
        let line = json!({
            "type": "endured", "ops": ops, "seed": seed, "seconds": seconds, "crashes": crashes,
            "records": records, "looks": looks, "broken": 0,
        });
        print(&format!("{line}\n"))?;
    } else {
        answer_with(&format!(
            "{ops} operations, seed {seed}: {crashes} crashes, {records} records, {looks} looks of \
             an open reader, {seconds:.0} s\nevery promise was kept\n"
        ))?;
    }
    Ok(Code::Fine)
}

fn fail(broken: &Broken) -> Result<Code, Failure> {
    answer_with(&format!("a promise was broken: {broken}\n"))?;
    Ok(Code::Failed)
}

fn run(args: &LabRunArgs) -> Result<Code, Failure> {
    let start = Instant::now();
    let all = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let jobs = args.jobs.unwrap_or(all);
    let scope = Scope { ops: args.ops, seed: args.seed, jobs, device: args.device, ..Scope::WHOLE };
    let bar = super::progress::bar(usize::try_from(scope.workloads()).unwrap_or(usize::MAX));
    let limit = args.minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
    let is_late = || limit.is_some_and(|limit| start.elapsed() >= limit);
    let watch = |tally: &Tally| {
        bar.set_position(tally.workloads);
        let is_full = args.images.is_some_and(|images| tally.tried() >= images);
        if is_full || is_late() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let explored = explore(&scope, &watch);
    bar.finish_and_clear();
    let tally = match explored {
        Ok(tally) => tally,
        Err(broken) => return fail(&broken),
    };
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        print(&format!("{}\n", json_of(&tally, args, seconds)))?;
    } else {
        answer_with(&(words(&tally, args, seconds).join("\n") + "\n"))?;
    }
    match args.faults {
        None => Ok(Code::Fine),
        Some(ops) => struck(args, ops, &is_late),
    }
}

/// Let the disks fail and lie.
fn struck(args: &LabRunArgs, ops: u32, is_late: &dyn Fn() -> bool) -> Result<Code, Failure> {
    let start = Instant::now();
    let all = Scope { ops, ..Scope::WHOLE }.workloads();
    let bar = super::progress::bar(usize::try_from(all).unwrap_or(usize::MAX));
    let watch = |strikes: &Strikes| {
        bar.set_position(strikes.workloads);
        if is_late() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let strikes = strike(ops, args.seed, &watch);
    bar.finish_and_clear();
    let strikes = match strikes {
        Ok(strikes) => strikes,
        Err(broken) => return fail(&broken),
    };
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        print(&strikes_json(&strikes, ops, args.seed, seconds))?;
    } else {
        answer_with(&strikes_words(&strikes, ops, seconds))?;
    }
    Ok(Code::Fine)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn json_of(tally: &Tally, args: &LabRunArgs, seconds: f64) -> serde_json::Value {
    json!({
        "type": "lab",
        "ops": args.ops,
        "seed": args.seed,
        "device": args.device.name(),
        "seconds": seconds,
        "workloads": tally.workloads,
        "workloads_all": tally.workloads_all,
        "points": tally.points,
        "points_whole": tally.points_whole,
        "images": tally.images,
        "distinct": tally.distinct,
        "points_again": tally.points_again,
        "points_again_whole": tally.points_again_whole,
        "images_again": tally.images_again,
        "distinct_again": tally.distinct_again,
        "images_third": tally.images_third,
        "distinct_third": tally.distinct_third,
        "tried": tally.tried(),
        "examined": tally.examined(),
        "clean": tally.clean,
        "unproven": tally.unproven,
        "torn": tally.torn,
        "absent": tally.absent,
        "asked": tally.asked,
        "digest": hex(&tally.digest),
        "broken": 0,
    })
}

fn words(tally: &Tally, args: &LabRunArgs, seconds: f64) -> Vec<String> {
    vec![
        format!(
            "{} of {} histories of up to {} operations, seed {}, {}, {seconds:.0} s",
            tally.workloads,
            tally.workloads_all,
            args.ops,
            args.seed,
            args.device.name()
        ),
        format!(
            "  first crash    {} points ({} with every subset of what was not synced), {} images, \
             {} of them different",
            tally.points, tally.points_whole, tally.images, tally.distinct
        ),
        format!(
            "  second crash   {} points ({} with every subset), {} images, {} of them different",
            tally.points_again, tally.points_again_whole, tally.images_again, tally.distinct_again
        ),
        format!(
            "  third crash    {} images, {} of them different",
            tally.images_third, tally.distinct_third
        ),
        format!("  all            {} images, {} different", tally.tried(), tally.examined()),
        format!(
            "  found          {} clean, {} with an end to take over, {} torn, {} without a ledger, \
             {} that a person must judge",
            tally.clean, tally.unproven, tally.torn, tally.absent, tally.asked
        ),
        format!("  same again     {}", hex(&tally.digest)),
        "every promise was kept".to_owned(),
    ]
}

fn strikes_json(strikes: &Strikes, ops: u32, seed: u64, seconds: f64) -> String {
    let line = |(name, it): (&&str, &plan_ledger::lab::Struck)| {
        let value = json!({
            "type": "fault", "fault": name, "struck": it.faults, "images": it.images,
            "whole": it.whole, "refused": it.refused, "reported": it.reported,
            "earlier": it.earlier,
        });
        format!("{value}\n")
    };
    let all = json!({
        "type": "faults", "ops": ops, "seed": seed, "seconds": seconds,
        "workloads": strikes.workloads, "workloads_all": strikes.workloads_all,
    });
    let lines: String = strikes.kinds.iter().map(line).collect();
    format!("{lines}{all}\n")
}

fn strikes_words(strikes: &Strikes, ops: u32, seconds: f64) -> String {
    let line = |(name, it): (&&str, &plan_ledger::lab::Struck)| {
        format!("  {name:32} struck {:5} times, {:6} images\n", it.faults, it.images)
    };
    let lines: String = strikes.kinds.iter().map(line).collect();
    let Strikes { workloads, workloads_all, .. } = strikes;
    format!(
        "failing and lying disks: every call of {workloads} of {workloads_all} histories of up to \
         {ops} operations, {seconds:.0} s\n{lines}every promise was kept\n"
    )
}
