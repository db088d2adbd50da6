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

use plan_ledger::plan::{Route, SecretHash, Timer, decide};
use plan_ledger::{
    Command, Ending, Event, FailureClass, Rejection, Ruling, Run, RunStatus, State, StepNumber,
    StepStatus, Timestamp,
};
use plan_ledger_views::{
    GoneClaim, KnownRunner, RunActivity, RunnerWait, WaitingItem, gone_steps, hosted_steps,
    plan_file, rejected_text, start_or_resume, waiting_items, waits_of,
};

use crate::output::{
    Failure, escape_control, escape_lines, is_for_agent, is_for_reader, pending_commands,
    shell_command,
};
use crate::protocol::{StepName, counted, has_judge};
use crate::runner::{may_ask_planner, misplaced};
use crate::server::RunnerStatus;

use super::lookup::{step_name, steps_in_status};
use super::output::Output;
use super::text::waits::wait_text;
use crate::commands::inspect::text::units::moment;

/// For whom an action is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum ActionGroup {
    /// Only a person can do it.
    Person,
    /// A runner, a worker or a judge does it, or an operator starts one.
    Next,
    /// It passes by itself.
    Wait,
}

/// One action that moves a run forward.
#[derive(Debug, Clone)]
pub(crate) struct NextAction {
    /// The `action` in JSON.
    pub(crate) action: &'static str,
    /// The step concerned.
    pub(crate) step: Option<StepNumber>,
    pub(crate) text: String,
    /// Commands, one of which is enough.
    pub(crate) commands: Vec<String>,
    /// The item that the run waits for; `None` for another action.
    pub(crate) item: Option<WaitingItem>,
}

impl NextAction {
    fn new(action: &'static str, text: String) -> Self {
        Self { action, step: None, text, commands: Vec::new(), item: None }
    }

    /// For whom it is.
    pub(crate) fn group(&self) -> ActionGroup {
        match self.action {
            "wait" => ActionGroup::Wait,
            "resume" | "take_over" | "dispatch" | "judge" | "stop" | "capped" | "none" => {
                ActionGroup::Next
            }
            _ => ActionGroup::Person,
        }
    }

    /// Whether it can be done now.
    pub(crate) fn is_possible_now(&self) -> bool {
        !matches!(self.action, "wait" | "none" | "capped" | "stop")
    }

