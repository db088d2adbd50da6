//! The hashes that the plan's rules need and, being pure, do not compute.

use crate::format::content_hash;
use crate::plan::{
    ContentHash, HashedStep, Plan, PlanDraft, Rejection, State, unsupported, validate,
};

use super::codec;

/// Hash of a plan's canonical bytes: what an approval binds to.
#[must_use]
pub fn plan_hash(plan: &Plan) -> ContentHash {
    ContentHash(content_hash(plan.canonical().as_bytes()))
}

/// Hash of a state. Live state, replay from the start and (later) from any snapshot have the
/// same one at every sequence number.
#[must_use]
pub fn state_hash(state: &State) -> ContentHash {
    ContentHash(content_hash(&codec::state_bytes(state)))
}

/// A plan ready to be proposed, if it is valid and asks for nothing that is not acted on yet.
pub(super) fn draft(plan: &Plan) -> Result<PlanDraft, Rejection> {
    let mut problems = validate(plan);
    problems.extend(unsupported(plan));
    if !problems.is_empty() {
        return Err(Rejection::InvalidPlan(problems));
    }
    let hashed = |step: &crate::plan::Step| {
        let identity = step.identity(&plan.defaults);
        HashedStep { hash: ContentHash(content_hash(identity.as_bytes())), step: step.clone() }
    };
    Ok(PlanDraft {
        hash: plan_hash(plan),
        steps: plan.steps.iter().map(hashed).collect(),
        header: Box::new(Plan { steps: Vec::new(), ..plan.clone() }),
    })
}
