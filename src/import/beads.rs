//! The `issues.jsonl` of beads: one issue on each line; also as a JSON list.
//!
//! How it maps:
//! - An issue is a step. One that is the parent of others stands after them and waits for them,
//!   and what it waits for binds them, too: the tool holds children back with their parent.
//! - `blocks`, `conditional-blocks` and `waits-for` are dependencies, and so is a dependency that
//!   says no type. All other types, and types that somebody made up, order nothing.
//! - Description, design and notes are the goal; the acceptance criteria are `text` criteria, one
//!   for each bullet. Priority 2 is 0, and each step up is 10 more.
//! - A tombstone is no step: it was deleted. Nothing waits for it.
//! - Status, assignee and what is written when they change stand beside the plan; the whole list
//!   of dependencies, and all else, are in `extra.beads`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::PlanFormat;
use super::draft::{Draft, Origin, kept};
use super::fields::{Fields, bullets, name_text};
use super::own::{self, Read};
use crate::plan::{Criterion, Step};

/// The name of the tool's fields in `extra`.
const EXTRA: &str = "beads";

/// Fields that the tool changes while work is done.
const PROGRESS: &[&str] = &[
    "updated_at",
    "started_at",
    "closed_at",
    "closed_by",
    "close_reason",
    "closed_by_session",
    "assignee",
    "comments",
    "comment_count",
    "dependent_count",
    "dependency_count",
    "compaction_level",
    "compacted_at",
    "compacted_at_commit",
    "original_size",
    "content_hash",
];

/// The names of the other end of a dependency.
const TARGETS: &[&str] =
    &["depends_on_id", "dependsOnId", "depends_on", "dependsOn", "target_id", "target", "id"];

/// The names of a dependency's type.
const TYPES: &[&str] =
    &["type", "dep_type", "depType", "dependency_type", "dependencyType", "kind"];

/// The values of a text in which every line is one, with their lines: JSON Lines. Nothing, if its
/// first line is no value by itself; an error, if another one is not.
pub(super) fn lines(text: &str) -> Option<Read<Vec<(u64, Value)>>> {
    let mut values = Vec::new();
    for (line, content) in (1_u64..).zip(text.lines()) {
        if content.trim().is_empty() {
            continue;
        }
        match serde_json::from_str::<Value>(content) {
            Ok(value) if value.is_object() => values.push((line, value)),
            Ok(_) | Err(_) if values.is_empty() => return None,
            Ok(_) => {
                let text = "expected an issue: one JSON object on each line";
                return Some(Err(super::text::at(line, 1, text)));
            }
            Err(error) => return Some(Err(own::json_error_at(line, &error))),
        }
    }
    Some(Ok(values))
}

/// Whether a value is an issue of this tool.
pub(super) fn is_issue(value: &Value) -> bool {
    let has = |name: &str| value.get(name).is_some();
    let of_edges = || {
        let edges = value.get("dependencies").and_then(Value::as_array);
        edges.into_iter().flatten().any(|edge| {
            ["depends_on_id", "dependsOnId", "dep_type", "depType", "dependency_type"]
                .iter()
                .any(|name| edge.get(name).is_some())
        })
    };
    has("id") && (has("issue_type") || has("issueType") || is_tombstone(value) || of_edges())
}

/// The issues of a whole JSON value, each with its line: a list of them, or one alone.
pub(super) fn issues(value: &Value, text: &str) -> Option<Vec<(u64, Value)>> {
    match value {
        Value::Array(items) if items.iter().any(is_issue) && items.iter().all(Value::is_object) => {
            let lines = super::lines::Lines::of_json(text);
            let line = |index: usize| lines.line(&format!("[{index}]")).unwrap_or(1);
            let items = items.iter().enumerate();
            Some(items.map(|(index, item)| (line(index), item.clone())).collect())
        }
        value if is_issue(value) => Some(vec![(1, value.clone())]),
        _ => None,
    }
}

fn is_tombstone(value: &Value) -> bool {
    let status = value.get("status").and_then(Value::as_str);
    status.is_some_and(|status| status.eq_ignore_ascii_case("tombstone"))
        || value.get("deleted_at").is_some_and(Value::is_string)
}

