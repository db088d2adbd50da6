//! Blobs that records name, and that a folder lacks.

use std::path::Path;

use plan_ledger::internals::ledger::BlobCheck;
use plan_ledger::log::BlobState;
use plan_ledger::{Environment, LedgerView};

use crate::output::Failure;
use crate::protocol::counted;

/// A blob that a record refers to, and that the folder does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingBlob {
    /// The name of its object.
    pub(crate) object: String,
    /// The first record that refers to it.
    pub(crate) seq: u64,
}

/// The blobs that a folder lacks.
pub(crate) fn missing_blobs(
    dir: &Path,
    environment: &Environment,
) -> Result<Vec<MissingBlob>, Failure> {
    let survey = LedgerView::open(dir, environment)?.blobs(BlobCheck::Presence)?;
    let missing = survey.blobs.iter().filter(|blob| blob.state != BlobState::Intact);
    let named = missing.filter_map(|blob| {
        Some(MissingBlob { object: format!("blob/{}", blob.id.hex()), seq: blob.first_seq? })
    });
    Ok(named.collect())
}

/// The same for people.
pub(crate) fn missing_text(missing: &[MissingBlob], url: &str) -> String {
    let outputs = counted(u64::try_from(missing.len()).unwrap_or(u64::MAX), "large output");
    let names: Vec<String> = missing
        .iter()
        .map(|blob| format!("  {url}/{}, the output of record {}", blob.object, blob.seq))
        .collect();
    format!("{outputs} missing or damaged in the store:\n{}", names.join("\n"))
}
