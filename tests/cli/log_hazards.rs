//! Hazards that cost other engines data, by number.

use std::path::PathBuf;

use plan_ledger::ErrorKind;
use plan_ledger::internals::format::{
    Chain, ChainKey, CheckedFrame, Codec, FrameFault, NewRecord, Placement, Stamp, encode_frame,
};
use plan_ledger::internals::sim::{SimDisk, sweep};
use plan_ledger::log::{Log, LoggedRecord, TailVerdict};

use super::lab::{
    End, at, dir, fenced, kill, log_digest, open, options, payloads, reader, record, segments,
    settle, survey, whole,
};

/// A log of eight acknowledged records whose HEAD only covers the first one, as after a power
/// failure within a second; its records and its one segment.
fn stale_head_log() -> (SimDisk, Vec<LoggedRecord>, PathBuf) {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(0, 100)], at(0)).unwrap();
    let head = disk.read(&dir().join("HEAD")).unwrap();
    for number in 1..8 {
        log.append(&[record(number, 1500)], at(0)).unwrap();
    }
    let records = whole(&log.reader().unwrap());
    kill(&disk, log);
    disk.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
    (disk.clone(), records, segments(&disk)[0].0.clone())
}

/// A bad record that acknowledged ones follow is never the end of the log, even if HEAD does not
/// cover them (H1): the next record proves that it was synced. A stride of the bits of every record but
/// the last.
#[test]
fn sweep_h1_bad_record_is_not_the_end_of_the_log() {
    let (disk, records, path) = stale_head_log();
    let (log, report) = open(&disk.fork()).unwrap();
    assert_eq!(report.verdict, TailVerdict::Unacknowledged, "the untouched log only needs a fence");
    assert!(payloads(&whole(&log.reader().unwrap())).len() == 8);
    for hit in &records[..7] {
        for bit in (hit.offset * 8..(hit.offset + hit.size) * 8).step_by(sweep(61, 13, 1)) {
            let disk = disk.fork();
            let at = usize::try_from(bit / 8).unwrap();
            let byte = disk.read(&path).unwrap()[at];
            disk.overwrite(&path, bit / 8, &[byte ^ (1 << (bit % 8))]).unwrap();
            let error = open(&disk).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {bit}: {error}");
            assert_eq!(error.location().seq, Some(hit.seq), "{error}");
            assert_eq!(error.location().offset, Some(hit.offset), "{error}");
            let seen = survey(&disk);
            assert_eq!(seen.records.len(), 7, "bit {bit}: {seen:?}");
            assert_eq!(seen.damages.len(), 1, "bit {bit}: {seen:?}");
        }
    }
}

/// Damage of the very last record, which only HEAD could prove acknowledged, is at least not
/// silent: the writer refuses, or reports what it fenced off.
#[test]
fn sweep_h1_damaged_last_record_is_never_silent() {
    let (disk, records, path) = stale_head_log();
    let hit = records.last().unwrap();
    let mut refusals = 0;
    for bit in (hit.offset * 8..(hit.offset + hit.size) * 8).step_by(sweep(61, 13, 1)) {
        let disk = disk.fork();
        let at = usize::try_from(bit / 8).unwrap();
        let byte = disk.read(&path).unwrap()[at];
        disk.overwrite(&path, bit / 8, &[byte ^ (1 << (bit % 8))]).unwrap();
        match open(&disk) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Ambiguous, "bit {bit}: {error}");
                refusals += 1;
            }
            Ok((_, report)) => assert!(!report.discarded.is_empty(), "bit {bit}: {report:?}"),
        }
    }
    assert!(refusals > sweep(150, 900, 900), "a flipped bit does not look torn: {refusals}");
}

/// A torn tail is fenced off, and records appended after it are found again (H2), whatever the
/// length of the tear (H3). The last batch is zeroed from every multiple of 64 bytes.
#[test]
fn h2_h3_records_after_torn_tail_are_found() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 100)], at(1)).unwrap();
    let acked = whole(&log.reader().unwrap());
    let head = disk.read(&dir().join("HEAD")).unwrap();
    log.append(&[record(2, 700), record(3, 900)], at(1)).unwrap();
    kill(&disk, log);
    disk.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
    let (path, start) = segments(&disk)[0].clone();
    for cut in (start..start + 2000).step_by(64) {
        let disk = disk.fork();
        let zeros = vec![0; usize::try_from(start + 2000 - cut).unwrap()];
        disk.overwrite(&path, cut, &zeros).unwrap();
        let (log, report) = open(&disk).unwrap();
        let found = whole(&log.reader().unwrap());
        let own = payloads(&found).len();
        assert!(found.starts_with(&acked), "cut at {cut}");
        assert!(own == 1 || own == 3, "cut at {cut}: half a batch: {report:?}");
        log.append(&[record(4, 10)], at(2)).unwrap();
        log.close().unwrap();
        let (log, _) = open(&disk).unwrap();
        assert_eq!(payloads(&whole(&log.reader().unwrap())).len(), own + 1, "cut at {cut}");
    }
}

