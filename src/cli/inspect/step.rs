//! `ledger inspect DIR step RUN STEP`: what is step 37?
//!
//! Invariants: the history is read from the log itself, damage and what stands behind it
//! included; how the step stands now is only what the state before any damage says.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cli::exit::{Code, Failure};
use crate::ledger::Environment;
use crate::log::{Item, LoggedRecord, Proof};
use crate::plan::{AttemptToken, Event, Micros, Receipt, Run, StepEvent, StepNumber, Verdict};

use super::page::Page;
use super::records::Content;
use super::reference::{run_of, step_of};
use super::step_text::Length;
use super::survey::Survey;
use super::{Form, InspectArgs, StepArgs, step_json, step_text};

/// Everything about one step.
#[derive(Debug)]
pub(super) struct Story<'a> {
    pub(super) survey: &'a Survey,
    pub(super) dir: &'a Path,
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

pub(super) fn step(
    args: &InspectArgs,
    what: &StepArgs,
    form: Form,
    environment: &Environment,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    let survey = Survey::of(&args.dir, environment)?;
    let run = run_of(&survey.fold.state, &what.run, survey.code())?;
    let number = step_of(run, &what.step, survey.code())?;
    let history = history(&survey, run, number)?;
    let story = Story { survey: &survey, dir: &args.dir, run, number, history };
    match form {
        Form::Json => step_json::print(&story, page)?,
        Form::Text => {
            let length = if what.full { Length::Whole } else { Length::Short };
            step_text::print(&story, length, page)?;
        }
    }
    Ok(survey.code())
}

fn history(survey: &Survey, run: &Run, number: StepNumber) -> Result<Vec<Moment>, Failure> {
    let mut history = Vec::new();
    for item in survey.view.log().walk(1) {
        if let Item::Record(record, proof) = item? {
            let content = Content::of(&record);
            if let Content::Event(Event::Step(event)) = &content
                && event.run == run.id
                && event.step == number
            {
                let record = LoggedRecord { payload: Vec::new(), ..record };
                history.push(Moment { record, proof, content });
            }
        }
    }
    Ok(history)
}

/// One attempt, put together from what happened.
#[derive(Debug)]
pub(super) struct AttemptStory<'a> {
    pub(super) token: AttemptToken,
    /// When it was dealt; `None` if that record cannot be read.
    pub(super) dealt: Option<(Micros, &'a crate::plan::Dispatched)>,
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
        use crate::plan::{AfterLoss, Decision, Finding};
        match self.end.and_then(Moment::event) {
            Some(StepEvent::Accepted(_)) => "accepted",
            Some(StepEvent::AttemptLost(lost)) => match lost.then {
                AfterLoss::DealAgain => "lost",
                AfterLoss::InDoubt => "in_doubt",
            },
            Some(StepEvent::FailureDecided(decided)) => match decided.decision {
                Decision::Retry | Decision::RetryAt(_) => "failed_and_retried",
                Decision::Fail | Decision::Abort => "failed",
                Decision::Fallback => "failed_and_fell_back",
                Decision::Replan => "failed_and_replan",
                Decision::Escalate => "failed_and_asked",
                Decision::Doubt => "in_doubt",
            },
            Some(StepEvent::DoubtResolved(doubt)) => match doubt.finding {
                Finding::Landed => "landed",
                Finding::DidNotHappen => "did_not_happen",
            },
            _ if self.receipt.is_some() => "reported",
            _ => "in_flight",
        }
    }
}
