//! Which command criterion is judged next. Text criteria wait for somebody; CEL is judged by the
//! ledger.

use crate::plan::{Criterion, Json, Run, RunStatus, StepNumber, StepStatus, Verdict};

use std::collections::BTreeMap;

use super::summary::open_steps;
use super::{Check, Subject};

/// The first command criterion of a reported step that has no verdict.
pub(super) fn next_check_of_step(run: &Run, number: StepNumber) -> Option<Check> {
    let state = run.step(number).filter(|step| step.status == StepStatus::Reported)?;
    let attempt = state.attempt.as_ref()?;
    let version = run.active_version()?;
    let step = run.plan_step(number)?;
    let (criterion, command) = first_open_command(&step.acceptance, &attempt.verdicts)?;
    Some(Check {
        subject: Subject::Attempt(attempt.token),
        criterion,
        command,
        environment: vec![
            ("LEDGER_RUN".to_owned(), run.name.clone()),
            ("LEDGER_STEP".to_owned(), step.id.clone()),
            ("LEDGER_STEP_NUMBER".to_owned(), number.to_string()),
            ("LEDGER_ATTEMPT".to_owned(), state.attempts.to_string()),
            ("LEDGER_TOKEN".to_owned(), attempt.token.to_string()),
        ],
        output: attempt.receipt.as_ref().map(|receipt| receipt.output.clone()).unwrap_or_default(),
        timeout_seconds: step.timeout_seconds.or(version.plan.defaults.timeout_seconds),
    })
}

/// The first command criterion of a plan that has no verdict, once every step is settled.
pub(super) fn next_check_of_plan(run: &Run) -> Option<Check> {
    let all_settled = open_steps(run) == 0 && run.count(StepStatus::Failed) == 0;
    if run.status != RunStatus::Running || !all_settled {
        return None;
    }
    let plan = &run.active_version()?.plan;
    let (criterion, command) = first_open_command(&plan.test_criteria, &run.plan_verdicts)?;
    Some(Check {
        subject: Subject::Plan(run.id),
        criterion,
        command,
        environment: vec![("LEDGER_RUN".to_owned(), run.name.clone())],
        output: Json::default(),
        timeout_seconds: None,
    })
}

fn first_open_command(
    criteria: &[Criterion],
    verdicts: &BTreeMap<u32, Verdict>,
) -> Option<(u32, String)> {
    (0..).zip(criteria).find_map(|(index, criterion)| match criterion {
        Criterion::Command(command) if !verdicts.contains_key(&index) => {
            Some((index, command.clone()))
        }
        _ => None,
    })
}
