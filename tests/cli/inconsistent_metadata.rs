//! Rare faults that must still be reported: headers, slots and names that are intact but cannot be
//! right.

use std::sync::Arc;

use plan_ledger::internals::format::{
    Chain, ChainKey, Codec, Head, HeadSlots, NewRecord, Placement, SegmentHeader, SegmentReason,
    Stamp, encode_frame,
};
use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, Operation, OsError, SimDisk,
};
use plan_ledger::internals::storage::{DiskStorage, Storage};
use plan_ledger::log::{
    Batch, FindingClass, Log, LogItem, LogOptions, LoggedRecord, StreamRule, TailVerdict,
    Verification, VerifyOptions, verify,
};
use plan_ledger::{ErrorKind, HeadSync};

use super::lab::{
    End, at, dir, fenced, kill, log_files, open, options, options_with, payloads, reader, record,
    segments, survey, whole,
};

fn verified(disk: &SimDisk) -> Verification {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    verify(&storage, &dir(), VerifyOptions::DEFAULT).unwrap()
}

/// The damage that verification finds.
fn damage(disk: &SimDisk) -> Vec<String> {
    let found = verified(disk).findings.into_iter();
    found.filter(|it| it.class == FindingClass::Damage).map(|it| it.to_string()).collect()
}

fn names(found: &[String], words: &str) -> bool {
    found.iter().any(|what| what.contains(words))
}

/// Replace the header of a segment; its name and everything else stay.
fn change_header(disk: &SimDisk, place: usize, change: impl Fn(&mut SegmentHeader)) {
    let segment = reader(disk).segments().remove(place);
    let mut header = segment.header.unwrap();
    change(&mut header);
    disk.overwrite(&segment.path, 0, &header.encode()).unwrap();
}

/// Replace HEAD in both slots.
fn change_head(disk: &SimDisk, change: impl Fn(&mut Head)) {
    let path = dir().join("HEAD");
    let view = HeadSlots::decode(&disk.read(&path).unwrap());
    let mut head = view.newest().unwrap().1.clone();
    change(&mut head);
    let older = Head { generation: head.generation - 1, ..head.clone() };
    disk.overwrite(&path, 0, &[older.encode(), head.encode()].concat()).unwrap();
}

/// If a segment ends otherwise than its successor's header says, that is damage for readers and for
/// the writer: another last record, and more records than stated.
#[test]
fn segment_end_contradicting_successor_is_corrupt() {
    let (disk, expected) = fenced(End::Closed);
    let other = disk.fork();
    change_header(&other, 2, |header| header.prev_chain.0[3] ^= 1);
    let more = disk.fork();
    change_header(&more, 1, |header| header.prev_last_seq += 1);
    let cases =
        [(other, "not the one that the successor"), (more, "records are missing at the end")];
    for (disk, words) in cases {
        let seen = survey(&disk);
        assert!(seen.damages.iter().any(|it| it.what.contains(words)), "{words}: {seen:?}");
        seen.check(&expected, words);
        assert!(names(&damage(&disk), words), "{words}");
        assert!(open(&disk).unwrap_err().is_corrupt(), "{words}");
    }
}

/// An intact HEAD with impossible content is reported by readers and excludes the writer: another
/// last record, a record inside a batch, two slots of one generation, less than the durable extent
/// in its segment's header.
#[test]
fn impossible_head_is_reported() {
    let (disk, expected) = fenced(End::Closed);
    let wrong_chain = disk.fork();
    change_head(&wrong_chain, |head| head.chain.0[0] ^= 1);
    assert!(names(&damage(&wrong_chain), "not the one that the successor or HEAD names"));
    assert!(open(&wrong_chain).unwrap_err().is_corrupt());

    let twins = disk.fork();
    let path = dir().join("HEAD");
    let head = HeadSlots::decode(&disk.read(&path).unwrap()).newest().unwrap().1.clone();
    let twin = Head { writer_epoch: head.writer_epoch + 1, ..head.clone() };
    twins.overwrite(&path, 0, &[head.encode(), twin.encode()].concat()).unwrap();
    assert!(names(&damage(&twins), "two different slots of one generation"));

    let superseded = disk.fork();
    let first = reader(&disk).segments()[0].header.clone().unwrap();
    let next = reader(&disk).segments()[1].header.clone().unwrap();
    change_head(&superseded, |head| {
        (head.ordinal, head.segment) = (0, first.segment);
        (head.durable_seq, head.data_end) = (next.prev_last_seq + 1, next.prev_data_end + 64);
    });
    assert!(names(&damage(&superseded), "contradicts the header of a later segment"));
    assert!(open(&superseded).unwrap_err().is_corrupt());

    let unborn = disk.fork();
    change_head(&unborn, |head| head.durable_seq = first.base_seq);
    let seen = survey(&unborn);
    seen.check(&expected, "HEAD behind what its segment was born with");
    assert!(open(&unborn).unwrap_err().is_corrupt());
}