/// Zeros in the middle are not the end (H10), even if HEAD does not cover them.
#[test]
fn h10_zeros_in_the_middle_are_not_the_end() {
    let (disk, records, path) = stale_head_log();
    for sector in records[1].offset.div_ceil(512)..records[6].offset / 512 {
        let disk = disk.fork();
        disk.overwrite(&path, sector * 512, &[0; 512]).unwrap();
        let before = log_digest(&disk);
        let error = open(&disk).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "sector {sector}: {error}");
        assert_eq!(log_digest(&disk), before, "the evidence stays");
    }
}

/// A log inside a payload (H15): its frames are never taken for frames, even if the record around
/// them is damaged.
#[test]
fn h15_log_inside_a_payload_is_not_parsed() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    for number in 0..4 {
        log.append(&[record(number, 300)], at(0)).unwrap();
    }
    let (path, used) = segments(&disk)[0].clone();
    // Once as it is, and once aligned like real frames.
    let inner = disk.read(&path).unwrap()[4096..usize::try_from(used).unwrap()].to_vec();
    let aligned = [vec![0; 16], inner.clone()].concat();
    for payload in [inner, aligned] {
        let nested = NewRecord { kind: 1, codec: Codec::Raw, schema: 1, payload };
        log.append(&[nested], at(0)).unwrap();
        log.append(&[record(9, 20)], at(0)).unwrap();
    }
    let records = whole(&log.reader().unwrap());
    log.close().unwrap();
    for hit in records.iter().filter(|record| record.payload.len() > 1000) {
        for place in [0, 5, 9, 30, 41, 45, hit.size - 1] {
            let disk = disk.fork();
            disk.overwrite(&path, hit.offset + place, &[0xEE]).unwrap();
            assert_eq!(open(&disk).unwrap_err().kind(), ErrorKind::Corrupt);
            let seen = survey(&disk);
            let [damage] = &seen.damages[..] else { panic!("byte {place}: {seen:?}") };
            assert_eq!((damage.first_seq, damage.last_seq), (hit.seq, hit.seq));
            assert_eq!(damage.end, hit.offset + hit.size);
            assert_eq!(seen.records.len(), records.len() - 1);
        }
    }
}

/// Dropped, duplicated or moved frames are rejected (H18).
#[test]
fn h18_reordered_frames_are_rejected() {
    let (disk, records, path) = stale_head_log();
    let bytes = disk.read(&path).unwrap();
    let frame = |index: usize| {
        let from = usize::try_from(records[index].offset).unwrap();
        bytes[from..from + usize::try_from(records[index].size).unwrap()].to_vec()
    };
    let order = |order: &[usize]| order.iter().flat_map(|index| frame(*index)).collect::<Vec<_>>();
    for (story, frames) in [
        ("dropped", order(&[3, 4, 5, 6, 7])),
        ("doubled", order(&[2, 2, 3, 4, 5, 6, 7])),
        ("swapped", order(&[3, 2, 4, 5, 6, 7])),
        ("back", order(&[2, 3, 4, 1, 6, 7])),
    ] {
        let disk = disk.fork();
        disk.overwrite(&path, records[2].offset, &frames).unwrap();
        let error = open(&disk).err();
        if let Some(error) = error {
            assert!(error.is_corrupt(), "{story}: {error}");
        } else {
            panic!("{story}: accepted");
        }
        let seen = survey(&disk);
        for (seq, record) in &seen.records {
            let real = &records[usize::try_from(*seq).unwrap() - 1];
            assert_eq!(real.payload, record.payload, "{story}");
        }
    }
}

/// A bad end stays detected if HEAD's newest slot is damaged too: with the older slot, later
/// records still prove it.
#[test]
fn stale_head_never_shortens_the_log() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let mut heads = vec![disk.read(&dir().join("HEAD")).unwrap()];
    let mut model = super::lab::Model { is_created: true, ..Default::default() };
    for number in 0..12 {
        model.append(&log, &[record(number, 200)], number * 2).unwrap();
        heads.push(disk.read(&dir().join("HEAD")).unwrap());
    }
    kill(&disk, log);
    for (age, head) in heads.iter().enumerate() {
        let disk = disk.fork();
        disk.overwrite(&dir().join("HEAD"), 0, head).unwrap();
        settle(&disk, &model, &format!("HEAD of record {age}"));
    }
}

