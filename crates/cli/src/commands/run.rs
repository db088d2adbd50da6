//! `ledger run`: read the plan, find or start its run, drive it, say how it ended.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::runner::{
    Marks, Options, ProcessOptions, ProcessWorkers, RunOutcome, RunSummary, StubOptions,
    StubWorkers, Workers, drive, recover, scratch_folder,
};
use crate::server::{check_name, open_in_turn, while_serving};
use plan_ledger::files::{self, PlanFile};
use plan_ledger::ledger::{Clock, Environment, Ledger, LedgerView, OpenReport, state_hash};
use plan_ledger::plan::{Ending, Glance, Micros, Named, RunId, RunStatus};

use super::args::RunArgs;
use super::exit::{Code, Failure, code_of};
use super::progress::Reporter;
use super::resume::{Next, ready, take};
use super::{harmless, json, print, say, text, waiting};

/// `ledger run`.
pub(super) fn run(args: &RunArgs) -> Result<Code, Failure> {
    let imported = files::read(&args.plan).map_err(|error| Failure::of_plan_file(&error))?;
    let name = run_name(args)?;
    check_plan(&imported, args)?;
    let environment = super::acting::environment();
    let open = || Ledger::open_or_create(&args.ledger, &environment);
    let (mut ledger, mut report) = open_in_turn(&args.ledger, open)?;
    let mut reporter = Reporter::new(args)?;
    tell_opened(&reporter, &report);
    let mut next = ready(&ledger, &name, &imported, args)?;
    let marks = Marks::new(&imported.plan, &imported.done, &imported.skipped);
    let asked = Asked { name: &name, args, marks: (!args.fresh).then_some(&marks) };
    loop {
        let (code, waits) = session(&ledger, &*environment.clock, next, asked, &mut reporter)?;
        // After a failed write the ledger cannot be closed well, and that has been said.
        match ledger.close() {
            Err(error) if code != Code::Machine => return Err(error.into()),
            _ => {}
        }
        let Some(Waits { run, seen, until, summary }) = waits else { return Ok(code) };
        let opened = waiting::wait(&args.ledger, &environment, (seen, until), &mut reporter)?;
        let Some(opened) = opened else {
            reporter.finish();
            print(&summary)?;
            return Ok(code);
        };
        (ledger, report) = opened;
        report.notes.iter().for_each(|note| say(note));
        // One that somebody's answer has ended is driven, too: its summary says how.
        next = Next::Drive(run);
    }
}

/// What the command line and the plan file say about a run.
#[derive(Clone, Copy)]
struct Asked<'a> {
    name: &'a str,
    args: &'a RunArgs,
    /// What the file marks as done or dropped, if that is to count.
    marks: Option<&'a Marks>,
}

/// A run that waits for somebody.
struct Waits {
    run: RunId,
    /// The last record when it was last looked what there is to do.
    seen: u64,
    /// Until when at most.
    until: Option<Micros>,
    /// How it stands, for when it is stopped before anybody comes.
    summary: String,
}

/// Drive a run until nothing is left to deal. What it comes to; with `--wait`, for whom it waits.
fn session(
    ledger: &Ledger,
    clock: &dyn Clock,
    next: Next,
    asked: Asked<'_>,
    reporter: &mut Reporter,
) -> Result<(Code, Option<Waits>), Failure> {
    let Asked { name, args, marks } = asked;
    let run = match next {
        Next::Ended(_, ending) => return Ok((tell_ended(reporter, name, ending), None)),
        Next::Drive(run) => run,
    };
    // Before others are served: a claim from outside must not be faster.
    take(ledger, run, name, marks)?;
    let work = || drive_run(ledger, clock, run, asked, reporter);
    let summary = while_serving(ledger, &args.ledger, say, work)?;
    if let (RunOutcome::Waiting(items), true) = (&summary.outcome, args.wait) {
        let until = waiting::due(ledger, run)?;
        reporter.waits(&summary.run, items, until, &args.ledger);
        let (seen, summary) = (summary.seen, rendered(ledger, &summary, args)?);
        return Ok((Code::Waiting, Some(Waits { run, seen, until, summary })));
    }
    reporter.finish();
    Ok((tell_summary(ledger, &summary, args)?, None))
}

