//! The runs of a state. A run from a snapshot stays packed until its first access, and a leaf of its
//! steps until the first access to one of these.
//!
//! Invariants:
//! - Unpacking a run changes neither the results of lookups nor the state hash.
//! - A run that cannot be unpacked is treated as missing, and [`Runs::fault`] reports it from then
//!   on, as it does a leaf that cannot be unpacked. Callers of `apply` and `decide` must check the fault before they use a result.
//!
//! The packed format is defined by the code that packs the runs, in the ledger.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;
use std::sync::{Arc, OnceLock};

use super::fault::StateFault;
use super::overview::RunOverview;
use super::packed::PackedPart;
use super::run::Run;
use crate::plan::value::ids::{ContentHash, RunId};

/// Runs by number.
#[derive(Clone, Default)]
pub struct Runs {
    runs: BTreeMap<RunId, RunSlot>,
    fault: StateFault,
}

/// A run from a snapshot that was not accessed yet.
pub struct PackedRun {
    /// Its overview.
    pub overview: RunOverview,
    /// Hash of the unpacked run.
    pub hash: ContentHash,
    /// The packed run without its parts.
    pub bytes: Box<[u8]>,
    /// The plans of its versions, in order.
    pub plans: Vec<Arc<PackedPart>>,
    /// The leaves of its steps, in order.
    pub leaves: Vec<Arc<PackedPart>>,
    /// Unpacks the run except its leaves, or returns why it cannot be unpacked. The fault is for the
    /// leaves.
    pub unpack: fn(&Self, &StateFault) -> Result<Run, String>,
}

/// A run: unpacked, packed, or both.
#[derive(Debug, Clone, Default)]
struct RunSlot {
    run: OnceLock<Box<Run>>,
    packed: Option<Arc<PackedRun>>,
    hash: OnceLock<ContentHash>,
}

