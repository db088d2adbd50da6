//! Each event as a single line of text.

use plan_ledger::log::{
    ErasureNote, GapNote, LostRecords, RecoveryNote, RetentionNote, SnapshotNote, WriterNote,
    WriterReason,
};
use plan_ledger::plan::{
    AcceptedBasis, AfterLoss, BarrierChange, BlobOutput, BudgetChanged, CapScope, Condition,
    ConditionJudged, CostCorrected, FailureSettingsChanged, OnTimeout, Origin, QuestionAnswer,
    QuestionBody, QuestionExpiry, ReplanKind, ReplanRequested, ResolvedOutcome, Review, RunForked,
    RunPaused, StepEvent, VariableSet,
};
use plan_ledger::{
    Decision, Event, FailureClass, Note, Outcome, Output, Receipt, ReplanTrigger, Ruling, RunId,
    StepNumber, Verdict,
};

use crate::render::cut;
use crate::words::{
    cost_text, count, counted, limits_text, paused_text, phrase, question_subject_text, seconds,
    size, span,
};

/// The run and the step of an event.
#[must_use]
pub fn event_subject(event: &Event) -> (Option<RunId>, Option<StepNumber>) {
    let run = match event {
        Event::RunStarted(event) => event.run,
        Event::PlanProposed(event) => event.run,
        Event::PlanSteps(event) => event.run,
        Event::PlanReviewed(event) => event.run,
        Event::PlanActivated(event) => event.run,
        Event::Step(record) => return (Some(record.run), Some(record.step)),
        Event::PlanVerdict(event) => event.run,
        Event::VariableSet(event) => event.run,
        Event::BarrierChanged(event) => event.run,
        Event::CapChanged(event) => match event.scope {
            CapScope::Run { run } => run,
            CapScope::Ledger | CapScope::Owner { .. } | CapScope::Tag { .. } => {
                return (None, None);
            }
        },
        Event::FailureSettingsChanged(event) => event.run,
        Event::RunEnded(event) => event.run,
        Event::RunReopened(event) => event.run,
        Event::HelperEnded(event) => event.run,
        other => return (other.run(), None),
    };
    (Some(run), None)
}

/// An event in one line.
#[must_use]
pub fn event_text(event: &Event) -> String {
    match event {
        Event::RunStarted(event) => format!(
            "run {} started: approval {}, text criteria {}, on failure {}",
            event.name,
            phrase(&event.policy.approval),
            phrase(&event.policy.text),
            phrase(&event.policy.on_failure)
        ),
        Event::PlanProposed(event) => {
            let steps = counted(event.step_count.into(), "step");
            let (version, hash) = (event.version, event.hash.short());
            let title = reason_suffix(&event.header.title);
            format!(
                "version {version} proposed: {steps}, plan {hash}{title}{}",
                reason_suffix(&event.reason)
            )
        }
        Event::PlanSteps(event) => {
            let steps = u64::try_from(event.steps.len()).unwrap_or(u64::MAX);
            format!("version {}: {}", event.version, counted(steps, "step"))
        }
        Event::PlanReviewed(event) => {
            let verb = match event.review {
                Review::Approved => "approved",
                Review::Rejected => "rejected",
            };
            let (by, note) = (&event.by, reason_suffix(&event.note));
            let commands = event.commands.as_ref().map_or_else(String::new, |commands| {
                let folder = commands.folder.as_ref().map(|it| format!(" in {it}"));
                let folder = folder.unwrap_or_default();
                format!("; its commands approved{folder} by {}", commands.by)
            });
            format!("version {} {verb} by {by}{note}{commands}", event.version)
        }
        Event::PlanActivated(event) => format!(
            "version {} active: {} steps, {} kept, {} invalidated, {} removed",
            event.version,
            event.numbers.len(),
            event.preserved.len(),
            event.invalidated.len(),
            event.removed.len()
        ),
        Event::Step(record) => step_event_text(&record.event),
        Event::PlanVerdict(event) => format!("the plan: {}", verdict_text(&event.verdict)),
        Event::VariableSet(event) => variable_text(event),
        Event::BarrierChanged(event) => format!(
            "barrier {} {}: {} of {} arrived",
            event.barrier,
            match event.change {
                BarrierChange::Released => "released",
                BarrierChange::Broken => "broken",
                BarrierChange::Late => "late",
                BarrierChange::Overruled if event.arrived >= event.needed => "released late",
                BarrierChange::Overruled => "released by an answer",
            },
            event.arrived,
            event.needed
        ),
        Event::CapChanged(event) => {
            let scope = &event.scope;
            let by = &event.by;
            match event.limit {
                Some(limit) => format!("cap for {scope} set to {limit} by {by}"),
                None => format!("cap for {scope} lifted by {by}"),
            }
        }
        Event::RunEnded(event) => {
            format!("run {}{}", phrase(&event.ending), reason_suffix(&event.reason))
        }
        Event::RunReopened(event) => format!("run continues, by {}", event.by),
        Event::RunPaused(event) => pause_event_text(event),
        Event::RunResumed(event) => format!("run continues, by {}", event.by),
        Event::BudgetChanged(event) => budget_text(event),
        Event::QuestionAsked(event) => question_text(&event.asked),
        Event::QuestionAnswered(event) => answer_text(&event.answered),
        Event::QuestionExpired(event) => question_timeout_text(&event.expired),
        Event::ReplanRequested(event) => replan_request_text(event),
        Event::ReplanWithdrawn(event) => {
            let (by, reason) = (&event.by, reason_suffix(&event.reason));
            format!("replan request withdrawn by {by}{reason}")
        }
        Event::FailureSettingsChanged(event) => failure_settings_text(event),
        Event::HelperEnded(event) => format!(
            "{} ended after {}; cost {}",
            event.by,
            span(event.duration),
            cost_text(event.cost)
        ),
        Event::RunForked(event) => fork_text(event),
        Event::StepsInherited(event) => {
            let steps = u64::try_from(event.steps.len()).unwrap_or(u64::MAX);
            format!("{} inherited from the parent run", counted(steps, "step"))
        }
    }
}

