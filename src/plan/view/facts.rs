//! What views of other packages ask of a state and of a run: they know no collection of it.

use std::collections::BTreeMap;

use crate::plan::event::question::{Question, QuestionId};
use crate::plan::event::run_event::CapScope;
use crate::plan::event::step_event::Verdict;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::step::FailureClass;
use crate::plan::state::State;
use crate::plan::state::account::Account;
use crate::plan::state::barrier_state::BarrierState;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::overview::RunSummary;
use crate::plan::state::run::{PlanVersion, ReplanRequest, Run, RunStatus, Timer, Variable};
use crate::plan::state::step_state::StepState;
use crate::plan::value::ids::{AttemptToken, Micros, RunId, StepNumber, Timestamp};

use super::execution::{Remaining, elapsed};

#[doc(hidden)]
impl BarrierState {
    /// The members that have not arrived.
    pub fn missing(&self) -> impl Iterator<Item = StepNumber> {
        self.members.difference(&self.arrived).copied()
    }
}

#[doc(hidden)]
impl State {
    /// The run and the step of an attempt in flight.
    #[must_use]
    pub fn attempt_in_flight(&self, token: AttemptToken) -> Option<(RunId, StepNumber)> {
        self.in_flight.get(&token).copied()
    }

    /// The summaries of the runs that ended earlier and are no longer complete.
    #[must_use]
    pub fn ended_runs(&self) -> impl ExactSizeIterator<Item = (RunId, &RunSummary)> {
        self.summaries.iter().map(|(id, summary)| (*id, summary))
    }

    /// The summary of such a run.
    #[must_use]
    pub fn ended_run(&self, run: RunId) -> Option<&RunSummary> {
        self.summaries.get(&run)
    }

    /// The number of attempts in flight.
    #[must_use]
    pub fn attempts_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The budget of the whole ledger, and what is used of it.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The caps of the whole ledger.
    pub fn ledger_caps(&self) -> impl Iterator<Item = (&CapScope, u32)> {
        self.caps.iter().map(|(scope, limit)| (scope, *limit))
    }

    /// The first and the last record of each range that was lost before the ledger was salvaged.
    #[must_use]
    pub fn lost_ranges(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.lost.iter().map(|(first, last)| (*first, *last))
    }

    /// The steps of a run that are in flight, in the order of their dispatch.
    pub fn steps_in_flight(&self, run: RunId) -> impl Iterator<Item = StepNumber> {
        let of_run = self.in_flight.values().filter(move |(of, _)| *of == run);
        of_run.map(|(_, number)| *number)
    }
}

#[doc(hidden)]
impl Run {
    /// Whether more steps will follow those of the active version.
    #[must_use]
    pub fn continues(&self) -> bool {
        let is_open = !matches!(self.status, RunStatus::Ended(_));
        is_open && self.plan().is_some_and(|plan| plan.header().continues)
    }

    /// When the first delay ends, and the step that is delayed.
    #[must_use]
    pub fn first_delay(&self) -> Option<(Timestamp, StepNumber)> {
        self.timers.iter().find_map(|(until, timer)| match timer {
            Timer::Delay(number) => Some((*until, *number)),
            _ => None,
        })
    }

    /// The time of the next timer.
    #[must_use]
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// All steps, also those that later versions removed, by their number.
    pub fn numbered_steps(&self) -> impl Iterator<Item = (StepNumber, &StepState)> {
        (1..).map(StepNumber).zip(&self.steps)
    }

    /// The steps with a status.
    pub fn steps_in(&self, status: StepStatus) -> impl Iterator<Item = StepNumber> {
        let steps = self.numbered_steps().filter(move |(_, step)| step.status == status);
        steps.map(|(number, _)| number)
    }

    /// The steps that are ready, by the owner of their lane.
    pub fn ready_by_owner(&self) -> impl Iterator<Item = (Option<&str>, StepNumber)> {
        self.lanes.iter().flat_map(|((owner, _), queue)| {
            queue.iter().map(move |(_, number)| (owner.as_deref(), *number))
        })
    }

    /// The steps that workers reported and that have no result yet.
    pub fn reported_steps(&self) -> impl Iterator<Item = StepNumber> {
        self.reported.iter().copied()
    }

