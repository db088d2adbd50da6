//! The body of a snapshot of the state (`format/snapshot.md`, section 3), and the state as a
//! projection.
//!
//! A body holds the differences from its base, or from the empty state. Values that are not part of a
//! run come first. The parts of runs (plans, leaves of steps) follow, and then the runs, which name
//! their parts: a run that changed costs its head and the leaves that changed. Each part and each run
//! is compressed by itself, so that a reader decompresses only the runs that it needs.
//!
//! Invariants:
//! - Invalid bytes are an error, never a panic, and no count or length in them is trusted before that
//!   much has been read.
//! - A run or a part that was not decompressed is written as it was read, or omitted where the base
//!   has it.
//! - The state hash alone proves that the result is the right state; decoding the body proves
//!   nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plan::{
    AttemptToken, ContentHash, PackedPart, PackedRun, PlanVersion, RunId, RunOverview, RunSummary,
    SecretHash, State, StepNumber, StepState, StoredLeaf, StoredRun,
};

use crate::ledger::codec::hash::plan_hash;
use crate::ledger::codec::values::{Values, put};
use crate::ledger::projection::{
    Projection, ProjectionOwner, RecordedEvent, apply_owned_record, apply_record,
};

use super::compression::compress;
use super::run_body::{self, PartHashes, expect_end, invalid, put_bytes, put_count, put_many};
use super::state_hash::{computed_run_hash, run_hash, state_hash};

/// The size of the write buffer. Values are only a few bytes each.
const PIECE: usize = 64 << 10;

/// What of a state matters to the snapshots that are based on it: less than the state, so that a
/// writer can keep it.
#[derive(Debug, Default)]
pub(crate) struct Base {
    names: BTreeMap<String, RunId>,
    summaries: BTreeMap<RunId, RunSummary>,
    dispatched: BTreeMap<AttemptToken, (RunId, StepNumber, SecretHash)>,
    runs: BTreeMap<RunId, (ContentHash, RunOverview)>,
    /// The hashes of the parts of these runs.
    parts: BTreeSet<ContentHash>,
}

impl Base {
    pub(crate) fn of(state: &State) -> Self {
        let hashes = |form| [plan_hashes(&form), leaf_hashes(&form)].concat();
        let run = |RunEntry { id, hash, overview, .. }| (id, (hash, overview.into_owned()));
        Self {
            names: state.names.clone(),
            summaries: state.summaries.clone(),
            dispatched: state.dispatched.clone(),
            runs: run_entries(state).map(run).collect(),
            parts: state.runs.stored().flat_map(|(_, form)| hashes(form)).collect(),
        }
    }
}

/// Write the differences of a state from its base.
///
/// # Errors
/// Those of the writer; `InvalidData` for a value that is longer than a reader accepts, and for bytes of
/// an older snapshot that do not have their hash.
pub(crate) fn encode(state: &State, base: &Base, out: &mut dyn io::Write) -> io::Result<()> {
    let out = &mut io::BufWriter::with_capacity(PIECE, out);
    encode_values(state, base, out)?;
    let entries = changed_runs(state, base);
    let indexes = encode_parts(&entries, base, out)?;
    put_many(out, removed_keys(base.runs.keys(), |id| state.runs.contains_key(id)))?;
    put_count(out, entries.len())?;
    for RunEntry { id, hash, overview, form } in entries {
        let indexes_of = |hashes: Vec<ContentHash>| {
            let index = |hash| indexes.get(&hash).copied().unwrap_or_default();
            hashes.into_iter().map(index).collect::<Vec<u32>>()
        };
        let [plans, leaves] = [plan_hashes(&form), leaf_hashes(&form)].map(indexes_of);
        put(out, &(id, hash, overview, plans, leaves))?;
        match form {
            StoredRun::Packed(packed) => {
                // The bytes may not have been validated since they were read.
                if !run_body::has_own_hash(packed) {
                    return Err(invalid("the bytes of a run do not have its hash"));
                }
                put_bytes(out, &packed.bytes)?;
            }
            StoredRun::Unpacked(run) => {
                let mut bytes = Vec::new();
                run_body::encode(run, &mut bytes)?;
                put_bytes(out, &compress(&bytes)?)?;
            }
        }
    }
    out.flush()
}

fn encode_values(state: &State, base: &Base, out: &mut impl io::Write) -> io::Result<()> {
    put(out, &(state.seq, state.time, &state.account))?;
    put_changes(out, &state.names, &base.names)?;
    put_many(out, &state.ended)?;
    put_changes(out, &state.summaries, &base.summaries)?;
    put_many(out, &state.caps)?;
    put_many(out, &state.in_flight)?;
    put_many(out, &state.in_flight_by_owner)?;
    put_many(out, &state.in_flight_by_tag)?;
    put_many(out, &state.due)?;
    put_many(out, &state.questions)?;
    put_changes(out, &state.dispatched, &base.dispatched)?;
    put_many(out, &state.lost)
}

