//! Checks: select the criterion to judge next, and record its result.
//!
//! Commands run as processes. Text criteria go to the judge if one is configured; a text criterion
//! without a usable verdict waits for a person. The ledger evaluates CEL criteria itself.

use std::collections::{BTreeMap, BTreeSet};

use plan_ledger::plan::{Attempt, Criterion, HelperRole, PauseCause};
use plan_ledger::{
    AttemptToken, Command, Json, Output, Result, Ruling, Run, RunStatus, StepNumber, StepStatus,
    Verdict,
};

use crate::protocol::{StepName, WorkerKind};
use crate::runner::check::{Check, CheckAnswer, Checked, Criteria, Subject};
use crate::runner::check_lock::CheckLock;
use crate::runner::drive::state::{Checking, Drive};
use crate::runner::helpers::commands::{
    CHECK_TIMEOUT_SECONDS, FailureDecider, Helpers, Judge, Planner, TIMEOUT_SECONDS,
};
use crate::runner::helpers::judge;
use crate::runner::progress::{Progress, StopRequest};
use plan_ledger_views::{may_hold, open_steps};

/// Whether a queued check can start.
enum Due {
    /// It can start. The lock is present if other processes might run the same check.
    Now(Check, Option<CheckLock>),
    /// Another process is checking these criteria.
    Later(Check),
    /// Every criterion has a verdict.
    Not,
}

