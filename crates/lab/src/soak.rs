//! A soak test: one ledger with a long history, crashed again and again while a reader is open.
//!
//! Invariants:
//! - The seed determines every operation and every crash.
//! - After every crash, a copy of the disk is examined. The history continues from the recovered
//!   records.

use std::collections::VecDeque;
use std::sync::Arc;

use plan_ledger::internals::sim::{InjectedFault, Loss, Random, SimDisk, dir};
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::LogReader;

use super::case::FailingCase;
use super::model::Violation;
use super::op::Op;
use super::oracle::{Ambiguity, Depth, examine};
use super::restart::Restart;
use super::trial::{DiskFaults, Trial, read_all};

/// A log with more records is pruned.
const RECORDS_MAX: usize = 48;
/// One in this number of operations is crashed.
const CRASH_EVERY: u64 = 8;
/// A crash happens within this number of calls.
const CRASH_CALLS_MAX: u64 = 60;

/// The maximum number of events in the report of a violation.
const EVENTS_MAX: usize = 24;

/// The counts of a soak test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SoakReport {
    /// Operations.
    pub ops: u64,
    /// Crashes of operations and of recoveries.
    pub crashes: u64,
    /// The last acknowledged record.
    pub records: u64,
    /// Reads by a reader that was opened before the operation.
    pub reads: u64,
}

/// Run a number of operations; `watch` is called after each.
///
/// # Errors
/// The first violation, with the seed and the number of the operation.
pub fn soak(
    ops: u64,
    seed: u64,
    watch: &mut dyn FnMut(&SoakReport),
) -> Result<SoakReport, FailingCase> {
    let mut history = History {
        trial: Trial::new(SimDisk::new(), DiskFaults::None),
        random: Random(seed),
        reader: None,
        report: SoakReport::default(),
        events: VecDeque::new(),
    };
    let result = history.run(ops, watch);
    let mut events: Vec<String> = history.events.into();
    events.extend(history.trial.disk.injected().iter().map(InjectedFault::to_string));
    result.map_err(|violation| FailingCase {
        case: format!("seed {seed}, operation {}", history.report.ops),
        replay: format!("lab endure --ops {} --seed {seed}", history.report.ops),
        violation,
        history: events,
    })?;
    Ok(history.report)
}

struct History {
    trial: Trial,
    random: Random,
    /// A reader that was opened before the current operation.
    reader: Option<LogReader>,
    report: SoakReport,
    /// The last events.
    events: VecDeque<String>,
}

impl History {
    fn run(&mut self, ops: u64, watch: &mut dyn FnMut(&SoakReport)) -> Result<(), Violation> {
        self.trial.create()?;
        while self.report.ops < ops {
            self.report.ops += 1;
            let op = self.next_op();
            let last = self.report.records;
            self.note(|report| format!("operation {}, after record {last}: {op}", report.ops));
            if self.random.below(CRASH_EVERY) == 0 {
                self.plan_crash();
            }
            self.trial.run(op)?;
            self.read_on()?;
            while self.trial.disk.is_down() {
                self.recover()?;
            }
            // Cancel a crash that was planned after the end of the operation.
            self.trial.disk.crash_at(u64::MAX);
            self.trial.models.clear();
            self.report.records = self.trial.model.last_acked();
            watch(&self.report);
        }
        Ok(())
    }

    fn note(&mut self, line: impl FnOnce(&SoakReport) -> String) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(line(&self.report));
    }

    fn plan_crash(&mut self) {
        let call = self.trial.disk.calls() + 1 + self.random.below(CRASH_CALLS_MAX);
        self.trial.disk.crash_at(call);
    }

    fn next_op(&mut self) -> Op {
        if self.trial.model.acked.len() > RECORDS_MAX {
            return Op::Prune;
        }
        let [low, ..] = self.random.below(8).to_le_bytes();
        Op::ALL.get(usize::from(low)).copied().unwrap_or(Op::Append)
    }

    /// Recover from a crash: examine a copy of the disk, then continue. The recovery may crash as well.
    fn recover(&mut self) -> Result<(), Violation> {
        self.report.crashes += 1;
        self.reader = None;
        let restart = match self.random.below(5) {
            0 => Restart::Process,
            1 => Restart::Power(Loss::Everything),
            2 => Restart::Power(Loss::Nothing),
            _ => Restart::Power(Loss::Some(self.random.word())),
        };
        let image = restart.of(&self.trial.disk);
        examine(&image, &self.trial.model, Depth::Full, Ambiguity::Forbidden)?;
        self.note(|report| format!("crash {}: {restart}", report.crashes));
        self.trial.restart(restart);
        if self.random.coin() {
            self.plan_crash();
        }
        self.trial.open()
    }

    /// A reader that was opened earlier must serve a prefix, or report missing files.
    fn read_on(&mut self) -> Result<(), Violation> {
        if self.trial.disk.is_down() {
            return Ok(());
        }
        if let Some(reader) = self.reader.take()
            && let Ok(served) = read_all(&reader, 1)
        {
            self.report.reads += 1;
            self.trial.model.check_prefix(&served.durable)?;
        }
        let storage: Arc<dyn Storage> = Arc::new(self.trial.disk.clone());
        self.reader = LogReader::open(&storage, &dir()).ok();
        Ok(())
    }
}
