//! Notes by people: a comment about a step, a run or the ledger, stored as a record of its own. A
//! note changes no state.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Codec, NewRecord};
use crate::log::LoggedRecord;
use crate::plan::{Json, RunId, StepNumber};

use super::kind::Kind;

/// The longest text of a note, in bytes.
pub const NOTE_LENGTH_MAX: usize = 64 << 10;

/// A comment about a step, a run, or the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Note {
    /// The run that it is about, if any.
    pub run: Option<RunId>,
    /// The step that it is about, if any.
    pub step: Option<StepNumber>,
    /// Its author.
    pub by: String,
    /// Its text.
    pub text: String,
}

impl Note {
    /// The record that holds it.
    ///
    /// # Errors
    /// `TooLarge`.
    pub(crate) fn to_record(&self) -> Result<NewRecord> {
        let length = self.text.len();
        if length > NOTE_LENGTH_MAX {
            let message = format!(
                "note is too long: expected at most {NOTE_LENGTH_MAX} bytes, found {length}; put the \
                 text into a file, and note its path"
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let value = serde_json::json!({
            "run": self.run, "step": self.step, "by": self.by, "text": self.text,
        });
        let payload = Json::new(&value).as_str().as_bytes().to_vec();
        Ok(NewRecord { kind: Kind::Note.number(), codec: Codec::Json, schema: 1, payload })
    }

    /// The note in a record; `None` if the record is not a note, or a newer program wrote it.
    #[doc(hidden)]
    #[must_use]
    pub fn in_record(record: &LoggedRecord) -> Option<Self> {
        let is_note =
            (record.kind, record.codec, record.schema) == (Kind::Note.number(), Codec::Json, 1);
        is_note.then(|| serde_json::from_slice(&record.payload).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Environment, Ledger, LedgerView};
    use crate::log::BatchKey;

    /// Goal: a note is stored once per key, can be read, changes no state, and has a limit.
    #[test]
    fn note_is_kept_once_and_changes_no_state() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("l");
        let environment = Environment::system();
        let ledger = Ledger::create(&dir, &environment).unwrap();
        let key = BatchKey::new(b"k").unwrap();
        let mut note = Note {
            run: Some(RunId(1)),
            step: None,
            by: "ana".to_owned(),
            text: "x".repeat(NOTE_LENGTH_MAX),
        };
        let first = ledger.add_note(&note, Some(&key)).unwrap();
        assert_eq!(first.seq, 2, "the key, and the note");
        assert_eq!(ledger.add_note(&note, Some(&key)).unwrap(), first);
        assert_eq!(ledger.add_note(&note, None).unwrap().seq, 3);
        let live = ledger.state_hash().unwrap();
        let view = LedgerView::open(&dir, &environment).unwrap();
        assert_eq!(crate::ledger::state_hash(&view.fold(u64::MAX).unwrap().state), live);
        let read: Vec<_> =
            view.log().records(1).filter_map(|record| Note::in_record(&record.unwrap())).collect();
        assert_eq!(read, [note.clone(), note.clone()]);
        note.text.push('x');
        assert_eq!(ledger.add_note(&note, None).unwrap_err().kind(), ErrorKind::TooLarge);
        ledger.close().unwrap();
    }
}
