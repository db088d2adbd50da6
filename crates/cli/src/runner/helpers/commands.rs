//! Helpers: the commands for a judge of text criteria, for a planner and for a decider
//! (`format/hand-off.md`).
//!
//! Invariant: a helper's reply is used only if it can be parsed. Any other reply gives neither a
//! verdict nor a plan, and the item waits for a person.

use plan_ledger::plan::ToolRegistry;
use plan_ledger::{ApprovalPolicy, Plan};

/// The configured judge, planner and decider, if any.
#[derive(Debug, Clone, Default)]
pub struct Helpers {
    /// The judge of text criteria.
    pub judge: Option<Judge>,
    pub planner: Option<Planner>,
    /// The decider about failures.
    pub decider: Option<FailureDecider>,
}

/// A command that decides about failures.
#[derive(Debug, Clone)]
pub struct FailureDecider {
    /// The shell command.
    pub command: String,
    /// The agent session that started its runner, and so chose it.
    pub chosen_by: Option<String>,
}

impl FailureDecider {
    /// The name under which its decisions are recorded.
    #[must_use]
    pub fn name(&self) -> String {
        name_of("decider:", &self.command, self.chosen_by.as_deref())
    }
}

/// A command that judges text criteria.
#[derive(Debug, Clone)]
pub struct Judge {
    /// The shell command.
    pub command: String,
    /// The agent session that started its runner, and so chose it.
    pub chosen_by: Option<String>,
}

/// A command that writes a new plan version on request.
#[derive(Debug, Clone)]
pub struct Planner {
    /// The shell command.
    pub command: String,
    /// Whether its plans need approval by a person.
    pub approval: ApprovalPolicy,
    /// Parses its output, in any format that a plan file may have.
    pub read: fn(&[u8]) -> Result<PlannedWork, String>,
    /// Whether the commands of its plans, in a form of another tool, are approved.
    pub commands_approved: bool,
    /// The registry of tools that completes its plans.
    pub tools: Option<ToolRegistry>,
}

/// A plan that a planner printed.
#[derive(Debug, Clone)]
pub struct PlannedWork {
    pub plan: Plan,
    /// Its commands, in a form of another tool.
    pub commands: Vec<String>,
}

impl Judge {
    /// The name under which its verdicts are recorded.
    #[must_use]
    pub fn name(&self) -> String {
        name_of("judge:", &self.command, self.chosen_by.as_deref())
    }
}

impl Planner {
    /// The name under which its plans are recorded.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{PLANNER_PREFIX}{}", program(&self.command))
    }

    /// The plan that it printed, completed from the registry of tools.
    ///
    /// # Errors
    /// The problem of the text.
    pub fn plan(&self, printed: &[u8]) -> Result<PlannedWork, String> {
        let PlannedWork { plan, commands } = (self.read)(printed)?;
        let plan = match &self.tools {
            Some(tools) => plan.enriched(tools),
            None => plan,
        };
        Ok(PlannedWork { plan, commands })
    }

    /// The variables of its process. Its changes with `ledger` are recorded under its name.
    pub(crate) fn environment(&self, run: &str) -> Vec<(String, String)> {
        vec![("LEDGER_RUN".to_owned(), run.to_owned()), ("LEDGER_BY".to_owned(), self.name())]
    }
}

/// The name of a helper: its program, and the agent that chose it, since its decisions then are those of an agent.
fn name_of(prefix: &str, command: &str, chosen_by: Option<&str>) -> String {
    let by = chosen_by.map(|agent| format!(" (chosen by {agent})")).unwrap_or_default();
    format!("{prefix}{}{by}", program(command))
}

/// The time limit of a judge or a planner in seconds, if the plan has no timeout for its steps.
pub(crate) const TIMEOUT_SECONDS: u32 = 3600;

/// The time limit of a command criterion in seconds, if the plan has no timeout for its steps.
pub(crate) const CHECK_TIMEOUT_SECONDS: u32 = 600;

/// The prefix of planner names.
pub(crate) const PLANNER_PREFIX: &str = "planner:";

/// Programs that only run other programs.
const INTERPRETERS: [&str; 8] = ["sh", "bash", "env", "exec", "node", "python", "python3", "uvx"];

/// The name of the program or script that a shell command starts, without its folder. Only the name
/// is recorded, since the command may contain a secret.
fn program(command: &str) -> &str {
    let words = command.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
    let names = words.filter(|word| !word.starts_with('-') && !is_assignment(word));
    let names = names.map(|word| word.rsplit('/').find(|part| !part.is_empty()).unwrap_or(word));
    let mut scripts = names.clone().filter(|name| !INTERPRETERS.contains(name));
    scripts.next().or_else(|| names.clone().next()).unwrap_or_default()
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

#[cfg(test)]
mod tests {
    //! Goal: a helper is named after its program.

    use super::*;

    #[test]
    fn helper_name_is_its_program() {
        let name = |command: &str| Judge { command: command.to_owned(), chosen_by: None }.name();
        assert_eq!(name("./bin/judge.sh --strict"), "judge:judge.sh");
        assert_eq!(name("MODEL=small 'my/judge' x"), "judge:judge");
        assert_eq!(name("sh -e bin/judge.sh"), "judge:judge.sh");
        assert_eq!(name("python3"), "judge:python3");
        assert_eq!(name(""), "judge:");
    }
}
