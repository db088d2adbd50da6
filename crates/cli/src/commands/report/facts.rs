//! The content of records about attempts and questions, in full.
//!
//! A fact is bound to the record that made it, so that a page of an earlier record can leave it out. Long texts are
//! cut, and the length of all texts together is limited: the log has them in full.

use std::collections::BTreeMap;

use plan_ledger::plan::{QuestionBody, StepEvent, StepRecord};
use plan_ledger::{
    Artifact, AttemptToken, Cost, Event, Json, Outcome, Output, QuestionId, Receipt,
    ResolvedOutcome, Ruling, Run, StepNumber, Timestamp, Verdict,
};

use crate::output::{cost_text, escape_control, escape_lines, phrase};
use plan_ledger_views::{blob_text, cost_correction_text, decision_text, outcome_text, span};

/// The longest text of a fact, in bytes.
const TEXT_MAX: usize = 16 * 1024;

/// The most bytes of all texts of a page.
const TEXTS_MAX: usize = 24 * 1024 * 1024;

/// Escapes a text that workers and people wrote. Its lines and tabs stay.
fn escape_body(text: &str) -> String {
    text.split('\t').map(escape_lines).collect::<Vec<_>>().join("\t")
}

pub(super) struct AttemptFacts {
    pub(super) step: StepNumber,
    pub(super) attempt: u32,
    pub(super) worker: String,
    /// The record that dispatched it, and its time.
    pub(super) seq: u64,
    pub(super) since: Timestamp,
    /// The record that ended it, and its time; none while it is in flight.
    pub(super) end: Option<(u64, Timestamp)>,
    pub(super) ending: AttemptEnding,
    pub(super) facts: Vec<Fact>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptEnding {
    /// It did not fail, or it has not ended.
    Good,
    Failed,
    Lost,
}

/// The fact of a record about an attempt.
pub(super) struct Fact {
    pub(super) seq: u64,
    pub(super) mark: Mark,
    pub(super) text: String,
    /// The parts with more to read, each with its name.
    pub(super) bodies: Vec<(&'static str, String)>,
}

/// The class of a fact, for its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Good,
    Bad,
    Plain,
}

/// A question to a person.
pub(super) struct QuestionFacts {
    pub(super) id: QuestionId,
    pub(super) step: Option<StepNumber>,
    pub(super) asked: QuestionBody,
    /// The record that closed it.
    pub(super) closed: Option<u64>,
}

/// Collects facts.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) attempts: Vec<AttemptFacts>,
    pub(super) questions: Vec<QuestionFacts>,
    /// The places of the open questions.
    open: Vec<usize>,
    places: BTreeMap<AttemptToken, usize>,
    bytes: usize,
}

impl Facts {
    pub(super) fn event(&mut self, seq: u64, time: Timestamp, event: &Event) {
        match event {
            Event::Step(record) => self.step(seq, time, record),
            Event::QuestionAsked(event) => self.asked(seq, None, &event.asked),
            _ => {}
        }
    }

    fn asked(&mut self, seq: u64, step: Option<StepNumber>, asked: &QuestionBody) {
        let (id, asked) = (QuestionId(seq), asked.clone());
        self.open.push(self.questions.len());
        self.questions.push(QuestionFacts { id, step, asked, closed: None });
    }

    /// Closes the questions that the state no longer has: they were answered, or lost their subject.
    pub(super) fn close(&mut self, seq: u64, run: &Run) {
        let Self { questions, open, .. } = self;
        open.retain(|place| {
            let Some(question) = questions.get_mut(*place) else { return false };
            let is_open = run.questions.contains_key(&question.id);
            if !is_open {
                question.closed = Some(seq);
            }
            is_open
        });
    }

    fn step(&mut self, seq: u64, time: Timestamp, record: &StepRecord) {
        match &record.event {
            StepEvent::Dispatched(dispatch) => {
                self.places.insert(AttemptToken(seq), self.attempts.len());
                self.attempts.push(AttemptFacts {
                    step: record.step,
                    attempt: dispatch.attempt,
                    worker: dispatch.worker.clone(),
                    seq,
                    since: time,
                    end: None,
                    ending: AttemptEnding::Good,
                    facts: Vec::new(),
                });
            }
            StepEvent::ReceiptRecorded(event) => {
                let ending = match event.receipt.outcome {
                    Outcome::Failed { .. } => AttemptEnding::Failed,
                    Outcome::Succeeded | Outcome::ReplanRequested { .. } => AttemptEnding::Good,
                };
                self.end(event.token, seq, time, ending);
                let fact = self.receipt(seq, &event.receipt);
                self.fact(event.token, fact);
            }
            StepEvent::AttemptLost(event) => {
                self.end(event.token, seq, time, AttemptEnding::Lost);
                let bodies = self.bodies([("detail", event.detail.as_str())]);
                let text = format!("lost: {}", phrase(&event.cause));
                self.fact(event.token, Fact { seq, mark: Mark::Bad, text, bodies });
            }
            StepEvent::ReceiptRefused(event) => {
                let bodies =
                    self.bodies([("reported", outcome_text(&event.receipt.outcome).as_str())]);
                let text = format!("receipt rejected: {}", event.reason);
                self.fact(event.token, Fact { seq, mark: Mark::Bad, text, bodies });
            }
            StepEvent::VerdictRecorded(event) => {
                let fact = self.verdict(seq, &event.verdict);
                self.fact(event.token, fact);
            }
            StepEvent::FailureDecided(event) => {
                let class = phrase(&event.class);
                let by = if event.by.is_empty() { &event.rule } else { &event.by };
                let text = format!("{class} failure: {}, by {by}", decision_text(&event.decision));
                let bodies = self.bodies([("reason", &*event.reason)]);
                self.fact(event.token, Fact { seq, mark: Mark::Bad, text, bodies });
            }
            StepEvent::OutcomeResolved(event) => {
                let finding = match event.finding {
                    ResolvedOutcome::Landed => "it did its work",
                    ResolvedOutcome::DidNotHappen => "it did nothing",
                };
                let text = format!("{finding}, reported by {}", event.by);
                let bodies = self.bodies([("evidence", event.evidence.as_str())]);
                self.fact(event.token, Fact { seq, mark: Mark::Plain, text, bodies });
            }
            StepEvent::EffectIntended(event) => {
                let text = format!("is about to {}: {}", event.effect, event.key);
                let bodies = Vec::new();
                self.fact(event.token, Fact { seq, mark: Mark::Plain, text, bodies });
            }
            StepEvent::EffectCommitted(event) => {
                let (text, bodies) = (format!("did {}", event.key), Vec::new());
                self.fact(event.token, Fact { seq, mark: Mark::Good, text, bodies });
            }
            StepEvent::CostCorrected(event) => {
                let (text, bodies) = (cost_correction_text(event), Vec::new());
                self.fact(event.token, Fact { seq, mark: Mark::Plain, text, bodies });
            }
            StepEvent::StepAsked(asked) => self.asked(seq, Some(record.step), asked),
            _ => {}
        }
    }

