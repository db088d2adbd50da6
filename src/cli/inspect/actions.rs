//! What is next in a run, and who must do it.
//!
//! Invariants: what may be dealt is asked of the ledger's own rules ([`decide`]), never judged a
//! second time here.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::answer::command_line;
use crate::plan::{
    Command, Criterion, Dependency, Ending, Event, Micros, Rejection, Run, RunStatus, State,
    StepNumber, StepStatus, decide,
};

use super::reference::{dependency_text, step_name};
use super::text::{counted, moment, plain};

/// Something that is next.
#[derive(Debug)]
pub(super) struct Action {
    /// In a word, for programs.
    pub(super) word: &'static str,
    /// The step that it is about.
    pub(super) step: Option<StepNumber>,
    /// For people.
    pub(super) text: String,
    /// What to type.
    pub(super) command: Option<String>,
}

impl Action {
    fn new(word: &'static str, text: String) -> Self {
        Self { word, step: None, text, command: None }
    }

    fn about(self, step: StepNumber) -> Self {
        Self { step: Some(step), ..self }
    }

    fn by(self, command: String) -> Self {
        Self { command: Some(command), ..self }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "action": self.word,
            "step": self.step,
            "text": self.text,
            "command": self.command,
        })
    }
}

/// What is next in a run, most urgent first.
pub(super) fn actions(state: &State, run: &Run, dir: &Path, now: Micros) -> Vec<Action> {
    match run.status {
        RunStatus::Proposed => vec![review(run)],
        RunStatus::Ended(Ending::Failed) => {
            let text = "the run failed; `ledger run PLAN --retry-failed` tries its failed steps \
                        again";
            vec![Action::new("retry", text.to_owned())]
        }
        RunStatus::Ended(_) => vec![Action::new("none", "nothing: the run is over".to_owned())],
        RunStatus::Running => running(state, run, dir, now),
    }
}

fn review(run: &Run) -> Action {
    let version = run.versions.iter().rposition(|version| version.review.is_none());
    match version {
        Some(place) => Action::new("review", format!("version {} waits for a review", place + 1)),
        None => Action::new("propose", "no version of the plan was approved".to_owned()),
    }
}

fn running(state: &State, run: &Run, dir: &Path, now: Micros) -> Vec<Action> {
    let mut actions = Vec::new();
    few(&mut actions, run.in_doubt.iter(), |number| answer(run, *number, dir));
    few(&mut actions, run.reported.iter(), |number| judge(run, *number, dir));
    actions.extend(judge_plan(run, dir));
    actions.extend(deal(state, run, now));
    if run.in_flight > 0 {
        let text = format!("wait for {} in flight", counted(run.in_flight.into(), "attempt"));
        actions.push(Action::new("wait", text));
    }
    if actions.is_empty() {
        let text = "nothing can go on by itself; `ledger run PLAN` looks at it again".to_owned();
        actions.push(Action::new("none", text));
    }
    actions
}

/// How many actions of one sort are listed.
const FEW: usize = 5;

fn few<'a>(
    actions: &mut Vec<Action>,
    steps: impl ExactSizeIterator<Item = &'a StepNumber>,
    action: impl Fn(&StepNumber) -> Action,
) {
    let rest = steps.len().saturating_sub(FEW);
    actions.extend(steps.take(FEW).map(&action));
    if let (Some(last), true) = (actions.last(), rest > 0) {
        actions.push(Action::new(last.word, format!("and {rest} more of these")));
    }
}

fn id_of(run: &Run, number: StepNumber) -> &str {
    run.step(number).map_or("", |step| step.id.as_str())
}

/// Somebody must say what became of a lost attempt.
pub(super) fn answer(run: &Run, number: StepNumber, dir: &Path) -> Action {
    let text = format!(
        "find out whether the lost attempt of {} did its work, and say so",
        step_name(run, number)
    );
    let command = command_line("answer", dir, &[&run.name, id_of(run, number)]);
    Action::new("answer", text)
        .about(number)
        .by(format!("{} landed|did-not-happen --by WHO", plain(&command)))
}

/// Verdicts are missing.
pub(super) fn judge(run: &Run, number: StepNumber, dir: &Path) -> Action {
    let (texts, others) = missing(run, number);
    let name = step_name(run, number);
    if texts == 0 {
        let text = format!("{name} waits for {others} criteria that `ledger run` judges");
        return Action::new("judge", text).about(number);
    }
    let command = command_line("accept", dir, &[&run.name, id_of(run, number)]);
    let criteria = if texts == 1 { "criterion" } else { "criteria" };
    Action::new("accept", format!("{name} waits for somebody to judge {texts} text {criteria}"))
        .about(number)
        .by(format!("{} --by WHO", plain(&command)))
}

/// How many text criteria of a reported step have no verdict, and how many others.
fn missing(run: &Run, number: StepNumber) -> (usize, usize) {
    let criteria = run.plan_step(number).map_or(&[][..], |step| &step.acceptance);
    let attempt = run.step(number).and_then(|step| step.attempt.as_ref());
    let open = |index: &u32| attempt.is_none_or(|attempt| !attempt.verdicts.contains_key(index));
    let open = (0..).zip(criteria).filter(|(index, _)| open(index));
    let (texts, others): (Vec<_>, Vec<_>) =
        open.partition(|(_, criterion)| matches!(criterion, Criterion::Text(_)));
    (texts.len(), others.len())
}

