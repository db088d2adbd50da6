//! Pending items: the items that a run waits for, derived from the state.
//!
//! Invariant: if an unfinished run has no work to dispatch, at least one item explains why, and the
//! item names everything needed to resolve it.

use std::collections::BTreeSet;

use plan_ledger::plan::{
    Attempt, CompactStep, ExecutedPart, PauseCause, QuestionBody, QuestionSubject, Route, is_person,
};
use plan_ledger::{
    AttemptToken, ContentHash, Outcome, QuestionId, ReplanTrigger, Ruling, Run, StepNumber,
    StepState, StepStatus, Timestamp,
};

use crate::protocol::{StepName, WorkElsewhere, is_unapproved};
use crate::runner::drive::criteria::{
    may_hold, open_plan_criteria, open_steps, texts_and_commands,
};
use crate::runner::helpers::approved_commands::commands_of_active;

/// An item that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pending {
    /// Verdicts of a person on the text criteria of a step.
    Verdicts {
        step: StepName,
        /// The text criteria without a verdict.
        criteria: Vec<String>,
    },
    /// The checks of a step, which a runner or a judge makes.
    Checks {
        step: StepName,
        /// The command criteria without a verdict.
        criteria: Vec<String>,
    },
    /// The approval of the commands of the active version: without it, no judge checks anything.
    Commands { version: u32, hash: ContentHash, commands: Vec<String> },
    /// The approval of the commands of the active version, for the folder of the work of a step: a judge checks it
    /// nowhere else.
    Misplaced {
        step: StepName,
        /// The folder in which the commands were approved.
        approved: String,
        /// The folder in which the step was claimed.
        work: String,
        /// Why the work is not checked, for people.
        reason: String,
        /// The hash of the plan.
        hash: ContentHash,
    },
    /// Verdicts of a person on the plan's own text criteria.
    PlanVerdicts {
        /// The text criteria without a verdict.
        criteria: Vec<String>,
    },
    /// The checks of the plan, which a runner or a judge makes.
    PlanChecks {
        /// The command criteria without a verdict.
        criteria: Vec<String>,
    },
    /// The answer to a question.
    Question {
        /// The number of the question.
        id: QuestionId,
        /// The step that the question is about, if any.
        step: Option<StepName>,
        /// The text of the question, its reviewer and its deadline.
        asked: QuestionBody,
    },
    /// A review of a proposed plan version.
    Review {
        /// The proposed version.
        version: u32,
        /// The hash of its plan.
        hash: ContentHash,
    },
    /// A higher budget, or a decision to resume the run.
    Paused { cause: PauseCause },
    /// A new version of the plan.
    Replan {
        /// The trigger of the request.
        trigger: ReplanTrigger,
        /// The first step to redo, if known.
        from: Option<StepName>,
        /// Whether that step has failed, so that it can be retried instead.
        is_failed: bool,
        /// The limit of replans, if it is used up.
        limit: Option<u32>,
        /// The reason, for people.
        reason: String,
        /// The plan file of the run.
        file: String,
        /// The variables that would help: a precondition reads them, and no step sets them.
        unset: Vec<String>,
    },
    /// A decision about a failure that the plan leaves to a person.
    Decision {
        step: StepName,
        /// The reason why the attempt failed, in one line if it is known.
        message: String,
    },
    /// The outcome of a lost attempt.
    OutcomeUnknown { step: StepName },
    /// A worker outside this runner, or the expiry of its lease.
    Held {
        step: StepName,
        worker: String,
        /// When the lease expires, in microseconds since the Unix epoch.
        lease_until: Timestamp,
    },
    /// A step of a person.
    Person { step: StepName, owner: String },
    /// Workers that take other steps than those of this runner.
    Routed {
        /// How many steps are ready for them.
        ready: u32,
        /// The owners of these steps.
        owners: Vec<String>,
    },
    /// A cap that other runs of the ledger use up while steps are ready.
    Caps {
        /// How many steps are ready.
        ready: u32,
    },
    /// Steps that can never become ready, such as those after a broken barrier.
    Blocked {
        /// How many steps.
        steps: u32,
    },
}

