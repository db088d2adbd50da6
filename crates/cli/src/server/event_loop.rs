//! The event loop: one thread accepts clients, reads their requests and submits them.
//!
//! It blocks only in one `poll` over the listening socket, the waker and all clients. All requests
//! that have arrived by the same iteration are submitted together and share a sync. After the
//! shutdown began, the loop runs until every response was read or timed out.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::Scope;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use plan_ledger::BatchKey;
use plan_ledger::internals::ledger::CommitOptions;
use plan_ledger::plan::EvaluationPool;

use crate::protocol::{
    Answer, Failure, MESSAGE_LENGTH_MAX, Peer, encode, expect_short_numbers, too_long,
};
use crate::requests::{QUICK_LENGTH_MAX, Request};

use super::attempt_process::{Executor, made_by};
use super::connection::{Connection, Interest, NextMessage, chunk};
use super::shared::{CONNECTIONS_MAX, ServerShared, SubmittedRequest, catch_panic};
use super::waker::ServerPhase;

/// The bytes that the incomplete messages of all clients may have: eight of the longest.
const BUFFERED_MAX: u64 = 8 * MESSAGE_LENGTH_MAX;

/// The pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The event loop's state.
pub(super) struct EventLoop<'scope, 'env, 'l> {
    shared: &'scope ServerShared<'l>,
    scope: &'scope Scope<'scope, 'env>,
    /// Requests for the commit thread.
    submitted: Sender<Vec<SubmittedRequest<'l>>>,
    clients: BTreeMap<u64, Connection>,
    clients_max: usize,
    last_client: u64,
    phase: ServerPhase,
    accept_paused_until: Option<Instant>,
    chunk: Vec<u8>,
}

/// A source of readiness.
#[derive(Debug, Clone, Copy)]
enum Source {
    Waker,
    Listener,
    Client(u64, Interest),
}

impl<'scope, 'env, 'l> EventLoop<'scope, 'env, 'l> {
    pub(super) fn new(
        shared: &'scope ServerShared<'l>,
        scope: &'scope Scope<'scope, 'env>,
        submitted: Sender<Vec<SubmittedRequest<'l>>>,
    ) -> Self {
        Self {
            shared,
            scope,
            submitted,
            clients: BTreeMap::new(),
            clients_max: clients_max(),
            last_client: 0,
            phase: ServerPhase::Open,
            accept_paused_until: None,
            chunk: chunk(),
        }
    }

    /// Runs until the server has shut down.
    pub(super) fn run(mut self) {
        loop {
            for source in self.poll() {
                match source {
                    Source::Waker => self.phase = self.shared.waker.drain(),
                    Source::Listener => self.accept(),
                    Source::Client(number, interest) => self.handle(number, interest),
                }
            }
            self.limit_buffers();
            let now = Instant::now();
            if self.phase == ServerPhase::Closing {
                self.clients.values_mut().for_each(|client| client.shut_down(now));
            } else {
                self.submit_requests();
            }
            self.accept_paused_until = self.accept_paused_until.filter(|end| *end > now);
            self.clients.retain(|_, client| !client.is_finished(now));
            if self.phase == ServerPhase::Closing && self.clients.is_empty() {
                return;
            }
        }
    }

