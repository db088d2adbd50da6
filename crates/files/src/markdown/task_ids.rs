//! Ids of tasks in Markdown, the tags in brackets after them, the numbers in titles of steps, and references to other
//! tasks.

use std::collections::{BTreeMap, BTreeSet};

use super::list_markers::strip_checkbox;

/// The text of a task, split into id, tags and words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TaskHead<'a> {
    pub(super) id: Option<String>,
    /// Whether marks or punctuation, or a word with a capital, make the id one.
    is_sure: bool,
    /// The tags in brackets, such as `P` or `US1`.
    pub(super) tags: Vec<&'a str>,
    /// The words, with marks in pairs only.
    pub(super) text: String,
}

/// The ids that a file uses.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdStyle {
    /// Ids of spec-kit, such as `T001` or `T031a`.
    SpecKit,
    /// A name in backquotes and a colon: `` `pull_credit`: ``.
    Named,
    /// Numbers with dots, or letters with a number.
    Any,
    /// No ids.
    #[default]
    None,
}

/// The ids of boxes: which words at the start of their texts are ids.
#[derive(Debug, Default)]
pub(super) struct BoxIds {
    pub(super) style: IdStyle,
    /// The shapes of ids that the text uses: `US-N`, `N.N`.
    shapes: BTreeSet<String>,
    /// Whether every box that is not inside another one begins with an id.
    is_every: bool,
}

impl BoxIds {
    /// The ids of the boxes with these texts. Those that count are not inside another one, and no criteria.
    pub(super) fn of(boxes: &[(&str, bool)]) -> Self {
        let style = |style| Self { style, ..Self::default() };
        if boxes.iter().any(|(text, _)| split_head(text, IdStyle::SpecKit).id.is_some()) {
            return style(IdStyle::SpecKit);
        }
        let mut names = BTreeSet::new();
        let mut counted = boxes.iter().filter(|(_, counts)| *counts).map(|(text, _)| *text);
        let is_named =
            counted.all(|text| leading_name(text).is_some_and(|(name, _)| names.insert(name)));
        if is_named && !names.is_empty() {
            return style(IdStyle::Named);
        }
        let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let (mut shapes, mut is_every) = (BTreeSet::new(), true);
        for (text, counts) in boxes {
            let head = split_head(text, IdStyle::Any);
            let Some(id) = head.id else {
                is_every &= !counts;
                continue;
            };
            if head.is_sure {
                shapes.insert(shape(&id));
            }
            ids.entry(shape(&id)).or_default().insert(id);
        }
        is_every &= !ids.is_empty();
        shapes.extend(ids.into_iter().filter(|(_, ids)| ids.len() > 1).map(|(shape, _)| shape));
        let has_ids = is_every || !shapes.is_empty();
        let style = if has_ids { IdStyle::Any } else { IdStyle::None };
        Self { style, shapes, is_every }
    }

    /// Whether a text begins with an id.
    pub(super) fn has_id(&self, text: &str) -> bool {
        self.head(text).id.is_some()
    }

    /// Splits the text of a box.
    pub(super) fn head<'a>(&self, text: &'a str) -> TaskHead<'a> {
        let head = split_head(text, self.style);
        let is_id = |id: &String| {
            self.style != IdStyle::Any || self.is_every || self.shapes.contains(&shape(id))
        };
        if head.id.as_ref().is_none_or(is_id) { head } else { split_head(text, IdStyle::None) }
    }
}

/// The shape of an id: its letters, and `N` for its numbers.
fn shape(id: &str) -> String {
    let mut shape = String::new();
    for c in id.chars() {
        match c {
            '0'..='9' if shape.ends_with('N') => {}
            '0'..='9' => shape.push('N'),
            // `1.2.3` is a part of `1.2`.
            '.' if shape.strip_suffix('N').is_some_and(|rest| rest.ends_with('.')) => {
                shape.pop();
            }
            c => shape.push(c),
        }
    }
    shape
}

