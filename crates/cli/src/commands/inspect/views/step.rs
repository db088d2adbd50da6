//! `ledger inspect DIR step RUN STEP`: one step, with its plan, status and history.
//!
//! Invariants: the history follows the links between the step's records. If damage breaks them, the
//! whole log is read, including the records after the damage. The status comes only from the state
//! before the damage.

use std::collections::BTreeMap;

use clap::Args;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::log::{LogItem, LoggedRecord, RecordStatus};
use plan_ledger::plan::StepEvent;
use plan_ledger::{
    AttemptToken, Event, LedgerView, Outcome, Output as StepOutput, Receipt, Run, RunId,
    StepNumber, StepStatus, Timestamp, Verdict,
};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::json::step::StepLine;
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::{step_name, text_of};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::span;
use crate::json::TimeJson;
use crate::options::StepArg;
use crate::output::render::Paint;
use crate::output::{Code, Failure, code_of, cost_text, escape_control};
use crate::protocol::hand_off::files::{stale_steps, stale_text};
use plan_ledger_views::{HistoryEntry, RecordContent, RecordLine, content_text};
use plan_ledger_views::{basis_text, blob_text, outcome_text, status_paint, step_definition};

use super::why::reasons_text;

const STEP_EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger step my-plan build        a step by its id
  ledger inspect .ledger step my-plan '#37'        by its number
  ledger inspect .ledger step my-plan build --full with whole outputs";

/// One step: its plan, its status and the reasons, and its complete history
#[derive(Debug, Args)]
#[command(after_help = STEP_EXAMPLES)]
pub(crate) struct StepArgs {
    #[command(flatten)]
    of: StepArg,
    /// Print outputs and logs whole, however long
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    at: AtArg,
}

/// Everything about one step.
#[derive(Debug)]
pub(crate) struct StepHistory<'a> {
    pub(crate) ledger: &'a LedgerAt<'a>,
    pub(crate) run: &'a Run,
    pub(crate) number: StepNumber,
    /// Its events, in order.
    pub(crate) history: Vec<HistoryEntry>,
}

pub(crate) fn step(
    args: &StepArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.of.run())?;
    let number = ledger.step(ledger.run(id)?, args.of.step())?;
    let history = history(&mut ledger, id, number)?;
    let step_history = StepHistory { ledger: &ledger, run: ledger.run(id)?, number, history };
    match context.form {
        Form::Json => print_json(&step_history, out)?,
        Form::Text => {
            let length = if args.full { OutputLength::Whole } else { OutputLength::Short };
            print_text(&step_history, length, out)?;
        }
    }
    ledger.finish(out)
}

