//! `ledger inspect DIR step RUN STEP`: what is step 37?
//!
//! Invariants: the history follows the links between the step's records; where damage stands in
//! the way, all of the log is read, what stands behind the damage included. How the step stands is
//! only what the state says, before any damage.

use std::collections::BTreeMap;

use clap::Args;

use crate::output::{Code, Failure, code_of};
use plan_ledger::log::{Item, LoggedRecord, Proof};
use plan_ledger::plan::{
    AttemptToken, Event, Micros, Receipt, Run, RunId, StepEvent, StepNumber, Verdict,
};

use super::Look;
use super::content::Content;
use super::domain::{At, Scene, StepOf};
use super::page::Page;
use super::step_text::Length;
use super::text::plain;
use super::{Form, step_json, step_text};

const STEP_EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger step my-plan build        a step by its id
  ledger inspect .ledger step my-plan '#37'        by its number
  ledger inspect .ledger step my-plan build --full with whole outputs";

/// What is step 37: its plan, how it stands and why, and everything that happened to it
#[derive(Debug, Args)]
#[command(after_help = STEP_EXAMPLES)]
pub(super) struct StepArgs {
    #[command(flatten)]
    of: StepOf,
    /// Print outputs and logs whole, however long
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    at: At,
}

/// Everything about one step.
#[derive(Debug)]
pub(super) struct Story<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) run: &'a Run,
    pub(super) number: StepNumber,
    /// What happened to it, in order.
    pub(super) history: Vec<Moment>,
}

/// One thing that happened to a step.
#[derive(Debug)]
pub(super) struct Moment {
    pub(super) record: LoggedRecord,
    pub(super) proof: Proof,
    pub(super) content: Content,
}

impl Moment {
    /// What happened; always there, since that is how it was chosen.
    pub(super) fn event(&self) -> Option<&StepEvent> {
        match &self.content {
            Content::Event(Event::Step(record)) => Some(&record.event),
            _ => None,
        }
    }
}

pub(super) fn step(what: &StepArgs, look: Look<'_>, page: &mut Page<'_>) -> Result<Code, Failure> {
    let (mut scene, id) = Scene::of_run(look, what.at, what.of.run())?;
    let number = scene.step(scene.run(id)?, what.of.step())?;
    let history = history(&mut scene, id, number)?;
    let story = Story { scene: &scene, run: scene.run(id)?, number, history };
    match look.form {
        Form::Json => step_json::print(&story, page)?,
        Form::Text => {
            let length = if what.full { Length::Whole } else { Length::Short };
            step_text::print(&story, length, page)?;
        }
    }
    scene.end(page)
}

