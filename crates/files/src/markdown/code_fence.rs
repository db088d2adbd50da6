//! Fenced code blocks: text inside code is not part of the plan.

use std::borrow::Cow;

/// Whether the lines of a text are inside a fenced code block: the mark of the open fence, and its length.
#[derive(Debug, Default)]
pub(super) struct CodeFence(Option<(char, usize)>);

impl CodeFence {
    /// Whether the next line, given without its indent, belongs to a code block or is one of its fences. A block ends
    /// at a fence that is at least as long as the first one.
    pub(super) fn contains(&mut self, content: &str) -> bool {
        let mark = content.chars().next().filter(|mark| ['`', '~'].contains(mark));
        let fence = mark.map(|mark| {
            let rest = content.trim_start_matches(mark);
            (mark, content.len().saturating_sub(rest.len()), rest)
        });
        let fence = fence.filter(|(_, length, _)| *length >= 3);
        let was_open = self.0.is_some();
        match (self.0, fence) {
            (Some((open, least)), Some((mark, length, rest)))
                if open == mark && length >= least && rest.trim().is_empty() =>
            {
                self.0 = None;
            }
            (None, Some((mark, length, rest))) if !rest.contains(mark) => {
                self.0 = Some((mark, length));
            }
            _ => return was_open,
        }
        true
    }
}

/// A text in which lines of code are empty.
pub(crate) fn without_code(text: &str) -> Cow<'_, str> {
    if !text.contains("```") && !text.contains("~~~") {
        return text.into();
    }
    let mut fence = CodeFence::default();
    let lines = text.split('\n').map(|line| if fence.contains(line.trim()) { "" } else { line });
    lines.collect::<Vec<_>>().join("\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_ends_at_a_fence_that_is_as_long() {
        let text = "a\n````md\n```\nb\n```\nc\n````\nd\n~~~\n```\n~~~\ne `x`\n```x``` f";
        assert_eq!(without_code(text), "a\n\n\n\n\n\n\nd\n\n\n\ne `x`\n```x``` f");
    }
}
