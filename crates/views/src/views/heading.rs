//! The heading of a view of a run: its name, and how it stands.

use plan_ledger::{Ending, Run};

use crate::activity::{Activity, RunActivity};
use crate::layout::{Document, Paint, Text};

/// The heading of a view of a run: `queue of run demo (1): working on 2 steps`.
#[must_use]
pub fn run_heading(what: &str, run: &Run, stands: &RunActivity) -> Document {
    let name = if what.is_empty() { String::new() } else { format!("{what} of ") };
    let name = Text::painted(Paint::Heading, format!("{name}run {}", run.name));
    let name = name.plain(format!(" ({}): ", run.id));
    let mut document = Document::default();
    document.heading(name.and(activity_paint(stands), stands.to_string()));
    document
}

/// The paint of how a run stands.
pub(super) fn activity_paint(stands: &RunActivity) -> Paint {
    match &stands.activity {
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
    }
}
