//! `ledger run`: reads a plan, finds or starts its run, drives it, and reports how it ended.
//!
//! The process has the writer lock while it drives the run, and serves the commands of other
//! processes. With `--wait` it releases the lock while the run waits for people.

mod args;
mod helpers;
#[cfg(feature = "store")]
mod holding;
mod notify;
mod only_stubs;
mod plan_source;
mod prepare;
mod same_work;
mod ticks;
mod wait;

pub(crate) use args::RunArgs;
pub(crate) use helpers::read_answer;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::plan_draft;
use plan_ledger::plan::{Criterion, PlanDraft, RunOverview};
use plan_ledger::{
    ContentHash, Ending, Environment, Error, Ledger, LedgerView, OpenReport, Rejection, Run, RunId,
    RunStatus, Step, StepNumber, Timestamp, state_hash,
};
use plan_ledger_files::{PlanFile, Reading};

use crate::commands::drill::LastDrill;
use crate::commands::resume::ServiceStarts;
#[cfg(feature = "store")]
use crate::commands::store::held::Held;
use crate::json::line_text;
use crate::options::plan_file::{Approval, Given, ReadLine, approve, lacks, print_read_report};
use crate::options::worker_program;
use crate::options::{create_parents, environment};
use crate::output::{
    Audience, Code, Failure, RunReporter, SummaryLine, code_of, is_quiet, print_error,
    print_message, print_note, print_raw, shell_command, summary_text, wrapped_text,
};
use crate::protocol::{StepName, TrustsLine, counted};
#[cfg(not(feature = "store"))]
use crate::runner::Fence;
use crate::runner::{
    CommandChecks, ImportedStatuses, JudgeMark, LeftWorkers, Options, ProcessOptions,
    ProcessWorkers, RunOutcome, RunSummary, Session, StubWorkers, TakeOver, Workers, drive,
    recover, release_dead_claims, take_over_dead_claims,
};
use crate::server::{
    AgentSession, LastRunner, check_root, expect_not_gone, expect_outside, expect_person_for,
    expect_unbound, gone_error, keep_root, ledger_id, open_in_turn, while_serving,
};

#[cfg(feature = "store")]
use holding::{Holding, Wait};
use notify::{Notifier, NotifyingObserver, Ticking};
use only_stubs::expect_only_stubs;
use plan_source::PlanSource;
use prepare::{OPERATOR, PreparedRun, author_in_shell, prepare, take_over_marks};
use ticks::Ticks;
use wait::{next_due, wait_for_change};

pub(crate) fn run(args: &RunArgs) -> Result<Code, Failure> {
    // First: what is wrong with the plan would name commands that are refused, too.
    expect_outside(std::process::id(), &args.ledger)?;
    let (source, draft) = approved_source(args)?;
    let name = source.name.clone();
    let code = run_source(args, &source, draft)?;
    // A runner that stopped at a failed write is started again by its service, if it has one.
    if code != Code::Io
        && let Some(runner) = LastRunner::this(&name, &args.ledger, &*environment().clock)
    {
        ServiceStarts::forget(&runner);
    }
    Ok(code)
}

/// The plan, once a person has approved its reading and its commands.
fn approved_source(args: &RunArgs) -> Result<(PlanSource, PlanDraft), Failure> {
    let mut source = PlanSource::find(args)?;
    loop {
        check_plan(&source, args)?;
        // Before the lock is taken: it may take long.
        let draft = plan_draft(&source.plan.plan).map_err(Error::from)?;
        match announce(&source, args)? {
            None => return Ok((source, draft)),
            Some(reading) => source = source.with_reading(args, reading)?,
        }
    }
}

