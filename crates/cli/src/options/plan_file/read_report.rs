//! Reports the read and unread parts of a plan file of another tool, before a step is dispatched.

use std::collections::BTreeMap;
use std::path::Path;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Environment, LedgerView};
use plan_ledger_files::{FileReading, PlanFile, ReadReport, Reading};

use crate::output::print_message;
use crate::protocol::counted;

/// The report of `ledger run` and `ledger plan lint` about a file of another tool.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ReadLine {
    /// The commands of the file that the run executes: criteria that read as commands, and others.
    commands: Vec<CommandJson>,
    /// The ids and dependencies that differ from the file.
    corrections: Vec<CorrectionJson>,
    /// The number of steps that the file marks as done.
    done: usize,
    /// The number of steps that the file marks as dropped.
    dropped: usize,
    /// The form of the file.
    form: String,
    /// The fields that are kept as data of the tool.
    kept: Vec<KeptJson>,
    /// The files to modify that do not exist.
    missing_files: Vec<MissingFileJson>,
    /// The steps with a mark that tools understand differently, such as `[-]`: they are open.
    open_marks: Vec<OpenMarkJson>,
    /// The number of optional steps.
    optional: usize,
    /// Which parts of a Markdown text are the steps; null for a form in which this is no choice.
    reading: Option<&'static str>,
    /// The readings of the file, the default first; empty if there is one.
    readings: Vec<ReadingJson>,
    /// The number of steps.
    steps: usize,
    /// The parts that are not steps.
    unread: Vec<UnreadJson>,
}

/// A criterion that was read as a command.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct CommandJson {
    /// The command.
    command: String,
    /// The id of the step; null for a criterion of the plan.
    step: Option<String>,
}

/// A field that is kept as data of the tool.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct KeptJson {
    /// The number of places: tasks, or the file itself.
    count: usize,
    /// Its name.
    name: String,
}

/// A reading of a file that has several.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct ReadingJson {
    /// What it takes as what, for people.
    meaning: &'static str,
    /// Its name, for `--reading`.
    name: &'static str,
    /// The number of its steps.
    steps: usize,
    /// The titles of its first steps.
    titles: Vec<String>,
}

/// A file to modify that does not exist.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct MissingFileJson {
    /// Its path.
    path: String,
    /// The id of the step.
    step: String,
}

/// A step with a mark that tools understand differently.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct OpenMarkJson {
    /// The mark.
    mark: String,
    /// The id of the step.
    step: String,
}

/// The steps with a mark that tools understand differently, with their marks.
fn open_marks(file: &PlanFile) -> impl Iterator<Item = (&String, &String)> {
    let is_settled = |id: &String| file.done.contains_key(id) || file.skipped.contains_key(id);
    let is_mark = |mark: &str| mark.starts_with('[') && mark.ends_with(']');
    file.statuses.iter().filter(move |(id, mark)| is_mark(mark) && !is_settled(id))
}

/// Parts of a file that are not steps.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct UnreadJson {
    /// Their number.
    count: usize,
    /// Their kind.
    kind: &'static str,
    /// The line of the first one.
    line: Option<u64>,
    /// The title of the section around them.
    section: String,
}

/// An id or a dependency that differs from the file.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct CorrectionJson {
    /// The kind of the change.
    kind: &'static str,
    /// The line of the step.
    line: Option<u64>,
    /// The name in the file.
    name: String,
    /// The id of the step.
    step: String,
}

