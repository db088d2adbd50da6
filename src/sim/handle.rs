//! Open files of the simulated disk.

use std::io;
use std::path::PathBuf;

use super::disk::{or_fail, works};
use super::fault::{Call, Effect, Failure, Operation};
use super::file::FileImage;
use super::image::{PAGE, SECTOR, pieces, widen};
use super::injected::What;
use super::random::Random;
use super::state::{Node, State};
use super::{OsError, SimDisk};
use crate::storage::{Access, Map, StorageFile};

/// No file reaches behind this: offsets are signed.
const LENGTH_MAX: u64 = u64::MAX >> 1;

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    /// By which it was opened.
    pub(super) path: PathBuf,
    pub(super) node: usize,
    pub(super) boot: u64,
    pub(super) access: Access,
}

impl SimFile {
    fn call(&self, operation: Operation) -> Call<'_> {
        Call { node: Some(self.node), ..Call::at(operation, &self.path) }
    }

    fn look<T>(
        &self,
        operation: Operation,
        act: impl FnOnce(&mut State, Option<Failure>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.state();
        let failure = state.call(self.boot, self.call(operation))?;
        or_fail(failure.as_ref())?;
        act(&mut state, failure)
    }

    fn check_readable(
        &self,
        state: &mut State,
        operation: Operation,
        offset: u64,
        count: usize,
    ) -> io::Result<()> {
        let Some(offset) = state.image(self.node)?.first_bad(offset, count) else { return Ok(()) };
        state.note(self.call(operation), What::BadSector { offset });
        Err(OsError::Io.error())
    }

    /// Take as many bytes as there is room for; how many that are.
    fn fitting(&self, state: &State, offset: u64, count: usize) -> io::Result<usize> {
        // What does not make the file longer always fits.
        let length = state.image(self.node)?.now.length;
        let end = length.max(offset).saturating_add(state.room());
        Ok(count.min(usize::try_from(end - offset).unwrap_or(usize::MAX)))
    }

    fn misdirect(
        &self,
        state: &mut State,
        (bytes, offset): (&[u8], u64),
        (path, wrong): (Option<PathBuf>, u64),
    ) -> io::Result<()> {
        state.file(self.node)?.write_falsely(offset, bytes);
        let victim = path.as_deref().map_or(Ok(self.node), |path| state.find(path))?;
        let count = state.file(victim)?.land_wrongly(wrong, bytes);
        let path = path.unwrap_or_else(|| self.path.clone());
        let range = offset..offset + widen(bytes.len());
        let harmed = wrong..wrong + widen(count);
        state.note(self.call(Operation::Write), What::MisdirectedWrite { range, path, harmed });
        Ok(())
    }
}

/// What a write does that fails.
fn write_partly(file: &mut FileImage, bytes: &[u8], offset: u64, effect: Effect) {
    match effect {
        Effect::Nothing | Effect::Revert | Effect::CrashIn(_) => {}
        Effect::Everything => file.write(offset, bytes),
        Effect::Prefix(count) => file.write(offset, bytes.get(..count).unwrap_or(bytes)),
        Effect::Part(seed) => {
            let mut random = Random(seed);
            for (sector, start, part) in pieces(offset, bytes, SECTOR) {
                if random.coin() {
                    file.write(sector * widen(SECTOR) + widen(start), part);
                }
            }
        }
    }
}

impl StorageFile for SimFile {
    fn length(&self) -> io::Result<u64> {
        self.look(Operation::Length, |state, _| {
            // A folder has the length of its block.
            Ok(state.image(self.node).map_or(widen(PAGE), |file| file.now.length))
        })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.look(Operation::Read, |state, failure| {
            self.check_readable(state, Operation::Read, offset, buffer.len())?;
            let there = state.image(self.node)?.now.read_into(offset, buffer);
            match failure {
                Some(Failure::ShortRead(given)) if given < there => {
                    state.note(self.call(Operation::Read), What::ShortRead { given, there });
                    Ok(given)
                }
                _ => Ok(there),
            }
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let state = &mut *state;
        let call = self.call(Operation::Write);
        let failure = state.call(self.boot, call)?;
        state.changes += 1;
        if bytes.is_empty() {
            return or_fail(failure.as_ref());
        }
        if self.access == Access::Read {
            return Err(bad_handle());
        }
        if offset.checked_add(widen(bytes.len())).is_none_or(|end| end > LENGTH_MAX) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let count = self.fitting(state, offset, bytes.len())?;
        let fitting = bytes.get(..count).unwrap_or(bytes);
        match failure {
            Some(Failure::Error(error, effect)) => {
                write_partly(state.file(self.node)?, fitting, offset, effect);
                return Err(error.error());
            }
            Some(Failure::LostWrite) => {
                state.file(self.node)?.write_falsely(offset, fitting);
                state.note(call, What::LostWrite(offset..offset + widen(count)));
            }
            Some(Failure::MisdirectedWrite { path, offset: wrong }) => {
                self.misdirect(state, (fitting, offset), (path, wrong))?;
            }
            _ => state.file(self.node)?.write(offset, fitting),
        }
        if count < bytes.len() {
            state.note(call, What::Full { written: count });
            return Err(OsError::NoSpace.error());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let call = self.call(Operation::Sync);
        let failure = state.call(self.boot, call)?;
        state.changes += 1;
        match failure {
            Some(Failure::LyingSync) => state.note(call, What::LyingSync),
            Some(Failure::Error(_, Effect::CrashIn(_))) => {}
            Some(Failure::Error(_, Effect::Revert)) => state.file(self.node)?.revert(),
            Some(Failure::Error(_, effect)) if effect != Effect::Everything => {
                state.file(self.node)?.mark_clean();
            }
            _ => state.sync(self.node)?,
        }
        or_fail(failure.as_ref())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let call = self.call(Operation::SetLength);
        let failure = state.call(self.boot, call)?;
        state.changes += 1;
        if self.access == Access::Read || length > LENGTH_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if length > state.image(self.node)?.now.length.saturating_add(state.room()) {
            state.note(call, What::Full { written: 0 });
            return Err(OsError::NoSpace.error());
        }
        if works(failure.as_ref()) {
            state.file(self.node)?.set_length(length);
        }
        or_fail(failure.as_ref())
    }

    fn make_read_only(&self) -> io::Result<()> {
        self.look(Operation::MakeReadOnly, |state, _| {
            if matches!(state.node(self.node), Some(Node::File(_))) {
                state.file(self.node)?.is_read_only = true;
            }
            Ok(())
        })
    }

    fn map(&self) -> io::Result<Map> {
        self.look(Operation::Map, |state, _| {
            let length = state.image(self.node).map_err(|_| cannot_map())?.now.length;
            let count = usize::try_from(length).map_err(io::Error::other)?;
            self.check_readable(state, Operation::Map, 0, count)?;
            Ok(Map::from(state.image(self.node)?.now.read(0, count)))
        })
    }
}

/// Writing through a handle that is for reading: `EBADF`.
fn bad_handle() -> io::Error {
    if cfg!(unix) {
        io::Error::from_raw_os_error(9)
    } else {
        io::ErrorKind::PermissionDenied.into()
    }
}

/// Mapping a folder: `ENODEV`.
fn cannot_map() -> io::Error {
    if cfg!(unix) { io::Error::from_raw_os_error(19) } else { io::ErrorKind::IsADirectory.into() }
}