fn run_source(args: &RunArgs, source: &PlanSource, draft: PlanDraft) -> Result<Code, Failure> {
    let (imported, name) = (&source.plan, source.name.as_str());
    let environment = environment();
    create_parents(&args.ledger)?;
    args.route.expect_permitted(&args.ledger)?;
    if args.retry_failed {
        expect_person_for("--retry-failed", &args.ledger, OPERATOR)?;
    }
    if args.helpers.approves_versions() {
        expect_person_for("--approve auto", &args.ledger, OPERATOR)?;
    }
    #[cfg(feature = "store")]
    if args.store.is_given() {
        let Some(held) = holding::open(&args.store, &args.ledger, &environment)? else {
            return Ok(Code::Waiting);
        };
        return run_held(held, args, source, draft);
    }
    expect_unbound(&args.ledger, &environment, "ledger run")?;
    if let Some(text) = expect_not_gone(&args.ledger)? {
        print_message(&text);
    }
    let open = || Ledger::open_or_create(&args.ledger, &environment);
    let (mut ledger, mut report) = open_in_turn(&args.ledger, open)?;
    let mut reporter = report_ledger(&ledger, &report, args)?;
    let mut next = begin(&ledger, (source, draft), args, &reporter)?;
    let _mark = judge_mark(next, args);
    let mut notifier =
        args.notify.as_ref().map(|command| Notifier::new(command, name, &args.ledger));
    let marks = ImportedStatuses::new(&imported.plan, &imported.done, &imported.skipped)
        .imported_by(author_in_shell());
    let request = RunRequest { name, args, marks: (!args.fresh).then_some(&marks) };
    let mut ticks = Ticks::of(source, args);
    // All sessions of this process: with --wait there can be several.
    let mut done = Session::default();
    loop {
        let observer = NotifyingObserver {
            reporter: &mut reporter,
            notifier: notifier.as_mut(),
            ticks: ticks.as_mut().map(|ticks| Ticking { ticks, ledger: &ledger }),
            #[cfg(feature = "store")]
            holding: None,
        };
        let ended = session(&ledger, next, request, observer, &mut done);
        keep_root(&args.ledger, &ledger);
        let (code, waiting) = ended?;
        // After a failed write the close also fails; the failure was already reported.
        match ledger.close() {
            Err(error) if code != Code::Io => return Err(error.into()),
            _ => {}
        }
        let Some(WaitingRun { run, seen, until, summary }) = waiting else { return Ok(code) };
        let opened = wait_for_change(&args.ledger, &environment, seen, until, &mut reporter)?;
        let Some(opened) = opened else {
            reporter.finish();
            print_raw(&summary)?;
            return Ok(code);
        };
        (ledger, report) = opened;
        report.notes.iter().for_each(|note| print_message(note));
        // An answer may have ended the run: then driving it only prints its summary.
        next = PreparedRun::Active(run);
    }
}

/// Reports the findings of opening a ledger.
fn report_ledger(
    ledger: &Ledger,
    report: &OpenReport,
    args: &RunArgs,
) -> Result<RunReporter, Failure> {
    check_root(&args.ledger, ledger, &environment())?;
    let audience = Audience::new(args.json.0, is_quiet());
    let kill_at = args.kill_at.map(StepNumber);
    let reporter = RunReporter::new(audience, kill_at, &args.ledger)?;
    report_opened(&reporter, report);
    Ok(reporter)
}

/// Finds or starts the run of the plan file, and reports facts that a person should know before it
/// is driven.
fn begin(
    ledger: &Ledger,
    (source, draft): (&PlanSource, PlanDraft),
    args: &RunArgs,
    reporter: &RunReporter,
) -> Result<PreparedRun, Failure> {
    let (imported, name) = (&source.plan, source.name.as_str());
    if !imported.format.is_native() {
        reporter.print_if_json(&ReadLine::from(imported));
    }
    if args.is_serialized() {
        print_note(
            "one worker at a time, because workers share this git checkout; --max-parallel N starts more",
        );
    }
    if args.stub {
        expect_only_stubs(ledger, source, args)?;
    }
    let is_new = ledger.state()?.run_named(name).is_none();
    if is_new {
        report_night(imported, draft.hash(), args);
    }
    let next = prepare(ledger, source, draft, args)?;
    if is_new && let Some(run) = ledger.state()?.run_named(name) {
        report_unset(run, &args.ledger);
    }
    // Only now: a command line that was rejected, or that starts nothing, must not replace the one that
    // started the run.
    if matches!(next, PreparedRun::Active(_)) {
        keep_runner(name, args, &environment());
        // If a worker removes the ledger, it is known that it was there.
        keep_root(&args.ledger, ledger);
    }
    report_trust(ledger, next, imported, args, reporter)?;
    Ok(next)
}

