//! The shared state of all operations: the ledger, the clients of its socket, the tags of its records.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use plan_ledger::internals::ledger::state_hash;
use plan_ledger::{Environment, Ledger, LedgerView};

use crate::commands::serve::Serving;
#[cfg(feature = "store")]
use crate::commands::store::held::StoreView;
use crate::output::absent_runners;
use crate::protocol::{Answer, Failure, in_ledger};
use crate::requests::Request;
use crate::server::Client;

use super::access::Access;
use super::metrics::Metrics;
use super::problem::Problem;
#[cfg(feature = "mcp")]
use super::tools::HttpTools;

/// How many clients may follow the log at once. Each has a thread.
const FOLLOWERS_MAX: usize = 64;

/// How many idle connections to the socket are kept.
const CLIENTS_KEPT: usize = 16;

/// The length of the hash in a tag.
const TAG_HASH_LENGTH: usize = 16;

/// The server.
#[derive(Debug)]
pub(super) struct App {
    pub(super) dir: PathBuf,
    pub(super) environment: Environment,
    pub(super) ledger: Arc<Ledger>,
    pub(super) access: Arc<Access>,
    /// The log in a store, if it has one.
    #[cfg(feature = "store")]
    pub(super) store: Option<Arc<dyn StoreView>>,
    pub(super) metrics: Metrics,
    pub(super) followers: Arc<Semaphore>,
    #[cfg(feature = "mcp")]
    pub(super) tools: HttpTools,
    is_stopping: AtomicBool,
    clients: Mutex<Vec<Client>>,
    /// The newest tag: its record, and its text.
    tag: Mutex<Option<(u64, String)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Neither value is left half changed by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl App {
    pub(super) fn new(serving: Serving<'_>, access: Arc<Access>) -> Self {
        let Serving { dir, environment, ledger, .. } = serving;
        // A client may be in any folder of this machine: its commands name the ledger by its whole path.
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        Self {
            #[cfg(feature = "mcp")]
            tools: HttpTools::new(&dir, &environment),
            dir,
            environment,
            ledger,
            access,
            #[cfg(feature = "store")]
            store: serving.store,
            metrics: Metrics::default(),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            is_stopping: AtomicBool::new(false),
            clients: Mutex::default(),
            tag: Mutex::default(),
        }
    }

    /// Makes a request through the socket of the ledger. Blocks until its commit is durable.
    pub(super) fn call(&self, request: &Request, key: Option<&str>) -> Result<Answer, Problem> {
        let idle = locked(&self.clients).pop();
        let mut client = idle.unwrap_or_else(|| Client::new(&self.dir, &self.environment));
        let answer = match key {
            Some(key) => client.call_under(request, key),
            None => client.call(request),
        };
        let mut clients = locked(&self.clients);
        if clients.len() < CLIENTS_KEPT {
            clients.push(client);
        }
        drop(clients);
        let mut answer = answer.map_err(|failure| self.in_ledger(failure.into()))?;
        let is_error = |line: &&serde_json::Value| line.get("type").is_some_and(|it| it == "error");
        if let Some(line) = answer.lines.iter().find(is_error) {
            return Err(self.in_ledger(Problem::of_line(line)));
        }
        for message in &mut answer.messages {
            *message = in_ledger(message, &self.dir);
        }
        if request.rules().decides {
            answer.messages.extend(absent_runners(&self.dir, &answer));
        }
        Ok(answer)
    }

    /// The problem with the ledger in its commands.
    pub(super) fn in_ledger(&self, mut problem: Problem) -> Problem {
        problem.detail = in_ledger(&problem.detail, &self.dir);
        problem.hint = problem.hint.take().map(|hint| in_ledger(&hint, &self.dir));
        problem
    }

    /// The newest durable record.
    pub(super) fn head(&self) -> u64 {
        self.ledger.head().seq
    }

    /// The tag of a response about a record: its number, and the hash of the state after it.
    pub(super) fn tag(&self, seq: u64) -> Result<String, Failure> {
        let known = locked(&self.tag).clone().filter(|(of, _)| *of == seq);
        if let Some((_, tag)) = known {
            return Ok(tag);
        }
        let live = self.ledger.state()?;
        // The live state may be ahead of the durable one.
        let hash = if live.seq == seq {
            state_hash(&live)
        } else {
            state_hash(&LedgerView::open(&self.dir, &self.environment)?.state_at(seq)?)
        };
        let hash: String = hash.to_string().chars().take(TAG_HASH_LENGTH).collect();
        let tag = format!("\"{seq}-{hash}\"");
        *locked(&self.tag) = Some((seq, tag.clone()));
        Ok(tag)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Ends the streams of followers.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }
}
