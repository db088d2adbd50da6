//! What the effects mean, in the words of printed commands: each is a check of the states before and after.

use plan_ledger::{Ending, Run, RunStatus, State, StepState, StepStatus};

use StepStatus::{
    Accepted, Cancelled, Delayed, Dispatched, Failed, Gated, OutcomeUnknown, Ready, Reported,
    Skipped, Waiting,
};

/// The states of a ledger before and after a command.
pub(super) struct Change<'a> {
    pub(super) before: &'a State,
    pub(super) after: &'a State,
}

/// Whether a command had the effect; `None` if a command with this effect only shows something.
///
/// # Panics
/// The words are not known here: each effect is checked.
pub(super) fn came_true(effect: &str, change: &Change<'_>) -> Option<bool> {
    let moved = |from: &[StepStatus], to: &[StepStatus]| change.any_step(from, to);
    // A step that is dispatched again may be done already, or fail again.
    let again =
        [Ready, Waiting, Delayed, Dispatched, Reported, Accepted, Gated, Failed, OutcomeUnknown];
    let undone = [Gated, Failed, Reported, OutcomeUnknown, Cancelled];
    Some(match effect {
        // Attempts in flight end first, and no other step is dispatched.
        "ends the run" => change.any_run(|before, after| {
            is_open(before) && (!is_open(after) || is_stopping(after)) && change.has_changed()
        }),
        "fails the run" => change.any_run(|before, after| {
            let has_failed = after.status == RunStatus::Ended(Ending::Failed);
            // A requested version may change which steps fail, so it holds the end.
            let is_held = after.why_stopping().is_some() && after.plan_request().is_some();
            is_open(before) && (has_failed || is_held || is_stopping(after)) && change.has_changed()
        }),
        // Another dependency, or a cap, may hold it; before another attempt, its delay goes on.
        "dispatches the step" => {
            moved(&[Gated], &[Ready, Waiting, Dispatched])
                || change
                    .any_step_that(&[Gated], |step| step.status == Delayed && step.attempts > 0)
        }
        "dispatches the step again" | "dispatches the steps again" | "retries what failed" => {
            moved(&undone, &again) && change.has_changed()
        }
        // What it retried may have failed again.
        "retries all failed steps" | "checks reported steps" => change.has_changed(),
        "fails the step, which is not dispatched" => moved(&[Gated], &[Failed, Gated, Cancelled]),
        "fails the step permanently, which blocks its dependents"
        | "fails the steps permanently, which blocks their dependents" => {
            moved(&[Gated, Reported], &[Failed])
        }
        "continues without the step" | "continues without the steps" => moved(
            &[Gated, Failed, Reported, OutcomeUnknown, Ready, Waiting, Delayed, Cancelled],
            &[Skipped],
        ),
        "accepts the step with this value" | "accepts the step with this answer" => {
            moved(&[Gated], &[Accepted])
        }
        "activates the version" => change.any_run(|before, after| after.active > before.active),
        "rejects the version" => change.any_run(|before, after| reviewed(after) > reviewed(before)),
        "approves the shown version" => change.any_run(|before, after| {
            after.active > before.active
                || reviewed(after) > reviewed(before)
                || approved(after) > approved(before)
        }),
        "raises the budget, and the run continues"
        | "raises the budget"
        | "allows dispatch again" => {
            change.any_run(|before, after| before.pause.is_some() && after.pause.is_none())
        }
        "raises the budget, without which the run stays paused" => change
            .any_run(|before, after| before.pause.is_some() && after.limits() != before.limits()),
        "requests a new version of the plan" | "requests a change of scope" => {
            change.any_run(|before, after| change.has_new_request(before, after))
        }
        "withdraws the request" => change.any_run(|before, after| {
            let seq = |run: &Run| run.plan_request().map(|it| it.seq);
            seq(before).is_some() && seq(after) != seq(before)
        }),
        "waits on" | "opens the barrier without the missing steps" | "answers the question" => {
            change.any_run(|before, after| {
                before.questions.keys().any(|id| !after.questions.contains_key(id))
            })
        }
        "uses the fallback of the step" => {
            moved(&[Reported], &[Accepted, Ready, Waiting, Failed, Skipped])
        }
        "asks a person" => change.any_run(|before, after| {
            after.questions.keys().any(|id| !before.questions.contains_key(id))
        }),
        "takes the step over" | "claims the step" => {
            moved(&[Ready, Dispatched], &[Dispatched]) && change.has_changed()
        }
        "records that its criteria are met" => {
            moved(&[Reported], &[Accepted, Reported]) && change.has_changed()
        }
        "records that the criteria of the plan are met" => change.any_run(|before, after| {
            after.verdicts_on_plan().count() > before.verdicts_on_plan().count()
        }),
        "records that the lost attempt did the work" => {
            moved(&[OutcomeUnknown], &[Accepted, Reported])
        }
        "records that the lost attempt did nothing" => {
            moved(&[OutcomeUnknown], &[Ready, Waiting, Delayed, Failed, Gated])
        }
        "sets the value that is missing" => {
            change.any_run(|before, after| after.variables.len() > before.variables.len())
        }
        "proposes a version of the plan"
        | "proposes a new version of the plan"
        | "proposes a plan" => {
            change.any_run(|before, after| after.versions.len() > before.versions.len())
        }
        // A runner may find nothing to do but what waits for people, and says so. The others only show something.
        "starts a runner"
        | "starts the last runner again"
        | "starts the last runner again, where the ledger is now"
        | "shows what blocks the step"
        | "shows what the step executes"
        | "shows what the version executes"
        | "shows how a cap is set"
        | "lists all damage" => return None,
        other => panic!("the effect {other:?} is not known: check it here"),
    })
}

