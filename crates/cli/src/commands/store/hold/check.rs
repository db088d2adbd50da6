//! The owner's thread that checks whether the store could restore the ledger, and repairs it (`format/store.md`,
//! section 7).
//!
//! The thread lists the store when it starts, once a day, and each minute while something is damaged. In between it
//! reads one object after the other, slowly, and at most a certain number of bytes a day, because some stores charge
//! for traffic.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use plan_ledger::internals::store::{AckMode, DamageState, StoreDamage, StoreKeeper};
use plan_ledger::{Error, ErrorKind};

use crate::commands::store::copy::{CHECK_EVERY, Findings, RECHECK_EVERY};
use crate::output::print_message;

/// How many bytes are read each second, and the least pause between two objects.
const BYTES_PER_SECOND: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(100);

/// A smaller object counts as this many bytes, since each costs a request.
const BYTES_MIN: u64 = 64 << 10;

/// After this many failed checks in a row, one each minute, the failure is reported even if the reason is that the
/// store does not answer.
const FAILED_MAX: u32 = 10;

/// The error of a start that found damage which it cannot repair: a restore would lose the results that it
/// acknowledges.
pub(super) fn refused(damage: &StoreDamage, count: u64, url: &str) -> Error {
    let StoreDamage { object, what, state, .. } = damage;
    let more = match count {
        0 | 1 => String::new(),
        2 => ", and 1 more object is damaged or missing".to_owned(),
        count => format!(", and {} more objects are damaged or missing", count - 1),
    };
    let what = match what.strip_prefix("it ") {
        Some(is_so) => format!("{object} {is_so}"),
        None => format!("{object}: {what}"),
    };
    let message = format!("the store could not restore this ledger: {what}{more}");
    let remedy = match state {
        DamageState::Deletable => {
            "this folder has its content: move that object out of the prefix with the tool of the store, keep it, and start again"
        }
        _ => {
            "this folder does not have all of it: bring that object back from a copy of the store, or start with a folder that has \
             these records"
        }
    };
    let hint = format!("{remedy}; `--ack local` serves meanwhile, without a copy that is whole");
    Error::new(ErrorKind::Corrupt, message)
        .with_hint(hint)
        .at_path(format!("{url}/{object}").as_ref())
}

/// The thread. It ends with this.
#[derive(Debug)]
pub(super) struct Checker {
    stop: Option<Sender<()>>,
    /// The thread may wait for the store, but no other thread waits for it.
    _thread: JoinHandle<()>,
}

impl Drop for Checker {
    fn drop(&mut self) {
        drop(self.stop.take());
    }
}

/// The data of the thread.
pub(super) struct Checking {
    pub(super) keeper: Arc<StoreKeeper>,
    pub(super) findings: Arc<Findings>,
    /// The start has already checked the store.
    pub(super) is_checked: bool,
    /// How many bytes are read each day.
    pub(super) bytes_max: u64,
}

impl Checker {
    pub(super) fn start(checking: Checking) -> Result<Self, Error> {
        let (stop, stopped) = channel();
        let mut turn = Turn::new(checking.is_checked, Instant::now());
        let work = move || {
            let _ending = Ending;
            let mut pause = Duration::ZERO;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = checking.work(&mut turn);
            }
        };
        let thread = Builder::new().name("check".to_owned()).spawn(work);
        let failed = |error| Error::new(ErrorKind::Io, format!("cannot start a thread: {error}"));
        Ok(Self { stop: Some(stop), _thread: thread.map_err(failed)? })
    }
}

/// Reports that the thread panicked, because no other thread waits for it.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_message(
                "the thread that checks the store panicked: until this process is started again, damage of the store is \
                 not noticed",
            );
        }
    }
}

/// The due times.
#[derive(Debug)]
struct Turn {
    check_at: Instant,
    /// When the reading begins again.
    scrub_at: Instant,
    /// How many bytes may still be read before that.
    left: u64,
    /// All objects were read.
    is_scrubbed: bool,
    /// Whether a failure that is not an outage of the store was reported, without a success since
    /// then.
    is_failing: bool,
    /// The number of checks in a row that failed.
    failed: u32,
}