/// The history of a step up to the record of the state: by the links between its records or, if
/// damage breaks them, by a scan of the whole log.
pub(crate) fn history(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    number: StepNumber,
) -> Result<Vec<HistoryEntry>, Failure> {
    // The links between records end at a lost one.
    if ledger.code() == Code::Success && ledger.state.lost.is_empty() {
        match ledger.view.step_records(ledger.run(id)?, number) {
            Ok(records) => {
                let entry = |record: LoggedRecord| {
                    let content = RecordContent::of(&record);
                    let record = LoggedRecord { payload: Vec::new(), ..record };
                    HistoryEntry { record, status: RecordStatus::Durable, content }
                };
                return Ok(records.into_iter().map(entry).collect());
            }
            Err(error) if code_of(&error) == Code::Damaged => {
                ledger.add_unread(escape_control(&error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    whole_history(ledger, id, number)
}

fn whole_history(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    number: StepNumber,
) -> Result<Vec<HistoryEntry>, Failure> {
    let mut history = Vec::new();
    let mut missing = Vec::new();
    for item in ledger.view.log().walk(1) {
        match item? {
            LogItem::Record(record, status) => {
                let content = RecordContent::of(&record);
                if let RecordContent::Event(Event::Step(event)) = &content
                    && event.run == id
                    && event.step == number
                {
                    let record = LoggedRecord { payload: Vec::new(), ..record };
                    history.push(HistoryEntry { record, status, content });
                }
            }
            LogItem::Damage(damage) => missing.push(damage),
            LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    for damage in missing {
        ledger.add_damage(damage);
    }
    Ok(history)
}

/// One attempt, assembled from the step's history.
#[derive(Debug)]
pub(crate) struct AttemptHistory<'a> {
    pub(crate) token: AttemptToken,
    /// The dispatch and its time; `None` if that record cannot be read.
    pub(crate) dispatch: Option<(Timestamp, &'a plan_ledger::plan::Dispatched)>,
    /// The time of each renewal, and the end of the renewed lease.
    pub(crate) renewals: Vec<(Timestamp, Timestamp)>,
    pub(crate) receipt: Option<(Timestamp, &'a Receipt)>,
    pub(crate) verdicts: Vec<(Timestamp, &'a Verdict)>,
    /// The entry that ended it.
    pub(crate) end: Option<&'a HistoryEntry>,
    pub(crate) refused: u32,
    /// Whether the record of its end was lost before the ledger was salvaged.
    is_end_lost: bool,
}

impl StepHistory<'_> {
    /// The files of the step that changed since its plan was made, as in [`StepLine`].
    fn stale_files(&self) -> Option<Vec<String>> {
        let waits = self.run.step(self.number).is_some_and(|step| step.attempts == 0);
        if self.ledger.is_past() || !waits {
            return None;
        }
        let stale = stale_steps(self.run, Some(self.number))?;
        Some(stale.into_iter().flat_map(|(_, files)| files).collect())
    }

    /// Its attempts, oldest first.
    pub(crate) fn attempts(&self) -> Vec<AttemptHistory<'_>> {
        let mut attempts = BTreeMap::new();
        let mut current = None;
        for entry in &self.history {
            let Some(event) = entry.event() else { continue };
            let time = entry.record.time;
            let token = match event {
                StepEvent::Dispatched(_) => Some(AttemptToken(entry.record.seq)),
                StepEvent::LeaseRenewed(event) => Some(event.token),
                StepEvent::AttemptLost(event) => Some(event.token),
                StepEvent::ReceiptRecorded(event) => Some(event.token),
                StepEvent::ReceiptRefused(event) => Some(event.token),
                StepEvent::VerdictRecorded(event) => Some(event.token),
                StepEvent::FailureDecided(event) => Some(event.token),
                StepEvent::OutcomeResolved(event) => Some(event.token),
                // The event names no attempt but ends the current one.
                StepEvent::Accepted(_) => current,
                StepEvent::EffectIntended(event) => Some(event.token),
                StepEvent::EffectCommitted(event) => Some(event.token),
                StepEvent::CostCorrected(event) => Some(event.token),
                StepEvent::Skipped(_)
                | StepEvent::Reopened(_)
                | StepEvent::ConditionJudged(_)
                | StepEvent::DelayElapsed(_)
                | StepEvent::StepAsked(_)
                | StepEvent::StepAnswered(_)
                | StepEvent::StepQuestionExpired(_)
                | StepEvent::StepFailed(_) => None,
            };
            let Some(token) = token else { continue };
            let attempt: &mut AttemptHistory<'_> =
                attempts.entry(token).or_insert_with(|| AttemptHistory::new(token));
            match event {
                StepEvent::Dispatched(event) => {
                    attempt.dispatch = Some((time, event));
                    current = Some(token);
                }
                StepEvent::LeaseRenewed(event) => attempt.renewals.push((time, event.lease_until)),
                StepEvent::ReceiptRecorded(event) => attempt.receipt = Some((time, &event.receipt)),
                StepEvent::ReceiptRefused(_) => attempt.refused += 1,
                StepEvent::VerdictRecorded(event) => attempt.verdicts.push((time, &event.verdict)),
                StepEvent::AttemptLost(_)
                | StepEvent::FailureDecided(_)
                | StepEvent::OutcomeResolved(_)
                | StepEvent::Accepted(_) => attempt.end = Some(entry),
                _ => {}
            }
        }
        let has_losses = !self.ledger.state.lost.is_empty();
        let current = self.run.step(self.number).and_then(|step| step.attempt());
        for attempt in attempts.values_mut() {
            let is_current = current.is_some_and(|current| current.token == attempt.token);
            attempt.is_end_lost = has_losses && attempt.end.is_none() && !is_current;
        }
        attempts.into_values().collect()
    }
}

impl AttemptHistory<'_> {
    fn new(token: AttemptToken) -> Self {
        Self {
            token,
            dispatch: None,
            renewals: Vec::new(),
            receipt: None,
            verdicts: Vec::new(),
            end: None,
            refused: 0,
            is_end_lost: false,
        }
    }

    /// The outcome as a word.
    pub(crate) fn outcome(&self) -> &'static str {
        use plan_ledger::Decision;
        use plan_ledger::plan::{AfterLoss, ResolvedOutcome};
        match self.end.and_then(HistoryEntry::event) {
            Some(StepEvent::Accepted(_)) => "accepted",
            Some(StepEvent::AttemptLost(lost)) => match lost.then {
                AfterLoss::Redispatch => "lost",
                AfterLoss::OutcomeUnknown => "outcome_unknown",
            },
            Some(StepEvent::FailureDecided(decided)) => match decided.decision {
                Decision::Retry | Decision::RetryAt { .. } => "failed_and_retried",
                Decision::Fail | Decision::Abort => "failed",
                Decision::Fallback => "failed_and_fell_back",
                Decision::Replan => "failed_and_replan",
                Decision::Escalate => "failed_and_asked",
                Decision::OutcomeUnknown => "outcome_unknown",
            },
            Some(StepEvent::OutcomeResolved(resolved)) => match resolved.finding {
                ResolvedOutcome::Landed => "landed",
                ResolvedOutcome::DidNotHappen => "did_not_happen",
            },
            None if self.is_end_lost => "lost",
            _ if self.receipt.is_some() => "reported",
            _ => "in_flight",
        }
    }
}

pub(crate) fn print_json(
    step_history: &StepHistory<'_>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    out.json(&{
        let StepHistory { ledger, run, number, .. } = step_history;
        let why = reasons_text(ledger, run, *number);
        StepLine::of(run, *number, why, step_history.stale_files())
    })?;
    for attempt in step_history.attempts() {
        out.json(&AttemptLine::of(&attempt, &step_history.ledger.view))?;
    }
    for entry in &step_history.history {
        out.json(&RecordLine::of(&entry.record, entry.status, &entry.content))?;
    }
    Ok(())
}

/// An attempt.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct AttemptLine<'a> {
    /// Its number at this step, from 1.
    attempt: Option<u32>,
    /// The state of the blob of its output: ok, missing, or the problem; null if the output is not
    /// a blob.
    blob: Option<String>,
    /// The time of its dispatch.
    dispatched_at: Option<TimeJson>,
    /// The time of the record that decided the outcome.
    ended: Option<TimeJson>,
    /// The record.
    ended_seq: Option<u64>,
    /// Its idempotency key.
    idempotency_key: Option<&'a str>,
    /// The end of its first lease.
    lease_until: Option<TimeJson>,
    /// Its outcome: `in_flight`, reported, accepted, lost, `outcome_unknown`, landed, `did_not_happen`,
    /// `failed_and_retried`, `failed_and_fell_back`, `failed_and_replan`, `failed_and_asked` or failed.
    outcome: &'static str,
    /// Its receipt.
    receipt: Option<&'a Receipt>,
    /// The number of its receipts that came too late.
    receipts_refused: u32,
    /// The renewals of its lease.
    renewals: Vec<RenewalJson>,
    /// The time of its receipt.
    reported_at: Option<TimeJson>,
    /// Its token.
    token: AttemptToken,
    /// The verdicts on it.
    verdicts: Vec<TimedVerdictJson<'a>>,
    /// Its worker.
    worker: Option<&'a str>,
}

/// A renewal of a lease.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct RenewalJson {
    /// The end of the renewed lease.
    lease_until: TimeJson,
    /// The time of the renewal.
    time: TimeJson,
}

/// A verdict and its time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct TimedVerdictJson<'a> {
    /// The time.
    time: TimeJson,
    /// The verdict.
    verdict: &'a Verdict,
}

