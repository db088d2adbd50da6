//! Why a step is not dispatched, down to the root causes, and the commands that help.

use std::collections::BTreeSet;

use plan_ledger::plan::{BlockReason, Explanation, ExplanationLine, UtcTime, Warning, is_person};
use plan_ledger::{Ending, Run, RunId, RunStatus, StepNumber, StepStatus};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::repeats::{RepeatJson, repeated_text};
use super::waits::{WaitJson, wait_text};
use crate::json::{ReplanRequestJson, StepReasonsJson};
use crate::layout::{Document, Paint, Text};
use crate::next::KnownRun;
use crate::next::{NextAction, NextItem, next_dispatch};
use crate::runner::RepeatingAttempt;
use crate::runner::{RunnerPresence, hosted_steps, waits_of};
use crate::waiting::{WaitingItem, show_step};
use crate::words::{StepName, moment, status_paint, warning_text};

/// Why a step is not dispatched.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct WhyLine<'a> {
    /// Whether the step may be dispatched.
    may_be_dispatched: bool,
    /// Repeated output of the workers of the step, and of the steps that it waits for.
    repeats: Vec<RepeatJson<'a>>,
    /// The time for which the answer is valid.
    time: UtcTime,
    /// The open request for another plan.
    request: Option<ReplanRequestJson>,
    /// The steps among them that wait for no other step.
    roots: BTreeSet<StepNumber>,
    /// The run.
    run: RunId,
    /// Its name.
    run_name: &'a str,
    /// The reasons that block the whole run.
    run_reasons: &'a [BlockReason],
    /// The step in question.
    step: StepNumber,
    /// The step and all steps that it waits for.
    steps: Vec<StepReasonsJson<'a>>,
    /// The wait of the runner before it dispatches the step, if the step is ready.
    waits: Vec<WaitJson>,
}

/// Why a step is not dispatched.
#[derive(Debug)]
pub struct WhyView<'a> {
    known: &'a KnownRun<'a>,
    found: &'a Explanation,
    repeats: Vec<RepeatingAttempt>,
    skipped: Option<(String, String)>,
}

impl<'a> WhyView<'a> {
    /// Why a step is not dispatched. `repeats`: the repeated output of the run's workers; `skipped`: who skipped the
    /// step, and why, if its record can be read.
    #[must_use]
    pub fn of(
        known: &'a KnownRun<'a>,
        found: &'a Explanation,
        mut repeats: Vec<RepeatingAttempt>,
        skipped: Option<(String, String)>,
    ) -> Self {
        repeats.retain(|attempt| found.steps.contains_key(&attempt.step));
        Self { known, found, repeats, skipped }
    }

