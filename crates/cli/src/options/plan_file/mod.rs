//! How a plan file is read: options of every command that reads one.

mod approve;
mod file_marks;
mod night;
mod read_report;

use std::path::{Path, PathBuf};

use clap::Args;

use plan_ledger::internals::format::content_hash;
use plan_ledger::plan::{Provenance, closest_name};
use plan_ledger::{ContentHash, Environment, LedgerView, Run};
use plan_ledger_files::{LintReport, MarkedFile, PlanFile, Programs, ReadOptions, Reading};

use crate::output::Failure;

use super::author::plan_author;

pub(crate) use approve::{Approval, approve};
pub(crate) use file_marks::{mark_of, marking, status_of, unmarked_hash, unmarked_steps_text};
pub(crate) use night::{Given, lacks};
pub(crate) use read_report::{ReadLine, keep_ids, print_read_report, reading_lines};

/// How to read a plan file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ReadPlanArgs {
    /// In a file with several tagged plans, the plan with this tag
    #[arg(long, value_name = "TAG")]
    plan_tag: Option<String>,
    /// Drop the dependency of a step on another one, to break a cycle; may be repeated
    #[arg(long, value_name = "STEP:OTHER", value_parser = parse_dependency)]
    drop_dependency: Vec<(String, String)>,
    /// In a file that can be read in two ways, the reading with this name: boxes, headings, items or tables are the
    /// steps (`plan lint` shows both); `items` also reads numbered items of a text that does not look like a plan
    #[arg(long, value_name = "NAME")]
    reading: Option<String>,
}

/// A plan file that was read for a run.
#[derive(Debug)]
pub(crate) struct ReadForRun {
    pub(crate) file: MarkedFile,
    /// How it was read.
    pub(crate) read: ReadPlanArgs,
    /// Whether the file has one reading, or its reading was selected, now or for a version of the run's plan.
    pub(crate) is_read: bool,
}

impl ReadPlanArgs {
    fn options(&self) -> ReadOptions {
        ReadOptions {
            tag: self.plan_tag.clone(),
            drop_dependencies: self.drop_dependency.clone(),
            reading: self.reading.clone(),
            programs: Some(Programs::of_process()),
        }
    }

    pub(crate) fn read(&self, file: &Path) -> Result<PlanFile, Failure> {
        let read = self.options().read(file);
        read.map_err(|error| with_near_file(Failure::of_input(error), file))
    }

    /// Reads a plan file with the places of its marks.
    pub(crate) fn read_marked(&self, file: &Path) -> Result<MarkedFile, Failure> {
        let read = self.options().read_marked(file);
        read.map_err(|error| with_near_file(Failure::of_input(error), file))
    }

    /// Reads a plan file with the places of its marks, in the reading that the plan of its run has.
    pub(crate) fn read_for_run(
        &self,
        file: &Path,
        ledger: &Path,
        run: &str,
    ) -> Result<ReadForRun, Failure> {
        let read = self.clone();
        let marked = self.read_marked(file)?;
        let readings = &marked.plan_file().readings;
        if self.reading.is_some() || readings.is_empty() {
            return Ok(ReadForRun { file: marked, read, is_read: true });
        }
        // Without a ledger or a run, no reading was selected.
        let view = LedgerView::open(ledger, &Environment::system()).ok();
        let fold = view.and_then(|view| view.fold_recent().ok());
        let run = fold.as_ref().and_then(|fold| fold.state.run_named(run));
        let Some(run) = run.filter(|run| !run.versions.is_empty()) else {
            return Ok(ReadForRun { file: marked, read, is_read: false });
        };
        match reading_of(run, marked.plan_file()) {
            Some(name) if !plan_ledger::mutant!(SelectedReadingForgotten) => {
                let read = Self { reading: Some(name), ..read };
                Ok(ReadForRun { file: read.read_marked(file)?, read, is_read: true })
            }
            _ => Ok(ReadForRun { file: marked, read, is_read: true }),
        }
    }

    /// Whether a reading is selected.
    pub(crate) fn has_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// The same options with a reading.
    pub(crate) fn with_reading(&self, reading: Reading) -> Self {
        Self { reading: Some(reading.name().to_owned()), ..self.clone() }
    }

    /// The source of a plan that was read from this file.
    pub(crate) fn provenance(&self, file: &Path, read: &MarkedFile) -> Provenance {
        Provenance {
            author: plan_author(),
            file: Some(file.display().to_string()),
            file_hash: Some(ContentHash(content_hash(&read.content()))),
            unmarked_hash: Some(unmarked_hash(read)),
            read_with: self.words(),
            confidence: None,
        }
    }

