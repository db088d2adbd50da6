//! What may be asked of a ledger from outside of the process that holds it, as data: one act for
//! each command, in the form of `format/socket.md`.
//!
//! Invariant: an act names runs and steps as people do, and says nothing of this machine; whoever
//! carries it out comes to the same answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use plan_ledger::ledger::RetentionLimit;
use plan_ledger::log::ArchiveReference;
use plan_ledger::plan::{Plan, Ruling, Step};

/// One thing that somebody wants done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are words of the command line; socket.md has them all")]
pub enum Act {
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
    /// Say yes or no to a version that waits for it.
    Review {
        run: String,
        review: Word,
        by: String,
        #[serde(default)]
        note: String,
        #[serde(default)]
        shown: Option<String>,
    },
    /// Say that no other version is needed.
    Withdraw {
        run: String,
        by: String,
        #[serde(default)]
        reason: String,
    },
    /// Deal a step to a worker: the named one, or the first of the queue.
    Claim {
        #[serde(default)]
        run: Option<String>,
        #[serde(default)]
        step: Option<String>,
        worker: String,
        #[serde(default)]
        lease_seconds: Option<u32>,
    },
    /// Keep an attempt for longer.
    Renew {
        token: u64,
        #[serde(default)]
        lease_seconds: Option<u32>,
    },
    /// Give an attempt back.
    Release {
        token: u64,
        #[serde(default)]
        work: Work,
        #[serde(default)]
        reason: String,
    },
    /// Record what a worker returned, in the form of `format/hand-off.md`; with `next`, deal it
    /// the next step in the same commit.
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
    /// Say that a worker is about to do something to the world, or has done it.
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
    /// Say what came of a criterion that is a command: of a reported attempt, or of a run's plan.
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
    /// Say something about a step: to its question, its failure, or the doubt about it.
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
    /// Decide about a failed attempt, where the plan leaves that to somebody else.
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
    /// Let a failed step, or all of them, be tried again.
    Retry {
        run: String,
        #[serde(default)]
        step: Option<String>,
        by: String,
    },
    /// Do without a step.
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
    /// Set what may be spent: `null` for no limit, nothing for what it was.
    Budget {
        #[serde(default)]
        run: Option<String>,
        change: BudgetChange,
        by: String,
    },
    /// Set or lift a cap.
    Cap { scope: Scope, limit: Option<u32>, by: String },
    /// Deal nothing more for now.
    Pause {
        run: String,
        by: String,
        #[serde(default)]
        reason: String,
    },
    /// Go on.
    Resume { run: String, by: String },
    /// End a run.
    Cancel {
        run: String,
        by: String,
        #[serde(default)]
        reason: String,
    },
    /// Begin a run as another one was: after a record, or before a step was first dealt.
    Fork {
        run: String,
        name: String,
        #[serde(default)]
        at: Option<u64>,
        #[serde(default)]
        step: Option<String>,
    },
    /// Say something to be read beside the records.
    Note {
        #[serde(default)]
        run: Option<String>,
        #[serde(default)]
        step: Option<String>,
        text: String,
        by: String,
    },
    /// Turn what is due into events.
    Tick {},
    /// Keep the state as it is now.
    Snapshot {},
    /// Remove the oldest segments.
    Prune {
        extent: Extent,
        /// The archive that has them, if there is one.
        #[serde(default)]
        archive: Option<ArchiveReference>,
        by: String,
    },
    /// Remove the outputs that lie beside the log and that no record names.
    CollectBlobs {},
}

/// How a new run treats approval, criteria and failures, where it is not as usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct Policy {
    /// Whether a version waits for a person.
    pub approval: Approval,
    /// Who judges text criteria.
    pub text: TextWord,
    /// What a failed step means for the others.
    pub on_failure: OnFailureWord,
}

/// Whether a version waits for a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// It does not.
    #[default]
    Automatic,
    /// It does.
    Required,
}

/// Who judges text criteria.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextWord {
    /// Somebody.
    #[default]
    Judge,
    /// Nobody: the worker's word is taken.
    Trust,
}

/// What a failed step means for the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailureWord {
    /// They go on.
    #[default]
    Continue,
    /// Nothing more is dealt.
    FailFast,
}

/// A yes or a no to a version of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Let it become active.
    Approved,
    /// Refuse it.
    Rejected,
}

/// Whether criteria hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RulingWord {
    /// They do.
    Pass,
    /// They do not.
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

/// How far a worker is with something that it does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// It is about to do it.
    Intended,
    /// It has done it.
    Committed,
}

/// Whether work had begun that is given back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Nothing was done to the world.
    #[default]
    NotBegun,
    /// Something may have been.
    Begun,
}

/// Who gets the next step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NextStep {
    /// Their name; without one, that of who had the step before.
    pub worker: Option<String>,
}

/// A change of what may be spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetChange {
    /// Leave it to the plan.
    AsPlanned,
    /// Set these parts: `money_micros`, `tokens`, `attempts`, `wall_seconds`; null for no limit.
    Set(BTreeMap<String, Option<u64>>),
    /// Raise these parts by so much.
    Raise(BTreeMap<String, u64>),
}

/// How far a prune goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// All whole segments up to this record.
    Record(u64),
    /// All segments before the first one with a record of a run that has not ended.
    Ended,
    /// The same, up to this record.
    EndedUpTo(u64),
}

impl From<Extent> for RetentionLimit {
    fn from(extent: Extent) -> Self {
        match extent {
            Extent::Record(_) if plan_ledger::bug!(PrunedBeyond) => Self::Record(u64::MAX),
            Extent::Record(last) => Self::Record(last),
            Extent::Ended => Self::EndedRuns,
            Extent::EndedUpTo(last) => Self::EndedRunsUpTo(last),
        }
    }
}

/// What a cap holds for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The whole ledger.
    Ledger,
    /// One run, by name.
    Run(String),
    /// One owner, over all runs.
    Owner(String),
    /// One tag or resource, over all runs.
    Tag(String),
}
