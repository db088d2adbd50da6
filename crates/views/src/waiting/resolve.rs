//! The commands that resolve an item. Where the answer lets the run execute something, the first one shows it.

use std::path::Path;

use plan_ledger::plan::{
    BudgetPart, Decision, PauseCause, PlanVersion, QuestionBody, QuestionSubject, RAISE, VALUE,
    is_person,
};
use plan_ledger::{ContentHash, Run};

use super::answers::{effect_of_answer, effect_of_decision, raise_by};
use super::item::WaitingItem;
use super::list::plan_file;
use crate::advice::Advice;
use crate::words::StepName;

impl WaitingItem {
    /// The commands that resolve it, for every reader.
    #[must_use]
    pub fn resolve(&self, run: &str, ledger: &Path) -> Vec<Advice> {
        match self {
            Self::Question { id, step, asked, short } => {
                let shown = show_executed(step.as_ref(), asked, run, ledger).into_iter();
                let number = id.0.to_string();
                let answer = |option: &String| {
                    let word = if option == VALUE { "VALUE" } else { option };
                    let raise = short.filter(|_| option == RAISE).map(raise_by);
                    let words =
                        [number.as_str(), word].into_iter().chain(raise.into_iter().flatten());
                    let words: Vec<&str> = words.collect();
                    Advice::new("answer", ledger, &words, effect_of_answer(asked, option))
                };
                shown.chain(asked.options.iter().map(answer)).collect()
            }
            Self::Review { hash, .. } | Self::Commands { hash, .. } => {
                vec![review(run, ledger), approve_version(run, ledger, *hash)]
            }
            Self::Paused { used_up: Some(part), .. } => {
                let words = [&[run], raise_by(*part).as_slice()].concat();
                let effect = "raises the budget, without which the run stays paused";
                vec![Advice::new("budget raise", ledger, &words, effect)]
            }
            Self::Paused { cause, used_up: None } => vec![unpause(cause, run, ledger)],
            Self::Replan { .. } => self.resolve_request(run, ledger),
            Self::Decision { step, decisions, .. } => decide_failure(step, decisions, run, ledger),
            Self::Verdicts { step, .. } => {
                let words = [run, &step.argument()];
                vec![Advice::new("accept", ledger, &words, "records that its criteria are met")]
            }
            Self::PlanVerdicts { .. } => {
                let effect = "records that the criteria of the plan are met";
                vec![Advice::new("accept", ledger, &[run, "plan"], effect)]
            }
            Self::Checks { .. } | Self::PlanChecks { .. } => vec![start_judge(run, ledger)],
            Self::Misplaced { work, hash, ledger: whole, .. } => {
                let approve = whole.as_ref().map(|whole| approve_version(run, whole, *hash));
                let approve = approve.map(|approve| approve.in_folder(work));
                std::iter::once(review(run, ledger)).chain(approve).collect()
            }
            Self::OutcomeUnknown { step } => resolve_outcome(step, run, ledger),
            Self::Person { step, owner } => perform(step, owner, run, ledger),
            Self::Caps { .. } => {
                vec![Advice::new("cap", ledger, &["--help"], "shows how a cap is set")]
            }
            Self::Held { .. } | Self::Routed { .. } | Self::Blocked { .. } => Vec::new(),
        }
    }

    /// The commands that resolve a request for a new version: a value that would do comes first.
    fn resolve_request(&self, run: &str, ledger: &Path) -> Vec<Advice> {
        let Self::Replan { from, is_failed, limit, file, unset, .. } = self else {
            return Vec::new();
        };
        let set = |name: &String| {
            let words = [name, "VALUE", "--run", run];
            Advice::new("set", ledger, &words, "sets the value that is missing")
        };
        let mut commands: Vec<Advice> = unset.iter().map(set).collect();
        if let Some(step) = from.as_ref().filter(|_| *is_failed) {
            commands.extend(retry_or_skip(step, run, ledger));
        }
        // Where a value is missing, the same file does not help.
        if limit.is_some() {
            let words = [run, "--kind", "scope-change", "--reason", "WHY"];
            commands.push(Advice::new(
                "plan request",
                ledger,
                &words,
                "requests a change of scope",
            ));
        } else if unset.is_empty() {
            let words = [file, "--run", run];
            let effect = "proposes a new version of the plan";
            commands.push(Advice::new("plan propose", ledger, &words, effect));
        }
        let words = [run, "--reason", "WHY"];
        commands.push(Advice::new("plan withdraw", ledger, &words, "withdraws the request"));
        commands
    }
}

fn review(run: &str, ledger: &Path) -> Advice {
    Advice::new("plan review", ledger, &[run], "shows what the version executes")
}

/// The command that approves the version that was shown, and no other version.
#[must_use]
pub fn approve_version(run: &str, ledger: &Path, hash: ContentHash) -> Advice {
    let approve = Advice::new("plan approve", ledger, &[run], "approves the shown version");
    approve.with_option("--shown", &hash.short())
}

/// The command that lets a paused run continue.
fn unpause(cause: &PauseCause, run: &str, ledger: &Path) -> Advice {
    let raise = |run: &[&str], part: &BudgetPart| {
        let words = [run, &raise_by(*part)].concat();
        Advice::new("budget raise", ledger, &words, "raises the budget")
    };
    match cause {
        PauseCause::RunBudget { part } => raise(&[run], part),
        PauseCause::LedgerBudget { part } => raise(&[], part),
        PauseCause::Person { .. } | PauseCause::StepLimit { .. } | PauseCause::Runner { .. } => {
            Advice::new("unpause", ledger, &[run], "allows dispatch again")
        }
    }
}