impl<'a> AttemptLine<'a> {
    fn of(attempt: &AttemptHistory<'a>, view: &LedgerView) -> Self {
        let dispatch = attempt.dispatch;
        let receipt = attempt.receipt;
        let renewals = attempt.renewals.iter().map(|(time, until)| RenewalJson {
            lease_until: (*until).into(),
            time: (*time).into(),
        });
        let verdicts = attempt
            .verdicts
            .iter()
            .map(|(time, verdict)| TimedVerdictJson { time: (*time).into(), verdict });
        let blob = receipt.and_then(|(_, receipt)| view.blob_state(&receipt.output));
        Self {
            attempt: dispatch.map(|(_, dispatch)| dispatch.attempt),
            blob: blob.map(|state| state.to_string()),
            dispatched_at: dispatch.map(|(time, _)| time.into()),
            ended: attempt.end.map(|end| end.record.time.into()),
            ended_seq: attempt.end.map(|end| end.record.seq),
            idempotency_key: dispatch.map(|(_, dispatch)| dispatch.idempotency_key.as_str()),
            lease_until: dispatch.map(|(_, dispatch)| dispatch.lease_until.into()),
            outcome: attempt.outcome(),
            receipt: receipt.map(|(_, receipt)| receipt),
            receipts_refused: attempt.refused,
            renewals: renewals.collect(),
            reported_at: receipt.map(|(time, _)| time.into()),
            token: attempt.token,
            verdicts: verdicts.collect(),
            worker: dispatch.map(|(_, dispatch)| dispatch.worker.as_str()),
        }
    }
}