/// A HEAD inside a batch, and frames with valid checksums that no writer creates, are reported: no
/// kind, no schema, a time that goes back, a partial batch.
#[test]
fn intact_but_impossible_records_are_reported() {
    let base = SimDisk::new();
    let log = Log::create(&dir(), options(&base), at(0)).unwrap();
    log.append(&[record(1, 100)], at(5)).unwrap();
    kill(&base, log);
    let plain = |kind, schema| NewRecord { kind, codec: Codec::Raw, schema, payload: vec![7; 20] };
    let cases: [(&str, NewRecord, u64, u16); 5] = [
        ("kind or schema 0", plain(0, 1), at(6), 0),
        ("kind or schema 0", plain(1, 0), at(6), 0),
        ("time is before", plain(1, 1), at(4), 0),
        ("inside a batch", plain(1, 1), at(6), 1),
        ("does not continue the batch", plain(1, 1), at(6), 2),
    ];
    for (words, odd, time, batch_left) in cases {
        let disk = base.fork();
        let head = reader(&disk).head().unwrap().clone();
        let header = reader(&disk).segments().remove(0).header.unwrap();
        let path = segments(&disk)[0].0.clone();
        let key = ChainKey::new(&header.genesis);
        let (mut offset, mut chain, mut seq) = (head.data_end, head.chain, head.durable_seq);
        // The partial batch is followed by a record of another batch.
        let follower = (words == "does not continue the batch").then(|| (plain(1, 1), at(7), 0));
        for (record, time, batch_left) in [(odd, time, batch_left)].into_iter().chain(follower) {
            seq += 1;
            let placement = Placement { segment: header.segment, offset };
            let ordinal = u32::try_from(header.ordinal).unwrap();
            let stamp = Stamp { seq, time, ordinal, inflight: 1, batch_left };
            let mut frame = Vec::new();
            chain = encode_frame(&mut frame, &record, stamp, placement, &key, &chain);
            disk.overwrite(&path, offset, &frame).unwrap();
            offset += u64::try_from(frame.len()).unwrap();
        }
        change_head(&disk, |head| {
            (head.durable_seq, head.data_end, head.chain) = (seq, offset, chain);
        });
        let found = damage(&disk);
        assert!(names(&found, words), "{words}: {found:?}");
    }
}

/// Opening adopts no record that breaks a rule, even with valid checksums and link: no crash
/// creates one (row 3 of the recovery table). Regression: opening checked only checksums, numbers
/// and links, so a record with an earlier time, or a batch with a wrong end, was adopted, fenced
/// and declared durable.
#[test]
fn open_adopts_no_record_that_breaks_a_rule() {
    let base = SimDisk::new();
    let log = Log::create(&dir(), options(&base), at(0)).unwrap();
    log.append(&[record(1, 100)], at(5)).unwrap();
    kill(&base, log);
    let good = record(7, 20);
    let odd = NewRecord { kind: 0, ..good.clone() };
    let cases = [
        (vec![(at(5), 0)], &good, true),
        (vec![(at(6), 1), (at(6), 0)], &good, true),
        (vec![(at(4), 0)], &good, false),
        (vec![(at(6), 2), (at(6), 0)], &good, false),
        (vec![(at(6), 0)], &odd, false),
    ];
    for (stamps, record, is_sound) in cases {
        let disk = base.fork();
        let head = reader(&disk).head().unwrap().clone();
        let header = reader(&disk).segments().remove(0).header.unwrap();
        let key = ChainKey::new(&header.genesis);
        let (mut offset, mut chain, mut seq) = (head.data_end, head.chain, head.durable_seq);
        for (time, batch_left) in stamps.iter().copied() {
            seq += 1;
            let stamp = Stamp { seq, time, ordinal: 0, inflight: 1, batch_left };
            let placement = Placement { segment: header.segment, offset };
            let mut frame = Vec::new();
            chain = encode_frame(&mut frame, record, stamp, placement, &key, &chain);
            disk.overwrite(&segments(&disk)[0].0, offset, &frame).unwrap();
            offset += u64::try_from(frame.len()).unwrap();
        }
        let opened = open(&disk).map(|(_, report)| report.verdict);
        match opened {
            Ok(verdict) => {
                assert!(is_sound && verdict == TailVerdict::Unacknowledged, "{stamps:?}");
            }
            Err(error) => {
                assert!(!is_sound && error.kind() == ErrorKind::Tampered, "{stamps:?}: {error}");
            }
        }
    }
}

