//! The table of events: the definition from which their enums, record kinds, codec, JSON, schema and
//! page follow.
//!
//! A new event is a struct and a line here; then `apply` folds it, and the compiler names the other
//! places. A line has the number on disk, the name in JSON and texts, the variant and its payload.
//! For events of runs and of the ledger, the codec and the stream follow: the stream of the run, or
//! none for events of the ledger. `format/events.md` specifies numbers and payloads.

#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "all events of these modules are in the table")
)]

use serde::Serialize;

use super::plan_event::*;
use super::question::{QuestionAnswer, QuestionBody, QuestionExpiry};
use super::run_event::*;
use super::step_event::*;
use crate::plan::value::ids::{RunId, StepNumber};

/// Passes the table of events to a macro.
macro_rules! with_events {
    ($callback:ident) => {
        $callback! {
            ledger {
                /// A run was started.
                1 run_started RunStarted(RunStarted) Bincode run;
                /// A plan version was proposed. Its steps follow in the same batch.
                2 plan_proposed PlanProposed(PlanProposed) Json run;
                /// Steps of the version proposed in the same batch, in plan order.
                3 plan_steps PlanSteps(PlanSteps) Json run;
                /// A proposed version was approved or rejected.
                4 plan_reviewed PlanReviewed(PlanReviewed) Bincode run;
                /// A version became the active one.
                5 plan_activated PlanActivated(PlanActivated) Bincode run;
                /// A criterion of the whole plan was judged.
                6 plan_verdict PlanVerdict(PlanVerdict) Bincode run;
                /// A variable was set.
                7 variable_set VariableSet(VariableSet) Bincode run;
                /// A barrier was released or broken.
                8 barrier_changed BarrierChanged(BarrierChanged) Bincode run;
                /// A cap was set or removed.
                9 cap_changed CapChanged(CapChanged) Bincode ledger;
                /// A run ended.
                10 run_ended RunEnded(RunEnded) Bincode run;
                /// A failed run was reopened.
                11 run_reopened RunReopened(RunReopened) Bincode run;
                /// A run was paused.
                12 run_paused RunPaused(RunPaused) Bincode run;
                /// A run was unpaused.
                13 run_resumed RunResumed(RunResumed) Bincode run;
                /// A budget was set.
                14 budget_changed BudgetChanged(BudgetChanged) Bincode run;
                /// A question about a run was asked.
                15 question_asked QuestionAsked(QuestionAsked) Bincode run;
                /// A question about a run was answered.
                16 question_answered QuestionAnswered(QuestionAnswered) Bincode run;
                /// A question about a run timed out.
                17 question_expired QuestionExpired(QuestionExpired) Bincode run;
                /// A new plan version was requested.
                18 replan_requested ReplanRequested(ReplanRequested) Bincode run;
                /// A replan request was withdrawn.
                19 replan_withdrawn ReplanWithdrawn(ReplanWithdrawn) Bincode run;
                /// A run was started as a copy of another run.
                20 run_forked RunForked(RunForked) Bincode run;
                /// The initial status of steps of a forked run.
                21 steps_inherited StepsInherited(StepsInherited) Bincode run;
                /// The failure settings of a run were set.
                22 failure_settings_changed FailureSettingsChanged(FailureSettingsChanged) Bincode run;
                /// A planner, judge or decider of a run ended; its cost counts in the budget.
                23 helper_ended HelperEnded(HelperEnded) Bincode run;
            }
            step {
                /// Dispatched to a worker. The sequence number of the record is the token of the attempt.
                32 dispatched Dispatched(Dispatched);
                /// The worker renewed its lease.
                33 lease_renewed LeaseRenewed(LeaseRenewed);
                /// The attempt was lost: it will never return a receipt.
                34 attempt_lost AttemptLost(AttemptLost);
                /// The worker returned a receipt.
                35 receipt_recorded ReceiptRecorded(ReceiptRecorded);
                /// A receipt came too late and was refused.
                36 receipt_refused ReceiptRefused(ReceiptRefused);
                /// A criterion of the step was judged.
                37 verdict_recorded VerdictRecorded(VerdictRecorded);
                /// The step was accepted.
                38 accepted Accepted(Accepted);
                /// An attempt failed, and this is the decision about it.
                39 failure_decided FailureDecided(FailureDecided);
                /// The step was skipped.
                40 skipped Skipped(Skipped);
                /// The failed step was reopened.
                41 reopened Reopened(Reopened);
                /// The unknown outcome of an attempt was resolved.
                42 outcome_resolved OutcomeResolved(OutcomeResolved);
                /// Its condition, or one of its preconditions, was evaluated.
                43 condition_judged ConditionJudged(ConditionJudged);
                /// The delay before the next attempt elapsed.
                44 delay_elapsed DelayElapsed(DelayElapsed);
                /// A question about the step was asked.
                45 step_asked StepAsked(QuestionBody);
                /// A question about the step was answered.
                46 step_answered StepAnswered(QuestionAnswer);
                /// A question about the step timed out.
                47 step_question_expired StepQuestionExpired(QuestionExpiry);
                /// The worker announced a side effect.
                48 effect_intended EffectIntended(EffectIntended);
                /// The worker confirmed a side effect.
                49 effect_committed EffectCommitted(EffectCommitted);
                /// The cost of an attempt was corrected.
                50 cost_corrected CostCorrected(CostCorrected);
                /// The step failed without an attempt.
                51 step_failed StepFailed(StepFailed);
            }
        }
    };
}
pub(crate) use with_events;

