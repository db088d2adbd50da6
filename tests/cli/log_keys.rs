//! Idempotency keys: written once, and found again after anything.

use plan_ledger::internals::sim::{Loss, SimDisk};
use plan_ledger::internals::storage::Storage as _;
use plan_ledger::log::{Batch, KEY_WINDOW, KIND_BATCH_KEY, Log};
use plan_ledger::{BatchKey, ErrorKind};

use super::lab::{Restart, at, dir, open, options, reader, record, whole};

fn key(name: &str) -> BatchKey {
    BatchKey::new(name.as_bytes()).unwrap()
}

fn keyed(name: &str, number: u64) -> Batch {
    let records = vec![record(number, 60), record(number + 1, 700)];
    Batch { key: Some(key(name)), ..Batch::new(records, at(number)) }
}

/// A key is written once, with its batch. Submitting it again returns the earlier acknowledgement,
/// in the same handle and after reopening, and writes nothing.
#[test]
fn batch_with_key_is_written_once() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(0, 10)], at(0)).unwrap();
    let ack = log.submit(&keyed("a", 1)).and_then(|ticket| log.wait(ticket)).unwrap();
    assert_eq!(ack.seq, 4, "the key, then two records");
    let records = whole(&log.reader().unwrap());
    assert_eq!((records[1].kind, records[1].batch_left), (KIND_BATCH_KEY, 2));
    assert_eq!(records[1].payload, [&[0; 32], b"a".as_slice()].concat());
    // Twice before either is durable.
    let (one, two) = (log.submit(&keyed("b", 5)).unwrap(), log.submit(&keyed("b", 7)).unwrap());
    assert_eq!(one, two);
    log.wait(two).unwrap();
    let changes = disk.changes();
    for name in ["a", "b"] {
        let ticket = log.submit(&keyed(name, 50)).unwrap();
        assert_eq!(Some(&ticket), log.recent_ticket(&key(name)).unwrap().as_ref());
        log.wait(ticket).unwrap();
    }
    assert_eq!(disk.changes(), changes);
    log.close().unwrap();

    let (log, _) = open(&disk).unwrap();
    let last = log.last_durable().seq;
    assert_eq!(log.submit(&keyed("a", 50)).and_then(|ticket| log.wait(ticket)).unwrap(), ack);
    assert_eq!(log.last_durable().seq, last);
    assert_eq!(log.find_key(&key("b"), 1).unwrap(), Some((5, 7)));
    assert_eq!(log.find_key(&key("b"), 6).unwrap(), None);
    assert_eq!(log.find_key(&key("c"), 1).unwrap(), None);
    // A key without records is a batch too.
    let alone = Batch { key: Some(key("c")), ..Batch::new(Vec::new(), at(9)) };
    assert_eq!(log.submit(&alone).and_then(|ticket| log.wait(ticket)).unwrap().seq, last + 1);
    assert_eq!(log.find_key(&key("c"), last).unwrap(), Some((last + 1, last + 1)));
}

/// Regression: a writer that had lost the lock, and read the keys for its first request with a key only
/// then, took a batch of the next writer for its own and answered that the ticket was of another log.
#[test]
fn keys_of_the_next_writer_are_not_those_of_a_fenced_one() {
    let disk = SimDisk::new();
    let old = Log::create(&dir(), options(&disk), at(0)).unwrap();
    disk.remove(&dir().join("LOCK")).unwrap();
    let (new, _) = open(&disk).unwrap();
    let ticket = new.submit(&keyed("a", 1)).unwrap();
    new.wait(ticket).unwrap();
    let error = old.submit(&keyed("a", 1)).and_then(|ticket| old.wait(ticket)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(whole(&new.reader().unwrap()).len(), 3);
}

/// A key names a request: a batch of another one under it is refused, in the same handle and after
/// reopening, and writes nothing.
#[test]
fn key_of_another_request_is_refused() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let named = |request: &str, number| Batch {
        key: Some(key("a").for_request(request.as_bytes())),
        ..keyed("a", number)
    };
    let first = log.submit(&named("one", 1)).unwrap();
    let refused = |log: &Log, batch: &Batch| {
        let before = log.last_submitted();
        assert_eq!(log.submit(batch).unwrap_err().kind(), ErrorKind::KeyReused);
        let key = batch.key.as_ref().unwrap();
        assert_eq!(log.recent_ticket(key).unwrap_err().kind(), ErrorKind::KeyReused);
        assert_eq!(log.last_submitted(), before);
    };
    refused(&log, &named("two", 5));
    refused(&log, &keyed("a", 5));
    assert_eq!(log.submit(&named("one", 5)).unwrap(), first);
    log.close().unwrap();
    let (log, _) = open(&disk).unwrap();
    refused(&log, &named("two", 5));
    assert_eq!(log.submit(&named("one", 5)).unwrap(), first);
}

