//! One run in a snapshot of the state, and the plans of its versions (`format/snapshot.md`, section 3).
//!
//! Invariants:
//! - A run is a sequence of values, none longer than a record may be.
//! - Invalid bytes are an error, never a panic, and no count in them is trusted before that many
//!   values have been read.
//! - A decoded plan has the hash of its version, and the same lookup tables as after a fold.

use std::io;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::format::{
    Codec, ContentHasher, NewDetached, content_hash, covered_part, detached_digests,
    detached_values, read_detached,
};
use crate::log::parallel_map;
use crate::plan::{
    Account, CommandsApproval, CompactPlan, ContentHash, FailureSettings, PackedPlan, PackedRun,
    PauseCause, Plan, PlanVersion, Provenance, Queue, ReplanRequest, Review, Run, RunCounters,
    RunForked, RunId, RunOverview, RunPolicy, RunStatus, Step, Text, Timestamp, canonical,
};

use crate::ledger::codec::detached;
use crate::ledger::codec::hash::plan_hash;
use crate::ledger::codec::values::{Values, put};

use super::compression::decompress;

/// The fields of a run that are not collections.
#[derive(Serialize, Deserialize)]
struct RunScalars {
    id: RunId,
    name: String,
    policy: RunPolicy,
    started: Timestamp,
    forked: Option<RunForked>,
    status: RunStatus,
    ended: Option<(u64, Timestamp)>,
    pause: Option<PauseCause>,
    abort: Option<Text>,
    active: u32,
    activated: Timestamp,
    request: Option<ReplanRequest>,
    is_complete: bool,
    replans: u32,
    failure_settings: FailureSettings,
    in_flight: u32,
    account: Account,
    counters: RunCounters,
}

impl RunScalars {
    fn of(run: &Run) -> Self {
        Self {
            id: run.id,
            name: run.name.clone(),
            policy: run.policy,
            started: run.started,
            forked: run.fork.clone(),
            status: run.status,
            ended: run.end_record,
            pause: run.pause.clone(),
            abort: run.abort_reason.clone(),
            active: run.active,
            activated: run.activated_at,
            request: run.request.clone(),
            is_complete: run.is_complete,
            replans: run.replans,
            failure_settings: run.failure_settings,
            in_flight: run.in_flight,
            account: run.account,
            counters: run.counters,
        }
    }

    fn into_run(self) -> Run {
        let mut run = Run::new(self.id, &self.name, self.policy, self.started);
        run.fork = self.forked;
        run.status = self.status;
        run.end_record = self.ended;
        run.pause = self.pause;
        run.abort_reason = self.abort;
        run.active = self.active;
        run.activated_at = self.activated;
        run.request = self.request;
        run.is_complete = self.is_complete;
        run.replans = self.replans;
        run.failure_settings = self.failure_settings;
        run.in_flight = self.in_flight;
        run.account = self.account;
        run.counters = self.counters;
        run
    }
}

/// Write a run without the plans of its versions: the covered part, then its detached values.
pub(crate) fn encode(run: &Run, out: &mut impl io::Write) -> io::Result<()> {
    let values = encode_covered(run, out)?;
    out.write_all(&detached_values(&values))
}

/// Write the part of a run that its hash covers; returns its detached values.
pub(crate) fn encode_covered(run: &Run, out: &mut impl io::Write) -> io::Result<Vec<NewDetached>> {
    let (written, values) = detached::collect(|| encode_values(run, out));
    written?;
    out.write_all(&detached_digests(&values))?;
    Ok(values)
}

fn encode_values(run: &Run, out: &mut impl io::Write) -> io::Result<()> {
    put(out, &RunScalars::of(run))?;
    put_count(out, run.versions.len())?;
    run.versions.iter().try_for_each(|version| encode_version(version, out))?;
    put_many(out, &run.steps)?;
    put_many(out, &run.barriers)?;
    put_many(out, &run.variables)?;
    put_many(out, &run.questions)?;
    put_many(out, &run.effects)?;
    put_many(out, run.ready())?;
    put_many(out, &run.capped_tags)?;
    put_count(out, run.lanes.len())?;
    for (lane, queue) in &run.lanes {
        put(out, lane)?;
        put_many(out, queue)?;
    }
    put_many(out, &run.reported)?;
    put_many(out, &run.outcome_unknown)?;
    put_many(out, &run.dispatched)?;
    put_many(out, &run.in_flight_by_owner)?;
    put_many(out, &run.in_flight_by_tag)?;
    put_many(out, &run.timers)?;
    put_many(out, &run.pending_steps)?;
    put_many(out, &run.pending_barriers)?;
    put_many(out, &run.fatal_barriers)?;
    put_many(out, &run.counts)?;
    put_many(out, &run.plan_verdicts)?;
    put_many(out, &run.estimates)
}

