//! Carrying out commands: judged and folded in under a lock, made durable outside of it, so that
//! commands of several threads share syncs.
//!
//! Invariants:
//! - Nothing is answered before it, and all that it was judged by, is durable: a refusal, too.
//! - The state runs ahead of the durable records by what was submitted, and by nothing else. When
//!   that fails, it is folded again from the log.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::PAYLOAD_LENGTH_MAX;
use crate::log::{Ack, Batch, BatchKey, Durability, Log, Ticket};
use crate::plan::{Command, Event, Micros, State};

use super::copies::Copies;
use super::rest::Rest;
use super::wish::{Course, Make, Wish};
use super::{Commit, Ledger, codec, expect_sound, snapshots};

/// What the threads that use a ledger share, besides its log.
#[derive(Debug)]
pub(super) struct Shared {
    /// The writer's own: readers get copies.
    pub(super) state: State,
    pub(super) copies: Copies,
    pub(super) freshness: Freshness,
    pub(super) rest: Rest,
}

/// Whether the state in memory is the fold of the records that were submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Current,
    /// Events were folded in that have no place in the log, or a fold did not finish.
    Stale,
    /// The log takes no more records, and this is the fold of the durable ones.
    Final,
}

/// A command whose events have their place in the log, and are not durable yet.
pub(super) struct Pending<T> {
    pub(super) ticket: Ticket,
    events: Vec<(u64, Event)>,
    pub(super) answer: T,
}

/// What came of trying to give a command its place in the log.
pub(super) type Begun<T, E> = std::result::Result<Pending<T>, NotBegun<E>>;

/// The same of a wish; `R` is what reads the answer off the state.
pub(super) enum Start<T, E, R> {
    Begun(Pending<T>),
    NotBegun(NotBegun<E>),
    /// It has its place since earlier.
    Landed(Ticket, R),
}

/// Why nothing has its place in the log.
pub(super) enum NotBegun<E> {
    /// By a state that may not be durable yet.
    Refused(E),
    /// For a reason of the log.
    Failed(E),
}

impl Shared {
    /// `state` is the fold of all records.
    pub(super) fn new(state: State) -> Self {
        let (freshness, rest) = (Freshness::Current, Rest::None);
        Self { state, copies: Copies::default(), freshness, rest }
    }

    /// Fold the state again if it is not the fold of the records.
    pub(super) fn refresh(&mut self, log: &Log) -> Result<()> {
        if self.freshness == Freshness::Stale {
            // A reader sees what is durable. If that cannot be had any more, it is all there is.
            let flushed = log.flush();
            let folded = snapshots::project::<State>(&log.reader()?, u64::MAX)?;
            self.state = folded.value;
            self.copies.clear();
            self.freshness = if flushed.is_ok() { Freshness::Current } else { Freshness::Final };
        }
        Ok(())
    }

    /// Note for the copies what was folded in: the record of a key, if there is one, and events.
    fn note(&mut self, key: Option<u64>, first: u64, events: &[Event]) {
        let time = self.state.time;
        if let Some(seq) = key {
            self.copies.note(seq, time, None);
        }
        for (seq, event) in (first..).zip(events) {
            self.copies.note(seq, time, Some(event));
        }
    }

    /// The state, which is not stale, as somebody may keep it.
    fn take(&mut self) -> Arc<State> {
        self.copies.take(&self.state)
    }
}

impl Ledger {
    /// Carry out a command: judge it, write its events durably as one batch, fold them in.
    ///
    /// # Errors
    /// `Rejected`, with the reason: nothing was written. `DiskFull` and `TooLarge`: nothing was
    /// written, and the ledger may be used further. `OutcomeUnknown`: a write or sync failed;
    /// open the ledger again to find out. `Poisoned`: an earlier one did. `Fenced`: the right to
    /// write was lost, and nothing was written.
    pub fn execute(&self, command: &Command) -> Result<Commit> {
        self.carry_out(command, |_, _| ()).map(|(commit, ())| commit)
    }

    /// Carry out a command unless it was carried out under this key before: then its commit is
    /// returned as it was. So a caller that does not know how a command ended, because the answer
    /// was lost or unknown, may simply ask again, after opening the ledger again, too. The ledger
    /// looks back over [`crate::log::KEY_WINDOW`] records. A command that was refused leaves no
    /// key.
    ///
    /// # Errors
    /// As [`Ledger::execute`]; `Corrupt` if the last records cannot be read.
    pub fn execute_once(&self, key: &BatchKey, command: &Command) -> Result<Commit> {
        let wish = Wish { key: Some(key), ..Wish::of(command) };
        self.fulfil(&wish, |_, _| ()).map(|(commit, ())| commit)
    }

