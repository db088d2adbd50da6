//! Detects the format of a plan from its content.
//!
//! - Text that begins with `{` or `[` is JSON or JSON Lines. A valid native plan is read as one. Any
//!   other list `steps` is native, unless its steps have only fields of other tools. Next come the files of known tools, each recognized by
//!   its fields, and then any list of objects with an id or a title.
//! - In other text a plan may be embedded: todos in the front matter, task elements, or a plan in a
//!   code block. Otherwise it is Markdown if it has a heading, a checkbox or a numbered item, and
//!   no line that sets a field of a plan.
//! - The rest is TOML, comma-separated values, or YAML.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::embedded;
use super::options::ReadOptions;
use crate::diagnostic::{Diagnostic, ReadResult, Severity, plan_error};
use crate::draft::PlanDraft;
use crate::plan_file::PlanFormat;
use crate::syntax::{self, csv_rows, duplicate_keys, json_value, parse_toml};
use crate::{markdown, native, records};

/// The supported formats, for a message about a file in no known format.
const KNOWN_FORMATS: &str = "expected the native format (`steps`; as JSON, YAML or Markdown), \
                             task-master (`tasks`), Ralph (`userStories`), beads (JSON Lines of \
                             issues), a JSON list of tasks with ids or titles, or Markdown with \
                             tasks: checkboxes `- [ ]`, numbered items under a heading such as \
                             `Steps`, or headings `Step 1`";

/// A draft and its source text.
pub(super) struct Parsed<'a> {
    pub(super) draft: PlanDraft,
    pub(super) text: Cow<'a, str>,
}

/// Parses a text in the format that its content shows.
pub(super) fn parse_draft<'a>(
    name: &str,
    text: &'a str,
    options: &ReadOptions,
) -> ReadResult<Parsed<'a>> {
    let tag = options.tag.as_deref();
    let whole = |draft: PlanDraft| Ok(Parsed { draft: reject_tag(tag, draft)?, text: text.into() });
    if text.trim_start().starts_with(['{', '[']) {
        return match parse_json(name, text, tag) {
            Ok(draft) => Ok(Parsed { draft, text: text.into() }),
            Err(error) => match parse_toml_tasks(name, text) {
                Some(draft) => whole(draft),
                None => Err(error),
            },
        };
    }
    if native::is_native_markdown(text) {
        return whole(native::parse_markdown(name, text)?);
    }
    if let Some(parsed) = parse_embedded(name, text)? {
        return Ok(Parsed { draft: reject_tag(tag, parsed.draft)?, text: parsed.text });
    }
    if markdown::is_markdown(text) {
        if let Some(draft) = markdown::parse(name, text, options.prose) {
            return whole(draft);
        }
        if let Some(draft) = parse_table(name, text) {
            return whole(draft);
        }
        if let Some(draft) = parse_toml_tasks(name, text) {
            return whole(draft);
        }
        let prose = markdown::parse(name, text, true).map(|draft| {
            let count = draft.plan_file.plan.steps.len();
            format!(
                "no task was found in this Markdown: its {count} numbered items look like prose; \
                 add --prose to read them as steps, or put them under a heading `Steps`"
            )
        });
        let message =
            prose.unwrap_or_else(|| format!("no task was found in this Markdown: {KNOWN_FORMATS}"));
        return Err(plan_error(message).into());
    }
    if let Some(draft) = parse_toml_tasks(name, text).or_else(|| parse_csv(name, text)) {
        return whole(draft);
    }
    if has_yaml_fields(text) {
        return whole(parse_yaml(name, text)?);
    }
    let found = "line 1, column 1: expected fields, found other text";
    Err(plan_error(format!("{found}: {KNOWN_FORMATS}")).into())
}

