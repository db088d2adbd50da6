//! Routes: the steps that a worker takes, by their owners and tags.
//!
//! A step with an owner is for workers of that role; a step without one is for every worker. The
//! owners `human` and `human:NAME` are people: only a claim that names such an owner takes their
//! steps. Tags narrow the choice further. A plan may name a second owner, whose workers take the steps of
//! an owner while a usage limit holds them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::fields::is_default;
use crate::plan::value::ids::StepNumber;

/// The owner of the steps of any person; `human:NAME` is the owner of those of one person.
const PERSON: &str = "human";

/// Whether an owner is a person.
#[must_use]
pub fn is_person(owner: &str) -> bool {
    owner.strip_prefix(PERSON).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// The settings of an owner in a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct OwnerSettings {
    /// The action at a usage limit.
    #[serde(skip_serializing_if = "is_default")]
    pub limit: OwnerLimit,
}

/// The action when the workers of an owner meet a usage limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct OwnerLimit {
    /// The second owner: its workers take the steps until the limit ends.
    #[serde(skip_serializing_if = "is_default")]
    pub then: Option<String>,
}

/// The settings of the owners of a plan.
pub type OwnersOfPlan = BTreeMap<String, OwnerSettings>;

/// The workers that take a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker<'a> {
    /// Those of its owner.
    Own,
    /// Those of a second owner: its own one is at a usage limit.
    Second(&'a str),
}

/// The steps that a worker takes. The default is all steps but those of people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Route {
    /// Only the steps of these owners and, for agents, those without an owner; empty: of all owners
    /// but people.
    pub owners: BTreeSet<String>,
    /// Only steps with one of these tags; empty: all.
    pub tags: BTreeSet<String>,
    /// For stub workers, which do nothing: also the steps of people, and no cost is reserved.
    pub is_stub: bool,
    /// No steps of these owners, and with `None` no steps without one: they wait.
    pub held: BTreeSet<Option<String>>,
    /// Those of the held owners that are at a usage limit.
    pub limited: BTreeSet<String>,
    /// The owners that may be second owners: there are workers for them.
    pub seconds: BTreeSet<String>,
    /// Steps that are taken only if the same owner has no other ready step: they met a limit, which
    /// may be their own.
    pub last: BTreeSet<StepNumber>,
}

impl Route {
    /// The route of a worker that takes the steps of these owners and with these tags.
    #[must_use]
    pub fn of(owners: &[String], tags: &[String]) -> Self {
        let set = |names: &[String]| names.iter().cloned().collect();
        Self { owners: set(owners), tags: set(tags), ..Self::default() }
    }

    /// Whether the worker takes the steps of this owner.
    #[must_use]
    pub fn admits_owner(&self, owner: Option<&str>) -> bool {
        !self.holds(owner) && self.is_for(owner)
    }

