//! The runs of a state: each whole, or as the bytes that it came in until somebody looks at it.
//!
//! Invariants:
//! - Whether a run was unpacked yet makes no difference to anybody: not to what is found, and not
//!   to the state's hash.
//! - Bytes that turn out to be no run are never taken for one: it is as if the run were not there,
//!   and [`Runs::fault`] says so from then on. Who folds or decides looks there before anything
//!   follows from what was found.
//!
//! Left out on purpose: what the bytes mean, which is for whoever packed them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;
use std::sync::{Arc, OnceLock};

use super::links::SharedLinks;
use super::overview::Glance;
use super::run::Run;
use crate::plan::state::compact::plan::CompactPlan;
use crate::plan::value::ids::{ContentHash, RunId};

/// Runs by number.
#[derive(Clone, Default)]
pub struct Runs {
    runs: BTreeMap<RunId, Kept>,
    fault: OnceLock<String>,
}

/// A run that nobody looked at yet.
pub struct PackedRun {
    /// What a list shows of it.
    pub glance: Glance,
    /// Hash of what `bytes` unpack to.
    pub hash: ContentHash,
    /// The run, its plans left out, packed.
    pub bytes: Box<[u8]>,
    /// The plans of its versions, in order.
    pub plans: Vec<Arc<PackedPlan>>,
    /// How the run is made of all that, or why it cannot be.
    pub unpack: fn(&Self) -> Result<Run, String>,
}

/// A plan by the hash of a version that has it, and how many of its steps were read.
pub type PlanKey = (ContentHash, u64);

/// A plan that nobody looked at yet.
pub struct PackedPlan {
    /// Which one it is.
    pub key: PlanKey,
    /// Its text, packed.
    pub bytes: Box<[u8]>,
    /// The plan, once somebody did.
    pub plan: OnceLock<Arc<CompactPlan>>,
    /// The lookups of runs whose active version has it.
    pub links: OnceLock<SharedLinks>,
}

impl PackedPlan {
    /// A plan whose text nobody looked at yet.
    #[must_use]
    pub fn new(key: PlanKey, bytes: Box<[u8]>) -> Self {
        Self { key, bytes, plan: OnceLock::new(), links: OnceLock::new() }
    }
}

/// One run. It is there, or packed, or both.
#[derive(Debug, Clone, Default)]
struct Kept {
    run: OnceLock<Box<Run>>,
    packed: Option<Arc<PackedRun>>,
    hash: OnceLock<ContentHash>,
}