    /// Its line of JSON.
    #[must_use]
    pub fn line(&self) -> WhyLine<'_> {
        let Self { known, found, repeats, .. } = self;
        let run = known.run;
        let is_ready = run.ready().any(|(_, number)| number == found.step);
        let waits = waits_of(known.runner.waits, run);
        let of_step = waits.filter(|wait| is_ready && wait.holds(run, found.step));
        WhyLine {
            may_be_dispatched: found.may_be_dispatched(),
            repeats: repeats.iter().map(RepeatJson::from).collect(),
            time: found.now.into(),
            request: found.request.as_ref().map(ReplanRequestJson::from),
            roots: found.roots(),
            run: run.id,
            run_name: &run.name,
            run_reasons: &found.run_reasons,
            step: found.step,
            steps: found.steps.iter().map(StepReasonsJson::of).collect(),
            waits: of_step.map(|wait| WaitJson::of(wait, run)).collect(),
        }
    }

    /// Its document, without the heading.
    #[must_use]
    pub fn document(&self) -> Document {
        let Self { known, found, repeats, .. } = self;
        let run = known.run;
        let mut document = Document::default();
        for line in explanation_lines(self.found) {
            document.indented(2 * (line.depth + 1), painted(line));
        }
        if let Some(text) = self.verdict() {
            document.indented(2, text);
        }
        let warnings = run.warnings(known.state.time, known.now);
        let is_own = |warning: &&Warning| matches!(warning, Warning::SlowStep { step, .. } if *step == found.step);
        let slow = warnings.iter().find(is_own).map(|warning| warning_text(run, warning));
        for text in slow.into_iter().chain(repeats.iter().map(|it| repeated_text(run, it))) {
            document.indented(2, (Paint::Notice, format!("warning: {text}")));
        }
        let resume = self.resume();
        if let Some(action) = &resume {
            document.indented(2, (Paint::Bad, action.text.as_str()));
        }
        let commands = self.commands(resume);
        if !commands.is_empty() {
            document.painted(Paint::Faint, "to continue, type:");
        }
        for command in commands {
            document.command(2, command);
        }
        document
    }

    /// The same in lines, for the view of the step: each with its indentation.
    #[must_use]
    pub fn lines_of_step(&self) -> Vec<(usize, String)> {
        let Self { known, found, repeats, .. } = self;
        let (run, step) = (known.run, found.step);
        let own = explanation_lines(self.found).into_iter().filter(|line| line.depth > 0);
        let mut lines: Vec<_> = own.map(|line| (2 * (line.depth - 1), line.text)).collect();
        let is_open = run.step(step).is_some_and(|step| step.status.is_open());
        let repeats = repeats.iter().filter(|attempt| attempt.step == step);
        let resume = self.resume();
        let mut texts: Vec<String> = self.verdict().filter(|_| is_open).into_iter().collect();
        texts.extend(repeats.map(|attempt| repeated_text(run, attempt)));
        texts.extend(resume.iter().map(|action| action.text.clone()));
        // The view of the step shows it.
        let own = show_step(&StepName::of(run, step), &run.name, known.ledger).to_string();
        let commands = self.commands(resume).into_iter().filter(|command| *command != own);
        texts.extend(commands.map(|command| format!("type: {command}")));
        lines.extend(texts.into_iter().map(|text| (0, text)));
        lines
    }

    /// The result for a step that is not blocked, or that is closed.
    fn verdict(&self) -> Option<String> {
        let Self { known, found, .. } = self;
        let KnownRun { state, run, now, ref runner, .. } = **known;
        match found.steps.get(&found.step)?.status {
            StepStatus::Accepted => Some("it is accepted".to_owned()),
            StepStatus::Skipped => Some(match &self.skipped {
                Some((by, reason)) if reason.is_empty() => format!("it was skipped by {by}"),
                Some((_, reason)) if reason.starts_with("its condition") => {
                    format!("it was skipped: {reason}")
                }
                Some((by, reason)) => format!("it was skipped by {by}: {reason}"),
                None => "it was skipped".to_owned(),
            }),
            StepStatus::Ready => {
                let is_own = |(_, each): (_, StepNumber)| each == found.step;
                let place = run.ready().position(is_own).map_or(0, |place| place + 1);
                let queue = format!("place {place} of {} in the queue", run.ready_count());
                let wait = waits_of(runner.waits, run).find(|wait| wait.holds(run, found.step));
                let held = BTreeSet::new();
                Some(match (next_dispatch(state, run, Some(found.step), found.now, held), wait) {
                    (Ok(_), Some(wait)) => format!("{}; {queue}", wait_text(wait, run, now)),
                    (Ok(_), None) => format!("it can be dispatched: {queue}"),
                    (Err(_), _) => queue,
                })
            }
            _ => None,
        }
    }

    /// Starts the runner again, if it is gone and a step of the explanation was in flight.
    fn resume(&self) -> Option<NextAction> {
        let Self { known, found, .. } = self;
        let is_concerned = |(number, _): &(StepNumber, _)| found.steps.contains_key(number);
        let steps = hosted_steps(known.state, known.run).filter(is_concerned).count();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        let unseen = match known.runner.presence {
            RunnerPresence::Unseen(process) => Some(process),
            _ => None,
        };
        let is_abandoned = known.runner.absence().is_some() && steps > 0;
        is_abandoned.then(|| known.action(NextItem::Abandoned { steps, unseen }))
    }

    /// The commands that unblock the step, without duplicates.
    fn commands(&self, resume: Option<NextAction>) -> Vec<String> {
        let Self { known, found, .. } = self;
        let run = known.run;
        let mut commands = resume.map(|action| action.commands).unwrap_or_default();
        // What holds the run names its own commands.
        let is_free = run.pause.is_none()
            && run.replan_hold().is_none_or(|hold| !hold.holds(found.step))
            && run.why_stopping().is_none();
        let ready = run.step(found.step).filter(|it| it.status == StepStatus::Ready && is_free);
        if let Some(owner) = ready.and_then(|step| step.owner()).filter(|owner| is_person(owner)) {
            let (step, owner) = (StepName::of(run, found.step), owner.to_owned());
            let person = NextItem::Waiting(WaitingItem::Person { step, owner });
            commands.extend(known.action(person).commands);
        }
        let mut seen = BTreeSet::new();
        let of_steps = found.steps.iter().rev().flat_map(|(number, entry)| {
            entry.reasons.iter().map(move |reason| (Some(*number), reason))
        });
        let of_run = found.run_reasons.iter().map(|reason| (None, reason));
        for (number, reason) in of_steps.chain(of_run) {
            let of_reason = items_of(run, number, reason, known.waiting.as_deref());
            let of_reason = of_reason.into_iter().flat_map(|item| known.action(item).commands);
            commands.extend(of_reason.filter(|command| seen.insert(command.clone())));
        }
        commands
    }
}

