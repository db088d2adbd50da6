//! Exports a ledger as JSON Lines (`format/export.md`).
//!
//! Invariants: the same records give the same lines, except for the ledger's uid; only durable records
//! are exported, without a gap; one record is in memory at a time; a pruned ledger is exported with the
//! snapshots from which it starts.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Chain;
use crate::ledger::blobs::{blob_of, erased};
use crate::ledger::codec::event::decode;
use crate::ledger::view::LedgerView;
use crate::log::{
    BlobId, BlobState, LogReader, LoggedRecord, RetentionNote, UnacknowledgedTail, uid_text,
};

use super::anchors;
use super::lines::{self, FORMAT, Line, PIECE, VERSION};

/// Describes a record for people who read an export; `None` for no description.
pub type DescribeRecord<'a> = &'a dyn Fn(&LoggedRecord) -> Option<Value>;

/// The result of an export.
#[derive(Debug)]
pub struct ExportReport {
    /// Sequence number of the first record.
    pub first_seq: u64,
    /// Sequence number of the last record; `first_seq - 1` without records.
    pub last_seq: u64,
    /// Chain value of the last record.
    pub chain: Chain,
    /// Complete records after the last one that are not exported because they were not
    /// acknowledged.
    pub unexported: Option<UnacknowledgedTail>,
    /// The number of exported blobs.
    pub blobs: u64,
    /// The errors of missing or damaged blobs.
    pub missing: Vec<Error>,
}

#[doc(hidden)]
impl LedgerView {
    /// Write records `from` (by default all that the state needs) to `to` (by default the last
    /// durable one), and their blobs, as JSON Lines. Without `from`, the export of a pruned ledger
    /// has the snapshots from which it starts. `describe` adds a description of each record.
    ///
    /// # Errors
    /// `OutOfRange` past the last durable record, or if `to` is in the middle of a batch; `Pruned`
    /// for pruned records; `Corrupt` at the first damage, with its location; `Ambiguous` if the
    /// durable end of the log is unknown and needed; `Io` for the ledger or for `out`.
    pub fn export(
        &self,
        from: Option<u64>,
        to: Option<u64>,
        describe: DescribeRecord<'_>,
        out: &mut dyn Write,
    ) -> Result<ExportReport> {
        // A part that ends before the retention note does not say that the ledger was pruned.
        let is_noted = |seq: u64| to.is_none_or(|to| to >= seq);
        let pruned = self.reader.retention().filter(|_| self.reader.first_seq() > 1);
        let start = pruned.filter(|pruned| from.is_none() && is_noted(pruned.seq));
        let start = start.map(|pruned| &pruned.note);
        if let Some(note) = start {
            anchors::check(&self.reader, note)?;
        }
        let from = from.unwrap_or_else(|| self.first_exported());
        let mut export = Export {
            out,
            done: ExportReport {
                first_seq: from,
                last_seq: from.saturating_sub(1),
                chain: Chain::GENESIS,
                unexported: None,
                blobs: 0,
                missing: Vec::new(),
            },
            named: BTreeSet::new(),
            batch_left: 0,
            start,
        };
        export.records(&self.reader, to, describe)?;
        export.blobs(&self.reader)?;
        let done = export.done;
        let missing = u64::try_from(done.missing.len()).unwrap_or(u64::MAX);
        line(
            out,
            &Line::End {
                records: (done.last_seq + 1).saturating_sub(done.first_seq),
                last_seq: done.last_seq,
                chain: done.chain.to_string(),
                blobs: done.blobs,
                blobs_missing: missing,
            },
        )?;
        out.flush().map_err(cannot_write)?;
        Ok(done)
    }
}

#[doc(hidden)]
impl LedgerView {
    /// The first record of an export without an earlier one. An interrupted prune may have left
    /// records before it.
    #[must_use]
    pub fn first_exported(&self) -> u64 {
        let first = self.reader.first_seq();
        match self.reader.retention() {
            Some(pruned) if first > 1 => pruned.note.last_seq.saturating_add(1),
            _ => first,
        }
    }
}

struct Export<'a> {
    out: &'a mut dyn Write,
    done: ExportReport,
    named: BTreeSet<BlobId>,
    /// The number of records that the current batch still lacks, according to the last record.
    batch_left: u16,
    /// The prune that left the snapshots at the start of the export.
    start: Option<&'a RetentionNote>,
}