impl Change<'_> {
    pub(super) fn has_changed(&self) -> bool {
        self.after.seq > self.before.seq
    }

    /// Whether a run has a new request for another plan. It may wait for an earlier one, and one that is open covers the
    /// failure of another step.
    fn has_new_request(&self, before: &Run, after: &Run) -> bool {
        let open = |run: &Run| run.plan_request().map(|request| request.seq);
        let is_new = open(after).is_some_and(|seq| seq > self.before.seq);
        let is_covered = open(before).is_some() && open(before) == open(after);
        is_new
            || is_covered && after.count(Failed) > before.count(Failed)
            || after.waiting_requests().count() > before.waiting_requests().count()
    }

    fn any_run(&self, holds: impl Fn(&Run, &Run) -> bool) -> bool {
        self.before
            .runs
            .values()
            .any(|before| self.after.runs.get(&before.id).is_some_and(|after| holds(before, after)))
    }

    fn any_step(&self, from: &[StepStatus], to: &[StepStatus]) -> bool {
        self.any_step_that(from, |step| to.contains(&step.status))
    }

    fn any_step_that(&self, from: &[StepStatus], holds: impl Fn(&StepState) -> bool) -> bool {
        self.any_run(|before, after| {
            let steps = before.numbered_steps();
            steps
                .filter(|(_, step)| from.contains(&step.status))
                .any(|(number, _)| after.step(number).is_some_and(&holds))
        })
    }
}

/// Whether the run ends once its last attempts are decided.
fn is_stopping(run: &Run) -> bool {
    let is_open = |status| run.count(status) > 0;
    run.why_stopping().is_some() && [Dispatched, Reported, OutcomeUnknown].into_iter().any(is_open)
}

fn is_open(run: &Run) -> bool {
    !matches!(run.status, RunStatus::Ended(_))
}

fn reviewed(run: &Run) -> usize {
    run.versions.iter().filter(|version| version.review.is_some()).count()
}

fn approved(run: &Run) -> usize {
    run.versions.iter().filter(|version| version.commands.is_some()).count()
}
