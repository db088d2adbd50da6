//! Sets or lifts a cap on attempts in flight.

use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::CapScope;
use plan_ledger::{Command, State};

use crate::protocol::{Failure, counted};

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::run_of;
use super::kind::RequestKind;
use super::members::Author;
use super::rules::{HttpMethod, Role, Rules};

/// Set or lift a cap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CapRequest {
    /// The attempts that count.
    pub scope: Scope,
    /// How many of them may be in flight at once; null removes the cap.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub limit: Option<u32>,
    /// The author, for the record.
    pub by: Author,
}

/// The scope of a cap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The whole ledger.
    Ledger,
    /// One run, by name or number.
    Run(String),
    /// One owner, across all runs.
    Owner(String),
    /// One tag or resource, across all runs.
    Tag(String),
}

/// A cap was set or lifted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CapAnswer {
    /// The attempts that count.
    pub scope: ScopeKind,
    /// The name of the run, owner or tag; null for the ledger.
    pub name: Option<String>,
    /// The cap that was set; null if it was lifted.
    pub limit: Option<u32>,
    /// For a run: the cap of its plan; the lower one of both holds.
    pub planned: Option<u32>,
    /// The cap of the whole ledger, which holds for runs, owners and tags, too.
    pub ledger: Option<u32>,
    /// The effective cap: the lowest of these; null without a cap.
    pub holds: Option<u32>,
    /// For an owner or a tag: the open runs with a lower cap for it in their plan, at most 20.
    pub plans: Vec<PlanCap>,
}

/// The cap that a plan sets for an owner or a tag in its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PlanCap {
    /// The name of the run.
    pub run: String,
    /// The cap.
    pub limit: u32,
}

/// The most runs that an answer lists.
const LISTED_MAX: usize = 20;

/// The kind of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ScopeKind {
    /// The whole ledger.
    Ledger,
    /// One run.
    Run,
    /// One owner.
    Owner,
    /// One tag or resource.
    Tag,
}

impl RequestKind for CapRequest {
    const RULES: Rules =
        Rules::of(Role::Operator).of_person().at(HttpMethod::Put, "/v1/caps").of_control();

    type Answer = CapAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<CapAnswer, Failure> {
        let make = |state: &State| {
            let scope = match &self.scope {
                Scope::Ledger => CapScope::Ledger,
                Scope::Run(run) => CapScope::Run { run: run_of(state, run)?.id },
                Scope::Owner(owner) => CapScope::Owner { owner: owner.clone() },
                Scope::Tag(tag) => CapScope::Tag { tag: tag.clone() },
            };
            Ok(Command::SetCap { scope, limit: self.limit, by: self.by.to_string() })
        };
        context.execute(&make, |state, _| {
            let planned = match &self.scope {
                Scope::Run(run) => {
                    run_of(state, run)?.plan().and_then(|plan| plan.header().caps.run)
                }
                Scope::Ledger | Scope::Owner(_) | Scope::Tag(_) => None,
            };
            let (scope, name) = match &self.scope {
                Scope::Ledger => (ScopeKind::Ledger, None),
                Scope::Run(run) => (ScopeKind::Run, Some(run_of(state, run)?.name.clone())),
                Scope::Owner(owner) => (ScopeKind::Owner, Some(owner.clone())),
                Scope::Tag(tag) => (ScopeKind::Tag, Some(tag.clone())),
            };
            let of_ledger = match scope {
                ScopeKind::Ledger => None,
                _ => state.caps.get(&CapScope::Ledger).copied(),
            };
            let holds = self.limit.into_iter().chain(planned).chain(of_ledger).min();
            let plans = self.lower_plans(state, holds);
            let limit = self.limit;
            Ok(CapAnswer { scope, name, limit, planned, ledger: of_ledger, holds, plans })
        })?
    }
}

impl CapRequest {
    /// The open runs with a lower cap for the owner or the tag in their plan.
    fn lower_plans(&self, state: &State, holds: Option<u32>) -> Vec<PlanCap> {
        let runs = state.runs.open().filter_map(|id| state.runs.get(&id));
        let lower = runs.filter_map(|run| {
            let caps = &run.plan()?.header().caps;
            let limit = *match &self.scope {
                Scope::Owner(owner) => caps.owners.get(owner),
                Scope::Tag(tag) => caps.tags.get(tag),
                Scope::Ledger | Scope::Run(_) => None,
            }?;
            let is_lower = holds.is_none_or(|holds| limit < holds);
            is_lower.then(|| PlanCap { run: run.name.clone(), limit })
        });
        lower.take(LISTED_MAX).collect()
    }
}

impl AnswerLine for CapAnswer {
    const WORD: &'static str = "cap";
}

impl fmt::Display for CapAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.scope {
            ScopeKind::Ledger => "the ledger",
            ScopeKind::Run => "run",
            ScopeKind::Owner => "owner",
            ScopeKind::Tag => "tag",
        };
        f.write_str(kind)?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match self.holds {
            Some(limit) => {
                write!(f, ": at most {} in flight", counted(limit.into(), "attempt"))?;
            }
            None => f.write_str(": no cap")?,
        }
        let whose = match self.holds {
            holds if holds == self.limit => None,
            holds if holds == self.planned => Some("its plan"),
            _ => Some("the ledger"),
        };
        match (whose, self.limit) {
            (Some(whose), Some(limit)) => {
                write!(f, "; the cap of {whose} applies, which is lower than {limit}")?;
            }
            (Some(whose), None) => write!(f, "; the cap of {whose} applies")?,
            (None, _) => {}
        }
        for PlanCap { run, limit } in &self.plans {
            write!(f, "; in run {run} at most {limit}, by its plan")?;
        }
        Ok(())
    }
}
