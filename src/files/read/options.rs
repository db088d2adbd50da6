//! What the caller knows about a plan file.

/// How to read a plan file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Of a file with several tagged plans, the one to read.
    pub tag: Option<String>,
    /// Dependencies to drop: a step, and what it no longer waits for.
    pub drop_dependencies: Vec<(String, String)>,
    /// Whether numbered items of a text that does not look like a plan are steps.
    pub prose: bool,
}

impl ReadOptions {
    /// The options that select a tag.
    #[must_use]
    pub fn of_tag(tag: Option<&str>) -> Self {
        Self { tag: tag.map(str::to_owned), ..Self::default() }
    }
}
