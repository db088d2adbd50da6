//! The caller's knowledge about a plan file.

use crate::commands::Programs;

/// How to read a plan file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Of a file with several tagged plans, the one to read.
    pub tag: Option<String>,
    /// Dependencies to drop: pairs of a step and its dependency.
    pub drop_dependencies: Vec<(String, String)>,
    /// The name of the reading to use, instead of the default one. `items` also reads the numbered items of a text that
    /// does not look like a plan.
    pub reading: Option<String>,
    /// The programs of this machine. Criteria that read as commands are commands if one of these
    /// programs can start them, and files to modify must exist; without programs, texts stay texts.
    pub programs: Option<Programs>,
}

impl ReadOptions {
    /// The options that select a tag.
    #[must_use]
    pub fn of_tag(tag: Option<&str>) -> Self {
        Self { tag: tag.map(str::to_owned), ..Self::default() }
    }
}
