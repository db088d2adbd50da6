//! The idempotency key of a batch, stored as the first record of the batch.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Codec, NewRecord, content_hash};

use super::kinds::KIND_BATCH_KEY;

/// The length of a request's hash.
const REQUEST_LENGTH: usize = 32;

/// An idempotency key. A batch with a key is committed once, however often it is submitted, and can
/// be found after an append with an unknown outcome.
///
/// A key names a request ([`BatchKey::for_request`]): a batch of another request under it is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchKey {
    key: Vec<u8>,
    /// Zero if the key names no request.
    request: [u8; REQUEST_LENGTH],
}

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
        Ok(Self { key: bytes.to_vec(), request: [0; REQUEST_LENGTH] })
    }

    /// The key as the name of a request: any bytes that tell it from other requests. Under a key that
    /// names another request nothing is executed.
    #[must_use]
    pub fn for_request(self, request: &[u8]) -> Self {
        Self { request: content_hash(request), ..self }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.key
    }

    /// The hash of the request; zero if the key names none.
    #[must_use]
    pub fn request(&self) -> &[u8; REQUEST_LENGTH] {
        &self.request
    }

    /// The payload of its record.
    pub(crate) fn payload(&self) -> Vec<u8> {
        [self.request.as_slice(), &self.key].concat()
    }

    /// The key in the payload of a record.
    ///
    /// # Errors
    /// `TooLarge` for a payload of a wrong length.
    pub fn from_payload(payload: &[u8]) -> Result<Self> {
        match payload.split_first_chunk() {
            Some((request, key)) => Ok(Self { request: *request, ..Self::new(key)? }),
            None => Self::new(&[]),
        }
    }

    /// The first record of the batch.
    pub(crate) fn record(&self) -> NewRecord {
        let payload = self.payload();
        NewRecord { kind: KIND_BATCH_KEY, codec: Codec::Raw, schema: 1, payload }
    }
}
