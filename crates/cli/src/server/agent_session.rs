//! Finds out whether a process is in the shell of an agent session, and in which session: hosts
//! mark the environment of the commands of their model.
//!
//! This is a guard against agents that follow their instructions too well. A process that removes the
//! marks is not recognized (`docs/src/security.md`).
//!
//! Invariants:
//! - `ledger hook` belongs to the host, not to its model, and so does `ledger mcp`, unless its
//!   environment is that of the shell alone. A server, and a runner, answer for other processes
//!   than their own.
//! - A mark is a whole variable: the variables that a host sets only for its model's shell identify
//!   the host.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

struct HostMarks {
    /// Its name, as `ledger setup` calls it.
    host: &'static str,
    /// Variables of the model's shell; it has at least one of them. A value in the table must
    /// match.
    marks: &'static [(&'static str, Option<&'static str>)],
    /// A variable, and the end of its value that excludes the model's shell.
    unless: Option<(&'static str, &'static str)>,
    /// Variables, and the ends of their values, that only the shell of its model has, and its servers do not.
    /// With none, its servers have the same marks.
    shell_alone: &'static [(&'static str, &'static str)],
    /// The variable with the session.
    session: Option<&'static str>,
}

impl HostMarks {
    /// Whether an environment has one of the marks.
    fn marks_environment(&self, variable: &impl Fn(&str) -> Option<String>) -> bool {
        self.marks.iter().any(|(name, value)| match (variable(name), value) {
            (Some(found), Some(value)) => found == *value,
            (found, None) => found.is_some(),
            (None, Some(_)) => false,
        })
    }

    /// Whether its servers have none of the marks.
    #[cfg(feature = "mcp")]
    fn leaves_servers_unmarked(&self) -> bool {
        let mut marks = self.marks.iter();
        marks.all(|(mark, _)| self.shell_alone.iter().any(|(name, _)| name == mark))
    }
}

/// The marks of each host, as `tests/interfaces/marks.py` captures them. A host without one is not
/// recognized.
const HOSTS: [HostMarks; 6] = [
    HostMarks {
        host: "claude-code",
        marks: &[("CLAUDECODE", Some("1"))],
        unless: Some(("AI_AGENT", "_harness")),
        shell_alone: &[("AI_AGENT", "_agent")],
        session: Some("CLAUDE_CODE_SESSION_ID"),
    },
    HostMarks {
        host: "codex",
        marks: &[("CODEX_THREAD_ID", None), ("CODEX_TOOL_CALL_ID", None)],
        unless: None,
        shell_alone: &[("CODEX_THREAD_ID", ""), ("CODEX_TOOL_CALL_ID", "")],
        session: Some("CODEX_THREAD_ID"),
    },
    HostMarks {
        host: "gemini",
        marks: &[("GEMINI_CLI", Some("1"))],
        unless: None,
        shell_alone: &[],
        session: None,
    },
    HostMarks {
        host: "opencode",
        marks: &[("OPENCODE", Some("1"))],
        unless: None,
        shell_alone: &[],
        session: None,
    },
    HostMarks { host: "cursor", marks: &[], unless: None, shell_alone: &[], session: None },
    HostMarks { host: "vscode", marks: &[], unless: None, shell_alone: &[], session: None },
];

/// Commands that are not the model's, or that answer for other processes.
const EXEMPT: [&str; 4] = ["hook", "serve", "run", "resume"];

/// The command that is exempt, too, where the servers of a host have the marks of its model's shell.
const SERVER: &str = "mcp";

/// How many characters of a session's identifier are used.
const SHORT_ID_LENGTH: usize = 8;

/// The file in the folder of a ledger with the hosts whose agents may decide for a person.
const SETTINGS: &str = "AGENTS.json";

/// A session of an agent host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentSession {
    pub(crate) host: &'static str,
    /// The host, and the short identifier of the session if the host tells it.
    pub(crate) name: String,
    /// Whether the environment is that of its model's shell, and of none of its servers.
    is_shell_alone: bool,
}

/// The settings of a ledger for agents.
#[derive(Debug, Default, Serialize, Deserialize)]
struct AgentSettings {
    /// The hosts whose agents may decide for a person.
    decide: Vec<String>,
}

impl AgentSession {
    /// The session of the shell in which this process runs.
    pub(crate) fn of_this_process() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The session of the shell that started this process, for any command.
    pub(crate) fn of_environment() -> Option<Self> {
        Self::in_environment(|name| std::env::var(name).ok())
    }

    /// The session of the shell in which a process runs; `None` without a session, or for a part of
    /// the host.
    pub(super) fn of(process: u32) -> Option<Self> {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let session = Self::in_environment(|name| {
            if process == std::process::id() {
                return std::env::var(name).ok();
            }
            value_of(&environment, name).map(|value| String::from_utf8_lossy(value).into_owned())
        })?;
        let is_exempt = is_exempt(process, session.is_shell_alone);
        Some(session).filter(|_| !is_exempt)
    }