/// HEAD in a superseded segment must match the successor's header. HEADs from every moment of a
/// log's life are combined with later states of a log that diverged after a common start.
#[test]
fn head_of_diverged_history_is_refused() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(0, 100)], at(0)).unwrap();
    let fork = disk.fork();
    kill(&fork, log);
    let other = fork.fork();
    // One branch: two more records. The other: another record, then a fence and a segment.
    let (log, _) = open(&fork).unwrap();
    log.append(&[record(1, 100)], at(1)).unwrap();
    log.append(&[record(2, 100)], at(1)).unwrap();
    let head = fork.read(&dir().join("HEAD")).unwrap();
    let (log, _) = open(&other).unwrap();
    log.append(&[record(3, 100)], at(1)).unwrap();
    let shorter = other.fork();
    let same_length = other.fork();
    same_length.kill_process();
    let (twin, _) = open(&same_length).unwrap();
    twin.append(&[record(5, 100)], at(1)).unwrap();
    kill(&same_length, twin);
    // A batch that needs a segment of its own.
    log.append(&[record(4, 1 << 20)], at(1)).unwrap();
    let courses = [(shorter, "shorter"), (same_length, "as long"), (other, "rotated")];
    for (disk, story) in courses {
        disk.kill_process();
        disk.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
        let error = open(&disk).err().unwrap_or_else(|| panic!("{story}: opened"));
        assert!(error.is_corrupt(), "{story}: {error}");
    }
}

/// A ledger of a newer version is not reported as damaged, and not changed (H63).
#[test]
fn h63_newer_version_is_reported_and_untouched() {
    let (disk, _) = fenced(End::Closed);
    for (path, _) in segments(&disk) {
        for (offset, value) in [(8, 2_u32), (12, 1), (16, 1)] {
            let disk = disk.fork();
            let mut header = disk.read(&path).unwrap()[..4096].to_vec();
            header[offset] = value.to_le_bytes()[0];
            let hash = plan_ledger::internals::format::content_hash(&header[..4060]);
            header[4060..4092].copy_from_slice(&hash);
            let crc = crc32fast::hash(&header[..4092]);
            header[4092..].copy_from_slice(&crc.to_le_bytes());
            disk.overwrite(&path, 0, &header).unwrap();
            let before = log_digest(&disk);
            let error = open(&disk).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("newer"), "{error}");
            assert_eq!(log_digest(&disk), before);
            let seen = survey(&disk);
            if offset == 16 {
                // A flag that excludes writers only.
                assert!(seen.damages.is_empty(), "{seen:?}");
            } else {
                assert!(seen.damages[0].what.contains("newer"), "{seen:?}");
            }
            assert_eq!(reader(&disk).segments().len(), 3);
        }
    }
}

/// Opening repeatedly without writing changes nothing in `log/` (H51).
#[test]
fn h51_repeated_open_changes_no_segment() {
    for end in [End::Closed, End::Killed] {
        let (disk, _) = fenced(end);
        let before: Vec<_> =
            segments(&disk).iter().map(|(path, _)| disk.read(path).unwrap()).collect();
        for round in 0..100 {
            let (log, report) = open(&disk).unwrap();
            assert_eq!(report.verdict, TailVerdict::Clean, "{end:?}, round {round}: {report:?}");
            if round % 2 == 0 { kill(&disk, log) } else { log.close().unwrap() }
        }
        let after: Vec<_> =
            segments(&disk).iter().map(|(path, _)| disk.read(path).unwrap()).collect();
        assert!(before == after, "{end:?}");
    }
}

/// A frame is valid only where it was written and after its predecessor (H18, H24, H47): a copy
/// elsewhere fails its checksums, and a forged one with valid checksums breaks the chain.
#[test]
fn h24_h47_frame_is_valid_only_where_it_was_written() {
    let (disk, records, path) = stale_head_log();
    let header = reader(&disk).segments()[0].header.clone().unwrap();
    let (victim, other) = (&records[3], &records[4]);
    let bytes = disk.read(&path).unwrap();
    let range = |of: &LoggedRecord| {
        let start = usize::try_from(of.offset).unwrap();
        start..start + usize::try_from(of.size).unwrap()
    };
    let here = Placement { segment: header.segment, offset: victim.offset };
    let copy = &bytes[range(other)];
    assert_eq!(CheckedFrame::check(copy, here, 0).err(), Some(FrameFault::HeaderCrc));

    let (mut forged, key) = (Vec::new(), ChainKey::new(&header.genesis));
    let (seq, time) = (victim.seq, victim.time);
    let stamp = Stamp { seq, time, ordinal: 0, inflight: 1, batch_left: 0 };
    encode_frame(&mut forged, &record(99, 1500), stamp, here, &key, &Chain([7; 32]));
    assert_eq!(forged.len(), range(victim).len());
    disk.overwrite(&path, victim.offset, &forged).unwrap();
    let survey = survey(&disk);
    assert!(survey.damages.iter().any(|each| each.first_seq == seq), "{survey:?}");
    assert!(!survey.records.contains_key(&seq), "a forged record is served");
}
