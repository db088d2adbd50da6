//! Ids of tasks in Markdown, the tags in brackets after them, the numbers in titles of steps, and references to other
//! tasks.

use super::list_markers::strip_checkbox;

/// The text of a task, split into id, tags and words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TaskHead<'a> {
    pub(super) id: Option<String>,
    /// The tags in brackets, such as `P` or `US1`.
    pub(super) tags: Vec<&'a str>,
    /// The words, with marks in pairs only.
    pub(super) text: String,
}

/// The ids that a file uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdStyle {
    /// Ids of spec-kit, such as `T001` or `T031a`.
    SpecKit,
    /// A name in backquotes and a colon: `` `pull_credit`: ``.
    Named,
    /// Numbers with dots, or letters with a number.
    Any,
    /// No ids.
    None,
}

/// Splits the text of a task.
pub(super) fn split_head(text: &str, style: IdStyle) -> TaskHead<'_> {
    let mut head = TaskHead::default();
    let (mut rest, mut opened) = (text.trim(), "");
    loop {
        if let Some((tag, after)) = bracketed(rest) {
            if head.id.is_none() && is_id(tag, style) {
                head.id = Some(tag.to_owned());
            } else {
                head.tags.push(tag);
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix("(P) ") {
            head.tags.push("P");
            rest = after.trim_start();
        } else if let Some(found) =
            Some(rest).filter(|_| head.id.is_none()).and_then(|text| leading_id(text, style))
        {
            head.id = Some(found.id.to_owned());
            (rest, opened) = (found.rest, found.opened);
        } else {
            head.text = close_pairs(opened, rest);
            return head;
        }
    }
}

/// A text without the marks that close those before it, which were cut: `Draw** it` after `**`.
pub(super) fn close_pairs(opened: &str, text: &str) -> String {
    let mut text = text.to_owned();
    let mut opened = opened;
    while let Some(mark) = opened.chars().next() {
        let rest = opened.trim_start_matches(mark);
        let (run, _) = opened.split_at(opened.len().saturating_sub(rest.len()));
        if let Some((before, after)) = text.split_once(run) {
            let is_start = before.is_empty();
            text = format!("{before}{}", if is_start { after.trim_start() } else { after });
        }
        opened = rest;
    }
    text
}

/// A word in brackets that is not a link, and the text after it.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let (tag, rest) = text.strip_prefix('[')?.split_once(']')?;
    let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let is_tag = !tag.is_empty() && tag.len() <= 20 && tag.chars().all(is_word);
    let is_end = rest.is_empty() || rest.starts_with(char::is_whitespace) || rest.starts_with('[');
    (is_tag && is_end).then(|| (tag, rest.trim_start()))
}

/// An id at the start of a text.
struct LeadingId<'a> {
    id: &'a str,
    /// The words after it.
    rest: &'a str,
    /// The marks before it that are not closed directly after it.
    opened: &'a str,
}

/// The id at the start of a text.
fn leading_id(text: &str, style: IdStyle) -> Option<LeadingId<'_>> {
    if style == IdStyle::Named {
        return leading_name(text).map(|(id, rest)| LeadingId { id, rest, opened: "" });
    }
    let marks: &[char] = &['*', '`', '_'];
    let start = text.trim_start_matches(marks);
    let opened = text.get(..text.len().saturating_sub(start.len())).unwrap_or_default();
    let (start, has_keyword) = ["Task ", "task ", "Step ", "step "]
        .iter()
        .find_map(|word| start.strip_prefix(word).filter(|rest| rest.starts_with(is_digit)))
        .map_or((start, false), |rest| (rest, true));
    let end = start.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    let (word, rest) = start.split_at(end.unwrap_or(start.len()));
    let id = word.trim_end_matches(['.', '-', '_']);
    // A plain number is an id only before punctuation: `3.`, `3)`, `3:`.
    let is_marked = id.len() < word.len() || rest.starts_with([')', ':', '*', '`']);
    let is_number = id.chars().all(is_digit);
    if !is_id(id, style) || (is_number && !is_marked && !has_keyword) {
        return None;
    }
    let after = rest.trim_start_matches(marks);
    let closed = rest.get(..rest.len().saturating_sub(after.len())).unwrap_or_default();
    let closed: String = closed.chars().rev().collect();
    let opened = opened.strip_suffix(closed.as_str()).unwrap_or_default();
    let rest = after.trim_start().trim_start_matches([':', ')', '.', '-', '\u{2013}', '\u{2014}']);
    Some(LeadingId { id, rest: rest.trim_start(), opened })
}

