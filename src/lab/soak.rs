//! Long histories: one ledger, crashed again and again, with somebody reading all the while.
//!
//! Invariants:
//! - The seed alone decides what happens.
//! - After every crash a copy of the disk is examined by the oracle; the history itself goes on
//!   with what the engine recovered.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::log::LogReader;
use crate::sim::{Injected, Loss, Random, SimDisk};
use crate::storage::Storage;

use super::case::Broken;
use super::model::Violation;
use super::op::Op;
use super::oracle::{Depth, Doubt, examine};
use super::restart::Restart;
use super::trial::{Trial, Weather, dir, read_all};

/// A log with more records than this is pruned.
const RECORDS_MAX: usize = 48;
/// Of so many operations, one is crashed.
const CRASH_EVERY: u64 = 8;
/// A crash comes at one of so many calls.
const CALLS: u64 = 60;

/// So much of the story is told when a promise breaks.
const TOLD: usize = 24;

/// What a long history came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Endured {
    /// Operations that were begun.
    pub ops: u64,
    /// Crashes of them, and of recoveries.
    pub crashes: u64,
    /// The last acknowledged record.
    pub records: u64,
    /// Times that a reader which was open before looked on.
    pub looks: u64,
}

/// Live through so many operations; `watch` is told after each.
///
/// # Errors
/// The first promise that is broken, with the seed and the operation's number.
pub fn endure(ops: u64, seed: u64, watch: &mut dyn FnMut(&Endured)) -> Result<Endured, Broken> {
    let mut history = History {
        trial: Trial::new(SimDisk::new(), Weather::Calm),
        random: Random(seed),
        reader: None,
        endured: Endured::default(),
        told: VecDeque::new(),
    };
    let lived = history.live(ops, watch);
    let mut story: Vec<String> = history.told.into();
    story.extend(history.trial.disk.injected().iter().map(Injected::to_string));
    lived.map_err(|violation| Broken {
        case: format!("seed {seed}, operation {}", history.endured.ops),
        again: format!("lab endure --ops {} --seed {seed}", history.endured.ops),
        violation,
        story,
    })?;
    Ok(history.endured)
}

struct History {
    trial: Trial,
    random: Random,
    /// Somebody who has been reading for a while.
    reader: Option<LogReader>,
    endured: Endured,
    /// The last things that happened.
    told: VecDeque<String>,
}

impl History {
    fn live(&mut self, ops: u64, watch: &mut dyn FnMut(&Endured)) -> Result<(), Violation> {
        self.trial.create()?;
        while self.endured.ops < ops {
            self.endured.ops += 1;
            let op = self.next_op();
            let last = self.endured.records;
            self.tell(|history| format!("operation {}, behind record {last}: {op}", history.ops));
            if self.random.below(CRASH_EVERY) == 0 {
                self.plan_crash();
            }
            self.trial.take(op)?;
            self.look_on()?;
            while self.trial.disk.is_down() {
                self.come_up()?;
            }
            // A crash that was planned behind the end of the operation does not come any more.
            self.trial.disk.crash_at(u64::MAX);
            self.trial.models.clear();
            self.endured.records = self.trial.model.last_acked();
            watch(&self.endured);
        }
        Ok(())
    }

    fn tell(&mut self, line: impl FnOnce(&Endured) -> String) {
        if self.told.len() == TOLD {
            self.told.pop_front();
        }
        self.told.push_back(line(&self.endured));
    }

    fn plan_crash(&mut self) {
        let call = self.trial.disk.calls() + 1 + self.random.below(CALLS);
        self.trial.disk.crash_at(call);
    }

    fn next_op(&mut self) -> Op {
        if self.trial.model.acked.len() > RECORDS_MAX {
            return Op::Prune;
        }
        let [low, ..] = self.random.below(8).to_le_bytes();
        Op::ALL.get(usize::from(low)).copied().unwrap_or(Op::Append)
    }

    /// After a crash: examine a copy, then go on; the recovery may be crashed too.
    fn come_up(&mut self) -> Result<(), Violation> {
        self.endured.crashes += 1;
        self.reader = None;
        let restart = match self.random.below(5) {
            0 => Restart::Process,
            1 => Restart::Power(Loss::Everything),
            2 => Restart::Power(Loss::Nothing),
            _ => Restart::Power(Loss::Some(self.random.next())),
        };
        let image = restart.of(&self.trial.disk);
        examine(&image, &self.trial.model, Depth::Full, Doubt::Wrong)?;
        self.tell(|history| format!("crash {}: {restart}", history.crashes));
        self.trial.restart(restart);
        if self.random.coin() {
            self.plan_crash();
        }
        self.trial.open()
    }

    /// A reader that was opened earlier serves a prefix, or says that files are gone.
    fn look_on(&mut self) -> Result<(), Violation> {
        if self.trial.disk.is_down() {
            return Ok(());
        }
        if let Some(reader) = self.reader.take()
            && let Ok(served) = read_all(&reader, 1)
        {
            self.endured.looks += 1;
            self.trial.model.check_prefix(&served.proven)?;
        }
        let storage: Arc<dyn Storage> = Arc::new(self.trial.disk.clone());
        self.reader = LogReader::open(&storage, &dir()).ok();
        Ok(())
    }
}
