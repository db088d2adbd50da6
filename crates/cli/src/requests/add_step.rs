//! Proposes a plan version with one more step.

use std::sync::Arc;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::internals::ledger::plan_draft;
use plan_ledger::plan::{CompactPlan, Provenance};
use plan_ledger::{ContentHash, Error, ErrorKind, Rejection, RunId, State, Step};

use crate::protocol::Failure;

use super::context::RequestContext;
use super::find::run_or_only;
use super::kind::RequestKind;
use super::propose::{ProposeAnswer, next_version};
use super::rules::{Role, Rules};

/// Propose a version with one more step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
    /// Whether the next version of a run's plan waits for approval, whatever the policy of the run says. It does so
    /// if an agent makes the request that decides for no person, and over HTTP with the role of a worker.
    #[serde(default)]
    pub waits_for_approval: bool,
    /// The author of the version.
    #[serde(default)]
    pub by: Option<String>,
}

impl RequestKind for AddStepRequest {
    const RULES: Rules = Rules::of(Role::Worker).long().creating_at("/v1/runs/{run}/steps");

    type Answer = ProposeAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<ProposeAnswer, Failure> {
        loop {
            // The new version is checked without the state, which may change meanwhile.
            let base = context.read(|state| self.base(state))??;
            let mut plan = base.plan.decode();
            plan.steps.push((*self.step).clone());
            let draft = plan_draft(&plan).map_err(Error::from)?;
            let author = self.by.clone().filter(|by| !by.is_empty());
            let draft = match author {
                Some(_) => draft.with_provenance(Provenance { author, ..Provenance::default() }),
                None => draft,
            };
            let make = |state: &State| {
                if self.base(state)?.hash != base.hash {
                    return Err(Error::new(ErrorKind::Conflict, "the plan has changed").into());
                }
                Ok(next_version(base.run, draft.clone(), &self.reason, self.waits_for_approval))
            };
            match context.execute(&make, ProposeAnswer::of) {
                Err(Failure::Ledger(error)) if error.kind() == ErrorKind::Conflict => {}
                proposed => return proposed?,
            }
        }
    }
}

/// The version to which the step is added.
struct Base {
    run: RunId,
    hash: ContentHash,
    plan: Arc<CompactPlan>,
}

impl AddStepRequest {
    /// The version that waits for review, if any, so that two additions do not conflict; else the
    /// active one.
    fn base(&self, state: &State) -> Result<Base, Failure> {
        let run = run_or_only(state, self.run.as_deref())?;
        let newest = run.newest_proposal().map(|(_, version)| version);
        let version = newest.or(run.active_version());
        let version = version.ok_or(Rejection::NoActivePlan).map_err(Error::from)?;
        Ok(Base { run: run.id, hash: version.hash, plan: Arc::clone(&version.plan) })
    }
}
