//! The file that is edited.

use std::path::Path;

use crate::output::Failure;

use super::own::Program;

/// A file that is edited, and the program that its settings name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) path: &'a Path,
    pub(super) program: &'a Program,
}

impl Target<'_> {
    /// The error for a file that cannot be edited.
    pub(super) fn refused(self, why: &str) -> Failure {
        Failure::Usage(format!("{}: {why}\nhint: fix it; no file was changed", self.path.display()))
    }
}
