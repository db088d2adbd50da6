//! Snapshots: states of a projection in separate files, so that opening and time travel do not fold
//! the whole log.
//!
//! `store` folds from the best snapshot and makes new ones; `load` reads and validates one;
//! `scheduler` decides when the state's snapshots are made, `intervals` how far apart, and
//! `retention` which are kept; `kept_states` is what the writer keeps in memory from one to the next.
//! `state_body`, `run_body`, `compression` and `state_hash` are the encoding of the state: runs name
//! their plans and the leaves of their steps by hash, and a snapshot holds those that its base lacks.
//! Snapshots are derived data: a bad one is reported and the next older one is used, except for the
//! anchors of a pruned log.

pub(crate) mod compression;
pub(crate) mod intervals;
pub(crate) mod kept_states;
pub(crate) mod load;
pub(crate) mod prefetch;
pub(crate) mod retention;
pub(crate) mod run_body;
pub(crate) mod scheduler;
pub(crate) mod state_body;
pub(crate) mod state_hash;
pub(crate) mod store;
