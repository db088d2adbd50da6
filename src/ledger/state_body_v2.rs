//! The body of snapshots of the state as they were before: version 2, which is only read.
//!
//! Invariants: what is read is the state that version 2 was of, with the hash that it had then.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};

use crate::plan::{
    Account, AttemptToken, BarrierState, CompactPlan, ContentHash, Cost, Effect, Lane, Micros,
    PauseCause, PlanVersion, Question, QuestionId, Queue, ReplanRequest, Run, RunForked, RunId,
    RunPolicy, RunStatus, State, StepNumber, StepState, StepStatus, Tally, Timer, Variable,
    Verdict,
};

use super::codec::{Values, write_state};
use super::hash::{hash_of_pieces, plan_hash};
use super::run_body::{self, VersionHead, expect_end, expect_plan, plan_of, version_of};
use super::state_body::read_all;
use super::state_values;

/// The hash that a state had: of all of it, the plans left out.
pub(super) fn state_hash(state: &State) -> ContentHash {
    hash_of_pieces(|out| write_state(out, state))
}

/// Read a state, to the end of the input.
pub(super) fn decode(input: &mut dyn io::Read) -> io::Result<State> {
    let body = read_all(input)?;
    let input = &mut Values::of(&body);
    let mut state = state_values::decode(input)?;
    let mut last = None;
    for _ in 0..input.take::<u64>()? {
        let mut run = run_body::decode(input, |input| decode_version(input, &mut last))?;
        run.relink(&OnceLock::new());
        state.runs.insert(run.id, run);
    }
    expect_end(input)?;
    Ok(state)
}

/// A plan as it stands in a body: many runs have the same one, and it is made once.
struct PlanText<'a> {
    header: &'a str,
    steps: Vec<&'a str>,
    plan: Arc<CompactPlan>,
    hash: ContentHash,
}

fn decode_version<'a>(
    input: &mut Values<'a>,
    last: &mut Option<PlanText<'a>>,
) -> io::Result<PlanVersion> {
    let (head, header) = input.take::<(VersionHead, &str)>()?;
    let (step_hashes, steps): (Vec<ContentHash>, Vec<&str>) =
        input.take::<Vec<(ContentHash, &str)>>()?.into_iter().unzip();
    let is_last = |last: &PlanText<'_>| last.header == header && last.steps == steps;
    let text = if let Some(same) = last.take().filter(is_last) {
        same
    } else {
        let plan = plan_of(header, &steps)?;
        let hash = plan_hash(&plan);
        let plan = Arc::new(plan.into());
        PlanText { header, steps, plan, hash }
    };
    let text = last.insert(text);
    expect_plan(&head, text.steps.len(), text.hash)?;
    Ok(version_of(head, step_hashes, &text.plan, input.take()?))
}

/// All that was hashed of a run.
#[derive(Serialize)]
struct RunRow<'a> {
    id: &'a RunId,
    name: &'a String,
    policy: &'a RunPolicy,
    started: &'a Micros,
    forked: &'a Option<RunForked>,
    status: &'a RunStatus,
    ended: &'a Option<(u64, Micros)>,
    pause: &'a Option<PauseCause>,
    abort: &'a Option<String>,
    versions: &'a Vec<PlanVersion>,
    active: &'a u32,
    activated: &'a Micros,
    request: &'a Option<ReplanRequest>,
    is_complete: &'a bool,
    replans: &'a u32,
    steps: &'a Vec<StepState>,
    barriers: &'a BTreeMap<String, BarrierState>,
    variables: &'a BTreeMap<String, Variable>,
    questions: &'a BTreeMap<QuestionId, Question>,
    effects: &'a BTreeMap<String, Effect>,
    ready: Vec<(Reverse<i32>, StepNumber)>,
    capped_tags: &'a BTreeSet<String>,
    lanes: &'a BTreeMap<Lane, Queue>,
    reported: &'a BTreeSet<StepNumber>,
    in_doubt: &'a BTreeSet<StepNumber>,
    dealt: &'a BTreeSet<AttemptToken>,
    in_flight: &'a u32,
    in_flight_by_owner: &'a BTreeMap<String, u32>,
    in_flight_by_tag: &'a BTreeMap<String, u32>,
    timers: &'a BTreeSet<(Micros, Timer)>,
    due: &'a BTreeSet<StepNumber>,
    due_barriers: &'a BTreeSet<String>,
    fatal_barriers: &'a BTreeSet<String>,
    counts: &'a BTreeMap<StepStatus, u32>,
    plan_verdicts: &'a BTreeMap<u32, Verdict>,
    account: &'a Account,
    estimates: &'a BTreeMap<AttemptToken, Cost>,
    tally: &'a Tally,
}

impl<'a> RunRow<'a> {
    fn of(run: &'a Run) -> Self {
        Self {
            id: &run.id,
            name: &run.name,
            policy: &run.policy,
            started: &run.started,
            forked: &run.forked,
            status: &run.status,
            ended: &run.ended,
            pause: &run.pause,
            abort: &run.abort,
            versions: &run.versions,
            active: &run.active,
            activated: &run.activated,
            request: &run.request,
            is_complete: &run.is_complete,
            replans: &run.replans,
            steps: &run.steps,
            barriers: &run.barriers,
            variables: &run.variables,
            questions: &run.questions,
            effects: &run.effects,
            ready: run.ready().collect(),
            capped_tags: &run.capped_tags,
            lanes: &run.lanes,
            reported: &run.reported,
            in_doubt: &run.in_doubt,
            dealt: &run.dealt,
            in_flight: &run.in_flight,
            in_flight_by_owner: &run.in_flight_by_owner,
            in_flight_by_tag: &run.in_flight_by_tag,
            timers: &run.timers,
            due: &run.due,
            due_barriers: &run.due_barriers,
            fatal_barriers: &run.fatal_barriers,
            counts: &run.counts,
            plan_verdicts: &run.plan_verdicts,
            account: &run.account,
            estimates: &run.estimates,
            tally: &run.tally,
        }
    }
}

/// As version 2 hashed it: its queue stands there by itself, too.
impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RunRow::of(self).serialize(serializer)
    }
}
