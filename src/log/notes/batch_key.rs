//! The idempotency key of a batch, stored as the first record of the batch.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Codec, NewRecord};

use super::kinds::KIND_BATCH_KEY;

/// An idempotency key. A batch with a key is committed once, however often it is submitted, and can
/// be found after an append whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchKey(Vec<u8>);

impl BatchKey {
    /// The longest key, in bytes.
    pub const LENGTH_MAX: usize = 64;

    /// A key of 1 to 64 bytes. A random one for each request, such as a UUID, is the usual choice.
    ///
    /// # Errors
    /// `TooLarge` for any other length.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() || bytes.len() > Self::LENGTH_MAX {
            let message = format!(
                "batch key: expected 1 to {} bytes, found {}; use its hash instead",
                Self::LENGTH_MAX,
                bytes.len()
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(Self(bytes.to_vec()))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The first record of the batch.
    pub(crate) fn record(&self) -> NewRecord {
        let payload = self.0.clone();
        NewRecord { kind: KIND_BATCH_KEY, codec: Codec::Raw, schema: 1, payload }
    }
}
