//! The readings of a file: which of its parts are the steps.
//!
//! Most files have one reading. Where marks are close, a file has a second one, which is reported and can be selected
//! by its name. The default never depends on who reads the file.

use std::fmt;

use plan_ledger::plan::Plan;

/// Which parts of a Markdown text are the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    Boxes,
    Headings,
    Items,
    Tables,
}

impl Reading {
    /// The name, which selects it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Boxes => "boxes",
            Self::Headings => "headings",
            Self::Items => "items",
            Self::Tables => "tables",
        }
    }

    /// What the parts of the text are.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Boxes => "each checkbox is a step, headings are phases, other lists are text",
            Self::Headings => {
                "each heading of a step or a phase is a step, the checkboxes in it are criteria, its lists and \
                 tables are text"
            }
            Self::Items => {
                "each item of the lists of work is a step, headings are phases, checkboxes elsewhere are text"
            }
            Self::Tables => "each row of the tables of tasks is a step, headings are phases",
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many titles of steps a reading shows.
const TITLES_MAX: usize = 3;

/// One of several readings of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReading {
    pub reading: Reading,
    /// The number of its steps.
    pub steps: usize,
    /// The titles of the first steps.
    pub titles: Vec<String>,
}

impl FileReading {
    /// The reading that gives a plan.
    #[must_use]
    pub fn of(reading: Reading, plan: &Plan) -> Self {
        let titles = plan.steps.iter().take(TITLES_MAX).map(|step| {
            let text = if step.title.is_empty() { &step.goal } else { &step.title };
            text.lines().next().unwrap_or_default().to_owned()
        });
        Self { reading, steps: plan.steps.len(), titles: titles.collect() }
    }
}

impl fmt::Display for FileReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.steps == 1 { "" } else { "s" };
        write!(f, "{} ({} step{s})", self.reading, self.steps)
    }
}
