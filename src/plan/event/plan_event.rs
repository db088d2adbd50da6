//! Events of plan versions: proposed, reviewed and activated, and verdicts on plan criteria.
//!
//! A proposal consists of a header and the steps, in several records of one batch. An activation
//! lists its effect on every step, so that no work is kept or discarded silently.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::step_event::Verdict;
use crate::plan::model::plan::Plan;
use crate::plan::model::step::Step;
use crate::plan::value::ids::{ContentHash, RunId, StepNumber, Timestamp};
use crate::plan::value::time;
#[cfg(feature = "schema")]
use crate::plan::value::time::UtcTime;

use super::json_form;

/// A plan version was proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanProposed {
    /// The run.
    pub run: RunId,
    /// Number of the version in the run, from 1.
    pub version: u32,
    /// Hash of the plan's canonical bytes. A review refers to this hash.
    pub hash: ContentHash,
    /// Why the version was proposed; may be empty for the first.
    pub reason: String,
    /// The plan without its steps.
    pub header: Box<Plan>,
    /// Number of steps that follow.
    pub step_count: u32,
    /// The source of the version, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// The source of a plan version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The person or the program that wrote it.
    pub author: Option<String>,
    /// The file that it was read from.
    pub file: Option<String>,
    /// blake3 of that file.
    pub file_hash: Option<ContentHash>,
    /// blake3 of that file without the marks of finished steps (format/plan-files.md).
    pub unmarked_hash: Option<ContentHash>,
    /// The options with which it was read, as words of a command line.
    #[serde(default)]
    pub read_with: Vec<String>,
    /// How sure its author is, in percent: `extra.confidence` of the plan.
    pub confidence: Option<u8>,
}

/// Steps of a proposed version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanSteps {
    /// The run.
    pub run: RunId,
    /// The version.
    pub version: u32,
    /// The steps, each with the hash of its work.
    pub steps: Vec<HashedStep>,
}

/// A step and the hash of its work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HashedStep {
    /// Hash of goal, command, inputs, condition, changes and acceptance.
    pub hash: ContentHash,
    // Shared, because a large plan passes through several owners.
    /// The step.
    pub step: Arc<Step>,
}

/// A proposed version was approved or rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanReviewed {
    /// The run.
    pub run: RunId,
    /// The version.
    pub version: u32,
    /// Hash of the plan that the reviewer saw.
    pub hash: ContentHash,
    /// The decision.
    pub review: Review,
    /// The reviewer, or `policy:automatic`.
    pub by: String,
    /// Note of the reviewer.
    pub note: String,
    /// The approval of its commands by a person, if there was one.
    pub commands: Option<CommandsApproval>,
}

/// A person approved the commands of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandsApproval {
    /// Hash of its commands, command criteria and probes.
    pub hash: ContentHash,
    /// The person.
    pub by: String,
    /// The folder in which a judge runs them, if it is known: the working folder of the person's command.
    pub folder: Option<String>,
}

/// Decision of a reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// The version may be activated.
    Approved,
    /// The version must not be activated.
    Rejected,
}

/// A version became the active one of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanActivated {
    /// The run.
    pub run: RunId,
    /// The version.
    pub version: u32,
    /// The numbers of its steps, in plan order.
    pub numbers: Vec<StepNumber>,
    /// Steps whose work is kept: the work and its trusted inputs are the same.
    pub preserved: Vec<StepNumber>,
    /// Steps whose work is discarded: they changed, or are downstream of a discarded step.
    pub invalidated: Vec<StepNumber>,
    /// Steps of the previous version that are gone.
    pub removed: Vec<StepNumber>,
    /// Steps that no earlier version had.
    pub added: Vec<StepNumber>,
    /// Variables set by kept work or by a person.
    pub trusted: Vec<String>,
    /// Variables set by discarded work.
    pub untrusted: Vec<String>,
    /// Sequence number of the replan request; 0 if there was none.
    pub request: u64,
    /// Steps with a last attempt that did, or may have done, work that must not be repeated. They
    /// keep the attempt until its outcome is resolved.
    pub held: Vec<StepNumber>,
    /// Answers about unchanged barriers, which remain valid.
    #[serde(serialize_with = "json_form::map")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, String>"))]
    pub answers: Vec<(String, String)>,
    /// In a fork, when the version became active in the parent run; otherwise 0.
    #[serde(serialize_with = "time::unless_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<UtcTime>"))]
    pub since: Timestamp,
}

/// A criterion of the whole plan was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanVerdict {
    /// The run.
    pub run: RunId,
    /// The version that has the criterion.
    pub version: u32,
    /// The verdict.
    pub verdict: Verdict,
}
