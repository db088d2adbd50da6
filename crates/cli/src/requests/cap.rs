//! Sets or lifts a cap on attempts in flight.

use std::fmt;

use clap::{ArgMatches, Args, FromArgMatches};
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

const EXAMPLES: &str = "\
Examples:
  ledger cap --global 8
  ledger cap --run my-plan 2
  ledger cap --owner reviewer none";

/// Set or lift a cap on the attempts that may be in flight at once.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[command(after_help = EXAMPLES)]
#[serde(deny_unknown_fields)]
pub struct CapRequest {
    /// The attempts that count.
    #[command(flatten)]
    pub scope: Scope,
    /// How many of them may be in flight at once; null removes the cap.
    #[arg(value_name = "N|none", value_parser = parse_limit)]
    #[arg(help = "How many attempts may be in flight at once, or `none` to remove the cap")]
    #[cfg_attr(test, schemars(range(min = 1)))]
    // The whole path makes it an argument that must be given.
    pub limit: std::option::Option<u32>,
    /// The author, for the record.
    #[command(flatten)]
    pub by: Author,
}

fn parse_limit(text: &str) -> Result<Option<u32>, String> {
    let limit = || text.parse().ok().filter(|limit| *limit > 0);
    match text {
        "none" => Ok(None),
        _ => limit().map(Some).ok_or_else(|| "expected a number from 1, or `none`".to_owned()),
    }
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

/// The options of a scope: one of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ScopeOptions {
    /// The whole ledger
    #[arg(long)]
    global: bool,
    /// One run, by name
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// One owner, over all runs
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// One tag or resource, over all runs
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
}

impl From<ScopeOptions> for Scope {
    fn from(options: ScopeOptions) -> Self {
        let ScopeOptions { global: _, run, owner, tag } = options;
        let run = run.map(Self::Run);
        run.or(owner.map(Self::Owner)).or(tag.map(Self::Tag)).unwrap_or(Self::Ledger)
    }
}

impl FromArgMatches for Scope {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        ScopeOptions::from_arg_matches(matches).map(Self::from)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Scope {
    fn augment_args(command: clap::Command) -> clap::Command {
        ScopeOptions::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
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
