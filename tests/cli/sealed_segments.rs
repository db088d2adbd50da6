//! Sealed segments: index, footer, replica of the header.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plan_ledger::internals::format::{
    FOOTER_SIZE, Footer, INDEX_HEADER_SIZE, Index, IndexBuilder, SEGMENT_HEADER_SIZE,
    SegmentReason, content_hash, index_crc, is_sealed_length,
};
use plan_ledger::internals::sim::{Fault, FaultEffect, Loss, SimDisk};
use plan_ledger::internals::storage::{Access, DiskStorage, Storage as _};
use plan_ledger::log::{
    Diagnosis, Log, LogItem, LogOptions, StreamRule, TailVerdict, opening_verdict,
};
use plan_ledger::{ErrorKind, HeadSync};

use super::golden::sealed_field;
use super::lab::{
    Model, Restart, at, dir, kill, log_files, open, options, options_with, payloads, reader,
    record, settle, survey, whole,
};

/// Every record belongs to a stream, given by its first byte, or to none.
pub(crate) const STREAMS: StreamRule =
    StreamRule { id: 7, stream_of: |record| stream_of(record.payload) };

pub(crate) fn stream_of(payload: &[u8]) -> Option<u64> {
    payload.first().map(|byte| u64::from(byte / 4))
}

pub(crate) fn with_streams(disk: &SimDisk) -> LogOptions {
    LogOptions { stream_rule: STREAMS, ..options(disk) }
}

/// A log of two segments, the first small and sealed, and its payloads.
pub(crate) fn rotated() -> (SimDisk, Vec<Vec<u8>>) {
    let (disk, mut model) = (SimDisk::new(), Model::default());
    let log = Log::create(&dir(), with_streams(&disk), at(0)).unwrap();
    rotate(&log, &mut model);
    log.close().unwrap();
    (disk, model.batches.concat())
}

fn rotate(log: &Log, model: &mut Model) {
    let sizes = [10, 700, 9000, 15_000, 3];
    for (number, size) in (0..).zip(sizes) {
        model.append(log, &[record(number, size), record(number + 50, 20)], number).unwrap();
    }
    // More than fits into the first segment.
    model.append(log, &[record(90, (1 << 20) - 40_000)], 9).unwrap();
    model.append(log, &[record(91, 50_000)], 9).unwrap();
    model.append(log, &[record(92, 5)], 9).unwrap();
}

fn first_segment(disk: &SimDisk) -> PathBuf {
    log_files(disk).remove(0).0
}

/// The footer and the index of a sealed file.
fn decode(bytes: &[u8]) -> (Footer, Index) {
    let offset = bytes.len() - FOOTER_SIZE;
    let footer = Footer::decode(&bytes[offset..], u64::try_from(offset).unwrap()).unwrap();
    let start = usize::try_from(footer.data_end).unwrap();
    let index = Index::decode(bytes[start..offset].to_vec(), &footer).unwrap();
    (footer, index)
}

fn flip(disk: &SimDisk, path: &Path, bit: u64) {
    let mut byte = [0];
    disk.open(path, Access::Read).unwrap().read_at(&mut byte, bit / 8).unwrap();
    disk.overwrite(path, bit / 8, &[byte[0] ^ (1 << (bit % 8))]).unwrap();
}