/// Read a run without the plans of its versions.
fn decode(input: &mut Values<'_>) -> io::Result<Run> {
    let mut run = input.take::<RunScalars>()?.into_run();
    for _ in 0..input.take::<u64>()? {
        run.versions.push(decode_version(input)?);
    }
    run.steps = input.take_many()?;
    run.barriers = input.take_many()?;
    run.variables = input.take_many()?;
    run.questions = input.take_many()?;
    run.effects = input.take_many()?;
    let ready: Vec<_> = input.take_many()?;
    run.capped_tags = input.take_many()?;
    for _ in 0..input.take::<u64>()? {
        let lane = input.take()?;
        run.lanes.insert(lane, input.take_many()?);
    }
    // The queue is encoded twice but stored once in memory.
    if run.lanes.values().any(Queue::is_empty) || !run.ready().eq(ready) {
        return Err(invalid("the queue differs from its lanes"));
    }
    run.reported = input.take_many()?;
    run.outcome_unknown = input.take_many()?;
    run.dispatched = input.take_many()?;
    run.in_flight_by_owner = input.take_many()?;
    run.in_flight_by_tag = input.take_many()?;
    run.timers = input.take_many()?;
    run.pending_steps = input.take_many()?;
    run.pending_barriers = input.take_many()?;
    run.fatal_barriers = input.take_many()?;
    run.counts = input.take_many()?;
    run.plan_verdicts = input.take_many()?;
    run.estimates = input.take_many()?;
    Ok(run)
}

/// The fields of a version except its plan.
#[derive(Serialize, Deserialize)]
struct VersionScalars {
    hash: ContentHash,
    reason: String,
    review: Option<Review>,
    note: String,
    provenance: Option<Provenance>,
    commands: Option<CommandsApproval>,
    step_count: u32,
}

fn encode_version(version: &PlanVersion, out: &mut impl io::Write) -> io::Result<()> {
    put(
        out,
        &VersionScalars {
            hash: version.hash,
            reason: version.reason.clone(),
            review: version.review,
            note: version.note.clone(),
            provenance: version.provenance.clone(),
            commands: version.commands.clone(),
            step_count: version.step_count,
        },
    )?;
    put_many(out, &version.step_hashes)?;
    put_many(out, &version.numbers)
}

/// The text of a plan in canonical JSON: the plan without its steps, then each step.
pub(crate) fn plan_text(plan: &CompactPlan) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    put(&mut text, &canonical(plan.header()))?;
    put_count(&mut text, plan.len())?;
    plan.steps().try_for_each(|step| put(&mut text, &canonical(&step.decode())))?;
    Ok(text)
}

/// How many steps one thread decodes at a time.
const STEPS_PER_PIECE: usize = 4096;

/// The plan that a text encodes. Its steps are decoded on all processors.
fn plan_of(header: &str, steps: &[&str]) -> io::Result<CompactPlan> {
    let header: Plan = from_json(header)?;
    if !header.steps.is_empty() {
        return Err(invalid("the header of a plan contains steps"));
    }
    let decoded = |steps: &[&str]| {
        let mut piece = CompactPlan::default();
        piece.try_extend(steps.iter().map(|step| from_json::<Step>(step)))?;
        Ok::<_, io::Error>(piece)
    };
    let mut plan = CompactPlan::from(header);
    for piece in parallel_map(processors(), steps.chunks(STEPS_PER_PIECE).collect(), decoded) {
        plan.append(&piece?);
    }
    plan.shrink_to_fit();
    Ok(plan)
}

