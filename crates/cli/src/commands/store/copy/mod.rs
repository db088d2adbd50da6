//! Copies between folders and the log in a store: `restore` makes a folder of a store, `replicate` ships a folder that
//! another process writes, and `rejoin` sets a diverged folder aside and restores the store in its place. `diverged`
//! words the error, `blobs` names the large outputs that a restored folder lacks, and `findings` reports damage in a
//! store.

mod blobs;
mod diverged;
mod findings;
mod rejoin;
mod replicate;
mod restore;

pub(super) use blobs::{missing_blobs, missing_text};
pub(super) use diverged::with_rejoin;
pub(super) use findings::{CHECK_EVERY, Findings, RECHECK_EVERY};
pub(crate) use rejoin::RecordJson;
pub(super) use rejoin::{RejoinArgs, rejoin};
pub(crate) use replicate::{ReplicateArgs, replicate};
pub(crate) use restore::{RestoreArgs, restore};
pub(super) use restore::{is_free, print_derived_damage, records_about};