/// An event of a step in one line.
#[must_use]
pub fn step_event_text(event: &StepEvent) -> String {
    match event {
        StepEvent::Dispatched(event) => format!(
            "attempt {} dispatched to {}{}, lease until {}",
            event.attempt,
            event.worker,
            event
                .second_owner
                .as_ref()
                .map_or_else(String::new, |owner| { format!(" of the second owner {owner}") }),
            seconds(event.lease_until)
        ),
        StepEvent::LeaseRenewed(event) => {
            format!("@{} lease renewed until {}", event.token, seconds(event.lease_until))
        }
        StepEvent::AttemptLost(event) => {
            let then = match event.then {
                AfterLoss::Redispatch => "to be dispatched again",
                AfterLoss::OutcomeUnknown => "outcome unknown",
            };
            let (cause, detail) = (phrase(&event.cause), reason_suffix(&event.detail));
            format!("@{} lost ({cause}), {then}{detail}", event.token)
        }
        StepEvent::ReceiptRecorded(event) => {
            format!("@{} {}", event.token, receipt_text(&event.receipt))
        }
        StepEvent::ReceiptRefused(event) => {
            let (claim, reason) = (outcome_text(&event.receipt.outcome), &event.reason);
            format!("@{} receipt rejected: {reason} (reported: {claim})", event.token)
        }
        StepEvent::VerdictRecorded(event) => {
            format!("@{} {}", event.token, verdict_text(&event.verdict))
        }
        StepEvent::Accepted(event) => format!("accepted: {}", basis_text(&event.basis)),
        StepEvent::FailureDecided(event) => {
            let decision = decision_text(&event.decision);
            let failure = failure_text(event.class);
            let (rule, reason) = (&event.rule, reason_suffix(&event.reason));
            // The rule of an answer or a helper has the name already.
            let is_named = event.by.is_empty() || event.rule.contains(&event.by);
            let by = if is_named { String::new() } else { format!(" ({})", event.by) };
            format!("@{} {failure}, {decision} by {rule}{by}{reason}", event.token)
        }
        StepEvent::Skipped(event) => {
            format!("skipped by {}{}", event.by, reason_suffix(&event.reason))
        }
        StepEvent::Reopened(event) => {
            format!("reopened by {}", event.by)
        }
        StepEvent::OutcomeResolved(event) => {
            let finding = match event.finding {
                ResolvedOutcome::Landed => "did its work",
                ResolvedOutcome::DidNotHappen => "did nothing",
            };
            let (by, evidence) = (&event.by, reason_suffix(&event.evidence));
            format!("@{} {finding}, reported by {by}{evidence}", event.token)
        }
        StepEvent::ConditionJudged(event) => condition_text(event),
        StepEvent::DelayElapsed(event) => {
            let until = seconds(event.due);
            match &event.by {
                None => format!("waited until {until}"),
                Some(by) => format!("{by} ended its wait until {until}"),
            }
        }
        StepEvent::StepAsked(event) => question_text(event),
        StepEvent::StepAnswered(event) => answer_text(event),
        StepEvent::StepQuestionExpired(event) => question_timeout_text(event),
        StepEvent::EffectIntended(event) => {
            format!("@{} is about to {}: {}", event.token, event.effect, event.key)
        }
        StepEvent::EffectCommitted(event) => {
            format!("@{} did {}", event.token, event.key)
        }
        StepEvent::CostCorrected(event) => cost_correction_text(event),
        StepEvent::StepFailed(event) => {
            let (failure, reason) = (failure_text(event.class), reason_suffix(&event.reason));
            format!("{failure} without an attempt, by {}{reason}", event.rule)
        }
    }
}

