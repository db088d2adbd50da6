//! Requests to the process that has the writer lock: one for each command that changes a ledger, as
//! specified in `format/socket.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use plan_ledger::ledger::RetentionLimit;
use plan_ledger::log::ArchiveReference;
use plan_ledger::plan::{Plan, Ruling, Step};

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "the fields are those of the command line; socket.md documents them"
)]
pub enum Request {
    /// Start a run of a plan, or propose the next version of a run's plan.
    Propose {
        run: String,
        plan: Box<Plan>,
        #[serde(default)]
        reason: String,
        #[serde(default)]
        policy: Policy,
    },
    /// Propose a version with one more step.
    AddStep {
        #[serde(default)]
        run: Option<String>,
        step: Box<Step>,
        #[serde(default)]
        reason: String,
    },
    /// Approve or reject a version that waits for review.
    Review {
        run: String,
        review: ReviewDecision,
        by: String,
        #[serde(default)]
        note: String,
        #[serde(default)]
        shown: Option<String>,
    },
    /// Withdraw the request for another version.
    Withdraw {
        run: String,
        by: String,
        #[serde(default)]
        reason: String,
    },
    /// Dispatch a step to a worker: the named step, or the first one in the queue.
    Claim {
        #[serde(default)]
        run: Option<String>,
        #[serde(default)]
        step: Option<String>,
        worker: String,
        #[serde(default)]
        lease_seconds: Option<u32>,
    },
    /// Renew the lease of an attempt.
    Renew {
        token: u64,
        #[serde(default)]
        lease_seconds: Option<u32>,
    },
    /// Release an attempt.
    Release {
        token: u64,
        #[serde(default)]
        work: Work,
        #[serde(default)]
        reason: String,
    },
    /// Record a worker's receipt (`format/hand-off.md`); with `next`, dispatch the next step to the
    /// worker in the same commit.
    Receipt {
        token: u64,
        receipt: Value,
        #[serde(default)]
        duration_micros: u64,
        #[serde(default)]
        log_tail: String,
        #[serde(default)]
        next: Option<NextStep>,
    },
    /// Record the start or the end of a side effect.
    Effect {
        token: u64,
        key: String,
        #[serde(default)]
        effect: String,
        state: EffectState,
    },
    /// Judge the text criteria of a reported step, or of the plan.
    Judge {
        run: String,
        step: String,
        ruling: RulingWord,
        by: String,
        #[serde(default)]
        evidence: String,
    },
    /// Record the verdict on a `command` criterion of a reported attempt, or of the plan.
    Verdict {
        #[serde(default)]
        token: Option<u64>,
        #[serde(default)]
        run: Option<String>,
        criterion: u32,
        ruling: RulingWord,
        by: String,
        #[serde(default)]
        evidence: String,
    },
    /// Answer a question by its number.
    Answer {
        question: u64,
        answer: String,
        by: String,
        #[serde(default)]
        note: String,
        #[serde(default)]
        shown: Option<String>,
    },
    /// Answer the open item of a step: a question, a failure or an unknown outcome.
    AnswerStep {
        run: String,
        step: String,
        answer: String,
        by: String,
        #[serde(default)]
        note: String,
        #[serde(default)]
        shown: Option<String>,
    },
    /// Decide about a failed attempt, if the plan leaves the decision to an external decider.
    Decide {
        run: String,
        step: String,
        decision: String,
        #[serde(default)]
        after_seconds: Option<u64>,
        rule: String,
        #[serde(default)]
        reason: String,
    },
    /// Retry one failed step, or all of them.
    Retry {
        run: String,
        #[serde(default)]
        step: Option<String>,
        by: String,
    },
    /// Skip a step.
    Skip { run: String, step: String, by: String, reason: String },
    /// Set a variable.
    Set {
        #[serde(default)]
        run: Option<String>,
        name: String,
        value: Value,
        #[serde(default)]
        if_version: Option<u64>,
        by: String,
    },
    /// Change a budget: `null` removes a limit, a missing part keeps it.
    Budget {
        #[serde(default)]
        run: Option<String>,
        change: BudgetChange,
        by: String,
    },
    /// Set or lift a cap.
    Cap { scope: Scope, limit: Option<u32>, by: String },
    /// Stop dispatch in a run.
    Pause {
        run: String,
        by: String,
        #[serde(default)]
        reason: String,
    },
    /// Unpause a run.
    Resume { run: String, by: String },
    /// Cancel a run.
    Cancel {
        run: String,
        by: String,
        #[serde(default)]
        reason: String,
    },
    /// Fork a run: after a record, or before the first dispatch of a step.
    Fork {
        run: String,
        name: String,
        #[serde(default)]
        at: Option<u64>,
        #[serde(default)]
        step: Option<String>,
    },
    /// Record a note.
    Note {
        #[serde(default)]
        run: Option<String>,
        #[serde(default)]
        step: Option<String>,
        text: String,
        by: String,
    },
    /// Record expired leases, delays and deadlines.
    Tick {},
    /// Write a snapshot.
    Snapshot {},
    /// Delete the oldest segments.
    Prune {
        extent: PruneLimit,
        /// The archive that contains them, if there is one.
        #[serde(default)]
        archive: Option<ArchiveReference>,
        by: String,
    },
    /// Delete blobs that no record references.
    CollectBlobs {},
}

