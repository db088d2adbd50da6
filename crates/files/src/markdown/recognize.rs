//! Tells Markdown from YAML.

use super::list_markers::{strip_checkbox, strip_marker};
use super::outline::{LineKind, Outline};

/// Fields of a plan that Markdown does not set at the start of a line, outside of code.
const PLAN_FIELDS: &[&str] = &[
    "steps", "title", "goal", "outcome", "context", "phases", "barriers", "defaults", "caps",
    "budget",
];

/// Whether a text other than JSON is Markdown.
pub(crate) fn is_markdown(outline: &Outline<'_>) -> bool {
    if outline.has_step_lines {
        return true;
    }
    let lines = || {
        let lines = outline.lines_of(outline.body()..outline.text.len());
        lines.filter(|line| line.kind != LineKind::Code).map(|line| line.text)
    };
    !lines().any(sets_field) && lines().any(is_markdown_line)
}

/// Whether a line sets a field of a plan in YAML. The name may be quoted, with space before the
/// colon.
fn sets_field(line: &str) -> bool {
    let name = line.split_once(':').map_or("", |(name, _)| name.trim_end());
    let quoted = |quote: char| name.strip_prefix(quote)?.strip_suffix(quote);
    PLAN_FIELDS.contains(&quoted('"').or_else(|| quoted('\'')).unwrap_or(name))
}

/// Whether a line is a heading, or an item with a checkbox or a number.
fn is_markdown_line(line: &str) -> bool {
    let heading = line.trim_start_matches('#');
    let level = line.len().saturating_sub(heading.len());
    let item = strip_marker(line);
    let is_item = item.len() < line.trim_start().len();
    (1..=6).contains(&level) && heading.starts_with([' ', '\t'])
        || strip_checkbox(item).0.is_some()
        || (is_item && line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}