/// The part of an output or a log that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputLength {
    Short,
    Whole,
}

/// Characters of an output, or a log, that are shown.
const SHOWN: usize = 2_000;

pub(crate) fn print_text(
    step_history: &StepHistory<'_>,
    length: OutputLength,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let StepHistory { ledger, run, number, .. } = step_history;
    let status = run.step(*number).map_or(StepStatus::Removed, |step| step.status);
    let name = format!("step {}", step_name(run, *number));
    let heading = out.style.paint(Paint::Heading, &name);
    let word = out.style.paint(status_paint(status), &status.to_string());
    out.line(&format!("{heading} of run {}: {word}", escape_control(&run.name)))?;
    ledger.print_past(out)?;
    for reason in reasons_text(ledger, run, *number) {
        out.line(&format!("  {reason}"))?;
    }
    if let Some(accepted) = run.step(*number).and_then(|step| step.accepted()) {
        out.line(&format!("  {}", basis_text(accepted)))?;
    }
    if let Some(files) = step_history.stale_files().filter(|files| !files.is_empty()) {
        out.painted(Paint::Notice, &format!("  {}", escape_control(&stale_text(&files))))?;
    }
    out.line("")?;
    out.document(&step_definition(run, *number))?;
    print_history(step_history, length, out)?;
    Ok(())
}

fn print_history(
    step_history: &StepHistory<'_>,
    length: OutputLength,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    out.line("")?;
    if step_history.history.is_empty() {
        let first = step_history.ledger.view.log().first_seq();
        return out.line(&match first {
            1 => "no events yet".to_owned(),
            _ => {
                format!("no events since record {first}; earlier records were pruned")
            }
        });
    }
    for entry in &step_history.history {
        if let Some(StepEvent::Dispatched(dispatch)) = entry.event() {
            let text = format!("attempt {} (token @{})", dispatch.attempt, entry.record.seq);
            out.painted(Paint::Heading, &text)?;
        }
        print_entry(step_history, entry, length, out)?;
    }
    Ok(())
}

fn print_entry(
    step_history: &StepHistory<'_>,
    entry: &HistoryEntry,
    length: OutputLength,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let record = &entry.record;
    let receipt = match entry.event() {
        Some(StepEvent::ReceiptRecorded(event)) => Some((&event.receipt, String::new())),
        Some(StepEvent::ReceiptRefused(event)) => {
            Some((&event.receipt, format!(" rejected ({})", escape_control(&event.reason))))
        }
        _ => None,
    };
    let text = match &receipt {
        Some((receipt, how)) => {
            let token = match entry.event() {
                Some(StepEvent::ReceiptRefused(event)) => event.token.0,
                Some(StepEvent::ReceiptRecorded(event)) => event.token.0,
                _ => record.seq,
            };
            format!("@{token} receipt{how}: {}", outcome_text(&receipt.outcome))
        }
        None => content_text(record, &entry.content).1,
    };
    let mark = match entry.status {
        RecordStatus::Durable => ' ',
        RecordStatus::AfterDamage => '!',
        RecordStatus::Unacknowledged => '?',
    };
    out.line(&format!("  {:>7}{mark} {}  {text}", record.seq, time_text(record.time)))?;
    match entry.event() {
        Some(StepEvent::Dispatched(dispatch)) => {
            detail("key", &escape_control(&dispatch.idempotency_key), out)
        }
        Some(StepEvent::VerdictRecorded(event)) => print_verdict(step_history, &event.verdict, out),
        _ => receipt.map_or(Ok(()), |(receipt, _)| {
            print_receipt(&step_history.ledger.view, receipt, length, out)
        }),
    }
}

