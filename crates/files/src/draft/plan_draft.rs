//! The plan under construction, and the check of the finished plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::dependencies::Dependencies;
use super::source::{Source, StepSource};
use super::task_status::TaskStatus;
use crate::commands::{Programs, StatedFacts, apply_facts};
use crate::diagnostic::{Diagnostic, ReadError, Severity};
use crate::plan_file::{PlanFile, PlanFormat, StatedCommand};
use crate::read_report::{Correction, CorrectionKind, PartKind, UnreadPart};
use plan_ledger::plan::{self, Fallback, Plan, Problem, Step};

/// A plan under construction.
#[derive(Debug)]
pub(crate) struct PlanDraft {
    pub(crate) plan_file: PlanFile,
    pub(crate) source: Source,
    /// Problems and warnings of the reader, before the plan itself is checked.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// The statements of the file about commands and files.
    pub(crate) facts: StatedFacts,
    /// Dependencies of each step that the file does not write.
    inferred: Vec<Vec<String>>,
}

impl PlanDraft {
    /// An empty draft for a file of another tool.
    pub(crate) fn new(format: PlanFormat) -> Self {
        let plan_file = PlanFile::new(Plan::default(), format);
        Self::complete(plan_file, Source::of_steps(Vec::new()))
    }

    /// A draft of a plan that has been read completely.
    pub(crate) fn complete(plan_file: PlanFile, source: Source) -> Self {
        Self {
            plan_file,
            source,
            diagnostics: Vec::new(),
            facts: StatedFacts::default(),
            inferred: Vec::new(),
        }
    }

    /// Adds a step. Its `after` has the written dependencies; the inferred ones are separate.
    pub(crate) fn add_step(&mut self, step: Step, source: StepSource, inferred: Vec<String>) {
        self.plan_file.plan.steps.push(step);
        self.inferred.push(inferred);
        self.source.add_step(source);
    }

    /// Reports parts of the file that are not steps.
    pub(crate) fn add_unread(
        &mut self,
        kind: PartKind,
        count: usize,
        section: &str,
        line: Option<u64>,
    ) {
        let section = section.to_owned();
        self.plan_file.report.unread.push(UnreadPart { kind, count, section, line });
    }

