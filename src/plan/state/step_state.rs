//! The state of one step: status, counters, everything but dependencies that blocks it (`Hold`),
//! and its current attempt.
//!
//! Most steps are waiting or accepted, so data that only some steps have is in a separate
//! allocation.

use std::collections::{BTreeMap, BTreeSet};

use ecow::EcoString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::event::question::QuestionId;
use crate::plan::event::receipt::Receipt;
use crate::plan::event::step_event::{AcceptedBasis, Ruling, Verdict};
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::Cost;
use crate::plan::model::step::FailureClass;
use crate::plan::value::ids::{AttemptToken, StepNumber, Timestamp, WorkerProcess};
use crate::plan::value::rare_field::{RareField, StaticDefault};
use crate::plan::value::text::Text;
use crate::plan::value::token::SecretHash;

/// The state of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepState {
    id: EcoString,
    /// Status of the step.
    pub status: StepStatus,
    /// Sequence number of the last event of the step; 0 before the first.
    pub last_seq: u64,
    /// Number of attempts so far.
    pub attempts: u32,
    /// Number of failures since it was last reopened or invalidated.
    pub failures: u32,
    /// Number of unmet dependencies: steps that are neither accepted nor skipped, barriers that are
    /// not released, and unknown names.
    pub unmet: u32,
    /// Whether its fallback was used.
    pub has_fallen_back: bool,
    frequent_basis: FrequentBasis,
    detail: RareField<StepDetail>,
}

/// The part of a step that most steps do not need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StepDetail {
    pub(crate) priority: i32,
    pub(crate) owner: Option<EcoString>,
    pub(crate) tags: RareField<BTreeSet<String>>,
    pub(crate) hold: RareField<Hold>,
    pub(crate) attempt: Option<Box<Attempt>>,
    pub(crate) last_failure: Option<Box<(FailureClass, Text)>>,
    pub(crate) failed_criteria: RareField<Vec<Verdict>>,
    /// The reason for the acceptance, if it is not in `FrequentBasis`.
    basis: Option<Box<AcceptedBasis>>,
}

/// The frequent reasons of acceptance, stored without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrequentBasis {
    /// Not accepted, or the reason is in the detail.
    Other,
    Receipt,
    Verdicts,
    WorkersWord,
}

impl StaticDefault for StepDetail {
    const STATIC_DEFAULT: &'static Self = &Self {
        priority: 0,
        owner: None,
        tags: RareField::NONE,
        hold: RareField::NONE,
        attempt: None,
        last_failure: None,
        failed_criteria: RareField::NONE,
        basis: None,
    };
}

