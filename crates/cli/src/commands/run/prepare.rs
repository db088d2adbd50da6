//! Finds the run of a plan file and prepares it: starts it, resumes it, proposes a new plan version
//! or retries failed steps.

use std::path::Path;

use plan_ledger::internals::ledger::{commands_hash, expect_valid};
use plan_ledger::plan::{CompactPlan, Decider, PauseCause, PlanDraft, Review, diff};
use plan_ledger::{
    ApprovalPolicy, Command, ContentHash, Ending, Json, Ledger, OnFailure, Plan, Rejection, Run,
    RunId, RunPolicy, RunStatus, State, TextPolicy, plan_hash,
};
use plan_ledger_files::{PlanFile, PlanFormat, as_written_commands};

use crate::output::{Failure, option, print_message, shell_command};
use crate::protocol::{commands_of, unapproved_commands};
use crate::requests::Actor;
use crate::runner::{ImportedStatuses, approval_here, import_statuses};
use crate::server::{AgentSession, agents_may_decide, expect_outside, expect_person_for};

use super::args::RunArgs;
use super::plan_source::{NoPlanOfFile, PlanSource};
use super::same_work::{is_same_open_work, is_same_work, is_superseded};

/// The author of decisions by an option on the command line.
pub(super) const OPERATOR: &str = "operator";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreparedRun {
    /// It may have steps to dispatch.
    Active(RunId),
    /// It has ended, and no option reopens it.
    Ended(Ending),
}

/// Finds or starts the run and prepares it.
pub(super) fn prepare(
    ledger: &Ledger,
    source: &PlanSource,
    draft: PlanDraft,
    args: &RunArgs,
) -> Result<PreparedRun, Failure> {
    let (imported, name) = (&source.plan, source.name.as_str());
    let policy = policy(imported.format, args);
    let state = ledger.state()?;
    let run = state.run_named(name);
    expect_valid(&state)?;
    let draft = draft.with_provenance(source.provenance.clone());
    // The commands of a person's file are approved with the version that it becomes.
    let of_file = commands_hash(&imported.plan).filter(|_| may_approve(args));
    let draft = draft.with_commands(of_file.map(|hash| approval_here(hash, OPERATOR)));
    let Some(run) = run else {
        if let Some(other) = open_run_of_same_plan(&state, imported) {
            print_message(&format!(
                "run {name} is new, although run {other} has a plan with this title and has not \
                 ended: to continue that run, stop this one and add {} --replan",
                option("--run", &other)
            ));
        }
        let inputs = args.inputs.values(&imported.plan)?;
        let inputs = inputs.iter().map(|(name, value)| (name.clone(), Json::new(value))).collect();
        let run = ledger.start_run_of(name, draft, policy, inputs)?;
        set_failure_settings(ledger, run, args)?;
        return Ok(PreparedRun::Active(run));
    };
    for (input, value) in args.inputs.values(&imported.plan)? {
        if run.variables.get(&input).is_none_or(|variable| variable.value.value() != value) {
            print_message(&format!(
                "run {name}: --set {input} is ignored: the run has started, and {input} is a variable \
                 (`ledger set`)"
            ));
        }
    }
    if args.text.is_some() && run.policy.text != policy.text {
        print_message(&format!(
            "run {name}: --text is ignored: the run was started with another policy"
        ));
    }
    let hash = draft.hash();
    let is_exact = source.from_ledger.is_some()
        || run.active_version().is_some_and(|version| version.hash == hash);
    let is_same_work = is_exact || is_same_work(run.plan().map(CompactPlan::decode), imported);
    // With --replan, a finished step is changed deliberately. An earlier version is reported as
    // such.
    let may_differ = !args.replan && !is_superseded(run, hash);
    let is_same = is_same_work || may_differ && is_same_open_work(run, imported);
    let sameness = (is_exact, is_same_work, is_same);
    if let Some(text) = continued_text(run, source, args, sameness) {
        print_message(&text);
    }
    // A version that waits for approval is not proposed again.
    let is_proposed = !is_same && run.newest_proposal().is_some_and(|(_, each)| each.hash == hash);
    if !is_same && !is_proposed && is_superseded(run, hash) && !args.replan {
        print_message(&format!(
            "run {name}: continues with plan version {}, which a planner made; the file has an \
             earlier version",
            run.active
        ));
    } else if !is_same && !is_proposed {
        let ended = matches!(
            run.status,
            RunStatus::Ended(Ending::Done | Ending::Cancelled | Ending::Aborted)
        );
        if !args.replan || ended {
            let hint = if ended {
                "the run has ended: add --run NEW to start another run"
            } else {
                "add --replan to continue with the file's plan, --keep-plan to continue with the plan in \
                 the ledger, or --run NEW to start another run"
            };
            if let Some(version) = rejected(run, hash) {
                return Err(Failure::Rejected(format!(
                    "run {name}: the file's plan was rejected as version {version}\nhint: change \
                     it and add --replan, or add --run NEW to start another run"
                )));
            }
            let difference = difference(run.plan().map(CompactPlan::decode), imported);
            return Err(Failure::Rejected(format!(
                "run {name} has another plan than the file:\n{difference}\nhint: {hint}"
            )));
        }
        let reason = args.reason.as_deref().unwrap_or("the plan file changed");
        let approval = approval_of_version(&args.ledger);
        let version = ledger.propose_with(run.id, draft, reason, None, approval)?;
        let is_active = ledger.state()?.runs.get(&run.id).is_some_and(|run| run.active == version);
        let how = if is_active { "is active" } else { "waits for approval" };
        print_message(&format!("run {name}: plan version {version} {how}"));
    }
    if args.helpers.judge.is_some() && run.policy.text == TextPolicy::Trust {
        print_message(&format!(
            "run {name}: --judge is ignored: the run was started with --text trust"
        ));
    }
    if args.retry_failed {
        retry_failed(ledger, run, args)?;
    }
    set_failure_settings(ledger, run.id, args)?;
    approve_commands_of_active(ledger, run.id, args)?;
    current(ledger, run.id)
}