fn processors() -> NonZeroUsize {
    available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// An empty list of steps in a plan's canonical text.
const NO_STEPS: &str = r#""steps":[]"#;

/// The hash of a plan, from the parts of its text: much cheaper than encoding the plan again.
/// `None` if the position of the steps is ambiguous.
fn hash_of_text(header: &str, steps: &[&str]) -> Option<ContentHash> {
    let (before, after) = header.split_once(NO_STEPS)?;
    if after.contains(NO_STEPS) {
        return None;
    }
    let mut text = ContentHasher::default();
    text.update(before.as_bytes());
    text.update(b"\"steps\":[");
    for (at, step) in steps.iter().enumerate() {
        text.update(if at == 0 { b"" } else { b"," });
        text.update(step.as_bytes());
    }
    text.update(b"]");
    text.update(after.as_bytes());
    Some(ContentHash(text.finish()))
}

/// A version without its plan, which is added later.
fn decode_version(input: &mut Values<'_>) -> io::Result<PlanVersion> {
    let VersionScalars { hash, reason, review, note, provenance, commands, step_count } =
        input.take()?;
    Ok(PlanVersion {
        hash,
        reason,
        review,
        note,
        provenance,
        commands,
        plan: Arc::default(),
        step_hashes: input.take()?,
        numbers: input.take()?,
        step_count,
    })
}

/// The plan of a version, and whether it has the version's hash.
struct UnpackedPlan {
    plan: Arc<CompactPlan>,
    has_own_hash: bool,
}

fn unpack_plan(packed: &PackedPlan) -> io::Result<UnpackedPlan> {
    if let Some(plan) = packed.plan.get() {
        return Ok(UnpackedPlan { plan: Arc::clone(plan), has_own_hash: true });
    }
    let text = decompress(&packed.bytes)?;
    let mut input = Values::new(&text);
    let (header, steps) = input.take::<(&str, Vec<&str>)>()?;
    expect_end(&mut input)?;
    let (hash, count) = packed.key;
    if u64::try_from(steps.len()) != Ok(count) {
        return Err(invalid("a plan lacks steps, or has too many"));
    }
    let plan = plan_of(header, &steps)?;
    // Text with this hash is the text of the plan with this hash.
    let has_own_hash =
        hash_of_text(header, &steps) == Some(hash) || plan_hash(&plan.decode()) == hash;
    Ok(UnpackedPlan { plan: Arc::new(plan), has_own_hash })
}

/// Give a version its plan. A version lacks steps only in the middle of a batch, and then the hash
/// is not that of its plan.
fn set_plan(
    version: &mut PlanVersion,
    packed: &PackedPlan,
    unpacked: UnpackedPlan,
) -> io::Result<()> {
    let steps = version.step_hashes.len();
    if packed.key != (version.hash, u64::try_from(steps).unwrap_or(u64::MAX)) {
        return Err(invalid("a version has no plan"));
    }
    let is_complete = u32::try_from(steps).unwrap_or(u32::MAX) == version.step_count;
    if is_complete && !unpacked.has_own_hash {
        return Err(invalid("a plan differs from its hash"));
    }
    version.plan = match unpacked {
        UnpackedPlan { plan, has_own_hash: true } => Arc::clone(packed.plan.get_or_init(|| plan)),
        UnpackedPlan { plan, .. } => plan,
    };
    Ok(())
}

/// Whether the bytes of a run have the run's hash.
pub(crate) fn has_own_hash(packed: &PackedRun) -> bool {
    decompress(&packed.bytes).is_ok_and(|bytes| has_hash(packed, &bytes))
}

fn has_hash(packed: &PackedRun, bytes: &[u8]) -> bool {
    ContentHash(content_hash(covered_part(Codec::Detached, bytes))) == packed.hash
}

/// The plans of a run with at least this many bytes are decoded in a separate thread.
const LARGE_PLANS: usize = 256 << 10;

/// Decode a packed run.
///
/// # Errors
/// The reason why the bytes do not encode the run with this hash.
pub(crate) fn unpack(packed: &PackedRun) -> Result<Run, String> {
    let unpack_plans =
        || packed.plans.iter().map(|plan| unpack_plan(plan)).collect::<io::Result<Vec<_>>>();
    let missing = packed.plans.iter().filter(|plan| plan.plan.get().is_none());
    let (run, plans) = if missing.map(|plan| plan.bytes.len()).sum::<usize>() < LARGE_PLANS {
        (unpack_run(packed), unpack_plans())
    } else {
        std::thread::scope(|scope| {
            let plans = scope.spawn(unpack_plans);
            (unpack_run(packed), plans.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    };
    let (mut run, plans) = (run?, plans.map_err(|error| error.to_string())?);
    let mut plans = packed.plans.iter().zip(plans);
    for version in &mut run.versions {
        let (packed, unpacked) = plans.next().ok_or("a version has no plan")?;
        set_plan(version, packed, unpacked).map_err(|error| error.to_string())?;
    }
    let active = usize::try_from(run.active).ok().and_then(|active| active.checked_sub(1));
    match active.and_then(|active| packed.plans.get(active)) {
        Some(plan) => run.relink(&plan.links),
        None => run.relink(&OnceLock::new()),
    }
    if RunOverview::of(&run) != packed.overview && !mutant!(RunOverviewUnchecked) {
        return Err("its overview differs from its content".to_owned());
    }
    Ok(run)
}

/// Decode a packed run without the plans of its versions.
fn unpack_run(packed: &PackedRun) -> Result<Run, String> {
    let bytes = decompress(&packed.bytes).map_err(|error| error.to_string())?;
    if !has_hash(packed, &bytes) && !mutant!(RunHashUnchecked) {
        return Err("its bytes do not have its hash".to_owned());
    }
    let parts = read_detached(&bytes).ok_or("its detached values do not have their digests")?;
    detached::decode_parts(&parts, |body| {
        let mut input = Values::new(body);
        let run = decode(&mut input).and_then(|run| expect_end(&mut input).map(|()| run));
        run.map_err(|error| error.to_string())
    })
}

pub(crate) fn expect_end(input: &mut Values<'_>) -> io::Result<()> {
    if input.is_at_end() { Ok(()) } else { Err(invalid("unexpected bytes after the end")) }
}

pub(crate) fn put_count(out: &mut impl io::Write, count: usize) -> io::Result<()> {
    put(out, &u64::try_from(count).map_err(io::Error::other)?)
}

/// Write a collection: its length, then each item.
pub(crate) fn put_many<C>(out: &mut impl io::Write, items: C) -> io::Result<()>
where
    C: IntoIterator<IntoIter: ExactSizeIterator<Item: Serialize>>,
{
    let mut items = items.into_iter();
    put_count(out, items.len())?;
    items.try_for_each(|item| put(out, &item))
}

fn from_json<T: DeserializeOwned>(text: &str) -> io::Result<T> {
    serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))
}

pub(crate) fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeSet;

    use super::*;
    use crate::ledger::snapshot::compression::compress;
    use crate::plan::StepNumber;

    fn parts(json: &str) -> (Plan, String, Vec<String>) {
        let plan: Plan = serde_json::from_str(json).unwrap();
        let header = canonical(&Plan { steps: Vec::new(), ..plan.clone() });
        let steps = plan.steps.iter().map(canonical).collect();
        (plan, header, steps)
    }

    fn hash(header: &str, steps: &[String]) -> Option<ContentHash> {
        hash_of_text(header, &steps.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Goal: the hash of the parts is that of the plan, or none where it is ambiguous.
    #[test]
    fn hash_of_text_parts_is_the_hash_of_the_plan() {
        for (json, is_plain) in [
            (r#"{"steps": []}"#, true),
            (r#"{"steps": [{"id": "a"}]}"#, true),
            (
                r#"{"title": "\"steps\":[]", "steps": [{"id": "a"}, {"id": "b", "title": "\u00f6"}]}"#,
                true,
            ),
            (r#"{"extra": {"steps": [1]}, "steps": [{"id": "a"}]}"#, true),
            (r#"{"extra": {"steps": []}, "steps": [{"id": "a"}]}"#, false),
            (r#"{"extra": {"steps": []}, "steps": []}"#, false),
        ] {
            let (plan, header, steps) = parts(json);
            assert_eq!(hash(&header, &steps), is_plain.then(|| plan_hash(&plan)), "{json}");
        }
    }

    /// Goal: parts of another plan are rejected, even if their concatenation equals the text of
    /// this plan.
    #[test]
    fn parts_of_another_plan_with_the_same_text_are_rejected() {
        let (plan, _, steps) = parts(r#"{"extra": {"steps": [7]}, "steps": [{"id": "a"}]}"#);
        let header = format!(r#"{{"extra":{{"steps":[]}},"steps":[{}]}}"#, steps[0]);
        assert_eq!(hash(&header, &["7".to_owned()]), Some(plan_hash(&plan)), "the texts are equal");
        assert!(plan_of(&header, &[]).is_err());
        let step = steps[0].as_str();
        let twice = format!("{step},{step}");
        assert!(plan_of(r#"{"steps":[]}"#, &[&twice]).is_err());
    }

    /// Goal: the text of a plan has all steps of its version. Story: only a text with the expected
    /// number of steps was compared with the version's hash, so a shorter text was accepted.
    #[test]
    fn plan_text_with_other_steps_than_its_version_is_rejected() {
        let step = |id: &&str| Step { id: (*id).to_owned(), ..Step::default() };
        let plan = |ids: &[&str]| Plan { steps: ids.iter().map(step).collect(), ..Plan::default() };
        let hash = plan_hash(&plan(&["a", "b"]));
        let mut run = Run::new(RunId(1), "run", RunPolicy::default(), 1);
        run.versions.push(PlanVersion {
            hash,
            reason: String::new(),
            review: None,
            note: String::new(),
            provenance: None,
            commands: None,
            plan: Arc::default(),
            step_hashes: vec![ContentHash::default(); 2],
            numbers: Vec::new(),
            step_count: 2,
        });
        let mut bytes = Vec::new();
        encode(&run, &mut bytes).unwrap();
        let unpacked = |ids: &[&str]| {
            let text = plan_text(&plan(ids).into()).unwrap();
            let text = PackedPlan::new((hash, 2), compress(&text).unwrap());
            let packed = PackedRun {
                overview: RunOverview::of(&run),
                hash: ContentHash(content_hash(covered_part(Codec::Detached, &bytes))),
                bytes: compress(&bytes).unwrap(),
                plans: vec![Arc::new(text)],
                unpack,
            };
            unpack(&packed).map(|run| run.versions[0].plan.decode())
        };
        assert_eq!(unpacked(&["a", "b"]), Ok(plan(&["a", "b"])));
        for other in [&[][..], &["a"], &["a", "b", "c"], &["b", "a"]] {
            assert!(unpacked(other).is_err(), "{other:?}");
        }
    }

    /// Goal: a run with a queue that differs from its lanes is rejected.
    #[test]
    fn queue_that_differs_from_its_lanes_is_rejected() {
        let mut run = Run::new(RunId(1), "run", RunPolicy::default(), 1);
        let (key, other) = ((Reverse(7777), StepNumber(1)), (Reverse(7777), StepNumber(2)));
        run.lanes.insert((None, BTreeSet::new()), BTreeSet::from([key]));
        let bytes_of = |value: &(Reverse<i32>, StepNumber)| {
            let mut bytes = Vec::new();
            put(&mut bytes, value).unwrap();
            bytes
        };
        let encoded = |run: &Run| {
            let mut bytes = Vec::new();
            encode(run, &mut bytes).unwrap();
            bytes
        };
        let bytes = encoded(&run);
        assert!(decode(&mut Values::new(&bytes)).unwrap().ready().eq([key]));
        let (one, two) = (bytes_of(&key), bytes_of(&other));
        let places = bytes.windows(one.len()).enumerate().filter(|(_, window)| *window == one);
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        assert_eq!(places.len(), 2);
        for place in places {
            let mut forged = bytes.clone();
            forged.splice(place..place + one.len(), two.clone());
            assert!(decode(&mut Values::new(&forged)).is_err());
        }
        run.lanes.insert((Some("x".to_owned()), BTreeSet::new()), BTreeSet::new());
        assert!(decode(&mut Values::new(&encoded(&run))).is_err());
    }
}
