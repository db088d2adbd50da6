//! What a drill checks, and how it says so.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;

use serde_json::json;

use plan_ledger::plan::{Cost, Ending, Json, Run, RunStatus, State, StepNumber, StepStatus};

use super::args::DrillArgs;
use super::drill::RUN;
use super::exit::{Code, Failure};
use super::{answer_with, print, text};

/// The number of SIGKILL.
const KILLED: i32 = 9;

/// Everything that the checks look at.
pub(super) struct Evidence {
    pub(super) kill_at: StepNumber,
    /// How the process ended that was to be killed.
    pub(super) first: ExitStatus,
    /// The killed ledger as the second process found it.
    pub(super) at_kill: Arc<State>,
    /// The killed and resumed ledger at its end.
    pub(super) killed: Half,
    /// The ledger that nobody killed.
    pub(super) whole: Half,
}

/// One of the two ledgers at the end of its run.
pub(super) struct Half {
    pub(super) state: Arc<State>,
    /// Hash of the state that its last process had in memory.
    pub(super) live_hash: String,
    /// Hash of the fold of its log up to the same record.
    pub(super) replay_hash: String,
    /// How often each step was executed, as the workers counted it.
    pub(super) executions: BTreeMap<StepNumber, u32>,
}

/// One thing that must hold.
struct Check {
    name: &'static str,
    holds: bool,
    detail: String,
}

/// Judge the evidence and print it. Fine only if everything holds.
pub(super) fn report(evidence: &Evidence, args: &DrillArgs) -> Result<Code, Failure> {
    let runs = Runs::of(evidence)?;
    let checks = checks(evidence, &runs);
    if args.json {
        print(&(for_programs(&checks, evidence, args).join("\n") + "\n"))?;
    } else {
        answer_with(&(for_people(&checks, evidence, args).join("\n") + "\n"))?;
    }
    Ok(code(&checks))
}

/// Everything that must hold.
fn checks(evidence: &Evidence, runs: &Runs) -> [Check; 7] {
    [
        in_flight_at_kill(evidence, runs),
        nothing_twice(evidence, runs),
        dealt_again_once(evidence, runs),
        same_outcome(runs),
        same_variables(runs),
        replay_is_live(evidence),
        free_of_cost(runs),
    ]
}

fn code(checks: &[Check]) -> Code {
    if checks.iter().all(|check| check.holds) { Code::Fine } else { Code::Failed }
}

fn for_programs(checks: &[Check], evidence: &Evidence, args: &DrillArgs) -> Vec<String> {
    let line = |Check { name, holds, detail }: &Check| {
        json!({ "type": "check", "name": name, "holds": holds, "detail": detail }).to_string()
    };
    let mut lines: Vec<String> = checks.iter().map(line).collect();
    let summary = json!({
        "type": "summary",
        "plan": args.plan.display().to_string(),
        "kill_at": evidence.kill_at,
        "steps": evidence.whole.executions.len(),
        "holds": checks.iter().all(|check| check.holds),
    });
    lines.push(summary.to_string());
    lines
}

fn for_people(checks: &[Check], evidence: &Evidence, args: &DrillArgs) -> Vec<String> {
    let mut lines =
        vec![format!("drill of {}: killed at step {}", args.plan.display(), evidence.kill_at)];
    for Check { name, holds, detail } in checks {
        let mark = if *holds { "ok    " } else { "FAILED" };
        lines.push(format!("  {mark}  {name}: {detail}"));
    }
    let all_hold = checks.iter().all(|check| check.holds);
    lines.push(if all_hold { "all hold" } else { "the drill failed" }.to_owned());
    lines.extend(args.keep.as_ref().map(|folder| format!("kept in {}", folder.display())));
    lines
}

/// The run in each of the states.
struct Runs {
    at_kill: Run,
    killed: Run,
    whole: Run,
}

impl Runs {
    fn of(evidence: &Evidence) -> Result<Self, Failure> {
        let run = |state: &Arc<State>| {
            state.run_named(RUN).cloned().ok_or_else(|| Failure::Refused("no run was made".into()))
        };
        Ok(Self {
            at_kill: run(&evidence.at_kill)?,
            killed: run(&evidence.killed.state)?,
            whole: run(&evidence.whole.state)?,
        })
    }
}

fn in_flight_at_kill(evidence: &Evidence, runs: &Runs) -> Check {
    let step = runs.at_kill.step(evidence.kill_at);
    let status = step.map_or(StepStatus::Removed, |step| step.status);
    let killed = evidence.first.signal() == Some(KILLED);
    let how = if killed { "ended by SIGKILL".to_owned() } else { evidence.first.to_string() };
    let id = step.map_or("", |step| step.id());
    Check {
        name: "killed in flight",
        holds: killed && status == StepStatus::Dispatched,
        detail: format!(
            "the first process was {how}; step {} ({id}) was {status}, {} steps were accepted",
            evidence.kill_at,
            runs.at_kill.count(StepStatus::Accepted)
        ),
    }
}

