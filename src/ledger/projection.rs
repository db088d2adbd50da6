//! Projections: folds of the log that somebody wants to keep, the ledger's own state among them.

use std::io;

use crate::format::is_projection_name;
use crate::plan::{ContentHash, State};

use super::hash::{hash_of, state_hash};
use super::replay::{Recorded, fold, fold_in};
use super::state_body;

/// Whose a projection is. Only this crate can name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptFor {
    /// The ledger's.
    Ledger,
    /// Somebody's who uses the crate.
    User,
}

/// Whether a projection may have the name that it has.
///
/// A user's own could be called `state`: the note of its snapshot spoke of the ledger's state, and
/// said something else of it than the snapshots of that. Such a program is not compiled any more.
///
/// ```compile_fail
/// # use std::io;
/// # use plan_ledger::{Ledger, Projection, Recorded};
/// #[derive(Default)]
/// struct Mine;
///
/// impl Projection for Mine {
///     const NAME: &'static str = "state";
///     const VERSION: u32 = 1;
///     // ...
/// #   fn apply(&mut self, _: &Recorded) {}
/// #   fn encode(&self, _: &mut dyn io::Write) -> io::Result<()> { Ok(()) }
/// #   fn decode(_: &mut dyn io::Read) -> io::Result<Self> { Ok(Self) }
/// }
/// # fn keep(ledger: &Ledger) -> plan_ledger::Result<plan_ledger::Snapshot> {
/// ledger.snapshot::<Mine>()
/// # }
/// # fn main() { let _ = keep as fn(&Ledger) -> _; }
/// ```
///
/// Under any other name it is:
///
/// ```
/// # use std::io;
/// # use plan_ledger::{Ledger, Projection, Recorded};
/// #[derive(Default)]
/// struct Mine;
///
/// impl Projection for Mine {
///     const NAME: &'static str = "mine";
///     const VERSION: u32 = 1;
///     // ...
/// #   fn apply(&mut self, _: &Recorded) {}
/// #   fn encode(&self, _: &mut dyn io::Write) -> io::Result<()> { Ok(()) }
/// #   fn decode(_: &mut dyn io::Read) -> io::Result<Self> { Ok(Self) }
/// }
/// # fn keep(ledger: &Ledger) -> plan_ledger::Result<plan_ledger::Snapshot> {
/// ledger.snapshot::<Mine>()
/// # }
/// # fn main() { let _ = keep as fn(&Ledger) -> _; }
/// ```
pub(super) const fn is_name_of(kept_for: KeptFor, name: &str) -> bool {
    let is_ours = matches!(name.as_bytes(), b"state" | b"metrics");
    is_projection_name(name) && (!is_ours || matches!(kept_for, KeptFor::Ledger))
}

/// A fold of the log, with a form in which it can be kept in a snapshot.
///
/// A projection is a pure function of the records: no clock, no randomness, no order of a hash
/// map. Its default is what it is before the first record.
pub trait Projection: Default {
    /// Its name in files: 1 to 64 characters of `a-z`, `0-9` and `_`, but not `state` or `metrics`,
    /// which are the ledger's own. It is checked when the program is compiled.
    const NAME: &'static str;

    /// Version of what `apply` means and of what `encode` writes, from 1. A snapshot of another
    /// version is ignored: the log is folded instead.
    const VERSION: u32;

    /// Whose it is. There is nothing to be said here outside of this crate.
    #[doc(hidden)]
    const KEPT_FOR: KeptFor = KeptFor::User;

    /// Fold a record in. Total: whatever the record says, there is a result.
    fn apply(&mut self, recorded: &Recorded);

    /// The same, of a record that nobody needs afterwards.
    fn take(&mut self, recorded: Recorded) {
        self.apply(&recorded);
    }

    /// Write everything that `decode` needs. Equal projections write equal bytes, packing aside.
    ///
    /// # Errors
    /// What the writer says; anything else means that there can be no snapshot of this one.
    fn encode(&self, out: &mut dyn io::Write) -> io::Result<()>;

    /// Read what `encode` wrote, to the end. The bytes are those of a file: sums were checked,
    /// but they may still be anything, so no length in them may be believed.
    ///
    /// # Errors
    /// What the reader says, and bytes that make no sense.
    fn decode(input: &mut dyn io::Read) -> io::Result<Self>;

    /// Write what [`Projection::decode_changes`] needs to make this of `base`, which stands in an older
    /// snapshot.
    ///
    /// # Errors
    /// As [`Projection::encode`]; that snapshots of this projection are based on no other.
    fn encode_changes(&self, _base: &Self, _out: &mut dyn io::Write) -> io::Result<()> {
        Err(whole())
    }

    /// Read what [`Projection::encode_changes`] wrote of `base`.
    ///
    /// # Errors
    /// As [`Projection::decode`]; that snapshots of this projection are based on no other.
    fn decode_changes(_base: Self, _input: &mut dyn io::Read) -> io::Result<Self> {
        Err(whole())
    }

    /// What is wrong with bytes that `decode` took over and that were looked at only later.
    #[must_use]
    fn fault(&self) -> Option<&str> {
        None
    }

    /// Look at all that `decode` left for later: what is wrong with any of it.
    #[must_use]
    fn check(&self) -> Option<&str> {
        None
    }

    /// What two equal projections have in common: the hash of what `encode` writes.
    #[must_use]
    fn hash(&self) -> ContentHash {
        hash_of(|out| self.encode(out))
    }
}

fn whole() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "snapshots of this projection are based on no other")
}

/// The state of the ledger: plans, steps, queues, variables, barriers.
impl Projection for State {
    const NAME: &'static str = "state";
    const VERSION: u32 = 1;
    const KEPT_FOR: KeptFor = KeptFor::Ledger;

    fn apply(&mut self, recorded: &Recorded) {
        fold(self, recorded);
    }

    fn take(&mut self, recorded: Recorded) {
        fold_in(self, recorded);
    }

    fn encode(&self, out: &mut dyn io::Write) -> io::Result<()> {
        state_body::encode(self, &Self::default(), out)
    }

    fn decode(input: &mut dyn io::Read) -> io::Result<Self> {
        state_body::decode(Self::default(), input)
    }

    fn encode_changes(&self, base: &Self, out: &mut dyn io::Write) -> io::Result<()> {
        state_body::encode(self, base, out)
    }

    fn decode_changes(base: Self, input: &mut dyn io::Read) -> io::Result<Self> {
        state_body::decode(base, input)
    }

    fn hash(&self) -> ContentHash {
        state_hash(self)
    }

    fn fault(&self) -> Option<&str> {
        self.runs.fault()
    }

    fn check(&self) -> Option<&str> {
        self.runs.check()
    }
}
