//! Measures the same work on this engine and on others.
//!
//! `flips` damages one bit of 400 acknowledged records at a time and counts the records that each engine
//! still serves; `speed` appends records of 256 bytes, and opens and folds them. Every engine has its
//! default settings, with the strongest durability that it offers for a commit. `limits`, `own`,
//! `grow` and `claims` measure the limits of the machine, the costs of this engine, how they grow, and
//! its server.
//!
//! No engine is tuned: the comparison shows what a user gets without it.

mod claims;
mod engine;
mod flips;
mod grow;
mod image;
mod limits;
mod measure;
mod own;
mod plans;
mod record;
mod speed;
mod steps;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use engine::Peer;

/// Errors are only printed.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "The same work on this engine and on others")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Flip one random bit of 400 acknowledged records at a time, and count the served records
    Flips(flips::Options),
    /// Append durably, open and replay; the engines take turns
    Speed(speed::Options),
    /// Count the system calls of each engine for 200 durable commits (needs strace)
    Durability(speed::Durability),
    /// Measure the limits of the disk, the hash and the memory of this machine
    Limits(limits::Options),
    /// Measure verification, plans and snapshots of this engine
    Own(own::Options),
    /// Measure costs by length of the log and size of the plan
    Grow(grow::Options),
    /// Measure claims and receipts of many clients through a real server
    Claims(claims::Options),
    /// Execute steps of a plan durably, one at a time; prints the seconds
    Steps { dir: PathBuf, steps: u64 },
    /// Run one measurement of one engine
    #[command(hide = true)]
    Measure {
        peer: Peer,
        #[command(flatten)]
        options: measure::Options,
    },
    /// Write records, print a line, and wait to be killed
    #[command(hide = true)]
    Write { peer: Peer, dir: PathBuf, count: u64 },
    /// Open, read, and print a summary of the served records
    #[command(hide = true)]
    Read { peer: Peer, dir: PathBuf, count: u64 },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Flips(options) => flips::run(&options),
        Command::Speed(options) => speed::run(&options),
        Command::Durability(options) => speed::durability(&options),
        Command::Limits(options) => limits::run(&options),
        Command::Own(options) => own::run(&options),
        Command::Grow(options) => grow::run(&options),
        Command::Claims(options) => claims::run(&options),
        Command::Steps { dir, steps } => steps::run(&dir, steps),
        Command::Measure { peer, options } => {
            let open = |dir: &Path| peer.open(dir);
            let read = |dir: &Path, visit: measure::Visit<'_>| peer.read(dir, visit);
            measure::run(&measure::Store { open: &open, read: &read }, &options)
        }
        Command::Write { peer, dir, count } => flips::write(peer, &dir, count),
        Command::Read { peer, dir, count } => flips::read(peer, &dir, count),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
