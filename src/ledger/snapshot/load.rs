//! Loads a snapshot and its bases, and validates them.
//!
//! Invariants:
//! - A loaded value has the state hash of its header, the checksums of its file are valid, and it
//!   belongs to the log. The hash also covers the parts that come from the bases.
//! - The number of bases has a limit that no header can exceed.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{SNAPSHOT_BASES_MAX, SnapshotHeader, SnapshotName};
use crate::log::{LogReader, SnapshotFolder, SnapshotReader};
use crate::plan::{PackedRun, RunId, State, StoredRun};

use crate::ledger::projection::Projection;
use crate::ledger::snapshot::state_body::check_runs;
use crate::ledger::snapshot::state_hash::state_hash;

/// The size of the read buffer for decoding.
const PIECE: usize = 64 << 10;

/// Whether a snapshot is of this projection, in its version.
pub(crate) fn is_supported<P: Projection>(name: &SnapshotName) -> bool {
    name.projection == P::NAME && name.version == P::VERSION
}

/// The value of a snapshot that a note in the log names. All checks but two are done: another note
/// may contradict it, and runs with deferred decoding may be invalid.
///
/// # Errors
/// `Corrupt` with file and offset; `Unsupported`; `Io`.
pub(crate) fn load<P: Projection>(
    reader: &LogReader,
    name: &SnapshotName,
) -> Result<(P, SnapshotHeader)> {
    let (value, header) = load_and_inspect_base(reader, name, |_| {})?;
    check_noted(reader, &header)?;
    Ok((value, header))
}

/// Check that a note in the log names the snapshot. Without one, nothing that the chain covers says
/// that its state is the one of the log.
fn check_noted(reader: &LogReader, header: &SnapshotHeader) -> Result<()> {
    if reader.is_snapshot_noted(header)? || mutant!(SnapshotNoteNotRequired) {
        return Ok(());
    }
    Err(unusable(&path_of(reader, &header.name()), UNNOTED))
}

/// Whether a snapshot may be tried. A crash may leave one without a note, which costs nothing.
pub(crate) fn is_noted(reader: &LogReader, name: &SnapshotName) -> bool {
    reader.is_snapshot_name_noted(name).unwrap_or(false) || mutant!(SnapshotNoteNotRequired)
}

/// Why a snapshot without a note is not used.
pub(crate) const UNNOTED: &str = "no note in the log names its state";

/// As [`load`]; `inspect_base` gets the value of the base, if there is one.
fn load_and_inspect_base<P: Projection>(
    reader: &LogReader,
    name: &SnapshotName,
    inspect_base: impl FnOnce(&P),
) -> Result<(P, SnapshotHeader)> {
    let file = reader.open_snapshot(name)?;
    read(reader.snapshot_folder(), file, inspect_base)
}

/// The value of a file and its bases, after every check of the files.
fn read<P: Projection>(
    folder: SnapshotFolder<'_>,
    file: SnapshotReader,
    inspect_base: impl FnOnce(&P),
) -> Result<(P, SnapshotHeader)> {
    let path = file.path().to_owned();
    let base = read_base::<P>(folder, &file)?;
    if let Some(base) = &base {
        inspect_base(base);
    }
    let (value, header) = decode::<P>(file, base)?;
    if value.hash().0 != header.state_hash && !mutant!(SnapshotStateHashUnchecked) {
        return Err(unusable(&path, "its state does not have the hash in its header"));
    }
    Ok((value, header))
}

/// A loaded snapshot that has not been checked against the log.
#[derive(Debug)]
pub(crate) struct UncheckedSnapshot<P> {
    name: SnapshotName,
    value: P,
    header: SnapshotHeader,
}

impl<P: Projection> UncheckedSnapshot<P> {
    /// The newest snapshot in a folder, if it is valid.
    pub(crate) fn newest(folder: SnapshotFolder<'_>) -> Option<Self> {
        let names = folder.list().ok()?.names;
        let name = names.into_iter().rfind(is_supported::<P>)?;
        let (value, header) = read::<P>(folder, folder.open(&name).ok()?, |_| {}).ok()?;
        Some(Self { name, value, header })
    }

    pub(crate) fn value(&self) -> &P {
        &self.value
    }

    pub(crate) fn has_name(&self, name: &SnapshotName) -> bool {
        self.name == *name
    }

    /// Check that it belongs to the log. The result is that of [`load`].
    ///
    /// # Errors
    /// As [`load`].
    pub(crate) fn check_against(self, reader: &LogReader) -> Result<(P, SnapshotHeader)> {
        reader.check_matching(&self.header, &path_of(reader, &self.name))?;
        check_noted(reader, &self.header)?;
        Ok((self.value, self.header))
    }
}

/// The value of a snapshot's base, if it has one.
fn read_base<P: Projection>(folder: SnapshotFolder<'_>, of: &SnapshotReader) -> Result<Option<P>> {
    let mut value = None;
    for base in bases(folder, of)?.into_iter().rev() {
        let name = base.header().name();
        let decoded = decode::<P>(base, value).map_err(|error| bad_base(of, &name, error))?;
        value = Some(decoded.0);
    }
    Ok(value)
}

/// The error of a snapshot with a bad base.
fn bad_base(of: &SnapshotReader, base: &SnapshotName, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Io => error,
        kind => {
            let what = format!("its base {base} cannot be used: {error}");
            Error::new(kind, what).at_path(of.path())
        }
    }
}

