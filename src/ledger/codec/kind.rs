//! The kinds of records, by number and by name.
//!
//! Invariant: a number is never reused with another meaning.

use crate::plan::{Event, StepEvent};

macro_rules! kinds {
    ($($name:ident = $number:literal $text:literal;)*) => {
        /// The kind of a record. The numbers are on disk.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is the event of the same name")]
        pub enum Kind { $($name),* }

        impl Kind {
            /// All kinds, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The number on disk.
            #[must_use]
            pub fn number(self) -> u16 {
                match self { $(Self::$name => $number),* }
            }

            /// The kind with that number.
            #[must_use]
            pub fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its name in texts and JSON.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

kinds! {
    RunStarted = 1 "run_started";
    PlanProposed = 2 "plan_proposed";
    PlanSteps = 3 "plan_steps";
    PlanReviewed = 4 "plan_reviewed";
    PlanActivated = 5 "plan_activated";
    PlanVerdict = 6 "plan_verdict";
    VariableSet = 7 "variable_set";
    BarrierChanged = 8 "barrier_changed";
    CapChanged = 9 "cap_changed";
    RunEnded = 10 "run_ended";
    RunReopened = 11 "run_reopened";
    RunPaused = 12 "run_paused";
    RunResumed = 13 "run_resumed";
    BudgetChanged = 14 "budget_changed";
    QuestionAsked = 15 "question_asked";
    QuestionAnswered = 16 "question_answered";
    QuestionExpired = 17 "question_expired";
    ReplanRequested = 18 "replan_requested";
    ReplanWithdrawn = 19 "replan_withdrawn";
    RunForked = 20 "run_forked";
    StepsInherited = 21 "steps_inherited";
    Dispatched = 32 "dispatched";
    LeaseRenewed = 33 "lease_renewed";
    AttemptLost = 34 "attempt_lost";
    ReceiptRecorded = 35 "receipt_recorded";
    ReceiptRefused = 36 "receipt_refused";
    VerdictRecorded = 37 "verdict_recorded";
    Accepted = 38 "accepted";
    FailureDecided = 39 "failure_decided";
    Skipped = 40 "skipped";
    Reopened = 41 "reopened";
    OutcomeResolved = 42 "outcome_resolved";
    ConditionJudged = 43 "condition_judged";
    DelayElapsed = 44 "delay_elapsed";
    StepAsked = 45 "step_asked";
    StepAnswered = 46 "step_answered";
    StepQuestionExpired = 47 "step_question_expired";
    EffectIntended = 48 "effect_intended";
    EffectCommitted = 49 "effect_committed";
    CostCorrected = 50 "cost_corrected";
    StepFailed = 51 "step_failed";
    RecoveryNote = 0x8001 "recovery_note";
    RetentionNote = 0x8002 "retention_note";
    BatchKey = 0x8003 "batch_key";
    SnapshotNote = 0x8004 "snapshot_note";
    Gap = 0x8005 "gap";
    Note = 0x8006 "note";
}

impl Kind {
    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The kind of an event's record.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        match event {
            Event::RunStarted(_) => Self::RunStarted,
            Event::PlanProposed(_) => Self::PlanProposed,
            Event::PlanSteps(_) => Self::PlanSteps,
            Event::PlanReviewed(_) => Self::PlanReviewed,
            Event::PlanActivated(_) => Self::PlanActivated,
            Event::PlanVerdict(_) => Self::PlanVerdict,
            Event::VariableSet(_) => Self::VariableSet,
            Event::Barrier(_) => Self::BarrierChanged,
            Event::CapChanged(_) => Self::CapChanged,
            Event::RunEnded(_) => Self::RunEnded,
            Event::RunReopened(_) => Self::RunReopened,
            Event::RunPaused(_) => Self::RunPaused,
            Event::RunResumed(_) => Self::RunResumed,
            Event::BudgetChanged(_) => Self::BudgetChanged,
            Event::QuestionAsked(_) => Self::QuestionAsked,
            Event::QuestionAnswered(_) => Self::QuestionAnswered,
            Event::QuestionExpired(_) => Self::QuestionExpired,
            Event::ReplanRequested(_) => Self::ReplanRequested,
            Event::ReplanWithdrawn(_) => Self::ReplanWithdrawn,
            Event::RunForked(_) => Self::RunForked,
            Event::StepsInherited(_) => Self::StepsInherited,
            Event::Step(record) => match &record.event {
                StepEvent::Dispatched(_) => Self::Dispatched,
                StepEvent::LeaseRenewed(_) => Self::LeaseRenewed,
                StepEvent::AttemptLost(_) => Self::AttemptLost,
                StepEvent::ReceiptRecorded(_) => Self::ReceiptRecorded,
                StepEvent::ReceiptRefused(_) => Self::ReceiptRefused,
                StepEvent::VerdictRecorded(_) => Self::VerdictRecorded,
                StepEvent::Accepted(_) => Self::Accepted,
                StepEvent::FailureDecided(_) => Self::FailureDecided,
                StepEvent::Skipped(_) => Self::Skipped,
                StepEvent::Reopened(_) => Self::Reopened,
                StepEvent::OutcomeResolved(_) => Self::OutcomeResolved,
                StepEvent::ConditionJudged(_) => Self::ConditionJudged,
                StepEvent::DelayElapsed(_) => Self::DelayElapsed,
                StepEvent::Asked(_) => Self::StepAsked,
                StepEvent::Answered(_) => Self::StepAnswered,
                StepEvent::Expired(_) => Self::StepQuestionExpired,
                StepEvent::EffectIntended(_) => Self::EffectIntended,
                StepEvent::EffectCommitted(_) => Self::EffectCommitted,
                StepEvent::CostCorrected(_) => Self::CostCorrected,
                StepEvent::Failed(_) => Self::StepFailed,
            },
        }
    }
}
