//! Plans in Markdown: spec-kit and OpenSpec `tasks.md`, plans with steps, tools, changes and
//! acceptance, numbered or checkbox tasks under headings in any language; and our own form.
//!
//! How it maps (`format/plan-files.md` has it in full):
//! - Tasks are, in this order of choice: boxes with spec-kit's ids; boxes; headings `Step 1`;
//!   numbered items; items under a heading such as `Tasks`.
//! - Where tasks have ids, a box without one is a criterion of the task it stands in, or a note.
//! - The headings that part the tasks are phases. Sections with known titles are fields of the
//!   plan. All other text is its context, so that none is lost.
//! - Order is dependency where none is written.

mod document;
mod labels;
mod names;
mod own;
mod plan;
mod prose;
mod tasks;

use super::draft::Draft;

pub(super) use own::{MARK, is_ours, own};

/// The plan of a text, if there is a task in it.
pub(super) fn import(name: &str, text: &str) -> Option<Draft> {
    // Lines that end as elsewhere are the same lines.
    let text = text.replace("\r\n", "\n");
    let document = document::Document::new(&text);
    let chosen = tasks::choose(&document)?;
    Some(plan::draft(name, &document, chosen))
}

/// Names of fields that no Markdown sets at the start of a line, outside of code.
const FIELDS: &[&str] = &[
    "steps", "title", "goal", "outcome", "context", "phases", "barriers", "defaults", "caps",
    "budget",
];

/// Whether a text that is no JSON is Markdown, and no YAML.
pub(super) fn is_markdown(text: &str) -> bool {
    let text = without_front(text);
    let mut is_code = false;
    let mut is_found = false;
    for line in text.lines() {
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        if sets_field(line) {
            return false;
        }
        is_found |= is_mark(line);
    }
    is_found
}

/// Whether a line sets a field of a plan, as YAML does it: its name may be quoted, and parted from the
/// colon.
fn sets_field(line: &str) -> bool {
    let name = line.split_once(':').map_or("", |(name, _)| name.trim_end());
    let quoted = |quote: char| name.strip_prefix(quote)?.strip_suffix(quote);
    FIELDS.contains(&quoted('"').or_else(|| quoted('\'')).unwrap_or(name))
}

/// Whether a line is a heading, or an item with a box or a number.
fn is_mark(line: &str) -> bool {
    let heading = line.trim_start_matches('#');
    let level = line.len().saturating_sub(heading.len());
    let item = document::unmarked(line);
    (1..=6).contains(&level) && heading.starts_with([' ', '\t'])
        || document::unboxed(item).0.is_some()
        || (item.len() < line.len() && line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}

/// A text without the block of fields before it.
fn without_front(text: &str) -> &str {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else { return text };
    let mut length = first.len();
    for line in lines {
        length = length.saturating_add(line.len());
        if line.trim_end() == "---" {
            return text.get(length..).unwrap_or_default();
        }
    }
    text
}
