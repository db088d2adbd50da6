//! The next actions of a run, with their commands.
//!
//! Invariant: the ledger's own rules ([`decide`]) choose the step to dispatch; they are not repeated
//! here.

use std::collections::BTreeSet;
use std::path::Path;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use plan_ledger::plan::{CompactStep, Criterion, Route, SecretHash, Timer, decide};
use plan_ledger::{
    Command, Ending, Event, FailureClass, Rejection, Ruling, Run, RunStatus, State, StepNumber,
    StepState, StepStatus, Timestamp,
};

use crate::output::{
    decision_commands, escape_control, is_for_agent, is_for_reader, outcome_commands,
    pending_commands, shell_command, step_argument,
};
use crate::protocol::{StepName, WorkerKind, counted, has_judge};
use crate::runner::{
    GoneClaim, Pending, RunWait, may_ask_planner, may_hold, misplaced, open_plan_criteria, pending,
    plan_file, rejected_text,
};
use crate::server::RunnerStatus;

use super::lookup::{in_flight, step_name, steps_in_status};
use super::text::waits::{wait_text, waits_of};
use crate::commands::inspect::text::units::moment;

/// One action that moves a run forward.
#[derive(Debug)]
pub(crate) struct NextAction {
    /// The `action` in JSON.
    pub(crate) action: &'static str,
    /// The step concerned.
    pub(crate) step: Option<StepNumber>,
    pub(crate) text: String,
    /// Commands, one of which is enough.
    pub(crate) commands: Vec<String>,
}

impl NextAction {
    fn new(action: &'static str, text: String) -> Self {
        Self { action, step: None, text, commands: Vec::new() }
    }

    /// The command that a script may run without asking: the first one, unless a person decides among
    /// them.
    pub(crate) fn command(&self) -> Option<&String> {
        let is_decision = matches!(
            self.action,
            "question" | "person" | "answer" | "decide" | "accept" | "accept_plan" | "replan"
        );
        self.commands.first().filter(|_| !is_decision)
    }

    fn for_step(self, step: StepNumber) -> Self {
        Self { step: Some(step), ..self }
    }

    fn with_command(mut self, command: String) -> Self {
        self.commands.extend(Some(command).filter(|command| is_for_reader(command)));
        self
    }

    fn with_commands(mut self, commands: &[String]) -> Self {
        let commands = commands.iter().filter(|command| is_for_reader(command));
        self.commands.extend(commands.map(|command| escape_control(command)));
        self
    }
}

/// One action that moves a run forward.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct NextActionJson {
    /// The kind of the action.
    action: &'static str,
    /// The first of the commands; null if there is none, or if a person decides among them.
    command: Option<String>,
    /// Commands, one of which is enough.
    commands: Vec<String>,
    /// The step concerned.
    step: Option<StepNumber>,
    /// The action, for people.
    text: String,
}

impl From<NextAction> for NextActionJson {
    fn from(next: NextAction) -> Self {
        let command = next.command().cloned();
        let NextAction { action, step, text, commands } = next;
        Self { action, command, commands, step, text }
    }
}

/// What the next actions depend on, beside the state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// The ledger's folder, for commands.
    pub(crate) dir: &'a Path,
    pub(crate) now: Timestamp,
    pub(crate) runner: &'a RunnerStatus,
    /// The claims of processes that are gone.
    pub(crate) dead: &'a [GoneClaim],
    /// What runners wait for.
    pub(crate) waits: &'a [RunWait],
}

/// The most urgent next action of a run.
pub(crate) fn next_action(state: &State, run: &Run, at: Surroundings<'_>) -> NextAction {
    let nothing = || NextAction::new("none", "nothing".to_owned());
    actions(state, run, at).into_iter().next().unwrap_or_else(nothing)
}

/// The next actions of a run, most urgent first.
pub(crate) fn actions(state: &State, run: &Run, at: Surroundings<'_>) -> Vec<NextAction> {
    let mut actions = current_actions(state, run, at);
    if let (Some(first), Some(begin)) = (actions.first_mut(), first_action(run)) {
        first.text = format!("{}; the plan begins with: {}", first.text, escape_control(&begin));
    }
    actions
}

