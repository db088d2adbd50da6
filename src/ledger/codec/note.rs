//! Notes by people: a comment about a step, a run or the ledger, stored as a record of its own. A
//! note changes no state.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Codec, NewDetached, NewRecord, SALT_SIZE, detach, split_detached};
use crate::log::LoggedRecord;
use crate::plan::{Json, RunId, StepNumber};

use super::kind::Kind;

/// The longest text of a note, in bytes.
pub const NOTE_LENGTH_MAX: usize = 64 << 10;

/// The replacement for an erased text.
const ERASED_NOTE: &str = "(erased)";

/// The body of a note's record.
#[derive(Deserialize)]
struct NoteBody {
    run: Option<RunId>,
    step: Option<StepNumber>,
    by: String,
}

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
    /// The record that holds it. The text can be erased, and `salt` is its salt.
    ///
    /// # Errors
    /// `TooLarge`.
    pub(crate) fn to_record(&self, salt: [u8; SALT_SIZE]) -> Result<NewRecord> {
        let length = self.text.len();
        if length > NOTE_LENGTH_MAX {
            let message = format!(
                "note is too long: expected at most {NOTE_LENGTH_MAX} bytes, found {length}; put the \
                 text into a file, and note its path"
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let value = serde_json::json!({
            "run": self.run, "step": self.step, "by": self.by,
        });
        let body = Json::new(&value).as_str().as_bytes().to_vec();
        let text = NewDetached::Present { salt, bytes: self.text.as_bytes().to_vec() };
        let payload = detach(body, &[text]);
        Ok(NewRecord { kind: Kind::Note.number(), codec: Codec::Detached, schema: 1, payload })
    }

    /// The note in a record; `None` if the record is not a note, or a newer program wrote it.
    #[doc(hidden)]
    #[must_use]
    pub fn in_record(record: &LoggedRecord) -> Option<Self> {
        let is_note =
            (record.kind, record.codec, record.schema) == (Kind::Note.number(), Codec::Detached, 1);
        let parts = split_detached(&record.payload).filter(|_| is_note)?;
        let NoteBody { run, step, by } = serde_json::from_slice(parts.body).ok()?;
        let [text] = parts.values.as_slice() else { return None };
        let text =
            text.content.map_or(Some(ERASED_NOTE), |(_, bytes)| std::str::from_utf8(bytes).ok());
        Some(Self { run, step, by, text: text?.to_owned() })
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
