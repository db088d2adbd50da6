//! Plans as text: our own form as YAML, JSON and Markdown, and pictures of what waits for what.
//!
//! Invariant: what is written in our own form reads as the same plan with the same marks. It is
//! read again before it is given away: what a form cannot say is an error, and no other plan.

mod graph;
pub(super) mod markdown;

pub use graph::{dot_quoted, mermaid_quoted};

use serde::Serialize;

use super::marks::Marks;
use super::{Imported, bad_plan, parse};
use crate::error::Result;
use crate::plan::Plan;

/// A form in which a plan can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Our own form, as YAML.
    Yaml,
    /// Our own form, as JSON.
    Json,
    /// Our own form, as Markdown.
    Markdown,
    /// A picture for Graphviz.
    Dot,
    /// A picture for Mermaid.
    Mermaid,
}

impl Form {
    fn word(self) -> &'static str {
        match self {
            Self::Yaml => "YAML",
            Self::Json => "JSON",
            Self::Markdown => "Markdown",
            Self::Dot => "Graphviz",
            Self::Mermaid => "Mermaid",
        }
    }
}

/// A plan in our own form, and its marks.
#[derive(Serialize)]
struct File<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    #[serde(skip_serializing_if = "Marks::is_empty")]
    marks: Marks,
}

/// A plan and its marks as text in that form.
pub fn written(imported: &Imported, form: Form) -> Result<String> {
    let file = || File { plan: &imported.plan, marks: Marks::of(imported) };
    let text = match form {
        Form::Yaml => serde_saphyr::to_string(&file()).map_err(|error| error.to_string()),
        Form::Json => serde_json::to_string_pretty(&file())
            .map(|text| text + "\n")
            .map_err(|error| error.to_string()),
        Form::Markdown => Ok(markdown::text(imported)),
        Form::Dot => return Ok(graph::dot(&imported.plan)),
        Form::Mermaid => return Ok(graph::mermaid(&imported.plan)),
    };
    let cannot = |why: &str| {
        let word = form.word();
        bad_plan(format!("the plan cannot be written as {word}: {why}; choose another form"))
    };
    let text = text.map_err(|why| cannot(&why))?;
    match parse("plan", &text) {
        Ok(again) if again.plan == imported.plan && Marks::of(&again) == Marks::of(imported) => {
            Ok(text)
        }
        Ok(_) => Err(cannot("it would read as another plan")),
        Err(error) => Err(cannot(&format!("it would not be read again ({})", error.message()))),
    }
}
