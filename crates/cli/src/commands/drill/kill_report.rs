//! The checks of a drill, and its report.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Cost, Ending, Json, Run, RunStatus, State, StepNumber, StepStatus};

use crate::output::{Code, Failure, cost_text, print_line, print_text};
use crate::protocol::counted;

use super::args::{DrillArgs, RUN};
use super::keep::keep;

const SIGKILL: i32 = 9;

pub(super) struct KillEvidence {
    pub(super) kill_at: StepNumber,
    /// The step that was chosen first, if the run does not execute it.
    pub(super) skipped: Option<StepNumber>,
    /// How the first process ended.
    pub(super) first: ExitStatus,
    /// The killed ledger as the second process found it.
    pub(super) at_kill: Arc<State>,
    /// The killed and resumed ledger at its end.
    pub(super) killed: FinishedRun,
    /// The ledger of the run that was not killed.
    pub(super) whole: FinishedRun,
}

/// A ledger at the end of its run.
pub(super) struct FinishedRun {
    pub(super) state: Arc<State>,
    /// The hash of the state in memory of its last process.
    pub(super) live_hash: String,
    /// The hash of the state replayed from its log up to the same record.
    pub(super) replay_hash: String,
    /// How often each step was executed, as the processes printed.
    pub(super) executions: BTreeMap<StepNumber, u32>,
}

/// A property that must hold.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DrillCheck {
    /// The property.
    name: &'static str,
    /// Whether the check holds.
    holds: bool,
    /// The evidence, for people.
    detail: String,
}

/// Checks the evidence and prints the result.
pub(super) fn report(evidence: &KillEvidence, args: &DrillArgs) -> Result<Code, Failure> {
    let runs = DrillRuns::of(evidence)?;
    let checks = checks(evidence, &runs);
    let holds = checks.iter().all(|check| check.holds);
    let cost = cost_text(runs.killed.spent());
    let what = format!("killed at step {}, resumed, cost {cost}", evidence.kill_at);
    keep(&runs.killed, (holds, what));
    if args.json.0 {
        checks.iter().try_for_each(print_line)?;
        print_line(&DrillLine {
            holds,
            kill_at: evidence.kill_at,
            plan: args.plan.display().to_string(),
            steps: evidence.whole.executions.len(),
        })?;
    } else {
        print_text(&(text_lines(&checks, evidence, args).join("\n") + "\n"))?;
    }
    Ok(code(&checks))
}

fn checks(evidence: &KillEvidence, runs: &DrillRuns) -> [DrillCheck; 7] {
    [
        in_flight_at_kill(evidence, runs),
        accepted_once(evidence, runs),
        in_flight_twice(evidence, runs),
        same_outcome(runs),
        same_variables(runs),
        replay_equals_live(evidence),
        no_cost(runs),
    ]
}

fn code(checks: &[DrillCheck]) -> Code {
    if checks.iter().all(|check| check.holds) { Code::Success } else { Code::Failed }
}

/// A drill, the last line.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct DrillLine {
    /// Whether all checks hold.
    holds: bool,
    /// The step at which the run was killed.
    kill_at: StepNumber,
    /// The plan file.
    plan: String,
    /// The number of executed steps.
    steps: usize,
}

fn text_lines(checks: &[DrillCheck], evidence: &KillEvidence, args: &DrillArgs) -> Vec<String> {
    let skipped = evidence.skipped.map(|step| format!(" (step {step} is not executed)"));
    let mut lines = vec![format!(
        "drill of {}: killed at step {}{}",
        args.plan.display(),
        evidence.kill_at,
        skipped.unwrap_or_default()
    )];
    for DrillCheck { name, holds, detail } in checks {
        let mark = if *holds { "ok    " } else { "FAILED" };
        lines.push(format!("  {mark}  {name}: {detail}"));
    }
    let all_hold = checks.iter().all(|check| check.holds);
    lines.push(if all_hold { "all checks hold" } else { "the drill failed" }.to_owned());
    lines.extend(args.keep.as_ref().map(|folder| format!("kept in {}", folder.display())));
    lines
}

/// The run in each of the states.
struct DrillRuns {
    at_kill: Run,
    killed: Run,
    whole: Run,
}

impl DrillRuns {
    fn of(evidence: &KillEvidence) -> Result<Self, Failure> {
        let run = |state: &Arc<State>| {
            state
                .run_named(RUN)
                .cloned()
                .ok_or_else(|| Failure::Rejected("the drill started no run".into()))
        };
        Ok(Self {
            at_kill: run(&evidence.at_kill)?,
            killed: run(&evidence.killed.state)?,
            whole: run(&evidence.whole.state)?,
        })
    }
}

fn in_flight_at_kill(evidence: &KillEvidence, runs: &DrillRuns) -> DrillCheck {
    let step = runs.at_kill.step(evidence.kill_at);
    let status = step.map_or(StepStatus::Removed, |step| step.status);
    let killed = evidence.first.signal() == Some(SIGKILL);
    let how = if killed { "ended by SIGKILL".to_owned() } else { evidence.first.to_string() };
    let id = step.map_or("", |step| step.id());
    DrillCheck {
        name: "killed in flight",
        holds: killed && status == StepStatus::Dispatched,
        detail: format!(
            "the first process was {how}; step {} ({id}) was {status}; {} accepted",
            evidence.kill_at,
            counted(u64::from(runs.at_kill.count(StepStatus::Accepted)), "step")
        ),
    }
}