impl Pending {
    /// Whether a person resolves it.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        match self {
            Self::Checks { .. }
            | Self::PlanChecks { .. }
            | Self::Held { .. }
            | Self::Routed { .. }
            | Self::Caps { .. }
            | Self::Blocked { .. } => false,
            // The plan's own criteria are judged once all steps are settled.
            Self::PlanVerdicts { criteria } => !criteria.is_empty(),
            Self::Verdicts { .. }
            | Self::Commands { .. }
            | Self::Misplaced { .. }
            | Self::Question { .. }
            | Self::Review { .. }
            | Self::Paused { .. }
            | Self::Replan { .. }
            | Self::Person { .. }
            | Self::Decision { .. }
            | Self::OutcomeUnknown { .. } => true,
        }
    }

    /// The commands that the answer allows: those of a whole version of the plan, or of the step behind a gate.
    #[must_use]
    pub fn executes(&self, run: &Run) -> Vec<ExecutedPart> {
        let (version, step) = match self {
            Self::Review { version, .. } | Self::Commands { version, .. } => (*version, None),
            Self::Misplaced { .. } => (run.active, None),
            Self::Question { asked, step, .. } => match (&asked.subject, step) {
                (QuestionSubject::Plan { version }, _) => (*version, None),
                (QuestionSubject::Gate, Some(step)) => (run.active, Some(step.id.as_str())),
                _ => return Vec::new(),
            },
            _ => return Vec::new(),
        };
        let place = version.checked_sub(1).and_then(|place| usize::try_from(place).ok());
        let Some(version) = place.and_then(|place| run.versions.get(place)) else {
            return Vec::new();
        };
        let mut found = version.plan.decode().executed();
        found.retain(|each| step.is_none_or(|step| each.step.as_deref() == Some(step)));
        found
    }
}

/// Every item that a run waits for; includes work to dispatch, if there is any. The route is that of
/// the workers that are there.
#[must_use]
pub fn pending(run: &Run, route: &Route) -> Vec<Pending> {
    let mut pending: Vec<Pending> = questions(run).chain(reviews(run)).collect();
    pending.extend(run.pause.clone().map(|cause| Pending::Paused { cause }));
    // The version that waits for approval answers it.
    let request = run.request.as_ref().filter(|_| run.newest_proposal().is_none());
    pending.extend(request.map(|request| {
        Pending::Replan {
            trigger: request.trigger.clone(),
            from: request.from.map(|from| StepName::of(run, from)),
            is_failed: is_of_failure(&request.trigger)
                && request
                    .from
                    .and_then(|from| run.step(from))
                    .is_some_and(|step| step.status == StepStatus::Failed),
            limit: run.used_up_replans(),
            reason: reason_of_request(run, &request.reason.to_string()),
            file: plan_file(run),
            unset: unset(run, &request.trigger),
        }
    }));
    pending.extend(run.waiting_requests().map(|(number, from)| waiting_request(run, number, from)));
    let others = run.reported.iter().filter(|number| !run.waits_to_request(**number));
    pending.extend(others.flat_map(|number| reported(run, *number)));
    if pending.iter().any(|item| matches!(item, Pending::Checks { .. })) {
        pending.extend(unapproved(run));
    }
    for number in &run.outcome_unknown {
        pending.push(Pending::OutcomeUnknown { step: StepName::of(run, *number) });
    }
    pending.extend(held(run));
    if run.pause.is_none() && run.why_stopping().is_none() {
        pending.extend(elsewhere(run, route));
    }
    if !pending.is_empty() {
        return pending;
    }
    let open = open_steps(run);
    if open == 0 {
        return plan_criteria(run);
    }
    match u32::try_from(run.ready_count()).unwrap_or(u32::MAX) {
        0 => vec![Pending::Blocked { steps: open }],
        ready => vec![Pending::Caps { ready }],
    }
}

