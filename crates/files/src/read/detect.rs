//! Detects the format of a plan from its content.
//!
//! - Text that begins with `{` or `[` is JSON or JSON Lines. A valid native plan is read as one. Any
//!   other list `steps` is native, unless its steps have only fields of other tools. Next come the files of known tools, each recognized by
//!   its fields, and then any list of objects with an id or a title.
//! - In other text a plan may be embedded: todos in the front matter, task elements, or a plan in a
//!   code block. Otherwise it is Markdown if it has a heading, a checkbox or a numbered item, and
//!   no line that sets a field of a plan.
//! - The rest is TOML, comma-separated values, or YAML.

use serde_json::Value;

use super::embedded;
use super::folder;
use super::options::ReadOptions;
use super::org;
use super::readings;
use super::tables::{TaskTables, task_tables};
use super::todo_txt;
use crate::diagnostic::{ReadResult, of_syntax, plan_error};
use crate::draft::{Cells, PlanDraft};
use crate::markdown::{MarkdownReading, Marks, Outline};
use crate::plan_file::PlanFormat;
use crate::read_report::{PartKind, Reading};
use crate::syntax::{Kind, Node, csv_rows, json_lines, json_tree, toml_tree, yaml_tree};
use crate::{markdown, native, records};

/// The supported formats, for a message about a file in no known format.
const KNOWN_FORMATS: &str = "expected the native format (`steps`; as JSON, YAML or Markdown), \
                             task-master (`tasks`), Ralph (`userStories`), beads (JSON Lines of \
                             issues), a JSON list of tasks with ids or titles, or Markdown with \
                             tasks: checkboxes `- [ ]`, numbered items under a heading such as \
                             `Steps`, or headings `Step 1`";

/// Parses a text in the format that its content shows.
pub(super) fn parse_draft(name: &str, text: &str, options: &ReadOptions) -> ReadResult<PlanDraft> {
    let tag = options.tag.as_deref();
    let whole = |draft: PlanDraft| reject_tag(tag, draft);
    if text.trim_start().starts_with(['{', '[']) {
        return match parse_json(name, text, tag) {
            Ok(draft) => Ok(draft),
            Err(error) => match parse_toml_tasks(name, text)? {
                Some(draft) => whole(draft),
                None => Err(error),
            },
        };
    }
    if native::is_native_markdown(text) {
        return whole(native::parse_markdown(name, text)?);
    }
    let outline = Outline::parse(text)?;
    let mut draft = parse_text(name, &outline, options)?;
    draft.diagnostics.extend(outline.front_fault()?);
    whole(draft)
}

/// Parses a text other than JSON and native Markdown.
fn parse_text(name: &str, outline: &Outline<'_>, options: &ReadOptions) -> ReadResult<PlanDraft> {
    let text = outline.source();
    if let Some(draft) = parse_embedded(name, outline)? {
        return Ok(draft);
    }
    if let Some(draft) = parse_org(name, text) {
        return Ok(draft);
    }
    if let Some(draft) = parse_toml_tasks(name, text)? {
        return Ok(draft);
    }
    if outline.is_markdown() {
        if let Some(draft) = parse_commented_yaml(name, text)? {
            return Ok(draft);
        }
        let drafts = parse_markdown(name, outline, options.reading.as_deref());
        if let Some(draft) = readings::selected(drafts, options.reading.as_deref()) {
            return Ok(draft);
        }
        if let Some(draft) = parse_task_file(name, outline) {
            return Ok(draft);
        }
        let prose = markdown::parse(name, outline, true).map(|draft| {
            let count = draft.plan_file.plan.steps.len();
            format!(
                "no task was found in this Markdown: its {count} numbered items look like prose; \
                 add --reading items to read them as steps, or put them under a heading `Steps`"
            )
        });
        let message =
            prose.unwrap_or_else(|| format!("no task was found in this Markdown: {KNOWN_FORMATS}"));
        return Err(plan_error(message).into());
    }
    if let Some(draft) = parse_csv(name, text) {
        return Ok(draft);
    }
    if let Some(rows) = todo_txt::tasks(text)
        && let Ok(draft) = records::parse_rows(name, rows, Some(PlanFormat::TodoTxt))
    {
        return Ok(draft);
    }
    if has_yaml_fields(text) {
        return parse_yaml(name, text);
    }
    let found = "line 1, column 1: expected fields, found other text";
    Err(plan_error(format!("{found}: {KNOWN_FORMATS}")).into())
}

