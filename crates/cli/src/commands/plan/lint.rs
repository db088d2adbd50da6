//! `ledger plan lint`: errors and likely mistakes in a plan file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::ToolRegistry;
use plan_ledger::{ContentHash, Plan, Step, plan_hash};
use plan_ledger_files::{Diagnostic, LintReport, Severity, read_tools};

use crate::options::plan_file::{Given, ReadLine, lacks, reading_lines};
use crate::options::{AsJson, ReadPlanArgs};
use crate::output::{Code, Failure, escape_control, print_line, print_result, print_text};

use super::forms::{FORMS, count_of};

fn help() -> String {
    format!(
        "Examples:\n  ledger plan lint plan.yaml\n  \
         ledger plan lint tasks.md --strict               exit code 1 if there is a warning\n  \
         ledger plan lint tasks.md --reading headings     a file that can be read in two ways\n  \
         ledger plan lint issues.jsonl --json | jq -r 'select(.type == \"problem\")'\n\n\
         Exit code 2 if the file has no plan that can be run.\n\n{FORMS}"
    )
}

#[derive(Debug, Args)]
#[command(after_help = help())]
pub(super) struct PlanLintArgs {
    /// The plan file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// End with exit code 1 if there is a warning
    #[arg(long)]
    strict: bool,
    /// A registry of tools (format/tools.md): a tool that it does not have is a warning
    #[arg(long, value_name = "REGISTRY")]
    tools: Option<PathBuf>,
    #[command(flatten)]
    read: ReadPlanArgs,
    #[command(flatten)]
    json: AsJson,
}

pub(super) fn lint(args: &PlanLintArgs) -> Result<Code, Failure> {
    let LintReport { plan_file: imported, mut diagnostics } = args.read.lint(&args.file)?;
    if let (Some(imported), Some(path)) = (&imported, &args.tools) {
        let registry = read_tools(path).map_err(Failure::of_input)?;
        diagnostics.extend(unknown_tools(&imported.plan, &registry));
    }
    if let Some(imported) = &imported {
        // The linter itself warns of steps without criteria.
        let given = Given { criteria: true, ..Given::default() };
        diagnostics.extend(lacks(&imported.plan, given).into_iter().map(note));
    }
    if args.json.0 {
        for diagnostic in &diagnostics {
            print_line(&json_of(diagnostic))?;
        }
    } else {
        for line in lines_of(&args.file, &diagnostics) {
            print_text(&line)?;
        }
    }
    let count =
        |severity: Severity| diagnostics.iter().filter(|each| each.severity == severity).count();
    let (problems, warnings) = (count(Severity::Problem), count(Severity::Warning));
    let plan = imported.as_ref().map(|imported| &imported.plan);
    let hash = plan.map(plan_hash);
    let line = LintLine {
        form: imported.as_ref().map(|imported| imported.format.to_string()),
        hash,
        notes: count(Severity::Note),
        problems,
        steps: plan.map(|plan| plan.steps.len()),
        warnings,
    };
    let (Some(imported), Some(hash)) = (imported, hash) else {
        let found = count_of(problems, "problem");
        print_result(args.json.0, &line, &format!("{found}: the plan cannot be run"))?;
        return Ok(Code::Usage);
    };
    if args.json.0 && !imported.format.is_native() {
        print_line(&ReadLine::from(&imported))?;
    }
    let steps = count_of(imported.plan.steps.len(), "step");
    let found = count_of(warnings, "warning");
    let mut text = format!("{}: {steps}, {found}; hash {}", imported.format, hash.short());
    if !imported.format.is_native() {
        let read = std::iter::once(imported.read_summary()).chain(reading_lines(&imported));
        text = read.chain([text]).collect::<Vec<_>>().join("\n");
    }
    print_result(args.json.0, &line, &text)?;
    Ok(if args.strict && warnings > 0 { Code::Failed } else { Code::Success })
}

fn note(message: String) -> Diagnostic {
    let place = String::new();
    Diagnostic { severity: Severity::Note, line: None, column: None, place, message }
}

/// Tools of steps that a registry does not have.
fn unknown_tools(plan: &Plan, registry: &ToolRegistry) -> Vec<Diagnostic> {
    let of_step = |(index, step): (usize, &Step)| {
        let unknown = step.tools.iter().filter(|tool| !registry.tools.contains_key(*tool));
        let warning = |tool: &String| Diagnostic {
            severity: Severity::Warning,
            line: None,
            column: None,
            place: format!("steps[{index}] ({}).tools", step.id.escape_debug()),
            message: format!("the registry has no tool `{}`", tool.escape_debug()),
        };
        unknown.map(warning).collect::<Vec<_>>()
    };
    plan.steps.iter().enumerate().flat_map(of_step).collect()
}

fn json_of(diagnostic: &Diagnostic) -> DiagnosticLine<'_> {
    let Diagnostic { severity, line, column, place, message } = diagnostic;
    let found = DiagnosticJson { column: *column, line: *line, message, place };
    match severity {
        Severity::Problem => DiagnosticLine::Problem(found),
        Severity::Warning => DiagnosticLine::Warning(found),
        Severity::Note => DiagnosticLine::Note(found),
    }
}

