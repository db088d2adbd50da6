//! How a run stands, in one value and one sentence.
//!
//! It is computed from the state, from what is known of the runner, and from whether records are missing. Invariant: an
//! activity names work only if a process is known, or may be assumed, to do it; what waits for a person says so.

use std::fmt;
use std::path::Path;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::{PauseCause, is_person};
use plan_ledger::{Ending, Run, RunStatus, State, StepNumber, StepStatus, Timestamp};

use crate::advice::{Advice, Audience};
use crate::runner::{KnownRunner, RunnerPresence, gone_steps, steps_in_flight};
use crate::waiting::{WaitingItem, WaitsFor, has_plan, start_judge, start_runner};
use crate::words::{WorkerKind, counted_of, paused_text};

/// One thing that a run does, or waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// Records are missing, so it is unknown.
    Unknown,
    /// It has ended.
    Ended {
        /// How.
        ending: Ending,
    },
    /// A person or a limit stopped the dispatch of steps.
    Paused {
        /// Why.
        cause: PauseCause,
    },
    /// Workers do steps.
    Working {
        /// How many attempts are in flight.
        attempts: u32,
    },
    /// Steps are in flight, and it is not known whether their workers are at work.
    InFlight {
        /// How many.
        attempts: u32,
    },
    /// Steps are ready, and a process is there, or may come, that takes them.
    Ready {
        /// How many.
        steps: u32,
    },
    /// What was reported is checked.
    Checking {
        /// How many steps; 0 for the plan itself.
        steps: u32,
    },
    /// Nothing happens before a time.
    WaitingUntil {
        /// The time.
        until: Timestamp,
        /// Why: the first line.
        reason: String,
    },
    /// Nothing happens before a person acts.
    WaitingForPeople {
        /// How many items wait for people.
        items: u32,
    },
    /// No version of the plan is approved, and none is proposed.
    WaitingForPlan,
    /// No runner is at work, and one would do what is left.
    Stopped,
    /// No step that is left can become ready.
    Blocked {
        /// How many steps are left.
        steps: u32,
    },
}

/// How a run stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunActivity {
    /// The most important activity.
    pub activity: Activity,
    /// The other ones, the most important first.
    pub others: Vec<Activity>,
    /// How many items wait for people.
    pub for_people: u32,
    /// That no runner is at work, or that this place does not show it; `None` if one is, or none is needed.
    pub absence: Option<String>,
    /// The command that lets it continue: it starts a runner, or proposes a plan, where one is missing.
    pub start: Option<Advice>,
}

impl RunActivity {
    /// How a run stands. `waiting`: all that it waits for; `None` if not all of its records can be read.
    #[must_use]
    pub fn of(
        (state, run): (&State, &Run),
        runner: &KnownRunner<'_>,
        waiting: Option<&[WaitingItem]>,
        ledger: &Path,
    ) -> Self {
        let is_damaged = waiting.is_none();
        let items = waiting.unwrap_or_default();
        let mut all =
            if is_damaged { vec![Activity::Unknown] } else { all(state, run, runner, items) };
        let activity = all.remove(0);
        let is_open = !matches!(run.status, RunStatus::Ended(_)) && !is_damaged;
        let is_for_runner = matches!(
            activity,
            Activity::Stopped
                | Activity::InFlight { .. }
                | Activity::Ready { .. }
                | Activity::Checking { .. }
                | Activity::WaitingUntil { .. }
        );
        // Without a plan, a runner has nothing to do.
        let lacks_plan = activity == Activity::WaitingForPlan;
        let is_missed =
            is_for_runner || all.contains(&Activity::Stopped) || runner.resume.is_some();
        let absence = runner.absence().filter(|_| is_open && is_missed && !lacks_plan);
        // Where only a judge is missing, a runner that an agent starts would check nothing.
        let is_check = matches!(activity, Activity::Checking { .. }) && runner.resume.is_none();
        let start = (absence.is_some() || lacks_plan).then(|| {
            if is_check {
                start_judge(&run.name, ledger)
            } else {
                start_or_resume(run, runner, ledger)
            }
        });
        let people = items.iter().filter(|item| item.needs_person()).count();
        let for_people = u32::try_from(people).unwrap_or(u32::MAX);
        Self { activity, others: all, for_people, absence, start }
    }
}

impl RunActivity {
    /// The same for a reader, who is told nothing to type that the reader may not: what an agent may not start is
    /// missing until a person starts it.
    #[must_use]
    pub fn for_reader(self, reader: Audience) -> Self {
        let Some(start) = self.start.as_ref().filter(|start| !start.is_for(reader)) else {
            return self;
        };
        let is_for_person = start.audience() > Audience::Agent;
        let until = if is_for_person { " until a person starts one" } else { "" };
        let absence = self.absence.map(|absence| format!("{absence}{until}"));
        Self { absence, start: None, ..self }
    }

