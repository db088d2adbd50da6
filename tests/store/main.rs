//! The commands `ledger store`, the protocol of `format/store.md` on a real store, and owners and standbys as
//! processes: `LEDGER_STORE_URL` names the store, and its credentials come from the environment. Without it, the store
//! is a folder.
//!
//! `tests/store/run` starts real servers and runs these tests on each.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed, helpers included"
)]

mod ack;
mod commands;
mod damage;
mod errors;
mod faults;
mod flawed;
mod kill;
mod moves;
mod network;
#[path = "../../src/store/tests/node.rs"]
mod node;
mod parts;
mod process;
mod reading;
mod refused_starts;
mod retention;
mod rows;
mod runner;
mod serve;
mod waits;
mod walk;

mod engine {
    //! What `node` needs: the engine, any store, the ledger, and how often the store is asked again. A create that another process won
    //! counts, too.

    pub(crate) use plan_ledger::Result;
    pub(crate) use plan_ledger::internals::format::{
        Chain, ChainKey, Codec, NewRecord, Placement, SegmentHeader, SegmentReason, Stamp, Uid,
        encode_frame,
    };
    pub(crate) use plan_ledger::internals::store::{
        EncodedSlot, HeldStore, KIND_WRITER_NOTE, LedgerIdentity, Objects, SegmentForm,
        SegmentObject, SlotPart, SlotWriter, StoreEnd, StoreSession, WriterNote, WriterReason,
    };

    pub(crate) type Store = std::sync::Arc<dyn Objects>;

    pub(crate) const IDENTITY: LedgerIdentity =
        LedgerIdentity { ledger: [0xB1; 16], genesis: [0xB2; 16] };

    pub(crate) const PATIENCE: u32 = 100;
}
