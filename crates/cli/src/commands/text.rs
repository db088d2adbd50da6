//! The summary of a run, for people.

use std::fmt::Write as _;
use std::path::Path;

use crate::runner::{Pending, RunOutcome, RunSummary, StepName, Unrecorded, class_word};
use plan_ledger::ledger::time_text;
use plan_ledger::plan::{Asked, BudgetPart, Cost, Micros, PauseCause, QuestionId, ReplanTrigger};

use super::answer::command_line;
use super::inspect::{cause_text, subject_text};

/// How many items of a list are shown.
const SHOWN_MAX: usize = 10;

/// How a run stands, in one word.
pub(super) fn outcome_word(outcome: &RunOutcome) -> &'static str {
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

/// A few lines: how the run stands, what was counted, and what to do next.
pub(super) fn summary(summary: &RunSummary, ledger: &Path) -> String {
    let mut text = format!("run {}: {}\n", summary.run, outcome_word(&summary.outcome));
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
    let notes = summary.notes.iter().map(|(step, note)| match step {
        Some(step) => format!("noticed: {step}: {note}"),
        None => format!("noticed: {note}"),
    });
    push_list(&mut text, notes.collect());
    push_list(&mut text, what_next(summary, ledger));
    text
}

/// A step as a command line may name it: an id that looks like an option
/// cannot, and one that looks like a number may be taken for it.
pub(super) fn word(step: &StepName) -> String {
    if step.id.starts_with(['-', '#']) { format!("#{}", step.number) } else { step.id.clone() }
}

fn steps(summary: &RunSummary) -> String {
    let counts = &summary.counts;
    let mut line = format!("  {} of {} steps accepted", counts.accepted, counts.steps);
    if counts.skipped > 0 {
        let _ = write!(line, ", {} skipped", counts.skipped);
    }
    if counts.failed > 0 {
        let _ = write!(line, ", {} failed", counts.failed);
    }
    if counts.taken_over > 0 {
        let _ = write!(line, "; {} were done before and taken over", counts.taken_over);
    }
    if counts.trusted > 0 {
        let _ = write!(line, "; {} of {} on the worker's word", counts.trusted, counts.steps);
    }
    line.push('\n');
    line
}

fn attempts(summary: &RunSummary) -> String {
    let (counts, session) = (&summary.counts, &summary.session);
    let mut line =
        format!("  {} attempts in all; this time {} dealt", counts.attempts, session.dealt);
    for (count, what) in
        [(session.retries, "to retry"), (session.lost, "lost"), (session.refused, "refused")]
    {
        if count > 0 {
            let _ = write!(line, ", {count} {what}");
        }
    }
    let _ = writeln!(line, " in {}; cost {}", seconds(session.duration), cost(counts.cost));
    line
}

/// What somebody has to do, with the command to do it.
fn what_next(summary: &RunSummary, ledger: &Path) -> Vec<String> {
    let run = summary.run.as_str();
    match &summary.outcome {
        RunOutcome::Waiting(items) => items.iter().map(|item| pending(item, run, ledger)).collect(),
        RunOutcome::Interrupted => vec!["stopped with work left; run it again to go on".to_owned()],
        RunOutcome::Failed => vec![
            "to go on: add --retry-failed to try the failed steps again, or change the plan and \
             add --replan"
                .to_owned(),
        ],
        RunOutcome::Stopped { unrecorded, .. } => {
            let lost = |lost: &Unrecorded| {
                format!(
                    "not recorded: the receipt of {}, attempt token {}; it is dealt again",
                    lost.step, lost.token
                )
            };
            let mut lines: Vec<String> = unrecorded.iter().map(lost).collect();
            lines.push("run it again to go on, once the cause is gone".to_owned());
            lines
        }
        RunOutcome::Done | RunOutcome::Cancelled | RunOutcome::Aborted => Vec::new(),
    }
}

/// Something that a run waits for, with the commands to do something about it.
pub(super) fn pending(item: &Pending, run: &str, ledger: &Path) -> String {
    let (text, commands) = asked(item, run, ledger);
    let lines = commands.iter().map(|command| format!("\n      {command}"));
    std::iter::once(text).chain(lines).collect()
}

