//! The check of a plan in a request: once, and before the ledger is asked.

use std::sync::OnceLock;

use plan_ledger::internals::ledger::plan_draft;
use plan_ledger::plan::PlanDraft;
use plan_ledger::{Error, Plan};

use crate::protocol::Failure;

/// The draft of a plan, after its first use.
#[derive(Debug, Clone, Default)]
pub struct CheckedPlan(OnceLock<PlanDraft>);

impl CheckedPlan {
    /// The draft of the plan of a request.
    ///
    /// # Errors
    /// `InvalidPlan`, with all problems of the plan.
    pub(super) fn of(&self, plan: &Plan) -> Result<&PlanDraft, Failure> {
        if let Some(draft) = self.0.get() {
            return Ok(draft);
        }
        let draft = plan_draft(plan).map_err(Error::from)?;
        Ok(self.0.get_or_init(|| draft))
    }
}

/// The draft follows from the plan.
impl PartialEq for CheckedPlan {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
