//! Damaged bytes: flipped, zeroed, truncated.

use std::path::Path;

use plan_ledger::internals::sim::{SimDisk, sweep};
use plan_ledger::internals::storage::{Access, Storage as _};
use plan_ledger::log::{Log, TailVerdict};
use plan_ledger::{Error, ErrorKind};

use super::lab::{
    End, Model, Survey, at, dir, fenced, kill, log_digest, open, options, payloads, record,
    segments, survey, whole,
};

/// The rule for any single damage: the reader reports it or serves everything, and never serves
/// anything else; the writer refuses, or continues with all records.
fn judge(disk: &SimDisk, expected: &[Vec<u8>], story: &str) -> Outcome {
    let seen = survey(disk);
    seen.check(expected, story);
    let (error, outcome) = match open(disk) {
        Ok((log, report)) => {
            let read: Result<Vec<_>, Error> = log.reader().unwrap().records(1).collect();
            match read {
                Ok(read) => {
                    let own = payloads(&read);
                    assert!(own.starts_with(expected), "{story}: silent loss: {report:?}");
                    assert!(seen.damages.is_empty(), "{story}: named and then gone: {seen:?}");
                    return Outcome::Harmless;
                }
                Err(error) => (error, Outcome::Named),
            }
        }
        Err(error) => (error, Outcome::Refused),
    };
    assert!(error.is_corrupt(), "{story}: {error}");
    assert!(error.location().path.is_some(), "{story}: no place: {error}");
    assert!(
        !seen.damages.is_empty() || error.kind() != ErrorKind::Corrupt || seen.has_open_end,
        "{story}: the writer says {error}, the reader says nothing"
    );
    outcome
}

/// The result of a damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing depended on the bytes.
    Harmless,
    /// It is in a segment that opening does not read; reading reports it.
    Named,
    /// The writer refused.
    Refused,
}

/// Damage of headers and of the active segment is refused; damage of other segments is reported.
fn expected_outcome(is_active: bool, offset: u64) -> Outcome {
    if is_active || offset < 4096 { Outcome::Refused } else { Outcome::Named }
}

fn flip(disk: &SimDisk, path: &Path, bit: u64) {
    let mut byte = [0];
    let file = disk.open(path, Access::Read).unwrap();
    file.read_at(&mut byte, bit / 8).unwrap();
    disk.overwrite(path, bit / 8, &[byte[0] ^ (1 << (bit % 8))]).unwrap();
}

/// Flip the bits of all segments that `wants` selects, one at a time.
fn flip_segments(end: End, wants: impl Fn(u64) -> bool) {
    let (disk, expected) = fenced(end);
    let mut count = 0;
    let segments = segments(&disk);
    for (place, (path, used)) in segments.iter().enumerate() {
        for bit in (0..used * 8).filter(|bit| wants(*bit)) {
            let disk = disk.fork();
            flip(&disk, path, bit);
            let story = format!("{end:?}: bit {bit} of {}", path.display());
            let outcome = expected_outcome(place + 1 == segments.len(), bit / 8);
            assert_eq!(judge(&disk, &expected, &story), outcome, "{story}");
            count += 1;
        }
    }
    assert!(count > sweep(900, 4000, 4000), "only {count} bits");
}

/// No flipped bit of a segment, active or not, is taken for the end of the log or costs more than
/// its record, and each is reported. In a closed and in a killed log of three segments: a stride of the
/// bits of frames and header fields, and every 1,001st reserved byte (unit tests of the format flip
/// every bit of a frame and of a header).
#[test]
fn sweep_flipped_bit_in_segment_is_detected() {
    let stride: u64 = sweep(43, 11, 1);
    for end in [End::Closed, End::Killed] {
        flip_segments(end, |bit| {
            let is_reserved = stride > 1 && (208 * 8..4060 * 8).contains(&bit);
            bit % if is_reserved { 1001 } else { stride } == 3 % stride
        });
    }
}

/// A writer that refuses has changed nothing: one bit in the header and in the data of each
/// segment, and all files compared.
#[test]
fn refused_open_changes_nothing() {
    let (disk, _) = fenced(End::Killed);
    disk.create(&dir().join("log/00000000000000000099-00000099.seg.tmp")).unwrap();
    for (path, used) in segments(&disk) {
        for byte in [40, used - 70] {
            let disk = disk.fork();
            flip(&disk, &path, byte * 8);
            let before = log_digest(&disk);
            if open(&disk).is_err() {
                assert_eq!(log_digest(&disk), before, "byte {byte} of {}", path.display());
            }
        }
    }
}

