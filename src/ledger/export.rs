//! A ledger as JSON Lines (`format/export.md`).
//!
//! Invariants: the same records give the same lines, except for the ledger's own identifier;
//! only durable records are exported, without a gap; one record is in memory at a time.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Chain;
use crate::log::{Behind, BlobId, LogReader, LoggedRecord};

use super::blobs::blob_of;
use super::codec;
use super::lines::{self, FORMAT, Line, PIECE, VERSION};
use super::replay::LedgerView;

/// What a record means, for people who read an export; `None` for nothing to say.
pub type Describe<'a> = &'a dyn Fn(&LoggedRecord) -> Option<Value>;

/// What was exported.
#[derive(Debug)]
pub struct Exported {
    /// Sequence number of the first record.
    pub first_seq: u64,
    /// Sequence number of the last record; one less than the first if there is none.
    pub last_seq: u64,
    /// Chain value of the last record.
    pub chain: Chain,
    /// Whole records behind the last one that are not in it: nobody was told of them.
    pub behind: Option<Behind>,
    /// How many blobs are in it.
    pub blobs: u64,
    /// Blobs that records name and that are missing or damaged, and why.
    pub missing: Vec<Error>,
}

impl LedgerView {
    /// Write records `from` to `to` (the last durable one if not given), and the blobs that they
    /// name, as lines. `describe` adds what they mean.
    ///
    /// # Errors
    /// `OutOfRange` beyond the last durable record, or where `to` would cut a batch; `Pruned` for
    /// records that are not in the log any more; `Corrupt` at
    /// the first damage, naming the place; `Ambiguous` where it cannot be told which records at the
    /// log's end are durable, and they are asked for; `Io`, of the ledger and of `out`.
    pub fn export(
        &self,
        from: u64,
        to: Option<u64>,
        describe: Describe<'_>,
        out: &mut dyn Write,
    ) -> Result<Exported> {
        let mut export = Export {
            out,
            done: Exported {
                first_seq: from,
                last_seq: from.saturating_sub(1),
                chain: Chain::GENESIS,
                behind: None,
                blobs: 0,
                missing: Vec::new(),
            },
            named: BTreeSet::new(),
            batch_left: 0,
        };
        export.records(self.log(), to, describe)?;
        export.blobs(self.log())?;
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

struct Export<'a> {
    out: &'a mut dyn Write,
    done: Exported,
    named: BTreeSet<BlobId>,
    /// Of the last record.
    batch_left: u16,
}

impl Export<'_> {
    fn records(&mut self, log: &LogReader, to: Option<u64>, describe: Describe<'_>) -> Result<()> {
        let from = self.done.first_seq;
        let mut records: Box<dyn Iterator<Item = _>> =
            Box::new(log.records(from.saturating_sub(1)));
        if from > 1 && from == log.first_seq() {
            // Nothing but the first segment's header knows the record before.
            records = Box::new(log.records(from));
            self.done.chain = log.chain_before().ok_or_else(|| beyond(from, 0))?;
        } else if from > 1 {
            // The record before says what the first one follows from.
            let before = records.next().transpose()?.filter(|record| record.seq == from - 1);
            self.done.chain = before.ok_or_else(|| beyond(from, 0))?.chain;
        }
        self.header(log)?;
        // Nothing behind the last one is looked at: it may be damaged.
        let count = to.map_or(u64::MAX, |to| to.saturating_add(1).saturating_sub(from));
        for record in records.by_ref().take(usize::try_from(count).unwrap_or(usize::MAX)) {
            self.record(&record?, describe)?;
        }
        if to.is_none_or(|to| to > self.done.last_seq) {
            self.done.behind = log.behind(self.done.last_seq)?;
        }
        match to {
            Some(to) if to > self.done.last_seq => Err(beyond(to, self.done.last_seq)),
            _ if self.batch_left > 0 => {
                let (last, end) = (self.done.last_seq, u64::from(self.batch_left));
                let message = format!(
                    "record {last} is inside of a batch, which counts as a whole or not at all; \
                     export to record {} instead",
                    last + end
                );
                Err(Error::new(ErrorKind::OutOfRange, message))
            }
            _ => Ok(()),
        }
    }

    fn header(&mut self, log: &LogReader) -> Result<()> {
        let segments = log.segments();
        let header = segments.iter().find_map(|segment| segment.header.as_ref().ok());
        let header = header.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "no segment has a header that can be read")
        })?;
        line(
            self.out,
            &Line::Header {
                format: FORMAT.to_owned(),
                version: VERSION,
                ledger: lines::hex(&header.ledger),
                genesis: lines::hex(&header.genesis),
                first_seq: self.done.first_seq,
                chain_before: self.done.chain.to_string(),
            },
        )
    }

    fn record(&mut self, record: &LoggedRecord, describe: Describe<'_>) -> Result<()> {
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
        // A record of a newer program is exported as it is: its bytes are what counts.
        if let Ok(Some(event)) = codec::decode(record) {
            self.named.extend(blob_of(&event));
        }
        self.batch_left = record.batch_left;
        self.done.last_seq = record.seq;
        self.done.chain = record.chain;
        Ok(())
    }

    fn blobs(&mut self, log: &LogReader) -> Result<()> {
        let reader = log.blobs();
        for id in std::mem::take(&mut self.named) {
            let (hash, length) = (id.hex(), id.length);
            match reader.get(&id) {
                Ok(bytes) => {
                    line(self.out, &Line::Blob { hash, length })?;
                    self.pieces(bytes.chunks(PIECE))?;
                    self.done.blobs += 1;
                }
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
    let mut text =
        serde_json::to_string(line).expect("strings, numbers and JSON values always have a text");
    text.push('\n');
    out.write_all(text.as_bytes()).map_err(cannot_write)
}

fn cannot_write(error: std::io::Error) -> Error {
    Error::io("write the export", Path::new("the output"), error)
}

fn beyond(asked: u64, last: u64) -> Error {
    let message = match last {
        0 => format!("there is no record {}, which record {asked} would follow", asked - 1),
        _ => format!("expected a record up to {last}, found {asked}"),
    };
    Error::new(ErrorKind::OutOfRange, message)
}