/// A log with the largest sequence number causes no panic: it is refused, or its records are
/// served.
#[test]
fn seq_u64_max_is_rejected() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 100)], at(5)).unwrap();
    log.close().unwrap();
    let head = reader(&disk).head().unwrap().clone();
    let first = reader(&disk).segments().remove(0).header.unwrap();
    let next = SegmentHeader {
        segment: [7; 16],
        ordinal: 1,
        base_seq: u64::MAX,
        prev_chain: head.chain,
        prev_segment: first.segment,
        prev_data_end: head.data_end,
        prev_last_seq: u64::MAX - 1,
        reason: SegmentReason::Rotate,
        ..first
    };
    let path = dir().join("log").join(next.name().to_string());
    disk.create(&path).unwrap();
    disk.set_length(&path, next.prealloc_len).unwrap();
    disk.overwrite(&path, 0, &next.encode()).unwrap();
    let stamp = Stamp { seq: u64::MAX, time: at(6), ordinal: 1, inflight: 1, batch_left: 0 };
    let placement = Placement { segment: next.segment, offset: 4096 };
    let key = ChainKey::new(&next.genesis);
    let mut frame = Vec::new();
    encode_frame(&mut frame, &record(7, 20), stamp, placement, &key, &head.chain);
    disk.overwrite(&path, 4096, &frame).unwrap();
    for durable_seq in [head.durable_seq, u64::MAX] {
        let disk = disk.fork();
        change_head(&disk, |head| head.durable_seq = durable_seq);
        assert!(verified(&disk).is_damaged());
        assert!(reader(&disk).walk(1).count() < 10);
        assert!(open(&disk).unwrap_err().is_corrupt());
    }
}

/// A first segment with a predecessor, and a second file for an existing segment, are reported and
/// everything else is served. Unknown files are left alone.
#[test]
fn segments_out_of_sequence_are_reported() {
    let (disk, expected) = fenced(End::Closed);
    let follows = disk.fork();
    change_header(&follows, 0, |header| header.prev_chain = Chain([9; 32]));
    assert!(names(&damage(&follows), "does not begin at record 1"));
    let error = open(&follows).unwrap_err();
    assert!(error.to_string().contains("does not begin at record 1"), "{error}");

    let first = reader(&disk).segments()[0].clone();
    let mut twin = first.header.unwrap();
    twin.base_seq += 1;
    let path = dir().join("log").join(twin.name().to_string());
    let double = disk.fork();
    double.create(&path).unwrap();
    double.set_length(&path, twin.prealloc_len).unwrap();
    double.overwrite(&path, 0, &twin.encode()).unwrap();
    let words = "there is another segment 0";
    survey(&double).check(&expected, words);
    assert!(names(&damage(&double), words), "{:?}", damage(&double));
    assert!(open(&double).unwrap_err().is_corrupt());

    let strange = disk.fork();
    strange.create(&dir().join("log/notes.txt")).unwrap();
    let found = verified(&strange).findings;
    assert!(
        found.iter().any(|it| it.class == FindingClass::Warning && it.path.ends_with("notes.txt"))
    );
}