/// The command that starts a process which checks a run and needs no worker, also beside a server.
#[must_use]
pub fn start_judge(run: &str, ledger: &Path) -> Advice {
    let words = [run, "--judge-only", "--wait"];
    Advice::new("work", ledger, &words, "checks reported steps")
}

/// The version of its plan that a runner of the run works on: the active one, or the one that waits for approval.
fn next_version(run: &Run) -> Option<&PlanVersion> {
    run.active_version().or_else(|| run.newest_proposal().map(|(_, version)| version))
}

/// Whether a runner of the run has a plan. Without one, a new plan is needed first: the last one was rejected.
#[must_use]
pub fn has_plan(run: &Run) -> bool {
    next_version(run).is_some()
}

/// The command that starts a runner of a run whose last runner is not known: with the plan in the ledger, and with a
/// worker if a step needs one. A run without a plan needs one first.
#[must_use]
pub fn start_runner(run: &Run, ledger: &Path) -> Advice {
    let Some(version) = next_version(run) else {
        let words = [&plan_file(run), "--run", &run.name];
        return Advice::new("plan propose", ledger, &words, "proposes a plan");
    };
    with_worker(Advice::new("run", ledger, &[&run.name], "starts a runner"), Some(version))
}

/// The command that starts another run of the plan of a run that is over.
#[must_use]
pub fn start_another(run: &Run, ledger: &Path) -> Advice {
    let words = [&plan_file(run), "--run", "NEW"];
    with_worker(Advice::new("run", ledger, &words, "starts another run"), next_version(run))
}

/// The command of a runner, with a worker if a step of the plan needs one.
fn with_worker(start: Advice, version: Option<&PlanVersion>) -> Advice {
    let needs_worker = version.is_some_and(|version| {
        let plan = version.plan.decode();
        plan.steps.iter().any(|step| {
            let owner = plan.owner_of(step);
            plan.with_defaults(step).command.is_none() && !owner.is_some_and(is_person)
        })
    });
    if needs_worker { start.with_option("--worker", "CMD") } else { start }
}

/// The command that shows what the run may execute after the answer to a question; `None` if the
/// answer allows nothing.
fn show_executed(
    step: Option<&StepName>,
    asked: &QuestionBody,
    run: &str,
    ledger: &Path,
) -> Option<Advice> {
    match (&asked.subject, step) {
        (QuestionSubject::Plan { .. }, _) => Some(review(run, ledger)),
        (QuestionSubject::Gate, Some(step)) => Some(show_step(step, run, ledger)),
        _ => None,
    }
}

/// The command that shows a step with everything that it executes.
#[must_use]
pub fn show_step(step: &StepName, run: &str, ledger: &Path) -> Advice {
    let words = ["step", run, &step.argument()];
    Advice::new("inspect", ledger, &words, "shows what the step executes")
}

/// The commands with which a person performs or skips a step.
#[must_use]
pub fn perform(step: &StepName, owner: &str, run: &str, ledger: &Path) -> Vec<Advice> {
    let step = step.argument();
    let claim = Advice::new("claim", ledger, &[run, "--step", &step], "claims the step");
    let claim = claim.with_option("--owner", owner).with_option("--worker", "NAME");
    vec![claim, skip(&step, run, ledger)]
}

/// The commands that try a failed step again, or continue without it.
pub(crate) fn retry_or_skip(step: &StepName, run: &str, ledger: &Path) -> Vec<Advice> {
    let step = step.argument();
    let retry = Advice::new("retry", ledger, &[run, &step], effect_of_decision("retry"));
    vec![retry, skip(&step, run, ledger)]
}

/// The command that continues without a step.
pub(crate) fn skip(step: &str, run: &str, ledger: &Path) -> Advice {
    let words = [run, step, "--reason", "WHY"];
    Advice::new("skip", ledger, &words, effect_of_decision("skip"))
}

/// The commands that decide about the failure of a step, one for each possible decision.
fn decide_failure(
    step: &StepName,
    decisions: &[Decision],
    run: &str,
    ledger: &Path,
) -> Vec<Advice> {
    let step = step.argument();
    let decide = |decision: &Decision| {
        let word = match decision {
            Decision::Retry | Decision::RetryAt { .. } => "retry",
            Decision::Fail => "fail",
            Decision::Fallback => "fallback",
            Decision::Replan => "replan",
            Decision::Escalate => "escalate",
            Decision::Abort => "abort",
            // An unknown outcome is an item of its own.
            Decision::OutcomeUnknown => return None,
        };
        Some(Advice::new("answer", ledger, &[run, &step, word], effect_of_decision(word)))
    };
    decisions.iter().filter_map(decide).collect()
}

/// The commands that report the unknown outcome of a step, one for each outcome.
#[must_use]
pub fn resolve_outcome(step: &StepName, run: &str, ledger: &Path) -> Vec<Advice> {
    let step = step.argument();
    let outcomes = [
        ("landed", "records that the lost attempt did the work"),
        ("did-not-happen", "records that the lost attempt did nothing"),
    ];
    let resolve = |(outcome, effect): &(&str, &str)| {
        Advice::new("answer", ledger, &[run, &step, outcome], *effect)
    };
    outcomes.iter().map(resolve).collect()
}