/// The keys of the base that the state does not have.
fn removed_keys<K>(base: impl Iterator<Item = K>, is_kept: impl Fn(&K) -> bool) -> Vec<K> {
    base.filter(|key| !is_kept(key)).collect()
}

/// Write the differences of a map from that of the base.
fn put_changes<K, V>(
    out: &mut impl io::Write,
    map: &BTreeMap<K, V>,
    base: &BTreeMap<K, V>,
) -> io::Result<()>
where
    K: Ord + Serialize,
    V: PartialEq + Serialize,
{
    let (mut removed, mut changed) = (Vec::new(), Vec::new());
    let mut entries = map.iter().peekable();
    for (key, before) in base {
        // Both maps are in order, so that no key needs to be looked up.
        while let Some(added) = entries.next_if(|(own, _)| *own < key) {
            changed.push(added);
        }
        match entries.next_if(|(own, _)| *own == key) {
            None => removed.push(key),
            Some((_, value)) if value == before => {}
            Some(entry) => changed.push(entry),
        }
    }
    changed.extend(entries);
    put_many(out, removed)?;
    put_many(out, changed)
}

fn take_changes<'a, K, V>(input: &mut Values<'a>, map: &mut BTreeMap<K, V>) -> io::Result<()>
where
    K: Ord + Deserialize<'a>,
    V: Deserialize<'a>,
{
    for key in input.take::<Vec<K>>()? {
        map.remove(&key);
    }
    if map.is_empty() {
        // Collecting is far cheaper than inserting one by one.
        *map = input.take_many()?;
    } else {
        map.extend(input.take::<Vec<(K, V)>>()?);
    }
    Ok(())
}

/// A run to be written.
struct RunEntry<'a> {
    id: RunId,
    hash: ContentHash,
    overview: Cow<'a, RunOverview>,
    form: StoredRun<'a>,
}

fn run_entries(state: &State) -> impl Iterator<Item = RunEntry<'_>> {
    let entries = state.runs.stored().zip(state.runs.hashes(run_hash)).zip(state.runs.overviews());
    entries.map(|(((id, form), (_, hash)), (_, overview))| RunEntry { id, hash, overview, form })
}

/// The runs that the base does not have, or has with another content.
fn changed_runs<'a>(state: &'a State, base: &Base) -> Vec<RunEntry<'a>> {
    let is_changed = |entry: &RunEntry<'_>| {
        let known = base.runs.get(&entry.id);
        known.is_none_or(|(hash, overview)| *hash != entry.hash || *overview != *entry.overview)
    };
    run_entries(state).filter(is_changed).collect()
}

/// A part of a run to be written.
enum PartForm<'a> {
    PackedPlan(&'a PackedPart),
    PackedLeaf(&'a PackedPart),
    Plan(&'a PlanVersion),
    Leaf(&'a [StepState]),
}

impl PartForm<'_> {
    fn packed(&self) -> io::Result<Cow<'_, [u8]>> {
        match self {
            // As for runs: the bytes may not have been validated since they were read.
            Self::PackedPlan(part) if !run_body::is_intact_plan(part) => {
                Err(invalid("the bytes of a plan do not have its hash"))
            }
            Self::PackedLeaf(part) if !run_body::is_intact_leaf(part) => {
                Err(invalid("the bytes of a leaf do not have its hash"))
            }
            Self::PackedPlan(part) | Self::PackedLeaf(part) => Ok(Cow::Borrowed(&part.bytes)),
            Self::Plan(version) => {
                Ok(Cow::Owned(compress(&run_body::plan_bytes(version)?)?.into()))
            }
            Self::Leaf(steps) => Ok(Cow::Owned(compress(&run_body::leaf_bytes(steps)?)?.into())),
        }
    }
}

/// The plans of a run's versions, in order.
fn plans<'a>(form: &StoredRun<'a>) -> Vec<(ContentHash, PartForm<'a>)> {
    let of_version = |version| (PartHashes::Kept.of_plan(version), PartForm::Plan(version));
    match form {
        StoredRun::Packed(packed) => {
            packed.plans.iter().map(|part| (part.hash, PartForm::PackedPlan(part))).collect()
        }
        StoredRun::Unpacked(run) => run.versions.iter().map(of_version).collect(),
    }
}

