//! How a run stands.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::Ending;
use plan_ledger::plan::UtcTime;

use super::run::{Activity, RunActivity};
use crate::advice::Advice;

/// How a run stands.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunActivityJson {
    /// That no runner is at work, or that this place does not show it; null if one is, or none is needed.
    absence: Option<String>,
    /// How many items wait for people.
    for_people: u32,
    /// The most important activity.
    is: ActivityWord,
    /// The command that lets it continue: it starts a runner, or proposes a plan, where one is missing. Null if the
    /// reader may not type it.
    start: Option<String>,
    /// How it stands, in one sentence.
    pub text: String,
}

impl RunActivityJson {
    /// How it stands.
    #[must_use]
    pub fn of(stands: &RunActivity) -> Self {
        let RunActivity { activity, others: _, for_people, absence, start } = stands;
        Self {
            absence: absence.clone(),
            for_people: *for_people,
            is: activity.into(),
            start: start.as_ref().map(Advice::to_string),
            text: stands.to_string(),
        }
    }
}

/// One thing that a run does, or waits for.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ActivityJson {
    /// The activity.
    is: ActivityWord,
    /// The number of attempts, steps or items; null where there is none.
    count: Option<u32>,
    /// The activity, for people.
    text: String,
    /// Until when nothing happens; null if that is not known.
    until: Option<UtcTime>,
}

impl ActivityJson {
    /// All activities of a run, the most important first.
    #[must_use]
    pub fn all(stands: &RunActivity) -> Vec<Self> {
        std::iter::once(&stands.activity).chain(&stands.others).map(Self::from).collect()
    }
}

impl From<&Activity> for ActivityJson {
    fn from(activity: &Activity) -> Self {
        let (count, until) = match activity {
            Activity::Working { attempts: count }
            | Activity::InFlight { attempts: count }
            | Activity::Ready { steps: count }
            | Activity::Checking { steps: count }
            | Activity::WaitingForPeople { items: count }
            | Activity::Blocked { steps: count } => (Some(*count), None),
            Activity::WaitingUntil { until, .. } => (None, Some((*until).into())),
            Activity::Unknown
            | Activity::Ended { .. }
            | Activity::Paused { .. }
            | Activity::WaitingForPlan
            | Activity::Stopped => (None, None),
        };
        Self { is: activity.into(), count, text: activity.to_string(), until }
    }
}

/// What a run does.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum ActivityWord {
    /// Records are missing, so it is unknown.
    Unknown,
    /// It is complete.
    Done,
    /// It cannot complete.
    Failed,
    /// A person or a program cancelled it.
    Cancelled,
    /// A failure rule or an answer aborted it.
    Aborted,
    /// A person or a limit stopped the dispatch of steps.
    Paused,
    /// Workers do steps.
    Working,
    /// Steps are in flight, and it is not known whether their workers are at work.
    InFlight,
    /// Steps are ready for a worker.
    Ready,
    /// What was reported is checked.
    Checking,
    /// Nothing happens before a time.
    WaitingUntil,
    /// Nothing happens before a person acts.
    WaitingForPeople,
    /// No version of the plan is approved, and none is proposed.
    WaitingForPlan,
    /// No runner is at work, and one would do what is left.
    Stopped,
    /// No step that is left can become ready.
    Blocked,
}

impl From<&Activity> for ActivityWord {
    fn from(activity: &Activity) -> Self {
        match activity {
            Activity::Unknown => Self::Unknown,
            Activity::Ended { ending: Ending::Done } => Self::Done,
            Activity::Ended { ending: Ending::Failed } => Self::Failed,
            Activity::Ended { ending: Ending::Cancelled } => Self::Cancelled,
            Activity::Ended { ending: Ending::Aborted } => Self::Aborted,
            Activity::Paused { .. } => Self::Paused,
            Activity::Working { .. } => Self::Working,
            Activity::InFlight { .. } => Self::InFlight,
            Activity::Ready { .. } => Self::Ready,
            Activity::Checking { .. } => Self::Checking,
            Activity::WaitingUntil { .. } => Self::WaitingUntil,
            Activity::WaitingForPeople { .. } => Self::WaitingForPeople,
            Activity::WaitingForPlan => Self::WaitingForPlan,
            Activity::Stopped => Self::Stopped,
            Activity::Blocked { .. } => Self::Blocked,
        }
    }
}