impl StepState {
    pub(crate) fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            status: StepStatus::Waiting,
            last_seq: 0,
            attempts: 0,
            failures: 0,
            unmet: 0,
            has_fallen_back: false,
            frequent_basis: FrequentBasis::Other,
            detail: RareField::NONE,
        }
    }

    /// Id of the step in the plan.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its owner, after the plan's defaults and fallbacks.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.detail.owner.as_deref()
    }

    /// The owner of the worker that does the attempt: the step's own owner, or the second owner.
    #[must_use]
    pub fn owner_at_work(&self) -> Option<&str> {
        self.attempt().and_then(|attempt| attempt.second_owner.as_deref()).or(self.owner())
    }

    /// Its tags in the active version.
    #[must_use]
    pub fn tags(&self) -> &BTreeSet<String> {
        &self.detail.tags
    }

    /// Its priority in the active version.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.detail.priority
    }

    /// Everything that blocks the step, except dependencies.
    #[doc(hidden)]
    #[must_use]
    pub fn hold(&self) -> &Hold {
        &self.detail.hold
    }

    /// Whether only its dependencies decide whether the step can be dispatched: it has no attempt,
    /// no answer, and no part in a fallback.
    pub(crate) fn waits_for_dependencies(&self) -> bool {
        let hold = self.hold();
        let is_fallback = hold.is_standby || hold.fallback_step.is_some();
        self.attempt().is_none() && !is_fallback && hold.answer.is_none()
    }

    /// Copies the fields of the plan that are read often. Most steps have none of them.
    pub(crate) fn set_plan_fields(
        &mut self,
        (priority, owner): (i32, Option<&str>),
        tags: BTreeSet<String>,
    ) {
        if self.detail.is_default() && priority == 0 && owner.is_none() && tags.is_empty() {
            return;
        }
        self.change(|detail| {
            detail.priority = priority;
            detail.tags = tags.into();
            detail.owner = owner.map(Into::into);
        });
    }

    /// The current attempt: in flight, reported, of unknown outcome, or subject of a question.
    #[must_use]
    pub fn attempt(&self) -> Option<&Attempt> {
        self.detail.attempt.as_deref()
    }

    /// Why it was accepted.
    #[must_use]
    pub fn accepted(&self) -> Option<&AcceptedBasis> {
        match self.frequent_basis {
            FrequentBasis::Other => self.detail.basis.as_deref(),
            FrequentBasis::Receipt => Some(&AcceptedBasis::Receipt),
            FrequentBasis::Verdicts => Some(&AcceptedBasis::Verdicts),
            FrequentBasis::WorkersWord => Some(&AcceptedBasis::WorkersWord),
        }
    }

    /// Class and message of the last failure, until the step is accepted.
    #[must_use]
    pub fn last_failure(&self) -> Option<&(FailureClass, Text)> {
        self.detail.last_failure.as_deref()
    }

    /// The failed criteria of the last attempt, until the step is accepted.
    #[must_use]
    pub fn failed_criteria(&self) -> &[Verdict] {
        &self.detail.failed_criteria
    }

    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut StepDetail) -> T) -> T {
        self.detail.change(change)
    }

    /// Changes the hold of the step.
    pub(crate) fn change_hold(&mut self, change: impl FnOnce(&mut Hold)) {
        self.change(|detail| detail.hold.change(change));
    }

    /// Changes the current attempt, if there is one.
    pub(crate) fn change_attempt<T>(
        &mut self,
        change: impl FnOnce(&mut Attempt) -> T,
    ) -> Option<T> {
        self.attempt()?;
        self.change(|detail| detail.attempt.as_deref_mut().map(change))
    }

    /// Removes the current attempt.
    pub(crate) fn take_attempt(&mut self) -> Option<Box<Attempt>> {
        self.attempt()?;
        self.change(|detail| detail.attempt.take())
    }

    /// Sets or clears the reason of its acceptance.
    pub(crate) fn accept(&mut self, basis: Option<AcceptedBasis>) {
        let (frequent_basis, basis) = match basis {
            Some(AcceptedBasis::Receipt) => (FrequentBasis::Receipt, None),
            Some(AcceptedBasis::Verdicts) => (FrequentBasis::Verdicts, None),
            Some(AcceptedBasis::WorkersWord) => (FrequentBasis::WorkersWord, None),
            other => (FrequentBasis::Other, other),
        };
        self.frequent_basis = frequent_basis;
        if basis.as_ref() != self.detail.basis.as_deref() {
            self.change(|detail| detail.basis = basis.map(Box::new));
        }
    }
}

/// The fields of a step in the order of snapshots and hashes.
#[derive(Serialize)]
struct StepFields<'a> {
    id: &'a str,
    owner: Option<&'a str>,
    tags: &'a BTreeSet<String>,
    priority: i32,
    status: StepStatus,
    last_seq: u64,
    attempts: u32,
    failures: u32,
    unmet: u32,
    hold: &'a Hold,
    attempt: Option<&'a Attempt>,
    accepted: Option<&'a AcceptedBasis>,
    last_failure: Option<&'a (FailureClass, Text)>,
    failed_criteria: &'a [Verdict],
    has_fallen_back: bool,
}

/// The same fields, for decoding.
#[derive(Deserialize)]
struct OwnedStepFields {
    id: EcoString,
    owner: Option<EcoString>,
    tags: RareField<BTreeSet<String>>,
    priority: i32,
    status: StepStatus,
    last_seq: u64,
    attempts: u32,
    failures: u32,
    unmet: u32,
    hold: RareField<Hold>,
    attempt: Option<Box<Attempt>>,
    accepted: Option<AcceptedBasis>,
    last_failure: Option<Box<(FailureClass, Text)>>,
    failed_criteria: RareField<Vec<Verdict>>,
    has_fallen_back: bool,
}