    /// The same in an archive, which is only read: nothing is started there.
    #[must_use]
    pub fn in_archive(self) -> Self {
        Self { absence: None, start: None, ..self }
    }
}

/// The command that starts the last runner of the run again; where it is not known, a runner. A run without a plan
/// needs one first.
#[must_use]
pub fn start_or_resume(run: &Run, runner: &KnownRunner<'_>, ledger: &Path) -> Advice {
    match runner.resume.as_ref().filter(|_| has_plan(run)) {
        Some(words) => {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let effect = if words.contains(&"--yes") {
                "starts the last runner again, where the ledger is now"
            } else {
                "starts the last runner again"
            };
            Advice::new("resume", ledger, &words, effect)
        }
        None => start_runner(run, ledger),
    }
}

/// How a run stands, as far as its records tell: for answers to requests, whose process knows no runner.
#[must_use]
pub fn recorded_status(run: &Run) -> &'static str {
    match run.status {
        RunStatus::Proposed => "waiting for its plan",
        RunStatus::Running if run.pause.is_some() => "paused",
        RunStatus::Running => "running",
        RunStatus::Ended(ending) => ending_word(ending),
    }
}

/// A recorded status in the texts of answers. A run that has not ended is open: nothing may be at work on it.
#[must_use]
pub fn recorded_text(status: &str) -> &str {
    if status == "running" { "open" } else { status }
}

fn ending_word(ending: Ending) -> &'static str {
    match ending {
        Ending::Done => "done",
        Ending::Failed => "failed",
        Ending::Cancelled => "cancelled",
        Ending::Aborted => "aborted",
    }
}

/// All activities of a run, the most important first; at least one.
fn all(state: &State, run: &Run, runner: &KnownRunner<'_>, items: &[WaitingItem]) -> Vec<Activity> {
    let people = items.iter().filter(|item| item.needs_person()).count();
    let people = u32::try_from(people).unwrap_or(u32::MAX);
    match run.status {
        RunStatus::Ended(ending) => return vec![Activity::Ended { ending }],
        RunStatus::Proposed if people > 0 => {
            return vec![Activity::WaitingForPeople { items: people }];
        }
        RunStatus::Proposed => return vec![Activity::WaitingForPlan],
        RunStatus::Running => {}
    }
    let mut all = Vec::new();
    let Attempts { alive, unseen, left } = Attempts::of(state, run, runner);
    if alive > 0 {
        all.push(Activity::Working { attempts: alive });
    }
    if unseen > 0 {
        all.push(Activity::InFlight { attempts: unseen });
    }
    all.extend(run.pause.clone().map(|cause| Activity::Paused { cause }));
    // A runner takes over what a process left that is gone.
    let mut by_runner = Vec::new();
    if left > 0 {
        by_runner.push(Activity::Working { attempts: left });
    }
    let ready = takeable(run, runner);
    if ready > 0 && run.pause.is_none() && run.why_stopping().is_none() {
        by_runner.push(Activity::Ready { steps: ready });
    }
    // Otherwise they wait for a person, who approves the commands.
    let is_approved = !items.iter().any(|item| matches!(item, WaitingItem::Commands { .. }));
    let checks: Vec<&WaitingItem> =
        items.iter().filter(|item| item.waits_for() == WaitsFor::Judge).collect();
    if is_approved && !checks.is_empty() {
        let steps = checks.iter().filter(|item| item.step().is_some()).count();
        let checking = Activity::Checking { steps: u32::try_from(steps).unwrap_or(u32::MAX) };
        if runner.has_judge { all.push(checking) } else { by_runner.push(checking) }
    }
    let delays = first_delay(run).into_iter().chain(runner.waits_of(run).filter_map(|wait| {
        let reason = wait.reason.lines().next().unwrap_or_default().to_owned();
        (wait.is_whole_run || wait.ready_count(run) > 0).then_some((wait.until?, reason))
    }));
    by_runner.extend(delays.min().map(|(until, reason)| Activity::WaitingUntil { until, reason }));
    // Where no runner is known, other workers take the steps.
    let had_runner = runner.resume.is_some() || left > 0;
    if runner.is_absent() && had_runner && !by_runner.is_empty() {
        all.push(Activity::Stopped);
    } else {
        all.append(&mut by_runner);
    }
    if people > 0 && run.pause.is_none() {
        all.push(Activity::WaitingForPeople { items: people });
    }
    if all.is_empty() {
        all.push(Activity::Blocked { steps: run.open_steps() });
    }
    all
}