/// Something that a run waits for, and the commands to do something about it.
pub(super) fn asked(item: &Pending, run: &str, ledger: &Path) -> (String, Vec<String>) {
    let line = |verb: &str, words: &[&str]| command_line(verb, ledger, words);
    match item {
        Pending::Question { id, step, asked } => {
            let command = line("answer", &[&id.0.to_string()]);
            let options = asked.options.join("|");
            (question(*id, step.as_ref(), asked), vec![format!("{command} {options} --by WHO")])
        }
        Pending::Review { version, hash } => (
            format!("version {version} of the plan ({}) waits for a yes", hash.short()),
            vec![line("plan review", &[run]), line("plan approve", &[run, "--by", "WHO"])],
        ),
        Pending::Paused { cause } => {
            let command = match cause {
                PauseCause::RunBudget(part) => budget(*part, &[run], ledger),
                PauseCause::LedgerBudget(part) => budget(*part, &[], ledger),
                PauseCause::Person(_) | PauseCause::StepLimit(_) => {
                    line("resume", &[run, "--by", "WHO"])
                }
            };
            (format!("it pauses, {}", cause_text(cause)), vec![command])
        }
        Pending::Replan { trigger, from, reason } => {
            let withdraw = line("plan withdraw", &[run, "--by", "WHO"]);
            (replan(trigger, from.as_ref(), reason), vec![withdraw])
        }
        Pending::Decision { step, message } => {
            let answers = "retry|fail|fallback|replan|escalate|abort --by WHO";
            let command = format!("{} {answers}", line("answer", &[run, &word(step)]));
            (format!("{step} waits for a decision about its failure: {message}"), vec![command])
        }
        Pending::Verdicts { step, criteria } => (
            format!("{step} waits for a verdict on: {}", criteria.join("; ")),
            vec![line("accept", &[run, &word(step), "--by", "WHO"])],
        ),
        Pending::PlanVerdicts { criteria } => (
            format!("the plan waits for a verdict on: {}", criteria.join("; ")),
            vec![line("accept", &[run, "plan", "--by", "WHO"])],
        ),
        Pending::Doubt { step } => (
            format!(
                "{step} is in doubt: an attempt may have done it, and it must not be done twice"
            ),
            ["landed", "did-not-happen"]
                .map(|finding| line("answer", &[run, &word(step), finding, "--by", "WHO"]))
                .into(),
        ),
        Pending::Held { step, worker, lease_until } => {
            let until = time_text(*lease_until);
            let text = format!(
                "{step} is held by {worker}, a worker outside this runner, until its lease runs \
                 out at {until}"
            );
            (text, Vec::new())
        }
        Pending::Caps { ready } => (
            format!("{ready} steps are ready, but a cap holds them back"),
            vec![line("cap", &["--help"])],
        ),
        Pending::Blocked { steps } => {
            (format!("{steps} steps wait for what will not come"), Vec::new())
        }
    }
}

fn question(id: QuestionId, step: Option<&StepName>, asked: &Asked) -> String {
    let about = step.map(|step| format!("{step}: ")).unwrap_or_default();
    let who = asked.to.as_ref().map(|who| format!(", asked of {who}")).unwrap_or_default();
    let until =
        asked.deadline.map(|time| format!(", until {}", time_text(time))).unwrap_or_default();
    let subject = subject_text(&asked.subject);
    format!("question {}, {about}{subject}{who}{until}: {}", id.0, asked.text)
}

fn replan(trigger: &ReplanTrigger, from: Option<&StepName>, reason: &str) -> String {
    if *trigger == ReplanTrigger::Extension {
        return format!(
            "the planner is asked for more steps ({reason}): add them to the plan and run it with \
             --replan, or say that there is no more to do"
        );
    }
    let from = from.map(|step| format!(" from {step} on")).unwrap_or_default();
    format!(
        "another plan is needed{from}: {reason}; change it and run it with --replan, or say that \
         it may stay"
    )
}

/// How a budget is raised.
fn budget(part: BudgetPart, run: &[&str], ledger: &Path) -> String {
    let option = match part {
        BudgetPart::Money => "--money-micros",
        BudgetPart::Tokens => "--tokens",
        BudgetPart::Attempts => "--attempts",
        BudgetPart::Wall => "--wall-seconds",
    };
    command_line("budget", ledger, &[run, &[option, "N", "--by", "WHO"]].concat())
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
pub(super) fn seconds(micros: Micros) -> String {
    let tenths = micros / 100_000;
    format!("{}.{} s", tenths / 10, tenths % 10)
}

/// Money in units, and tokens; 0 when there is neither.
pub(super) fn cost(cost: Cost) -> String {
    let Cost { money_micros, tokens } = cost;
    let mut text = if money_micros == 0 {
        "0".to_owned()
    } else {
        format!("{}.{:06}", money_micros / 1_000_000, money_micros % 1_000_000)
    };
    if tokens > 0 {
        let _ = write!(text, " and {tokens} tokens");
    }
    text
}

#[cfg(test)]
mod tests {
    //! Goal: figures read the way people write them.

    use super::*;

    #[test]
    fn figures() {
        assert_eq!(seconds(12_340_000), "12.3 s");
        assert_eq!(cost(Cost::default()), "0");
        assert_eq!(cost(Cost { money_micros: 1_050_000, tokens: 7 }), "1.050000 and 7 tokens");
    }
}
