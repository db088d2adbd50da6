//! Identifiers of traces and spans (W3C Trace Context).
//!
//! A run is a trace, and an attempt is a span. Their identifiers are hashes of the ledger's identifier and
//! a number, so every export names the same spans.

use std::fmt::Write as _;

use serde::Serialize;

use plan_ledger::internals::ledger::bytes_hash;
use plan_ledger::{AttemptToken, RunId};

/// The identifier of a trace: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TraceId(String);

/// The identifier of a span: 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct SpanId(String);

impl TraceId {
    /// The trace of a run.
    pub(crate) fn of(uid: &[u8; 16], run: RunId) -> Self {
        Self(digits(uid, "trace", run.0.into(), 32))
    }
}

impl SpanId {
    /// The span of a run, the parent of its attempts.
    pub(crate) fn of_run(uid: &[u8; 16], run: RunId) -> Self {
        Self(digits(uid, "run", run.0.into(), 16))
    }

    /// The span of an attempt.
    pub(crate) fn of_attempt(uid: &[u8; 16], token: AttemptToken) -> Self {
        Self(digits(uid, "attempt", token.0, 16))
    }
}

fn digits(uid: &[u8; 16], what: &str, number: u64, length: usize) -> String {
    let mut text = format!("{what} {number} ");
    for byte in uid {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    let hash = bytes_hash(&mut text.as_bytes()).expect("reading bytes in memory never fails");
    hash.to_string().chars().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_depend_on_ledger_and_number() {
        let uid = [7; 16];
        assert_eq!(TraceId::of(&uid, RunId(1)).0.len(), 32);
        assert_eq!(SpanId::of_attempt(&uid, AttemptToken(5)).0.len(), 16);
        assert_ne!(TraceId::of(&uid, RunId(1)), TraceId::of(&uid, RunId(2)));
        assert_ne!(TraceId::of(&uid, RunId(1)), TraceId::of(&[8; 16], RunId(1)));
        assert_ne!(SpanId::of_attempt(&uid, AttemptToken(1)), SpanId::of_run(&uid, RunId(1)));
    }
}
