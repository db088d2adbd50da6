//! What happens in a loop, for whoever watches it: people, programs, and those who end it.

use std::fmt;

use plan_ledger::plan::{AttemptToken, Micros, ResolvedOutcome, Ruling, StepNumber, StepStatus};

/// What somebody outside wants of a loop that runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Go on.
    #[default]
    None,
    /// Deal no more and wait for what runs.
    Drain,
    /// End the workers too.
    Kill,
}

/// Watches a loop: for people, for programs, and to end it.
pub trait Observer {
    /// Something happened. Everything but [`Progress::Started`] is durable by now.
    fn progress(&mut self, progress: &Progress);

    /// Asked between any two steps of the loop.
    fn stop_request(&mut self) -> StopRequest;
}

/// What a step is called: for messages.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepName {
    /// Its number.
    pub number: StepNumber,
    /// Its author's name for it.
    pub id: String,
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} ({})", self.number, self.id)
    }
}

/// What happens in a loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// An attempt is lost: of an earlier runner, or ended by a stop request.
    Lost {
        /// The step.
        step: StepName,
        /// The attempt's token.
        token: AttemptToken,
        /// Why, for people.
        detail: String,
        /// How the step stands now.
        status: StepStatus,
    },
    /// A step was dispatched.
    Dispatched {
        /// The step.
        step: StepName,
        /// Its title, or the first line of its goal.
        title: String,
        /// The attempt, from 1.
        attempt: u32,
        /// Its token.
        token: AttemptToken,
        /// Who has it.
        worker: String,
    },
    /// Its worker runs.
    Started {
        /// The step.
        step: StepName,
    },
    /// A worker's receipt was recorded.
    Receipt {
        /// The step.
        step: StepName,
        /// The attempt's token.
        token: AttemptToken,
        /// What it said, in a word: `succeeded`, `failed` or `replan_requested`.
        outcome: &'static str,
        /// Why it failed, for people; empty when it did not.
        message: String,
        /// How long it took.
        duration: Micros,
        /// How the step stands now.
        status: StepStatus,
    },
    /// A receipt came too late and was recorded as refused.
    Refused {
        /// The step.
        step: StepName,
        /// The attempt's token.
        token: AttemptToken,
        /// Why.
        reason: String,
    },
    /// A criterion was judged.
    Verdict {
        /// The step, or `None` for the plan as a whole.
        step: Option<StepName>,
        /// The criterion's 0-based place.
        criterion: u32,
        /// The judgement.
        ruling: Ruling,
        /// Who judged.
        by: String,
        /// On what grounds.
        evidence: String,
        /// How the step stands now.
        status: Option<StepStatus>,
    },
    /// A planner's plan was proposed.
    Proposed {
        /// Its version in the run.
        version: u32,
        /// Who made it.
        by: String,
        /// Whether it is active already; else somebody must say yes.
        is_active: bool,
    },
    /// Something was noticed.
    Noted {
        /// The step that it is about, if it is about one.
        step: Option<StepName>,
        /// What, for people.
        note: String,
    },
    /// A probe looked for what a lost attempt did.
    Probed {
        /// The step.
        step: StepName,
        /// What it found; `None` if it cannot tell.
        finding: Option<ResolvedOutcome>,
        /// On what grounds.
        evidence: String,
        /// How the step stands now.
        status: StepStatus,
    },
    /// There is nothing to do until something falls due.
    Waiting {
        /// When, in microseconds since the Unix epoch.
        until: Micros,
        /// What.
        reason: String,
    },
    /// Nothing more is dispatched; the loop waits for so many workers and checks.
    Draining {
        /// Why.
        reason: String,
        /// How many.
        running: usize,
    },
    /// How far the run is: after every change.
    Counted {
        /// Steps that are accepted or skipped.
        settled: u32,
        /// Steps of the active version.
        steps: u32,
    },
}
