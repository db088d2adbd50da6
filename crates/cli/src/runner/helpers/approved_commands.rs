//! The commands of a ledger's plans that a person approved: they may be executed without a question.

use std::collections::BTreeSet;

use plan_ledger::internals::plan::{CompactStep, Criterion, PlanVersion, Review};
use plan_ledger::{Run, State};

/// The command criteria of the plan versions that became active or that a person approved.
pub(crate) fn approved_commands(state: &State) -> BTreeSet<String> {
    let of_run = |run: &Run| {
        let is_approved = |number: u32, version: &PlanVersion| {
            number == run.active || version.review == Some(Review::Approved)
        };
        let versions = (1..).zip(&run.versions);
        let versions = versions.filter(|(number, version)| is_approved(*number, version));
        versions.flat_map(|(_, version)| commands_of(version)).collect::<Vec<_>>()
    };
    state.runs.values().flat_map(of_run).collect()
}

fn commands_of(version: &PlanVersion) -> Vec<String> {
    let of_steps = version.plan.steps().flat_map(CompactStep::acceptance);
    let criteria = of_steps.chain(version.plan.header().test_criteria.iter().cloned());
    let command = |criterion| match criterion {
        Criterion::Command(command) => Some(command),
        Criterion::Text(_) | Criterion::Cel(_) => None,
    };
    criteria.filter_map(command).collect()
}
