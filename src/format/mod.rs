//! The on-disk format: segment headers, record frames, indexes, footers, HEAD, snapshots.
//!
//! Implements `format/*.md`. Encoders and decoders are pure functions over byte slices; payloads
//! are opaque. Only this module uses `crc32fast`, `blake3` and `lz4_flex`.
//!
//! Invariants:
//! - No I/O and no clock, and no length read from disk decides an allocation.
//! - Bytes are validated before they are used. A length is compared with a named limit and with the
//!   bytes that remain, then both CRCs are checked, then the chain; each stage has its own type
//!   ([`CheckedHeader`], [`CheckedFrame`], [`Record`]).
//! - A CRC covers every byte of a frame and of a header; reserved bytes are zero.

mod blake3_simd;
mod bytes;
mod chain_lookahead;
mod codec;
mod encode;
mod fields;
mod footer;
mod frame;
mod hash;
mod head;
mod index;
#[cfg(feature = "ledger")]
mod pack;
mod segment;
mod snapshot;

#[cfg(feature = "ledger")]
pub(crate) use bytes::Hex;
pub use bytes::Uid;
#[cfg(any(test, feature = "sim", feature = "store"))]
pub(crate) use bytes::to_u64;
#[cfg(feature = "store")]
pub(crate) use bytes::{all_zero, array, put, u16_at, u32_at, u64_at};
pub use chain_lookahead::ChainLookahead;
pub use codec::{
    Codec, Detached, DetachedPayload, NewDetached, SALT_SIZE, covered_part, detach,
    detached_digest, detached_digests, detached_values, erase_detached, read_detached,
    split_detached,
};
pub use encode::{HashedRecord, append_frame, encode_frame, erase_in_frame, stamp_frame};
pub use fields::{FrameField, frame_fields};
pub use footer::{
    FOOTER_SIZE, Footer, FooterFault, INDEX_HEADER_SIZE, INDEX_LENGTH_MAX, INDEX_RECORDS_MAX,
    is_sealed_length,
};
pub use frame::{
    CheckedFrame, CheckedHeader, FRAME_ALIGNMENT, FRAME_HEADER_SIZE, FRAME_MAGIC, FrameFault,
    NewRecord, PAYLOAD_LENGTH_MAX, Record, RecordHeader, SKIPPABLE_KINDS_FROM, Stamp, frame_size,
    looks_torn, peek_kind, peek_payload_length,
};
#[cfg(feature = "store")]
pub(crate) use hash::crc32;
pub use hash::{Chain, ChainKey, ContentHasher, CrcSeed, Placement, SegmentSeed, content_hash};
pub use head::{
    BootTime, ClockAnchor, HEAD_COPY_SIZE, HEAD_FIELDS_SIZE, HEAD_SIZE, HEAD_SLOT_SIZE, Head,
    HeadCopies, HeadSlots, HeadState, HeadSync,
};
pub use index::{
    Index, IndexBuilder, IndexCrc, IndexFault, SEEK_STEP, SeekEntry, index_crc, peek_seek_length,
    read_seeks,
};
#[cfg(feature = "ledger")]
pub use pack::{pack, unpack};
pub use segment::{
    FORMAT_MAJOR, HEADER_REPLICA_SIZE, HeaderFault, HeaderReplica, SEGMENT_HEADER_SIZE,
    SegmentHeader, SegmentName, SegmentReason,
};
pub use snapshot::{
    SNAPSHOT_BASES_MAX, SNAPSHOT_CHUNK_SIZE, SNAPSHOT_CRC_SIZE, SNAPSHOT_HEADER_SIZE, SnapshotBase,
    SnapshotFault, SnapshotHeader, SnapshotName, is_projection_name, snapshot_chunk_crc,
};
