//! The user's view: progress, current activity, required actions, and the expected end.

use std::fmt;

use serde::Serialize;

use super::execution::elapsed;
use crate::plan::event::question::QuestionId;
use crate::plan::event::run_event::Ending;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::criterion::Criterion;
use crate::plan::model::step::OnTimeout;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::{Run, RunStatus, Timer};
use crate::plan::state::step_state::StepState;
use crate::plan::value::ids::{ContentHash, Micros, StepNumber, Timestamp};
use crate::plan::value::time::time_text;

/// The user's view of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserView {
    /// The plan's title, or the run's name.
    pub title: String,
    /// Accepted and skipped steps of the active version.
    pub done: u32,
    /// Steps of the active version.
    pub total_steps: u32,
    /// Whether more steps will follow: the plan continues, and the run has not ended.
    pub continues: bool,
    /// The current activities, the most important first.
    pub activities: Vec<Activity>,
    /// What a person must do.
    pub required_actions: Vec<RequiredAction>,
    /// The expected time to the end in microseconds, from the average per step so far. `None`
    /// before the first step is done, while a person must act, and after the end.
    pub expected: Option<Micros>,
}

/// A current activity of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Activity {
    /// It has ended.
    Ended {
        /// How it ended.
        ending: Ending,
    },
    /// No plan is approved yet.
    #[serde(rename = "waits_for_plan")]
    AwaitingApproval,
    /// The run is paused.
    Paused {
        /// The cause, for people.
        cause: String,
    },
    /// No further step is dispatched.
    Stopping {
        /// The reason, for people.
        reason: String,
    },
    /// A replan is requested.
    Replanning {
        /// The reason, for people.
        reason: String,
    },
    /// A worker does a step.
    #[serde(rename = "works")]
    Working {
        /// The step.
        step: StepNumber,
        /// Its title, goal or id, in one line.
        what: String,
        /// The number of the attempt.
        attempt: u32,
    },
    /// Results wait for their checks.
    #[serde(rename = "checks")]
    Checking {
        /// The number of steps.
        steps: u32,
    },
    /// Steps are delayed before their next attempt.
    #[serde(rename = "waits")]
    Delayed {
        /// The number of steps.
        steps: u32,
        /// When the first one is no longer delayed.
        #[serde(rename = "until_micros")]
        until: Timestamp,
        /// Why that one failed: the first line.
        reason: String,
    },
    /// Steps are ready for a worker.
    Ready {
        /// The number of steps.
        steps: u32,
    },
}

/// Something that a person must do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum RequiredAction {
    /// Answer a question.
    Answer {
        question: QuestionId,
        text: String,
        /// The person to ask, if named.
        to: Option<String>,
        /// The valid answers.
        options: Vec<String>,
        deadline: Option<Timestamp>,
        /// What happens at the deadline.
        on_timeout: Option<OnTimeout>,
        /// The hash of what is shown.
        shown: ContentHash,
    },
    /// Resolve the unknown outcome of an attempt.
    Resolve {
        step: StepNumber,
        /// Its title, goal or id, in one line.
        what: String,
    },
    /// Judge the text criteria of a step that a worker reported.
    Accept {
        step: StepNumber,
        /// Its title, goal or id, in one line.
        what: String,
        /// The criteria without a verdict.
        criteria: Vec<String>,
    },
    /// Review a proposed plan version.
    Review { version: u32, hash: ContentHash },
}

/// The largest number of activities of one type.
const SHOWN: usize = 5;

#[doc(hidden)]
impl Run {
    /// The user's view of a run at that time.
    #[must_use]
    pub fn user_view(&self, now: Timestamp) -> UserView {
        let done = self.count(StepStatus::Accepted).saturating_add(self.count(StepStatus::Skipped));
        let title =
            self.plan().map(|plan| plan.header().title.clone()).filter(|title| !title.is_empty());
        let required_actions = required_actions(self);
        UserView {
            title: title.unwrap_or_else(|| self.name.clone()),
            done,
            total_steps: self.active_version().map_or(0, |version| version.step_count),
            continues: self.continues(),
            activities: activities(self),
            expected: expected(self, now).filter(|_| {
                !self.continues() && required_actions.is_empty() && self.pause.is_none()
            }),
            required_actions,
        }
    }
}