/// A rotation leaves a sealed, read-only predecessor with correct entries for every record.
#[test]
fn rotation_seals_the_predecessor() {
    let (disk, _) = rotated();
    let reader = reader(&disk);
    let records = whole(&reader);
    let [(first, _), (second, length)] = &log_files(&disk)[..] else { panic!("two segments") };
    let bytes = disk.read(first).unwrap();
    let (footer, index) = decode(&bytes);
    let headers: Vec<_> = reader.segments().into_iter().map(|each| each.header.unwrap()).collect();
    let own: Vec<_> = records.iter().filter(|record| record.segment == 0).collect();
    let last = own.last().unwrap();

    assert_eq!(footer.header().as_ref(), Ok(&headers[0]));
    assert_eq!((footer.last_seq, footer.chain_last), (last.seq, last.chain));
    assert_eq!((footer.time_first, footer.time_last), (own[0].time, last.time));
    assert_eq!(footer.stream_rule, 7);
    // The bytes are where the spec says.
    let raw = &bytes[bytes.len() - FOOTER_SIZE..];
    let number = |name| u64::from_le_bytes(sealed_field(raw, name).try_into().unwrap());
    assert_eq!(sealed_field(raw, "segment_uid"), headers[0].segment);
    assert_eq!(sealed_field(raw, "header_replica"), &bytes[..208]);
    assert_eq!(sealed_field(raw, "chain_last"), last.chain.0);
    assert_eq!(sealed_field(raw, "data_hash"), footer.data_hash);
    assert_eq!((number("first_seq"), number("last_seq")), (1, last.seq));
    assert_eq!((number("count"), number("data_end")), (last.seq, last.offset + last.size));
    assert_eq!(number("index_offset"), footer.data_end);
    assert_eq!(number("index_length"), footer.index_length);
    assert_eq!((number("time_first"), number("time_last")), (own[0].time, last.time));
    let start = usize::try_from(footer.data_end).unwrap();
    let raw = &bytes[start..start + INDEX_HEADER_SIZE];
    let seeks = u32::from_le_bytes(sealed_field(raw, "seek_count").try_into().unwrap());
    assert_eq!(usize::try_from(seeks).unwrap(), index.seeks().count());
    assert_eq!(sealed_field(raw, "posting_count"), 22_u32.to_le_bytes());
    let data = &bytes[SEGMENT_HEADER_SIZE..usize::try_from(footer.data_end).unwrap()];
    assert_eq!(footer.data_hash, content_hash(data));
    assert!(is_sealed_length(footer.file_length(), headers[0].prealloc_len));
    let places: Vec<_> = own.iter().map(|record| record.offset).collect();
    assert!(index.of_kind(1).eq(places.iter().copied()) && index.of_kind(2).count() == 0);
    for stream in 0..64 {
        let of = own.iter().filter(|record| stream_of(&record.payload) == Some(stream));
        assert!(index.of_stream(stream).eq(of.map(|record| record.offset)), "stream {stream}");
    }
    for seek in index.seeks() {
        assert!(own.iter().any(|each| (each.seq, each.offset) == (seek.seq, seek.offset)));
    }
    assert!(index.seeks().count() > 1);
    // The newest one is not sealed.
    assert_eq!(u64::try_from(*length).unwrap(), headers[1].prealloc_len, "{}", second.display());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("real.ledger");
    let options = options_with(Arc::new(DiskStorage), 1, HeadSync::Interval);
    let log = Log::create(&path, options, at(0)).unwrap();
    rotate(&log, &mut Model::default());
    let summary = log.reader().unwrap().segments();
    let is_read_only =
        |place: usize| std::fs::metadata(&summary[place].path).unwrap().permissions().readonly();
    assert!(is_read_only(0) && !is_read_only(1));
}

/// Index and footer that were encoded from the spec alone, in another language, are accepted: for
/// four records, and for none.
#[test]
fn independently_encoded_footers_are_accepted() {
    let corpus =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("fuzz/corpus/structure");
    for (name, last_seq, places) in [("whole", 4, vec![4096, 20_608]), ("no_records", 0, vec![])] {
        // The first byte selects the target of the fuzzer.
        let bytes = std::fs::read(corpus.join(format!("footer_{name}"))).unwrap()[1..].to_vec();
        let (index, bytes) = bytes.split_last_chunk::<FOOTER_SIZE>().unwrap();
        let number = |name| u64::from_le_bytes(sealed_field(bytes, name).try_into().unwrap());
        let footer =
            Footer::decode(bytes, number("index_offset") + number("index_length")).unwrap();
        assert_eq!(footer.last_seq, last_seq);
        let index = Index::decode(index.to_vec(), &footer).unwrap();
        assert!(index.of_kind(1).eq(places.iter().copied()) && index.of_stream(3).eq(places));
    }
}

