//! The engines, with one small interface.

mod bare;
mod fjall;
mod okaywal;
mod open_wal;
mod ours;
mod raft_engine;
mod redb;
mod sled;
mod sqlite;
mod wal_db;

use std::path::Path;

use clap::ValueEnum;
pub use ours::options;
use plan_ledger::log::ChainCheck;

use crate::Result;
use crate::measure::{Engine, Visit};

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    PlanLedger,
    /// The same, but readers check only checksums and order, not the chain.
    PlanLedgerTrusting,
    SqliteWal,
    Redb,
    Fjall,
    Okaywal,
    RaftEngine,
    OpenWal,
    WalDb,
    Sled,
    Bare,
}

impl Peer {
    /// The name and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlanLedger => "plan-ledger",
            Self::PlanLedgerTrusting => "plan-ledger, checksums only",
            Self::SqliteWal => "SQLite, WAL, synchronous = FULL",
            Self::Redb => "redb 4",
            Self::Fjall => "fjall 3, SyncAll",
            Self::Okaywal => "okaywal 0.3",
            Self::RaftEngine => "raft-engine 0.4",
            Self::OpenWal => "open-wal 0.2",
            Self::WalDb => "wal-db 1.1",
            Self::Sled => "sled 0.34, flushed",
            Self::Bare => "write + fdatasync, nothing else",
        }
    }

    /// Open or create a store in a folder.
    pub fn open(self, dir: &Path) -> Result<Box<dyn Engine>> {
        std::fs::create_dir_all(dir)?;
        Ok(match self {
            Self::PlanLedger | Self::PlanLedgerTrusting => Box::new(ours::Ours::open(dir)?),
            Self::SqliteWal => Box::new(sqlite::Sqlite::open(dir)?),
            Self::Redb => Box::new(redb::Redb::open(dir)?),
            Self::Fjall => Box::new(fjall::Fjall::open(dir)?),
            Self::Okaywal => Box::new(okaywal::Okaywal::open(dir)?),
            Self::RaftEngine => Box::new(raft_engine::RaftEngine::open(dir)?),
            Self::OpenWal => Box::new(open_wal::OpenWal::open(dir)?),
            Self::WalDb => Box::new(wal_db::WalDb::open(dir)?),
            Self::Sled => Box::new(sled::Sled::open(dir)?),
            Self::Bare => Box::new(bare::Bare::open(dir)?),
        })
    }

    /// Open an existing store and read all of it, in order. Records that are read before an error
    /// count as served.
    pub fn read(self, dir: &Path, visit: Visit<'_>) -> Result<()> {
        match self {
            Self::PlanLedger => ours::read(dir, ChainCheck::Recompute, visit),
            Self::PlanLedgerTrusting => ours::read(dir, ChainCheck::Trust, visit),
            Self::SqliteWal => sqlite::read(dir, visit),
            Self::Redb => redb::read(dir, visit),
            Self::Fjall => fjall::read(dir, visit),
            Self::Okaywal => okaywal::read(dir, visit),
            Self::RaftEngine => raft_engine::read(dir, visit),
            Self::OpenWal => open_wal::read(dir, visit),
            Self::WalDb => wal_db::read(dir, visit),
            Self::Sled => sled::read(dir, visit),
            Self::Bare => Err("the bare loop cannot read".into()),
        }
    }

    /// Open the store for writing, if `read` needs less than that.
    pub fn reopen(self, dir: &Path) -> Result<()> {
        match self {
            Self::PlanLedger | Self::PlanLedgerTrusting => ours::reopen(dir),
            _ => Ok(()),
        }
    }
}

/// The record number in a key of eight bytes.
fn number(key: &[u8]) -> Result<u64> {
    Ok(u64::from_be_bytes(key.try_into()?))
}
