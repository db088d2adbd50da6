//! The content of a prime, read from the newest state.

use std::collections::BTreeSet;
use std::path::Path;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use plan_ledger::internals::ledger::{Fold, LedgerTime};
use plan_ledger::plan::{CompactPlan, QuestionAnswer, StepEvent, StepRecord};
use plan_ledger::{
    Environment, Event, LedgerView, Limits, Run, State, StepNumber, StepState, Timestamp,
};

use crate::commands::inspect::health::damage_text;
use crate::commands::inspect::health::overtaken::beside_prune;
use crate::commands::inspect::{items, name_and_title};
use crate::output::{pending_commands, reader};
use crate::protocol::{Failure, is_unapproved, unchecked_text};
use crate::requests::{default_run, run_of, run_status};
use crate::runner::{gone_claims, runner_waits};
use crate::server::RunnerStatus;
use crate::server::rollback_text;
use plan_ledger_views::{
    KnownRunner, RunActivity, RunActivityJson, RunProgress, WaitingItem, gone_steps, hosted_steps,
    steps_in_flight, wait_text, waits_of,
};
use plan_ledger_views::{RecordContent, content_text};

/// How many items of each kind a prime has.
const LISTED_MAX: usize = 5;

/// How many records before the last one are looked at for changes of the run.
const CHANGES_READ_MAX: usize = 64;

/// The facts that an agent needs to continue. Without a ledger, or without a run, most members are
/// empty.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct PrimeLine {
    /// How the run stands; null without one.
    pub(super) activity: Option<RunActivityJson>,
    /// The active runs, if there are several and none was named.
    pub(super) active_runs: Vec<String>,
    /// What people answered about the steps in `claimed` and `ready`, with a note: the last answer for each.
    pub(super) answers: Vec<AnswerNoteJson>,
    /// The rest of the run's budget; absent limits are unlimited.
    pub(super) budget_left: Limits,
    /// The last changes of the run, newest first.
    pub(super) changes: Vec<ChangeJson>,
    /// The steps in flight, in the order of dispatch: the first five.
    pub(super) claimed: Vec<ClaimedStepJson>,
    /// The number of steps in flight.
    pub(super) claimed_count: usize,
    /// Why not all of the ledger can be read; null if all of it can.
    pub(super) damage: Option<String>,
    /// The number of steps that are accepted or skipped.
    pub(super) done: u32,
    /// The steps that can be dispatched, in the order of dispatch: the first five.
    pub(super) ready: Vec<ReadyStepJson>,
    /// The number of steps that can be dispatched.
    pub(super) ready_count: usize,
    /// The plan's description of the work.
    pub(super) plan: PlanNotes,
    /// The versions that a person rejected since the active one became active.
    pub(super) rejections: Vec<RejectionJson>,
    /// The run; null without a run, or if several are active and none was named.
    pub(super) run: Option<String>,
    /// The last record of the ledger.
    pub(super) seq: u64,
    /// The status of the run.
    pub(super) status: Option<String>,
    /// The number of steps of the active version.
    pub(super) steps: u32,
    /// Whether more steps will follow: the plan continues, and the run has not ended.
    pub(super) continues: bool,
    /// The plan's title.
    pub(super) title: String,
    /// The waits of the runner before it dispatches ready steps.
    pub(super) waits: Vec<WaitingJson>,
    /// The items that wait for a person: the first five.
    pub(super) waiting: Vec<WaitingJson>,
    /// The number of items that wait for a person.
    pub(super) waiting_count: usize,
}

/// A plan's description of the work, apart from its steps.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct PlanNotes {
    /// The next action: `extra.next_action`.
    pub(super) next_action: String,
    /// The open questions.
    pub(super) open_questions: Vec<String>,
    /// The state that the plan leads to.
    pub(super) outcome: String,
    /// The known risks.
    pub(super) risks: Vec<String>,
}

/// A version that a person rejected.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RejectionJson {
    /// The note of its reviewer.
    pub(super) note: String,
    /// The version.
    pub(super) version: u32,
}

/// An answer of a person about a step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct AnswerNoteJson {
    /// The answer.
    pub(super) answer: String,
    /// The person.
    pub(super) by: String,
    /// What the person noted.
    pub(super) note: String,
    /// The step number.
    pub(super) number: StepNumber,
    /// The step's id.
    pub(super) step: String,
}

/// A change of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ChangeJson {
    /// The record.
    pub(super) seq: u64,
    /// The change, for people.
    pub(super) text: String,
}

/// A step in flight.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ClaimedStepJson {
    /// When it was dispatched.
    pub(super) dispatched_micros: Timestamp,
    /// Whether its worker is known to be gone: the process that claimed it, or the runner that started it.
    pub(super) is_gone: bool,
    /// The end of its lease.
    pub(super) lease_until_micros: Timestamp,
    /// The step number.
    pub(super) number: StepNumber,
    /// The step's id.
    pub(super) step: String,
    /// Its title or goal.
    pub(super) title: String,
    /// The worker.
    pub(super) worker: String,
}

