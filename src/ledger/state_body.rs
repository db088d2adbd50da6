//! The body of a snapshot of the state: `format/snapshot.md`, section 3.
//!
//! Invariants:
//! - One value after another, none longer than a record may be, so that neither side ever holds
//!   the whole body in memory; of the texts, no more than that of one plan.
//! - Decoding is total: bytes that are no state are an error, and no count in them is believed
//!   before so many values have been read.
//! - A plan comes back as the plan that its hash is of, with the lookups that folding gives.
//!
//! Left out on purpose: whether the state is the right one. Its hash says that.

use std::io::{self, BufRead as _, Write as _};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::plan::{
    Account, ContentHash, Micros, PauseCause, Plan, PlanVersion, ReplanRequest, Review, Run,
    RunForked, RunId, RunPolicy, RunStatus, State, Step, Tally, canonical,
};

use super::codec::{put, take};
use super::hash::plan_hash;

/// So much is read or written at a time. The types are known, since values come in a few bytes each.
const PIECE: usize = 64 << 10;
type In<'a, 'b> = &'a mut io::BufReader<&'b mut dyn io::Read>;
type Out<'a, 'b> = &'a mut io::BufWriter<&'b mut dyn io::Write>;

/// Write a state.
pub(super) fn encode(state: &State, out: &mut dyn io::Write) -> io::Result<()> {
    let out = &mut io::BufWriter::with_capacity(PIECE, out);
    encode_state(state, out)?;
    out.flush()
}

fn encode_state(state: &State, out: Out) -> io::Result<()> {
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
    runs.values().try_for_each(|run| encode_run(run, out))
}

/// Read a state, to the end of the input.
pub(super) fn decode(input: &mut dyn io::Read) -> io::Result<State> {
    let input = &mut io::BufReader::with_capacity(PIECE, input);
    let (seq, time, account) = take(input)?;
    let mut state = State {
        seq,
        time,
        account,
        names: take_many(input)?,
        ended: take_many(input)?,
        summaries: take_many(input)?,
        caps: take_many(input)?,
        in_flight: take_many(input)?,
        in_flight_by_owner: take_many(input)?,
        in_flight_by_tag: take_many(input)?,
        due: take_many(input)?,
        questions: take_many(input)?,
        dealt: take_many(input)?,
        ..State::default()
    };
    let mut last = None;
    for _ in 0..take::<u64>(input)? {
        let mut run = decode_run(input, &mut last)?;
        run.relink(state.runs.values().next_back());
        state.runs.insert(run.id, run);
    }
    if !input.fill_buf()?.is_empty() {
        return Err(invalid("something follows the end of its state"));
    }
    Ok(state)
}

/// A run's fields that are single values.
#[derive(Serialize, Deserialize)]
struct RunHead {
    id: RunId,
    name: String,
    policy: RunPolicy,
    started: Micros,
    forked: Option<RunForked>,
    status: RunStatus,
    ended: Option<(u64, Micros)>,
    pause: Option<PauseCause>,
    abort: Option<String>,
    active: u32,
    activated: Micros,
    request: Option<ReplanRequest>,
    is_complete: bool,
    replans: u32,
    in_flight: u32,
    account: Account,
    tally: Tally,
}

impl RunHead {
    fn of(run: &Run) -> Self {
        Self {
            id: run.id,
            name: run.name.clone(),
            policy: run.policy,
            started: run.started,
            forked: run.forked.clone(),
            status: run.status,
            ended: run.ended,
            pause: run.pause.clone(),
            abort: run.abort.clone(),
            active: run.active,
            activated: run.activated,
            request: run.request.clone(),
            is_complete: run.is_complete,
            replans: run.replans,
            in_flight: run.in_flight,
            account: run.account,
            tally: run.tally,
        }
    }

    fn into_run(self) -> Run {
        let mut run = Run::new(self.id, &self.name, self.policy, self.started);
        run.forked = self.forked;
        run.status = self.status;
        run.ended = self.ended;
        run.pause = self.pause;
        run.abort = self.abort;
        run.active = self.active;
        run.activated = self.activated;
        run.request = self.request;
        run.is_complete = self.is_complete;
        run.replans = self.replans;
        run.in_flight = self.in_flight;
        run.account = self.account;
        run.tally = self.tally;
        run
    }
}

fn encode_run(run: &Run, out: Out) -> io::Result<()> {
    put(out, &RunHead::of(run))?;
    put_count(out, run.versions.len())?;
    run.versions.iter().try_for_each(|version| encode_version(version, out))?;
    put_many(out, &run.steps)?;
    put_many(out, &run.barriers)?;
    put_many(out, &run.variables)?;
    put_many(out, &run.questions)?;
    put_many(out, &run.effects)?;
    put_many(out, &run.ready)?;
    put_many(out, &run.capped_tags)?;
    put_count(out, run.lanes.len())?;
    for (lane, queue) in &run.lanes {
        put(out, lane)?;
        put_many(out, queue)?;
    }
    put_many(out, &run.reported)?;
    put_many(out, &run.in_doubt)?;
    put_many(out, &run.dealt)?;
    put_many(out, &run.in_flight_by_owner)?;
    put_many(out, &run.in_flight_by_tag)?;
    put_many(out, &run.timers)?;
    put_many(out, &run.due)?;
    put_many(out, &run.due_barriers)?;
    put_many(out, &run.fatal_barriers)?;
    put_many(out, &run.counts)?;
    put_many(out, &run.plan_verdicts)?;
    put_many(out, &run.estimates)
}

