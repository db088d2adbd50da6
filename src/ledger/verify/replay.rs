//! Folds the log up to the first damage, and records the state hash at every requested record.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{ErrorKind, Result};
use crate::ledger::projection::{apply_owned_record, decode_record};
use crate::ledger::snapshot::state_hash::computed_state_hash;
use crate::ledger::snapshot::store;
use crate::log::{LogItem, LogReader, ProgressCounter, RecordStatus, VerifyFinding};
use crate::plan::{ContentHash, State};

/// The result of the fold.
#[derive(Debug, Default)]
pub(crate) struct ReplayResult {
    /// The requested hashes up to the end of the fold.
    pub(crate) hashes: BTreeMap<u64, ContentHash>,
    /// The last folded record and the state hash there; `None` if the fold was stopped, or had no state
    /// to begin with.
    pub(crate) state: Option<(u64, ContentHash)>,
    /// An intact record with an invalid payload, which ended the fold.
    pub(crate) fault: Option<VerifyFinding>,
}

/// The number of records that are folded between two checks for a stop request.
const STEP: u64 = 1024;

/// Fold everything up to the first damage.
///
/// # Errors
/// `Io`.
pub(crate) fn replay(
    reader: &LogReader,
    wanted: BTreeSet<u64>,
    progress: &ProgressCounter<'_>,
) -> Result<ReplayResult> {
    let mut replayed = ReplayResult::default();
    // A pruned log without a usable snapshot has no first state; the check of snapshots reports why.
    let Some((mut state, _)) = store::first_state(reader, u64::MAX).0 else {
        return Ok(replayed);
    };
    let mut wanted = wanted.into_iter().peekable();
    let mut record_hashes = |state: &State, hashes: &mut BTreeMap<u64, ContentHash>| {
        while let Some(seq) = wanted.next_if(|seq| *seq <= state.seq) {
            // The states before the first one are unknown.
            if seq == state.seq {
                hashes.insert(seq, computed_state_hash(state));
            }
        }
    };
    record_hashes(&state, &mut replayed.hashes);
    let mut done = 0_u64;
    let mut walk = reader.walk(state.seq.saturating_add(1));
    while let Some(item) = walk.next_ref() {
        let record = match item? {
            LogItem::Record(record, RecordStatus::Durable) => record,
            LogItem::DerivedDamage(_) => continue,
            // Damage was already reported, and ends the fold.
            _ => break,
        };
        match decode_record(&record) {
            Ok(decoded) => apply_owned_record(&mut state, decoded),
            Err(error) => {
                // A record of a newer program was already reported.
                let is_new = error.kind() != ErrorKind::Unsupported;
                replayed.fault =
                    is_new.then(|| VerifyFinding::at_record(reader, &record, &error.to_string()));
                break;
            }
        }
        record_hashes(&state, &mut replayed.hashes);
        done = done.saturating_add(record.size);
        if record.seq.is_multiple_of(STEP) {
            progress.advance(std::mem::take(&mut done));
            if progress.is_stopped() {
                return Ok(replayed);
            }
        }
    }
    progress.advance(done);
    replayed.state = Some((state.seq, computed_state_hash(&state)));
    Ok(replayed)
}
