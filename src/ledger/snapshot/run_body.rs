//! One run in a snapshot of the state, and its parts: the plans of its versions, and the leaves of
//! its steps (`format/snapshot.md`, section 3).
//!
//! A run names its parts by hash, so that the hash of a run covers them, and a snapshot need not
//! repeat a part that its base has.
//!
//! Invariants:
//! - A run and a part are sequences of values, none longer than a record may be.
//! - Invalid bytes are an error, never a panic, and no count in them is trusted before that many
//!   values have been read.
//! - Bytes are decoded only after they were found to have their hash, and leaves only when they are
//!   first used.

use std::cmp::Reverse;
use std::io;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::format::{
    Codec, NewDetached, PAYLOAD_LENGTH_MAX, content_hash, covered_part, detached_digests,
    detached_values, read_detached,
};
use crate::plan::{
    Account, AttemptToken, CommandsApproval, CompactPlan, ContentHash, FailureSettings, PackedPart,
    PackedRun, PauseCause, Plan, PlanVersion, Provenance, Queue, ReplanRequest, Review, Run,
    RunCounters, RunForked, RunId, RunOverview, RunPolicy, RunStatus, StateFault, StepNumber,
    StepState, Steps, Text, Timestamp, UnpackedPlan, canonical,
};

use crate::ledger::codec::detached;
use crate::ledger::codec::values::{Values, put, put_unmeasured};

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

/// The source of the hashes of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartHashes {
    /// Those that the state kept since a part last changed.
    Kept,
    /// Computed from the values, for whatever checks a state.
    Computed,
}

impl PartHashes {
    /// The hash of the plan of a version, with the hashes of its steps.
    pub(crate) fn of_plan(self, version: &PlanVersion) -> ContentHash {
        let hash = || hash_of_bytes(&plan_bytes(version).unwrap_or_default());
        match self {
            Self::Kept => version.part_hash.get_or(hash),
            Self::Computed => hash(),
        }
    }

    /// The hash of each leaf of steps.
    pub(crate) fn of_steps(self, steps: &Steps) -> Vec<ContentHash> {
        match self {
            Self::Kept => steps.stored_leaves(leaf_hash).map(|(_, hash)| hash).collect(),
            Self::Computed => steps.leaves().map(leaf_hash).collect(),
        }
    }
}

fn hash_of_bytes(bytes: &[u8]) -> ContentHash {
    ContentHash(content_hash(bytes))
}

/// The hash of a run without its parts, or of a leaf: it does not cover detached values.
fn hash_of_payload(payload: &[u8]) -> ContentHash {
    hash_of_bytes(covered_part(Codec::Detached, payload))
}

/// The hash of a leaf. If a step cannot be encoded, it is never stored: writing a snapshot fails at
/// the same step.
pub(crate) fn leaf_hash(steps: &[StepState]) -> ContentHash {
    let mut bytes = Vec::new();
    let _ = encode_leaf_covered(steps, &mut bytes);
    hash_of_bytes(&bytes)
}

/// The bytes of a leaf: the covered part, then its detached values.
///
/// # Errors
/// `InvalidData` for a step that is longer than a value may be.
pub(crate) fn leaf_bytes(steps: &[StepState]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let values = encode_leaf_covered(steps, &mut bytes)?;
    bytes.extend_from_slice(&detached_values(&values));
    Ok(bytes)
}

fn encode_leaf_covered(steps: &[StepState], out: &mut Vec<u8>) -> io::Result<Vec<NewDetached>> {
    let (written, values) = detached::collect(|| {
        put_count(out, steps.len())?;
        steps.iter().try_for_each(|step| {
            let begin = out.len();
            put_unmeasured(out, step)?;
            if u64::try_from(out.len() - begin)
                .is_ok_and(|length| length > PAYLOAD_LENGTH_MAX.into())
            {
                return Err(invalid("a step is longer than a value may be"));
            }
            Ok(())
        })
    });
    written?;
    out.extend_from_slice(&detached_digests(&values));
    Ok(values)
}