    /// The workers that take the steps of this owner now, if there are any. While a limit holds the
    /// owner, these are the workers of its first second owner that is not held and has workers.
    #[must_use]
    pub fn taker<'a>(&self, owner: Option<&str>, owners: &'a OwnersOfPlan) -> Option<Taker<'a>> {
        if !self.is_for(owner) {
            return None;
        }
        if !self.holds(owner) {
            return Some(Taker::Own);
        }
        let mut settings = owners.get(owner.filter(|owner| self.limited.contains(*owner))?)?;
        // A valid plan has no cycle.
        for _ in owners {
            let second = settings.limit.then.as_deref()?;
            let is_usable = self.seconds.contains(second);
            if is_usable && !self.holds(Some(second)) {
                return Some(Taker::Second(second));
            }
            if is_usable && !self.limited.contains(second) {
                return None;
            }
            settings = owners.get(second)?;
        }
        None
    }

    fn holds(&self, owner: Option<&str>) -> bool {
        self.held.iter().any(|held| held.as_deref() == owner)
    }

    /// Whether the worker takes the steps of this owner unless they are held.
    fn is_for(&self, owner: Option<&str>) -> bool {
        match owner {
            Some(owner) if self.owners.contains(owner) => true,
            Some(owner) if is_person(owner) => self.is_stub || mutant!(PersonStepRouted),
            Some(_) => self.owners.is_empty(),
            None => self.owners.is_empty() || self.owners.iter().any(|owner| !is_person(owner)),
        }
    }

    /// Whether the worker takes steps with these tags.
    #[must_use]
    pub fn admits_tags(&self, tags: &BTreeSet<String>) -> bool {
        self.tags.is_empty() || !self.tags.is_disjoint(tags)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: people and roles get their own steps only.

    use super::*;

    fn route(owners: &[&str]) -> Route {
        Route::of(&owners.iter().map(|&owner| owner.to_owned()).collect::<Vec<_>>(), &[])
    }

    #[test]
    fn owners_select_their_steps_and_those_of_no_owner() {
        let owned = |route: &Route| {
            [None, Some("dba"), Some("ops"), Some("human"), Some("human:ana"), Some("humanist")]
                .map(|owner| route.admits_owner(owner))
        };
        assert_eq!(owned(&Route::default()), [true, true, true, false, false, true]);
        assert_eq!(owned(&route(&["dba"])), [true, true, false, false, false, false]);
        assert_eq!(owned(&route(&["human"])), [false, false, false, true, false, false]);
        assert_eq!(owned(&route(&["human:ana"])), [false, false, false, false, true, false]);
        assert_eq!(owned(&route(&["dba", "human"])), [true, true, false, true, false, false]);
        let all = Route { is_stub: true, ..Route::default() };
        assert_eq!(owned(&all), [true; 6]);
    }

    #[test]
    fn steps_of_an_owner_at_a_limit_go_to_its_second_owner() {
        let then =
            |second: &str| OwnerSettings { limit: OwnerLimit { then: Some(second.to_owned()) } };
        let owners = OwnersOfPlan::from([
            ("claude".to_owned(), then("codex")),
            ("codex".to_owned(), then("gemini")),
            ("gemini".to_owned(), OwnerSettings::default()),
        ]);
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let taker = |held: &[&str], limited: &[&str], seconds: &[&str]| {
            let held = held.iter().map(|&owner| Some(owner.to_owned())).collect();
            let (limited, seconds) = (names(limited), names(seconds));
            let route = Route { held, limited, seconds, ..Route::default() };
            route.taker(Some("claude"), &owners)
        };
        let all = ["codex", "gemini"];
        assert_eq!(taker(&[], &[], &all), Some(Taker::Own));
        assert_eq!(taker(&["claude"], &["claude"], &all), Some(Taker::Second("codex")));
        // The owner is held for another reason, or the second owner has no worker.
        assert_eq!(taker(&["claude"], &[], &all), None);
        assert_eq!(taker(&["claude"], &["claude"], &[]), None);
        assert_eq!(taker(&["claude"], &["claude"], &["gemini"]), Some(Taker::Second("gemini")));
        let both = ["claude", "codex"];
        assert_eq!(taker(&both, &both, &all), Some(Taker::Second("gemini")));
        assert_eq!(taker(&both, &["claude"], &all), None);
        // A route for other owners takes no step of this owner.
        let held = [Some("claude".to_owned())].into();
        let (limited, seconds) = (names(&["claude"]), names(&all));
        let other = Route { held, limited, seconds, ..route(&["codex"]) };
        assert_eq!(other.taker(Some("claude"), &owners), None);
        assert_eq!(other.taker(None, &owners), Some(Taker::Own));
    }

    #[test]
    fn tags_select_steps_with_one_of_them() {
        let tags = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let held = BTreeSet::from([None, Some("claude".to_owned())]);
        let others = Route { held, ..Route::default() };
        let admits = [None, Some("claude"), Some("codex")].map(|owner| others.admits_owner(owner));
        assert_eq!(admits, [false, false, true]);
        let gpu = Route { tags: tags(&["gpu", "tpu"]), ..Route::default() };
        assert!(gpu.admits_tags(&tags(&["big", "tpu"])) && !gpu.admits_tags(&tags(&["big"])));
        assert!(!gpu.admits_tags(&tags(&[])) && Route::default().admits_tags(&tags(&[])));
    }
}
