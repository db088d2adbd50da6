//! The meaning of the status words of other tools.

/// Marks that stand alone for a task that is done, as in the cells of a table.
const DONE_MARKS: &[&str] = &["[x]", "[X]", "\u{2705}", "\u{2611}", "\u{2713}", "\u{2714}"];

/// Whether a task is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    Done,
    /// It is not done, and will not be.
    Dropped,
    Open,
}

impl TaskStatus {
    /// Parses a status word in any spelling. An unknown word means that the task is open.
    pub(crate) fn parse(word: &str) -> Self {
        let mark = word.trim().trim_end_matches('\u{fe0f}');
        if DONE_MARKS.contains(&mark) {
            return Self::Done;
        }
        match plain(word).as_str() {
            "done" | "completed" | "complete" | "closed" | "passed" | "passes" | "finished"
            | "resolved" | "merged" | "accepted" | "fixed" => Self::Done,
            // German, French, Spanish, Portuguese, Italian.
            "erledigt" | "fertig" | "abgeschlossen" | "termin\u{e9}" | "termin\u{e9}e" | "fait"
            | "hecho" | "hecha" | "terminado" | "terminada" | "completado" | "completada"
            | "feito" | "feita" | "conclu\u{ed}do" | "conclu\u{ed}da" | "fatto" | "completato"
            // Japanese, Chinese, Korean, Russian.
            | "\u{5b8c}\u{4e86}" | "\u{5b8c}\u{4e86}\u{6e08}\u{307f}" | "\u{6e08}" | "\u{5b8c}\u{6210}"
            | "\u{5df2}\u{5b8c}\u{6210}" | "\u{c644}\u{b8cc}"
            | "\u{433}\u{43e}\u{442}\u{43e}\u{432}\u{43e}" => {
                Self::Done
            }
            "cancelled" | "canceled" | "skipped" | "wont_do" | "wont_fix" | "wontfix"
            | "removed" | "deleted" | "obsolete" | "dropped" | "abandoned" | "rejected"
            | "superseded" | "duplicate" | "abgebrochen" | "verworfen" | "annul\u{e9}"
            | "cancelado" | "cancelada" | "annullato" => Self::Dropped,
            _ => Self::Open,
        }
    }

    /// Whether a word is a status that tools use.
    pub(crate) fn is_known(word: &str) -> bool {
        let open = [
            "todo",
            "to_do",
            "pending",
            "open",
            "backlog",
            "drafted",
            "draft",
            "contexted",
            "ready",
            "ready_for_dev",
            "ready_for_review",
            "in_progress",
            "started",
            "doing",
            "review",
            "in_review",
            "blocked",
            "optional",
            "not_started",
            "planned",
        ];
        Self::parse(word) != Self::Open || open.contains(&plain(word).as_str())
    }
}

/// A word in lower case, with one separator, without symbols before it: `\u{2705} Done` is `done`.
fn plain(word: &str) -> String {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    word.chars()
        .map(|c| if c == '-' || c == ' ' { '_' } else { c })
        .flat_map(char::to_lowercase)
        .filter(|c| *c != '\'')
        .collect()
}