/// A new run's policy for approval, text criteria and failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct Policy {
    /// Whether a plan version needs the approval of a person.
    pub approval: Approval,
    /// The judge of text criteria.
    pub text: TextWord,
    /// The effect of a failed step on the others.
    pub on_failure: OnFailureWord,
}

/// Whether a version waits for a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Versions become active at once.
    #[default]
    Automatic,
    /// Versions wait for a review.
    Required,
}

/// The judge of text criteria.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextWord {
    /// A judge or a person.
    #[default]
    Judge,
    /// The worker's success is trusted without a check.
    Trust,
}

/// The effect of a failed step on the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailureWord {
    /// Independent branches continue.
    #[default]
    Continue,
    /// Dispatch stops.
    FailFast,
}

/// The result of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewDecision {
    /// The version becomes active.
    Approved,
    /// The version is rejected.
    Rejected,
}

/// The result of judging criteria.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RulingWord {
    /// The criteria hold.
    Pass,
    /// The criteria do not hold.
    Fail,
}

impl From<RulingWord> for Ruling {
    fn from(word: RulingWord) -> Self {
        match word {
            RulingWord::Pass => Self::Pass,
            RulingWord::Fail => Self::Fail,
        }
    }
}

/// The progress of a side effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// The worker is about to perform it.
    Intended,
    /// The worker has performed it.
    Committed,
}

/// Whether the work of a released attempt had begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// There were no side effects.
    #[default]
    NotBegun,
    /// There may have been side effects.
    Begun,
}

/// The worker of the next step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NextStep {
    /// The worker's name; by default the one that reported.
    pub worker: Option<String>,
}

/// A change of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetChange {
    /// Use the limits of the plan.
    AsPlanned,
    /// Set these parts: `money_micros`, `tokens`, `attempts`, `wall_seconds`; null for no limit.
    Set(BTreeMap<String, Option<u64>>),
    /// Raise these parts by these amounts.
    Raise(BTreeMap<String, u64>),
}

/// The segments that a prune may remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PruneLimit {
    /// All segments whose last record is at most this one.
    Record(u64),
    /// All segments before the first one with a record of a run that has not ended.
    Ended,
    /// Both limits: the segments must satisfy `Ended` and `Record`.
    EndedUpTo(u64),
}

impl From<PruneLimit> for RetentionLimit {
    fn from(extent: PruneLimit) -> Self {
        match extent {
            PruneLimit::Record(_) if plan_ledger::mutant!(PruneLimitIgnored) => {
                Self::Record(u64::MAX)
            }
            PruneLimit::Record(last) => Self::Record(last),
            PruneLimit::Ended => Self::EndedRuns,
            PruneLimit::EndedUpTo(last) => Self::EndedRunsUpTo(last),
        }
    }
}

/// The scope of a cap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The whole ledger.
    Ledger,
    /// One run, by name.
    Run(String),
    /// One owner, across all runs.
    Owner(String),
    /// One tag or resource, across all runs.
    Tag(String),
}