/// The run's name: as asked for, or the file's name without its ending.
fn run_name(args: &RunArgs) -> Result<String, Failure> {
    let name = match &args.run {
        Some(name) => name.clone(),
        None => args.plan.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    check_name(Named::Run, &name)?;
    Ok(name)
}

/// What can be known to go wrong is said before anything is written.
fn check_plan(imported: &PlanFile, args: &RunArgs) -> Result<(), Failure> {
    check_worker(imported, args).or_else(|failure| match is_over(args) {
        Some(()) => Ok(()),
        None => Err(failure),
    })
}

/// Whether the run has ended and is to stay so: then nobody need be there for its steps.
fn is_over(args: &RunArgs) -> Option<()> {
    let name = run_name(args).ok().filter(|_| !args.replan && !args.retry_failed)?;
    let view = LedgerView::open(&args.ledger, &Environment::system()).ok()?;
    let state = view.fold(u64::MAX).ok()?.state;
    matches!(state.run_named(&name)?.status, RunStatus::Ended(_)).then_some(())
}

/// Somebody must be there for every step that will be dealt.
fn check_worker(imported: &PlanFile, args: &RunArgs) -> Result<(), Failure> {
    if args.stub || args.worker.as_ref().is_some_and(|worker| !worker.trim().is_empty()) {
        return Ok(());
    }
    let plan = &imported.plan;
    let is_dealt = |id: &String| {
        args.fresh || !(imported.done.contains_key(id) || imported.skipped.contains_key(id))
    };
    let orphan = plan
        .steps
        .iter()
        .find(|step| plan.with_defaults(step).command.is_none() && is_dealt(&step.id));
    match orphan {
        None => Ok(()),
        Some(step) => Err(Failure::Usage(format!(
            "{}: step `{}` has no command of its own; say who does it with --worker CMD, or try \
             the plan for free with --stub",
            args.plan.display(),
            step.id
        ))),
    }
}

fn drive_run(
    ledger: &Ledger,
    clock: &dyn Clock,
    run: RunId,
    Asked { args, marks, .. }: Asked<'_>,
    reporter: &mut Reporter,
) -> Result<RunSummary, Failure> {
    let folder = absolute(&args.ledger)?;
    // This process holds the ledger alone, so whatever a runner hosted in another run is dead
    // too, and must not use up the caps.
    let state = ledger.state()?;
    let is_flying = |(id, glance): &(RunId, Cow<'_, Glance>)| *id != run && glance.in_flight > 0;
    for (other, _) in state.runs.glances().filter(is_flying) {
        let worker = None;
        let mut workers =
            ProcessWorkers::new(ProcessOptions { ledger: folder.clone(), run: other, worker });
        recover(ledger, other, &mut workers, reporter)?;
    }
    let mut workers: Box<dyn Workers> = if args.stub {
        let scratch = Some(scratch_folder(&folder, run));
        Box::new(StubWorkers::new(StubOptions { tally: args.tally.clone(), scratch }))
    } else {
        let worker = args.worker.clone();
        let workers = ProcessWorkers::new(ProcessOptions { ledger: folder, run, worker });
        let workers = workers.with_helpers(args.helpers.helpers());
        Box::new(workers.with_context(args.helpers.context()))
    };
    // With --wait, deadlines are waited for without the ledger: see `waiting`.
    let options = Options { max_parallel: usize::from(args.max_parallel), marks };
    Ok(drive(ledger, clock, run, workers.as_mut(), reporter, options)?)
}

/// The ledger's folder by a name that holds from every working folder.
fn absolute(ledger: &Path) -> Result<PathBuf, Failure> {
    let error = |error| plan_ledger::error::Error::io("find the ledger's folder", ledger, error);
    Ok(ledger.canonicalize().map_err(error)?)
}

fn tell_opened(reporter: &Reporter, report: &OpenReport) {
    report.notes.iter().for_each(|note| say(note));
    reporter.note_for_programs(&json!({
        "type": "opened", "created": report.created, "verdict": report.verdict,
        "last_seq": report.last_seq, "notes": report.notes,
    }));
}

/// A run that has ended, when nothing was asked that would change that.
fn tell_ended(reporter: &Reporter, name: &str, ending: Ending) -> Code {
    let (line, word, code) = match ending {
        Ending::Done => ("is done: there is nothing left to deal", "done", Code::Fine),
        Ending::Failed => (
            "has failed: add --retry-failed to try the failed steps again, or change the plan and \
             add --replan",
            "failed",
            Code::Failed,
        ),
        Ending::Cancelled => {
            ("was cancelled: start another one with --run NEW", "cancelled", Code::Failed)
        }
        Ending::Aborted => {
            ("was aborted: start another one with --run NEW", "aborted", Code::Failed)
        }
    };
    say(&format!("run {name} {line}"));
    reporter.note_for_programs(&json!({ "type": "ended", "run": name, "ending": word }));
    code
}

/// A run's summary, as it is printed.
fn rendered(ledger: &Ledger, summary: &RunSummary, args: &RunArgs) -> Result<String, Failure> {
    Ok(if args.json {
        // The state and its number from one snapshot: nobody else writes, but nobody has to know.
        let state = ledger.state()?;
        format!("{}\n", json::summary(summary, state.seq, state_hash(&state)))
    } else {
        harmless(&text::summary(summary, &args.ledger))
    })
}

fn tell_summary(ledger: &Ledger, summary: &RunSummary, args: &RunArgs) -> Result<Code, Failure> {
    print(&rendered(ledger, summary, args)?)?;
    Ok(match &summary.outcome {
        RunOutcome::Done => Code::Fine,
        RunOutcome::Failed | RunOutcome::Cancelled | RunOutcome::Aborted => Code::Failed,
        RunOutcome::Waiting(_) | RunOutcome::Interrupted => Code::Waiting,
        RunOutcome::Stopped { error, .. } => {
            say(&error.to_string());
            code_of(error)
        }
    })
}