/// Marks this process as the judge of its run, also while it waits. Stub workers check nothing.
fn judge_mark(next: PreparedRun, args: &RunArgs) -> Option<JudgeMark> {
    let PreparedRun::Active(run) = next else { return None };
    match command_checks(args) {
        CommandChecks::Approved => JudgeMark::set(&args.ledger, Some(run)),
        CommandChecks::Simulated | CommandChecks::Never => None,
    }
}

/// The checking commands that this process runs.
fn command_checks(args: &RunArgs) -> CommandChecks {
    if args.stub {
        CommandChecks::Simulated
    } else if AgentSession::of_environment().is_some() {
        CommandChecks::Never
    } else {
        CommandChecks::Approved
    }
}

/// The values that the preconditions and steps of a new run need and that no step sets: they are asked for first.
fn report_unset(run: &Run, ledger: &Path) {
    let numbers = run.active_version().map_or(&[][..], |version| &version.numbers);
    let of_step = |number: &StepNumber| {
        let count = run.plan_step(*number).map_or(0, |step| step.preconditions().count());
        let places = 0..u32::try_from(count).unwrap_or(0);
        places.flat_map(|place| run.unset_by_steps(*number, place)).collect::<Vec<_>>()
    };
    let of_preconditions = numbers.iter().flat_map(of_step);
    let of_preconditions = of_preconditions.map(|name| (name, "a precondition reads".to_owned()));
    let of_inputs = numbers.iter().flat_map(|number| {
        let what = format!("{} takes as an input", StepName::of(run, *number));
        run.unset_inputs(*number).into_iter().map(move |name| (name, what.clone()))
    });
    let mut unset = BTreeMap::new();
    for (name, what) in of_preconditions.chain(of_inputs) {
        unset.entry(name).or_insert(what);
    }
    for (name, what) in unset {
        let set = shell_command("set", ledger, &[&name, "VALUE", "--run", &run.name]);
        let text = format!("run {}: no step sets `{name}`, which {what}: `{set}`", run.name);
        print_message(&text);
    }
}

/// Warnings for a person before agents work on a plan alone. No warnings without agents.
fn report_night(imported: &PlanFile, hash: ContentHash, args: &RunArgs) {
    if !args.has_worker() || is_quiet() || args.json.0 {
        return;
    }
    let given = Given {
        timeout: args.limits.ends_workers(),
        on_unknown: args.on_unknown.is_some(),
        ..Given::default()
    };
    for line in lacks(&imported.plan, given) {
        print_message(&line);
    }
    if LastDrill::of(hash).is_none() {
        let drill =
            shell_command("drill", Path::new(".ledger"), &[&args.plan.display().to_string()]);
        print_message(&format!(
            "the plan was never drilled; `{drill}` kills and resumes a run of it, at no cost"
        ));
    }
}

