//! The settings that a plan lacks if agents work on it without a person: a time limit, attempts,
//! criteria, a budget.

use plan_ledger::{Plan, Step};

use crate::output::is_for_agent;
use crate::protocol::counted;

/// The settings from the command line of a run, if any.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given {
    /// `--output-timeout` or `--progress-timeout`.
    pub(crate) timeout: bool,
    /// `--on-unknown`.
    pub(crate) on_unknown: bool,
    /// A warning about steps without criteria.
    pub(crate) criteria: bool,
}

/// The settings that a plan lacks, one line each, with the fix.
pub(crate) fn lacks(plan: &Plan, given: Given) -> Vec<String> {
    // Commands are programs that their author knows.
    let agents = || plan.steps.iter().filter(|step| plan.with_defaults(step).command.is_none());
    if agents().next().is_none() {
        return Vec::new();
    }
    let count = |lacks: &dyn Fn(&Step) -> bool| {
        let found = agents().filter(|step| lacks(step)).count();
        u64::try_from(found).unwrap_or(u64::MAX)
    };
    let mut lines = Vec::new();
    let mut say = |found: u64, text: &str| {
        if found > 0 {
            let verb = if found == 1 { "has" } else { "have" };
            lines.push(format!("{} {verb} {text}", counted(found, "step")));
        }
    };
    if !given.timeout {
        let text =
            "no timeout_seconds: an agent that hangs is never ended; --output-timeout 20m ends it";
        say(count(&|step| plan.with_defaults(step).timeout_seconds.is_none()), text);
    }
    if !given.on_unknown {
        let text = "no retry: the first failure of unknown class waits for a person; --on-unknown retry repeats \
                    the step";
        say(count(&|step| plan.with_defaults(step).retry.is_none()), text);
    }
    if !given.criteria {
        let text = "no criterion: the agent's word alone accepts the step; `acceptance: [{command: CHECK}]` \
                    in the plan, or text criteria and --judge CMD";
        say(count(&|step| step.acceptance.is_empty()), text);
    }
    let budget = plan.budget;
    if budget.money_micros.is_none() && budget.tokens.is_none() && budget.attempts.is_none() {
        let text = "the plan has no budget: nothing limits what agents spend; `budget: {attempts: N}` in the plan";
        let later = ", or `ledger budget --help` for a run that is open";
        lines.push(format!("{text}{}", if is_for_agent() { "" } else { later }));
    }
    lines
}
