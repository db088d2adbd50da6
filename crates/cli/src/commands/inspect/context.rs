//! The ledger that a view reads, and the form in which the view prints it.

use std::path::Path;

use plan_ledger::Environment;

/// The ledger, and the form of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InspectContext<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) form: Form,
    pub(crate) environment: &'a Environment,
}

/// The form of the output: text for people, or JSON Lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}
