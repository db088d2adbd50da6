//! Folding records into a state.

use std::ops::ControlFlow;
use std::path::Path;

use crate::error::Result;
use crate::format::{SnapshotHeader, SnapshotName};
use crate::log::{Damage, DerivedDamage, Item, LogReader, LoggedRecord, Proof};
use crate::plan::{Event, Micros, State};

use super::environment::Environment;
use super::load::{self, load_whole};
use super::projection::Projection;
use super::{codec, snapshots};

/// A record and what it means.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Sequence number.
    pub seq: u64,
    /// Microseconds since the Unix epoch.
    pub time: Micros,
    /// What happened; `None` for a record that concerns the log only.
    pub event: Option<Event>,
}

pub(super) fn recorded<P: AsRef<[u8]>>(record: &LoggedRecord<P>) -> Result<Recorded> {
    Ok(Recorded { seq: record.seq, time: record.time, event: codec::decode(record)? })
}

/// Fold a record into a state.
pub(super) fn fold(state: &mut State, recorded: &Recorded) {
    match &recorded.event {
        Some(event) => state.apply(recorded.seq, recorded.time, event),
        None => state.pass(recorded.seq, recorded.time),
    }
}

/// Fold a record into a state that nobody needs afterwards.
pub(super) fn fold_in(state: &mut State, recorded: Recorded) {
    match recorded.event {
        Some(event) => state.take(recorded.seq, recorded.time, event),
        None => state.pass(recorded.seq, recorded.time),
    }
}

/// A ledger as somebody sees it who takes no lock and writes nothing: live, closed or damaged. It stays as
/// it was when it was opened: what is written later is seen by who opens it again, or follows it.
#[derive(Debug, Clone)]
pub struct LedgerView {
    reader: LogReader,
}

/// What folding a log begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ground {
    /// With record 1.
    Start,
    /// The log begins later: with the state of a snapshot at this record. Records up to it are
    /// counted, and not folded.
    Anchor(u64),
    /// With the state of a snapshot at this record. Records before it were not read.
    Snapshot(u64),
    /// The log begins later, and there is no state to begin with: why.
    Nowhere(String),
}

/// Who is shown a fold as it grows.
pub type FoldWatch<'a> = &'a mut dyn FnMut(&Fold, Proof) -> ControlFlow<()>;

/// What a view adds up to.
#[derive(Debug, Clone)]
pub struct Fold {
    /// The state after the last record before any damage.
    pub state: State,
    /// Acknowledged bytes that cannot be read, in order.
    pub damage: Vec<Damage>,
    /// Indexes and footers that do not hold, in order: every record is read without them.
    pub derived: Vec<DerivedDamage>,
    /// Records that are intact and stand behind damage: they are not part of the state.
    pub behind_damage: u64,
    /// Records beyond what HEAD says is durable: a write that is going on, or one that was cut
    /// short and will be judged when the ledger is opened. They are no part of the state, unless
    /// HEAD is lost and nothing better is left.
    pub unproven: u64,
    /// All intact records, wherever they stand.
    pub records: u64,
    /// The last intact record, wherever it stands.
    pub last: Option<LoggedRecord>,
    /// What folding began with.
    pub ground: Ground,
    /// The record of the snapshot that the state was taken over from, behind damage.
    pub from_snapshot: Option<u64>,
    /// Snapshots that could not be used there, and why.
    pub ignored_snapshots: Vec<String>,
    /// Why folding ended early although the bytes are intact: a record of a newer program.
    pub unreadable: Option<String>,
    /// Something before the last record is missing in the state.
    is_behind_damage: bool,
}

impl LedgerView {
    /// Look at a ledger.
    ///
    /// # Errors
    /// `NotALedger`, and `Io`. Damage is no error here.
    pub fn open(dir: &Path, environment: &Environment) -> Result<Self> {
        Ok(Self { reader: LogReader::open(&environment.storage, dir)? })
    }

    /// The log beneath: segments, HEAD, records, damage.
    #[must_use]
    pub fn log(&self) -> &LogReader {
        &self.reader
    }

    /// The state after record `seq`: the newest good snapshot at or before it, and the records
    /// since.
    ///
    /// # Errors
    /// `OutOfRange` beyond the last durable record; `Corrupt` for damage between the two.
    pub fn state_at(&self, seq: u64) -> Result<State> {
        self.project(seq)
    }

    /// Any projection after record `seq`.
    ///
    /// # Errors
    /// As [`LedgerView::state_at`].
    pub fn project<P: Projection>(&self, seq: u64) -> Result<P> {
        Ok(snapshots::project_at(&self.reader, seq)?.value)
    }

    /// Check a snapshot in every way that this program can: the file, that it belongs to this
    /// log, and, if it is of the ledger's own state, what it holds. Runs that it has from the one it is
    /// based on are checked with that one. Its names are in
    /// [`LogReader::snapshots`].
    ///
    /// # Errors
    /// `Corrupt` with file and offset; `Unsupported`; `Io`.
    pub fn check_snapshot(&self, name: &SnapshotName) -> Result<SnapshotHeader> {
        load::check(&self.reader, name)
    }

    /// Fold everything that can be trusted up to record `seq`, and say what cannot. A good
    /// snapshot behind damage stands for what is missing: folding goes on from it, and the damage
    /// is reported all the same.
    pub fn fold(&self, seq: u64) -> Result<Fold> {
        self.fold_with(seq, &mut |_, _| ControlFlow::Continue(()))
    }

