//! An item that moves a run forward.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::Timestamp;

use crate::runner::RunnerWait;
use crate::waiting::WaitingItem;
use crate::words::StepName;

/// For whom an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NextGroup {
    /// Only a person can do it.
    Person,
    /// A runner, a worker or a judge does it, or an operator starts one.
    Next,
    /// It passes by itself.
    Wait,
}

/// An item that moves a run forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextItem {
    /// The run waits for it.
    Waiting(WaitingItem),
    /// One answer to several questions about failures, which follow one by one.
    AnswerAll {
        /// How many questions.
        questions: u32,
        /// The answers that all of them take.
        answers: Vec<String>,
    },
    /// Start a runner: the last one is gone, or may be, and left steps in flight.
    Abandoned {
        /// How many steps.
        steps: u32,
        /// The process of the runner, if this place does not show whether it has ended.
        unseen: Option<u32>,
    },
    /// Start a runner: its planner makes the new version of the plan.
    Planner {
        /// That no runner is at work.
        absence: String,
    },
    /// Start a runner: without one, nothing that people decide is done.
    Runner {
        /// That no runner is at work.
        absence: String,
    },
    /// A runner or a worker takes over the claim of a process that is gone.
    TakeOver {
        /// The step.
        step: StepName,
        /// Its worker.
        worker: String,
        /// When it was claimed.
        since: Timestamp,
        /// The process.
        process: u32,
    },
    /// A step is dispatched.
    Dispatch {
        /// The step.
        step: StepName,
        /// How many other steps are ready.
        more: u32,
    },
    /// Steps are ready, and none may be dispatched.
    Capped {
        /// How many.
        ready: u32,
        /// Why.
        reason: String,
    },
    /// No step is dispatched any more.
    Stopping {
        /// Why.
        reason: String,
    },
    /// The runner waits.
    Limit {
        /// What it waits for.
        wait: RunnerWait,
        /// How many ready steps wait.
        ready: u32,
    },
    /// A step is delayed before its next attempt.
    Delayed {
        /// The step whose delay ends first.
        step: StepName,
        /// When it ends.
        until: Timestamp,
        /// How many other steps are delayed.
        more: u32,
        /// That no runner is at work, which would try the step again.
        absence: Option<String>,
    },
    /// Attempts are in flight.
    InFlight {
        /// How many.
        attempts: u32,
    },
    /// A step failed permanently and blocks its dependents.
    Failed {
        /// The step.
        step: StepName,
        /// Whether the run has ended, so that nothing can be decided.
        is_over: bool,
    },
    /// Several steps failed permanently and block their dependents.
    FailedSteps {
        /// The first of them.
        steps: Vec<StepName>,
        /// How many more.
        more: u32,
    },
    /// The run failed.
    RunFailed {
        /// The first of its failed steps; none if its own criteria failed.
        steps: Vec<StepName>,
        /// How many more steps failed.
        more: u32,
        /// Whether an assumption of the plan is broken, and it allows no other plan.
        lacks_replans: bool,
    },
    /// Another version of the plan is needed.
    Proposal {
        /// Why.
        reason: String,
        /// The plan file of the run.
        file: String,
        /// Whether the run failed.
        is_failed: bool,
    },
    /// Records are missing, so it is unknown what comes next.
    Damaged,
    /// The records are an archive, which is only read.
    Archived,
    /// The run is over.
    Over,
    /// Nothing moves the run by itself.
    Stuck {
        /// The first open step, which explains why.
        step: Option<StepName>,
    },
}

