//! Changes the budget of a run or of the ledger.

use std::collections::BTreeMap;
use std::fmt;

use clap::{ArgMatches, Args, FromArgMatches};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::{Command, Cost, Limits, State};

use crate::protocol::{Failure, parse_money, parse_seconds};

use super::answer_line::AnswerLine;
use super::context::RequestContext;
use super::find::run_of;
use super::kind::RequestKind;
use super::members::Author;
use super::rules::{HttpMethod, Role, Rules};

/// Change a budget.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BudgetRequest {
    /// The run's name or number; the whole ledger by default.
    // The command shows the budget of the same run.
    #[arg(skip)]
    #[serde(default)]
    pub run: Option<String>,
    /// The change: a part that is not named does not change.
    #[command(flatten)]
    pub change: BudgetChange,
    /// The author, for the record.
    #[command(flatten)]
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

/// Parts of a budget, as options.
#[derive(Debug, Args)]
pub(crate) struct BudgetParts {
    /// Money in total: 3.00 or $3.00; with `raise`, more money
    #[arg(long, value_name = "MONEY|none", value_parser = parse_money_limit)]
    money: Option<Amount>,
    /// Tokens in total; with `raise`, more tokens
    #[arg(long, value_name = "N|none", value_parser = parse_amount)]
    tokens: Option<Amount>,
    /// Attempts in total; with `raise`, more attempts
    #[arg(long, value_name = "N|none", value_parser = parse_amount)]
    attempts: Option<Amount>,
    /// Wall time from the run's start: `90m`, `8h`, or seconds; with `raise`, more time
    #[arg(long, value_name = "DURATION|none", value_parser = parse_wall_limit)]
    wall: Option<Amount>,
}

/// The options of a change: the limits, or those of the plan.
#[derive(Debug, Args)]
struct ChangeOptions {
    #[command(flatten)]
    parts: BudgetParts,
    /// Restore the limits of the plan
    #[arg(long, conflicts_with_all = ["money", "tokens", "attempts", "wall"])]
    as_planned: bool,
}

impl FromArgMatches for BudgetChange {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let ChangeOptions { parts, as_planned } = ChangeOptions::from_arg_matches(matches)?;
        Ok(if as_planned { Self::AsPlanned } else { Self::Set(parts.parts().collect()) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for BudgetChange {
    fn augment_args(command: clap::Command) -> clap::Command {
        ChangeOptions::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl BudgetChange {
    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Set(parts) if parts.is_empty())
    }

    /// Whether it names amounts.
    pub(crate) fn has_amounts(&self) -> bool {
        matches!(self, Self::Set(parts) if !parts.is_empty())
    }

    /// The change that raises the limits by the amounts that this one sets.
    ///
    /// # Errors
    /// `Usage` for `none`.
    pub(crate) fn raising(self) -> Result<Self, Failure> {
        match self {
            Self::Set(parts) => amounts(parts.into_iter()).map(Self::Raise),
            change => Ok(change),
        }
    }
}

/// The amounts to raise limits by.
fn amounts(
    parts: impl Iterator<Item = (String, Option<u64>)>,
) -> Result<BTreeMap<String, u64>, Failure> {
    let amount = |(part, by): (String, Option<u64>)| match by {
        Some(by) => Ok((part, by)),
        None => {
            let message = format!("{part}: expected a number to raise by, found `none`");
            Err(Failure::Usage(message))
        }
    };
    parts.map(amount).collect()
}

/// A limit, or `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amount(Option<u64>);

/// `none`, or an amount in the form that `parse` reads.
fn limit(text: &str, parse: fn(&str) -> Result<u64, String>) -> Result<Amount, String> {
    if text == "none" { Ok(Amount(None)) } else { parse(text).map(|limit| Amount(Some(limit))) }
}

fn parse_amount(text: &str) -> Result<Amount, String> {
    limit(text, |text| text.parse().map_err(|_| "expected a whole number, or `none`".to_owned()))
}

fn parse_money_limit(text: &str) -> Result<Amount, String> {
    limit(text, parse_money)
}

fn parse_wall_limit(text: &str) -> Result<Amount, String> {
    limit(text, parse_seconds)
}

impl BudgetParts {
    /// Whether no part is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts().next().is_none()
    }

    /// The limits that are named, by their JSON names.
    fn parts(&self) -> impl Iterator<Item = (String, Option<u64>)> {
        let parts = [
            ("money_micros", self.money),
            ("tokens", self.tokens),
            ("attempts", self.attempts),
            ("wall_seconds", self.wall),
        ];
        parts.into_iter().filter_map(|(part, amount)| Some((part.to_owned(), amount?.0)))
    }

    /// The amounts to raise limits by.
    ///
    /// # Errors
    /// `Usage` for `none`.
    pub(crate) fn amounts(&self) -> Result<BTreeMap<String, u64>, Failure> {
        amounts(self.parts())
    }
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
