//! The text of `ledger run`: progress lines, the summary, and the items that a run waits for.

use std::fmt::Write as _;
use std::path::Path;

use plan_ledger::plan::{Micros, ResolvedOutcome};
use plan_ledger::{Ruling, Timestamp};
use plan_ledger_views::{cost_text, waiting_texts};

use crate::protocol::{class_word, counted};
use crate::runner::{Progress, RunOutcome, RunSummary, STOPPING, Unrecorded};

use super::reader::reader;
use super::render::local_moment;

/// The maximum number of items of a list that are shown.
const SHOWN_MAX: usize = 10;

/// The name of an outcome, in text and in JSON.
pub(super) fn outcome_name(outcome: &RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Done => "done",
        RunOutcome::Failed => "failed",
        RunOutcome::Cancelled => "cancelled",
        RunOutcome::Aborted => "aborted",
        RunOutcome::Waiting(_) => "waiting",
        RunOutcome::Interrupted => "interrupted",
        RunOutcome::Stopped { .. } => "stopped",
    }
}

/// The line for an event of a run; `None` for events that have none.
pub(super) fn progress_text(progress: &Progress) -> Option<String> {
    Some(match progress {
        Progress::Lost { step, detail, status, .. } => {
            format!("{step}: attempt lost: {detail}; the step is {status}")
        }
        Progress::Dispatched { step, title, attempt, second_owner, .. } => {
            let owner = second_owner.as_ref().map(|owner| format!(" to {owner}"));
            let owner = owner.unwrap_or_default();
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            let title = if title.is_empty() { String::new() } else { format!(": {title}") };
            format!("{step}: dispatched{owner}{again}{title}")
        }
        Progress::Receipt { step, outcome, message, status, .. } => match *outcome {
            "succeeded" if message.is_empty() => format!("{step}: {status}"),
            "succeeded" => format!("{step}: not accepted: {message}; the step is {status}"),
            _ => format!("{step}: {}: {message}; the step is {status}", outcome.replace('_', " ")),
        },
        Progress::Refused { step, reason, .. } => format!("{step}: receipt rejected: {reason}"),
        Progress::Verdict { step, criterion, ruling, by, evidence, status } => {
            let subject = step.as_ref().map_or_else(|| "plan".to_owned(), ToString::to_string);
            // Evidence of a failure has several lines, so it comes last.
            let result = |by: &str, status: &str| match ruling {
                Ruling::Pass => format!("holds{by}: {}{status}", first_line(evidence)),
                Ruling::Fail => format!("does not hold{by}{status}: {}", evidence_lines(evidence)),
            };
            let status = status.map(|status| format!("; the step is {status}")).unwrap_or_default();
            let by =
                by.strip_prefix("judge:").map(|_| format!(", judged by {by}")).unwrap_or_default();
            format!("{subject}: criterion {} {}", criterion + 1, result(&by, &status))
        }
        Progress::Probed { step, finding, evidence, status } => {
            let found = match finding {
                Some(ResolvedOutcome::Landed) => "the lost attempt did its work",
                Some(ResolvedOutcome::DidNotHappen) => "the lost attempt did nothing",
                None => "the probe cannot tell what the lost attempt did",
            };
            let evidence = evidence.lines().next().unwrap_or_default();
            format!("{step}: {found}: {evidence}; the step is {status}")
        }
        Progress::Proposed { version, by, is_active } => {
            let status = if *is_active { "it is active" } else { "it waits for approval" };
            format!("{by} proposed version {version} of the plan; {status}")
        }
        Progress::Noted { step, note } => match step {
            Some(step) => format!("{step}: {note}"),
            None => note.clone(),
        },
        Progress::Disk { problem } => disk_text(problem.as_deref()),
        Progress::Waiting { until, reason } => {
            format!("waiting until {}: {reason}", local_moment(*until))
        }
        Progress::Held { owner, second_owner, until, reason, .. } => {
            held_text((owner.as_deref(), second_owner.as_deref()), *until, reason)
        }
        Progress::Draining { reason, running } => {
            let more = if reason == STOPPING && *running > 0 {
                ": Ctrl-C again (or SIGTERM) ends them"
            } else {
                ""
            };
            format!("{reason}: no more steps are dispatched; {running} still running{more}")
        }
        Progress::BudgetUsed(used) => used.to_string(),
        Progress::Started { .. } | Progress::Counted { .. } => return None,
    })
}

/// The message when a disk is no longer nearly full.
pub(super) const ROOM_AGAIN: &str = "the disk has room again: the run continues";

/// Why nothing is dispatched, or that there is room again.
pub(crate) fn disk_text(problem: Option<&str>) -> String {
    problem.map_or_else(
        || ROOM_AGAIN.to_owned(),
        |problem| format!("no step starts until there is room: {problem}"),
    )
}

