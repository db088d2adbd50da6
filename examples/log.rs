//! Opens a log, or creates one; appends a batch, reads everything, and verifies it.
#![expect(clippy::print_stdout, reason = "the example prints what it finds")]

use std::path::Path;

use plan_ledger::Result;
use plan_ledger::log::{Log, LogOptions, NewRecord, VerifyOptions, verify, wall_clock};

pub(crate) fn main() -> Result<()> {
    run(&std::env::temp_dir().join("orders.log"))
}

pub(crate) fn run(dir: &Path) -> Result<()> {
    let options = LogOptions::system();
    let (log, report) = Log::open_or_create(dir, options.clone(), wall_clock())?;
    if let Some(report) = report {
        println!("{}; cut off: {:?}", report.verdict.word(), report.discarded);
    }
    let batch = [NewRecord::new(1, "order 7"), NewRecord::new(2, "its payment")];
    println!("durable: record {}", log.append(&batch, wall_clock())?.seq);
    for record in log.reader()?.records(1) {
        let record = record?;
        println!("{} {:#06x} {}", record.seq, record.kind, record.payload.escape_ascii());
    }
    log.close()?;
    let found = verify(&options.storage, dir, VerifyOptions::DEFAULT)?;
    println!("{} records, damaged: {}", found.counts.records, found.is_damaged());
    Ok(())
}
