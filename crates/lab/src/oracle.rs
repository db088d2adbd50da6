//! The oracle: examines a disk image after a crash against the model.
//!
//! Invariant: an image that passes keeps every guarantee (I1 to I12) that is visible in one image.
//! The oracle never uses a value from the engine where the model has it. Memory use is tested
//! elsewhere (`tests/memory`).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plan_ledger::internals::format::{HeadSync, SegmentHeader};
use plan_ledger::internals::ledger::{
    Environment, Ledger, LedgerView, RUN_STREAMS, computed_state_hash, decode, state_hash,
};
use plan_ledger::internals::sim::{
    FaultAction, FaultEffect, FaultRule, Loss, Operation, OsError, SimDisk, dir, environment,
};
use plan_ledger::internals::storage::Storage;
use plan_ledger::log::{
    Diagnosis, EvidenceBit, FindingClass, Log, LogOptions, LoggedRecord, TailVerdict, UidSource,
    VerifyOptions, opening_verdict, verify,
};
use plan_ledger::plan::{ContentHash, State};
use plan_ledger::{Error, ErrorKind};

use super::model::{Guarantee, Model, Violation};
use super::op::Op;
use super::trial::{ReadRecords, read, read_all};

/// More calls than any recovery of a small ledger makes.
const CALLS_MAX: u64 = 100_000;

/// The extent of an examination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Everything.
    Full,
    /// Only recovery, twice, without the readers before it and the appends after it.
    Recovery,
}

/// The result of opening an image that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageOutcome {
    Opened(TailVerdict),
    /// The ledger did not exist, and could be created.
    Absent,
    /// The engine cannot tell which records were acknowledged, and requires a decision of a person.
    Ambiguous(AmbiguousPart),
}

/// What the engine cannot judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmbiguousPart {
    /// A slot of HEAD: rows 1 and 6a of the recovery table.
    Head,
    /// The bytes after the last record: row 12.
    Tail,
}

/// Whether the engine may report an ambiguous end: neither intact nor provably torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ambiguity {
    /// No: the engine can always tell.
    Forbidden,
    /// Yes: torn sectors may contain garbage.
    Allowed,
}

/// An image that passed.
#[derive(Debug)]
pub struct ExaminedImage {
    /// The result of opening it.
    pub outcome: ImageOutcome,
    /// The crash points of the recovery.
    pub recovery: Vec<SimDisk>,
}

type CheckResult<T> = Result<T, Violation>;

/// Examine an image against a model. The image is modified.
///
/// # Errors
/// The first violation.
pub fn examine(
    image: &SimDisk,
    model: &Model,
    depth: Depth,
    ambiguity: Ambiguity,
) -> CheckResult<ExaminedImage> {
    image.clear_faults();
    image.crash_at(image.calls() + CALLS_MAX);
    let result =
        catch_unwind(AssertUnwindSafe(|| Examination { image, model, ambiguity }.run(depth)));
    let result = result.unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
        Err(Violation::new(Guarantee::Ends, format!("panic: {}", message.unwrap_or_default())))
    });
    if image.is_down() {
        let what = format!("more than {CALLS_MAX} calls of the disk");
        return Err(Violation::new(Guarantee::Ends, what));
    }
    result
}

struct Examination<'a> {
    image: &'a SimDisk,
    model: &'a Model,
    ambiguity: Ambiguity,
}

