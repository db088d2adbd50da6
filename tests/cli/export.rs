//! Export and import: the same chain and the same state, or nothing.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plan_ledger::internals::format::{FOOTER_SIZE, Footer};
use plan_ledger::internals::ledger::{ImportReport, import};
use plan_ledger::internals::sim::{Fault, FaultEffect, Loss, SimDisk, sweep};
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::{BlobState, LogItem, LogReader};
use plan_ledger::{
    ContentHash, Environment, Error, ErrorKind, Json, Ledger, LedgerView, Output, Receipt,
    RunPolicy, state_hash,
};

use crate::blobs::{large, plan, run_ledger, work};
use crate::golden::deterministic;
use crate::lab::{LOOKS, mix};

fn on_disk(disk: &SimDisk) -> Environment {
    Environment { storage: Arc::new(disk.clone()), ..deterministic() }
}

fn dir() -> PathBuf {
    PathBuf::from("/ledger")
}

fn copy() -> PathBuf {
    PathBuf::from("/copy")
}

fn export(disk: &SimDisk, dir: &Path, from: u64, to: Option<u64>) -> Result<String, Error> {
    let mut out = Vec::new();
    let view = LedgerView::open(dir, &on_disk(disk)).unwrap();
    let describe = |record: &plan_ledger::log::LoggedRecord| {
        Some(serde_json::json!({ "bytes": record.payload.len() }))
    };
    view.export(Some(from), to, &describe, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn import_into(disk: &SimDisk, dir: &Path, text: &[u8]) -> Result<ImportReport, Error> {
    // Identifiers that the exported ledger has not used.
    let environment = Environment { ids: Environment::system().ids, ..on_disk(disk) };
    import(dir, &mut &*text, &environment)
}

/// An imported ledger is like one that grew: every segment except the newest has a valid footer
/// before it is opened for writing.
pub(crate) fn assert_sealed(disk: &SimDisk, dir: &Path) {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let reader = LogReader::open(&storage, dir).unwrap();
    let segments = reader.segments();
    let (_, rotated) = segments.split_last().unwrap();
    assert!(!rotated.is_empty(), "there is nothing to seal");
    for segment in rotated {
        let bytes = disk.read(&segment.path).unwrap();
        let offset = bytes.len() - FOOTER_SIZE;
        let footer = Footer::decode(&bytes[offset..], u64::try_from(offset).unwrap());
        assert_eq!(footer.unwrap().header(), Ok(segment.header.clone().unwrap()));
    }
    let derived = reader.walk(1).find(|item| matches!(item, Ok(LogItem::DerivedDamage(_))));
    assert!(derived.is_none(), "{derived:?}");
}

/// A ledger with batches, a fence, blobs (one of them missing), and a value over several lines.
fn story(disk: &SimDisk) -> u64 {
    let environment = on_disk(disk);
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let run = ledger.start_run("r", &plan(40), RunPolicy::default()).unwrap();
    for number in 0..5 {
        work(&ledger, run, Json::new(&serde_json::json!({ "n": number })));
    }
    // The write is done, its sync is not.
    disk.crash_at(disk.calls() + LOOKS + 3);
    let _ = ledger.set_variable(run, "v", Json::default(), None, "me");
    drop(ledger);
    disk.crash_at(u64::MAX);
    disk.kill_process();
    let (ledger, report) = Ledger::open_with(&dir(), &environment).unwrap();
    assert_ne!(report.verdict, "clean");
    let gone = work(&ledger, run, large(1, 100_000));
    work(&ledger, run, large(2, 2_500_000));
    work(&ledger, run, large(2, 2_500_000));
    ledger.set_variable(run, "v", large(3, 3 << 20), None, "me").unwrap();
    for number in 0..10 {
        ledger.set_variable(run, "w", large(number, 40_000), None, "me").unwrap();
    }
    let Output::Blob(blob) = gone else { panic!("inline") };
    let name = blob.hash.to_string();
    let path = disk.files(&dir().join("blob")).into_iter().find(|path| path.ends_with(&name));
    disk.set_length(&path.unwrap(), 7).unwrap();
    let last = ledger.head().seq;
    ledger.close().unwrap();
    last
}

/// The state hash after each record.
fn states(disk: &SimDisk, dir: &Path) -> Vec<(u64, ContentHash)> {
    let mut hashes = Vec::new();
    let view = LedgerView::open(dir, &on_disk(disk)).unwrap();
    view.fold_with(u64::MAX, &mut |fold, _| {
        hashes.push((fold.state.seq, state_hash(&fold.state)));
        ControlFlow::Continue(())
    })
    .unwrap();
    hashes
}

/// Goal: an import recreates the exported ledger: its chain, its state at every record, and its
/// blobs; and it exports to the same bytes, except for its uid.
#[test]
fn import_recreates_chain_and_state_at_every_record() {
    let disk = SimDisk::new();
    let last = story(&disk);
    let text = export(&disk, &dir(), 1, None).unwrap();
    let longest = text.lines().map(str::len).max().unwrap();
    assert!((1 << 20..4 << 20).contains(&longest), "{longest}");
    let imported = import_into(&disk, &copy(), text.as_bytes()).unwrap();
    assert_eq!((imported.ack.seq, imported.blobs, imported.blobs_missing), (last, 1, 1));

    let again = export(&disk, &copy(), 1, None).unwrap();
    let (head, rest) = text.split_once('\n').unwrap();
    let (head_again, rest_again) = again.split_once('\n').unwrap();
    assert!(rest == rest_again, "the exports differ");
    let mut heads = [head, head_again].map(|head| {
        let head: serde_json::Value = serde_json::from_str(head).unwrap();
        head.as_object().unwrap().clone()
    });
    let uids = heads.each_mut().map(|head| head.remove("ledger").unwrap());
    assert_ne!(uids[0], uids[1], "a ledger of its own");
    assert_eq!(heads[0], heads[1]);

    assert_sealed(&disk, &copy());
    let (one, _) = Ledger::open_with(&dir(), &on_disk(&disk)).unwrap();
    let (two, report) = Ledger::open_with(&copy(), &on_disk(&disk)).unwrap();
    assert_eq!((report.verdict.as_str(), one.head()), ("clean", two.head()));
    assert!(two.head().seq == last, "opening adds nothing");
    let [states, states_again] = [dir(), copy()].map(|dir| states(&disk, &dir));
    assert_eq!(states.last().unwrap().0, last);
    assert_eq!(states, states_again);
    for (seq, hash) in states.into_iter().step_by(7) {
        assert_eq!(state_hash(&two.state_at(seq).unwrap()), hash, "at {seq}");
    }
    let run = two.state().unwrap().run_named("r").unwrap().id;
    work(&two, run, large(9, 100_000));
}

/// Goal: a part of a log can be exported, and import rejects it; export rejects a range that
/// does not exist or ends inside a batch.
#[test]
fn partial_export_is_not_imported() {
    let disk = SimDisk::new();
    let last = story(&disk);
    let whole = export(&disk, &dir(), 1, None).unwrap();
    let part = export(&disk, &dir(), 10, Some(last)).unwrap();
    let records = |text: &str| -> Vec<serde_json::Value> {
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.filter(|line: &serde_json::Value| line["type"] == "record").collect()
    };
    let (all, some) = (records(&whole), records(&part));
    assert_eq!(all[9..], some);
    let header: serde_json::Value = serde_json::from_str(part.lines().next().unwrap()).unwrap();
    assert_eq!((&header["first_seq"], &header["chain_before"]), (&10.into(), &all[8]["chain"]));
    let error = import_into(&disk, &copy(), part.as_bytes()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    assert!(error.to_string().contains("found one from record 10"), "{error}");

    let inside = all.iter().find(|record| record["batch_left"] != 0).unwrap();
    let (seq, left) = (inside["seq"].as_u64().unwrap(), inside["batch_left"].as_u64().unwrap());
    let error = export(&disk, &dir(), 1, Some(seq)).unwrap_err();
    assert!(error.to_string().contains(&format!("to record {}", seq + left)), "{error}");
    export(&disk, &dir(), 1, Some(seq + left)).unwrap();
    for (from, to) in [(1, Some(last + 1)), (last + 2, None), (last + 2, Some(last + 3))] {
        let error = export(&disk, &dir(), from, to).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange, "{from} {to:?}: {error}");
    }
    let nothing = export(&disk, &dir(), last + 1, None).unwrap();
    assert_eq!(nothing.lines().count(), 2);
}

/// A small export.
fn small(disk: &SimDisk) -> String {
    let ledger = Ledger::create(&dir(), &on_disk(disk)).unwrap();
    let environment = Environment { blob_threshold: 50, ..on_disk(disk) };
    drop(ledger);
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let run = ledger.start_run("r", &plan(2), RunPolicy::default()).unwrap();
    work(&ledger, run, large(1, 100));
    let task = ledger.dispatch(run, "w").unwrap().unwrap();
    ledger.record_receipt(task.token, Receipt::default()).unwrap();
    ledger.close().unwrap();
    export(disk, &dir(), 1, None).unwrap()
}

/// The folders in which ledgers were to be created.
pub(crate) fn drafts(disk: &SimDisk) -> Vec<String> {
    let names = disk.list(Path::new("/")).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".new-ledger.tmp")).collect()
}

