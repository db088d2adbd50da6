//! The oracle: whatever became of a disk, what must hold of the ledger on it.
//!
//! Invariant: an image that passes kept all the promises (I1 to I12) that can be seen in one
//! image; nothing is taken from the engine's word that the model knows.
//!
//! Left out on purpose: how much memory is asked for (the tests of memory measure it), and time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::format::{HeadSync, SegmentHeader};
use crate::ledger::{Environment, Ledger, LedgerView, decode, state_hash};
use crate::log::{
    FindingClass, Log, LogOptions, LoggedRecord, TailVerdict, UidSource, VerifyOptions,
    opening_verdict, verify,
};
use crate::plan::{ContentHash, State};
use crate::sim::{Effect, Failure, Loss, Operation, OsError, Rule, SimDisk};
use crate::storage::Storage;

use super::model::{Model, Promise, Violation};
use super::op::Op;
use super::trial::{Read, dir, environment, read, read_all};

/// More calls of the disk than any recovery of a small ledger makes.
const CALLS_MAX: u64 = 100_000;

/// How much is asked of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Everything.
    Full,
    /// What recovery gives, twice. Not what readers say before it, nor how it goes on.
    Recovery,
}

/// What became of an image that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was opened.
    Opened(TailVerdict),
    /// There was no ledger yet, and one could be made.
    Absent,
    /// The engine asks: it cannot be told what was acknowledged.
    Asked,
}

/// Whether asking is right where what is left is neither whole nor provably torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// It is not: the engine can always tell.
    Wrong,
    /// It is: torn sectors were garbage.
    Right,
}

/// An image that passed.
#[derive(Debug)]
pub struct Passed {
    /// What became of it.
    pub outcome: Outcome,
    /// The machine before each change that the recovery made.
    pub recovery: Vec<SimDisk>,
}

type Checked<T> = Result<T, Violation>;

/// Hold an image against a model. The image is used up.
///
/// # Errors
/// The first promise that is broken.
pub fn examine(image: &SimDisk, model: &Model, depth: Depth, doubt: Doubt) -> Checked<Passed> {
    image.calm();
    image.crash_at(image.calls() + CALLS_MAX);
    let judged = catch_unwind(AssertUnwindSafe(|| Examination { image, model, doubt }.run(depth)));
    let judged = judged.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
        Err(Violation::new(Promise::Ends, format!("panic: {}", words.unwrap_or_default())))
    });
    if image.is_down() {
        let what = format!("more than {CALLS_MAX} calls of the disk");
        return Err(Violation::new(Promise::Ends, what));
    }
    judged
}

struct Examination<'a> {
    image: &'a SimDisk,
    model: &'a Model,
    doubt: Doubt,
}