/// The next action that the plan itself names, until the first dispatch.
fn first_action(run: &Run) -> Option<String> {
    let is_begun = run.account.attempts > 0 || matches!(run.status, RunStatus::Ended(_));
    let plan = run.plan().filter(|_| !is_begun)?;
    let mut tools = plan.header().extra.values();
    let value = tools.find_map(|fields| fields.get("next_action"))?;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
        }
        _ => return None,
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!text.is_empty()).then_some(text)
}

fn current_actions(state: &State, run: &Run, at: Surroundings<'_>) -> Vec<NextAction> {
    let dir = at.dir;
    match run.status {
        RunStatus::Proposed => proposed(run, dir),
        RunStatus::Ended(Ending::Failed) => vec![failed_run(run, dir)],
        RunStatus::Ended(_) => vec![NextAction::new("none", "nothing: the run is over".to_owned())],
        RunStatus::Running => running(state, run, at),
    }
}

fn proposed(run: &Run, dir: &Path) -> Vec<NextAction> {
    let actions = person_actions(run, dir);
    if actions.is_empty() {
        let rejected = rejected_text(run);
        let why = rejected.unwrap_or_else(|| "no version of the plan was approved".to_owned());
        let command = shell_command("plan propose", dir, &[&plan_file(run), "--run", &run.name]);
        let text = format!("{}; change the plan and propose it", escape_control(&why));
        return vec![NextAction::new("propose", text).with_command(escape_control(&command))];
    }
    actions
}

/// Actions for a person about the whole run: questions, reviews, pauses and replans.
fn person_actions(run: &Run, dir: &Path) -> Vec<NextAction> {
    let action = |item: &Pending| {
        let (action, step) = match item {
            Pending::Question { step, .. } => ("question", step.as_ref()),
            Pending::Review { .. } | Pending::Commands { .. } => ("review", None),
            Pending::Misplaced { step, .. } => ("review", Some(step)),
            Pending::Paused { .. } => ("unpause", None),
            Pending::Replan { from, .. } => ("replan", from.as_ref()),
            Pending::Person { step, .. } => ("person", Some(step)),
            // Steps have their own actions.
            Pending::Decision { .. }
            | Pending::Verdicts { .. }
            | Pending::Checks { .. }
            | Pending::PlanVerdicts { .. }
            | Pending::PlanChecks { .. }
            | Pending::OutcomeUnknown { .. }
            | Pending::Held { .. }
            | Pending::Routed { .. }
            | Pending::Caps { .. }
            | Pending::Blocked { .. } => return None,
        };
        let (text, commands) = pending_commands(item, &run.name, dir);
        // Reading the plan is the first of the commands of a review.
        let has_all = matches!(
            item,
            Pending::Question { .. }
                | Pending::Person { .. }
                | Pending::Replan { .. }
                | Pending::Misplaced { .. }
        );
        let count = if has_all { commands.len() } else { 1 };
        let commands = commands.iter().take(count).map(|line| escape_control(line)).collect();
        let step = step.map(|step| step.number);
        Some(NextAction { action, step, text: escape_control(&text), commands })
    };
    let items = pending(run, &Route::default()).into_iter().chain(misplaced(run));
    items.filter_map(|item| action(&item)).collect()
}

fn running(state: &State, run: &Run, at: Surroundings<'_>) -> Vec<NextAction> {
    let Surroundings { dir, now, runner, .. } = at;
    let mut actions = Vec::new();
    let is_absence = runner.absence().is_some();
    let abandoned = if is_absence { hosted_steps(state, run).count() } else { 0 };
    if abandoned > 0 {
        actions.push(resume_action(run, abandoned, at));
    } else if runner.had_planner(&run.name) && may_ask_planner(run) {
        let absence = runner.absence().unwrap_or_default();
        let text =
            format!("{absence}, and its planner is to make a new plan version: start it again");
        actions.push(with_runner(NextAction::new("resume", text), run, at));
    }
    let gone = gone_steps(state, run, at.dead);
    push_limited(&mut actions, gone.iter(), |(number, dead)| take_over(run, *number, dead, at));
    actions.extend(person_actions(run, dir));
    push_limited(&mut actions, run.outcome_unknown.iter(), |number| answer(run, *number, dir));
    push_limited(&mut actions, run.reported.iter(), |number| judge(run, *number, at));
    actions.extend(judge_plan(run, at));
    // Where no runner is at work, another one is to be started, which waits then.
    let waits = if runner.is_absent() { &[] } else { at.waits };
    let dispatch = dispatch_action(state, run, now, waits);
    // The runner dispatches.
    actions.extend(dispatch.map(|action| match (action.action, runner.resume_words(&run.name)) {
        ("dispatch", Some(words)) => {
            action.with_command(escape_control(&shell_command("resume", dir, &words)))
        }
        _ => action,
    }));
    let held = waits_of(waits, run).filter(|wait| wait.ready_count(run) > 0);
    actions.extend(held.map(|wait| NextAction::new("wait", wait_text(wait, run, now))));
    actions.extend(delayed(run, at));
    let over = u64::try_from(abandoned + gone.len()).unwrap_or(0);
    let in_flight = u64::from(run.in_flight).saturating_sub(over);
    if in_flight > 0 {
        let text = format!("wait for {} in flight", counted(in_flight, "attempt"));
        actions.push(NextAction::new("wait", text));
    }
    let mut failed = failed_steps(run);
    // The request for a new plan version names the ways out of the failure.
    let of_request = step_of_request(run);
    failed.retain(|number| Some(*number) != of_request);
    push_limited(&mut actions, failed.iter(), |number| failed_step(run, *number, dir));
    if actions.is_empty() {
        let check = shell_command("run", dir, &[&plan_file(run), "--run", &run.name]);
        let text = format!("no automatic progress is possible; `{check}` checks again");
        actions.push(NextAction::new("none", escape_control(&text)));
    }
    actions
}