/// Drives the run of a ledger that this process holds in a store. While the run waits for people, the process keeps
/// the ledger and serves it.
#[cfg(feature = "store")]
fn run_held(
    held: Held,
    args: &RunArgs,
    source: &PlanSource,
    draft: PlanDraft,
) -> Result<Code, Failure> {
    let (imported, name) = (&source.plan, source.name.as_str());
    let Held { ledger, report, log } = held;
    let mut reporter = report_ledger(&ledger, &report, args)?;
    let mut holding = Holding::start(log, &args.ledger)?;
    let json = holding.log().json();
    reporter.print_if_json(&json);
    reporter.message_unless_json(&format!("the log is in {}", json.text()));
    let mut notifier =
        args.notify.as_ref().map(|command| Notifier::new(command, name, &args.ledger));
    let marks = ImportedStatuses::new(&imported.plan, &imported.done, &imported.skipped)
        .imported_by(author_in_shell());
    let request = RunRequest { name, args, marks: (!args.fresh).then_some(&marks) };
    let mut ticks = Ticks::of(source, args);
    let drive = || {
        let mut next = begin(&ledger, (source, draft), args, &reporter)?;
        let _mark = judge_mark(next, args);
        let mut done = Session::default();
        loop {
            let observer = NotifyingObserver {
                reporter: &mut reporter,
                notifier: notifier.as_mut(),
                ticks: ticks.as_mut().map(|ticks| Ticking { ticks, ledger: &ledger }),
                holding: Some(&mut holding),
            };
            let (code, waiting) = session(&ledger, next, request, observer, &mut done)?;
            let Some(WaitingRun { run, seen, until, summary }) = waiting else { return Ok(code) };
            if !holding.wait(&ledger, &Wait { seen, until }, &mut reporter)? {
                reporter.finish();
                print_raw(&summary)?;
                return Ok(code);
            }
            next = PreparedRun::Active(run);
        }
    };
    let driven = drive();
    keep_root(&args.ledger, &ledger);
    holding.finish(ledger, driven)
}

/// The run that the command line asks for.
#[derive(Clone, Copy)]
struct RunRequest<'a> {
    name: &'a str,
    args: &'a RunArgs,
    /// The steps that the file marks as done or dropped; `None` with `--fresh`.
    marks: Option<&'a ImportedStatuses>,
}

/// A run that waits for people or deadlines.
struct WaitingRun {
    run: RunId,
    /// The last record before the last check for work.
    seen: u64,
    /// When its next timer is due.
    until: Option<Timestamp>,
    /// Its summary, to print if a signal ends the wait.
    summary: String,
}

/// Drives a run until there is nothing left to dispatch. Returns the exit code and, with `--wait`,
/// the run to wait for.
fn session(
    ledger: &Ledger,
    next: PreparedRun,
    request: RunRequest<'_>,
    mut observer: NotifyingObserver<'_>,
    done: &mut Session,
) -> Result<(Code, Option<WaitingRun>), Failure> {
    let RunRequest { name, args, marks } = request;
    let run = match next {
        PreparedRun::Ended(ending) => {
            // Its runner may have been killed before it wrote the last marks.
            observer.tick();
            return Ok((report_ended(observer.reporter, name, ending), None));
        }
        PreparedRun::Active(run) => run,
    };
    // Before other processes are served: they must not claim these steps first.
    take_over_marks(ledger, run, name, marks)?;
    observer.tick();
    let work = || drive_run(ledger, run, request, &mut observer);
    let mut summary = while_serving(ledger, &args.ledger, print_message, work)?;
    done.add(&summary.session);
    summary.session = *done;
    observer.tick();
    let NotifyingObserver { reporter, mut notifier, .. } = observer;
    if let (RunOutcome::Waiting(items), true) = (&summary.outcome, args.wait) {
        let until = next_due(ledger, run)?;
        let is_new = reporter.report_waiting(&summary.run, items, until, &args.ledger);
        if let Some(notifier) = notifier.as_mut().filter(|_| is_new) {
            notifier.ended(&summary);
        }
        let (seen, summary) = (summary.seen, rendered(ledger, &summary, args)?);
        return Ok((Code::Waiting, Some(WaitingRun { run, seen, until, summary })));
    }
    reporter.finish();
    if let Some(notifier) = &mut notifier {
        notifier.ended(&summary);
    }
    let code = report_summary(ledger, &summary, args)?;
    #[cfg(feature = "store")]
    if let RunOutcome::Stopped { error, .. } = summary.outcome
        && args.store.is_given()
    {
        // Whether another process took over is found out later.
        return Err(error.into());
    }
    Ok((code, None))
}

/// Rejects a plan that cannot run, before anything is written.
fn check_plan(source: &PlanSource, args: &RunArgs) -> Result<(), Failure> {
    check_inputs(source, args)?;
    check_kill_at(source, args)?;
    check_worker(source, args).or_else(|failure| {
        if has_ended(&source.name, args) == Some(true) { Ok(()) } else { Err(failure) }
    })
}

