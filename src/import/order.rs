//! Order as dependency, for files that write none.
//!
//! A task waits for the one before it. Tasks that may run beside each other (`[P]`) wait for the
//! last one that may not, and the next that may not waits for all of them. A phase waits for the
//! phase before it. A task that names what it waits for waits for that, and for the phase before
//! if it names nothing in its own.
//!
//! Invariant: the dependencies stay linear in the tasks: many that wait for many do so through a
//! barrier.

use std::collections::BTreeSet;

use crate::plan::Barrier;

/// How a task stands to its neighbours.
pub(super) enum Place {
    /// It waits for all before it.
    Alone,
    /// It may run beside its neighbours that may, too.
    Beside,
}

/// Where the order has come to.
pub(super) struct Order {
    /// What the next task waits for.
    before: Vec<String>,
    /// Tasks that run beside each other, behind `before`.
    beside: Vec<String>,
    /// What the whole phase waits for.
    phase: Vec<String>,
    /// The tasks of this phase.
    members: BTreeSet<String>,
    /// What many wait for together.
    pub(super) barriers: Vec<Barrier>,
}

impl Order {
    /// Behind nothing.
    pub(super) fn new() -> Self {
        Self::behind(Vec::new())
    }

    fn behind(before: Vec<String>) -> Self {
        Self {
            phase: before.clone(),
            before,
            beside: Vec::new(),
            members: BTreeSet::new(),
            barriers: Vec::new(),
        }
    }

    /// The order of the parts of the next task.
    pub(super) fn parts(&mut self, place: &Place) -> Self {
        let before = match place {
            Place::Alone if !self.beside.is_empty() => self.beside.clone(),
            Place::Alone => self.before.clone(),
            Place::Beside => self.joined(),
        };
        Self::behind(before)
    }

    /// What the next task waits for.
    pub(super) fn next(&mut self, id: &str, place: &Place) -> Vec<String> {
        self.members.insert(id.to_owned());
        match place {
            Place::Beside => {
                let after = self.joined();
                self.beside.push(id.to_owned());
                after
            }
            Place::Alone => {
                let before = std::mem::replace(&mut self.before, vec![id.to_owned()]);
                let beside = std::mem::take(&mut self.beside);
                if beside.is_empty() { before } else { beside }
            }
        }
    }

    /// What the next task waits for, of which the file says what that is.
    pub(super) fn named(&mut self, id: &str, place: &Place, names: Vec<String>) -> Vec<String> {
        let mut after = names;
        if !after.is_empty() && !after.iter().any(|name| self.members.contains(name)) {
            let phase = gate(&self.phase, &mut self.barriers);
            after.extend(phase.into_iter().filter(|name| *name != id));
        }
        self.members.insert(id.to_owned());
        match place {
            Place::Beside => self.beside.push(id.to_owned()),
            Place::Alone => {
                // What comes next waits for this one, and for what this one does not wait for.
                if !self.beside.is_empty() {
                    self.before = std::mem::take(&mut self.beside);
                }
                let phase = &self.phase;
                self.before.retain(|name| !after.contains(name) && !phase.contains(name));
                self.before.push(id.to_owned());
            }
        }
        after
    }

    /// A task whose parts came first: it has them behind it.
    pub(super) fn whole(&mut self, id: &str, place: &Place, parts: Self) -> Vec<String> {
        self.members.insert(id.to_owned());
        self.members.extend(parts.members.iter().cloned());
        self.barriers.extend(parts.barriers.iter().cloned());
        match place {
            Place::Beside => self.beside.push(id.to_owned()),
            Place::Alone => {
                self.beside.clear();
                self.before = vec![id.to_owned()];
            }
        }
        if parts.beside.is_empty() { parts.before } else { parts.beside }
    }

    /// The end of a phase.
    pub(super) fn end_phase(&mut self) {
        if !self.beside.is_empty() {
            self.before = std::mem::take(&mut self.beside);
        }
        self.phase.clone_from(&self.before);
        self.members.clear();
    }

    fn joined(&mut self) -> Vec<String> {
        gate(&self.before, &mut self.barriers)
    }
}

/// One name that stands for all of these.
fn gate(names: &[String], barriers: &mut Vec<Barrier>) -> Vec<String> {
    let [first, .., last] = names else { return names.to_vec() };
    let id = format!("{first}..{last}");
    if barriers.last().is_none_or(|barrier| barrier.id != id) {
        barriers.push(Barrier { id: id.clone(), members: names.to_vec(), ..Barrier::default() });
    }
    vec![id]
}

#[cfg(test)]
mod tests {
    //! Goal: the rule of the header, case by case.

    use super::*;

    fn next(order: &mut Order, id: &str, place: &Place) -> String {
        order.next(id, place).join(" ")
    }

    #[test]
    fn what_waits_for_what() {
        let mut order = Order::new();
        assert_eq!(next(&mut order, "a", &Place::Alone), "");
        assert_eq!(next(&mut order, "b", &Place::Beside), "a");
        assert_eq!(next(&mut order, "c", &Place::Beside), "a");
        assert_eq!(next(&mut order, "d", &Place::Alone), "b c");
        assert_eq!(next(&mut order, "e", &Place::Beside), "d");
        assert_eq!(next(&mut order, "f", &Place::Beside), "d");
        order.end_phase();
        assert_eq!(next(&mut order, "g", &Place::Beside), "e..f");
        assert_eq!(next(&mut order, "h", &Place::Beside), "e..f");
        assert_eq!(order.barriers.len(), 1);
        assert_eq!(order.barriers[0].members, ["e", "f"]);
        let named = order.named("i", &Place::Alone, vec!["g".to_owned()]);
        assert_eq!(named, ["g"]);
        assert_eq!(next(&mut order, "j", &Place::Alone), "h i");
        let named = order.named("k", &Place::Alone, vec!["a".to_owned()]);
        assert_eq!(named, ["a", "e..f"]);
        assert_eq!(next(&mut order, "l", &Place::Alone), "j k");
    }

    #[test]
    fn a_task_waits_for_its_parts() {
        let mut order = Order::new();
        next(&mut order, "a", &Place::Alone);
        let mut parts = order.parts(&Place::Alone);
        assert_eq!(next(&mut parts, "b.1", &Place::Alone), "a");
        assert_eq!(next(&mut parts, "b.2", &Place::Alone), "b.1");
        assert_eq!(order.whole("b", &Place::Alone, parts), ["b.2"]);
        assert_eq!(next(&mut order, "c", &Place::Alone), "b");
    }
}
