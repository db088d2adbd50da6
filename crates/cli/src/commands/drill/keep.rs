//! Keeps a drill for `ledger plan review` and `ledger run`.

use plan_ledger::plan_hash;

use crate::commands::last_drill::LastDrill;
use crate::options::environment;
use crate::output::print_message;

use super::args::DrillArgs;

/// Keeps the drill as the last one of its plan. Without it, the drill is as good.
pub(super) fn keep(args: &DrillArgs, (holds, what): (bool, String)) {
    let Ok(file) = args.read.read(&args.plan) else { return };
    let time_micros = environment().clock.now();
    if let Err(error) = (LastDrill { holds, time_micros, what }).keep(plan_hash(&file.plan)) {
        print_message(&format!("`ledger plan review` will not know this drill: {error}"));
    }
}