/// A receipt in one line.
fn receipt_text(receipt: &Receipt) -> String {
    let mut text = outcome_text(&receipt.outcome);
    if receipt.duration > 0 {
        text = format!("{text} in {}", span(receipt.duration));
    }
    match &receipt.output {
        Output::Inline(value) if value.as_str() == "null" => {}
        Output::Inline(value) => {
            text = format!("{text}, output {}", cut(value.as_str(), SHORT));
        }
        Output::Blob(blob) => text = format!("{text}, output of {}", blob_text(blob)),
    }
    text
}

/// An output in a blob.
#[must_use]
pub fn blob_text(blob: &BlobOutput) -> String {
    format!("{} in blob {}", size(blob.length), blob.hash.short())
}

/// An outcome in one line.
#[must_use]
pub fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded => "succeeded".to_owned(),
        Outcome::Failed { class, message, .. } => {
            format!("failed ({}){}", phrase(class), reason_suffix(message))
        }
        Outcome::ReplanRequested { reason, from, kind } => {
            let from = from.as_ref().map(|id| format!(" from step {id} on"));
            let kind = match kind {
                ReplanKind::Replan => "a replan",
                ReplanKind::NewEvidence => "a replan for new evidence",
                ReplanKind::ScopeChange => "a change of scope",
            };
            format!("requests {kind}{}{}", from.unwrap_or_default(), reason_suffix(reason))
        }
    }
}

/// A verdict in one line.
#[must_use]
pub fn verdict_text(verdict: &Verdict) -> String {
    let ruling = match verdict.ruling {
        Ruling::Pass => "passes",
        Ruling::Fail => "fails",
    };
    // The view of a step shows all lines of it.
    let evidence = reason_suffix(verdict.evidence.lines().next().unwrap_or_default());
    let by = &verdict.by;
    // Criteria count from 1 in text.
    let number = u64::from(verdict.criterion) + 1;
    format!("criterion {number} {ruling}, judged by {by}{evidence}")
}

/// The basis on which a step was accepted.
#[must_use]
pub fn basis_text(basis: &AcceptedBasis) -> String {
    match basis {
        AcceptedBasis::Receipt => "the step has no criteria; its receipt suffices".to_owned(),
        AcceptedBasis::Verdicts => "every criterion was judged".to_owned(),
        AcceptedBasis::WorkersWord => "some criteria were trusted without a check".to_owned(),
        AcceptedBasis::DoneBefore { source } => {
            format!("done before, by {source}")
        }
        AcceptedBasis::Landed { by } => {
            format!("a lost attempt did it, reported by {by}")
        }
        AcceptedBasis::FallbackStep { step } => format!("replaced by its fallback step #{step}"),
        AcceptedBasis::Fallback { reason } => {
            format!("fallback value: {reason}")
        }
        AcceptedBasis::Answered { by } => {
            format!("the answer of {by} is its output")
        }
    }
}

fn variable_text(event: &VariableSet) -> String {
    let origin = match &event.origin {
        Origin::Step { step, .. } => format!("step #{step}"),
        Origin::Person { who } | Origin::Agent { who } => who.clone(),
        Origin::Fallback { step } => format!("the fallback of step #{step}"),
    };
    let value = cut(event.value.as_str(), SHORT);
    format!("{} = {value} (version {}, by {origin})", event.name, count(event.version))
}