/// Splits the text of a task.
pub(super) fn split_head(text: &str, style: IdStyle) -> TaskHead<'_> {
    let mut head = TaskHead::default();
    let (mut rest, mut opened) = (text.trim(), "");
    loop {
        if let Some((tag, after)) = bracketed(rest) {
            if head.id.is_none() && is_id(tag, style) {
                (head.id, head.is_sure) = (Some(tag.to_owned()), true);
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
            (head.id, head.is_sure) = (Some(found.id.to_owned()), found.is_sure);
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
    is_sure: bool,
}

/// The id at the start of a text.
fn leading_id(text: &str, style: IdStyle) -> Option<LeadingId<'_>> {
    if style == IdStyle::Named {
        let found = leading_name(text);
        return found.map(|(id, rest)| LeadingId { id, rest, opened: "", is_sure: true });
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
    let rest = rest.trim_start();
    let has_parts = id.contains(['.', '-', '_']);
    let is_lower = rest.starts_with(|c: char| c.is_lowercase() || c.is_ascii_digit());
    let is_sure = is_marked || has_keyword || has_parts && !is_lower;
    Some(LeadingId { id, rest, opened, is_sure })
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

/// Words of the titles of steps, and of phases, which have several.
const STEP_WORDS: &[&str] = &["step", "task", "story", "unit", "ticket"];
const PHASE_WORDS: &[&str] =
    &["phase", "stage", "milestone", "sprint", "wave", "epic", "iteration", "track", "session"];

impl<'a> StepTitle<'a> {
    pub(super) fn parse(title: &'a str) -> Option<Self> {
        let is_symbol = |c: char| u32::from(c) > 0x2000 && !c.is_alphanumeric();
        let marked = strip_checkbox(title).1.trim_start_matches(is_symbol).trim_start();
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
        let has_word = !word.is_empty();
        let word = word.to_lowercase();
        let is_step = STEP_WORDS.contains(&word.as_str());
        let is_phase = PHASE_WORDS.contains(&word.as_str());
        // `Story 1.1 Draw it`
        let is_capital = after
            .strip_prefix(' ')
            .filter(|_| id.contains('.'))
            .is_some_and(|text| text.starts_with(|c: char| c.is_uppercase() || !c.is_ascii()));
        let is_marked = id.len() < number.len()
            || after.trim_start().starts_with([':', ')', '-', '\u{2013}', '\u{2014}'])
            || after.is_empty() && has_word
            || is_capital && (is_step || is_phase);
        if id.is_empty() || !is_marked {
            return None;
        }
        let text = after.trim_start_matches([':', ')', '-', '\u{2013}', '\u{2014}', ' ']);
        let text = close_pairs(opened, text).trim().to_owned();
        Some(Self { number: id, text, is_step, is_phase })
    }
}

/// The number and the text of a heading that is a part of the phase with a number: `1.2 Draw it` of `1`.
pub(super) fn part_of<'a>(phase: &str, title: &'a str) -> Option<(&'a str, &'a str)> {
    let rest = title.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = title.get(..title.len().saturating_sub(rest.len()))?.trim_end_matches('.');
    let inner = number.strip_prefix(phase)?.strip_prefix('.')?;
    let text = rest.trim_start_matches([':', ')', '-', '\u{2013}', '\u{2014}', ' ']);
    (!phase.is_empty() && !inner.is_empty() && !text.is_empty()).then_some((number, text))
}

/// Marks of finished work at an end of a text.
const TICKS: &[char] = &['\u{2705}', '\u{2714}', '\u{2713}', '\u{2611}', '\u{fe0f}'];
const DONE_WORDS: &[&str] = &["done", "complete", "completed", "finished"];

/// The text without a tick or a word at its start or its end that says that the work is done: `Draw (done)`,
/// `Draw \u{2705}`; `None` if there is none.
pub(super) fn without_done(text: &str) -> Option<String> {
    let marks: &[char] = &['*', '_', ' '];
    let start = text.trim_start_matches(marks);
    let opened = text.get(..text.len().saturating_sub(start.len()))?;
    let inner = start.trim_end_matches(marks);
    let closed = start.get(inner.len()..)?;
    let is_done = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        DONE_WORDS.contains(&word.as_str())
    };
    let without_word = |text: &str| {
        let in_marks = |open: char, close: char| text.strip_suffix(close)?.rsplit_once(open);
        let after = |dash: &str| text.rsplit_once(dash);
        let found = [in_marks('(', ')'), in_marks('[', ']'), text.rsplit_once(TICKS)];
        let dashes = [" - ", " \u{2013} ", " \u{2014} "].map(after);
        let mut found = found.into_iter().chain(dashes).flatten();
        found.find(|(_, word)| is_done(word)).map(|(before, _)| before.to_owned())
    };
    let mut rest = inner.trim_matches(TICKS).trim().to_owned();
    while let Some(before) = without_word(&rest) {
        before.trim_end_matches(TICKS).trim().clone_into(&mut rest);
    }
    (rest.len() < inner.len() && !rest.is_empty()).then(|| format!("{opened}{rest}{closed}"))
}

/// Whether a number is inside another one: `1.1` in `1`.
pub(super) fn is_part(around: Option<&str>, id: Option<&str>) -> bool {
    let (Some(around), Some(id)) = (around, id) else { return false };
    let is_number = !around.is_empty() && around.chars().all(|c| c.is_ascii_digit() || c == '.');
    let rest = id.strip_prefix(around).and_then(|rest| rest.strip_prefix('.'));
    is_number && rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The words of a title for comparison, with its number.
pub(super) fn normalized_words(title: &str) -> String {
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Whether a text has the priority of a task before it, or is struck through: `[P0] Draw`, `~~Draw~~`.
pub(super) fn has_status(head: &str) -> bool {
    let is_priority = |tag: &str| {
        let mut letters = tag.chars();
        letters.next() == Some('P')
            && letters.next().is_some_and(|c| c.is_ascii_digit())
            && letters.next().is_none()
    };
    head.starts_with("~~") || split_head(head, IdStyle::None).tags.iter().any(|it| is_priority(it))
}

/// The title of a step without the word before a colon: `Step: text`.
pub(super) fn without_word(title: &str) -> &str {
    let words = ["Step:", "Task:", "Story:"];
    words.iter().find_map(|word| title.strip_prefix(word)).map_or(title, str::trim_start)
}

/// The bold words at the start of an item, or else the whole text, and the words after them.
pub(super) fn phase_title(head: &str) -> (&str, &str) {
    match head.strip_prefix("**").and_then(|rest| rest.split_once("**")) {
        Some((title, rest)) => (title.trim_end_matches(':'), rest),
        None => (head, ""),
    }
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
    fn ids_of_boxes_do_not_depend_on_their_number() {
        let ids = |boxes: &[&str]| {
            let counted: Vec<(&str, bool)> = boxes.iter().map(|text| (*text, true)).collect();
            let ids = BoxIds::of(&counted);
            boxes.iter().map(|text| ids.head(text).id.unwrap_or_default()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&["1.1 Draw", "Print", "Send", "Rest", "Eat", "Go"])[0], "1.1");
        assert_eq!(ids(&["S3 upload", "Print"]), ["", ""]);
        assert_eq!(ids(&["3.5 mm jack", "Print"]), ["", ""]);
        assert_eq!(ids(&["1.1 draw", "1.2 print", "send"]), ["1.1", "1.2", ""]);
        assert_eq!(ids(&["US-1 draw", "US-2 print"]), ["US-1", "US-2"]);
        assert_eq!(ids(&["S3 upload"]), ["S3"]);
    }

    #[test]
    fn words_for_done_are_taken_from_the_ends() {
        for (text, rest) in [
            ("Draw (done)", "Draw"),
            ("Draw \u{2705}", "Draw"),
            ("\u{2705} Draw", "Draw"),
            ("**Draw \u{2714}\u{fe0f}**", "**Draw**"),
            ("Draw \u{2014} COMPLETED \u{2705}", "Draw"),
            ("Draw \u{2705} COMPLETE", "Draw"),
            ("Draw [Done]", "Draw"),
        ] {
            assert_eq!(without_done(text).as_deref(), Some(rest), "{text}");
        }
        for text in ["Draw what is done", "Draw - the map", "Draw (later)", "\u{2705}"] {
            assert_eq!(without_done(text), None, "{text}");
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
