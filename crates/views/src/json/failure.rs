//! Failures of steps.

use plan_ledger::FailureClass;
use plan_ledger::plan::Text;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// The failure of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct FailureJson<'a> {
    /// The class of the failure.
    class: FailureClass,
    /// The reason, for people.
    message: &'a str,
}

impl<'a> From<&'a (FailureClass, Text)> for FailureJson<'a> {
    fn from((class, message): &'a (FailureClass, Text)) -> Self {
        Self { class: *class, message }
    }
}
