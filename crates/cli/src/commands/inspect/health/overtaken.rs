//! Reading beside a prune: a file that was listed is gone when it is opened. What was read is then of no use, so the
//! reader begins again with the log as it is now, and its user sees nothing of the first attempt.

use std::io::{self, Write};

use plan_ledger::ErrorKind;

use crate::output::Failure;

/// The most attempts: each one that fails was overtaken by another prune.
const ATTEMPTS_MAX: u32 = 20;

/// The most bytes of output that are held back. A longer output is printed as it is made.
const HELD_BYTES_MAX: usize = 16 << 20;

/// Reads again for as long as prunes overtake it.
pub(crate) fn beside_prune<T>(mut read: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    for _ in 1..ATTEMPTS_MAX {
        match read() {
            Err(failure) if is_overtaken(&failure) => {}
            result => return result,
        }
    }
    read()
}

/// Prints a view, and begins again for as long as prunes overtake it and nothing of it was printed.
pub(crate) fn print_beside_prune<T>(
    out: &mut dyn Write,
    mut print: impl FnMut(&mut dyn Write) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let mut held = HeldOutput { out: &mut *out, held: Vec::new(), is_released: false };
        let result = print(&mut held);
        let is_again = attempts < ATTEMPTS_MAX && !held.is_released;
        match result {
            Err(failure) if is_again && is_overtaken(&failure) => {}
            result => {
                held.release().map_err(Failure::Output)?;
                return result;
            }
        }
    }
}

/// Whether a file was gone that had been listed.
fn is_overtaken(failure: &Failure) -> bool {
    let Failure::Ledger(error) = failure else { return false };
    let source = std::error::Error::source(error).and_then(|it| it.downcast_ref::<io::Error>());
    error.kind() == ErrorKind::Io && source.is_some_and(|it| it.kind() == io::ErrorKind::NotFound)
}

/// Output that is held back until it is flushed, or too long.
struct HeldOutput<'a> {
    out: &'a mut dyn Write,
    held: Vec<u8>,
    is_released: bool,
}

impl HeldOutput<'_> {
    fn release(&mut self) -> io::Result<()> {
        self.is_released = true;
        let held = std::mem::take(&mut self.held);
        self.out.write_all(&held)
    }
}

impl Write for HeldOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_released {
            return self.out.write(bytes);
        }
        self.held.extend_from_slice(bytes);
        if self.held.len() > HELD_BYTES_MAX {
            self.release()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.release()?;
        self.out.flush()
    }
}