fn judge_plan(run: &Run, dir: &Path) -> Option<Action> {
    let plan = run.plan().filter(|_| run.all_closed())?;
    let open = (0..).zip(&plan.test_criteria);
    let open = open.filter(|(index, _)| !run.plan_verdicts.contains_key(index));
    let texts = open.clone().filter(|(_, each)| matches!(each, Criterion::Text(_))).count();
    if open.count() == 0 {
        return None;
    }
    if texts == 0 {
        let text = "the plan's own criteria wait for `ledger run` to judge them".to_owned();
        return Some(Action::new("judge", text));
    }
    let command = command_line("accept", dir, &[&run.name, "plan"]);
    let text = "the plan's own text criteria wait for somebody to judge them".to_owned();
    Some(Action::new("accept_plan", text).by(format!("{} --by WHO", plain(&command))))
}

/// The step that would be dealt now, or why none is although some are ready.
fn deal(state: &State, run: &Run, now: Micros) -> Option<Action> {
    if run.ready.is_empty() {
        return None;
    }
    if let Some(reason) = run.why_stopping() {
        return Some(Action::new("stop", format!("nothing more is dealt: {}", plain(&reason))));
    }
    match dealt(state, run, None, now) {
        Ok(number) => {
            let rest = run.ready.len().saturating_sub(1);
            let more = if rest > 0 { format!(" ({rest} more are ready)") } else { String::new() };
            let text = format!("deal {}{more}", step_name(run, number?));
            Some(Action::new("deal", text).about(number?))
        }
        Err(rejection) => {
            let ready = counted(u64::try_from(run.ready.len()).unwrap_or(u64::MAX), "step");
            Some(Action::new("capped", format!("{ready} ready, but {}", refusal(&rejection))))
        }
    }
}

/// What the ledger would deal if a worker asked now.
fn dealt(
    state: &State,
    run: &Run,
    step: Option<StepNumber>,
    now: Micros,
) -> Result<Option<StepNumber>, Rejection> {
    let command = Command::Dispatch { run: run.id, step, worker: String::new() };
    let events = decide(state, now, &command)?;
    Ok(events.iter().find_map(|event| match event {
        Event::Step(record) => Some(record.step),
        _ => None,
    }))
}

fn refusal(rejection: &Rejection) -> String {
    plain(&rejection.to_string())
}

/// Why a step stands as it does: what it waits for, and what would move it.
pub(super) fn why(
    state: &State,
    run: &Run,
    number: StepNumber,
    dir: &Path,
    now: Micros,
) -> Vec<String> {
    let Some(step) = run.step(number) else { return Vec::new() };
    match step.status {
        StepStatus::Waiting => {
            let waits = |on: &Dependency| format!("waits for {}", dependency_text(run, on));
            run.waiting_for(number).iter().map(waits).collect()
        }
        StepStatus::Gated => vec!["somebody must answer first".to_owned()],
        StepStatus::Delayed => {
            let until = step.hold.delay.iter();
            until.map(|until| format!("waits until {}", moment(*until, now))).collect()
        }
        StepStatus::Cancelled => vec!["the run ended before it was done".to_owned()],
        StepStatus::Ready => vec![ready(state, run, number, now)],
        StepStatus::Dispatched => step
            .attempt
            .iter()
            .map(|attempt| {
                let until = moment(attempt.lease_until, now);
                format!("{} has it, the lease ends {until}", plain(&attempt.worker))
            })
            .collect(),
        StepStatus::InDoubt => typed(&answer(run, number, dir)),
        StepStatus::Reported => typed(&judge(run, number, dir)),
        StepStatus::Failed => step.last_failure.iter().map(|(_, message)| plain(message)).collect(),
        StepStatus::Removed => vec!["the active version of the plan has no such step".to_owned()],
        StepStatus::Accepted | StepStatus::Skipped => Vec::new(),
    }
}

fn typed(action: &Action) -> Vec<String> {
    let command = action.command.as_ref().map(|command| format!("type: {command}"));
    [action.text.clone()].into_iter().chain(command).collect()
}

fn ready(state: &State, run: &Run, number: StepNumber, now: Micros) -> String {
    let place = run.ready.iter().position(|(_, each)| *each == number).map_or(0, |place| place + 1);
    let queue = format!("place {place} of {} in the queue", run.ready.len());
    if let RunStatus::Ended(_) = run.status {
        return "the run is over".to_owned();
    }
    if let Some(reason) = run.why_stopping() {
        return format!("{queue}, but nothing more is dealt: {}", plain(&reason));
    }
    match dealt(state, run, Some(number), now) {
        Ok(_) => format!("it may be dealt: {queue}"),
        Err(rejection) => format!("{queue}, but {}", refusal(&rejection)),
    }
}
