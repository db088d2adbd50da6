//! The server in the process that has the writer lock, and the client of the other processes.
//!
//! A command becomes a request. The [`Client`] sends it to the server of the ledger through a socket
//! in the ledger's folder. If there is no server, it opens the ledger and executes the request
//! itself, with the same response.
//!
//! Invariants:
//! - A request is at most one commit, decided on the current state.
//! - Only the lock holder creates the socket and removes it.
//! - After a lost response, a request is repeated under its key and takes effect once.
//! - Input from the socket is untrusted: the length of a message, the number of connections, the
//!   memory for incomplete messages and the idle time are bounded.
//! - A process inside an attempt makes only the requests that its rules allow a worker.
//!
//! `format/socket.md` specifies the messages. Reads need no server: they take no lock. `over_http` sends requests to
//! servers on other machines instead, where the log is in a store.

mod agent_session;
mod attempt_process;
mod client;
mod connection;
mod event_loop;
#[cfg(feature = "store")]
mod over_http;
mod serve;
mod shared;
mod socket;
mod state_folder;
mod stop;
#[cfg(feature = "store")]
mod store_health;
mod waker;

#[cfg(feature = "mcp")]
pub(crate) use agent_session::deciding_client;
#[cfg(test)]
pub(crate) use agent_session::hosts_of_sessions;
pub(crate) use agent_session::{AgentSession, agents_may_decide, set_agents_may_decide};
#[cfg(feature = "http")]
pub(crate) use attempt_process::verdict_without_its_process;
pub(crate) use attempt_process::{
    AuthorSource, expect_outside, expect_person, expect_person_for, note_author_source, own_attempt,
};
pub use client::{Client, LOCK_WAIT, open_in_turn};
pub(crate) use client::{expect_unbound, expect_writer};
#[cfg(feature = "store")]
pub(crate) use over_http::{ServerAddress, Servers};
pub use serve::while_serving;
pub use shared::CONNECTIONS_MAX;
pub use socket::SOCKET_NAME;
#[cfg(feature = "store")]
pub(crate) use state_folder::known_root::forget_root;
pub(crate) use state_folder::known_root::{
    accept_rollback, check_root, check_root_of_folder, expect_not_gone, gone_error,
    gone_ledger_text, is_gone, is_rollback_accepted, keep_root, keep_root_of_folder, rollback_text,
    with_gone,
};
pub(crate) use state_folder::last_runner::{
    LastRunner, LastRunners, RunnerStatus, ledger_id, record_path,
};
pub(crate) use state_folder::resume_place::{ResumePlace, resume_options};
pub(crate) use state_folder::state_folder;
pub(crate) use state_folder::surroundings::{Surroundings, items};
pub(crate) use stop::StopCheck;
#[cfg(all(feature = "store", test))]
pub(crate) use store_health::STORE_HEALTH_FRESH_FOR;
#[cfg(feature = "store")]
pub(crate) use store_health::{STORE_HEALTH_NAME, store_health_text};