/// Limits: the window has exactly the documented size, and the key counts as a record.
#[test]
fn key_window_has_exact_limits() {
    for length in [0, 65, 1000] {
        assert_eq!(BatchKey::new(&vec![7; length]).unwrap_err().kind(), ErrorKind::TooLarge);
    }
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let first = log.submit(&keyed("a", 1)).unwrap().first_seq();
    let full = vec![record(1, 1); 65_535];
    let over = Batch { key: Some(key("b")), ..Batch::new(full.clone(), at(1)) };
    assert_eq!(log.submit(&over).unwrap_err().kind(), ErrorKind::TooLarge);
    // The key at `first` is the oldest in the window, and then outside it.
    let count = usize::try_from(KEY_WINDOW - 3).unwrap();
    log.append(&full[..count], at(1)).unwrap();
    assert_eq!(log.last_durable().seq, first + KEY_WINDOW - 1);
    assert_eq!(log.submit(&keyed("a", 1)).unwrap().first_seq(), first);
    log.close().unwrap();
    let (log, _) = open(&disk).unwrap();
    assert_eq!(log.submit(&keyed("a", 1)).unwrap().first_seq(), first);
    log.append(&full[..1], at(1)).unwrap();
    assert_eq!(log.submit(&keyed("a", 1)).unwrap().first_seq(), first + KEY_WINDOW + 1);
}

/// After a crash at any point a key is found if and only if all of its batch is there; an
/// acknowledged key is always found; and submitting again gives one batch.
#[test]
fn key_is_found_after_crash_iff_batch_committed() {
    let story = |disk: &SimDisk| {
        let log = Log::create(&dir(), options(disk), at(0))?;
        log.append(&[record(0, 10)], at(0))?;
        log.submit(&keyed("a", 1)).and_then(|ticket| log.wait(ticket))
    };
    let calm = SimDisk::new();
    story(&calm).unwrap();
    let (mut landed, mut lost) = (0, 0);
    for call in 1..=calm.calls() + 1 {
        let disk = SimDisk::new();
        disk.crash_at(call);
        let answer = story(&disk);
        for restart in [Loss::Everything, Loss::Nothing, Loss::Some(call), Loss::Some(call + 1000)]
            .map(Restart::Power)
            .into_iter()
            .chain([Restart::Process])
        {
            let disk = restart.of(&disk);
            let Ok((log, _)) = open(&disk) else { continue };
            let found = log.find_key(&key("a"), 1).unwrap();
            let records = whole(&log.reader().unwrap());
            let count = records.iter().filter(|each| each.kind == KIND_BATCH_KEY).count();
            assert_eq!(found.is_some(), count == 1, "call {call}, {restart:?}");
            if let Ok(ack) = &answer {
                assert_eq!(found, Some((2, 4)), "call {call}, {restart:?}");
                assert_eq!(records[3].chain, ack.chain);
            }
            if let Some((first, last)) = found {
                assert_eq!(last - first, 2);
                assert!(u64::try_from(records.len()).unwrap() >= last);
            }
            if found.is_some() {
                landed += 1;
            } else {
                lost += 1;
            }
            let ack = log.submit(&keyed("a", 1)).and_then(|ticket| log.wait(ticket)).unwrap();
            drop(log);
            let again: Vec<_> = reader(&disk).records(1).map(Result::unwrap).collect();
            let keys = again.iter().filter(|each| each.kind == KIND_BATCH_KEY).count();
            assert_eq!(keys, 1, "call {call}, {restart:?}: {ack:?}");
        }
    }
    assert!(landed > 5 && lost > 5, "{landed} landed, {lost} lost");
}

/// Story: under a server every request has a key, and one unreadable sector in an old segment refused
/// all of them.
/// Method: in a sealed segment the records of one batch in turn are damaged: its key, or what follows
/// the key.
#[test]
fn damaged_records_cost_only_their_own_keys() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let acks: Vec<_> = (1..4)
        .map(|number| log.submit(&keyed(&format!("k{number}"), number * 10)).unwrap())
        .map(|ticket| log.wait(ticket).unwrap())
        .collect();
    // More than fits into the first segment.
    log.append(&[record(90, (1 << 20) - 40_000)], at(90)).unwrap();
    log.append(&[record(91, 50_000)], at(91)).unwrap();
    log.close().unwrap();
    let records = whole(&reader(&disk));
    let segments = reader(&disk).segments();
    assert!(segments.len() > 1);
    // The second batch is records 4 to 6: its key, and two more.
    for lost in 4..=6 {
        let disk = disk.fork();
        let damaged = &records[lost - 1];
        let (path, place) = (&segments[0].path, damaged.offset + 50);
        let byte = disk.read(path).unwrap()[usize::try_from(place).unwrap()];
        disk.overwrite(path, place, &[byte ^ 1]).unwrap();
        let (log, _) = open(&disk).unwrap();
        for (number, ack) in [(1, acks[0]), (3, acks[2])] {
            let ticket = log.submit(&keyed(&format!("k{number}"), 99)).unwrap();
            assert_eq!(log.wait(ticket).unwrap(), ack, "record {lost}: key {number}");
        }
        let last = log.last_durable().seq;
        let repeated = log.submit(&keyed("k2", 99)).map(|ticket| log.wait(ticket).unwrap());
        match repeated {
            // Whether the key was used is unknown.
            Ok(ack) => assert_eq!((lost, ack.seq), (4, last + 3)),
            Err(error) => {
                assert_eq!((lost > 4, error.kind()), (true, ErrorKind::Corrupt), "{error}");
            }
        }
        let ticket = log.submit(&keyed("new", 99)).unwrap();
        log.wait(ticket).unwrap();
    }
}