/// Rejects a step at which the runner would never be killed. Later versions of the plan may have more steps.
fn check_kill_at(source: &PlanSource, args: &RunArgs) -> Result<(), Failure> {
    let steps = u32::try_from(source.plan.plan.steps.len()).unwrap_or(u32::MAX);
    match args.kill_at {
        Some(number) if number > steps && !has_started(&source.name, args) => {
            let (file, steps) = (args.plan.display(), counted(steps.into(), "step"));
            Err(Failure::Usage(format!("--kill-at {number}: {file} has {steps}")))
        }
        _ => Ok(()),
    }
}

/// Whether the run has started.
fn has_started(name: &str, args: &RunArgs) -> bool {
    let found = || {
        let view = LedgerView::open(&args.ledger, &Environment::system()).ok()?;
        Some(view.fold_recent().ok()?.state.names.contains_key(name))
    };
    found() == Some(true)
}

/// Whether the run has ended and no option reopens it: then its steps need no worker.
fn has_ended(name: &str, args: &RunArgs) -> Option<bool> {
    if args.replan || args.retry_failed {
        return None;
    }
    let view = LedgerView::open(&args.ledger, &Environment::system()).ok()?;
    let state = view.fold(u64::MAX).ok()?.state;
    Some(matches!(state.run_named(name)?.status, RunStatus::Ended(_)))
}

/// Rejects a plan with an input that has no value, unless its run has started.
fn check_inputs(source: &PlanSource, args: &RunArgs) -> Result<(), Failure> {
    let plan = &source.plan.plan;
    let given = args.inputs.values(plan)?;
    let missing = plan.missing_inputs(|name| given.contains_key(name));
    if missing.is_empty() || has_started(&source.name, args) {
        return Ok(());
    }
    Err(Error::from(Rejection::MissingInputs(missing)).into())
}

/// Rejects a plan with a step that has neither a command nor a worker.
fn check_worker(source: &PlanSource, args: &RunArgs) -> Result<(), Failure> {
    if args.stub {
        return Ok(());
    }
    let of_owners = args.workers_for();
    for worker in of_owners.values() {
        worker_program::check(worker)?;
    }
    if let Some(worker) = args.worker.as_ref().filter(|worker| !worker.trim().is_empty()) {
        return worker_program::check(worker);
    }
    let imported = &source.plan;
    let (plan, route) = (&imported.plan, args.route());
    let is_open = |id: &String| {
        args.fresh || !(imported.done.contains_key(id) || imported.skipped.contains_key(id))
    };
    // The answer of a person completes a step with options in its gate.
    let is_decision = |step: &Step| step.gate.as_ref().is_some_and(|gate| !gate.options.is_empty());
    let needs_worker = |step: &&Step| {
        let with_defaults = plan.with_defaults(step);
        let owner = with_defaults.owner.as_ref();
        with_defaults.command.is_none()
            && !owner.is_some_and(|owner| of_owners.contains_key(owner))
            && route.admits_owner(plan.owner_of(step))
            && is_open(&step.id)
            && !is_decision(step)
    };
    match plan.steps.iter().find(needs_worker) {
        None => Ok(()),
        Some(step) => Err(Failure::Usage(format!(
            "{}: step `{}` has no command\nhint: {}",
            source.place(args),
            step.id,
            source.worker_hint(args)
        ))),
    }
}