impl Examination<'_> {
    fn run(&self, depth: Depth) -> CheckResult<ExaminedImage> {
        let before = match depth {
            Depth::Full => self.readers()?,
            Depth::Recovery => Before { verdict: self.verdict(), served: ReadRecords::default() },
        };
        let (recovered, recovery, verdict) = match self.recover(&before)? {
            Recovered::Opened { records, points, verdict } => (records, points, verdict),
            Recovered::Not(outcome) => return Ok(ExaminedImage { outcome, recovery: Vec::new() }),
        };
        self.model.check(&recovered)?;
        let first = recovered.first().map_or(0, |record| record.seq);
        let still_there = before.served.durable.iter().filter(|served| served.seq >= first);
        for (served, kept) in still_there.zip(&recovered) {
            if served.chain != kept.chain {
                let what = format!(
                    "record {} was served with another chain value before recovery",
                    served.seq
                );
                return Err(Violation::new(Guarantee::ReadersOnlyRead, what));
            }
        }
        let ledger = self.reopen(&recovered)?;
        self.check_states(&ledger, &recovered)?;
        if depth == Depth::Full {
            self.check_appends(ledger, &recovered)?;
        }
        Ok(ExaminedImage { outcome: ImageOutcome::Opened(verdict), recovery })
    }

    fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.image.clone())
    }

    fn verdict(&self) -> Result<TailVerdict, Error> {
        opening_verdict(self.image, &dir())
    }

    /// Examine the image with readers (I8, I12).
    fn readers(&self) -> CheckResult<Before> {
        let before = self.image.digest();
        let storage = self.storage();
        let verdict = self.verdict();
        let served = match read(&storage, 1) {
            Err(error) if error.kind() == ErrorKind::NotALedger => ReadRecords::default(),
            Err(error) => {
                return Err(Violation::new(Guarantee::ErrorKinds, format!("a reader: {error}")));
            }
            Ok(served) => {
                self.model.check_prefix(&served.durable)?;
                let verified = verify(&storage, &dir(), VerifyOptions::DEFAULT)
                    .map_err(|error| Violation::new(Guarantee::ErrorKinds, error.to_string()))?;
                let same = match (&verified.opening, &verdict) {
                    (Ok(one), Ok(other)) => one == other,
                    (Err(one), Err(other)) => one.kind() == other.kind(),
                    _ => false,
                };
                // On a device that tears sectors, a slot of HEAD may be torn.
                let is_torn_slot =
                    |path: &Path| self.ambiguity == Ambiguity::Allowed && path.ends_with("HEAD");
                let damage = verified
                    .findings
                    .iter()
                    .find(|it| it.class == FindingClass::Damage && !is_torn_slot(&it.path));
                if let (false, _) | (_, Some(_)) = (same, damage) {
                    let what = format!("verify: {damage:?}, opening {:?}", verified.opening);
                    return Err(Violation::new(Guarantee::ReportIsVerdict, what));
                }
                served
            }
        };
        if self.image.digest() != before {
            return Err(Violation::new(Guarantee::ReadersOnlyRead, "a reader changed the disk"));
        }
        Ok(Before { verdict, served })
    }

    /// Open the log (I10, I12), and read it (I4).
    fn recover(&self, before: &Before) -> CheckResult<Recovered> {
        let files = self.segments();
        let environment = environment(self.image);
        self.image.start_recording();
        let opened = Log::open(&dir(), log_options(&environment), environment.clock.now());
        let points = self.image.stop_recording();
        match (&opened, &before.verdict) {
            (Ok((_, report)), Ok(verdict)) if report.verdict == *verdict => {}
            (Err(one), Err(other)) if one.kind() == other.kind() => {}
            (opened, expected) => {
                let opened = opened.as_ref().map(|(_, report)| report.verdict);
                let what = format!("opening gave {opened:?}, expected {expected:?}");
                return Err(Violation::new(Guarantee::ReportIsVerdict, what));
            }
        }
        let (log, report) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.not_opened(&error).map(Recovered::Not),
        };
        let read = log.reader().and_then(|reader| read_all(&reader, 1));
        let read =
            read.map_err(|error| Violation::new(Guarantee::ChainHolds, error.to_string()))?;
        if !read.damage.is_empty() || !read.others.is_empty() {
            let what = format!(
                "after recovery: {:?}, {} records unacknowledged",
                read.damage,
                read.others.len()
            );
            return Err(Violation::new(Guarantee::ChainHolds, what));
        }
        let last = read.durable.last().map_or(0, |record| record.seq);
        if log.last_durable().seq != last {
            let what = format!("recovered up to {}, readers see {last}", log.last_durable().seq);
            return Err(Violation::new(Guarantee::PrefixOfIssued, what));
        }
        self.expect_unchanged(&files)?;
        // Kill the process and lose power, so that only durable bytes remain.
        self.image.kill_process();
        drop(log);
        self.image.lose_power(Loss::Everything);
        Ok(Recovered::Opened { records: read.durable, points, verdict: report.verdict })
    }

    fn not_opened(&self, error: &Error) -> CheckResult<ImageOutcome> {
        match error.kind() {
            ErrorKind::NotALedger if !self.model.is_created => {
                Ledger::create(&dir(), &environment(self.image)).map_err(|error| {
                    Violation::new(
                        Guarantee::ErrorKinds,
                        format!("cannot create it again: {error}"),
                    )
                })?;
                Ok(ImageOutcome::Absent)
            }
            ErrorKind::Ambiguous if self.ambiguity == Ambiguity::Allowed => {
                let diagnosis = Diagnosis::of(self.image, &dir());
                let is_head = diagnosis.is_ok_and(|found| {
                    [EvidenceBit::HeadInvalid, EvidenceBit::SlotInvalid]
                        .into_iter()
                        .any(|bit| found.row.requires().has(bit))
                });
                let part = if is_head { AmbiguousPart::Head } else { AmbiguousPart::Tail };
                Ok(ImageOutcome::Ambiguous(part))
            }
            _ => Err(Violation::new(Guarantee::AckedKept, format!("refused: {error}"))),
        }
    }

    /// The bytes of all segments.
    fn segments(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = self.image.files(&dir().join("log")).into_iter();
        let segments = files.filter(|path| path.extension().is_some_and(|it| it == "seg"));
        segments.filter_map(|path| Some((path.clone(), self.image.read(&path).ok()?))).collect()
    }

    /// Check that no written byte changed, and that only a prune removed segments (I5).
    fn expect_unchanged(&self, before: &BTreeMap<PathBuf, Vec<u8>>) -> CheckResult<()> {
        let after = self.segments();
        for (path, old) in before {
            let Some(new) = after.get(path) else {
                if self.model.pruned > 0 {
                    continue;
                }
                let what = format!("{} is missing", path.display());
                return Err(Violation::new(Guarantee::RecoveryIdempotent, what));
            };
            let changed = old
                .iter()
                .take(self.written(path, before))
                .enumerate()
                .find(|(at, byte)| **byte != 0 && new.get(*at) != Some(byte));
            if let Some((at, _)) = changed {
                let what = format!("{}: byte {at} was changed", path.display());
                return Err(Violation::new(Guarantee::RecoveryIdempotent, what));
            }
        }
        Ok(())
    }

    /// The number of completely written bytes of a segment. After the records of a segment with a
    /// successor, a torn footer may be garbage, which the next footer overwrites.
    fn written(&self, path: &Path, segments: &BTreeMap<PathBuf, Vec<u8>>) -> usize {
        let mut later = segments.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded));
        let successor = later.next().and_then(|(_, bytes)| SegmentHeader::decode(bytes).ok());
        match (self.ambiguity, successor) {
            (Ambiguity::Allowed, Some(header)) => {
                usize::try_from(header.prev_data_end).unwrap_or(usize::MAX)
            }
            _ => usize::MAX,
        }
    }

    /// Open the ledger again after the second crash (I5, I6).
    fn reopen(&self, recovered: &[LoggedRecord]) -> CheckResult<Ledger> {
        let files: Vec<PathBuf> = self.segments().into_keys().collect();
        let lost = |what: String| Violation::new(Guarantee::RecoveredKept, what);
        let (ledger, report) = Ledger::open_with(&dir(), &environment(self.image))
            .map_err(|error| lost(format!("reopening: {error}")))?;
        let returned = recovered.last().map(|record| (record.seq, record.chain));
        let head = Some(ledger.head()).filter(|ack| ack.seq > 0).map(|ack| (ack.seq, ack.chain));
        if head != returned {
            return Err(lost(format!("recovery returned {returned:?}, reopening found {head:?}")));
        }
        let now: Vec<PathBuf> = self.segments().into_keys().collect();
        if now.len() > files.len() || report.verdict != "clean" {
            let what = format!("reopening was {}, files {now:?}", report.verdict);
            return Err(Violation::new(Guarantee::RecoveryIdempotent, what));
        }
        Ok(ledger)
    }

    /// Check the state at every record, with and without snapshots (I7).
    fn check_states(&self, ledger: &Ledger, recovered: &[LoggedRecord]) -> CheckResult<()> {
        let wrong = |what: String| Violation::new(Guarantee::StateSame, what);
        let failed = |error: Error| wrong(error.to_string());
        let first = recovered.first().map_or(1, |record| record.seq);
        let has_snapshots = !self.image.files(&dir().join("snap")).is_empty();
        let view = LedgerView::open(&dir(), &environment(self.image)).map_err(failed)?;
        let (mut state, mut at) = (State::default(), 0);
        if first > 1 {
            let base = self.base_state(&view, first - 1, recovered)?;
            at = base.seq;
            state = base;
        }
        for record in recovered.iter().filter(|record| record.seq > at) {
            match decode(record).map_err(failed)? {
                Some(event) => state.apply(record.seq, record.time, &event),
                None => state.skip_record(record.seq, record.time),
            }
            if has_snapshots {
                let other = view.state_at(record.seq).map_err(failed)?;
                expect_same(record.seq, &state, state_hash(&other))?;
            }
        }
        let last = recovered.last().map_or(0, |record| record.seq);
        expect_same(last, &state, ledger.state_hash().map_err(failed)?)
    }

    /// The state for the start of a replay after a prune: the first that the engine provides.
    fn base_state(
        &self,
        view: &LedgerView,
        before: u64,
        recovered: &[LoggedRecord],
    ) -> CheckResult<State> {
        let last = recovered.last().map_or(0, |record| record.seq);
        let found = (before..=last).find_map(|seq| view.state_at(seq).ok());
        found.ok_or_else(|| {
            let what =
                format!("no state from record {before} to {last}, model {}", self.model.pruned);
            Violation::new(Guarantee::StateSame, what)
        })
    }

    /// Check that the ledger accepts appends, or rejects them after a failure (I11).
    fn check_appends(&self, ledger: Ledger, recovered: &[LoggedRecord]) -> CheckResult<()> {
        let batch = Op::Append.batches(recovered.len().try_into().unwrap_or(0)).concat();
        let time = environment(self.image).clock.now();
        let wrong = |what: String| Violation::new(Guarantee::PoisonHolds, what);
        let last = recovered.last().map_or(0, |record| record.seq);
        if last % 2 == 1 {
            let action = FaultAction::Error(OsError::Io, FaultEffect::Nothing);
            self.image.inject(FaultRule::next(action).of(Operation::Sync));
            let first = ledger.log().append(&batch, time);
            let again = ledger.log().append(&batch, time);
            let kinds = [first, again].map(|it| it.map_err(|error| error.kind()));
            if !matches!(
                kinds,
                [Err(ErrorKind::OutcomeUnknown | ErrorKind::Io), Err(ErrorKind::Poisoned)]
            ) && !matches!(kinds, [Err(ErrorKind::Io), Ok(_)])
            {
                return Err(wrong(format!("a sync failed, and two appends gave {kinds:?}")));
            }
            return Ok(());
        }
        let ack = ledger.log().append(&batch, time);
        let ack = ack.map_err(|error| wrong(format!("an append after recovery: {error}")))?;
        if ack.seq != last + 1 {
            return Err(wrong(format!("the next record after {last} is {}", ack.seq)));
        }
        ledger.close().map_err(|error| wrong(error.to_string()))?;
        match self.verdict() {
            Ok(TailVerdict::Clean) => Ok(()),
            other => Err(Violation::new(
                Guarantee::ReportIsVerdict,
                format!("after a close the verdict is {other:?}"),
            )),
        }
    }
}

struct Before {
    verdict: Result<TailVerdict, Error>,
    served: ReadRecords,
}

enum Recovered {
    Opened { records: Vec<LoggedRecord>, points: Vec<SimDisk>, verdict: TailVerdict },
    Not(ImageOutcome),
}

fn expect_same(seq: u64, state: &State, found: ContentHash) -> CheckResult<()> {
    // From the values: a hash that was kept for too long would be kept in both.
    let folded = computed_state_hash(state);
    if folded == found {
        return Ok(());
    }
    let what = format!("record {seq}: replay gave {folded}, found {found}");
    Err(Violation::new(Guarantee::StateSame, what))
}

fn log_options(environment: &Environment) -> LogOptions {
    let ids = environment.ids.clone();
    LogOptions {
        head_sync: HeadSync::Interval,
        segments: environment.segments,
        stream_rule: RUN_STREAMS,
        ..LogOptions::new(environment.storage.clone(), UidSource::new(move || ids.next_id()))
    }
}
