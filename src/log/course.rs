//! What an open does about the log's end: the table of recovery, and the caller's policy.

use super::evidence::Tail;
use super::options::{LogOptions, OnAmbiguous};
use super::recovery::{Bit, Row, Verdict, classify};

/// What an open does about the log's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    GoOn,
    Fence,
    /// Or find that there is nothing to refuse.
    Refuse,
}

impl Course {
    pub(super) fn of(options: &LogOptions, tail: &Tail, row: &Row) -> Self {
        bug!(CacheAdopted => if row.verdict == Verdict::Unproven { return Self::GoOn });
        bug!(TornTailReused => if row.verdict == Verdict::Torn { return Self::GoOn });
        bug!(DamageIsTornTail => if row.verdict == Verdict::Corrupt { return Self::Fence });
        match row.verdict {
            Verdict::Clean => Self::GoOn,
            Verdict::Unproven | Verdict::Torn => Self::Fence,
            Verdict::Ambiguous if options.on_ambiguous == OnAmbiguous::Fence => {
                // A policy for what cannot be known is none for what is known: without HEAD, all
                // the other evidence still counts.
                let rest = classify(tail.evidence.without(Bit::HeadMissing));
                let is_known = matches!(
                    rest.verdict,
                    Verdict::Corrupt
                        | Verdict::Tampered
                        | Verdict::AckedTailMissing
                        | Verdict::Version
                );
                if is_known { Self::Refuse } else { Self::Fence }
            }
            _ => Self::Refuse,
        }
    }
}