impl NextItem {
    /// The word for what is to be done, as `action` in JSON.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Waiting(item) => word_of(item),
            Self::AnswerAll { .. } => "answer_all",
            Self::Abandoned { .. }
            | Self::Planner { .. }
            | Self::Runner { .. }
            | Self::Delayed { absence: Some(_), .. } => "resume",
            Self::Damaged => "verify",
            Self::TakeOver { .. } => "take_over",
            Self::Dispatch { .. } => "dispatch",
            Self::Capped { .. } => "capped",
            Self::Stopping { .. } => "stop",
            Self::Limit { .. } | Self::Delayed { .. } | Self::InFlight { .. } => "wait",
            Self::Failed { is_over: false, .. }
            | Self::FailedSteps { .. }
            | Self::RunFailed { .. } => "retry",
            Self::Proposal { is_failed: true, .. } => "replan",
            Self::Proposal { .. } => "propose",
            Self::Failed { .. } | Self::Archived | Self::Over | Self::Stuck { .. } => "none",
        }
    }

    /// The addressee.
    #[must_use]
    pub fn group(&self) -> NextGroup {
        match self {
            Self::Waiting(WaitingItem::Checks { .. } | WaitingItem::PlanChecks { .. })
            | Self::Abandoned { .. }
            | Self::Planner { .. }
            | Self::Runner { .. }
            | Self::Delayed { absence: Some(_), .. }
            | Self::TakeOver { .. }
            | Self::Dispatch { .. }
            | Self::Capped { .. }
            | Self::Stopping { .. }
            | Self::Failed { is_over: true, .. }
            | Self::Damaged
            | Self::Archived
            | Self::Over
            | Self::Stuck { .. } => NextGroup::Next,
            Self::Limit { .. } | Self::Delayed { .. } | Self::InFlight { .. } => NextGroup::Wait,
            Self::Waiting(_)
            | Self::AnswerAll { .. }
            | Self::Failed { .. }
            | Self::FailedSteps { .. }
            | Self::RunFailed { .. }
            | Self::Proposal { .. } => NextGroup::Person,
        }
    }

    /// Whether the action can be taken now.
    #[must_use]
    pub fn is_possible_now(&self) -> bool {
        !matches!(self.word(), "wait" | "none" | "capped" | "stop")
    }

    /// Whether a person decides among its commands, so that a script must not take the first one.
    #[must_use]
    pub fn is_decision(&self) -> bool {
        let word = self.word();
        let decisions = [
            "question",
            "person",
            "answer",
            "answer_all",
            "decide",
            "accept",
            "accept_plan",
            "replan",
        ];
        decisions.contains(&word)
    }

    /// What the run waits for; `None` for another item.
    #[must_use]
    pub fn waiting(&self) -> Option<&WaitingItem> {
        match self {
            Self::Waiting(item) => Some(item),
            _ => None,
        }
    }

    /// Whether the run waits for a person to do it.
    #[must_use]
    pub fn is_item_of_person(&self) -> bool {
        self.waiting().is_some_and(WaitingItem::needs_person)
    }

    /// Its place among the items of a person.
    #[must_use]
    pub(super) fn urgency(&self) -> u8 {
        match self {
            Self::Waiting(item) => item.urgency(),
            Self::Proposal { .. } => 2,
            _ => 1,
        }
    }

    /// The step that it is about.
    #[must_use]
    pub fn step(&self) -> Option<&StepName> {
        match self {
            Self::Waiting(item) => item.step(),
            Self::TakeOver { step, .. }
            | Self::Dispatch { step, .. }
            | Self::Failed { step, .. } => Some(step),
            Self::FailedSteps { steps, .. } | Self::RunFailed { steps, .. } => steps.first(),
            Self::Stuck { step } => step.as_ref(),
            _ => None,
        }
    }
}

fn word_of(item: &WaitingItem) -> &'static str {
    match item {
        WaitingItem::Question { .. } => "question",
        WaitingItem::Review { .. }
        | WaitingItem::Commands { .. }
        | WaitingItem::Misplaced { .. } => "review",
        WaitingItem::Paused { .. } => "unpause",
        WaitingItem::Replan { .. } => "replan",
        WaitingItem::Person { .. } => "person",
        WaitingItem::Decision { .. } => "decide",
        WaitingItem::Verdicts { .. } => "accept",
        WaitingItem::PlanVerdicts { .. } => "accept_plan",
        WaitingItem::Checks { .. } | WaitingItem::PlanChecks { .. } => "judge",
        WaitingItem::OutcomeUnknown { .. } => "answer",
        WaitingItem::Held { .. } | WaitingItem::Routed { .. } => "wait",
        WaitingItem::Caps { .. } => "capped",
        WaitingItem::Blocked { .. } => "none",
    }
}
