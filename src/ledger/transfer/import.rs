//! Imports an export into a new ledger with the same chain at every record (`format/export.md`).
//!
//! Invariants:
//! - Every chain value is computed from the record and compared; the first difference ends the import.
//! - After a failed import no file remains.
//! - The export of a pruned ledger is imported with the snapshots from which it starts; each of
//!   them is checked (`anchors`).
//! - A line is validated before it is used: its length, then its content, then its consequences. One
//!   record or blob and one line are in memory at a time.

use std::io::{BufRead, Read as _};
use std::path::Path;

use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Chain, NewRecord, PAYLOAD_LENGTH_MAX, SnapshotHeader, Uid};
use crate::ledger::projection::Projection as _;
use crate::ledger::snapshot::load;
use crate::log::{Ack, BLOB_LENGTH_MAX, BlobStore, ChainOrigin, LogBuilder, LoggedRecord};
use crate::plan::State;

use crate::ledger::environment::Environment;

use super::anchors::{self, AnchorCheck, PrunedStart};
use super::lines::{self, FORMAT, LINE_LENGTH_MAX, VERSION};

type Line = lines::Line<IgnoredAny>;

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportReport {
    /// The last record.
    pub ack: Ack,
    /// The number of imported records; those before a prune are not among them.
    pub records: u64,
    /// The number of imported blobs.
    pub blobs: u64,
    /// The number of blobs that were missing or damaged in the exported ledger.
    pub blobs_missing: u64,
}

/// Create the ledger `dir`, which must not exist, from an export.
///
/// # Errors
/// `Corrupt` for an invalid line, and `Tampered` for a record with a wrong chain, both naming the
/// line; `OutOfRange` for a part of a ledger; `Unsupported` for an export of a newer program; `Io`, `DiskFull`, `Locked`. No file remains after an error.
pub fn import(
    dir: &Path,
    input: &mut dyn BufRead,
    environment: &Environment,
) -> Result<ImportReport> {
    let mut input = Input { lines: input, number: 0 };
    let (genesis, start) = input.header()?;
    let time = environment.clock.now();
    let origin = match start {
        None => ChainOrigin::Existing(genesis),
        Some(PrunedStart { ordinal, last }) => ChainOrigin::Pruned { genesis, ordinal, last },
    };
    let mut builder = LogBuilder::create(dir, environment.log_options(), origin, time)?;
    let mut anchors = start.map(|start| input.anchors(start, &mut builder)).transpose()?;
    let (mut imported, mut store) = (ImportReport::default(), None);
    loop {
        let line = input.next()?;
        match line {
            Line::Record { .. } if store.is_none() => {
                let record = input.record(line, &mut builder)?;
                if let Some(anchors) = &mut anchors {
                    anchors.take(&record).map_err(|error| input.in_line(error))?;
                }
            }
            Line::Blob { hash, length } => {
                let store = store.get_or_insert_with(|| builder.blobs());
                input.blob(&hash, length, store)?;
                imported.blobs += 1;
            }
            Line::BlobMissing { .. } => imported.blobs_missing += 1,
            Line::End { .. } => {
                imported.ack = builder.last_record();
                let before = start.map_or(0, |start| start.last.seq);
                imported.records = imported.ack.seq.saturating_sub(before);
                input.end(&line, &imported)?;
                if let Some(anchors) = &anchors {
                    anchors.end().map_err(|what| input.wrong(&what))?;
                }
                builder.finish()?;
                return Ok(imported);
            }
            Line::Header { .. } => return Err(input.wrong("a second header")),
            Line::Anchor { .. } => return Err(input.wrong("an unexpected snapshot")),
            Line::Data { .. } => return Err(input.wrong("data without a record or blob")),
            Line::Record { .. } => return Err(input.wrong("a record after the blobs")),
        }
    }
}

