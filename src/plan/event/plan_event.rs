//! TODO

use serde::{Deserialize, Serialize};

use super::step_event::Verdict;
use crate::plan::model::plan::Plan;
use crate::plan::model::step::Step;
use crate::plan::value::ids::{ContentHash, Micros, RunId, StepNumber};

/// A plan version was proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanProposed {
    /// The run.
    pub run: RunId,
    /// The version's number in the run, from 1.
    pub version: u32,
    /// Hash of the whole plan's canonical bytes: what an approval binds to.
    pub hash: ContentHash,
    /// Why there is a new version; empty for the first.
    pub reason: String,
    /// The plan with its list of steps empty.
    pub header: Box<Plan>,
    /// How many steps follow.
    pub step_count: u32,
}

/// Some steps of a proposed version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanSteps {
    /// The run.
    pub run: RunId,
    /// The version.
    pub version: u32,
    /// The steps, each with the hash of what makes it the same work.
    pub steps: Vec<HashedStep>,
}

/// A step and the hash of what makes it the same work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HashedStep {
    /// Hash of goal, command, inputs, condition, changes and acceptance.
    pub hash: ContentHash,
    /// The step.
    pub step: Step,
}

/// A proposed version was approved or rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanReviewed {
    /// The run.
    pub run: RunId,
    /// The version.
    pub version: u32,
    /// The hash that the reviewer was shown.
    pub hash: ContentHash,
    /// What they said.
    pub review: Review,
    /// Who: a person, or `policy:automatic`.
    pub by: String,
    /// Why, in their words.
    pub note: String,
}

/// What a reviewer said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Review {
    /// It may be activated.
    Approved,
    /// It may not.
    Rejected,
}

/// A version became the one that the run executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanActivated {
    /// The run.
    pub run: RunId,
    /// The version.
    pub version: u32,
    /// The number of each of its steps, in plan order.
    pub numbers: Vec<StepNumber>,
    /// Steps that keep what they had: same work, same trusted inputs.
    pub preserved: Vec<StepNumber>,
    /// Steps whose work falls: changed, or downstream of one that fell.
    pub invalidated: Vec<StepNumber>,
    /// Steps of the version before that are no longer there.
    pub removed: Vec<StepNumber>,
    /// Steps that no version had before.
    pub added: Vec<StepNumber>,
    /// Variables that what is preserved, or somebody, vouches for.
    pub trusted: Vec<String>,
    /// Variables that were set by work that fell.
    pub untrusted: Vec<String>,
    /// The record that asked for this version; 0 if none did.
    pub request: u64,
    /// Steps whose last attempt did, or may have done, what must not be done twice: they keep it,
    /// whatever the version says of them, until somebody says what happened.
    pub held: Vec<StepNumber>,
    /// Answers about barriers of which the version says the same: they still count.
    pub answers: Vec<(String, String)>,
    /// In a fork, when the version became active in the run that it was copied from; else 0.
    pub since: Micros,
}

/// A criterion of the plan as a whole was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanVerdict {
    /// The run.
    pub run: RunId,
    /// The version whose criterion it is.
    pub version: u32,
    /// The judgement.
    pub verdict: Verdict,
}