/// Retries the failed steps of a run, and unpauses it if its runner paused it.
fn retry_failed(ledger: &Ledger, run: &Run, args: &RunArgs) -> Result<(), Failure> {
    let by = expect_person_for("--retry-failed", &args.ledger, OPERATOR)?;
    match ledger.execute(&Command::RetryFailed { run: run.id, by: by.clone() }) {
        Err(error) if error.rejection() == Some(&Rejection::NothingFailed) => {
            print_message(&format!("run {}: no step has failed, so none is retried", run.name));
        }
        // A run that has ended has nothing to retry; it is reported below.
        Err(error) if matches!(error.rejection(), Some(Rejection::RunHasEnded(_))) => {}
        other => drop(other?),
    }
    // A runner pauses for failures that a person now retries.
    let state = ledger.state()?;
    let pause = state.runs.get(&run.id).and_then(|run| run.pause.as_ref());
    if matches!(pause, Some(PauseCause::Runner { .. })) {
        ledger.execute(&Command::Unpause { run: run.id, by })?;
    }
    Ok(())
}

/// Whether the command line approves commands: a person typed it. Stub workers execute nothing.
fn may_approve(args: &RunArgs) -> bool {
    let is_person = AgentSession::of_environment().is_none()
        && expect_outside(std::process::id(), &args.ledger).is_ok();
    is_person && !args.stub && !args.approve_nothing
}

/// Approves the commands of the active version, and shows those that no person approved before.
fn approve_commands_of_active(ledger: &Ledger, run: RunId, args: &RunArgs) -> Result<(), Failure> {
    let state = ledger.state()?;
    let Some(found) = state.runs.get(&run).filter(|_| may_approve(args)) else { return Ok(()) };
    if matches!(found.status, RunStatus::Ended(_)) {
        return Ok(());
    }
    let (Some(plan), Some(hash)) = (found.plan(), commands_of(found)) else { return Ok(()) };
    let version = found.active;
    if unapproved_commands(found).is_some() {
        print_message(&format!(
            "run {}: this approves what plan version {version} {}",
            found.name,
            plan.decode().executed_text()
        ));
    }
    let commands = approval_here(hash, OPERATOR);
    ledger.execute(&Command::ApproveCommands { run, version, commands })?;
    Ok(())
}

/// Whether another version waits for approval: it can drop gates, criteria and budgets, which an agent decides
/// for no person.
fn approval_of_version(ledger: &Path) -> ApprovalPolicy {
    match AgentSession::of_environment() {
        Some(session) if !agents_may_decide(ledger, session.host) => ApprovalPolicy::Required,
        _ => ApprovalPolicy::Automatic,
    }
}

/// How many versions a planner may make if the plan does not say so.
const REPLANS_MAX: u32 = 3;

/// Sets how the run handles failures, according to the command line. A run with a planner may be
/// replanned.
fn set_failure_settings(ledger: &Ledger, run: RunId, args: &RunArgs) -> Result<(), Failure> {
    let state = ledger.state()?;
    let Some(found) = state.runs.get(&run) else { return Ok(()) };
    if matches!(found.status, RunStatus::Ended(_)) {
        return Ok(());
    }
    let mut settings = found.failure_settings;
    settings.on_unknown = args.on_unknown.unwrap_or(settings.on_unknown);
    if args.helpers.has_planner() && found.max_replans().is_none() {
        settings.max_replans = Some(REPLANS_MAX);
        print_message(&format!(
            "run {}: failures may be replanned: at most {REPLANS_MAX} times (max_replans in the plan)",
            found.name
        ));
    }
    let decider = found.plan().map(|plan| plan.header().failure.decider);
    if args.helpers.has_decider() && decider == Some(Decider::Rules) {
        print_message(&format!(
            "run {}: --decider is ignored: the plan's rules decide; for a decider the plan needs \
             `failure: {{decider: external}}`",
            found.name
        ));
    }
    let by = author_in_shell();
    ledger.execute(&Command::SetFailureSettings { run, settings, by })?;
    Ok(())
}

