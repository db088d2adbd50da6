//! Options with the words of a library enum as values.
//!
//! The words are those of the enum's JSON, with dashes.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use serde::de::value::{Error, StrDeserializer};

use plan_ledger::TextPolicy;

/// A parser for the words of an enum, each with its help.
pub(crate) fn parse_words<T>(
    words: &[(&'static str, &'static str)],
) -> impl TypedValueParser<Value = T> + use<T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let values = words.iter().map(|(word, help)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values)
        .try_map(|word| T::deserialize(StrDeserializer::<Error>::new(&word.replace('-', "_"))))
}

/// The classes of failures about which questions are answered at once: those of receipts, and usage limits.
pub(crate) const ANSWERED_CLASSES: [(&str, &str); 7] = [
    ("transient", "A retry may succeed"),
    ("deterministic", "A retry would fail again"),
    ("assumption-broken", "An assumption of the plan is wrong"),
    ("budget-exhausted", "Its money, tokens or time ran out"),
    ("criterion-failed", "The work is done, and a check of it failed"),
    ("unknown", "The cause is unknown"),
    ("usage-limit", "The worker met a usage limit"),
];

/// The classes of failures that a receipt reports.
pub(crate) const FAILURE_CLASSES: &[(&str, &str)] = ANSWERED_CLASSES.split_at(6).0;

/// A parser for the policy of text criteria.
pub(crate) fn parse_text_policy() -> impl TypedValueParser<Value = TextPolicy> {
    parse_words(&[
        ("trust", "The worker: its success counts as a pass, and is counted as trusted"),
        ("judge", "A person, with `ledger accept` and `ledger reject`, or the command of --judge"),
    ])
}
