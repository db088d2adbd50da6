//! Remarks: what somebody wants to be read beside the records, and that changes nothing.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Codec, NewRecord};
use crate::log::{Ack, BatchKey, LoggedRecord};
use crate::plan::{Json, RunId, StepNumber};

use super::{Kind, Ledger};

/// The longest remark, in bytes.
pub const REMARK_LENGTH_MAX: usize = 64 << 10;

/// What somebody said, about a step, a run, or the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// The run that it is about, if it is about one.
    pub run: Option<RunId>,
    /// The step that it is about, if it is about one.
    pub step: Option<StepNumber>,
    /// Who said it.
    pub by: String,
    /// What they said.
    pub text: String,
}

impl Remark {
    fn record(&self) -> NewRecord {
        let value = serde_json::json!({
            "run": self.run, "step": self.step, "by": self.by, "text": self.text,
        });
        let payload = Json::new(&value).as_str().as_bytes().to_vec();
        NewRecord { kind: Kind::Remark.number(), codec: Codec::Json, schema: 1, payload }
    }

    /// The remark that a record is, if it is one that this program knows.
    #[must_use]
    pub fn in_record(record: &LoggedRecord) -> Option<Self> {
        let is_ours =
            (record.kind, record.codec, record.schema) == (Kind::Remark.number(), Codec::Json, 1);
        is_ours.then(|| serde_json::from_slice(&record.payload).ok()).flatten()
    }
}

impl Ledger {
    /// Keep a remark; under a key, once. It changes no state.
    ///
    /// # Errors
    /// `TooLarge`, and what [`Ledger::execute`] says of the disk.
    pub fn remark(&self, remark: &Remark, key: Option<&BatchKey>) -> Result<Ack> {
        let length = remark.text.len();
        if length > REMARK_LENGTH_MAX {
            let message = format!(
                "a remark: expected at most {REMARK_LENGTH_MAX} bytes, found {length}; put it into \
                 a file, and say where that is"
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        self.note(remark.record(), key)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a remark is kept once, is read back, changes no state, and has a limit.

    use super::*;
    use crate::ledger::Environment;
    use crate::ledger::LedgerView;

    #[test]
    fn a_remark_is_kept_once_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("l");
        let environment = Environment::system();
        let ledger = Ledger::create(&dir, &environment).unwrap();
        let key = BatchKey::new(b"k").unwrap();
        let mut remark = Remark {
            run: Some(RunId(1)),
            step: None,
            by: "ana".to_owned(),
            text: "x".repeat(REMARK_LENGTH_MAX),
        };
        let first = ledger.remark(&remark, Some(&key)).unwrap();
        assert_eq!(first.seq, 2, "the key, and the remark");
        assert_eq!(ledger.remark(&remark, Some(&key)).unwrap(), first);
        assert_eq!(ledger.remark(&remark, None).unwrap().seq, 3);
        let live = ledger.state_hash().unwrap();
        let view = LedgerView::open(&dir, &environment).unwrap();
        assert_eq!(crate::ledger::state_hash(&view.fold(u64::MAX).unwrap().state), live);
        let read: Vec<_> = view
            .log()
            .records(1)
            .filter_map(|record| Remark::in_record(&record.unwrap()))
            .collect();
        assert_eq!(read, [remark.clone(), remark.clone()]);
        remark.text.push('x');
        assert_eq!(ledger.remark(&remark, None).unwrap_err().kind(), ErrorKind::TooLarge);
        ledger.close().unwrap();
    }
}