/// A reader whose window holds bytes from before a write finished reads them again before it
/// reports damage.
#[test]
fn record_being_written_is_not_damage() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(0, 100)], at(0)).unwrap();
    let head = disk.read(&dir().join("HEAD")).unwrap();
    for number in 1..6 {
        log.append(&[record(number, 1500)], at(0)).unwrap();
    }
    let all = whole(&log.reader().unwrap());
    kill(&disk, log);
    disk.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
    let path = segments(&disk)[0].0.clone();
    let hit = all[3].offset + 60;
    let good = disk.read(&path).unwrap();
    let byte = good[usize::try_from(hit).unwrap()];
    disk.overwrite(&path, hit, &[!byte]).unwrap();
    let reader = reader(&disk);
    let mut walk = reader.walk(1);
    let mut seen: Vec<_> = walk.by_ref().take(3).map(Result::unwrap).collect();
    disk.overwrite(&path, hit, &[byte]).unwrap();
    seen.extend(walk.map(Result::unwrap));
    let found: Vec<_> = seen
        .iter()
        .map(|item| match item {
            LogItem::Record(record, _) => record.seq,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(found, [1, 2, 3, 4, 5, 6]);
}

/// A way to read.
type Items<'a> = &'a mut dyn Iterator<Item = plan_ledger::Result<LogItem>>;

/// The records and the damage that it yields, by number.
fn seqs(items: Items<'_>) -> Vec<(u64, bool)> {
    let mut found: Vec<(u64, bool)> = items
        .filter_map(|item| match item.unwrap() {
            LogItem::Record(record, _) => Some((record.seq, true)),
            LogItem::Damage(damage) => Some((damage.first_seq, false)),
            LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => None,
        })
        .collect();
    found.sort_unstable();
    found
}

/// The number of open ends that it yields.
fn ends(items: Items<'_>) -> usize {
    items.filter(|item| matches!(item, Ok(LogItem::OpenEnd { .. }))).count()
}

/// Reading in reverse, by kind or by stream yields the same faults as reading forwards: a missing
/// segment, an open end, a failing disk.
#[test]
fn every_way_to_read_reports_faults() {
    let (disk, _) = fenced(End::Killed);
    let lost = disk.fork();
    lost.remove(&segments(&disk)[1].0).unwrap();
    let view = reader(&lost);
    let forwards = seqs(&mut view.walk(1));
    assert!(forwards.iter().any(|(_, is_record)| !is_record));
    assert_eq!(seqs(&mut view.walk_reverse(u64::MAX)), forwards);

    let open_end = disk.fork();
    let (path, end) = segments(&disk).remove(2);
    open_end.overwrite(&path, end, &[0x5A; 200]).unwrap();
    let view = reader(&open_end);
    assert_eq!((ends(&mut view.walk(1)), ends(&mut view.walk_reverse(u64::MAX))), (1, 1));
    assert_eq!(ends(&mut view.walk_of_kind(1, 1)), 0);
    assert_eq!(seqs(&mut view.walk_of_kind(1, 1)).len(), payloads(&whole(&reader(&disk))).len());
    let next = view.head().unwrap().durable_seq + 1;
    assert!(view.record(next).unwrap().is_none());

    let failing = disk.fork();
    let view = reader(&failing);
    // An error that is not about a place on the medium.
    let refused = OsError::Other(std::io::ErrorKind::PermissionDenied);
    failing.inject(
        FaultRule::next(FaultAction::Error(refused, FaultEffect::Nothing))
            .of(Operation::Read)
            .always(),
    );
    let mut back = view.walk_reverse(u64::MAX);
    assert_eq!(back.next().unwrap().unwrap_err().kind(), ErrorKind::Io);
    assert!(back.next().is_none());
}

fn by(id: u32, stream_of: fn(&LoggedRecord<&[u8]>) -> Option<u64>) -> StreamRule {
    StreamRule { id, stream_of }
}

/// An index that names records of other streams is not trusted, and one made with another rule is
/// not used: neither costs a record.
#[test]
fn index_of_other_streams_costs_no_record() {
    let disk = SimDisk::new();
    let by_threes = by(1, |record| Some(record.seq % 3));
    let options = LogOptions { stream_rule: by_threes, ..options(&disk) };
    let log = Log::create(&dir(), options, at(0)).unwrap();
    for number in 0..12 {
        log.append(&[record(number, 200_000)], at(number)).unwrap();
    }
    log.close().unwrap();
    let view = reader(&disk);
    let first = view.segments().remove(0);
    assert_ne!(first.length, first.header.unwrap().prealloc_len, "it is sealed");
    let all = whole(&view);
    for rule in [1, 2] {
        let streams = by(rule, |record| Some(record.seq % 2));
        for stream in [0, 1] {
            let wanted = all.iter().filter(|it| it.seq % 2 == stream);
            let found = view.records_of_stream(stream, streams, 1).map(Result::unwrap);
            assert!(found.eq(wanted.cloned()), "rule {rule}, stream {stream}");
        }
    }
}

/// A folder with the name of a staging folder that holds anything but the leftovers of a creation
/// is left alone.
#[test]
fn foreign_staging_folder_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let draft = folder.path().join("a.ledger.0123456789abcdef.new-ledger.tmp");
    let name = folder.path().join("a.ledger");
    let log_options = || options_with(Arc::new(DiskStorage), 1, HeadSync::Interval);
    for stranger in ["thesis.txt", "log/thesis.txt", "blob/thesis.txt", "log"] {
        let path = draft.join(stranger);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "years of work").unwrap();
        Log::create(&name, log_options(), at(0)).unwrap().close().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "years of work", "{stranger}");
        std::fs::remove_dir_all(&draft).unwrap();
        std::fs::remove_dir_all(&name).unwrap();
    }
}

