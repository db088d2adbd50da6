//! Serves a ledger to other processes: an event loop submits their requests, and a commit thread
//! waits for the disk and responds.
//!
//! The commit thread takes all requests that were submitted meanwhile and waits once, so requests
//! share syncs and clients need no threads. A long request gets its own thread.
//!
//! Invariants:
//! - The socket is removed before the ledger can be closed, and every received request gets its
//!   response after its commit is durable.
//! - Memory for clients is bounded, and no client blocks another client or the process that runs
//!   the server.
//! - A panic in a request affects neither the server nor other requests. One in the event loop or the commit
//!   thread ends the process.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, Scope};

use plan_ledger::Ledger;

use crate::protocol::Answer;
use crate::requests::GoneLooks;

use super::event_loop::EventLoop;
use super::shared::{ServerShared, SubmittedRequest, catch_panic, end_process, watched};
use super::socket::ListeningSocket;
use super::waker::Waker;

/// Serves a ledger to other processes while `work` runs. If no socket can be created, `warn` gets
/// the error and `work` runs without a server.
pub fn while_serving<T>(
    ledger: &Ledger,
    dir: &Path,
    warn: impl FnOnce(&str),
    work: impl FnOnce() -> T,
) -> T {
    let opened = ListeningSocket::bind(dir).and_then(|socket| Ok((socket, Waker::new()?)));
    let (socket, waker) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            warn(&format!(
                "no server: other processes cannot use the ledger while this one runs: {error}"
            ));
            return work();
        }
    };
    let shared = ServerShared { ledger, dir, socket, waker, looks: GoneLooks::default() };
    std::thread::scope(|scope| {
        // This is dropped before the scope joins its threads, even if `work` panics.
        let _shutdown = ShutdownOnDrop { shared: &shared };
        if let Err(error) = start(&shared, scope) {
            shared.socket.unlink();
            warn(&format!(
                "no server: other processes cannot use the ledger while this one runs: {error}"
            ));
        }
        work()
    })
}

struct ShutdownOnDrop<'s, 'a> {
    shared: &'s ServerShared<'a>,
}

impl Drop for ShutdownOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.shared.socket.unlink();
        self.shared.waker.close();
    }
}

fn start<'scope, 'l: 'scope>(
    shared: &'scope ServerShared<'l>,
    scope: &'scope Scope<'scope, '_>,
) -> io::Result<()> {
    let (sender, submitted) = channel();
    Builder::new().name("commit".to_owned()).spawn_scoped(scope, move || {
        watched("commit", end_process, || answer_after_commit(shared, scope, &submitted));
    })?;
    let event_loop = EventLoop::new(shared, scope, sender);
    Builder::new()
        .name("serve".to_owned())
        .spawn_scoped(scope, move || watched("event loop", end_process, || event_loop.run()))?;
    Ok(())
}

/// The commit thread: responds to each request as soon as its commit is durable.
fn answer_after_commit<'scope>(
    shared: &'scope ServerShared<'_>,
    scope: &'scope Scope<'scope, '_>,
    submitted: &Receiver<Vec<SubmittedRequest<'_>>>,
) {
    for batch in submitted {
        for SubmittedRequest { writer, answer } in batch {
            match catch_panic(|| answer.wait()) {
                Ok(pending) if pending.takes_time() => {
                    let finish = move || Ok(pending.finish(shared.ledger));
                    // It is committed, so it is answered, if need be here.
                    if let Err(unstarted) = shared.answer_in_thread(scope, writer, finish) {
                        shared.answer(&unstarted.writer, unstarted.compute);
                    }
                }
                pending => {
                    let answer =
                        catch_panic(|| pending.map(|pending| pending.finish(shared.ledger)));
                    writer.respond(&shared.acked(answer.unwrap_or_else(Answer::from)));
                }
            }
        }
        shared.waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use serde_json::{Value, json};

    use super::*;
    use crate::protocol::{encode, receive};
    use crate::server::socket::{ConnectOutcome, connect};
    use plan_ledger::RunPolicy;
    use plan_ledger::internals::sim::environment;
    use plan_ledger::internals::sim::{
        FaultAction, FaultEffect, FaultRule, Operation, OsError, SimDisk,
    };

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

    /// A client that sends one request after the other.
    fn requester(dir: &Path) -> impl FnMut(&Value) -> Answer {
        use std::io::{BufReader, Write as _};
        let ConnectOutcome::Connected(stream) = connect(dir) else { panic!("no server") };
        let mut stream = BufReader::new(stream);
        move |request| {
            stream.get_mut().write_all(&encode(request).unwrap()).unwrap();
            serde_json::from_slice(&receive(&mut stream).unwrap().unwrap()).unwrap()
        }
    }

    fn number_of(token: &str) -> u64 {
        token.split('-').next().unwrap().parse().unwrap()
    }

    /// Claims all steps with many clients; `each` sees every token that a client receives.
    fn claim_all(ledger: &Ledger, each: impl Fn(u64) + Sync) {
        let folder = tempfile::tempdir().unwrap();
        let claim_some = |number: usize| {
            let mut ask = requester(folder.path());
            let claim = json!({ "act": "claim", "worker": format!("w{number}"), "secret": "9f".repeat(16) });
            while let Some(token) = ask(&claim).lines[0].get("token").and_then(Value::as_str) {
                each(number_of(token));
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
    fn concurrent_claims_get_distinct_tokens() {
        let (_, ledger) = planned();
        let tokens = Mutex::new(BTreeSet::new());
        claim_all(&ledger, |token| {
            assert!(tokens.lock().unwrap().insert(token), "token {token} was given twice");
        });
        assert_eq!(tokens.into_inner().unwrap().len(), STEPS);
    }

    #[test]
    fn no_answer_before_its_commit_is_durable() {
        let (disk, ledger) = planned();
        let answered = Mutex::new(BTreeSet::new());
        claim_all(&ledger, |token| {
            let mut answered = answered.lock().unwrap();
            answered.insert(token);
            if answered.len() == STEPS / 3 {
                let failure = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
                // The next segment is created in the background, which is free to fail once.
                disk.inject(FaultRule::next(failure).of(Operation::Sync).always());
            }
        });
        let answered = answered.into_inner().unwrap();
        assert!((STEPS / 3..STEPS).contains(&answered.len()), "{} were answered", answered.len());
        assert!(answered.last().is_some_and(|last| *last <= ledger.head().seq));
    }

    #[test]
    fn long_requests_are_answered_and_keys_deduplicate() {
        let (_, ledger) = planned();
        let folder = tempfile::tempdir().unwrap();
        let complain = |text: &str| panic!("{text}");
        while_serving(&ledger, folder.path(), complain, || {
            let mut ask = requester(folder.path());
            let mut claim = |key| {
                let secret = "9f".repeat(16);
                ask(&json!({ "act": "claim", "worker": "w", "secret": secret, "once": key })).lines
                    [0]["token"]
                    .as_str()
                    .unwrap()
                    .to_owned()
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