/// The failed step about which a new plan version is requested.
fn step_of_request(run: &Run) -> Option<StepNumber> {
    pending(run, &Route::default()).into_iter().find_map(|item| match item {
        Pending::Replan { from: Some(step), is_failed: true, .. } => Some(step.number),
        _ => None,
    })
}

/// The steps in flight whose workers a runner hosts: they end with it.
pub(crate) fn hosted_steps<'a>(
    state: &'a State,
    run: &'a Run,
) -> impl Iterator<Item = (StepNumber, &'a StepState)> {
    let is_hosted = |step: &StepState| {
        step.attempt().is_some_and(|attempt| WorkerKind::hosted(&attempt.worker))
    };
    in_flight(state, run).filter(move |(_, step)| is_hosted(step))
}

/// The steps of a run whose workers claimed them and are gone.
pub(crate) fn gone_steps<'a>(
    state: &State,
    run: &Run,
    dead: &'a [GoneClaim],
) -> Vec<(StepNumber, &'a GoneClaim)> {
    let step = |claim: &'a GoneClaim| {
        let (of, number) = state.in_flight.get(&claim.token)?;
        (*of == run.id).then_some((*number, claim))
    };
    dead.iter().filter_map(step).collect()
}

/// Takes over the claim of a process that is gone. Every worker and runner does it before it waits, so a
/// person needs a command only where none is at work.
fn take_over(run: &Run, number: StepNumber, dead: &GoneClaim, at: Surroundings<'_>) -> NextAction {
    let attempt = run.step(number).and_then(|step| step.attempt());
    let by = attempt.map_or_else(String::new, |attempt| {
        let since = moment(attempt.dispatched, at.now);
        format!(" by {} since {since}", escape_control(&attempt.worker))
    });
    let (name, process) = (step_name(run, number), dead.process);
    let text = format!(
        "{name} is claimed{by}, and process {process} is gone: the next `ledger run`, `work` or `claim` \
         takes it over"
    );
    let action = NextAction::new("take_over", text).for_step(number);
    let claim = escape_control(&shell_command("claim", at.dir, &[&run.name]));
    match at.runner.resume_words(&run.name) {
        Some(words) => {
            let resume = escape_control(&shell_command("resume", at.dir, &words));
            action.with_command(resume)
        }
        None => action.with_command(claim),
    }
}

/// Starts the runner again, which was killed while steps were in flight, or may have been.
pub(crate) fn resume_action(run: &Run, abandoned: usize, at: Surroundings<'_>) -> NextAction {
    let steps = counted(u64::try_from(abandoned).unwrap_or(u64::MAX), "step");
    let text = if let (true, Some(unseen)) = (at.runner.is_unseen(), at.runner.absence()) {
        let verb = if abandoned == 1 { "is" } else { "are" };
        format!("{steps} {verb} in flight, and {unseen}: if it has, start it again")
    } else {
        let verb = if abandoned == 1 { "was" } else { "were" };
        format!("the runner is gone, and {steps} {verb} in flight: start it again")
    };
    with_runner(NextAction::new("resume", text), run, at)
}