    /// Reports fields that are kept as data of the tool.
    pub(crate) fn add_kept(&mut self, fields: &serde_json::Map<String, serde_json::Value>) {
        for (name, _) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let count = self.plan_file.report.kept.entry(name.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Reports an id or a dependency that differs from the file.
    pub(crate) fn add_correction(
        &mut self,
        kind: CorrectionKind,
        step: &str,
        name: &str,
        line: Option<u64>,
    ) {
        let (step, name) = (step.to_owned(), name.to_owned());
        self.plan_file.report.corrections.push(Correction { kind, step, name, line });
    }

    /// Drops the dependencies that the caller names: pairs of a step and its dependency.
    pub(crate) fn drop_dependencies(&mut self, dropped: &[(String, String)]) {
        for (id, name) in dropped {
            let mut steps = self.plan_file.plan.steps.iter_mut().enumerate();
            let found = steps.find(|(_, step)| step.id == *id && step.after.contains(name));
            if let Some((_, step)) = found {
                step.after.retain(|each| each != name);
                self.add_correction(CorrectionKind::RequestedDrop, id, name, None);
            } else {
                let message = format!(
                    "there is no written dependency of `{}` on `{}` to drop; write STEP:DEPENDENCY",
                    id.escape_debug(),
                    name.escape_debug()
                );
                self.add_problem(None, message);
            }
        }
    }

    /// Reads the criteria of another tool as commands if these programs can start them. In a native
    /// plan the form of a criterion states its kind.
    pub(crate) fn read_commands(&mut self, programs: Option<&Programs>) {
        if let Some(programs) = programs.filter(|_| !self.plan_file.format.is_native()) {
            apply_facts(&mut self.plan_file, &self.facts, programs);
        }
    }

    /// Settles the dependencies of a file of another tool.
    fn settle_dependencies(&mut self) {
        if self.source.is_of_plan() {
            return;
        }
        let source = &self.source;
        let line = |step: usize| source.line_of_step(step);
        let PlanFile { plan, done, skipped, .. } = &mut self.plan_file;
        let is_finished = |id: &str| done.contains_key(id) || skipped.contains_key(id);
        let dependencies = Dependencies {
            steps: &mut plan.steps,
            barriers: &plan.barriers,
            inferred: &self.inferred,
            is_finished: &is_finished,
            line: &line,
        };
        let corrections = dependencies.settle();
        // A barrier of the order without a waiting step has no effect.
        let used: BTreeSet<&String> = plan.steps.iter().flat_map(|step| &step.after).collect();
        plan.barriers.retain(|barrier| used.contains(&barrier.id));
        self.plan_file.report.corrections.extend(corrections);
    }

    /// Reports fallbacks in words, and those that nothing can take.
    fn settle_fallbacks(&mut self) {
        if self.source.is_of_plan() {
            return;
        }
        let steps = &mut self.plan_file.plan.steps;
        let ids: BTreeSet<String> = steps.iter().map(|step| step.id.clone()).collect();
        let notes = &mut self.plan_file.notes;
        let mut note = |step: &Step, message: &str| {
            let message = format!("step `{}`: {message}", step.id.escape_debug());
            notes.push(Diagnostic::at_line(Severity::Note, None, message));
        };
        for step in steps {
            let words = step.goal.lines().any(|line| line.starts_with("Fallback: "));
            match step.fallback.as_deref() {
                // A name of a step was read as one of a variable.
                Some(Fallback::Variable { name, .. }) if ids.contains(name) => {
                    if !words {
                        let gap = if step.goal.is_empty() { "" } else { "\n\n" };
                        let _ = write!(step.goal, "{gap}Fallback: {name}");
                    }
                    step.fallback = None;
                    note(step, "the fallback is text: a step is named as `fallback: {step: ID}`");
                }
                Some(Fallback::Variable { max_age_seconds: None, .. }) if words => {
                    note(
                        step,
                        "the fallback takes the variable whatever its age: words after it are text",
                    );
                }
                None if words => {
                    note(
                        step,
                        "the fallback names no variable, so it is text: `fallback: {variable: {name: NAME}}`",
                    );
                }
                _ => {}
            }
        }
    }

    /// Records the status word of a step. `source` names the file and the mark.
    pub(crate) fn set_status(&mut self, id: &str, word: &str, source: String) {
        match TaskStatus::parse(word) {
            TaskStatus::Done => self.plan_file.done.insert(id.to_owned(), source),
            TaskStatus::Dropped => self.plan_file.skipped.insert(id.to_owned(), source),
            TaskStatus::Open => None,
        };
        self.plan_file.statuses.insert(id.to_owned(), word.to_owned());
    }

    /// Marks an open part of a task that is done as done. `source` is the mark of the task around it.
    pub(crate) fn close_part(&mut self, id: &str, around: &str, source: String, line: Option<u64>) {
        let PlanFile { done, skipped, .. } = &mut self.plan_file;
        if !done.contains_key(id) && !skipped.contains_key(id) {
            done.insert(id.to_owned(), source);
            self.add_correction(CorrectionKind::ClosedPart, id, around, line);
        }
    }

    /// Reports commands that a file of another tool states in the native form.
    pub(crate) fn state_commands(&mut self, commands: impl Iterator<Item = StatedCommand>) {
        self.plan_file.commands.extend(commands);
    }

    pub(crate) fn add_note(&mut self, line: Option<u64>, message: impl Into<String>) {
        self.plan_file.notes.push(Diagnostic::at_line(Severity::Note, line, message));
    }

    pub(crate) fn add_warning(&mut self, line: Option<u64>, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::at_line(Severity::Warning, line, message));
    }

    pub(crate) fn add_problem(&mut self, line: Option<u64>, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::at_line(Severity::Problem, line, message));
    }