    /// The same, and show what there is after each record that is durable: it is the last one
    /// then, and the state is the one after it, unless it stands behind damage. Folding ends early
    /// where `watch` says so.
    ///
    /// # Errors
    /// As [`LedgerView::fold`].
    pub fn fold_with(&self, seq: u64, watch: FoldWatch<'_>) -> Result<Fold> {
        let mut fold = Fold::on(State::default(), Ground::Start);
        fold.begin(&self.reader, seq);
        // Looked up when the first damage shows.
        let mut snapshots = None;
        let has_witness = self.reader.has_witness();
        let mut walk = self.reader.walk(1);
        while let Some(item) = walk.pass() {
            match item? {
                Item::Derived(damage) => fold.derived.push(damage),
                Item::Damage(damage) if damage.first_seq > seq => break,
                Item::Damage(damage) => {
                    fold.is_behind_damage |= fold.concerns(&damage);
                    fold.damage.push(damage);
                }
                Item::OpenEnd { .. } => {}
                Item::Record(record, _) if record.seq > seq => break,
                Item::Record(_, Proof::Unproven) if has_witness => {
                    fold.records += 1;
                    fold.unproven += 1;
                }
                Item::Record(record, proof) => {
                    fold.add(record, proof);
                    if fold.is_behind_damage {
                        let names = snapshots.get_or_insert_with(|| fold.snapshots(&self.reader));
                        fold.take_over(&self.reader, names);
                    }
                    if watch(&fold, proof).is_break() {
                        break;
                    }
                }
            }
        }
        Ok(fold)
    }
}

impl Fold {
    /// Nothing yet, on that ground.
    pub(super) fn on(state: State, ground: Ground) -> Self {
        Self {
            state,
            damage: Vec::new(),
            derived: Vec::new(),
            behind_damage: 0,
            unproven: 0,
            records: 0,
            last: None,
            ground,
            from_snapshot: None,
            ignored_snapshots: Vec::new(),
            unreadable: None,
            is_behind_damage: false,
        }
    }

    /// A state that was folded elsewhere, and of which nothing is known to be wrong.
    #[must_use]
    pub fn of(state: State) -> Self {
        let ground = Ground::Snapshot(state.seq);
        Self::on(state, ground)
    }

    /// Whether the state is the one after the last record.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.last.as_ref().is_none_or(|last| last.seq == self.state.seq)
    }

    /// The first record that was read.
    #[must_use]
    pub fn read_from(&self) -> u64 {
        match self.ground {
            Ground::Snapshot(at) => at,
            Ground::Start | Ground::Anchor(_) | Ground::Nowhere(_) => 1,
        }
    }

    /// Begin with a snapshot, where the log begins later.
    fn begin(&mut self, reader: &LogReader, seq: u64) {
        if reader.first_seq() == 1 {
            return;
        }
        let (ground, ignored) = snapshots::ground(reader, seq);
        self.ignored_snapshots.extend(ignored.iter().map(ToString::to_string));
        if let Some((state, header)) = ground {
            self.state = state;
            self.ground = Ground::Anchor(header.seq);
            return;
        }
        let first = reader.first_seq();
        let what =
            format!("the log begins at record {first}, and there is no state to go on from before");
        // An archive has no snapshots, and is whole without.
        if reader.manifest().is_none() {
            self.unreadable = Some(what.clone());
        }
        self.ground = Ground::Nowhere(what);
    }

    /// Whether damage stands between what folding began with and what follows.
    fn concerns(&self, damage: &Damage) -> bool {
        match self.ground {
            Ground::Anchor(at) | Ground::Snapshot(at) => damage.first_seq.max(damage.last_seq) > at,
            Ground::Start | Ground::Nowhere(_) => true,
        }
    }

    pub(super) fn add(&mut self, record: LoggedRecord<&[u8]>, proof: Proof) {
        self.records += 1;
        self.unproven += u64::from(proof == Proof::Unproven);
        let is_folded = match self.ground {
            Ground::Start => true,
            Ground::Anchor(at) | Ground::Snapshot(at) => record.seq > at,
            Ground::Nowhere(_) => false,
        };
        if !is_folded {
            record.keep(&mut self.last);
            return;
        }
        // Behind a snapshot that was taken over nothing is missing, though the chain has a gap.
        let has_ground = self.from_snapshot.is_some() || self.ground != Ground::Start;
        self.is_behind_damage |= proof == Proof::BehindDamage && !has_ground;
        if self.is_behind_damage {
            self.behind_damage += 1;
        } else if self.unreadable.is_none() {
            match codec::decode(&record) {
                Ok(Some(event)) => self.state.take(record.seq, record.time, event),
                Ok(None) => self.state.pass(record.seq, record.time),
                Err(error) => self.unreadable = Some(error.to_string()),
            }
        }
        record.keep(&mut self.last);
    }

    /// The state's snapshots.
    fn snapshots(&mut self, reader: &LogReader) -> Vec<SnapshotName> {
        snapshots::names::<State>(reader).unwrap_or_else(|error| {
            self.ignored_snapshots.push(error.to_string());
            Vec::new()
        })
    }

    /// Go on from a snapshot at the last record, if there is a good one: it stands for all that
    /// is missing before.
    fn take_over(&mut self, reader: &LogReader, names: &[SnapshotName]) {
        let Some(seq) = self.last.as_ref().map(|last| last.seq) else { return };
        for name in names.iter().filter(|name| name.seq == seq) {
            match load_whole::<State>(reader, name) {
                Ok((state, _)) => {
                    self.state = state;
                    self.from_snapshot = Some(seq);
                    self.is_behind_damage = false;
                    self.behind_damage = 0;
                    self.unreadable = None;
                    return;
                }
                Err(error) => self.ignored_snapshots.push(error.to_string()),
            }
        }
    }
}
