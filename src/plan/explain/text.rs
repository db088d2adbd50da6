//! An explanation, for people: one line per reason, indented by how far it is from the step.

use std::collections::BTreeSet;
use std::fmt;

use super::explanation::{Explanation, StepReasons};
use super::reason::{Holder, MissingAt, Reason, Shortage};
use crate::plan::event::question::Subject;
use crate::plan::event::run_event::CapScope;
use crate::plan::event::step_event::Ruling;
use crate::plan::event::step_status::StepStatus;
use crate::plan::state::barrier_state::BarrierStatus;
use crate::plan::value::ids::{Micros, StepNumber};

/// How far from the step that was asked about lines are still shown.
const DEPTH_MAX: usize = 12;

/// How many lines are shown.
const LINES_MAX: usize = 200;

/// How many names or holders a line shows.
const NAMES_MAX: usize = 8;

/// A line of an explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How far it is from the step that was asked about.
    pub depth: usize,
    /// The step whose heading it is; `None` for a reason.
    pub step: Option<(StepNumber, StepStatus)>,
    /// What it says.
    pub text: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let until = |at: Micros| match at.checked_sub(self.now) {
            None | Some(0) => "overdue".to_owned(),
            Some(left) => format!("for {} s more", left.div_ceil(1_000_000)),
        };
        let lines = self.lines(&until);
        let lines = lines.iter().map(|line| format!("{}{}", "  ".repeat(line.depth), line.text));
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

impl Explanation {
    /// The explanation, line by line. `until` says in words until when something lasts. What is
    /// too much for a person is counted in the last line; the data has all.
    #[must_use]
    pub fn lines(&self, until: &dyn Fn(Micros) -> String) -> Vec<Line> {
        let of = Words { of: self, until };
        let mut lines = Lines { of, shown: BTreeSet::new(), told: Vec::new(), cut: 0 };
        lines.step(self.step, 0);
        for reason in &self.run_reasons {
            lines.reason(1, reason);
        }
        if let Some(request) = &self.request {
            let (seq, reason) = (request.seq, &request.reason);
            lines.line(1, format!("another plan was asked for by record {seq}: {reason}"));
        }
        let Lines { told: mut lines, cut, .. } = lines;
        if cut > 0 {
            let text = format!("... and {cut} more; the data has all");
            lines.push(Line { depth: 0, step: None, text });
        }
        lines
    }
}

/// What the words of a line are taken from.
struct Words<'a> {
    of: &'a Explanation,
    until: &'a dyn Fn(Micros) -> String,
}

struct Lines<'a> {
    of: Words<'a>,
    shown: BTreeSet<StepNumber>,
    told: Vec<Line>,
    cut: usize,
}

impl Lines<'_> {
    fn line(&mut self, depth: usize, text: String) {
        self.push(Line { depth, step: None, text });
    }

    fn reason(&mut self, depth: usize, reason: &Reason) {
        let text = reason.line(&self.of);
        self.line(depth, text);
    }

    fn push(&mut self, line: Line) {
        if line.depth > DEPTH_MAX || self.told.len() >= LINES_MAX {
            self.cut = self.cut.saturating_add(1);
        } else {
            self.told.push(line);
        }
    }

    fn step(&mut self, number: StepNumber, depth: usize) {
        let Some(entry) = self.of.of.steps.get(&number) else { return };
        let StepReasons { id, status, reasons } = entry;
        let step = Some((number, *status));
        if !self.shown.insert(number) {
            let text = format!("step {number} ({id}) is {status}, see above");
            return self.push(Line { depth, step, text });
        }
        self.push(Line { depth, step, text: format!("step {number} ({id}) is {status}") });
        if depth > DEPTH_MAX || self.told.len() >= LINES_MAX {
            return;
        }
        for reason in reasons {
            let next = reason.leads_to();
            // What another step is waited for is the line of that step.
            if !matches!(reason, Reason::Step { .. }) {
                self.reason(depth + 1, reason);
            }
            let below = depth + if matches!(reason, Reason::Step { .. }) { 1 } else { 2 };
            for number in next {
                self.step(number, below);
            }
        }
    }
}

