//! Reading what a snapshot holds, and the snapshots that it is based on.
//!
//! Invariants:
//! - What is handed out has the hash that the header says, under sums that hold, in a file that fits
//!   the log. What an older snapshot gave to it is under that hash, too.
//! - A chain of bases is short: there is an end to it whatever headers say.
//!
//! Left out on purpose: which snapshot is worth reading (`snapshots` says).

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SNAPSHOT_BASES_MAX, SnapshotHeader, SnapshotName};
use crate::log::{LogReader, SnapshotFolder, SnapshotReader};
use crate::plan::{Form, PackedRun, RunId, State};

use super::projection::Projection;

/// So many bytes of a snapshot are decoded at a time.
const PIECE: usize = 64 << 10;

/// Whether a snapshot is one of that projection, and of its version.
pub(super) fn is_read<P: Projection>(name: &SnapshotName) -> bool {
    name.projection == P::NAME && name.version == P::VERSION
}

/// What a snapshot holds, after every check but that for a note that contradicts it, and that of
/// what is looked at later.
///
/// # Errors
/// `Corrupt` with file and offset; `Unsupported`; `Io`.
pub(super) fn load<P: Projection>(
    reader: &LogReader,
    name: &SnapshotName,
) -> Result<(P, SnapshotHeader)> {
    load_on(reader, name, |_| {})
}

/// The same; `see` is shown what it is based on, if it is.
fn load_on<P: Projection>(
    reader: &LogReader,
    name: &SnapshotName,
    see: impl FnOnce(&P),
) -> Result<(P, SnapshotHeader)> {
    let file = reader.open_snapshot(name)?;
    read(reader.snapshot_folder(), file, see)
}

/// What a file and those that it is based on hold, after every check of them.
fn read<P: Projection>(
    folder: SnapshotFolder<'_>,
    file: SnapshotReader,
    see: impl FnOnce(&P),
) -> Result<(P, SnapshotHeader)> {
    let path = file.path().to_owned();
    let below = base::<P>(folder, &file)?;
    if let Some(base) = &below {
        see(base);
    }
    let (value, header) = decode::<P>(file, below)?;
    if value.hash().0 != header.state_hash && !bug!(SnapshotStateTrusted) {
        return Err(unusable(&path, "its state is not the one that its header says"));
    }
    Ok((value, header))
}

/// What a snapshot holds, of which nobody looked yet whether it fits the log.
#[derive(Debug)]
pub(super) struct Unfitted<P> {
    name: SnapshotName,
    value: P,
    header: SnapshotHeader,
}

impl<P: Projection> Unfitted<P> {
    /// The newest one in a folder, if it can be used.
    pub(super) fn newest(folder: SnapshotFolder<'_>) -> Option<Self> {
        let names = folder.list().ok()?.names;
        let name = names.into_iter().rfind(is_read::<P>)?;
        let (value, header) = read::<P>(folder, folder.open(&name).ok()?, |_| {}).ok()?;
        Some(Self { name, value, header })
    }

    /// Whether it is the one of that name.
    pub(super) fn is_of(&self, name: &SnapshotName) -> bool {
        self.name == *name
    }

    /// The same as [`load`] gives.
    ///
    /// # Errors
    /// As [`load`].
    pub(super) fn fit(self, reader: &LogReader) -> Result<(P, SnapshotHeader)> {
        reader.expect_fitting(&self.header, &path_of(reader, &self.name))?;
        Ok((self.value, self.header))
    }
}

/// What a snapshot is based on, if it is.
fn base<P: Projection>(folder: SnapshotFolder<'_>, of: &SnapshotReader) -> Result<Option<P>> {
    let mut below = None;
    for base in bases(folder, of)?.into_iter().rev() {
        let name = base.header().name();
        let decoded = decode::<P>(base, below).map_err(|error| because(of, &name, error))?;
        below = Some(decoded.0);
    }
    Ok(below)
}

/// Why a snapshot cannot be used, where the fault is that of one below it.
fn because(of: &SnapshotReader, base: &SnapshotName, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Io => error,
        kind => {
            let what = format!("it is based on {base}, which cannot be used: {error}");
            Error::new(kind, what).at_path(of.path())
        }
    }
}

