//! Guards of `ledger run` and `ledger work`: reasons to dispatch nothing more, or nothing for some time, before every
//! step has failed.
//!
//! - If a worker meets a usage limit, or reports when to try again, the steps of its owner are held until then. Then
//!   one step is dispatched as a probe, if possible one that did not meet the limit. If the probe does not meet the
//!   limit, the other steps follow. At a limit that does not end by itself, the run asks a person about the step, and
//!   its owner is held until the answer.
//! - Workers that fail at once, several in a row and at several steps, hold the steps of their owner, too,
//!   each time longer, and at last pause the run: a wrong option would otherwise use up the attempts of every step
//!   within seconds.
//! - While the disk is nearly full, no step is dispatched.
//! - Most of a budget being spent is reported once, and so is an overrun.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rustix::fs::statvfs;
use rustix::process::geteuid;

use plan_ledger::plan::{BudgetPart, Micros, Route, Taker, UsageLimit};
use plan_ledger::{
    Clock, Limits, Outcome, Receipt, Run, RunStatus, StepNumber, StepStatus, Timestamp,
};

use crate::protocol::BudgetUse;
use crate::protocol::hand_off::describe;
use crate::runner::waits::hold::{Hold, Now};
use crate::runner::waits::holds::{Holds, LimitsOfStep, OwnerHold};
use crate::runner::waits::hours::Hours;
use crate::runner::waits::mark::{resets_at, set_wait, unmark};
use crate::runner::waits::wall_now;

/// A worker that fails sooner than this has failed at once.
const AT_ONCE: Micros = 5_000_000;

/// The number of steps at which workers must fail at once before the run is paused. With a single step, the step itself
/// may be the cause.
const STEPS_MIN: usize = 2;

/// This many failures of a step in a row count as usage limits while other steps of its owner succeed; later ones count
/// as failures.
const LIMITS_MAX: u32 = 3;

/// A hold that ends this much later than a reported one is also reported.
const REPORTED: Micros = 60_000_000;

/// By how much the end of a limit by the wall clock is earlier if the clock was set, at least.
const EARLY_MIN: Micros = 2_000_000;

/// The share of a budget that is reported when it is spent, in percent.
const BUDGET_SHARE: u64 = 80;

/// A disk with less room than this, in bytes, is nearly full.
const FREE_MIN: u64 = 64 << 20;

/// Only a disk of this size, in bytes, is compared with [`FREE_MIN`].
const DISK_MIN: u64 = 1 << 30;

/// A minute, in microseconds.
const MINUTE: Micros = 60_000_000;

/// Options of the guards.
#[derive(Debug, Clone, Copy)]
pub struct Guards {
    /// How many workers in a row may fail at once before the run is paused; 0: any number.
    pub max_quick_failures: u32,
    /// A disk with less room than this, in bytes, is nearly full; `None` is the default.
    pub free_min: Option<u64>,
    /// How long an owner is held after quick failures, and at usage limits without a time, in seconds: the first
    /// time, the second and each further one.
    pub waits: [u64; 3],
    /// When work may start; `None`: at any time.
    pub hours: Option<Hours>,
}

impl Guards {
    /// How long to wait after this many waits in a row, in seconds.
    fn wait(self, before: usize) -> u64 {
        let [.., last] = self.waits;
        self.waits.get(before).copied().unwrap_or(last)
    }

    /// No guard pauses the run.
    pub const NONE: Self =
        Self { max_quick_failures: 0, free_min: Some(0), waits: [0; 3], hours: None };
}

#[derive(Debug, Clone)]
pub(crate) struct EndedAttempt {
    pub(crate) step: String,
    pub(crate) owner: Option<String>,
    /// Whether its step has no command: other steps have the same worker.
    pub(crate) is_shared: bool,
    /// When it began.
    pub(crate) begun: Timestamp,
}

/// The consequences of a receipt for later steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// The run is paused, for this reason.
    Pause(String),
    /// The steps of an owner are held.
    Hold(HeldOwner),
}

/// An owner with held steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldOwner {
    pub(crate) owner: Option<String>,
    /// `None`: until a person answers.
    pub(crate) until: Option<Timestamp>,
    pub(crate) reason: String,
    /// Whether its workers fail, and why is not known.
    pub(crate) is_unexplained: bool,
    /// Whether it is the first owner at a usage limit.
    pub(crate) is_first_limit: bool,
}

