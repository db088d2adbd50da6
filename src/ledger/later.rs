//! What is begun now and waited for later: so one thread carries out many acts, and one sync makes
//! them durable together.
//!
//! Invariants:
//! - Nobody may be told anything of what was begun, a refusal included, before it was settled: the
//!   state that it was judged by runs ahead of what is durable.
//! - What names a large output is not put off: until its record is durable the output is held.

use std::cell::{Cell, RefCell};

use crate::error::{Error, Result};
use crate::log::Ticket;
use crate::plan::{Command, Event, Output, State};

use super::execute::{NotBegun, Start};
use super::wish::Wish;
use super::{Ledger, expect_sound};

/// What is to be durable before the answer to an act is given.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct Later {
    /// What was written.
    tickets: RefCell<Vec<Ticket>>,
    ground: Cell<Ground>,
}

/// What the answer stands on, besides what the act wrote itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Ground {
    /// Nothing.
    #[default]
    None,
    /// The state as it was.
    State,
}

impl Later {
    fn add(&self, ticket: Ticket) {
        self.tickets.borrow_mut().push(ticket);
    }

    fn stand_on_state(&self) {
        self.ground.set(Ground::State);
    }

    /// Wait until all of it is durable.
    ///
    /// # Errors
    /// As [`Ledger::execute`] says of the disk: then the answer is this.
    #[doc(hidden)]
    pub fn settle(&self, ledger: &Ledger) -> Result<()> {
        let tickets = self.tickets.take();
        tickets.into_iter().try_for_each(|ticket| ledger.settled(ticket).map(drop))?;
        let ground = self.ground.take();
        bug!(RefusedEarly => return Ok(()));
        if ground == Ground::State { ledger.expect_writable() } else { Ok(()) }
    }
}

impl Ledger {
    /// As [`Ledger::fulfil`], but to be settled.
    ///
    /// # Errors
    /// What making the command says; `Rejected`, `DiskFull` and `TooLarge`.
    #[doc(hidden)]
    pub fn fulfil_later<T, E: From<Error>>(
        &self,
        wish: &Wish<'_, E>,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
        later: &Later,
    ) -> std::result::Result<T, E> {
        self.log.expect_own_process()?;
        let naming = self.blobs.naming();
        let ready = self.ready(wish)?;
        let naming = ready.as_deref().is_some_and(names_output).then_some(naming);
        let pending = match self.start(wish, ready.as_deref(), read) {
            Start::Begun(pending) => pending,
            Start::Landed(ticket, read) => return self.landed(ticket, read).map(|(_, told)| told),
            Start::NotBegun(NotBegun::Failed(error)) => return Err(error),
            Start::NotBegun(NotBegun::Refused(error)) => {
                later.stand_on_state();
                return Err(error);
            }
        };
        if naming.is_some() {
            self.settled(pending.ticket)?;
        } else {
            later.add(pending.ticket);
        }
        Ok(pending.answer)
    }

    /// As [`Ledger::tick`], but to be settled.
    ///
    /// # Errors
    /// As [`Ledger::tick`], but for what waiting says.
    #[doc(hidden)]
    pub fn tick_later(&self, later: &Later) -> Result<()> {
        match self.start_tick() {
            None => {}
            Some(Ok(pending)) => later.add(pending.ticket),
            Some(Err(NotBegun::Failed(error) | NotBegun::Refused(error))) => return Err(error),
        }
        Ok(())
    }

    /// Look at the state as it is, without a copy; what is read off it is to be settled.
    ///
    /// # Errors
    /// `Corrupt` if a run that was looked at cannot be read.
    #[doc(hidden)]
    pub fn look_later<T>(&self, read: impl FnOnce(&State) -> T, later: &Later) -> Result<T> {
        let mut shared = self.lock()?;
        shared.refresh(&self.log)?;
        let found = read(&shared.state);
        expect_sound(&shared.state)?;
        later.stand_on_state();
        Ok(found)
    }

    /// That no write has failed so far; what was begun is durable then.
    ///
    /// # Errors
    /// As [`Ledger::execute`] says of the disk.
    #[doc(hidden)]
    pub fn expect_writable(&self) -> Result<()> {
        self.log.flush().map(drop).map_err(|error| self.lost(error))
    }
}

/// Whether a command names an output that lies beside the log.
fn names_output(command: &Command) -> bool {
    matches!(command, Command::RecordReceipt { receipt, .. }
        if matches!(receipt.output, Output::Blob(_)))
}

#[cfg(test)]
mod tests {
    //! Goal: nobody is told what may not be durable, and what is begun together is synced once.

    use std::path::Path;

    use super::*;
    use crate::error::ErrorKind;
    use crate::lab::environment;
    use crate::plan::{CapScope, RunId};
    use crate::sim::{Effect, Failure, Operation, OsError, Rule, SimDisk};

    fn ledger() -> (SimDisk, Ledger) {
        let disk = SimDisk::new();
        let ledger = Ledger::create(Path::new("/l"), &environment(&disk)).unwrap();
        (disk, ledger)
    }

    fn cap(limit: u32) -> Command {
        let (scope, limit) = (CapScope::Ledger, Some(limit));
        Command::SetCap { scope, limit, by: "ana".to_owned() }
    }

    fn begin(ledger: &Ledger, command: &Command) -> (Later, Result<u64>) {
        let later = Later::default();
        let begun = ledger.fulfil_later(&Wish::of(command), |state, _| state.seq, &later);
        (later, begun)
    }

    fn fail_next_sync(disk: &SimDisk) {
        let failure = Failure::Error(OsError::Io, Effect::Nothing);
        disk.inject(Rule::next(failure).of(Operation::Sync));
    }

    #[test]
    fn a_look_at_a_ledger_whose_write_failed_is_refused() {
        let (disk, ledger) = ledger();
        let look = || {
            let later = Later::default();
            let seq = ledger.look_later(|state| state.seq, &later)?;
            later.settle(&ledger).map(|()| seq)
        };
        assert_eq!(look().unwrap(), 0);
        fail_next_sync(&disk);
        ledger.execute(&cap(1)).unwrap_err();
        let error = look().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    }

    #[test]
    fn what_is_begun_together_is_durable_together() {
        let (_, ledger) = ledger();
        let begun: Vec<_> = (1..=5).map(|limit| begin(&ledger, &cap(limit))).collect();
        assert_eq!(ledger.head().seq, 0, "nothing waited for the disk");
        for (seq, (later, begun)) in (1..).zip(&begun) {
            assert_eq!(*begun.as_ref().unwrap(), seq, "each sees those before it");
            later.settle(&ledger).unwrap();
            assert_eq!(ledger.head().seq, 5, "the first one waits for all");
        }
    }

    #[test]
    fn a_failed_sync_is_told_to_all_who_wait_for_it() {
        let (disk, ledger) = ledger();
        let written: Vec<_> = (1..=3).map(|limit| begin(&ledger, &cap(limit)).0).collect();
        let nobody =
            Command::CancelRun { run: RunId(9), by: "ana".to_owned(), reason: String::new() };
        let (refused, why) = begin(&ledger, &nobody);
        assert_eq!(why.unwrap_err().kind(), ErrorKind::Rejected);
        fail_next_sync(&disk);
        for later in &written {
            let error = later.settle(&ledger).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        }
        // Nothing of it was written: it only may not be told by what it was judged.
        let error = refused.settle(&ledger).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    }
}
