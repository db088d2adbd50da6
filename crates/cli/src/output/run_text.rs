//! The text of `ledger run`: progress lines, the summary, and the items that a run waits for.

use std::fmt::Write as _;
use std::path::Path;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::{
    BudgetPart, Micros, PauseCause, QuestionBody, QuestionSubject, ResolvedOutcome, VALUE,
};
use plan_ledger::{ContentHash, QuestionId, ReplanTrigger, Ruling, Timestamp};

use crate::protocol::{StepName, class_word, counted};
use crate::runner::{Pending, Progress, RunOutcome, RunSummary, STOPPING, Unrecorded};

use super::budget::{cost_text, paused_text};
use super::question::question_subject_text;
use super::reader::{is_for_agent, is_for_reader};
use super::render::local_moment;
use crate::protocol::{option, quoted, shell_command};

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

/// What is said when a disk is nearly full no longer.
pub(super) const ROOM_AGAIN: &str = "the disk has room again: the run continues";

/// Why nothing is dispatched, or that there is room again.
pub(crate) fn disk_text(problem: Option<&str>) -> String {
    problem.map_or_else(
        || ROOM_AGAIN.to_owned(),
        |problem| format!("no step starts until there is room: {problem}"),
    )
}

/// Whose steps wait, until when, and why; or which second owner takes them meanwhile.
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

/// A step as an argument of a command: its id, or its number if the id looks like an option or a
/// number, or is too long to type.
pub(crate) fn step_argument(step: &StepName) -> String {
    let is_id = !step.id.starts_with(['-', '#']) && step.id.chars().count() <= TYPED_MAX;
    if is_id { step.id.clone() } else { format!("#{}", step.number) }
}

/// The longest id in a command, in characters.
const TYPED_MAX: usize = 40;

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
        let _ = write!(line, "; {} were already done in the plan file", counts.taken_over);
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
        RunOutcome::Waiting(items) => {
            items.iter().map(|item| pending_text(item, run, ledger)).collect()
        }
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

/// An item that a run waits for, followed by the commands that resolve it.
pub(crate) fn pending_text(item: &Pending, run: &str, ledger: &Path) -> String {
    let (text, commands) = pending_commands(item, run, ledger);
    let lines = commands.iter().map(|command| format!("\n      {command}"));
    std::iter::once(text).chain(lines).collect()
}

/// An item that a run waits for, and the commands with which its reader resolves it.
pub(crate) fn pending_commands(item: &Pending, run: &str, ledger: &Path) -> (String, Vec<String>) {
    let (text, mut commands) = all_commands(item, run, ledger);
    commands.retain(|command| is_for_reader(command));
    (text, commands)
}

/// The command that approves a version of a run, and no other than the one that was shown.
pub(crate) fn approve_command(run: &str, ledger: &Path, hash: ContentHash) -> String {
    let approve = shell_command("plan approve", ledger, &[run]);
    format!("{approve} {}", option("--shown", &hash.short()))
}

/// The commands with which a person reads what a run executes, and approves it for a folder, if that is there.
fn approve_in(folder: &str, run: &str, ledger: &Path, hash: ContentHash) -> Vec<String> {
    let review = shell_command("plan review", ledger, &[run]);
    let whole = ledger.canonicalize().unwrap_or_else(|_| ledger.to_owned());
    let approve = format!("cd {} && {}", quoted(folder), approve_command(run, &whole, hash));
    let approve = Some(approve).filter(|_| Path::new(folder).is_dir());
    std::iter::once(review).chain(approve).collect()
}

/// The command that starts a process which checks a run and needs no worker, also beside a server. In the shell of
/// an agent none does.
fn judge_commands(run: &str, ledger: &Path) -> Vec<String> {
    if is_for_agent() {
        return Vec::new();
    }
    vec![format!("{} --judge-only --wait", shell_command("work", ledger, &[run]))]
}

