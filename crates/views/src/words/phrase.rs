//! The words of enums, as their JSON form spells them.

use serde::Serialize;
use serde_json::Value;

/// The JSON word of a variant without fields: `lease_expired`.
pub(crate) fn word(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

/// The word of a variant in a sentence: `lease expired`.
#[must_use]
pub fn phrase(variant: &impl Serialize) -> String {
    word(variant).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan_ledger::LostCause;

    #[test]
    fn words_are_those_of_the_json_form() {
        assert_eq!(word(&LostCause::LeaseExpired), "lease_expired");
        assert_eq!(phrase(&LostCause::LeaseExpired), "lease expired");
    }
}