fn drive_run(
    ledger: &Ledger,
    run: RunId,
    RunRequest { args, marks, .. }: RunRequest<'_>,
    observer: &mut NotifyingObserver<'_>,
) -> Result<RunSummary, Failure> {
    let folder = absolute(&args.ledger)?;
    // This process has the lock, so the other runs have no runner. Recover the attempts that their
    // runners left, because these would use up the caps; a worker that is still at work is left to
    // its own run.
    let state = ledger.state()?;
    let is_in_flight =
        |(id, overview): &(RunId, Cow<'_, RunOverview>)| *id != run && overview.in_flight > 0;
    #[cfg(feature = "store")]
    let fence = observer.holding.as_mut().map(|holding| holding.guard(&folder, run)).transpose()?;
    #[cfg(not(feature = "store"))]
    let fence: Option<Fence> = None;
    let shared = |workers: ProcessWorkers| match &fence {
        Some(fence) => workers.shared(fence.clone()),
        None => workers,
    };
    for (other, _) in state.runs.overviews().filter(is_in_flight) {
        let worker = None;
        let mut workers = shared(ProcessWorkers::new(ProcessOptions {
            ledger: folder.clone(),
            run: other,
            worker,
        }));
        recover(ledger, other, &mut workers, observer, LeftWorkers::Leave)?;
        workers.leave_adopted();
    }
    release_dead_claims(ledger, &folder, observer)?;
    let mut workers: Box<dyn Workers> = if args.stub {
        Box::new(StubWorkers::default())
    } else {
        let worker = args.worker.clone();
        let workers =
            shared(ProcessWorkers::new(ProcessOptions { ledger: folder.clone(), run, worker }));
        let workers = workers.with_helpers(args.helpers.helpers(args.yes)?);
        let workers = workers.with_owners(args.workers_for());
        let workers = workers.with_limits(args.limits.limits());
        Box::new(workers.with_context(args.helpers.context()))
    };
    // With --wait, the process waits for deadlines without the lock: see `wait`.
    let guards = args.guards.guards();
    let route = args.route();
    let on_stale = args.on_stale;
    let max_parallel = args.max_parallel();
    let take_over: Option<TakeOver> = Some(take_over_dead_claims);
    let left_workers = if args.kill_orphans { LeftWorkers::Kill } else { LeftWorkers::Adopt };
    let route = &route;
    let checks = command_checks(args);
    let options =
        Options { max_parallel, marks, route, checks, guards, on_stale, left_workers, take_over };
    Ok(drive(ledger, ledger, run, workers.as_mut(), observer, options)?)
}

/// Keeps the command line of this runner for `ledger resume`. The run does not depend on it.
fn keep_runner(name: &str, args: &RunArgs, environment: &Environment) {
    let Ok(view) = LedgerView::open(&args.ledger, environment) else { return };
    let Some(id) = ledger_id(view.log()) else { return };
    let Some(runner) = LastRunner::this(name, &args.ledger, &*environment.clock) else { return };
    if let Err(error) = runner.keep(&id) {
        print_message(&format!("`ledger resume` will not know this command line: {error}"));
    }
}

/// The absolute path of the ledger's folder.
fn absolute(ledger: &Path) -> Result<PathBuf, Failure> {
    let failed = |error| Error::io("find the ledger's folder", ledger, error);
    Ok(ledger.canonicalize().map_err(failed)?)
}

fn report_opened(reporter: &RunReporter, report: &OpenReport) {
    report.notes.iter().for_each(|note| print_message(note));
    let OpenReport { created, verdict, notes, last_seq, .. } = report;
    reporter.print_if_json(&OpenedLine { created: *created, last_seq: *last_seq, notes, verdict });
}

/// Reports how a file of another tool was read, and asks about its reading and its commands, before anything is
/// written; returns another reading if a person selects one. Even with `--quiet` it reports the parts that were not
/// read.
fn announce(source: &PlanSource, args: &RunArgs) -> Result<Option<Reading>, Failure> {
    let imported = &source.plan;
    if imported.format.is_native() {
        return Ok(None);
    }
    let is_asked = !source.is_read && !args.stub;
    let is_plain = imported.report.is_empty() && imported.commands.is_empty() && !is_asked;
    if !is_quiet() || !is_plain {
        print_read_report(&args.plan, imported);
    }
    // Stub workers execute nothing.
    if args.stub {
        return Ok(None);
    }
    let is_open = |id: &String| {
        args.fresh || !(imported.done.contains_key(id) || imported.skipped.contains_key(id))
    };
    let (plan, ledger, yes) = (args.plan.as_path(), args.ledger.as_path(), args.yes);
    approve(imported, is_open, Approval { plan, ledger, yes, is_read: source.is_read })
}

/// Reports before a step is dispatched which checks the run takes on the worker's word, and in a
/// drill that nothing is checked.
fn report_trust(
    ledger: &Ledger,
    next: PreparedRun,
    imported: &PlanFile,
    args: &RunArgs,
    reporter: &RunReporter,
) -> Result<(), Failure> {
    let PreparedRun::Active(run) = next else { return Ok(()) };
    let state = ledger.state()?;
    let Some(run) = state.runs.get(&run) else { return Ok(()) };
    let texts = run.plan().map_or(0, |plan| {
        let criteria = plan.header().test_criteria.iter();
        criteria.filter(|each| matches!(each, Criterion::Text(_))).count()
    });
    if args.stub {
        if texts > 0 {
            let text = "a drill: stub workers do nothing, and the plan's criteria pass unchecked";
            print_note(&format!("run {}: {text}", run.name));
        }
        return Ok(());
    }
    let is_marked = |id: &str| {
        !args.fresh && (imported.done.contains_key(id) || imported.skipped.contains_key(id))
    };
    let line = TrustsLine::of(run, is_marked);
    let Some(text) = line.text() else { return Ok(()) };
    reporter.print_if_json(&line);
    print_note(&text);
    Ok(())
}

/// The result of opening the ledger, the first line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct OpenedLine<'a> {
    /// Whether the ledger was created.
    created: bool,
    /// Its last record.
    last_seq: u64,
    /// Unusual facts, for people.
    notes: &'a [String],
    /// The verdict about the end of the log.
    verdict: &'a str,
}

