//! Serving a ledger that is held: one thread hears all clients and begins what they ask for, and a
//! second one waits for the disk and answers.
//!
//! What clients have asked by the time the first thread looks is begun together, in the order in
//! which it is found; the second one goes to the disk once for all that was begun meanwhile. So
//! acts share syncs, no client has a thread that would have to be woken for it, and nobody waits
//! longer than those who came at the same time. What takes long has a thread of its own.
//!
//! Invariants:
//! - The socket is gone before the ledger can be closed, and nobody is cut off within an act: who
//!   was heard is answered, when what it asked for is durable.
//! - However many clients there are, and whatever they send or fail to send, what is held for them
//!   is bounded, and neither other clients nor the work that goes on beside them wait for one.
//! - An act that panics ends neither the service nor the acts behind it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, Scope};

use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::ledger::{Ledger, PendingCommits};

use super::bell::Bell;
use super::carry_out::Half;
use super::connection::Mouth;
use super::reception::Reception;
use super::socket::Listening;
use super::{Answer, Failure};

/// How many clients are served at once, where so many files and three times as many more may be
/// open. One more is told to come again.
pub const CONNECTIONS_MAX: usize = 256;

/// Serve a ledger to other processes for as long as `work` takes. Where no socket can be made,
/// `complain` is told, and the work is done all the same.
pub fn while_serving<T>(
    ledger: &Ledger,
    dir: &Path,
    complain: impl FnOnce(&str),
    work: impl FnOnce() -> T,
) -> T {
    let began = Listening::begin(dir).and_then(|listening| Ok((listening, Bell::hang()?)));
    let (listening, bell) = match began {
        Ok(began) => began,
        Err(error) => {
            complain(&format!("other processes cannot use the ledger meanwhile: {error}"));
            return work();
        }
    };
    let desk = Desk { ledger, listening, bell };
    std::thread::scope(|scope| {
        // Dropped before the threads are waited for, also when the work panics.
        let _closing = Closing { desk: &desk };
        if let Err(error) = desk.open(scope) {
            desk.listening.unname();
            complain(&format!("other processes cannot use the ledger meanwhile: {error}"));
        }
        work()
    })
}

/// What the threads share.
pub(super) struct Desk<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) listening: Listening,
    pub(super) bell: Bell,
}

/// Ends the service.
struct Closing<'d, 'a> {
    desk: &'d Desk<'a>,
}

impl Drop for Closing<'_, '_> {
    fn drop(&mut self) {
        self.desk.listening.unname();
        self.desk.bell.close();
    }
}

impl Desk<'_> {
    fn open<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> io::Result<()> {
        let (settling, begun) = channel();
        Builder::new()
            .name("answer".to_owned())
            .spawn_scoped(scope, move || self.settle(scope, &begun))?;
        let reception = Reception::new(self, scope, settling);
        Builder::new().name("serve".to_owned()).spawn_scoped(scope, move || reception.run())?;
        Ok(())
    }

    /// Answer all that was begun, as soon as it is durable; what has to be read or told at length
    /// has a thread of its own.
    fn settle<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        begun: &Receiver<Vec<Begun>>,
    ) {
        for together in begun {
            for Begun { mouth, later, outcome } in together {
                let settled = caught(|| self.ledger.wait_pending(&later).map_err(Failure::from));
                match settled.and(outcome) {
                    Ok(half) if half.takes_time() => {
                        self.take_time(scope, mouth, move || Ok(half.finish(self.ledger)));
                    }
                    half => {
                        let answer = caught(|| half.map(|half| half.finish(self.ledger)));
                        mouth.tell(&answer.unwrap_or_else(Answer::from));
                    }
                }
            }
            self.bell.ring();
        }
    }

    /// Find an answer in a thread of its own.
    pub(super) fn take_time<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        mouth: Arc<Mouth>,
        find: impl FnOnce() -> Result<Answer, Failure> + Send + 'scope,
    ) {
        let waiting = Arc::clone(&mouth);
        let answer = move || {
            mouth.tell(&caught(find).unwrap_or_else(Answer::from));
            self.bell.ring();
        };
        if Builder::new().name("act".to_owned()).spawn_scoped(scope, answer).is_err() {
            // It asks again, and is told what became of it.
            waiting.hang_up();
        }
    }
}