/// The action with the command that starts a runner of the run.
fn with_runner(action: NextAction, run: &Run, at: Surroundings<'_>) -> NextAction {
    let command = match at.runner.resume_words(&run.name) {
        Some(words) => shell_command("resume", at.dir, &words),
        None => shell_command("run", at.dir, &[&plan_file(run), "--run", &run.name]),
    };
    action.with_command(escape_control(&command))
}

fn failed_steps(run: &Run) -> Vec<StepNumber> {
    steps_in_status(run, StepStatus::Failed).collect()
}

/// A failed run: retry its failed steps, if a retry can help.
fn failed_run(run: &Run, dir: &Path) -> NextAction {
    let failed = failed_steps(run);
    let is_refused = run.plan_verdicts.values().any(|verdict| verdict.ruling == Ruling::Fail);
    if run.late_barrier().is_some() || (failed.is_empty() && !is_refused) {
        return other_plan(run, dir);
    }
    let all = escape_control(&shell_command("retry", dir, &[&run.name]));
    let mut names: Vec<String> =
        failed.iter().take(LISTED_MAX).map(|number| step_name(run, *number)).collect();
    let rest = failed.len().saturating_sub(names.len());
    if rest > 0 {
        names.push(format!("{rest} more"));
    }
    let what = if names.is_empty() { "its own criteria".to_owned() } else { names.join(", ") };
    let all_failed = if is_for_agent() {
        ""
    } else {
        ", or retry all failed steps with `ledger resume --retry-failed`"
    };
    let text = format!(
        "the run failed because of {what}; retry it{all_failed}{}",
        if lacks_replans(run, &failed) { NO_REPLANS } else { "" }
    );
    let action = NextAction { step: failed.first().copied(), ..NextAction::new("retry", text) };
    let single = failed.iter().take(LISTED_MAX).map(|number| retry(run, *number, dir));
    let action = single.fold(action, NextAction::with_command);
    if failed.len() == 1 { action } else { action.with_command(all) }
}

/// What is missing where a broken assumption failed a run.
const NO_REPLANS: &str = "; an assumption of the plan is broken, and it allows no other plan: set \
                          `max_replans` in its `failure`, or run it with --planner";

/// Whether a step failed because an assumption is broken, and the run allows no new plan version.
fn lacks_replans(run: &Run, failed: &[StepNumber]) -> bool {
    let is_broken = |number: &StepNumber| {
        let failure = run.step(*number).and_then(|step| step.last_failure());
        failure.is_some_and(|(class, _)| *class == FailureClass::AssumptionBroken)
    };
    run.max_replans().is_none() && failed.iter().any(is_broken)
}

/// A failed run that only a new plan version can continue.
fn other_plan(run: &Run, dir: &Path) -> NextAction {
    let why = run.why_stopping().unwrap_or_else(|| "no step can continue".into());
    let text = format!("the run failed: {}; change the plan and propose it", escape_control(&why));
    let command = shell_command("plan propose", dir, &[&plan_file(run), "--run", &run.name]);
    NextAction::new("replan", text).with_command(escape_control(&command))
}

/// A step that failed permanently blocks its dependents.
pub(crate) fn failed_step(run: &Run, number: StepNumber, dir: &Path) -> NextAction {
    let name = step_name(run, number);
    let action = NextAction::new("retry", format!("{name} failed permanently: retry or skip it"));
    let action = match run.status {
        // Only a failed run can be reopened.
        RunStatus::Ended(ending) if ending != Ending::Failed => {
            let text = format!("{name} failed permanently, and the run has ended");
            return NextAction::new("none", text).for_step(number);
        }
        _ => action.for_step(number).with_command(retry(run, number, dir)),
    };
    let skip = shell_command("skip", dir, &[&run.name, &id_of(run, number)]);
    action.with_command(format!("{} --reason WHY", escape_control(&skip)))
}

fn retry(run: &Run, number: StepNumber, dir: &Path) -> String {
    escape_control(&shell_command("retry", dir, &[&run.name, &id_of(run, number)]))
}

