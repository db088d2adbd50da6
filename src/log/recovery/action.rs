//! The action of opening at the end of the log: the verdict of the recovery table, combined with
//! the caller's policy.

use crate::log::options::{LogOptions, OnAmbiguous};

use super::evidence::Tail;
use super::table::{EvidenceBit, RecoveryRow, TailVerdict};

/// The action that a verdict and the policy select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecoveryAction {
    Continue,
    Fence,
    /// Return the error of the verdict, if it has one.
    Refuse,
}

impl RecoveryAction {
    pub(crate) fn choose(options: &LogOptions, tail: &Tail, row: &RecoveryRow) -> Self {
        mutant!(UnsyncedTailAdopted => if row.verdict == TailVerdict::Unacknowledged { return RecoveryAction::Continue });
        mutant!(TornTailOverwritten => if row.verdict == TailVerdict::Torn { return RecoveryAction::Continue });
        mutant!(DamageFencedAsTornTail => if row.verdict == TailVerdict::Corrupt { return Self::Fence });
        match row.verdict {
            TailVerdict::Clean => RecoveryAction::Continue,
            TailVerdict::Unacknowledged | TailVerdict::Torn => Self::Fence,
            TailVerdict::Ambiguous if options.on_ambiguous == OnAmbiguous::Fence => {
                // The policy overrides only rows 1, 6a and 12: if the other evidence proves damage
                // without HEAD, opening still fails.
                let rest = tail.evidence.without(EvidenceBit::HeadInvalid).row();
                let is_known = matches!(
                    rest.verdict,
                    TailVerdict::Corrupt
                        | TailVerdict::Tampered
                        | TailVerdict::AcknowledgedTailMissing
                        | TailVerdict::Version
                );
                if is_known { Self::Refuse } else { Self::Fence }
            }
            _ => Self::Refuse,
        }
    }
}
