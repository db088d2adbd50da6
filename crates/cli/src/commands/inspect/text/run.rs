//! How a run stands, in one painted sentence.

use plan_ledger::Ending;
use plan_ledger_views::{Activity, RunActivity};

use crate::output::escape_control;
use crate::output::render::{Paint, Style};

pub(crate) use plan_ledger_views::{progress_text, run_status_text, spent_text};

/// How a run stands, in one sentence.
pub(crate) fn activity_text(stands: &RunActivity, style: Style) -> String {
    let paint = match &stands.activity {
        Activity::Ended { ending: Ending::Done } => Paint::Good,
        Activity::Ended { .. }
        | Activity::Unknown
        | Activity::Stopped
        | Activity::Blocked { .. } => Paint::Bad,
        Activity::Working { .. }
        | Activity::InFlight { .. }
        | Activity::Checking { .. }
        | Activity::Ready { .. } => Paint::None,
        _ => Paint::Notice,
    };
    style.paint(paint, &escape_control(&stands.to_string()))
}
