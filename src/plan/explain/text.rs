//! An explanation as text: one line per reason, indented by its distance from the step.

use std::collections::BTreeSet;
use std::fmt;

use super::explanation::{Explanation, StepReasons};
use super::reason::{BlockReason, BlockingAttempt, BlockingBarrier, BudgetShortage};
use crate::plan::event::question::QuestionSubject;
use crate::plan::event::run_event::CapScope;
use crate::plan::event::step_event::Ruling;
use crate::plan::event::step_status::StepStatus;
use crate::plan::state::barrier_state::BarrierStatus;
use crate::plan::value::ids::{StepNumber, Timestamp};

/// The largest distance from the step that is shown.
const DEPTH_MAX: usize = 12;

/// The largest number of lines.
const LINES_MAX: usize = 200;

/// The largest number of names in a line.
const NAMES_MAX: usize = 8;

/// A line of an explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplanationLine {
    /// Its distance from the step to explain.
    pub depth: usize,
    /// The step of a heading; `None` for a reason.
    pub step: Option<(StepNumber, StepStatus)>,
    /// Its text.
    pub text: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = |at: Timestamp| match at.checked_sub(self.now) {
            None | Some(0) => "overdue".to_owned(),
            Some(left) => format!("{} s left", left.div_ceil(1_000_000)),
        };
        let lines = self.lines(&until);
        let lines = lines.iter().map(|line| format!("{}{}", "  ".repeat(line.depth), line.text));
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

impl Explanation {
    /// The explanation, line by line. `until` formats a point in time. Lines beyond the limits are
    /// counted in the last line.
    #[must_use]
    pub fn lines(&self, until: &dyn Fn(Timestamp) -> String) -> Vec<ExplanationLine> {
        let format = LineFormatter { explanation: self, until };
        let mut lines =
            LineBuilder { format, shown: BTreeSet::new(), lines: Vec::new(), omitted: 0 };
        lines.step(self.step, 0);
        for reason in &self.run_reasons {
            lines.reason(1, reason);
        }
        let is_named = |reason: &BlockReason| matches!(reason, BlockReason::Replan { .. });
        if let Some(request) = &self.request
            && !self.run_reasons.iter().any(is_named)
        {
            let (seq, reason) = (request.seq, &request.reason);
            lines.line(1, format!("record {seq} requested a replan: {reason}"));
        }
        let LineBuilder { mut lines, omitted, .. } = lines;
        if omitted > 0 {
            let text = format!("... and {omitted} more lines");
            lines.push(ExplanationLine { depth: 0, step: None, text });
        }
        lines
    }
}

/// Formats the parts of a line of an explanation.
struct LineFormatter<'a> {
    explanation: &'a Explanation,
    until: &'a dyn Fn(Timestamp) -> String,
}

struct LineBuilder<'a> {
    format: LineFormatter<'a>,
    shown: BTreeSet<StepNumber>,
    lines: Vec<ExplanationLine>,
    omitted: usize,
}

impl LineBuilder<'_> {
    fn line(&mut self, depth: usize, text: String) {
        self.push(ExplanationLine { depth, step: None, text });
    }

    fn reason(&mut self, depth: usize, reason: &BlockReason) {
        let text = reason.line(&self.format);
        self.line(depth, text);
    }

    fn push(&mut self, line: ExplanationLine) {
        if line.depth > DEPTH_MAX || self.lines.len() >= LINES_MAX {
            self.omitted = self.omitted.saturating_add(1);
        } else {
            self.lines.push(line);
        }
    }

    fn step(&mut self, number: StepNumber, depth: usize) {
        let Some(entry) = self.format.explanation.steps.get(&number) else { return };
        let StepReasons { id, status, reasons } = entry;
        let step = Some((number, *status));
        if !self.shown.insert(number) {
            let text = format!("step {number} ({id}) is {status}, see above");
            return self.push(ExplanationLine { depth, step, text });
        }
        self.push(ExplanationLine {
            depth,
            step,
            text: format!("step {number} ({id}) is {status}"),
        });
        if depth > DEPTH_MAX || self.lines.len() >= LINES_MAX {
            return;
        }
        for reason in reasons {
            let next = reason.leads_to();
            // The heading of the other step is the line for this reason.
            if !matches!(reason, BlockReason::Step { .. }) {
                self.reason(depth + 1, reason);
            }
            let below = depth + if matches!(reason, BlockReason::Step { .. }) { 1 } else { 2 };
            for number in next {
                self.step(number, below);
            }
        }
    }
}