/// A crash anywhere in a rotation or in sealing costs nothing: the log opens, seals the same bytes
/// once, and opening again changes nothing. The machine stops before every operation of the last
/// rotation; the process ends, or the power fails with some, all or none of the unsynced data lost.
#[test]
fn crash_during_sealing_is_repaired() {
    let make = |crash: u64| {
        let (disk, mut model) = (SimDisk::new(), Model::default());
        let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
        model.is_created = true;
        model.append(&log, &[record(1, 30_000), record(2, 10)], 1).unwrap();
        let before = disk.calls();
        disk.crash_at(if crash == 0 { u64::MAX } else { before + crash });
        let rotated = model.append(&log, &[record(3, 1 << 20)], 2);
        (disk, model, log, before, rotated.is_ok())
    };
    let (calm, _, log, before, _) = make(0);
    let calls = calm.calls() - before;
    drop(log);
    let expected = calm.read(&first_segment(&calm)).unwrap();
    decode(&expected);
    let (mut sealed_by_open, mut never) = (0, 0);
    for crash in 1..=calls {
        let power = [Loss::Everything, Loss::Nothing, Loss::Some(crash), Loss::Some(crash + 99)];
        for restart in power.map(Restart::Power).into_iter().chain([Restart::Process]) {
            let (disk, model, log, ..) = make(crash);
            drop(log);
            let disk = restart.of(&disk);
            let story = format!("crash before call {crash} of {calls}, {restart:?}");
            let was_sealed = disk.read(&first_segment(&disk)).unwrap() == expected;
            let (log, report) = Log::open(&dir(), options(&disk), at(1000)).unwrap();
            let segments = log.reader().unwrap().segments();
            let seen = survey(&disk);
            assert!(seen.damages.is_empty() && seen.derived.is_empty(), "{story}: {seen:?}");
            model.check(&payloads(&whole(&log.reader().unwrap())), &format!("{story}: {report:?}"));
            match segments.get(1).map(|next| next.header.as_ref().unwrap().reason) {
                Some(SegmentReason::Rotate) => {
                    assert!(disk.read(&first_segment(&disk)).unwrap() == expected, "{story}");
                    sealed_by_open += usize::from(!was_sealed);
                }
                _ => never += 1,
            }
            kill(&disk, log);
            let files: Vec<_> =
                log_files(&disk).iter().map(|(path, _)| disk.read(path).unwrap()).collect();
            kill(&disk, open(&disk).unwrap().0);
            for ((path, _), before) in log_files(&disk).iter().zip(&files) {
                assert!(disk.read(path).unwrap() == *before, "{story}: opening again wrote");
            }
            settle(&disk, &model, &story);
        }
    }
    assert!(sealed_by_open > 10 && never > 10, "{sealed_by_open} sealed, {never} never");
}

/// A failure to seal is not a failure of the log: the append is acknowledged, and the next opening
/// seals. Each operation of sealing fails once, with and without effect.
#[test]
fn failed_sealing_is_repeated_at_open() {
    let make = |fault: Option<Fault>| {
        let disk = SimDisk::new();
        let log = Log::create(&dir(), with_streams(&disk), at(0)).unwrap();
        log.append(&[record(1, 30_000)], at(1)).unwrap();
        if let Some(fault) = fault {
            disk.fail_at(fault);
        }
        let before = disk.calls();
        let result = log.append(&[record(3, 1 << 20)], at(2));
        (disk.clone(), disk.calls() - before, before, log, result)
    };
    let (calm, calls, before, ..) = make(None);
    let expected = calm.read(&first_segment(&calm)).unwrap();
    let mut unsealed = 0;
    for call in before + 1..=before + calls {
        for effect in [FaultEffect::Nothing, FaultEffect::Part(call), FaultEffect::Everything] {
            let fault = Fault { call, kind: std::io::ErrorKind::Other, effect };
            let (disk, _, _, log, result) = make(Some(fault));
            if result.is_err() {
                continue;
            }
            unsealed += usize::from(disk.read(&first_segment(&disk)).unwrap() != expected);
            assert_eq!(whole(&log.reader().unwrap()).len(), 2, "{fault:?}");
            log.close().unwrap();
            let (log, report) = Log::open(&dir(), with_streams(&disk), at(9)).unwrap();
            assert_eq!(report.verdict, TailVerdict::Clean, "{fault:?}");
            assert!(disk.read(&first_segment(&disk)).unwrap() == expected, "{fault:?}");
            assert_eq!(whole(&log.reader().unwrap()).len(), 2, "{fault:?}");
        }
    }
    assert!(unsealed > 10, "{unsealed}");
}