fn assert_nothing_left(disk: &SimDisk, story: &str) {
    let left: Vec<_> = disk.files(Path::new("/copy")).into_iter().collect();
    let drafts = drafts(disk);
    assert!(left.is_empty() && drafts.is_empty(), "{story}: {left:?} {drafts:?}");
}

/// Goal: an export that was changed or cut anywhere, or with lines moved, dropped or doubled,
/// is rejected without a panic and leaves no file; only what import ignores may change.
/// Method: bytes of a small export, each changed in two ways.
#[test]
fn sweep_changed_export_is_rejected_and_leaves_nothing() {
    let disk = SimDisk::new();
    let text = small(&disk);
    import_into(&disk.fork(), &copy(), text.as_bytes()).unwrap();
    let refused = |text: &[u8], story: &str| {
        let disk = disk.fork();
        let error = import_into(&disk, &copy(), text).map(|_| ()).unwrap_err();
        assert_nothing_left(&disk, story);
        error
    };
    let kinds = |byte: u8| [byte ^ 1, byte ^ 0x20];
    let mut accepted = Vec::new();
    for place in (0..text.len()).step_by(sweep(11, 1, 1)) {
        for byte in kinds(text.as_bytes()[place]) {
            let mut changed = text.clone().into_bytes();
            changed[place] = byte;
            let disk = disk.fork();
            match import_into(&disk, &copy(), &changed) {
                Ok(_) => accepted.push(place),
                Err(_) => assert_nothing_left(&disk, &format!("byte {place}")),
            }
        }
    }
    // Import ignores the decoded event and the uid of the exported ledger. The genesis only matters
    // if there is a record.
    let is_ignored = |place: &usize| {
        let start = text[..*place].rfind('\n').map_or(0, |at| at + 1);
        let line = &text[start..start + text[start..].find('\n').unwrap()];
        let inside = |name: &str, end: &str| {
            line.find(name).is_some_and(|from| {
                let to = from + line[from + name.len()..].find(end).unwrap() + name.len() + 1;
                (start + from..start + to).contains(place)
            })
        };
        inside("\"event\":", "}") || inside("\"ledger\":", ",")
    };
    let wrongly: Vec<_> = accepted.iter().filter(|place| !is_ignored(place)).collect();
    let around = |at: usize| text.get(at.saturating_sub(20)..at + 20).unwrap_or_default();
    let first: Vec<_> = wrongly.iter().map(|at| around(**at)).take(3).collect();
    assert!(wrongly.is_empty(), "accepted although changed: {first:?}");

    // The end of the last line may be missing.
    for end in 0..text.len() - 1 {
        refused(&text.as_bytes()[..end], &format!("cut at {end}"));
    }
    let lines: Vec<_> = text.lines().collect();
    for place in 0..lines.len() {
        let mut fewer = lines.clone();
        fewer.remove(place);
        refused(fewer.join("\n").as_bytes(), &format!("without line {place}"));
        let mut more = lines.clone();
        more.insert(place, lines[place]);
        refused(more.join("\n").as_bytes(), &format!("line {place} twice"));
    }
    let chain = text.replace("\"batch_left\":0,\"length\":", "\"batch_left\":0,\"length\":1");
    refused(chain.as_bytes(), "another length");
    refused(&vec![b'x'; 5 << 20], "a line that is too long");
    refused(&[0xFF; 100], "no text");
    let deep = text.replacen("\"event\":", &format!("\"event\":{}", "[".repeat(5000)), 1);
    refused(deep.as_bytes(), "too deep");
}

