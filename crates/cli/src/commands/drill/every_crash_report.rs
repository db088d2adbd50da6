//! The report of `ledger drill --every-crash`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger_lab::{CrashCounts, CrashFailure};

use crate::output::{Code, Failure, print_line, print_text};
use crate::protocol::counted;

use super::args::{AgentBehavior, DrillArgs};

/// The result of a drill.
pub(super) struct CrashReport {
    /// Distinct steps that the run without a crash executed.
    pub(super) steps: u64,
    /// `Ok` if that run was done, else the way in which it ended.
    pub(super) ending: Result<(), String>,
    /// Changes of the disk in that run.
    pub(super) calls: usize,
    /// Executions of steps in flight that were repeated, over all crashes.
    pub(super) twice: u64,
    /// The hash of the final state of the run without a crash.
    pub(super) state_hash: String,
    /// How many crashes were tried, or the one that failed.
    pub(super) tried: Result<CrashCounts, CrashFailure>,
}

/// Prints the report.
pub(super) fn report(crashes: &CrashReport, args: &DrillArgs) -> Result<Code, Failure> {
    if args.json.0 {
        print_line(&EveryCrashLine::of(crashes, args))?;
    } else {
        print_text(&(text(crashes, args).join("\n") + "\n"))?;
    }
    Ok(code(crashes))
}

fn code(crashes: &CrashReport) -> Code {
    // A run that waits at once shows nothing.
    let is_whole = crashes.steps > 0 && crashes.ending.is_ok();
    if crashes.tried.is_ok() && is_whole { Code::Success } else { Code::Failed }
}

/// A drill that crashes everywhere.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct EveryCrashLine<'a> {
    /// The behavior of the stub agents.
    agents: &'static str,
    /// The number of changes of the disk in the run without a crash.
    changes: usize,
    /// How the run without a crash ended, if it was not done: `ended as failed`.
    without_crash: Option<&'a str>,
    /// The number of repeated executions of steps in flight, over all crashes.
    executed_twice: u64,
    /// The crash that failed.
    failed: Option<FailedCrashJson<'a>>,
    /// Whether all checks hold.
    holds: bool,
    /// How often the run was resumed to its end.
    lives: Option<usize>,
    /// The plan file.
    plan: String,
    /// The number of crash points that were tried.
    points: Option<usize>,
    /// The seed.
    seed: u64,
    /// The hash of the final state of the run without a crash.
    state_hash: &'a str,
    /// The number of steps that the run without a crash executed.
    steps: u64,
}

/// A crash that failed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct FailedCrashJson<'a> {
    /// The command that repeats it.
    again: String,
    /// The change of the disk at which it happened.
    at: Option<usize>,
    /// The restart.
    restart: Option<String>,
    /// The problem, for people.
    what: &'a str,
}

impl<'a> EveryCrashLine<'a> {
    fn of(crashes: &'a CrashReport, args: &DrillArgs) -> Self {
        let tried = crashes.tried.as_ref().ok();
        let failed = crashes.tried.as_ref().err();
        Self {
            agents: args.agents.name(),
            changes: crashes.calls,
            without_crash: crashes.ending.as_ref().err().map(String::as_str),
            executed_twice: crashes.twice,
            failed: failed.map(|failed| FailedCrashJson {
                again: repeat_command(failed, args),
                at: failed.crash.map(|crash| crash.at),
                restart: failed.crash.map(|crash| crash.restart.to_string()),
                what: &failed.what,
            }),
            holds: code(crashes) == Code::Success,
            lives: tried.map(|it| it.runs),
            plan: args.plan.display().to_string(),
            points: tried.map(|it| it.points),
            seed: args.seed,
            state_hash: &crashes.state_hash,
            steps: crashes.steps,
        }
    }
}

