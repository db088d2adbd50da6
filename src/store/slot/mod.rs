//! Slots: the frames of one commit, as an object (`format/store.md`, section 3).
//!
//! Bytes become records in three stages, each with its own type: [`SlotBytes`] (nothing is known),
//! [`CheckedSlot`] (name, ledger, checksums and fields hold), [`VerifiedSlot`] (it continues the log, and
//! every frame is verified).

mod bytes;
mod encode;
mod frames;
mod header;

// The note is a record of the log about itself, which a program without stores reads, too.
pub use crate::log::{EarlierWriter, KIND_WRITER_NOTE, WriterNote, WriterReason};
pub use bytes::{CheckedSlot, SegmentPlace, SlotBytes, VerifiedSlot};
pub use encode::{EncodedSlot, SlotPart, SlotWriter};
pub(super) use frames::{FrameWalk, walk_frames};
pub use header::{SLOT_HEADER_SIZE, SLOT_SIZE_MAX, SlotFault, SlotHeader};
