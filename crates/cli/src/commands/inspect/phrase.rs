//! An event in one phrase, for people.

use plan_ledger::ledger::Note;
use plan_ledger::log::{GapNote, RecoveryNote, RetentionNote, SnapshotNote};
use plan_ledger::plan::{
    AcceptedBasis, AfterLoss, BarrierChange, BlobOutput, CapScope, Event, Origin, Outcome, Output,
    Receipt, ResolvedOutcome, Review, Ruling, RunId, StepEvent, StepNumber, VariableSet, Verdict,
};

use super::control_phrase as control;
use super::text::{count, counted, cut, plain, seconds, size, span, words};

/// The run and the step that an event is about.
pub(super) fn subject(event: &Event) -> (Option<RunId>, Option<StepNumber>) {
    let run = match event {
        Event::RunStarted(event) => event.run,
        Event::PlanProposed(event) => event.run,
        Event::PlanSteps(event) => event.run,
        Event::PlanReviewed(event) => event.run,
        Event::PlanActivated(event) => event.run,
        Event::Step(record) => return (Some(record.run), Some(record.step)),
        Event::PlanVerdict(event) => event.run,
        Event::VariableSet(event) => event.run,
        Event::Barrier(event) => event.run,
        Event::CapChanged(event) => match event.scope {
            CapScope::Run(run) => run,
            CapScope::Ledger | CapScope::Owner(_) | CapScope::Tag(_) => return (None, None),
        },
        Event::RunEnded(event) => event.run,
        Event::RunReopened(event) => event.run,
        other => return (other.run(), None),
    };
    (Some(run), None)
}

