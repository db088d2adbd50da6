//! Proposes a plan version with one more step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::internals::ledger::plan_draft;
use plan_ledger::{Error, Rejection, State, Step};

use crate::protocol::Failure;

use super::context::RequestContext;
use super::find::run_or_only;
use super::kind::RequestKind;
use super::propose::{ProposeAnswer, next_version};
use super::rules::{Role, Rules};

/// Propose a version with one more step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddStepRequest {
    /// The run's name or number; by default the only run that has not ended.
    #[serde(default)]
    pub run: Option<String>,
    /// The step (`plan.md`).
    pub step: Box<Step>,
    /// The reason.
    #[serde(default)]
    pub reason: String,
}

impl RequestKind for AddStepRequest {
    const RULES: Rules = Rules::of(Role::Worker);

    type Answer = ProposeAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<ProposeAnswer, Failure> {
        let make = |state: &State| {
            let run = run_or_only(state, self.run.as_deref())?;
            // Build on the version that waits for review, if any, so that two additions do not
            // conflict.
            let newest = run.newest_proposal().map(|(_, version)| &*version.plan);
            let plan = newest.or(run.plan()).ok_or(Rejection::NoActivePlan).map_err(Error::from)?;
            let mut plan = plan.decode();
            plan.steps.push((*self.step).clone());
            Ok(next_version(run.id, plan_draft(&plan).map_err(Error::from)?, &self.reason))
        };
        context.execute(&make, ProposeAnswer::of)?
    }
}