/// The bytes of the plan of a version: the plan without its steps, the steps, and their hashes.
///
/// # Errors
/// `InvalidData` for a value that is longer than a value may be.
pub(crate) fn plan_bytes(version: &PlanVersion) -> io::Result<Vec<u8>> {
    let (plan, hashes) = (&version.plan, &version.step_hashes);
    let mut bytes = Vec::with_capacity(plan.step_bytes().len() + HASH_SIZE * hashes.len());
    put(&mut bytes, &canonical(plan.header()))?;
    put_count(&mut bytes, plan.len())?;
    put_bytes(&mut bytes, plan.step_bytes())?;
    put_count(&mut bytes, HASH_SIZE * hashes.len())?;
    hashes.iter().for_each(|hash| bytes.extend_from_slice(&hash.0));
    Ok(bytes)
}

const HASH_SIZE: usize = 32;

/// Write a run without its parts: the covered part, then its detached values.
pub(crate) fn encode(run: &Run, out: &mut impl io::Write) -> io::Result<()> {
    let values = encode_covered(run, PartHashes::Kept, out)?;
    out.write_all(&detached_values(&values))
}

/// Write the part of a run that its hash covers; returns its detached values.
pub(crate) fn encode_covered(
    run: &Run,
    hashes: PartHashes,
    out: &mut impl io::Write,
) -> io::Result<Vec<NewDetached>> {
    let (written, values) = detached::collect(|| encode_values(run, hashes, out));
    written?;
    out.write_all(&detached_digests(&values))?;
    Ok(values)
}

fn encode_values(run: &Run, hashes: PartHashes, out: &mut impl io::Write) -> io::Result<()> {
    put(out, &RunScalars::of(run))?;
    put_count(out, run.versions.len())?;
    run.versions.iter().try_for_each(|version| encode_version(version, hashes, out))?;
    put_count(out, run.steps.len())?;
    put_many(out, hashes.of_steps(&run.steps))?;
    put_many(out, &run.barriers)?;
    put_many(out, &run.variables)?;
    put_many(out, &run.questions)?;
    put_many(out, &run.effects)?;
    put_many(out, &run.capped_tags)?;
    put_count(out, run.lanes.len())?;
    run.lanes.iter().try_for_each(|(lane, queue)| {
        put(out, lane)?;
        encode_queue(queue, out)
    })?;
    put_many(out, &run.reported)?;
    put_many(out, &run.outcome_unknown)?;
    encode_tokens(run, out)?;
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

/// A run without its parts, and what it says about them.
struct RunHead {
    run: Run,
    /// Hashes of the plans of its versions.
    plans: Vec<ContentHash>,
    /// Number of its steps.
    steps: u64,
    /// Hashes of their leaves.
    leaves: Vec<ContentHash>,
}

fn decode(input: &mut Values<'_>) -> io::Result<RunHead> {
    let mut run = input.take::<RunScalars>()?.into_run();
    let mut plans = Vec::new();
    for _ in 0..input.take::<u64>()? {
        let (version, plan) = decode_version(input)?;
        run.versions.push(version);
        plans.push(plan);
    }
    let (steps, leaves) = (input.take()?, input.take_many()?);
    run.barriers = input.take_many()?;
    run.variables = input.take_many()?;
    run.questions = input.take_many()?;
    run.effects = input.take_many()?;
    run.capped_tags = input.take_many()?;
    for _ in 0..input.take::<u64>()? {
        let lane = input.take()?;
        run.lanes.insert(lane, decode_queue(input)?);
    }
    if run.lanes.values().any(Queue::is_empty) {
        return Err(invalid("a lane of the queue is empty"));
    }
    run.reported = input.take_many()?;
    run.outcome_unknown = input.take_many()?;
    run.dispatched = undifferenced(input.take()?).map(AttemptToken).collect();
    run.in_flight_by_owner = input.take_many()?;
    run.in_flight_by_tag = input.take_many()?;
    run.timers = input.take_many()?;
    run.pending_steps = input.take_many()?;
    run.pending_barriers = input.take_many()?;
    run.fatal_barriers = input.take_many()?;
    run.counts = input.take_many()?;
    run.plan_verdicts = input.take_many()?;
    run.estimates = input.take_many()?;
    Ok(RunHead { run, plans, steps, leaves })
}

/// Write the steps of a lane. Most numbers follow the one before.
fn encode_queue(queue: &Queue, out: &mut impl io::Write) -> io::Result<()> {
    put_count(out, queue.len())?;
    let mut before = 0;
    queue.iter().try_for_each(|(priority, StepNumber(number))| {
        put_unmeasured(out, &(priority, difference(&mut before, *number)))
    })
}

fn decode_queue(input: &mut Values<'_>) -> io::Result<Queue> {
    let entries: Vec<(Reverse<i32>, i32)> = input.take()?;
    let mut before = 0;
    let number = |difference| sum(&mut before, difference);
    let (priorities, differences): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
    Ok(priorities.into_iter().zip(differences.into_iter().map(number)).collect())
}

/// The difference from the number before, which `before` holds.
fn difference(before: &mut u32, number: u32) -> i32 {
    number.wrapping_sub(std::mem::replace(before, number)).cast_signed()
}

/// The number with this difference from the number before, which `before` holds.
fn sum(before: &mut u32, difference: i32) -> StepNumber {
    *before = before.wrapping_add_signed(difference);
    StepNumber(*before)
}

/// Write the tokens of all attempts: the distances of ascending numbers.
fn encode_tokens(run: &Run, out: &mut impl io::Write) -> io::Result<()> {
    put_count(out, run.dispatched.len())?;
    let mut before = 0;
    run.dispatched.iter().try_for_each(|AttemptToken(token)| {
        put_unmeasured(out, &token.wrapping_sub(std::mem::replace(&mut before, *token)))
    })
}

/// The numbers with these distances.
fn undifferenced(distances: Vec<u64>) -> impl Iterator<Item = u64> {
    distances.into_iter().scan(0_u64, |number, distance| {
        *number = number.wrapping_add(distance);
        Some(*number)
    })
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
    /// Hash of the part that holds its plan.
    plan: ContentHash,
}

fn encode_version(
    version: &PlanVersion,
    hashes: PartHashes,
    out: &mut impl io::Write,
) -> io::Result<()> {
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
            plan: hashes.of_plan(version),
        },
    )?;
    put_count(out, version.numbers.len())?;
    let mut before = 0;
    let mut numbers = version.numbers.iter();
    numbers
        .try_for_each(|StepNumber(number)| put_unmeasured(out, &difference(&mut before, *number)))
}

