//! Amounts, times and names as people read them.

pub(crate) use plan_ledger_views::{moment, seconds, span, variant_words as words};

#[cfg(test)]
mod tests {
    //! Goal: numbers are short and exact enough.

    use super::*;
    use crate::protocol::{count, counted, size};

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "record"), "1 record");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1_572_864), "1.5 MiB");
        assert_eq!(span(1_500_000), "1s 500ms");
        assert_eq!(span(90_061_000_000), "1d 1h");
        assert_eq!((span(0), span(999)), ("0s".to_owned(), "999us".to_owned()));
        assert_eq!(words(&plan_ledger::LostCause::LeaseExpired, '_'), "lease_expired");
        assert_eq!(moment(5_000_000, 65_000_000), "1970-01-01T00:00:05Z (1m ago)");
        assert_eq!(moment(65_000_000, 5_000_000), "1970-01-01T00:01:05Z (in 1m)");
    }
}
