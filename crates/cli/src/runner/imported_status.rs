//! What a plan file says of its steps beyond the plan: that they are done, or not to be done.
//!
//! Invariants:
//! - A mark counts for a step that the run never dealt: of all others the ledger knows more. It is
//!   about the file's step, and so only about the same work.
//! - Taking marks twice is as good as once. Who was killed in between is made up for by the next one.

use std::collections::BTreeMap;
use std::fmt;

use plan_ledger::error::{Error, Result};
use plan_ledger::ledger::{CommandSource, Ledger, Transaction, plan_hash, step_hash};
use plan_ledger::plan::{
    Accepted, AcceptedBasis, Command, ContentHash, Event, Plan, Rejection, Run, RunId, RunStatus,
    State, Step, StepEvent, StepNumber, StepState,
};

/// Who skips what a file says is not to be done.
const OPERATOR: &str = "operator";

/// How many steps are taken over in one batch, which has room for what follows from each.
const BATCH: usize = 8192;

/// The marks of a plan file.
#[derive(Debug, Clone)]
pub struct Marks {
    /// The file's plan.
    plan: ContentHash,
    done: Vec<Mark>,
    skipped: Vec<Mark>,
}

#[derive(Debug, Clone)]
struct Mark {
    step: String,
    /// What makes the step the same work.
    work: ContentHash,
    /// Where the file says so.
    source: String,
}

/// What came of taking marks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many steps count as done now.
    pub done: usize,
    /// How many steps are skipped now.
    pub skipped: usize,
    /// Marked steps that were dealt in this run and are not settled: their marks do not count.
    pub dealt: Vec<String>,
}

impl Marks {
    /// The marks of a file with that plan: by the ids of steps, where it says so.
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
        Self { plan: plan_hash(plan), done: of(done), skipped: of(skipped) }
    }

    /// Whether the run went on from the file's plan to another one.
    fn are_left_behind(&self, run: &Run) -> bool {
        let hashes = (1..=run.active).zip(run.versions.iter().map(|version| version.hash));
        let is_file = |(_, hash): &(u32, ContentHash)| *hash == self.plan;
        hashes.filter(is_file).last().is_some_and(|(version, _)| version < run.active)
    }

    /// The step of a mark, as long as the active version has it as the same work.
    fn marked<'a>(&self, run: &'a Run, mark: &Mark) -> Option<(StepNumber, &'a StepState)> {
        let number = run.step_named(&mark.step)?;
        let step = run.step(number).filter(|_| run.step_hash(number) == Some(mark.work))?;
        // What a later version took back is not to be taken from an earlier one's file again.
        (step.last_seq == 0 || !self.are_left_behind(run)).then_some((number, step))
    }

    /// The steps of these marks that were never dealt and are open, with where the file says so.
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

    /// The steps of these marks that were dealt and are not settled.
    fn dealt(&self, state: &State, run: RunId) -> Vec<String> {
        let Some(run) = state.runs.get(&run) else { return Vec::new() };
        let is_dealt = |mark: &&Mark| {
            let step = self.marked(run, mark);
            step.is_some_and(|(_, step)| step.status.is_left() && step.attempts > 0)
        };
        let marks = self.done.iter().chain(&self.skipped);
        marks.filter(is_dealt).map(|mark| mark.step.clone()).collect()
    }
}

impl Taken {
    /// Whether anything changed.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.done > 0 || self.skipped > 0
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let are = |count: usize| match count {
            1 => "1 step is".to_owned(),
            many => format!("{many} steps are"),
        };
        match (self.done, self.skipped) {
            (done, 0) => write!(f, "{} done already", are(done))?,
            (0, skipped) => write!(f, "{} skipped", are(skipped))?,
            (done, skipped) => {
                write!(f, "{} done already and {} skipped", are(done), are(skipped))?;
            }
        }
        f.write_str(", as the file says")
    }
}

