//! The body of a snapshot of the state: `format/snapshot.md`, section 3.
//!
//! Invariants:
//! - A body says what is other than in the snapshot that it is based on; one that is based on none,
//!   what is other than in the state before the first record.
//! - What is not a run stands first. The plans and the runs follow, each packed by itself: a reader
//!   unpacks those that somebody looks at.
//! - Decoding is total: bytes that are no state are an error, and no count or length in them is
//!   believed before so much has been read.
//! - A run that nobody changed is written as it was read, or left out where the base has it.
//!
//! Left out on purpose: whether the state is the right one. Its hash says that.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plan::{
    ContentHash, Form, Glance, PackedPlan, PackedRun, PlanKey, PlanVersion, RunId, State,
};

use super::codec::{Values, put};
use super::packed::pack;
use super::run_body::{self, expect_end, invalid, plan_text, put_count, put_many};
use super::state_values::run_hash;

/// So much is read or written at a time. The types are known, since values come in a few bytes each.
const PIECE: usize = 64 << 10;

/// Write what is other in a state than in its base.
pub(super) fn encode(state: &State, base: &State, out: &mut dyn io::Write) -> io::Result<()> {
    let out = &mut io::BufWriter::with_capacity(PIECE, out);
    encode_values(state, base, out)?;
    let rows = changed_runs(state, base);
    let places = encode_plans(&rows, base, out)?;
    put_many(out, gone(base.runs.keys(), |id| state.runs.contains_key(id)))?;
    put_count(out, rows.len())?;
    for Row { id, hash, glance, form } in rows {
        let place = |key| places.get(&key).copied().unwrap_or_default();
        put(out, &(id, hash, glance, keys(&form).map(place).collect::<Vec<u32>>()))?;
        match form {
            Form::Packed(packed) => {
                // Nobody may have looked at it since it was read.
                if !run_body::is_own(packed) {
                    return Err(invalid("a run that is not the one of its hash"));
                }
                put_bytes(out, &packed.bytes)?;
            }
            Form::Whole(run) => {
                let mut bytes = Vec::new();
                run_body::encode(run, &mut bytes)?;
                put_bytes(out, &pack(&bytes)?)?;
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
    put_changes(out, &state.dealt, &base.dealt)
}

/// Those of the base that the state has not.
fn gone<K>(of_base: impl Iterator<Item = K>, is_there: impl Fn(&K) -> bool) -> Vec<K> {
    of_base.filter(|key| !is_there(key)).collect()
}

/// What is other in a map than in that of the base.
fn put_changes<K, V>(
    out: &mut impl io::Write,
    map: &BTreeMap<K, V>,
    base: &BTreeMap<K, V>,
) -> io::Result<()>
where
    K: Ord + Serialize,
    V: PartialEq + Serialize,
{
    put_many(out, gone(base.keys(), |key| map.contains_key(key)))?;
    let is_other = |(key, value): &(&K, &V)| base.get(key) != Some(value);
    put_many(out, map.iter().filter(is_other).collect::<Vec<_>>())
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
        // Made at once, which is far cheaper.
        *map = input.take_many()?;
    } else {
        map.extend(input.take::<Vec<(K, V)>>()?);
    }
    Ok(())
}

/// A run that is written.
struct Row<'a> {
    id: RunId,
    hash: ContentHash,
    glance: Cow<'a, Glance>,
    form: Form<'a>,
}

fn rows(state: &State) -> impl Iterator<Item = Row<'_>> {
    let rows = state.runs.forms().zip(state.runs.hashes(run_hash)).zip(state.runs.glances());
    rows.map(|(((id, form), (_, hash)), (_, glance))| Row { id, hash, glance, form })
}

/// The runs that the base has not, or has otherwise.
fn changed_runs<'a>(state: &'a State, base: &State) -> Vec<Row<'a>> {
    let of_base: BTreeMap<_, _> = rows(base).map(|row| (row.id, (row.hash, row.glance))).collect();
    let is_other = |row: &Row<'_>| {
        let there = of_base.get(&row.id);
        there.is_none_or(|(hash, glance)| *hash != row.hash || *glance != row.glance)
    };
    rows(state).filter(is_other).collect()
}

