//! `ledger snapshot DIR`: keep the state as it is now, so that nobody need fold it again.

use crate::server::{Act, hand_over};

use super::acting::{environment, print_answer};
use super::args::SnapshotArgs;
use super::exit::{Code, Failure};

/// `ledger snapshot`.
pub(super) fn snapshot(args: &SnapshotArgs) -> Result<Code, Failure> {
    let answer = hand_over(&args.folder.dir()?, &Act::Snapshot {}, &environment())?;
    print_answer(args.json, &answer)
}