/// The plan of these issues.
pub(super) fn import(name: &str, issues: &[(u64, Value)]) -> Draft {
    let mut build = Build {
        name,
        draft: Draft::new(PlanFormat::Beads),
        issues: BTreeMap::new(),
        tombstones: BTreeSet::new(),
        children: BTreeMap::new(),
    };
    let mut kept_whole = Vec::new();
    let mut listed = Vec::new();
    for (line, value) in issues {
        match (value.as_object(), value.get("id").and_then(name_text)) {
            (Some(_), Some(id)) if is_tombstone(value) => {
                build.tombstones.insert(id);
                kept_whole.push(value.clone());
            }
            (Some(fields), Some(id)) if value.get("title").is_some() || is_issue(value) => {
                listed.push((*line, id, fields));
            }
            _ => {
                let text = "this line is no issue: it was kept as it is";
                build.draft.note(Some(*line), text);
                kept_whole.push(value.clone());
            }
        }
    }
    for (line, id, fields) in &listed {
        build.read(*line, id, fields);
    }
    for (line, id, fields) in &listed {
        build.issue(*line, id, fields);
    }
    if !kept_whole.is_empty() {
        let fields = Map::from_iter([("others".to_owned(), json!(kept_whole))]);
        build.draft.imported.plan.extra = kept(EXTRA, fields);
    }
    build.draft
}

/// What an issue waits for, and what it is a part of.
#[derive(Default)]
struct Edges {
    after: Vec<String>,
    parents: Vec<String>,
}

struct Build<'a> {
    name: &'a str,
    draft: Draft,
    issues: BTreeMap<String, Edges>,
    tombstones: BTreeSet<String>,
    children: BTreeMap<String, Vec<String>>,
}

/// How a type of dependency orders work.
enum Kind {
    Blocks,
    Conditional,
    Parent,
    Nothing,
}

fn kind(word: &str) -> Kind {
    let word: String =
        word.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect();
    match word.as_str() {
        "" | "blocks" | "block" | "blockedby" | "blocker" | "dependson" | "dependency"
        | "waitsfor" | "hard" => Kind::Blocks,
        "conditionalblocks" => Kind::Conditional,
        "parentchild" | "parent" | "childof" => Kind::Parent,
        _ => Kind::Nothing,
    }
}

