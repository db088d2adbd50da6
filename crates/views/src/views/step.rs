//! One step: its definition, its status and the reasons, and its complete history.

use plan_ledger::internals::ledger::time_text;
use plan_ledger::log::RecordStatus;
use plan_ledger::plan::{
    AcceptedBasis, BarrierStatus, CompactStep, Dependency, Hold, Micros, StepEvent, UtcTime,
};
use plan_ledger::{
    Cost, Event, Outcome, Output, QuestionId, Receipt, Ruling, Run, RunId, Step, StepNumber,
    StepState, StepStatus, Timestamp, Verdict,
};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::attempts::{AttemptLine, KnownBlob, KnownBlobs};
use super::history::HistoryEntry;
use super::stale::stale_text;
use super::step_definition::step_definition;
use super::why::WhyView;
use crate::json::FailureJson;
use crate::layout::{Document, Paint, Text};
use crate::records::{
    RecordContent, RecordLine, basis_text, blob_text, content_text, outcome_text,
};
use crate::words::{cost_text, span, status_paint, step_name, text_of, value_text};

/// A step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StepLine<'a> {
    /// The basis on which it was accepted.
    accepted: Option<&'a AcceptedBasis>,
    /// The number of its attempts.
    attempts: Option<u32>,
    /// The number of failed attempts since it was last reopened.
    failures: Option<u32>,
    /// Other conditions that block its dispatch.
    hold: Option<HoldJson<'a>>,
    /// Its id.
    id: Option<&'a str>,
    /// Its last failure.
    last_failure: Option<FailureJson<'a>>,
    /// Its owner, with the plan's defaults applied.
    owner: Option<&'a str>,
    /// The step in the newest version that has it, as in a plan file.
    plan: Option<Step>,
    /// The run.
    run: RunId,
    /// The name of the run.
    run_name: &'a str,
    /// Its files that changed since the plan was made although no other step may change them; null
    /// if that is not known, or if the step began.
    stale_files: Option<Vec<String>>,
    /// Its status.
    status: Option<StepStatus>,
    /// Its number.
    step: StepNumber,
    /// The newest version of the plan that has the step.
    version: Option<u32>,
    /// The dependencies for which it waits.
    waiting_for: Vec<DependencyJson<'a>>,
    /// The reasons why it is not done, and the remedies: texts for people.
    why: Vec<String>,
}

/// What is known of a step besides its run and its records.
#[derive(Debug, Default)]
pub struct KnownStep<'a> {
    /// Why it is not dispatched.
    pub why: Option<WhyView<'a>>,
    /// Its files that changed since the plan was made; `None` if that is not known.
    pub stale_files: Option<Vec<String>>,
    /// The blobs of its outputs.
    pub blobs: KnownBlobs,
    /// Whether records were lost before the ledger was salvaged.
    pub has_losses: bool,
    /// The first record of the log.
    pub first_seq: u64,
}

/// A step and its history.
#[derive(Debug)]
pub struct StepView<'a> {
    /// The line of it.
    pub line: StepLine<'a>,
    why: Vec<(usize, String)>,
    run: &'a Run,
    number: StepNumber,
    entries: &'a [HistoryEntry],
    known: &'a KnownStep<'a>,
}

impl<'a> StepView<'a> {
    /// The step of a run, with these records.
    #[must_use]
    pub fn of(
        run: &'a Run,
        number: StepNumber,
        entries: &'a [HistoryEntry],
        known: &'a KnownStep<'a>,
    ) -> Self {
        let text = text_of(run, number);
        let step = run.step(number);
        let waiting = run.unmet_dependencies(number);
        let why = known.why.as_ref().map(WhyView::lines_of_step).unwrap_or_default();
        let line = StepLine {
            accepted: step.and_then(|step| step.accepted()),
            attempts: step.map(|step| step.attempts),
            failures: step.map(|step| step.failures),
            hold: step.map(|step| step.hold().into()),
            id: step.map(StepState::id),
            last_failure: step.and_then(|step| step.last_failure()).map(FailureJson::from),
            owner: step.and_then(|step| step.owner()),
            plan: text.map(|(_, step)| step.decode()),
            run: run.id,
            run_name: &run.name,
            stale_files: known.stale_files.clone(),
            status: step.map(|step| step.status),
            step: number,
            version: text.map(|(version, _)| version),
            waiting_for: waiting.into_iter().map(|on| DependencyJson::of(run, on)).collect(),
            why: why.iter().map(|(indent, text)| format!("{:indent$}{text}", "")).collect(),
        };
        Self { line, why, run, number, entries, known }
    }

