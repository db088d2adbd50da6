//! Imports an export into a new ledger with the same chain at every record (`format/export.md`).
//!
//! Invariants:
//! - Every chain value is computed from the record and compared; the first difference ends the import.
//! - After a failed import no file remains.
//! - A line is validated before it is used: its length, then its content, then its consequences. One
//!   record or blob and one line are in memory at a time.

use std::io::{BufRead, Read as _};
use std::path::Path;

use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, NewRecord, PAYLOAD_LENGTH_MAX};
use crate::log::{Ack, BLOB_LENGTH_MAX, BlobStore, ChainOrigin, LogBuilder};

use crate::ledger::environment::Environment;

use super::lines::{self, FORMAT, LINE_LENGTH_MAX, VERSION};

type Line = lines::Line<IgnoredAny>;

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportReport {
    /// The last record.
    pub ack: Ack,
    /// The number of imported blobs.
    pub blobs: u64,
    /// The number of blobs that were missing or damaged in the exported ledger.
    pub blobs_missing: u64,
}

/// Create the ledger `dir`, which must not exist, from an export.
///
/// # Errors
/// `Corrupt` for an invalid line, and `Tampered` for a record with a wrong chain, both naming the
/// line; `OutOfRange` for an export that does not begin at record 1; `Unsupported` for one of a
/// newer program; `Io`, `DiskFull`, `Locked`. No file remains after an error.
pub fn import(
    dir: &Path,
    input: &mut dyn BufRead,
    environment: &Environment,
) -> Result<ImportReport> {
    let mut input = Input { lines: input, number: 0 };
    let genesis = input.header()?;
    let time = environment.clock.now();
    let mut builder =
        LogBuilder::create(dir, environment.log_options(), ChainOrigin::Existing(genesis), time)?;
    let (mut imported, mut store) = (ImportReport::default(), None);
    loop {
        let line = input.next()?;
        match line {
            Line::Record { .. } if store.is_none() => input.record(line, &mut builder)?,
            Line::Blob { hash, length } => {
                let store = store.get_or_insert_with(|| builder.blobs());
                input.blob(&hash, length, store)?;
                imported.blobs += 1;
            }
            Line::BlobMissing { .. } => imported.blobs_missing += 1,
            Line::End { .. } => {
                imported.ack = builder.last_record();
                input.end(&line, &imported)?;
                builder.finish()?;
                return Ok(imported);
            }
            Line::Header { .. } => return Err(input.wrong("a second header")),
            Line::Data { .. } => return Err(input.wrong("data without a record or blob")),
            Line::Record { .. } => return Err(input.wrong("a record after the blobs")),
        }
    }
}

impl Default for ImportReport {
    fn default() -> Self {
        Self { ack: Ack { seq: 0, chain: Chain::GENESIS }, blobs: 0, blobs_missing: 0 }
    }
}

/// The lines of an export.
struct Input<'a> {
    lines: &'a mut dyn BufRead,
    /// The number of the last line that was read, from 1.
    number: u64,
}

