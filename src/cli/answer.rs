//! The small commands by which people judge and limit: verdicts and caps; and what all commands
//! of people share.

use std::path::Path;

use crate::ledger::{Environment, Ledger};
use crate::plan::{
    CapScope, Command, Criterion, Rejection, Ruling, Run, RunId, RunStatus, State, StepNumber,
    StepStatus, Verdict,
};

use super::args::{CapArgs, JudgeArgs};
use super::exit::{Code, Failure};
use super::{answer_with, open};

/// The word that stands for the plan itself where a step is expected.
const PLAN: &str = "plan";

/// `ledger accept` and `ledger reject`.
pub(super) fn judge(args: &JudgeArgs, ruling: Ruling) -> Result<Code, Failure> {
    let ledger = open(&args.ledger, &Environment::system())?;
    let state = ledger.state();
    let run = run_of(&state, &args.run)?;
    let verdict = |criterion| Verdict {
        criterion,
        ruling,
        by: args.by.clone(),
        evidence: args.evidence.clone(),
    };
    let line = match step_of(run, &args.step) {
        found if means_plan(run, &args.step, &found) => {
            let open = open_plan_criteria(run)?;
            let count = open.len();
            let verdicts = open.into_iter().map(verdict).collect();
            ledger.execute(&Command::JudgePlan { run: run.id, verdicts })?;
            format!("the plan: {count} judged; run {} is {}", run.name, status(&ledger, run.id))
        }
        Err(failure) => return Err(failure),
        Ok(number) => {
            let (token, open) = open_step_criteria(run, number)?;
            let count = open.len();
            let now = ledger.judge(token, open.into_iter().map(verdict).collect())?;
            format!("{}: {count} judged; the step is {now}", name(run, number))
        }
    };
    ledger.close()?;
    answer_with(&format!("{line}\n"))?;
    Ok(Code::Fine)
}

/// Whether the word stands for the plan: a step of that id comes first, while it waits.
fn means_plan(run: &Run, word: &str, found: &Result<StepNumber, Failure>) -> bool {
    let step = found.as_ref().ok().and_then(|number| run.step(*number));
    word == PLAN && step.is_none_or(|step| step.status != StepStatus::Reported)
}

/// `ledger cap`.
pub(super) fn cap(args: &CapArgs) -> Result<Code, Failure> {
    let ledger = open(&args.ledger, &Environment::system())?;
    let state = ledger.state();
    let (scope, name) = match (&args.scope.run, &args.scope.owner, &args.scope.tag) {
        (Some(run), _, _) => (CapScope::Run(run_of(&state, run)?.id), format!("run {run}")),
        (None, Some(owner), _) => (CapScope::Owner(owner.clone()), format!("owner {owner}")),
        (None, None, Some(tag)) => (CapScope::Tag(tag.clone()), format!("tag {tag}")),
        (None, None, None) => (CapScope::Ledger, "the ledger".to_owned()),
    };
    let limit = args.limit.0;
    ledger.execute(&Command::SetCap { scope, limit, by: args.by.clone() })?;
    ledger.close()?;
    let line = match limit {
        Some(limit) => format!("{name}: at most {limit} attempts in flight\n"),
        None => format!("{name}: no cap\n"),
    };
    answer_with(&line)?;
    Ok(Code::Fine)
}

/// How a run stands, in a word.
pub(super) fn status(ledger: &Ledger, run: RunId) -> String {
    match ledger.state().runs.get(&run).map(|run| run.status) {
        Some(RunStatus::Ended(ending)) => format!("{ending:?}").to_lowercase(),
        Some(RunStatus::Running) => "running".to_owned(),
        Some(RunStatus::Proposed) | None => "waiting for its plan".to_owned(),
    }
}

/// A step's number and id.
pub(super) fn name(run: &Run, number: StepNumber) -> String {
    crate::runner::StepName::of(run, number).to_string()
}

/// The run of that name.
pub(super) fn run_of<'a>(state: &'a State, name: &str) -> Result<&'a Run, Failure> {
    state.run_named(name).ok_or_else(|| {
        let names: Vec<&str> = state.runs.values().map(|run| run.name.as_str()).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Failure::Usage(format!("there is no run `{name}`; the ledger's runs: {there}"))
    })
}

/// The step of that id, or else of that number: `#37` or `37`.
pub(super) fn step_of(run: &Run, text: &str) -> Result<StepNumber, Failure> {
    let by_number = || {
        let number = StepNumber(text.strip_prefix('#').unwrap_or(text).parse().ok()?);
        run.step(number).map(|_| number)
    };
    run.step_named(text).or_else(by_number).ok_or_else(|| {
        Failure::Usage(format!(
            "run {} has no step `{text}`; give its id, or its number as #37",
            run.name
        ))
    })
}

type OpenCriteria = Result<(crate::plan::AttemptToken, Vec<u32>), Failure>;

/// The attempt of a reported step and its text criteria without a verdict.
fn open_step_criteria(run: &Run, number: StepNumber) -> OpenCriteria {
    let step = run.step(number);
    let status = step.map_or(StepStatus::Removed, |step| step.status);
    let attempt = step.and_then(|step| step.attempt.as_ref());
    let (StepStatus::Reported, Some(attempt)) = (status, attempt) else {
        return Err(Failure::Refused(format!(
            "{}: nothing to judge: the step is {status}, expected reported",
            name(run, number)
        )));
    };
    let criteria = run.plan_step(number).map_or(&[][..], |step| &step.acceptance);
    let open = open_text(criteria, |index| attempt.verdicts.contains_key(index));
    if open.is_empty() {
        return Err(Failure::Refused(format!(
            "{}: no text criterion is open; `ledger run` judges the others",
            name(run, number)
        )));
    }
    Ok((attempt.token, open))
}

/// The plan's own text criteria without a verdict.
fn open_plan_criteria(run: &Run) -> Result<Vec<u32>, Failure> {
    let plan = run.plan().ok_or(Rejection::NoActivePlan).map_err(crate::error::Error::from)?;
    let open = open_text(&plan.test_criteria, |index| run.plan_verdicts.contains_key(index));
    if open.is_empty() {
        let message = format!("run {}: the plan has no open text criterion", run.name);
        return Err(Failure::Refused(message));
    }
    Ok(open)
}

fn open_text(criteria: &[Criterion], is_judged: impl Fn(&u32) -> bool) -> Vec<u32> {
    (0..)
        .zip(criteria)
        .filter(|(index, each)| matches!(each, Criterion::Text(_)) && !is_judged(index))
        .map(|(index, _)| index)
        .collect()
}

/// The command line by which somebody answers about this ledger.
pub(super) fn command_line(verb: &str, ledger: &Path, words: &[&str]) -> String {
    let mut line = format!("ledger {verb}");
    if ledger != Path::new(".ledger") {
        line.push_str(" --ledger ");
        line.push_str(&quoted(&ledger.display().to_string()));
    }
    for word in words {
        line.push(' ');
        line.push_str(&quoted(word));
    }
    line
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the commands that people are told to type can be typed.

    use super::*;

    #[test]
    fn command_lines_survive_a_shell() {
        let line = |words: &[&str]| command_line("accept", Path::new(".ledger"), words);
        assert_eq!(line(&["my-plan", "3.2"]), "ledger accept my-plan 3.2");
        assert_eq!(line(&["a b", "it's"]), r"ledger accept 'a b' 'it'\''s'");
        assert_eq!(
            command_line("answer", Path::new("x/y z"), &["r", "s"]),
            "ledger answer --ledger 'x/y z' r s"
        );
    }
}
