//! Starts a run, or proposes the next version of its plan.

use std::collections::BTreeMap;
use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use plan_ledger::plan::{HelperRole, Micros, NameKind, PlanDraft, Provenance};
use plan_ledger::{
    ApprovalPolicy, Command, ContentHash, Cost, Event, Json, Plan, RunId, RunPolicy, State,
};

use crate::protocol::{Failure, counted};

use super::answer_line::AnswerLine;
use super::checked_plan::CheckedPlan;
use super::context::RequestContext;
use super::find::{check_name, run_status};
use super::kind::RequestKind;
use super::rules::{Role, Rules};

/// Start a run of a plan, or propose the next version of a run's plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProposeRequest {
    /// The run's name.
    pub run: String,
    /// The plan (`plan.md`).
    pub plan: Box<Plan>,
    /// The reason.
    #[serde(default)]
    pub reason: String,
    /// The policy of a new run.
    #[serde(default)]
    pub policy: RunPolicy,
    /// The values of the inputs of a new run.
    #[serde(default)]
    pub inputs: BTreeMap<String, Value>,
    /// The planner that made the plan of a new run; its cost counts in the budget of the run.
    #[serde(default)]
    pub planner: Option<PlannerUse>,
    /// The source of the plan.
    #[serde(default)]
    pub provenance: Option<Provenance>,
    /// The plan with its hashes, once it was checked.
    #[serde(skip)]
    pub draft: CheckedPlan,
    /// Whether the next version of a run's plan waits for approval, whatever the policy of the run says. It does so
    /// if an agent makes the request that decides for no person, and over HTTP with the role of a worker.
    #[serde(default)]
    pub waits_for_approval: bool,
}

/// A planner that made a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlannerUse {
    /// Its name.
    pub by: String,
    /// The cost of the plan.
    #[serde(default)]
    pub cost: Cost,
    /// How long it took.
    #[serde(default)]
    pub duration_micros: Micros,
}

/// A plan version was proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ProposeAnswer {
    /// The run.
    pub run: String,
    /// The number of the version.
    pub version: u32,
    /// The hash of the plan.
    pub hash: ContentHash,
    /// The number of its steps.
    pub steps: u32,
    /// Whether it is active; otherwise it waits for a review.
    pub active: bool,
    /// The status of the run.
    pub status: String,
    /// The version before this one, if a person rejected it.
    pub rejected: Option<RejectedVersion>,
}

/// A version that a person rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RejectedVersion {
    /// Its number.
    pub version: u32,
    /// The note of its reviewer.
    pub note: String,
}

impl ProposeRequest {
    /// The request for a plan, without a reason and with the default policy.
    pub(crate) fn of(run: String, plan: Plan) -> Self {
        Self {
            run,
            plan: Box::new(plan),
            reason: String::new(),
            policy: RunPolicy::default(),
            inputs: BTreeMap::new(),
            planner: None,
            provenance: None,
            draft: CheckedPlan::default(),
            waits_for_approval: false,
        }
    }
}

impl RequestKind for ProposeRequest {
    const RULES: Rules = Rules::of(Role::Operator).long().creating_at("/v1/runs");

    type Answer = ProposeAnswer;

    fn prepare(&self) -> Result<(), Failure> {
        self.draft.of(&self.plan).map(drop)
    }

    fn run(&self, context: RequestContext<'_, '_>) -> Result<ProposeAnswer, Failure> {
        let draft = self.draft.of(&self.plan)?.clone();
        let draft = match &self.provenance {
            Some(provenance) => draft.with_provenance(provenance.clone()),
            None => draft,
        };
        let make = |state: &State| {
            if let Some(run) = state.names.get(&self.run) {
                if !self.inputs.is_empty() {
                    return Err(Failure::Usage(format!(
                        "run {} has started: its inputs are variables\nhint: `ledger set NAME VALUE`",
                        self.run
                    )));
                }
                let is_asked_for = self.policy.approval == ApprovalPolicy::Required;
                let waits = self.waits_for_approval
                    || is_asked_for && !plan_ledger::mutant!(ApprovalOfVersionIgnored);
                return Ok(next_version(*run, draft.clone(), &self.reason, waits));
            }
            check_name(NameKind::Run, &self.run)?;
            Ok(Command::StartRun {
                name: self.run.clone(),
                policy: self.policy,
                reason: self.reason.clone(),
                draft: draft.clone(),
                inputs: self.inputs.iter().map(input).collect(),
            })
        };
        let charge = |state: &State| {
            let PlannerUse { by, cost, duration_micros } = self.planner.clone()?;
            let (run, role) = (*state.names.get(&self.run)?, HelperRole::Planner);
            Some(Command::ReportHelper { run, role, by, cost, duration: duration_micros })
        };
        context.execute_with(&make, &charge, ProposeAnswer::of)?
    }
}

fn input((name, value): (&String, &Value)) -> (String, Json) {
    (name.clone(), Json::new(value))
}

/// The command that proposes the next version of a run's plan. It waits for approval, or as the policy of the run
/// says.
pub(super) fn next_version(
    run: RunId,
    draft: PlanDraft,
    reason: &str,
    waits_for_approval: bool,
) -> Command {
    let approval =
        if waits_for_approval { ApprovalPolicy::Required } else { ApprovalPolicy::Automatic };
    Command::ProposePlan { run, draft, reason: reason.to_owned(), trigger: None, approval }
}

impl ProposeAnswer {
    /// The version that was proposed in a commit.
    pub(super) fn of(state: &State, events: &[(u64, Event)]) -> Result<Self, Failure> {
        let found = events.iter().find_map(|(_, event)| match event {
            Event::PlanProposed(proposed) => Some((proposed.run, proposed.version, proposed.hash)),
            _ => None,
        });
        let Some((Some(run), version, hash)) =
            found.map(|(run, version, hash)| (state.runs.get(&run), version, hash))
        else {
            return Err(Failure::Rejected("the run has ended".to_owned()));
        };
        let place = usize::try_from(version.saturating_sub(1)).ok();
        let proposed = place.and_then(|place| run.versions.get(place));
        Ok(Self {
            run: run.name.clone(),
            version,
            hash,
            steps: proposed.map_or(0, |version| version.step_count),
            active: run.active >= version,
            status: run_status(run),
            rejected: run.rejections().last().filter(|(each, _)| each + 1 == version).map(
                |(version, note)| RejectedVersion { version: *version, note: (*note).to_owned() },
            ),
        })
    }
}

impl AnswerLine for ProposeAnswer {
    const WORD: &'static str = "proposed";
}

impl fmt::Display for ProposeAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, version, steps, .. } = self;
        let status = if self.active { "active" } else { "waiting for review" };
        let steps = counted(u64::from(*steps), "step");
        write!(f, "run {run}: version {version}, {steps}, {status}")?;
        match &self.rejected {
            Some(RejectedVersion { version, note }) if note.is_empty() => {
                write!(f, "\n  version {version} was rejected")
            }
            Some(RejectedVersion { version, note }) => {
                write!(f, "\n  version {version} was rejected: {note}")
            }
            None => Ok(()),
        }
    }
}