/// Goal: the error names the first changed record, its line, and expected and found values.
#[test]
fn changed_record_is_named() {
    let disk = SimDisk::new();
    let text = small(&disk);
    let line = text.lines().nth(2).unwrap();
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    let time = value["time"].as_u64().unwrap();
    let changed = line.replace(&format!("\"time\":{time}"), &format!("\"time\":{}", time + 1));
    let text = text.replace(line, &changed);
    // Later records now have an earlier time, but this record is first.
    let error = import_into(&disk, &copy(), text.as_bytes()).unwrap_err();
    assert_eq!((error.kind(), error.location().seq), (ErrorKind::Tampered, Some(2)));
    let message = error.to_string();
    for part in ["line 3", "record 2", "expected", "found", value["chain"].as_str().unwrap()] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

/// Goal: whatever disk call of an import fails or stops, there is a complete ledger or none.
#[test]
fn import_is_all_or_nothing() {
    let prepared = SimDisk::new();
    let text = small(&prepared);
    let clean = prepared.fork();
    import_into(&clean, &copy(), text.as_bytes()).unwrap();
    for call in prepared.calls() + 1..=clean.calls() {
        let disk = prepared.fork();
        disk.crash_at(call);
        let done = import_into(&disk, &copy(), text.as_bytes());
        disk.crash_at(u64::MAX);
        disk.lose_power(Loss::Some(mix(call)));
        match Ledger::open_with(&copy(), &on_disk(&disk)) {
            Ok((ledger, _)) => {
                assert_eq!(
                    export(&disk, &copy(), 1, None).unwrap().lines().count(),
                    text.lines().count()
                );
                drop(ledger);
            }
            Err(error) => {
                assert!(done.is_err(), "{call}: it was reported as made");
                assert_eq!(error.kind(), ErrorKind::NotALedger, "{call}: {error}");
                import_into(&disk, &copy(), text.as_bytes()).unwrap();
                assert_eq!(drafts(&disk), [""; 0], "{call}: what the killed import left");
            }
        }
        let disk = prepared.fork();
        let (kind, effect) = (std::io::ErrorKind::Other, FaultEffect::Nothing);
        disk.fail_at(Fault { call, kind, effect });
        if import_into(&disk, &copy(), text.as_bytes()).is_err() {
            assert!(drafts(&disk).is_empty() || disk.list(&copy()).is_err());
        }
    }
}

/// Goal: the commands behave like the library: files, pipes, rejections.
#[test]
fn export_and_import_commands() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (dir, file, new) = (path("a.ledger"), path("a.jsonl"), path("b.ledger"));
    let ledger = Ledger::create(Path::new(&dir), &Environment::system()).unwrap();
    let run = ledger.start_run("r", &plan(2), RunPolicy::default()).unwrap();
    let output = work(&ledger, run, large(1, 100_000));
    ledger.close().unwrap();
    let ended = run_ledger(&["export", &dir, "-o", &file]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(run_ledger(&["export", &dir]).out, std::fs::read_to_string(&file).unwrap());
    let to_stdout = run_ledger(&["export", &dir, "-o", "-"]).out;
    assert_eq!(to_stdout, std::fs::read_to_string(&file).unwrap(), "`-` is standard output");
    assert!(run_ledger(&["export", &dir]).out.contains("\"event\":{\"receipt_recorded\":{"));
    assert_eq!(run_ledger(&["export", &dir, "-o", &file]).code, 2, "a file that is there stays");
    assert_eq!(run_ledger(&["export", &dir, "--from", "9", "--to", "3"]).code, 2);
    let ended = run_ledger(&["import", &file, "--ledger", &new]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let view = LedgerView::open(Path::new(&new), &Environment::system()).unwrap();
    assert_eq!(view.blob_state(&output), Some(BlobState::Intact));
    assert_eq!(run_ledger(&["inspect", &new]).code, 0);
    assert_eq!(
        run_ledger(&["import", &file, "--ledger", &new]).code,
        2,
        "a ledger that is there stays"
    );
    assert_eq!(run_ledger(&["import", &path("none"), "--ledger", &path("c")]).code, 2);
    std::fs::write(path("bad"), "{\"type\":\"record\"}\n").unwrap();
    assert_eq!(run_ledger(&["import", &path("bad"), "--ledger", &path("c")]).code, 2);
}