    /// Whether the run waits for a person to do it.
    pub(crate) fn is_item_of_person(&self) -> bool {
        self.item.as_ref().is_some_and(WaitingItem::needs_person)
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

    /// Prints it and its commands.
    pub(crate) fn print(&self, indent: &str, out: &mut Output<'_>) -> Result<(), Failure> {
        let text = self.text.replace('\n', &format!("\n{indent}  "));
        out.line(&format!("{indent}{text}"))?;
        self.commands.iter().try_for_each(|command| out.line(&format!("{indent}  {command}")))
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
        let NextAction { action, step, text, commands, .. } = next;
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
    pub(crate) waits: &'a [RunnerWait],
}

impl<'a> Surroundings<'a> {
    /// What is known of the runner of a run.
    pub(crate) fn known(&self, run: &Run) -> KnownRunner<'a> {
        self.runner.known(run, self.dir, self.dead, self.waits)
    }

    /// How a run stands.
    pub(crate) fn activity(&self, state: &State, run: &Run, is_damaged: bool) -> RunActivity {
        RunActivity::of((state, run), &self.known(run), is_damaged, self.dir)
    }
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
    match run.status {
        RunStatus::Proposed => proposed(run, at),
        RunStatus::Ended(Ending::Failed) => vec![failed_run(run, at)],
        RunStatus::Ended(_) => vec![NextAction::new("none", "nothing: the run is over".to_owned())],
        RunStatus::Running => running(state, run, at),
    }
}

fn proposed(run: &Run, at: Surroundings<'_>) -> Vec<NextAction> {
    let actions = item_actions(run, at);
    if actions.is_empty() {
        let rejected = rejected_text(run);
        let why = rejected.unwrap_or_else(|| "no version of the plan was approved".to_owned());
        let words = [&plan_file(run), "--run", &run.name];
        let command = shell_command("plan propose", at.dir, &words);
        let text = format!("{}; change the plan and propose it", escape_control(&why));
        return vec![NextAction::new("propose", text).with_command(escape_control(&command))];
    }
    actions
}

/// Every item that an open run waits for.
pub(crate) fn items(run: &Run, dir: &Path) -> Vec<WaitingItem> {
    if matches!(run.status, RunStatus::Ended(_)) {
        return Vec::new();
    }
    waiting_items(run, &Route::default()).into_iter().chain(misplaced(run, dir)).collect()
}

/// The actions for the items that a run waits for: those of persons come first.
pub(crate) fn item_actions(run: &Run, at: Surroundings<'_>) -> Vec<NextAction> {
    let actions = items(run, at.dir).into_iter().filter_map(|item| item_action(item, run, at));
    let (mut actions, others): (Vec<_>, Vec<_>) = actions.partition(NextAction::is_item_of_person);
    actions.extend(others);
    actions
}

/// The actions for the items of a run that wait for a person.
pub(crate) fn items_of_persons(run: &Run, at: Surroundings<'_>) -> Vec<NextAction> {
    let mut actions = item_actions(run, at);
    actions.retain(NextAction::is_item_of_person);
    actions
}

/// The action for an item that a run waits for; `None` if other actions say it.
fn item_action(item: WaitingItem, run: &Run, at: Surroundings<'_>) -> Option<NextAction> {
    let (action, step) = match &item {
        WaitingItem::Question { step, .. } => ("question", step.as_ref()),
        WaitingItem::Review { .. } | WaitingItem::Commands { .. } => ("review", None),
        WaitingItem::Misplaced { step, .. } => ("review", Some(step)),
        WaitingItem::Paused { .. } => ("unpause", None),
        WaitingItem::Replan { from, .. } => ("replan", from.as_ref()),
        WaitingItem::Person { step, .. } => ("person", Some(step)),
        WaitingItem::Decision { step, .. } => ("decide", Some(step)),
        WaitingItem::Verdicts { step, .. } => ("accept", Some(step)),
        WaitingItem::PlanVerdicts { .. } if item.needs_person() => ("accept_plan", None),
        WaitingItem::OutcomeUnknown { step } => ("answer", Some(step)),
        WaitingItem::Checks { step, .. } => ("judge", Some(step)),
        WaitingItem::PlanChecks { .. } => ("judge", None),
        WaitingItem::PlanVerdicts { .. }
        | WaitingItem::Held { .. }
        | WaitingItem::Routed { .. }
        | WaitingItem::Caps { .. }
        | WaitingItem::Blocked { .. } => return None,
    };
    let step = step.map(|step| step.number);
    let (text, commands) = pending_commands(&item, &run.name, at.dir);
    let text = escape_lines(&text);
    let found = match action {
        "judge" if is_checked(run, at) => NextAction::new(action, text),
        "judge" => with_judge(&text, run, at),
        _ => NextAction::new(action, text).with_commands(&commands),
    };
    Some(NextAction { step, item: Some(item), ..found })
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
    actions.extend(gone.iter().map(|(number, dead)| take_over(run, *number, dead, at)));
    actions.extend(item_actions(run, at));
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
    actions.extend(failed.iter().map(|number| failed_step(run, *number, dir)));
    actions.extend(missing_runner(run, &actions, at));
    if actions.is_empty() {
        actions.push(stuck(run, dir));
    }
    actions
}

/// Nothing moves the run by itself: the first open step explains why.
fn stuck(run: &Run, dir: &Path) -> NextAction {
    let text = "nothing can be dispatched before a value or the plan changes".to_owned();
    let action = NextAction::new("none", text);
    let steps = (1..).map(StepNumber).zip(&run.steps);
    match steps.into_iter().find(|(_, step)| step.status.is_open()) {
        Some((number, _)) => {
            let why = shell_command("inspect", dir, &["why", &run.name, &id_of(run, number)]);
            action.for_step(number).with_command(escape_control(&why))
        }
        None => action,
    }
}

/// The failed step about which a new plan version is requested.
fn step_of_request(run: &Run) -> Option<StepNumber> {
    waiting_items(run, &Route::default()).into_iter().find_map(|item| match item {
        WaitingItem::Replan { from: Some(step), is_failed: true, .. } => Some(step.number),
        _ => None,
    })
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

/// Starts the last runner of a run again, where it is not at work: without one, nothing that people decide is done.
fn missing_runner(run: &Run, others: &[NextAction], at: Surroundings<'_>) -> Option<NextAction> {
    let is_started = others
        .iter()
        .any(|other| other.commands.iter().any(|command| command.starts_with("ledger resume")));
    let absence = at.runner.absence().filter(|_| !is_started && run.in_flight == 0)?;
    at.runner.resume_words(&run.name)?;
    let text = format!("{absence}: what people decide is done once one is");
    Some(with_runner(NextAction::new("resume", text), run, at))
}

/// The action with the command that starts a runner of the run.
fn with_runner(action: NextAction, run: &Run, at: Surroundings<'_>) -> NextAction {
    let command = start_or_resume(run, &at.known(run), at.dir).to_string();
    action.with_command(escape_control(&command))
}

fn failed_steps(run: &Run) -> Vec<StepNumber> {
    steps_in_status(run, StepStatus::Failed).collect()
}

/// A failed run: retry its failed steps, if a retry can help.
fn failed_run(run: &Run, at: Surroundings<'_>) -> NextAction {
    let dir = at.dir;
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
    let all_failed = match at.runner.resume_words(&run.name).filter(|_| !is_for_agent()) {
        Some(words) => {
            let resume = escape_control(&shell_command("resume", dir, &words));
            format!(", or retry all failed steps with `{resume} --retry-failed`")
        }
        None => String::new(),
    };
    let text = format!(
        "the run failed because of {what}; retry or skip it{all_failed}{}",
        if lacks_replans(run, &failed) { NO_REPLANS } else { "" }
    );
    let action = NextAction { step: failed.first().copied(), ..NextAction::new("retry", text) };
    let single = failed.iter().take(LISTED_MAX).map(|number| retry(run, *number, dir));
    let action = single.fold(action, NextAction::with_command);
    let action = if failed.len() == 1 { action } else { action.with_command(all) };
    let skipped = failed.iter().take(LISTED_MAX).map(|number| skip(run, *number, dir));
    skipped.fold(action, NextAction::with_command)
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
    action.with_command(skip(run, number, dir))
}

fn skip(run: &Run, number: StepNumber, dir: &Path) -> String {
    let skip = shell_command("skip", dir, &[&run.name, &id_of(run, number)]);
    format!("{} --reason WHY", escape_control(&skip))
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

/// The first actions of each type, and how many more there are.
pub(crate) fn limited(actions: &[NextAction], run: &Run, dir: &Path) -> Vec<NextAction> {
    let types = actions.chunk_by(|one, other| one.action == other.action);
    let limit = |actions: &[NextAction]| {
        let mut shown: Vec<_> = actions.iter().take(LISTED_MAX).cloned().collect();
        let rest = actions.len().saturating_sub(LISTED_MAX);
        if let (Some(first), true) = (actions.first(), rest > 0) {
            let list = escape_control(&shell_command("questions", dir, &[&run.name]));
            let list = if first.is_item_of_person() {
                format!(": `{list}` lists them")
            } else {
                String::new()
            };
            let text = format!("and {rest} more of these{list}");
            shown.push(NextAction::new(first.action, text));
        }
        shown
    };
    types.flat_map(limit).collect()
}

/// A step as an argument of a command.
fn id_of(run: &Run, number: StepNumber) -> String {
    StepName::of(run, number).argument()
}

/// Whether a process is at work that checks commands.
fn is_checked(run: &Run, at: Surroundings<'_>) -> bool {
    at.runner.absence().is_none() || has_judge(at.dir, run.id)
}

/// An action that says that no judge is at work, and how one is started. In the shell of an agent none starts.
fn with_judge(text: &str, run: &Run, at: Surroundings<'_>) -> NextAction {
    let judge = shell_command("work", at.dir, &[&run.name]);
    let judge = escape_control(&format!("{judge} --judge-only --wait"));
    if is_for_agent() {
        let text = format!("{text}; none is at work until a person starts one");
        return NextAction::new("judge", text);
    }
    let action = NextAction::new("judge", format!("{text}; none is at work")).with_command(judge);
    match at.runner.resume_words(&run.name) {
        Some(words) => {
            action.with_command(escape_control(&shell_command("resume", at.dir, &words)))
        }
        None => action,
    }
}

/// The step that would be dispatched now, or why no ready step can be.
fn dispatch_action(
    state: &State,
    run: &Run,
    now: Timestamp,
    waits: &[RunnerWait],
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