/// No flipped bit of HEAD costs a record: the other copies of the slot count. The same bit of all copies loses the slot:
/// after a clean close the other slot proves the end, and the ledger opens; after a crash the lost slot may have named a
/// later end, so opening is refused. Every third bit of the fields of both slots, and every 1,001st other bit.
#[test]
fn flipped_bit_in_head_costs_no_record() {
    for end in [End::Closed, End::Killed] {
        let (disk, expected) = fenced(end);
        let path = dir().join("HEAD");
        let is_field = |bit: u64| bit / 8 % 4096 < 136;
        for bit in (0..8192 * 8).filter(|bit| bit % if is_field(*bit) { 3 } else { 1001 } == 1) {
            let one = disk.fork();
            flip(&one, &path, bit);
            let story = format!("{end:?}: bit {bit} of HEAD");
            assert_eq!(judge(&one, &expected, &story), Outcome::Harmless, "{story}");
            if is_field(bit) {
                let all = disk.fork();
                (0..8).for_each(|copy| flip(&all, &path, bit + copy * 512 * 8));
                assert_eq!(judge(&all, &expected, &story), lost_slot(end), "{story}, all copies");
            }
        }
    }
}

/// The outcome when one slot of HEAD is lost.
fn lost_slot(end: End) -> Outcome {
    match end {
        End::Closed => Outcome::Harmless,
        End::Killed => Outcome::Refused,
    }
}

/// A zeroed sector among acknowledged bytes is not taken for the end (H10): every 512-byte sector
/// of every file that is not already zero.
#[test]
fn zeroed_sector_is_detected() {
    for end in [End::Closed, End::Killed] {
        let (disk, expected) = fenced(end);
        let segments = segments(&disk);
        for (place, (path, used)) in segments.iter().enumerate() {
            for sector in 0..used.div_ceil(512) {
                let disk = disk.fork();
                let from = usize::try_from(sector * 512).unwrap();
                let is_zero = disk.read(path).unwrap()[from..from + 512] == [0; 512];
                disk.overwrite(path, sector * 512, &[0; 512]).unwrap();
                let story = format!("{end:?}: sector {sector} of {}", path.display());
                let outcome = if is_zero {
                    Outcome::Harmless
                } else {
                    expected_outcome(place + 1 == segments.len(), sector * 512)
                };
                assert_eq!(judge(&disk, &expected, &story), outcome, "{story}");
            }
        }
        for sector in 0..16 {
            let disk = disk.fork();
            disk.overwrite(&dir().join("HEAD"), sector * 512, &[0; 512]).unwrap();
            let story = format!("{end:?}: sector {sector} of HEAD");
            assert_eq!(judge(&disk, &expected, &story), Outcome::Harmless, "{story}");
        }
        for slot in [0, 4096] {
            let disk = disk.fork();
            disk.overwrite(&dir().join("HEAD"), slot, &[0; 4096]).unwrap();
            let story = format!("{end:?}: slot at {slot} of HEAD");
            assert_eq!(judge(&disk, &expected, &story), lost_slot(end), "{story}");
        }
    }
}

/// A segment that is too short or too long is never opened for writing, and its remaining records
/// are served. Segments are truncated to a stride of lengths up to their used range, and to lengths
/// around their size. (A superseded file may have any length that includes all its records.)
#[test]
fn sweep_truncation_is_always_detected() {
    for end in [End::Closed, End::Killed] {
        let (disk, expected) = fenced(end);
        let segments = segments(&disk);
        for (place, (path, used)) in segments.iter().enumerate() {
            let size = u64::try_from(disk.read(path).unwrap().len()).unwrap();
            let odd = [used + 1, used + 4096, size - 1, size + 1, size + 4096, size * 2];
            let header = (0..4096).step_by(sweep(1201, 409, 1));
            for length in header.chain((4096..*used).step_by(sweep(37, 5, 1))).chain(odd) {
                let disk = disk.fork();
                disk.set_length(path, length).unwrap();
                let story = format!("{end:?}: {} cut to {length}", path.display());
                let is_refused = place + 1 == segments.len() || length < *used;
                let outcome = if is_refused { Outcome::Refused } else { Outcome::Harmless };
                assert_eq!(judge(&disk, &expected, &story), outcome, "{story}");
            }
        }
    }
}

/// The refusal of a newest segment with another length blames the file, not its records.
#[test]
fn refused_length_blames_the_file() {
    let (disk, _) = fenced(End::Killed);
    let (path, _) = segments(&disk).pop().unwrap();
    let size = u64::try_from(disk.read(&path).unwrap().len()).unwrap();
    disk.set_length(&path, size - 1).unwrap();
    let error = open(&disk).unwrap_err().to_string();
    assert!(error.contains("is not the one that the log created"), "{error}");
    assert!(
        error.contains(&format!("expected a file of {size} bytes, found {}", size - 1)),
        "{error}"
    );
}