/// The first delayed step. A delay passes by itself, but only a runner tries the step again.
fn delayed(run: &Run, at: Surroundings<'_>) -> Option<NextAction> {
    let now = at.now;
    let count = run.count(StepStatus::Delayed);
    let is_delay = |timer: &&(Timestamp, Timer)| matches!(timer.1, Timer::Delay(_));
    let (until, timer) = run.timers.iter().find(is_delay).filter(|_| count > 0)?;
    let until = moment(*until, now);
    let step = match timer {
        Timer::Delay(number) => step_name(run, *number),
        _ => String::new(),
    };
    let more = if count > 1 { format!(" ({} more wait)", count - 1) } else { String::new() };
    if let (Some(absence), 0) = (at.runner.absence(), run.in_flight) {
        let text = format!("{absence}, and {step} is to be retried at {until}{more}");
        return Some(with_runner(NextAction::new("resume", text), run, at));
    }
    Some(NextAction::new("wait", format!("wait until {until}, when {step} is retried{more}")))
}

/// Maximum number of actions of one type.
const LISTED_MAX: usize = 5;

fn push_limited<'a, T: 'a>(
    actions: &mut Vec<NextAction>,
    steps: impl ExactSizeIterator<Item = &'a T>,
    action: impl Fn(&T) -> NextAction,
) {
    let rest = steps.len().saturating_sub(LISTED_MAX);
    actions.extend(steps.take(LISTED_MAX).map(&action));
    if let (Some(last), true) = (actions.last(), rest > 0) {
        actions.push(NextAction::new(last.action, format!("and {rest} more of these")));
    }
}

/// A step as an argument of a command.
fn id_of(run: &Run, number: StepNumber) -> String {
    step_argument(&StepName::of(run, number))
}

/// Asks a person for the outcome of a lost attempt.
pub(crate) fn answer(run: &Run, number: StepNumber, dir: &Path) -> NextAction {
    let text = format!(
        "find out whether the lost attempt of {} did its work, and report the outcome",
        step_name(run, number)
    );
    let step = StepName::of(run, number);
    NextAction::new("answer", text)
        .for_step(number)
        .with_commands(&outcome_commands(&step, &run.name, dir))
}

/// The action for missing verdicts.
pub(crate) fn judge(run: &Run, number: StepNumber, at: Surroundings<'_>) -> NextAction {
    let dir = at.dir;
    let name = step_name(run, number);
    let attempt = run.step(number).and_then(|step| step.attempt());
    if attempt.is_some_and(|attempt| !may_hold(attempt)) {
        let step = StepName::of(run, number);
        return NextAction::new("decide", format!("{name} waits for a decision about its failure"))
            .for_step(number)
            .with_commands(&decision_commands(&step, &run.name, dir));
    }
    let (texts, others) = unjudged_criteria(run, number);
    let command = shell_command("accept", dir, &[&run.name, &id_of(run, number)]);
    let criteria = if others == 1 { "criterion" } else { "criteria" };
    let text = match texts.as_slice() {
        [] => {
            let text = format!("{name} waits for {others} {criteria} that a judge checks");
            if is_checked(run, at) {
                return NextAction::new("judge", text).for_step(number);
            }
            return with_judge(&text, run, at).for_step(number);
        }
        [one] => format!("{name} waits for a person to judge: {}", escape_control(one)),
        many => format!("{name} waits for a person to judge {} text criteria", many.len()),
    };
    let text = match others {
        0 => text,
        _ => format!("{text}; {}", beside(&format!("{others} {criteria}"), run, at)),
    };
    NextAction::new("accept", text).for_step(number).with_command(escape_control(&command))
}

/// Whether a process is at work that checks commands.
fn is_checked(run: &Run, at: Surroundings<'_>) -> bool {
    at.runner.absence().is_none() || has_judge(at.dir, run.id)
}

/// What a judge checks beside the text criteria of a person, and how one is started if none is at work.
fn beside(criteria: &str, run: &Run, at: Surroundings<'_>) -> String {
    if is_checked(run, at) {
        return format!("a judge checks {criteria}");
    }
    let judge = shell_command("work", at.dir, &[&run.name]);
    let judge = escape_control(&format!("{judge} --judge-only --wait"));
    format!(
        "a judge must check {criteria}, and none is at work until a person starts one: `{judge}`"
    )
}

