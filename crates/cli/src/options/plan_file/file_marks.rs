//! The marks of a plan file for the statuses of a run.

use std::path::Path;

use plan_ledger::internals::format::content_hash;
use plan_ledger::internals::ledger::time_text;
use plan_ledger::{ContentHash, Error, Run, StepStatus};
use plan_ledger_files::{MarkedFile, Marking, Statuses, TaskStatus};

use crate::options::ledger::environment;
use crate::protocol::counted;

/// How many steps a message names.
const SHOWN_MAX: usize = 5;

/// The status of a step in a run.
pub(crate) fn status_of(run: &Run, step: &str) -> Option<StepStatus> {
    let number = run.step_named(step)?;
    Some(run.step(number)?.status)
}

/// The mark for a status; `None`: the mark stays.
pub(crate) fn mark_of(status: StepStatus) -> Option<TaskStatus> {
    match status {
        StepStatus::Accepted => Some(TaskStatus::Done),
        StepStatus::Skipped | StepStatus::Cancelled => Some(TaskStatus::Dropped),
        StepStatus::Removed => None,
        _ => Some(TaskStatus::Open),
    }
}

/// The hash of a file without its marks.
pub(crate) fn unmarked_hash(file: &MarkedFile) -> ContentHash {
    ContentHash(content_hash(&file.unmarked_content()))
}

/// The texts with the marks of a run.
pub(crate) fn marking(
    file: &MarkedFile,
    of_steps: &[Option<TaskStatus>],
    run: &str,
) -> Result<Marking, Error> {
    let now = time_text(environment().clock.now());
    let today = now.get(..10);
    let source = format!("run {run}");
    file.with_statuses(Statuses { of_steps, today, source: &source })
}

/// The message about steps without a mark, by their names.
pub(crate) fn unmarked_steps_text(names: &[String], file: &Path) -> Option<String> {
    let count = names.len();
    let shown = names.iter().take(SHOWN_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let rest = match count.checked_sub(SHOWN_MAX) {
        Some(rest) if rest > 0 => format!(", and {rest} more"),
        _ => String::new(),
    };
    let have = if count == 1 { "has" } else { "have" };
    let text = format!(
        "{}: {} {have} no mark there, or none for that status: {shown}{rest}",
        file.display(),
        counted(u64::try_from(count).unwrap_or(u64::MAX), "step")
    );
    (count > 0).then_some(text)
}