fn key(version: &PlanVersion) -> PlanKey {
    (version.hash, u64::try_from(version.step_hashes.len()).unwrap_or(u64::MAX))
}

/// The plans of a run's versions, in order.
fn keys<'a>(form: &Form<'a>) -> impl Iterator<Item = PlanKey> + use<'a> {
    let (packed, versions) = match form {
        Form::Packed(packed) => (packed.plans.as_slice(), [].as_slice()),
        Form::Whole(run) => ([].as_slice(), run.versions.as_slice()),
    };
    packed.iter().map(|plan| plan.key).chain(versions.iter().map(key))
}

/// Write every plan of these runs once, and say where each stands.
fn encode_plans(
    rows: &[Row<'_>],
    base: &State,
    out: &mut impl io::Write,
) -> io::Result<BTreeMap<PlanKey, u32>> {
    let of_base: BTreeSet<PlanKey> = base.runs.forms().flat_map(|(_, form)| keys(&form)).collect();
    let (mut places, mut found) = (BTreeMap::new(), Vec::new());
    for row in rows {
        for (at, key) in keys(&row.form).enumerate() {
            let next = u32::try_from(found.len()).map_err(io::Error::other)?;
            if *places.entry(key).or_insert(next) == next {
                found.push((key, &row.form, at));
            }
        }
    }
    put_count(out, found.len())?;
    for (key, form, at) in found {
        put(out, &key)?;
        if of_base.contains(&key) {
            put(out, &None::<&[u8]>)?;
            continue;
        }
        // A text, of whatever length.
        put(out, &1_u8)?;
        match form {
            Form::Packed(packed) => {
                put_bytes(out, packed.plans.get(at).map_or(&[], |plan| &plan.bytes))?;
            }
            Form::Whole(run) => {
                let text = run.versions.get(at).map(|version| plan_text(&version.plan));
                put_bytes(out, &pack(&text.transpose()?.unwrap_or_default())?)?;
            }
        }
    }
    Ok(places)
}

/// Read a state that is based on that one, to the end of the input.
pub(super) fn decode(base: State, input: &mut dyn io::Read) -> io::Result<State> {
    let body = read_all(input)?;
    let input = &mut Values::of(&body);
    let mut state = base;
    decode_values(&mut state, input)?;
    let plans = decode_plans(&state, input)?;
    for id in input.take::<Vec<RunId>>()? {
        state.runs.discard(&id);
    }
    for _ in 0..input.take::<u64>()? {
        let (id, hash, glance, places): (_, _, _, Vec<u32>) = input.take()?;
        let plan = |place| plans.get(usize::try_from(place).ok()?).cloned();
        let plans: Option<Vec<_>> = places.into_iter().map(plan).collect();
        let plans = plans.ok_or_else(|| invalid("a plan that is not there"))?;
        let (bytes, unpack) = (input.take::<&[u8]>()?.into(), run_body::unpack);
        state.runs.insert_packed(id, PackedRun { glance, hash, bytes, plans, unpack }.into());
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
    take_changes(input, &mut state.dealt)
}

/// The plans of the runs that follow; those without a text are the ones of the base.
fn decode_plans(base: &State, input: &mut Values<'_>) -> io::Result<Vec<Arc<PackedPlan>>> {
    let mut of_base = BTreeMap::new();
    for (_, form) in base.runs.forms() {
        if let Form::Packed(packed) = form {
            of_base.extend(packed.plans.iter().map(|plan| (plan.key, plan)));
        }
    }
    let mut plans = Vec::new();
    for _ in 0..input.take::<u64>()? {
        let (key, text): (PlanKey, Option<&[u8]>) = input.take()?;
        let plan = if let Some(text) = text {
            Arc::new(PackedPlan::new(key, text.into()))
        } else {
            let plan = of_base.get(&key).copied();
            plan.ok_or_else(|| invalid("a plan that its base does not have"))?.clone()
        };
        plans.push(plan);
    }
    Ok(plans)
}

/// All bytes.
pub(super) fn read_all(input: &mut dyn io::Read) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    input.read_to_end(&mut all)?;
    Ok(all)
}

fn put_bytes(out: &mut impl io::Write, bytes: &[u8]) -> io::Result<()> {
    put_count(out, bytes.len())?;
    out.write_all(bytes)
}