impl Input<'_> {
    fn next(&mut self) -> Result<Line> {
        let line = self.text()?.ok_or_else(|| {
            self.wrong("the export is incomplete: expected another line, found the end")
        })?;
        serde_json::from_slice(&line).map_err(|error| self.wrong(&format!("invalid line: {error}")))
    }

    /// The next line's bytes; `None` at the end.
    fn text(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        self.number += 1;
        let mut limited = (&mut *self.lines).take(LINE_LENGTH_MAX + 1);
        limited
            .read_until(b'\n', &mut line)
            .map_err(|error| Error::io("read the export", Path::new("the input"), error))?;
        if u64::try_from(line.len()).unwrap_or(u64::MAX) > LINE_LENGTH_MAX {
            let what = format!("expected a line of at most {LINE_LENGTH_MAX} bytes, found more");
            return Err(self.wrong(&what));
        }
        Ok((!line.is_empty()).then_some(line))
    }

    fn header(&mut self) -> Result<crate::format::Uid> {
        let Line::Header { format, version, genesis, first_seq, chain_before, .. } = self.next()?
        else {
            return Err(self.wrong("expected the header of an export"));
        };
        if format != FORMAT {
            return Err(self.wrong(&format!("expected format {FORMAT:?}, found {format:.80?}")));
        }
        if version != VERSION {
            let message = format!(
                "line {}: expected version {VERSION}, found {version}; use a newer `ledger`",
                self.number
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if first_seq != 1 {
            let message = format!(
                "expected an export from record 1, found one from record {first_seq}; export again \
                 without --from"
            );
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        if lines::chain(&chain_before) != Ok(Chain::GENESIS) {
            return Err(self.wrong("chain_before: expected zeros before record 1"));
        }
        lines::bytes(&genesis).map_err(|what| self.wrong(&format!("genesis: {what}")))
    }

    fn record(&mut self, line: Line, builder: &mut LogBuilder) -> Result<()> {
        let Line::Record {
            seq, time, kind, codec, schema, batch_left, length, payload, chain, ..
        } = line
        else {
            return Err(self.wrong("expected a record"));
        };
        let number = self.number;
        let of_line = |what: String| {
            Error::new(ErrorKind::Corrupt, format!("line {number}: {what}")).at_seq(seq)
        };
        let due = builder.last_record().seq.saturating_add(1);
        if seq != due {
            return Err(of_line(format!("expected record {due}, found record {seq}")));
        }
        let codec = lines::codec(&codec).map_err(of_line)?;
        let expected = lines::chain(&chain).map_err(|what| of_line(format!("chain: {what}")))?;
        if length > u64::from(PAYLOAD_LENGTH_MAX) {
            let what = format!(
                "length: expected at most {PAYLOAD_LENGTH_MAX} bytes of payload, found {length}"
            );
            return Err(of_line(what));
        }
        let payload = self.bytes(length, Some(payload))?;
        let record = NewRecord { kind, codec, schema, payload };
        let found = builder.push(&record, time, batch_left).map_err(|error| {
            let kind = error.kind();
            match kind {
                ErrorKind::Corrupt => {
                    Error::new(kind, format!("line {number}: {error}; nothing was imported"))
                }
                _ => error,
            }
        })?;
        if found.chain != expected {
            let message = format!(
                "line {number}: the export was changed: expected chain {} for this record, found \
                 {expected}; nothing was imported",
                found.chain
            );
            return Err(Error::new(ErrorKind::Tampered, message).at_seq(seq));
        }
        Ok(())
    }

    fn blob(&mut self, hash: &str, length: u64, store: &BlobStore) -> Result<()> {
        let hash: [u8; 32] =
            lines::bytes(hash).map_err(|what| self.wrong(&format!("hash: {what}")))?;
        if length > BLOB_LENGTH_MAX {
            let what =
                format!("expected a blob of at most {BLOB_LENGTH_MAX} bytes, found {length}");
            return Err(self.wrong(&what));
        }
        let bytes = self.bytes(length, None)?;
        let found = store.put(&bytes)?;
        if found.hash != hash {
            let (expected, found) = (Chain(hash).to_string(), found.hex());
            let what = format!("the blob was changed: expected blake3 {expected}, found {found}");
            return Err(self.wrong(&what));
        }
        Ok(())
    }

    /// Read `length` bytes, from `first` and the data lines after it.
    fn bytes(&mut self, length: u64, first: Option<String>) -> Result<Vec<u8>> {
        let count = usize::try_from(length).unwrap_or(usize::MAX);
        // Grow with the pieces that arrive, so that a length alone allocates at most one piece.
        let mut bytes = Vec::with_capacity(count.min(lines::PIECE));
        let mut text = first;
        loop {
            if let Some(text) = &text {
                let piece = lines::decode(text).map_err(|what| self.wrong(&what))?;
                if piece.is_empty() && count > 0 {
                    return Err(self.wrong("a data line without bytes"));
                }
                if piece.len() > count - bytes.len() {
                    let what = format!("expected {length} bytes, found more");
                    return Err(self.wrong(&what));
                }
                bytes.extend_from_slice(&piece);
            }
            if bytes.len() == count {
                return Ok(bytes);
            }
            let Line::Data { data } = self.next()? else {
                let what = format!("expected {length} bytes, found {}", bytes.len());
                return Err(self.wrong(&what));
            };
            text = Some(data);
        }
    }

    fn end(&mut self, line: &Line, imported: &ImportReport) -> Result<()> {
        let Line::End { records, last_seq, chain, blobs, blobs_missing } = line else {
            return Err(self.wrong("expected the last line"));
        };
        let Ack { seq, chain: found } = imported.ack;
        let says = (*records, *last_seq, lines::chain(chain), *blobs, *blobs_missing);
        if says != (seq, seq, Ok(found), imported.blobs, imported.blobs_missing) {
            let what = format!(
                "the last line is wrong: expected {seq} records, chain {found}, {} blobs and \
                 {} missing ones, found {records} up to {last_seq}, chain {chain:.80}, {blobs} \
                 and {blobs_missing}",
                imported.blobs, imported.blobs_missing
            );
            return Err(self.wrong(&what));
        }
        match self.text()? {
            None => Ok(()),
            Some(_) => Err(self.wrong("unexpected data after the last line")),
        }
    }

    fn wrong(&self, what: &str) -> Error {
        let message = format!("line {}: {what}; nothing was imported", self.number);
        Error::new(ErrorKind::Corrupt, message)
    }
}