/// An act that was begun, and what its answer waits for.
pub(super) struct Begun {
    pub(super) mouth: Arc<Mouth>,
    pub(super) later: PendingCommits,
    pub(super) outcome: Result<Half, Failure>,
}

/// Do what may panic, so that only who asked for it is told.
pub(super) fn caught<T>(what: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let message = "carrying out the act panicked: whether it was done is not known";
    let unknown = |_| Err(Error::new(ErrorKind::OutcomeUnknown, message).into());
    catch_unwind(AssertUnwindSafe(what)).unwrap_or_else(unknown)
}

#[cfg(test)]
mod tests {
    //! Goal: everybody is answered, once and truly, whatever happens to the ledger.

    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use serde_json::{Value, json};

    use super::*;
    use crate::server::socket::{Knock, encode, knock, receive};
    use plan_ledger::lab::environment;
    use plan_ledger::plan::RunPolicy;
    use plan_ledger::sim::{Effect, Failure as Injected, Operation, OsError, Rule, SimDisk};

    const STEPS: usize = 240;
    const THREADS: usize = 12;

    fn planned() -> (SimDisk, Ledger) {
        let disk = SimDisk::new();
        let ledger = Ledger::create(Path::new("/l"), &environment(&disk)).unwrap();
        let step = |number| json!({ "id": format!("s{number}") });
        let steps: Vec<_> = (0..STEPS).map(step).collect();
        let plan = serde_json::from_value(json!({ "steps": steps })).unwrap();
        ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
        (disk, ledger)
    }

    /// Asks one thing after the other.
    fn asking(dir: &Path) -> impl FnMut(&Value) -> Answer {
        use std::io::{BufReader, Write as _};
        let Knock::Open(stream) = knock(dir) else { panic!("nobody serves") };
        let mut stream = BufReader::new(stream);
        move |request| {
            stream.get_mut().write_all(&encode(request).unwrap()).unwrap();
            serde_json::from_slice(&receive(&mut stream).unwrap().unwrap()).unwrap()
        }
    }

    /// Have all steps claimed by many clients; `each` sees every token that somebody is told.
    fn claim_all(ledger: &Ledger, each: impl Fn(u64) + Sync) {
        let folder = tempfile::tempdir().unwrap();
        let claim_some = |number: usize| {
            let mut ask = asking(folder.path());
            let claim = json!({ "act": "claim", "worker": format!("w{number}") });
            while let Some(token) = ask(&claim).lines[0].get("token").and_then(Value::as_u64) {
                each(token);
            }
        };
        let complain = |text: &str| panic!("{text}");
        while_serving(ledger, folder.path(), complain, || {
            std::thread::scope(|scope| {
                (0..THREADS).for_each(|number| drop(scope.spawn(move || claim_some(number))));
            });
        });
    }

    #[test]
    fn everybody_is_answered_once() {
        let (_, ledger) = planned();
        let tokens = Mutex::new(BTreeSet::new());
        claim_all(&ledger, |token| {
            assert!(tokens.lock().unwrap().insert(token), "two have token {token}");
        });
        assert_eq!(tokens.into_inner().unwrap().len(), STEPS);
    }

    #[test]
    fn nobody_is_told_of_what_was_not_synced() {
        let (disk, ledger) = planned();
        let told = Mutex::new(BTreeSet::new());
        claim_all(&ledger, |token| {
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
    }

    #[test]
    fn what_takes_long_is_answered_too_and_an_act_is_known_by_its_key() {
        let (_, ledger) = planned();
        let folder = tempfile::tempdir().unwrap();
        let complain = |text: &str| panic!("{text}");
        while_serving(&ledger, folder.path(), complain, || {
            let mut ask = asking(folder.path());
            let mut claim = |key| {
                ask(&json!({ "act": "claim", "worker": "w", "once": key })).lines[0]["token"]
                    .as_u64()
                    .unwrap()
            };
            let first = claim("one");
            assert_ne!(claim("two"), first);
            assert_eq!(claim("one"), first);
            assert_eq!(ask(&json!({ "act": "snapshot" })).code, 0);
            let long = "x".repeat(100_000);
            let set = json!({ "act": "set", "name": "n", "value": long, "by": "b" });
            assert_eq!(ask(&set).code, 0);
        });
        assert_eq!(ledger.state().unwrap().runs.values().next().unwrap().variables["n"].version, 1);
    }
}