/// An action that says that no judge is at work, and how one is started. In the shell of an agent none starts.
fn with_judge(text: &str, run: &Run, at: Surroundings<'_>) -> NextAction {
    let judge = shell_command("work", at.dir, &[&run.name]);
    let judge = escape_control(&format!("{judge} --judge-only --wait"));
    if is_for_agent() {
        let text = format!("{text}, and none is at work until a person starts one: `{judge}`");
        return NextAction::new("judge", text);
    }
    let action =
        NextAction::new("judge", format!("{text}, and none is at work")).with_command(judge);
    match at.runner.resume_words(&run.name) {
        Some(words) => {
            action.with_command(escape_control(&shell_command("resume", at.dir, &words)))
        }
        None => action,
    }
}

/// The unjudged text criteria of a reported step, and the number of other criteria.
fn unjudged_criteria(run: &Run, number: StepNumber) -> (Vec<String>, usize) {
    let criteria = run.plan_step(number).map(CompactStep::acceptance).unwrap_or_default();
    let attempt = run.step(number).and_then(|step| step.attempt());
    let open = |index: &u32| attempt.is_none_or(|attempt| !attempt.verdicts.contains_key(index));
    let open: Vec<_> = (0..).zip(criteria).filter(|(index, _)| open(index)).collect();
    let all = open.len();
    let texts: Vec<String> = open
        .into_iter()
        .filter(|(_, criterion)| matches!(criterion, Criterion::Text(_)))
        .map(|(_, criterion)| criterion.body().to_owned())
        .collect();
    let others = all.saturating_sub(texts.len());
    (texts, others)
}

fn judge_plan(run: &Run, at: Surroundings<'_>) -> Option<NextAction> {
    let (texts, commands) = open_plan_criteria(run);
    let is_open = !texts.is_empty() || !commands.is_empty();
    if !is_open || !run.all_closed() {
        return None;
    }
    if texts.is_empty() {
        let text = "the plan's own criteria wait for a judge";
        return Some(if is_checked(run, at) {
            NextAction::new("judge", text.to_owned())
        } else {
            with_judge(text, run, at)
        });
    }
    let command = shell_command("accept", at.dir, &[&run.name, "plan"]);
    let text = "the plan's own text criteria wait for a person to judge them".to_owned();
    let text = match commands.len() {
        0 => text,
        _ => format!("{text}; {}", beside("its other criteria", run, at)),
    };
    Some(NextAction::new("accept_plan", text).with_command(escape_control(&command)))
}

/// The step that would be dispatched now, or why no ready step can be.
fn dispatch_action(
    state: &State,
    run: &Run,
    now: Timestamp,
    waits: &[RunWait],
) -> Option<NextAction> {
    if run.lanes.is_empty() {
        return None;
    }
    let waits = waits_of(waits, run);
    if let Some(reason) = run.why_stopping() {
        return Some(NextAction::new(
            "stop",
            format!("no more steps are dispatched: {}", escape_control(&reason)),
        ));
    }
    if waits.clone().any(|wait| wait.is_whole_run) {
        return None;
    }
    let held = waits.clone().map(|wait| wait.owner.clone()).collect();
    match next_dispatch(state, run, None, now, held) {
        Ok(number) => {
            let held: usize = waits.map(|wait| wait.ready_count(run)).sum();
            let rest = run.ready_count().saturating_sub(held + 1);
            let more = if rest > 0 { format!(" ({rest} more are ready)") } else { String::new() };
            let text = format!("dispatch {}{more}", step_name(run, number?));
            Some(NextAction::new("dispatch", text).for_step(number?))
        }
        // Steps of people have their own actions.
        Err(Rejection::NoneForWorker { .. }) => None,
        Err(rejection) => {
            let ready = counted(u64::try_from(run.ready_count()).unwrap_or(u64::MAX), "step");
            Some(NextAction::new("capped", format!("{ready} ready, but {}", refusal(&rejection))))
        }
    }
}

/// The step that the ledger would dispatch to a worker now.
pub(crate) fn next_dispatch(
    state: &State,
    run: &Run,
    step: Option<StepNumber>,
    now: Timestamp,
    held: BTreeSet<Option<String>>,
) -> Result<Option<StepNumber>, Rejection> {
    let command = Command::Dispatch {
        process: None,
        secret: SecretHash::default(),
        run: run.id,
        step,
        worker: "worker".to_owned(),
        route: Route { held, ..Route::default() },
        lease: None,
    };
    let events = decide(state, now, &command)?;
    Ok(events.iter().find_map(|event| match event {
        Event::Step(record) => Some(record.step),
        _ => None,
    }))
}

pub(crate) fn refusal(rejection: &Rejection) -> String {
    escape_control(&rejection.to_string())
}
