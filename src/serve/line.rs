//! The line in which the acts of all clients stand: whoever comes first is served first.
//!
//! The first in the line carries out what stands in it, one act after the other, and then goes on
//! to wait for the disk, once for all of them; meanwhile the next one does the same with those that
//! have come since. So acts share syncs, threads wake each other once and not at every lock, and
//! nobody waits longer than those who came at the same time.
//!
//! Invariants:
//! - At any time at most one is in charge; where anybody stands in the line, somebody is.
//! - Acts are carried out in the order of the line, and answered when they are durable.
//! - An act that panics ends neither the line nor the acts behind it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind};
use crate::ledger::{Later, Ledger};
use crate::log::BatchKey;

use super::{Act, Answer, Failure};

/// How many acts are begun before their records go to the disk.
const TOGETHER_MAX: usize = 256;

/// The line.
#[derive(Debug, Default)]
pub(super) struct Line {
    standing: Mutex<Standing>,
}

#[derive(Debug, Default)]
struct Standing {
    places: VecDeque<Place>,
    charge: Charge,
}

/// Whether somebody is in charge of the line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Charge {
    #[default]
    Nobody,
    Somebody,
}

/// An act in the line, and how its thread is told.
#[derive(Debug)]
struct Place {
    act: Act,
    key: Option<BatchKey>,
    told: SyncSender<Told>,
}

/// What somebody in the line is told.
#[derive(Debug)]
enum Told {
    /// It was carried out.
    Answered(Answer),
    /// All who stood before were taken care of: the rest is theirs.
    InCharge,
}

/// An act that was begun, and what its answer waits for.
struct Begun {
    told: SyncSender<Told>,
    later: Later,
    outcome: Result<Answer, Failure>,
}

/// Being in charge: it goes on to the next one when this is dropped, whatever happened.
struct InCharge<'a>(&'a Line);

impl Drop for InCharge<'_> {
    fn drop(&mut self) {
        let mut standing = self.0.standing();
        // Nobody leaves the line before being told.
        while let Some(next) = standing.places.front() {
            if next.told.send(Told::InCharge).is_ok() {
                return;
            }
            standing.places.pop_front();
        }
        standing.charge = Charge::Nobody;
    }
}

impl Line {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        // It is changed in single steps: a panic leaves it whole.
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Have an act carried out when its turn has come.
    pub(super) fn carry_out(&self, ledger: &Ledger, act: Act, key: Option<BatchKey>) -> Answer {
        // Two words at most: to be in charge, and the answer.
        let (told, tidings) = sync_channel(2);
        let charge = {
            let mut standing = self.standing();
            standing.places.push_back(Place { act, key, told });
            std::mem::replace(&mut standing.charge, Charge::Somebody)
        };
        if charge == Charge::Somebody {
            match tidings.recv() {
                Ok(Told::InCharge) => {}
                Ok(Told::Answered(answer)) => return answer,
                Err(_) => return unknown().into(),
            }
        }
        self.serve(ledger, &tidings)
    }

    /// In charge: carry out what stands in the line, this thread's own act first.
    fn serve(&self, ledger: &Ledger, tidings: &Receiver<Told>) -> Answer {
        let begun: Vec<Begun> = {
            let in_charge = InCharge(self);
            let places: Vec<Place> = {
                let mut standing = in_charge.0.standing();
                let count = standing.places.len().min(TOGETHER_MAX);
                standing.places.drain(..count).collect()
            };
            places.into_iter().map(|place| place.begin(ledger)).collect()
        };
        for Begun { told, later, outcome } in begun {
            let settled = later.settle(ledger).map_err(Failure::from);
            let answer = settled.and(outcome).unwrap_or_else(Answer::from);
            // Its thread waits for it; this thread's own is the first.
            let _ = told.send(Told::Answered(answer));
        }
        match tidings.try_recv() {
            Ok(Told::Answered(answer)) => answer,
            Ok(Told::InCharge) | Err(_) => unknown().into(),
        }
    }
}