/// Prints the criterion, and evidence of several lines. Evidence is limited when it is recorded, and is
/// never cut here: its end is often the message.
fn print_verdict(
    StepHistory { run, number, .. }: &StepHistory<'_>,
    verdict: &Verdict,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let step = text_of(run, *number).map(|(_, step)| step.decode());
    let place = usize::try_from(verdict.criterion).unwrap_or(usize::MAX);
    if let Some(criterion) = step.as_ref().and_then(|step| step.acceptance.get(place)) {
        detail("criterion", &escape_control(criterion.body()), out)?;
    }
    match verdict.evidence.lines().nth(1) {
        Some(_) => block("evidence", &verdict.evidence, OutputLength::Whole, out),
        None => Ok(()),
    }
}

fn print_receipt(
    view: &LedgerView,
    receipt: &Receipt,
    length: OutputLength,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    if let Outcome::Failed { payload, .. } = &receipt.outcome
        && payload.as_str() != "null"
    {
        block("payload", &pretty(payload), length, out)?;
    }
    print_output(view, &receipt.output, length, out)?;
    for (name, value) in &receipt.variables {
        detail(
            "variable",
            &format!("{} = {}", escape_control(name), escape_control(value.as_str())),
            out,
        )?;
    }
    for artifact in &receipt.artifacts {
        detail(
            "artifact",
            &format!("{} {}", escape_control(&artifact.path), escape_control(&artifact.hash)),
            out,
        )?;
    }
    for effect in &receipt.side_effects {
        detail("side effect", &escape_control(effect), out)?;
    }
    if receipt.cost != plan_ledger::Cost::default() {
        detail("cost", &cost_text(receipt.cost), out)?;
    }
    if receipt.duration > 0 {
        detail("duration", &span(receipt.duration), out)?;
    }
    if !receipt.log_tail.is_empty() {
        block("log tail", &receipt.log_tail, length, out)?;
    }
    Ok(())
}

/// Prints an output. A blob is read only if the whole output is requested.
fn print_output(
    view: &LedgerView,
    output: &StepOutput,
    length: OutputLength,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let blob = match output {
        StepOutput::Inline(_) if output.is_null() => return Ok(()),
        StepOutput::Inline(value) => return block("output", &pretty(value), length, out),
        StepOutput::Blob(blob) => blob,
    };
    let state = view.blob_state(output).map_or_else(String::new, |state| format!(", {state}"));
    detail("output", &format!("{}{}", blob_text(blob), escape_control(&state)), out)?;
    if length == OutputLength::Whole {
        match view.output(output) {
            Ok(value) => block("output", &pretty(&value), length, out)?,
            Err(error) => {
                out.painted(
                    Paint::Bad,
                    &format!("{INDENT}{}", escape_control(&error.to_string())),
                )?;
            }
        }
    }
    Ok(())
}

/// JSON over several lines; a string as its own text.
pub(super) fn pretty(value: &plan_ledger::Json) -> String {
    match value.value() {
        serde_json::Value::String(text) => text,
        value => serde_json::to_string_pretty(&value).unwrap_or_else(|_| value.to_string()),
    }
}

/// Columns before details.
const INDENT: &str = "            ";

fn detail(name: &str, text: &str, out: &mut Output<'_>) -> Result<(), Failure> {
    let name = out.style.paint(Paint::Faint, name);
    out.line(&format!("{INDENT}{name}: {text}"))
}

/// Prints a text of several lines, escaped, and shortened unless all of it is requested.
fn block(
    name: &str,
    text: &str,
    length: OutputLength,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let shown: String = match length {
        OutputLength::Whole => text.to_owned(),
        OutputLength::Short => text.chars().take(SHOWN).collect(),
    };
    let rest = text.chars().count().saturating_sub(shown.chars().count());
    let lines: Vec<_> = shown.lines().map(escape_control).collect();
    match lines.as_slice() {
        [one] if rest == 0 => detail(name, one, out)?,
        many => {
            out.line(&format!("{INDENT}{}:", out.style.paint(Paint::Faint, name)))?;
            many.iter().try_for_each(|line| out.line(&format!("{INDENT}  {line}")))?;
        }
    }
    if rest > 0 {
        let text = format!("{INDENT}  ... {rest} more characters; --full shows all of it");
        out.painted(Paint::Faint, &text)?;
    }
    Ok(())
}