/// The author of the command line: the agent of the session, or the operator.
pub(super) fn author_in_shell() -> String {
    let session = AgentSession::of_environment();
    session.map_or_else(|| OPERATOR.to_owned(), |session| Actor::Agent(session.name).to_string())
}

/// Applies the file's marks of done or dropped steps that the run has not applied.
pub(super) fn take_over_marks(
    ledger: &Ledger,
    run: RunId,
    name: &str,
    marks: Option<&ImportedStatuses>,
) -> Result<(), Failure> {
    let Some(marks) = marks else { return Ok(()) };
    let taken = import_statuses(ledger, run, marks)?;
    if taken.is_any() {
        print_message(&format!("run {name}: {taken}"));
    }
    for step in taken.dispatched {
        print_message(&format!(
            "run {name}: the file's mark of `{step}` is ignored: the step was already dispatched \
             in this run; to keep it from running again, use `ledger skip`"
        ));
    }
    Ok(())
}

/// The name of a run that is not over and has a plan of the same title: the file may be its plan under
/// another name.
fn open_run_of_same_plan(state: &State, imported: &PlanFile) -> Option<String> {
    let title = Some(&imported.plan.title).filter(|title| !title.is_empty())?;
    let mut open = state.runs.open().filter_map(|id| state.runs.get(&id));
    let is_same = |run: &&Run| run.plan().is_some_and(|plan| plan.header().title == *title);
    open.find(is_same).map(|run| run.name.clone())
}

/// The prepared run in its current status.
fn current(ledger: &Ledger, run: RunId) -> Result<PreparedRun, Failure> {
    Ok(match ledger.state()?.runs.get(&run).map(|run| run.status) {
        Some(RunStatus::Ended(ending)) => PreparedRun::Ended(ending),
        _ => PreparedRun::Active(run),
    })
}

/// The text about a run that continues with its plan, although the file is gone or differs.
fn continued_text(
    run: &Run,
    source: &PlanSource,
    args: &RunArgs,
    (is_exact, is_same_work, is_same): (bool, bool, bool),
) -> Option<String> {
    if let Some(why) = source.from_ledger {
        return Some(from_ledger(run, args, why));
    }
    let differs = if is_same_work {
        let is_told = !is_exact && !differs_in_commands(run, &source.plan);
        is_told.then_some("the text around the tasks has changed")
    } else {
        is_same.then_some("the file differs from the plan, but not in the remaining work")
    };
    Some(format!("run {}: {}; the run continues with its plan", run.name, differs?))
}

/// The message of a run that continues without the plan of its file.
fn from_ledger(run: &Run, args: &RunArgs, why: NoPlanOfFile) -> String {
    let name = &run.name;
    let version = match run.newest_proposal() {
        Some((number, _)) if run.active == 0 => number,
        _ => run.active,
    };
    let how = format!("the run continues with plan version {version} from the ledger");
    let file = args.plan.display();
    let replan = || {
        let shown = args.plan.display().to_string();
        shell_command("run", &args.ledger, &[&shown, "--run", name, "--replan"])
    };
    match why {
        NoPlanOfFile::Missing if args.plan.to_str() == Some(name) => format!("run {name}: {how}"),
        NoPlanOfFile::Missing => format!("run {name}: there is no file {file}; {how}"),
        NoPlanOfFile::Broken => format!("run {name}: {file} is not a valid plan; {how}"),
        NoPlanOfFile::Other => {
            format!("run {name}: {file} is another plan; {how}; `{}` changes it", replan())
        }
    }
}

/// Whether a plan differs from that of the run only in criteria that were read as commands: a
/// program was installed, or a step wrote a script.
fn differs_in_commands(run: &Run, imported: &PlanFile) -> bool {
    let written = |plan: Plan| plan_hash(&as_written_commands(plan));
    let active = run.plan().map(|plan| written(plan.decode()));
    active == Some(written(imported.plan.clone()))
}

/// The policy of a new run. The texts in files of other tools are not criteria.
fn policy(format: PlanFormat, args: &RunArgs) -> RunPolicy {
    let is_own = format.is_native();
    let text = match args.text {
        Some(text) => text,
        None if args.helpers.judge.is_some() => TextPolicy::Judge,
        None if args.stub || !is_own => TextPolicy::Trust,
        None => TextPolicy::Judge,
    };
    let on_failure = if args.fail_fast { OnFailure::FailFast } else { OnFailure::Continue };
    RunPolicy { text, on_failure, ..RunPolicy::default() }
}

/// The newest version with this hash, if it was rejected.
fn rejected(run: &Run, hash: ContentHash) -> Option<u32> {
    let version = (1..).zip(&run.versions).filter(|(_, version)| version.hash == hash).last()?;
    (version.1.review == Some(Review::Rejected)).then_some(version.0)
}

/// The difference between two plans, indented.
fn difference(old: Option<Plan>, imported: &PlanFile) -> String {
    let text = match old {
        Some(old) => diff(&old, &imported.plan).to_string(),
        None => format!("the run has no active plan\n{}", imported.plan.executed_text()),
    };
    format!("  {}", text.trim_end().replace('\n', "\n  "))
}