/// A ticket of another log is refused without waiting.
#[test]
fn ticket_of_another_log_is_refused() {
    let (disk, other) = (SimDisk::new(), SimDisk::new());
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let short = Log::create(&dir(), options(&other), at(0)).unwrap();
    let batch = Batch::new((0..5).map(|number| record(number, 10)).collect(), at(1));
    let ticket = log.submit(&batch).unwrap();
    let error = short.wait(ticket).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange, "{error}");
    assert_eq!(log.flush().unwrap().seq, 5);
}

/// Goal: recovery adopts a record behind the position of HEAD only if it obeys every rule, also those that neither
/// checksum nor link covers: time, kind and schema.
#[test]
fn record_that_breaks_a_rule_is_not_adopted() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 100)], at(5)).unwrap();
    log.flush().unwrap();
    kill(&disk, log);
    let (head, segment) =
        (reader(&disk).head().unwrap().clone(), reader(&disk).segments().remove(0));
    let header = segment.header.unwrap();
    let (earlier, later) = (at(4), at(6));
    for (time, kind, schema, is_right) in
        [(later, 1, 1, true), (earlier, 1, 1, false), (later, 0, 1, false), (later, 1, 0, false)]
    {
        let stamp =
            Stamp { seq: head.durable_seq + 1, time, ordinal: 0, inflight: 1, batch_left: 0 };
        let place = Placement { segment: header.segment, offset: head.data_end };
        let (mut frame, forged) = (Vec::new(), NewRecord { kind, schema, ..record(99, 100) });
        encode_frame(
            &mut frame,
            &forged,
            stamp,
            place,
            &ChainKey::new(&header.genesis),
            &head.chain,
        );
        let disk = disk.fork();
        disk.overwrite(&segment.path, head.data_end, &frame).unwrap();
        let opened = open(&disk);
        let is_adopted = opened.is_ok_and(|(log, _)| {
            payloads(&whole(&log.reader().unwrap())).contains(&forged.payload)
        });
        assert_eq!(is_adopted, is_right, "time {time}, kind {kind}, schema {schema}");
    }
}

/// Goal: a writer whose folder was replaced by that of another ledger reads nothing of the other one.
#[test]
fn reader_of_a_writer_refuses_another_ledger_in_its_place() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 100)], at(5)).unwrap();
    assert_eq!(whole(&log.reader().unwrap()).len(), 1);
    let other = SimDisk::new();
    let twin = options_with(Arc::new(other.clone()), 99, HeadSync::Interval);
    let twin = Log::create(&dir(), twin, at(0)).unwrap();
    twin.append(&[record(2, 100)], at(5)).unwrap();
    kill(&other, twin);
    assert_eq!(log_files(&disk), log_files(&other));
    for (path, _) in log_files(&other) {
        disk.overwrite(&path, 0, &other.read(&path).unwrap()).unwrap();
    }
    let error = log.reader().unwrap_err();
    assert!(error.to_string().contains("another ledger is in place"), "{error}");
}
