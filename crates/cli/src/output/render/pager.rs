//! Long output on a terminal goes through a pager, as with git: `LEDGER_PAGER`, else `PAGER`, else
//! `less`. An empty value, or `cat`, disables it.
//!
//! There is no pager where no person can press a key: without a terminal that a pager can use
//! (`TERM`), and in the shell of an agent.

use std::io::{self, IsTerminal as _, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether no person can press a key.
static DISABLED: AtomicBool = AtomicBool::new(false);

/// From now on this process starts no pager.
pub(crate) fn disable_pager() {
    DISABLED.store(true, Ordering::Relaxed);
}

/// Calls `print` with standard output, or with a pager if standard output is a terminal.
pub(crate) fn with_pager<T>(print: impl FnOnce(&mut dyn Write) -> T) -> T {
    let Some(mut pager) = start() else { return print(&mut io::stdout().lock()) };
    let result = match pager.stdin.take() {
        Some(mut input) => print(&mut input),
        None => print(&mut io::stdout().lock()),
    };
    // The input is closed now. What the pager returns says nothing about the command.
    let _ = pager.wait();
    result
}

/// Whether the terminal can move its cursor.
fn is_usable_terminal() -> bool {
    std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb")
}

fn start() -> Option<std::process::Child> {
    let is_disabled = DISABLED.load(Ordering::Relaxed);
    if is_disabled || !io::stdout().is_terminal() || !is_usable_terminal() {
        return None;
    }
    let command = ["LEDGER_PAGER", "PAGER"].into_iter().find_map(std::env::var_os);
    let command = command.unwrap_or_else(|| "less".into());
    if command.is_empty() || command == "cat" {
        return None;
    }
    let mut pager = Command::new("sh");
    pager.arg("-c").arg(command).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Quit if it fits one screen, show colors, keep the text on the screen.
        pager.env("LESS", "FRX");
    }
    pager.spawn().ok()
}
