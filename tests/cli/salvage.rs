//! Salvage of damaged ledgers: every readable record is kept, and every unreadable one is
//! named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plan_ledger::internals::ledger::{SalvageReport, salvage};
use plan_ledger::internals::sim::{Fault, FaultEffect, SimDisk};
use plan_ledger::internals::storage::Storage as _;
use plan_ledger::log::{GapNote, KIND_GAP, LoggedRecord};
use plan_ledger::{Environment, Json, Ledger, LedgerView, RunPolicy};

use crate::blobs::{large, plan, run_ledger, work};
use crate::golden::deterministic;
use crate::lab::{LOOKS, log_digest, mix, reader, survey, whole};

fn on_disk(disk: &SimDisk) -> Environment {
    // Hundreds of copies are read: small values have blobs, too.
    Environment { storage: Arc::new(disk.clone()), blob_threshold: 10_000, ..deterministic() }
}

fn dir() -> PathBuf {
    crate::lab::dir()
}

fn rescued() -> PathBuf {
    PathBuf::from("/rescued")
}

/// A ledger of several segments: batches, large values, a fence, blobs.
fn story() -> (SimDisk, BTreeMap<u64, LoggedRecord>) {
    let disk = SimDisk::new();
    let environment = on_disk(&disk);
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let run = ledger.start_run("r", &plan(60), RunPolicy::default()).unwrap();
    for number in 0..20 {
        work(&ledger, run, Json::new(&serde_json::json!({ "n": number })));
    }
    for number in 0..4 {
        ledger.set_variable(run, "large", large(number, 2_000), None, "me").unwrap();
    }
    let mut ledger = ledger;
    for _ in 0..2 {
        disk.crash_at(disk.calls() + LOOKS + 3);
        let _ = ledger.set_variable(run, "v", Json::default(), None, "me");
        drop(ledger);
        disk.crash_at(u64::MAX);
        disk.kill_process();
        ledger = Ledger::open_with(&dir(), &environment).unwrap().0;
        work(&ledger, run, Json::default());
    }
    for number in 0..20 {
        work(&ledger, run, large(number % 3, 11_000));
    }
    ledger.close().unwrap();
    let records = whole(&reader(&disk));
    (disk, records.into_iter().map(|record| (record.seq, record)).collect())
}

/// The invariants of any salvage: the damaged ledger is unchanged; each record is the original
/// one or a gap; a gap replaces an unreadable record; the new ledger opens clean.
fn check(disk: &SimDisk, original: &BTreeMap<u64, LoggedRecord>, story: &str) -> SalvageReport {
    let before = log_digest(disk);
    let served = survey(disk);
    let done =
        salvage(&dir(), &rescued(), &on_disk(disk)).unwrap_or_else(|e| panic!("{story}: {e}"));
    assert!(log_digest(disk) == before, "{story}: the damaged ledger was changed");
    let Some(ack) = done.ack else {
        assert!(served.records.is_empty(), "{story}: records, and nothing salvaged");
        assert!(disk.files(Path::new("/rescued")).is_empty(), "{story}");
        return done;
    };
    let new = LedgerView::open(&rescued(), &on_disk(disk)).unwrap();
    let (mut gaps, mut kept) = (0, 0);
    let found = whole(new.log());
    for record in &found {
        let seq = record.seq;
        if record.kind == KIND_GAP {
            let note = GapNote::decode(&record.payload).unwrap();
            assert_eq!(note.seq, seq, "{story}");
            assert!(!served.records.contains_key(&seq), "{story}: {seq} could be read");
            assert_eq!(note.range.is_some(), note.first == seq, "{story}: {seq}");
            let before =
                original.get(&(seq - 1)).filter(|_| served.records.contains_key(&(seq - 1)));
            if let Some(range) = &note.range {
                assert!((seq..=ack.seq).contains(&range.last), "{story}: {seq}");
                if let (Some(before), true) = (before, seq > 1) {
                    assert_eq!(
                        range.chain_before,
                        Some(before.chain.to_string()),
                        "{story}: {seq}"
                    );
                }
                let after = served.records.get(&(range.last + 1));
                assert_eq!(
                    range.chain_after,
                    after.map(|after| after.chain.to_string()),
                    "{story}: {seq}"
                );
            } else {
                assert!(record.payload.len() < 60, "{story}: {} bytes", record.payload.len());
            }
            gaps += 1;
            continue;
        }
        kept += 1;
        let old = &original[&seq];
        let content =
            |of: &LoggedRecord| (of.time, of.kind, of.codec, of.schema, of.payload.clone());
        assert!(content(record) == content(old), "{story}: record {seq} is another one");
        // The batch is unchanged if all later records of it are there.
        let rest = seq..=seq + u64::from(old.batch_left);
        let is_whole = rest.into_iter().all(|seq| served.records.contains_key(&seq));
        assert_eq!(record.batch_left, if is_whole { old.batch_left } else { 0 }, "{story}: {seq}");
    }
    assert_eq!((kept, gaps), (done.records, done.lost), "{story}");
    assert!(served.records.keys().all(|seq| *seq <= ack.seq), "{story}: left out");
    let (ledger, report) = Ledger::open_with(&rescued(), &on_disk(disk)).unwrap();
    assert_eq!((report.verdict.as_str(), ledger.head()), ("clean", ack), "{story}");
    assert!(ledger.state_at(ack.seq).is_ok(), "{story}");
    done
}