impl Build<'_> {
    /// What an issue says about others.
    fn read(&mut self, line: u64, id: &str, fields: &Map<String, Value>) {
        let mut edges = Edges::default();
        for name in ["dependencies", "deps", "depends_on", "blocked_by"] {
            let list = fields.get(name).and_then(Value::as_array);
            for edge in list.into_iter().flatten() {
                self.edge(line, id, edge, &mut edges);
            }
        }
        for name in ["parent", "parent_id"] {
            edges.parents.extend(fields.get(name).and_then(name_text));
        }
        edges.parents.sort();
        edges.parents.dedup();
        edges.parents.retain(|parent| !parent.is_empty() && !self.tombstones.contains(parent));
        for parent in &edges.parents {
            self.children.entry(parent.clone()).or_default().push(id.to_owned());
        }
        self.issues.entry(id.to_owned()).or_insert(edges);
    }

    fn edge(&mut self, line: u64, id: &str, edge: &Value, edges: &mut Edges) {
        let target = name_text(edge)
            .or_else(|| TARGETS.iter().find_map(|name| edge.get(name).and_then(name_text)));
        let Some(target) = target else {
            let text = format!("issue `{id}`: a dependency names no issue; give its depends_on_id");
            self.draft.problem(Some(line), text);
            return;
        };
        let word = TYPES.iter().find_map(|name| edge.get(name)?.as_str()).unwrap_or_default();
        let list = match kind(word) {
            Kind::Nothing => return,
            Kind::Parent => &mut edges.parents,
            Kind::Blocks => &mut edges.after,
            Kind::Conditional => {
                let text = format!(
                    "issue `{id}`: {word} is taken as blocks: it waits for `{target}`, whatever \
                     comes of that"
                );
                self.draft.note(Some(line), text);
                &mut edges.after
            }
        };
        if self.tombstones.contains(&target) {
            let text = format!(
                "issue `{id}` depends on `{target}`, which was deleted (a tombstone): it does not \
                 wait for it"
            );
            self.draft.note(Some(line), text);
        } else if !list.contains(&target) {
            list.push(target);
        }
    }

    fn issue(&mut self, line: u64, id: &str, fields: &Map<String, Value>) {
        let mut after: Vec<String> = Vec::new();
        let mut known = BTreeSet::new();
        let own = self.issues.get(id).map(|edges| edges.after.clone()).unwrap_or_default();
        let children = self.children.get(id).cloned().unwrap_or_default();
        let inherited = self.inherited(id);
        for name in own.into_iter().chain(inherited).chain(children) {
            if known.insert(name.clone()) {
                after.push(name);
            }
        }
        let mut fields = Fields::new(fields);
        self.mark(id, &mut fields);
        let step = step(id, after, fields);
        self.draft.step(step, Origin::Line(line));
    }

    /// What the issues above one wait for, as far as that is not one of its own kin.
    fn inherited(&self, id: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut above = BTreeSet::from([id.to_owned()]);
        let mut rest: Vec<&str> = vec![id];
        while let Some(each) = rest.pop() {
            let Some(edges) = self.issues.get(each) else { continue };
            for parent in &edges.parents {
                if above.insert(parent.clone()) {
                    rest.push(parent);
                    let after = self.issues.get(parent).map(|edges| edges.after.as_slice());
                    let after = after.unwrap_or_default().iter();
                    // A parent that waits for a part of itself says nothing that binds its parts.
                    found.extend(after.filter(|name| !self.is_below(name, parent)).cloned());
                }
            }
        }
        found.retain(|name| !above.contains(name));
        found
    }

    /// Whether an issue is another one, or a part of it.
    fn is_below(&self, id: &str, above: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut rest = vec![id];
        while let Some(each) = rest.pop() {
            if each == above {
                return true;
            }
            if seen.insert(each) {
                let edges = self.issues.get(each);
                rest.extend(edges.into_iter().flat_map(|edges| &edges.parents).map(String::as_str));
            }
        }
        false
    }

    fn mark(&mut self, id: &str, fields: &mut Fields) {
        let progress = fields.take_all(PROGRESS);
        let reason = progress.get("close_reason").and_then(Value::as_str).map(str::to_owned);
        if !progress.is_empty() {
            self.draft.imported.progress.insert(id.to_owned(), kept(EXTRA, progress));
        }
        if let Some(status) = fields.take(&["status"], |value| value.as_str().map(str::to_owned)) {
            let mut source = format!("{}: status {status}", self.name);
            if let Some(reason) = reason.filter(|reason| !reason.trim().is_empty()) {
                let _ = write!(source, " ({})", reason.trim());
            }
            self.draft.status(id, &status, source);
        }
    }
}

fn step(id: &str, after: Vec<String>, mut fields: Fields) -> Step {
    fields.take_all(&["id"]);
    let title = fields.text(&["title"]);
    let goal: Vec<String> = ["description", "design", "notes"]
        .iter()
        .map(|name| fields.text(&[name]))
        .filter(|text| !text.is_empty())
        .collect();
    let criteria = fields.text(&["acceptance_criteria", "acceptanceCriteria"]);
    let criteria = bullets(&criteria).into_iter().filter(|text| !text.is_empty());
    let priority = fields.take(&["priority"], |value| {
        let number = i32::try_from(value.as_i64()?).ok()?;
        2_i32.checked_sub(number)?.checked_mul(10)
    });
    let tags = fields.take(&["labels"], super::fields::texts).unwrap_or_default();
    Step {
        id: id.to_owned(),
        title,
        goal: goal.join("\n\n"),
        after,
        acceptance: criteria.map(Criterion::Text).collect(),
        tags: tags.into(),
        priority: priority.unwrap_or_default(),
        extra: kept(EXTRA, fields.rest()),
        ..Step::default()
    }
}
