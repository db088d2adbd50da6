//! The reader of a process's output: a person, or an agent.
//!
//! A text for an agent has no command that decides for a person: an agent that follows it would type it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use plan_ledger_views::Audience;

/// Whether all output of this process is for an agent.
static PROCESS_FOR_AGENTS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static THREAD_FOR_AGENTS: Cell<bool> = const { Cell::new(false) };
}

/// From now on all output of this process is for an agent.
pub(crate) fn write_for_agents() {
    PROCESS_FOR_AGENTS.store(true, Ordering::Relaxed);
}

/// Makes a text for an agent.
#[cfg_attr(not(feature = "mcp"), expect(dead_code, reason = "only MCP needs it"))]
pub(crate) fn for_agents<T>(make: impl FnOnce() -> T) -> T {
    let before = THREAD_FOR_AGENTS.replace(true);
    let made = make();
    THREAD_FOR_AGENTS.set(before);
    made
}

/// Whether the output is for an agent.
pub(crate) fn is_for_agent() -> bool {
    PROCESS_FOR_AGENTS.load(Ordering::Relaxed) || THREAD_FOR_AGENTS.get()
}

/// The reader of the output.
pub(crate) fn reader() -> Audience {
    if is_for_agent() { Audience::Agent } else { Audience::Person }
}

/// Whether the reader of the output may type this command line: an agent decides for no person, and starts no
/// judge.
pub(crate) fn is_for_reader(line: &str) -> bool {
    // A command may be for another folder.
    let line =
        line.strip_prefix("cd ").and_then(|it| it.rsplit_once("&& ")).map_or(line, |it| it.1);
    let Some(rest) = line.strip_prefix("ledger ") else { return true };
    let words: Vec<&str> = rest.split(' ').collect();
    Audience::of(&words) <= reader()
}