/// How a run is kept.
#[derive(Debug)]
pub enum Form<'a> {
    /// Nobody changed it since it was unpacked, if anybody did that.
    Packed(&'a Arc<PackedRun>),
    /// It is there.
    Whole(&'a Run),
}

impl Runs {
    /// A run.
    #[must_use]
    pub fn get(&self, id: &RunId) -> Option<&Run> {
        self.runs.get(id)?.unpacked(*id, &self.fault)
    }

    /// A run, to be changed.
    pub fn get_mut(&mut self, id: &RunId) -> Option<&mut Run> {
        let kept = self.runs.get_mut(id)?;
        kept.unpacked(*id, &self.fault)?;
        mutant!(StaleRunHashKept => return kept.run.get_mut().map(AsMut::as_mut));
        kept.packed = None;
        kept.hash = OnceLock::new();
        kept.run.get_mut().map(AsMut::as_mut)
    }

    /// What is wrong with the bytes of a run that somebody looked at.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// Look at all of them: what is wrong with the bytes of any, if anything.
    #[must_use]
    pub fn check(&self) -> Option<&str> {
        self.values().for_each(drop);
        self.fault()
    }

    /// Add a run, in the place of any of that number.
    pub fn insert(&mut self, id: RunId, run: Run) {
        let kept = Kept { run: Box::new(run).into(), ..Kept::default() };
        self.runs.insert(id, kept);
    }

    /// Add a run that is to be unpacked when somebody looks at it.
    pub fn insert_packed(&mut self, id: RunId, packed: Arc<PackedRun>) {
        self.runs.insert(id, Kept { packed: Some(packed), ..Kept::default() });
    }

    /// Take a run out.
    pub fn remove(&mut self, id: &RunId) -> Option<Run> {
        self.get(id)?;
        self.runs.remove(id)?.run.into_inner().map(|run| *run)
    }

    /// Leave a run out; it, if it is there: nothing is unpacked for that.
    pub fn discard(&mut self, id: &RunId) -> Option<Box<Run>> {
        self.runs.remove(id)?.run.into_inner()
    }

    /// Their numbers, ascending.
    #[must_use]
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &RunId> {
        self.runs.keys()
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&RunId, &Run)> {
        self.runs.iter().filter_map(|(id, kept)| Some((id, kept.unpacked(*id, &self.fault)?)))
    }

    /// All of them, by number.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Run> {
        self.iter().map(|(_, run)| run)
    }

    /// All of them, by number, to be changed.
    pub fn for_each_mut(&mut self, mut change: impl FnMut(&mut Run)) {
        let ids: Vec<RunId> = self.keys().copied().collect();
        for id in ids {
            if let Some(run) = self.get_mut(&id) {
                change(run);
            }
        }
    }

    /// What a list shows of each of them, by number. Nothing is unpacked for it.
    pub fn glances(&self) -> impl DoubleEndedIterator<Item = (RunId, Cow<'_, Glance>)> {
        self.forms().map(|(id, form)| (id, form.glance()))
    }

    /// What a list shows of one of them. Nothing is unpacked for it.
    #[must_use]
    pub fn glance(&self, id: &RunId) -> Option<Cow<'_, Glance>> {
        Some(self.runs.get(id)?.form()?.glance())
    }

    /// The numbers of those in which work may still go on.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = RunId> {
        self.glances().filter(|(_, glance)| glance.is_open()).map(|(id, _)| id)
    }

    /// The numbers of those of which something that follows is left over, because it had no room in
    /// a batch. One that nobody looked at since it was read is not looked at for that: whoever
    /// works on it does.
    pub(crate) fn unsettled(&self) -> Vec<RunId> {
        let is_left = |(id, form)| match form {
            Form::Whole(run) if run.is_unsettled() => Some(id),
            Form::Whole(_) | Form::Packed(_) => None,
        };
        self.forms().filter_map(is_left).collect()
    }

    /// How each of them is kept, by number.
    pub fn forms(&self) -> impl DoubleEndedIterator<Item = (RunId, Form<'_>)> {
        self.runs.iter().filter_map(|(id, kept)| Some((*id, kept.form()?)))
    }

    /// The hash of each of them, by number: `hash` is asked for those that are not known.
    pub fn hashes(
        &self,
        hash: impl Fn(&Run) -> ContentHash,
    ) -> impl Iterator<Item = (RunId, ContentHash)> {
        self.runs.iter().filter_map(move |(id, kept)| {
            if let Some(packed) = &kept.packed {
                return Some((*id, packed.hash));
            }
            let run = kept.run.get()?;
            Some((*id, *kept.hash.get_or_init(|| hash(run))))
        })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether there is one of that number.
    #[must_use]
    pub fn contains_key(&self, id: &RunId) -> bool {
        self.runs.contains_key(id)
    }
}

impl<'a> Form<'a> {
    fn glance(self) -> Cow<'a, Glance> {
        match self {
            Self::Packed(packed) => Cow::Borrowed(&packed.glance),
            Self::Whole(run) => Cow::Owned(Glance::of(run)),
        }
    }
}

impl Kept {
    fn form(&self) -> Option<Form<'_>> {
        let packed = self.packed.as_ref().map(Form::Packed);
        packed.or_else(|| self.run.get().map(|run| Form::Whole(run)))
    }

    /// The run; `None` if its bytes are none, and `fault` says so from then on.
    fn unpacked(&self, id: RunId, fault: &OnceLock<String>) -> Option<&Run> {
        if let Some(run) = self.run.get() {
            return Some(run);
        }
        let packed = self.packed.as_ref()?;
        let why = match (packed.unpack)(packed) {
            Ok(run) if run.id == id => return Some(self.run.get_or_init(|| Box::new(run))),
            Ok(run) => format!("run {id} is kept as run {}", run.id),
            Err(why) => format!("run {id} cannot be read: {why}"),
        };
        // The first one counts.
        let _ = fault.set(why);
        None
    }
}

impl Index<&RunId> for Runs {
    type Output = Run;

    fn index(&self, id: &RunId) -> &Run {
        self.get(id).expect("a run of that number")
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl fmt::Debug for PackedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { glance, hash, bytes, .. } = self;
        let mut shown = f.debug_struct("PackedRun");
        shown.field("glance", glance).field("hash", hash).field("bytes", &bytes.len());
        shown.finish_non_exhaustive()
    }
}
