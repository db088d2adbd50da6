//! The input of a hook: the JSON object that a host writes to its standard input.
//!
//! Hosts use different names for the same member. A member that is missing is not an error, since
//! hosts change: the hook then works without it as far as possible.

use std::path::Path;

use serde_json::{Map, Value};

use crate::protocol::Failure;

#[derive(Debug)]
pub(super) struct HookInput {
    members: Map<String, Value>,
}

/// The input of the agent for a tool. It may quote an answer that no tool gave.
const WORDS_OF_THE_AGENT: [&str; 4] = ["tool_input", "prompt", "last_assistant_message", "args"];

impl HookInput {
    /// Parses the input. An empty input comes from a person who tries the command.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        if text.trim().is_empty() {
            return Ok(Self { members: Map::new() });
        }
        match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Ok(Self { members }),
            Ok(_) => Err(Failure::Usage("the input of a hook is a JSON object".to_owned())),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                Err(Failure::Usage(format!(
                    "the input of the hook is not JSON: line {line}, column {column}"
                )))
            }
        }
    }

    fn text(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.members.get(*name)?.as_str())
    }

    pub(super) fn session_id(&self) -> Option<&str> {
        self.text(&["session_id", "sessionId", "sessionID", "conversation_id"])
    }

    /// The working folder of the session.
    pub(super) fn folder(&self) -> Option<&Path> {
        let roots = || self.members.get("workspace_roots")?.as_array()?.first()?.as_str();
        self.text(&["cwd", "directory"]).or_else(roots).map(Path::new)
    }

    /// Whether the session starts again because its context was compacted.
    pub(super) fn starts_after_compaction(&self) -> bool {
        self.text(&["source", "trigger"]).is_some_and(|source| source == "compact")
    }

    /// Whether the agent stops again after a hook had told it to continue; `None` if the host does not say
    /// so.
    pub(super) fn was_held(&self) -> Option<bool> {
        let active = self.members.get("stop_hook_active").and_then(Value::as_bool);
        // Cursor counts.
        active.or_else(|| Some(self.members.get("loop_count")?.as_u64()? > 0))
    }

    /// The task that the agent wants to complete: its subject and its description.
    pub(super) fn task(&self) -> String {
        let subject = self.text(&["task_subject", "subject"]).unwrap_or_default();
        let description = self.text(&["task_description", "description"]).unwrap_or_default();
        format!("{subject}\n{description}")
    }

    /// The whole answer of the tool, as one text without escapes and spaces.
    pub(super) fn tool_answer(&self) -> String {
        let answers =
            self.members.iter().filter(|(name, _)| !WORDS_OF_THE_AGENT.contains(&name.as_str()));
        let text: String = answers.map(|(_, value)| value.to_string()).collect();
        text.replace("\\n", "").chars().filter(|c| *c != '\\' && !c.is_whitespace()).collect()
    }
}