/// A version without its plan, which is added later, and the hash of the part that holds it.
fn decode_version(input: &mut Values<'_>) -> io::Result<(PlanVersion, ContentHash)> {
    let VersionScalars { hash, reason, review, note, provenance, commands, step_count, plan } =
        input.take()?;
    let mut before = 0;
    let differences: Vec<i32> = input.take()?;
    let numbers = differences.into_iter().map(|difference| sum(&mut before, difference)).collect();
    let version = PlanVersion {
        hash,
        reason,
        review,
        note,
        provenance,
        commands,
        plan: Arc::default(),
        step_hashes: Arc::default(),
        numbers,
        step_count,
        part_hash: plan.into(),
    };
    Ok((version, plan))
}

/// Decompress bytes and check their hash.
fn with_hash(
    packed: &[u8],
    hash: ContentHash,
    hash_of: impl Fn(&[u8]) -> ContentHash,
) -> io::Result<Vec<u8>> {
    let bytes = decompress(packed)?;
    if hash_of(&bytes) == hash || mutant!(RunHashUnchecked) {
        return Ok(bytes);
    }
    Err(invalid("its bytes do not have its hash"))
}

/// Whether the bytes of a run have the run's hash.
pub(crate) fn has_own_hash(packed: &PackedRun) -> bool {
    with_hash(&packed.bytes, packed.hash, hash_of_payload).is_ok()
}

/// Whether the bytes of a leaf have its hash.
pub(crate) fn is_intact_leaf(part: &PackedPart) -> bool {
    with_hash(&part.bytes, part.hash, hash_of_payload).is_ok()
}