/// The bases of a snapshot, the nearest first.
fn bases(folder: SnapshotFolder<'_>, of: &SnapshotReader) -> Result<Vec<SnapshotReader>> {
    let mut files: Vec<SnapshotReader> = Vec::new();
    loop {
        let above = files.last().unwrap_or(of).header();
        let Some(name) = above.base_name() else { return Ok(files) };
        match folder.open_base(above).map_err(|error| bad_base(of, &name, error))? {
            None => return Ok(files),
            Some(_) if files.len() == SNAPSHOT_BASES_MAX => {
                return Err(unusable(of.path(), "too many bases"));
            }
            Some(base) => files.push(base),
        }
    }
}

/// The value of a file on its base, after every check of the file itself.
fn decode<P: Projection>(mut file: SnapshotReader, base: Option<P>) -> Result<(P, SnapshotHeader)> {
    let path = file.path().to_owned();
    // Decoders read a few bytes at a time.
    let mut input = BufReader::with_capacity(PIECE, &mut file);
    let decoded = match base {
        None => P::decode(&mut input),
        Some(base) => P::decode_changes(base, &mut input),
    };
    let buffered = u64::try_from(input.buffer().len()).unwrap_or(u64::MAX);
    let value = match decoded {
        Ok(value) => value,
        Err(error) => return Err(decode_error(file, &path, &error)),
    };
    let unread = file.unread().saturating_add(buffered);
    if unread > 0 {
        let what = format!("{unread} bytes follow the end of its state");
        return Err(unusable(&path, &what));
    }
    Ok((value, file.check()?))
}

/// The state of a file without a base, with nothing deferred, after every check of the file. Whether
/// it belongs to a log is not checked.
///
/// # Errors
/// As [`load`].
pub(crate) fn anchor(file: SnapshotReader) -> Result<(State, SnapshotHeader)> {
    let path = file.path().to_owned();
    let (state, header) = decode::<State>(file, None)?;
    if state_hash(&state).0 != header.state_hash {
        return Err(unusable(&path, "its state does not have the hash in its header"));
    }
    if state.seq != header.seq {
        return Err(unusable(&path, "its state is of another record than its header"));
    }
    match state.validate() {
        Some(fault) => Err(unusable(&path, fault)),
        None => Ok((state, header)),
    }
}

/// As [`load`], with nothing deferred.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_validated<P: Projection>(
    reader: &LogReader,
    name: &SnapshotName,
) -> Result<(P, SnapshotHeader)> {
    let (value, header) = load::<P>(reader, name)?;
    match value.validate() {
        Some(fault) => Err(unusable(&path_of(reader, name), fault)),
        None => Ok((value, header)),
    }
}

/// Report the damage that the reader found, if any; otherwise the bytes never encoded a state.
fn decode_error(mut file: SnapshotReader, path: &Path, error: &std::io::Error) -> Error {
    let what = format!("checksums match but the body cannot be decoded: {error}");
    file.take_fault().or_else(|| file.check().err()).unwrap_or_else(|| unusable(path, &what))
}

pub(crate) fn unusable(path: &Path, what: &str) -> Error {
    let message = format!("{what}; the snapshot is not used, and may be deleted");
    Error::new(ErrorKind::Corrupt, message).at_path(path)
}

pub(crate) fn path_of(reader: &LogReader, name: &SnapshotName) -> PathBuf {
    reader.dir().join("snap").join(name.to_string())
}

/// Check a snapshot as far as this program can: its file, whether it belongs to the log, and, for
/// the ledger's own state, its content. The runs that it shares with its base are checked with the
/// base.
pub(crate) fn check(reader: &LogReader, name: &SnapshotName) -> Result<SnapshotHeader> {
    if is_supported::<State>(name) {
        let mut in_base = BTreeMap::new();
        let (state, header) = load_and_inspect_base(reader, name, |base: &State| {
            in_base = packed_runs(base).collect();
        })?;
        let is_in_base = |(id, packed): &(RunId, Arc<PackedRun>)| {
            in_base.get(id).is_some_and(|base| Arc::ptr_eq(base, packed))
        };
        let own = packed_runs(&state).filter(|run| !is_in_base(run));
        check_runs(&state, own.map(|(id, packed)| (id, packed.hash)));
        if let Some(fault) = state.runs.fault() {
            return Err(unusable(&path_of(reader, name), fault));
        }
        if state.seq == header.seq {
            return Ok(header);
        }
        let what =
            format!("its header is at record {}, its state at record {}", header.seq, state.seq);
        return Err(unusable(&path_of(reader, name), &what));
    }
    let file = reader.open_snapshot(name)?;
    for base in bases(reader.snapshot_folder(), &file)? {
        let name = base.header().name();
        base.check().map_err(|error| bad_base(&file, &name, error))?;
    }
    file.check()
}

/// The runs of a state that have not been decompressed.
fn packed_runs(state: &State) -> impl Iterator<Item = (RunId, Arc<PackedRun>)> {
    state.runs.stored().filter_map(|(id, form)| match form {
        StoredRun::Packed(packed) => Some((id, Arc::clone(packed))),
        StoredRun::Unpacked(_) => None,
    })
}

/// Return an error if decompressing found an invalid run: such a state must not be used.
#[doc(hidden)]
pub fn expect_valid(state: &State) -> Result<()> {
    mutant!(RunDecodeErrorIgnored => return Ok(()));
    let Some(fault) = state.runs.fault() else { return Ok(()) };
    let message = format!(
        "{fault}; nothing was written; remove the files in `snap/` of the ledger and open it again"
    );
    Err(Error::new(ErrorKind::Corrupt, message))
}
