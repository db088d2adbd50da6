//! Probes: commands of the plan that find out whether a lost attempt took effect.
//!
//! A probe saves a person from answering that question. Its result resolves the step's
//! `outcome_unknown` status.
//!
//! Invariants: a loop probes each lost attempt at most once. If a probe gives no result, or is
//! stopped, the step stays `outcome_unknown` and waits for a person.

use std::collections::BTreeSet;

use plan_ledger::plan::ResolvedOutcome;
use plan_ledger::{AttemptToken, Command, Json, Ruling, Run, StepNumber};

use crate::protocol::StepName;
use crate::runner::check::{Check, CheckAnswer, Checked, Subject};
use crate::runner::drive::recover::status_of;
use crate::runner::drive::state::Drive;
use crate::runner::progress::Progress;

impl Drive<'_> {
    /// Queue the probes of steps that are `outcome_unknown`.
    pub(crate) fn queue_probes(&mut self) {
        let Some(state) = self.state() else { return };
        let Some(run) = state.runs.get(&self.run) else { return };
        for number in &run.outcome_unknown {
            if let Some((token, check)) = probe_of(run, *number, &self.probed) {
                if self.gate.leaves(run) {
                    self.note_left_command(run, Some(StepName::of(run, *number)));
                    continue;
                }
                self.probed.insert(token);
                self.queued.push_back((Some(StepName::of(run, *number)), check));
            }
        }
    }

    /// Record the result of a probe.
    pub(crate) fn handle_probe_result(&mut self, step: StepName, checked: Checked) {
        let Checked { ruling, mut evidence, .. } = checked;
        let mut finding = ruling.map(|ruling| match ruling {
            Ruling::Pass => ResolvedOutcome::Landed,
            Ruling::Fail => ResolvedOutcome::DidNotHappen,
        });
        if finding == Some(ResolvedOutcome::DidNotHappen) && !self.has_attempts_left(&step) {
            // Without this limit, a step would be retried forever if its attempts are lost
            // repeatedly.
            finding = None;
            evidence.push_str("; it did not happen, and no attempt is left: a person must decide");
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

    /// Whether the retry policy allows another attempt, with lost attempts counted.
    fn has_attempts_left(&mut self, step: &StepName) -> bool {
        let Some(state) = self.state() else { return false };
        let Some(run) = state.runs.get(&self.run) else { return false };
        let limit =
            run.plan().zip(run.plan_step(step.number)).map(|(plan, text)| plan.retry_of(text));
        let attempts = run.step(step.number).map_or(0, |step| step.attempts);
        limit.is_some_and(|retry| attempts < retry.max_attempts)
    }

    /// Record the result. Returns whether it was recorded.
    fn resolve(&mut self, step: &StepName, finding: ResolvedOutcome, evidence: &str) -> bool {
        let by = self.workers.kind().judge().to_owned();
        let evidence = format!("probe: {evidence}");
        let (run, step) = (self.run, step.number);
        match self.ledger.execute(&Command::ResolveOutcome { run, step, finding, by, evidence }) {
            Ok(_) => true,
            // Another actor resolved it in the meantime, or a new plan version removed the step.
            Err(error) if error.rejection().is_some() => false,
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }
}

/// The probe of an `outcome_unknown` step with the attempt to examine; `None` without a probe.
fn probe_of(
    run: &Run,
    number: StepNumber,
    probed: &BTreeSet<AttemptToken>,
) -> Option<(AttemptToken, Check)> {
    let attempt = run.step(number)?.attempt()?;
    if run.worker_reported_landed(number) {
        return None;
    }
    let step = run.plan_step(number)?;
    let command = step.probe().filter(|_| !probed.contains(&attempt.token))?;
    let mut environment = crate::runner::drive::checks::environment(run, number, attempt.token);
    environment
        .extend(run.idempotency_key(number).map(|key| ("LEDGER_IDEMPOTENCY_KEY".to_owned(), key)));
    let timeout = run.plan().and_then(|plan| plan.header().defaults.timeout_seconds);
    let check = Check {
        subject: Subject::Probe(attempt.token),
        criterion: 0,
        command: command.to_owned(),
        answer: CheckAnswer::Status,
        environment,
        output: Json::default(),
        timeout_seconds: step.timeout_seconds().or(timeout),
    };
    Some((attempt.token, check))
}
