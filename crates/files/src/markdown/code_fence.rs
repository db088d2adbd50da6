//! Fenced code blocks: text inside code is not part of the plan.

/// Whether the lines of a text are inside a fenced code block.
#[derive(Debug, Default)]
pub(super) struct CodeFence(Option<&'static str>);

impl CodeFence {
    /// Whether the next line, given without its indent, belongs to a code block or is one of its fences.
    pub(super) fn contains(&mut self, content: &str) -> bool {
        let mark = ["```", "~~~"].into_iter().find(|mark| content.starts_with(mark));
        let was_open = self.0.is_some();
        self.0 = match (self.0, mark) {
            (Some(open), Some(mark)) if open == mark => None,
            (None, mark) => mark,
            (open, _) => open,
        };
        was_open || mark.is_some()
    }
}