impl From<&PlanFile> for ReadLine {
    fn from(file: &PlanFile) -> Self {
        let ReadReport { unread, corrections, kept } = &file.report;
        let unread = unread.iter().map(|part| UnreadJson {
            count: part.count,
            kind: part.kind.json_word(),
            line: part.line,
            section: part.section.clone(),
        });
        let corrections = corrections.iter().map(|each| CorrectionJson {
            kind: each.kind.json_word(),
            line: each.line,
            name: each.name.clone(),
            step: each.step.clone(),
        });
        let kept = kept.iter().map(|(name, count)| KeptJson { count: *count, name: name.clone() });
        let commands = file
            .commands
            .iter()
            .map(|each| CommandJson { command: each.command.clone(), step: each.step.clone() });
        let missing = file
            .missing_files
            .iter()
            .map(|(step, path)| MissingFileJson { path: path.clone(), step: step.clone() });
        Self {
            commands: commands.collect(),
            corrections: corrections.collect(),
            done: file.done.len(),
            dropped: file.skipped.len(),
            form: file.format.to_string(),
            kept: kept.collect(),
            missing_files: missing.collect(),
            open_marks: open_marks(file)
                .map(|(step, mark)| OpenMarkJson { mark: mark.clone(), step: step.clone() })
                .collect(),
            optional: file.optional(),
            reading: file.reading.map(Reading::name),
            readings: file
                .readings
                .iter()
                .map(|each| ReadingJson {
                    meaning: each.reading.meaning(),
                    name: each.reading.name(),
                    steps: each.steps,
                    titles: each.titles.clone(),
                })
                .collect(),
            steps: file.plan.steps.len(),
            unread: unread.collect(),
        }
    }
}

/// Gives the steps of a file without ids those that the run's plan has for the same texts.
pub(crate) fn keep_ids(file: &mut PlanFile, ledger: &Path, run: &str) {
    // Without a ledger or a run, the ids of the file are used.
    let view = LedgerView::open(ledger, &Environment::system()).ok();
    let fold = view.and_then(|view| view.fold_recent().ok());
    let run = fold.as_ref().and_then(|fold| fold.state.run_named(run));
    if let Some(plan) = run.and_then(|run| run.plan()) {
        file.keep_ids(&plan.decode());
    }
}

/// Prints the read parts, and each kind of correction.
pub(crate) fn print_read_report(path: &Path, file: &PlanFile) {
    let name = path.display();
    print_message(&format!("{name}: {}", file.read_summary()));
    for (_, text) in file.report.correction_lines() {
        print_message(&format!("{name}: {text}"));
    }
    for (step, mark) in open_marks(file) {
        print_message(&format!(
            "{name}: step `{step}` has the mark {mark}, which is read as open; write [x] if it is done, \
             or strike its text through (~~) if it is dropped"
        ));
    }
    for (step, path) in &file.missing_files {
        print_message(&format!(
            "{name}: step `{step}` modifies `{path}`, which does not exist and which no step creates"
        ));
    }
    for line in reading_lines(file) {
        print_message(&format!("{name}: {line}"));
    }
    print_commands(&name.to_string(), file);
}

/// How much of a title a reading shows, in characters.
const TITLE_MAX: usize = 60;

/// The readings of a file that has several: their names, their steps, and what they take as what.
pub(crate) fn reading_lines(file: &PlanFile) -> Vec<String> {
    let Some(default) = file.readings.first() else { return Vec::new() };
    let count = file.readings.len();
    let head = format!(
        "{count} readings; `{}` is the default, --reading NAME selects one",
        default.reading
    );
    let line = |each: &FileReading| {
        let titles = each.titles.iter().map(|title| title.chars().take(TITLE_MAX).collect());
        let titles: Vec<String> = titles.collect();
        let more = if each.steps > titles.len() { ", ..." } else { "" };
        let used = if Some(each.reading) == file.reading { ", used here" } else { "" };
        let steps = counted(u64::try_from(each.steps).unwrap_or(u64::MAX), "step");
        let (name, meaning) = (each.reading, each.reading.meaning());
        format!("  {name}: {steps}{used} ({}{more}): {meaning}", titles.join(", "))
    };
    std::iter::once(head).chain(file.readings.iter().map(line)).collect()
}

/// Prints the commands that the file states, each once.
fn print_commands(name: &str, file: &PlanFile) {
    if file.commands.is_empty() {
        return;
    }
    let count = u64::try_from(file.commands.len()).unwrap_or(u64::MAX);
    print_message(&format!("{name}: {} that the run executes:", counted(count, "command")));
    let mut steps: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for each in &file.commands {
        let step = each.step.as_deref().unwrap_or("the plan");
        steps.entry(&each.command).or_default().push(step);
    }
    for (command, steps) in steps {
        print_message(&format!("  {command}  ({})", steps.join(", ")));
    }
}