impl Default for ImportReport {
    fn default() -> Self {
        let ack = Ack { seq: 0, chain: Chain::GENESIS };
        Self { ack, records: 0, blobs: 0, blobs_missing: 0 }
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

    /// The genesis, and where a pruned ledger starts.
    fn header(&mut self) -> Result<(Uid, Option<PrunedStart>)> {
        let Line::Header {
            format, version, genesis, first_seq, chain_before, first_ordinal, ..
        } = self.next()?
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
        let chain = lines::chain(&chain_before)
            .map_err(|what| self.wrong(&format!("chain_before: {what}")))?;
        let genesis =
            lines::bytes(&genesis).map_err(|what| self.wrong(&format!("genesis: {what}")))?;
        match first_ordinal {
            Some(ordinal) if ordinal > 0 && first_seq > 1 => {
                let last = Ack { seq: first_seq - 1, chain };
                Ok((genesis, Some(PrunedStart { ordinal, last })))
            }
            Some(_) => {
                Err(self.wrong("first_ordinal: expected a pruned ledger, found a whole one"))
            }
            None if first_seq != 1 => {
                let message = format!(
                    "expected an export from record 1, found one from record {first_seq}, without \
                     the state before it; export the ledger again without --from and --to"
                );
                Err(Error::new(ErrorKind::OutOfRange, message))
            }
            None if chain != Chain::GENESIS => {
                Err(self.wrong("chain_before: expected zeros before record 1"))
            }
            None => Ok((genesis, None)),
        }
    }

    /// The two snapshots from which a pruned ledger starts.
    fn anchors(&mut self, start: PrunedStart, builder: &mut LogBuilder) -> Result<AnchorCheck> {
        let older = self.anchor(builder)?;
        let (newer, _) = self.anchor(builder)?;
        AnchorCheck::new(start, older, newer).map_err(|what| self.wrong(&what))
    }

    /// Write the next snapshot into the new ledger, and decode it.
    fn anchor(&mut self, builder: &mut LogBuilder) -> Result<(SnapshotHeader, State)> {
        let Line::Anchor { seq, time, chain, state_hash, version, length } = self.next()? else {
            return Err(self.wrong("expected a snapshot from which the pruned ledger starts"));
        };
        if version != State::VERSION {
            let message = format!(
                "line {}: expected a state of version {}, found version {version}; use a newer \
                 `ledger`",
                self.number,
                State::VERSION
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if seq == 0 {
            return Err(self.wrong("seq: expected at least 1, found 0"));
        }
        let hash = |what: &str, text: &str| {
            lines::chain(text).map_err(|error| self.wrong(&format!("{what}: {error}")))
        };
        let hashes = (hash("chain", &chain)?, hash("state_hash", &state_hash)?.0);
        let mut failed = None;
        let written = builder.add_snapshot(anchors::header((seq, time), hashes), |out| {
            self.pieces(length, None, &mut |piece| {
                out.write_all(piece).map_err(|error| {
                    Error::io("write the snapshot", Path::new("the new ledger"), error)
                })
            })
            .map_err(|error| {
                failed = Some(error);
                std::io::Error::other("the export is invalid")
            })
        });
        let file = written.map_err(|error| failed.take().unwrap_or(error))?;
        let (state, header) = load::anchor(file).map_err(|error| self.in_line(error))?;
        Ok((header, state))
    }

    /// Add a record to the new log. Returns it with its chain value.
    fn record(&mut self, line: Line, builder: &mut LogBuilder) -> Result<LoggedRecord> {
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
        let NewRecord { kind, codec, schema, payload } = record;
        let (segment, offset, size) = (0, 0, 0);
        Ok(LoggedRecord {
            seq,
            time,
            kind,
            codec,
            schema,
            batch_left,
            payload,
            chain: found.chain,
            segment,
            offset,
            size,
        })
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
        self.pieces(length, first, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// As [`Input::bytes`], piece by piece.
    fn pieces(
        &mut self,
        length: u64,
        first: Option<String>,
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut left = length;
        let mut text = first;
        loop {
            if let Some(text) = &text {
                let piece = lines::decode(text).map_err(|what| self.wrong(&what))?;
                if piece.is_empty() && length > 0 {
                    return Err(self.wrong("a data line without bytes"));
                }
                let size = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                left = left
                    .checked_sub(size)
                    .ok_or_else(|| self.wrong(&format!("expected {length} bytes, found more")))?;
                take(&piece)?;
            }
            if left == 0 {
                return Ok(());
            }
            let Line::Data { data } = self.next()? else {
                let what = format!("expected {length} bytes, found {}", length - left);
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
        let count = imported.records;
        let says = (*records, *last_seq, lines::chain(chain), *blobs, *blobs_missing);
        if says != (count, seq, Ok(found), imported.blobs, imported.blobs_missing) {
            let what = format!(
                "the last line is wrong: expected {count} records, chain {found}, {} blobs and \
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

    /// An error that the content of a line caused.
    fn in_line(&self, error: Error) -> Error {
        match error.kind() {
            kind @ (ErrorKind::Corrupt | ErrorKind::Unsupported) => {
                Error::new(kind, format!("line {}: {error}; nothing was imported", self.number))
            }
            _ => error,
        }
    }

    fn wrong(&self, what: &str) -> Error {
        let message = format!("line {}: {what}; nothing was imported", self.number);
        Error::new(ErrorKind::Corrupt, message)
    }
}