    fn in_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        plan_ledger::mutant!(AgentActsAsPerson => return None);
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_shell = |row: &&HostMarks| {
            !row.unless
                .is_some_and(|(name, end)| variable(name).is_some_and(|it| it.ends_with(end)))
        };
        let row = HOSTS.iter().filter(|row| row.marks_environment(&variable)).find(is_shell)?;
        let id = row.session.and_then(variable).unwrap_or_default();
        let short: String =
            id.chars().filter(char::is_ascii_alphanumeric).take(SHORT_ID_LENGTH).collect();
        let name =
            if short.is_empty() { row.host.to_owned() } else { format!("{}/{short}", row.host) };
        let mut alone = row.shell_alone.iter();
        let is_shell_alone =
            alone.any(|(name, end)| variable(name).is_some_and(|it| it.ends_with(end)));
        Some(Self { host: row.host, name, is_shell_alone })
    }

    /// Whether the owner of a ledger allowed the agents of this host to decide for a person.
    pub(super) fn may_decide(&self, ledger: &Path) -> bool {
        agents_may_decide(ledger, self.host)
    }
}

/// Whether a process is this program with a command that does not belong to the model. A server
/// that was started in the model's shell belongs to the model.
fn is_exempt(process: u32, is_shell_alone: bool) -> bool {
    let is_named = command_of(process).is_some_and(|command| {
        EXEMPT.contains(&command.as_str()) || command == SERVER && !is_shell_alone
    });
    is_named && is_this_program(process)
}

/// Whether a process is this program as a server of tools, which knows its callers.
pub(super) fn is_tool_server(process: u32) -> bool {
    command_of(process).is_some_and(|command| command == SERVER) && is_this_program(process)
}

/// The command of a process of this program.
fn command_of(process: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0).skip(1).map(String::from_utf8_lossy);
    while let Some(word) = words.next() {
        if word == "--color" || word == "--cache" {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word.into_owned());
        }
    }
    None
}

/// Whether a process runs the same program as this one.
pub(super) fn is_this_program(process: u32) -> bool {
    let file = |path: &str| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let (own, peer) = (file("/proc/self/exe"), file(&format!("/proc/{process}/exe")));
    peer.is_some() && own == peer
}

/// The value of a variable in the environment of a process.
pub(super) fn value_of<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Whether the owner of a ledger allowed the agents of a host to decide for a person.
pub(crate) fn agents_may_decide(ledger: &Path, host: &str) -> bool {
    settings(ledger).decide.iter().any(|allowed| allowed == host)
}

/// The host of this server's model, if the owner of a ledger allowed that model to decide for a
/// person. Without a mark in its environment, it may be any host that leaves its servers unmarked.
#[cfg(feature = "mcp")]
pub(crate) fn deciding_client(ledger: &Path) -> Option<&'static str> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let may_decide = |row: &&HostMarks| agents_may_decide(ledger, row.host);
    let found = match HOSTS.iter().find(|row| row.marks_environment(&variable)) {
        Some(row) => Some(row).filter(may_decide),
        None => HOSTS.iter().filter(|row| row.leaves_servers_unmarked()).find(may_decide),
    };
    found.map(|row| row.host)
}

/// Allow the agents of a host to decide for a person in a ledger, or take it back.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn set_agents_may_decide(ledger: &Path, host: &str, may: bool) -> std::io::Result<()> {
    let mut settings = settings(ledger);
    settings.decide.retain(|allowed| allowed != host);
    if may {
        settings.decide.push(host.to_owned());
    }
    let path = ledger.join(SETTINGS);
    if settings.decide.is_empty() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let text = serde_json::to_string(&settings).map_err(std::io::Error::other)?;
    let mut file = tempfile::NamedTempFile::new_in(ledger)?;
    std::io::Write::write_all(&mut file, format!("{text}\n").as_bytes())?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Settings that cannot be read allow nothing.
fn settings(ledger: &Path) -> AgentSettings {
    let text = fs::read_to_string(ledger.join(SETTINGS)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The hosts of the table.
#[cfg(test)]
pub(crate) fn hosts_of_sessions() -> Vec<&'static str> {
    HOSTS.iter().map(|row| row.host).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: only its marks identify a host.

    use super::*;

    fn session(variables: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        AgentSession::in_environment(value).map(|session| session.name)
    }

    #[test]
    fn each_host_is_recognized_by_its_marks() {
        let id = "4f2c1d3e-aaaa-bbbb";
        for (variables, name) in [
            (
                vec![("CLAUDECODE", "1"), ("CLAUDE_CODE_SESSION_ID", id)],
                Some("claude-code/4f2c1d3e"),
            ),
            (vec![("CLAUDECODE", "1"), ("AI_AGENT", "claude-code_2-1_agent")], Some("claude-code")),
            (vec![("CLAUDECODE", "1"), ("AI_AGENT", "claude-code_2-1_harness")], None),
            (vec![("CLAUDECODE", "0"), ("CLAUDE_PROJECT_DIR", "/x")], None),
            (vec![("CODEX_THREAD_ID", id)], Some("codex/4f2c1d3e")),
            (vec![("CODEX_TOOL_CALL_ID", "call_1")], Some("codex")),
            (vec![("CODEX_THREAD_ID", "")], None),
            (vec![("CODEX_HOME", "/x")], None),
            (vec![("GEMINI_CLI", "1")], Some("gemini")),
            (vec![("GEMINI_SESSION_ID", id)], None),
            (vec![("OPENCODE", "1")], Some("opencode")),
            (vec![], None),
        ] {
            assert_eq!(session(&variables).as_deref(), name, "{variables:?}");
        }
    }
}
