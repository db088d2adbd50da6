//! Imported statuses: a plan file may mark steps as done or as skipped, and the run applies these
//! marks.
//!
//! Invariants:
//! - A mark applies only to a step that the run never dispatched, since the ledger knows the status
//!   of all others. It also applies only while the step's work is the same as in the file.
//! - Applying marks is idempotent: after a crash the next runner applies the rest.

use std::collections::BTreeMap;
use std::fmt;

use plan_ledger::internals::ledger::step_hash;
use plan_ledger::plan::{Accepted, AcceptedBasis, StepEvent};
use plan_ledger::{
    Command, ContentHash, Event, Ledger, Plan, Rejection, Result, Run, RunId, RunStatus, State,
    Step, StepNumber, StepState, plan_hash,
};

/// The author of the records, unless another one imports the marks.
const OPERATOR: &str = "operator";

/// The maximum number of steps that one batch accepts, so that their consequences also fit into it.
const BATCH: usize = 8192;

/// The marks of a plan file.
#[derive(Debug, Clone)]
pub struct ImportedStatuses {
    /// The plan in the file.
    plan: ContentHash,
    done: Vec<Mark>,
    skipped: Vec<Mark>,
    /// The person who imports them.
    by: String,
}

#[derive(Debug, Clone)]
struct Mark {
    step: String,
    /// The hash that identifies the step's work.
    work: ContentHash,
    /// The location of the mark in the file.
    source: String,
}

/// The result of applying marks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ImportResult {
    /// How many steps were accepted.
    pub done: usize,
    /// How many steps were skipped.
    pub skipped: usize,
    /// Marked steps that this run dispatched and has not settled: their marks do not apply.
    pub dispatched: Vec<String>,
}

impl ImportedStatuses {
    /// The marks of the plan in a file: step ids with the location of each mark.
    #[must_use]
    pub fn new(
        plan: &Plan,
        done: &BTreeMap<String, String>,
        skipped: &BTreeMap<String, String>,
    ) -> Self {
        let of = |marks: &BTreeMap<String, String>| {
            let marked = plan.steps.iter().filter_map(|step| Some((step, marks.get(&step.id)?)));
            let mark = |(step, source): (&Step, &String)| Mark {
                step: step.id.clone(),
                work: step_hash(step, &plan.defaults),
                source: source.clone(),
            };
            marked.map(mark).collect()
        };
        let (done, skipped, by) = (of(done), of(skipped), OPERATOR.to_owned());
        Self { plan: plan_hash(plan), done, skipped, by }
    }

    /// The same marks, imported by another person than the operator.
    #[must_use]
    pub fn imported_by(self, by: String) -> Self {
        Self { by, ..self }
    }

    /// Whether the run has replaced the file's plan by another one.
    fn are_left_behind(&self, run: &Run) -> bool {
        let hashes = (1..=run.active).zip(run.versions.iter().map(|version| version.hash));
        let is_file = |(_, hash): &(u32, ContentHash)| *hash == self.plan;
        hashes.filter(is_file).last().is_some_and(|(version, _)| version < run.active)
    }

    /// The step that a mark applies to, if the active version has it with the same work.
    fn marked<'a>(&self, run: &'a Run, mark: &Mark) -> Option<(StepNumber, &'a StepState)> {
        let number = run.step_named(&mark.step)?;
        let step = run.step(number).filter(|_| run.step_hash(number) == Some(mark.work))?;
        // A step that a later version reopened is not closed again by an earlier version's file.
        (step.last_seq == 0 || !self.are_left_behind(run)).then_some((number, step))
    }

    /// Marked steps that are open and were never dispatched, with the location of each mark.
    fn open(&self, state: &State, run: RunId, marks: &[Mark]) -> Vec<(StepNumber, String)> {
        let run = state.runs.get(&run).filter(|run| run.status == RunStatus::Running);
        let Some(run) = run else { return Vec::new() };
        let open = |mark: &Mark| {
            let (number, step) = self.marked(run, mark)?;
            let is_open = step.status.is_open() && step.attempts == 0;
            is_open.then(|| (number, mark.source.clone()))
        };
        marks.iter().filter_map(open).collect()
    }

    /// Marked steps that were dispatched and are not settled.
    fn dispatched(&self, state: &State, run: RunId) -> Vec<String> {
        let Some(run) = state.runs.get(&run) else { return Vec::new() };
        let is_dispatched = |mark: &&Mark| {
            let step = self.marked(run, mark);
            step.is_some_and(|(_, step)| step.status.is_remaining() && step.attempts > 0)
        };
        let marks = self.done.iter().chain(&self.skipped);
        marks.filter(is_dispatched).map(|mark| mark.step.clone()).collect()
    }
}

impl ImportResult {
    /// Whether anything changed.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.done > 0 || self.skipped > 0
    }
}

impl fmt::Display for ImportResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let are = |count: usize| match count {
            1 => "1 step is".to_owned(),
            many => format!("{many} steps are"),
        };
        match (self.done, self.skipped) {
            (done, 0) => write!(f, "{} done already", are(done))?,
            (0, skipped) => write!(f, "{} skipped", are(skipped))?,
            (done, skipped) => {
                write!(f, "{} already done and {} skipped", are(done), are(skipped))?;
            }
        }
        f.write_str(", as the file says")
    }
}

