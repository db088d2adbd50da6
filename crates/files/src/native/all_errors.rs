//! Collects all errors of a native plan after the strict parser stopped at the first one.
//!
//! JSON is parsed again field by field. In YAML the type of a value depends on where it is, so the
//! entry or line with the error is blanked out and the rest is parsed again.
//!
//! Invariant: this only adds errors to the first one; a file that the strict parser accepts never
//! gets here. The number of errors is bounded.

use serde_json::{Map, Value};

use super::marks::MarkedPlan;
use crate::diagnostic::{Diagnostic, ReadError, ReadResult, Severity};
use crate::draft::{PlanDraft, SourceMap};
use crate::plan_file::{PlanFile, PlanFormat};
use crate::syntax::{LineIndex, is_vague, parse_yaml, plain_message, with_form};
use plan_ledger::plan::{Plan, Step};

/// How many errors are collected.
const ERRORS_MAX: usize = 50;

/// The largest YAML text that is parsed again, in bytes.
const YAML_BYTES_MAX: usize = 1024 * 1024;

/// The errors of a well-formed JSON text, also those of references.
pub(super) fn in_json(text: &str, value: &Value) -> Vec<Diagnostic> {
    let mut rest = value.clone();
    let mut check = JsonCheck {
        lines: LineIndex::of_json(text),
        errors: Vec::new(),
        wrong: Vec::new(),
        lacks_names: false,
    };
    let Some(fields) = value.as_object() else { return Vec::new() };
    for (name, value) in fields {
        match (name.as_str(), value.as_array()) {
            ("steps", Some(steps)) => {
                for (index, step) in steps.iter().enumerate() {
                    check.step(index, step);
                }
            }
            _ => {
                let fields = one_field(name, value);
                let is_valid = match name.as_str() {
                    "marks" => check.parse::<MarkedPlan>(name, &fields),
                    _ => check.parse::<Plan>(name, &fields),
                };
                if !is_valid {
                    check.lacks_names |= name == "steps" || name == "barriers";
                    check.wrong.push((None, name.clone()));
                }
            }
        }
    }
    for (step, field) in &check.wrong {
        let part = match step {
            Some(index) => rest.pointer_mut(&format!("/steps/{index}")),
            None => Some(&mut rest),
        };
        part.and_then(Value::as_object_mut).map(|fields| fields.remove(field));
    }
    if !check.lacks_names
        && let Ok(plan) = serde_json::from_value::<MarkedPlan>(rest)
    {
        let plan_file = plan.into_plan_file(PlanFormat::Json);
        check.errors.extend(reference_errors(plan_file, SourceMap::Json, text));
    }
    check.errors
}

/// The references of a plan without its wrong fields that name nothing.
fn reference_errors(plan_file: PlanFile, source_map: SourceMap, text: &str) -> Vec<Diagnostic> {
    match PlanDraft::complete(plan_file, source_map).validate(text) {
        Err(ReadError::Invalid(mut found)) => {
            found.retain(|each| {
                each.severity == Severity::Problem && each.message.starts_with("there is no ")
            });
            found
        }
        _ => Vec::new(),
    }
}

fn one_field(name: &str, value: &Value) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value.clone())])
}

/// Parses the parts of a JSON plan one by one.
struct JsonCheck {
    lines: LineIndex,
    errors: Vec<Diagnostic>,
    /// The fields with errors: of a step by its index, or of the plan.
    wrong: Vec<(Option<usize>, String)>,
    /// Whether the name of a step or a barrier may be among them.
    lacks_names: bool,
}

impl JsonCheck {
    fn step(&mut self, index: usize, step: &Value) {
        let path = format!("steps[{index}]");
        let Some(fields) = step.as_object() else {
            self.lacks_names = true;
            return self.report(&path, "expected a step: an object with an id");
        };
        if !fields.contains_key("id") {
            self.lacks_names = true;
            self.report(&path, "missing field `id`");
        }
        for (name, value) in fields {
            let mut fields = one_field(name, value);
            fields.entry("id").or_insert_with(|| Value::String("x".to_owned()));
            if !self.parse::<Step>(&format!("{path}.{name}"), &fields) {
                self.lacks_names |= name == "id";
                self.wrong.push((Some(index), name.clone()));
            }
        }
    }

