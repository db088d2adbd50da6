//! Renders a plan file in an export format.

use serde::Serialize;

use super::artifact::{self, TextForm};
use super::tools::{self, Outline};
use super::{graph, markdown};
use crate::diagnostic::plan_error;
use crate::native::Marks;
use crate::plan_file::PlanFile;
use crate::read::parse;
use plan_ledger::plan::Plan;
use plan_ledger::{Error, Result};

/// An output format for a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// The native format as YAML.
    Yaml,
    /// The native format as JSON.
    Json,
    /// The native format as Markdown.
    Markdown,
    /// The PLAN artifact: outcome, phases with actions, next action, risks.
    Artifact,
    /// `tasks.md` of spec-kit.
    SpecKit,
    /// A Markdown check list.
    Tasks,
    /// `tasks.json` of task-master.
    TaskMaster,
    /// `issues.jsonl` of beads.
    Beads,
    /// A to-do list of Cursor.
    Cursor,
    /// A dependency graph for Graphviz.
    Dot,
    /// A dependency graph for Mermaid.
    Mermaid,
}

impl ExportFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Yaml => "YAML",
            Self::Json => "JSON",
            Self::Markdown => "Markdown",
            Self::Artifact => "a PLAN artifact",
            Self::SpecKit => "spec-kit tasks",
            Self::Tasks => "a check list",
            Self::TaskMaster => "task-master JSON",
            Self::Beads => "beads JSON Lines",
            Self::Cursor => "a Cursor plan",
            Self::Dot => "Graphviz",
            Self::Mermaid => "Mermaid",
        }
    }
}

/// The fields of a native plan file.
#[derive(Serialize)]
struct NativeFile<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    #[serde(skip_serializing_if = "Marks::is_empty")]
    marks: Marks,
}

impl PlanFile {
    /// Renders a plan with its marks. A native format is parsed again, and a plan that would read back
    /// differently is an error.
    pub fn render(&self, format: ExportFormat) -> Result<String> {
        let file = || NativeFile { plan: &self.plan, marks: Marks::of(self) };
        let text = match format {
            ExportFormat::Yaml => {
                serde_saphyr::to_string(&file()).map_err(|error| error.to_string())
            }
            ExportFormat::Json => serde_json::to_string_pretty(&file())
                .map(|text| text + "\n")
                .map_err(|error| error.to_string()),
            ExportFormat::Markdown => Ok(markdown::render(self)),
            ExportFormat::Artifact => return text_form(self, format, TextForm::Artifact),
            ExportFormat::SpecKit => return text_form(self, format, TextForm::SpecKit),
            ExportFormat::Tasks => return text_form(self, format, TextForm::Tasks),
            ExportFormat::TaskMaster => return outline(self, format, tools::task_master),
            ExportFormat::Beads => return outline(self, format, tools::beads),
            ExportFormat::Cursor => return outline(self, format, tools::cursor),
            ExportFormat::Dot => return Ok(graph::dot(&self.plan)),
            ExportFormat::Mermaid => return Ok(graph::mermaid(&self.plan)),
        };
        let cannot = |why: &str| cannot_write(format, why);
        let text = text.map_err(|why| cannot(&why))?;
        match parse("plan", &text) {
            Ok(again) if again.plan == self.plan && Marks::of(&again) == Marks::of(self) => {
                Ok(text)
            }
            Ok(_) => Err(cannot("it would read back as a different plan")),
            Err(error) => Err(cannot(&format!("it would not read back ({})", error.message()))),
        }
    }
}

/// Renders the outline of a plan in the form of another tool, and reads it again: ids, dependencies and
/// finished steps must be the same.
fn outline(
    plan_file: &PlanFile,
    format: ExportFormat,
    write: fn(&PlanFile, &Outline) -> String,
) -> Result<String> {
    let outline = Outline::of(plan_file).map_err(|why| cannot_write(format, &why))?;
    let text = write(plan_file, &outline);
    match parse("plan", &text) {
        Ok(again) if Outline::of(&again).as_ref() == Ok(&outline) => Ok(text),
        Ok(_) => Err(cannot_write(format, "ids or dependencies would read back differently")),
        Err(error) => {
            Err(cannot_write(format, &format!("it would not read back ({})", error.message())))
        }
    }
}

/// Renders the outline of a plan as text that people write; it was read again.
fn text_form(plan_file: &PlanFile, format: ExportFormat, form: TextForm) -> Result<String> {
    let outline = Outline::of(plan_file).map_err(|why| cannot_write(format, &why))?;
    artifact::render(plan_file, &outline, form).map_err(|why| cannot_write(format, &why))
}

fn cannot_write(format: ExportFormat, why: &str) -> Error {
    let name = format.name();
    plan_error(format!("cannot write the plan as {name}: {why}; choose another format"))
}
