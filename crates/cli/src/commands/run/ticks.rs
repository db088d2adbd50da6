//! `ledger run --tick`: keeps the marks of the plan file as the run's statuses, while it runs.
//!
//! The marks are derived from the ledger, and no record is written. Each time the status of a step has changed, the file is
//! read again, and the marks of the steps with another status are written into what it is now. So an edit of other marks
//! stays. If the text outside of the marks is no longer that of the start, the file belongs to its editor: a message says
//! so once, and no more marks are written.
//!
//! The first time, all marks are compared, so that a file that a killed runner left behind catches up.

use std::path::PathBuf;

use plan_ledger::{ContentHash, Ledger};
use plan_ledger_files::{Marking, TaskStatus};

use crate::options::ReadPlanArgs;
use crate::options::plan_file::{mark_of, marking, status_of, unmarked_hash, unmarked_steps_text};
use crate::output::{Failure, print_message, replace_file};

use super::args::RunArgs;
use super::plan_source::PlanSource;

/// How often a file that changes at the same time is read again.
const TRIES: usize = 3;

/// Writes the marks of a run into its plan file.
#[derive(Debug)]
pub(super) struct Ticks {
    file: PathBuf,
    run: String,
    read: ReadPlanArgs,
    /// The hash of the file without its marks.
    unmarked: ContentHash,
    /// The ids of the file's steps, in their order.
    steps: Vec<String>,
    /// The marks that the statuses had at the last time.
    last: Option<Vec<Option<TaskStatus>>>,
    has_named_unmarked: bool,
    /// Whether the file is left to its editor.
    is_stopped: bool,
}

impl Ticks {
    /// The marks of the plan file of a run; `None` without `--tick`, or if the plan is not that of the file.
    pub(super) fn of(source: &PlanSource, args: &RunArgs) -> Option<Self> {
        if !args.tick {
            return None;
        }
        let file = args.plan.clone();
        let Some(unmarked) = source.provenance.unmarked_hash else {
            let (run, file) = (&source.name, file.display());
            let text = format!("run {run}: {file} is not its plan, so --tick writes no marks");
            print_message(&text);
            return None;
        };
        let steps = source.plan.plan.steps.iter().map(|step| step.id.clone()).collect();
        let (run, read) = (source.name.clone(), source.read.clone());
        Some(Self {
            file,
            run,
            read,
            unmarked,
            steps,
            last: None,
            has_named_unmarked: false,
            is_stopped: false,
        })
    }

    /// Writes the marks of the steps whose statuses have changed. Returns whether the file can still be marked.
    pub(super) fn update(&mut self, ledger: &Ledger) -> bool {
        if self.is_stopped {
            return false;
        }
        let Ok(state) = ledger.state() else { return true };
        let Some(run) = state.run_named(&self.run) else { return true };
        let now: Vec<Option<TaskStatus>> =
            self.steps.iter().map(|step| status_of(run, step).and_then(mark_of)).collect();
        let changed: Vec<Option<TaskStatus>> = match &self.last {
            Some(last) if *last == now => return true,
            Some(last) => {
                let pairs = now.iter().zip(last);
                pairs.map(|(now, last)| now.filter(|_| now != last)).collect()
            }
            None => now.clone(),
        };
        if let Err(reason) = self.write(&changed) {
            let text = format!("run {}: {reason}; --tick writes no more marks", self.run);
            print_message(&text);
            self.is_stopped = true;
            return false;
        }
        self.last = Some(now);
        true
    }

    /// Writes marks into the file as it is now; an error says why it is left alone.
    fn write(&mut self, changed: &[Option<TaskStatus>]) -> Result<(), String> {
        for _ in 0..TRIES {
            let read = self.read.read_marked(&self.file).map_err(|failure| first_line(&failure))?;
            let is_edited = unmarked_hash(&read) != self.unmarked;
            if is_edited && !plan_ledger::mutant!(EditedFileTicked) {
                return Err(format!("{} was changed", self.file.display()));
            }
            let written = marking(&read, changed, &self.run);
            let Marking { files, unmarked, .. } = written.map_err(|error| error.to_string())?;
            let mut is_written = true;
            for text in &files {
                let replaced = replace_file(&text.path, &text.before, &text.after);
                is_written &= replaced.map_err(|error| error.to_string())?;
            }
            if is_written {
                self.name_unmarked(&unmarked);
                return Ok(());
            }
        }
        Err(format!("{} changes all the time", self.file.display()))
    }

    /// Names the steps without a mark, once.
    fn name_unmarked(&mut self, unmarked: &[usize]) {
        if self.has_named_unmarked {
            return;
        }
        let names = unmarked.iter().filter_map(|at| self.steps.get(*at));
        let names: Vec<String> = names.map(|step| format!("`{step}`")).collect();
        if let Some(text) = unmarked_steps_text(&names, &self.file) {
            print_message(&text);
            self.has_named_unmarked = true;
        }
    }
}

/// The first line of a failure, without its hint.
fn first_line(failure: &Failure) -> String {
    failure.to_string().lines().next().unwrap_or_default().to_owned()
}
