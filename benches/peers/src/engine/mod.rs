//! The engines, behind one small interface.

mod bare;
mod fjall;
mod okaywal;
mod ours;
mod raft_engine;
mod redb;
mod sled;
mod sqlite;

use std::path::Path;

use clap::ValueEnum;

use crate::Result;

pub use ours::{Ours, record};

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    PlanLedger,
    SqliteWal,
    Redb,
    Fjall,
    Okaywal,
    RaftEngine,
    Sled,
    Bare,
}

/// Something that appends. Shared by threads.
pub trait Engine: Send + Sync {
    /// Appends records of consecutive numbers, all or nothing, durable when this returns.
    fn append(&self, first: u64, payloads: Vec<Vec<u8>>) -> Result<()>;
}

/// What an engine said while it served what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Nothing: all is well.
    Nothing,
    /// That something is wrong, on the way that a user takes to open and read.
    Trouble,
}

/// What an engine serves.
pub struct Served {
    pub said: Said,
    /// Numbers and payloads.
    pub records: Vec<(u64, Vec<u8>)>,
}

impl Peer {
    /// As the documentation of each writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlanLedger => "plan-ledger",
            Self::SqliteWal => "SQLite, WAL, synchronous = FULL",
            Self::Redb => "redb 4",
            Self::Fjall => "fjall 3, SyncAll",
            Self::Okaywal => "okaywal 0.3",
            Self::RaftEngine => "raft-engine 0.4",
            Self::Sled => "sled 0.34, flushed",
            Self::Bare => "write + fdatasync, nothing else",
        }
    }

    /// Opens or makes a store in a folder.
    pub fn open(self, dir: &Path) -> Result<Box<dyn Engine>> {
        std::fs::create_dir_all(dir)?;
        Ok(match self {
            Self::PlanLedger => Box::new(ours::Ours::open(dir)?),
            Self::SqliteWal => Box::new(sqlite::Sqlite::open(dir)?),
            Self::Redb => Box::new(redb::Redb::open(dir)?),
            Self::Fjall => Box::new(fjall::Fjall::open(dir)?),
            Self::Okaywal => Box::new(okaywal::Okaywal::open(dir)?),
            Self::RaftEngine => Box::new(raft_engine::RaftEngine::open(dir)?),
            Self::Sled => Box::new(sled::Sled::open(dir)?),
            Self::Bare => Box::new(bare::Bare::open(dir)?),
        })
    }

    /// Opens the store that is there and reads all of it.
    pub fn serve(self, dir: &Path) -> Served {
        let mut records = Vec::new();
        let outcome = match self {
            Self::PlanLedger => ours::serve(dir, &mut records),
            Self::SqliteWal => sqlite::serve(dir, &mut records),
            Self::Redb => redb::serve(dir, &mut records),
            Self::Fjall => fjall::serve(dir, &mut records),
            Self::Okaywal => okaywal::serve(dir, &mut records),
            Self::RaftEngine => raft_engine::serve(dir, &mut records),
            Self::Sled => sled::serve(dir, &mut records),
            Self::Bare => Err("it has no way to read".into()),
        };
        Served { said: if outcome.is_ok() { Said::Nothing } else { Said::Trouble }, records }
    }
}

/// The number in a key of eight bytes.
fn number(key: &[u8]) -> Result<u64> {
    Ok(u64::from_be_bytes(key.try_into()?))
}