/// Every flipped bit of an index or footer is detected and located, costs no record and excludes no
/// writer. Every bit, but of the footer's reserved bytes only every 101st (unit tests of the format
/// flip all).
#[test]
fn flipped_bit_in_index_or_footer_costs_no_record() {
    let (disk, expected) = rotated();
    let path = first_segment(&disk);
    let (footer, _) = decode(&disk.read(&path).unwrap());
    let (start, middle, end) = (footer.data_end, footer.offset(), footer.file_length());
    let is_reserved = |byte: u64| (middle + 368..end - 4).contains(&byte);
    for bit in (start * 8..end * 8).filter(|bit| !is_reserved(bit / 8) || bit % 101 == 0) {
        let disk = disk.fork();
        flip(&disk, &path, bit);
        let seen = survey(&disk);
        seen.check(&expected, &format!("bit {bit}"));
        let [derived] = &seen.derived[..] else { panic!("bit {bit}: {seen:?} {:?}", seen.derived) };
        let range = if bit / 8 < middle { (start, middle) } else { (middle, end) };
        assert_eq!((&derived.path, (derived.offset, derived.end)), (&path, range), "bit {bit}");
        assert!(seen.damages.is_empty() && seen.records.len() == expected.len(), "bit {bit}");
        if bit % 64 == 5 {
            let (log, report) = open(&disk).unwrap();
            assert_eq!(report.verdict, TailVerdict::Clean);
            assert_eq!(log.reader().unwrap().records(1).filter_map(Result::ok).count(), 13);
        }
    }
}

/// A false number and offset for a record in an index.
type Lie = fn(u64, u64) -> (u64, u64);

/// An index is a hint: a valid one that names offsets of other records, or of none, costs no
/// record.
#[test]
fn wrong_index_costs_no_record() {
    let (disk, _) = rotated();
    let path = first_segment(&disk);
    let bytes = disk.read(&path).unwrap();
    let (footer, index) = decode(&bytes);
    let header = footer.header().unwrap();
    let all = whole(&reader(&disk));
    let own = || all.iter().filter(|record| record.segment == 0);
    // False entries for the first record would break the format.
    let lies: [Lie; 3] = [
        |seq, offset| (if seq == 1 { 1 } else { seq + 1 }, offset),
        |seq, offset| (seq, if seq == 1 { offset } else { offset + 64 }),
        |seq, offset| ((seq - 1).max(1), offset),
    ];
    for lie in lies {
        let mut builder = IndexBuilder::default();
        for record in own() {
            let (seq, offset) = lie(record.seq, record.offset);
            builder.push(seq, offset, record.kind, stream_of(&record.payload));
        }
        let forged = builder.finish(footer.data_end).unwrap();
        assert_eq!(u64::try_from(forged.len()).unwrap(), footer.index_length);
        let index_crc = index_crc(header.segment, footer.data_end, &forged);
        let footer = Footer { index_crc, ..footer.clone() };
        let disk = disk.fork();
        disk.overwrite(&path, footer.data_end, &forged).unwrap();
        disk.overwrite(&path, footer.offset(), &footer.encode(&header)).unwrap();
        let (_, read) = decode(&disk.read(&path).unwrap());
        assert!(!read.seeks().eq(index.seeks()), "the lie is in the file");
        for from in 1..=u64::try_from(all.len()).unwrap() {
            let read: Vec<_> = reader(&disk).records(from).map(Result::unwrap).collect();
            assert!(read.iter().eq(all.iter().filter(|record| record.seq >= from)), "from {from}");
        }
    }
}

/// A truncated sealed file serves what is left, and the rest is reported. At every 64 bytes of the
/// index and the footer, and of the data at larger steps. (A length that is a multiple of a page
/// and not below the preallocated one means *not sealed*.)
#[test]
fn truncated_sealed_file_serves_the_rest() {
    let (disk, expected) = rotated();
    let path = first_segment(&disk);
    let (footer, _) = decode(&disk.read(&path).unwrap());
    let data = (0..footer.data_end).step_by(64 * 41).chain([footer.data_end - 64]);
    for length in data.chain((footer.data_end..footer.file_length()).step_by(64)) {
        let disk = disk.fork();
        disk.set_length(&path, length).unwrap();
        let (seen, story) = (survey(&disk), format!("cut to {length}"));
        seen.check(&expected, &story);
        let is_unsealed = !is_sealed_length(length, 1 << 20);
        if length >= footer.data_end {
            assert!(seen.damages.is_empty() && seen.records.len() == 13, "{story}: {seen:?}");
            assert_eq!(seen.derived.is_empty(), is_unsealed, "{story}");
            kill(&disk, open(&disk).unwrap().0);
            assert_eq!(survey(&disk).derived.is_empty(), is_unsealed, "{story}: touched");
        } else {
            assert!(!seen.damages.is_empty(), "{story}");
            let error = open(&disk).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{story}: {error}");
        }
    }
}