    /// Whether the fields can be parsed.
    fn parse<T: serde::de::DeserializeOwned>(
        &mut self,
        path: &str,
        fields: &Map<String, Value>,
    ) -> bool {
        match serde_json::from_value::<T>(Value::Object(fields.clone())) {
            Ok(_) => true,
            Err(error) => {
                let message = plain_message(&error.to_string());
                let inner = if is_vague(&message) {
                    wrong_part::<T>(fields, &message)
                } else {
                    String::new()
                };
                let path = format!("{path}{inner}");
                let field = path.rsplit('.').next().unwrap_or_default();
                self.report(&path, &with_form(&message, field));
                false
            }
        }
    }

    fn report(&mut self, path: &str, message: &str) {
        if self.errors.len() < ERRORS_MAX {
            let (line, place) = (self.lines.line(path), path.to_owned());
            let message = message.to_owned();
            let severity = Severity::Problem;
            self.errors.push(Diagnostic { severity, line, column: None, place, message });
        }
    }
}

/// The path, below the only checked field, of the part without which the message changes.
fn wrong_part<T: serde::de::DeserializeOwned>(
    fields: &Map<String, Value>,
    message: &str,
) -> String {
    let mut path = String::new();
    let whole = Value::Object(fields.clone());
    // Of a step, the field beside its id.
    let mut names = fields.keys().filter(|name| *name != "id");
    let Some(name) = names.next() else { return path };
    let mut pointer = format!("/{name}");
    let is_other = |pointer: &str, part: &str| {
        let mut rest = whole.clone();
        match rest.pointer_mut(pointer) {
            Some(Value::Object(fields)) => drop(fields.remove(part)),
            Some(Value::Array(items)) => {
                if let Some(item) = part.parse().ok().and_then(|at: usize| items.get_mut(at)) {
                    *item = Value::Null;
                }
            }
            _ => return false,
        }
        let parsed = serde_json::from_value::<T>(rest);
        parsed.err().is_none_or(|error| plain_message(&error.to_string()) != message)
    };
    while let Some(part) = whole.pointer(&pointer) {
        let is_list = part.is_array();
        let parts: Vec<String> = match part {
            Value::Object(fields) => fields.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|at| at.to_string()).collect(),
            _ => break,
        };
        let Some(part) = parts.iter().find(|part| is_other(&pointer, part)) else { break };
        pointer.push('/');
        pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
        let (open, close) = if is_list { ("[", "]") } else { (".", "") };
        path.extend([open, part.as_str(), close]);
    }
    path
}

/// The errors of a YAML text, given the first one.
pub(super) fn in_yaml(text: &str, first: ReadError) -> Vec<Diagnostic> {
    let mut recovery = YamlRecovery {
        original: text.lines().collect(),
        lines: text.lines().map(str::to_owned).collect(),
        errors: Vec::new(),
        last_entry: None,
    };
    if text.len() <= YAML_BYTES_MAX
        && let Some(error) = recovery.until_well_formed(first)
    {
        recovery.until_valid(error);
        recovery.add_reference_errors();
    }
    recovery.errors
}

/// Blanks out one error after another in a YAML text, until the rest is valid.
struct YamlRecovery<'a> {
    original: Vec<&'a str>,
    lines: Vec<String>,
    errors: Vec<Diagnostic>,
    /// Line and column of the last error, if only one entry of its line was blanked out. The rest
    /// of that line can still have errors.
    last_entry: Option<(u64, u64)>,
}