    /// A line for each attempt, oldest first.
    #[must_use]
    pub fn attempts(&self) -> Vec<AttemptLine<'a>> {
        let KnownStep { blobs, has_losses, .. } = self.known;
        AttemptLine::all(self.run, self.number, self.entries, blobs, *has_losses)
    }

    /// A line for each record.
    pub fn records(&self) -> impl Iterator<Item = RecordLine<'a>> {
        let entries = self.entries.iter();
        entries.map(|entry| RecordLine::of(&entry.record, entry.status, &entry.content))
    }

    /// Its name and its status.
    #[must_use]
    pub fn heading(&self) -> Document {
        let status = self.line.status.unwrap_or(StepStatus::Removed);
        let name = format!("step {}", step_name(self.run, self.number));
        let heading = Text::painted(Paint::Heading, name);
        let heading = heading.plain(format!(" of run {}: ", self.run.name));
        Document::of_line(heading.and(status_paint(status), status.to_string()))
    }

    /// What it shows below its heading. `is_whole`: outputs and logs are shown whole, however long.
    #[must_use]
    pub fn document(&self, is_whole: bool) -> Document {
        let StepLine { accepted, stale_files, .. } = &self.line;
        let mut document = Document::default();
        for (indent, reason) in &self.why {
            document.indented(2 + indent, reason.as_str());
        }
        if let Some(accepted) = accepted {
            document.indented(2, basis_text(accepted));
        }
        if let Some(files) = stale_files.as_ref().filter(|files| !files.is_empty()) {
            document.indented(2, (Paint::Notice, stale_text(files)));
        }
        document.gap();
        match text_of(self.run, self.number) {
            None => document.painted(Paint::Bad, "its plan cannot be read"),
            Some((version, step)) => {
                document.painted(Paint::Faint, format!("in version {version} of the plan"));
                document.append(step_definition(self.run, step));
            }
        }
        document.gap();
        if self.entries.is_empty() {
            document.line(match self.known.first_seq {
                1 => "no events yet".to_owned(),
                first => {
                    format!("no events since record {first}; earlier records were pruned")
                }
            });
        }
        let mut last = None;
        for entry in self.entries {
            let blob = self.known.blobs.get(&entry.record.seq);
            document.append(step_record_document(self.run, entry, last, blob, is_whole));
            last = Some(entry.record.time);
        }
        document
    }
}

