//! What `ledger drill --every-crash` says: one page for people, or lines for programs.

use serde_json::json;

use plan_ledger::lab::{Crashes, Failed};

use super::args::{Agents, DrillArgs};
use super::exit::{Code, Failure};
use super::{answer_with, print};

/// What the crashes came to.
pub(super) struct Verdict {
    /// Different steps that the run without a crash executed.
    pub(super) steps: usize,
    /// Changes of the disk in it.
    pub(super) calls: usize,
    /// Executions that were repeated, as they may be, over all crashes.
    pub(super) twice: u64,
    /// Hash of the state at the end of the run without a crash.
    pub(super) state_hash: String,
    /// How many crashes were tried, or the one that did not end well.
    pub(super) tried: Result<Crashes, Failed>,
}

/// Print it. Fine only if every crash ended well.
pub(super) fn report(verdict: &Verdict, args: &DrillArgs) -> Result<Code, Failure> {
    if args.json {
        print(&format!("{}\n", for_programs(verdict, args)))?;
    } else {
        answer_with(&(for_people(verdict, args).join("\n") + "\n"))?;
    }
    Ok(if verdict.tried.is_ok() { Code::Fine } else { Code::Failed })
}

fn for_programs(verdict: &Verdict, args: &DrillArgs) -> serde_json::Value {
    let tried = verdict.tried.as_ref().ok();
    let failed = verdict.tried.as_ref().err();
    json!({
        "type": "every_crash",
        "plan": args.plan.display().to_string(),
        "seed": args.seed,
        "agents": args.agents.word(),
        "steps": verdict.steps,
        "changes": verdict.calls,
        "points": tried.map(|it| it.points),
        "lives": tried.map(|it| it.lives),
        "executed_twice": verdict.twice,
        "state_hash": verdict.state_hash,
        "holds": failed.is_none(),
        "failed": failed.map(|failed| json!({
            "at": failed.crash.map(|crash| crash.at),
            "restart": failed.crash.map(|crash| crash.restart.to_string()),
            "what": failed.what,
            "again": again(failed, args),
        })),
    })
}

fn for_people(verdict: &Verdict, args: &DrillArgs) -> Vec<String> {
    let plan = args.plan.display();
    let mut lines = vec![format!(
        "every crash of {plan}: {} steps, {} changes of the disk, {} agents, seed {}",
        verdict.steps,
        verdict.calls,
        args.agents.word(),
        args.seed
    )];
    match &verdict.tried {
        Ok(tried) => {
            lines.extend([
                format!("  ok      crash points tried: {}", tried.points),
                format!("  ok      resumed to the end: {} times", tried.lives),
                "  ok      receipts lost: 0".to_owned(),
                format!("  ok      executed twice: {}, all in flight at a crash", verdict.twice),
                "  ok      final states: all equal, replayed and live".to_owned(),
                "  ok      cost: 0".to_owned(),
                "all hold".to_owned(),
            ]);
        }
        Err(failed) => {
            lines.push(format!("  FAILED  {failed}"));
            lines.push(format!("again: {}", again(failed, args)));
            lines.push("the drill failed".to_owned());
        }
    }
    lines
}

/// The line that tries the failing crash alone.
fn again(failed: &Failed, args: &DrillArgs) -> String {
    let agents = match args.agents {
        Agents::Steady => String::new(),
        Agents::Flaky => " --agents flaky".to_owned(),
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
    use plan_ledger::lab::Crash;
    use plan_ledger::lab::Restart;

    fn args() -> DrillArgs {
        DrillArgs {
            plan: PathBuf::from("p.yaml"),
            kill_at: None,
            max_parallel: 4,
            keep: None,
            every_crash: true,
            agents: Agents::Flaky,
            seed: 9,
            at: None,
            json: false,
        }
    }

    /// Goal: a crash that did not end well is a failure, and says how to try it again.
    #[test]
    fn a_failed_crash_has_a_line_to_try_it_again() {
        let crash = Crash { at: 12, restart: Restart::Process, mark: 0 };
        let what = "receipt lost: step 3 was executed again".to_owned();
        let tried = Err(Failed { crash: Some(crash), what });
        let verdict = Verdict { steps: 3, calls: 40, twice: 0, state_hash: String::new(), tried };
        assert_eq!(report(&verdict, &args()).unwrap(), Code::Failed);
        let lines = for_people(&verdict, &args()).join("\n");
        let again =
            "ledger drill p.yaml --every-crash --agents flaky --max-parallel 4 --seed 9 --at 12";
        assert!(lines.contains(again) && lines.contains("FAILED"), "{lines}");
        assert_eq!(for_programs(&verdict, &args())["holds"], false);
    }
}
