//! The agent hosts that hooks and setup know.

use clap::ValueEnum;

/// An agent host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Host {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// `OpenCode`
    #[value(name = "opencode", help = "OpenCode")]
    OpenCode,
    /// Cursor
    Cursor,
    /// VS Code
    #[value(name = "vscode")]
    VsCode,
}

impl Host {
    pub(crate) const ALL: [Self; 6] =
        [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::OpenCode, Self::Cursor, Self::VsCode];

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::hosts_of_sessions;

    /// A host without marks also has a row, to state this.
    #[test]
    fn every_host_has_a_row_of_marks() {
        let mut rows = hosts_of_sessions();
        let mut names: Vec<_> = Host::ALL.into_iter().map(Host::name).collect();
        rows.sort_unstable();
        names.sort_unstable();
        assert_eq!(rows, names);
    }
}
