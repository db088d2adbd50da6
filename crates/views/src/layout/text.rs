//! Text with emphasis.

use plan_ledger::{StepNumber, StepStatus};

use super::chart::Bar;

/// The emphasis of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paint {
    /// None.
    #[default]
    None,
    /// A name or a title.
    Heading,
    /// Less important than the rest.
    Faint,
    /// A success.
    Good,
    /// Something to look at.
    Notice,
    /// A failure.
    Bad,
}

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// Text with one emphasis.
    Text(Paint, String),
    /// A bar.
    Bar(Paint, Bar),
    /// A step and its status, which a page keeps current.
    Step(StepNumber, StepStatus, String),
}

/// A text of parts, each with its emphasis.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    spans: Vec<Span>,
}

impl Text {
    /// A text with one emphasis.
    #[must_use]
    pub fn painted(paint: Paint, text: impl Into<String>) -> Self {
        Self::default().and(paint, text)
    }

    /// A bar.
    #[must_use]
    pub fn bar(paint: Paint, bar: Bar) -> Self {
        Self { spans: vec![Span::Bar(paint, bar)] }
    }

    /// A step with its status: `[+] #37 build`.
    #[must_use]
    pub fn step(number: StepNumber, status: StepStatus, id: impl Into<String>) -> Self {
        Self { spans: vec![Span::Step(number, status, id.into())] }
    }

    /// This text, and more text with that emphasis.
    #[must_use]
    pub fn and(mut self, paint: Paint, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.spans.push(Span::Text(paint, text));
        }
        self
    }

    /// This text, and more text without emphasis.
    #[must_use]
    pub fn plain(self, text: impl Into<String>) -> Self {
        self.and(Paint::None, text)
    }

    /// This text, and another one after it.
    #[must_use]
    pub fn then(mut self, other: impl Into<Self>) -> Self {
        self.spans.extend(other.into().spans);
        self
    }

    /// Its parts.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Whether the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::painted(Paint::None, text)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::painted(Paint::None, text)
    }
}

impl From<(Paint, String)> for Text {
    fn from((paint, text): (Paint, String)) -> Self {
        Self::painted(paint, text)
    }
}

impl From<(Paint, &str)> for Text {
    fn from((paint, text): (Paint, &str)) -> Self {
        Self::painted(paint, text)
    }
}