/// Parses JSON. The first pass finds the format; the second one is strict and gives each error a
/// line and a column.
fn parse_json(name: &str, text: &str, tag: Option<&str>) -> ReadResult<PlanDraft> {
    let value = match json_value(text) {
        Ok(value) => value,
        Err(error) => {
            let Some(lines) = records::json_lines(text) else { return Err(error) };
            let lines = lines?;
            let mut warnings = Vec::new();
            for (line, content) in (1_u64..).zip(text.lines()) {
                warnings.extend(duplicate_warnings(content).map(|it| Diagnostic {
                    line: Some(line),
                    place: String::new(),
                    ..it
                }));
            }
            let mut draft = if lines.iter().any(|(_, value)| records::is_beads_issue(value)) {
                records::parse_beads(name, lines)
            } else {
                records::parse_lines(name, lines, None).ok_or(error)?
            };
            draft.diagnostics.extend(warnings);
            return reject_tag(tag, draft);
        }
    };
    if let Some(draft) = native::parse_valid_json(text, &value) {
        return reject_tag(tag, draft);
    }
    if native::is_native(&value) {
        return reject_tag(tag, native::parse_json(text, &value)?);
    }
    let mut draft = parse_json_records(name, &value, text, tag)?;
    draft.diagnostics.extend(duplicate_warnings(text));
    Ok(draft)
}

/// Parses the JSON of another tool.
fn parse_json_records(
    name: &str,
    value: &Value,
    text: &str,
    tag: Option<&str>,
) -> ReadResult<PlanDraft> {
    if let Some(issues) = records::beads_issues(value, text) {
        return reject_tag(tag, records::parse_beads(name, issues));
    }
    if records::is_task_master(value) && !records::has_foreign_task_fields(value) {
        return records::parse_task_master(name, value, tag);
    }
    if let Some(draft) = records::parse(name, value) {
        return reject_tag(tag, draft);
    }
    if native::resembles_native(value) {
        return reject_tag(tag, native::parse_json(text, value)?);
    }
    Err(plan_error(format!("the JSON is not a plan: {KNOWN_FORMATS}")).into())
}

/// Warnings about fields that an object has twice.
fn duplicate_warnings(text: &str) -> impl Iterator<Item = Diagnostic> {
    duplicate_keys(text).into_iter().map(|place| {
        let message = "the field occurs twice, and the last value counts; remove one";
        Diagnostic::at_path(Severity::Warning, place, message)
    })
}

/// Parses YAML: the native format, or else the list of tasks of another tool.
fn parse_yaml(name: &str, text: &str) -> ReadResult<PlanDraft> {
    let error = match native::parse_yaml(text) {
        Ok(draft) => return Ok(draft),
        Err(error) => error,
    };
    let value = syntax::parse_yaml::<Value>(text).ok().filter(|value| !native::is_native(value));
    let draft = value.and_then(|value| records::parse(name, &value));
    draft.ok_or(error)
}

/// Parses a plan that is embedded in a text. A native plan with an error is an error, so that its text
/// is not read as something else.
fn parse_embedded<'a>(name: &str, text: &'a str) -> ReadResult<Option<Parsed<'a>>> {
    if let Some((front, body)) = embedded::front_matter(text)
        && let Some(mut draft) = native::parse_valid_yaml(front)
        // The tasks below fields without steps are those of the text.
        && (!draft.plan_file.plan.steps.is_empty() || !markdown::has_checkboxes(body))
    {
        let first = front.lines().count().saturating_add(1);
        markdown::report_unread(&mut draft, body, first);
        return Ok(Some(Parsed { draft, text: front.into() }));
    }
    if let Some((front, body)) = embedded::front_matter(text)
        && let Ok(value) = syntax::parse_yaml::<Value>(front)
        && let Some(mut draft) = records::parse(name, &value)
    {
        if draft.plan_file.format == PlanFormat::Records && value.get("todos").is_some() {
            draft.plan_file.format = PlanFormat::Cursor;
        }
        let first = front.lines().count().saturating_add(1);
        markdown::report_unread(&mut draft, body, first);
        if draft.plan_file.plan.context.is_empty() {
            body.trim().clone_into(&mut draft.plan_file.plan.context);
        }
        return Ok(Some(Parsed { draft, text: front.into() }));
    }
    let elements = embedded::task_elements(text);
    if !elements.is_empty() {
        let mut draft = records::parse_lines(name, elements, Some(PlanFormat::Gsd));
        let front = embedded::front_matter(text);
        if let Some(draft) = &mut draft
            && let Some(front) = front.and_then(|(it, _)| syntax::parse_yaml(it).ok())
        {
            draft.diagnostics.extend(records::problems_of_fields(&front, 1));
            draft.add_kept(&front);
        }
        return Ok(draft.map(|draft| Parsed { draft, text: text.into() }));
    }
    let records = embedded::drawn_records(text);
    if !records.is_empty() {
        let draft = records::parse_lines(name, records, Some(PlanFormat::Records));
        return Ok(draft.map(|draft| Parsed { draft, text: text.into() }));
    }
    if markdown::has_checkboxes(text) {
        return Ok(None);
    }
    for block in embedded::yaml_blocks(text) {
        if let Some(draft) = native::parse_valid_yaml(&block.text) {
            return Ok(Some(Parsed { draft, text: block.text.into() }));
        }
    }
    for block in embedded::json_blocks(text) {
        let mut draft = match parse_json(name, &block.text, None) {
            Ok(draft) => draft,
            Err(error) if is_native_json(&block.text) => return Err(error),
            Err(_) => continue,
        };
        let (before, after) = block.around;
        if draft.plan_file.plan.context.is_empty() && !draft.plan_file.format.is_native() {
            let around = [before.trim(), after.trim()].join("\n\n");
            around.trim().clone_into(&mut draft.plan_file.plan.context);
        }
        return Ok(Some(Parsed { draft, text: block.text.into() }));
    }
    Ok(None)
}