/// How many places with the same warning are enough to show it once.
const SAME_MAX: usize = 3;

/// How much of a source line is shown, in characters.
const SHOWN_MAX: usize = 96;

/// The lines of a file, each with whether its characters are bytes, so that a part is found at once.
fn source_lines(text: &str) -> Vec<(&str, bool)> {
    text.lines().map(|line| (line, line.is_ascii())).collect()
}

/// The source line of an error or warning, and a caret below its column. Empty without a line.
fn source_of(lines: &[(&str, bool)], diagnostic: &Diagnostic) -> String {
    let place = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
    let found = diagnostic.line.and_then(place).and_then(|index| lines.get(index).copied());
    let (Some(number), Some((line, is_ascii))) = (diagnostic.line, found) else {
        return String::new();
    };
    if diagnostic.severity == Severity::Note {
        return String::new();
    }
    let column = diagnostic.column.and_then(place);
    // A long line is shown around its column.
    let start = column.unwrap_or(0).saturating_sub(SHOWN_MAX / 2);
    let cut = |(start, length): (usize, usize)| {
        let line = if is_ascii { line.get(start..).unwrap_or_default() } else { line };
        let skipped = if is_ascii { 0 } else { start };
        let shown: String = line.chars().skip(skipped).take(length).collect();
        escape_control(&shown.replace('\t', " "))
    };
    let margin = " ".repeat(number.to_string().len());
    let source = format!("  {number} | {}\n", cut((start, SHOWN_MAX)).trim_end());
    let Some(column) = column else { return source };
    // Escaped characters are wider than they were in the file.
    let width = cut((start, column.saturating_sub(start))).chars().count();
    format!("{source}  {margin} | {}^\n", " ".repeat(width))
}

/// The diagnostics as lines, `file:line:column: severity: place: message`, with the source. A message
/// that many places have is shown once, with their number.
fn lines_of(file: &Path, diagnostics: &[Diagnostic]) -> Vec<String> {
    // A folder, and standard input, have no line to show.
    let is_shown = !diagnostics.is_empty() && file.is_file();
    let text = if is_shown { std::fs::read_to_string(file) } else { Ok(String::new()) };
    let text = text.unwrap_or_default();
    let source = source_lines(&text);
    let key = |diagnostic: &Diagnostic| {
        let field = diagnostic.place.rsplit_once(").").map_or("", |(_, field)| field).to_owned();
        (diagnostic.severity, field, diagnostic.message.clone())
    };
    let mut counts: BTreeMap<(Severity, String, String), usize> = BTreeMap::new();
    for diagnostic in diagnostics {
        *counts.entry(key(diagnostic)).or_default() += 1;
    }
    let mut shown = BTreeSet::new();
    let mut lines = Vec::new();
    for diagnostic in diagnostics {
        let key = key(diagnostic);
        let count = counts.get(&key).copied().unwrap_or(1);
        let is_collapsed = count > SAME_MAX && diagnostic.severity != Severity::Problem;
        let (severity, field, message) = key.clone();
        if is_collapsed && !shown.insert(key) {
            continue;
        }
        let mut place = file.display().to_string();
        for number in [diagnostic.line, diagnostic.column].into_iter().flatten() {
            place = format!("{place}:{number}");
        }
        let word =
            if severity == Severity::Problem { "error".to_owned() } else { severity.to_string() };
        let mut found = if is_collapsed {
            let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
            format!("{place}: {word}: {field}{message} ({count} places, this is the first)\n")
        } else if diagnostic.place.is_empty() {
            format!("{place}: {word}: {message}\n")
        } else {
            format!("{place}: {word}: {}: {message}\n", diagnostic.place)
        };
        found.push_str(&source_of(&source, diagnostic));
        lines.push(found);
    }
    lines
}

/// The result of a check, the last line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LintLine {
    /// The form of the file; null if it has no plan.
    form: Option<String>,
    /// The hash of the plan; null if it cannot be run.
    hash: Option<ContentHash>,
    /// The number of notes.
    notes: usize,
    /// The number of errors.
    problems: usize,
    /// The number of its steps.
    steps: Option<usize>,
    /// The number of likely mistakes.
    warnings: usize,
}

/// A diagnostic about a plan file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum DiagnosticLine<'a> {
    /// An error: the plan cannot be run.
    Problem(DiagnosticJson<'a>),
    /// A likely mistake.
    Warning(DiagnosticJson<'a>),
    /// A note about how the file is read.
    Note(DiagnosticJson<'a>),
}

/// The place and the text of a diagnostic.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DiagnosticJson<'a> {
    /// The column in the line.
    column: Option<u64>,
    /// The line in the file.
    line: Option<u64>,
    /// The text, for people.
    message: &'a str,
    /// The part of the plan.
    place: &'a str,
}