#[doc(hidden)]
impl Run {
    /// Whether more steps will follow those of the active version.
    #[must_use]
    pub fn continues(&self) -> bool {
        let is_open = !matches!(self.status, RunStatus::Ended(_));
        is_open && self.plan().is_some_and(|plan| plan.header().continues)
    }
}

fn activities(run: &Run) -> Vec<Activity> {
    match run.status {
        RunStatus::Ended(ending) => return vec![Activity::Ended { ending }],
        RunStatus::Proposed => return vec![Activity::AwaitingApproval],
        RunStatus::Running => {}
    }
    let mut activities = Vec::new();
    activities
        .extend(run.pause.as_ref().map(|cause| Activity::Paused { cause: cause.to_string() }));
    activities
        .extend(run.why_stopping().map(|reason| Activity::Stopping { reason: reason.into() }));
    activities.extend(
        run.request.as_ref().map(|each| Activity::Replanning { reason: each.reason.to_string() }),
    );
    let working = run.steps.iter().zip((1..).map(StepNumber));
    let working = working.filter(|(step, _)| step.status == StepStatus::Dispatched);
    activities.extend(working.take(SHOWN).map(|(step, number)| Activity::Working {
        step: number,
        what: what(run, number),
        attempt: step.attempts,
    }));
    let count = |status| Some(run.count(status)).filter(|count| *count > 0);
    let checked = run.reported.iter().filter(|number| texts_to_judge(run, **number).is_none());
    let checked = u32::try_from(checked.count()).ok().filter(|steps| *steps > 0);
    activities.extend(checked.map(|steps| Activity::Checking { steps }));
    let delayed = count(StepStatus::Delayed).zip(first_delay(run));
    activities.extend(delayed.map(|(steps, (until, reason))| Activity::Delayed {
        steps,
        until,
        reason,
    }));
    activities.extend(count(StepStatus::Ready).map(|steps| Activity::Ready { steps }));
    activities
}

/// When the first delay ends, and the first line of the failure before it.
fn first_delay(run: &Run) -> Option<(Timestamp, String)> {
    let (until, number) = run.timers.iter().find_map(|(until, timer)| match timer {
        Timer::Delay(number) => Some((*until, *number)),
        _ => None,
    })?;
    let failure = run.step(number).and_then(|step| step.last_failure());
    let message = failure.map(|(_, message)| message.to_string()).unwrap_or_default();
    Some((until, message.lines().next().unwrap_or_default().to_owned()))
}

/// The first line of the step's title or goal, or its id.
fn what(run: &Run, number: StepNumber) -> String {
    let plan = run.plan_step(number);
    let stated = plan.and_then(|step| {
        let mut lines = step.title().lines().chain(step.goal().lines()).map(str::trim);
        lines.find(|line| !line.is_empty()).map(str::to_owned)
    });
    let id = || run.step(number).map(|step| step.id().to_owned()).unwrap_or_default();
    stated.unwrap_or_else(id)
}

fn required_actions(run: &Run) -> Vec<RequiredAction> {
    if matches!(run.status, RunStatus::Ended(_)) {
        return Vec::new();
    }
    let mut required_actions: Vec<RequiredAction> = run
        .questions
        .iter()
        .map(|(id, question)| RequiredAction::Answer {
            question: *id,
            text: question.asked.text.to_string(),
            to: question.asked.to.clone(),
            options: question.asked.options.clone(),
            deadline: question.asked.deadline,
            on_timeout: question.asked.on_timeout.clone(),
            shown: question.asked.shown,
        })
        .collect();
    let unknown =
        |number: &StepNumber| RequiredAction::Resolve { step: *number, what: what(run, *number) };
    required_actions.extend(run.outcome_unknown.iter().map(unknown));
    required_actions.extend(run.reported.iter().filter_map(|number| {
        let criteria = texts_to_judge(run, *number)?;
        Some(RequiredAction::Accept { step: *number, what: what(run, *number), criteria })
    }));
    let versions = run.versions.iter().zip(1..);
    let open = versions.filter(|(each, version)| each.review.is_none() && *version > run.active);
    required_actions
        .extend(open.map(|(each, version)| RequiredAction::Review { version, hash: each.hash }));
    required_actions
}