/// Parses JSON or JSON Lines.
fn parse_json(name: &str, text: &str, tag: Option<&str>) -> ReadResult<PlanDraft> {
    let tree = match json_tree(text) {
        Ok(tree) => tree,
        Err(error) => {
            let Some(rows) = json_lines(text) else { return Err(error) };
            let draft = records::parse_rows(name, rows?, None).map_err(|_| error)?;
            return reject_tag(tag, draft);
        }
    };
    let has_steps = tree.field("steps").is_some_and(|it| matches!(it.kind, Kind::List(_)));
    let is_read_first = has_steps && !plan_ledger::mutant!(RecordFieldOutvotesPlan);
    let tree = match native::parse_valid(tree, PlanFormat::Json, is_read_first) {
        Ok(draft) => return reject_tag(tag, draft),
        Err(tree) => tree,
    };
    if native::is_native(&tree) {
        return reject_tag(tag, native::parse(tree, PlanFormat::Json)?);
    }
    match records::parse_json(name, tree, tag)? {
        Ok(draft) if draft.plan_file.format == PlanFormat::TaskMaster => Ok(draft),
        Ok(draft) => reject_tag(tag, draft),
        Err(tree) if native::resembles_native(&tree) => {
            reject_tag(tag, native::parse(tree, PlanFormat::Json)?)
        }
        Err(_) => Err(plan_error(format!("the JSON is not a plan: {KNOWN_FORMATS}")).into()),
    }
}

/// Parses YAML: the native format, or else the list of tasks of another tool.
fn parse_yaml(name: &str, text: &str) -> ReadResult<PlanDraft> {
    let tree = yaml_tree(text).map_err(|error| native::yaml_errors(text, error))?;
    let tree = match native::parse_valid(tree, PlanFormat::Yaml, true) {
        Ok(draft) => return Ok(draft),
        Err(tree) => tree,
    };
    let read = if native::is_native(&tree) { Err(tree) } else { records::parse(name, tree) };
    read.or_else(|tree| native::parse(tree, PlanFormat::Yaml))
}

/// Parses org-mode, as Markdown with boxes in its headings.
fn parse_org(name: &str, text: &str) -> Option<PlanDraft> {
    let text = org::as_markdown(text)?;
    let mut draft = markdown::parse(name, &Outline::parse(&text).ok()?, false)?;
    draft.plan_file.format = PlanFormat::Org;
    Some(draft)
}

/// Parses YAML whose comments look like headings: all of its other lines are fields with tasks.
fn parse_commented_yaml(name: &str, text: &str) -> ReadResult<Option<PlanDraft>> {
    let is_field = |line: &str| line.contains(": ") || line.trim_end().ends_with(':');
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    if !lines.find(|line| line.trim() != "---").is_some_and(is_field) {
        return Ok(None);
    }
    let tree = of_syntax(yaml_tree(text))?;
    Ok(tree.and_then(|tree| records::parse(name, tree).ok()))
}

/// Parses a plan that is embedded in a text. A native plan with an error is an error, so that its text
/// is not read as something else.
fn parse_embedded(name: &str, outline: &Outline<'_>) -> ReadResult<Option<PlanDraft>> {
    let fields = outline.front_fields().ok().flatten();
    if let Some(tree) = fields {
        let tree = match native::parse_valid(tree.clone(), PlanFormat::Yaml, true) {
            // The tasks below fields without steps are those of the text.
            Ok(mut draft)
                if !draft.plan_file.plan.steps.is_empty() || !outline.has_checkboxes() =>
            {
                markdown::report_unread(&mut draft, outline);
                return Ok(Some(draft));
            }
            Ok(draft) => draft.source.into_tree(),
            Err(tree) => Some(tree),
        };
        let has_todos = tree.as_ref().is_some_and(|tree| tree.field("todos").is_some());
        if let Some(Ok(mut draft)) = tree.map(|tree| records::parse(name, tree)) {
            if draft.plan_file.format == PlanFormat::Records && has_todos {
                draft.plan_file.format = PlanFormat::Cursor;
            }
            markdown::report_unread(&mut draft, outline);
            if draft.plan_file.plan.context.is_empty() {
                outline.body_text().trim().clone_into(&mut draft.plan_file.plan.context);
            }
            return Ok(Some(draft));
        }
    }
    let elements = embedded::task_elements(outline);
    if !elements.is_empty() {
        let elements = Node::list_of(elements);
        let mut draft = records::parse_rows(name, elements, Some(PlanFormat::Gsd)).ok();
        let front = fields.map(Node::value);
        if let (Some(draft), Some(Value::Object(front))) = (&mut draft, front) {
            draft.diagnostics.extend(records::problems_of_fields(&front, 1));
            draft.add_kept(&front);
        }
        return Ok(draft);
    }
    let records = embedded::drawn_records(outline.source());
    if !records.is_empty() {
        let records = Node::list_of(records);
        return Ok(records::parse_rows(name, records, Some(PlanFormat::Records)).ok());
    }
    if outline.has_checkboxes() {
        return Ok(None);
    }
    let has_steps = |block: &str| block.lines().any(|line| line.starts_with("steps:"));
    for (block, ..) in outline.code_blocks(has_steps) {
        let Some(tree) = of_syntax(yaml_tree(&block))? else { continue };
        if let Ok(draft) = native::parse_valid(tree, PlanFormat::Yaml, true) {
            return Ok(Some(draft));
        }
    }
    let is_json = |block: &str| block.trim_start().starts_with(['{', '[']);
    for (block, before, after) in outline.code_blocks(is_json) {
        let mut draft = match parse_json(name, &block, None) {
            Ok(draft) => draft,
            Err(error) if error.is_name_twice() || is_native_json(&block) => return Err(error),
            Err(_) => continue,
        };
        if draft.plan_file.plan.context.is_empty() && !draft.plan_file.format.is_native() {
            let around = [before.trim(), after.trim()].join("\n\n");
            around.trim().clone_into(&mut draft.plan_file.plan.context);
        }
        return Ok(Some(draft));
    }
    Ok(None)
}

