//! `ledger snapshot DIR`: keep the state as it is now, so that nobody need fold it again.

use serde_json::json;

use crate::ledger::Environment;
use crate::plan::State;

use super::args::SnapshotArgs;
use super::exit::{Code, Failure};
use super::{answer_with, open, print, say};

/// `ledger snapshot`.
pub(super) fn snapshot(args: &SnapshotArgs) -> Result<Code, Failure> {
    let ledger = open(&args.ledger, &Environment::system())?;
    let before = ledger.warnings().len();
    let made = ledger.snapshot::<State>()?;
    ledger.warnings().iter().skip(before).for_each(|warning| say(warning));
    ledger.close()?;
    if args.json {
        let value = json!({
            "type": "snapshot",
            "seq": made.seq,
            "file": made.path.display().to_string(),
            "state_hash": made.state_hash.to_string(),
        });
        print(&format!("{value}\n"))?;
    } else {
        let (seq, hash, file) = (made.seq, made.state_hash, made.path.display());
        answer_with(&format!("record {seq}: state {hash}\n{file}\n"))?;
    }
    Ok(Code::Fine)
}