/// A record of a step, and what belongs to it. `last`: the time of the record before it; `blob`: what is known of the blob
/// of its output; `is_whole`: outputs and logs are shown whole, however long.
#[must_use]
pub fn step_record_document(
    run: &Run,
    entry: &HistoryEntry,
    last: Option<Timestamp>,
    blob: Option<&KnownBlob>,
    is_whole: bool,
) -> Document {
    let record = &entry.record;
    let text = match entry.event() {
        Some(StepEvent::ReceiptRecorded(event)) => {
            format!("@{} receipt: {}", event.token, outcome_text(&event.receipt.outcome))
        }
        Some(StepEvent::ReceiptRefused(event)) => {
            let outcome = outcome_text(&event.receipt.outcome);
            format!("@{} receipt rejected ({}): {outcome}", event.token, event.reason)
        }
        _ => content_text(record, &entry.content).1,
    };
    let mark = match entry.status {
        RecordStatus::Durable => ' ',
        RecordStatus::AfterDamage => '!',
        RecordStatus::Unacknowledged => '?',
    };
    let mut details = Details { document: Document::default(), is_whole };
    if let Some(StepEvent::Dispatched(dispatch)) = entry.event() {
        let text = format!("attempt {} (token @{})", dispatch.attempt, record.seq);
        details.document.painted(Paint::Heading, text);
    }
    let time = time_text(record.time);
    let after = record.time.saturating_sub(last.unwrap_or(record.time)) / SECOND * SECOND;
    let after = if after > 0 { format!("  +{}", span(after)) } else { String::new() };
    let line = Text::from(format!("{:>7}{mark} {time}  {text}", record.seq));
    details.line(2, line.and(Paint::Faint, after));
    match (&entry.content, entry.event()) {
        (_, Some(StepEvent::Dispatched(dispatch))) => {
            details.detail("key", &dispatch.idempotency_key);
        }
        (RecordContent::Event(Event::Step(of)), Some(StepEvent::VerdictRecorded(event))) => {
            details.verdict(text_of(run, of.step).map(|(_, step)| step), &event.verdict);
        }
        _ => {
            if let Some(receipt) = entry.receipt() {
                details.receipt(receipt, blob);
            }
        }
    }
    details.document
}

/// A second, in microseconds. Shorter times between records are not shown.
const SECOND: Micros = 1_000_000;

/// Columns before details.
const INDENT: usize = 12;

/// Characters of an output, or a log, that are shown.
const SHOWN: usize = 2_000;

/// What belongs to a record, below its line.
struct Details {
    document: Document,
    /// Whether texts are shown whole.
    is_whole: bool,
}

impl Details {
    /// The criterion, and evidence of several lines. Evidence is limited when it is recorded, and is never cut here: its
    /// end is often the message.
    fn verdict(&mut self, step: Option<CompactStep<'_>>, verdict: &Verdict) {
        let criteria = step.map(CompactStep::acceptance).unwrap_or_default();
        let place = usize::try_from(verdict.criterion).unwrap_or(usize::MAX);
        if let Some(criterion) = criteria.get(place) {
            self.detail("criterion", criterion.body());
        }
        if verdict.evidence.lines().nth(1).is_some() {
            self.block("evidence", &verdict.evidence, usize::MAX);
        }
    }

    fn receipt(&mut self, receipt: &Receipt, known: Option<&KnownBlob>) {
        if let Outcome::Failed { payload, .. } = &receipt.outcome
            && payload.as_str() != "null"
        {
            self.text("payload", &value_text(payload));
        }
        match &receipt.output {
            output if output.is_null() => {}
            Output::Inline(value) => self.text("output", &value_text(value)),
            Output::Blob(blob) => {
                let state = known.map_or_else(String::new, |known| format!(", {}", known.state));
                self.detail("output", &format!("{}{state}", blob_text(blob)));
                match known.and_then(|known| known.value.as_ref()) {
                    Some(Ok(value)) => self.text("output", &value_text(value)),
                    Some(Err(error)) => self.line(INDENT, (Paint::Bad, error.clone())),
                    None => {}
                }
            }
        }
        for (name, value) in &receipt.variables {
            self.detail("variable", &format!("{name} = {}", value.as_str()));
        }
        for artifact in &receipt.artifacts {
            self.detail("artifact", &format!("{} {}", artifact.path, artifact.hash));
        }
        receipt.side_effects.iter().for_each(|effect| self.detail("side effect", effect));
        if receipt.cost != Cost::default() {
            self.detail("cost", &cost_text(receipt.cost));
        }
        if receipt.duration > 0 {
            self.detail("duration", &span(receipt.duration));
        }
        if !receipt.log_tail.is_empty() {
            self.text("log tail", &receipt.log_tail);
        }
    }

    fn line(&mut self, indent: usize, text: impl Into<Text>) {
        self.document.indented(indent, text);
    }

