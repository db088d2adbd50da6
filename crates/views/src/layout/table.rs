//! Tables.

use super::text::{Paint, Text};

/// Rows of cells, with or without headings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<Text>>,
    is_wrapped: bool,
}

impl Table {
    /// A table with headings.
    #[must_use]
    pub fn with_headings(headings: &[&str]) -> Self {
        let headings = headings.iter().map(|text| (*text).to_owned()).collect();
        Self { headings, ..Self::default() }
    }

    /// A table without headings. Its long lines are wrapped instead of cut.
    #[must_use]
    pub fn wrapped() -> Self {
        Self { is_wrapped: true, ..Self::default() }
    }

    /// Whether long lines are wrapped instead of cut.
    #[must_use]
    pub fn is_wrapped(&self) -> bool {
        self.is_wrapped
    }

    /// Adds a row.
    pub fn row<C: Into<Text>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The headings; empty if it has none.
    #[must_use]
    pub fn headings(&self) -> &[String] {
        &self.headings
    }

    /// The rows, without the headings.
    #[must_use]
    pub fn rows(&self) -> &[Vec<Text>] {
        &self.rows
    }

    /// The headings, if it has any, and the rows.
    pub(crate) fn all_rows(&self) -> impl Iterator<Item = Vec<Text>> {
        let headings = self.headings.iter().map(|text| Text::painted(Paint::Faint, text));
        let headings: Vec<Text> = headings.collect();
        let first = (!headings.is_empty()).then_some(headings);
        first.into_iter().chain(self.rows.iter().cloned())
    }
}
