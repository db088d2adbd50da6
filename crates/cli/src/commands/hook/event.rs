//! The events of a session, under the names that each host gives them.

use crate::options::Host;

/// An event of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HookEvent {
    /// A session starts, is resumed or cleared, or continues after a compaction.
    SessionStart,
    /// The user has sent a prompt.
    Prompt,
    ToolUsed,
    /// The context of the session is about to be compacted, or was compacted.
    Compacting,
    /// The agent wants to stop.
    Stopping,
    /// The agent marks a task of the host's own list as completed.
    TaskCompleted,
}

/// The names that Claude Code introduced. Other hosts use those that they have.
const COMMON: &[(&str, HookEvent)] = &[
    ("SessionStart", HookEvent::SessionStart),
    ("UserPromptSubmit", HookEvent::Prompt),
    ("PostToolUse", HookEvent::ToolUsed),
    ("PreCompact", HookEvent::Compacting),
    ("Stop", HookEvent::Stopping),
    ("TaskCompleted", HookEvent::TaskCompleted),
];

const GEMINI: &[(&str, HookEvent)] = &[
    ("SessionStart", HookEvent::SessionStart),
    ("BeforeAgent", HookEvent::Prompt),
    ("AfterTool", HookEvent::ToolUsed),
    ("PreCompress", HookEvent::Compacting),
    ("AfterAgent", HookEvent::Stopping),
];

const OPENCODE: &[(&str, HookEvent)] = &[
    ("session.created", HookEvent::SessionStart),
    ("chat.message", HookEvent::Prompt),
    ("tool.execute.after", HookEvent::ToolUsed),
    ("session.compacted", HookEvent::Compacting),
    ("session.idle", HookEvent::Stopping),
];

const CURSOR: &[(&str, HookEvent)] = &[
    ("sessionStart", HookEvent::SessionStart),
    ("beforeSubmitPrompt", HookEvent::Prompt),
    ("postToolUse", HookEvent::ToolUsed),
    ("preCompact", HookEvent::Compacting),
    ("stop", HookEvent::Stopping),
];

impl HookEvent {
    fn table(host: Host) -> &'static [(&'static str, Self)] {
        match host {
            Host::ClaudeCode | Host::Codex | Host::VsCode => COMMON,
            Host::Gemini => GEMINI,
            Host::OpenCode => OPENCODE,
            Host::Cursor => CURSOR,
        }
    }

    /// The event that a host calls by that name.
    pub(super) fn of(host: Host, name: &str) -> Option<Self> {
        Self::table(host).iter().find(|(word, _)| *word == name).map(|(_, event)| *event)
    }

    /// The names of a host's events.
    pub(super) fn names(host: Host) -> Vec<&'static str> {
        Self::table(host).iter().map(|(word, _)| *word).collect()
    }
}