/// A damaged header of a sealed segment costs no record, because its footer has a copy; it is still
/// reported, and the writer refuses. Every 7th bit of its fields, and every 1,001st reserved bit.
#[test]
fn damaged_header_is_read_from_footer() {
    let (disk, expected) = rotated();
    let path = first_segment(&disk);
    let is_field = |byte: u64| !(208..4060).contains(&byte);
    for bit in (0..4096 * 8).filter(|bit| bit % if is_field(bit / 8) { 7 } else { 1001 } == 0) {
        let disk = disk.fork();
        flip(&disk, &path, bit);
        let seen = survey(&disk);
        seen.check(&expected, &format!("bit {bit}"));
        let [damage] = &seen.damages[..] else { panic!("bit {bit}: {seen:?}") };
        assert_eq!((&damage.path, damage.offset, damage.end), (&path, 0, 4096), "bit {bit}");
        assert_eq!(seen.records.len(), expected.len(), "bit {bit}: {seen:?}");
        let error = open(&disk).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "bit {bit}: {error}");
        assert!(reader(&disk).segments()[0].header.is_err());
    }
}

/// A sealed segment without a successor proves that a file is missing (row 2a), even if HEAD was
/// restored from a copy too.
#[test]
fn sealed_segment_without_successor_is_missing_file() {
    let (disk, _) = rotated();
    let lost = log_files(&disk).remove(1).0;
    let head = dir().join("HEAD");
    let old = {
        let disk = SimDisk::new();
        let log = Log::create(&dir(), with_streams(&disk), at(0)).unwrap();
        kill(&disk, log);
        disk.read(&head).unwrap()
    };
    disk.remove(&lost).unwrap();
    for is_put_back in [false, true] {
        if is_put_back {
            disk.overwrite(&head, 0, &old).unwrap();
        }
        let error = open(&disk).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("its successor is missing"), "{error}");
        assert_eq!(Diagnosis::of(&disk, &dir()).unwrap().row.label, "2a");
        let refused = opening_verdict(&disk, &dir()).unwrap_err();
        assert_eq!(refused.to_string(), error.to_string());
        let seen = survey(&disk);
        assert!(seen.damages.iter().any(|damage| damage.what.contains("missing")), "{seen:?}");
        assert_eq!(seen.records.len(), 11, "{seen:?}");
    }
}

/// A newest segment with a damaged header is reported as damaged, and no other segment as missing:
/// the seal of its predecessor proves that it exists.
#[test]
fn damaged_newest_header_reports_no_other_segment_missing() {
    let (disk, _) = rotated();
    let newest = log_files(&disk).pop().unwrap().0;
    flip(&disk, &newest, 100 * 8);
    let seen = survey(&disk);
    let said: Vec<_> = seen.damages.iter().map(|damage| damage.what.as_str()).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("segment header checksum mismatch; "), "{said:?}");
    assert_eq!(open(&disk).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// A damaged segment is never sealed, because a footer would declare it intact.
#[test]
fn damaged_segment_is_never_sealed() {
    let disk = SimDisk::new();
    let log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    log.append(&[record(1, 30_000)], at(1)).unwrap();
    log.append(&[record(2, 10)], at(1)).unwrap();
    let (calm, before) = (disk.fork(), disk.calls());
    kill(&calm, log);
    let (log, _) = open(&calm).unwrap();
    log.append(&[record(3, 1 << 20)], at(2)).unwrap();
    kill(&calm, log);
    // The file before sealing, with a flipped bit.
    let (path, sealed) = (first_segment(&calm), calm.read(&first_segment(&calm)).unwrap());
    let (footer, _) = decode(&sealed);
    calm.set_length(&path, footer.data_end).unwrap();
    calm.set_length(&path, 1 << 20).unwrap();
    flip(&calm, &path, 4096 * 8 + 999);
    let damaged = calm.read(&path).unwrap();
    drop(open(&calm).unwrap());
    assert!(calm.read(&path).unwrap() == damaged && before > 0);
    assert_eq!(survey(&calm).damages.len(), 1);
}

/// Segments before a fence are never touched.
#[test]
fn fenced_segments_stay_unsealed() {
    let (disk, expected) = super::lab::fenced(super::lab::End::Killed);
    let before: Vec<_> =
        log_files(&disk).iter().map(|(path, _)| disk.read(path).unwrap()).collect();
    for _ in 0..2 {
        kill(&disk, open(&disk).unwrap().0);
    }
    for ((path, _), before) in log_files(&disk).iter().zip(&before) {
        assert!(disk.read(path).unwrap() == *before, "{}", path.display());
    }
    for item in reader(&disk).walk(1) {
        assert!(matches!(item.unwrap(), LogItem::Record(..)));
    }
    assert_eq!(payloads(&whole(&reader(&disk))), expected);
}
