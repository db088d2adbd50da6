//! Appending, rotating, reopening, reading: nothing goes wrong.

use plan_ledger::log::{Log, Verdict};
use plan_ledger::sim::SimDisk;

use super::lab::{at, dir, open, options, payloads, record, whole};

/// Goal: what is appended is what is read, over rotations and reopenings.
#[test]
fn what_is_appended_is_what_is_read() {
    let disk = SimDisk::new();
    let mut log = Log::create(&dir(), options(&disk), at(0)).unwrap();
    let mut expected = Vec::new();
    for round in 0..40 {
        let size = if round % 3 == 0 { 90_000 } else { 100 };
        let batch: Vec<_> = (0..=round % 4).map(|part| record(round * 10 + part, size)).collect();
        log.append(&batch, at(round)).unwrap();
        expected.extend(batch.into_iter().map(|record| record.payload));
        if round % 7 == 6 {
            log.close().unwrap();
            let (again, report) = open(&disk).unwrap();
            assert_eq!(report.verdict, Verdict::Clean, "{report:?}");
            log = again;
        }
    }
    let reader = log.reader().unwrap();
    assert!(reader.segments().len() > 2);
    assert_eq!(payloads(&whole(&reader)), expected);
}