/// The leaves of a run's steps, in order.
fn leaves<'a>(form: &StoredRun<'a>) -> Vec<(ContentHash, PartForm<'a>)> {
    match form {
        StoredRun::Packed(packed) => {
            packed.leaves.iter().map(|part| (part.hash, PartForm::PackedLeaf(part))).collect()
        }
        StoredRun::Unpacked(run) => {
            let form = |leaf| match leaf {
                StoredLeaf::Packed(part) => PartForm::PackedLeaf(part),
                StoredLeaf::Unpacked(steps) => PartForm::Leaf(steps),
            };
            let leaves = run.steps.stored_leaves(run_body::leaf_hash);
            leaves.map(|(leaf, hash)| (hash, form(leaf))).collect()
        }
    }
}

fn plan_hashes(form: &StoredRun<'_>) -> Vec<ContentHash> {
    plans(form).into_iter().map(|(hash, _)| hash).collect()
}

fn leaf_hashes(form: &StoredRun<'_>) -> Vec<ContentHash> {
    leaves(form).into_iter().map(|(hash, _)| hash).collect()
}

/// Write every part of these runs once, without its bytes if the base has it, and return the index
/// of each.
fn encode_parts(
    entries: &[RunEntry<'_>],
    base: &Base,
    out: &mut impl io::Write,
) -> io::Result<BTreeMap<ContentHash, u32>> {
    let (mut indexes, mut parts) = (BTreeMap::new(), Vec::new());
    for entry in entries {
        for (hash, form) in plans(&entry.form).into_iter().chain(leaves(&entry.form)) {
            let next = u32::try_from(parts.len()).map_err(io::Error::other)?;
            if *indexes.entry(hash).or_insert(next) == next {
                parts.push((hash, form));
            }
        }
    }
    put_count(out, parts.len())?;
    for (hash, form) in parts {
        put(out, &hash)?;
        if base.parts.contains(&hash) {
            put(out, &None::<&[u8]>)?;
        } else {
            // The tag of `Some`; the bytes may be longer than one value.
            put(out, &1_u8)?;
            put_bytes(out, &form.packed()?)?;
        }
    }
    Ok(indexes)
}

/// Apply a body to its base, to the end of the input.
fn decode(base: State, input: &mut dyn io::Read) -> io::Result<State> {
    let body = read_all(input)?;
    let input = &mut Values::new(&body);
    let mut state = base;
    decode_values(&mut state, input)?;
    let parts = decode_parts(&state, input)?;
    for id in input.take::<Vec<RunId>>()? {
        state.runs.discard(&id);
    }
    let parts_at = |indexes: Vec<u32>| {
        let part = |index| parts.get(usize::try_from(index).ok()?).cloned();
        let parts: Option<Vec<_>> = indexes.into_iter().map(part).collect();
        parts.ok_or_else(|| invalid("the index of a part is out of range"))
    };
    for _ in 0..input.take::<u64>()? {
        let (id, hash, overview, plans, leaves) = input.take()?;
        let (plans, leaves) = (parts_at(plans)?, parts_at(leaves)?);
        let (bytes, unpack) = (input.take::<&[u8]>()?.into(), run_body::unpack);
        let packed = PackedRun { overview, hash, bytes, plans, leaves, unpack };
        state.runs.insert_packed(id, packed.into());
    }
    expect_end(input)?;
    Ok(state)
}

fn decode_values(state: &mut State, input: &mut Values<'_>) -> io::Result<()> {
    (state.seq, state.time, state.account) = input.take()?;
    take_changes(input, &mut state.names)?;
    state.ended = input.take_many()?;
    take_changes(input, &mut state.summaries)?;
    state.caps = input.take_many()?;
    state.in_flight = input.take_many()?;
    state.in_flight_by_owner = input.take_many()?;
    state.in_flight_by_tag = input.take_many()?;
    state.due = input.take_many()?;
    state.questions = input.take_many()?;
    take_changes(input, &mut state.dispatched)?;
    state.lost = input.take_many()?;
    Ok(())
}

/// Read the parts of the runs that follow. A part without bytes is taken from the base.
fn decode_parts(base: &State, input: &mut Values<'_>) -> io::Result<Vec<Arc<PackedPart>>> {
    let mut in_base = BTreeMap::new();
    for (_, form) in base.runs.stored() {
        if let StoredRun::Packed(packed) = form {
            let parts = packed.plans.iter().chain(&packed.leaves);
            in_base.extend(parts.map(|part| (part.hash, part)));
        }
    }
    let mut parts = Vec::new();
    for _ in 0..input.take::<u64>()? {
        let (hash, bytes): (ContentHash, Option<&[u8]>) = input.take()?;
        let part = if let Some(bytes) = bytes {
            Arc::new(PackedPart::new(hash, bytes.into()))
        } else {
            let part = in_base.get(&hash).copied();
            part.ok_or_else(|| invalid("the base lacks a part"))?.clone()
        };
        parts.push(part);
    }
    Ok(parts)
}

fn read_all(input: &mut dyn io::Read) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    input.read_to_end(&mut all)?;
    Ok(all)
}

