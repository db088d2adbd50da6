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

/// A parser for the policy of text criteria.
pub(crate) fn parse_text_policy() -> impl TypedValueParser<Value = TextPolicy> {
    parse_words(&[
        ("trust", "The worker: its success counts as a pass, and is counted as trusted"),
        ("judge", "A person, with `ledger accept` and `ledger reject`, or the command of --judge"),
    ])
}