fn nothing_twice(evidence: &Evidence, runs: &Runs) -> Check {
    let accepted = numbers_with(&runs.at_kill, StepStatus::Accepted);
    let twice: Vec<String> = accepted
        .iter()
        .filter(|number| evidence.killed.executions.get(number).copied() != Some(1))
        .map(ToString::to_string)
        .collect();
    Check {
        name: "nothing accepted ran twice",
        holds: twice.is_empty(),
        detail: match twice.as_slice() {
            [] => {
                format!("each of the {} was executed once, by the workers' count", accepted.len())
            }
            _ => format!("not executed exactly once: steps {}", twice.join(", ")),
        },
    }
}

/// Every step that was in flight is executed once more, and recorded so; no other step is.
fn dealt_again_once(evidence: &Evidence, runs: &Runs) -> Check {
    let in_flight = numbers_with(&runs.at_kill, StepStatus::Dispatched);
    let expected = |number: &StepNumber| if in_flight.contains(number) { 2 } else { 1 };
    let wrong: Vec<String> = numbers_with(&runs.killed, StepStatus::Accepted)
        .iter()
        .filter(|number| {
            let dealt = runs.killed.step(**number).map_or(0, |step| step.attempts);
            let executed = evidence.killed.executions.get(number).copied().unwrap_or(0);
            dealt != expected(number) || executed != dealt
        })
        .map(ToString::to_string)
        .collect();
    let others = in_flight.iter().filter(|number| **number != evidence.kill_at).count();
    Check {
        name: "dealt again once",
        holds: wrong.is_empty() && in_flight.contains(&evidence.kill_at),
        detail: match wrong.as_slice() {
            [] => format!(
                "step {} and {others} others in flight had two attempts, all the rest one",
                evidence.kill_at
            ),
            _ => format!("wrong number of attempts: steps {}", wrong.join(", ")),
        },
    }
}

fn same_outcome(runs: &Runs) -> Check {
    let (killed, whole) = (&runs.killed, &runs.whole);
    let done = |run: &Run| run.status == RunStatus::Ended(Ending::Done);
    let hash = |run: &Run| run.active_version().map(|version| version.hash);
    let accepted = numbers_with(killed, StepStatus::Accepted);
    let same = accepted == numbers_with(whole, StepStatus::Accepted) && hash(killed) == hash(whole);
    Check {
        name: "same outcome",
        holds: same && done(killed) && done(whole),
        detail: format!(
            "{:?} and {:?}; {} and {} steps accepted; {}",
            killed.status,
            whole.status,
            accepted.len(),
            whole.count(StepStatus::Accepted),
            if hash(killed) == hash(whole) { "the same plan" } else { "different plans" }
        ),
    }
}

fn same_variables(runs: &Runs) -> Check {
    let (killed, whole) = (variables(&runs.killed), variables(&runs.whole));
    let differ: BTreeSet<&String> = killed
        .keys()
        .chain(whole.keys())
        .filter(|name| killed.get(*name) != whole.get(*name))
        .copied()
        .collect();
    let names: Vec<&str> = differ.iter().map(|name| name.as_str()).collect();
    Check {
        name: "same variables",
        holds: names.is_empty(),
        detail: match names.as_slice() {
            [] => format!("{} and all equal", killed.len()),
            _ => format!("these differ: {}", names.join(", ")),
        },
    }
}

fn replay_is_live(evidence: &Evidence) -> Check {
    let equal = |half: &Half| !half.live_hash.is_empty() && half.live_hash == half.replay_hash;
    let short = |hash: &str| hash.chars().take(8).collect::<String>();
    let words = |half: &Half| format!("{} = {}", short(&half.live_hash), short(&half.replay_hash));
    Check {
        name: "replay equals live state",
        holds: equal(&evidence.killed) && equal(&evidence.whole),
        detail: format!("killed {}, whole {}", words(&evidence.killed), words(&evidence.whole)),
    }
}

fn free_of_cost(runs: &Runs) -> Check {
    let costs = [runs.killed.spent(), runs.whole.spent()];
    Check {
        name: "cost 0",
        holds: costs.iter().all(|cost| *cost == Cost::default()),
        detail: format!(
            "{} and {}",
            text::cost(runs.killed.spent()),
            text::cost(runs.whole.spent())
        ),
    }
}

/// Steps of the active version with that status.
fn numbers_with(run: &Run, status: StepStatus) -> BTreeSet<StepNumber> {
    let numbers = run.active_version().map_or(&[][..], |version| &version.numbers);
    let has = |number: &&StepNumber| run.step(**number).is_some_and(|step| step.status == status);
    numbers.iter().filter(has).copied().collect()
}

fn variables(run: &Run) -> BTreeMap<&String, &Json> {
    run.variables.iter().map(|(name, variable)| (name, &variable.value)).collect()
}

#[cfg(test)]
#[path = "drill_report_tests.rs"]
mod tests;