    fn detail(&mut self, name: &str, text: &str) {
        self.line(INDENT, Text::painted(Paint::Faint, name).plain(format!(": {text}")));
    }

    /// A text that is shortened unless all of it is requested.
    fn text(&mut self, name: &str, text: &str) {
        self.block(name, text, if self.is_whole { usize::MAX } else { SHOWN });
    }

    /// A text of several lines, of which so many characters are shown.
    fn block(&mut self, name: &str, text: &str, shown: usize) {
        let rest = text.chars().count().saturating_sub(shown);
        let shown: String = text.chars().take(shown).collect();
        let lines: Vec<&str> = shown.lines().collect();
        match lines.as_slice() {
            [one] if rest == 0 => self.detail(name, one),
            many => {
                self.line(INDENT, Text::painted(Paint::Faint, name).plain(":"));
                for line in many {
                    self.line(INDENT + 2, *line);
                }
            }
        }
        if rest > 0 {
            let text = format!("... {rest} more characters; --full shows all of it");
            self.line(INDENT + 2, (Paint::Faint, text));
        }
    }
}

/// Other conditions that block the dispatch of a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct HoldJson<'a> {
    /// The answer to the question about its gate or its failure.
    answer: Option<AnswerJson<'a>>,
    /// The ruling on its condition; null before it is judged.
    condition: Option<Ruling>,
    /// The end of its delay.
    delay: Option<UtcTime>,
    /// The fallback step for which it waits.
    fallback_step: Option<StepNumber>,
    /// Whether its gate is open.
    gate_open: bool,
    /// The preconditions that were judged.
    preconditions: Vec<PreconditionJson>,
    /// The open question about it.
    question: Option<QuestionId>,
    /// Whether the step is only a fallback of other steps.
    standby: bool,
}

/// An answer to a question.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct AnswerJson<'a> {
    /// The answer.
    answer: &'a str,
    /// The author of the verdict.
    by: &'a str,
}

/// A precondition that was judged.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct PreconditionJson {
    /// The precondition, from 0.
    precondition: u32,
    /// Whether the criterion holds.
    ruling: Ruling,
}

impl<'a> From<&'a Hold> for HoldJson<'a> {
    fn from(hold: &'a Hold) -> Self {
        let Hold {
            condition,
            preconditions,
            is_gate_open,
            question,
            answer,
            delay,
            fallback_step,
            is_standby,
        } = hold;
        let judged = preconditions
            .iter()
            .map(|(place, ruling)| PreconditionJson { precondition: *place, ruling: *ruling });
        Self {
            answer: answer.as_ref().map(|(answer, by)| AnswerJson { answer, by }),
            condition: *condition,
            delay: delay.map(UtcTime::from),
            fallback_step: *fallback_step,
            gate_open: *is_gate_open,
            preconditions: judged.collect(),
            question: *question,
            standby: *is_standby,
        }
    }
}

/// A dependency for which a step waits.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(tag = "is", rename_all = "snake_case")]
enum DependencyJson<'a> {
    /// A step.
    Step {
        /// Its id.
        id: Option<&'a str>,
        /// Its status.
        status: Option<StepStatus>,
        /// Its number.
        step: StepNumber,
    },
    /// A barrier.
    Barrier {
        /// Its id.
        barrier: String,
        /// Its status.
        status: Option<BarrierStatus>,
    },
    /// A name that the plan does not have.
    Unknown {
        /// The name.
        name: String,
    },
}

impl<'a> DependencyJson<'a> {
    fn of(run: &'a Run, dependency: Dependency) -> Self {
        match dependency {
            Dependency::Step(number) => {
                let step = run.step(number);
                Self::Step {
                    id: step.map(StepState::id),
                    status: step.map(|step| step.status),
                    step: number,
                }
            }
            Dependency::Barrier(id) => {
                let status = run.barrier(&id).map(|barrier| barrier.status);
                Self::Barrier { barrier: id, status }
            }
            Dependency::Unknown(name) => Self::Unknown { name },
        }
    }
}