    /// The steps of which a lost attempt may have done the work.
    pub fn steps_of_unknown_outcome(&self) -> impl Iterator<Item = StepNumber> {
        self.outcome_unknown.iter().copied()
    }

    /// The questions that wait for an answer.
    pub fn asked_questions(&self) -> impl Iterator<Item = (QuestionId, &Question)> {
        self.questions.iter().map(|(id, question)| (*id, question))
    }

    /// The open question with that id.
    #[must_use]
    pub fn question(&self, id: QuestionId) -> Option<&Question> {
        self.questions.get(&id)
    }

    /// The barriers of the active version, by their ids.
    #[must_use]
    pub fn named_barriers(&self) -> impl ExactSizeIterator<Item = (&str, &BarrierState)> {
        self.barriers.iter().map(|(id, barrier)| (id.as_str(), barrier))
    }

    /// The barrier of the active version with that id.
    #[must_use]
    pub fn barrier(&self, id: &str) -> Option<&BarrierState> {
        self.barriers.get(id)
    }

    /// The variables, by their names.
    #[must_use]
    pub fn named_variables(&self) -> impl ExactSizeIterator<Item = (&str, &Variable)> {
        self.variables.iter().map(|(name, variable)| (name.as_str(), variable))
    }

    /// The variable with that name.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name)
    }

    /// The number of attempts in flight.
    #[must_use]
    pub fn attempts_in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The number of steps of the active version with each status.
    #[must_use]
    pub fn step_counts(&self) -> &BTreeMap<StepStatus, u32> {
        &self.counts
    }

    /// Its budget, and what is used of it.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// When it ended.
    #[must_use]
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.end_record.map(|(_, time)| time)
    }

    /// Microseconds from its start to its end, or to that time.
    #[must_use]
    pub fn elapsed(&self, now: Timestamp) -> Micros {
        elapsed(self, now)
    }

    /// The rest of its budget at that time.
    #[must_use]
    pub fn remaining(&self, now: Timestamp) -> Remaining {
        Remaining::of(&self.account, &self.limits(), self.elapsed(now))
    }

    /// The newest failure that no later attempt has repaired, and its step.
    #[must_use]
    pub fn newest_failure(&self) -> Option<(StepNumber, FailureClass, &str)> {
        let failed = self.numbered_steps().filter(|(_, step)| step.last_failure().is_some());
        let (number, step) = failed.max_by_key(|(_, step)| step.last_seq)?;
        let (class, message) = step.last_failure()?;
        Some((number, *class, message))
    }

    /// How many attempts the retry policy of a step allows: its own, that of the plan, or the default.
    #[must_use]
    pub fn attempts_allowed(&self, number: StepNumber) -> u32 {
        let own = self.plan_step(number).and_then(CompactStep::retry);
        let of_plan = || self.plan().and_then(|plan| plan.header().defaults.retry.clone());
        own.or_else(of_plan).unwrap_or_default().max_attempts
    }

    /// The request for a new version of the plan.
    #[must_use]
    pub fn plan_request(&self) -> Option<&ReplanRequest> {
        self.request.as_ref()
    }

    /// The versions of the plan, by their number.
    #[must_use]
    pub fn numbered_versions(
        &self,
    ) -> impl DoubleEndedIterator<Item = (u32, &PlanVersion)> + ExactSizeIterator {
        let number = |place: usize| u32::try_from(place + 1).unwrap_or(u32::MAX);
        self.versions.iter().enumerate().map(move |(place, version)| (number(place), version))
    }

    /// The version of the plan with that number.
    #[must_use]
    pub fn version(&self, number: u32) -> Option<&PlanVersion> {
        self.versions.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// The verdict on a criterion of the plan, counted from 0.
    #[must_use]
    pub fn plan_verdict(&self, criterion: u32) -> Option<&Verdict> {
        self.plan_verdicts.get(&criterion)
    }

    /// The verdicts on the criteria of the plan.
    pub fn verdicts_on_plan(&self) -> impl Iterator<Item = &Verdict> {
        self.plan_verdicts.values()
    }
}