/// An item that a run waits for, and the commands that resolve it. Where the answer lets the run execute
/// something, the first command shows it.
fn all_commands(item: &Pending, run: &str, ledger: &Path) -> (String, Vec<String>) {
    let line = |verb: &str, words: &[&str]| shell_command(verb, ledger, words);
    match item {
        Pending::Question { id, step, asked } => {
            let number = id.0.to_string();
            let answer = |option: &String| match option.as_str() {
                VALUE => line("answer", &[&number, "VALUE"]),
                option => line("answer", &[&number, option]),
            };
            let shown = showing_command(step.as_ref(), asked, run, ledger).into_iter();
            let commands = shown.chain(asked.options.iter().map(answer)).collect();
            (question(*id, step.as_ref(), asked), commands)
        }
        Pending::Review { version, hash } => (
            format!("version {version} of the plan ({}) waits for approval", hash.short()),
            vec![line("plan review", &[run]), approve_command(run, ledger, *hash)],
        ),
        Pending::Paused { cause } => {
            let command = match cause {
                PauseCause::RunBudget { part } => budget(*part, &[run], ledger),
                PauseCause::LedgerBudget { part } => budget(*part, &[], ledger),
                PauseCause::Person { .. }
                | PauseCause::StepLimit { .. }
                | PauseCause::Runner { .. } => line("unpause", &[run]),
            };
            (format!("the run is {}", paused_text(cause)), vec![command])
        }
        Pending::Replan { .. } => replan_commands(item, run, ledger),
        Pending::Decision { step, message } => {
            let commands = decision_commands(step, run, ledger);
            (format!("{step} waits for a decision about its failure: {message}"), commands)
        }
        Pending::Verdicts { step, criteria } => (
            format!("{step} waits for a verdict on: {}", criteria.join("; ")),
            vec![line("accept", &[run, &step_argument(step)])],
        ),
        Pending::Checks { step, criteria } => (
            format!("{step} waits for a runner or a judge to check: {}", criteria.join("; ")),
            judge_commands(run, ledger),
        ),
        Pending::PlanChecks { criteria } => (
            format!("the plan waits for a runner or a judge to check: {}", criteria.join("; ")),
            judge_commands(run, ledger),
        ),
        Pending::Commands { version, hash, commands } => (
            format!(
                "nothing is checked before a person approves what version {version} of the plan \
                 executes: {}",
                commands.join("; ")
            ),
            vec![line("plan review", &[run]), approve_command(run, ledger, *hash)],
        ),
        Pending::Misplaced { step, work, reason, hash, .. } => (
            format!("{step} is reported, and no judge checks it: {reason}"),
            approve_in(work, run, ledger, *hash),
        ),
        Pending::PlanVerdicts { criteria } => (
            format!("the plan waits for a verdict on: {}", criteria.join("; ")),
            vec![line("accept", &[run, "plan"])],
        ),
        Pending::OutcomeUnknown { step } => (
            format!(
                "the outcome of {step} is unknown: a lost attempt may have done it, and the step \
                 must not be done twice"
            ),
            outcome_commands(step, run, ledger),
        ),
        Pending::Held { step, worker, lease_until } => {
            let until = time_text(*lease_until);
            let text = format!(
                "{step} is claimed by {worker}, a worker outside this runner; its lease expires at \
                 {until}"
            );
            (text, Vec::new())
        }
        Pending::Person { step, owner } => {
            let claim = line("claim", &[run, "--step", &step_argument(step)]);
            let claim = format!("{claim} {} --worker NAME", option("--owner", owner));
            let skip = format!("{} --reason WHY", line("skip", &[run, &step_argument(step)]));
            (format!("{step} waits for a person ({owner}) to do it"), vec![claim, skip])
        }
        Pending::Routed { ready, owners } => {
            let steps = counted_of(*ready, "step is", "steps are");
            let owners = match owners.as_slice() {
                [] => String::new(),
                owners => format!(" (owners: {})", owners.join(", ")),
            };
            (format!("{steps} ready for other workers{owners}"), Vec::new())
        }
        Pending::Caps { ready } => (
            format!("{} ready, but a cap is reached", counted_of(*ready, "step is", "steps are")),
            vec![line("cap", &["--help"])],
        ),
        Pending::Blocked { steps } => {
            let steps = counted_of(*steps, "step is", "steps are");
            (format!("{steps} blocked by dependencies that can never be met"), Vec::new())
        }
    }
}