    fn end(&mut self, token: AttemptToken, seq: u64, time: Timestamp, ending: AttemptEnding) {
        if let Some(attempt) = self.attempt(token) {
            (attempt.end, attempt.ending) = (Some((seq, time)), ending);
        }
    }

    /// The attempt of a token. Its dispatch record may be damaged.
    fn attempt(&mut self, token: AttemptToken) -> Option<&mut AttemptFacts> {
        let place = self.places.get(&token)?;
        self.attempts.get_mut(*place)
    }

    fn fact(&mut self, token: AttemptToken, fact: Fact) {
        if let Some(attempt) = self.attempt(token) {
            attempt.facts.push(Fact { text: escape_control(&fact.text), ..fact });
        }
    }

    fn receipt(&mut self, seq: u64, receipt: &Receipt) -> Fact {
        let (mark, mut text, message) = match &receipt.outcome {
            Outcome::Succeeded => (Mark::Good, "succeeded".to_owned(), ""),
            Outcome::Failed { class, message, .. } => {
                (Mark::Bad, format!("failed: {}", phrase(class)), message.as_str())
            }
            Outcome::ReplanRequested { reason, .. } => {
                (Mark::Plain, "requests a new plan".to_owned(), reason.as_str())
            }
        };
        if receipt.duration > 0 {
            text = format!("{text} in {}", span(receipt.duration));
        }
        if receipt.cost != Cost::default() {
            text = format!("{text}, cost {}", cost_text(receipt.cost));
        }
        let output = match &receipt.output {
            output if output.is_null() => String::new(),
            Output::Inline(value) => value.as_str().to_owned(),
            Output::Blob(blob) => blob_text(blob),
        };
        let artifact = |it: &Artifact| format!("{} {}", it.path, it.hash);
        let artifacts: Vec<_> = receipt.artifacts.iter().map(artifact).collect();
        let variable = |(name, value): &(String, Json)| format!("{name} = {}", value.as_str());
        let variables: Vec<_> = receipt.variables.iter().map(variable).collect();
        let bodies = self.bodies([
            ("message", message),
            ("output", &output),
            ("variables", &variables.join("\n")),
            ("files", &artifacts.join("\n")),
            ("side effects", &receipt.side_effects.join("\n")),
            ("log", &receipt.log_tail),
        ]);
        Fact { seq, mark, text, bodies }
    }

    pub(super) fn verdict(&mut self, seq: u64, verdict: &Verdict) -> Fact {
        let (mark, word) = match verdict.ruling {
            Ruling::Pass => (Mark::Good, "passes"),
            Ruling::Fail => (Mark::Bad, "fails"),
        };
        // Criteria count from 1 in text.
        let number = u64::from(verdict.criterion) + 1;
        let text = format!("criterion {number} {word}, judged by {}", verdict.by);
        Fact { seq, mark, text, bodies: self.bodies([("evidence", &*verdict.evidence)]) }
    }

    /// The texts that are not empty, as far as they fit.
    fn bodies<const N: usize>(
        &mut self,
        of: [(&'static str, &str); N],
    ) -> Vec<(&'static str, String)> {
        let of = of.into_iter().filter(|(_, text)| !text.trim().is_empty());
        let bodies = of.map(|(name, text)| {
            let room = TEXT_MAX.min(TEXTS_MAX.saturating_sub(self.bytes));
            let end = (0..=room.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
            let kept = text.get(..end.unwrap_or_default()).unwrap_or_default();
            self.bytes += kept.len();
            let left_out = text.len() - kept.len();
            let text = match left_out {
                0 => escape_body(kept),
                _ => {
                    format!("{}\u{2026} ({left_out} more bytes are in the log)", escape_body(kept))
                }
            };
            (name, text)
        });
        bodies.collect()
    }
}