/// Apply the marks of a file that the run has not applied yet, before any dispatch.
///
/// # Errors
/// As [`Ledger::execute`]. Steps that another process settles in the meantime are skipped.
pub fn import_statuses(
    ledger: &Ledger,
    run: RunId,
    marks: &ImportedStatuses,
) -> Result<ImportResult> {
    let mut taken = ImportResult::default();
    for (step, reason) in marks.open(&*ledger.state()?, run, &marks.skipped) {
        let by = marks.by.clone();
        match ledger.execute(&Command::Skip { run, step, by, reason }) {
            // Another process settled it first, or an earlier mark did.
            Err(error) if error.rejection().is_some() => {}
            other => {
                drop(other?);
                taken.skipped += 1;
            }
        }
    }
    while !marks.open(&*ledger.state()?, run, &marks.done).is_empty() {
        match take_over(ledger, run, marks)? {
            0 => break,
            count => taken.done += count,
        }
    }
    taken.dispatched = marks.dispatched(&*ledger.state()?, run);
    Ok(taken)
}

/// Accept the next batch of steps that are done. Returns their number.
fn take_over(ledger: &Ledger, run: RunId, marks: &ImportedStatuses) -> Result<usize> {
    // One transaction builds and decides the command, so no step is dispatched in between.
    let command = |state: &State| -> Result<Command> {
        let mut steps = marks.open(state, run, &marks.done);
        steps.truncate(BATCH);
        if marks.by != OPERATOR {
            for (_, source) in &mut steps {
                *source = format!("{source}, imported by {}", marks.by);
            }
        }
        Ok(Command::MarkDoneBefore { run, steps })
    };
    let is_taken = |(_, event): &&(u64, Event)| match event {
        Event::Step(record) => {
            let basis =
                |accepted: &Accepted| matches!(accepted.basis, AcceptedBasis::DoneBefore { .. });
            matches!(&record.event, StepEvent::Accepted(accepted) if basis(accepted))
        }
        _ => false,
    };
    let taken = ledger.transact(None, |transaction| {
        transaction.run_with(command)?;
        Ok(transaction.events().iter().filter(is_taken).count())
    });
    match taken.wait() {
        Ok(count) => Ok(count),
        Err(error) if matches!(error.rejection(), Some(Rejection::RunHasEnded(_))) => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a mark closes the step it names, and never one that the ledger knows more about.

    use super::*;
    use plan_ledger::{Environment, RunPolicy, StepStatus};

    fn step(id: &str, goal: &str, after: &[&str]) -> Step {
        let after = after.iter().map(|id| (*id).to_owned()).collect();
        Step { id: id.to_owned(), goal: goal.to_owned(), after, ..Step::default() }
    }

    fn done(ids: &[&str]) -> BTreeMap<String, String> {
        ids.iter().map(|id| ((*id).to_owned(), "tasks.md: [x]".to_owned())).collect()
    }

    /// Regression: a planner reopened a step that the file marks as done, with its dependents. The
    /// file belongs to the earlier plan, so its marks must not close them again; a file of the
    /// newer plan does. A dispatched step is never closed by a mark.
    #[test]
    fn marks_do_not_close_steps_that_a_planner_reopened() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, _) =
            Ledger::open_or_create(&folder.path().join("l"), &Environment::system()).unwrap();
        let first = vec![step("a", "old", &[]), step("b", "", &["a"]), step("c", "", &["b"])];
        let plan = Plan { steps: first, ..Plan::default() };
        let run = ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
        let open = |ids: &[&str]| {
            let state = ledger.state().unwrap();
            let run = &state.runs[&run];
            ids.iter().all(|id| run.step(run.step_named(id).unwrap()).unwrap().status.is_open())
        };
        let none = BTreeMap::new();
        let marks = ImportedStatuses::new(&plan, &done(&["a", "b"]), &none);
        assert_eq!(import_statuses(&ledger, run, &marks).unwrap().done, 2);
        assert_eq!(
            import_statuses(&ledger, run, &marks).unwrap(),
            ImportResult::default(),
            "once is enough"
        );
        assert!(!open(&["a"]) && !open(&["b"]) && open(&["c"]));

        let mut later = plan.clone();
        later.steps[0].goal = "new".to_owned();
        later.steps.push(step("d", "", &[]));
        ledger.propose(run, &later, "planner:p: another way").unwrap();
        assert!(open(&["a", "b", "c"]));
        let wider = ImportedStatuses::new(&plan, &done(&["a", "b", "c"]), &none);
        assert_eq!(
            import_statuses(&ledger, run, &wider).unwrap().done,
            1,
            "c was never marked before"
        );
        assert!(open(&["a", "b"]));

        let task = ledger.claim_step(
            run,
            ledger.state().unwrap().runs[&run].step_named("d").unwrap(),
            "w",
        );
        ledger.report_lost(task.unwrap().token, plan_ledger::LostCause::Released, "").unwrap();
        let newer = ImportedStatuses::new(&later, &done(&["a", "b", "d"]), &none);
        let taken = import_statuses(&ledger, run, &newer).unwrap();
        assert_eq!((taken.done, taken.dispatched), (2, vec!["d".to_owned()]));
        let state = ledger.state().unwrap();
        assert_eq!(state.runs[&run].count(StepStatus::Accepted), 3);
    }
}