/// The guards' record of the workers of one owner.
#[derive(Debug, Default)]
struct OwnerState {
    /// The workers in a row that failed at once, and their steps.
    quick: (u32, BTreeSet<String>),
    /// How often it was held for that in a row.
    quick_holds: usize,
    /// The usage limits without a time in a row.
    untimed: usize,
    /// The attempts that did not fail.
    successes: u64,
    hold: Option<Hold>,
}

impl OwnerState {
    /// Count an attempt that did not fail. If it was the probe of a hold, the hold ends; an attempt that began before a
    /// hold proves nothing about it.
    fn succeed(&mut self, is_probe: bool) {
        let successes = self.successes.saturating_add(1);
        if self.hold.is_none() || is_probe {
            *self = Self::default();
        }
        (self.successes, self.quick) = (successes, (0, BTreeSet::new()));
    }

    /// Count a worker that failed at once. Returns the consequence if there are many, or if the probe also failed.
    fn fail_at_once(
        &mut self,
        guards: Guards,
        (step, owner): (String, Option<String>),
        is_probe: bool,
        (first_line, now): (&str, Timestamp),
    ) -> Option<Consequence> {
        let (count, steps) = &mut self.quick;
        *count += 1;
        steps.insert(step);
        let is_many = *count >= guards.max_quick_failures && steps.len() >= STEPS_MIN;
        let is_again = is_probe && self.quick_holds > 0;
        let is_tripped = guards.max_quick_failures > 0
            && (is_many || is_again)
            && !plan_ledger::mutant!(QuickFailuresIgnored);
        if !is_tripped {
            if is_probe {
                self.hold = None;
            }
            return None;
        }
        let reason = reason_of_hold(is_again, *count, first_line);
        self.quick = (0, BTreeSet::new());
        let Some(wait) = guards.waits.get(self.quick_holds) else {
            (self.hold, self.quick_holds) = (None, 0);
            return Some(Consequence::Pause(reason));
        };
        let is_unexplained = self.quick_holds == 0;
        self.quick_holds += 1;
        let until = now.saturating_add(wait.saturating_mul(1_000_000));
        self.hold = Some(timed_hold(now, until, reason.clone()));
        let until = Some(until);
        let held = HeldOwner { owner, until, reason, is_unexplained, is_first_limit: false };
        Some(Consequence::Hold(held))
    }
}

/// The state of the guards of one loop.
#[derive(Debug, Default)]
pub(crate) struct GuardState {
    owners: BTreeMap<Option<String>, OwnerState>,
    /// By step: the failures in a row that counted as limits.
    limits: BTreeMap<String, LimitsOfStep>,
    /// By step with its own command: the usage limits without a time in a row.
    own_limits: BTreeMap<String, usize>,
    /// Whether a hold at a usage limit was reported.
    has_met_limit: bool,
    /// The parts of the budget that were reported, and whether as overrun.
    reported: Vec<(BudgetPart, bool)>,
}

impl GuardState {
    /// Continues with the holds of an earlier runner.
    pub(crate) fn continued(holds: Holds) -> Self {
        let owners = holds.owners.into_iter().map(|held| {
            let OwnerHold { owner, hold, quick_holds, untimed, second: _ } = held;
            let state =
                OwnerState { quick_holds, untimed, hold: Some(hold), ..OwnerState::default() };
            (owner, state)
        });
        let steps = holds.steps.into_iter();
        // The successes are counted anew.
        let limits = steps.map(|(step, limits)| (step, LimitsOfStep { successes: 0, ..limits }));
        Self { owners: owners.collect(), limits: limits.collect(), ..Self::default() }
    }

    /// The holds, for other processes and the next runner, with the second owner of each owner.
    pub(crate) fn holds(
        &self,
        hours: Option<Hold>,
        second_of: impl Fn(Option<&str>) -> Option<String>,
    ) -> Holds {
        let held = |(owner, state): (&Option<String>, &OwnerState)| {
            let OwnerState { quick_holds, untimed, hold, .. } = state;
            let (owner, hold) = (owner.clone(), hold.clone()?);
            let second = second_of(owner.as_deref());
            Some(OwnerHold { owner, hold, quick_holds: *quick_holds, untimed: *untimed, second })
        };
        let owners = self.owners.iter().filter_map(held).collect();
        Holds { hours, owners, steps: self.limits.clone() }
    }

