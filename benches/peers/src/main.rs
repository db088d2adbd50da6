//! The same work through this engine and through others, side by side.
//!
//! `flips` damages one bit of 400 acknowledged records at a time and asks each engine what it still
//! serves; `speed` appends records of 256 bytes, and opens and folds them. Every engine stands at its
//! own defaults, with the strongest durability that it offers for a commit. `limits`, `own` and
//! `grow` say what the machine allows, and how this engine's costs grow.
//!
//! Left out on purpose: tuning. What is compared is what a user gets who reads the first page.

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

/// What may go wrong here is told to a person, and nothing else happens.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "The same work through this engine and through others")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Flip one random bit of 400 acknowledged records at a time, and count what is served
    Flips(flips::Options),
    /// Append durably, open, replay: in rounds that take turns
    Speed(speed::Options),
    /// Count what each engine asks of the system to make 200 commits durable (with strace)
    Durability(speed::Durability),
    /// What the disk, the hash and the memory of this machine allow
    Limits(limits::Options),
    /// What only this engine has: verifying, plans, time travel, snapshots
    Own(own::Options),
    /// Make a large ledger, or one of a large plan, and measure what grows with it
    Grow(grow::Options),
    /// Do steps of a plan durably, one after the other; prints the seconds
    Steps { dir: PathBuf, steps: u64 },
    /// One measurement of one engine
    #[command(hide = true)]
    Measure {
        peer: Peer,
        #[command(flatten)]
        options: measure::Options,
    },
    /// Write records, say so, and wait to be killed
    #[command(hide = true)]
    Write { peer: Peer, dir: PathBuf, count: u64 },
    /// Open, read, and say what is served
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
