//! The cost of each step and each owner of a run, the most expensive first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plan_ledger::internals::ledger::StepCost;
use plan_ledger::plan::Account;
use plan_ledger::{Cost, Run, RunId, StepNumber, StepState};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::layout::{Document, Paint, Table};
use crate::words::{cost_text, step_name, step_title};

/// The cost of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StepCostLine<'a> {
    /// The number of its attempts in the records of the log.
    attempts: u64,
    /// The part of `spent` that no receipt confirmed.
    estimated: Cost,
    /// Its id.
    id: Option<&'a str>,
    /// Its owner.
    owner: Option<&'a str>,
    /// The run.
    run: RunId,
    /// The cost of its attempts.
    spent: Cost,
    /// Its number.
    step: StepNumber,
    /// Its number and id.
    #[serde(skip)]
    name: String,
    /// Its title or goal.
    #[serde(skip)]
    title: String,
}

impl StepCostLine<'_> {
    fn cost(&self) -> StepCost {
        StepCost { attempts: self.attempts, spent: self.spent, estimated: self.estimated }
    }
}

/// The cost of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunCostLine {
    /// The number of its attempts.
    attempts: u64,
    /// The part of `spent` that no receipt confirmed.
    estimated: Cost,
    /// The amount reserved for attempts in flight.
    reserved: Cost,
    /// The run.
    run: RunId,
    /// The cost of its attempts.
    spent: Cost,
}

/// The cost of a run and of its steps.
#[derive(Debug)]
pub struct Costs<'a> {
    /// The steps that cost something, the most expensive first.
    pub steps: Vec<StepCostLine<'a>>,
    /// The run.
    pub whole: RunCostLine,
}

impl<'a> Costs<'a> {
    /// The costs of the steps of a run.
    #[must_use]
    pub fn of(run: &'a Run, costs: impl IntoIterator<Item = (StepNumber, StepCost)>) -> Self {
        let mut rows: Vec<(StepNumber, StepCost)> = costs.into_iter().collect();
        rows.retain(|(_, cost)| cost.attempts > 0 || cost.spent != Cost::default());
        rows.sort_by_key(|(number, cost)| {
            let Cost { money_micros, tokens } = cost.spent;
            (Reverse((money_micros, tokens, cost.attempts)), *number)
        });
        let line = |(number, cost): (StepNumber, StepCost)| {
            let StepCost { attempts, spent, estimated } = cost;
            let step = run.step(number);
            StepCostLine {
                attempts,
                estimated,
                id: step.map(StepState::id),
                name: step_name(run, number),
                owner: step.and_then(|step| step.owner()),
                run: run.id,
                spent,
                step: number,
                title: step_title(run, number),
            }
        };
        let Account { limits: _, spent, estimated, reserved, attempts } = *run.account();
        let whole = RunCostLine { attempts, estimated, reserved, run: run.id, spent };
        Self { steps: rows.into_iter().map(line).collect(), whole }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let mut document = Document::default();
        let mut table = Table::with_headings(&["step", "attempts", "cost", "estimated", "title"]);
        for line in &self.steps {
            table.row(cells(&line.name, &line.cost(), &line.title));
        }
        let RunCostLine { attempts, spent, estimated, .. } = self.whole;
        table.row(cells("all", &StepCost { attempts, spent, estimated }, ""));
        document.table(2, table);
        let owners = self.owners();
        if owners.len() > 1 {
            document.gap();
            let mut table = Table::with_headings(&["owner", "attempts", "cost", "estimated", ""]);
            for (owner, cost) in owners {
                table.row(cells(if owner.is_empty() { "(none)" } else { owner }, &cost, ""));
            }
            document.table(2, table);
        }
        document
    }

    /// The cost of the steps of each owner.
    fn owners(&self) -> BTreeMap<&str, StepCost> {
        let mut owners: BTreeMap<&str, StepCost> = BTreeMap::new();
        for line in &self.steps {
            let sum = owners.entry(line.owner.unwrap_or_default()).or_default();
            *sum = sum.plus(&line.cost());
        }
        owners
    }
}

fn cells(name: &str, cost: &StepCost, title: &str) -> [(Paint, String); 5] {
    let text = |cost: Cost| match cost {
        Cost { money_micros: 0, tokens: 0 } => "-".to_owned(),
        some => cost_text(some),
    };
    [
        (Paint::Heading, name.to_owned()),
        (Paint::None, cost.attempts.to_string()),
        (Paint::None, text(cost.spent)),
        (Paint::None, text(cost.estimated)),
        (Paint::Faint, title.to_owned()),
    ]
}
