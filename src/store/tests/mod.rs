//! Tests of the protocol: every order of events in a small scope, the interleavings of the
//! specification, and every fate of every call.

mod bytes;
mod fates;
mod model;
mod node;
mod rows;

mod engine {
    //! The imports of `node`: the engine, the simulated store, the ledger, and the number of
    //! retries.

    pub(super) use crate::error::Result;
    pub(super) use crate::format::{
        Chain, ChainKey, Codec, NewRecord, Placement, SegmentHeader, SegmentReason, Stamp, Uid,
        encode_frame,
    };
    pub(super) use crate::sim::SimStore as Store;
    pub(super) use crate::store::{
        EncodedSlot, HeldStore, KIND_WRITER_NOTE, LedgerIdentity, Objects, SegmentForm,
        SegmentObject, SlotPart, SlotWriter, StoreEnd, StoreSession, WriterNote, WriterReason,
    };

    pub(super) const IDENTITY: LedgerIdentity =
        LedgerIdentity { ledger: [0xA1; 16], genesis: [0xA2; 16] };

    pub(super) const PATIENCE: u32 = 12;

    impl AsRef<dyn Objects> for Store {
        fn as_ref(&self) -> &(dyn Objects + 'static) {
            self
        }
    }
}