/// Goal: an intact ledger is salvaged without a loss.
#[test]
fn intact_ledger_is_salvaged_without_loss() {
    let (disk, original) = story();
    let done = check(&disk, &original, "whole");
    assert_eq!((done.lost, done.unbatched, done.blobs, done.blobs_lost), (0, 0, 3, 0));
    assert!(done.ranges.is_empty(), "{:?}", done.ranges);
    assert_eq!(done.ack.unwrap().seq, *original.keys().last().unwrap());
}

/// Goal: whatever the damage, readable records are salvaged and unreadable ones are named.
/// Method: 300 ledgers with random damage: flips, zeroed sectors, overwritten runs, cut files,
/// in segments, headers, HEAD and blobs.
#[test]
fn three_hundred_damaged_ledgers_keep_every_readable_record() {
    let (pristine, original) = story();
    let files: Vec<_> =
        pristine.files(&dir()).into_iter().filter(|path| !path.ends_with("LOCK")).collect();
    let count = u64::try_from(files.len()).unwrap();
    let place = |at: u64| usize::try_from(at).unwrap();
    let (mut lost, mut alone, mut nothing) = (0, 0, 0);
    for seed in 0..300 {
        let disk = pristine.fork();
        let mut story = format!("seed {seed}:");
        let mut random = (seed << 32..).map(mix);
        let mut below = |limit: u64| random.next().unwrap() % limit.max(1);
        for _ in 0..=below(4) {
            let path = &files[place(below(count))];
            let bytes = disk.read(path).unwrap();
            let zeros = |chunk: &&[u8]| **chunk == [0; 4096][..chunk.len()];
            let free = bytes.rchunks(4096).take_while(zeros).map(<[u8]>::len).sum::<usize>();
            let some = &bytes[..bytes.len() - free];
            let used = some.iter().rposition(|byte| *byte != 0).map_or(1, |at| at + 1);
            let at = below(u64::try_from(used).unwrap());
            let how = below(5);
            story = format!("{story} {how} at {at} of {}", path.display());
            match how {
                0 => disk.overwrite(path, at, &[bytes[place(at)] ^ (1 << below(8))]).unwrap(),
                1 => disk.overwrite(path, at / 512 * 512, &[0; 512]).unwrap(),
                2 => {
                    let run: Vec<u8> =
                        (0..below(5000)).map(|n| mix(seed ^ n).to_le_bytes()[0]).collect();
                    disk.overwrite(path, at, &run).unwrap();
                }
                3 => disk.set_length(path, at).unwrap(),
                _ => disk.overwrite(path, below(4096), &[0xA5; 9]).unwrap(),
            }
        }
        let done = check(&disk, &original, &story);
        lost += u64::from(done.lost > 0);
        alone += u64::from(done.unbatched > 0);
        nothing += u64::from(done.ack.is_none());
    }
    assert!(lost > 100 && alone > 5 && nothing < 100, "{lost} {alone} {nothing}");
}