/// Damage in the middle costs exactly one record: all others are served, and the range is reported
/// to the byte.
#[test]
fn damage_costs_one_record_and_is_located_exactly() {
    let (disk, _) = fenced(End::Closed);
    let records = whole(&open(&disk.fork()).unwrap().0.reader().unwrap());
    for hit in &records {
        let disk = disk.fork();
        let path = segments(&disk)[usize::try_from(hit.segment).unwrap()].0.clone();
        flip(&disk, &path, (hit.offset + 50) * 8);
        let seen = survey(&disk);
        let [damage] = &seen.damages[..] else { panic!("{seen:?}") };
        assert_eq!((damage.first_seq, damage.last_seq), (hit.seq, hit.seq));
        assert_eq!((&damage.path, damage.offset), (&path, hit.offset));
        assert_eq!(damage.end, hit.offset + hit.size);
        assert_eq!(seen.records.len(), records.len() - 1);
    }
}

/// The same over a rotation and with large records, which are read in windows: one bit of every
/// 20,011th byte of two rotated segments.
#[test]
fn flipped_bit_in_rotated_log_is_detected() {
    let disk = SimDisk::new();
    let log = plan_ledger::log::Log::create(&dir(), super::lab::options(&disk), at(0)).unwrap();
    let mut expected = Vec::new();
    for number in 0..9 {
        let record = record(number, 150_000);
        expected.push(record.payload.clone());
        log.append(&[record], at(number)).unwrap();
    }
    log.close().unwrap();
    for (path, used) in segments(&disk) {
        for byte in (4096..used).step_by(20_011) {
            let disk = disk.fork();
            flip(&disk, &path, byte * 8 + byte % 8);
            let story = format!("byte {byte} of {}", path.display());
            assert_ne!(judge(&disk, &expected, &story), Outcome::Harmless, "{story}");
            let Survey { damages, records, .. } = survey(&disk);
            assert_eq!((damages.len(), records.len()), (1, 8), "{story}: {damages:?}");
        }
    }
}

/// Zeros at the end prove that a write did not arrive only where a complete frame is never zero: in its last 8 bytes, and
/// after its first 64. One byte less proves nothing, and a person is asked.
#[test]
fn zeros_prove_a_torn_write_only_where_no_frame_has_them() {
    let (pristine, mut model) = (SimDisk::new(), Model::default());
    let log = Log::create(&dir(), options(&pristine), at(0)).unwrap();
    model.is_created = true;
    model.append(&log, &[record(1, 100)], 1).unwrap();
    let head = pristine.read(&dir().join("HEAD")).unwrap();
    model.append(&log, &[record(2, 300)], 2).unwrap();
    kill(&pristine, log);
    let last = survey(&pristine).records.values().next_back().unwrap().clone();
    let (path, _) = segments(&pristine).pop().unwrap();
    // No slot proves the last record.
    pristine.overwrite(&dir().join("HEAD"), 0, &head).unwrap();
    let opened = |spoil: &dyn Fn(&SimDisk)| {
        let disk = pristine.fork();
        spoil(&disk);
        open(&disk).map(|(_, report)| report.verdict).map_err(|error| error.kind())
    };
    let zero = |disk: &SimDisk, from: u64| {
        let count = usize::try_from(last.offset + last.size - from).unwrap();
        disk.overwrite(&path, from, &vec![0; count]).unwrap();
    };
    let end = last.offset + last.size;
    assert_eq!(opened(&|_| ()), Ok(TailVerdict::Unacknowledged));
    for (zeros, expected) in
        [(8, Ok(TailVerdict::Torn)), (7, Err(ErrorKind::Ambiguous)), (1, Err(ErrorKind::Ambiguous))]
    {
        let spoil = |disk: &SimDisk| {
            zero(disk, end - 8);
            disk.overwrite(&path, end - 8, &vec![0x5A; 8 - zeros]).unwrap();
        };
        assert_eq!(opened(&spoil), expected, "the last {zeros} bytes are zero");
    }
    for (kept, expected) in [(64, Ok(TailVerdict::Torn)), (65, Err(ErrorKind::Ambiguous))] {
        let spoil = |disk: &SimDisk| {
            zero(disk, last.offset + 1);
            disk.overwrite(&path, last.offset + 1, &vec![0x5A; kept - 1]).unwrap();
        };
        assert_eq!(opened(&spoil), expected, "{kept} bytes of garbage");
    }
}
