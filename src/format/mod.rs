//! Bytes and nothing else: segment headers, record frames, indexes, footers, HEAD, snapshots.
//! Implements `format/*.md`.
//!
//! Invariants:
//! - Pure: no I/O, no clock, no allocation that a length read from disk decides.
//! - Bytes are checked before they are believed. A length is compared with a named limit and with
//!   what remains, then both CRCs, then the chain; each stage has its own type
//!   ([`CheckedFrame`], then [`Record`]).
//! - Every byte of a frame and of a header is covered by a CRC; reserved bytes are zero.
//!
//! Left out on purpose: what a payload means. Only this module names `crc32fast` and `blake3`.

mod bytes;
mod codec;
mod encode;
mod fields;
mod footer;
mod frame;
mod hash;
mod head;
mod index;
mod lanes;
mod links;
mod pack;
mod segment;
mod snapshot;

pub use codec::Codec;
pub use encode::{Digested, append_frame, encode_frame, stamp_frame};
pub use fields::{FrameField, frame_fields};
pub use footer::{FOOTER_SIZE, Footer, FooterFault, is_sealed_length};
pub use frame::{
    CheckedFrame, CheckedHead, FRAME_ALIGNMENT, FRAME_HEADER_SIZE, FRAME_MAGIC, FrameFault,
    NewRecord, PAYLOAD_LENGTH_MAX, Record, RecordHeader, SKIPPABLE_KINDS_FROM, Stamp, frame_size,
    looks_torn, peek_kind, peek_payload_length,
};
pub use hash::{Chain, ChainKey, ContentHasher, Placement, Seed, Seeds, content_hash};
pub use head::{HEAD_SIZE, HEAD_SLOT_SIZE, Head, HeadState, HeadSync, HeadView};
pub use index::{
    INDEX_HEADER_SIZE, INDEX_LENGTH_MAX, INDEX_RECORDS_MAX, Index, IndexBuilder, IndexCheck,
    IndexFault, SEEK_STEP, SeekEntry, index_crc, peek_seek_length, read_seeks,
};
pub use links::LinksAhead;
pub use pack::{pack, unpack};
pub use segment::{
    FORMAT_MAJOR, HEADER_REPLICA_SIZE, HeaderFault, HeaderReplica, Reason, SEGMENT_HEADER_SIZE,
    SegmentHeader, SegmentName,
};
pub use snapshot::{
    SNAPSHOT_BASES_MAX, SNAPSHOT_CHUNK_SIZE, SNAPSHOT_CRC_SIZE, SNAPSHOT_HEADER_SIZE, SnapshotBase,
    SnapshotFault, SnapshotHeader, SnapshotName, is_projection_name, snapshot_chunk_crc,
};

/// A 16-byte identifier: of a ledger, of a segment, of a chain's genesis.
pub type Uid = [u8; 16];
