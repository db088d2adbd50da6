//! The front matter of a Markdown text: the fields between two lines `---` at the very beginning.
//!
//! Front matter that is no YAML stays text, and is reported with its place. It is an error if it has tasks, or the same
//! name twice.

use std::ops::Range;

use crate::diagnostic::{Diagnostic, ReadError, ReadResult, Severity};
use crate::syntax::{Kind, Node, yaml_tree};

/// Lists of tasks in front matter.
const FRONT_LISTS: &[&str] = &["todos:", "tasks:", "steps:", "stories:", "items:"];

/// The front matter of a text.
pub(crate) struct FrontMatter {
    /// All of it, with both marks.
    pub(super) range: Range<usize>,
    /// Whether it has a list of tasks.
    has_tasks: bool,
    /// Its tree, if it is YAML.
    pub(super) fields: Option<Node>,
    /// Why it is no YAML.
    fault: Option<Diagnostic>,
}

impl FrontMatter {
    /// The front matter of a text: its first line is `---`, and fields are between it and the next such line.
    pub(super) fn find(text: &str) -> ReadResult<Option<Self>> {
        let mut lines = text.split_inclusive('\n');
        let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else {
            return Ok(None);
        };
        let mut length = first.len();
        for line in lines {
            let start = length;
            length = length.saturating_add(line.len());
            if line.trim_end() != "---" {
                continue;
            }
            let fields = text.get(..start).unwrap_or_default();
            let is_list = |line: &str| FRONT_LISTS.iter().any(|name| line.starts_with(name));
            let has_tasks = fields.lines().any(is_list);
            let (tree, fault) = match yaml_tree(fields) {
                Ok(tree) if matches!(tree.kind, Kind::Map(_)) => (Some(tree), None),
                Ok(_) => return Ok(None),
                Err(error) if error.is_name_twice() => return Err(error),
                Err(_) if !begins_with_field(fields) => return Ok(None),
                Err(error) => (None, error.into_diagnostics().into_iter().next()),
            };
            return Ok(Some(Self { range: 0..length, has_tasks, fields: tree, fault }));
        }
        Ok(None)
    }

    /// Its fields; an error if it is no YAML.
    pub(super) fn fields(&self) -> ReadResult<Option<&Node>> {
        match &self.fault {
            Some(fault) => Err(ReadError::Invalid(vec![fault.clone()])),
            None => Ok(self.fields.as_ref()),
        }
    }

    /// A warning if it is no YAML, so that it stays text; an error if its tasks would be lost.
    pub(super) fn warning(&self) -> ReadResult<Option<Diagnostic>> {
        let Some(fault) = self.fault.clone() else { return Ok(None) };
        if self.has_tasks {
            return Err(ReadError::Invalid(vec![fault]));
        }
        let message =
            format!("the front matter is no valid YAML, so it is kept as text: {}", fault.message);
        Ok(Some(Diagnostic { severity: Severity::Warning, message, ..fault }))
    }
}

/// Whether the first line that is no comment is a field, or an object begins there.
fn begins_with_field(text: &str) -> bool {
    let mut lines = text.lines().skip(1).filter(|line| !is_comment(line));
    let line = lines.next().unwrap_or_default();
    line.starts_with('{') || line.split_once(':').is_some_and(|(name, _)| is_name(name))
}

fn is_comment(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

/// Whether a text before a colon can be the name of a field.
fn is_name(text: &str) -> bool {
    let text = text.trim_matches(['"', '\'', ' ']);
    let is_part = |c: char| c.is_alphanumeric() || "_-. ".contains(c);
    !text.is_empty() && text.chars().all(is_part)
}
