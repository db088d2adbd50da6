//! `ledger work --judge-only`: checks what other processes reported, and dispatches nothing.
//!
//! An agent session reports its steps itself, so no runner checks them. This process does, with an environment of
//! its own.
//!
//! Invariants:
//! - It runs a command only if a person approved the commands of the active version: the same state that
//!   names the command has the approval.
//! - It works in the plan's folder, which is that of this process, or in a worktree of its repository.
//! - It never starts inside an attempt or an agent session.

use std::collections::BTreeSet;
use std::path::PathBuf;

use plan_ledger::internals::plan::{CompactPlan, executed};
use plan_ledger::{Run, RunStatus};

use crate::options::WaitLoop;
use crate::output::{Code, Failure, escape_control, print_message, shell_command};
use crate::protocol::StepName;
use crate::requests::{run_or_only, unapproved_commands};
use crate::runner::{CheckLock, Criteria, check_folder, has_check};
use crate::server::{AgentSession, expect_outside};

use super::answers::text_in;
use super::args::WorkArgs;
use super::worker::Worker;

/// Rejects a process that may not be a judge.
///
/// # Errors
/// It is inside an attempt or an agent session, or servers on other machines have the ledger.
pub(super) fn expect_judge(args: &WorkArgs) -> Result<(), Failure> {
    if args.ledger.is_remote() {
        let message = "--judge-only: a judge works where the ledger is; leave out --server";
        return Err(Failure::Usage(message.to_owned()));
    }
    expect_outside(std::process::id(), args.ledger.dir())?;
    match AgentSession::of_environment() {
        Some(session) => Err(Failure::AgentSession { session: session.name }),
        None => Ok(()),
    }
}

/// The folder in which criteria of a run are checked.
///
/// # Errors
/// Why no command may run, for people.
pub(super) fn may_check(run: &Run, criteria: Criteria) -> Result<PathBuf, String> {
    if unapproved_commands(run).is_some() {
        let plan = run.plan().map(CompactPlan::decode).unwrap_or_default();
        let parts = executed(&plan);
        let commands: Vec<&str> = parts.iter().filter_map(|part| part.command()).collect();
        return Err(format!("no person approved its commands: {}", commands.join("; ")));
    }
    let here = std::env::current_dir().and_then(|dir| dir.canonicalize());
    let here = here.map_err(|error| format!("the working folder cannot be read: {error}"))?;
    let claimed = match criteria {
        Criteria::OfStep(number) => {
            let attempt = run.step(number).and_then(|step| step.attempt());
            attempt.and_then(|attempt| attempt.process.as_ref()?.folder.clone())
        }
        Criteria::OfPlan => None,
    };
    check_folder(&here, claimed.as_deref())
}

/// What one look at the runs found.
#[derive(Debug, Default)]
struct Look {
    /// Whether a verdict was recorded.
    is_any: bool,
    /// How many steps and plans stay unchecked.
    left: usize,
    /// Whether the named run has ended.
    has_ended: bool,
}

impl Worker<'_> {
    /// Checks until there is nothing to check, or with `--wait` until a signal or the end of the named run.
    pub(super) fn judge(&mut self) -> Result<Code, Failure> {
        let mut wait = WaitLoop::start(self.args.wait);
        let mut told = BTreeSet::new();
        loop {
            let look = self.judge_once(&mut told)?;
            let is_over = !look.is_any && (look.has_ended || wait.is_over());
            if is_over || self.is_stopping() {
                return Ok(if look.left > 0 { Code::Waiting } else { Code::Success });
            }
            if !look.is_any {
                wait.pause();
            }
        }
    }

    fn judge_once(&mut self, told: &mut BTreeSet<String>) -> Result<Look, Failure> {
        let (state, _) = self.read()?;
        let mut look = Look::default();
        let runs: Vec<&Run> = if self.serves_every_run() {
            state.runs.open().filter_map(|id| state.runs.get(&id)).collect()
        } else {
            vec![run_or_only(&state, self.args.run.name())?]
        };
        for run in runs {
            look.has_ended |= !self.serves_every_run() && matches!(run.status, RunStatus::Ended(_));
            let steps = run.reported.iter().copied().map(Criteria::OfStep);
            for criteria in steps.chain([Criteria::OfPlan]) {
                if has_check(run, criteria) && !self.is_stopping() {
                    self.judge_criteria(run, criteria, &mut look, told)?;
                }
            }
        }
        Ok(look)
    }

    fn judge_criteria(
        &mut self,
        run: &Run,
        criteria: Criteria,
        look: &mut Look,
        told: &mut BTreeSet<String>,
    ) -> Result<(), Failure> {
        if let Err(why) = may_check(run, criteria) {
            look.left += 1;
            let text = self.unchecked_text(run, criteria, &why);
            if told.insert(text.clone()) {
                print_message(&text);
            }
            return Ok(());
        }
        // If the lock is taken, its owner is alive and checks them.
        let Some(_lock) = CheckLock::take(&self.ledger, run.id, criteria)? else { return Ok(()) };
        let mut failed = None;
        while let Some(answer) = self.check_one(&run.name, criteria)? {
            let is_fail = text_in(&answer, "ruling").is_some_and(|ruling| ruling == "fail");
            failed = Some(failed == Some(true) || is_fail);
            self.args.ledger.print(&answer)?;
        }
        if let Some(has_failed) = failed {
            look.is_any = true;
            self.tally.reported += 1;
            self.tally.failed += u64::from(has_failed);
        }
        Ok(())
    }

    /// Why a step or the plan stays unchecked, and what helps.
    fn unchecked_text(&self, run: &Run, criteria: Criteria, why: &str) -> String {
        let what = match criteria {
            Criteria::OfStep(number) => format!("{} stays reported", StepName::of(run, number)),
            Criteria::OfPlan => "the plan stays unchecked".to_owned(),
        };
        let hint = if unapproved_commands(run).is_some() {
            let dir = self.args.ledger.dir();
            let review = shell_command("plan review", dir, &[&run.name]);
            let approve = shell_command("plan approve", dir, &[&run.name, "--by", "WHO"]);
            format!("\nhint: read them with `{review}`, and approve them with `{approve}`")
        } else {
            "\nhint: start the judge in the folder of that work".to_owned()
        };
        format!("{}{hint}", escape_control(&format!("run {}: {what}: {why}", run.name)))
    }
}