/// A request for a new version, and the commands that resolve it: a value that would do comes first.
fn replan_commands(item: &Pending, run: &str, ledger: &Path) -> (String, Vec<String>) {
    let Pending::Replan { trigger, from, is_failed, limit, reason, file, unset } = item else {
        return (String::new(), Vec::new());
    };
    let line = |verb: &str, words: &[&str]| shell_command(verb, ledger, words);
    let mut commands: Vec<String> =
        unset.iter().map(|name| line("set", &[name, "VALUE", "--run", run])).collect();
    if let Some(step) = from.as_ref().filter(|_| *is_failed) {
        let step = step_argument(step);
        commands.push(line("retry", &[run, &step]));
        commands.push(format!("{} --reason WHY", line("skip", &[run, &step])));
    }
    commands.push(match limit {
        Some(_) => {
            let request = line("plan request", &[run, "--kind", "scope-change"]);
            format!("{request} --reason WHY")
        }
        None => line("plan propose", &[file, "--run", run]),
    });
    commands.push(format!("{} --reason WHY", line("plan withdraw", &[run])));
    let text = replan(trigger, from.as_ref(), reason, *limit);
    let text = match unset.as_slice() {
        [] => text,
        names => format!("no step sets {}: set a value, or else {text}", names.join(", ")),
    };
    (text, commands)
}

/// The command that shows what the answer to a question lets the run execute, if it lets it.
fn showing_command(
    step: Option<&StepName>,
    asked: &QuestionBody,
    run: &str,
    ledger: &Path,
) -> Option<String> {
    match (&asked.subject, step) {
        (QuestionSubject::Plan { .. }, _) => Some(shell_command("plan review", ledger, &[run])),
        (QuestionSubject::Gate, Some(step)) => Some(step_command(step, run, ledger)),
        _ => None,
    }
}

/// The command that shows a step with everything that it executes.
pub(crate) fn step_command(step: &StepName, run: &str, ledger: &Path) -> String {
    shell_command("inspect", ledger, &["step", run, &step_argument(step)])
}

fn counted_of(number: u32, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn question(id: QuestionId, step: Option<&StepName>, asked: &QuestionBody) -> String {
    let about = step.map(|step| format!("{step}, ")).unwrap_or_default();
    let to = asked.to.as_ref().map(|to| format!(" for {to}")).unwrap_or_default();
    let until =
        asked.deadline.map(|time| format!(", until {}", time_text(time))).unwrap_or_default();
    let subject = question_subject_text(&asked.subject);
    format!("question {}{to}{until}: {about}{subject}: {}", id.0, asked.text)
}

fn replan(
    trigger: &ReplanTrigger,
    from: Option<&StepName>,
    reason: &str,
    limit: Option<u32>,
) -> String {
    if *trigger == ReplanTrigger::Extension {
        return format!(
            "the plan needs more steps ({reason}): add them and repeat the command with --replan, \
             or withdraw the request"
        );
    }
    let from = from.map(|step| format!(" from {step} on")).unwrap_or_default();
    if let Some(max) = limit {
        return format!(
            "a new plan version is needed{from}: {reason}; the replan limit ({max}) is reached: \
             request it as a change of scope, or withdraw the request"
        );
    }
    format!(
        "a new plan version is needed{from}: {reason}; change the plan and repeat the command \
         with --replan, or withdraw the request"
    )
}

/// The command that raises a budget.
fn budget(part: BudgetPart, run: &[&str], ledger: &Path) -> String {
    let more = match part {
        BudgetPart::Money => ["--money", "1.00"],
        BudgetPart::Tokens => ["--tokens", "100000"],
        BudgetPart::Attempts => ["--attempts", "10"],
        BudgetPart::Wall => ["--wall", "1h"],
    };
    shell_command("budget raise", ledger, &[run, &more].concat())
}

/// The commands that decide about the failure of a step, one for each decision.
fn decision_commands(step: &StepName, run: &str, ledger: &Path) -> Vec<String> {
    let decisions = ["retry", "fail", "fallback", "replan", "escalate", "abort"];
    answer_commands(step, run, ledger, &decisions)
}

/// The commands that report the unknown outcome of a step, one for each outcome.
fn outcome_commands(step: &StepName, run: &str, ledger: &Path) -> Vec<String> {
    answer_commands(step, run, ledger, &["landed", "did-not-happen"])
}

fn answer_commands(step: &StepName, run: &str, ledger: &Path, answers: &[&str]) -> Vec<String> {
    let step = step_argument(step);
    let command = |answer: &&str| shell_command("answer", ledger, &[run, &step, answer]);
    answers.iter().map(command).collect()
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
