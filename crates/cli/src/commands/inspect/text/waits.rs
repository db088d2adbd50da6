//! What the runner of a run waits for before it dispatches ready steps, for people.

use plan_ledger::{Run, Timestamp};

use crate::commands::inspect::text::units::moment;
use crate::output::escape_control;
use crate::protocol::counted;
use crate::runner::RunWait;

/// What a runner waits for, for people.
pub(crate) fn wait_text(wait: &RunWait, run: &Run, now: Timestamp) -> String {
    let until = moment(wait.until, now);
    let reason = escape_control(wait.reason.lines().next().unwrap_or_default());
    let who = match (&wait.owner, wait.is_whole_run) {
        (_, true) => "the runner waits".to_owned(),
        (Some(owner), _) => format!("owner {} waits", escape_control(owner)),
        (None, _) => "the steps without an owner wait".to_owned(),
    };
    let ready = wait.ready_count(run);
    let ready = match u64::try_from(ready).unwrap_or(u64::MAX) {
        0 => String::new(),
        ready => format!(", {}", counted(ready, "ready step")),
    };
    format!("{who} until {until}{ready}: {reason}")
}

/// What the runner of a run waits for.
pub(crate) fn waits_of<'a>(
    waits: &'a [RunWait],
    run: &Run,
) -> impl Iterator<Item = &'a RunWait> + Clone {
    let id = run.id;
    waits.iter().filter(move |wait| wait.run == id)
}