impl YamlRecovery<'_> {
    /// The next error; `None` if the rest is valid, or no longer well-formed.
    fn next_error(&self) -> Option<ReadError> {
        let rest = self.lines.join("\n");
        let parsed: ReadResult<MarkedPlan> = parse_yaml(&rest);
        parsed.err().filter(|_| !LineIndex::of_yaml(&rest).is_empty())
    }

    /// Blanks out syntax errors from the top down. If the text does not become well-formed, only
    /// the first error is kept, since the others may follow from it.
    fn until_well_formed(&mut self, first: ReadError) -> Option<ReadError> {
        let (mut next, mut last) = (first, 0);
        while LineIndex::of_yaml(&self.lines.join("\n")).is_empty() {
            let ReadError::Syntax { line: Some(line), error, .. } = next else { return None };
            let at = index(line).filter(|_| line > last && self.errors.len() < ERRORS_MAX);
            if !at.is_some_and(|at| blank_field(&mut self.lines, at)) {
                self.errors.truncate(1);
                return None;
            }
            self.errors.push(Diagnostic::from_error(Some(line), &error));
            last = line;
            let parsed: ReadResult<MarkedPlan> = parse_yaml(&self.lines.join("\n"));
            next = parsed.err()?;
        }
        Some(next)
    }

    /// Blanks out errors in a well-formed text.
    fn until_valid(&mut self, first: ReadError) {
        let mut next = first;
        for _ in 0..ERRORS_MAX {
            let ReadError::Syntax { line: Some(line), column, error } = next else { break };
            let Some(at) = index(line) else { break };
            // An error on an empty line is caused by the blanking.
            if self.lines.get(at).is_none_or(|line| line.trim().is_empty()) {
                break;
            }
            let place = column.map(|column| (line, column));
            let is_missing = error.message().contains("missing field");
            // So is an error where an entry was blanked out.
            let is_blanked = place.is_some() && self.last_entry == place;
            let is_blanked_out = is_missing && self.is_blanked_out(at, error.message());
            if !is_blanked && !is_blanked_out && self.is_new(line, is_missing) {
                let found = Diagnostic::from_error(Some(line), &error);
                let is_same =
                    |other: &Diagnostic| other.line == found.line && other.message == found.message;
                // The error may be in the rest of a value after one of its entries was blanked out.
                if !self.errors.iter().any(is_same) {
                    self.errors.push(found);
                }
            }
            let entry_column = column.filter(|_| !is_missing && !is_blanked);
            let line_at = self.lines.get(at);
            let shortened =
                entry_column.zip(line_at).and_then(|(column, line)| without_entry(line, column));
            let is_changed = match (shortened, self.lines.get_mut(at)) {
                (Some(shortened), Some(line)) => {
                    *line = shortened;
                    self.last_entry = place;
                    true
                }
                _ if is_missing => blank_map(&mut self.lines, at),
                _ => blank_field(&mut self.lines, at),
            };
            match self.next_error().filter(|_| is_changed) {
                Some(error) => next = error,
                None => break,
            }
        }
    }

    /// Adds the references that name nothing, if the rest is valid and every name is left in it.
    fn add_reference_errors(&mut self) {
        let lacks_name = |(original, line): (&&str, &String)| {
            original.matches("id:").count() > line.matches("id:").count()
        };
        if self.original.iter().zip(&self.lines).any(lacks_name) {
            return;
        }
        let rest = self.lines.join("\n");
        if let Ok(plan) = parse_yaml::<MarkedPlan>(&rest) {
            let plan_file = plan.into_plan_file(PlanFormat::Yaml);
            self.errors.extend(reference_errors(plan_file, SourceMap::Yaml, &rest));
        }
    }

    /// Whether the field that is missing on a line was blanked out with an error.
    fn is_blanked_out(&self, at: usize, message: &str) -> bool {
        let name = message.split('`').nth(1).unwrap_or_default();
        let count =
            |line: Option<&str>| line.unwrap_or_default().matches(&format!("{name}:")).count();
        count(self.original.get(at).copied()) > count(self.lines.get(at).map(String::as_str))
    }

    /// Whether an error on this line is a separate mistake.
    fn is_new(&self, line: u64, is_missing: bool) -> bool {
        // A second error on a line usually follows from the first, unless only the entry with the
        // first one was blanked out.
        let is_reported = self.errors.iter().any(|error| error.line == Some(line));
        let is_in_rest_of_line = self.last_entry.is_some_and(|(last, _)| last == line);
        // Blanking out the content of a field causes another error there.
        let below = index(line).map_or(usize::MAX, |at| at.saturating_add(1));
        let is_emptied = !is_missing
            && self.lines.get(below).is_some_and(|line| line.trim().is_empty())
            && self.original.get(below).is_some_and(|line| !line.trim().is_empty());
        (!is_reported || is_in_rest_of_line) && !is_emptied
    }
}