    /// Carry out what the state asks for, and read off the state what its caller is to be told:
    /// with nothing between making the command, carrying it out and reading. A wish that was
    /// fulfilled under its key before is not judged again: its commit is returned as it was, and
    /// `read` sees the state of today.
    ///
    /// Both are called while the ledger is held: neither may call it, or they wait for each other.
    ///
    /// # Errors
    /// What making the command says; as [`Ledger::execute_once`].
    pub fn fulfil<T, E: From<Error>>(
        &self,
        wish: &Wish<'_, E>,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    ) -> std::result::Result<(Commit, T), E> {
        self.log.expect_own_process()?;
        let _naming = self.blobs.naming();
        let ready = self.ready(wish)?;
        match self.start(wish, ready.as_deref(), read) {
            Start::Begun(begun) => self.finish(Ok(begun)),
            Start::NotBegun(why) => self.finish(Err(why)),
            Start::Landed(ticket, read) => self.landed(ticket, read),
        }
    }

    /// The command of a wish if it is ready, its large output stored.
    pub(super) fn ready<'a, E>(&self, wish: &Wish<'a, E>) -> Result<Option<Cow<'a, Command>>> {
        match &wish.command {
            Make::Ready(command) => {
                let command = self.stored(command)?;
                expect_fitting(&command)?;
                Ok(Some(command))
            }
            Make::Of(_) => Ok(None),
        }
    }

    /// Give what is wished for its place in the log, unless it has one.
    pub(super) fn start<T, E: From<Error>, R>(
        &self,
        wish: &Wish<'_, E>,
        ready: Option<&Command>,
        read: R,
    ) -> Start<T, E, R>
    where
        R: FnOnce(&State, &[(u64, Event)]) -> T,
    {
        let mut shared = match self.lock() {
            Ok(shared) => shared,
            Err(error) => return Start::NotBegun(NotBegun::Failed(error.into())),
        };
        match wish.key.map(|key| self.log.landed(key)).transpose().map(Option::flatten) {
            Err(error) => return Start::NotBegun(NotBegun::Failed(error.into())),
            Ok(Some(ticket)) => return Start::Landed(ticket, read),
            Ok(None) => {}
        }
        let make = |state: &State| match (ready, &wish.command) {
            (Some(command), _) => Ok(Cow::Borrowed(command)),
            (None, Make::Of(make)) => make(state).map(Cow::Owned),
            (None, Make::Ready(command)) => Ok(Cow::Borrowed(*command)),
        };
        let course = Course { make: &make, then: wish.then, key: wish.key };
        match self.begin(&mut shared, &course, read) {
            Ok(begun) => Start::Begun(begun),
            Err(why) => Start::NotBegun(why),
        }
    }

    /// The commit of what had its place already, and what is to be told of it today.
    pub(super) fn landed<T, E: From<Error>>(
        &self,
        ticket: Ticket,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    ) -> std::result::Result<(Commit, T), E> {
        let commit = self.earlier(ticket)?;
        let mut shared = self.lock()?;
        shared.refresh(&self.log)?;
        let answer = read(&shared.state, &commit.events);
        Ok((commit, answer))
    }

    /// The commit of a batch that was submitted before.
    fn earlier(&self, ticket: Ticket) -> Result<Commit> {
        let (first, last) = (ticket.first_seq(), ticket.last_seq());
        let ack = self.log.wait(ticket)?;
        let mut events = Vec::new();
        for record in self.log.reader()?.records_to(first, last) {
            let record = record?;
            events.extend(codec::decode(&record)?.map(|event| (record.seq, event)));
        }
        Ok(Commit { ack, events })
    }

    /// Carry out a command, and read off the state what its caller is to be told: with nothing
    /// between the two.
    pub(super) fn carry_out<T>(
        &self,
        command: &Command,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    ) -> Result<(Commit, T)> {
        self.fulfil(&Wish::of(command), read)
    }

    /// The ledger's time, by which everything is judged: the clock's, but never before the last
    /// record, durable or not. Where the clock went back, what was over stays over.
    #[doc(hidden)]
    pub fn now(&self) -> Micros {
        self.environment.clock.now().max(self.log.time())
    }

    pub(super) fn begin<T, E: From<Error>>(
        &self,
        shared: &mut Shared,
        course: &Course<'_, '_, E>,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    ) -> Begun<T, E> {
        let failed = |error: Error| NotBegun::Failed(E::from(error));
        loop {
            self.log.expect_good().map_err(failed)?;
            shared.refresh(&self.log).map_err(failed)?;
            let now = self.now();
            let expected = self.log.last_submitted().seq + 1;
            // The key's record comes before the events.
            let first = expected + u64::from(course.key.is_some());
            let command = (course.make)(&shared.state);
            expect_sound(&shared.state).map_err(failed)?;
            let command = command.map_err(NotBegun::Refused)?;
            // Until the events have their place, the state runs ahead of the log; whatever ends
            // this early, a panic included, leaves the mark that says so.
            shared.freshness = Freshness::Stale;
            let state = &mut shared.state;
            let decided = crate::plan::execute(state, first, now, &command)
                .map(|events| course.go_on(state, first, now, events));
            expect_sound(state).map_err(failed)?;
            let events = match decided {
                Ok(events) => events,
                Err(rejection) => {
                    shared.freshness = Freshness::Current;
                    return Err(NotBegun::Refused(Error::from(rejection).into()));
                }
            };
            if course.key.is_some() && events.is_empty() {
                state.pass(expected, now);
            }
            let batch = Batch {
                records: events.iter().map(codec::encode).collect(),
                time: now,
                durability: Durability::Sync,
                expected_seq: Some(expected),
                key: course.key.cloned(),
            };
            let ticket = match self.log.submit(&batch) {
                // A note of the ledger's own came in between: judge again.
                Err(error) if error.kind() == ErrorKind::Conflict => continue,
                submitted => submitted.map_err(failed)?,
            };
            shared.freshness = Freshness::Current;
            shared.rest = shared.rest.after(&command, &events);
            shared.note(course.key.map(|_| expected), first, &events);
            let events: Vec<_> = (first..).zip(events).collect();
            let answer = read(&shared.state, &events);
            return Ok(Pending { ticket, events, answer });
        }
    }

    /// Wait for what was begun. No lock is held.
    pub(super) fn finish<T, E: From<Error>>(
        &self,
        begun: Begun<T, E>,
    ) -> std::result::Result<(Commit, T), E> {
        let Pending { ticket, events, answer } = match begun {
            Ok(pending) => pending,
            Err(NotBegun::Refused(error)) => {
                bug!(RefusedEarly => return Err(error));
                self.log.flush().map_err(|error| self.lost(error))?;
                return Err(error);
            }
            Err(NotBegun::Failed(error)) => return Err(error),
        };
        let ack = self.settled(ticket)?;
        Ok((Commit { ack, events }, answer))
    }

    /// Wait until what has its place in the log is durable.
    pub(super) fn settled(&self, ticket: Ticket) -> Result<Ack> {
        bug!(AnsweredEarly => return Ok(self.log.ack()));
        match self.log.wait(ticket) {
            Ok(ack) => {
                self.climb(ack.seq);
                Ok(ack)
            }
            Err(error) => {
                self.mark_stale();
                Err(error)
            }
        }
    }

    /// What somebody is told who wrote nothing, when the writes of others failed.
    pub(super) fn lost(&self, error: Error) -> Error {
        self.mark_stale();
        match error.kind() {
            ErrorKind::OutcomeUnknown => error.as_kind(ErrorKind::Poisoned),
            _ => error,
        }
    }

    /// The state now: it does not change any more, and may be kept for as long as one likes. All
    /// of it is durable. Taking it costs what happened since it was last taken, and the first time,
    /// or while several older ones are held, a copy of it all.
    ///
    /// After a failed write it is folded from what is durable, and stays as it is.
    ///
    /// # Errors
    /// `Corrupt`, `Fenced` and `Io` if the log had to be read again, and could not: what is at hand
    /// then holds events that were refused. `Fenced` in a fork.
    pub fn state(&self) -> Result<Arc<State>> {
        let state = {
            let mut shared = self.lock()?;
            shared.refresh(&self.log)?;
            shared.take()
        };
        if self.log.flush().is_ok() {
            return Ok(state);
        }
        let mut shared = self.lock()?;
        if shared.freshness != Freshness::Final {
            shared.freshness = Freshness::Stale;
            shared.refresh(&self.log)?;
        }
        Ok(shared.take())
    }
}

/// What no record has room for is refused before it is folded in: the log refuses it, too, but then the
/// state has to be folded again. Others that are too large are rare.
fn expect_fitting(command: &Command) -> Result<()> {
    let (what, length) = match command {
        Command::RecordReceipt { receipt, .. } => ("a receipt", codec::length(receipt)),
        Command::SetVariable { value, .. } => ("a value", codec::length(value)),
        _ => return Ok(()),
    };
    if length <= u64::from(PAYLOAD_LENGTH_MAX) {
        return Ok(());
    }
    let message = format!(
        "{what} of {length} bytes: expected at most {PAYLOAD_LENGTH_MAX}, with what a record says \
         besides; put large results into a file and record its path"
    );
    Err(Error::new(ErrorKind::TooLarge, message))
}
