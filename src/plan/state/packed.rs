//! Parts of a run in a snapshot that were not accessed yet.
//!
//! The packed format is defined by the code that packs the parts, in the ledger.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::links::SharedLinks;
use crate::plan::state::compact::plan::CompactPlan;
use crate::plan::value::ids::ContentHash;

/// A part of a run in a snapshot: a plan with the hashes of its steps, or a leaf of steps. Runs with
/// equal parts share them.
pub struct PackedPart {
    /// Hash of the part.
    pub hash: ContentHash,
    /// The packed part.
    pub bytes: Box<[u8]>,
    /// The plan, after the first access.
    pub plan: OnceLock<UnpackedPlan>,
    /// Links shared by the runs that execute the plan.
    pub links: OnceLock<SharedLinks>,
}

/// A plan, and the hashes of its steps.
#[derive(Debug, Clone)]
pub struct UnpackedPlan {
    /// The plan.
    pub plan: Arc<CompactPlan>,
    /// Hashes of the steps, in plan order.
    pub step_hashes: Arc<Vec<ContentHash>>,
}

impl PackedPart {
    /// A part that was not accessed yet.
    #[must_use]
    pub fn new(hash: ContentHash, bytes: Box<[u8]>) -> Self {
        Self { hash, bytes, plan: OnceLock::new(), links: OnceLock::new() }
    }
}

/// Unpacks a part, or returns why it cannot be unpacked.
pub(crate) type Unpack<T> = fn(&PackedPart) -> Result<T, String>;

impl fmt::Debug for PackedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hash, bytes, .. } = self;
        let mut shown = f.debug_struct("PackedPart");
        shown.field("hash", hash).field("bytes", &bytes.len()).finish_non_exhaustive()
    }
}
