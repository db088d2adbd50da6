//! org-mode in the spelling of Markdown: `** NEXT Draw it :page:` is `## [ ] Draw it`. Each line stays one line.

use std::ops::Range;

use crate::draft::TaskStatus;

/// Words of headings that are tasks: left to do, done, dropped.
const OPEN: &[&str] = &[
    concat!("TO", "DO"),
    "NEXT",
    "DOING",
    "STARTED",
    "INPROGRESS",
    "WAITING",
    "WAIT",
    "HOLD",
    "BLOCKED",
];
const DONE: &[&str] = &["DONE", "FINISHED", "COMPLETED"];
const DROPPED: &[&str] = &["CANCELLED", "CANCELED", "DROPPED"];

/// The text in the spelling of Markdown; `None` if it is not org-mode: no heading has a keyword and nothing else shows
/// it, or one is of Markdown. Without keywords and boxes, and with nothing but headings, those without others below are
/// tasks.
pub(crate) fn as_markdown(text: &str) -> Option<String> {
    let has_keyword = |line: &str| heading(line).is_some_and(|(_, text)| keyword(text).is_some());
    let is_markdown =
        |line: &str| line.starts_with('#') && line.trim_start_matches('#').starts_with(' ');
    let has_sign = |line: &str| heading(line).is_some_and(|(level, _)| level > 1);
    let is_org = text.lines().any(has_keyword) || text.lines().any(has_sign);
    if !is_org || text.lines().any(is_markdown) {
        return None;
    }
    let is_outline = !text.lines().any(has_keyword) && is_outline(text);
    // The level of the next heading after each line, from the end.
    let mut next = 0;
    let next_levels = text.lines().rev().map(|line| {
        let level = heading(line).map_or(next, |(level, _)| level);
        std::mem::replace(&mut next, level)
    });
    let mut next_levels: Vec<usize> = next_levels.collect();
    let is_title =
        |line: &str| setting(line).is_some_and(|(name, _)| name.eq_ignore_ascii_case("title"));
    // The title is above all headings.
    let above = usize::from(text.lines().any(is_title));
    let mut in_drawer = false;
    let lines = text.lines().map(|line| {
        let next_level = next_levels.pop().unwrap_or_default();
        let word = line.trim().to_lowercase();
        if in_drawer || word == ":properties:" || word == ":logbook:" {
            in_drawer = word != ":end:";
            return String::new();
        }
        if let Some((level, text)) = heading(line) {
            let marks = "#".repeat(level.saturating_add(above).min(6));
            let is_task = is_outline && next_level <= level;
            let mark = if is_task { "[ ] " } else { "" };
            return format!("{marks} {mark}{}", title(text));
        }
        if word.starts_with("#+begin_") || word.starts_with("#+end_") {
            return "```".to_owned();
        }
        match setting(line) {
            Some((_, title)) if is_title(line) => format!("# {}", title.trim()),
            Some(_) => String::new(),
            None => line.to_owned(),
        }
    });
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// Whether a text has nothing but headings, settings and drawers.
fn is_outline(text: &str) -> bool {
    text.lines().all(|line| {
        let word = line.trim();
        heading(line).is_some()
            || word.is_empty()
            || word.starts_with(':')
            || setting(line).is_some()
    })
}

/// The name and the value of a setting: `#+TITLE: Pages`.
fn setting(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("#+")?.split_once(':')
}

/// The level and the text of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('*');
    let level = line.len().saturating_sub(text.len());
    (level > 0).then(|| text.strip_prefix(' ')).flatten().map(|text| (level, text.trim()))
}

/// The keyword of a heading, and the text after it.
fn keyword(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let is_known = [OPEN, DONE, DROPPED].iter().any(|words| words.contains(&word));
    is_known.then_some((word, rest.trim()))
}

/// The keyword of a heading: its place in the line, and its meaning.
pub(crate) struct OrgWord {
    pub(crate) place: Range<usize>,
    pub(crate) status: TaskStatus,
}

/// The keyword of a line that is a heading.
pub(crate) fn keyword_place(line: &str) -> Option<OrgWord> {
    let (_, text) = heading(line)?;
    let (word, _) = keyword(text)?;
    let start = line.find(word)?;
    let status = match word {
        _ if DONE.contains(&word) => TaskStatus::Done,
        _ if DROPPED.contains(&word) => TaskStatus::Dropped,
        _ => TaskStatus::Open,
    };
    Some(OrgWord { place: start..start.saturating_add(word.len()), status })
}

/// The text of a heading with the box of its keyword, without priority and tags.
fn title(text: &str) -> String {
    let Some((word, rest)) = keyword(text) else { return text.to_owned() };
    let rest =
        rest.strip_prefix("[#").and_then(|rest| rest.split_once("] ")).map_or(rest, |it| it.1);
    let tags = rest
        .rsplit_once(' ')
        .filter(|(_, tags)| tags.len() > 2 && tags.starts_with(':') && tags.ends_with(':'));
    let rest = tags.map_or(rest, |(rest, _)| rest.trim());
    if DONE.contains(&word) {
        format!("[x] {rest}")
    } else if DROPPED.contains(&word) {
        format!("[ ] ~~{rest}~~")
    } else {
        format!("[ ] {rest}")
    }
}
