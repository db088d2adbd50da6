//! Messages on a connection: one JSON object per line, in both directions.
//!
//! A message without its line end was cut short and is never acted upon. No message is longer than
//! [`MESSAGE_LENGTH_MAX`], in either direction.

use std::io::{self, BufRead, Read};

/// The longest message in bytes, including its line end.
pub const MESSAGE_LENGTH_MAX: u64 = 16 << 20;

/// Reads the next message; `None` at the end of the stream.
///
/// # Errors
/// `FileTooLarge` for a message beyond the limit; errors of the stream.
pub(crate) fn receive(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut message = Vec::new();
    from.take(MESSAGE_LENGTH_MAX).read_until(b'\n', &mut message)?;
    if message.last() == Some(&b'\n') {
        return Ok(Some(message));
    }
    if u64::try_from(message.len()).unwrap_or(u64::MAX) >= MESSAGE_LENGTH_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // A message without its line end was cut short and must not be acted upon.
    Ok(None)
}

/// Encodes a message with its line end.
///
/// # Errors
/// `FileTooLarge` for a message beyond the limit.
pub(crate) fn encode(message: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MESSAGE_LENGTH_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ends_at_its_line_end() {
        let mut bytes: &[u8] = b"one\ntwo\nthr";
        assert_eq!(receive(&mut bytes).unwrap().unwrap(), b"one\n");
        assert_eq!(receive(&mut bytes).unwrap().unwrap(), b"two\n");
        assert!(receive(&mut bytes).unwrap().is_none(), "an incomplete message is ignored");
        assert!(receive(&mut bytes).unwrap().is_none());
    }

    #[test]
    fn message_limit_is_exact() {
        let length = usize::try_from(MESSAGE_LENGTH_MAX).unwrap();
        let mut most = vec![b'x'; length];
        most[length - 1] = b'\n';
        assert_eq!(receive(&mut most.as_slice()).unwrap().unwrap().len(), length);
        let more = vec![b'x'; length + 1];
        let error = receive(&mut more.as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let text = "x".repeat(length - 3);
        assert_eq!(encode(&text).unwrap().len(), length);
        let text = "x".repeat(length - 2);
        assert_eq!(encode(&text).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