impl Turn {
    fn new(is_checked: bool, now: Instant) -> Self {
        let check_at = if is_checked { now + CHECK_EVERY } else { now };
        Self { check_at, scrub_at: now, left: 0, is_scrubbed: true, is_failing: false, failed: 0 }
    }

    /// Report an error once. If the store does not answer, other threads report it, unless only the checks fail.
    fn tell(&mut self, error: &Error) {
        let is_long = self.failed >= FAILED_MAX;
        if (!is_outage(error) || is_long) && !self.is_failing {
            print_message(&format!("cannot check whether the store is whole: {error}"));
            self.is_failing = true;
        }
    }
}

/// Whether the store does not answer. The error of a file has the reason of the operating system.
fn is_outage(error: &Error) -> bool {
    let is_unclear = error.kind() == ErrorKind::Io && error.source().is_none();
    is_unclear || error.kind() == ErrorKind::OutcomeUnknown
}

impl Checking {
    /// Do the due work. Returns how long to wait.
    fn work(&self, turn: &mut Turn) -> Duration {
        let now = Instant::now();
        if now >= turn.check_at {
            let checked = self.check(turn);
            let is_whole = checked && self.findings.count() == 0;
            turn.check_at = Instant::now() + if is_whole { CHECK_EVERY } else { RECHECK_EVERY };
        }
        if now >= turn.scrub_at {
            (turn.scrub_at, turn.left, turn.is_scrubbed) =
                (now + CHECK_EVERY, self.bytes_max, false);
        }
        if turn.is_scrubbed || turn.left == 0 {
            let until = turn.check_at.min(turn.scrub_at);
            return until.saturating_duration_since(Instant::now()).max(PAUSE);
        }
        match self.keeper.scrub() {
            Ok(step) => {
                if step.is_damaged {
                    turn.check_at = Instant::now();
                }
                turn.left = turn.left.saturating_sub(step.bytes.max(BYTES_MIN));
                turn.is_scrubbed = step.is_last;
                PAUSE.max(Duration::from_millis(step.bytes.saturating_mul(1000) / BYTES_PER_SECOND))
            }
            Err(error) => {
                turn.tell(&error);
                RECHECK_EVERY
            }
        }
    }

    fn check(&self, turn: &mut Turn) -> bool {
        match self.keeper.check_store() {
            Ok(damage) => {
                self.findings.take_in(damage);
                (turn.is_failing, turn.failed) = (false, 0);
                true
            }
            Err(error) => {
                turn.failed = turn.failed.saturating_add(1);
                turn.tell(&error);
                false
            }
        }
    }
}

/// Whether a mode promises that the store has records.
pub(super) fn needs_whole_store(ack: AckMode) -> bool {
    ack != AckMode::Local
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(object: &str, state: DamageState) -> StoreDamage {
        let (object, what) = (object.to_owned(), "it is missing".to_owned());
        StoreDamage { object, what, state, is_derived: false }
    }

    /// Goal: a refused opening names the object and the next action.
    #[test]
    fn refused_opening_says_what_to_do() {
        let error = refused(&damage("seg/a", DamageState::Deletable), 3, "s3://b/n");
        assert!(error.to_string().starts_with("s3://b/n/seg/a: the store could not"), "{error}");
        let message = "this ledger: seg/a is missing, and 2 more objects are damaged or missing";
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.hint().unwrap().contains("move that object out of the prefix"), "{error:?}");
        let error = refused(&damage("seg/a", DamageState::Lost), 1, "s3://b/n");
        assert!(error.hint().unwrap().contains("does not have all of it"), "{error:?}");
    }

    /// Goal: a file that cannot be read is not an outage of the store, and is reported once.
    #[test]
    fn unreadable_file_is_no_outage() {
        let outage = Error::new(ErrorKind::Io, "the store does not answer");
        let file = Error::io("read", "log/a".as_ref(), std::io::Error::other("a bad sector"));
        let mut turn = Turn::new(true, Instant::now());
        turn.tell(&outage);
        assert!(!turn.is_failing);
        turn.failed = FAILED_MAX;
        turn.tell(&outage);
        assert!(turn.is_failing, "the store was not checked for a long time");
        turn.is_failing = false;
        turn.tell(&file);
        assert!(turn.is_failing);
        assert_eq!((is_outage(&outage), is_outage(&file)), (true, false));
    }
}
