//! A valid ledger with any bytes patched: opening and walking never panic, every record that is
//! served is one that was written, and nothing that was acknowledged goes missing without a word.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;
use std::sync::Arc;

use plan_ledger::format::{Codec, NewRecord};
use plan_ledger::log::{Item, Log, LogOptions, LogReader, Proof, UidSource};
use plan_ledger::sim::SimDisk;
use plan_ledger::storage::{Access, Storage};

const RECORDS: u64 = 12;

fn options(disk: &SimDisk) -> LogOptions {
    LogOptions::new(Arc::new(disk.clone()), UidSource::new(|| [7; 16]))
}

fn payload(seq: u64) -> Vec<u8> {
    vec![u8::try_from(seq).expect("few records"); 40 + usize::try_from(seq).expect("few records")]
}

fn make(dir: &Path) -> SimDisk {
    let disk = SimDisk::new();
    let log = Log::create(dir, options(&disk), 1).expect("a new log");
    for seq in 1..=RECORDS {
        let record =
            NewRecord { kind: 0x8002, codec: Codec::Raw, schema: 1, payload: payload(seq) };
        log.append(&[record], seq).expect("an append");
    }
    log.close().expect("a clean close");
    disk
}

/// Patches: a file (0 segment, 1 HEAD), an offset of two bytes, a value that is XORed in.
fn damage(disk: &SimDisk, dir: &Path, data: &[u8]) {
    let segment = dir.join("log/00000000000000000001-00000000.seg");
    for patch in data.chunks_exact(4).take(64) {
        let path = if patch[0] & 1 == 0 { segment.clone() } else { dir.join("HEAD") };
        let offset = u64::from(u16::from_le_bytes([patch[1], patch[2]]));
        let Ok(file) = disk.open(&path, Access::ReadWrite) else { continue };
        let mut byte = [0];
        if file.read_at(&mut byte, offset).is_ok_and(|count| count == 1) {
            let _ = file.write_at(&[byte[0] ^ patch[3]], offset);
        }
    }
}

fn check(data: &[u8]) {
    let dir = Path::new("fuzz.ledger");
    let disk = make(dir);
    damage(&disk, dir, data);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let mut served = Vec::new();
    let mut is_damaged = false;
    let mut is_unproven = false;
    for item in LogReader::open(&storage, dir).expect("a folder that is a ledger's").walk(1) {
        match item.expect("no I/O error") {
            Item::Record(record, proof) => {
                assert_eq!(record.payload, payload(record.seq), "a record nobody wrote");
                is_unproven |= proof == Proof::Unproven;
                served.push(record.seq);
            }
            Item::Damage(_) => is_damaged = true,
            Item::OpenEnd { .. } => is_unproven = true,
        }
    }
    let is_whole = served == (1..=RECORDS).collect::<Vec<_>>();
    match Log::open(dir, options(&disk), 99) {
        // Whoever may write has everything.
        Ok((log, _)) => {
            assert!(is_whole, "the writer goes on without {served:?}");
            assert!(log.ack().seq >= RECORDS);
        }
        Err(_) => assert!(is_damaged || is_unproven || is_whole || served.is_empty()),
    }
}

plan_ledger_fuzz::target!(check);
