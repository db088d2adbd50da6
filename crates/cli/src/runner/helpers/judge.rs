//! Judges: the JSON input of a judge of text criteria, and the parser of its reply
//! (`format/hand-off.md`).
//!
//! Invariant: a reply that is not exactly one verdict is not used.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use plan_ledger::{Artifact, Json, Plan, Ruling, Run, State, Step};

use crate::protocol::hand_off::SCHEMA;
use crate::runner::check::{Check, Subject};

/// The input of a judge: the JSON on its standard input.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Question<'a> {
    /// The version of this format.
    schema: u32,
    /// The name of the run.
    run: &'a str,
    /// The purpose of the plan.
    plan: Brief<'a>,
    /// The step as in the plan; null for a criterion of the plan.
    step: Option<Step>,
    /// The step number; null for a criterion of the plan.
    number: Option<u32>,
    /// The attempt, from 1.
    attempt: Option<u32>,
    /// The token of the attempt.
    token: Option<u64>,
    /// The criterion's 0-based index in its list.
    criterion: u32,
    /// The text of the criterion.
    text: &'a str,
    /// The output to judge.
    #[cfg_attr(test, schemars(with = "crate::json::AnyJson"))]
    output: Value,
    /// The artifacts of the attempt.
    artifacts: &'a [Artifact],
}

/// The part of the plan that a judge gets.
#[derive(Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct Brief<'a> {
    /// The title in one line.
    title: &'a str,
    /// The expected outcome of the plan.
    outcome: &'a str,
    /// The purpose of the plan.
    goal: &'a str,
    /// Background information.
    context: &'a str,
}

/// The reply of a judge.
#[derive(Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct JudgeReply {
    /// The ruling on the criterion.
    verdict: Word,
    /// The evidence for it, for people.
    #[serde(default)]
    evidence: String,
}

/// A ruling.
#[derive(Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Word {
    /// The criterion holds.
    Pass,
    /// The criterion does not hold.
    Fail,
}

/// Parse a judge's output into a verdict and its evidence, or the reason for none.
pub(crate) fn verdict(printed: &[u8]) -> Result<(Ruling, String), String> {
    let JudgeReply { verdict, evidence } = serde_json::from_slice(printed)
        .map_err(|error| format!("it printed no verdict: {error}"))?;
    let ruling = match verdict {
        Word::Pass => Ruling::Pass,
        Word::Fail => Ruling::Fail,
    };
    Ok((ruling, evidence))
}

/// The question for the check of a text criterion; `None` if its subject is missing.
pub(crate) fn question(state: &State, check: &Check) -> Option<Json> {
    let criteria;
    let asked = match check.subject {
        Subject::Attempt(token) => {
            let (run, number, _) = state.dispatched.get(&token)?;
            let run = state.runs.get(run)?;
            let (plan, step) = (run.plan()?, run.plan_step(*number)?);
            let held = run.step(*number)?;
            let receipt = held.attempt()?.receipt.as_ref()?;
            criteria = step.acceptance();
            let text = criteria.get(usize::try_from(check.criterion).ok()?)?.body();
            Question {
                step: Some(plan.with_defaults(step)),
                number: Some(number.0),
                attempt: Some(held.attempts),
                token: Some(token.0),
                output: check.output.value(),
                artifacts: &receipt.artifacts,
                ..about(run, plan.header(), check.criterion, text)
            }
        }
        Subject::Plan(run) => {
            let run = state.runs.get(&run)?;
            let plan = run.plan()?;
            let text =
                plan.header().test_criteria.get(usize::try_from(check.criterion).ok()?)?.body();
            about(run, plan.header(), check.criterion, text)
        }
        Subject::Probe(_) | Subject::Replan(_) | Subject::Decision(_) => return None,
    };
    // Serialization fails only for map keys that are not strings, and there are none.
    Some(Json::from(serde_json::to_value(asked).unwrap_or_default()))
}

fn about<'a>(run: &'a Run, plan: &'a Plan, criterion: u32, text: &'a str) -> Question<'a> {
    let Plan { title, outcome, goal, context, .. } = plan;
    Question {
        schema: SCHEMA,
        run: &run.name,
        plan: Brief { title, outcome, goal, context },
        step: None,
        number: None,
        attempt: None,
        token: None,
        criterion,
        text,
        output: Value::Null,
        artifacts: &[],
    }
}

#[cfg(test)]
mod tests {
    //! Goal: only an unambiguous verdict is accepted.

    use super::*;

    #[test]
    fn only_an_exact_verdict_is_accepted() {
        let (ruling, evidence) = verdict(br#"{"verdict":"pass","evidence":"read it"}"#).unwrap();
        assert_eq!((ruling, evidence.as_str()), (Ruling::Pass, "read it"));
        assert_eq!(verdict(br#" {"verdict": "fail"} "#).unwrap().0, Ruling::Fail);
        for printed in [
            "",
            "pass",
            "\"pass\"",
            r#"{"verdict":"Pass"}"#,
            r#"{"evidence":"good"}"#,
            r#"{"verdict":"pass"} and more"#,
            r#"{"verdict":"pass","sure":false}"#,
        ] {
            assert!(verdict(printed.as_bytes()).is_err(), "{printed}");
        }
    }
}
