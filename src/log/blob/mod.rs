//! Blobs: contents too large for a record, each in a file named after its hash (`format/blob.md`).

mod reader;
mod store;

pub use reader::{BLOB_LENGTH_MAX, BlobFile, BlobId, BlobList, BlobReader, BlobState};
pub use store::BlobStore;