/// The stored form of a run.
#[derive(Debug)]
pub enum StoredRun<'a> {
    /// Packed, and not changed since.
    Packed(&'a Arc<PackedRun>),
    /// Unpacked, and possibly changed.
    Unpacked(&'a Run),
}

impl Runs {
    /// Looks up a run.
    #[must_use]
    pub fn get(&self, id: &RunId) -> Option<&Run> {
        self.runs.get(id)?.unpacked(*id, &self.fault)
    }

    /// Looks up a run to change it.
    pub fn get_mut(&mut self, id: &RunId) -> Option<&mut Run> {
        let slot = self.runs.get_mut(id)?;
        slot.unpacked(*id, &self.fault)?;
        mutant!(StaleRunHashKept => return slot.run.get_mut().map(AsMut::as_mut));
        slot.packed = None;
        slot.hash = OnceLock::new();
        slot.run.get_mut().map(AsMut::as_mut)
    }

    /// Why a run could not be unpacked, for the first such run.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.fault.get()
    }

    /// Records why a run must not be used, unless an earlier reason was recorded.
    pub fn record_fault(&self, why: String) {
        self.fault.record(why);
    }

    /// Adds or replaces a run.
    pub fn insert(&mut self, id: RunId, run: Run) {
        let slot = RunSlot { run: Box::new(run).into(), ..RunSlot::default() };
        self.runs.insert(id, slot);
    }

    /// Adds a packed run.
    pub fn insert_packed(&mut self, id: RunId, packed: Arc<PackedRun>) {
        self.runs.insert(id, RunSlot { packed: Some(packed), ..RunSlot::default() });
    }

    /// Removes a run and returns it.
    pub fn remove(&mut self, id: &RunId) -> Option<Run> {
        self.get(id)?;
        self.runs.remove(id)?.run.into_inner().map(|run| *run)
    }

    /// Removes a run without unpacking it, and returns it if it was unpacked.
    pub fn discard(&mut self, id: &RunId) -> Option<Box<Run>> {
        self.runs.remove(id)?.run.into_inner()
    }

    /// The numbers of the runs, ascending.
    #[must_use]
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &RunId> {
        self.runs.keys()
    }

    /// Unpacks and iterates over the runs by number.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&RunId, &Run)> {
        self.runs.iter().filter_map(|(id, slot)| Some((id, slot.unpacked(*id, &self.fault)?)))
    }

    /// Unpacks and iterates over the runs by number.
    #[must_use]
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.iter().map(|(_, run)| run)
    }

    /// Changes all runs, by number.
    pub fn for_each_mut(&mut self, mut change: impl FnMut(&mut Run)) {
        let ids: Vec<RunId> = self.keys().copied().collect();
        for id in ids {
            if let Some(run) = self.get_mut(&id) {
                change(run);
            }
        }
    }

    /// The overviews of all runs, by number, without unpacking.
    #[must_use]
    pub fn overviews(&self) -> impl DoubleEndedIterator<Item = (RunId, Cow<'_, RunOverview>)> {
        self.stored().map(|(id, form)| (id, form.overview()))
    }

    /// The overview of a run, without unpacking.
    #[must_use]
    pub fn overview(&self, id: &RunId) -> Option<Cow<'_, RunOverview>> {
        Some(self.runs.get(id)?.stored()?.overview())
    }

    /// The numbers of the runs that have not ended.
    #[must_use]
    pub fn open(&self) -> impl DoubleEndedIterator<Item = RunId> {
        self.overviews().filter(|(_, overview)| overview.is_open()).map(|(id, _)| id)
    }

    /// The runs with pending consequences that did not fit into a batch. Packed runs are not
    /// listed: the first command that accesses such a run settles it.
    pub(crate) fn unsettled(&self) -> Vec<RunId> {
        let is_remaining = |(id, form)| match form {
            StoredRun::Unpacked(run) if run.is_unsettled() => Some(id),
            StoredRun::Unpacked(_) | StoredRun::Packed(_) => None,
        };
        self.stored().filter_map(is_remaining).collect()
    }

    /// The stored form of each run, by number.
    #[must_use]
    pub fn stored(&self) -> impl DoubleEndedIterator<Item = (RunId, StoredRun<'_>)> {
        self.runs.iter().filter_map(|(id, slot)| Some((*id, slot.stored()?)))
    }

    /// The hash of each run, by number; `hash` computes those that are not cached.
    pub fn hashes(
        &self,
        hash: impl Fn(&Run) -> ContentHash,
    ) -> impl Iterator<Item = (RunId, ContentHash)> {
        self.runs.iter().filter_map(move |(id, slot)| {
            if let Some(packed) = &slot.packed {
                return Some((*id, packed.hash));
            }
            let run = slot.run.get()?;
            Some((*id, *slot.hash.get_or_init(|| hash(run))))
        })
    }

    /// The hash of each run, by number, computed from its values even if it is cached.
    pub fn computed_hashes(
        &self,
        hash: impl Fn(&Run) -> ContentHash,
    ) -> impl Iterator<Item = (RunId, ContentHash)> {
        self.iter().map(move |(id, run)| (*id, hash(run)))
    }

    /// Number of runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there are no runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether a run with this number exists.
    #[must_use]
    pub fn contains_key(&self, id: &RunId) -> bool {
        self.runs.contains_key(id)
    }
}

impl<'a> StoredRun<'a> {
    fn overview(self) -> Cow<'a, RunOverview> {
        match self {
            Self::Packed(packed) => Cow::Borrowed(&packed.overview),
            Self::Unpacked(run) => Cow::Owned(RunOverview::of(run)),
        }
    }
}

impl RunSlot {
    fn stored(&self) -> Option<StoredRun<'_>> {
        let packed = self.packed.as_ref().map(StoredRun::Packed);
        packed.or_else(|| self.run.get().map(|run| StoredRun::Unpacked(run)))
    }

    /// Unpacks the run; `None` if that fails, which `fault` records.
    fn unpacked(&self, id: RunId, fault: &StateFault) -> Option<&Run> {
        if let Some(run) = self.run.get() {
            return Some(run);
        }
        let packed = self.packed.as_ref()?;
        let why = match (packed.unpack)(packed, fault) {
            Ok(run) if run.id == id => return Some(self.run.get_or_init(|| Box::new(run))),
            Ok(run) => format!("run {id} is stored under the number of run {}", run.id),
            Err(why) => format!("run {id} cannot be read: {why}"),
        };
        fault.record(why);
        None
    }
}

impl Index<&RunId> for Runs {
    type Output = Run;

    fn index(&self, id: &RunId) -> &Run {
        self.get(id).expect("a run with this number exists")
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl fmt::Debug for PackedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { overview, hash, bytes, .. } = self;
        let mut shown = f.debug_struct("PackedRun");
        shown.field("overview", overview).field("hash", hash).field("bytes", &bytes.len());
        shown.finish_non_exhaustive()
    }
}