/// The ready steps that a runner with this route does not dispatch: those of people, and the number of
/// those of other workers.
fn elsewhere(run: &Run, route: &Route) -> Vec<Pending> {
    let (mut items, mut owners, mut ready) = (Vec::new(), BTreeSet::new(), 0);
    let hold = run.replan_hold();
    let is_held = |number: StepNumber| hold.as_ref().is_some_and(|hold| hold.holds(number));
    for ((owner, _), queue) in &run.lanes {
        let owner = owner.as_deref();
        let is_admitted = route.admits_owner(owner);
        let person = owner.filter(|owner| is_person(owner) && !is_admitted);
        for (_, number) in queue {
            if is_held(*number) {
                continue;
            }
            if let Some(owner) = person {
                let step = StepName::of(run, *number);
                items.push(Pending::Person { step, owner: owner.to_owned() });
            } else if !is_admitted
                || run.step(*number).is_some_and(|step| !route.admits_tags(step.tags()))
            {
                ready += 1;
                owners.extend(owner.map(str::to_owned));
            }
        }
    }
    if ready > 0 {
        items.push(Pending::Routed { ready, owners: owners.into_iter().collect() });
    }
    items
}

fn questions(run: &Run) -> impl Iterator<Item = Pending> {
    run.questions.iter().map(|(id, question)| Pending::Question {
        id: *id,
        step: question.step.map(|step| StepName::of(run, step)),
        asked: question.asked.clone(),
    })
}

/// Proposed versions that may still become active and that no open question covers.
fn reviews(run: &Run) -> impl Iterator<Item = Pending> {
    let asked = |version: u32| {
        let subject = QuestionSubject::Plan { version };
        run.questions.values().any(|question| question.asked.subject == subject)
    };
    let proposed = (1..).zip(&run.versions).filter(move |(number, version)| {
        version.review.is_none() && *number > run.active && !asked(*number)
    });
    proposed.map(|(version, proposed)| Pending::Review { version, hash: proposed.hash })
}

/// The pending items of the plan's own criteria, once its steps are settled.
fn plan_criteria(run: &Run) -> Vec<Pending> {
    let (texts, checks) = open_plan_criteria(run);
    let is_checked = !checks.is_empty();
    let commands = if is_checked { unapproved(run) } else { None };
    let texts = (!texts.is_empty() || !is_checked).then_some(texts);
    let verdicts = texts.map(|criteria| Pending::PlanVerdicts { criteria });
    let checks = is_checked.then_some(Pending::PlanChecks { criteria: checks });
    commands.into_iter().chain(verdicts).chain(checks).collect()
}

/// The pending items of a reported step: a person judges its text criteria, and a judge the others.
fn reported(run: &Run, number: StepNumber) -> Vec<Pending> {
    let step = StepName::of(run, number);
    let attempt = run.step(number).and_then(|step| step.attempt());
    match attempt.filter(|attempt| !may_hold(attempt)) {
        None => {
            let (texts, checks) = open_criteria(run, number);
            let is_checked = !checks.is_empty();
            let texts = (!texts.is_empty() || !is_checked).then_some(texts);
            let verdicts = texts.map(|criteria| Pending::Verdicts { step: step.clone(), criteria });
            let checks = is_checked.then_some(Pending::Checks { step, criteria: checks });
            verdicts.into_iter().chain(checks).collect()
        }
        Some(attempt) => vec![Pending::Decision { step, message: failure(attempt) }],
    }
}

/// The reported steps that no judge checks because of the folder of their work. Unlike the other items it depends
/// on the file system.
pub(crate) fn misplaced(run: &Run) -> Vec<Pending> {
    run.reported.iter().filter_map(|number| misplaced_step(run, *number)).collect()
}

/// The item for a reported step that no judge checks because of the folder of its work.
fn misplaced_step(run: &Run, number: StepNumber) -> Option<Pending> {
    run.step(number).filter(|step| step.status == StepStatus::Reported)?;
    let elsewhere = WorkElsewhere::of(run, number)?;
    let reason = elsewhere.problem()?;
    let WorkElsewhere { approved, work } = elsewhere;
    let (step, hash) = (StepName::of(run, number), run.active_version()?.hash);
    Some(Pending::Misplaced { step, approved, work, reason, hash })
}

/// The approval of the commands of the active version, if no person gave it.
fn unapproved(run: &Run) -> Option<Pending> {
    let commands = if is_unapproved(run) { commands_of_active(run) } else { Vec::new() };
    let hash = run.active_version()?.hash;
    (!commands.is_empty()).then_some(Pending::Commands { version: run.active, hash, commands })
}