/// A step that can be dispatched.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ReadyStepJson {
    /// The step number.
    pub(super) number: StepNumber,
    /// Its owner.
    pub(super) owner: Option<String>,
    /// The step's id.
    pub(super) step: String,
    /// Its title or goal.
    pub(super) title: String,
}

/// An item that waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WaitingJson {
    /// The item, for people.
    pub(super) text: String,
}

/// The ledger that a prime is read from.
#[derive(Debug)]
pub(crate) struct ReadFrom<'a> {
    dir: &'a Path,
    view: LedgerView,
    fold: Fold,
    now: Timestamp,
    /// The records that it had before and now lacks.
    rollback: Option<String>,
}

impl<'a> ReadFrom<'a> {
    /// Reads the newest state of a ledger, without its lock.
    ///
    /// # Errors
    /// Those of [`LedgerView::open`]. Damage is not an error here.
    pub(crate) fn open(dir: &'a Path, environment: &Environment) -> Result<Self, Failure> {
        let (view, fold) = beside_prune(|| {
            let view = LedgerView::open(dir, environment)?;
            let fold = view.fold_recent()?;
            Ok((view, fold))
        })?;
        let now = LedgerTime::of(view.log(), environment).now.max(fold.state.time);
        let rollback = rollback_text(dir, environment);
        Ok(Self { dir, view, fold, now, rollback })
    }

    /// The newest state.
    pub(crate) fn state(&self) -> &State {
        &self.fold.state
    }

    /// The ledger's time.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The first problem, if not all of the ledger can be read.
    fn damage(&self) -> Option<String> {
        let first = self.fold.damage.first().map(damage_text);
        first.or_else(|| self.fold.unreadable.clone())
    }

    /// The steps in flight with dead workers: the processes that claimed them, or the runner that
    /// started them, have ended.
    fn gone_steps(&self, run: &Run, runner: &KnownRunner<'_>) -> BTreeSet<StepNumber> {
        let state = self.state();
        let claimed = gone_steps(state, run, runner.gone).into_iter().map(|(number, _)| number);
        let mut gone: BTreeSet<StepNumber> = claimed.collect();
        if runner.is_absent() {
            gone.extend(hosted_steps(state, run).map(|(number, _)| number));
        }
        gone
    }

    /// The last answer of a person about a step, if it has a note.
    fn answer(&self, run: &Run, number: StepNumber) -> Option<AnswerNoteJson> {
        let records = self.view.step_records(run, number).ok()?;
        let answer = records.iter().rev().find_map(|record| match RecordContent::of(record) {
            RecordContent::Event(Event::Step(StepRecord {
                event: StepEvent::StepAnswered(event),
                ..
            })) => Some(event),
            _ => None,
        })?;
        let step = run.step(number)?.id().to_owned();
        let QuestionAnswer { answer, by, note, .. } = answer;
        let is_noted = !note.is_empty();
        is_noted.then_some(AnswerNoteJson { answer, by, note, number, step })
    }

    /// The last changes of a run, newest first.
    fn changes(&self, run: &Run) -> Vec<ChangeJson> {
        let records = self.view.log().records_reverse(self.state().seq);
        // Damage ends the list: the line about damage names it.
        let records = records.take(CHANGES_READ_MAX).map_while(Result::ok);
        let changes = records.filter_map(|record| {
            let content = RecordContent::of(&record);
            let RecordContent::Event(event) = &content else { return None };
            if content.run() != Some(run.id) {
                return None;
            }
            let (_, text) = content_text(&record, &content);
            let subject = match event {
                Event::Step(event) => format!("{}: ", name_and_title(run, event.step).0),
                _ => String::new(),
            };
            Some(ChangeJson { seq: record.seq, text: format!("{subject}{text}") })
        });
        changes.take(LISTED_MAX).collect()
    }
}

/// The prime of a run. Without a name: of the only active run, else of the newest.
///
/// # Errors
/// `Usage` for an unknown run.
pub(crate) fn read_prime(from: &ReadFrom<'_>, name: Option<&str>) -> Result<PrimeLine, Failure> {
    let state = from.state();
    let damage = from.damage().or_else(|| from.rollback.clone());
    let line = PrimeLine { damage, seq: state.seq, ..PrimeLine::default() };
    let run = match name {
        Some(name) => Some(run_of(state, name)?),
        None => match default_run(state) {
            Ok(id) => id.and_then(|id| state.runs.get(&id)),
            // Several runs are active.
            Err(_) => return Ok(PrimeLine { active_runs: active_runs(state), ..line }),
        },
    };
    Ok(match run {
        Some(run) => line.with_run(from, run),
        None => line,
    })
}

fn active_runs(state: &State) -> Vec<String> {
    let overviews = state.runs.overviews().filter(|(_, overview)| overview.is_open());
    overviews.map(|(_, overview)| overview.name.clone()).collect()
}

