//! Folding records into a state.

use std::path::Path;

use crate::error::Result;
use crate::log::{Damage, DerivedDamage, Item, LogReader, LoggedRecord, Proof};
use crate::plan::{Event, Micros, State};

use super::codec;
use super::environment::Environment;

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

pub(super) fn recorded(record: &LoggedRecord) -> Result<Recorded> {
    Ok(Recorded { seq: record.seq, time: record.time, event: codec::decode(record)? })
}

/// Fold a record into a state.
pub(super) fn fold(state: &mut State, recorded: &Recorded) {
    match &recorded.event {
        Some(event) => state.apply(recorded.seq, recorded.time, event),
        None => state.pass(recorded.seq, recorded.time),
    }
}

/// The state after record `seq`, or after the last durable one.
pub(super) fn state_at(reader: &LogReader, seq: u64) -> Result<State> {
    let mut state = State::default();
    for record in reader.records(1) {
        let record = record?;
        if record.seq > seq {
            break;
        }
        fold(&mut state, &recorded(&record)?);
    }
    Ok(state)
}

/// A ledger as somebody sees it who takes no lock and writes nothing: live, closed or damaged.
#[derive(Debug, Clone)]
pub struct LedgerView {
    reader: LogReader,
}

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
    /// Why folding ended early although the bytes are intact: a record of a newer program.
    pub unreadable: Option<String>,
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

    /// Fold everything that can be trusted up to record `seq`, and say what cannot.
    pub fn fold(&self, seq: u64) -> Result<Fold> {
        let mut fold = Fold {
            state: State::default(),
            damage: Vec::new(),
            derived: Vec::new(),
            behind_damage: 0,
            unproven: 0,
            records: 0,
            last: None,
            unreadable: None,
        };
        let has_witness = self.reader.has_witness();
        for item in self.reader.walk(1) {
            match item? {
                Item::Damage(damage) => fold.damage.push(damage),
                Item::Derived(damage) => fold.derived.push(damage),
                Item::OpenEnd { .. } => {}
                Item::Record(record, _) if record.seq > seq => break,
                Item::Record(_, Proof::Unproven) if has_witness => {
                    fold.records += 1;
                    fold.unproven += 1;
                }
                Item::Record(record, proof) => fold.add(record, proof),
            }
        }
        Ok(fold)
    }
}

impl Fold {
    fn add(&mut self, record: LoggedRecord, proof: Proof) {
        self.records += 1;
        self.unproven += u64::from(proof == Proof::Unproven);
        if proof == Proof::BehindDamage || !self.damage.is_empty() {
            self.behind_damage += 1;
        } else if self.unreadable.is_none() {
            match recorded(&record) {
                Ok(recorded) => fold(&mut self.state, &recorded),
                Err(error) => self.unreadable = Some(error.to_string()),
            }
        }
        self.last = Some(record);
    }
}
