//! Consequences of a reported step: verdicts to give, acceptance, or a failure to decide.

use super::criteria::{
    criteria_without_verdict, expression_criteria, failed_criterion, trusted_criteria,
};
use super::variables::missing_outputs;
use super::words::transient_words;
use crate::plan::event::receipt::Outcome;
use crate::plan::event::step_event::Ruling;
use crate::plan::event::step_status::StepStatus;
use crate::plan::model::policy::Decider;
use crate::plan::model::step::FailureClass;
use crate::plan::state::compact::step::CompactStep;
use crate::plan::state::run::Run;
use crate::plan::state::step_state::Attempt;
use crate::plan::value::ids::StepNumber;
use crate::plan::value::text::Text;

/// The source of a failure class that the worker did not report.
pub(super) enum ClassSource {
    /// This word of the `failure_hints` of the plan.
    Hint(String),
    /// The `failure_class` of the step.
    Step,
    /// These words of the message, which networks and servers use.
    Words(String),
}

impl ClassSource {
    /// The source, for the record.
    pub(super) fn evidence(&self) -> String {
        match self {
            Self::Hint(word) => format!(" (its class is from the plan's hint `{word}`)"),
            Self::Step => " (its class is the step's failure_class)".to_owned(),
            Self::Words(words) => format!(" (transient, because it says `{words}`)"),
        }
    }
}

/// The class of a failure: the reported class. If that is `Unknown`, `failure_hints` of the plan
/// may give a class for a word in the message, then `failure_class` for the step, then words of networks.
pub(super) fn classify(
    run: &Run,
    number: StepNumber,
    class: FailureClass,
    message: &str,
) -> FailureClass {
    if class != FailureClass::Unknown {
        return class;
    }
    given_class(run, number, message).map_or(class, |(class, _)| class)
}

/// The class that a failure without a reported one has, and its source.
pub(super) fn given_class(
    run: &Run,
    number: StepNumber,
    message: &str,
) -> Option<(FailureClass, ClassSource)> {
    let hints = run.plan_step(number).map(CompactStep::failure_hints).unwrap_or_default();
    let mut hints = hints.into_iter();
    if let Some((word, class)) = hints.find(|(word, _)| message.contains(word.as_str())) {
        return Some((class, ClassSource::Hint(word)));
    }
    let named = || run.plan_step(number)?.failure_class().and_then(FailureClass::named);
    if let Some(class) = named() {
        return Some((class, ClassSource::Step));
    }
    let words = transient_words(message)?;
    Some((FailureClass::Transient, ClassSource::Words(words)))
}

/// The consequence of a reported step.
pub(crate) enum ReportedConsequence<'a> {
    /// Evaluate these `cel` criteria.
    Evaluate(Vec<u32>),
    /// Pass these `text` criteria, because the run trusts its workers.
    Trust(Vec<u32>),
    /// Accept the step.
    Accept,
    /// Decide about the failure: its class, message and attempt.
    Decide(FailureClass, Text, &'a Attempt),
}

/// Whether the rules of the plan decide about failures, not an external decider.
pub(crate) fn is_decided_by_rules(run: &Run) -> bool {
    run.plan().is_none_or(|plan| plan.header().failure.decider == Decider::Rules)
}

/// Whether a step is reported, and is accepted or fails by the rules without a judgement: it has no
/// criteria. This needs neither its output nor its declared outputs.
pub(crate) fn is_settled_without_criteria(run: &Run, number: StepNumber) -> bool {
    let is_reported = run.step(number).is_some_and(|step| {
        let receipt = step.attempt().and_then(|attempt| attempt.receipt.as_ref());
        step.status == StepStatus::Reported && receipt.is_some()
    });
    let has_criteria = || run.plan_step(number).is_some_and(CompactStep::has_acceptance);
    is_reported && is_decided_by_rules(run) && !has_criteria()
}

#[doc(hidden)]
impl Run {
    /// Class and message of the failure of a reported step, if it failed.
    #[must_use]
    pub fn failure_of(&self, number: StepNumber) -> Option<(FailureClass, Text)> {
        match reported_consequence(self, number)? {
            ReportedConsequence::Decide(class, message, _) => Some((class, message)),
            ReportedConsequence::Evaluate(_)
            | ReportedConsequence::Trust(_)
            | ReportedConsequence::Accept => None,
        }
    }
}

/// The criteria of a reported step without a verdict.
pub(crate) fn unjudged_criteria(run: &Run, number: StepNumber) -> Vec<u32> {
    let attempt = run.step(number).and_then(|step| step.attempt());
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    attempt.map_or_else(Vec::new, |attempt| criteria_without_verdict(&criteria, &attempt.verdicts))
}

/// The failure of an attempt whose declared outputs are missing.
fn missing_text(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let noun = if names.len() == 1 { "output" } else { "outputs" };
    format!("the declared {noun} {} did not arrive", names.join(", "))
}

/// The failure of work that its worker reported as a success: a declared output is missing, which is a criterion of
/// every step that declares one, or a criterion does not hold.
fn rejected<'a>(
    run: &Run,
    number: StepNumber,
    attempt: &'a Attempt,
    message: Text,
) -> ReportedConsequence<'a> {
    let class = match classify(run, number, FailureClass::Unknown, &message) {
        FailureClass::Unknown => FailureClass::CriterionFailed,
        class => class,
    };
    ReportedConsequence::Decide(class, message, attempt)
}

pub(crate) fn reported_consequence(
    run: &Run,
    number: StepNumber,
) -> Option<ReportedConsequence<'_>> {
    let step = run.step(number).filter(|step| step.status == StepStatus::Reported)?;
    let attempt = step.attempt()?;
    match &attempt.receipt.as_ref()?.outcome {
        Outcome::Succeeded => {}
        Outcome::Failed { class, message, .. } => {
            let class = classify(run, number, *class, message);
            let message = Text::from(message.as_str());
            return Some(ReportedConsequence::Decide(class, message, attempt));
        }
        Outcome::ReplanRequested { reason, .. } => {
            let message = format!("the worker requested a new plan: {reason}");
            return Some(ReportedConsequence::Decide(
                FailureClass::AssumptionBroken,
                message.into(),
                attempt,
            ));
        }
    }
    let missing = missing_outputs(run, number, attempt);
    if !missing.is_empty() {
        return Some(rejected(run, number, attempt, missing_text(&missing).into()));
    }
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    if let Some(failed) = attempt.verdicts.values().find(|each| each.ruling == Ruling::Fail) {
        return Some(rejected(run, number, attempt, failed_criterion(&criteria, failed)));
    }
    let missing = criteria_without_verdict(&criteria, &attempt.verdicts);
    if missing.is_empty() {
        return Some(ReportedConsequence::Accept);
    }
    let judgeable = expression_criteria(&criteria, &missing);
    if !judgeable.is_empty() {
        return Some(ReportedConsequence::Evaluate(judgeable));
    }
    let trusted = trusted_criteria(run, &criteria, &missing);
    (!trusted.is_empty()).then_some(ReportedConsequence::Trust(trusted))
}
