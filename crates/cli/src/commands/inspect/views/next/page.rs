//! A page of a list: some of its lines, counted from its beginning.

use clap::Args;

/// Which lines of a list are shown. Pages of one state follow each other: `--at` names it.
#[derive(Debug, Args, Clone, Copy)]
pub(super) struct PageArgs {
    /// Without the first N lines
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    after: u64,
    /// At most this many lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl PageArgs {
    pub(super) fn begin(self) -> Page {
        Page { before: self.after, left: self.limit.unwrap_or(u64::MAX) }
    }
}

/// A page while its list is gone through.
#[derive(Debug)]
pub(super) struct Page {
    /// The number of lines before it that are still to come.
    before: u64,
    /// The number of lines that it still has room for.
    left: u64,
}

impl Page {
    /// Whether the next line of the list is on it.
    pub(super) fn takes(&mut self) -> bool {
        if self.before > 0 {
            self.before -= 1;
            return false;
        }
        let is_taken = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_taken
    }
}
