//! Requests for a new plan version.

use plan_ledger::plan::{ReplanRequest, UtcTime};
use plan_ledger::{ReplanTrigger, StepNumber};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// An open request for a new plan version.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ReplanRequestJson {
    /// The first step to redo, if known.
    from: Option<StepNumber>,
    /// The reason, for people and planners.
    reason: String,
    /// The record of the request.
    seq: u64,
    /// The time of the request.
    time: UtcTime,
    /// The event that caused the request.
    trigger: ReplanTrigger,
}

impl From<&ReplanRequest> for ReplanRequestJson {
    fn from(request: &ReplanRequest) -> Self {
        let ReplanRequest { seq, time, trigger, from, reason } = request;
        Self {
            from: *from,
            reason: reason.to_string(),
            seq: *seq,
            time: (*time).into(),
            trigger: trigger.clone(),
        }
    }
}