/// Whether a JSON text has a list of native steps.
fn is_native_json(text: &str) -> bool {
    let has_steps = |value: &Value| value.get("steps").is_some_and(Value::is_array);
    json_value(text).is_ok_and(|value| has_steps(&value) && native::is_native(&value))
}

/// Parses the tasks of a TOML text.
fn parse_toml_tasks(name: &str, text: &str) -> Option<PlanDraft> {
    let has_field = |line: &str| line.contains(" = ") || line.trim_start().starts_with("[[");
    if !text.lines().any(has_field) {
        return None;
    }
    let value = parse_toml(text)?;
    let mut draft = records::parse(name, &value)?;
    let is_formula = value.get("formula").is_some();
    draft.plan_file.format = if is_formula { PlanFormat::BeadsFormula } else { PlanFormat::Toml };
    Some(draft)
}

/// Parses comma-separated values with a header.
fn parse_csv(name: &str, text: &str) -> Option<PlanDraft> {
    records::parse_lines(name, objects(csv_rows(text)?)?, Some(PlanFormat::Csv))
}

/// Parses the first table of a Markdown text that has tasks.
fn parse_table(name: &str, text: &str) -> Option<PlanDraft> {
    let tables = markdown::tables(text);
    let found = tables.into_iter().filter_map(objects);
    let mut drafts =
        found.filter_map(|rows| records::parse_lines(name, rows, Some(PlanFormat::Table)));
    let mut draft = drafts.next()?;
    if draft.plan_file.plan.title.is_empty() {
        draft.plan_file.plan.title = markdown::first_title(text);
    }
    Some(draft)
}

/// The rows of a table as objects with the names in the first row.
fn objects(rows: Vec<(u64, Vec<String>)>) -> Option<Vec<(u64, Value)>> {
    let mut rows = rows.into_iter();
    let (_, names) = rows.next()?;
    let object = |(line, row): (u64, Vec<String>)| {
        let fields =
            names.iter().zip(row).filter(|(name, value)| !name.is_empty() && !value.is_empty());
        let fields = fields.map(|(name, value)| (name.clone(), Value::String(value)));
        (line, Value::Object(fields.collect::<Map<_, _>>()))
    };
    Some(rows.map(object).collect())
}

/// Whether any line begins like a YAML field. Other texts are not YAML plans.
fn has_yaml_fields(text: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "_-'\"".contains(c);
    text.lines().filter_map(|line| line.split_once(':')).any(|(before, after)| {
        before.trim_start_matches([' ', '-', '{', '[']).trim_end().chars().all(is_name)
            && (after.is_empty() || after.starts_with([' ', '\t']))
    })
}

/// Returns an error if a tag was requested from a format that has none.
fn reject_tag(tag: Option<&str>, draft: PlanDraft) -> ReadResult<PlanDraft> {
    let Some(tag) = tag else { return Ok(draft) };
    let format = draft.plan_file.format;
    let message = format!("tag `{tag}` was requested, but a {format} has no tags; omit the tag");
    Err(plan_error(message).into())
}