/// The snapshots below one, the nearest first.
fn bases(folder: SnapshotFolder<'_>, of: &SnapshotReader) -> Result<Vec<SnapshotReader>> {
    let mut files: Vec<SnapshotReader> = Vec::new();
    loop {
        let above = files.last().unwrap_or(of).header();
        let Some(name) = above.base_name() else { return Ok(files) };
        match folder.open_base(above).map_err(|error| because(of, &name, error))? {
            None => return Ok(files),
            Some(_) if files.len() == SNAPSHOT_BASES_MAX => {
                return Err(unusable(of.path(), "too many others lie below it"));
            }
            Some(base) => files.push(base),
        }
    }
}

/// What a file holds, after every check of the file itself.
fn decode<P: Projection>(mut file: SnapshotReader, base: Option<P>) -> Result<(P, SnapshotHeader)> {
    let path = file.path().to_owned();
    // Decoders ask for a few bytes at a time.
    let mut input = BufReader::with_capacity(PIECE, &mut file);
    let decoded = match base {
        None => P::decode(&mut input),
        Some(base) => P::decode_changes(base, &mut input),
    };
    let ahead = u64::try_from(input.buffer().len()).unwrap_or(u64::MAX);
    let value = match decoded {
        Ok(value) => value,
        Err(error) => return Err(why(file, &path, &error)),
    };
    let unread = file.unread().saturating_add(ahead);
    if unread > 0 {
        let what = format!("{unread} bytes follow the end of its state");
        return Err(unusable(&path, &what));
    }
    Ok((value, file.check()?))
}

/// The same as [`load`], with nothing left for later.
///
/// # Errors
/// As [`load`].
pub(super) fn load_whole<P: Projection>(
    reader: &LogReader,
    name: &SnapshotName,
) -> Result<(P, SnapshotHeader)> {
    let (value, header) = load::<P>(reader, name)?;
    match value.check() {
        Some(fault) => Err(unusable(&path_of(reader, name), fault)),
        None => Ok((value, header)),
    }
}

/// Damage that the reader found is what counts; else the bytes were never a state.
fn why(mut file: SnapshotReader, path: &Path, error: &std::io::Error) -> Error {
    let what = format!("its sums hold, but its body cannot be decoded: {error}");
    file.take_fault().or_else(|| file.check().err()).unwrap_or_else(|| unusable(path, &what))
}

pub(super) fn unusable(path: &Path, what: &str) -> Error {
    let message = format!("{what}; the snapshot is not used, and may be deleted");
    Error::new(ErrorKind::Corrupt, message).at_path(path)
}

pub(super) fn path_of(reader: &LogReader, name: &SnapshotName) -> PathBuf {
    reader.dir().join("snap").join(name.to_string())
}

/// Check a snapshot as far as this program can: its file, that it belongs to the log, and for
/// the ledger's own state what it holds. The runs of one that it is based on are that one's business.
pub(super) fn check(reader: &LogReader, name: &SnapshotName) -> Result<SnapshotHeader> {
    if is_read::<State>(name) {
        let mut of_base = BTreeMap::new();
        let (state, header) =
            load_on(reader, name, |base: &State| of_base = packed_runs(base).collect())?;
        for (id, packed) in packed_runs(&state) {
            if !of_base.get(&id).is_some_and(|base| Arc::ptr_eq(base, &packed)) {
                let _ = state.runs.get(&id);
            }
        }
        if let Some(fault) = state.runs.fault() {
            return Err(unusable(&path_of(reader, name), fault));
        }
        if state.seq == header.seq {
            return Ok(header);
        }
        let what = format!("its header says record {}, its state {}", header.seq, state.seq);
        return Err(unusable(&path_of(reader, name), &what));
    }
    let file = reader.open_snapshot(name)?;
    for base in bases(reader.snapshot_folder(), &file)? {
        let name = base.header().name();
        base.check().map_err(|error| because(&file, &name, error))?;
    }
    file.check()
}

/// The runs of a state that was just read.
fn packed_runs(state: &State) -> impl Iterator<Item = (RunId, Arc<PackedRun>)> {
    state.runs.forms().filter_map(|(id, form)| match form {
        Form::Packed(packed) => Some((id, Arc::clone(packed))),
        Form::Whole(_) => None,
    })
}

/// Nothing may follow from a state that was read from a snapshot which passed for one, and is none.
#[doc(hidden)]
pub fn expect_sound(state: &State) -> Result<()> {
    bug!(RunFaultIgnored => return Ok(()));
    let Some(fault) = state.runs.fault() else { return Ok(()) };
    let message = format!(
        "{fault}; nothing was written; remove the files in `snap/` of the ledger, and open it again"
    );
    Err(Error::new(ErrorKind::Corrupt, message))
}
