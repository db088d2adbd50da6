//! The JSON form of events, which `plan_ledger::internals::plan` defines with each event.

use serde::Serialize;
use serde_json::Value;

use plan_ledger::internals::log::RecoveryNote;
use plan_ledger::internals::plan::{AcceptedBasis, CapScope, Origin, RunForked};
use plan_ledger::{Cost, Event, Receipt, RunPolicy, Verdict};

pub(crate) fn event_json(event: &Event) -> Value {
    form(event)
}

pub(crate) fn policy_json(policy: RunPolicy) -> Value {
    form(&policy)
}

pub(crate) fn receipt_json(receipt: &Receipt) -> Value {
    form(receipt)
}

pub(crate) fn verdict_json(verdict: &Verdict) -> Value {
    form(verdict)
}

/// The basis on which a step was accepted.
pub(crate) fn basis_json(basis: &AcceptedBasis) -> Value {
    form(basis)
}

pub(crate) fn cost_json(cost: Cost) -> Value {
    form(&cost)
}

pub(crate) fn origin_json(origin: &Origin) -> Value {
    form(origin)
}

pub(crate) fn scope_json(scope: &CapScope) -> Value {
    form(scope)
}

pub(crate) fn recovery_json(note: &RecoveryNote) -> Value {
    form(note)
}

pub(crate) fn forked_json(event: &RunForked) -> Value {
    form(event)
}

fn form(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