/// A note of a snapshot.
pub(super) fn snapshot_text(note: &SnapshotNote) -> String {
    let SnapshotNote { projection, version, seq, state_hash, .. } = note;
    let hash = cut(state_hash, SHORT);
    format!("snapshot of {projection} v{version} at record {seq}: {hash}")
}

/// A note of a person.
#[must_use]
pub fn note_text(note: &Note) -> String {
    let step = note.step.map(|step| format!(" about step #{step}")).unwrap_or_default();
    let text = &note.text;
    format!("{} notes{step}: {text}", note.by)
}

/// A note of an erasure.
pub(super) fn erasure_text(note: &ErasureNote) -> String {
    let count = |list: &[String]| u64::try_from(list.len()).unwrap_or(u64::MAX);
    let records: Vec<String> = note.records.iter().map(ToString::to_string).collect();
    format!(
        "{} erased {} and {} of records {}",
        note.by,
        counted(count(&note.values), "value"),
        counted(count(&note.blobs), "blob"),
        cut(&records.join(", "), SHORT)
    )
}

/// A note of a retention.
pub(super) fn pruned_text(note: &RetentionNote) -> String {
    let kept = match &note.archive {
        Some(archive) => format!("in the archive {}", archive.file),
        None => "given up".to_owned(),
    };
    let (first, last) = (note.first_seq, note.last_seq);
    format!("records {first} to {last} were pruned by {}: {kept}", note.by)
}

/// The process that writes from here on to a log in a store, and why.
pub(super) fn writer_text(note: &WriterNote) -> String {
    let WriterNote { epoch, node, why, before, lost, .. } = note;
    let why = match why {
        WriterReason::Create => "the log there is new",
        WriterReason::Open => "in the folder that wrote last",
        WriterReason::Takeover => "it took over",
        WriterReason::Restore => "it took over in a restored folder",
        WriterReason::Rejoin => "its folder diverged and was restored",
    };
    let before = before.as_ref().map_or_else(String::new, |before| {
        format!("; before: epoch {}, process {}", before.epoch, before.node)
    });
    let lost = lost.as_ref().map_or_else(String::new, |LostRecords { first, last, .. }| {
        format!("; records {first} to {last} of that folder are not in the log")
    });
    format!("epoch {epoch}: process {node} writes to the store, {why}{before}{lost}")
}

/// Records that were lost before this ledger was salvaged.
pub(super) fn gap_text(gap: &GapNote) -> String {
    match &gap.range {
        Some(range) if gap.no_loss => format!("not taken over: {}", range.what),
        Some(range) => format!(
            "records {} to {} were lost: {}, byte {}: {}",
            gap.first, range.last, range.file, range.offset, range.what
        ),
        None => format!("lost, see record {}", gap.first),
    }
}

/// A note of a recovery.
pub(super) fn recovery_text(note: &RecoveryNote) -> String {
    let bytes: u64 = note.discarded.iter().map(|range| range.length).sum();
    let survivors = note.survivors.map_or("none".to_owned(), |survivors| {
        format!("{} to {}", survivors.first, survivors.last)
    });
    format!(
        "recovered: the end of segment {} was {}; records taken over: {survivors}; bytes fenced \
         off: {}",
        note.predecessor,
        note.verdict,
        count(bytes)
    )
}

/// A colon and the shortened reason; empty if there is no reason.
fn reason_suffix(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {}", cut(text, LONG)) }
}

/// Maximum width of a value, in columns.
const SHORT: usize = 60;
/// Maximum width of a reason, in columns.
const LONG: usize = 200;

/// A pause.
fn pause_event_text(event: &RunPaused) -> String {
    format!("run {}{}", paused_text(&event.cause), reason_suffix(&event.reason))
}

/// A change of a budget.
fn budget_text(event: &BudgetChanged) -> String {
    let whose = if event.run.is_some() { "the run" } else { "the ledger" };
    let by = &event.by;
    match event.limits {
        None => format!("budget of {whose} reset to the plan's limits by {by}"),
        Some(limits) => format!("budget of {whose} set to {} by {by}", limits_text(limits)),
    }
}

/// A question that is asked.
fn question_text(asked: &QuestionBody) -> String {
    let about = question_subject_text(&asked.subject);
    let who = asked.to.as_deref().unwrap_or("a person");
    let until = asked.deadline.map(|time| format!(", until {}", seconds(time))).unwrap_or_default();
    format!("{who} is asked {about}{until}{}", reason_suffix(&asked.text))
}

