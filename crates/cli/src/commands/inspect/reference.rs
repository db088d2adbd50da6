//! Runs and steps by the names that people use, and their names for people.

use crate::output::{Code, Failure};
use crate::server::step_hint;
use plan_ledger::error::{Error, ErrorKind};
use plan_ledger::plan::{BarrierStatus, CompactStep, Run, StepNumber};

use super::text::plain;

/// Why something was not found: it is not there, or what would name it is damaged.
pub(super) fn not_found(message: String, code: Code) -> Failure {
    if code == Code::Damaged {
        let message = format!("{message}; records are damaged or missing, it may be among them");
        Failure::Ledger(Error::new(ErrorKind::Corrupt, message))
    } else {
        Failure::Usage(message)
    }
}

/// There is no run of that name, but there are others.
pub(super) fn no_run(text: &str, names: &[&str]) -> String {
    let there = match names {
        [] => "the ledger has no run".to_owned(),
        [one] => format!("the only run is {}", plain(one)),
        many => {
            let shown: Vec<_> = many.iter().take(NAMES_MAX).map(|name| plain(name)).collect();
            let rest = many.len().saturating_sub(NAMES_MAX);
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            format!("there are {}{more}", shown.join(", "))
        }
    };
    format!("there is no run {}; {there}", plain(text))
}

/// How many names are listed at most.
const NAMES_MAX: usize = 20;

/// The step that is meant by a word. Steps that a later version removed are found too.
pub(super) fn step_of(run: &Run, text: &str, code: Code) -> Result<StepNumber, Failure> {
    run.find_step(text).ok_or_else(|| {
        let hint = plain(&step_hint(run, text));
        let steps = run.steps.len();
        let message =
            format!("run {} has no step {} (it has {steps}){hint}", plain(&run.name), plain(text));
        not_found(message, code)
    })
}

/// A step's number and id: `#37 build`.
pub(super) fn step_name(run: &Run, number: StepNumber) -> String {
    match run.step(number) {
        Some(step) => format!("#{number} {}", plain(step.id())),
        None => format!("#{number}"),
    }
}

/// The plan's text of a step, of the newest version that has it, and that version's number.
pub(super) fn text_of(run: &Run, number: StepNumber) -> Option<(u32, CompactStep<'_>)> {
    if let Some(step) = run.plan_step(number) {
        return Some((run.active, step));
    }
    run.versions.iter().enumerate().rev().find_map(|(place, version)| {
        let step = version.numbers.iter().position(|each| *each == number)?;
        Some((u32::try_from(place + 1).ok()?, version.plan.step(step)?))
    })
}

/// How a barrier stands, in a word.
pub(super) fn barrier_word(status: BarrierStatus) -> &'static str {
    match status {
        BarrierStatus::Closed => "closed",
        BarrierStatus::Released => "released",
        BarrierStatus::Broken => "broken",
    }
}