macro_rules! define_events {
    (
        ledger { $(
            $(#[$doc:meta])* $number:literal $name:ident $variant:ident($payload:ty)
            $codec:ident $stream:ident;
        )* }
        step { $(
            $(#[$step_doc:meta])* $step_number:literal $step_name:ident
            $step_variant:ident($step_payload:ty);
        )* }
    ) => {
        /// One event of the ledger. Its JSON form has the fields of the event.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Event {
            $($(#[$doc])* $variant($payload),)*
            /// An event of one step.
            Step(StepRecord),
        }

        /// An event of one step.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum StepEvent {
            $($(#[$step_doc])* $step_variant($step_payload),)*
        }

        impl Event {
            /// The run that the event belongs to; `None` for events of the whole ledger.
            #[must_use]
            pub fn run(&self) -> Option<RunId> {
                match self {
                    $(Self::$variant(event) => run_of!($stream event),)*
                    Self::Step(event) => Some(event.run),
                }
            }

            /// The JSON Schema of each event, by the name of its kind.
            #[cfg(feature = "schema")]
            #[must_use]
            pub fn schemas(
                generator: &mut schemars::SchemaGenerator,
            ) -> Vec<(&'static str, schemars::Schema)> {
                use schemars::JsonSchema;
                vec![
                    $((stringify!($name), <$payload>::json_schema(generator)),)*
                    $((
                        stringify!($step_name),
                        StepRecord::<$step_payload>::json_schema(generator),
                    ),)*
                ]
            }
        }
    };
}

macro_rules! run_of {
    (run $event:ident) => {
        $event.run.into()
    };
    (ledger $event:ident) => {{
        let _ = $event;
        None
    }};
}

with_events!(define_events);

/// An event of one step, with its place in the history of the step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepRecord<E = StepEvent> {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepNumber,
    /// Sequence number of the previous event of the step; 0 for the first.
    pub previous: u64,
    /// The event.
    #[serde(flatten)]
    pub event: E,
}

impl Event {
    /// An event of a step. `execute` fills in `previous`.
    pub(crate) fn step(run: RunId, step: StepNumber, event: StepEvent) -> Self {
        Self::Step(StepRecord { run, step, previous: 0, event })
    }
}
