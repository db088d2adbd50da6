//! Repeats a call to a store until its answer is clear, for files with bytes in objects.

use std::io;

use crate::store::folder::StoreClient;
use crate::store::objects::Unclear;

/// The clear answer to a call.
///
/// # Errors
/// `HostUnreachable` if the store does not give one for as long as the client asks again.
pub(super) fn answer<T>(
    client: &StoreClient,
    call: impl Fn() -> Result<T, Unclear>,
) -> io::Result<T> {
    let mut unclear = 0;
    loop {
        match call() {
            Ok(found) => return Ok(found),
            Err(why) => {
                unclear += 1;
                if !(client.retry())(unclear) {
                    return Err(io::Error::new(io::ErrorKind::HostUnreachable, why.message()));
                }
            }
        }
    }
}