fn accepted_once(evidence: &KillEvidence, runs: &DrillRuns) -> DrillCheck {
    let mut accepted = numbers_with(&runs.at_kill, StepStatus::Accepted);
    accepted.retain(|number| was_dispatched(&runs.at_kill, *number));
    let twice: Vec<String> = accepted
        .iter()
        .filter(|number| evidence.killed.executions.get(number).copied() != Some(1))
        .map(ToString::to_string)
        .collect();
    DrillCheck {
        name: "nothing accepted ran twice",
        holds: twice.is_empty(),
        detail: match twice.as_slice() {
            [] => {
                format!("each of the {} was executed once, as the runners printed", accepted.len())
            }
            _ => format!("not executed exactly once: steps {}", twice.join(", ")),
        },
    }
}

/// Every step that was in flight at the kill has two attempts and two executions; every other step
/// has one.
fn in_flight_twice(evidence: &KillEvidence, runs: &DrillRuns) -> DrillCheck {
    let in_flight = numbers_with(&runs.at_kill, StepStatus::Dispatched);
    let expected = |number: &StepNumber| if in_flight.contains(number) { 2 } else { 1 };
    let wrong: Vec<String> = numbers_with(&runs.killed, StepStatus::Accepted)
        .iter()
        .filter(|number| was_dispatched(&runs.killed, **number))
        .filter(|number| {
            let attempts = runs.killed.step(**number).map_or(0, |step| step.attempts);
            let executed = evidence.killed.executions.get(number).copied().unwrap_or(0);
            attempts != expected(number) || executed != attempts
        })
        .map(ToString::to_string)
        .collect();
    let others = in_flight.iter().filter(|number| **number != evidence.kill_at).count();
    let others = u64::try_from(others).unwrap_or(u64::MAX);
    DrillCheck {
        name: "dispatched again once",
        holds: wrong.is_empty() && in_flight.contains(&evidence.kill_at),
        detail: match wrong.as_slice() {
            [] => format!(
                "step {} and {} in flight had two attempts, all others one",
                evidence.kill_at,
                counted(others, "other step")
            ),
            _ => format!("wrong number of attempts: steps {}", wrong.join(", ")),
        },
    }
}

/// Whether a worker did the step. The answer of a person, or a fallback value, needs no worker.
fn was_dispatched(run: &Run, number: StepNumber) -> bool {
    run.step(number).is_some_and(|step| step.attempts > 0)
}

fn same_outcome(runs: &DrillRuns) -> DrillCheck {
    let (killed, whole) = (&runs.killed, &runs.whole);
    let done = |run: &Run| run.status == RunStatus::Ended(Ending::Done);
    let hash = |run: &Run| run.active_version().map(|version| version.hash);
    let accepted = numbers_with(killed, StepStatus::Accepted);
    let same = accepted == numbers_with(whole, StepStatus::Accepted) && hash(killed) == hash(whole);
    DrillCheck {
        name: "same outcome",
        holds: same && done(killed) && done(whole),
        detail: format!(
            "{} and {}; {} and {} steps accepted; {}",
            status_name(killed.status),
            status_name(whole.status),
            accepted.len(),
            whole.count(StepStatus::Accepted),
            if hash(killed) == hash(whole) { "the same plan" } else { "different plans" }
        ),
    }
}

fn same_variables(runs: &DrillRuns) -> DrillCheck {
    let (killed, whole) = (variables(&runs.killed), variables(&runs.whole));
    let differ: BTreeSet<&String> = killed
        .keys()
        .chain(whole.keys())
        .filter(|name| killed.get(*name) != whole.get(*name))
        .copied()
        .collect();
    let names: Vec<&str> = differ.iter().map(|name| name.as_str()).collect();
    DrillCheck {
        name: "same variables",
        holds: names.is_empty(),
        detail: match names.as_slice() {
            [] => format!("all {} are equal", killed.len()),
            _ => format!("different: {}", names.join(", ")),
        },
    }
}

fn replay_equals_live(evidence: &KillEvidence) -> DrillCheck {
    let equal = |run: &FinishedRun| !run.live_hash.is_empty() && run.live_hash == run.replay_hash;
    let short = |hash: &str| hash.chars().take(8).collect::<String>();
    let hashes =
        |run: &FinishedRun| format!("{} = {}", short(&run.live_hash), short(&run.replay_hash));
    DrillCheck {
        name: "replay equals live state",
        holds: equal(&evidence.killed) && equal(&evidence.whole),
        detail: format!("killed {}, whole {}", hashes(&evidence.killed), hashes(&evidence.whole)),
    }
}

fn no_cost(runs: &DrillRuns) -> DrillCheck {
    let costs = [runs.killed.spent(), runs.whole.spent()];
    DrillCheck {
        name: "cost 0",
        holds: costs.iter().all(|cost| *cost == Cost::default()),
        detail: format!("{} and {}", cost_text(runs.killed.spent()), cost_text(runs.whole.spent())),
    }
}

fn status_name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Proposed => "proposed",
        RunStatus::Running => "running",
        RunStatus::Ended(Ending::Done) => "done",
        RunStatus::Ended(Ending::Failed) => "failed",
        RunStatus::Ended(Ending::Cancelled) => "cancelled",
        RunStatus::Ended(Ending::Aborted) => "aborted",
    }
}

/// The steps of the active version with that status.
fn numbers_with(run: &Run, status: StepStatus) -> BTreeSet<StepNumber> {
    let numbers = run.active_version().map_or(&[][..], |version| &version.numbers);
    let has = |number: &&StepNumber| run.step(**number).is_some_and(|step| step.status == status);
    numbers.iter().filter(has).copied().collect()
}

fn variables(run: &Run) -> BTreeMap<&String, &Json> {
    run.variables.iter().map(|(name, variable)| (name, &variable.value)).collect()
}

#[cfg(test)]
#[path = "kill_report_tests.rs"]
mod tests;