/// Why a new version is needed, and why a person rejected the last one.
fn reason_of_request(run: &Run, reason: &str) -> String {
    rejected_text(run).map_or_else(|| reason.to_owned(), |rejected| format!("{reason}; {rejected}"))
}

/// The newest version that a person rejected, with the reason, if no later one is active.
pub(crate) fn rejected_text(run: &Run) -> Option<String> {
    let (version, note) = run.rejections().pop().filter(|(version, _)| *version > run.active)?;
    let note = if note.is_empty() { " without a reason".to_owned() } else { format!(": {note}") };
    Some(format!("version {version} of the plan was rejected{note}"))
}

/// Whether a request is withdrawn when its failed step is retried or skipped.
fn is_of_failure(trigger: &ReplanTrigger) -> bool {
    matches!(
        trigger,
        ReplanTrigger::AssumptionBroken { .. }
            | ReplanTrigger::RetriesExhausted { .. }
            | ReplanTrigger::Failure { .. }
    )
}

/// The variables that a request is about, if values for them would do.
fn unset(run: &Run, trigger: &ReplanTrigger) -> Vec<String> {
    match trigger {
        ReplanTrigger::PreconditionFalse { step, precondition } => {
            run.unset_by_steps(*step, *precondition)
        }
        _ => Vec::new(),
    }
}

/// The request of a worker that is recorded once the open one is resolved.
fn waiting_request(run: &Run, number: StepNumber, from: Option<StepNumber>) -> Pending {
    let attempt = run.step(number).and_then(|step| step.attempt());
    Pending::Replan {
        trigger: ReplanTrigger::ExecutorRequest {
            token: attempt.map_or(AttemptToken(0), |attempt| attempt.token),
        },
        from: Some(StepName::of(run, from.unwrap_or(number))),
        is_failed: false,
        limit: run.used_up_replans(),
        reason: attempt.map(failure).unwrap_or_default(),
        file: plan_file(run),
        unset: Vec::new(),
    }
}

/// The file of the newest version that came from a file, for command lines.
pub(crate) fn plan_file(run: &Run) -> String {
    let mut files = run.versions.iter().rev().filter_map(|version| {
        version.provenance.as_ref()?.file.as_ref().filter(|file| !file.is_empty())
    });
    files.next().map_or_else(|| "PLAN".to_owned(), Clone::clone)
}

/// The reason why an attempt failed.
fn failure(attempt: &Attempt) -> String {
    match attempt.receipt.as_ref().map(|receipt| &receipt.outcome) {
        Some(Outcome::Failed { message, .. }) => message.clone(),
        Some(Outcome::ReplanRequested { reason, .. }) => reason.clone(),
        Some(Outcome::Succeeded) | None => {
            let failed = attempt.verdicts.values().find(|each| each.ruling == Ruling::Fail);
            failed.map_or_else(String::new, |verdict| {
                format!("criterion {}: {}", u64::from(verdict.criterion) + 1, verdict.evidence)
            })
        }
    }
}

/// Attempts of workers outside the loop.
fn held(run: &Run) -> Vec<Pending> {
    let held = |(index, step): (usize, &StepState)| {
        let attempt = step.attempt()?;
        (step.status == StepStatus::Dispatched).then(|| Pending::Held {
            step: StepName {
                number: StepNumber(u32::try_from(index + 1).unwrap_or(u32::MAX)),
                id: step.id().to_owned(),
            },
            worker: attempt.worker.clone(),
            lease_until: attempt.lease_until,
        })
    };
    if run.in_flight == 0 {
        return Vec::new();
    }
    run.steps.iter().enumerate().filter_map(held).collect()
}

/// The criteria of a reported step that have no verdict yet: texts, and those that a runner checks.
fn open_criteria(run: &Run, number: StepNumber) -> (Vec<String>, Vec<String>) {
    let verdicts = run.step(number).and_then(|step| step.attempt()).map(|a| &a.verdicts);
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    let open = (0..)
        .zip(criteria)
        .filter(|(index, _)| verdicts.is_none_or(|verdicts| !verdicts.contains_key(index)))
        .map(|(_, criterion)| criterion);
    texts_and_commands(open)
}
