//! Long work: how far it is, on a terminal, and whether somebody wants it to stop.
//!
//! Invariant: the first Ctrl-C asks; whoever works stops at the next record and leaves nothing
//! half-written. The second one ends the process, for whoever waits for a reader that does not read.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};

use plan_ledger::error::{Error, Result};

use super::signals::not_ignored;

/// Who watches long work.
#[derive(Debug)]
pub(super) struct Watch {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

/// In what it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    Records,
}

impl Watch {
    /// Takes over SIGINT and SIGTERM; what was ignored from the start, as in the background of a
    /// script, stays ignored. `about` is what is worked on.
    pub(super) fn new(unit: Unit, about: &Path) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in not_ignored([SIGINT, SIGTERM]) {
            // In this order, so that one signal does not do both.
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
                .map_err(|error| Error::io("watch for signals", about, error))?;
        }
        Ok(Self { bar: bar(unit), stop })
    }

    /// So much of it is done.
    pub(super) fn show(&self, message: &'static str, done: u64, total: u64) {
        self.bar.set_message(message);
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Whether somebody wants it to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The bar goes.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar where there is a terminal to draw it on.
fn bar(unit: Unit) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = match unit {
        Unit::Bytes => "{msg} {bar:30} {bytes}/{total_bytes} {elapsed}",
        Unit::Records => "{msg} {bar:30} {human_pos}/{human_len} {elapsed}",
    };
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| {
        // The template is a constant that parses; a plain bar is as good.
        ProgressStyle::default_bar()
    }));
    bar
}