impl Drive<'_> {
    /// Start queued checks up to the cap, except those that another process is running.
    pub(crate) fn start_checks(&mut self) -> Result<()> {
        let mut later = Vec::new();
        while self.has_room()
            && let Some((step, check)) = self.queued.pop_front()
        {
            let (check, lock) = match self.lock_check(step.as_ref(), check)? {
                Due::Now(check, lock) => (check, lock),
                Due::Later(check) => {
                    if self.locked_checks.insert(check.subject) {
                        let what = "another process is checking it; waiting for its result";
                        self.note(step.clone(), what.to_owned());
                    }
                    later.push((step, check));
                    continue;
                }
                Due::Not => continue,
            };
            if let Some(left) = lock.as_ref().and_then(CheckLock::left) {
                self.note(step.clone(), left.to_owned());
            }
            if !self.may_ask(&check)? {
                continue;
            }
            let Some(check) = self.with_output(step.as_ref(), check)? else { continue };
            self.workers.check(&check)?;
            self.checking.insert(check.subject, Checking { step, answer: check.answer, lock });
        }
        self.queued.extend(later);
        Ok(())
    }

    /// Whether a check may start: a planner, judge or decider costs money, and does not start when the budget is used
    /// up. The run is then paused, and asks a person. When it continues, open checks are queued again.
    fn may_ask(&mut self, check: &Check) -> Result<bool> {
        let is_free = match check.subject {
            // A person wants another plan although the budget is used up: it may end the pause.
            Subject::Replan(_) => self.pause_cause().is_some(),
            _ => check.answer == CheckAnswer::Status,
        };
        if is_free {
            return Ok(true);
        }
        match self.ledger.execute(&Command::CheckBudget { run: self.run }) {
            Ok(_) if !self.pause_cause().is_some_and(|cause| cause.is_of_cost()) => {
                return Ok(true);
            }
            Err(error) if error.rejection().is_none() => return Err(error),
            _ => {}
        }
        match check.subject {
            Subject::Replan(_) => {
                (self.planning.asked, self.planning.watch) = (None, None);
            }
            Subject::Decision(token) => _ = self.decided.remove(&token),
            Subject::Attempt(_) | Subject::Probe(_) | Subject::Plan(_) => {}
        }
        self.count();
        Ok(false)
    }

    /// Why the run is paused, if it is.
    fn pause_cause(&mut self) -> Option<PauseCause> {
        self.state()?.runs.get(&self.run)?.pause.clone()
    }

    /// Take the check lock, then read the state again: the previous lock holder may have judged.
    fn lock_check(&self, step: Option<&StepName>, check: Check) -> Result<Due> {
        let criteria = match (check.subject, step) {
            (Subject::Attempt(_), Some(step)) => Criteria::OfStep(step.number),
            (Subject::Plan(_), _) => Criteria::OfPlan,
            (Subject::Probe(_), _) if self.leaves_commands()? => return Ok(Due::Not),
            // Only the runner starts probes and planners, so they need no lock.
            _ => return Ok(Due::Now(check, None)),
        };
        let Some(folder) = self.workers.shared_folder() else {
            return Ok(Due::Now(check, None));
        };
        let Some(lock) = CheckLock::take(folder, self.run, criteria)? else {
            return Ok(Due::Later(check));
        };
        let state = self.ledger.state()?;
        let check = state.runs.get(&self.run).and_then(|run| match criteria {
            Criteria::OfStep(number) => self.next_check_of_step(run, number),
            Criteria::OfPlan => self.next_check_of_plan(run),
        });
        Ok(check.map_or(Due::Not, |check| Due::Now(check, Some(lock))))
    }

    fn leaves_commands(&self) -> Result<bool> {
        let state = self.ledger.state()?;
        Ok(state.runs.get(&self.run).is_some_and(|run| self.gate.leaves(run)))
    }

    /// Report once for a version that its commands are not run here, if one of these criteria is a due command.
    fn note_left_criteria(&mut self, run: &Run, criteria: Criteria) {
        if !self.gate.leaves(run) {
            return;
        }
        let (step, check) = match criteria {
            Criteria::OfStep(number) => {
                (Some(StepName::of(run, number)), Judging::default().of_step(run, number))
            }
            Criteria::OfPlan => (None, Judging::default().of_plan(run)),
        };
        if check.is_some() {
            self.note_left_command(run, step);
        }
    }

    /// Report once for a version that its commands are not run here.
    pub(crate) fn note_left_command(&mut self, run: &Run, step: Option<StepName>) {
        let Some(folder) = self.workers.shared_folder() else { return };
        if let Some(text) = self.gate.tell(run, folder) {
            self.note(step, text);
        }
    }

    pub(crate) fn take_verdict(&mut self, checked: Checked) {
        let Some(Checking { step, answer, lock: _lock }) = self.checking.remove(&checked.subject)
        else {
            return;
        };
        self.charge(answer, &checked);
        if let (Subject::Probe(_), Some(step)) = (checked.subject, step.clone()) {
            return self.handle_probe_result(step, checked);
        }
        let Checked { subject, criterion, ruling, evidence, .. } = checked;
        if let Subject::Replan(_) = subject {
            return self.handle_planner_reply(ruling, &evidence);
        }
        if let (Subject::Decision(token), Some(step)) = (subject, step.clone()) {
            return self.handle_decider_reply(step, token, (ruling, &evidence));
        }
        let by = match (&self.helpers.judge, answer) {
            (Some(judge), CheckAnswer::Verdict) => judge.name(),
            _ => self.workers.kind().judge().to_owned(),
        };
        let Some(ruling) = ruling else {
            return self.without_verdict((subject, criterion), step.as_ref(), &by, &evidence);
        };
        let verdict =
            Verdict { criterion, ruling, by: by.clone(), evidence: evidence.as_str().into() };
        let judged = match subject {
            Subject::Attempt(token) | Subject::Probe(token) | Subject::Decision(token) => {
                self.ledger.judge(token, vec![verdict]).map(Some)
            }
            Subject::Plan(run) | Subject::Replan(run) => {
                let command = Command::JudgePlan { run, verdicts: vec![verdict] };
                self.ledger.execute(&command).map(|_| None)
            }
        };
        match judged {
            Ok(status) => {
                if let (Some(step), Some(StepStatus::Reported)) = (&step, status) {
                    self.queue_check_of_step(step);
                }
                let progress = Progress::Verdict { step, criterion, ruling, by, evidence, status };
                self.observer.progress(&progress);
                self.count();
            }
            // The step was removed, the run has ended, or another process judged the criterion.
            Err(error) if error.rejection().is_some() => {}
            // The command runs again when the run is resumed.
            Err(error) => self.fail(error),
        }
    }

    /// Record the end of a planner, or of a judge that reported its cost.
    fn charge(&mut self, answer: CheckAnswer, checked: &Checked) {
        let Helpers { planner, judge, decider } = &self.helpers;
        let has_cost = checked.cost.is_some();
        let (role, by) = match (checked.subject, answer) {
            (Subject::Replan(_), _) => (HelperRole::Planner, planner.as_ref().map(Planner::name)),
            (Subject::Decision(_), _) if has_cost => {
                (HelperRole::Decider, decider.as_ref().map(FailureDecider::name))
            }
            (_, CheckAnswer::Verdict) if has_cost => {
                (HelperRole::Judge, judge.as_ref().map(Judge::name))
            }
            _ => return,
        };
        let Some(by) = by else { return };
        let (run, cost, duration) = (self.run, checked.cost.unwrap_or_default(), checked.duration);
        match self.ledger.execute(&Command::ReportHelper { run, role, by, cost, duration }) {
            // The run has ended.
            Err(error) if error.rejection().is_none() => self.fail(error),
            _ => {}
        }
    }

    /// The judge returned no usable verdict: the criterion waits for a person.
    fn without_verdict(
        &mut self,
        criterion: (Subject, u32),
        step: Option<&StepName>,
        by: &str,
        evidence: &str,
    ) {
        if self.stop == StopRequest::Kill {
            return;
        }
        self.unjudged.insert(criterion);
        let place = u64::from(criterion.1) + 1;
        let note = format!("{by} gave no verdict on criterion {place}: {}", first_line(evidence));
        self.note(step.cloned(), note);
        if let Some(step) = step {
            self.queue_check_of_step(step);
        }
    }

    /// A check with its input: the output to judge, or the question for the judge. Blobs are read
    /// only here, which bounds memory use. `None` if the output is missing: the criterion then
    /// fails.
    pub(crate) fn with_output(
        &mut self,
        step: Option<&StepName>,
        check: Check,
    ) -> Result<Option<Check>> {
        let state = self.ledger.state()?;
        let held = match check.subject {
            Subject::Attempt(token) => state.dispatched.get(&token).and_then(|(run, step, _)| {
                let attempt = state.runs.get(run)?.step(*step)?.attempt()?;
                output_of(attempt).filter(|_| attempt.token == token)
            }),
            Subject::Probe(_) | Subject::Plan(_) | Subject::Replan(_) | Subject::Decision(_) => {
                None
            }
        };
        let check = match held {
            Some(output @ Output::Blob(_)) => match self.ledger.output(output) {
                Ok(output) => Check { output, ..check },
                Err(error) if error.is_corrupt() => {
                    let Check { subject, criterion, .. } = check;
                    // The runner found the output missing, so the verdict names the runner.
                    let answer = CheckAnswer::Status;
                    let checking = Checking { step: step.cloned(), answer, lock: None };
                    self.checking.insert(subject, checking);
                    let (ruling, evidence) = (Some(Ruling::Fail), error.to_string());
                    self.take_verdict(Checked::free(subject, criterion, ruling, evidence));
                    return Ok(None);
                }
                Err(error) => return Err(error),
            },
            _ => check,
        };
        Ok(match check.answer {
            CheckAnswer::Status | CheckAnswer::Reply => Some(check),
            CheckAnswer::Verdict => {
                judge::question(&state, &check).map(|output| Check { output, ..check })
            }
        })
    }

    pub(crate) fn queue_checks_of_reported(&mut self) {
        let Some(state) = self.state() else { return };
        let Some(run) = state.runs.get(&self.run) else { return };
        for number in &run.reported {
            self.queue_check_of_step(&StepName::of(run, *number));
        }
    }

    /// Queue the next check of a step, unless it is already queued or running.
    pub(crate) fn queue_check_of_step(&mut self, step: &StepName) {
        let Some(state) = self.state() else { return };
        let Some(run) = state.runs.get(&self.run) else { return };
        self.note_left_criteria(run, Criteria::OfStep(step.number));
        let check = self.next_check_of_step(run, step.number);
        let is_known = |subject: Subject| {
            let mut queued = self.queued.iter().map(|(_, check)| check.subject);
            self.checking.contains_key(&subject) || queued.any(|each| each == subject)
        };
        let check = check.filter(|check| !is_known(check.subject));
        self.queued.extend(check.map(|check| (Some(step.clone()), check)));
    }

    /// Queue the next check of the plan's own criteria once every step is settled. Returns whether
    /// one was queued.
    pub(crate) fn queue_plan_check(&mut self) -> bool {
        if !self.may_start() {
            return false;
        }
        let Some(state) = self.state() else { return false };
        let Some(run) = state.runs.get(&self.run) else { return false };
        self.note_left_criteria(run, Criteria::OfPlan);
        let check = self.next_check_of_plan(run);
        // The judge is not started until the budget is raised.
        let is_used_up = self.pause_cause().is_some_and(|cause| cause.is_of_cost());
        let check = check.filter(|check| check.answer != CheckAnswer::Verdict || !is_used_up);
        let found = check.is_some();
        self.queued.extend(check.map(|check| (None, check)));
        found
    }

    fn next_check_of_step(&self, run: &Run, number: StepNumber) -> Option<Check> {
        self.judging(run).of_step(run, number)
    }

    fn next_check_of_plan(&self, run: &Run) -> Option<Check> {
        self.judging(run).of_plan(run)
    }

    fn judging(&self, run: &Run) -> Judging<'_> {
        Judging {
            leaves_commands: self.gate.leaves(run),
            judge: self.helpers.judge.as_ref(),
            unjudged: Some(&self.unjudged),
            is_drill: self.workers.kind() == WorkerKind::Stub,
        }
    }
}