/// What happened to a step up to the record of the scene: by the links between its records, or,
/// where damage stands in the way, by reading all there is.
pub(super) fn history(
    scene: &mut Scene<'_>,
    id: RunId,
    number: StepNumber,
) -> Result<Vec<Moment>, Failure> {
    if scene.code() == Code::Fine {
        match scene.view.step_records(scene.run(id)?, number) {
            Ok(records) => {
                let moment = |record: LoggedRecord| {
                    let content = Content::of(&record);
                    let record = LoggedRecord { payload: Vec::new(), ..record };
                    Moment { record, proof: Proof::Proven, content }
                };
                return Ok(records.into_iter().map(moment).collect());
            }
            Err(error) if code_of(&error) == Code::Damaged => scene.miss(plain(&error.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
    whole_history(scene, id, number)
}

fn whole_history(
    scene: &mut Scene<'_>,
    id: RunId,
    number: StepNumber,
) -> Result<Vec<Moment>, Failure> {
    let mut history = Vec::new();
    let mut missing = Vec::new();
    for item in scene.view.log().walk(1) {
        match item? {
            Item::Record(record, proof) => {
                let content = Content::of(&record);
                if let Content::Event(Event::Step(event)) = &content
                    && event.run == id
                    && event.step == number
                {
                    let record = LoggedRecord { payload: Vec::new(), ..record };
                    history.push(Moment { record, proof, content });
                }
            }
            Item::Damage(damage) => missing.push(damage),
            Item::Derived(_) | Item::OpenEnd { .. } => {}
        }
    }
    for damage in missing {
        scene.meet(damage);
    }
    Ok(history)
}

/// One attempt, put together from what happened.
#[derive(Debug)]
pub(super) struct AttemptStory<'a> {
    pub(super) token: AttemptToken,
    /// When it was dealt; `None` if that record cannot be read.
    pub(super) dealt: Option<(Micros, &'a plan_ledger::plan::Dispatched)>,
    /// Until when the lease went at each renewal, and when that was.
    pub(super) renewals: Vec<(Micros, Micros)>,
    pub(super) receipt: Option<(Micros, &'a Receipt)>,
    pub(super) verdicts: Vec<(Micros, &'a Verdict)>,
    /// The last thing that was said about it.
    pub(super) end: Option<&'a Moment>,
    pub(super) refused: u32,
}

impl Story<'_> {
    /// Its attempts, oldest first.
    pub(super) fn attempts(&self) -> Vec<AttemptStory<'_>> {
        let mut attempts = BTreeMap::new();
        let mut current = None;
        for moment in &self.history {
            let Some(event) = moment.event() else { continue };
            let time = moment.record.time;
            let token = match event {
                StepEvent::Dispatched(_) => Some(AttemptToken(moment.record.seq)),
                StepEvent::LeaseRenewed(event) => Some(event.token),
                StepEvent::AttemptLost(event) => Some(event.token),
                StepEvent::ReceiptRecorded(event) => Some(event.token),
                StepEvent::ReceiptRefused(event) => Some(event.token),
                StepEvent::VerdictRecorded(event) => Some(event.token),
                StepEvent::FailureDecided(event) => Some(event.token),
                StepEvent::DoubtResolved(event) => Some(event.token),
                // It names no attempt, but ends the one that goes on.
                StepEvent::Accepted(_) => current,
                StepEvent::EffectIntended(event) => Some(event.token),
                StepEvent::EffectCommitted(event) => Some(event.token),
                StepEvent::CostCorrected(event) => Some(event.token),
                StepEvent::Skipped(_)
                | StepEvent::Reopened(_)
                | StepEvent::ConditionJudged(_)
                | StepEvent::DelayElapsed(_)
                | StepEvent::Asked(_)
                | StepEvent::Answered(_)
                | StepEvent::Expired(_)
                | StepEvent::Failed(_) => None,
            };
            let Some(token) = token else { continue };
            let attempt: &mut AttemptStory<'_> =
                attempts.entry(token).or_insert_with(|| AttemptStory::new(token));
            match event {
                StepEvent::Dispatched(event) => {
                    attempt.dealt = Some((time, event));
                    current = Some(token);
                }
                StepEvent::LeaseRenewed(event) => attempt.renewals.push((time, event.lease_until)),
                StepEvent::ReceiptRecorded(event) => attempt.receipt = Some((time, &event.receipt)),
                StepEvent::ReceiptRefused(_) => attempt.refused += 1,
                StepEvent::VerdictRecorded(event) => attempt.verdicts.push((time, &event.verdict)),
                StepEvent::AttemptLost(_)
                | StepEvent::FailureDecided(_)
                | StepEvent::DoubtResolved(_)
                | StepEvent::Accepted(_) => attempt.end = Some(moment),
                _ => {}
            }
        }
        attempts.into_values().collect()
    }
}

impl AttemptStory<'_> {
    fn new(token: AttemptToken) -> Self {
        Self {
            token,
            dealt: None,
            renewals: Vec::new(),
            receipt: None,
            verdicts: Vec::new(),
            end: None,
            refused: 0,
        }
    }

    /// How it ended, in a word.
    pub(super) fn fate(&self) -> &'static str {
        use plan_ledger::plan::{AfterLoss, Decision, ResolvedOutcome};
        match self.end.and_then(Moment::event) {
            Some(StepEvent::Accepted(_)) => "accepted",
            Some(StepEvent::AttemptLost(lost)) => match lost.then {
                AfterLoss::Redispatch => "lost",
                AfterLoss::OutcomeUnknown => "outcome_unknown",
            },
            Some(StepEvent::FailureDecided(decided)) => match decided.decision {
                Decision::Retry | Decision::RetryAt(_) => "failed_and_retried",
                Decision::Fail | Decision::Abort => "failed",
                Decision::Fallback => "failed_and_fell_back",
                Decision::Replan => "failed_and_replan",
                Decision::Escalate => "failed_and_asked",
                Decision::Doubt => "outcome_unknown",
            },
            Some(StepEvent::DoubtResolved(doubt)) => match doubt.finding {
                ResolvedOutcome::Landed => "landed",
                ResolvedOutcome::DidNotHappen => "did_not_happen",
            },
            _ if self.receipt.is_some() => "reported",
            _ => "in_flight",
        }
    }
}
