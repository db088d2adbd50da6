//! The program `ledger`: a command line, a socket server and a runner over the library
//! `plan_ledger`.
//!
//! A command line becomes a request. The process that has the writer lock carries it out: the
//! command itself, or a server that it reaches through a socket in the ledger's folder. The runner
//! dispatches the steps of a run to worker processes.

pub mod commands;
pub mod runner;
pub mod server;

pub use commands::main;