/// The criteria that this runner can judge: commands, and text criteria if it has a judge.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Judging<'a> {
    /// Whether commands are left to another process.
    leaves_commands: bool,
    judge: Option<&'a Judge>,
    /// Criteria for which the judge returned no verdict.
    unjudged: Option<&'a BTreeSet<(Subject, u32)>>,
    /// Whether stub workers do the steps: then the texts of the plan also pass, and stub workers do not check the
    /// reports of others.
    is_drill: bool,
}

impl Judging<'_> {
    /// The first criterion of a reported step that has no verdict and that this runner can judge.
    pub(crate) fn of_step(self, run: &Run, number: StepNumber) -> Option<Check> {
        let state = run.step(number).filter(|step| step.status == StepStatus::Reported)?;
        let attempt = state.attempt().filter(|attempt| may_hold(attempt))?;
        let is_of_stub = WorkerKind::Stub.has_hosted(&attempt.worker);
        if self.is_drill && !is_of_stub && !plan_ledger::mutant!(StubJudgesOthers) {
            return None;
        }
        let version = run.active_version()?;
        let step = run.plan_step(number)?;
        let subject = Subject::Attempt(attempt.token);
        let (criterion, command, answer) =
            self.first_open(subject, &step.acceptance(), &attempt.verdicts)?;
        Some(Check {
            subject,
            criterion,
            command,
            answer,
            environment: environment(run, number, attempt.token),
            output: output_of(attempt).and_then(Output::inline).cloned().unwrap_or_default(),
            timeout_seconds: timeout(
                answer,
                step.timeout_seconds().or(version.plan.header().defaults.timeout_seconds),
            ),
        })
    }

    /// The first criterion of the plan that has no verdict and that this runner can judge, once
    /// every step is settled.
    pub(crate) fn of_plan(self, run: &Run) -> Option<Check> {
        let all_settled = open_steps(run) == 0 && run.count(StepStatus::Failed) == 0;
        if run.status != RunStatus::Running || !all_settled {
            return None;
        }
        let plan = &run.active_version()?.plan;
        let subject = Subject::Plan(run.id);
        let criteria = &plan.header().test_criteria;
        let found = self.first_open(subject, criteria, &run.plan_verdicts);
        let (criterion, command, answer) =
            found.or_else(|| self.text_in_drill(criteria, &run.plan_verdicts))?;
        Some(Check {
            subject,
            criterion,
            command,
            answer,
            environment: vec![("LEDGER_RUN".to_owned(), run.name.clone())],
            output: Json::default(),
            timeout_seconds: timeout(answer, plan.header().defaults.timeout_seconds),
        })
    }

    /// In a drill: the first open text criterion of the plan, which the stub passes.
    fn text_in_drill(
        self,
        criteria: &[Criterion],
        verdicts: &BTreeMap<u32, Verdict>,
    ) -> Option<(u32, String, CheckAnswer)> {
        let is_open = |(index, criterion): &(u32, &Criterion)| {
            self.is_drill
                && matches!(criterion, Criterion::Text(_))
                && !verdicts.contains_key(index)
        };
        let (index, criterion) = (0..).zip(criteria).find(is_open)?;
        Some((index, criterion.body().to_owned(), CheckAnswer::Status))
    }

    /// Commands come first: they are cheap, and if one fails, the judge need not run.
    fn first_open(
        self,
        subject: Subject,
        criteria: &[Criterion],
        verdicts: &BTreeMap<u32, Verdict>,
    ) -> Option<(u32, String, CheckAnswer)> {
        let open = || (0..).zip(criteria).filter(|(index, _)| !verdicts.contains_key(index));
        let mut commands = open().filter(|_| !self.leaves_commands);
        let command = commands.find_map(|(index, criterion)| match criterion {
            Criterion::Command(command) => Some((index, command.clone(), CheckAnswer::Status)),
            Criterion::Text(_) | Criterion::Cel(_) => None,
        });
        command.or_else(|| {
            let judge = self.judge?;
            let is_left =
                |index| self.unjudged.is_some_and(|left| left.contains(&(subject, index)));
            let is_for_judge = |(index, criterion): &(u32, &Criterion)| {
                matches!(criterion, Criterion::Text(_)) && !is_left(*index)
            };
            let (index, _) = open().find(is_for_judge)?;
            Some((index, judge.command.clone(), CheckAnswer::Verdict))
        })
    }
}