/// The numbers of attempts in flight.
#[derive(Debug, Clone, Copy, Default)]
struct Attempts {
    /// Those whose workers are at work, as far as is known.
    alive: u32,
    /// Those whose workers may have ended with a runner that cannot be seen.
    unseen: u32,
    /// Those whose workers are gone, or whose runner is.
    left: u32,
}

impl Attempts {
    fn of(state: &State, run: &Run, runner: &KnownRunner<'_>) -> Self {
        let gone: Vec<StepNumber> =
            gone_steps(state, run, runner.gone).into_iter().map(|(number, _)| number).collect();
        let mut found = Self::default();
        for (number, step) in steps_in_flight(state, run) {
            let is_hosted =
                step.attempt().is_some_and(|attempt| WorkerKind::hosted(&attempt.worker));
            let count = match runner.presence {
                _ if gone.contains(&number) => &mut found.left,
                RunnerPresence::Absent if is_hosted => &mut found.left,
                RunnerPresence::Unseen(_) if is_hosted => &mut found.unseen,
                _ => &mut found.alive,
            };
            *count += 1;
        }
        found
    }
}

/// How many ready steps a process takes that is no person: nothing holds them.
fn takeable(run: &Run, runner: &KnownRunner<'_>) -> u32 {
    let hold = run.replan_hold();
    let is_takeable = |number: StepNumber| {
        let owner = run.step(number).and_then(|step| step.owner());
        let is_held = hold.as_ref().is_some_and(|hold| hold.holds(number));
        let mut waits = runner.waits_of(run);
        !is_held && !owner.is_some_and(is_person) && !waits.any(|wait| wait.holds(run, number))
    };
    let ready = run.ready().filter(|(_, number)| is_takeable(*number)).count();
    u32::try_from(ready).unwrap_or(u32::MAX)
}

/// When the first delay of a step ends, and the first line of the failure before it.
fn first_delay(run: &Run) -> Option<(Timestamp, String)> {
    if run.count(StepStatus::Delayed) == 0 {
        return None;
    }
    let (until, number) = run.first_delay()?;
    let failure = run.step(number).and_then(|step| step.last_failure());
    let message = failure.map(|(_, message)| message.to_string()).unwrap_or_default();
    Some((until, message.lines().next().unwrap_or_default().to_owned()))
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown: not all of the ledger can be read"),
            Self::Ended { ending } => f.write_str(ending_word(*ending)),
            Self::Paused { cause } => f.write_str(&paused_text(cause)),
            Self::Working { attempts: 1 } => f.write_str("working on 1 step"),
            Self::Working { attempts } => write!(f, "working on {attempts} steps"),
            Self::InFlight { attempts } => {
                write!(f, "{} in flight", counted_of(*attempts, "step is", "steps are"))
            }
            Self::Ready { steps } => {
                write!(f, "{} ready for a worker", counted_of(*steps, "step is", "steps are"))
            }
            Self::Checking { steps: 0 } => f.write_str("the plan is checked"),
            Self::Checking { steps } => {
                write!(f, "{} checked", counted_of(*steps, "step is", "steps are"))
            }
            Self::WaitingUntil { until, reason } => {
                let text = time_text(*until);
                let seconds = text.split('.').next().unwrap_or_default();
                write!(f, "waiting until {seconds}Z: {reason}")
            }
            Self::WaitingForPeople { items: 1 } => f.write_str("waiting for a person"),
            Self::WaitingForPeople { items } => write!(f, "waiting for people: {items} items"),
            Self::WaitingForPlan => f.write_str("waiting for a plan"),
            Self::Stopped => f.write_str("stopped"),
            Self::Blocked { steps } => {
                let steps = counted_of(*steps, "step is", "steps are");
                write!(f, "{steps} blocked by dependencies that can never be met")
            }
        }
    }
}

impl fmt::Display for RunActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.activity.fmt(f)?;
        let is_stopped = self.activity == Activity::Stopped;
        if let Some(text) = self.absence.as_ref().filter(|_| is_stopped) {
            write!(f, ": {text}")?;
        }
        let is_said =
            matches!(self.activity, Activity::WaitingForPeople { .. } | Activity::Unknown);
        // A pause is an item itself.
        let own = u32::from(matches!(self.activity, Activity::Paused { .. }));
        let items = self.for_people.saturating_sub(own);
        if items > 0 && !is_said {
            let items = counted_of(items, "item waits", "items wait");
            write!(f, "; {items} for a person")?;
        }
        match &self.absence {
            Some(text) if !is_stopped => write!(f, "; {text}"),
            _ => Ok(()),
        }
    }
}
