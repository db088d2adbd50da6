//! Probes: what a lost attempt did, found out by a command of the plan instead of a person.
//!
//! Invariants: each lost attempt is probed at most once by a loop. A probe that cannot tell, or
//! was ended, leaves the step in doubt, and somebody must say.

use std::collections::BTreeSet;

use plan_ledger::plan::{
    AttemptToken, Command, Json, ResolvedOutcome, Ruling, Run, StepNumber, worker_reported_landed,
};

use crate::runner::check::{Answer, Check, Checked, Subject};
use crate::runner::drive::recover::status_of;
use crate::runner::drive::state::Drive;
use crate::runner::progress::{Progress, StepName};

impl Drive<'_> {
    /// Queue the probes of steps that have come into doubt.
    pub(crate) fn queue_probes(&mut self) {
        let Some(state) = self.state() else { return };
        let Some(run) = state.runs.get(&self.run) else { return };
        for number in &run.outcome_unknown {
            if let Some((token, check)) = probe_of(run, *number, &self.probed) {
                self.probed.insert(token);
                self.queued.push_back((Some(StepName::of(run, *number)), check));
            }
        }
    }

    /// Record what a probe found.
    pub(crate) fn take_finding(&mut self, step: StepName, checked: Checked) {
        let Checked { ruling, mut evidence, .. } = checked;
        let mut finding = ruling.map(|ruling| match ruling {
            Ruling::Pass => ResolvedOutcome::Landed,
            Ruling::Fail => ResolvedOutcome::DidNotHappen,
        });
        if finding == Some(ResolvedOutcome::DidNotHappen) && !self.has_attempts_left(&step) {
            // Nobody else ends what is begun, ended and found not to have happened over and over.
            finding = None;
            evidence.push_str("; it did not happen, and no attempt is left: a person must say");
        }
        if let Some(finding) = finding
            && !self.resolve(&step, finding, &evidence)
        {
            return;
        }
        let Some(state) = self.state() else { return };
        let status = status_of(&state, self.run, step.number);
        self.observer.progress(&Progress::Probed { step, finding, evidence, status });
        self.count();
    }

    /// Whether another attempt at a step is within its retry policy, lost ones counted.
    fn has_attempts_left(&mut self, step: &StepName) -> bool {
        let Some(state) = self.state() else { return false };
        let Some(run) = state.runs.get(&self.run) else { return false };
        let limit =
            run.plan().zip(run.plan_step(step.number)).map(|(plan, text)| plan.retry_of(text));
        let dealt = run.step(step.number).map_or(0, |step| step.attempts);
        limit.is_some_and(|retry| dealt < retry.max_attempts)
    }

    /// Whether the finding is recorded.
    fn resolve(&mut self, step: &StepName, finding: ResolvedOutcome, evidence: &str) -> bool {
        let by = self.workers.kind().judge().to_owned();
        let evidence = format!("probe: {evidence}");
        let (run, step) = (self.run, step.number);
        match self.ledger.execute(&Command::ResolveDoubt { run, step, finding, by, evidence }) {
            Ok(_) => true,
            // Somebody said it in the meantime, or a new plan took the step away.
            Err(error) if error.rejection().is_some() => false,
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }
}

/// The probe of a step in doubt, and the attempt that it is about; `None` if it can tell nothing new.
fn probe_of(
    run: &Run,
    number: StepNumber,
    probed: &BTreeSet<AttemptToken>,
) -> Option<(AttemptToken, Check)> {
    let attempt = run.step(number)?.attempt()?;
    if worker_reported_landed(run, number) {
        return None;
    }
    let step = run.plan_step(number)?;
    let command = step.probe().filter(|_| !probed.contains(&attempt.token))?;
    let mut environment = crate::runner::drive::checks::environment(run, number, attempt.token);
    environment
        .extend(run.idempotency_key(number).map(|key| ("LEDGER_IDEMPOTENCY_KEY".to_owned(), key)));
    let timeout = run.plan().and_then(|plan| plan.header().defaults.timeout_seconds);
    let check = Check {
        subject: Subject::Doubt(attempt.token),
        criterion: 0,
        command: command.to_owned(),
        answer: Answer::Status,
        environment,
        output: Json::default(),
        timeout_seconds: step.timeout_seconds().or(timeout),
    };
    Some((attempt.token, check))
}
