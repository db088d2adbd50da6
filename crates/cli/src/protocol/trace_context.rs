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
    pub(crate) fn of(uid: &[u8; 16], run: RunId) -> Self {
        Self(digits(uid, "trace", run.0.into(), 32))
    }
}

impl SpanId {
    /// The span of a run, the parent of its attempts.
    pub(crate) fn of_run(uid: &[u8; 16], run: RunId) -> Self {
        Self(digits(uid, "run", run.0.into(), 16))
    }

    pub(crate) fn of_attempt(uid: &[u8; 16], token: AttemptToken) -> Self {
        Self(digits(uid, "attempt", token.0, 16))
    }
}

/// The position of an attempt in its trace, as workers get it. Bit 0 of the flags says that the trace is
/// recorded: the ledger has it.
pub(crate) fn traceparent(uid: &[u8; 16], run: RunId, token: AttemptToken) -> String {
    format!("00-{}-{}-01", TraceId::of(uid, run).0, SpanId::of_attempt(uid, token).0)
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
    fn traceparent_names_the_spans_of_the_export() {
        let uid = [7; 16];
        let text = traceparent(&uid, RunId(1), AttemptToken(5));
        let parts: Vec<_> = text.split('-').collect();
        let trace = TraceId::of(&uid, RunId(1)).0;
        let span = SpanId::of_attempt(&uid, AttemptToken(5)).0;
        assert_eq!(parts, ["00", trace.as_str(), span.as_str(), "01"]);
    }

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