    /// The options that these words of a command line say.
    pub(crate) fn of_words(words: &[String]) -> Self {
        let mut read = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--plan-tag" => read.plan_tag = words.next().cloned(),
                "--reading" => read.reading = words.next().cloned(),
                "--drop-dependency" => {
                    let dropped = words.next().and_then(|word| parse_dependency(word).ok());
                    read.drop_dependency.extend(dropped);
                }
                _ => {}
            }
        }
        read
    }

    /// The options as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(tag) = &self.plan_tag {
            words.extend(["--plan-tag".to_owned(), tag.clone()]);
        }
        for (step, other) in &self.drop_dependency {
            words.extend(["--drop-dependency".to_owned(), format!("{step}:{other}")]);
        }
        if let Some(reading) = &self.reading {
            words.extend(["--reading".to_owned(), reading.clone()]);
        }
        words
    }

    /// Reads a plan from standard input.
    pub(crate) fn read_stdin(&self) -> Result<PlanFile, Failure> {
        let read = self.options().read_stream("standard input", std::io::stdin().lock());
        read.map_err(Failure::of_input)
    }

    /// Reads a plan file and reports its problems.
    pub(crate) fn lint(&self, file: &Path) -> Result<LintReport, Failure> {
        let checked = self.options().lint(file);
        checked.map_err(|error| with_near_file(Failure::of_input(error), file))
    }
}

/// The reading that was selected for the newest version of a run's plan that was read from a file, if this file has it
/// beside another one.
pub(crate) fn reading_of(run: &Run, file: &PlanFile) -> Option<String> {
    let of_files = run.versions.iter().rev().filter_map(|version| version.provenance.as_ref());
    let newest = of_files.into_iter().find(|it| it.file.is_some())?;
    let has = |name: &String| file.readings.iter().any(|each| each.reading.name() == name);
    ReadPlanArgs::of_words(&newest.read_with).reading.filter(has)
}

/// Maximum number of names of a folder in the search for a similar one.
const NAMES_MAX: usize = 4096;

/// How the names of plan files end.
const EXTENSIONS: [&str; 4] = ["yaml", "yml", "json", "md"];

/// The failure to read a file that does not exist, with a hint: the name of a similar file, if there is one.
fn with_near_file(failure: Failure, file: &Path) -> Failure {
    let Failure::Usage(message) = failure else { return failure };
    if file.exists() {
        return Failure::Usage(message);
    }
    let hint = match near_file(file) {
        Some(near) => format!("did you mean {}?", near.display()),
        None => "name the file of a plan; `ledger help plan-file` describes it".to_owned(),
    };
    Failure::Usage(format!("{message}\nhint: {hint}"))
}

/// The plan file with a similar name beside a path that does not exist, or with the same name and
/// another extension.
fn near_file(file: &Path) -> Option<PathBuf> {
    let name = file.file_name()?.to_str()?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = folder.unwrap_or(Path::new(".")).read_dir().ok()?.take(NAMES_MAX).flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let is_plan = |name: &String| {
        let end = Path::new(name).extension().and_then(|end| end.to_str());
        end.is_some_and(|end| EXTENSIONS.contains(&end))
    };
    // Few people mistype the first letter, and short names are soon near each other.
    names.retain(|it| is_plan(it) && it.chars().next() == name.chars().next());
    names.sort();
    let whole = names.iter().find(|it| Path::new(it).file_stem().is_some_and(|stem| stem == name));
    let near = whole.map(String::as_str);
    let near = near.or_else(|| closest_name(name, names.iter().map(String::as_str)))?;
    Some(file.with_file_name(near))
}

/// Parses `STEP:OTHER`.
fn parse_dependency(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((step, other)) if !step.is_empty() && !other.is_empty() => {
            Ok((step.to_owned(), other.to_owned()))
        }
        _ => Err("expected STEP:OTHER, two ids of the plan".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_options_are_read_again() {
        let read = ReadPlanArgs {
            plan_tag: Some("later".to_owned()),
            drop_dependency: vec![("a".to_owned(), "b:c".to_owned())],
            reading: Some("items".to_owned()),
        };
        assert_eq!(ReadPlanArgs::of_words(&read.words()).options(), read.options());
        assert_eq!(ReadPlanArgs::of_words(&[]).options(), ReadPlanArgs::default().options());
    }
}
