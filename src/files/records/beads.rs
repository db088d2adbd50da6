//! The `issues.jsonl` of beads: one issue per line, or a JSON list of issues.
//!
//! - An issue is a step. A parent comes after its children and waits for them, and the children
//!   also wait for the dependencies of the parent, as in beads itself.
//! - Dependencies of type `blocks`, `conditional-blocks`, `waits-for`, or without a type, order
//!   the steps. All other types, including custom ones, order nothing.
//! - Description, design and notes form the goal. Each bullet of the acceptance criteria is a
//!   `text` criterion. Priority 2 becomes 0, and each higher priority adds 10.
//! - A tombstone is a deleted issue: it is not a step, and nothing waits for it.
//! - Status, assignee and their timestamps are kept beside the plan; the rest, with the complete
//!   list of dependencies, in `extra.beads`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::record_fields::{RecordFields, id_text, split_bullets, text_list};
use crate::files::diagnostic::{ReadError, ReadResult};
use crate::files::draft::{PlanDraft, StepSource, tool_extra};
use crate::files::plan_file::PlanFormat;
use crate::files::syntax::{LineIndex, json_error_at};
use crate::plan::{Criterion, Step};

/// The key of this tool in `extra`.
const EXTRA: &str = "beads";

/// Fields that the tool updates during the work.
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

/// Names for the target of a dependency.
const TARGETS: &[&str] =
    &["depends_on_id", "dependsOnId", "depends_on", "dependsOn", "target_id", "target", "id"];

/// Names for the type of a dependency.
const TYPES: &[&str] =
    &["type", "dep_type", "depType", "dependency_type", "dependencyType", "kind"];

/// Parses JSON Lines, each with its line number. `None` if the first line is not a JSON object; an
/// error if a later line is not.
pub(crate) fn json_lines(text: &str) -> Option<ReadResult<Vec<(u64, Value)>>> {
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
                return Some(Err(ReadError::at(line, 1, text)));
            }
            Err(error) => return Some(Err(json_error_at(line, &error))),
        }
    }
    Some(Ok(values))
}

/// Whether a value is an issue of beads.
pub(crate) fn is_issue(value: &Value) -> bool {
    let has = |name: &str| value.get(name).is_some();
    let has_typed_dependency = || {
        let edges = value.get("dependencies").and_then(Value::as_array);
        edges.into_iter().flatten().any(|edge| {
            ["depends_on_id", "dependsOnId", "dep_type", "depType", "dependency_type"]
                .iter()
                .any(|name| edge.get(name).is_some())
        })
    };
    has("id")
        && (has("issue_type") || has("issueType") || is_tombstone(value) || has_typed_dependency())
}