/// What happened.
#[expect(clippy::too_many_lines, reason = "one arm for each event, so that none is forgotten")]
pub(super) fn phrase(event: &Event) -> String {
    match event {
        Event::RunStarted(event) => format!(
            "run {} started: approval {}, text criteria {}, on failure {}",
            plain(&event.name),
            words(&event.policy.approval, ' '),
            words(&event.policy.text, ' '),
            words(&event.policy.on_failure, ' ')
        ),
        Event::PlanProposed(event) => {
            let steps = counted(event.step_count.into(), "step");
            let (version, hash) = (event.version, event.hash.short());
            let title = because(&event.header.title);
            format!(
                "version {version} proposed: {steps}, plan {hash}{title}{}",
                because(&event.reason)
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
            let (by, note) = (plain(&event.by), because(&event.note));
            format!("version {} {verb} by {by}{note}", event.version)
        }
        Event::PlanActivated(event) => format!(
            "version {} active: {} steps, {} kept, {} to be done again, {} removed",
            event.version,
            event.numbers.len(),
            event.preserved.len(),
            event.invalidated.len(),
            event.removed.len()
        ),
        Event::Step(record) => step(&record.event),
        Event::PlanVerdict(event) => format!("the plan: {}", verdict(&event.verdict)),
        Event::VariableSet(event) => variable(event),
        Event::Barrier(event) => format!(
            "barrier {} {}: {} of {} arrived",
            plain(&event.barrier),
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
            let scope = plain(&event.scope.to_string());
            let by = plain(&event.by);
            match event.limit {
                Some(limit) => format!("cap for {scope} set to {limit} by {by}"),
                None => format!("cap for {scope} lifted by {by}"),
            }
        }
        Event::RunEnded(event) => {
            format!("run {}{}", words(&event.ending, ' '), because(&event.reason))
        }
        Event::RunReopened(event) => format!("run goes on, says {}", plain(&event.by)),
        Event::RunPaused(event) => control::paused(event),
        Event::RunResumed(event) => format!("run goes on, says {}", plain(&event.by)),
        Event::BudgetChanged(event) => control::budget(event),
        Event::QuestionAsked(event) => control::asked(&event.asked),
        Event::QuestionAnswered(event) => control::answered(&event.answered),
        Event::QuestionExpired(event) => control::expired(&event.expired),
        Event::ReplanRequested(event) => control::requested(event),
        Event::ReplanWithdrawn(event) => {
            let (by, reason) = (plain(&event.by), because(&event.reason));
            format!("no other plan is needed, says {by}{reason}")
        }
        Event::RunForked(event) => control::forked(event),
        Event::StepsInherited(event) => {
            let steps = u64::try_from(event.steps.len()).unwrap_or(u64::MAX);
            format!("{} as in the run that it was forked from", counted(steps, "step"))
        }
    }
}

fn step(event: &StepEvent) -> String {
    match event {
        StepEvent::Dispatched(event) => format!(
            "attempt {} dealt to {}, lease until {}",
            event.attempt,
            plain(&event.worker),
            seconds(event.lease_until)
        ),
        StepEvent::LeaseRenewed(event) => {
            format!("@{} lease renewed until {}", event.token, seconds(event.lease_until))
        }
        StepEvent::AttemptLost(event) => {
            let then = match event.then {
                AfterLoss::Redispatch => "to be dealt again",
                AfterLoss::OutcomeUnknown => "in doubt",
            };
            let (cause, detail) = (words(&event.cause, ' '), because(&event.detail));
            format!("@{} lost ({cause}), {then}{detail}", event.token)
        }
        StepEvent::ReceiptRecorded(event) => {
            format!("@{} {}", event.token, receipt(&event.receipt))
        }
        StepEvent::ReceiptRefused(event) => {
            let (claim, reason) = (outcome(&event.receipt.outcome), plain(&event.reason));
            format!("@{} receipt refused: {reason} (it said: {claim})", event.token)
        }
        StepEvent::VerdictRecorded(event) => {
            format!("@{} {}", event.token, verdict(&event.verdict))
        }
        StepEvent::Accepted(event) => format!("accepted: {}", basis(&event.basis)),
        StepEvent::FailureDecided(event) => {
            let decision = control::decision(&event.decision);
            let class = words(&event.class, ' ');
            let (rule, reason) = (plain(&event.rule), because(&event.reason));
            format!("@{} {class} failure, {decision} by {rule}{reason}", event.token)
        }
        StepEvent::Skipped(event) => {
            format!("skipped by {}{}", plain(&event.by), because(&event.reason))
        }
        StepEvent::Reopened(event) => format!("may be tried again, says {}", plain(&event.by)),
        StepEvent::DoubtResolved(event) => {
            let finding = match event.finding {
                ResolvedOutcome::Landed => "did its work",
                ResolvedOutcome::DidNotHappen => "did nothing",
            };
            let (by, evidence) = (plain(&event.by), because(&event.evidence));
            format!("@{} {finding}, says {by}{evidence}", event.token)
        }
        StepEvent::ConditionJudged(event) => control::judged(event),
        StepEvent::DelayElapsed(event) => format!("waited until {}", seconds(event.due)),
        StepEvent::Asked(event) => control::asked(event),
        StepEvent::Answered(event) => control::answered(event),
        StepEvent::Expired(event) => control::expired(event),
        StepEvent::EffectIntended(event) => {
            format!("@{} is about to {}: {}", event.token, plain(&event.effect), plain(&event.key))
        }
        StepEvent::EffectCommitted(event) => format!("@{} did {}", event.token, plain(&event.key)),
        StepEvent::CostCorrected(event) => control::corrected(event),
        StepEvent::Failed(event) => {
            let (class, reason) = (words(&event.class, ' '), because(&event.reason));
            format!("{class} failure without an attempt, by {}{reason}", plain(&event.rule))
        }
    }
}

/// A receipt in one phrase.
pub(super) fn receipt(receipt: &Receipt) -> String {
    let mut text = outcome(&receipt.outcome);
    if receipt.duration > 0 {
        text = format!("{text} in {}", span(receipt.duration));
    }
    match &receipt.output {
        Output::Inline(value) if value.as_str() == "null" => {}
        Output::Inline(value) => {
            text = format!("{text}, output {}", cut(&plain(value.as_str()), SHORT));
        }
        Output::Blob(blob) => text = format!("{text}, output of {}", blob_text(blob)),
    }
    text
}

/// An output that is a blob.
pub(super) fn blob_text(blob: &BlobOutput) -> String {
    format!("{} in blob {}", size(blob.length), blob.hash.short())
}

/// How an attempt went.
pub(super) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded => "succeeded".to_owned(),
        Outcome::Failed { class, message, .. } => {
            format!("failed ({}){}", words(class, ' '), because(message))
        }
        Outcome::ReplanRequested { reason } => format!("asks for another plan{}", because(reason)),
    }
}

