//! What is known of the runner of a run, and what it waits for.

use plan_ledger::{AttemptToken, Run, RunId, State, StepNumber, StepState, Timestamp};

use crate::words::{WorkerKind, counted, moment};

/// Whether a runner is at work on the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunnerPresence {
    /// Unknown: the state that is shown is an older one, or the caller did not look.
    Unknown,
    /// It cannot be seen from here whether the last runner, a process with this number, has ended.
    Unseen(u32),
    /// A runner is at work.
    AtWork,
    /// No runner is at work.
    Absent,
}

impl RunnerPresence {
    /// What is to be said if no runner is at work, or if none may be.
    #[must_use]
    pub fn absence(&self) -> Option<String> {
        match self {
            Self::Unknown | Self::AtWork => None,
            Self::Absent => Some("no runner is at work".to_owned()),
            Self::Unseen(process) => Some(format!(
                "it cannot be seen from here whether the last runner, process {process}, has ended"
            )),
        }
    }
}

/// What is known of the runner of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownRunner<'a> {
    /// Whether one is at work.
    pub presence: RunnerPresence,
    /// The words after `ledger resume` that start the last runner of the run again, if it is known.
    pub resume: Option<Vec<String>>,
    /// Whether the last runner had a planner.
    pub had_planner: bool,
    /// Whether a judge is at work.
    pub has_judge: bool,
    /// The claims of processes that are gone.
    pub gone: &'a [GoneClaim],
    /// What runners wait for before they dispatch ready steps.
    pub waits: &'a [RunnerWait],
}

impl KnownRunner<'static> {
    /// Nothing is known of a runner.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            presence: RunnerPresence::Unknown,
            resume: None,
            had_planner: false,
            has_judge: false,
            gone: &[],
            waits: &[],
        }
    }
}

impl<'a> KnownRunner<'a> {
    /// What is to be said if no runner is at work, or if none may be.
    #[must_use]
    pub fn absence(&self) -> Option<String> {
        self.presence.absence()
    }

    /// Whether it is known that no runner is at work.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.presence == RunnerPresence::Absent
    }

    /// Whether a process is at work that checks what is reported, as far as is known.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.has_judge || self.absence().is_none()
    }

    /// What the runner of a run waits for. Where none is at work, another one is to be started, which waits then.
    pub fn waits_of(&self, run: &Run) -> impl Iterator<Item = &'a RunnerWait> + Clone + use<'a> {
        waits_of(if self.is_absent() { &[] } else { self.waits }, run)
    }
}

/// A claim in flight whose process is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoneClaim {
    /// The attempt.
    pub token: AttemptToken,
    /// The process that claimed it.
    pub process: u32,
}

/// The steps of a run that dead workers have claimed.
#[must_use]
pub fn gone_steps<'a>(
    state: &State,
    run: &Run,
    gone: &'a [GoneClaim],
) -> Vec<(StepNumber, &'a GoneClaim)> {
    let step = |claim: &'a GoneClaim| {
        let (of, number) = state.attempt_in_flight(claim.token)?;
        (of == run.id).then_some((number, claim))
    };
    gone.iter().filter_map(step).collect()
}

/// The steps of a run that are in flight, in the order of their dispatch.
pub fn steps_in_flight<'a>(
    state: &'a State,
    run: &'a Run,
) -> impl Iterator<Item = (StepNumber, &'a StepState)> {
    let of_run = state.steps_in_flight(run.id);
    of_run.filter_map(|number| Some((number, run.step(number)?)))
}

/// The steps in flight with workers of a runner: the workers end with it.
pub fn hosted_steps<'a>(
    state: &'a State,
    run: &'a Run,
) -> impl Iterator<Item = (StepNumber, &'a StepState)> {
    let is_hosted = |step: &StepState| {
        step.attempt().is_some_and(|attempt| WorkerKind::hosted(&attempt.worker))
    };
    steps_in_flight(state, run).filter(move |(_, step)| is_hosted(step))
}

/// Steps of a run that its runner does not dispatch before a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerWait {
    /// The run.
    pub run: RunId,
    /// Whose steps; `None`: those without an owner, or all of the run.
    pub owner: Option<String>,
    /// Whether it is about all steps of the run.
    pub is_whole_run: bool,
    /// `None`: until a person answers.
    pub until: Option<Timestamp>,
    /// Why, for people.
    pub reason: String,
    /// The second owner, whose workers take the steps meanwhile.
    pub second: Option<String>,
    /// Whether a usage limit is the reason.
    pub is_limit: bool,
}

impl RunnerWait {
    /// Whether a step waits for its end.
    #[must_use]
    pub fn holds(&self, run: &Run, number: StepNumber) -> bool {
        let is_own = || {
            let owner = run.step(number).and_then(|step| step.owner());
            let goes_on = || self.second.is_some() && !run.has_command(number);
            owner.map(str::to_owned) == self.owner && !goes_on()
        };
        self.run == run.id && (self.is_whole_run || is_own())
    }

    /// What the runner waits for, at that time, with the number of ready steps that wait.
    #[must_use]
    pub fn text(&self, ready: u32, now: Timestamp) -> String {
        let until = match self.until {
            Some(until) => format!("until {}", moment(until, now)),
            None => "for an answer".to_owned(),
        };
        let reason = self.reason.lines().next().unwrap_or_default();
        let who = match (&self.owner, self.is_whole_run) {
            (_, true) => "the runner waits".to_owned(),
            (Some(owner), _) => format!("owner {owner} waits"),
            (None, _) => "the steps without an owner wait".to_owned(),
        };
        let ready = match ready {
            0 => String::new(),
            ready => format!(", {}", counted(ready.into(), "ready step")),
        };
        let second = self.second.as_ref().map(|owner| format!(", its steps go to {owner}"));
        format!("{who} {until}{}{ready}: {reason}", second.unwrap_or_default())
    }

    /// How many steps could be dispatched without it.
    #[must_use]
    pub fn ready_count(&self, run: &Run) -> usize {
        run.ready().filter(|(_, number)| self.holds(run, *number)).count()
    }
}

/// The waits of a run's runner.
pub fn waits_of<'a>(
    waits: &'a [RunnerWait],
    run: &Run,
) -> impl Iterator<Item = &'a RunnerWait> + Clone + use<'a> {
    let id = run.id;
    waits.iter().filter(move |wait| wait.run == id)
}