pub(crate) fn output_of(attempt: &Attempt) -> Option<&Output> {
    attempt.receipt.as_ref().map(|receipt| &receipt.output)
}

/// The environment variables that identify an attempt to a command.
pub(crate) fn environment(
    run: &Run,
    number: StepNumber,
    token: AttemptToken,
) -> Vec<(String, String)> {
    let step = run.step(number);
    let id = step.map_or_else(String::new, |step| step.id().to_owned());
    let attempts = step.map_or(0, |step| step.attempts);
    vec![
        ("LEDGER_RUN".to_owned(), run.name.clone()),
        ("LEDGER_STEP".to_owned(), id),
        ("LEDGER_STEP_NUMBER".to_owned(), number.to_string()),
        ("LEDGER_ATTEMPT".to_owned(), attempts.to_string()),
        ("LEDGER_TOKEN".to_owned(), token.to_string()),
    ]
}

/// The time limit of a check in seconds: that of the step, or of the plan, or the default one.
fn timeout(answer: CheckAnswer, planned: Option<u32>) -> Option<u32> {
    planned.or(Some(match answer {
        CheckAnswer::Verdict | CheckAnswer::Reply => TIMEOUT_SECONDS,
        CheckAnswer::Status => CHECK_TIMEOUT_SECONDS,
    }))
}

/// The first line that is not blank.
pub(crate) fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}
