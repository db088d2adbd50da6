//! Checks: a criterion to judge, a probe of a lost attempt, or a planner to ask; and their results.

use plan_ledger::plan::{AttemptToken, Json, Ruling, RunId, StepNumber};

/// A criterion to judge, a probe, or a planner to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What is judged.
    pub subject: Subject,
    /// The criterion's 0-based place in its list.
    pub criterion: u32,
    /// The shell command.
    pub command: String,
    /// How it answers.
    pub answer: Answer,
    /// The `LEDGER_*` variables that name what is judged.
    pub environment: Vec<(String, String)>,
    /// What is given on standard input: the output under judgement, `null` for the whole plan, or
    /// what a judge or a planner is asked.
    pub output: Json,
    /// Seconds after which the check is ended, and so has failed.
    pub timeout_seconds: Option<u32>,
}

/// How a check answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// By its exit status: 0 passes.
    Status,
    /// By a verdict that it prints.
    Verdict,
    /// By a plan that it prints.
    Plan,
}

/// What a criterion is about. The order puts steps before the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The work of one attempt.
    Attempt(AttemptToken),
    /// What a lost attempt did: not judged, but probed.
    Doubt(AttemptToken),
    /// The plan as a whole.
    Plan(RunId),
    /// Another plan, that a planner is asked for: not judged, but printed.
    Replan(RunId),
}

/// What came of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// What was judged.
    pub subject: Subject,
    /// The criterion's 0-based place in its list.
    pub criterion: u32,
    /// The judgement; `None` if the check was ended by [`Workers::stop_all`], if a probe cannot
    /// tell, or if a judge or a planner gave no usable answer.
    pub ruling: Option<Ruling>,
    /// On what grounds; of a planner that passes, what it printed.
    pub evidence: String,
}

/// Whose criteria are checked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Criteria {
    /// Those of a reported step.
    OfStep(StepNumber),
    /// Those of the plan, once every step is settled.
    OfPlan,
}