/// A name in backquotes and a colon at the start of a text, and the words after it.
pub(super) fn leading_name(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.trim_start().strip_prefix('`')?.split_once("`:")?;
    let is_name = !name.is_empty() && name.trim() == name && !name.contains('`');
    is_name.then(|| (name, rest.trim_start()))
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Whether a word is an id in this style.
pub(super) fn is_id(word: &str, style: IdStyle) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let letters = word.len().saturating_sub(digits.len());
    match style {
        IdStyle::None | IdStyle::Named => false,
        IdStyle::SpecKit => {
            let number = digits.trim_end_matches(|c: char| c.is_ascii_lowercase());
            let suffix = digits.len().saturating_sub(number.len());
            word.starts_with('T')
                && letters == 1
                && number.len() >= 2
                && suffix <= 2
                && number.chars().all(is_digit)
        }
        IdStyle::Any => {
            let number = digits.trim_start_matches(['-', '_']);
            let number = number.strip_suffix(|c: char| c.is_ascii_lowercase()).unwrap_or(number);
            // One small letter makes an id such as `t12`; `v2` is a version.
            let is_small =
                letters == 1 && word.starts_with(|c: char| c.is_ascii_lowercase() && c != 'v');
            let is_upper = is_small || word.chars().take(letters).all(|c| c.is_ascii_uppercase());
            letters <= 10
                && is_upper
                && number.starts_with(is_digit)
                && number.ends_with(is_digit)
                && !number.contains("..")
                && number.chars().all(|c| is_digit(c) || c == '.' || c == '-')
                && !(letters == 0 && number.contains('-'))
        }
    }
}

/// The dependencies in a text: the ids after "depends on" or "blocked by", up to the first other
/// word.
pub(super) fn inline_dependencies(text: &str, style: IdStyle) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for words in
        ["depends on", "depends:", "depends-on:", "blocked by", "blocked-by:", "(after ", "[after "]
    {
        found.extend(references_after(words, text, &lower, style));
    }
    found
}

/// The tasks that a task blocks: the ids after `blocks:`.
pub(super) fn inline_blocked(text: &str, style: IdStyle) -> Vec<String> {
    references_after("blocks:", text, &text.to_ascii_lowercase(), style)
}

fn references_after(words: &str, text: &str, lower: &str, style: IdStyle) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in lower.match_indices(words) {
        let rest = text.get(at.saturating_add(words.len())..).unwrap_or_default();
        found.extend(id_references(rest, style));
    }
    found
}

/// The ids at the start of a text. `T001-T003` is a range.
fn id_references(text: &str, style: IdStyle) -> Vec<String> {
    let mut found = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || c == ',' || c == '&' || c == ';') {
        let is_end = word.ends_with([')', ']']);
        let word =
            word.trim_matches(|c: char| !(c.is_alphanumeric() || c == '-')).trim_matches('-');
        match word.split_once(['-', '\u{2013}']) {
            _ if is_id(word, style) => found.push(word.to_owned()),
            Some((first, last)) if is_id(first, style) && is_id(last, style) => {
                found.push(format!("{first}-{last}"));
            }
            _ if ["", "and", "task", "tasks", "step", "steps", "on"]
                .contains(&word.to_ascii_lowercase().as_str()) => {}
            _ => break,
        }
        if is_end {
            break;
        }
    }
    found
}

/// The title of a step, such as `Step 1: text` or `1. text`.
pub(super) struct StepTitle<'a> {
    pub(super) number: &'a str,
    pub(super) text: String,
    /// Whether the title has the word step or task, and not, for example, phase.
    pub(super) is_step: bool,
    pub(super) is_phase: bool,
}