impl Place {
    fn begin(self, ledger: &Ledger) -> Begun {
        let Self { act, key, told } = self;
        let later = Later::default();
        let begin = || act.begin(ledger, key.as_ref(), &later);
        let outcome = catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| Err(unknown()));
        Begun { told, later, outcome }
    }
}

/// Why somebody is told nothing better.
pub(super) fn unknown() -> Failure {
    let message = "carrying out the act panicked: whether it was done is not known";
    Error::new(ErrorKind::OutcomeUnknown, message).into()
}

#[cfg(test)]
mod tests {
    //! Goal: everybody in the line is answered, once and truly, whatever happens to the ledger.

    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::lab::environment;
    use crate::plan::RunPolicy;
    use crate::sim::{Effect, Failure as Injected, Operation, OsError, Rule, SimDisk};

    const STEPS: usize = 240;
    const THREADS: usize = 12;

    fn planned() -> (SimDisk, Ledger) {
        let disk = SimDisk::new();
        let ledger = Ledger::create(Path::new("/l"), &environment(&disk)).unwrap();
        let step = |number| serde_json::json!({ "id": format!("s{number}") });
        let steps: Vec<_> = (0..STEPS).map(step).collect();
        let plan = serde_json::from_value(serde_json::json!({ "steps": steps })).unwrap();
        ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
        (disk, ledger)
    }

    fn claim(worker: &str) -> Act {
        Act::Claim { run: None, step: None, worker: worker.to_owned(), lease_seconds: None }
    }

    /// Have all steps claimed by many threads; `each` sees every token that somebody is told.
    fn claim_all(ledger: &Ledger, each: impl Fn(u64) + Sync) -> Line {
        let line = Line::default();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (line, each) = (&line, &each);
                scope.spawn(move || {
                    loop {
                        let answer = line.carry_out(ledger, claim(&format!("w{thread}")), None);
                        let token =
                            answer.lines[0].get("token").and_then(serde_json::Value::as_u64);
                        let Some(token) = token else { return };
                        each(token);
                    }
                });
            }
        });
        line
    }

    #[test]
    fn everybody_is_answered_and_then_the_line_is_empty() {
        let (_, ledger) = planned();
        let tokens = Mutex::new(BTreeSet::new());
        let line = claim_all(&ledger, |token| {
            assert!(tokens.lock().unwrap().insert(token), "two have token {token}");
        });
        assert_eq!(tokens.into_inner().unwrap().len(), STEPS);
        let standing = line.standing();
        assert_eq!((standing.places.len(), standing.charge), (0, Charge::Nobody));
    }

    #[test]
    fn nobody_is_told_of_what_was_not_synced() {
        let (disk, ledger) = planned();
        let told = Mutex::new(BTreeSet::new());
        let line = claim_all(&ledger, |token| {
            let mut told = told.lock().unwrap();
            told.insert(token);
            if told.len() == STEPS / 3 {
                let failure = Injected::Error(OsError::Io, Effect::Nothing);
                disk.inject(Rule::next(failure).of(Operation::Sync));
            }
        });
        let told = told.into_inner().unwrap();
        assert!((STEPS / 3..STEPS).contains(&told.len()), "{} were told", told.len());
        assert!(told.last().is_some_and(|last| *last <= ledger.head().seq));
        assert_eq!(line.standing().charge, Charge::Nobody);
    }

    #[test]
    fn an_act_is_known_by_its_key_in_the_line_too() {
        let (_, ledger) = planned();
        let line = Line::default();
        let ask = |key| {
            let key = Some(BatchKey::new(key).unwrap());
            line.carry_out(&ledger, claim("w"), key).lines[0]["token"].as_u64().unwrap()
        };
        let first = ask(b"one");
        assert_ne!(ask(b"two"), first);
        assert_eq!(ask(b"one"), first);
    }
}
