//! The meaning of the status words of other tools.

/// Whether a task is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskStatus {
    Done,
    Dropped,
    Open,
}

impl TaskStatus {
    /// Parses a status word in any spelling. An unknown word means that the task is open.
    pub(super) fn parse(word: &str) -> Self {
        let word: String = word
            .trim()
            .chars()
            .map(|c| if c == '-' || c == ' ' { '_' } else { c.to_ascii_lowercase() })
            .filter(|c| *c != '\'')
            .collect();
        match word.as_str() {
            "done" | "completed" | "complete" | "closed" | "passed" | "passes" | "finished"
            | "resolved" | "merged" | "accepted" | "fixed" => Self::Done,
            "cancelled" | "canceled" | "skipped" | "wont_do" | "wont_fix" | "wontfix"
            | "removed" | "deleted" | "obsolete" | "dropped" | "abandoned" | "rejected"
            | "superseded" | "duplicate" => Self::Dropped,
            _ => Self::Open,
        }
    }
}
