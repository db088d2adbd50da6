//! One step, as the state holds it.
//!
//! The invariants are those of [`crate::plan::State`].

use std::collections::{BTreeMap, BTreeSet};

use ecow::EcoString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::event::question::QuestionId;
use crate::plan::event::receipt::Receipt;
use crate::plan::event::step_event::{AcceptedBasis, Ruling, Verdict};
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::budget::Cost;
use crate::plan::model::step::FailureClass;
use crate::plan::value::ids::{AttemptToken, Micros, StepNumber};
use crate::plan::value::rare_field::{Blank, Seldom};

/// One step of a run. What most steps do not have takes next to no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepState {
    id: EcoString,
    /// How it stands.
    pub status: StepStatus,
    /// Sequence number of its last event; 0 before the first.
    pub last_seq: u64,
    /// How many attempts it had.
    pub attempts: u32,
    /// How many of them failed since it was last reopened or invalidated.
    pub failures: u32,
    /// Dependencies that are not settled yet.
    pub unmet: u32,
    /// Whether its fallback was used.
    pub has_fallen_back: bool,
    grounds: Grounds,
    detail: Seldom<StepDetail>,
}

/// What a step has while somebody is at it, or when something happened to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StepDetail {
    pub(crate) priority: i32,
    pub(crate) owner: Option<EcoString>,
    pub(crate) tags: Seldom<BTreeSet<String>>,
    pub(crate) hold: Seldom<Hold>,
    pub(crate) attempt: Option<Box<Attempt>>,
    pub(crate) last_failure: Option<Box<(FailureClass, String)>>,
    pub(crate) failed_criteria: Seldom<Vec<Verdict>>,
    /// On what grounds it was accepted, where a word does not say it.
    basis: Option<Box<AcceptedBasis>>,
}

/// On what grounds a step was accepted, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grounds {
    /// It is not accepted, or they stand in the detail.
    Elsewhere,
    Receipt,
    Verdicts,
    WorkersWord,
}

impl Blank for StepDetail {
    const BLANK: &'static Self = &Self {
        priority: 0,
        owner: None,
        tags: Seldom::NONE,
        hold: Seldom::NONE,
        attempt: None,
        last_failure: None,
        failed_criteria: Seldom::NONE,
        basis: None,
    };
}

impl StepState {
    /// A step to which nothing has happened.
    pub(crate) fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            status: StepStatus::Waiting,
            last_seq: 0,
            attempts: 0,
            failures: 0,
            unmet: 0,
            has_fallen_back: false,
            grounds: Grounds::Elsewhere,
            detail: Seldom::NONE,
        }
    }

    /// Its author's name for it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its owner, after the plan's defaults and fallbacks.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.detail.owner.as_deref()
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

    /// What else keeps it from being dealt.
    #[must_use]
    pub fn hold(&self) -> &Hold {
        &self.detail.hold
    }

    /// The attempt that is in flight, reported, in doubt, or asked about.
    #[must_use]
    pub fn attempt(&self) -> Option<&Attempt> {
        self.detail.attempt.as_deref()
    }

    /// On what grounds it was accepted.
    #[must_use]
    pub fn accepted(&self) -> Option<&AcceptedBasis> {
        match self.grounds {
            Grounds::Elsewhere => self.detail.basis.as_deref(),
            Grounds::Receipt => Some(&AcceptedBasis::Receipt),
            Grounds::Verdicts => Some(&AcceptedBasis::Verdicts),
            Grounds::WorkersWord => Some(&AcceptedBasis::WorkersWord),
        }
    }

    /// Class and message of its last failure, until it is accepted.
    #[must_use]
    pub fn last_failure(&self) -> Option<&(FailureClass, String)> {
        self.detail.last_failure.as_deref()
    }

    /// The verdicts against its last attempt, until it is accepted.
    #[must_use]
    pub fn failed_criteria(&self) -> &[Verdict] {
        &self.detail.failed_criteria
    }

    /// Changes what it seldom has.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut StepDetail) -> T) -> T {
        self.detail.change(change)
    }

    /// Changes what keeps it from being dealt.
    pub(crate) fn change_hold(&mut self, change: impl FnOnce(&mut Hold)) {
        self.change(|detail| detail.hold.change(change));
    }

    /// Changes its attempt, if it has one.
    pub(crate) fn change_attempt<T>(
        &mut self,
        change: impl FnOnce(&mut Attempt) -> T,
    ) -> Option<T> {
        self.attempt()?;
        self.change(|detail| detail.attempt.as_deref_mut().map(change))
    }

    /// Lets go of its attempt.
    pub(crate) fn take_attempt(&mut self) -> Option<Box<Attempt>> {
        self.attempt()?;
        self.change(|detail| detail.attempt.take())
    }

    /// Says on what grounds it is accepted, or that it is not.
    pub(crate) fn accept(&mut self, basis: Option<AcceptedBasis>) {
        let (grounds, basis) = match basis {
            Some(AcceptedBasis::Receipt) => (Grounds::Receipt, None),
            Some(AcceptedBasis::Verdicts) => (Grounds::Verdicts, None),
            Some(AcceptedBasis::WorkersWord) => (Grounds::WorkersWord, None),
            other => (Grounds::Elsewhere, other),
        };
        self.grounds = grounds;
        if basis.as_ref() != self.detail.basis.as_deref() {
            self.change(|detail| detail.basis = basis.map(Box::new));
        }
    }
}

