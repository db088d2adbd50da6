//! The ids of steps in a file without ids: the place of a list item gives its id, so that a new
//! line in the list would give all later items the ids of other steps.
//!
//! If a plan was made from an earlier version of such a file, a step keeps the id of the step with
//! the same text there. A step without such a text keeps its own id, unless another step has it
//! now; then it gets the next free number.
//!
//! Invariant: a plan whose texts have not moved keeps every id.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan_file::{PlanFile, PlanFormat};
use plan_ledger::plan::{Fallback, Plan, Step};

impl PlanFile {
    /// Gives the steps of a file the ids of the steps of the same text in an earlier plan.
    pub fn keep_ids(&mut self, before: &Plan) {
        if ![PlanFormat::Markdown, PlanFormat::Org].contains(&self.format) {
            return;
        }
        let renamed = renamed(&self.plan, before);
        if renamed.iter().all(|(from, to)| from == to) {
            return;
        }
        rename(self, &renamed);
    }
}

/// The text that identifies a step; `None` if the file gives the step an id.
fn text(step: &Step) -> Option<(&str, &str)> {
    let is_place = step.id.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_place.then_some((step.title.as_str(), step.goal.as_str()))
}

/// The steps with a text that no other step of the plan has.
fn unique(plan: &Plan) -> BTreeMap<(&str, &str), &str> {
    let mut found: BTreeMap<_, Option<&str>> = BTreeMap::new();
    for step in &plan.steps {
        if let Some(text) = text(step) {
            let id = Some(step.id.as_str());
            found.entry(text).and_modify(|id| *id = None).or_insert(id);
        }
    }
    found.into_iter().filter_map(|(text, id)| Some((text, id?))).collect()
}

/// The new id of each step.
fn renamed(plan: &Plan, before: &Plan) -> BTreeMap<String, String> {
    let (own, earlier) = (unique(plan), unique(before));
    let kept = own.iter().filter_map(|(text, id)| Some((*id, *earlier.get(text)?)));
    let kept: BTreeMap<&str, &str> = kept.collect();
    let mut taken: BTreeSet<String> = kept.values().map(|id| (*id).to_owned()).collect();
    let numbers = before.steps.iter().filter_map(|step| step.id.parse().ok());
    let mut last: u64 = numbers.max().unwrap_or(0);
    let mut all = BTreeMap::new();
    for step in &plan.steps {
        let id = step.id.as_str();
        let new = match kept.get(id) {
            Some(kept) => (*kept).to_owned(),
            // A new text, or a changed one at its old place.
            None if !taken.contains(id) => id.to_owned(),
            None => {
                last += 1;
                last.to_string()
            }
        };
        taken.insert(new.clone());
        all.insert(id.to_owned(), new);
    }
    all
}

fn rename(file: &mut PlanFile, renamed: &BTreeMap<String, String>) {
    let new = |id: &str| renamed.get(id).map_or_else(|| id.to_owned(), String::clone);
    let keys = |map: &mut BTreeMap<String, String>| {
        *map = std::mem::take(map).into_iter().map(|(id, value)| (new(&id), value)).collect();
    };
    for step in &mut file.plan.steps {
        step.id = new(&step.id);
        let after: Vec<String> = step.after.iter().map(|id| new(id)).collect();
        step.after = after;
        if let Some(fallback) = step.fallback.as_deref_mut()
            && let Fallback::Step(id) = fallback
        {
            *id = new(id);
        }
    }
    for barrier in &mut file.plan.barriers {
        barrier.members = barrier.members.iter().map(|id| new(id)).collect();
    }
    keys(&mut file.done);
    keys(&mut file.skipped);
    keys(&mut file.statuses);
    file.progress =
        std::mem::take(&mut file.progress).into_iter().map(|(id, each)| (new(&id), each)).collect();
    for command in &mut file.commands {
        command.step = command.step.as_deref().map(new);
    }
    for (step, _) in &mut file.missing_files {
        *step = new(step);
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a step keeps its id when its line moves, and no two steps have the same id.

    use super::*;
    use crate::parse;

    fn read(lines: &[&str]) -> PlanFile {
        let items: String = lines.iter().map(|line| format!("- [ ] {line}\n")).collect();
        parse("plan.md", &format!("# Tasks\n\n{items}")).unwrap()
    }

    /// The ids of the new form after a plan of the old one.
    fn ids(before: &[&str], after: &[&str]) -> Vec<String> {
        let before = read(before).plan;
        let mut file = read(after);
        file.keep_ids(&before);
        let ids: Vec<String> = file.plan.steps.iter().map(|step| step.id.clone()).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
        ids
    }

    #[test]
    fn inserted_line_does_not_move_work() {
        let old = ["order paint", "paint", "clean"];
        assert_eq!(ids(&old, &["measure", "order paint", "paint", "clean"]), ["4", "1", "2", "3"]);
        assert_eq!(ids(&old, &["paint", "clean"]), ["2", "3"]);
        assert_eq!(ids(&old, &["clean", "paint", "order paint"]), ["3", "2", "1"]);
        assert_eq!(ids(&old, &old), ["1", "2", "3"]);
    }

    /// A changed text at its old place is the same step with another text.
    #[test]
    fn changed_text_keeps_its_place() {
        let old = ["order paint", "paint", "clean"];
        assert_eq!(ids(&old, &["order red paint", "paint", "clean"]), ["1", "2", "3"]);
        assert_eq!(ids(&old, &["order paint", "paint", "clean", "rest"]), ["1", "2", "3", "4"]);
    }

    /// Equal texts cannot be distinguished, so they keep their places.
    #[test]
    fn equal_texts_keep_their_places() {
        let old = ["wait", "paint", "wait"];
        assert_eq!(ids(&old, &["wait", "paint", "wait", "clean"]), ["1", "2", "3", "4"]);
    }

    #[test]
    fn references_and_marks_follow() {
        let before = read(&["order paint", "paint"]).plan;
        let text = "# Tasks\n\n- [ ] measure\n- [x] order paint\n- [ ] paint\n";
        let mut file = parse("plan.md", text).unwrap();
        file.keep_ids(&before);
        assert_eq!(file.done.keys().collect::<Vec<_>>(), ["1"]);
        assert_eq!(file.plan.steps[2].after, ["1"]);
        assert_eq!(file.plan.steps[1].after, ["3"]);
    }
}
