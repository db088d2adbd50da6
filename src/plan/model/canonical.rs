//! The canonical text of a plan, which is stored and hashed, and the identity of a step's work.
//!
//! Invariant: two plans have the same text if and only if they are equal. Defaults are omitted, and
//! every other value has one encoding (RFC 8785). Numbers are exact up to 2^53;
//! [`crate::plan::validate`] rejects larger ones.

use serde::Serialize;

use super::criterion::Criterion;
use super::plan::{Defaults, Plan};
use super::step::Step;
use crate::plan::value::canonical::canonical;

/// The fields that a step's hash covers: they define the work, not its time, author or frequency.
#[derive(Serialize)]
struct StepIdentity<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    goal: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    inputs: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    changes: &'a [String],
    #[serde(skip_serializing_if = "<[Criterion]>::is_empty")]
    acceptance: &'a [Criterion],
}

impl Plan {
    /// The canonical text that is stored and hashed.
    #[must_use]
    pub fn canonical(&self) -> String {
        canonical(self)
    }

    /// The plan without its steps, which are not copied.
    #[must_use]
    pub(crate) fn without_steps(&self) -> Self {
        let Self { title, outcome, goal, context, inputs, phases, steps: _, barriers, .. } = self;
        let Self {
            caps, owners, budget, test_criteria, failure, gate, risks, open_questions, ..
        } = self;
        let Self { continues, extend_at, defaults, extra, .. } = self;
        Self {
            steps: Vec::new(),
            title: title.clone(),
            outcome: outcome.clone(),
            goal: goal.clone(),
            context: context.clone(),
            inputs: inputs.clone(),
            phases: phases.clone(),
            barriers: barriers.clone(),
            caps: caps.clone(),
            owners: owners.clone(),
            budget: *budget,
            test_criteria: test_criteria.clone(),
            failure: failure.clone(),
            gate: gate.clone(),
            risks: risks.clone(),
            open_questions: open_questions.clone(),
            continues: *continues,
            extend_at: *extend_at,
            defaults: defaults.clone(),
            extra: extra.clone(),
        }
    }
}

impl Step {
    /// The canonical text of the step's work: goal, command, inputs, condition, changes and
    /// acceptance. A new title, priority, owner, cost or retry policy does not change it.
    #[must_use]
    pub fn identity(&self, defaults: &Defaults) -> String {
        canonical(&StepIdentity {
            goal: &self.goal,
            command: self.command.as_deref().or(defaults.command.as_deref()),
            inputs: &self.inputs,
            condition: self.condition.as_deref(),
            changes: &self.changes,
            acceptance: &self.acceptance,
        })
    }

    /// The step with the plan's defaults filled in.
    #[must_use]
    pub fn with_defaults(&self, defaults: &Defaults) -> Self {
        let mut step = self.clone();
        step.owner = step.owner.or_else(|| defaults.owner.clone());
        step.command = step.command.or_else(|| defaults.command.clone());
        step.retry = step.retry.or_else(|| defaults.retry.clone().map(Box::new));
        step.idempotent = step.idempotent.or(defaults.idempotent);
        step.timeout_seconds = step.timeout_seconds.or(defaults.timeout_seconds);
        step.repeat_limit = step.repeat_limit.or(defaults.repeat_limit);
        step.lease_seconds = step.lease_seconds.or(defaults.lease_seconds);
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Idempotence, RetryPolicy};

    fn build() -> Step {
        Step { id: "build".into(), goal: "it compiles".into(), ..Step::default() }
    }

    #[test]
    fn defaults_are_left_out() {
        let plan = Plan { steps: vec![build()], ..Plan::default() };
        assert_eq!(plan.canonical(), r#"{"steps":[{"goal":"it compiles","id":"build"}]}"#);
        assert_eq!(Plan::default().canonical(), r#"{"steps":[]}"#);
    }

    #[test]
    fn the_text_reads_back_as_the_same_plan() {
        let mut plan = Plan { title: "t".into(), steps: vec![build()], ..Plan::default() };
        plan.extra.insert("x".into(), serde_json::json!({"b": [1, 2.5, null], "a": "\u{e9}"}));
        let back: Plan = serde_json::from_str(&plan.canonical()).unwrap();
        assert_eq!(back, plan);
        assert_eq!(back.canonical(), plan.canonical());
    }

    #[test]
    fn identity_is_the_work_only() {
        let defaults = Defaults { command: Some("make".into()), ..Defaults::default() };
        let step = build();
        let same = Step {
            id: "b".into(),
            title: "Build".into(),
            priority: 3,
            owner: Some("ci".into()),
            command: Some("make".into()),
            retry: Some(Box::new(RetryPolicy::default())),
            after: vec!["x".into()],
            ..build()
        };
        assert_eq!(step.identity(&defaults), same.identity(&defaults));
        assert_eq!(step.identity(&defaults), r#"{"command":"make","goal":"it compiles"}"#);
        assert_ne!(step.identity(&defaults), step.identity(&Defaults::default()));
        let other = Step { acceptance: vec![Criterion::Text("ok".into())], ..build() };
        assert_ne!(step.identity(&defaults), other.identity(&defaults));
    }

    #[test]
    fn a_step_says_more_than_the_defaults() {
        let defaults = Defaults {
            owner: Some("any".into()),
            idempotent: Some(Idempotence::Yes),
            timeout_seconds: Some(60),
            repeat_limit: Some(9),
            ..Defaults::default()
        };
        let step = Step { idempotent: Some(Idempotence::No), ..build() }.with_defaults(&defaults);
        assert_eq!(step.owner.as_deref(), Some("any"));
        assert_eq!(step.idempotent, Some(Idempotence::No));
        assert_eq!((step.timeout_seconds, step.lease_seconds), (Some(60), None));
        assert_eq!(step.repeat_limit, Some(9));
    }
}