impl PrimeLine {
    fn with_run(self, from: &ReadFrom<'_>, run: &Run) -> Self {
        let state = from.state();
        let status = RunnerStatus::of(from.dir, from.view.log());
        let claims = gone_claims(from.dir, state);
        let waits = runner_waits(from.dir, state, from.now, || status.is_absent());
        let runner = status.known(run, from.dir, &claims, &waits);
        // Nothing is concluded from records that are missing.
        let items = self.damage.is_none().then(|| items(run, from.dir));
        let stands = RunActivity::of((state, run), &runner, items.as_deref(), from.dir);
        let progress = RunProgress::of(run, &stands, from.now);
        let waiting: Vec<WaitingItem> =
            items.unwrap_or_default().into_iter().filter(WaitingItem::needs_person).collect();
        let gone = from.gone_steps(run, &runner);
        let claimed = |(number, step): (StepNumber, &StepState)| {
            let attempt = step.attempt()?;
            Some(ClaimedStepJson {
                dispatched_micros: attempt.dispatched,
                is_gone: gone.contains(&number),
                lease_until_micros: attempt.lease_until,
                number,
                step: step.id().to_owned(),
                title: name_and_title(run, number).1,
                worker: attempt.worker.clone(),
            })
        };
        let ready = |number: StepNumber| {
            let step = run.step(number)?;
            Some(ReadyStepJson {
                number,
                owner: step.owner().map(str::to_owned),
                step: step.id().to_owned(),
                title: name_and_title(run, number).1,
            })
        };
        // Steps that a pause or a request for a new plan holds are not offered.
        let hold = run.replan_hold();
        let is_free = |number: &StepNumber| {
            run.pause.is_none() && hold.as_ref().is_none_or(|hold| !hold.holds(*number))
        };
        let free: Vec<StepNumber> = run.ready().map(|(_, number)| number).filter(is_free).collect();
        let item = |item: &WaitingItem| WaitingJson {
            text: pending_commands(item, &run.name, from.dir).0,
        };
        let wait = |wait| WaitingJson { text: wait_text(wait, run, from.now) };
        // Unapproved commands are a separate item.
        let unchecked: Vec<WaitingJson> =
            if is_unapproved(run) { Vec::new() } else { unchecked(from.dir, run) };
        let claims = steps_in_flight(state, run).map(|(number, _)| number).take(LISTED_MAX);
        let open = claims.chain(free.iter().copied().take(LISTED_MAX));
        let answers = open.filter_map(|number| from.answer(run, number)).collect();
        Self {
            activity: Some(RunActivityJson::of(&stands, reader())),
            answers,
            budget_left: budget_left(run, from.now),
            changes: from.changes(run),
            claimed: steps_in_flight(state, run).filter_map(claimed).take(LISTED_MAX).collect(),
            claimed_count: steps_in_flight(state, run).count(),
            done: progress.done,
            plan: plan_notes(run),
            rejections: rejections(run),
            ready: free.iter().filter_map(|number| ready(*number)).take(LISTED_MAX).collect(),
            ready_count: free.len(),
            run: Some(run.name.clone()),
            status: Some(run_status(run)),
            steps: progress.steps,
            continues: progress.continues,
            title: progress.title,
            waits: waits_of(&waits, run).map(wait).collect(),
            waiting_count: waiting.len() + unchecked.len(),
            waiting: waiting.iter().map(item).chain(unchecked).take(LISTED_MAX).collect(),
            ..self
        }
    }
}

/// The reported steps that no process checks.
fn unchecked(dir: &Path, run: &Run) -> Vec<WaitingJson> {
    let text = |number: &StepNumber| {
        let name = name_and_title(run, *number).0;
        let why = unchecked_text(dir, run, *number)?;
        Some(WaitingJson { text: format!("{name} is reported, and {why}") })
    };
    run.reported.iter().filter_map(text).collect()
}

fn plan_notes(run: &Run) -> PlanNotes {
    let Some(plan) = run.plan().map(CompactPlan::header) else { return PlanNotes::default() };
    let action = plan.extra.get("next_action");
    PlanNotes {
        next_action: action.map(value_text).unwrap_or_default(),
        open_questions: plan.open_questions.clone(),
        outcome: plan.outcome.clone(),
        risks: plan.risks.clone(),
    }
}

/// A value of another tool, for people.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(value_text).collect::<Vec<_>>().join("; "),
        value => value.to_string(),
    }
}

fn rejections(run: &Run) -> Vec<RejectionJson> {
    let rejected = run.rejections().into_iter();
    let rejected = rejected.filter(|(version, _)| *version > run.active);
    rejected.map(|(version, note)| RejectionJson { note: note.to_owned(), version }).collect()
}

/// The rest of a run's budget, without the possible costs of attempts in flight.
fn budget_left(run: &Run, now: Timestamp) -> Limits {
    let (limits, account) = (run.limits(), &run.account);
    let left = |limit: Option<u64>, spent: u64| limit.map(|limit| limit.saturating_sub(spent));
    let (spent, reserved) = (account.spent, account.reserved);
    Limits {
        money_micros: left(limits.money_micros, spent.money_micros + reserved.money_micros),
        tokens: left(limits.tokens, spent.tokens + reserved.tokens),
        attempts: left(limits.attempts, account.attempts),
        wall_seconds: run.wall_until().map(|until| until.saturating_sub(now) / 1_000_000),
    }
}