    /// Checks the plan. Returns it, or every problem with its line.
    pub(crate) fn validate(mut self) -> Result<ValidPlan, ReadError> {
        self.settle_dependencies();
        self.settle_fallbacks();
        let plan = &self.plan_file.plan;
        let source = &self.source;
        let own = source.locate(self.diagnostics);
        let is_problem = |diagnostic: &Diagnostic| diagnostic.severity == Severity::Problem;
        let (mut problems, warnings): (Vec<_>, Vec<_>) = own.into_iter().partition(is_problem);
        // If no task could be read, the reader has reported why; "no steps" would only repeat it.
        if problems.is_empty() || !plan.steps.is_empty() {
            let found = plan::validate(plan).into_iter().map(with_way_out).collect();
            problems.extend(source.diagnostics(plan, found, Severity::Problem));
        }
        problems.extend(unknown_marks(&self.plan_file));
        if !problems.is_empty() {
            // Everything is reported in one pass.
            problems.extend(warnings);
            problems.extend(source.diagnostics(plan, lint_of(&self.plan_file), Severity::Warning));
            return Err(ReadError::Invalid(problems));
        }
        let dropped = dropped_dependencies(&self.plan_file);
        let notes = source.diagnostics(plan, dropped, Severity::Note);
        self.plan_file.notes.extend(warnings);
        self.plan_file.notes.extend(notes);
        Ok(ValidPlan { plan_file: self.plan_file, source: self.source })
    }
}

/// A problem with the option that solves it.
fn with_way_out(problem: Problem) -> Problem {
    let Problem { place, mut message } = problem;
    if message.starts_with("a cycle") && !message.contains("fallback") {
        message.push_str(", or drop one with --drop-dependency STEP:OTHER");
    }
    Problem { place, message }
}

/// Marks of steps that the plan does not have.
fn unknown_marks(plan_file: &PlanFile) -> Vec<Diagnostic> {
    let PlanFile { plan, done, skipped, statuses, .. } = plan_file;
    let ids: BTreeSet<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    let lists = [("done", done), ("skipped", skipped), ("statuses", statuses)];
    let names = lists.iter().flat_map(|(list, marks)| marks.keys().map(move |id| (list, id)));
    let unknown = names.filter(|(_, id)| !ids.contains(id.as_str()));
    unknown
        .map(|(list, id)| {
            let message = format!("there is no step `{}`; remove the mark", id.escape_debug());
            Diagnostic::at_path(Severity::Problem, format!("marks.{list}"), message)
        })
        .collect()
}

/// Dependencies on steps that the file marks as dropped.
fn dropped_dependencies(plan_file: &PlanFile) -> Vec<Problem> {
    if plan_file.skipped.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, step) in plan_file.plan.steps.iter().enumerate() {
        for (position, name) in step.after.iter().enumerate() {
            if let Some(source) = plan_file.skipped.get(name) {
                let id = step.id.escape_debug();
                let place = format!("steps[{index}] ({id}).after[{position}]");
                let message = format!(
                    "`{}` is marked as dropped ({source}): it is skipped, and this step does not \
                     wait for it",
                    name.escape_debug()
                );
                found.push(Problem { place, message });
            }
        }
    }
    found
}

/// A valid plan, and the places of its parts.
#[derive(Debug)]
pub(crate) struct ValidPlan {
    pub(crate) plan_file: PlanFile,
    pub(crate) source: Source,
}

impl ValidPlan {
    /// The warnings of the plan's lint rules.
    pub(crate) fn warnings(&self) -> Vec<Diagnostic> {
        let found = lint_of(&self.plan_file);
        self.source.diagnostics(&self.plan_file.plan, found, Severity::Warning)
    }
}

/// The warnings of the plan's lint rules. The files of other tools cannot state that a plan continues, so their length
/// is not a mistake.
fn lint_of(plan_file: &PlanFile) -> Vec<Problem> {
    let mut found = plan::lint(&plan_file.plan);
    found.retain(|problem| plan_file.format.is_native() || problem.place != "steps");
    found
}

/// The `extra` of a plan or step: fields of a tool that have no counterpart in a plan.
pub(crate) fn tool_extra(
    tool: &str,
    fields: serde_json::Map<String, serde_json::Value>,
) -> plan::Extra {
    if fields.is_empty() {
        return plan::Extra::new();
    }
    BTreeMap::from([(tool.to_owned(), serde_json::Value::Object(fields))])
}
