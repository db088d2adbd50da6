//! The same work through this engine and through others, side by side.
//!
//! `flips` damages one bit of 400 acknowledged records at a time and asks each engine what it still
//! serves; `speed` appends records of 256 bytes and reads them back. Every engine stands at its own
//! defaults, with the strongest durability that it offers for a commit.
//!
//! Left out on purpose: tuning. What is compared is what a user gets who reads the first page.

mod engine;
mod flips;
mod image;
mod record;
mod speed;

use std::path::PathBuf;
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
    /// Append durably and read back, in rounds that take turns
    Speed(speed::Options),
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
