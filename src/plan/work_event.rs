//! What can happen to a step beside its attempts: conditions, delays, side effects, cost, failure.
//!
//! The invariants are those of [`super::Event`].

use serde::{Deserialize, Serialize};

use super::{AttemptToken, Cost, FailureClass, Micros, Ruling};

/// A condition or a precondition of a step was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionJudged {
    /// Which.
    pub which: Condition,
    /// Whether it holds.
    pub ruling: Ruling,
    /// What it was judged by: the variables that it names, or why it could not be evaluated.
    pub evidence: String,
}

/// A condition of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Condition {
    /// Its run-if condition.
    RunIf,
    /// One of its preconditions, by its 0-based place.
    Pre(u32),
}

/// The time that a step had to wait is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelayElapsed {
    /// When it was over.
    pub due: Micros,
}

/// A worker is about to do something to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectIntended {
    /// Its attempt.
    pub token: AttemptToken,
    /// What, in the words of the plan or the worker.
    pub effect: String,
    /// The key that makes it happen once: the attempt's, or one of the worker's own.
    pub key: String,
}

/// A worker has done something to the world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectCommitted {
    /// Its attempt.
    pub token: AttemptToken,
    /// The key of the intent.
    pub key: String,
}

/// What an attempt cost became known, or was put right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostCorrected {
    /// The attempt.
    pub token: AttemptToken,
    /// What it cost.
    pub cost: Cost,
    /// What it was charged with before.
    pub charged: Cost,
    /// Who said so.
    pub by: String,
}

/// A step failed for good without an attempt: a precondition, a gate, or what stood in for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFailed {
    /// The failure's class.
    pub class: FailureClass,
    /// The rule that decided.
    pub rule: String,
    /// Why, for people.
    pub reason: String,
}