/// Why a step is not dispatched, down to the root causes, without the line of the step itself.
#[must_use]
pub fn explanation_document(found: &Explanation) -> Document {
    let mut document = Document::default();
    for line in explanation_lines(found).into_iter().filter(|line| line.depth > 0) {
        document.indented(2 * (line.depth - 1), painted(line));
    }
    document
}

fn painted(line: ExplanationLine) -> Text {
    let paint = line.step.map_or(Paint::None, |(_, status)| status_paint(status));
    Text::painted(paint, line.text)
}

/// The lines of an explanation, with readable times.
fn explanation_lines(found: &Explanation) -> Vec<ExplanationLine> {
    let now = found.now;
    found.lines(&|at| match at.checked_sub(now) {
        None | Some(0) => format!("overdue since {}", moment(at, now)),
        Some(_) => format!("until {}", moment(at, now)),
    })
}

/// The items whose commands remove a reason.
fn items_of(
    run: &Run,
    number: Option<StepNumber>,
    reason: &BlockReason,
    waiting: Option<&[WaitingItem]>,
) -> Vec<NextItem> {
    let those = |is_meant: &dyn Fn(&WaitingItem) -> bool| -> Vec<NextItem> {
        let items = waiting.unwrap_or_default().iter();
        items.filter(|item| is_meant(item)).cloned().map(NextItem::Waiting).collect()
    };
    match (reason, number) {
        (BlockReason::Question { question, .. }, _) => {
            those(&|item| matches!(item, WaitingItem::Question { id, .. } if id == question))
        }
        (BlockReason::Reported { .. } | BlockReason::OutcomeUnknown { .. }, Some(number)) => {
            those(&|item| {
                let is_result = matches!(
                    item,
                    WaitingItem::Decision { .. }
                        | WaitingItem::Verdicts { .. }
                        | WaitingItem::Checks { .. }
                        | WaitingItem::OutcomeUnknown { .. }
                );
                is_result && item.step().is_some_and(|step| step.number == number)
            })
        }
        (BlockReason::Failed { .. }, Some(number)) => {
            let is_over = matches!(run.status, RunStatus::Ended(it) if it != Ending::Failed);
            vec![NextItem::Failed { step: StepName::of(run, number), is_over }]
        }
        (BlockReason::Replan { .. }, _) => {
            those(&|item| matches!(item, WaitingItem::Replan { .. }))
        }
        (BlockReason::Paused { .. }, _) => {
            those(&|item| matches!(item, WaitingItem::Paused { .. }) || item.is_about_budget())
        }
        (BlockReason::NoActivePlan { .. }, _) => {
            those(&|item| matches!(item, WaitingItem::Review { .. }))
        }
        _ => Vec::new(),
    }
}