    /// Evaluate a receipt before it is recorded. Returns the consequence. A step with its own command shows nothing
    /// about other steps: only its own wait follows.
    pub(crate) fn take(
        &mut self,
        guards: Guards,
        attempt: EndedAttempt,
        receipt: &mut Receipt,
        clock: &dyn Clock,
    ) -> Option<Consequence> {
        let now = now(clock);
        let EndedAttempt { step, owner, is_shared, begun } = attempt;
        if !is_shared {
            self.take_own(guards, step, &mut receipt.outcome);
            return None;
        }
        let state = self.owners.entry(owner.clone()).or_default();
        let is_probe = state.hold.as_ref().is_some_and(|hold| hold.has_probe(begun));
        if !matches!(receipt.outcome, Outcome::Failed { .. }) {
            self.limits.remove(&step);
            state.succeed(is_probe);
            return None;
        }
        let first_line = describe(&receipt.outcome).1.lines().next().unwrap_or_default().to_owned();
        if UsageLimit::of(&receipt.outcome) == Some(UsageLimit::Person) {
            let asked =
                LimitsOfStep { owner: owner.clone(), is_asked: true, ..LimitsOfStep::default() };
            self.limits.insert(step, asked);
            state.quick = (0, BTreeSet::new());
            let reason = format!("a limit that waiting does not end: {first_line}");
            let hold = Hold::until_answer(now.ledger, reason.clone());
            let earlier = state.hold.replace(hold);
            let is_first_limit = earlier.is_none_or(|hold| !hold.is_for_person);
            let held =
                HeldOwner { owner, until: None, reason, is_unexplained: false, is_first_limit };
            return is_first_limit.then_some(Consequence::Hold(held));
        }
        if matches!(UsageLimit::of(&receipt.outcome), Some(UsageLimit::Worker | UsageLimit::Output))
        {
            let (owner, successes) = (owner.clone(), state.successes);
            let first =
                || LimitsOfStep { owner: owner.clone(), successes, ..LimitsOfStep::default() };
            let limits = self.limits.entry(step.clone()).or_insert_with(first);
            if limits.owner != owner {
                // Its second owner met a limit, too, or its own owner met one again.
                *limits = first();
            }
            limits.is_own |= limits.count >= LIMITS_MAX && state.successes > limits.successes;
            if limits.is_own {
                unmark(&mut receipt.outcome);
            } else {
                limits.count += 1;
                if receipt.outcome.retry_after().is_none() {
                    let is_next = is_probe || state.hold.is_none();
                    state.untimed += usize::from(is_next);
                    set_wait(&mut receipt.outcome, guards.wait(state.untimed.saturating_sub(1)));
                }
                let wait = receipt.outcome.retry_after().unwrap_or(0);
                limits.until = now.ledger.saturating_add(wait);
            }
        }
        if let Some(wait) = receipt.outcome.retry_after() {
            state.quick = (0, BTreeSet::new());
            let until = now.ledger.saturating_add(wait);
            let is_read = UsageLimit::of(&receipt.outcome) == Some(UsageLimit::Output);
            let reason = if is_read {
                format!("a usage limit: {first_line}")
            } else {
                "a worker asked to try again at that time".to_owned()
            };
            let wall = resets_at(&receipt.outcome);
            let hold = Hold {
                until,
                wall,
                is_for_person: false,
                ..Hold::until_answer(now.ledger, reason)
            };
            let earlier = state.hold.take().filter(|_| !is_probe);
            let reported = earlier.as_ref().map(|hold| hold.end(now).saturating_add(REPORTED));
            let hold = state.hold.insert(hold.or_later(earlier, now));
            let (until, reason) = (hold.end(now), hold.reason.clone());
            let is_new = is_read && reported.is_none_or(|reported| until > reported);
            let is_first_limit = is_new && !self.has_met_limit;
            self.has_met_limit |= is_new;
            let until = Some(until);
            let held = HeldOwner { owner, until, reason, is_unexplained: false, is_first_limit };
            return is_new.then_some(Consequence::Hold(held));
        }
        if receipt.duration >= AT_ONCE {
            state.quick = (0, BTreeSet::new());
            if is_probe {
                (state.hold, state.quick_holds) = (None, 0);
            }
            return None;
        }
        state.fail_at_once(guards, (step, owner), is_probe, (&first_line, now.ledger))
    }