/// A run that had ended before.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct EndedLine<'a> {
    /// How it ended.
    ending: Ending,
    /// The run.
    run: &'a str,
}

/// Reports a run that had ended before.
fn report_ended(reporter: &RunReporter, name: &str, ending: Ending) -> Code {
    let (line, code) = match ending {
        Ending::Done => ("is done: there is nothing left to dispatch", Code::Success),
        Ending::Failed => (
            "has failed\nhint: add --retry-failed to retry the failed steps, or change the plan and \
             add --replan",
            Code::Failed,
        ),
        Ending::Cancelled => {
            ("was cancelled\nhint: start another run with --run NEW", Code::Failed)
        }
        Ending::Aborted => ("was aborted\nhint: start another run with --run NEW", Code::Failed),
    };
    print_message(&format!("run {name} {line}"));
    reporter.print_if_json(&EndedLine { ending, run: name });
    code
}

/// A run's summary, as JSON or as text.
fn rendered(ledger: &Ledger, summary: &RunSummary, args: &RunArgs) -> Result<String, Failure> {
    Ok(if args.json.0 {
        // The state and its sequence number must belong together.
        let state = ledger.state()?;
        line_text(&SummaryLine::of(summary, state.seq, state_hash(&state)))
    } else {
        wrapped_text(&summary_text(summary, &args.ledger))
    })
}

fn report_summary(ledger: &Ledger, summary: &RunSummary, args: &RunArgs) -> Result<Code, Failure> {
    print_raw(&rendered(ledger, summary, args)?)?;
    Ok(match &summary.outcome {
        RunOutcome::Done => Code::Success,
        RunOutcome::Failed | RunOutcome::Cancelled | RunOutcome::Aborted => Code::Failed,
        RunOutcome::Waiting(_) | RunOutcome::Interrupted => Code::Waiting,
        RunOutcome::Stopped { error, .. } => {
            // With a store, it is printed with the process that took over.
            #[cfg(feature = "store")]
            if args.store.is_given() {
                return Ok(code_of(error));
            }
            // If the ledger is lost, its last record is known.
            keep_root(&args.ledger, ledger);
            print_error(&gone_error(error).as_ref().unwrap_or(error).to_string());
            code_of(error)
        }
    })
}