impl<'a> StepTitle<'a> {
    pub(super) fn parse(title: &'a str) -> Option<Self> {
        let marked = strip_checkbox(title).1;
        let title = marked.trim_start_matches(['*', '_']);
        let opened = marked.get(..marked.len().saturating_sub(title.len()))?;
        let word = title.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        let rest = title.get(word.len()..)?.trim_start();
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        // A letter may follow the number, or be one: `Story 1a`, `Story B`.
        let mut letters = rest.get(end..)?.chars();
        let letter = letters.next().filter(|c| c.is_ascii_alphabetic() && !word.is_empty());
        let is_one = letters.next().is_none_or(|c| !c.is_alphanumeric());
        let is_letter = letter.is_some_and(|c| end > 0 || c.is_ascii_uppercase()) && is_one;
        let (number, after) = rest.split_at(end.saturating_add(usize::from(is_letter)));
        let id = number.trim_matches('.');
        let is_marked = id.len() < number.len()
            || after.trim_start().starts_with([':', ')', '-', '\u{2013}', '\u{2014}'])
            || (after.is_empty() && !word.is_empty());
        if id.is_empty() || !is_marked {
            return None;
        }
        let text = after.trim_start_matches([':', ')', '-', '\u{2013}', '\u{2014}', ' ']);
        let word = word.to_lowercase();
        let is_step = ["step", "task", "story", "unit", "ticket"].contains(&word.as_str());
        let text = close_pairs(opened, text).trim().to_owned();
        Some(Self { number: id, text, is_step, is_phase: word == "phase" })
    }
}

/// Whether the title of a step ends with a word or a tick that says that it is done.
pub(super) fn says_done(title: &str) -> bool {
    let title = title.trim_end_matches(['*', '_', ' ', '\u{fe0f}']).to_lowercase();
    if title.ends_with(['\u{2705}', '\u{2714}', '\u{2713}']) {
        return true;
    }
    let last = |open: char| title.rsplit_once(open).map(|(_, word)| word);
    let in_marks = [('(', ')'), ('[', ']')]
        .into_iter()
        .filter_map(|(open, close)| last(open)?.strip_suffix(close));
    let after_dash = [" - ", " \u{2013} ", " \u{2014} "]
        .into_iter()
        .filter_map(|dash| title.rsplit_once(dash).map(|(_, word)| word));
    let is_done = |word: &str| {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        ["done", "complete", "completed"].contains(&word)
    };
    in_marks.chain(after_dash).any(is_done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, style: IdStyle) -> (Option<String>, String, String) {
        let head = split_head(text, style);
        (head.id, head.tags.join(" "), head.text)
    }

    #[test]
    fn ids_are_recognized_and_words_are_not() {
        let some = |id: &str, tags: &str, text: &str| {
            (Some(id.to_owned()), tags.to_owned(), text.to_owned())
        };
        let none = |text: &str| (None, String::new(), text.to_owned());
        assert_eq!(
            parts("T031a [P] [US2] Do it", IdStyle::SpecKit),
            some("T031a", "P US2", "Do it")
        );
        assert_eq!(parts("1.2 (P) Do it", IdStyle::Any), some("1.2", "P", "Do it"));
        assert_eq!(parts("**T001** Do it", IdStyle::SpecKit), some("T001", "", "Do it"));
        assert_eq!(parts("[T001] [P] Do it", IdStyle::SpecKit), some("T001", "P", "Do it"));
        assert_eq!(parts("SC-001: x", IdStyle::SpecKit), none("SC-001: x"));
        assert_eq!(parts("Test it", IdStyle::SpecKit), none("Test it"));
        for (text, id) in [
            ("1.1 Do it", "1.1"),
            ("1. Do it", "1"),
            ("2) Do it", "2"),
            ("US-001: Do it", "US-001"),
            ("`API-7` Do it", "API-7"),
            ("Task 3: Do it", "3"),
            ("1.2.3b - Do it", "1.2.3b"),
            ("**Step 1: Do it**", "1"),
            ("**Task 2.1: Do** it", "2.1"),
            ("**Task 2:** Do it", "2"),
            ("**`T3` Do it**", "T3"),
        ] {
            assert_eq!(parts(text, IdStyle::Any), some(id, "", "Do it"), "{text}");
        }
        for text in ["3 apples", "see [1](x)", "[link](x) y", "utf8 is it", "a.b c", "10-20 lines"]
        {
            assert_eq!(parts(text, IdStyle::Any), none(text));
        }
    }

    #[test]
    fn inline_dependencies_are_found() {
        assert_eq!(
            inline_dependencies("x (depends on T012, T013) y T9", IdStyle::SpecKit),
            ["T012", "T013"]
        );
        assert_eq!(
            inline_dependencies("Depends on tasks 1.1 and 1.2.", IdStyle::Any),
            ["1.1", "1.2"]
        );
        assert_eq!(inline_dependencies("(depends on T002-T005)", IdStyle::SpecKit), ["T002-T005"]);
        assert!(
            inline_dependencies("depends on the weather and T001", IdStyle::SpecKit).is_empty()
        );
    }
}