/// Goal: a missing file costs its own records; a read error costs the rest of its segment.
#[test]
fn missing_segments_and_read_errors_cost_only_their_records() {
    let (pristine, original) = story();
    for path in pristine.files(&dir().join("log")) {
        let disk = pristine.fork();
        disk.remove(&path).unwrap();
        let done = check(&disk, &original, &format!("without {}", path.display()));
        assert!(done.lost > 0);
    }
    let clean = pristine.fork();
    salvage(&dir(), &rescued(), &on_disk(&clean)).unwrap();
    for call in (pristine.calls() + 1..=clean.calls()).step_by(7) {
        let disk = pristine.fork();
        let (kind, effect) = (std::io::ErrorKind::Other, FaultEffect::Nothing);
        disk.fail_at(Fault { call, kind, effect });
        match salvage(&dir(), &rescued(), &on_disk(&disk)) {
            // The last call makes the name durable: by then everything is.
            Err(_) if call == clean.calls() => {}
            Err(_) => assert!(disk.files(&rescued()).is_empty(), "{call}: something is left"),
            Ok(done) => {
                let ack = done.ack.unwrap();
                assert_eq!(done.records + done.lost, ack.seq, "{call}");
                let (ledger, _) = Ledger::open_with(&rescued(), &on_disk(&disk)).unwrap();
                assert_eq!(ledger.head(), ack, "{call}");
            }
        }
    }
}

/// Goal: the command salvages, reports file and offset, and does not change the damaged ledger;
/// fencing asks first.
#[test]
fn recover_command_salvages_and_asks_before_fencing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (dir, new) = (path("a.ledger"), path("rescued"));
    let ledger = Ledger::create(Path::new(&dir), &Environment::system()).unwrap();
    let run = ledger.start_run("r", &plan(5), RunPolicy::default()).unwrap();
    work(&ledger, run, large(1, 100_000));
    work(&ledger, run, large(2, 1000));
    ledger.close().unwrap();
    let view = LedgerView::open(Path::new(&dir), &Environment::system()).unwrap();
    let segment = view.log().segments().remove(0).path;
    let third = view.log().records(3).next().unwrap().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[usize::try_from(third.offset).unwrap() + 50] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    assert_eq!(run_ledger(&["inspect", &dir]).code, 4);

    let ended = run_ledger(&["recover", &dir, "--export", &new]);
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    let name = segment.file_name().unwrap().to_str().unwrap();
    let place = format!("record 3: log/{name}, bytes {} to", third.offset);
    assert!(ended.out.contains(&place), "{}", ended.out);
    assert!(ended.out.contains("1 lost") && ended.out.contains("1 blobs copied"), "{}", ended.out);
    assert_eq!(std::fs::read(&segment).unwrap(), bytes, "the damaged ledger was changed");
    assert_eq!(run_ledger(&["inspect", &new]).code, 0);
    assert!(run_ledger(&["inspect", &new, "records"]).out.contains("records 3 to 3 were lost"));
    let ended = run_ledger(&["recover", &dir, "--export", &path("two"), "--json"]);
    let json = super::command::json_lines(&["recover".to_owned()], &ended.out).remove(0);
    assert_eq!((&json["lost"], &json["ranges"][0]["first"]), (&1.into(), &3.into()));

    assert_eq!(run_ledger(&["recover", &dir]).code, 2);
    assert_eq!(run_ledger(&["recover", &dir, "--fence", "--export", &path("c")]).code, 2);
    let ended = run_ledger(&["recover", &dir, "--fence"]);
    assert!(ended.code == 2 && ended.err.contains("add --yes"), "{}", ended.err);
    assert_eq!(
        run_ledger(&["recover", &dir, "--fence", "--yes"]).code,
        4,
        "it is corrupt, not ambiguous"
    );

    std::fs::write(&segment, vec![0; bytes.len()]).unwrap();
    let ended = run_ledger(&["recover", &dir, "--export", &path("d")]);
    assert!(ended.code == 4 && ended.out.contains("nothing was salvaged"), "{}", ended.out);
    assert!(!Path::new(&path("d")).exists());
}

/// Regression: an archive's file was refused, although `verify` of a damaged archive names this command.
#[test]
fn archive_with_damage_is_salvaged() {
    let place = super::command::Place::new();
    let ledger = Ledger::create(&place.path("l"), &Environment::system()).unwrap();
    let run = ledger.start_run("r", &plan(4), RunPolicy::default()).unwrap();
    for number in 0..4 {
        ledger.set_variable(run, "large", large(number, 600_000), None, "me").unwrap();
    }
    ledger.cancel(run, "me", "it is over").unwrap();
    ledger.close().unwrap();
    place.ledger("archive l --to a.tar").code(0);
    let mut bytes = std::fs::read(place.path("a.tar")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    place.write("a.tar", &bytes);
    place.ledger("verify a.tar").code(4);
    place.ledger("recover a.tar --export new").code(0).says(&["1 lost"]);
    assert!(std::fs::read(place.path("a.tar")).unwrap() == bytes, "the archive was changed");
}
