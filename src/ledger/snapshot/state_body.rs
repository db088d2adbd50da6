//! The body of a snapshot of the state (`format/snapshot.md`, section 3), and the state as a
//! projection.
//!
//! A body holds the differences from its base, or from the empty state. Values that are not part of a
//! run come first; plans and runs follow, each compressed by itself, so that a reader decompresses
//! only the runs that it needs.
//!
//! Invariants:
//! - Invalid bytes are an error, never a panic, and no count or length in them is trusted before that
//!   much has been read.
//! - A run that was not decompressed is written as it was read, or omitted where the base has it.
//! - The state hash alone proves that the result is the right state; decoding the body proves
//!   nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plan::{
    ContentHash, PackedPlan, PackedRun, PlanKey, PlanVersion, RunId, RunOverview, State, StoredRun,
};

use crate::ledger::codec::values::{Values, put};
use crate::ledger::projection::{
    Projection, ProjectionOwner, RecordedEvent, apply_owned_record, apply_record,
};

use super::compression::compress;
use super::run_body::{self, expect_end, invalid, plan_text, put_count, put_many};
use super::state_hash::{run_hash, state_hash};

/// The size of the write buffer. Values are only a few bytes each.
const PIECE: usize = 64 << 10;

/// Write the differences of a state from its base.
fn encode(state: &State, base: &State, out: &mut dyn io::Write) -> io::Result<()> {
    let out = &mut io::BufWriter::with_capacity(PIECE, out);
    encode_values(state, base, out)?;
    let entries = changed_runs(state, base);
    let indexes = encode_plans(&entries, base, out)?;
    put_many(out, removed_keys(base.runs.keys(), |id| state.runs.contains_key(id)))?;
    put_count(out, entries.len())?;
    for RunEntry { id, hash, overview, form } in entries {
        let index_of = |key| indexes.get(&key).copied().unwrap_or_default();
        put(out, &(id, hash, overview, plan_keys(&form).map(index_of).collect::<Vec<u32>>()))?;
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

fn encode_values(state: &State, base: &State, out: &mut impl io::Write) -> io::Result<()> {
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
    put_many(out, removed_keys(base.keys(), |key| map.contains_key(key)))?;
    let is_changed = |(key, value): &(&K, &V)| base.get(key) != Some(value);
    put_many(out, map.iter().filter(is_changed).collect::<Vec<_>>())
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
fn changed_runs<'a>(state: &'a State, base: &State) -> Vec<RunEntry<'a>> {
    let in_base: BTreeMap<_, _> =
        run_entries(base).map(|entry| (entry.id, (entry.hash, entry.overview))).collect();
    let is_changed = |entry: &RunEntry<'_>| {
        let known = in_base.get(&entry.id);
        known.is_none_or(|(hash, overview)| *hash != entry.hash || *overview != entry.overview)
    };
    run_entries(state).filter(is_changed).collect()
}

fn plan_key(version: &PlanVersion) -> PlanKey {
    (version.hash, u64::try_from(version.step_hashes.len()).unwrap_or(u64::MAX))
}

/// The plans of a run's versions, in order.
fn plan_keys<'a>(form: &StoredRun<'a>) -> impl Iterator<Item = PlanKey> + use<'a> {
    let (packed, versions) = match form {
        StoredRun::Packed(packed) => (packed.plans.as_slice(), [].as_slice()),
        StoredRun::Unpacked(run) => ([].as_slice(), run.versions.as_slice()),
    };
    packed.iter().map(|plan| plan.key).chain(versions.iter().map(plan_key))
}

/// Write every plan of these runs once, and return the index of each.
fn encode_plans(
    entries: &[RunEntry<'_>],
    base: &State,
    out: &mut impl io::Write,
) -> io::Result<BTreeMap<PlanKey, u32>> {
    let in_base: BTreeSet<PlanKey> =
        base.runs.stored().flat_map(|(_, form)| plan_keys(&form)).collect();
    let (mut indexes, mut plans) = (BTreeMap::new(), Vec::new());
    for entry in entries {
        for (at, key) in plan_keys(&entry.form).enumerate() {
            let next = u32::try_from(plans.len()).map_err(io::Error::other)?;
            if *indexes.entry(key).or_insert(next) == next {
                plans.push((key, &entry.form, at));
            }
        }
    }
    put_count(out, plans.len())?;
    for (key, form, at) in plans {
        put(out, &key)?;
        if in_base.contains(&key) {
            put(out, &None::<&[u8]>)?;
            continue;
        }
        // The tag of `Some`; the text is written in pieces, since it may be longer than one value.
        put(out, &1_u8)?;
        match form {
            StoredRun::Packed(packed) => {
                put_bytes(out, packed.plans.get(at).map_or(&[], |plan| &plan.bytes))?;
            }
            StoredRun::Unpacked(run) => {
                let text = run.versions.get(at).map(|version| plan_text(&version.plan));
                put_bytes(out, &compress(&text.transpose()?.unwrap_or_default())?)?;
            }
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
    let plans = decode_plans(&state, input)?;
    for id in input.take::<Vec<RunId>>()? {
        state.runs.discard(&id);
    }
    for _ in 0..input.take::<u64>()? {
        let (id, hash, overview, indexes): (_, _, _, Vec<u32>) = input.take()?;
        let plan = |index| plans.get(usize::try_from(index).ok()?).cloned();
        let plans: Option<Vec<_>> = indexes.into_iter().map(plan).collect();
        let plans = plans.ok_or_else(|| invalid("the index of a plan is out of range"))?;
        let (bytes, unpack) = (input.take::<&[u8]>()?.into(), run_body::unpack);
        state.runs.insert_packed(id, PackedRun { overview, hash, bytes, plans, unpack }.into());
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

/// Read the plans of the runs that follow. A plan without a text is taken from the base.
fn decode_plans(base: &State, input: &mut Values<'_>) -> io::Result<Vec<Arc<PackedPlan>>> {
    let mut in_base = BTreeMap::new();
    for (_, form) in base.runs.stored() {
        if let StoredRun::Packed(packed) = form {
            in_base.extend(packed.plans.iter().map(|plan| (plan.key, plan)));
        }
    }
    let mut plans = Vec::new();
    for _ in 0..input.take::<u64>()? {
        let (key, text): (PlanKey, Option<&[u8]>) = input.take()?;
        let plan = if let Some(text) = text {
            Arc::new(PackedPlan::new(key, text.into()))
        } else {
            let plan = in_base.get(&key).copied();
            plan.ok_or_else(|| invalid("the base lacks a plan"))?.clone()
        };
        plans.push(plan);
    }
    Ok(plans)
}

fn read_all(input: &mut dyn io::Read) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    input.read_to_end(&mut all)?;
    Ok(all)
}

fn put_bytes(out: &mut impl io::Write, bytes: &[u8]) -> io::Result<()> {
    put_count(out, bytes.len())?;
    out.write_all(bytes)
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
        encode(self, &Self::default(), out)
    }

    fn decode(input: &mut dyn io::Read) -> io::Result<Self> {
        decode(Self::default(), input)
    }

    fn encode_changes(&self, base: &Self, out: &mut dyn io::Write) -> io::Result<()> {
        encode(self, base, out)
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
        self.runs.unpack_all()
    }
}
