//! Lines as an export, or any records as a log that is exported and imported again: no panic, a rejected
//! import leaves no files, and an accepted one exports the same records.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plan_ledger::internals::format::{Codec, NewRecord, Uid};
use plan_ledger::internals::ledger::{IdSource, import};
use plan_ledger::log::{ChainOrigin, LogBuilder, LogOptions, UidSource};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::Storage;
use plan_ledger::{BackgroundWork, Environment, LedgerView};
use plan_ledger_fuzz::Fields;

/// Counting identifiers.
#[derive(Debug)]
struct Ids(AtomicU64);

impl IdSource for Ids {
    fn next_id(&self) -> Uid {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)).to_le_bytes()
    }
}

fn environment(disk: &SimDisk, first: u64) -> Environment {
    Environment {
        storage: Arc::new(disk.clone()),
        ids: Arc::new(Ids(AtomicU64::new(first))),
        background_work: BackgroundWork::Inline,
        ..Environment::system()
    }
}

fn check(data: &[u8]) {
    match data.split_first() {
        Some((0xFF, rest)) => records(&mut Fields(rest)),
        _ => lines(data),
    }
}

/// The exported lines of a ledger without the header; `None` if it is unreadable.
fn export(disk: &SimDisk, dir: &Path) -> Option<(Vec<u8>, usize)> {
    let view = LedgerView::open(dir, &environment(disk, 1000)).ok()?;
    let mut out = Vec::new();
    view.export(None, None, &|_| None, &mut out).ok()?;
    let header = out.iter().position(|byte| *byte == b'\n')? + 1;
    Some((out, header))
}

fn lines(data: &[u8]) {
    let (disk, dir) = (SimDisk::new(), Path::new("new.ledger"));
    match import(dir, &mut &*data, &environment(&disk, 1)) {
        Err(_) => {
            assert!(disk.files(Path::new("")).is_empty(), "something is left");
            assert!(disk.list(Path::new("new.ledger.tmp")).is_err(), "the folder is left");
        }
        Ok(imported) => {
            assert_eq!(
                imported.blobs_missing, 0,
                "no record of an event names a blob that is missing"
            );
            let Some((out, header)) = export(&disk, dir) else { return };
            again(&disk, &out, header);
        }
    }
}

/// Import an export, and export the result.
fn again(disk: &SimDisk, out: &[u8], header: usize) {
    let copy = Path::new("copy.ledger");
    import(copy, &mut &*out, &environment(disk, 2000)).expect("an export that was just made");
    let (twice, other) = export(disk, copy).expect("it was exported before");
    assert_eq!(out[header..], twice[other..]);
}

fn records(fields: &mut Fields<'_>) {
    let (disk, dir) = (SimDisk::new(), Path::new("new.ledger"));
    let ids = Ids(AtomicU64::new(1));
    let options = LogOptions::new(Arc::new(disk.clone()), UidSource::new(move || ids.next_id()));
    let mut builder =
        LogBuilder::create(dir, options, ChainOrigin::New, 1).expect("there is nothing yet");
    while !fields.0.is_empty() {
        let record = NewRecord {
            // Mostly skippable kinds: others must be events.
            kind: u16::from(fields.u8()) | if fields.u8() == 0 { 0 } else { 0x8000 },
            codec: fields.pick(&[Codec::Bincode, Codec::Json, Codec::Raw, Codec::Detached]),
            schema: fields.u16(),
            payload: {
                let length = usize::from(fields.u8());
                fields.bytes(length)
            },
        };
        let time = builder.time().saturating_add(u64::from(fields.u8()));
        let batch_left = u16::from(fields.u8() / 64);
        let before = builder.last_record();
        match builder.push(&record, time, batch_left) {
            Ok(ack) => assert_eq!(ack.seq, before.seq + 1),
            Err(_) => assert_eq!(builder.last_record(), before, "a refused record leaves no trace"),
        }
    }
    let Ok(ack) = builder.finish() else {
        assert!(disk.files(Path::new("")).is_empty(), "something is left");
        return;
    };
    let Some((out, header)) = export(&disk, dir) else { return };
    let lines = out.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines, usize::try_from(ack.seq).expect("few records") + 2);
    again(&disk, &out, header);
}

plan_ledger_fuzz::target!(check);
