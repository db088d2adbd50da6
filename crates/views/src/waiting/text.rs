//! An item that a run waits for, in one sentence.

use std::fmt;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::QuestionBody;
use plan_ledger::{QuestionId, ReplanTrigger};

use super::item::WaitingItem;
use crate::words::StepName;
use crate::words::{counted_of, paused_text, question_subject_text};

impl fmt::Display for WaitingItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Question { id, step, asked, .. } => {
                f.write_str(&question(*id, step.as_ref(), asked))
            }
            Self::Review { version, hash } => {
                write!(f, "version {version} of the plan ({}) waits for approval", hash.short())
            }
            Self::Paused { cause, used_up } => {
                write!(f, "the run is {}", paused_text(cause))?;
                match used_up {
                    Some(part) => {
                        let part = part.adjective();
                        write!(f, ", and its {part} budget is exhausted: raise the budget first")
                    }
                    None => Ok(()),
                }
            }
            Self::Replan { trigger, from, limit, reason, unset, .. } => {
                let text = replan(trigger, from.as_ref(), reason, *limit);
                match unset.as_slice() {
                    [] => f.write_str(&text),
                    names => {
                        let names = names.join(", ");
                        write!(f, "no step sets {names}: set a value, or else {text}")
                    }
                }
            }
            Self::Decision { step, message, .. } => {
                write!(f, "{step} waits for a decision about its failure: {message}")
            }
            Self::Verdicts { step, criteria } => {
                write!(f, "{step} waits for a verdict on: {}", criteria.join("; "))
            }
            Self::Checks { step, criteria } => {
                let criteria = criteria.join("; ");
                write!(f, "{step} waits for a runner or a judge to check: {criteria}")
            }
            Self::PlanChecks { criteria } => {
                let criteria = criteria.join("; ");
                write!(f, "the plan waits for a runner or a judge to check: {criteria}")
            }
            Self::Commands { version, commands, .. } => write!(
                f,
                "nothing is checked before a person approves the commands of version {version}: \
                 {}",
                commands.join("; ")
            ),
            Self::Misplaced { step, reason, .. } => {
                write!(f, "{step} is reported, and no judge checks it: {reason}")
            }
            Self::PlanVerdicts { criteria } => {
                write!(f, "the plan waits for a verdict on: {}", criteria.join("; "))
            }
            Self::OutcomeUnknown { step } => write!(
                f,
                "the outcome of {step} is unknown: a lost attempt may have done it, and the step \
                 must not be done twice"
            ),
            Self::Held { step, worker, lease_until } => {
                let until = time_text(*lease_until);
                write!(
                    f,
                    "{step} is claimed by {worker}, a worker outside this runner; its lease expires \
                     at {until}"
                )
            }
            Self::Person { step, owner } => {
                write!(f, "{step} waits for a person ({owner}) to do it")
            }
            Self::Routed { ready, owners } => {
                let steps = counted_of(*ready, "step is", "steps are");
                let owners = match owners.as_slice() {
                    [] => String::new(),
                    owners => format!(" (owners: {})", owners.join(", ")),
                };
                write!(f, "{steps} ready for other workers{owners}")
            }
            Self::Caps { ready } => {
                let steps = counted_of(*ready, "step is", "steps are");
                write!(f, "{steps} ready, but a cap is reached")
            }
            Self::Blocked { steps } => {
                let steps = counted_of(*steps, "step is", "steps are");
                write!(f, "{steps} blocked by dependencies that can never be met")
            }
        }
    }
}

fn question(id: QuestionId, step: Option<&StepName>, asked: &QuestionBody) -> String {
    let about = step.map(|step| format!("{step}, ")).unwrap_or_default();
    let to = asked.to.as_ref().map(|to| format!(" for {to}")).unwrap_or_default();
    let until =
        asked.deadline.map(|time| format!(", until {}", time_text(time))).unwrap_or_default();
    let subject = question_subject_text(&asked.subject);
    format!("question {}{to}{until}: {about}{subject}: {}", id.0, asked.text)
}

fn replan(
    trigger: &ReplanTrigger,
    from: Option<&StepName>,
    reason: &str,
    limit: Option<u32>,
) -> String {
    if *trigger == ReplanTrigger::Extension {
        return format!(
            "the plan needs more steps ({reason}): add them and repeat the command with --replan, \
             or withdraw the request"
        );
    }
    let from = from.map(|step| format!(" from {step} on")).unwrap_or_default();
    if let Some(max) = limit {
        return format!(
            "a new plan version is needed{from}: {reason}; the replan limit ({max}) is reached: \
             request it as a change of scope, or withdraw the request"
        );
    }
    format!(
        "a new plan version is needed{from}: {reason}; change the plan and repeat the command \
         with --replan, or withdraw the request"
    )
}