/// The text criteria of a reported step without a verdict, if only these are open: no command decides
/// about them.
fn texts_to_judge(run: &Run, number: StepNumber) -> Option<Vec<String>> {
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    let verdicts = run.step(number).and_then(StepState::attempt).map(|attempt| &attempt.verdicts);
    let is_open = |index: &u32| verdicts.is_none_or(|verdicts| !verdicts.contains_key(index));
    let open: Vec<_> = (0..).zip(&criteria).filter(|(index, _)| is_open(index)).collect();
    let texts = open.iter().map(|(_, criterion)| match criterion {
        Criterion::Text(text) => Some(text.clone()),
        _ => None,
    });
    texts.collect::<Option<Vec<String>>>().filter(|texts| !texts.is_empty())
}

/// The average time per accepted step, times the number of open steps.
fn expected(run: &Run, now: Timestamp) -> Option<Micros> {
    if run.status != RunStatus::Running {
        return None;
    }
    let accepted = Micros::from(run.count(StepStatus::Accepted));
    let per_step = elapsed(run, now).checked_div(accepted)?;
    Some(per_step.saturating_mul(Micros::from(run.open_steps())))
}

impl fmt::Display for UserView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.continues { " so far" } else { "" };
        write!(f, "{}: {} of {} steps{more}", self.title, self.done, self.total_steps)?;
        for activity in &self.activities {
            write!(f, "\n  {activity}")?;
        }
        for action in &self.required_actions {
            write!(f, "\n  {action}")?;
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
            Self::Ended { ending: Ending::Done } => f.write_str("it is done"),
            Self::Ended { ending: Ending::Failed } => f.write_str("it has failed"),
            Self::Ended { ending: Ending::Cancelled } => f.write_str("it was cancelled"),
            Self::Ended { ending: Ending::Aborted } => f.write_str("it was aborted"),
            Self::AwaitingApproval => f.write_str("no plan is approved yet"),
            Self::Paused { cause } => f.write_str(cause),
            Self::Stopping { reason } => write!(f, "stopping: {reason}"),
            Self::Replanning { reason } => write!(f, "waiting for a new plan: {reason}"),
            Self::Working { what, attempt: 1, .. } => write!(f, "working on: {what}"),
            Self::Working { what, attempt, .. } => {
                write!(f, "working on: {what} (attempt {attempt})")
            }
            Self::Checking { steps: 1 } => f.write_str("1 step waits for its checks"),
            Self::Checking { steps } => write!(f, "{steps} steps wait for their checks"),
            Self::Delayed { steps, until, reason } => {
                let text = time_text(*until);
                let seconds = text.split('.').next().unwrap_or_default();
                match steps {
                    1 => write!(f, "1 step is delayed before its retry until {seconds}Z: {reason}"),
                    steps => write!(
                        f,
                        "{steps} steps are delayed before their retries, the first one until {seconds}Z: {reason}"
                    ),
                }
            }
            Self::Ready { steps: 1 } => f.write_str("1 step is ready"),
            Self::Ready { steps } => write!(f, "{steps} steps are ready"),
        }
    }
}

impl fmt::Display for RequiredAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { question, text, to, options, .. } => {
                let to = to.as_deref().unwrap_or("a person");
                let options = options.join(" or ");
                write!(f, "{to} must answer question {}: {text} ({options})", question.0)
            }
            Self::Resolve { step, what } => {
                write!(f, "a person must find out whether step {step} was done: {what}")
            }
            Self::Accept { what, criteria, .. } => {
                write!(f, "a person must judge {what}: {}", criteria.join("; "))
            }
            Self::Review { version, .. } => {
                write!(f, "a person must review plan version {version}")
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
