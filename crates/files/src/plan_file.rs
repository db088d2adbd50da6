//! The content of a plan file: its plan, and the information that the file has beside the plan.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use super::diagnostic::Diagnostic;
use super::read_report::{FileReading, OPTIONAL_TAG, ReadReport, Reading};
use plan_ledger::plan::{Extra, Plan};

/// A plan read from a file, with the statuses that the file gives to its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanFile {
    /// The plan, which is valid.
    pub plan: Plan,
    /// Steps that the file marks as done. The value names the file and the mark.
    pub done: BTreeMap<String, String>,
    /// Steps that the file marks as dropped. The value names the file and the mark.
    pub skipped: BTreeMap<String, String>,
    /// The status of each step that has one, spelled as in the file.
    pub statuses: BTreeMap<String, String>,
    /// Fields of steps that the author's tool updates during the work, as in the file.
    pub progress: BTreeMap<String, Extra>,
    /// How the file was read where it is ambiguous.
    pub notes: Vec<Diagnostic>,
    /// Criteria that were read as commands, and commands of the files of other tools.
    pub commands: Vec<StatedCommand>,
    /// Files to modify that do not exist: the id of the step, and the path.
    pub missing_files: Vec<(String, String)>,
    /// The parts that were not read, or read differently than they are written.
    pub report: ReadReport,
    pub format: PlanFormat,
    /// Which parts of a Markdown text are the steps; `None` for a form in which this is no choice.
    pub reading: Option<Reading>,
    /// The readings of the file, the default first; empty if there is one.
    pub readings: Vec<FileReading>,
}

impl PlanFile {
    /// A plan without marks and notes.
    pub(super) fn new(plan: Plan, format: PlanFormat) -> Self {
        Self {
            plan,
            done: BTreeMap::new(),
            skipped: BTreeMap::new(),
            statuses: BTreeMap::new(),
            progress: BTreeMap::new(),
            notes: Vec::new(),
            commands: Vec::new(),
            missing_files: Vec::new(),
            report: ReadReport::default(),
            format,
            reading: None,
            readings: Vec::new(),
        }
    }

    /// The plan of a run, with its steps that are done or skipped, to be written to a file.
    #[must_use]
    pub fn of_run(
        plan: Plan,
        done: BTreeMap<String, String>,
        skipped: BTreeMap<String, String>,
    ) -> Self {
        Self { done, skipped, ..Self::new(plan, PlanFormat::Yaml) }
    }

    /// How many steps the file marks as optional.
    #[must_use]
    pub fn optional(&self) -> usize {
        let is_optional = |tag: &String| tag == OPTIONAL_TAG;
        self.plan.steps.iter().filter(|step| step.tags.iter().any(is_optional)).count()
    }

    /// The parts that were read, in one line: `read 210 tasks (5 optional), 40 done; not read: ...`.
    #[must_use]
    pub fn read_summary(&self) -> String {
        let mut text = match self.plan.steps.len() {
            1 => "read 1 task".to_owned(),
            many => format!("read {many} tasks"),
        };
        let optional = self.optional();
        if optional > 0 {
            let _ = write!(text, " ({optional} optional)");
        }
        for (count, word) in [(self.done.len(), "done"), (self.skipped.len(), "dropped")] {
            if count > 0 {
                let _ = write!(text, ", {count} {word}");
            }
        }
        let unread = self.report.unread_text();
        if !unread.is_empty() {
            let _ = write!(text, "; not read as tasks: {unread}");
        }
        let kept = self.report.kept_text();
        if !kept.is_empty() {
            let _ = write!(text, "; kept as data: {kept}");
        }
        text
    }
}

/// A command in the file of another tool: a criterion that was read as a command, or a command in
/// the native form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedCommand {
    /// The id of the step; `None` for one of the plan.
    pub step: Option<String>,
    /// The shell command.
    pub command: String,
}

/// The format of a plan file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanFormat {
    /// The native format as YAML.
    Yaml,
    /// The native format as JSON.
    Json,
    /// The native format as Markdown.
    NativeMarkdown,
    /// The `tasks.json` of task-master.
    TaskMaster,
    /// The `prd.json` of Ralph.
    Ralph,
    /// The `issues.jsonl` of beads.
    Beads,
    /// Any other list of tasks in JSON or YAML.
    Records,
    /// The `tasks.json` of Shrimp.
    Shrimp,
    /// The task folder of Claude Code.
    ClaudeTasks,
    /// The tasks of dex.
    Dex,
    /// The task files of `Backlog.md`.
    Backlog,
    /// The todos in the front matter of a Cursor plan.
    Cursor,
    /// The task elements of a GSD plan.
    Gsd,
    BeadsFormula,
    /// Any other list of tasks in TOML.
    Toml,
    /// Comma-separated values with a header.
    Csv,
    /// A table in Markdown.
    Table,
    /// The export of Taskwarrior.
    Taskwarrior,
    /// An export of Linear as comma-separated values.
    Linear,
    /// The tasks of `CrewAI`, by name.
    CrewAi,
    /// A line for each task, as todo.txt has it.
    TodoTxt,
    /// Headings with keywords, as org-mode has it.
    Org,
    /// The `tasks.md` of spec-kit.
    SpecKit,
    /// Any other plan in Markdown, `OpenSpec` included.
    Markdown,
}

impl PlanFormat {
    /// Whether this is the native format. `format/plan.md` defines its fields.
    #[must_use]
    pub fn is_native(self) -> bool {
        matches!(self, Self::Yaml | Self::Json | Self::NativeMarkdown)
    }
}

impl fmt::Display for PlanFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yaml => "YAML plan",
            Self::Json => "JSON plan",
            Self::NativeMarkdown => "native Markdown plan",
            Self::TaskMaster => "task-master file",
            Self::Ralph => "Ralph file",
            Self::Beads => "beads file",
            Self::Records => "JSON list of tasks",
            Self::Shrimp => "Shrimp file",
            Self::ClaudeTasks => "Claude Code task list",
            Self::Dex => "dex file",
            Self::Backlog => "Backlog.md folder",
            Self::Cursor => "Cursor plan",
            Self::Gsd => "GSD plan",
            Self::BeadsFormula => "beads formula",
            Self::Toml => "TOML list of tasks",
            Self::Csv => "CSV list of tasks",
            Self::Table => "Markdown table of tasks",
            Self::Taskwarrior => "Taskwarrior export",
            Self::Linear => "Linear export",
            Self::CrewAi => "CrewAI task file",
            Self::TodoTxt => "todo.txt file",
            Self::Org => "org-mode file",
            Self::SpecKit => "spec-kit file",
            Self::Markdown => "Markdown plan",
        })
    }
}
