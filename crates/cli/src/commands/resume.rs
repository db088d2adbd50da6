//! Which run a plan file means, and how it is made ready to be driven: started, resumed,
//! replanned or opened again.

use plan_ledger::files::{PlanFile, PlanFormat};
use plan_ledger::ledger::{Ledger, expect_sound, plan_hash};
use plan_ledger::plan::{
    Command, CompactPlan, ContentHash, Ending, OnFailure, Plan, Rejection, Review, Run, RunId,
    RunPolicy, RunStatus, TextPolicy, diff,
};

use crate::runner::{Marks, is_by_planner, take_marks};

use super::args::{RunArgs, TextChoice};
use super::exit::Failure;
use super::say;

/// Who retries where a command line said so.
const OPERATOR: &str = "operator";

/// What to do with the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// There is work to deal, or there may be.
    Drive(RunId),
    /// It has ended, and nothing was asked that would change that.
    Ended(RunId, Ending),
}

/// Find or start the run, and bring it to where it can be driven.
pub(super) fn ready(
    ledger: &Ledger,
    name: &str,
    imported: &PlanFile,
    args: &RunArgs,
) -> Result<Next, Failure> {
    let policy = policy(imported.format, args);
    let state = ledger.state()?;
    let run = state.run_named(name);
    expect_sound(&state)?;
    let Some(run) = run else {
        return Ok(Next::Drive(ledger.start_run(name, &imported.plan, policy)?));
    };
    if args.text.is_some() && run.policy.text != policy.text {
        say(&format!("run {name}: --text is ignored: it was started with another policy"));
    }
    let hash = plan_hash(&imported.plan);
    let is_same = run.active_version().is_some_and(|version| version.hash == hash);
    // A version that somebody still has to approve is not proposed twice.
    let is_proposed = !is_same && run.newest_proposal().is_some_and(|(_, each)| each.hash == hash);
    if !is_same && !is_proposed && is_overtaken(run, hash) && !args.replan {
        say(&format!(
            "run {name}: goes on with version {} of its plan, which a planner made; the file holds \
             an earlier one",
            run.active
        ));
    } else if !is_same && !is_proposed {
        let ended = matches!(
            run.status,
            RunStatus::Ended(Ending::Done | Ending::Cancelled | Ending::Aborted)
        );
        if !args.replan || ended {
            let how = if ended {
                "the run has ended: add --run NEW to start another run"
            } else {
                "add --replan to go on with the file's plan, or --run NEW to start another run"
            };
            if let Some(version) = rejected(run, hash) {
                return Err(Failure::Refused(format!(
                    "run {name}: the file's plan was rejected as version {version}: change it and \
                     add --replan, or add --run NEW to start another run"
                )));
            }
            let difference = difference(run.plan().map(CompactPlan::whole), imported);
            return Err(Failure::Refused(format!(
                "run {name} executes another plan than the file holds:\n{difference}\n{how}"
            )));
        }
        let reason = args.reason.as_deref().unwrap_or("the plan file changed");
        let version = ledger.propose(run.id, &imported.plan, reason)?;
        let is_active = ledger.state()?.runs.get(&run.id).is_some_and(|run| run.active == version);
        let how = if is_active { "is active" } else { "waits for somebody's yes" };
        say(&format!("run {name}: plan version {version} {how}"));
    }
    if args.helpers.judge.is_some() && run.policy.text == TextPolicy::Trust {
        say(&format!("run {name}: --judge is ignored: it was started with --text trust"));
    }
    if args.retry_failed {
        match ledger.execute(&Command::RetryFailed { run: run.id, by: OPERATOR.to_owned() }) {
            Err(error) if error.rejection() == Some(&Rejection::NothingFailed) => {
                say(&format!("run {name}: no step has failed, so none is tried again"));
            }
            // A run that is done, or was cancelled, says so below; it has nothing to try again.
            Err(error) if matches!(error.rejection(), Some(Rejection::RunHasEnded(_))) => {}
            other => drop(other?),
        }
    }
    standing(ledger, run.id)
}

/// Take what the file marks as done or dropped, as far as the run has not taken it yet.
pub(super) fn take(
    ledger: &Ledger,
    run: RunId,
    name: &str,
    marks: Option<&Marks>,
) -> Result<(), Failure> {
    let Some(marks) = marks else { return Ok(()) };
    let taken = take_marks(ledger, run, marks)?;
    if taken.is_any() {
        say(&format!("run {name}: {taken}"));
    }
    for step in taken.dealt {
        say(&format!(
            "run {name}: the file's mark of `{step}` does not count, since the step was dealt in this \
             run: if it is not to be dealt again, `ledger skip` it"
        ));
    }
    Ok(())
}

/// What to do with a run that is ready.
fn standing(ledger: &Ledger, run: RunId) -> Result<Next, Failure> {
    Ok(match ledger.state()?.runs.get(&run).map(|run| run.status) {
        Some(RunStatus::Ended(ending)) => Next::Ended(run, ending),
        _ => Next::Drive(run),
    })
}

/// Whether a plan was a version of the run, and only a planner made others since.
fn is_overtaken(run: &Run, hash: ContentHash) -> bool {
    let place = run.versions.iter().rposition(|version| version.hash == hash);
    let later = place.and_then(|place| run.versions.get(place.saturating_add(1)..));
    later.is_some_and(|later| !later.is_empty() && later.iter().all(is_by_planner))
}

/// Text criteria of our own plans wait for somebody; other tools' files do not mean them so.
fn policy(format: PlanFormat, args: &RunArgs) -> RunPolicy {
    let is_own = format.is_native();
    let text = match args.text {
        Some(TextChoice::Trust) => TextPolicy::Trust,
        None if args.helpers.judge.is_some() => TextPolicy::Judge,
        None if args.stub || !is_own => TextPolicy::Trust,
        Some(TextChoice::Judge) | None => TextPolicy::Judge,
    };
    let on_failure = if args.fail_fast { OnFailure::FailFast } else { OnFailure::Continue };
    RunPolicy { text, on_failure, ..RunPolicy::default() }
}

/// The newest version with this hash, if it was rejected.
fn rejected(run: &Run, hash: ContentHash) -> Option<u32> {
    let version = (1..).zip(&run.versions).filter(|(_, version)| version.hash == hash).last()?;
    (version.1.review == Some(Review::Rejected)).then_some(version.0)
}

/// Between the run's plan and the file's, indented.
fn difference(old: Option<Plan>, imported: &PlanFile) -> String {
    match old {
        Some(old) => {
            let text = diff(&old, &imported.plan).to_string();
            format!("  {}", text.replace('\n', "\n  "))
        }
        None => "  it has no active plan".to_owned(),
    }
}
