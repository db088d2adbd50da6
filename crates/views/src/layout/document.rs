//! The parts of a document, in their order.

use super::chart::Series;
use super::table::Table;
use super::text::{Paint, Text};
use super::timeline::Timeline;
use super::tree::Tree;

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A heading.
    Heading(Text),
    /// A line; it is wrapped where it is too long.
    Line {
        /// Columns before it.
        indent: usize,
        /// Its text.
        text: Text,
    },
    /// A line whose middle is cut where it is too long.
    Cut {
        /// Columns before it.
        indent: usize,
        /// Its start.
        start: Text,
        /// Its middle.
        text: Text,
        /// Its end.
        end: Text,
    },
    /// An empty line.
    Gap,
    /// A table.
    Table {
        /// Columns before it.
        indent: usize,
        /// Its rows.
        table: Table,
    },
    /// A command to type.
    Command {
        /// Columns before it.
        indent: usize,
        /// The command line, quoted.
        line: String,
    },
    /// A value over time.
    Chart {
        /// The values.
        series: Series,
        /// The labels at the top and at the bottom of the axis.
        labels: (String, String),
    },
    /// The attempts of steps over time.
    Timeline(Timeline),
    /// A graph, drawn as a tree.
    Tree(Tree),
    /// Lines of another language, exactly as they are, but for characters that control a terminal.
    Verbatim(String),
}

/// The contents of a view, from top to bottom.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    blocks: Vec<Block>,
}

impl Document {
    /// A document of one part.
    #[must_use]
    pub fn of(block: Block) -> Self {
        Self { blocks: vec![block] }
    }

    /// A document of one line.
    #[must_use]
    pub fn of_line(text: impl Into<Text>) -> Self {
        Self::of(Block::Line { indent: 0, text: text.into() })
    }

    /// Adds a part.
    pub fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: impl Into<Text>) {
        self.push(Block::Heading(text.into()));
    }

    /// Adds a line.
    pub fn line(&mut self, text: impl Into<Text>) {
        self.indented(0, text);
    }

    /// Adds a line with that emphasis.
    pub fn painted(&mut self, paint: Paint, text: impl Into<String>) {
        self.line(Text::painted(paint, text));
    }

    /// Adds a line after some columns.
    pub fn indented(&mut self, indent: usize, text: impl Into<Text>) {
        self.push(Block::Line { indent, text: text.into() });
    }

    /// Adds a line that is cut where it is too long.
    pub fn cut(&mut self, indent: usize, text: impl Into<Text>) {
        let (start, end) = (Text::default(), Text::default());
        self.push(Block::Cut { indent, start, text: text.into(), end });
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.push(Block::Gap);
    }

    /// Adds a table, if it has headings or rows.
    pub fn table(&mut self, indent: usize, table: Table) {
        if !table.rows().is_empty() || !table.headings().is_empty() {
            self.push(Block::Table { indent, table });
        }
    }

    /// Adds a command to type.
    pub fn command(&mut self, indent: usize, line: impl Into<String>) {
        self.push(Block::Command { indent, line: line.into() });
    }

    /// Adds the parts of another document.
    pub fn append(&mut self, other: Self) {
        self.blocks.extend(other.blocks);
    }

    /// Its parts.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Whether the document is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}
