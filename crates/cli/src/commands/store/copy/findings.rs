//! Reports the damage that a process found in a store.
//!
//! Invariants:
//! - An object that is damaged, repaired, lost or not compared is reported once, and again when its state changes.
//! - An object that could not be compared does not count as damaged.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plan_ledger::internals::store::{DamageState, StoreDamage};

use crate::commands::store::lines::{DamageWord, StoreDamageLine};

/// How often the store is listed, and how often the reading begins again.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// How often it is listed while something is damaged.
pub(crate) const RECHECK_EVERY: Duration = Duration::from_secs(60);

/// The known damage in a store.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    damaged: BTreeMap<String, StoreDamage>,
    uncompared: BTreeMap<String, StoreDamage>,
    news: Vec<StoreDamage>,
}

impl Findings {
    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take in everything that a check found.
    pub(crate) fn take_in(&self, damage: Vec<StoreDamage>) {
        let mut found = self.found();
        let mut before = std::mem::take(&mut found.damaged);
        let mut uncompared = std::mem::take(&mut found.uncompared);
        for damage in damage {
            let object = damage.object.clone();
            let known = before.remove(&object).or_else(|| uncompared.remove(&object));
            if known.as_ref() != Some(&damage) {
                found.news.push(damage.clone());
            }
            match damage.state {
                DamageState::Repaired => None,
                DamageState::Uncompared => found.uncompared.insert(object, damage),
                DamageState::Deletable | DamageState::Lost => found.damaged.insert(object, damage),
            };
        }
        // An object that is no longer reported is intact, or readers no longer need it.
        let whole = before.into_values();
        found
            .news
            .extend(whole.map(|damage| StoreDamage { state: DamageState::Repaired, ..damage }));
    }

    /// The number of objects that are damaged.
    pub(crate) fn count(&self) -> u64 {
        u64::try_from(self.found().damaged.len()).unwrap_or(u64::MAX)
    }

    /// Damaged objects that a restore needs.
    pub(crate) fn first(&self) -> Option<StoreDamage> {
        self.found().damaged.values().find(|damage| !damage.is_derived).cloned()
    }

    /// The new findings, as lines.
    pub(crate) fn news(&self, ack: Option<&str>, url: &str) -> Vec<StoreDamageLine> {
        let mut found = self.found();
        let damaged = u64::try_from(found.damaged.len()).unwrap_or(u64::MAX);
        let news = std::mem::take(&mut found.news);
        news.into_iter().map(|damage| line_of(damage, ack, damaged, url)).collect()
    }
}

fn line_of(damage: StoreDamage, ack: Option<&str>, damaged: u64, url: &str) -> StoreDamageLine {
    let StoreDamage { object, what, state, is_derived } = damage;
    StoreDamageLine {
        is_derived,
        ack: ack.map(str::to_owned),
        damaged,
        object,
        state: match state {
            DamageState::Repaired => DamageWord::Repaired,
            DamageState::Deletable => DamageWord::Deletable,
            DamageState::Lost => DamageWord::Lost,
            DamageState::Uncompared => DamageWord::Uncompared,
        },
        url: url.to_owned(),
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage(object: &str, state: DamageState) -> StoreDamage {
        let (object, what) = (object.to_owned(), "it is missing".to_owned());
        StoreDamage { object, what, state, is_derived: false }
    }

    /// Goal: damage is reported once, again when it changes, and when it has ended.
    #[test]
    fn damage_is_told_when_it_changes() {
        let findings = Findings::default();
        let told = || {
            let lines = findings.news(Some("store"), "s3://b/n");
            lines.into_iter().map(|line| (line.object, line.state)).collect::<Vec<_>>()
        };
        let (a, b) =
            (damage("seg/a", DamageState::Deletable), damage("tail/b", DamageState::Repaired));
        findings.take_in(vec![a.clone(), b]);
        assert_eq!(findings.count(), 1);
        let first = [("seg/a", DamageWord::Deletable), ("tail/b", DamageWord::Repaired)];
        assert_eq!(told(), first.map(|(object, state)| (object.to_owned(), state)));
        findings.take_in(vec![a.clone()]);
        assert_eq!(told(), []);
        findings.take_in(vec![damage("seg/a", DamageState::Lost)]);
        assert_eq!(told(), [("seg/a".to_owned(), DamageWord::Lost)]);
        assert_eq!(findings.first().map(|it| it.object), Some("seg/a".to_owned()));
        // Without an index or a footer a restore is whole.
        findings.take_in(vec![StoreDamage { is_derived: true, ..a }]);
        assert_eq!((findings.count(), findings.first()), (1, None));
        assert_eq!(told(), [("seg/a".to_owned(), DamageWord::Deletable)]);
        findings.take_in(Vec::new());
        assert_eq!(told(), [("seg/a".to_owned(), DamageWord::Repaired)]);
        assert_eq!((findings.count(), findings.first()), (0, None));
        // An object that the folder cannot show is reported, but does not count as damage of the store.
        for expected in [vec![("seg/a".to_owned(), DamageWord::Uncompared)], Vec::new()] {
            findings.take_in(vec![damage("seg/a", DamageState::Uncompared)]);
            assert_eq!(told(), expected);
        }
        assert_eq!((findings.count(), findings.first()), (0, None));
        findings.take_in(Vec::new());
        assert_eq!(told(), []);
    }
}
