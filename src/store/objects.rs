//! The port: the calls to an object store.
//!
//! It is a trait, because the engines are foreign: their clients are not dependencies of this library.

use std::fmt;
use std::ops::Range;

use crate::error::{Error, ErrorKind};

/// A time of the store, in microseconds since the Unix epoch. It is never compared with the clock of a
/// machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(pub u64);

/// A call with an unknown outcome, and the reason for people. The store may have executed the
/// request, may execute it later, or not at all.
///
/// A refused create is unclear too: the refused request may be the repetition of one that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclear {
    /// The failed call, and the reason.
    pub why: String,
    /// Whether the store answered: with an error, such as a full disk or a missing right.
    pub is_answered: bool,
    /// Advice for a person, if the reason suggests one.
    pub hint: Option<String>,
}

impl Unclear {
    /// No answer arrived.
    pub fn no_answer(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_answered: false, hint: None }
    }

    /// The store answered with an error.
    pub fn answered(why: impl Into<String>) -> Self {
        Self { is_answered: true, ..Self::no_answer(why) }
    }

    /// The same, with advice for a person.
    #[must_use]
    pub fn with_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// The failure of a process that no longer repeats the call, for people.
    #[must_use]
    pub fn message(&self) -> String {
        let what = if self.is_answered {
            "the store answers with an error"
        } else {
            "the store does not answer"
        };
        format!("{what}: {}", self.why)
    }

    /// The same as an error, with a hint.
    #[must_use]
    pub fn error(&self) -> Error {
        let hint = self.hint.clone().unwrap_or_else(|| {
            let hint = if self.is_answered {
                "check the store, and try again"
            } else {
                "check the network and the endpoint, and try again"
            };
            hint.to_owned()
        });
        Error::new(ErrorKind::Io, self.message()).with_hint(hint)
    }
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// The answer to a create that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedObject {
    /// The store's time of the response, if it states one.
    pub at: Option<StoreTime>,
}

/// An object, or a range of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// The bytes, which are not verified.
    pub bytes: Vec<u8>,
    /// When it was created, by the store's clock.
    pub at: Option<StoreTime>,
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedObject {
    /// Its name below the prefix.
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
    /// When it was created, by the store's clock.
    pub at: Option<StoreTime>,
}

/// An object store, below the prefix of one ledger. Names use `/` between folders.
pub trait Objects: Send + Sync + fmt::Debug {
    /// Create an object, if the name is free. This is atomic, also against other clients.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<CreatedObject, Unclear>;

    /// Read an object, or a range of its bytes, which may extend past its end. `None` if the object
    /// does not exist.
    fn get(&self, name: &str, range: Option<Range<u64>>) -> Result<Option<StoredObject>, Unclear>;

    /// List the objects of a folder that sort after `after`; the name of the folder ends in `/`.
    /// `after` begins with the name of the folder and need not exist. The order of the list is not
    /// defined. An engine that cannot start in the middle filters the names.
    fn list_after(&self, folder: &str, after: &str) -> Result<Vec<ListedObject>, Unclear>;

    /// List all objects of a folder.
    fn list(&self, folder: &str) -> Result<Vec<ListedObject>, Unclear> {
        self.list_after(folder, folder)
    }

    /// Write a hint, which may already exist: an object on which nothing depends.
    fn put_hint(&self, name: &str, bytes: &[u8]) -> Result<(), Unclear>;

    /// Delete an object, if it exists.
    fn delete(&self, name: &str) -> Result<(), Unclear>;
}