impl BlockReason {
    fn line(&self, format: &LineFormatter<'_>) -> String {
        match self {
            Self::RunEnded { ending } => format!("the run has ended: {ending:?}").to_lowercase(),
            Self::NoActivePlan { proposed } => {
                let versions: Vec<String> =
                    proposed.iter().map(|each| each.version.to_string()).collect();
                format!("no plan is active; versions waiting for review: {}", versions.join(", "))
            }
            Self::Paused { cause } => format!("the run is {cause}"),
            Self::Stopping { why } => format!("nothing more is dispatched: {why}"),
            Self::Removed => "the active plan has no such step".to_owned(),
            Self::Step { step, id, status } => format!("step {step} ({id}) is {status}"),
            Self::Barrier { barrier } => barrier.line(format),
            Self::Unknown { name } => format!("`{name}` is neither a step nor a barrier"),
            Self::Condition { expression, ruling } => {
                format!("its condition `{expression}` {}", ruling_text(*ruling))
            }
            Self::Precondition { index, expression, ruling, variables, writers } => {
                let who = match writers.len() {
                    0 => "and no remaining step sets it".to_owned(),
                    _ => format!("which may be set by {}", format.names(writers)),
                };
                let (number, ruled) = (one_based(*index), ruling_text(*ruling));
                let names = name_list(&variables.iter().cloned().collect::<Vec<_>>());
                format!("precondition {number} `{expression}` {ruled}: it reads {names}, {who}")
            }
            Self::Question { question, subject, text, to, deadline, options } => {
                let to = to.as_deref().unwrap_or("a person");
                let mut about = String::new();
                if let QuestionSubject::Failure { token } = subject {
                    about = format!(" about attempt @{token}");
                }
                let until = deadline.map_or(String::new(), |at| format!(", {}", format.until(at)));
                let (id, options) = (question.0, options.join("|"));
                format!("{to} was asked{about} (question {id}: {text}; {options}){until}")
            }
            Self::Replan { request, from, reason } => {
                let from = from.map(|from| format!(" from step {from} on")).unwrap_or_default();
                format!("record {request} requested a new plan{from}: {reason}")
            }
            Self::Gate => "its gate is closed".to_owned(),
            Self::Delay { until, after } => {
                format!("it failed and is delayed, {}, after: {after}", format.until(*until))
            }
            Self::Fallback { step } => format!("it failed and waits for its fallback, step {step}"),
            Self::FallbackFor { steps } => {
                let steps: BTreeSet<StepNumber> = steps.iter().copied().collect();
                format!("fallback for {}; runs only if that fails", format.names(&steps))
            }
            Self::Cap { scope, within, limit, attempts } => {
                // It explains a step of that run.
                let place = match (scope, within) {
                    (CapScope::Run { .. }, _) => "the run".to_owned(),
                    (CapScope::Ledger, _) | (_, None) => scope.to_string(),
                    (_, Some(_)) => format!("{scope} in the run"),
                };
                let list: Vec<String> = attempts.iter().map(|each| each.line(format)).collect();
                format!("the cap of {limit} for {place} is reached: {}", name_list(&list))
            }
            Self::Budget { shortage } => shortage.line(),
            Self::Dispatched { attempt } => attempt.line(format),
            Self::Reported { token, undecided: Some((_, message)), .. } => {
                format!("attempt @{token} waits for a decision about its failure: {message}")
            }
            Self::Reported { token, unjudged, undecided: None } => {
                let places: Vec<String> = unjudged.iter().copied().map(one_based).collect();
                match places.as_slice() {
                    [] => format!("attempt @{token} has all its verdicts"),
                    [place] => format!("attempt @{token} waits for a verdict on criterion {place}"),
                    _ => format!(
                        "attempt @{token} waits for verdicts on criteria {}",
                        name_list(&places)
                    ),
                }
            }
            Self::OutcomeUnknown { attempt } => {
                let (token, worker) = (attempt.token, &attempt.worker);
                format!(
                    "attempt @{token} of {worker} has an unknown outcome: a person must find out whether it landed"
                )
            }
            Self::Failed { failure: None } => "it failed permanently".to_owned(),
            Self::Failed { failure: Some((_, message)) } => {
                format!("it failed permanently: {message}")
            }
            Self::Cancelled => "the run ended before it was done".to_owned(),
        }
    }
}

