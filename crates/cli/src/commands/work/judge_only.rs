//! `ledger work --judge-only`: checks the reports of other processes, and dispatches nothing.
//!
//! An agent session reports its steps itself, so no runner checks them. This process checks them, in its own
//! environment.
//!
//! Invariants:
//! - It runs a command only if a person approved the commands of the active version: the same state that
//!   names the command has the approval.
//! - It works in the plan's folder, where its commands were approved, or in a worktree of its
//!   repository.
//! - It never starts inside an attempt or an agent session.

use std::path::{Path, PathBuf};

use plan_ledger::{Run, RunStatus};

use crate::options::WaitLoop;
use crate::output::{Code, Failure, print_message, shell_command};
use crate::protocol::{StepName, approval_of, check_folder, unapproved_commands};
use crate::requests::run_or_only;
use crate::runner::{Criteria, JudgeMark, end_left_checks, has_check};
use plan_ledger_views::{approve_version, commands_of_active};

use super::answers::text_in;
use super::worker::Worker;

/// Rejects a run without approved commands.
///
/// # Errors
/// The reason why no command may run, for people.
fn expect_approved(run: &Run) -> Result<(), String> {
    if unapproved_commands(run).is_none() {
        return Ok(());
    }
    Err(format!("no person approved its commands: {}", commands_of_active(run).join("; ")))
}

/// The folder for the checks of a run's criteria.
///
/// # Errors
/// The reason why no command may run, for people.
pub(super) fn may_check(run: &Run, criteria: Criteria) -> Result<PathBuf, String> {
    expect_approved(run)?;
    let approved_in = approval_of(run).and_then(|approval| approval.folder.as_ref());
    let here = match approved_in {
        Some(folder) => Path::new(folder).canonicalize().map_err(|_| {
            format!("the folder in which its commands were approved is gone: {folder}")
        })?,
        // They were approved where no folder is known, such as over HTTP.
        None => std::env::current_dir()
            .and_then(|folder| folder.canonicalize())
            .map_err(|error| format!("the working folder cannot be read: {error}"))?,
    };
    let claimed = match criteria {
        Criteria::OfStep(number) => {
            let attempt = run.step(number).and_then(|step| step.attempt());
            attempt.and_then(|attempt| attempt.process.as_ref()?.folder.clone())
        }
        Criteria::OfPlan => None,
    };
    check_folder(&here, claimed.as_deref())
}

/// The findings of one look at the runs.
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
        let _mark = self.judge_mark()?;
        for note in end_left_checks(&self.ledger) {
            print_message(&note);
        }
        loop {
            let look = self.judge_once()?;
            let is_over = !look.is_any && (look.has_ended || wait.is_over());
            if is_over || self.is_stopping() {
                return Ok(if look.left > 0 { Code::Waiting } else { Code::Success });
            }
            if !look.is_any {
                self.tell_idle(&look);
                wait.pause();
            }
        }
    }

    /// Reports once that there is nothing to check. The judge of a server says nothing about that.
    fn tell_idle(&mut self, look: &Look) {
        let text = "nothing is left to check; this judge waits for reports".to_owned();
        let is_silent = look.left > 0 || self.args.until_eof;
        if !is_silent && self.told.insert(text.clone()) {
            print_message(&text);
        }
    }

    /// Marks this process as a judge.
    fn judge_mark(&self) -> Result<Option<JudgeMark>, Failure> {
        // Without a ledger nothing is created.
        let (state, _) = self.read()?;
        let run = if self.serves_every_run() {
            None
        } else {
            Some(run_or_only(&state, self.args.run.name())?.id)
        };
        Ok(JudgeMark::set(&self.ledger, run))
    }

    fn judge_once(&mut self) -> Result<Look, Failure> {
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
                    self.judge_criteria(run, criteria, &mut look)?;
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
    ) -> Result<(), Failure> {
        if let Err(why) = may_check(run, criteria) {
            look.left += 1;
            let text = self.unchecked_text(run, criteria, &why);
            if self.told.insert(text.clone()) {
                print_message(&text);
            }
            return Ok(());
        }
        // If the lock is taken, its owner is alive and checks them.
        let Some(lock) = self.take_lock(run, criteria)? else { return Ok(()) };
        let mut failed = None;
        while let Some(answer) = self.check_one(&run.name, criteria, &lock)? {
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

    /// Rejects a run with commands that this worker does not check.
    ///
    /// # Errors
    /// The reason why no command may run, for people.
    pub(super) fn expect_checked_here(&self, run: &Run) -> Result<(), String> {
        if self.is_inside {
            return Err("nothing is checked inside an attempt or an agent session".to_owned());
        }
        expect_approved(run)
    }

    /// Reports once that this worker does not check a run. Returns whether it does.
    pub(super) fn tell_unchecked(&mut self, run: &Run, criteria: Criteria) -> bool {
        let Err(why) = self.expect_checked_here(run) else { return true };
        let text = self.unchecked_text(run, criteria, &why);
        if self.told.insert(text.clone()) {
            print_message(&text);
        }
        false
    }

    /// The reason why a step or the plan stays unchecked, and the remedy.
    fn unchecked_text(&self, run: &Run, criteria: Criteria, why: &str) -> String {
        let what = match criteria {
            Criteria::OfStep(number) => format!("{} stays reported", StepName::of(run, number)),
            Criteria::OfPlan => "the plan stays unchecked".to_owned(),
        };
        let dir = self.args.ledger.dir();
        let hint = if self.is_inside {
            let next = shell_command("next", dir, &[&run.name]);
            format!("\nhint: a person starts a judge elsewhere: `{next}` tells a person how")
        } else if unapproved_commands(run).is_some() {
            let review = shell_command("plan review", dir, &[&run.name]);
            let hash = run.active_version().map(|active| active.hash).unwrap_or_default();
            let approve = approve_version(&run.name, dir, hash);
            format!("\nhint: read them with `{review}`, and approve them with `{approve}`")
        } else {
            let questions = shell_command("questions", dir, &[&run.name]);
            format!(
                "\nhint: `{questions}` has the command that approves them in the folder of that work"
            )
        };
        format!("run {}: {what}: {why}{hint}", run.name)
    }
}
