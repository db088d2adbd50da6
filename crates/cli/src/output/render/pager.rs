//! Long output on a terminal goes through a pager, as with git: `LEDGER_PAGER`, else `PAGER`, else
//! `less`. An empty value, or `cat`, disables it.

use std::io::{self, IsTerminal as _, Write};
use std::process::{Command, Stdio};

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

fn start() -> Option<std::process::Child> {
    if !io::stdout().is_terminal() {
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
