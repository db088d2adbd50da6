//! Judges the text criteria of a step or of the plan.

use std::fmt;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::{CompactStep, Criterion, StepEvent};
use plan_ledger::{
    AttemptToken, Command, Error, Event, Rejection, Ruling, Run, State, StepNumber, StepStatus,
    Verdict,
};

use plan_ledger_views::recorded_text;

use crate::protocol::{Failure, StepName};

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::{
    name, request_command, run_after, run_or_only, run_status, step_of, step_status,
};
use super::kind::RequestKind;
use super::members::{Author, RunArg};
use super::rules::{HttpMethod, Role, Rules};

const EXAMPLES: &str = "\
Examples:
  ledger accept my-plan build --by ana --evidence 'read the diff'
  ledger accept my-plan '#37' --by ana             a step by its number
  ledger reject my-plan plan --by ana              the plan's own criteria";

/// The word for the plan itself, where a step is expected.
const PLAN: &str = "plan";

/// Judge the open text criteria of a reported step, or of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[command(allow_missing_positional = true)]
#[serde(deny_unknown_fields)]
pub struct JudgeRequest {
    /// The run's name or number; by default the only run that has not ended, else the newest.
    #[command(flatten)]
    #[serde(default)]
    pub run: RunArg,
    /// The step's id or number, or `plan`.
    #[arg(value_name = "STEP")]
    pub step: String,
    /// Whether the criteria hold.
    // `ledger accept` and `ledger reject` set it.
    #[arg(skip = Ruling::Pass)]
    pub ruling: Ruling,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
    /// The grounds for the verdict.
    #[arg(long, value_name = "TEXT", default_value = "")]
    #[serde(default)]
    pub evidence: String,
}

/// Criteria were judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct JudgeAnswer {
    /// The run.
    pub run: String,
    /// The step's id; null for the plan.
    pub step: Option<String>,
    /// The step number; null for the plan.
    pub number: Option<u32>,
    /// Whether the criteria hold.
    pub ruling: Ruling,
    /// How many criteria were judged.
    pub criteria: usize,
    /// The status of the step; null for the plan.
    pub status: Option<StepStatus>,
    /// The status of the run.
    pub run_status: String,
}

impl RequestKind for JudgeRequest {
    const RULES: Rules = Rules::of(Role::Operator)
        .of_person()
        .at(HttpMethod::Post, "/v1/runs/{run}/steps/{step}/judge");

    type Answer = JudgeAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<JudgeAnswer, Failure> {
        context.execute(&|state: &State| self.command(state), |state, events| {
            Ok(JudgeAnswer::of(
                run_after(state, events, self.run.name())?,
                self.ruling,
                &self.by,
                events,
            ))
        })?
    }
}

impl JudgeRequest {
    fn command(&self, state: &State) -> Result<Command, Failure> {
        let run = run_or_only(state, self.run.name())?;
        let found = step_of(run, &self.step);
        if means_plan(run, &self.step, &found) {
            let verdicts = self.verdicts(open_plan_criteria(run)?);
            return Ok(Command::JudgePlan { run: run.id, verdicts });
        }
        let (token, open) = open_step_criteria(run, found?)?;
        Ok(Command::Judge { token, verdicts: self.verdicts(open) })
    }

    fn verdicts(&self, open: Vec<u32>) -> Vec<Verdict> {
        let verdict = |criterion| Verdict {
            criterion,
            ruling: self.ruling,
            by: self.by.to_string(),
            evidence: self.evidence.as_str().into(),
        };
        open.into_iter().map(verdict).collect()
    }
}

/// Whether the word means the plan. A reported step with that id takes precedence.
fn means_plan(run: &Run, word: &str, found: &Result<StepNumber, Failure>) -> bool {
    let step = found.as_ref().ok().and_then(|number| run.step(*number));
    word == PLAN && step.is_none_or(|step| step.status != StepStatus::Reported)
}

/// The attempt of a reported step and its text criteria without a verdict.
fn open_step_criteria(run: &Run, number: StepNumber) -> Result<(AttemptToken, Vec<u32>), Failure> {
    let step = run.step(number);
    let status = step.map_or(StepStatus::Removed, |step| step.status);
    let attempt = step.and_then(|step| step.attempt());
    let (StepStatus::Reported, Some(attempt)) = (status, attempt) else {
        return Err(Failure::Rejected(format!(
            "{}: nothing to judge: the step is {status}, expected reported",
            name(run, number)
        )));
    };
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    let open = open_text(&criteria, |index| attempt.verdicts.contains_key(index));
    if open.is_empty() {
        return Err(Failure::Rejected(format!(
            "{}: no text criterion is open; `{}` says what the step waits for",
            name(run, number),
            request_command("next", &[&run.name])
        )));
    }
    Ok((attempt.token, open))
}

/// The plan's own text criteria without a verdict.
fn open_plan_criteria(run: &Run) -> Result<Vec<u32>, Failure> {
    let plan = run.plan().ok_or(Rejection::NoActivePlan).map_err(Error::from)?;
    let open =
        open_text(&plan.header().test_criteria, |index| run.plan_verdicts.contains_key(index));
    if open.is_empty() {
        let message = format!("run {}: the plan has no open text criterion", run.name);
        return Err(Failure::Rejected(message));
    }
    Ok(open)
}

fn open_text(criteria: &[Criterion], is_judged: impl Fn(&u32) -> bool) -> Vec<u32> {
    (0..)
        .zip(criteria)
        .filter(|(index, each)| matches!(each, Criterion::Text(_)) && !is_judged(index))
        .map(|(index, _)| index)
        .collect()
}

impl JudgeAnswer {
    /// The verdicts by one author among the events of a commit.
    pub(super) fn of(run: &Run, ruling: Ruling, by: &str, events: &[(u64, Event)]) -> Self {
        let (mut criteria, mut judged) = (0, None);
        for (_, event) in events {
            match event {
                Event::PlanVerdict(event) if event.verdict.by == by => criteria += 1,
                Event::Step(record) => match &record.event {
                    StepEvent::VerdictRecorded(event) if event.verdict.by == by => {
                        criteria += 1;
                        judged = Some(record.step);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        Self {
            run: run.name.clone(),
            step: judged.map(|step| StepName::of(run, step).id),
            number: judged.map(|step| step.0),
            ruling,
            criteria,
            status: judged.map(|step| step_status(run, step)),
            run_status: run_status(run),
        }
    }
}

impl AnswerLine for JudgeAnswer {
    const WORD: &'static str = "judged";
}

impl fmt::Display for JudgeAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, criteria, run_status, .. } = self;
        let what = if *criteria == 1 { "criterion" } else { "criteria" };
        let judged = format!("{criteria} {what} judged");
        match (self.number, &self.step, self.status) {
            (Some(number), Some(id), Some(status)) => {
                let step = StepName { number: StepNumber(number), id: id.clone() };
                write!(f, "{step}: {judged}; the step is {status}")
            }
            _ => {
                let run_status = recorded_text(run_status);
                write!(f, "the plan: {judged}; run {run} is {run_status}")
            }
        }
    }
}