/// The 1-based position of a 0-based index.
fn one_based(place: u32) -> String {
    (u64::from(place) + 1).to_string()
}

fn ruling_text(ruling: Option<Ruling>) -> &'static str {
    match ruling {
        None => "is not judged yet",
        Some(Ruling::Pass) => "holds",
        Some(Ruling::Fail) => "does not hold",
    }
}

/// The first names, and the number of the others.
fn name_list(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
    match names.len().checked_sub(NAMES_MAX) {
        None | Some(0) if shown.is_empty() => "none".to_owned(),
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}

impl LineFormatter<'_> {
    fn names(&self, steps: &BTreeSet<StepNumber>) -> String {
        let name = |number: &StepNumber| match self.explanation.steps.get(number) {
            Some(entry) => format!("step {number} ({})", entry.id),
            None => format!("step {number}"),
        };
        name_list(&steps.iter().map(name).collect::<Vec<_>>())
    }

    fn until(&self, at: Timestamp) -> String {
        (self.until)(at)
    }
}

impl BlockingBarrier {
    fn line(&self, format: &LineFormatter<'_>) -> String {
        let Self { id, needed, arrived, missing, failed, .. } = self;
        let verb = match self.status {
            BarrierStatus::Broken if self.is_late => "was not released in time",
            BarrierStatus::Broken => "is broken",
            BarrierStatus::Closed | BarrierStatus::Released => "is not released",
        };
        let mut line = format!("barrier {id} {verb}: {} of {needed} arrived", arrived.len());
        if !missing.is_empty() {
            line = format!("{line}, missing {}", format.names(missing));
        }
        if !failed.is_empty() {
            line = format!("{line}, failed {}", format.names(failed));
        }
        if let Some(deadline) = self.deadline {
            line = format!("{line}, {}", format.until(deadline));
        }
        match self.question {
            Some(question) => format!("{line}; question {} is open about it", question.0),
            None => line,
        }
    }
}

impl BlockingAttempt {
    fn line(&self, format: &LineFormatter<'_>) -> String {
        let Self { run, step, id, worker, second_owner, lease_until, .. } = self;
        let owner = second_owner.as_ref().map(|owner| format!(" of {owner}")).unwrap_or_default();
        let until = format.until(*lease_until);
        let place =
            if *run == format.explanation.run { String::new() } else { format!(" of run {run}") };
        format!("{worker}{owner} holds the lease of step {step} ({id}){place}, {until}")
    }
}

impl BudgetShortage {
    fn line(&self) -> String {
        let Self { part, spent, reserved, needed, limit, .. } = self;
        let whose = self.run.map_or("the ledger's".to_owned(), |run| format!("run {run}'s"));
        format!(
            "{whose} budget of {part} does not cover it: {spent} spent, {reserved} reserved, \
             {needed} needed, {limit} allowed"
        )
    }
}