/// Whether a JSON text has a list of native steps.
fn is_native_json(text: &str) -> bool {
    let has_steps =
        |tree: &Node| tree.field("steps").is_some_and(|steps| matches!(steps.kind, Kind::List(_)));
    json_tree(text).is_ok_and(|tree| has_steps(&tree) && native::is_native(&tree))
}

/// Parses the tasks of a TOML text. A name that is given twice is an error; other text is no TOML.
fn parse_toml_tasks(name: &str, text: &str) -> ReadResult<Option<PlanDraft>> {
    let has_field = |line: &str| line.contains(" = ") || line.trim_start().starts_with("[[");
    if !text.lines().any(has_field) {
        return Ok(None);
    }
    let Some(tree) = of_syntax(toml_tree(text))? else { return Ok(None) };
    let is_formula = tree.field("formula").is_some();
    let Ok(mut draft) = records::parse(name, tree) else { return Ok(None) };
    draft.plan_file.format = if is_formula { PlanFormat::BeadsFormula } else { PlanFormat::Toml };
    Ok(Some(draft))
}

/// Parses comma-separated values with a header.
fn parse_csv(name: &str, text: &str) -> Option<PlanDraft> {
    let rows = Node::rows(csv_rows(text)?)?;
    let mut draft = records::parse_rows(name, rows, Some(PlanFormat::Csv)).ok()?;
    draft.source.cells = Some(Cells::Csv);
    Some(draft)
}

/// Parses a file of one task: front matter with an id, a title and a status, and its text. A folder of such
/// files is a plan.
fn parse_task_file(name: &str, outline: &Outline<'_>) -> Option<PlanDraft> {
    let record = folder::task(outline).ok().flatten()?;
    let has = |name: &str| record.field(name).is_some();
    if !(has("id") && has("title") && has("status")) {
        return None;
    }
    records::parse_rows(name, Node::list(vec![record]), None).ok()
}

/// Parses the tables of a Markdown text that have tasks.
fn parse_table(name: &str, outline: &Outline<'_>) -> Option<PlanDraft> {
    let is_tasks =
        |rows: &Node| records::parse_rows(name, rows.clone(), Some(PlanFormat::Table)).is_ok();
    let TaskTables { rows, others, repeated } = task_tables(outline, is_tasks)?;
    let mut draft = records::parse_rows(name, rows, Some(PlanFormat::Table)).ok()?;
    draft.source.cells = Some(Cells::Table);
    for (line, title, count) in others {
        draft.add_unread(PartKind::Row, count, &title, Some(line));
    }
    if repeated > 0 {
        draft.add_note(None, format!("{repeated} rows repeat a task of an earlier table"));
    }
    if draft.plan_file.plan.title.is_empty() {
        outline.first_title().clone_into(&mut draft.plan_file.plan.title);
    }
    Some(draft)
}

/// The plan of a Markdown text in each of its readings, the default first. The rows of tables are its steps if there
/// are no others, or if the steps are headings of sections with tables of tasks: all of those that say that they are
/// steps, or one of the others, which then are the steps of a second reading. If items are wanted, numbered ones
/// anywhere are tasks.
fn parse_markdown(
    name: &str,
    outline: &Outline<'_>,
    wanted: Option<&str>,
) -> Vec<(Reading, PlanDraft)> {
    let is_prose_allowed = wanted == Some(Reading::Items.name());
    let mut found = markdown::readings(name, outline, is_prose_allowed);
    let (is_of_tables, is_close) = match found.first() {
        None => (true, false),
        Some(first) => {
            let (with, all) = (tables_of_tasks(first), first.draft.plan_file.plan.steps.len());
            let needed = match first.marks {
                Marks::Steps => all,
                Marks::Sections => 1,
                Marks::Boxes | Marks::Items => usize::MAX,
            };
            (with >= needed, with < all)
        }
    };
    let tables = is_of_tables.then(|| parse_table(name, outline)).flatten();
    if tables.is_some() {
        found.truncate(usize::from(is_close));
    }
    let tables = tables.into_iter().map(|draft| (Reading::Tables, draft));
    tables.chain(found.into_iter().map(|found| (found.reading, found.draft))).collect()
}

/// How many steps are headings of sections with tables of tasks.
fn tables_of_tasks(found: &MarkdownReading) -> usize {
    if !matches!(found.marks, Marks::Steps | Marks::Sections) {
        return 0;
    }
    let has_tasks = |goal: &str| {
        let outline = Outline::parse(goal).ok();
        outline.is_some_and(|outline| parse_table("", &outline).is_some())
    };
    let steps = found.draft.plan_file.plan.steps.iter();
    steps.filter(|step| step.goal.contains('|') && has_tasks(&step.goal)).count()
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
