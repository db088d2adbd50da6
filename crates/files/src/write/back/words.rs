//! The words for statuses: those of the file, else those of its form, else the counterpart of the word that stands there.

use crate::draft::TaskStatus;
use crate::plan_file::PlanFormat;

/// Words for work that has begun or waits: a step that is open again is written as not begun.
const BEGUN: &[&str] = &[
    "in_progress",
    "doing",
    "started",
    "active",
    "wip",
    "review",
    "in_review",
    "blocked",
    "on_hold",
    "hold",
    "waiting",
    "wait",
    "deferred",
    "hooked",
    "next",
];

/// The words of a form: open, done, dropped.
struct FormWords(&'static str, &'static str, Option<&'static str>);

fn form_words(format: PlanFormat) -> Option<FormWords> {
    Some(match format {
        PlanFormat::TaskMaster => FormWords("pending", "done", Some("cancelled")),
        PlanFormat::Beads => FormWords("open", "closed", None),
        PlanFormat::Shrimp | PlanFormat::ClaudeTasks => FormWords("pending", "completed", None),
        PlanFormat::Taskwarrior => FormWords("pending", "completed", Some("deleted")),
        PlanFormat::Backlog => FormWords("To Do", "Done", None),
        PlanFormat::Cursor => FormWords("pending", "completed", Some("cancelled")),
        PlanFormat::Org => FormWords(concat!("TO", "DO"), "DONE", Some("CANCELLED")),
        _ => return None,
    })
}

/// Open words and signs with the ones for done.
const COUNTERPARTS: &[(&str, &str)] = &[
    ("open", "closed"),
    ("pending", "completed"),
    ("not_started", "completed"),
    ("incomplete", "complete"),
    ("todo", "done"),
    ("to do", "done"),
    ("offen", "erledigt"),
    ("\u{e0} faire", "termin\u{e9}"),
    ("pendiente", "completado"),
    ("pendente", "conclu\u{ed}do"),
    ("da fare", "fatto"),
    ("\u{672a}\u{7740}\u{624b}", "\u{5b8c}\u{4e86}"),
    ("\u{672a}\u{5b8c}\u{4e86}", "\u{5b8c}\u{4e86}"),
    ("\u{672a}\u{5f00}\u{59cb}", "\u{5df2}\u{5b8c}\u{6210}"),
    ("\u{5f85}\u{529e}", "\u{5df2}\u{5b8c}\u{6210}"),
    ("[ ]", "[x]"),
    ("\u{2610}", "\u{2611}"),
    ("\u{2b1c}", "\u{2705}"),
    ("\u{1f532}", "\u{2705}"),
    ("\u{274c}", "\u{2705}"),
];

/// The words for statuses in one file.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Each word of the file, with its meaning and how many steps have it.
    known: Vec<(String, TaskStatus, usize)>,
}

impl Words {
    /// Notes that a step has a word.
    pub(super) fn add(&mut self, word: &str, status: TaskStatus) {
        match self.known.iter_mut().find(|(known, ..)| known == word) {
            Some((_, _, count)) => *count = count.saturating_add(1),
            None => self.known.push((word.to_owned(), status, 1)),
        }
    }

    /// The most frequent word of the file for a status; of several, the first one.
    pub(super) fn of_file(&self, status: TaskStatus) -> Option<&str> {
        let is_begun = |word: &str| {
            let word = word.to_lowercase().replace(['-', ' '], "_");
            status == TaskStatus::Open && BEGUN.contains(&word.as_str())
        };
        let words = self.known.iter().filter(|(word, each, _)| *each == status && !is_begun(word));
        let best = words.rev().max_by_key(|(_, _, count)| *count);
        best.map(|(word, ..)| word.as_str())
    }

    /// The word for a status in the place of another word; `None` if neither the file nor its form has one.
    pub(super) fn word(
        &self,
        status: TaskStatus,
        before: &str,
        format: PlanFormat,
    ) -> Option<String> {
        if let Some(word) = self.of_file(status) {
            return Some(word.to_owned());
        }
        let form = form_words(format).and_then(|FormWords(open, done, dropped)| match status {
            TaskStatus::Open => Some(open),
            TaskStatus::Done => Some(done),
            TaskStatus::Dropped => dropped,
        });
        let has_form = form_words(format).is_some();
        match form {
            Some(word) => Some(in_case_of(before, word)),
            None if has_form => None,
            None => counterpart(status, before),
        }
    }
}