impl Export<'_> {
    fn records(
        &mut self,
        log: &LogReader,
        to: Option<u64>,
        describe: DescribeRecord<'_>,
    ) -> Result<()> {
        let from = self.done.first_seq;
        let mut records: Box<dyn Iterator<Item = _>> =
            Box::new(log.records(from.saturating_sub(1)));
        if from > 1 && from == log.first_seq() {
            // The chain of the previous record is in the header of the first segment.
            records = Box::new(log.records(from));
            self.done.chain = log.chain_before().ok_or_else(|| out_of_range(from, 0))?;
        } else if from > 1 {
            // The first record continues the chain of the previous one.
            let before = records.next().transpose()?.filter(|record| record.seq == from - 1);
            self.done.chain = before.ok_or_else(|| out_of_range(from, 0))?.chain;
        }
        self.header(log)?;
        for anchor in self.start.map(|note| note.anchors.as_slice()).unwrap_or_default() {
            anchors::export(log, anchor, &mut |it| line(self.out, it))?;
        }
        // Read nothing after the last record, since later bytes may be damaged.
        let count = to.map_or(u64::MAX, |to| to.saturating_add(1).saturating_sub(from));
        for record in records.by_ref().take(usize::try_from(count).unwrap_or(usize::MAX)) {
            self.record(&record?, describe)?;
        }
        if to.is_none_or(|to| to > self.done.last_seq) {
            self.done.unexported = log.unacknowledged_tail(self.done.last_seq)?;
        }
        match to {
            Some(to) if to > self.done.last_seq => Err(out_of_range(to, self.done.last_seq)),
            _ if self.batch_left > 0 => {
                let (last, end) = (self.done.last_seq, u64::from(self.batch_left));
                let message = format!(
                    "record {last} is in the middle of a batch; export up to record {} instead",
                    last + end
                );
                Err(Error::new(ErrorKind::OutOfRange, message))
            }
            _ => Ok(()),
        }
    }

    fn header(&mut self, log: &LogReader) -> Result<()> {
        let (ledger, genesis) = log.uids().ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "no segment header can be read or rebuilt")
                .at_path(log.dir())
        })?;
        line(
            self.out,
            &Line::Header {
                format: FORMAT.to_owned(),
                version: VERSION,
                ledger: uid_text(&ledger),
                genesis: uid_text(&genesis),
                first_seq: self.done.first_seq,
                chain_before: self.done.chain.to_string(),
                first_ordinal: self.start.map(|note| note.last_ordinal.saturating_add(1)),
            },
        )
    }

    fn record(&mut self, record: &LoggedRecord, describe: DescribeRecord<'_>) -> Result<()> {
        let mut pieces = record.payload.chunks(PIECE);
        line(
            self.out,
            &Line::Record {
                seq: record.seq,
                time: record.time,
                kind: record.kind,
                codec: lines::codec_word(record.codec).to_owned(),
                schema: record.schema,
                batch_left: record.batch_left,
                length: u64::try_from(record.payload.len()).unwrap_or(u64::MAX),
                payload: lines::encode(pieces.next().unwrap_or_default()),
                chain: record.chain.to_string(),
                event: lines::event(describe(record)),
            },
        )?;
        self.pieces(pieces)?;
        // A record of a newer program is exported as it is.
        if let Ok(Some(event)) = decode(record) {
            self.named.extend(blob_of(&event));
        }
        self.batch_left = record.batch_left;
        self.done.last_seq = record.seq;
        self.done.chain = record.chain;
        Ok(())
    }

    fn blobs(&mut self, log: &LogReader) -> Result<()> {
        let (reader, erased) = (log.blobs(), erased(log));
        for id in std::mem::take(&mut self.named) {
            let (hash, length) = (id.hex(), id.length);
            match reader.get(&id) {
                Ok(bytes) => {
                    line(self.out, &Line::Blob { hash, length })?;
                    self.pieces(bytes.chunks(PIECE))?;
                    self.done.blobs += 1;
                }
                Err(_) if erased.contains(&id.hash) && reader.check(&id) == BlobState::Missing => {}
                Err(error) => {
                    line(self.out, &Line::BlobMissing { hash, length })?;
                    self.done.missing.push(error);
                }
            }
        }
        Ok(())
    }

    fn pieces<'b>(&mut self, pieces: impl Iterator<Item = &'b [u8]>) -> Result<()> {
        for piece in pieces {
            line(self.out, &Line::Data { data: lines::encode(piece) })?;
        }
        Ok(())
    }
}

fn line(out: &mut dyn Write, line: &Line<Value>) -> Result<()> {
    let text =
        serde_json::to_string(line).expect("strings, numbers and JSON values always have a text");
    let mut text = lines::escaped(text);
    text.push('\n');
    out.write_all(text.as_bytes()).map_err(cannot_write)
}

fn cannot_write(error: std::io::Error) -> Error {
    Error::io("write the export", Path::new("the output"), error)
}

fn out_of_range(asked: u64, last: u64) -> Error {
    let message = match last {
        0 => format!("record {asked} cannot be exported: the log has no record {}", asked - 1),
        _ => format!("expected a record up to {last}, found {asked}"),
    };
    Error::new(ErrorKind::OutOfRange, message)
}