impl Examination<'_> {
    fn run(&self, depth: Depth) -> Checked<Passed> {
        let before = match depth {
            Depth::Full => self.readers()?,
            Depth::Recovery => Before { said: self.verdict(), served: Read::default() },
        };
        let (recovered, recovery, verdict) = match self.recover(&before)? {
            Recovered::Opened { records, film, verdict } => (records, film, verdict),
            Recovered::Not(outcome) => return Ok(Passed { outcome, recovery: Vec::new() }),
        };
        self.model.check(&recovered)?;
        let first = recovered.first().map_or(0, |record| record.seq);
        let still_there = before.served.proven.iter().filter(|served| served.seq >= first);
        for (served, kept) in still_there.zip(&recovered) {
            if served.chain != kept.chain {
                let what = format!("record {} was served, and is another one now", served.seq);
                return Err(Violation::new(Promise::ReadersOnlyRead, what));
            }
        }
        let ledger = self.again(&recovered)?;
        self.states(&ledger, &recovered)?;
        if depth == Depth::Full {
            self.goes_on(ledger, &recovered)?;
        }
        Ok(Passed { outcome: Outcome::Opened(verdict), recovery })
    }

    fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.image.clone())
    }

    fn verdict(&self) -> Result<TailVerdict, Error> {
        opening_verdict(self.image, &dir())
    }

    /// What those say who only look (I8, I12).
    fn readers(&self) -> Checked<Before> {
        let before = self.image.digest();
        let storage = self.storage();
        let said = self.verdict();
        let served = match read(&storage, 1) {
            Err(error) if error.kind() == ErrorKind::NotALedger => Read::default(),
            Err(error) => {
                return Err(Violation::new(Promise::ErrorKinds, format!("a reader: {error}")));
            }
            Ok(served) => {
                self.model.check_prefix(&served.proven)?;
                let verified = verify(&storage, &dir(), VerifyOptions::DEFAULT)
                    .map_err(|error| Violation::new(Promise::ErrorKinds, error.to_string()))?;
                let same = match (&verified.opening, &said) {
                    (Ok(one), Ok(other)) => one == other,
                    (Err(one), Err(other)) => one.kind() == other.kind(),
                    _ => false,
                };
                let damage = verified.findings.iter().find(|it| it.class == FindingClass::Damage);
                if let (false, _) | (_, Some(_)) = (same, damage) {
                    let what = format!("verify: {damage:?}, opening {:?}", verified.opening);
                    return Err(Violation::new(Promise::ReportIsVerdict, what));
                }
                served
            }
        };
        if self.image.digest() != before {
            return Err(Violation::new(Promise::ReadersOnlyRead, "a reader changed the disk"));
        }
        Ok(Before { said, served })
    }

    /// Open the log (I10, I12), and read all of it (I4).
    fn recover(&self, before: &Before) -> Checked<Recovered> {
        let files = self.segments();
        let environment = environment(self.image);
        self.image.begin_film();
        let opened = Log::open(&dir(), log_options(&environment), environment.clock.now());
        let film = self.image.end_film();
        match (&opened, &before.said) {
            (Ok((_, report)), Ok(said)) if report.verdict == *said => {}
            (Err(one), Err(other)) if one.kind() == other.kind() => {}
            (opened, said) => {
                let opened = opened.as_ref().map(|(_, report)| report.verdict);
                let what = format!("opening gave {opened:?}, and was to give {said:?}");
                return Err(Violation::new(Promise::ReportIsVerdict, what));
            }
        }
        let (log, report) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.not_opened(&error).map(Recovered::Not),
        };
        let read = log.reader().and_then(|reader| read_all(&reader, 1));
        let read = read.map_err(|error| Violation::new(Promise::ChainHolds, error.to_string()))?;
        if !read.damage.is_empty() || !read.others.is_empty() {
            let what = format!("after recovery: {:?}, {} loose", read.damage, read.others.len());
            return Err(Violation::new(Promise::ChainHolds, what));
        }
        let last = read.proven.last().map_or(0, |record| record.seq);
        if log.ack().seq != last {
            let what = format!("recovered up to {}, readers see {last}", log.ack().seq);
            return Err(Violation::new(Promise::PrefixOfIssued, what));
        }
        self.expect_unchanged(&files)?;
        // The process ends in the middle, and the power goes: nothing may have been in the cache
        // alone.
        self.image.kill_process();
        drop(log);
        self.image.lose_power(Loss::Everything);
        Ok(Recovered::Opened { records: read.proven, film, verdict: report.verdict })
    }

    fn not_opened(&self, error: &Error) -> Checked<Outcome> {
        match error.kind() {
            ErrorKind::NotALedger if !self.model.is_created => {
                Ledger::create(&dir(), &environment(self.image)).map_err(|error| {
                    Violation::new(Promise::ErrorKinds, format!("cannot make it again: {error}"))
                })?;
                Ok(Outcome::Absent)
            }
            ErrorKind::Ambiguous if self.doubt == Doubt::Right => Ok(Outcome::Asked),
            _ => Err(Violation::new(Promise::AckedKept, format!("refused: {error}"))),
        }
    }

    /// Bytes of the segments that are there.
    fn segments(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = self.image.files(&dir().join("log")).into_iter();
        let segments = files.filter(|path| path.extension().is_some_and(|it| it == "seg"));
        segments.filter_map(|path| Some((path.clone(), self.image.read(&path).ok()?))).collect()
    }

    /// No byte that was written is another one now; what goes is covered by a prune (I5).
    fn expect_unchanged(&self, before: &BTreeMap<PathBuf, Vec<u8>>) -> Checked<()> {
        let after = self.segments();
        for (path, old) in before {
            let Some(new) = after.get(path) else {
                if self.model.pruned > 0 {
                    continue;
                }
                let what = format!("{} is gone", path.display());
                return Err(Violation::new(Promise::RecoveryIdempotent, what));
            };
            let changed = old
                .iter()
                .take(self.written(path, before))
                .enumerate()
                .find(|(at, byte)| **byte != 0 && new.get(*at) != Some(byte));
            if let Some((at, _)) = changed {
                let what = format!("{}: byte {at} was changed", path.display());
                return Err(Violation::new(Promise::RecoveryIdempotent, what));
            }
        }
        Ok(())
    }

    /// How many bytes of a segment some write is known to have finished. Behind the records of one
    /// that has a successor a torn footer may be garbage, which the next one takes the place of.
    fn written(&self, path: &Path, segments: &BTreeMap<PathBuf, Vec<u8>>) -> usize {
        let mut behind = segments.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded));
        let successor = behind.next().and_then(|(_, bytes)| SegmentHeader::decode(bytes).ok());
        match (self.doubt, successor) {
            (Doubt::Right, Some(header)) => {
                usize::try_from(header.prev_data_end).unwrap_or(usize::MAX)
            }
            _ => usize::MAX,
        }
    }

    /// Open it again after the crash that followed (I5, I6).
    fn again(&self, recovered: &[LoggedRecord]) -> Checked<Ledger> {
        let files: Vec<PathBuf> = self.segments().into_keys().collect();
        let lost = |what: String| Violation::new(Promise::RecoveredKept, what);
        let (ledger, report) = Ledger::open(&dir(), &environment(self.image))
            .map_err(|error| lost(format!("opening it again: {error}")))?;
        let returned = recovered.last().map(|record| (record.seq, record.chain));
        let head = Some(ledger.head()).filter(|ack| ack.seq > 0).map(|ack| (ack.seq, ack.chain));
        if head != returned {
            return Err(lost(format!("recovery returned {returned:?}, and now there is {head:?}")));
        }
        let now: Vec<PathBuf> = self.segments().into_keys().collect();
        if now.len() > files.len() || report.verdict != "clean" {
            let what = format!("opening it again was {}, files {now:?}", report.verdict);
            return Err(Violation::new(Promise::RecoveryIdempotent, what));
        }
        Ok(ledger)
    }

    /// The state at every record, by every way (I7).
    fn states(&self, ledger: &Ledger, recovered: &[LoggedRecord]) -> Checked<()> {
        let wrong = |what: String| Violation::new(Promise::StateSame, what);
        let failed = |error: Error| wrong(error.to_string());
        let first = recovered.first().map_or(1, |record| record.seq);
        let has_snapshots = !self.image.files(&dir().join("snap")).is_empty();
        let view = LedgerView::open(&dir(), &environment(self.image)).map_err(failed)?;
        let (mut state, mut at) = (State::default(), 0);
        if first > 1 {
            let (ground, _) = self.ground(&view, first - 1, recovered)?;
            at = ground.seq;
            state = ground;
        }
        for record in recovered.iter().filter(|record| record.seq > at) {
            match decode(record).map_err(failed)? {
                Some(event) => state.apply(record.seq, record.time, &event),
                None => state.pass(record.seq, record.time),
            }
            if has_snapshots {
                let other = view.state_at(record.seq).map_err(failed)?;
                expect_same(record.seq, &state, state_hash(&other))?;
            }
        }
        let last = recovered.last().map_or(0, |record| record.seq);
        expect_same(last, &state, ledger.state_hash().map_err(failed)?)
    }

    /// What folding begins with after a prune: the first record at which the engine has a state.
    fn ground(
        &self,
        view: &LedgerView,
        before: u64,
        recovered: &[LoggedRecord],
    ) -> Checked<(State, ContentHash)> {
        let last = recovered.last().map_or(0, |record| record.seq);
        let found = (before..=last).find_map(|seq| view.state_at(seq).ok());
        let state = found.ok_or_else(|| {
            let what =
                format!("no state from record {before} to {last}, model {}", self.model.pruned);
            Violation::new(Promise::StateSame, what)
        })?;
        let hash = state_hash(&state);
        Ok((state, hash))
    }

    /// The ledger goes on, or refuses after a failure until it is opened again (I11).
    fn goes_on(&self, ledger: Ledger, recovered: &[LoggedRecord]) -> Checked<()> {
        let batch = Op::Append.batches(recovered.len().try_into().unwrap_or(0)).concat();
        let time = environment(self.image).clock.now();
        let wrong = |what: String| Violation::new(Promise::PoisonHolds, what);
        let last = recovered.last().map_or(0, |record| record.seq);
        if last % 2 == 1 {
            let failure = Failure::Error(OsError::Io, Effect::Nothing);
            self.image.inject(Rule::next(failure).of(Operation::Sync));
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
                Promise::ReportIsVerdict,
                format!("after a close the verdict is {other:?}"),
            )),
        }
    }
}

struct Before {
    said: Result<TailVerdict, Error>,
    served: Read,
}

enum Recovered {
    Opened { records: Vec<LoggedRecord>, film: Vec<SimDisk>, verdict: TailVerdict },
    Not(Outcome),
}

fn expect_same(seq: u64, state: &State, found: ContentHash) -> Checked<()> {
    let folded = state_hash(state);
    if folded == found {
        return Ok(());
    }
    let what = format!("record {seq}: folded {folded}, found {found}");
    Err(Violation::new(Promise::StateSame, what))
}

fn log_options(environment: &Environment) -> LogOptions {
    let ids = environment.ids.clone();
    LogOptions {
        head_sync: HeadSync::Interval,
        segments: environment.segments,
        stream_of: crate::ledger::RUN_STREAMS,
        ..LogOptions::new(environment.storage.clone(), UidSource::new(move || ids.next_id()))
    }
}