fn text(crashes: &CrashReport, args: &DrillArgs) -> Vec<String> {
    let plan = args.plan.display();
    let mut lines = vec![format!(
        "every crash of {plan}: {}, {} changes of the disk, {} agents, seed {}",
        counted(crashes.steps, "step"),
        crashes.calls,
        args.agents.name(),
        args.seed
    )];
    match &crashes.tried {
        Ok(_) if crashes.steps == 0 => {
            lines.push(
                "  FAILED  no step was executed: the run waits for something that a drill cannot do"
                    .to_owned(),
            );
            lines.push("the drill failed".to_owned());
        }
        Ok(tried) => {
            if let Err(ending) = &crashes.ending {
                lines.push(format!("  FAILED  without a crash the run {ending}"));
            }
            lines.extend([
                format!("  ok      crash points tried: {}", tried.points),
                format!("  ok      resumed to the end: {} times", tried.runs),
                "  ok      receipts lost: 0".to_owned(),
                format!("  ok      executed twice: {}, all in flight at the crash", crashes.twice),
                "  ok      final states: all equal, live and replayed".to_owned(),
                "  ok      cost: 0".to_owned(),
            ]);
            let end = if crashes.ending.is_ok() { "all checks hold" } else { "the drill failed" };
            lines.push(end.to_owned());
        }
        Err(failed) => {
            lines.push(format!("  FAILED  {failed}"));
            lines.push(format!("to repeat: {}", repeat_command(failed, args)));
            lines.push("the drill failed".to_owned());
        }
    }
    lines
}

/// The command that repeats only the failed crash.
fn repeat_command(failed: &CrashFailure, args: &DrillArgs) -> String {
    let agents = match args.agents {
        AgentBehavior::Steady => String::new(),
        AgentBehavior::Flaky => " --agents flaky".to_owned(),
    };
    let at = failed.crash.map(|crash| format!(" --at {}", crash.at)).unwrap_or_default();
    format!(
        "ledger drill {} --every-crash{agents} --max-parallel {} --seed {}{at}",
        args.plan.display(),
        args.max_parallel,
        args.seed
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use plan_ledger_lab::{Crash, Restart};

    fn args() -> DrillArgs {
        DrillArgs {
            inputs: crate::options::InputArgs::default(),
            read: crate::options::ReadPlanArgs::default(),
            plan: PathBuf::from("p.yaml"),
            kill_at: None,
            max_parallel: 4,
            keep: None,
            every_crash: true,
            agents: AgentBehavior::Flaky,
            seed: 9,
            at: None,
            json: crate::options::AsJson(false),
        }
    }

    /// Goal: a run that does not reach its end shows nothing about its end.
    #[test]
    fn run_that_is_not_done_fails_the_drill() {
        let ending = Err("ended as failed".to_owned());
        let counts = CrashCounts { points: 1, runs: 4 };
        let (state_hash, tried) = (String::new(), Ok(counts));
        let crashes = CrashReport { steps: 1, ending, calls: 1, twice: 0, state_hash, tried };
        assert_eq!(code(&crashes), Code::Failed);
        let lines = text(&crashes, &args()).join("\n");
        assert!(lines.contains("FAILED  without a crash the run ended as failed"), "{lines}");
        assert!(!lines.contains("all checks hold"), "{lines}");
        assert_eq!(EveryCrashLine::of(&crashes, &args()).without_crash, Some("ended as failed"));
    }

    /// Goal: the report of a failed crash is a failure, and has the command that repeats it.
    #[test]
    fn failed_crash_is_reported_with_its_command() {
        let crash = Crash { at: 12, restart: Restart::Process, mark: 0 };
        let what = "receipt lost: step 3 was executed again".to_owned();
        let tried = Err(CrashFailure { crash: Some(crash), what });
        let crashes = CrashReport {
            steps: 3,
            ending: Ok(()),
            calls: 40,
            twice: 0,
            state_hash: String::new(),
            tried,
        };
        assert_eq!(code(&crashes), Code::Failed);
        let lines = text(&crashes, &args()).join("\n");
        let command =
            "ledger drill p.yaml --every-crash --agents flaky --max-parallel 4 --seed 9 --at 12";
        assert!(lines.contains(command) && lines.contains("FAILED"), "{lines}");
        assert!(!EveryCrashLine::of(&crashes, &args()).holds);
    }
}