/// Whether the bytes of a plan have its hash.
pub(crate) fn is_intact_plan(part: &PackedPart) -> bool {
    with_hash(&part.bytes, part.hash, hash_of_bytes).is_ok()
}

/// Decode a packed run. Its leaves are decoded when they are first used, and `fault` is for them.
///
/// # Errors
/// The reason why the bytes do not encode the run with this hash.
pub(crate) fn unpack(packed: &PackedRun, fault: &StateFault) -> Result<Run, String> {
    let RunHead { mut run, plans, steps, leaves } = unpack_head(packed)?;
    let are_own = |parts: &[Arc<PackedPart>], hashes: &[ContentHash]| {
        parts.iter().map(|part| &part.hash).eq(hashes)
    };
    if !are_own(&packed.plans, &plans) {
        return Err("a version has another plan".to_owned());
    }
    if !are_own(&packed.leaves, &leaves) {
        return Err("its steps are in other leaves".to_owned());
    }
    for (version, part) in run.versions.iter_mut().zip(&packed.plans) {
        let UnpackedPlan { plan, step_hashes } = unpack_plan(part)?;
        (version.plan, version.step_hashes) = (plan, step_hashes);
    }
    let steps = usize::try_from(steps).ok();
    let steps = steps.and_then(|len| Steps::packed(len, &packed.leaves, unpack_leaf, fault));
    run.steps = steps.ok_or("a leaf lacks steps, or has too many")?;
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

fn unpack_head(packed: &PackedRun) -> Result<RunHead, String> {
    let bytes = with_hash(&packed.bytes, packed.hash, hash_of_payload);
    let bytes = bytes.map_err(|error| error.to_string())?;
    decode_payload(&bytes, decode)
}

pub(crate) fn unpack_leaf(part: &PackedPart) -> Result<Vec<StepState>, String> {
    let bytes = with_hash(&part.bytes, part.hash, hash_of_payload);
    let bytes = bytes.map_err(|error| format!("a leaf of its steps: {error}"))?;
    decode_payload(&bytes, decode_leaf)
}

fn decode_leaf(input: &mut Values<'_>) -> io::Result<Vec<StepState>> {
    input.take()
}

/// Decode bytes with detached values to their end.
fn decode_payload<T>(
    bytes: &[u8],
    decode: impl FnOnce(&mut Values<'_>) -> io::Result<T>,
) -> Result<T, String> {
    let parts = read_detached(bytes).ok_or("its detached values do not have their digests")?;
    detached::decode_parts(&parts, |body| {
        let mut input = Values::new(body);
        let value = decode(&mut input).and_then(|value| expect_end(&mut input).map(|()| value));
        value.map_err(|error| error.to_string())
    })
}

fn unpack_plan(part: &PackedPart) -> Result<UnpackedPlan, String> {
    if let Some(plan) = part.plan.get() {
        return Ok(plan.clone());
    }
    let bytes = with_hash(&part.bytes, part.hash, hash_of_bytes);
    let plan =
        bytes.and_then(|bytes| plan_of(&bytes)).map_err(|error| format!("a plan: {error}"))?;
    Ok(part.plan.get_or_init(|| plan).clone())
}

/// The plan that these bytes encode, and the hashes of its steps.
fn plan_of(bytes: &[u8]) -> io::Result<UnpackedPlan> {
    let mut input = Values::new(bytes);
    let (header, count, steps, hashes): (&str, u64, &[u8], &[u8]) = input.take()?;
    expect_end(&mut input)?;
    let header: Plan = serde_json::from_str(header).map_err(|error| invalid(&error.to_string()))?;
    if !header.steps.is_empty() {
        return Err(invalid("its header contains steps"));
    }
    let (hashes, rest) = hashes.as_chunks::<HASH_SIZE>();
    if !rest.is_empty() || u64::try_from(hashes.len()) != Ok(count) {
        return Err(invalid("it lacks hashes of steps, or has too many"));
    }
    let step_hashes: Vec<ContentHash> = hashes.iter().copied().map(ContentHash).collect();
    let plan = CompactPlan::of_parts(header, steps.to_vec(), step_hashes.len());
    let plan = plan.ok_or_else(|| invalid("it lacks steps, or has too many"))?;
    Ok(UnpackedPlan { plan: plan.into(), step_hashes: step_hashes.into() })
}

pub(crate) fn expect_end(input: &mut Values<'_>) -> io::Result<()> {
    if input.is_at_end() { Ok(()) } else { Err(invalid("unexpected bytes after the end")) }
}

pub(crate) fn put_count(out: &mut impl io::Write, count: usize) -> io::Result<()> {
    put_unmeasured(out, &u64::try_from(count).map_err(io::Error::other)?)
}

/// Write bytes: their length, then the bytes.
pub(crate) fn put_bytes(out: &mut impl io::Write, bytes: &[u8]) -> io::Result<()> {
    put_count(out, bytes.len())?;
    out.write_all(bytes)
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

pub(crate) fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ledger::codec::hash::plan_draft;
    use crate::ledger::snapshot::compression::compress;
    use crate::plan::{KeptHash, Step};

    fn plan(ids: &[&str]) -> Plan {
        let step = |id: &&str| Step { id: (*id).to_owned(), ..Step::default() };
        Plan { steps: ids.iter().map(step).collect(), ..Plan::default() }
    }

    fn version(ids: &[&str]) -> PlanVersion {
        let draft = plan_draft(&plan(ids)).unwrap();
        PlanVersion {
            hash: draft.hash,
            reason: String::new(),
            review: None,
            note: String::new(),
            provenance: None,
            commands: None,
            plan: Arc::new(plan(ids).into()),
            step_hashes: Arc::new(draft.steps.iter().map(|step| step.hash).collect()),
            numbers: (1..).zip(ids).map(|(number, _)| StepNumber(number)).collect(),
            step_count: u32::try_from(ids.len()).unwrap(),
            part_hash: KeptHash::default(),
        }
    }

    /// A run with a version of two steps and more than one leaf.
    fn run() -> Run {
        let mut run = Run::new(RunId(1), "run", RunPolicy::default(), 1);
        run.versions.push(version(&["a", "b"]));
        (0..70).for_each(|id| run.steps.push(StepState::new(&format!("s{id}"))));
        run
    }

    fn part(bytes: &[u8], hash: ContentHash) -> Arc<PackedPart> {
        Arc::new(PackedPart::new(hash, compress(bytes).unwrap()))
    }

    fn leaf(steps: &[StepState]) -> Arc<PackedPart> {
        part(&leaf_bytes(steps).unwrap(), leaf_hash(steps))
    }

    fn packed(run: &Run) -> PackedRun {
        let mut bytes = Vec::new();
        encode(run, &mut bytes).unwrap();
        let plan = |version: &PlanVersion| {
            part(&plan_bytes(version).unwrap(), PartHashes::Computed.of_plan(version))
        };
        PackedRun {
            overview: RunOverview::of(run),
            hash: hash_of_payload(&bytes),
            bytes: compress(&bytes).unwrap(),
            plans: run.versions.iter().map(plan).collect(),
            leaves: run.steps.leaves().map(leaf).collect(),
            unpack,
        }
    }

    /// Goal: a run comes back from its head and its parts as it was.
    #[test]
    fn run_comes_back_from_its_parts() {
        let run = run();
        let packed = packed(&run);
        assert_eq!(packed.leaves.len(), 2);
        let fault = StateFault::default();
        let back = unpack(&packed, &fault).unwrap();
        assert_eq!((&back.steps, fault.get()), (&run.steps, None));
        let (own, other) = (&back.versions[0], &run.versions[0]);
        assert_eq!(
            (&own.plan, &own.step_hashes, &own.numbers),
            (&other.plan, &other.step_hashes, &other.numbers)
        );
        let mut again = Vec::new();
        encode(&back, &mut again).unwrap();
        assert_eq!(hash_of_payload(&again), packed.hash);
    }

    /// Goal: a run is never put together from parts of another one, from too few, or in another
    /// order, even if each part has its hash.
    #[test]
    fn run_with_other_parts_is_rejected() {
        type Change = fn(&mut PackedRun, Arc<PackedPart>);
        let run = run();
        let other = part(&plan_bytes(&version(&["a"])).unwrap(), {
            PartHashes::Computed.of_plan(&version(&["a"]))
        });
        let changes: [Change; 6] = [
            |packed, _| drop(packed.leaves.pop()),
            |packed, _| packed.leaves.swap(0, 1),
            |packed, _| packed.leaves.push(Arc::clone(&packed.leaves[1])),
            |packed, _| packed.leaves[0] = leaf(&vec![StepState::new("x"); 64]),
            |packed, other| packed.plans[0] = other,
            |packed, other| packed.plans.push(other),
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut packed = packed(&run);
            change(&mut packed, Arc::clone(&other));
            assert!(unpack(&packed, &StateFault::default()).is_err(), "{at}");
        }
    }

    /// Goal: a part with another content than its hash says is rejected: a damaged leaf never reads
    /// as steps that are absent.
    #[test]
    fn part_with_another_content_than_its_hash_is_rejected() {
        let run = run();
        let mut packed = packed(&run);
        let [first, second] = [0, 1].map(|at| Arc::clone(&packed.leaves[at]));
        packed.leaves[0] = Arc::new(PackedPart::new(first.hash, second.bytes.clone()));
        let fault = StateFault::default();
        let back = unpack(&packed, &fault).unwrap();
        assert_eq!((back.steps[69].id(), fault.get()), ("s69", None));
        assert_ne!(back.steps[0].id(), run.steps[64].id());
        assert!(fault.get().unwrap().contains("leaf"));
        packed.leaves[0] = first;
        let plan = plan_bytes(&version(&["b", "a"])).unwrap();
        packed.plans[0] = part(&plan, packed.plans[0].hash);
        assert!(unpack(&packed, &StateFault::default()).unwrap_err().contains("plan"));
    }

    /// Goal: the bytes of a plan have as many steps and hashes as they say.
    #[test]
    fn plan_with_other_steps_than_it_says_is_rejected() {
        let version = version(&["a", "b"]);
        let bytes = |count: usize, steps: &[u8], hashes: usize| {
            let mut bytes = Vec::new();
            put(&mut bytes, &canonical(version.plan.header())).unwrap();
            put_count(&mut bytes, count).unwrap();
            put_bytes(&mut bytes, steps).unwrap();
            put_bytes(&mut bytes, &vec![7; hashes]).unwrap();
            bytes
        };
        let steps = version.plan.step_bytes();
        assert!(plan_of(&bytes(2, steps, 64)).is_ok());
        for (count, steps, hashes) in [
            (1, steps, 32),
            (3, steps, 96),
            (2, steps, 32),
            (2, steps, 65),
            (2, &steps[1..], 64),
            (2, &steps[..steps.len() - 1], 64),
        ] {
            assert!(plan_of(&bytes(count, steps, hashes)).is_err(), "{count} {hashes}");
        }
    }

    /// Goal: numbers of every order come back from their differences.
    #[test]
    fn numbers_come_back_from_their_differences() {
        let numbers = [1, 2, 3, u32::MAX, 0, 7, 1 << 31, 5, u32::MAX - 1];
        let (mut before, mut after) = (0, 0);
        for number in numbers {
            assert_eq!(sum(&mut after, difference(&mut before, number)), StepNumber(number));
        }
    }

    /// Goal: a run with an empty lane is rejected.
    #[test]
    fn empty_lane_is_rejected() {
        let mut run = Run::new(RunId(1), "run", RunPolicy::default(), 1);
        let entries = [9, 4].map(|priority| (Reverse(priority), StepNumber(70)));
        run.lanes.insert((None, BTreeSet::new()), entries.into());
        let encoded = |run: &Run| {
            let mut bytes = Vec::new();
            encode(run, &mut bytes).unwrap();
            bytes
        };
        let back = decode(&mut Values::new(&encoded(&run))).unwrap().run;
        assert_eq!(back.lanes, run.lanes);
        run.lanes.insert((Some("x".to_owned()), BTreeSet::new()), BTreeSet::new());
        assert!(decode(&mut Values::new(&encoded(&run))).is_err());
    }
}
