//! Caps that are reached, and budgets that do not cover another attempt.

use std::collections::BTreeSet;

use super::context::{Context, active_attempt};
use super::reason::{BlockReason, BlockingAttempt, BudgetShortage};
use crate::plan::decide::dispatch::reservation;
use crate::plan::event::run_event::CapScope;
use crate::plan::model::budget::{BudgetPart, Cost, Limits};
use crate::plan::state::account::Account;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::StepState;
use crate::plan::value::ids::{RunId, StepNumber};

/// The caps and budgets that block a step.
pub(super) fn reached(context: &Context<'_>, number: StepNumber) -> Vec<BlockReason> {
    let Some(step) = context.run.step(number) else { return Vec::new() };
    let mut reasons = caps(context, step);
    reasons.extend(budgets(context, context.run.plan_step(number)));
    reasons
}

/// A cap: its scope, the run that it is limited to, its limit, and the current count.
type Count = (CapScope, Option<RunId>, Option<u32>, u32);

fn caps(context: &Context<'_>, step: &StepState) -> Vec<BlockReason> {
    let (state, run) = (context.state, context.run);
    let planned = run.plan().map(|plan| &plan.header().caps);
    let in_ledger = |scope: &CapScope| state.caps.get(scope).copied();
    let all = u32::try_from(state.in_flight.len()).unwrap_or(u32::MAX);
    let of_run = CapScope::Run { run: run.id };
    let run_limit = planned.and_then(|caps| caps.run).into_iter().chain(in_ledger(&of_run)).min();
    let mut counts: Vec<Count> = vec![
        (CapScope::Ledger, None, in_ledger(&CapScope::Ledger), all),
        (of_run, Some(run.id), run_limit, run.in_flight),
    ];
    let found = |count: Option<&u32>| count.copied().unwrap_or(0);
    if let Some(owner) = step.owner() {
        let scope = CapScope::Owner { owner: owner.to_owned() };
        let (everywhere, here) = (&state.in_flight_by_owner, &run.in_flight_by_owner);
        let limit = planned.and_then(|caps| caps.owners.get(owner)).copied();
        counts.push((scope.clone(), None, in_ledger(&scope), found(everywhere.get(owner))));
        counts.push((scope, Some(run.id), limit, found(here.get(owner))));
    }
    for tag in step.tags() {
        let scope = CapScope::Tag { tag: tag.clone() };
        let (everywhere, here) = (&state.in_flight_by_tag, &run.in_flight_by_tag);
        let limit = planned.and_then(|caps| caps.tags.get(tag)).copied();
        counts.push((scope.clone(), None, in_ledger(&scope), found(everywhere.get(tag))));
        counts.push((scope, Some(run.id), limit, found(here.get(tag))));
    }
    let full = counts.into_iter().filter_map(|(scope, within, limit, count)| {
        let limit = limit.filter(|limit| count >= *limit)?;
        let attempts = attempts(context, &scope, within);
        Some(BlockReason::Cap { scope, within, limit, attempts })
    });
    full.collect()
}

/// The attempts that count against a cap.
fn attempts(
    context: &Context<'_>,
    scope: &CapScope,
    within: Option<RunId>,
) -> Vec<BlockingAttempt> {
    let counts = |run: &Run, number: StepNumber| {
        let Some(step) = run.step(number) else { return false };
        let is_there = within.is_none_or(|within| within == run.id);
        is_there
            && match scope {
                CapScope::Ledger => true,
                CapScope::Run { run: id } => *id == run.id,
                CapScope::Owner { owner } => step.owner_at_work() == Some(owner),
                CapScope::Tag { tag } => step.tags().contains(tag),
            }
    };
    let in_flight: BTreeSet<_> = context.state.in_flight.values().copied().collect();
    let held = in_flight.into_iter().filter_map(|(run, number)| {
        let run = context.state.runs.get(&run)?;
        counts(run, number).then(|| active_attempt(run, number)).flatten()
    });
    held.collect()
}

fn budgets(context: &Context<'_>, step: Option<CompactStep<'_>>) -> Vec<BlockReason> {
    let (state, run) = (context.state, context.run);
    let cost = step.map(reservation).unwrap_or_default();
    let mut reasons = Vec::new();
    let limits = run.limits();
    if let (Some(until), Some(limit)) = (limits.until(run.started), limits.wall_seconds)
        && context.now >= until
    {
        let spent = context.now.saturating_sub(run.started) / 1_000_000;
        let (run, part) = (Some(run.id), BudgetPart::Wall);
        let shortage = BudgetShortage { run, part, spent, reserved: 0, needed: 0, limit };
        reasons.push(BlockReason::Budget { shortage });
    }
    let of_ledger = state.account.limits.unwrap_or_default();
    let books = [(Some(run.id), &run.account, limits), (None, &state.account, of_ledger)];
    for (run, account, limits) in books {
        reasons.extend(
            shortages(run, account, &limits, cost).map(|shortage| BlockReason::Budget { shortage }),
        );
    }
    reasons
}

fn shortages(
    run: Option<RunId>,
    account: &Account,
    limits: &Limits,
    cost: Cost,
) -> impl Iterator<Item = BudgetShortage> {
    let Account { spent, reserved, attempts, .. } = *account;
    let parts = [
        (BudgetPart::Attempts, limits.attempts, attempts, 0, 1),
        (
            BudgetPart::Money,
            limits.money_micros,
            spent.money_micros,
            reserved.money_micros,
            cost.money_micros,
        ),
        (BudgetPart::Tokens, limits.tokens, spent.tokens, reserved.tokens, cost.tokens),
    ];
    parts.into_iter().filter_map(move |(part, limit, spent, reserved, needed)| {
        // An attempt without an estimate needs at least 1 to be left.
        let all = spent.saturating_add(needed.saturating_add(reserved).max(1));
        let limit = limit.filter(|limit| all > *limit)?;
        Some(BudgetShortage { run, part, spent, reserved, needed, limit })
    })
}
