//! The user's view: how far it is, what is going on, what needs them, when it may be done.

use std::fmt;

use serde::Serialize;

use super::execution::elapsed;
use crate::plan::event::question::QuestionId;
use crate::plan::event::run_event::Ending;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::step::OnTimeout;
use crate::plan::state::run::{Run, RunStatus};
use crate::plan::value::ids::{ContentHash, Micros, StepNumber};

/// What a person who waits for a run wants to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserView {
    /// What it is about: the plan's title, or the run's name.
    pub title: String,
    /// Steps of the active version that are done or need not be.
    pub done: u32,
    /// Steps of the active version.
    pub of: u32,
    /// What is going on: the first few things, the most important first.
    pub now: Vec<Activity>,
    /// What needs somebody.
    pub needs: Vec<Need>,
    /// How many microseconds it may still take: as long per step as it took so far. `None` as
    /// long as nothing is done, while somebody is waited for, and when it has ended.
    pub expected: Option<Micros>,
}

/// Something that is going on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Activity {
    /// It has ended.
    Ended(Ending),
    /// No plan is approved yet.
    WaitsForPlan,
    /// Nothing new is begun for now.
    Paused(String),
    /// Nothing new is begun any more.
    Stopping(String),
    /// Another plan is being made.
    Replanning(String),
    /// Somebody works on a step.
    Works {
        /// The step.
        step: StepNumber,
        /// What it is, in a line: its title, goal or id.
        what: String,
        /// Which attempt it is.
        attempt: u32,
    },
    /// The result of a step is being checked.
    Checks {
        /// How many steps.
        steps: u32,
    },
    /// Steps wait a while before they are tried again.
    Waits {
        /// How many steps.
        steps: u32,
    },
    /// Steps may begin as soon as somebody takes them.
    Ready {
        /// How many steps.
        steps: u32,
    },
}

/// Something that needs somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Need {
    /// An answer.
    Answer {
        /// The question.
        question: QuestionId,
        /// What is asked.
        text: String,
        /// Who is asked, where it is known.
        to: Option<String>,
        /// Answers that mean something.
        options: Vec<String>,
        /// Until when.
        deadline: Option<Micros>,
        /// What happens then.
        on_timeout: Option<OnTimeout>,
        /// Hash of what they are shown.
        shown: ContentHash,
    },
    /// Somebody must say whether a lost attempt did its work.
    Doubt {
        /// The step.
        step: StepNumber,
        /// What it is.
        what: String,
    },
    /// A review of a proposed plan version.
    Review {
        /// The version.
        version: u32,
        /// Its hash.
        hash: ContentHash,
    },
}

/// How many activities of one kind are shown.
const SHOWN: usize = 5;

/// What a person who waits for a run wants to know at that time.
#[must_use]
pub fn user_view(run: &Run, now: Micros) -> UserView {
    let done = run.count(StepStatus::Accepted).saturating_add(run.count(StepStatus::Skipped));
    let title =
        run.plan().map(|plan| plan.header().title.clone()).filter(|title| !title.is_empty());
    let needs = needs(run);
    UserView {
        title: title.unwrap_or_else(|| run.name.clone()),
        done,
        of: run.active_version().map_or(0, |version| version.step_count),
        now: activities(run),
        expected: expected(run, now).filter(|_| needs.is_empty() && run.pause.is_none()),
        needs,
    }
}

fn activities(run: &Run) -> Vec<Activity> {
    match run.status {
        RunStatus::Ended(ending) => return vec![Activity::Ended(ending)],
        RunStatus::Proposed => return vec![Activity::WaitsForPlan],
        RunStatus::Running => {}
    }
    let mut activities = Vec::new();
    activities.extend(run.pause.as_ref().map(|cause| Activity::Paused(cause.to_string())));
    activities.extend(run.why_stopping().map(Activity::Stopping));
    activities.extend(run.request.as_ref().map(|each| Activity::Replanning(each.reason.clone())));
    let held = run.steps.iter().zip((1..).map(StepNumber));
    let held = held.filter(|(step, _)| step.status == StepStatus::Dispatched);
    activities.extend(held.take(SHOWN).map(|(step, number)| Activity::Works {
        step: number,
        what: what(run, number),
        attempt: step.attempts,
    }));
    let count = |status| Some(run.count(status)).filter(|count| *count > 0);
    activities.extend(count(StepStatus::Reported).map(|steps| Activity::Checks { steps }));
    activities.extend(count(StepStatus::Delayed).map(|steps| Activity::Waits { steps }));
    activities.extend(count(StepStatus::Ready).map(|steps| Activity::Ready { steps }));
    activities
}