/// The index of a line that is counted from 1.
fn index(line: u64) -> Option<usize> {
    usize::try_from(line).ok()?.checked_sub(1)
}

/// Blanks out the entry at a column, in a list or map in brackets; `None` if the column is not
/// inside brackets.
fn without_entry(line: &str, column: u64) -> Option<String> {
    let mut chars: Vec<char> = line.chars().collect();
    let (begin, end) = entry_at(&chars, usize::try_from(column).ok()?.checked_sub(1)?)?;
    let entry = chars.get_mut(begin..end)?;
    let has_content = entry.iter().any(|c| !c.is_whitespace());
    entry.fill(' ');
    has_content.then(|| chars.into_iter().collect())
}

/// The range of the bracketed entry at an index of a line, including the comma after it.
fn entry_at(chars: &[char], at: usize) -> Option<(usize, usize)> {
    // The starts of the open entries, and the open quote.
    let (mut open, mut quote): (Vec<usize>, Option<char>) = (Vec::new(), None);
    // The entry at the index: its start, and the bracket depth.
    let mut entry: Option<(usize, usize)> = None;
    for (place, c) in chars.iter().copied().enumerate() {
        if place == at {
            entry = Some((*open.last()?, open.len()));
        }
        match (c, quote) {
            (c, Some(of)) => {
                quote = quote.filter(|_| c != of);
                continue;
            }
            ('"' | '\'', None) => quote = Some(c),
            _ => {}
        }
        let next = place.saturating_add(1);
        let begin = entry.filter(|(_, depth)| *depth == open.len()).map(|(begin, _)| begin);
        match (c, begin) {
            ('{' | '[', _) => open.push(next),
            (',', Some(begin)) => return Some((begin, next)),
            ('}' | ']', Some(begin)) => return Some((begin, place)),
            (',', None) => {
                if let Some(last) = open.last_mut() {
                    *last = next;
                }
            }
            ('}' | ']', None) => drop(open.pop()),
            _ => {}
        }
    }
    None
}

/// Blanks out a field: its line, and the lines below that are indented deeper. Returns whether
/// there was anything to blank out.
fn blank_field(lines: &mut [String], at: usize) -> bool {
    let Some(line) = lines.get_mut(at) else { return false };
    let content = line.trim_start();
    if content.is_empty() {
        return false;
    }
    let mut indent = line.len().saturating_sub(content.len());
    // The first field of an item follows the dash. The dash stays if the item has more fields.
    let inner = content.strip_prefix("- ").map(str::trim_start);
    let (kept, has_dash) = match inner {
        Some(inner) if inner.contains(": ") || inner.ends_with(':') => {
            indent = line.len().saturating_sub(inner.len());
            (line.get(..indent).unwrap_or_default().trim_end().to_owned(), true)
        }
        _ => (String::new(), false),
    };
    if has_dash && kept.trim() == content.trim() {
        return false;
    }
    *line = kept;
    for line in lines.iter_mut().skip(at.saturating_add(1)) {
        let content = line.trim_start();
        let depth = line.len().saturating_sub(content.len());
        if !content.is_empty() && depth <= indent {
            break;
        }
        line.clear();
    }
    true
}

/// Blanks out a map: the field on this line and all fields next to it.
fn blank_map(lines: &mut [String], at: usize) -> bool {
    let Some(line) = lines.get(at) else { return false };
    let content = line.trim_start();
    let indent = line.len().saturating_sub(content.len());
    // The fields of an item are indented deeper than its dash.
    let least = indent.saturating_add(usize::from(content.starts_with('-')));
    let has_content = !content.is_empty();
    for (place, line) in lines.iter_mut().enumerate().skip(at) {
        let content = line.trim_start();
        let depth = line.len().saturating_sub(content.len());
        if place > at && !content.is_empty() && depth < least {
            break;
        }
        line.clear();
    }
    has_content
}
