//! Judging: which command criterion is next, and what comes of it. Text criteria wait for
//! somebody; CEL is judged by the ledger.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::plan::{
    Attempt, AttemptToken, Command, Criterion, Json, Outcome, Output, Ruling, Run, RunStatus,
    StepNumber, StepStatus, Verdict,
};

use super::drive::Drive;
use super::summary::open_steps;
use super::{Check, Checked, Progress, StepName, Subject};

impl Drive<'_> {
    pub(super) fn take_verdict(&mut self, checked: Checked) {
        let Checked { subject, criterion, ruling, evidence } = checked;
        let step = self.checking.remove(&subject).flatten();
        if let (Subject::Doubt(_), Some(step)) = (subject, step.clone()) {
            return self.take_finding(step, Checked { subject, criterion, ruling, evidence });
        }
        let Some(ruling) = ruling else { return };
        let by = self.workers.kind().judge().to_owned();
        let verdict = Verdict { criterion, ruling, by, evidence: evidence.clone() };
        let judged = match subject {
            Subject::Attempt(token) | Subject::Doubt(token) => {
                self.ledger.judge(token, vec![verdict]).map(Some)
            }
            Subject::Plan(run) => {
                let command = Command::JudgePlan { run, verdicts: vec![verdict] };
                self.ledger.execute(&command).map(|_| None)
            }
        };
        match judged {
            Ok(status) => {
                if let (Some(step), Some(StepStatus::Reported)) = (&step, status) {
                    self.queue_check_of_step(step);
                }
                let progress = Progress::Verdict { step, criterion, ruling, evidence, status };
                self.observer.progress(&progress);
                self.count();
            }
            // The step was taken away, or somebody else judged it meanwhile.
            Err(error) if step.is_some() && error.rejection().is_some() => {}
            // The command runs again when the run is resumed.
            Err(error) => self.fail(error),
        }
    }

    /// A check with the output that it judges. A blob is only read now, so that few are in memory.
    /// `None` if it is gone: work that nobody can look at does not hold, which is the verdict.
    pub(super) fn with_output(
        &mut self,
        step: Option<&StepName>,
        check: Check,
    ) -> Result<Option<Check>> {
        let Subject::Attempt(token) = check.subject else { return Ok(Some(check)) };
        let state = self.ledger.state();
        let output = state.dealt.get(&token).and_then(|(run, step)| {
            let attempt = state.runs.get(run)?.step(*step)?.attempt.as_ref()?;
            output_of(attempt).filter(|_| attempt.token == token)
        });
        let Some(output @ Output::Blob(_)) = output else { return Ok(Some(check)) };
        match self.ledger.output(output) {
            Ok(output) => Ok(Some(Check { output, ..check })),
            Err(error) if error.is_damage() => {
                let Check { subject, criterion, .. } = check;
                self.checking.insert(subject, step.cloned());
                let (ruling, evidence) = (Some(Ruling::Fail), error.to_string());
                self.take_verdict(Checked { subject, criterion, ruling, evidence });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn queue_checks_of_reported(&mut self) {
        let state = self.ledger.state();
        let Some(run) = state.runs.get(&self.run) else { return };
        for number in &run.reported {
            self.queue_check_of_step(&StepName::of(run, *number));
        }
    }

    pub(super) fn queue_check_of_step(&mut self, step: &StepName) {
        let state = self.ledger.state();
        let check = state.runs.get(&self.run).and_then(|run| next_check_of_step(run, step.number));
        self.queued.extend(check.map(|check| (Some(step.clone()), check)));
    }

    /// When every step is settled, the plan's own criteria are due. Whether one was queued.
    pub(super) fn queue_plan_check(&mut self) -> bool {
        if !self.may_start() {
            return false;
        }
        let state = self.ledger.state();
        let check = state.runs.get(&self.run).and_then(next_check_of_plan);
        let found = check.is_some();
        self.queued.extend(check.map(|check| (None, check)));
        found
    }
}

/// What an attempt produced.
fn output_of(attempt: &Attempt) -> Option<&Output> {
    attempt.receipt.as_ref().map(|receipt| &receipt.output)
}

/// The first command criterion of a reported step that has no verdict.
pub(super) fn next_check_of_step(run: &Run, number: StepNumber) -> Option<Check> {
    let state = run.step(number).filter(|step| step.status == StepStatus::Reported)?;
    let attempt = state.attempt.as_ref().filter(|attempt| may_hold(attempt))?;
    let version = run.active_version()?;
    let step = run.plan_step(number)?;
    let (criterion, command) = first_open_command(&step.acceptance, &attempt.verdicts)?;
    Some(Check {
        subject: Subject::Attempt(attempt.token),
        criterion,
        command,
        environment: environment(run, number, attempt.token),
        output: output_of(attempt).and_then(Output::inline).cloned().unwrap_or_default(),
        timeout_seconds: step.timeout_seconds.or(version.plan.defaults.timeout_seconds),
    })
}

/// Whether more criteria are worth judging: the worker succeeded, and none has failed yet. What
/// failed waits for a decision, not for verdicts.
pub(crate) fn may_hold(attempt: &Attempt) -> bool {
    let receipt = attempt.receipt.as_ref();
    receipt.is_some_and(|receipt| receipt.outcome == Outcome::Succeeded)
        && attempt.verdicts.values().all(|verdict| verdict.ruling == Ruling::Pass)
}

/// The variables that name an attempt to a command.
pub(super) fn environment(
    run: &Run,
    number: StepNumber,
    token: AttemptToken,
) -> Vec<(String, String)> {
    let step = run.step(number);
    let id = step.map_or_else(String::new, |step| step.id.clone());
    let attempts = step.map_or(0, |step| step.attempts);
    vec![
        ("LEDGER_RUN".to_owned(), run.name.clone()),
        ("LEDGER_STEP".to_owned(), id),
        ("LEDGER_STEP_NUMBER".to_owned(), number.to_string()),
        ("LEDGER_ATTEMPT".to_owned(), attempts.to_string()),
        ("LEDGER_TOKEN".to_owned(), token.to_string()),
    ]
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
