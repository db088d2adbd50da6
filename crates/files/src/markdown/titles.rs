//! What a title says about the text below it: work, criteria, or neither. A title is that of a section, or a line
//! directly above a list that announces it.

use super::labels::{is_criteria_title, is_label_title};

/// The meaning of a title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Its items, or the headings below it, are tasks.
    Work,
    /// Its boxes are criteria.
    Criteria,
    /// It shows what other sections have, or what marks mean.
    Overview,
    /// Neither boxes nor items are tasks: what is open, or must not be done.
    Open,
    /// Text about the work: boxes are tasks, and items and headings are not.
    Text,
}

/// Words that announce tasks, alone or with the other words of [`KINDS`].
const WORK: &[&str] = &[
    "steps",
    "tasks",
    "phases",
    "plan",
    "todo",
    "todos",
    "milestones",
    "roadmap",
    "subtasks",
    "implementation",
];

/// Words that announce tasks with one of [`KINDS`].
const WORK_OF_A_KIND: &[&str] =
    &["items", "order", "units", "breakdown", "list", "changes", "sessions"];

/// Kinds of work.
const KINDS: &[&str] = &[
    "implementation",
    "execution",
    "action",
    "work",
    "task",
    "proposed",
    "development",
    "migration",
    "refactoring",
    "rollout",
    "project",
];

/// Other words in titles that announce tasks.
const FILLERS: &[&str] =
    &["of", "the", "and", "to", "for", "our", "updated", "detailed", "remaining", "concrete", "d"];

/// Titles of tasks in other words, or in other languages.
const WORK_TITLES: &[&str] = &[
    "to do",
    "aufgaben",
    "schritte",
    "etapes",
    "\u{e9}tapes",
    "t\u{e2}ches",
    "tareas",
    "pasos",
    "tarefas",
    "passos",
    "phases d'impl\u{e9}mentation",
    "\u{4efb}\u{52a1}",
    "\u{6b65}\u{9aa4}",
    "\u{30bf}\u{30b9}\u{30af}",
    "\u{624b}\u{9806}",
];

/// Titles of sections that only show what other sections have, or what marks mean.
const OVERVIEW: &str = "epic list|list of epics|epics overview|overview of epics|story list|phase overview|\
     table of contents|contents|requirements inventory|legend|key|status legend|status key|\
     notation";

/// Titles of what is open, or must not be done.
const OPEN: &str = "risks|risks and mitigations|risks & mitigations|risks and assumptions|risks & assumptions|\
     risks / open questions|risks & open questions|open questions|questions|non-goals|non goals|\
     out of scope|not in scope|do not|don't|don'ts|do not do|edge cases|anti-patterns|\
     further considerations|alternatives|alternatives considered";

/// Titles of text about the work.
const TEXT: &str = "analysis|appendix|approach|architecture|assumptions|background|change log|changelog|\
     completed|conclusion|considerations|constraints|context|current behavior|\
     current implementation|current state|decision log|decisions|dependencies|\
     dependency changes|design|design decisions|dev agent record|dev notes|discoveries|done|faq|\
     findings|glossary|goal|goals|implementation notes|introduction|key decisions|key insights|\
     lessons learned|motivation|next action|next actions|next step|next steps|notes|objective|\
     objectives|outcome|outcomes|outcomes & retrospective|overview|prerequisites|principles|\
     problem|problem frame|problem statement|proposed design|proposed solution|purpose|\
     qa results|rationale|references|requirements|requirements & constraints|research|rollback|\
     rollback plan|root cause|root cause analysis|scope|solution|solution overview|story|\
     success metrics|summary|surprises & discoveries|technical design|technical details|\
     test plan|testing strategy|timeline|user review required|user story|validated assumptions|\
     verification plan";

/// The title for comparison: lower case, without number, symbols around it, and words in parentheses.
pub(super) fn normalized_title(title: &str) -> String {
    let is_mark = |c: char| !c.is_alphanumeric();
    let title = title.split(" (").next().unwrap_or_default().trim_matches(is_mark);
    let title = title.trim_start_matches(|c: char| c.is_ascii_digit() || ".) ".contains(c));
    title.trim_matches(is_mark).to_lowercase()
}

/// The meaning of a title, if it has one.
pub(super) fn role_of(title: &str) -> Option<Role> {
    let title = normalized_title(title);
    let is_one_of = |titles: &str| titles.split('|').any(|each| each == title);
    Some(if is_one_of(OVERVIEW) {
        Role::Overview
    } else if is_one_of(OPEN) {
        Role::Open
    } else if is_one_of(TEXT) || names_files(&title) {
        Role::Text
    } else if is_criteria_title(&title) || title.contains("checklist") {
        Role::Criteria
    } else if announces_tasks(&title) {
        Role::Work
    } else {
        return None;
    })
}

/// The meaning of the line above a list, where a label that is not for tasks has one, too: `Files:`.
pub(super) fn role_of_lead(lead: &str) -> Option<Role> {
    let label = is_label_title(lead.trim_matches(|c: char| !c.is_alphanumeric()));
    role_of(lead).or_else(|| label.then_some(Role::Text))
}

/// Whether a title is about files: `Files summary`, `Key files`.
fn names_files(title: &str) -> bool {
    title.starts_with("files ") || title.starts_with("file ") || title.ends_with(" files")
}

/// Whether a title announces tasks: `Implementation steps`, `Tasks / Subtasks`, `Plan: write it`.
fn announces_tasks(title: &str) -> bool {
    if WORK_TITLES.contains(&title) || title.starts_with("plan:") {
        return true;
    }
    let words = || title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let has = |list: &[&str]| words().any(|word| list.contains(&word));
    let is_known =
        |word: &str| [WORK, WORK_OF_A_KIND, KINDS, FILLERS].iter().any(|it| it.contains(&word));
    words().all(is_known) && (has(WORK) || has(WORK_OF_A_KIND) && has(KINDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_have_roles() {
        for (title, role) in [
            ("2. Implementation Steps", Some(Role::Work)),
            ("Tasks / Subtasks", Some(Role::Work)),
            ("\u{1f4cb} Execution Order (draft)", Some(Role::Work)),
            ("Plan: write it", Some(Role::Work)),
            ("Proposed Changes", Some(Role::Work)),
            ("Steps to reproduce", None),
            ("Plan de V\u{e9}rification", None),
            ("Changes", None),
            ("Files summary", Some(Role::Text)),
            ("Key Files", Some(Role::Text)),
            ("Do not", Some(Role::Open)),
            ("Edge cases", Some(Role::Open)),
            ("Acceptance Criteria", Some(Role::Criteria)),
            ("PR checklist", Some(Role::Criteria)),
            ("Legend", Some(Role::Overview)),
            ("The wheel", None),
        ] {
            assert_eq!(role_of(title), role, "{title}");
        }
        assert_eq!(role_of_lead("**Files:**"), Some(Role::Text));
        assert_eq!(role_of_lead("**Steps**"), Some(Role::Work));
    }
}