impl Serialize for StepState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = StepFields {
            id: &self.id,
            owner: self.owner(),
            tags: self.tags(),
            priority: self.priority(),
            status: self.status,
            last_seq: self.last_seq,
            attempts: self.attempts,
            failures: self.failures,
            unmet: self.unmet,
            hold: self.hold(),
            attempt: self.attempt(),
            accepted: self.accepted(),
            last_failure: self.last_failure(),
            failed_criteria: self.failed_criteria(),
            has_fallen_back: self.has_fallen_back,
        };
        fields.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StepState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = OwnedStepFields::deserialize(deserializer)?;
        let OwnedStepFields {
            priority,
            owner,
            tags,
            hold,
            attempt,
            last_failure,
            failed_criteria,
            ..
        } = fields;
        let detail = StepDetail {
            priority,
            owner,
            tags,
            hold,
            attempt,
            last_failure,
            failed_criteria,
            basis: None,
        };
        let mut step = Self {
            id: fields.id,
            status: fields.status,
            last_seq: fields.last_seq,
            attempts: fields.attempts,
            failures: fields.failures,
            unmet: fields.unmet,
            has_fallen_back: fields.has_fallen_back,
            frequent_basis: FrequentBasis::Other,
            detail: detail.into(),
        };
        step.accept(fields.accepted);
        Ok(step)
    }
}

/// Everything that blocks a step, except dependencies: conditions, gate, questions, delays and
/// fallbacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The result of its condition, once evaluated.
    pub condition: Option<Ruling>,
    /// Results of the preconditions that were evaluated since their variables last changed.
    pub preconditions: BTreeMap<u32, Ruling>,
    /// Whether its gate was approved.
    pub is_gate_open: bool,
    /// The open question about it, if any.
    pub question: Option<QuestionId>,
    /// The answer to the question about its failure, and its author, until the answer is applied.
    pub answer: Option<(String, String)>,
    /// End of the delay after a failure.
    pub delay: Option<Timestamp>,
    /// The fallback step that it waits for.
    pub fallback_step: Option<StepNumber>,
    /// Whether it is a fallback step that is not in use yet and therefore not dispatched.
    pub is_standby: bool,
}

impl StaticDefault for Hold {
    const STATIC_DEFAULT: &'static Self = &Self {
        condition: None,
        preconditions: BTreeMap::new(),
        is_gate_open: false,
        question: None,
        answer: None,
        delay: None,
        fallback_step: None,
        is_standby: false,
    };
}

/// The current attempt of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Token of the attempt.
    pub token: AttemptToken,
    /// The worker.
    pub worker: String,
    /// When it was dispatched.
    pub dispatched: Timestamp,
    /// End of the lease.
    pub lease_until: Timestamp,
    /// Reserved cost, until the receipt.
    pub reserved: Cost,
    /// The receipt.
    pub receipt: Option<Receipt>,
    /// Verdicts so far, by criterion.
    pub verdicts: BTreeMap<u32, Verdict>,
    /// Keys of its side effects.
    pub effects: BTreeSet<String>,
    /// Hash of the secret of its token.
    pub secret_hash: SecretHash,
    /// The process of the worker, if the attempt ends with it.
    pub process: Option<WorkerProcess>,
    /// The second owner whose worker does the attempt; `None` for a worker of the step's own owner.
    pub second_owner: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new field costs memory for each step of each run.
    #[test]
    fn idle_step_takes_48_bytes() {
        assert_eq!(size_of::<StepState>(), 48);
        let mut step = StepState::new("a");
        step.change(|detail| detail.priority = 7);
        assert_ne!(step, StepState::new("a"));
        step.change(|detail| detail.priority = 0);
        assert_eq!(step.detail, RareField::NONE);
        for basis in [AcceptedBasis::Receipt, AcceptedBasis::Verdicts, AcceptedBasis::WorkersWord] {
            step.accept(Some(basis.clone()));
            assert_eq!((step.accepted(), &step.detail), (Some(&basis), &RareField::NONE));
        }
        let landed = AcceptedBasis::Landed { by: "ana".to_owned() };
        step.accept(Some(landed.clone()));
        assert_eq!(step.accepted(), Some(&landed));
        step.accept(None);
        assert_eq!(step, StepState::new("a"));
    }
}
