//! Schema numbers of kinds that have more than one.
//!
//! Invariants:
//! - A newer schema appends fields at the end of the payload, or variants to its enums, and nothing
//!   else. An appended field that says nothing has bytes that are all zero, so that an older schema
//!   is a newer one without its last zeros.
//! - The lowest schema that holds an event is the one that it is written in, and the only one that
//!   it is accepted in: there is one way to write an event.

use crate::plan::{
    AcceptedBasis, AfterFailure, BarrierChange, CapScope, Cost, Decision, Disposition, Ending,
    Event, Origin, PlanActivated, StepEvent,
};

use super::kind::Kind;
use super::receipt_codec;

/// The newest schema of a kind that this program reads.
pub(super) fn newest(kind: Kind) -> u16 {
    match kind {
        Kind::ReceiptRecorded | Kind::ReceiptRefused => receipt_codec::WORLD,
        Kind::PlanActivated | Kind::VariableSet | Kind::FailureDecided => 3,
        Kind::BarrierChanged
        | Kind::CapChanged
        | Kind::RunEnded
        | Kind::Dispatched
        | Kind::Accepted
        | Kind::DoubtResolved => 2,
        _ => 1,
    }
}

/// How many zeros stand, in the newest schema, for the fields that a schema does not have.
fn missing(kind: Kind, schema: u16) -> usize {
    match (kind, schema) {
        (Kind::PlanActivated, 1) => 7,
        (Kind::PlanActivated, 2) => 3,
        (Kind::Dispatched | Kind::FailureDecided, 1) => 2,
        (Kind::VariableSet, 1 | 2)
        | (Kind::FailureDecided, 2)
        | (Kind::DoubtResolved, 1)
        | (Kind::ReceiptRecorded | Kind::ReceiptRefused, receipt_codec::BLOB) => 1,
        _ => 0,
    }
}

/// The lowest schema that holds an event.
pub(super) fn lowest(event: &Event) -> u16 {
    let is_newer = match event {
        Event::PlanActivated(event) => return lowest_of_activation(event),
        Event::VariableSet(event) if event.since != 0 => return 3,
        Event::VariableSet(event) => matches!(event.origin, Origin::Fallback { .. }),
        Event::Barrier(event) => {
            matches!(event.change, BarrierChange::Late | BarrierChange::Overruled)
        }
        Event::CapChanged(event) => matches!(event.scope, CapScope::Tag(_)),
        Event::RunEnded(event) => event.ending == Ending::Aborted,
        Event::Step(record) => return lowest_of_step(&record.event),
        _ => false,
    };
    if is_newer { 2 } else { 1 }
}

fn lowest_of_activation(event: &PlanActivated) -> u16 {
    let PlanActivated { added, trusted, untrusted, request, held, answers, since, .. } = event;
    if !held.is_empty() || !answers.is_empty() || *since != 0 {
        3
    } else if added.is_empty() && trusted.is_empty() && untrusted.is_empty() && *request == 0 {
        1
    } else {
        2
    }
}

fn lowest_of_step(event: &StepEvent) -> u16 {
    let is_newer = match event {
        StepEvent::ReceiptRecorded(event) => return receipt_codec::schema_of(&event.receipt),
        StepEvent::ReceiptRefused(event) => return receipt_codec::schema_of(&event.receipt),
        StepEvent::Dispatched(event) => event.reserved != Cost::default(),
        StepEvent::Accepted(event) => {
            matches!(event.basis, AcceptedBasis::StoodIn { .. } | AcceptedBasis::Fallback { .. })
        }
        StepEvent::FailureDecided(event) if event.then != AfterFailure::Over => return 3,
        StepEvent::FailureDecided(event) => {
            let is_old = matches!(event.decision, Decision::Retry | Decision::Fail);
            !is_old || event.disposition != Disposition::default()
        }
        StepEvent::DoubtResolved(event) => !event.evidence.is_empty(),
        _ => false,
    };
    if is_newer { 2 } else { 1 }
}

/// The payload in that schema, of one that is encoded with all fields.
pub(super) fn shorten(mut payload: Vec<u8>, kind: Kind, schema: u16) -> Vec<u8> {
    payload.truncate(payload.len().saturating_sub(missing(kind, schema)));
    payload
}

/// Reads the payload with all fields, of one in that schema.
pub(super) fn lengthened<T>(
    payload: &[u8],
    kind: Kind,
    schema: u16,
    read: impl FnOnce(&[u8]) -> T,
) -> T {
    let missing = missing(kind, schema);
    if missing == 0 {
        return read(payload);
    }
    // Most records have fields that say nothing, and are short.
    let mut room = [0; 512];
    match room.get_mut(..payload.len().saturating_add(missing)) {
        Some(all) => {
            all.iter_mut().zip(payload).for_each(|(byte, of)| *byte = *of);
            read(all)
        }
        None => read(&[payload, &vec![0; missing]].concat()),
    }
}

/// Whether that is the schema that the event is written in.
pub(super) fn check(event: &Event, schema: u16) -> Result<(), String> {
    match lowest(event) {
        lowest if lowest == schema => Ok(()),
        lowest => Err(format!("schema {schema}, expected {lowest}: the lowest that holds it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what is left out comes back as zeros, and nothing else changes, whether there is room
    /// for the payload on the stack or not.
    #[test]
    fn a_payload_of_any_length_is_lengthened_by_its_zeros() {
        for length in (0..40).chain(500..530).chain([5000]) {
            let payload: Vec<u8> = (1..=255).cycle().take(length).collect();
            for (kind, schema) in [(Kind::PlanActivated, 1), (Kind::VariableSet, 2)] {
                let expected = [payload.clone(), vec![0; missing(kind, schema)]].concat();
                assert_eq!(lengthened(&payload, kind, schema, <[u8]>::to_vec), expected);
                assert_eq!(shorten(expected, kind, schema), payload);
            }
            assert_eq!(lengthened(&payload, Kind::VariableSet, 3, <[u8]>::to_vec), payload);
        }
    }
}