/// The fields of a step in snapshots and hashes, in their order.
#[derive(Serialize)]
struct Row<'a> {
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
    last_failure: Option<&'a (FailureClass, String)>,
    failed_criteria: &'a [Verdict],
    has_fallen_back: bool,
}

/// The same, as they are read.
#[derive(Deserialize)]
struct OwnedRow {
    id: EcoString,
    owner: Option<EcoString>,
    tags: Seldom<BTreeSet<String>>,
    priority: i32,
    status: StepStatus,
    last_seq: u64,
    attempts: u32,
    failures: u32,
    unmet: u32,
    hold: Seldom<Hold>,
    attempt: Option<Box<Attempt>>,
    accepted: Option<AcceptedBasis>,
    last_failure: Option<Box<(FailureClass, String)>>,
    failed_criteria: Seldom<Vec<Verdict>>,
    has_fallen_back: bool,
}

impl Serialize for StepState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = Row {
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
        row.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for StepState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let row = OwnedRow::deserialize(deserializer)?;
        let OwnedRow {
            priority, owner, tags, hold, attempt, last_failure, failed_criteria, ..
        } = row;
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
            id: row.id,
            status: row.status,
            last_seq: row.last_seq,
            attempts: row.attempts,
            failures: row.failures,
            unmet: row.unmet,
            has_fallen_back: row.has_fallen_back,
            grounds: Grounds::Elsewhere,
            detail: detail.into(),
        };
        step.accept(row.accepted);
        Ok(step)
    }
}

/// What keeps a step from being dealt, once all that it depends on is settled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Whether its condition holds, once it was judged.
    pub condition: Option<Ruling>,
    /// Whether its preconditions hold, those that were judged since a variable that they name was
    /// last set.
    pub preconditions: BTreeMap<u32, Ruling>,
    /// Whether its gate was opened.
    pub is_gate_open: bool,
    /// The open question about it.
    pub question: Option<QuestionId>,
    /// What was answered about its failure, and by whom, until that is done.
    pub answer: Option<(String, String)>,
    /// Until when it waits after a failure.
    pub delay: Option<Micros>,
    /// The step that stands in for it.
    pub stand_in: Option<StepNumber>,
    /// Whether it is only there to stand in for another, and has not been called.
    pub is_on_call: bool,
}

impl Blank for Hold {
    const BLANK: &'static Self = &Self {
        condition: None,
        preconditions: BTreeMap::new(),
        is_gate_open: false,
        question: None,
        answer: None,
        delay: None,
        stand_in: None,
        is_on_call: false,
    };
}

/// The current attempt of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The right to report on it.
    pub token: AttemptToken,
    /// Who has it.
    pub worker: String,
    /// When it was dealt.
    pub dispatched: Micros,
    /// Until when it is theirs.
    pub lease_until: Micros,
    /// What it may cost, until the receipt says what it did.
    pub reserved: Cost,
    /// What the worker returned, until it is judged.
    pub receipt: Option<Receipt>,
    /// Verdicts on it so far, by criterion.
    pub verdicts: BTreeMap<u32, Verdict>,
    /// The keys of what it meant to do to the world, or did.
    pub effects: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: whoever adds to a step sees what it costs each step of each run.
    #[test]
    fn a_step_to_which_nothing_happened_is_small() {
        assert_eq!(size_of::<StepState>(), 48);
        let mut step = StepState::new("a");
        step.change(|detail| detail.priority = 7);
        assert_ne!(step, StepState::new("a"));
        step.change(|detail| detail.priority = 0);
        assert_eq!(step.detail, Seldom::NONE);
        for basis in [AcceptedBasis::Receipt, AcceptedBasis::Verdicts, AcceptedBasis::WorkersWord] {
            step.accept(Some(basis.clone()));
            assert_eq!((step.accepted(), &step.detail), (Some(&basis), &Seldom::NONE));
        }
        let landed = AcceptedBasis::Landed { by: "ana".to_owned() };
        step.accept(Some(landed.clone()));
        assert_eq!(step.accepted(), Some(&landed));
        step.accept(None);
        assert_eq!(step, StepState::new("a"));
    }
}