/// An answer.
fn answer_text(answered: &QuestionAnswer) -> String {
    let QuestionAnswer { question, answer, by, note, .. } = answered;
    let note = reason_suffix(note);
    format!("question @{} answered {} by {}{note}", question.0, answer, by)
}

/// A question that timed out.
fn question_timeout_text(expired: &QuestionExpiry) -> String {
    let then = match &expired.then {
        Some(OnTimeout::EscalateTo(who)) => format!("{who} is asked"),
        Some(OnTimeout::Answer(answer)) => format!("taken as {answer}"),
        Some(OnTimeout::Abort) => "the run ends".to_owned(),
        None => "it stays open".to_owned(),
    };
    format!("question @{} timed out: {then}", expired.question.0)
}

/// A request for a new plan.
fn replan_request_text(event: &ReplanRequested) -> String {
    let why = match &event.trigger {
        ReplanTrigger::PreconditionFalse { step, precondition } => {
            let number = u64::from(*precondition) + 1;
            format!("precondition {number} of step #{step} cannot become true")
        }
        ReplanTrigger::AssumptionBroken { token } => format!("@{token} broke an assumption"),
        ReplanTrigger::RetriesExhausted { token } => format!("@{token} was the last attempt"),
        ReplanTrigger::ExecutorRequest { token } => format!("@{token} requested it"),
        ReplanTrigger::BudgetExhausted => "the budget is used up".to_owned(),
        ReplanTrigger::ScopeChange { by } => format!("{by} changed the scope"),
        ReplanTrigger::NewEvidence { by } => {
            format!("{by} reported new evidence")
        }
        ReplanTrigger::Extension => "few steps are left".to_owned(),
        ReplanTrigger::Failure { token } => format!("@{token} failed"),
        ReplanTrigger::Requested { by } => format!("{by} requested it"),
    };
    let from = event.from.map(|step| format!(" from step #{step}")).unwrap_or_default();
    format!("replan requested{from}, {why}{}", reason_suffix(&event.reason))
}

fn failure_settings_text(event: &FailureSettingsChanged) -> String {
    let unknown = phrase(&event.settings.on_unknown);
    let by = &event.by;
    let replans = match event.settings.max_replans {
        Some(max) => format!("; at most {}", counted(u64::from(max), "replan")),
        None => String::new(),
    };
    format!("unknown failures: {unknown}{replans}, by {by}")
}

/// The fork of a run.
#[must_use]
pub fn fork_text(event: &RunForked) -> String {
    let RunForked { parent, at_seq, chain, by, .. } = event;
    let by = if by.is_empty() { String::new() } else { format!(", by {by}") };
    format!("forked from run {parent} at record {at_seq}, chain {}{by}", chain.short())
}

/// A condition that was judged.
fn condition_text(event: &ConditionJudged) -> String {
    let which = match event.which {
        Condition::RunIf => "its condition".to_owned(),
        Condition::Pre(place) => format!("precondition {}", u64::from(place) + 1),
    };
    let ruling = match event.ruling {
        Ruling::Pass => "holds",
        Ruling::Fail => "does not hold",
    };
    format!("{which} {ruling}{}", reason_suffix(&event.evidence))
}

/// A correction of a cost.
#[must_use]
pub fn cost_correction_text(event: &CostCorrected) -> String {
    let CostCorrected { token, cost, charged, by } = event;
    let (cost, charged, by) = (cost_text(*cost), cost_text(*charged), by);
    format!("@{token} cost {cost}, not {charged}, corrected by {by}")
}

/// The decision about a failed attempt.
#[must_use]
pub fn decision_text(decision: &Decision) -> String {
    match decision {
        Decision::Retry => "to be retried".to_owned(),
        Decision::Fail => "failed permanently".to_owned(),
        Decision::RetryAt { due } => format!("to be retried at {}", seconds(*due)),
        Decision::Fallback => "its fallback is used".to_owned(),
        Decision::Replan => "a replan is requested".to_owned(),
        Decision::Escalate => "a person is asked".to_owned(),
        Decision::Abort => "the run ends".to_owned(),
        Decision::OutcomeUnknown => "outcome unknown".to_owned(),
    }
}

/// A failure by its class. Work that lacks a declared output or a criterion is not a failure of its
/// worker.
fn failure_text(class: FailureClass) -> String {
    match class {
        FailureClass::CriterionFailed => "rejected work".to_owned(),
        class => format!("{} failure", phrase(&class)),
    }
}
