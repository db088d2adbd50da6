//! Keeps a drill for `ledger plan review` and `ledger run`.

use plan_ledger::Run;

use super::last_drill::LastDrill;
use crate::options::environment;
use crate::output::print_message;

/// Keeps the drill as the last one of the plan with which its run began: the file may have changed
/// since then. A drill that cannot be kept is still valid.
pub(super) fn keep(run: &Run, (holds, what): (bool, String)) {
    let Some(plan) = run.versions.first().map(|version| version.hash) else { return };
    let time_micros = environment().clock.now();
    if let Err(error) = (LastDrill { holds, time_micros, what }).keep(plan) {
        print_message(&format!("`ledger plan review` will not know this drill: {error}"));
    }
}
