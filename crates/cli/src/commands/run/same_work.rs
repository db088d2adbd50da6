//! Whether a plan file still is the plan of a run: tools and people edit it during the work.

use plan_ledger::internals::ledger::plan_draft;
use plan_ledger::plan::CompactPlan;
use plan_ledger::{ContentHash, Plan, Run, plan_hash};
use plan_ledger_files::{PlanFile, as_written_commands};

use crate::runner::is_by_planner;

/// Whether a run continues with this file: it is the active version, one that waits for approval, one that a planner
/// replaced, or it differs in nothing that is left to do.
pub(super) fn is_plan_of(run: &Run, imported: &PlanFile) -> bool {
    let Ok(draft) = plan_draft(&imported.plan) else { return false };
    let hash = draft.hash();
    run.active_version().is_some_and(|version| version.hash == hash)
        || run.newest_proposal().is_some_and(|(_, version)| version.hash == hash)
        || is_superseded(run, hash)
        || is_same_work(run.plan().map(CompactPlan::decode), imported)
        || is_same_open_work(run, imported)
}

/// Whether the file of another tool has the same tasks as the plan of the run. Its tool may write
/// into the text around the tasks while the work continues.
pub(super) fn is_same_work(active: Option<Plan>, imported: &PlanFile) -> bool {
    let tasks = |mut plan: Plan| {
        plan.context.clear();
        plan.extra.clear();
        plan.steps.iter_mut().for_each(|step| step.extra.clear());
        plan_hash(&as_written_commands(plan))
    };
    !imported.format.is_native()
        && active.is_some_and(|active| tasks(active) == tasks(imported.plan.clone()))
}

/// Whether the file has the same work as the plan of the run for the steps that are not over. The work of a finished
/// step is in the ledger, and a title does not count as work.
pub(super) fn is_same_open_work(run: &Run, imported: &PlanFile) -> bool {
    let is_marked = |id: &str| imported.done.contains_key(id) || imported.skipped.contains_key(id);
    let is_over = |id: &str| match run.step_named(id).and_then(|number| run.step(number)) {
        Some(step) => step.status.is_closed(),
        // A step that was done before it was written down.
        None => is_marked(id),
    };
    let work = |mut plan: Plan| {
        plan.title.clear();
        plan.extra.clear();
        if !imported.format.is_native() {
            plan.context.clear();
        }
        plan.steps.retain(|step| !is_over(&step.id));
        for step in &mut plan.steps {
            step.after.retain(|id| !is_over(id));
            step.extra.clear();
            if !step.goal.is_empty() || step.command.is_some() {
                step.title.clear();
            }
        }
        plan.barriers.iter_mut().for_each(|barrier| barrier.title.clear());
        plan_hash(&as_written_commands(plan))
    };
    let active = run.plan().map(CompactPlan::decode);
    active.is_some_and(|active| work(active) == work(imported.plan.clone()))
}

/// Whether a plan is an earlier version of the run, and a planner made all later ones.
pub(super) fn is_superseded(run: &Run, hash: ContentHash) -> bool {
    let index = run.versions.iter().rposition(|version| version.hash == hash);
    let later = index.and_then(|index| run.versions.get(index.saturating_add(1)..));
    later.is_some_and(|later| !later.is_empty() && later.iter().all(is_by_planner))
}