    /// Set the wait after a usage limit without a time, for a step with its own command.
    fn take_own(&mut self, guards: Guards, step: String, outcome: &mut Outcome) {
        if UsageLimit::of(outcome) != Some(UsageLimit::Output) {
            self.own_limits.remove(&step);
        } else if outcome.retry_after().is_none() {
            let before = self.own_limits.entry(step).or_default();
            set_wait(outcome, guards.wait(*before));
            *before += 1;
        }
    }

    /// The owners that get no step now: they are held, or their probe is at work. `running` has the
    /// owners of the attempts at work, and the start times of these.
    pub(crate) fn held_owners<'a>(
        &self,
        clock: &dyn Clock,
        running: &(impl Iterator<Item = (&'a Option<String>, Timestamp)> + Clone),
    ) -> BTreeSet<Option<String>> {
        let now = now(clock);
        let is_held = |owner: &Option<String>, hold: &Hold| {
            let mut probes = running.clone();
            !hold.is_over(now) || probes.any(|(of, begun)| of == owner && hold.has_probe(begun))
        };
        let held = self
            .owners
            .iter()
            .filter(|(owner, state)| state.hold.as_ref().is_some_and(|hold| is_held(owner, hold)));
        held.map(|(owner, _)| owner.clone()).collect()
    }

    /// Whether a limit has ended by the wall clock, but not yet in the ledger's time, because the clock was set.
    pub(crate) fn has_early_end(&self, clock: &dyn Clock) -> bool {
        let now = now(clock);
        self.owners.values().any(|state| state.hold.as_ref().is_some_and(|it| is_early(it, now)))
    }

    /// The steps that wait for such a limit.
    pub(crate) fn ended_early(&mut self, clock: &dyn Clock) -> Vec<String> {
        let now = now(clock);
        let mut steps = Vec::new();
        for (owner, state) in &mut self.owners {
            let Some(hold) = state.hold.as_mut() else { continue };
            if is_early(hold, now) {
                hold.until = now.ledger;
                let own = self.limits.iter().filter(|(_, limits)| limits.owner == *owner);
                steps.extend(own.map(|(step, _)| step.clone()));
            }
        }
        steps
    }

    /// Ends the hold of each owner that has a ready step before its limit ends: a person ended the delay of that step.
    /// A hold at a limit that does not end by itself also ends when a person has answered. The limits that the step met
    /// no longer count, and it may be the probe. Returns whether a hold ended.
    pub(crate) fn end_retried(
        &mut self,
        status_of: impl Fn(&str) -> Option<StepStatus>,
        clock: &dyn Clock,
    ) -> bool {
        let now = now(clock);
        let mut is_ended = false;
        let owners = &mut self.owners;
        self.limits.retain(|step, limits| {
            let status = status_of(step);
            let is_waiting = limits.until > now.ledger.saturating_add(EARLY_MIN);
            let is_retried = is_waiting && status == Some(StepStatus::Ready);
            if !is_retried && !limits.is_answered(status) {
                return true;
            }
            let hold = owners.get_mut(&limits.owner).and_then(|state| state.hold.as_mut());
            if let Some(hold) = hold.filter(|hold| hold.is_for_person == limits.is_asked) {
                (hold.until, hold.wall, hold.is_for_person) = (now.ledger, None, false);
                is_ended = true;
            }
            false
        });
        is_ended
    }

    /// The steps that wait for a limit, although workers of another owner can take them now.
    pub(crate) fn redirected(
        &mut self,
        run: &Run,
        route: &Route,
        clock: &dyn Clock,
    ) -> Vec<StepNumber> {
        let now = now(clock);
        let Some(plan) = run.plan() else { return Vec::new() };
        let mut steps = Vec::new();
        for (step, limits) in &mut self.limits {
            let Some(number) = step.parse().ok().map(StepNumber) else { continue };
            let Some(found) = run.step(number) else { continue };
            if limits.until <= now.ledger || found.status != StepStatus::Delayed {
                continue;
            }
            let is_free = match route.taker(found.owner(), &plan.header().owners) {
                Some(Taker::Second(_)) => true,
                Some(Taker::Own) => limits.owner.as_deref() != found.owner(),
                None => false,
            };
            if is_free && !run.has_command(number) {
                limits.until = now.ledger;
                steps.push(number);
            }
        }
        steps
    }

    /// Whether a step waits for the limit of its second owner: it may be tried when the limit of its first owner ends.
    pub(crate) fn waits_for_second(&self, run: &Run, clock: &dyn Clock) -> bool {
        let now = now(clock);
        self.limits.iter().any(|(step, limits)| {
            let number = step.parse().ok().map(StepNumber);
            let found = number.and_then(|number| run.step(number));
            limits.until > now.ledger
                && found.is_some_and(|step| step.owner() != limits.owner.as_deref())
        })
    }

    /// The steps that met the limit of an owner that is to be tried now.
    pub(crate) fn steps_at_limits(&self, clock: &dyn Clock) -> impl Iterator<Item = &str> {
        let now = now(clock);
        let is_tried = move |limits: &LimitsOfStep| {
            let hold = self.owners.get(&limits.owner).and_then(|state| state.hold.as_ref());
            hold.is_some_and(|hold| hold.is_over(now))
        };
        let met = self.limits.iter().filter(move |(_, limits)| is_tried(limits));
        met.map(|(step, _)| step.as_str())
    }

    /// The held owners that are at a usage limit.
    pub(crate) fn limited(&self, held: &BTreeSet<Option<String>>) -> BTreeSet<String> {
        let is_limited = |owner: &&Option<String>| {
            let hold = self.owners.get(*owner).and_then(|state| state.hold.as_ref());
            hold.is_some_and(|hold| hold.is_limit)
        };
        held.iter().filter(is_limited).flatten().cloned().collect()
    }

    /// The owners that are held now.
    pub(crate) fn held(&self, clock: &dyn Clock) -> BTreeSet<Option<String>> {
        self.held_owners(clock, &std::iter::empty())
    }

    /// The next time at which a hold ends, and its reason.
    pub(crate) fn next_end(&self, clock: &dyn Clock) -> Option<(Timestamp, String)> {
        let now = now(clock);
        let holds = self.current_holds(now).filter(|(_, hold)| !hold.is_for_person);
        holds.map(|(owner, hold)| (hold.end(now), reason_with_owner(owner, hold))).min()
    }

    /// Why an owner is held until a person answers, if one is.
    pub(crate) fn asked(&self, clock: &dyn Clock) -> Option<String> {
        let mut holds = self.current_holds(now(clock)).filter(|(_, hold)| hold.is_for_person);
        holds.next().map(|(owner, hold)| reason_with_owner(owner, hold))
    }

    /// Whether an owner is held.
    pub(crate) fn has_hold(&self, clock: &dyn Clock) -> bool {
        self.current_holds(now(clock)).next().is_some()
    }

    fn current_holds(&self, now: Now) -> impl Iterator<Item = (Option<&str>, &Hold)> {
        let held = self.owners.iter();
        let holds =
            held.filter_map(|(owner, state)| Some((owner.as_deref(), state.hold.as_ref()?)));
        holds.filter(move |(_, hold)| !hold.is_over(now))
    }

    /// Lets the hold of an owner that waits for an answer end by itself: the answer cannot be read. Returns when.
    pub(crate) fn end_without_answer(
        &mut self,
        owner: Option<&str>,
        guards: Guards,
        clock: &dyn Clock,
    ) -> Timestamp {
        let [.., wait] = guards.waits;
        let until = clock.now().saturating_add(wait.saturating_mul(1_000_000));
        let state = self.owners.get_mut(&owner.map(str::to_owned));
        if let Some(hold) = state.and_then(|state| state.hold.as_mut()) {
            (hold.until, hold.is_for_person) = (until, false);
        }
        until
    }

    /// The parts of a run's budget that are almost used up or overrun, and that were not reported yet.
    pub(crate) fn spent_parts(&mut self, run: &Run, clock: &dyn Clock) -> Vec<BudgetUse> {
        let Limits { money_micros, tokens, attempts, wall_seconds } = run.limits();
        let spent = run.spent();
        let wall = wall_seconds.map_or(0, |_| clock.now().saturating_sub(run.started) / 1_000_000);
        let parts = [
            (BudgetPart::Money, money_micros, spent.money_micros),
            (BudgetPart::Tokens, tokens, spent.tokens),
            (BudgetPart::Attempts, attempts, run.account.attempts),
            (BudgetPart::Wall, wall_seconds, wall),
        ];
        let used = parts.into_iter().filter_map(|(part, limit, spent)| {
            let used = BudgetUse::of(part, spent, limit?);
            let is_new = !self.reported.contains(&(part, used.is_overrun()));
            (used.percent >= BUDGET_SHARE && is_new).then_some(used)
        });
        let new: Vec<BudgetUse> = used.collect();
        self.reported.extend(new.iter().map(|used| (used.part, used.is_overrun())));
        new
    }
}

/// Why an owner is held after quick failures.
fn reason_of_hold(is_again: bool, count: u32, first_line: &str) -> String {
    let seconds = AT_ONCE / 1_000_000;
    if is_again {
        return format!("the next worker failed within {seconds} s, too: {first_line}");
    }
    format!("{count} workers in a row failed within {seconds} s, the last with: {first_line}")
}

fn reason_with_owner(owner: Option<&str>, hold: &Hold) -> String {
    match owner {
        Some(owner) => format!("{owner}: {}", hold.reason),
        None => hold.reason.clone(),
    }
}

/// A hold until a time of the ledger, for a reason other than a limit.
fn timed_hold(since: Timestamp, until: Timestamp, reason: String) -> Hold {
    Hold { since, until, wall: None, reason, is_limit: false, is_for_person: false }
}

/// The time until which no work starts because of the hours, and the reason.
pub(crate) fn closed_until(guards: Guards, clock: &dyn Clock) -> Option<(Timestamp, String)> {
    closed(guards).map(|hold| (hold.end(now(clock)), hold.reason))
}

/// The hold of all steps until the hours begin.
pub(crate) fn closed(guards: Guards) -> Option<Hold> {
    let begin = guards.hours?.next_begin(&jiff::Zoned::now())?;
    let until = Timestamp::try_from(begin.timestamp().as_microsecond()).ok()?;
    let reason = "work starts then (--hours)".to_owned();
    Some(Hold { wall: Some(until), ..timed_hold(0, until, reason) })
}

fn is_early(hold: &Hold, now: Now) -> bool {
    hold.is_over(now) && hold.until > now.ledger.saturating_add(EARLY_MIN)
}

/// The hold of all steps while the disk has no room, until the next full minute. The loop checks the room all the time;
/// the time is only for readers.
pub(crate) fn held_by_disk(reason: &str, clock: &dyn Clock) -> Hold {
    let now = clock.now();
    let until = (now / MINUTE).saturating_add(1).saturating_mul(MINUTE);
    timed_hold(now, until, reason.to_owned())
}

pub(crate) fn now(clock: &dyn Clock) -> Now {
    // In this order, a hold ends a moment later than the worker said, not earlier.
    let wall = wall_now();
    Now { ledger: clock.now(), wall }
}

/// Whether a run would dispatch a step.
pub(crate) fn would_dispatch(run: &Run) -> bool {
    run.status == RunStatus::Running && run.pause.is_none() && run.has_dispatchable()
}

/// The reason to dispatch no step: the disk of the ledger is nearly full.
pub(crate) fn disk_problem(guards: Guards, ledger: &Path) -> Option<String> {
    let disk = statvfs(ledger).ok()?;
    let free = if geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    let (free, size) =
        (free.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize));
    let min = guards.free_min.unwrap_or(if size >= DISK_MIN { FREE_MIN } else { 0 });
    let is_short = size > 0 && free < min && !plan_ledger::mutant!(NearlyFullDiskIgnored);
    is_short.then(|| {
        format!(
            "the disk of {} has only {} MB left, less than {} MB (--min-free)",
            ledger.display(),
            free / 1_000_000,
            min / 1_000_000
        )
    })
}
