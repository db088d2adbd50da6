//! What opening does about the end of the log: the verdict of the recovery table, combined with the
//! caller's policy.

use crate::log::options::{LogOptions, OnAmbiguous};

use super::evidence::Tail;
use super::table::{EvidenceBit, RecoveryRule, TailVerdict, classify};

/// What opening does about the end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveryAction {
    Continue,
    Fence,
    /// Refuse to open, unless it turns out that there is nothing to refuse.
    Refuse,
}

impl RecoveryAction {
    pub(crate) fn choose(options: &LogOptions, tail: &Tail, row: &RecoveryRule) -> Self {
        mutant!(UnsyncedTailAdopted => if row.verdict == TailVerdict::Unproven { return RecoveryAction::Continue });
        mutant!(TornTailOverwritten => if row.verdict == TailVerdict::Torn { return RecoveryAction::Continue });
        mutant!(DamageFencedAsTornTail => if row.verdict == TailVerdict::Corrupt { return Self::Fence });
        match row.verdict {
            TailVerdict::Clean => RecoveryAction::Continue,
            TailVerdict::Unproven | TailVerdict::Torn => Self::Fence,
            TailVerdict::Ambiguous if options.on_ambiguous == OnAmbiguous::Fence => {
                // The policy covers what is unknown, not what is known: all evidence other than a
                // missing HEAD still counts.
                let rest = classify(tail.evidence.without(EvidenceBit::HeadMissing));
                let is_known = matches!(
                    rest.verdict,
                    TailVerdict::Corrupt
                        | TailVerdict::Tampered
                        | TailVerdict::AckedTailMissing
                        | TailVerdict::Version
                );
                if is_known { Self::Refuse } else { Self::Fence }
            }
            _ => Self::Refuse,
        }
    }
}