/// Take the marks of a file that the run has not taken yet, before anything is dispatched.
///
/// # Errors
/// As [`Ledger::execute`]. What somebody else settled meanwhile is passed over.
pub fn take_marks(ledger: &Ledger, run: RunId, marks: &Marks) -> Result<Taken> {
    let mut taken = Taken::default();
    for (step, reason) in marks.open(&*ledger.state()?, run, &marks.skipped) {
        let by = OPERATOR.to_owned();
        match ledger.execute(&Command::Skip { run, step, by, reason }) {
            // Somebody else was faster, or it was settled by what came before it.
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
    taken.dealt = marks.dealt(&*ledger.state()?, run);
    Ok(taken)
}

/// Take over the next steps that are done; how many.
fn take_over(ledger: &Ledger, run: RunId, marks: &Marks) -> Result<usize> {
    // Made of the state by which it is judged: nobody dispatches one of them in between.
    let command = |state: &State| {
        let mut steps = marks.open(state, run, &marks.done);
        steps.truncate(BATCH);
        Ok(Command::TakeOver { run, steps })
    };
    let is_taken = |(_, event): &&(u64, Event)| match event {
        Event::Step(record) => {
            let basis =
                |accepted: &Accepted| matches!(accepted.basis, AcceptedBasis::DoneBefore { .. });
            matches!(&record.event, StepEvent::Accepted(accepted) if basis(accepted))
        }
        _ => false,
    };
    let wish = Transaction {
        key: None,
        command: CommandSource::<Error>::FromState(&command),
        and_then: None,
    };
    match ledger.transact(&wish, |_, events| events.iter().filter(is_taken).count()) {
        Ok((_, count)) => Ok(count),
        Err(error) if matches!(error.rejection(), Some(Rejection::RunHasEnded(_))) => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a mark closes what its file means, and nothing that the ledger knows more about.

    use super::*;
    use plan_ledger::ledger::Environment;
    use plan_ledger::plan::{RunPolicy, StepStatus};

    fn step(id: &str, goal: &str, after: &[&str]) -> Step {
        let after = after.iter().map(|id| (*id).to_owned()).collect();
        Step { id: id.to_owned(), goal: goal.to_owned(), after, ..Step::default() }
    }

    fn done(ids: &[&str]) -> BTreeMap<String, String> {
        ids.iter().map(|id| ((*id).to_owned(), "tasks.md: [x]".to_owned())).collect()
    }

    /// Story: a planner had a step done anew that the file marks as done, and with it what was built
    /// on it. The file is the earlier plan's: its marks do not close them again. In the file of the
    /// newer plan they do. What was dispatched is never closed by a mark.
    #[test]
    fn marks_do_not_undo_what_a_planner_took_back() {
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
        let marks = Marks::new(&plan, &done(&["a", "b"]), &none);
        assert_eq!(take_marks(&ledger, run, &marks).unwrap().done, 2);
        assert_eq!(take_marks(&ledger, run, &marks).unwrap(), Taken::default(), "once is enough");
        assert!(!open(&["a"]) && !open(&["b"]) && open(&["c"]));

        let mut later = plan.clone();
        later.steps[0].goal = "new".to_owned();
        later.steps.push(step("d", "", &[]));
        ledger.propose(run, &later, "planner:p: another way").unwrap();
        assert!(open(&["a", "b", "c"]));
        let wider = Marks::new(&plan, &done(&["a", "b", "c"]), &none);
        assert_eq!(take_marks(&ledger, run, &wider).unwrap().done, 1, "c was never marked before");
        assert!(open(&["a", "b"]));

        let task =
            ledger.claim(run, ledger.state().unwrap().runs[&run].step_named("d").unwrap(), "w");
        ledger
            .report_lost(task.unwrap().token, plan_ledger::plan::LostCause::Released, "")
            .unwrap();
        let newer = Marks::new(&later, &done(&["a", "b", "d"]), &none);
        let taken = take_marks(&ledger, run, &newer).unwrap();
        assert_eq!((taken.done, taken.dealt), (2, vec!["d".to_owned()]));
        let state = ledger.state().unwrap();
        assert_eq!(state.runs[&run].count(StepStatus::Accepted), 3);
    }
}
