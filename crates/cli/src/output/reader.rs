//! The reader of a process's output: a person, an agent, or a worker inside its attempt.
//!
//! A text for an agent has no command that decides for a person: an agent that follows it would type it. A text for a
//! worker has no command that is refused inside an attempt.

use std::cell::Cell;
use std::sync::OnceLock;

use plan_ledger_views::Audience;

/// The reader of all output of this process; a person, if it is not set.
static READER: OnceLock<Audience> = OnceLock::new();

thread_local! {
    static THREAD_FOR_AGENTS: Cell<bool> = const { Cell::new(false) };
}

/// All output of this process is for this reader.
pub(crate) fn write_for(reader: Audience) {
    // The first one counts: a process has one command line.
    let _ = READER.set(reader);
}

/// Makes a text for an agent.
#[cfg(any(feature = "http", feature = "mcp"))]
pub(crate) fn for_agents<T>(make: impl FnOnce() -> T) -> T {
    let before = THREAD_FOR_AGENTS.replace(true);
    let made = make();
    THREAD_FOR_AGENTS.set(before);
    made
}

/// Whether the output is for no person.
pub(crate) fn is_for_agent() -> bool {
    reader() <= Audience::Agent
}

/// The reader of the output.
pub(crate) fn reader() -> Audience {
    let of_process = READER.get().copied().unwrap_or(Audience::Person);
    if THREAD_FOR_AGENTS.get() { of_process.min(Audience::Agent) } else { of_process }
}

/// Whether the reader of the output may type this command line.
pub(crate) fn is_for_reader(line: &str) -> bool {
    // A command may be for another folder.
    let line =
        line.strip_prefix("cd ").and_then(|it| it.rsplit_once("&& ")).map_or(line, |it| it.1);
    let Some(rest) = line.strip_prefix("ledger ") else { return true };
    let words: Vec<&str> = rest.split(' ').collect();
    Audience::of(&words) <= reader()
}
