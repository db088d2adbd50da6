//! Records the verdict on a `command` criterion.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::{AttemptToken, Command, Ruling, State, Verdict};

use crate::protocol::Failure;

use super::context::RequestContext;
use super::find::{attempt_of, run_or_only};
use super::judge::JudgeAnswer;
use super::kind::RequestKind;
use super::members::Author;
use super::rules::{Role, Rules, TokenRule};

/// Record the verdict on a `command` criterion of a reported attempt, or of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VerdictRequest {
    /// The number of the attempt's token; without it, the criterion is one of the plan.
    #[serde(default)]
    pub token: Option<u64>,
    /// The run's name or number; by default the only run that has not ended.
    #[serde(default)]
    pub run: Option<String>,
    /// The position of the criterion, from 0.
    pub criterion: u32,
    /// Whether the criterion holds.
    pub ruling: Ruling,
    /// The author, for the record.
    pub by: Author,
    /// The grounds for the verdict.
    #[serde(default)]
    pub evidence: String,
}

impl RequestKind for VerdictRequest {
    const RULES: Rules = Rules::of(Role::Worker).token(TokenRule::Optional);

    type Answer = JudgeAnswer;

    fn run(&self, context: RequestContext<'_, '_>) -> Result<JudgeAnswer, Failure> {
        let token = self.token.map(AttemptToken);
        let make = |state: &State| {
            let verdicts = vec![Verdict {
                criterion: self.criterion,
                ruling: self.ruling,
                by: self.by.to_string(),
                evidence: self.evidence.as_str().into(),
            }];
            Ok(match token {
                Some(token) => Command::Judge { token, verdicts },
                None => {
                    let run = run_or_only(state, self.run.as_deref())?.id;
                    Command::JudgePlan { run, verdicts }
                }
            })
        };
        context.execute(&make, |state, events| {
            let run = match token {
                Some(token) => attempt_of(state, token)?.0,
                None => run_or_only(state, self.run.as_deref())?,
            };
            Ok(JudgeAnswer::of(run, self.ruling, &self.by, events))
        })?
    }
}
