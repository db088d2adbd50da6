//! Names, amounts, times and statuses as people read them.

mod amounts;
mod parts;
mod phrase;
mod run;
mod status;
mod step_name;
mod times;
mod value;
mod warning;
mod worker_kind;

pub use amounts::{cost_text, count, counted, hex, limits_text, money_text, size};
pub(crate) use parts::counted_of;
pub use parts::{paused_text, question_subject_text, variant_words};
pub use phrase::phrase;
pub(crate) use phrase::word;
pub use run::{progress_text, spent_text};
pub use status::{barrier_paint, barrier_word, legend, run_status_text, status_mark, status_paint};
pub use step_name::{StepName, step_name, step_title, text_of, title_line};
pub use times::{moment, seconds, span};
pub use value::value_text;
pub use warning::{BudgetUse, slow_text, warning_text};
pub use worker_kind::WorkerKind;

#[cfg(test)]
mod tests {
    //! Goal: numbers are short and exact enough.

    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "record"), "1 record");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1_572_864), "1.5 MiB");
        assert_eq!(span(1_500_000), "1s 500ms");
        assert_eq!(span(90_061_000_000), "1d 1h");
        assert_eq!((span(0), span(999)), ("0s".to_owned(), "999us".to_owned()));
        assert_eq!(variant_words(&plan_ledger::LostCause::LeaseExpired, '_'), "lease_expired");
        assert_eq!(moment(5_000_000, 65_000_000), "1970-01-01T00:00:05Z (1m ago)");
        assert_eq!(moment(65_000_000, 5_000_000), "1970-01-01T00:01:05Z (in 1m)");
    }
}
