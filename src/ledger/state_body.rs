//! The body of a snapshot of the state: `format/snapshot.md`, section 3.
//!
//! Invariants:
//! - What is not a run stands first, with a hash of each run; the state's hash is of that part.
//!   The plans and the runs follow, each by itself: a reader unpacks those that somebody looks at.
//! - Decoding is total: bytes that are no state are an error, and no count or length in them is
//!   believed before so much has been read.
//! - A run that nobody changed is written as it was read.
//!
//! Left out on purpose: whether the state is the right one. Its hash says that.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::{Arc, OnceLock};

use crate::plan::{
    ContentHash, Form, Glance, PackedPlan, PackedRun, PlanVersion, Run, RunId, State,
};

use super::codec::{Values, put};
use super::hash::hash_of_pieces;
use super::run_body::{self, expect_end, invalid, plan_text, put_count, put_many};

/// So much is read or written at a time. The types are known, since values come in a few bytes each.
const PIECE: usize = 64 << 10;

/// Write a state.
pub(super) fn encode(state: &State, out: &mut dyn io::Write) -> io::Result<()> {
    let out = &mut io::BufWriter::with_capacity(PIECE, out);
    encode_state(state, out)?;
    let places = encode_plans(state, out)?;
    for (_, form) in state.runs.forms() {
        let place = |key| places.get(&key).copied().unwrap_or_default();
        put_many(out, keys(&form).map(place).collect::<Vec<u32>>())?;
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
                put_bytes(out, &bytes)?;
            }
        }
    }
    out.flush()
}

/// Write what a state's hash is of.
pub(super) fn encode_state(state: &State, out: &mut impl io::Write) -> io::Result<()> {
    let State { seq, time, runs, names, ended, summaries, caps, account, .. } = state;
    let State { in_flight, in_flight_by_owner, in_flight_by_tag, due, questions, dealt, .. } =
        state;
    put(out, &(seq, time, account))?;
    put_many(out, names)?;
    put_many(out, ended)?;
    put_many(out, summaries)?;
    put_many(out, caps)?;
    put_many(out, in_flight)?;
    put_many(out, in_flight_by_owner)?;
    put_many(out, in_flight_by_tag)?;
    put_many(out, due)?;
    put_many(out, questions)?;
    put_many(out, dealt)?;
    put_count(out, runs.len())?;
    let mut rows = runs.hashes(run_hash).zip(runs.glances());
    rows.try_for_each(|((id, hash), (_, glance))| put(out, &(id, hash, glance)))
}

fn run_hash(run: &Run) -> ContentHash {
    hash_of_pieces(|out| run_body::encode(run, out))
}

/// A plan by the hash of a version that has it, and how many of its steps were read.
type PlanKey = (ContentHash, u64);

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

/// Write every plan once, and say where each stands.
fn encode_plans(state: &State, out: &mut impl io::Write) -> io::Result<BTreeMap<PlanKey, u32>> {
    let mut places = BTreeMap::new();
    for (_, form) in state.runs.forms() {
        for key in keys(&form) {
            let next = u32::try_from(places.len()).map_err(io::Error::other)?;
            places.entry(key).or_insert(next);
        }
    }
    put_count(out, places.len())?;
    let mut written = 0;
    for (_, form) in state.runs.forms() {
        for (at, key) in keys(&form).enumerate() {
            // They got their places in this order.
            if places.get(&key) != Some(&written) {
                continue;
            }
            written += 1;
            put(out, &key)?;
            match &form {
                Form::Packed(packed) => {
                    put_bytes(out, packed.plans.get(at).map_or(&[], |plan| &plan.bytes))?;
                }
                Form::Whole(run) => {
                    let text = run.versions.get(at).map(|version| plan_text(&version.plan));
                    put_bytes(out, &text.transpose()?.unwrap_or_default())?;
                }
            }
        }
    }
    Ok(places)
}

/// Read a state, to the end of the input.
pub(super) fn decode(input: &mut dyn io::Read) -> io::Result<State> {
    let body = read_all(input)?;
    let input = &mut Values::of(&body);
    let mut state = decode_state(input)?;
    let rows: Vec<(RunId, ContentHash, Glance)> = input.take()?;
    let mut plans = Vec::new();
    for _ in 0..input.take::<u64>()? {
        let (key, bytes) = (input.take()?, input.take::<&[u8]>()?.into());
        plans.push(Arc::new(PackedPlan {
            key,
            bytes,
            plan: OnceLock::new(),
            links: OnceLock::new(),
        }));
    }
    for (id, hash, glance) in rows {
        let places: Vec<u32> = input.take()?;
        let plan = |place| plans.get(usize::try_from(place).ok()?).cloned();
        let plans: Option<Vec<_>> = places.into_iter().map(plan).collect();
        let plans = plans.ok_or_else(|| invalid("a plan that is not there"))?;
        let (bytes, unpack) = (input.take::<&[u8]>()?.into(), run_body::unpack);
        state.runs.insert_packed(id, PackedRun { glance, hash, bytes, plans, unpack }.into());
    }
    expect_end(input)?;
    Ok(state)
}

/// All bytes. Reading to the end otherwise clears room for them again and again.
pub(super) fn read_all(input: &mut dyn io::Read) -> io::Result<Vec<u8>> {
    let (mut all, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        match input.read(&mut piece) {
            Ok(0) => return Ok(all),
            Ok(count) => all.extend_from_slice(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Everything but the runs.
pub(super) fn decode_state(input: &mut Values<'_>) -> io::Result<State> {
    let (seq, time, account) = input.take()?;
    Ok(State {
        seq,
        time,
        account,
        names: input.take_many()?,
        ended: input.take_many()?,
        summaries: input.take_many()?,
        caps: input.take_many()?,
        in_flight: input.take_many()?,
        in_flight_by_owner: input.take_many()?,
        in_flight_by_tag: input.take_many()?,
        due: input.take_many()?,
        questions: input.take_many()?,
        dealt: input.take_many()?,
        ..State::default()
    })
}

fn put_bytes(out: &mut impl io::Write, bytes: &[u8]) -> io::Result<()> {
    put_count(out, bytes.len())?;
    out.write_all(bytes)
}
