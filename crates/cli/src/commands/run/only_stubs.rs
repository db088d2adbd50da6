//! `ledger run --stub` drives only runs of stub workers.
//!
//! A stub accepts steps without work and passes every criterion, so it must not continue a run of
//! other workers.

use plan_ledger::plan::{StepEvent, StepRecord};
use plan_ledger::{Event, Ledger, RunId};

use crate::output::{Failure, option, shell_command};
use crate::protocol::WorkerKind;
use crate::server::AgentSession;

use super::args::RunArgs;
use super::plan_source::PlanSource;

/// Rejects a run with an attempt that is not known to be of a stub worker. An agent session may also not let stubs
/// do a run that was only proposed.
///
/// # Errors
/// What helps instead.
pub(super) fn expect_only_stubs(
    ledger: &Ledger,
    source: &PlanSource,
    args: &RunArgs,
) -> Result<(), Failure> {
    let state = ledger.state()?;
    let Some(run) = state.run_named(&source.name) else { return Ok(()) };
    plan_ledger::mutant!(StubContinuesRealRun => return Ok(()));
    let is_fine = match run.account.attempts {
        0 => AgentSession::of_environment().is_none(),
        _ => is_of_stubs(ledger, run.id),
    };
    if is_fine {
        return Ok(());
    }
    Err(Failure::Rejected(format!(
        "run {}: stub workers did not begin it, and would accept its steps without work\nhint: {}",
        run.name,
        drill_hint(source, args)
    )))
}

/// How to try the plan of a run apart from it.
fn drill_hint(source: &PlanSource, args: &RunArgs) -> String {
    let file = args.plan.display().to_string();
    if source.from_ledger.is_some() {
        let export = shell_command("plan export", &args.ledger, &[&source.name]);
        return format!("`{export}` writes its plan to a file, and `ledger drill FILE` tries that");
    }
    let name = option("--run", &format!("{}-drill", source.name));
    let run = shell_command("run", &args.ledger, &[&file]);
    format!("`{run} --stub {name}` tries the plan in a separate run")
}

/// Whether every attempt of a run is known to be of a stub worker. The first records of a log may be pruned.
fn is_of_stubs(ledger: &Ledger, run: RunId) -> bool {
    let Ok(records) = ledger.replay(1) else { return false };
    records.into_iter().all(|record| match record.event {
        Some(Event::Step(StepRecord { run: of, event: StepEvent::Dispatched(it), .. })) => {
            of != run || WorkerKind::Stub.has_hosted(&it.worker)
        }
        _ => true,
    })
}