    /// Waits for readiness or the next deadline.
    fn poll(&self) -> Vec<Source> {
        let waker = PollFd::new(self.shared.waker.readiness(), PollFlags::IN);
        let mut polled = vec![(Source::Waker, waker)];
        if self.phase == ServerPhase::Open && self.accept_paused_until.is_none() {
            let listener = PollFd::new(&self.shared.socket.listener, PollFlags::IN);
            polled.push((Source::Listener, listener));
        }
        let mut deadline = self.accept_paused_until;
        for (number, client) in &self.clients {
            let interest = client.interest();
            let flags = match interest {
                Interest::Read => Some(PollFlags::IN),
                Interest::Write => Some(PollFlags::OUT),
                Interest::None => None,
            };
            let source = Source::Client(*number, interest);
            polled.extend(flags.map(|flags| (source, PollFd::new(client.stream(), flags))));
            deadline = deadline.into_iter().chain(client.deadline()).min();
        }
        let (sources, mut ready): (Vec<_>, Vec<_>) = polled.into_iter().unzip();
        // Add one millisecond, so that the deadline has passed when the poll returns.
        let timeout = deadline.map(|deadline| {
            deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
        });
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        if poll(&mut ready, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let is_ready =
            |(source, ready): (Source, PollFd<'_>)| (!ready.revents().is_empty()).then_some(source);
        sources.into_iter().zip(ready).filter_map(is_ready).collect()
    }

    fn handle(&mut self, number: u64, interest: Interest) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        match interest {
            Interest::Read => client.on_readable(&mut self.chunk),
            Interest::Write => client.on_writable(),
            Interest::None => {}
        }
    }

    fn accept(&mut self) {
        let Ok((stream, _)) = self.shared.socket.listener.accept() else {
            // The client has disconnected, or the process is out of file descriptors. Retry after a
            // pause, so that the connected clients are served meanwhile.
            self.accept_paused_until = Some(Instant::now() + ACCEPT_PAUSE);
            return;
        };
        if self.clients.len() >= self.clients_max && !self.make_room() {
            reject_busy(&stream, self.clients_max);
        } else if let Ok(client) = Connection::new(stream) {
            self.last_client += 1;
            self.clients.insert(self.last_client, client);
        }
    }

    /// Ends a connection with an idle client, so that another client can connect: of the process
    /// with the most connections, the longest idle one. Returns whether there was one.
    fn make_room(&mut self) -> bool {
        if plan_ledger::mutant!(OldConnectionsKept) {
            return false;
        }
        let mut of_peer: BTreeMap<Option<i32>, usize> = BTreeMap::new();
        for client in self.clients.values() {
            *of_peer.entry(client.peer()).or_default() += 1;
        }
        let idle = self.clients.iter().filter_map(|(number, client)| {
            let since = client.idle_since()?;
            let share = of_peer.get(&client.peer()).copied().unwrap_or_default();
            Some((Reverse(share), since, *number))
        });
        let Some((_, _, number)) = idle.min() else { return false };
        self.clients.remove(&number);
        true
    }

    /// Ends connections with incomplete messages until all of these together fit into memory: of
    /// the process with the most bytes, the connection with the longest message.
    fn limit_buffers(&mut self) {
        let mut total: u64 = self.clients.values().map(Connection::buffered).sum();
        if total <= BUFFERED_MAX || plan_ledger::mutant!(BuffersUnlimited) {
            return;
        }
        let mut of_peer: BTreeMap<Option<i32>, u64> = BTreeMap::new();
        for client in self.clients.values() {
            *of_peer.entry(client.peer()).or_default() += client.buffered();
        }
        while total > BUFFERED_MAX {
            let share = |client: &Connection| match of_peer.get(&client.peer()) {
                Some(share) if !plan_ledger::mutant!(BuffersOfPeerUncounted) => *share,
                _ => 0,
            };
            let clients = self.clients.values_mut();
            let most = clients.max_by_key(|client| (share(client), client.buffered()));
            let Some(client) = most.filter(|client| client.buffered() > 0) else { return };
            let length = client.buffered();
            total -= length;
            if let Some(share) = of_peer.get_mut(&client.peer()) {
                *share -= length;
            }
            client.shed();
        }
    }

    /// Submits the next request of every client. Renewals come first: a lease that runs out while
    /// others work costs an attempt.
    fn submit_requests(&mut self) {
        let (shared, scope) = (self.shared, self.scope);
        let in_own_thread =
            |writer,
             process: Arc<Peer>,
             parse: Box<dyn FnOnce() -> Result<Parsed, Failure> + Send>| {
                let execute = move || {
                    let (request, key) = parse()?;
                    request.execute_from(shared.ledger, key.as_ref(), shared.origin(&process))
                };
                if let Err(unstarted) = shared.answer_in_thread(scope, writer, execute) {
                    let failure = unstarted.failure();
                    shared.answer(&unstarted.writer, || Err(failure));
                }
            };
        let failed = |failure| shared.ledger.settled(Err(failure));
        // However many requests have arrived: each waits for at most this many evaluations.
        let evaluations = EvaluationPool::new(EvaluationPool::ROUND);
        let allowed = |(request, key): Parsed, peer: Option<i32>| {
            let peer = peer.and_then(|peer| u32::try_from(peer).ok());
            let by_peer = |process| made_by(&request, process, shared.dir, Executor::ThisMachine);
            let made = peer.map(by_peer).transpose()?;
            Ok((made.flatten().unwrap_or(request), key))
        };
        let mut arrived = Vec::new();
        // Every response wakes this loop, which then submits the client's next pipelined request.
        for client in self.clients.values_mut() {
            match client.next_message() {
                NextMessage::NotReady => {}
                NextMessage::TooLong => client.writer.respond(&too_long("the request").into()),
                NextMessage::Ready(message) => {
                    let (writer, peer) = (Arc::clone(&client.writer), client.peer());
                    let process = client.process();
                    if message.len() > QUICK_LENGTH_MAX {
                        in_own_thread(
                            writer,
                            process,
                            Box::new(move || allowed(parse(&message)?, peer)),
                        );
                    } else {
                        let parsed = catch_panic(|| allowed(parse(&message)?, peer));
                        arrived.push((writer, process, parsed));
                    }
                }
            }
        }
        arrived.sort_by_key(|(_, _, parsed)| !matches!(parsed, Ok((Request::Renew(_), _))));
        let mut submitted = Vec::new();
        for (writer, process, parsed) in arrived {
            let parsed = parsed.and_then(|(request, key)| {
                let takes_long = catch_panic(|| request.takes_long(shared.ledger))?;
                Ok((request, key, takes_long))
            });
            let answer = match parsed {
                Err(failure) => failed(failure),
                Ok((request, key, true)) => {
                    in_own_thread(writer, process, Box::new(move || Ok((request, key))));
                    continue;
                }
                Ok((request, key, false)) => {
                    let evaluations = Some(&evaluations);
                    let options = CommitOptions { key: key.as_ref(), evaluations, command: None };
                    let origin = shared.origin(&process);
                    let submit = || Ok(request.submit(shared.ledger, options, origin));
                    catch_panic(submit).unwrap_or_else(failed)
                }
            };
            submitted.push(SubmittedRequest { writer, answer });
        }
        if !submitted.is_empty() {
            // The commit thread ends after this thread, so it receives every message.
            let _ = self.submitted.send(submitted);
        }
    }
}

/// A request and its idempotency key.
type Parsed = (Request, Option<BatchKey>);

fn parse(message: &[u8]) -> Result<Parsed, Failure> {
    let invalid = |error: serde_json::Error| Failure::Usage(format!("invalid request: {error}"));
    let mut value: Value = serde_json::from_slice(message).map_err(invalid)?;
    // Valid JSON is UTF-8.
    expect_short_numbers(str::from_utf8(message).unwrap_or_default())?;
    let key = match value.as_object_mut().and_then(|members| members.remove("once")) {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => Some(BatchKey::new(key.as_bytes())?),
        Some(_) => return Err(Failure::Usage("`once` must be a string".to_owned())),
    };
    let request = serde_json::from_value(value).map_err(invalid)?;
    Ok((request, key))
}

/// The limit of connected clients. The ledger needs file descriptors, too: without one a write fails. Raises the soft
/// limit of open files, which is often 1,024, as far as the process may.
fn clients_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(4 * CONNECTIONS_MAX).unwrap_or(u64::MAX);
    let wanted = wanted.min(limit.maximum.unwrap_or(u64::MAX));
    if limit.current.is_some_and(|current| current < wanted) {
        // If this fails, the lower limit applies.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 4).unwrap_or(CONNECTIONS_MAX).clamp(1, CONNECTIONS_MAX)
}

/// Tells a client that the server is full, if its socket accepts the response immediately.
fn reject_busy(stream: &UnixStream, clients: usize) {
    use io::Write as _;
    let _ = stream.set_nonblocking(true);
    let _ = encode(&Answer::busy(clients)).and_then(|bytes| (&*stream).write_all(&bytes));
}