/// The owner of the waiting steps, the end and the reason of the wait; or the second owner that
/// takes the steps meanwhile.
pub(crate) fn held_text(
    (owner, second): (Option<&str>, Option<&str>),
    until: Option<Timestamp>,
    reason: &str,
) -> String {
    let whose = owner.map_or_else(|| "steps".to_owned(), |owner| format!("steps of {owner}"));
    let Some(until) = until.map(local_moment) else {
        return second.map_or_else(
            || format!("{whose} wait for an answer: {reason}"),
            |second| format!("{whose} go to {second} until there is an answer: {reason}"),
        );
    };
    match second {
        Some(second) => format!("{whose} go to {second} until {until}: {reason}"),
        None => format!("{whose} wait until {until}, then one is tried: {reason}"),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Evidence whole, its further lines indented.
fn evidence_lines(evidence: &str) -> String {
    evidence.lines().collect::<Vec<_>>().join("\n    ")
}

/// A few lines: the outcome, the counts, and the next actions.
pub(crate) fn summary_text(summary: &RunSummary, ledger: &Path) -> String {
    let mut text = format!("run {}: {}\n", summary.run, outcome_name(&summary.outcome));
    text.push_str(&steps(summary));
    text.push_str(&attempts(summary));
    let failed = summary.failures.iter().map(|(step, class, message)| {
        let message = message.lines().next().unwrap_or_default();
        format!("failed: {step}: {}: {message}", class_word(*class))
    });
    push_list(&mut text, failed.collect());
    let criteria = summary.failed_criteria.iter().map(|(criterion, evidence)| {
        let evidence = evidence.lines().next().unwrap_or_default();
        format!("the plan's criterion does not hold: {criterion}: {evidence}")
    });
    push_list(&mut text, criteria.collect());
    let trusted = summary.trusted.iter().map(|(step, check)| {
        let text = check.text.lines().next().unwrap_or_default();
        format!("on the worker's word: {step}: {text}")
    });
    push_list(&mut text, trusted.collect());
    let notes = summary.notes.iter().map(|(step, note)| match step {
        Some(step) => format!("note: {step}: {note}"),
        None => format!("note: {note}"),
    });
    push_list(&mut text, notes.collect());
    push_list(&mut text, next_actions(summary, ledger));
    text
}

fn steps(summary: &RunSummary) -> String {
    let counts = &summary.counts;
    let mut line = format!("  {} of {} steps accepted", counts.accepted, counts.steps);
    if counts.continues {
        line.push_str(" so far, and the plan continues");
    }
    if counts.skipped > 0 {
        let _ = write!(line, ", {} skipped", counts.skipped);
    }
    if counts.failed > 0 {
        let _ = write!(line, ", {} failed", counts.failed);
    }
    if counts.taken_over > 0 {
        let were = if counts.taken_over == 1 { "was" } else { "were" };
        let _ = write!(line, "; {} {were} already done in the plan file", counts.taken_over);
    }
    if counts.trusted > 0 {
        let _ = write!(line, "; {} of {} trusted without a check", counts.trusted, counts.steps);
    }
    line.push('\n');
    line
}

fn attempts(summary: &RunSummary) -> String {
    let (counts, session) = (&summary.counts, &summary.session);
    let total = counted(counts.attempts, "attempt");
    let duration = seconds(session.duration);
    let mut line =
        format!("  {total} in total; this session ({duration}): {} dispatched", session.dispatched);
    for (count, what) in
        [(session.retries, "to be retried"), (session.lost, "lost"), (session.refused, "rejected")]
    {
        if count > 0 {
            let _ = write!(line, ", {count} {what}");
        }
    }
    let _ = writeln!(line, "; cost {}", cost_text(counts.cost));
    line
}

/// The next actions of a person, with their commands.
fn next_actions(summary: &RunSummary, ledger: &Path) -> Vec<String> {
    let run = summary.run.as_str();
    match &summary.outcome {
        RunOutcome::Waiting(items) => waiting_texts(items, run, ledger, reader()),
        RunOutcome::Interrupted => {
            vec!["stopped with work left; repeat the command to continue".to_owned()]
        }
        RunOutcome::Failed => vec![
            "to continue, repeat the command with --retry-failed, or change the plan and repeat it \
             with --replan"
                .to_owned(),
        ],
        RunOutcome::Stopped { unrecorded, .. } => {
            let lost = |lost: &Unrecorded| {
                format!(
                    "not recorded: the receipt of {}, attempt token {}; its result is kept in \
                     {}/work, and the next run records it",
                    lost.step,
                    lost.token,
                    ledger.display()
                )
            };
            let mut lines: Vec<String> = unrecorded.iter().map(lost).collect();
            // Without its ledger, the run cannot be continued.
            if ledger.exists() {
                lines.push("fix the cause, then repeat the command to continue".to_owned());
            }
            lines
        }
        RunOutcome::Done | RunOutcome::Cancelled | RunOutcome::Aborted => Vec::new(),
    }
}

fn push_list(text: &mut String, items: Vec<String>) {
    let more = items.len().saturating_sub(SHOWN_MAX);
    for item in items.into_iter().take(SHOWN_MAX) {
        text.push_str("  ");
        text.push_str(&item);
        text.push('\n');
    }
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
}

/// Seconds with one decimal.
fn seconds(micros: Micros) -> String {
    let tenths = micros / 100_000;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    //! Goal: figures have the units that people expect.

    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(seconds(12_340_000), "12.3 s");
    }
}