/// The issues of a JSON value, each with its line: a list of issues, or one issue.
pub(crate) fn issues(value: &Value, text: &str) -> Option<Vec<(u64, Value)>> {
    match value {
        Value::Array(items) if items.iter().any(is_issue) && items.iter().all(Value::is_object) => {
            let lines = LineIndex::of_json(text);
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

/// Reads issues, each with its line.
pub(crate) fn parse(name: &str, issues: &[(u64, Value)]) -> PlanDraft {
    let mut reader = BeadsReader {
        name,
        draft: PlanDraft::new(PlanFormat::Beads),
        issues: BTreeMap::new(),
        tombstones: BTreeSet::new(),
        children: BTreeMap::new(),
    };
    let mut unread = Vec::new();
    let mut listed = Vec::new();
    for (line, value) in issues {
        match (value.as_object(), value.get("id").and_then(id_text)) {
            (Some(_), Some(id)) if is_tombstone(value) => {
                reader.tombstones.insert(id);
                unread.push(value.clone());
            }
            (Some(fields), Some(id)) if value.get("title").is_some() || is_issue(value) => {
                listed.push((*line, id, fields));
            }
            _ => {
                let message = "this line is not an issue; it is kept as it is";
                reader.draft.add_note(Some(*line), message);
                unread.push(value.clone());
            }
        }
    }
    for (line, id, fields) in &listed {
        reader.read_edges(*line, id, fields);
    }
    for (line, id, fields) in &listed {
        reader.add_issue(*line, id, fields);
    }
    if !unread.is_empty() {
        let fields = Map::from_iter([("others".to_owned(), json!(unread))]);
        reader.draft.plan_file.plan.extra = tool_extra(EXTRA, fields);
    }
    reader.draft
}

/// The dependencies and parents of an issue.
#[derive(Default)]
struct Edges {
    after: Vec<String>,
    parents: Vec<String>,
}

struct BeadsReader<'a> {
    /// The name of the file.
    name: &'a str,
    draft: PlanDraft,
    issues: BTreeMap<String, Edges>,
    tombstones: BTreeSet<String>,
    children: BTreeMap<String, Vec<String>>,
}

/// How a dependency orders the steps.
enum EdgeKind {
    Blocks,
    ConditionalBlocks,
    Parent,
    Unordered,
}

fn edge_kind(word: &str) -> EdgeKind {
    let word: String =
        word.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect();
    match word.as_str() {
        "" | "blocks" | "block" | "blockedby" | "blocker" | "dependson" | "dependency"
        | "waitsfor" | "hard" => EdgeKind::Blocks,
        "conditionalblocks" => EdgeKind::ConditionalBlocks,
        "parentchild" | "parent" | "childof" => EdgeKind::Parent,
        _ => EdgeKind::Unordered,
    }
}

impl BeadsReader<'_> {
    /// Reads the dependencies and parents of an issue.
    fn read_edges(&mut self, line: u64, id: &str, fields: &Map<String, Value>) {
        let mut edges = Edges::default();
        for name in ["dependencies", "deps", "depends_on", "blocked_by"] {
            let list = fields.get(name).and_then(Value::as_array);
            for edge in list.into_iter().flatten() {
                self.read_edge(line, id, edge, &mut edges);
            }
        }
        for name in ["parent", "parent_id"] {
            edges.parents.extend(fields.get(name).and_then(id_text));
        }
        edges.parents.sort();
        edges.parents.dedup();
        edges.parents.retain(|parent| !parent.is_empty() && !self.tombstones.contains(parent));
        for parent in &edges.parents {
            self.children.entry(parent.clone()).or_default().push(id.to_owned());
        }
        self.issues.entry(id.to_owned()).or_insert(edges);
    }

    fn read_edge(&mut self, line: u64, id: &str, edge: &Value, edges: &mut Edges) {
        let target = id_text(edge)
            .or_else(|| TARGETS.iter().find_map(|name| edge.get(name).and_then(id_text)));
        let Some(target) = target else {
            let message = format!("issue `{id}`: a dependency has no depends_on_id; add one");
            self.draft.add_problem(Some(line), message);
            return;
        };
        let word = TYPES.iter().find_map(|name| edge.get(name)?.as_str()).unwrap_or_default();
        let list = match edge_kind(word) {
            EdgeKind::Unordered => return,
            EdgeKind::Parent => &mut edges.parents,
            EdgeKind::Blocks => &mut edges.after,
            EdgeKind::ConditionalBlocks => {
                let message = format!(
                    "issue `{id}`: {word} is read as blocks: it waits for `{target}`, whatever its \
                     outcome"
                );
                self.draft.add_note(Some(line), message);
                &mut edges.after
            }
        };
        if self.tombstones.contains(&target) {
            let message = format!(
                "issue `{id}` depends on `{target}`, a deleted issue (tombstone); it does not wait \
                 for it"
            );
            self.draft.add_note(Some(line), message);
        } else if !list.contains(&target) {
            list.push(target);
        }
    }

    fn add_issue(&mut self, line: u64, id: &str, fields: &Map<String, Value>) {
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
        let mut fields = RecordFields::new(fields);
        self.read_status(id, &mut fields);
        let step = step(id, after, fields);
        self.draft.add_step(step, StepSource::Line(line));
    }

    /// The dependencies of the ancestors of an issue, without its own relatives.
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
                    // A dependency of a parent on its own child does not apply to the children.
                    found.extend(after.filter(|name| !self.is_below(name, parent)).cloned());
                }
            }
        }
        found.retain(|name| !above.contains(name));
        found
    }

    /// Whether an issue is another one, or its descendant.
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

    fn read_status(&mut self, id: &str, fields: &mut RecordFields) {
        let progress = fields.take_all(PROGRESS);
        let reason = progress.get("close_reason").and_then(Value::as_str).map(str::to_owned);
        if !progress.is_empty() {
            self.draft.plan_file.progress.insert(id.to_owned(), tool_extra(EXTRA, progress));
        }
        if let Some(status) = fields.take(&["status"], |value| value.as_str().map(str::to_owned)) {
            let mut source = format!("{}: status {status}", self.name);
            if let Some(reason) = reason.filter(|reason| !reason.trim().is_empty()) {
                let _ = write!(source, " ({})", reason.trim());
            }
            self.draft.set_status(id, &status, source);
        }
    }
}

fn step(id: &str, after: Vec<String>, mut fields: RecordFields) -> Step {
    fields.take_all(&["id"]);
    let title = fields.text(&["title"]);
    let goal: Vec<String> = ["description", "design", "notes"]
        .iter()
        .map(|name| fields.text(&[name]))
        .filter(|text| !text.is_empty())
        .collect();
    let criteria = fields.text(&["acceptance_criteria", "acceptanceCriteria"]);
    let criteria = split_bullets(&criteria).into_iter().filter(|text| !text.is_empty());
    let priority = fields.take(&["priority"], |value| {
        let number = i32::try_from(value.as_i64()?).ok()?;
        2_i32.checked_sub(number)?.checked_mul(10)
    });
    let tags = fields.take(&["labels"], text_list).unwrap_or_default();
    Step {
        id: id.to_owned(),
        title,
        goal: goal.join("\n\n"),
        after,
        acceptance: criteria.map(Criterion::Text).collect(),
        tags: tags.into(),
        priority: priority.unwrap_or_default(),
        extra: tool_extra(EXTRA, fields.rest()),
        ..Step::default()
    }
}
