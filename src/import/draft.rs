//! A plan as an importer builds it: its steps with where they come from, what the file marks,
//! what is wrong, and how it was read.
//!
//! Invariant: every importer ends in [`Draft::judged`], so that a plan from any file is judged by
//! the same rules, and each problem has the file's own line.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::{Mark, mark};
use super::finding::{Finding, Refusal, Severity};
use super::lines::Lines;
use super::{Imported, PlanFormat};
use crate::plan::{self, Plan, Problem, Step};

/// Where a part of the plan stands in the file.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// On this line.
    Line(u64),
    /// At this path of a JSON text; what it waits for, under the field of that name.
    Path { item: String, after: &'static str },
}

/// What the places in a plan mean in the file.
#[derive(Debug)]
pub(super) enum Places {
    /// They are paths of the YAML text.
    Yaml,
    /// They are paths of the JSON text.
    Json,
    /// Each step has an origin.
    Steps(Vec<Origin>),
}

/// A plan that is being read.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) imported: Imported,
    pub(super) places: Places,
    /// What is wrong, or hardly meant, besides what the rules of plans say.
    pub(super) problems: Vec<Finding>,
}

impl Draft {
    /// A draft of a file of another tool, with no steps yet.
    pub(super) fn new(format: PlanFormat) -> Self {
        let imported = Imported::unmarked(Plan::default(), format);
        Self { imported, places: Places::Steps(Vec::new()), problems: Vec::new() }
    }

    /// A draft that is a plan already.
    pub(super) fn own(imported: Imported, places: Places) -> Self {
        Self { imported, places, problems: Vec::new() }
    }

    pub(super) fn step(&mut self, step: Step, origin: Origin) {
        self.imported.plan.steps.push(step);
        if let Places::Steps(origins) = &mut self.places {
            origins.push(origin);
        }
    }

    /// What the file says of a step's status, in its own word, and where it says so.
    pub(super) fn status(&mut self, id: &str, word: &str, source: String) {
        match mark(word) {
            Mark::Done => self.imported.done.insert(id.to_owned(), source),
            Mark::Dropped => self.imported.skipped.insert(id.to_owned(), source),
            Mark::Open => None,
        };
        self.imported.statuses.insert(id.to_owned(), word.to_owned());
    }

    pub(super) fn note(&mut self, line: Option<u64>, message: impl Into<String>) {
        self.imported.notes.push(Finding::at(Severity::Note, line, message));
    }

    pub(super) fn problem(&mut self, line: Option<u64>, message: impl Into<String>) {
        self.problems.push(Finding::at(Severity::Problem, line, message));
    }

    /// The plan, if nothing is wrong with it.
    pub(super) fn judged(mut self, text: &str) -> Result<Judged, Refusal> {
        let locator = Locator { places: self.places, text };
        // What is found at a path of the text has its line from there.
        let found = locator.located(&self.imported.plan, &mut self.problems);
        let is_problem = |finding: &Finding| finding.severity == Severity::Problem;
        let (mut problems, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_problem);
        self.imported.notes.extend(others);
        let of_plan = plan::validate(&self.imported.plan);
        // A list of tasks of which none could be read has said so.
        if problems.is_empty() || !self.imported.plan.steps.is_empty() {
            problems.extend(locator.found(&self.imported.plan, of_plan, Severity::Problem));
        }
        problems.extend(self.imported.unknown_marks());
        if problems.is_empty() {
            let notes = self.imported.waits_for_dropped();
            let notes = locator.found(&self.imported.plan, notes, Severity::Note);
            self.imported.notes.extend(notes);
            Ok(Judged { imported: self.imported, places: locator.places })
        } else {
            Err(Refusal::Problems(problems))
        }
    }
}

impl Imported {
    /// Marks of steps that are not there.
    fn unknown_marks(&self) -> Vec<Finding> {
        let ids: BTreeSet<&str> = self.plan.steps.iter().map(|step| step.id.as_str()).collect();
        let lists =
            [("done", &self.done), ("skipped", &self.skipped), ("statuses", &self.statuses)];
        let names = lists.iter().flat_map(|(list, marks)| marks.keys().map(move |id| (list, id)));
        let unknown = names.filter(|(_, id)| !ids.contains(id.as_str()));
        unknown
            .map(|(list, id)| {
                let message = format!("there is no step `{}`; remove the mark", id.escape_debug());
                let place = format!("marks.{list}");
                Finding { severity: Severity::Problem, line: None, place, message }
            })
            .collect()
    }