fn decode_run(input: In, last: &mut Option<PlanText>) -> io::Result<Run> {
    let mut run = take::<RunHead>(input)?.into_run();
    for _ in 0..take::<u64>(input)? {
        run.versions.push(decode_version(input, last)?);
    }
    run.steps = take_vec(input)?;
    run.barriers = take_many(input)?;
    run.variables = take_many(input)?;
    run.questions = take_many(input)?;
    run.effects = take_many(input)?;
    run.ready = take_many(input)?;
    run.capped_tags = take_many(input)?;
    for _ in 0..take::<u64>(input)? {
        let lane = take(input)?;
        run.lanes.insert(lane, take_many(input)?);
    }
    run.reported = take_many(input)?;
    run.in_doubt = take_many(input)?;
    run.dealt = take_many(input)?;
    run.in_flight_by_owner = take_many(input)?;
    run.in_flight_by_tag = take_many(input)?;
    run.timers = take_many(input)?;
    run.due = take_many(input)?;
    run.due_barriers = take_many(input)?;
    run.fatal_barriers = take_many(input)?;
    run.counts = take_many(input)?;
    run.plan_verdicts = take_many(input)?;
    run.estimates = take_many(input)?;
    Ok(run)
}

/// A version's fields that are single values.
#[derive(Serialize, Deserialize)]
struct VersionHead {
    hash: ContentHash,
    reason: String,
    review: Option<Review>,
    step_count: u32,
}

fn encode_version(version: &PlanVersion, out: Out) -> io::Result<()> {
    put(
        out,
        &VersionHead {
            hash: version.hash,
            reason: version.reason.clone(),
            review: version.review,
            step_count: version.step_count,
        },
    )?;
    let Plan { steps, .. } = &*version.plan;
    put(out, &canonical(&Plan { steps: Vec::new(), ..(*version.plan).clone() }))?;
    put_count(out, steps.len())?;
    for (hash, step) in version.step_hashes.iter().zip(steps) {
        put(out, &(hash, canonical(step)))?;
    }
    put_many(out, &version.numbers)
}

/// A plan as it stands in a body: many runs have the same one, and it is made once.
struct PlanText {
    header: String,
    steps: Vec<String>,
    plan: Arc<Plan>,
    hash: ContentHash,
}

impl PlanText {
    fn parse(header: String, steps: Vec<String>) -> io::Result<Self> {
        let mut plan: Plan = from_json(&header)?;
        plan.steps = steps.iter().map(|step| from_json::<Step>(step)).collect::<io::Result<_>>()?;
        let hash = plan_hash(&plan);
        Ok(Self { header, steps, plan: Arc::new(plan), hash })
    }
}

fn decode_version(input: In, last: &mut Option<PlanText>) -> io::Result<PlanVersion> {
    let head: VersionHead = take(input)?;
    let header = take::<String>(input)?;
    let (step_hashes, steps): (Vec<ContentHash>, Vec<String>) =
        take_vec::<(ContentHash, String)>(input)?.into_iter().unzip();
    let is_last = |last: &&PlanText| last.header == header && last.steps == steps;
    let text = match last.take().filter(|last| is_last(&last)) {
        Some(same) => same,
        None => PlanText::parse(header, steps)?,
    };
    let (plan, hash) = (text.plan.clone(), text.hash);
    *last = Some(text);
    let count = u32::try_from(plan.steps.len()).unwrap_or(u32::MAX);
    // Only the middle of a batch has a version without all of its steps.
    if count == head.step_count && hash != head.hash {
        return Err(invalid("a plan that is not the one that its hash is of"));
    }
    Ok(PlanVersion {
        hash: head.hash,
        reason: head.reason,
        review: head.review,
        plan,
        step_hashes,
        numbers: take_vec(input)?,
        step_count: head.step_count,
    })
}

fn put_count(out: Out, count: usize) -> io::Result<()> {
    put(out, &u64::try_from(count).map_err(io::Error::other)?)
}

/// A collection: how many, then one by one.
fn put_many<C>(out: Out, items: C) -> io::Result<()>
where
    C: IntoIterator<IntoIter: ExactSizeIterator<Item: Serialize>>,
{
    let mut items = items.into_iter();
    put_count(out, items.len())?;
    items.try_for_each(|item| put(out, &item))
}

/// A collection, which grows with what was really read.
fn take_many<C>(input: In) -> io::Result<C>
where
    C: Default + IntoIterator<Item: DeserializeOwned> + Extend<C::Item>,
{
    let mut items = C::default();
    for _ in 0..take::<u64>(input)? {
        items.extend(Some(take(input)?));
    }
    Ok(items)
}

/// The same for what may be many and large: room for so many at once is not too much to believe.
fn take_vec<T: DeserializeOwned>(input: In) -> io::Result<Vec<T>> {
    const BELIEVED: u64 = 4096;
    let count = take::<u64>(input)?;
    let mut items = Vec::with_capacity(usize::try_from(count.min(BELIEVED)).unwrap_or(0));
    for _ in 0..count {
        items.push(take(input)?);
    }
    Ok(items)
}

fn from_json<T: DeserializeOwned>(text: &str) -> io::Result<T> {
    serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
