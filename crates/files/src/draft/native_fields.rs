//! The fields that only native steps have: one of them makes a list of steps native. A record of another tool may
//! state most of them in their native form, too.

/// Where a field of a native step may be in a record of another tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InRecords {
    /// It means what the tool means.
    No,
    /// It is read in its native form.
    Read,
    /// It is read in its native form, and refused in any other; with an example.
    Only(&'static str),
}

/// The fields that only native steps have.
pub(crate) const NATIVE_FIELDS: &[(&str, InRecords)] = &[
    ("after", InRecords::No),
    ("preconditions", InRecords::No),
    ("condition", InRecords::No),
    ("side_effects", InRecords::No),
    ("idempotent", InRecords::No),
    ("extra", InRecords::No),
    ("command", InRecords::Read),
    ("probe", InRecords::Read),
    ("gate", InRecords::Read),
    ("retry", InRecords::Read),
    ("fallback", InRecords::Read),
    ("timeout_seconds", InRecords::Read),
    ("estimate_seconds", InRecords::Read),
    ("cost_limit", InRecords::Read),
    ("on_false", InRecords::Only("`on_false: skip`, or `wait`, `fail`, `abort`")),
    ("failure_hints", InRecords::Only("`failure_hints: {timeout: transient}`")),
    ("optional_outputs", InRecords::Only("`optional_outputs: [name]`")),
    ("repeat_limit", InRecords::Only("`repeat_limit: 50`")),
    ("lease_seconds", InRecords::Only("`lease_seconds: 900`")),
    ("cost_estimate", InRecords::Only("`cost_estimate: {money_micros: 250000}`")),
];
