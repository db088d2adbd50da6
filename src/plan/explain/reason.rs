//! What may keep a step from being dealt, as data.
//!
//! The invariants are those of [`crate::plan::Explanation`].

use std::collections::BTreeSet;

use crate::plan::event::question::{QuestionId, Subject};
use crate::plan::event::run_event::{CapScope, Ending, PauseCause};
use crate::plan::event::step_event::Ruling;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::BudgetPart;
use crate::plan::model::step::FailureClass;
use crate::plan::state::barrier_state::BarrierStatus;
use crate::plan::value::ids::{AttemptToken, ContentHash, Micros, RunId, StepNumber};

/// Something that keeps a step from being dealt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The run has ended.
    RunEnded(Ending),
    /// No version of the plan is active yet; these are proposed and wait for a review.
    NoActivePlan {
        /// Version and hash of each.
        proposed: Vec<(u32, ContentHash)>,
    },
    /// The run pauses.
    Paused(PauseCause),
    /// The run ends as soon as nothing is in flight.
    Stopping(String),
    /// The active version has no such step.
    Removed,
    /// Another step is not done.
    Step {
        /// Which.
        step: StepNumber,
        /// Its author's name for it.
        id: String,
        /// How it stands.
        status: StepStatus,
    },
    /// A barrier is not released.
    Barrier(Box<MissingAt>),
    /// It waits for a name that the plan does not know.
    Unknown(String),
    /// Its condition was judged, and does not hold.
    Condition {
        /// The expression.
        expression: String,
        /// What it came to; `None` before it is judged.
        ruling: Option<Ruling>,
    },
    /// A precondition does not hold.
    Precondition {
        /// Its 0-based place in the step's list.
        place: u32,
        /// The expression.
        expression: String,
        /// What it came to; `None` before it is judged.
        ruling: Option<Ruling>,
        /// The variables that it names.
        variables: BTreeSet<String>,
        /// The steps whose work is left to do and sets one of them.
        writers: BTreeSet<StepNumber>,
    },
    /// Somebody was asked.
    Question {
        /// Which question.
        question: QuestionId,
        /// What about.
        subject: Subject,
        /// The question.
        text: String,
        /// Who, where it is known.
        to: Option<String>,
        /// Until when.
        deadline: Option<Micros>,
        /// Answers that mean something.
        options: Vec<String>,
    },
    /// Its gate is closed, and the question was not asked yet.
    Gate,
    /// It failed, and is dealt again then.
    Delay {
        /// When.
        until: Micros,
        /// What the failure was.
        after: String,
    },
    /// Another step stands in for it.
    StandIn(StepNumber),
    /// It is only there to stand in for these, and none of them has called it.
    OnCall(Vec<StepNumber>),
    /// As many attempts are in flight as a cap allows.
    Cap {
        /// What it holds for.
        scope: CapScope,
        /// The run in which it holds, if the plan set it; `None`: in the whole ledger.
        within: Option<RunId>,
        /// How many may be in flight.
        limit: u32,
        /// Who has them.
        holders: Vec<Holder>,
    },
    /// A budget does not cover an attempt.
    Budget(Shortage),
    /// A worker has it.
    Held(Holder),
    /// The worker reported, and something is missing.
    Reported {
        /// The attempt.
        token: AttemptToken,
        /// Criteria without a verdict, by their 0-based places.
        unjudged: Vec<u32>,
        /// Class and message of its failure, if somebody outside must decide about it.
        undecided: Option<(FailureClass, String)>,
    },
    /// An attempt may have done it: somebody must say.
    InDoubt(Holder),
    /// It failed for good.
    Failed(Option<(FailureClass, String)>),
    /// Its run ended before it was done.
    Cancelled,
}

/// A barrier that is not released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingAt {
    /// Its id.
    pub id: String,
    /// How it stands.
    pub status: BarrierStatus,
    /// How many members must arrive.
    pub needed: u32,
    /// Those that did.
    pub arrived: BTreeSet<StepNumber>,
    /// Those that may still.
    pub missing: BTreeSet<StepNumber>,
    /// Those that failed for good.
    pub failed: BTreeSet<StepNumber>,
    /// Until when it should be released.
    pub deadline: Option<Micros>,
    /// Whether that time has passed.
    pub is_late: bool,
    /// The question that is open about it.
    pub question: Option<QuestionId>,
}

/// Somebody who has an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepNumber,
    /// The step's id.
    pub id: String,
    /// The attempt.
    pub token: AttemptToken,
    /// Who.
    pub worker: String,
    /// Until when, without a sign of life.
    pub lease_until: Micros,
}

/// What a budget lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// The run whose budget it is; `None`: the ledger's.
    pub run: Option<RunId>,
    /// Which part.
    pub part: BudgetPart,
    /// What was spent.
    pub spent: u64,
    /// What is set aside for attempts in flight.
    pub reserved: u64,
    /// What another attempt is expected to take.
    pub needed: u64,
    /// What may be spent. Of wall time: seconds.
    pub limit: u64,
}

impl Reason {
    /// The steps that the reason names as something that is waited for.
    #[must_use]
    pub fn leads_to(&self) -> Vec<StepNumber> {
        match self {
            Self::Step { step, .. } | Self::StandIn(step) => vec![*step],
            Self::Barrier(missing) => missing.missing.union(&missing.failed).copied().collect(),
            Self::Precondition { writers, .. } => writers.iter().copied().collect(),
            Self::OnCall(steps) => steps.clone(),
            _ => Vec::new(),
        }
    }
}
