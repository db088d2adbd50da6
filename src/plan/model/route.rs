//! Routes: which steps a worker takes, by their owners and tags.
//!
//! A step with an owner is for workers of that role; a step without one is for every worker. The
//! owners `human` and `human:NAME` are people: only a claim that names such an owner takes their
//! steps. Tags narrow the choice further.

use std::collections::BTreeSet;

/// The owner of the steps of any person; `human:NAME` is the owner of those of one person.
pub const PERSON: &str = "human";

/// Whether an owner is a person.
#[must_use]
pub fn is_person(owner: &str) -> bool {
    owner.strip_prefix(PERSON).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Which steps a worker takes. The default: all but those of people.
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
        if self.held.iter().any(|held| held.as_deref() == owner) {
            return false;
        }
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
