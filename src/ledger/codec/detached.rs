//! Values detached from the bytes around them: the bytes of `format/log.md`, *Detached values*, for
//! the texts that `crate::plan` collects while it encodes.

use crate::format::{Detached, DetachedPayload, NewDetached, split_detached};
use crate::plan::{self, DetachedText, Salt};

/// Calls an encoder, and returns the values that it detached.
pub(crate) fn collect<T>(encode: impl FnOnce() -> T) -> (T, Vec<NewDetached>) {
    let (result, values) = plan::collect(encode);
    let value = |value| match value {
        DetachedText::Present(Salt(salt), text) => {
            NewDetached::Present { salt, bytes: text.into_bytes() }
        }
        DetachedText::Erased(digest) => NewDetached::Erased(digest),
    };
    (result, values.into_iter().map(value).collect())
}

/// Decodes bytes with detached values, which were checked before.
///
/// # Errors
/// Bytes that are not such bytes; values that are not UTF-8; more values than are used; the error of
/// `decode`.
pub(crate) fn decode<T>(
    bytes: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, String> {
    let parts = split_detached(bytes).ok_or("its detached values are invalid")?;
    decode_parts(&parts, decode)
}

/// As [`decode`], for bytes that were taken apart.
pub(crate) fn decode_parts<T>(
    DetachedPayload { body, values }: &DetachedPayload<'_>,
    decode: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, String> {
    let text = |value: &Detached<'_>| match value.content {
        None => Ok(DetachedText::Erased(value.digest)),
        Some((salt, bytes)) => std::str::from_utf8(bytes)
            .map(|text| DetachedText::Present(Salt(salt), text.to_owned()))
            .map_err(|error| error.to_string()),
    };
    let values = values.iter().map(text).collect::<Result<_, String>>()?;
    let (result, is_used_up) = plan::supply(values, || decode(body));
    let result = result?;
    if is_used_up { Ok(result) } else { Err("it has more detached values than it uses".to_owned()) }
}