/// Check runs that were read, each with its hash: the values have that hash, so that a fold that
/// reaches them has it, too; and the plan of a version has the version's hash, which approvals are
/// bound to. A version lacks steps only in the middle of a batch, and then its hash is not that of its
/// plan.
pub(crate) fn check_runs(state: &State, runs: impl Iterator<Item = (RunId, ContentHash)>) {
    let mut checked = BTreeSet::new();
    for (id, hash) in runs {
        // A run that cannot be unpacked is a fault already.
        let Some(run) = state.runs.get(&id) else { continue };
        if computed_run_hash(run) != hash {
            state.runs.record_fault(format!("run {id} has a hash that is not that of its values"));
        }
        for version in &run.versions {
            let steps = u32::try_from(version.plan.len()).unwrap_or(u32::MAX);
            let key = (PartHashes::Kept.of_plan(version), version.hash);
            if steps == version.step_count
                && checked.insert(key)
                && plan_hash(&version.plan.decode()) != version.hash
            {
                let what = "a plan differs from the hash of its version";
                state.runs.record_fault(what.to_owned());
            }
        }
    }
}

/// The state of the ledger: plans, steps, queues, variables, barriers.
impl Projection for State {
    const NAME: &'static str = "state";
    const VERSION: u32 = 1;
    const OWNER: ProjectionOwner = ProjectionOwner::Ledger;

    fn apply(&mut self, record: &RecordedEvent) {
        apply_record(self, record);
    }

    fn apply_owned(&mut self, record: RecordedEvent) {
        apply_owned_record(self, record);
    }

    fn encode(&self, out: &mut dyn io::Write) -> io::Result<()> {
        encode(self, &Base::default(), out)
    }

    fn decode(input: &mut dyn io::Read) -> io::Result<Self> {
        decode(Self::default(), input)
    }

    fn encode_changes(&self, base: &Self, out: &mut dyn io::Write) -> io::Result<()> {
        encode(self, &Base::of(base), out)
    }

    fn decode_changes(base: Self, input: &mut dyn io::Read) -> io::Result<Self> {
        decode(base, input)
    }

    fn hash(&self) -> ContentHash {
        state_hash(self)
    }

    fn fault(&self) -> Option<&str> {
        self.runs.fault()
    }

    fn validate(&self) -> Option<&str> {
        check_runs(self, self.runs.hashes(run_hash));
        self.runs.fault()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Codec, content_hash, covered_part};
    use crate::plan::{Run, RunPolicy, StateFault, Steps};

    /// A state of one run with one step, which is in a leaf of these bytes.
    fn state(leaf: &[u8]) -> State {
        let hash = ContentHash(content_hash(covered_part(Codec::Detached, leaf)));
        let part = Arc::new(PackedPart::new(hash, compress(leaf).unwrap()));
        let mut run = Run::new(RunId(1), "run", RunPolicy::default(), 1);
        let (leaves, fault) = ([part], StateFault::default());
        run.steps = Steps::packed(1, &leaves, run_body::unpack_leaf, &fault).unwrap();
        let mut bytes = Vec::new();
        run_body::encode(&run, &mut bytes).unwrap();
        let packed = PackedRun {
            overview: RunOverview::of(&run),
            hash: run_hash(&run),
            bytes: compress(&bytes).unwrap(),
            plans: Vec::new(),
            leaves: leaves.to_vec(),
            unpack: run_body::unpack,
        };
        let mut state = State::default();
        state.runs.insert_packed(RunId(1), packed.into());
        state
    }

    /// Goal: bytes that have their hashes, and are other bytes than the values encode to, are rejected by
    /// whatever checks a state: a fold would never have these hashes.
    #[test]
    fn another_encoding_of_the_same_values_is_rejected() {
        let leaf = run_body::leaf_bytes(&[StepState::new("a")]).unwrap();
        assert_eq!(state(&leaf).validate(), None);
        // The number of steps, in three bytes instead of one.
        let other = [&[251, 1, 0], &leaf[1..]].concat();
        let state = state(&other);
        assert_eq!(state.runs[&RunId(1)].steps[0].id(), "a");
        assert!(state.validate().unwrap().contains("not that of its values"));
    }
}