/// A verdict in one phrase.
pub(super) fn verdict(verdict: &Verdict) -> String {
    let ruling = match verdict.ruling {
        Ruling::Pass => "passes",
        Ruling::Fail => "fails",
    };
    let (by, evidence) = (plain(&verdict.by), because(&verdict.evidence));
    // People count from 1.
    let number = u64::from(verdict.criterion) + 1;
    format!("criterion {number} {ruling}, says {by}{evidence}")
}

/// On what grounds a step counts as done.
pub(super) fn basis(basis: &AcceptedBasis) -> String {
    match basis {
        AcceptedBasis::Receipt => "it has no criteria, the receipt is enough".to_owned(),
        AcceptedBasis::Verdicts => "every criterion was judged".to_owned(),
        AcceptedBasis::WorkersWord => "some criteria on the worker's word".to_owned(),
        AcceptedBasis::DoneBefore { source } => format!("done before, says {}", plain(source)),
        AcceptedBasis::Landed { by } => format!("a lost attempt did it, says {}", plain(by)),
        AcceptedBasis::FallbackStep { step } => format!("step #{step} stood in for it"),
        AcceptedBasis::Fallback { reason } => format!("a value stands in: {}", plain(reason)),
    }
}

fn variable(event: &VariableSet) -> String {
    let origin = match &event.origin {
        Origin::Step { step, .. } => format!("step #{step}"),
        Origin::Person(who) => plain(who),
        Origin::Fallback { step } => format!("the fallback of step #{step}"),
    };
    let value = cut(&plain(event.value.as_str()), SHORT);
    format!("{} = {value} (version {}, by {origin})", plain(&event.name), count(event.version))
}

/// A projection was kept as it was after a record.
pub(super) fn snapshot_text(note: &SnapshotNote) -> String {
    let SnapshotNote { projection, version, seq, state_hash, .. } = note;
    let hash = cut(&plain(state_hash), SHORT);
    format!("snapshot of {} v{version} at record {seq}: {hash}", plain(projection))
}

/// Somebody said something.
pub(super) fn note_text(note: &Note) -> String {
    let step = note.step.map(|step| format!(" about step #{step}")).unwrap_or_default();
    let text = plain(&note.text);
    format!("{} notes{step}: {text}", plain(&note.by))
}

/// The oldest records were pruned.
pub(super) fn pruned_text(note: &RetentionNote) -> String {
    let kept = match &note.archive {
        Some(archive) => format!("in the archive {}", plain(&archive.file)),
        None => "given up".to_owned(),
    };
    let (first, last) = (note.first_seq, note.last_seq);
    format!("records {first} to {last} were pruned by {}: {kept}", plain(&note.by))
}

/// A record that was lost before this ledger was salvaged.
pub(super) fn gap_text(gap: &GapNote) -> String {
    match &gap.range {
        Some(range) => format!(
            "records {} to {} were lost: {}, byte {}: {}",
            gap.first,
            range.last,
            plain(&range.file),
            range.offset,
            plain(&range.what)
        ),
        None => format!("lost, see record {}", gap.first),
    }
}

/// What a record says that concerns the log only.
pub(super) fn note(note: &RecoveryNote) -> String {
    let bytes: u64 = note.discarded.iter().map(|range| range.length).sum();
    let survivors = note.survivors.map_or("none".to_owned(), |survivors| {
        format!("{} to {}", survivors.first, survivors.last)
    });
    format!(
        "recovered: the end of segment {} was {}; records taken over: {survivors}; bytes fenced \
         off: {}",
        note.predecessor,
        plain(&note.verdict),
        count(bytes)
    )
}

/// A reason, shortened, behind a colon; nothing if there is none.
pub(super) fn because(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {}", cut(&plain(text), LONG)) }
}

/// Columns that a value takes at most.
const SHORT: usize = 60;
/// Columns that a reason takes at most.
const LONG: usize = 200;
