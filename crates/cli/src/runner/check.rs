//! Checks and their results: a check judges a criterion, probes a lost attempt, or runs a planner or a
//! decider.

use plan_ledger::plan::Micros;
use plan_ledger::{AttemptToken, Cost, Json, Ruling, RunId, StepNumber};

/// A criterion to judge, a lost attempt to probe, or a planner to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub subject: Subject,
    /// The criterion's 0-based index in its list.
    pub criterion: u32,
    /// The shell command.
    pub command: String,
    /// How the result is read.
    pub answer: CheckAnswer,
    /// The `LEDGER_*` variables that identify the subject.
    pub environment: Vec<(String, String)>,
    /// Standard input: the output to judge, `null` for the whole plan, or the question for a judge
    /// or a planner.
    pub output: Json,
    /// The time limit in seconds; a check that exceeds it has failed.
    pub timeout_seconds: Option<u32>,
}

/// How the result of a check is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckAnswer {
    /// The exit status: 0 passes.
    Status,
    /// A verdict on standard output.
    Verdict,
    /// A reply on standard output, which the loop reads: a plan or a decision.
    Reply,
}

/// The subject of a check. The order puts steps before the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The work of one attempt.
    Attempt(AttemptToken),
    /// The outcome of a lost attempt, which is probed and not judged.
    Probe(AttemptToken),
    /// The plan as a whole.
    Plan(RunId),
    /// A replan request, which a planner answers with a plan.
    Replan(RunId),
    /// A failed attempt, which a decider decides about.
    Decision(AttemptToken),
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The subject of the check.
    pub subject: Subject,
    /// The criterion's 0-based index in its list.
    pub criterion: u32,
    /// The ruling; `None` if `Workers::stop_all` ended the check, if a probe cannot tell, or if a
    /// judge or a planner gave no usable reply.
    pub ruling: Option<Ruling>,
    /// The evidence; for a planner or a decider that passes, its output.
    pub evidence: String,
    /// The cost that a judge or a planner reported, if any.
    pub cost: Option<Cost>,
    /// How long it took, in microseconds.
    pub duration: Micros,
}

impl Checked {
    /// The result of a check that cost nothing.
    pub(crate) fn free(
        subject: Subject,
        criterion: u32,
        ruling: Option<Ruling>,
        evidence: String,
    ) -> Self {
        Self { subject, criterion, ruling, evidence, cost: None, duration: 0 }
    }
}

/// The owner of a list of criteria.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Criteria {
    /// A reported step.
    OfStep(StepNumber),
    /// The plan, once every step is settled.
    OfPlan,
}