impl Reason {
    /// The reason in one line.
    fn line(&self, of: &Words<'_>) -> String {
        match self {
            Self::RunEnded(ending) => format!("the run has ended: {ending:?}").to_lowercase(),
            Self::NoActivePlan { proposed } => {
                let versions: Vec<String> = proposed.iter().map(|(n, _)| n.to_string()).collect();
                format!("no plan is active; waiting for a review: {}", versions.join(", "))
            }
            Self::Paused(cause) => format!("the run pauses: {cause}"),
            Self::Stopping(reason) => format!("nothing more is dealt: {reason}"),
            Self::Removed => "the active plan has no such step".to_owned(),
            Self::Step { step, id, status } => format!("step {step} ({id}) is {status}"),
            Self::Barrier(missing) => missing.line(of),
            Self::Unknown(name) => format!("`{name}` is neither a step nor a barrier"),
            Self::Condition { expression, ruling } => {
                format!("its condition `{expression}` {}", ruled(*ruling))
            }
            Self::Precondition { place, expression, ruling, variables, writers } => {
                let who = match writers.len() {
                    0 => "and no step that is left sets it".to_owned(),
                    _ => format!("which may be set by {}", of.names(writers)),
                };
                let (place, ruled) = (counted(*place), ruled(*ruling));
                let names = some(&variables.iter().cloned().collect::<Vec<_>>());
                format!("precondition {place} `{expression}` {ruled}: it reads {names}, {who}")
            }
            Self::Question { question, subject, text, to, deadline, options } => {
                let to = to.as_deref().unwrap_or("somebody");
                let mut about = String::new();
                if let Subject::Failure(token) = subject {
                    about = format!(" about attempt {token}");
                }
                let until = deadline.map_or(String::new(), |at| format!(", {}", of.until(at)));
                let (id, options) = (question.0, options.join("|"));
                format!("{to} was asked{about} (question {id}: {text}; {options}){until}")
            }
            Self::Gate => "its gate is closed".to_owned(),
            Self::Delay { until, after } => {
                format!("it failed and waits, {}, after: {after}", of.until(*until))
            }
            Self::StandIn(step) => format!("step {step} stands in for it"),
            Self::OnCall(steps) => {
                let steps: BTreeSet<StepNumber> = steps.iter().copied().collect();
                format!("it only stands in for {}, if called", of.names(&steps))
            }
            Self::Cap { scope, within, limit, holders } => {
                let place = match (scope, within) {
                    (CapScope::Owner(_) | CapScope::Tag(_), Some(run)) => format!(" in run {run}"),
                    _ => String::new(),
                };
                let who: Vec<String> = holders.iter().map(|each| each.line(of)).collect();
                format!("the cap of {limit} for {scope}{place} is reached: {}", some(&who))
            }
            Self::Budget(shortage) => shortage.line(),
            Self::Held(holder) => holder.line(of),
            Self::Reported { token, undecided: Some((_, message)), .. } => {
                format!("somebody must decide about attempt {token}: {message}")
            }
            Self::Reported { token, unjudged, undecided: None } => {
                let places: Vec<String> = unjudged.iter().copied().map(counted).collect();
                format!("attempt {token} waits for verdicts on criteria {}", some(&places))
            }
            Self::InDoubt(holder) => {
                let (token, worker) = (holder.token, &holder.worker);
                format!(
                    "attempt {token} of {worker} may have done it: somebody must say whether it landed"
                )
            }
            Self::Failed(None) => "it failed for good".to_owned(),
            Self::Failed(Some((_, message))) => format!("it failed for good: {message}"),
            Self::Cancelled => "its run ended before it was done".to_owned(),
        }
    }
}

/// A place in a list, as people count: from 1.
fn counted(place: u32) -> String {
    (u64::from(place) + 1).to_string()
}

fn ruled(ruling: Option<Ruling>) -> &'static str {
    match ruling {
        None => "is not judged yet",
        Some(Ruling::Pass) => "holds",
        Some(Ruling::Fail) => "does not hold",
    }
}

/// Some of the names, and how many more there are.
fn some(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
    match names.len().checked_sub(NAMES_MAX) {
        None | Some(0) if shown.is_empty() => "none".to_owned(),
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}

impl Words<'_> {
    fn names(&self, steps: &BTreeSet<StepNumber>) -> String {
        let name = |number: &StepNumber| match self.of.steps.get(number) {
            Some(entry) => format!("step {number} ({})", entry.id),
            None => format!("step {number}"),
        };
        some(&steps.iter().map(name).collect::<Vec<_>>())
    }

    fn until(&self, at: Micros) -> String {
        (self.until)(at)
    }
}

impl MissingAt {
    fn line(&self, of: &Words<'_>) -> String {
        let Self { id, needed, arrived, missing, failed, .. } = self;
        let verb = match self.status {
            BarrierStatus::Broken if self.is_late => "was not released in time",
            BarrierStatus::Broken => "is broken",
            BarrierStatus::Closed | BarrierStatus::Released => "is closed",
        };
        let mut line = format!("barrier {id} {verb}: {} of {needed} arrived", arrived.len());
        if !missing.is_empty() {
            line = format!("{line}, missing {}", of.names(missing));
        }
        if !failed.is_empty() {
            line = format!("{line}, failed {}", of.names(failed));
        }
        if let Some(deadline) = self.deadline {
            line = format!("{line}, {}", of.until(deadline));
        }
        match self.question {
            Some(question) => format!("{line}; question {} is open about it", question.0),
            None => line,
        }
    }
}

impl Holder {
    fn line(&self, of: &Words<'_>) -> String {
        let Self { run, step, id, worker, lease_until, .. } = self;
        let until = of.until(*lease_until);
        let place = if *run == of.of.run { String::new() } else { format!(" of run {run}") };
        format!("{worker} has step {step} ({id}){place}, {until}")
    }
}

impl Shortage {
    fn line(&self) -> String {
        let Self { part, spent, reserved, needed, limit, .. } = self;
        let whose = self.run.map_or("the ledger's".to_owned(), |run| format!("run {run}'s"));
        format!(
            "{whose} budget of {part} does not cover it: {spent} spent, {reserved} set aside, \
             {needed} needed, {limit} allowed"
        )
    }
}
