//! Open files of the simulated disk.

use std::io;
use std::path::PathBuf;

use super::fault::{Call, FaultAction, FaultEffect, Operation, OsError, check, takes_effect};
use super::file::FileImage;
use super::injected::InjectedKind;
use super::paged_bytes::{PAGE, SECTOR, pieces};
use super::random::Random;
use super::sim_disk::SimDisk;
use super::state::{Node, State};
use crate::format::to_u64;
use crate::storage::{Access, Map, StorageFile};

/// The longest file: offsets are signed.
const LENGTH_MAX: u64 = u64::MAX >> 1;

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    /// The path that opened the file.
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
        act: impl FnOnce(&mut State, Option<FaultAction>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.state();
        let action = state.call(self.boot, self.call(operation))?;
        check(action.as_ref())?;
        act(&mut state, action)
    }

    fn check_readable(
        &self,
        state: &mut State,
        operation: Operation,
        offset: u64,
        count: usize,
    ) -> io::Result<()> {
        let Some(offset) = state.image(self.node)?.first_unreadable(offset, count) else {
            return Ok(());
        };
        state.note(self.call(operation), InjectedKind::BadSector { offset });
        Err(OsError::Io.error())
    }

    /// The number of the `count` bytes that fit on the disk.
    fn fitting(&self, state: &State, offset: u64, count: usize) -> io::Result<usize> {
        // Overwriting existing bytes always fits.
        let length = state.image(self.node)?.cached.length;
        let end = length.max(offset).saturating_add(state.free_space());
        Ok(count.min(usize::try_from(end - offset).unwrap_or(usize::MAX)))
    }

    fn misdirect(
        &self,
        state: &mut State,
        (bytes, offset): (&[u8], u64),
        (path, wrong): (Option<PathBuf>, u64),
    ) -> io::Result<()> {
        state.file(self.node)?.write_cache_only(offset, bytes);
        let victim = path.as_deref().map_or(Ok(self.node), |path| state.find(path))?;
        let count = state.file(victim)?.write_durable_only(wrong, bytes);
        let path = path.unwrap_or_else(|| self.path.clone());
        let range = offset..offset + to_u64(bytes.len());
        let damaged = wrong..wrong + to_u64(count);
        state.note(
            self.call(Operation::Write),
            InjectedKind::MisdirectedWrite { range, path, damaged },
        );
        Ok(())
    }
}

/// The effect of a failed write.
fn write_partly(file: &mut FileImage, bytes: &[u8], offset: u64, effect: FaultEffect) {
    match effect {
        FaultEffect::Nothing | FaultEffect::Revert | FaultEffect::CrashIn(_) => {}
        FaultEffect::Everything => file.write(offset, bytes),
        FaultEffect::Prefix(count) => file.write(offset, bytes.get(..count).unwrap_or(bytes)),
        FaultEffect::Part(seed) => {
            let mut random = Random(seed);
            for (sector, start, part) in pieces(offset, bytes, SECTOR) {
                if random.coin() {
                    file.write(sector * to_u64(SECTOR) + to_u64(start), part);
                }
            }
        }
    }
}

impl StorageFile for SimFile {
    fn length(&self) -> io::Result<u64> {
        self.look(Operation::Length, |state, _| {
            // The length of a folder is one page.
            Ok(state.image(self.node).map_or(to_u64(PAGE), |file| file.cached.length))
        })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.look(Operation::Read, |state, action| {
            self.check_readable(state, Operation::Read, offset, buffer.len())?;
            let available = state.image(self.node)?.cached.read_into(offset, buffer);
            match action {
                Some(FaultAction::ShortRead(returned)) if returned < available => {
                    state.note(
                        self.call(Operation::Read),
                        InjectedKind::ShortRead { returned, available },
                    );
                    Ok(returned)
                }
                _ => Ok(available),
            }
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let state = &mut *state;
        let call = self.call(Operation::Write);
        let action = state.call(self.boot, call)?;
        state.changes += 1;
        if bytes.is_empty() {
            return check(action.as_ref());
        }
        if self.access == Access::Read {
            return Err(read_only_handle());
        }
        if offset.checked_add(to_u64(bytes.len())).is_none_or(|end| end > LENGTH_MAX) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let count = self.fitting(state, offset, bytes.len())?;
        let fitting = bytes.get(..count).unwrap_or(bytes);
        match action {
            Some(FaultAction::Error(error, effect)) => {
                write_partly(state.file(self.node)?, fitting, offset, effect);
                return Err(error.error());
            }
            Some(FaultAction::LostWrite) => {
                state.file(self.node)?.write_cache_only(offset, fitting);
                state.note(call, InjectedKind::LostWrite(offset..offset + to_u64(count)));
            }
            Some(FaultAction::MisdirectedWrite { path, offset: wrong }) => {
                self.misdirect(state, (fitting, offset), (path, wrong))?;
            }
            _ => state.file(self.node)?.write(offset, fitting),
        }
        if count < bytes.len() {
            state.note(call, InjectedKind::Full { written: count });
            return Err(OsError::NoSpace.error());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let call = self.call(Operation::Sync);
        let action = state.call(self.boot, call)?;
        state.changes += 1;
        match action {
            Some(FaultAction::LyingSync) => state.note(call, InjectedKind::LyingSync),
            Some(FaultAction::Error(_, FaultEffect::CrashIn(_))) => {}
            Some(FaultAction::Error(_, FaultEffect::Revert)) => state.file(self.node)?.revert(),
            Some(FaultAction::Error(_, effect)) if effect != FaultEffect::Everything => {
                state.file(self.node)?.mark_clean();
            }
            _ => state.sync(self.node)?,
        }
        check(action.as_ref())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let call = self.call(Operation::SetLength);
        let action = state.call(self.boot, call)?;
        state.changes += 1;
        if self.access == Access::Read || length > LENGTH_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if length > state.image(self.node)?.cached.length.saturating_add(state.free_space()) {
            state.note(call, InjectedKind::Full { written: 0 });
            return Err(OsError::NoSpace.error());
        }
        if takes_effect(action.as_ref()) {
            state.file(self.node)?.set_length(length);
        }
        check(action.as_ref())
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
            let length = state.image(self.node).map_err(|_| cannot_map())?.cached.length;
            let count = usize::try_from(length).map_err(io::Error::other)?;
            let image = state.image(self.node)?;
            Ok(Map::with_faults(image.cached.read(0, count), image.unreadable().to_vec()))
        })
    }
}

/// The error of writing through a read-only handle: `EBADF`.
fn read_only_handle() -> io::Error {
    if cfg!(unix) {
        io::Error::from_raw_os_error(9)
    } else {
        io::ErrorKind::PermissionDenied.into()
    }
}

/// The error of mapping a folder: `ENODEV`.
fn cannot_map() -> io::Error {
    if cfg!(unix) { io::Error::from_raw_os_error(19) } else { io::ErrorKind::IsADirectory.into() }
}
