//! An item that a run waits for.

use std::path::PathBuf;

use plan_ledger::plan::{
    BudgetPart, Decision, ExecutedPart, PauseCause, QuestionBody, QuestionSubject,
};
use plan_ledger::{ContentHash, QuestionId, ReplanTrigger, Run, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::words::StepName;

/// The person or process that an item waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor<'a> {
    /// A person: the named one, or any.
    Person(Option<&'a str>),
    /// A runner or a judge, which checks the reported work.
    Judge,
    /// A worker that this runner does not start.
    Worker,
    /// Other runs of the ledger, which use up a cap.
    OtherRuns,
    /// Nothing resolves it.
    Nothing,
}

/// An item that a run waits for. In JSON, a step is its `number` and its id, `step`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WaitingItem {
    /// Verdicts of a person on the text criteria of a step.
    Verdicts {
        /// The step.
        #[serde(flatten)]
        step: StepName,
        /// The text criteria without a verdict.
        criteria: Vec<String>,
    },
    /// The checks of a step, which a runner or a judge makes.
    Checks {
        /// The step.
        #[serde(flatten)]
        step: StepName,
        /// The command criteria without a verdict.
        criteria: Vec<String>,
    },
    /// The approval of the commands of the active version: without it, no judge checks anything.
    Commands {
        /// The active version.
        version: u32,
        /// The hash of its plan.
        #[serde(skip)]
        hash: ContentHash,
        /// The commands that it executes.
        commands: Vec<String>,
    },
    /// The approval of the commands of the active version, for the folder of the work of a step: a judge checks it
    /// nowhere else.
    Misplaced {
        /// The step.
        #[serde(flatten)]
        step: StepName,
        /// The folder of the approval.
        #[serde(rename = "approved_in")]
        approved: String,
        /// The folder of the claim.
        #[serde(rename = "claimed_in")]
        work: String,
        /// Why the work is not checked, for people.
        reason: String,
        /// The hash of the plan.
        #[serde(skip)]
        hash: ContentHash,
        /// The ledger, as it is named in that folder; `None` if the folder is gone.
        #[serde(skip)]
        ledger: Option<PathBuf>,
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
        #[serde(rename = "question")]
        id: QuestionId,
        /// The step that the question is about, if any.
        #[serde(flatten)]
        step: Option<StepName>,
        /// The text of the question, its reviewer and its deadline.
        asked: QuestionBody,
        /// The part of the budget that is exhausted, if the question is about that.
        #[serde(skip)]
        short: Option<BudgetPart>,
    },
    /// A review of a proposed plan version.
    Review {
        /// The proposed version.
        version: u32,
        /// The hash of its plan.
        hash: ContentHash,
    },
    /// A higher budget, or a decision to resume the run.
    Paused {
        /// Why it is paused.
        cause: PauseCause,
        /// The part of its budget that is used up, if that is not the cause: it is raised first.
        #[serde(skip)]
        used_up: Option<BudgetPart>,
    },
    /// A new version of the plan.
    Replan {
        /// The trigger of the request.
        trigger: ReplanTrigger,
        /// The first step to redo, if known.
        #[serde(flatten)]
        from: Option<StepName>,
        /// Whether that step has failed, so that it can be retried instead.
        #[serde(skip)]
        is_failed: bool,
        /// The limit of replans, if it is used up.
        #[serde(skip)]
        limit: Option<u32>,
        /// The reason, for people.
        reason: String,
        /// The plan file of the run.
        #[serde(skip)]
        file: String,
        /// The variables that would help: a precondition reads them, and no step sets them.
        #[serde(skip)]
        unset: Vec<String>,
    },
    /// A decision about a failure that the plan leaves to a person.
    Decision {
        /// The step.
        #[serde(flatten)]
        step: StepName,
        /// The reason why the attempt failed, in one line if it is known.
        message: String,
        /// The decisions that are possible.
        #[serde(skip)]
        decisions: Vec<Decision>,
    },
    /// The outcome of a lost attempt.
    OutcomeUnknown {
        /// The step.
        #[serde(flatten)]
        step: StepName,
    },
    /// A worker outside this runner, or the expiry of its lease.
    Held {
        /// The step.
        #[serde(flatten)]
        step: StepName,
        /// The worker.
        worker: String,
        /// When the lease expires, in microseconds since the Unix epoch.
        #[serde(rename = "lease_until_micros")]
        lease_until: Timestamp,
    },
    /// A step of a person.
    Person {
        /// The step.
        #[serde(flatten)]
        step: StepName,
        /// Its owner.
        owner: String,
    },
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

impl WaitingItem {
    /// The person or process that it waits for.
    #[must_use]
    pub fn waits_for(&self) -> WaitsFor<'_> {
        match self {
            Self::Checks { .. } | Self::PlanChecks { .. } => WaitsFor::Judge,
            Self::Held { .. } | Self::Routed { .. } => WaitsFor::Worker,
            Self::Caps { .. } => WaitsFor::OtherRuns,
            Self::Blocked { .. } => WaitsFor::Nothing,
            // The plan's own criteria are judged once all steps are settled.
            Self::PlanVerdicts { criteria } if criteria.is_empty() => WaitsFor::Nothing,
            Self::Question { asked, .. } => WaitsFor::Person(asked.to.as_deref()),
            Self::Person { owner, .. } => WaitsFor::Person(Some(owner)),
            Self::PlanVerdicts { .. }
            | Self::Verdicts { .. }
            | Self::Commands { .. }
            | Self::Misplaced { .. }
            | Self::Review { .. }
            | Self::Paused { .. }
            | Self::Replan { .. }
            | Self::Decision { .. }
            | Self::OutcomeUnknown { .. } => WaitsFor::Person(None),
        }
    }

    /// Whether a person resolves it.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        matches!(self.waits_for(), WaitsFor::Person(_))
    }

    /// The step that it is about.
    #[must_use]
    pub fn step(&self) -> Option<&StepName> {
        match self {
            Self::Verdicts { step, .. }
            | Self::Checks { step, .. }
            | Self::Misplaced { step, .. }
            | Self::Decision { step, .. }
            | Self::OutcomeUnknown { step }
            | Self::Held { step, .. }
            | Self::Person { step, .. } => Some(step),
            Self::Question { step, .. } | Self::Replan { from: step, .. } => step.as_ref(),
            Self::Commands { .. }
            | Self::PlanVerdicts { .. }
            | Self::PlanChecks { .. }
            | Self::Review { .. }
            | Self::Paused { .. }
            | Self::Routed { .. }
            | Self::Caps { .. }
            | Self::Blocked { .. } => None,
        }
    }

    /// The answers that a question about a failure takes; `None` for another item.
    #[must_use]
    pub fn answers_to_failure(&self) -> Option<&[String]> {
        match self {
            Self::Question { asked, .. }
                if matches!(asked.subject, QuestionSubject::Failure { .. }) =>
            {
                Some(&asked.options)
            }
            _ => None,
        }
    }

    /// Whether it is a question about a failure.
    #[must_use]
    pub fn is_of_failure(&self) -> bool {
        self.answers_to_failure().is_some()
    }

    /// Whether it is the question about an exhausted budget.
    #[must_use]
    pub fn is_about_budget(&self) -> bool {
        matches!(self, Self::Question { asked, .. } if asked.subject == QuestionSubject::Budget)
    }

    /// Its place among the items of a person: what stops the run, failures, versions of the plan, and then what is no
    /// problem.
    #[must_use]
    pub fn urgency(&self) -> u8 {
        match self {
            Self::Paused { .. } | Self::OutcomeUnknown { .. } => 0,
            Self::Question { asked, .. } => match asked.subject {
                QuestionSubject::Budget | QuestionSubject::Barrier { .. } => 0,
                QuestionSubject::Failure { .. } => 1,
                QuestionSubject::Plan { .. } => 2,
                QuestionSubject::Gate => 3,
            },
            Self::Decision { .. } => 1,
            Self::Commands { .. }
            | Self::Misplaced { .. }
            | Self::Review { .. }
            | Self::Replan { .. } => 2,
            _ => 3,
        }
    }

    /// When it resolves itself, if it does.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        match self {
            Self::Question { asked, .. } => asked.deadline,
            Self::Held { lease_until, .. } => Some(*lease_until),
            _ => None,
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
        let Some(version) = run.version(version) else {
            return Vec::new();
        };
        let mut found = version.plan.decode().executed();
        found.retain(|each| step.is_none_or(|step| each.step.as_deref() == Some(step)));
        found
    }
}