/// What a step is, as a person would say it.
fn what(run: &Run, number: StepNumber) -> String {
    let plan = run.plan_step(number);
    let said = plan.and_then(|step| {
        let mut lines = step.title().lines().chain(step.goal().lines()).map(str::trim);
        lines.find(|line| !line.is_empty()).map(str::to_owned)
    });
    let id = || run.step(number).map(|step| step.id().to_owned()).unwrap_or_default();
    said.unwrap_or_else(id)
}

fn needs(run: &Run) -> Vec<Need> {
    if matches!(run.status, RunStatus::Ended(_)) {
        return Vec::new();
    }
    let mut needs: Vec<Need> = run
        .questions
        .iter()
        .map(|(id, question)| Need::Answer {
            question: *id,
            text: question.asked.text.clone(),
            to: question.asked.to.clone(),
            options: question.asked.options.clone(),
            deadline: question.asked.deadline,
            on_timeout: question.asked.on_timeout.clone(),
            shown: question.asked.shown,
        })
        .collect();
    let doubt = |number: &StepNumber| Need::Doubt { step: *number, what: what(run, *number) };
    needs.extend(run.in_doubt.iter().map(doubt));
    let versions = run.versions.iter().zip(1..);
    let open = versions.filter(|(each, version)| each.review.is_none() && *version > run.active);
    needs.extend(open.map(|(each, version)| Need::Review { version, hash: each.hash }));
    needs
}

/// As long for each step that is open as it took for each that is accepted.
fn expected(run: &Run, now: Micros) -> Option<Micros> {
    if run.status != RunStatus::Running {
        return None;
    }
    let accepted = Micros::from(run.count(StepStatus::Accepted));
    let per_step = elapsed(run, now).checked_div(accepted)?;
    Some(per_step.saturating_mul(Micros::from(run.open_steps())))
}

impl fmt::Display for UserView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {} steps", self.title, self.done, self.of)?;
        for activity in &self.now {
            write!(f, "\n  {activity}")?;
        }
        for need in &self.needs {
            write!(f, "\n  {need}")?;
        }
        match self.expected {
            Some(left) => write!(f, "\n  about {} more", span(left)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(Ending::Done) => f.write_str("it is done"),
            Self::Ended(Ending::Failed) => f.write_str("it has failed"),
            Self::Ended(Ending::Cancelled) => f.write_str("it was cancelled"),
            Self::Ended(Ending::Aborted) => f.write_str("it was aborted"),
            Self::WaitsForPlan => f.write_str("no plan is approved yet"),
            Self::Paused(cause) => write!(f, "nothing new is begun for now: {cause}"),
            Self::Stopping(reason) => write!(f, "nothing new is begun any more: {reason}"),
            Self::Replanning(reason) => write!(f, "another plan is needed: {reason}"),
            Self::Works { what, attempt: 1, .. } => write!(f, "working on: {what}"),
            Self::Works { what, attempt, .. } => {
                write!(f, "working on: {what} (attempt {attempt})")
            }
            Self::Checks { steps: 1 } => f.write_str("checking the results of a step"),
            Self::Checks { steps } => write!(f, "checking the results of {steps} steps"),
            Self::Waits { steps: 1 } => f.write_str("a step waits before it is tried again"),
            Self::Waits { steps } => write!(f, "{steps} steps wait before they are tried again"),
            Self::Ready { steps: 1 } => f.write_str("a step is ready to begin"),
            Self::Ready { steps } => write!(f, "{steps} steps are ready to begin"),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { question, text, to, options, .. } => {
                let to = to.as_deref().unwrap_or("somebody");
                let options = options.join(" or ");
                write!(f, "{to} must answer question {}: {text} ({options})", question.0)
            }
            Self::Doubt { step, what } => {
                write!(f, "somebody must say whether step {step} was done: {what}")
            }
            Self::Review { version, .. } => {
                write!(f, "somebody must review plan version {version}")
            }
        }
    }
}

fn span(left: Micros) -> String {
    match left.div_ceil(1_000_000) {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}