    /// What waits for something that is not to be done any more.
    fn waits_for_dropped(&self) -> Vec<Problem> {
        if self.skipped.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (index, step) in self.plan.steps.iter().enumerate() {
            for (position, name) in step.after.iter().enumerate() {
                if let Some(source) = self.skipped.get(name) {
                    let id = step.id.escape_debug();
                    let place = format!("steps[{index}] ({id}).after[{position}]");
                    let message = format!(
                        "`{}` is not to be done any more ({source}): it is skipped, and nothing \
                         waits for it then",
                        name.escape_debug()
                    );
                    found.push(Problem { place, message });
                }
            }
        }
        found
    }
}

/// A plan with nothing wrong, and where its parts stand.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) imported: Imported,
    pub(super) places: Places,
}

impl Judged {
    /// What the rules of good plans say about it.
    pub(super) fn warnings(&self, text: &str) -> Vec<Finding> {
        let places = match &self.places {
            Places::Yaml => Places::Yaml,
            Places::Json => Places::Json,
            Places::Steps(origins) => Places::Steps(origins.clone()),
        };
        let plan = &self.imported.plan;
        Locator { places, text }.found(plan, plan::lint(plan), Severity::Warning)
    }
}

struct Locator<'a> {
    places: Places,
    text: &'a str,
}

impl Locator<'_> {
    fn found(&self, plan: &Plan, problems: Vec<Problem>, severity: Severity) -> Vec<Finding> {
        let mut lines = None;
        problems
            .into_iter()
            .map(|Problem { place, message }| {
                let line = self.line(plan, &place, &mut lines);
                Finding { severity, line, place, message }
            })
            .collect()
    }

    /// Findings of the importer's own: one without a line has a path for a place.
    fn located(&self, plan: &Plan, findings: &mut Vec<Finding>) -> Vec<Finding> {
        let mut lines = None;
        let mut found = std::mem::take(findings);
        for finding in found.iter_mut().filter(|finding| finding.line.is_none()) {
            finding.line = match &self.places {
                Places::Yaml => self.line(plan, &finding.place, &mut lines),
                Places::Json | Places::Steps(_) => {
                    lines.get_or_insert_with(|| Lines::of_json(self.text)).line(&finding.place)
                }
            };
        }
        found
    }

    /// The line of a place such as `steps[3] (build).after[1]`.
    fn line(&self, plan: &Plan, place: &str, lines: &mut Option<Lines>) -> Option<u64> {
        let path = without_id(plan, place);
        match &self.places {
            Places::Yaml => lines.get_or_insert_with(|| Lines::of_yaml(self.text)).line(&path),
            Places::Json => lines.get_or_insert_with(|| Lines::of_json(self.text)).line(&path),
            Places::Steps(origins) => {
                let index = path.strip_prefix("steps[")?.split(']').next()?;
                match origins.get(index.parse::<usize>().ok()?)? {
                    Origin::Line(line) => Some(*line),
                    Origin::Path { item, after } => {
                        let is_after = path.contains("].after");
                        let path = if is_after { format!("{item}.{after}") } else { item.clone() };
                        lines.get_or_insert_with(|| Lines::of_json(self.text)).line(&path)
                    }
                }
            }
        }
    }
}

/// The place without the id in parentheses that people read: a path.
fn without_id(plan: &Plan, place: &str) -> String {
    let Some((list, rest)) = place.split_once('[') else { return place.to_owned() };
    let Some((index, rest)) = rest.split_once(']') else { return place.to_owned() };
    let id = index.parse::<usize>().ok().and_then(|index| match list {
        "steps" => plan.steps.get(index).map(|step| step.id.as_str()),
        "barriers" => plan.barriers.get(index).map(|barrier| barrier.id.as_str()),
        "phases" => plan.phases.get(index).map(|phase| phase.id.as_str()),
        "failure.rules" => plan.failure.rules.get(index).map(|rule| rule.id.as_str()),
        _ => None,
    });
    let shown = id.map(|id| format!(" ({})", id.escape_debug()));
    let rest = shown.and_then(|shown| rest.strip_prefix(shown.as_str())).unwrap_or(rest);
    format!("{list}[{index}]{rest}")
}

/// Fields of one record of a file that has no other place for them.
pub(super) fn kept(tool: &str, fields: serde_json::Map<String, serde_json::Value>) -> plan::Extra {
    if fields.is_empty() {
        return plan::Extra::new();
    }
    BTreeMap::from([(tool.to_owned(), serde_json::Value::Object(fields))])
}
