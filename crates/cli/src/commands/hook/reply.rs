//! The answer of a hook, in the form of each host.

use serde_json::{Value, json};

use crate::options::Host;

/// The answer of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// Nothing: the session continues.
    Nothing,
    /// A text for the context of the agent.
    Context(String),
    /// The agent must not stop, for this reason.
    Hold(String),
    /// The task must not be completed, for this reason.
    Veto(String),
    /// A text for the user: the session continues.
    Notice(String),
}

/// The output of the process.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    /// The JSON on standard output.
    pub(super) output: Option<Value>,
    /// The reason for exit code 2, on standard error.
    pub(super) veto: Option<String>,
}

impl Reply {
    /// The answer to an event, in the form of the host.
    pub(super) fn render(self, host: Host, event: &str) -> Rendered {
        let output = match self {
            Self::Nothing => return Rendered::default(),
            Self::Veto(reason) => return Rendered { output: None, veto: Some(reason) },
            // The other hosts read it in this form.
            Self::Notice(_) if matches!(host, Host::Cursor | Host::OpenCode) => {
                return Rendered::default();
            }
            Self::Notice(text) => json!({ "systemMessage": text }),
            Self::Context(text) => context(host, event, &text),
            Self::Hold(reason) => hold(host, event, &reason),
        };
        Rendered { output: Some(output), veto: None }
    }
}

fn context(host: Host, event: &str, text: &str) -> Value {
    match host {
        Host::Cursor => json!({ "additional_context": text }),
        Host::OpenCode => json!({ "context": text }),
        Host::ClaudeCode | Host::Codex | Host::Gemini | Host::VsCode => {
            json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
        }
    }
}

fn hold(host: Host, event: &str, reason: &str) -> Value {
    match host {
        Host::ClaudeCode | Host::Codex => json!({ "decision": "block", "reason": reason }),
        Host::Gemini => json!({ "decision": "deny", "reason": reason }),
        Host::Cursor => json!({ "followup_message": reason }),
        Host::OpenCode => json!({ "hold": reason }),
        Host::VsCode => json!({
            "hookSpecificOutput": { "hookEventName": event, "decision": "block", "reason": reason }
        }),
    }
}
