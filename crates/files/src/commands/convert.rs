//! Turns criteria that read as commands into command criteria, and reports files that should exist.
//!
//! Invariant: two plans that differ only in this step are equal after [`as_written_commands`], so a program that was
//! installed in the meantime, or a file that a step wrote, does not change the plan.

use std::collections::BTreeSet;

use super::programs::Programs;
use super::text::{first_word, is_certain, listed_command, stated_command};
use crate::diagnostic::{Diagnostic, Severity};
use crate::plan_file::{PlanFile, StatedCommand};
use plan_ledger::plan::{Criterion, Plan};

/// The statements of a file about commands and files.
#[derive(Debug, Default)]
pub(crate) struct StatedFacts {
    /// Texts of criteria from lists that tools write for a program.
    pub(crate) listed: BTreeSet<String>,
    /// Files that a step modifies: the id of the step, and the path.
    pub(crate) modified: Vec<(String, String)>,
    /// Files that steps create.
    pub(crate) created: BTreeSet<String>,
}

/// Reads the criteria of a plan that this machine can execute as commands, and looks for the files
/// to modify.
pub(crate) fn apply_facts(plan_file: &mut PlanFile, facts: &StatedFacts, programs: &Programs) {
    let mut found = Found { facts, programs, commands: Vec::new(), warnings: Vec::new() };
    for (index, step) in plan_file.plan.steps.iter_mut().enumerate() {
        let place = format!("steps[{index}] ({}).acceptance", step.id.escape_debug());
        found.convert(&mut step.acceptance, Some(&step.id), &place);
    }
    found.convert(&mut plan_file.plan.test_criteria, None, "test_criteria");
    let Found { commands, mut warnings, .. } = found;
    let is_missing = |(step, path): &&(String, String)| {
        let is_left = !plan_file.done.contains_key(step) && !plan_file.skipped.contains_key(step);
        is_left && !path.contains('*') && !facts.created.contains(path) && !programs.has_file(path)
    };
    plan_file.missing_files = facts.modified.iter().filter(is_missing).cloned().collect();
    for (id, path) in &plan_file.missing_files {
        let message = format!(
            "step `{}` modifies `{}`, which does not exist and which no step creates",
            id.escape_debug(),
            path.escape_debug()
        );
        warnings.push(Diagnostic::at_line(Severity::Warning, None, message));
    }
    plan_file.commands.extend(commands);
    plan_file.notes.extend(warnings);
}

struct Found<'a> {
    facts: &'a StatedFacts,
    programs: &'a Programs,
    commands: Vec<StatedCommand>,
    warnings: Vec<Diagnostic>,
}

impl Found<'_> {
    fn convert(&mut self, criteria: &mut [Criterion], step: Option<&String>, place: &str) {
        for (index, criterion) in criteria.iter_mut().enumerate() {
            let Criterion::Text(text) = criterion else { continue };
            let command = if self.facts.listed.contains(text) {
                listed_command(text)
            } else {
                stated_command(text)
            };
            let Some(command) = command.map(str::to_owned) else { continue };
            let can_start = self.programs.can_start(&command);
            let is_command = can_start || is_certain(text, &command);
            if !can_start && (is_command || text.starts_with('`')) {
                let word = first_word(&command).unwrap_or_default().escape_debug().to_string();
                let effect = if is_command {
                    "the check fails (exit code 127) until it is one"
                } else {
                    "it reads as a command, but is not executed, and stays text"
                };
                let message =
                    format!("`{word}` is neither a program on the path nor a file: {effect}");
                let place = format!("{place}[{index}]");
                self.warnings.push(Diagnostic::at_path(Severity::Warning, place, message));
            }
            if is_command {
                let step = step.cloned();
                self.commands.push(StatedCommand { step, command: command.clone() });
                *criterion = Criterion::Command(command);
            }
        }
    }
}

/// A plan with one form for commands and for texts that read as commands, so that it does not matter for
/// a comparison whether the criteria were read as commands.
#[must_use]
pub fn as_written_commands(mut plan: Plan) -> Plan {
    let steps = plan.steps.iter_mut().flat_map(|step| &mut step.acceptance);
    for criterion in steps.chain(&mut plan.test_criteria) {
        let command = match criterion {
            Criterion::Text(text) => listed_command(text).unwrap_or(text).to_owned(),
            Criterion::Command(command) => command.clone(),
            Criterion::Cel(_) => continue,
        };
        *criterion = Criterion::Text(command);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file::PlanFormat;
    use plan_ledger::plan::Step;

    fn programs() -> Programs {
        Programs { folders: vec!["/bin".into(), "/usr/bin".into()], tree: "/".into() }
    }

    fn plan_file(criteria: &[&str]) -> PlanFile {
        let acceptance = criteria.iter().map(|text| Criterion::Text((*text).to_owned())).collect();
        let step = Step { id: "a".into(), acceptance, ..Step::default() };
        PlanFile::new(Plan { steps: vec![step], ..Plan::default() }, PlanFormat::Records)
    }

    #[test]
    fn commands_that_the_machine_can_start_are_read_as_commands() {
        let mut file = plan_file(&[
            "`sh -c true` exits 0",
            "`no-such-tool` passes",
            "sh x",
            "fine",
            "`no-such-tool x` passes",
        ]);
        let before = file.plan.clone();
        let facts = StatedFacts { listed: ["sh x".to_owned()].into(), ..StatedFacts::default() };
        apply_facts(&mut file, &facts, &programs());
        let criteria = &file.plan.steps[0].acceptance;
        assert_eq!(criteria[0], Criterion::Command("sh -c true".into()));
        assert_eq!(criteria[1], Criterion::Text("`no-such-tool` passes".into()));
        assert_eq!(criteria[2], Criterion::Command("sh x".into()));
        assert_eq!(criteria[3], Criterion::Text("fine".into()));
        // It fails where it cannot start; the worker's word does not replace it.
        assert_eq!(criteria[4], Criterion::Command("no-such-tool x".into()));
        assert_eq!(file.commands.len(), 3);
        assert_eq!(file.notes.len(), 2);
        assert_eq!(as_written_commands(file.plan), as_written_commands(before));
    }

    #[test]
    fn missing_files_are_reported_unless_a_step_creates_them() {
        let mut file = plan_file(&[]);
        let modified = ["no/such/file", "bin", "new.ts", "src/*.ts"];
        let facts = StatedFacts {
            modified: modified.map(|path| ("a".to_owned(), path.to_owned())).into(),
            created: ["new.ts".to_owned()].into(),
            ..StatedFacts::default()
        };
        apply_facts(&mut file, &facts, &programs());
        assert_eq!(file.missing_files, [("a".to_owned(), "no/such/file".to_owned())]);
    }
}