/// The word for a status in the language and with the sign of the word before.
fn counterpart(status: TaskStatus, before: &str) -> Option<String> {
    let is_letter = |c: char| c.is_alphanumeric() || c == '[';
    let plain = before.trim_end_matches('\u{fe0f}');
    let words = plain.find(is_letter).and_then(|at| plain.split_at_checked(at));
    let (sign, word) = words.unwrap_or((plain, ""));
    let lower = word.to_lowercase().replace(['-', '_'], " ");
    let pair = |text: &str| {
        COUNTERPARTS.iter().find(|(open, done)| match status {
            TaskStatus::Open => done.replace('_', " ") == text,
            _ => open.replace('_', " ") == text,
        })
    };
    let of_pair = |(open, done): &(&'static str, &'static str)| match status {
        TaskStatus::Open => *open,
        _ => *done,
    };
    let sign = match sign.trim() {
        "" => String::new(),
        only => {
            let other =
                pair(only).map(of_pair).or((status == TaskStatus::Done).then_some("\u{2705}"));
            sign.replace(only, other?)
        }
    };
    if word.is_empty() && !sign.is_empty() {
        return Some(sign);
    }
    let word = match (status, pair(&lower).map(of_pair)) {
        (TaskStatus::Dropped, _) => return None,
        (_, Some(found)) => in_case_of(word, &found.replace('_', " ")),
        (TaskStatus::Done, None) => in_case_of(word, "done"),
        (TaskStatus::Open, None) => in_case_of(word, "todo"),
    };
    Some(format!("{sign}{word}"))
}

/// A word in capitals or with a capital, as another one.
pub(super) fn in_case_of(model: &str, word: &str) -> String {
    let letters = || model.chars().filter(|c| c.is_alphabetic());
    let is_upper = letters().count() > 1 && letters().all(char::is_uppercase);
    let is_title = letters().next().is_some_and(char::is_uppercase);
    if is_upper {
        return word.to_uppercase();
    }
    let mut rest = word.chars();
    match rest.next() {
        Some(first) if is_title => first.to_uppercase().chain(rest).collect(),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_file_then_of_its_form_then_the_counterpart() {
        let mut words = Words::default();
        for (word, status) in [
            ("Shipped", TaskStatus::Done),
            ("Done", TaskStatus::Done),
            ("Done", TaskStatus::Done),
            ("In Progress", TaskStatus::Open),
            ("Backlog", TaskStatus::Open),
        ] {
            words.add(word, status);
        }
        let word = |status, before| words.word(status, before, PlanFormat::TaskMaster);
        assert_eq!(word(TaskStatus::Done, "Backlog").as_deref(), Some("Done"));
        assert_eq!(word(TaskStatus::Open, "Done").as_deref(), Some("Backlog"));
        assert_eq!(word(TaskStatus::Dropped, "Done").as_deref(), Some("Cancelled"));
        let none = Words::default();
        assert_eq!(none.word(TaskStatus::Dropped, "open", PlanFormat::Beads), None);
        for (before, done) in [
            ("todo", "done"),
            ("To Do", "Done"),
            ("NOT STARTED", "COMPLETED"),
            ("not-started", "completed"),
            ("Offen", "Erledigt"),
            ("\u{2b1c}", "\u{2705}"),
            ("\u{2b1c} Todo", "\u{2705} Done"),
            ("\u{1f534} Not started", "\u{2705} Completed"),
            ("[ ]", "[x]"),
            ("", "done"),
            ("queued", "done"),
        ] {
            let found = none.word(TaskStatus::Done, before, PlanFormat::Records);
            assert_eq!(found.as_deref(), Some(done), "{before}");
            assert_eq!(TaskStatus::parse(done), TaskStatus::Done, "{done}");
        }
        for (before, open) in
            [("Completed", "Pending"), ("closed", "open"), ("\u{2705} done", "\u{2b1c} todo")]
        {
            let found = none.word(TaskStatus::Open, before, PlanFormat::Records);
            assert_eq!(found.as_deref(), Some(open), "{before}");
        }
    }
}
