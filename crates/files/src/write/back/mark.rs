//! A mark: the part of a file that says whether a step is done, and the text that says it.

use std::ops::Range;

use super::words::Words;
use crate::draft::TaskStatus;
use crate::plan_file::PlanFormat;

/// The part of a file that has the status of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// The index of the file.
    pub(super) file: usize,
    /// The status, without quotes.
    pub(super) inner: Range<usize>,
    /// All that belongs to the mark, so that the rest stays when it changes.
    pub(super) span: Range<usize>,
    pub(super) kind: MarkKind,
    /// Whether it is a box inside of the step.
    pub(super) is_part: bool,
}

/// How a mark is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkKind {
    /// The text between the brackets of a box.
    Box,
    /// A box that is a symbol.
    Symbol,
    /// A word.
    Word,
    /// A word of YAML without quotes.
    PlainWord,
    /// A word in quotes that cannot have this character.
    Quoted(char),
    /// The text of a cell, with the space around it.
    Cell,
    /// A truth value; in a cell, as text.
    Flag,
    FlagCell,
    /// The start of a line of todo.txt.
    Start,
}

/// What a file uses for its marks.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) words: Words,
    pub(super) flags: Words,
    /// The texts in boxes and the symbols of those that are done.
    pub(super) ticks: Words,
    pub(super) symbols: Words,
    /// Whether a line of todo.txt has the day on which it was done.
    pub(super) has_days: bool,
}

/// A status to write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) status: TaskStatus,
    pub(super) format: PlanFormat,
    /// The day, as `2026-11-30`.
    pub(super) today: Option<&'a str>,
}

impl MarkKind {
    /// The status that a mark says, if its text alone says one.
    pub(super) fn status(self, inner: &str) -> TaskStatus {
        let of_done = |is_done: bool| if is_done { TaskStatus::Done } else { TaskStatus::Open };
        match self {
            Self::Box => of_done(!inner.trim().is_empty() && !inner.trim().starts_with('-')),
            Self::Symbol => of_done(!OPEN_SYMBOLS.contains(&inner.trim_end_matches('\u{fe0f}'))),
            Self::Flag | Self::FlagCell => of_done(is_true(inner)),
            Self::Start => of_done(!inner.is_empty()),
            Self::Word | Self::PlainWord | Self::Quoted(_) | Self::Cell => TaskStatus::parse(inner),
        }
    }
}

/// The symbols of open boxes, and of work that is not done.
const OPEN_SYMBOLS: &[&str] = &[
    "\u{2610}",
    "\u{2b1c}",
    "\u{1f532}",
    "\u{25fb}",
    "\u{23f3}",
    "\u{1f6a7}",
    "\u{1f504}",
    "\u{1f51c}",
];

/// The symbol that is a ticked box in any text.
const TICKED: &str = "\u{2611}";

fn is_true(word: &str) -> bool {
    ["true", "yes"].contains(&word.trim().to_lowercase().as_str())
}

impl Mark {
    /// The new text of the mark's span; `None` if the form has none.
    pub(super) fn text(&self, text: &str, usage: &Usage, wanted: Wanted<'_>) -> Option<String> {
        let part = |range: Range<usize>| text.get(range).unwrap_or_default();
        let before = part(self.inner.clone());
        let (start, end) =
            (part(self.span.start..self.inner.start), part(self.inner.end..self.span.end));
        let is_done = wanted.status == TaskStatus::Done;
        let is_word = matches!(
            self.kind,
            MarkKind::Word | MarkKind::PlainWord | MarkKind::Quoted(_) | MarkKind::Cell
        );
        let has_dropped = is_word || wanted.format == PlanFormat::NativeMarkdown;
        if wanted.status == TaskStatus::Dropped && !has_dropped {
            return None;
        }
        let word = || usage.words.word(wanted.status, before, wanted.format);
        Some(match self.kind {
            MarkKind::Box if wanted.format == PlanFormat::NativeMarkdown => match wanted.status {
                TaskStatus::Done => "x",
                TaskStatus::Dropped => "-",
                TaskStatus::Open => " ",
            }
            .to_owned(),
            MarkKind::Box => {
                let tick = if wanted.format == PlanFormat::Org { "X" } else { "x" };
                let tick = usage.ticks.of_file(TaskStatus::Done).unwrap_or(tick);
                if is_done { tick.to_owned() } else { " ".to_owned() }
            }
            MarkKind::Symbol => {
                let open = usage.symbols.of_file(TaskStatus::Open).unwrap_or("\u{2610}");
                if is_done { TICKED.to_owned() } else { open.to_owned() }
            }
            MarkKind::Word => word().filter(|word| !word.contains([',', ';', '\t', '"', '|']))?,
            MarkKind::PlainWord => {
                let word = word()?;
                let is_plain = word.starts_with(char::is_alphabetic)
                    && word.chars().all(|c| c.is_alphanumeric() || " _-".contains(c));
                if is_plain { word } else { format!("\"{word}\"") }
            }
            MarkKind::Quoted(quote) => {
                let word = word().filter(|it| !it.contains([quote, '\\']) && !it.contains('\n'))?;
                format!("{start}{word}{end}")
            }
            MarkKind::Cell => padded(start, &word()?, end, part(self.span.clone())),
            MarkKind::Flag => format!("{start}{}{end}", flag(before, usage, is_done)),
            MarkKind::FlagCell => {
                let flag = flag(before, usage, is_done);
                padded(start, &flag, end, part(self.span.clone()))
            }
            MarkKind::Start => {
                let line = part(self.span.end..text.len());
                let is_dated = line.starts_with(|c: char| c.is_ascii_digit()) || usage.has_days;
                match wanted.today.filter(|_| is_dated) {
                    _ if !is_done => String::new(),
                    Some(day) => format!("x {day} "),
                    None => "x ".to_owned(),
                }
            }
        })
    }
}

/// The word for a truth value, as the file spells it.
fn flag(before: &str, usage: &Usage, is_set: bool) -> String {
    let status = if is_set { TaskStatus::Done } else { TaskStatus::Open };
    let known = usage.flags.of_file(status).map(str::to_owned);
    known.unwrap_or_else(|| {
        let is_number = ["yes", "no", ""].contains(&before.trim().to_lowercase().as_str());
        let word = match (is_set, is_number) {
            (true, true) => "yes",
            (false, true) => "no",
            (true, false) => "true",
            (false, false) => "false",
        };
        super::words::in_case_of(before, word)
    })
}

/// The inside of a cell, as wide as before if there is room.
fn padded(start: &str, word: &str, end: &str, before: &str) -> String {
    let width = |text: &str| text.chars().count();
    if word.is_empty() {
        // The marks around a word have no meaning without it.
        return " ".repeat(width(before));
    }
    let start = if start.is_empty() && before.starts_with(' ') { " " } else { start };
    let kept = end.trim_end_matches(' ');
    let mut text = format!("{start}{word}{kept}");
    let has_space = before.ends_with(' ') && !before.is_empty();
    let missing = width(before).saturating_sub(width(&text)).max(usize::from(has_space));
    if has_space {
        text.push_str(&" ".repeat(missing));
    }
    text
}
