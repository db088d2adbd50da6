//! Changes the budget of a run or of the ledger.

use std::collections::BTreeMap;
use std::fmt;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::{Command, Cost, Limits, State};

use crate::protocol::Failure;

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::run_of;
use super::kind::RequestKind;
use super::members::Author;
use super::rules::{HttpMethod, Role, Rules};

/// Change a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BudgetRequest {
    /// The run's name or number; the whole ledger by default.
    #[serde(default)]
    pub run: Option<String>,
    /// The change: a part that is not named does not change.
    pub change: BudgetChange,
    /// The author, for the record.
    pub by: Author,
}

/// A change of a budget. The parts are `money_micros`, `tokens`, `attempts` and `wall_seconds`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BudgetChange {
    /// Use the limits of the plan.
    AsPlanned,
    /// Set these parts; null for no limit.
    Set(BTreeMap<String, Option<u64>>),
    /// Raise these parts by these amounts.
    Raise(BTreeMap<String, u64>),
}

/// The budget of a run or of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct BudgetAnswer {
    /// The run; null for the ledger.
    pub run: Option<String>,
    /// The limits; null for no limit.
    pub limits: Limits,
    /// The cost so far.
    pub spent: Cost,
    /// The part of it that is estimated.
    pub estimated: Cost,
    /// The cost that is reserved for attempts in flight.
    pub reserved: Cost,
    /// The attempts so far.
    pub attempts: u64,
    /// Whether the run is paused.
    pub is_paused: bool,
}

impl RequestKind for BudgetRequest {
    const RULES: Rules = Rules::of(Role::Operator)
        .of_person()
        .at(HttpMethod::Patch, "/v1/runs/{run}/budget")
        .of_control();

    type Answer = BudgetAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<BudgetAnswer, Failure> {
        let make = |state: &State| {
            let run = self.run.as_ref().map(|name| run_of(state, name)).transpose()?;
            let limits = match run {
                Some(run) => run.limits(),
                None => state.account.limits.unwrap_or_default(),
            };
            let limits = changed(limits, &self.change)?;
            Ok(Command::SetBudget { run: run.map(|run| run.id), limits, by: self.by.to_string() })
        };
        context.execute(&make, |state, _| {
            let run = self.run.as_ref().map(|name| run_of(state, name)).transpose()?;
            let (account, limits) = match run {
                Some(run) => (run.account, run.limits()),
                None => (state.account, state.account.limits.unwrap_or_default()),
            };
            Ok(BudgetAnswer {
                run: run.map(|run| run.name.clone()),
                limits,
                spent: account.spent,
                estimated: account.estimated,
                reserved: account.reserved,
                attempts: account.attempts,
                is_paused: run.is_some_and(|run| run.pause.is_some()),
            })
        })?
    }
}

/// The limits after a change.
pub(super) fn changed(limits: Limits, change: &BudgetChange) -> Result<Option<Limits>, Failure> {
    let mut limits = limits;
    match change {
        BudgetChange::AsPlanned => return Ok(None),
        BudgetChange::Set(parts) => {
            for (part, limit) in parts {
                *part_of(&mut limits, part)? = *limit;
            }
        }
        BudgetChange::Raise(parts) => {
            for (part, by) in parts {
                let limit = part_of(&mut limits, part)?
                    .as_mut()
                    .ok_or_else(|| {
                        let (word, amount) = words_of(part);
                        Failure::Rejected(format!(
                            "there is no limit on {word} to raise\nhint: set one with `--{amount}`, without \
                             `raise`"
                        ))
                    })?;
                *limit = limit.saturating_add(*by);
            }
        }
    }
    Ok(Some(limits))
}

fn part_of<'a>(limits: &'a mut Limits, part: &str) -> Result<&'a mut Option<u64>, Failure> {
    match part {
        "money_micros" => Ok(&mut limits.money_micros),
        "tokens" => Ok(&mut limits.tokens),
        "attempts" => Ok(&mut limits.attempts),
        "wall_seconds" => Ok(&mut limits.wall_seconds),
        _ => Err(Failure::Usage(format!(
            "unknown budget part `{part}`; expected one of: money_micros, tokens, attempts, \
             wall_seconds"
        ))),
    }
}

/// A part of a budget, and the option that sets it, for people.
fn words_of(part: &str) -> (&str, &str) {
    match part {
        "money_micros" => ("money", "money 2.00"),
        "wall_seconds" => ("wall time", "wall 8h"),
        "attempts" => (part, "attempts 10"),
        _ => (part, "tokens 50000"),
    }
}

impl AnswerLine for BudgetAnswer {
    const WORD: &'static str = "budget";
}

impl fmt::Display for BudgetAnswer {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The command prints the whole budget, as it does without a change.
        Ok(())
    }
}
