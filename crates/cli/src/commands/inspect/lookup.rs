//! Errors for runs and steps that are not found, and steps by their name or number.

use plan_ledger::{Error, ErrorKind, Run, StepNumber};

use crate::output::{Code, Failure};
use crate::protocol::Missing;
use crate::requests::{request_command, step_hint};

/// The error for a missing run or step: it does not exist, or its records are damaged.
pub(crate) fn not_found(what: Missing, message: String, code: Code) -> Failure {
    if code == Code::Damaged {
        let message = format!("{message}; records are damaged or missing, it may be among them");
        Failure::Ledger(Error::new(ErrorKind::Corrupt, message))
    } else {
        Failure::Missing { what, message }
    }
}

/// The error where the ledger has no run, or none can be read.
pub(crate) fn no_run_yet(code: Code) -> Failure {
    let what =
        if code == Code::Damaged { "no run can be read" } else { "the ledger has no run yet" };
    not_found(Missing::Run, what.to_owned(), code)
}

/// The message for an unknown run, with the names of the existing ones.
pub(crate) fn no_run(text: &str, names: &[&str]) -> String {
    let there = match names {
        [] => "the ledger has no run".to_owned(),
        [one] => format!("the only run is {one}"),
        many => {
            let shown = many.get(..NAMES_MAX).unwrap_or(many);
            let rest = many.len().saturating_sub(NAMES_MAX);
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            format!("there are {}{more}", shown.join(", "))
        }
    };
    format!("there is no run {text}; {there}")
}

const NAMES_MAX: usize = 20;

/// Finds a step by id or number, including steps that a later version removed.
pub(crate) fn step_of(run: &Run, text: &str, code: Code) -> Result<StepNumber, Failure> {
    run.find_step(text).ok_or_else(|| {
        let waiting = run.newest_proposal().filter(|_| run.active == 0).map(|(number, _)| {
            let review = request_command("plan review", &[&run.name]);
            format!("\nhint: version {number} waits for approval: `{review}`")
        });
        let hint = waiting.unwrap_or_else(|| step_hint(run, text));
        let steps = run.steps.len();
        let message = format!("run {} has no step {text} (it has {steps}){hint}", run.name);
        not_found(Missing::Step, message, code)
    })
}
