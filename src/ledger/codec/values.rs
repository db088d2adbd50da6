//! Values as bincode 1.3 with variable-length integers: the only module that uses `bincode`.
//!
//! Record payloads have a size limit and no trailing bytes. Snapshot bodies are a sequence of
//! values: [`put`] and [`take`] stream them, [`Values`] reads them from memory.
//!
//! Invariant: decoding never allocates more than the bytes that are left, or the limit of a record.

use std::io;

use bincode::Options as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::format::PAYLOAD_LENGTH_MAX;
use crate::plan::without_collecting;

/// The value that a payload encodes. The payload has no further bytes.
pub(crate) fn value<T: DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
    options().deserialize(payload).map_err(|error| error.to_string())
}

/// The payload that encodes a value. It has no limit here: the log rejects a payload that is too
/// long.
pub(crate) fn bytes<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    // In one pass, since an encoder may detach values.
    bincode::DefaultOptions::new()
        .serialize_into(&mut bytes, value)
        .expect("events are plain structs of integers, strings and vectors, which always encode");
    bytes
}

/// The limit: a length inside a payload cannot request more memory than a record may have.
fn options() -> impl bincode::Options {
    bincode::DefaultOptions::new().with_limit(u64::from(PAYLOAD_LENGTH_MAX))
}

/// The number of bytes that a value takes in a payload.
pub(crate) fn encoded_length<T: Serialize>(value: &T) -> u64 {
    bincode::DefaultOptions::new().serialized_size(value).unwrap_or(u64::MAX)
}

/// Write one value of a snapshot's body.
///
/// # Errors
/// Those of the writer; `InvalidData` for a value that is longer than a reader accepts.
pub(crate) fn put<T: Serialize + ?Sized>(
    out: &mut (impl io::Write + ?Sized),
    value: &T,
) -> io::Result<()> {
    // With a limit, bincode would encode the value twice: the first time to measure it.
    without_collecting(|| options().serialized_size(value)).map_err(io_error)?;
    bincode::DefaultOptions::new().serialize_into(out, value).map_err(io_error)
}

/// As [`put`], without measuring the value first: for a value of a few bytes, or a caller that checks
/// the length.
///
/// # Errors
/// Those of the writer.
pub(crate) fn put_unmeasured<T: Serialize>(
    out: &mut (impl io::Write + ?Sized),
    value: &T,
) -> io::Result<()> {
    bincode::DefaultOptions::new().serialize_into(out, value).map_err(io_error)
}

/// Read one value of a snapshot's body. A length in it that exceeds a record's limit is rejected.
///
/// # Errors
/// Those of the reader; `InvalidData` for bytes that encode no such value.
pub(crate) fn take<T: DeserializeOwned>(input: &mut (impl io::Read + ?Sized)) -> io::Result<T> {
    options().deserialize_from(input).map_err(io_error)
}

/// Reads one value after another from bytes in memory. A length that exceeds the bytes that are
/// left is rejected.
pub(crate) struct Values<'a>(
    bincode::Deserializer<bincode::de::read::SliceReader<'a>, bincode::DefaultOptions>,
);

impl<'a> Values<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bincode::Deserializer::from_slice(bytes, bincode::DefaultOptions::new()))
    }

    /// The next value.
    ///
    /// # Errors
    /// Bytes that encode no such value.
    pub(crate) fn take<T: Deserialize<'a>>(&mut self) -> io::Result<T> {
        T::deserialize(&mut self.0).map_err(io_error)
    }

    /// A count, then that many values.
    ///
    /// # Errors
    /// As [`Values::take`].
    pub(crate) fn take_many<T: Deserialize<'a>, C: FromIterator<T>>(&mut self) -> io::Result<C> {
        // Collecting from a vector is far cheaper than inserting one by one into a sorted map.
        Ok(self.take::<Vec<T>>()?.into_iter().collect())
    }

    /// Whether no byte is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        u8::deserialize(&mut self.0).is_err()
    }
}

fn io_error(error: bincode::Error) -> io::Error {
    match *error {
        bincode::ErrorKind::Io(error) => error,
        _ => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}
