//! The status of a run for its user: progress, current activities, required actions, and the
//! commands that continue the run.

use std::collections::BTreeMap;

use plan_ledger::plan::{Criterion, Micros, UtcTime, Warning};
use plan_ledger::{AttemptToken, Cost, Idempotence, Run, RunId, RunStatus, StepNumber, StepStatus};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::heading::run_heading;
use super::repeats::{RepeatJson, repeated_text};
use super::stale::stale_document;
use super::waits::{InsideWaitJson, WaitJson, inside_wait_text, wait_text};
use crate::activity::{Activity, ActivityJson, RunActivity, RunActivityJson, RunProgress};
use crate::criteria::{TrustedCheckJson, trusted_text};
use crate::json::{FlightJson, StaleFilesJson};
use crate::layout::{Document, Paint};
use crate::next::KnownRun;
use crate::next::{NextAction, NextActionJson};
use crate::records::AnswerOfAnother;
use crate::runner::{AtWork, CheckAtWork, LeftWorker, RepeatingAttempt};
use crate::runner::{
    GoneClaim, RunnerPresence, gone_steps, hosted_steps, steps_in_flight, waits_of,
};
use crate::waiting::{WaitingItem, WaitsFor, rejected_text};
use crate::words::{cost_text, span, step_name, title_line, variant_words, warning_text};

/// How many items of a list are shown.
const LISTED_MAX: usize = 5;

/// A run for its user.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct UserViewLine<'a> {
    /// The next actions, most urgent first, with their commands.
    actions: Vec<NextActionJson>,
    /// How it stands.
    activity: RunActivityJson,
    /// The checks that run now; none for a past state.
    checks: &'a [CheckAtWork],
    /// The claims of processes that are gone; none for a past state.
    dead_claims: Vec<DeadClaimJson<'a>>,
    /// Whether more steps will follow: the plan continues, and the run has not ended.
    continues: bool,
    /// The number of accepted or skipped steps.
    done: u32,
    /// The expected remaining time.
    expected_micros: Option<Micros>,
    /// The attempts in flight, in the order of dispatch.
    in_flight: Vec<FlightJson<'a>>,
    /// What waits for a person.
    needs: Vec<NeedJson>,
    /// What happens at the moment, the most important first.
    now: Vec<ActivityJson>,
    /// Repeated output of workers; empty for a past state.
    repeats: Vec<RepeatJson<'a>>,
    /// The run.
    run: RunId,
    /// Whether a runner is at work on the ledger; null for a past state, or if it is unknown.
    runner_at_work: Option<bool>,
    /// The questions that were answered by a person other than their addressee.
    answers_of_others: &'a [AnswerOfAnother],
    /// The steps that did not begin and have files that changed since the plan was made although no
    /// other step may change them; null if that is not known.
    stale_files: Option<Vec<StaleFilesJson>>,
    /// The number of steps in the active version.
    steps: u32,
    /// The title of its plan.
    title: &'a str,
    /// The checks that were taken on the worker's word.
    trusted_checks: Vec<TrustedCheckJson>,
    /// The waits of the runner before it dispatches ready steps; empty for a past state.
    waits: Vec<WaitJson>,
    /// The workers that wait in their processes for the end of a usage limit; none for a past state.
    waits_inside: Vec<InsideWaitJson<'a>>,
    /// Warnings for a person.
    warnings: Vec<Warning>,
}

/// The claim of a process that is gone.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct DeadClaimJson<'a> {
    /// The process.
    process: u32,
    /// When the step was claimed.
    since: UtcTime,
    /// The step.
    step: StepNumber,
    /// The token of the attempt.
    token: AttemptToken,
    /// The worker that claimed it.
    worker: &'a str,
}

/// An item that waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct NeedJson {
    #[serde(flatten)]
    action: NextActionJson,
    /// When it is resolved without a person; null if it is not.
    deadline: Option<UtcTime>,
    /// The item, as in `next`.
    item: WaitingItem,
    /// The person for whom it waits; null for any person.
    to: Option<String>,
}

impl NeedJson {
    fn of(action: &NextAction) -> Option<Self> {
        let item = action.waiting()?;
        let WaitsFor::Person(to) = item.waits_for() else { return None };
        Some(Self {
            deadline: item.deadline().map(UtcTime::from),
            to: to.map(str::to_owned),
            item: item.clone(),
            action: action.into(),
        })
    }
}

/// The status of a run for its user.
#[derive(Debug)]
pub struct StatusView<'a> {
    known: &'a KnownRun<'a>,
    stands: RunActivity,
    progress: RunProgress,
    actions: Vec<NextAction>,
    warnings: Vec<Warning>,
    at_work: &'a AtWork,
    answers: &'a [AnswerOfAnother],
    stale: Option<Vec<(StepNumber, Vec<String>)>>,
}

impl<'a> StatusView<'a> {
    /// The status of a run. `answers`: the questions that another person answered; `stale`: the steps with files that
    /// changed since the plan was made, if that is known.
    #[must_use]
    pub fn of(
        known: &'a KnownRun<'a>,
        at_work: &'a AtWork,
        answers: &'a [AnswerOfAnother],
        stale: Option<Vec<(StepNumber, Vec<String>)>>,
    ) -> Self {
        let stands = known.activity();
        Self {
            progress: known.progress(&stands),
            stands,
            actions: known.first_actions(),
            warnings: known.run.warnings(known.state.time, known.now),
            known,
            at_work,
            answers,
            stale,
        }
    }

    /// Its line of JSON.
    #[must_use]
    pub fn line(&self) -> UserViewLine<'_> {
        let Self { known, stands, at_work, answers, .. } = self;
        let (state, run) = (known.state, known.run);
        let RunProgress { title, done, steps, continues, expected } = &self.progress;
        let flights = steps_in_flight(state, run).filter_map(|(number, step)| {
            Some(FlightJson::of(run, number, step.attempts, step.attempt()?))
        });
        let gone = gone_steps(state, run, known.runner.gone).into_iter();
        let dead = gone.filter_map(|(step, claim): (StepNumber, &GoneClaim)| {
            let attempt = run.step(step)?.attempt()?;
            let (since, worker) = (attempt.dispatched.into(), attempt.worker.as_str());
            Some(DeadClaimJson {
                process: claim.process,
                since,
                step,
                token: attempt.token,
                worker,
            })
        });
        UserViewLine {
            actions: self.actions.iter().map(NextActionJson::from).collect(),
            activity: RunActivityJson::of(stands),
            checks: &at_work.checks,
            dead_claims: dead.collect(),
            continues: *continues,
            done: *done,
            expected_micros: *expected,
            in_flight: flights.collect(),
            needs: known.actions_of_persons().iter().filter_map(NeedJson::of).collect(),
            now: ActivityJson::all(stands),
            repeats: at_work.repeats.iter().map(RepeatJson::from).collect(),
            run: run.id,
            runner_at_work: match known.runner.presence {
                RunnerPresence::Unknown | RunnerPresence::Unseen(_) => None,
                RunnerPresence::AtWork => Some(true),
                RunnerPresence::Absent => Some(false),
            },
            answers_of_others: answers,
            stale_files: StaleFilesJson::of(self.stale.clone()),
            steps: *steps,
            title,
            trusted_checks: TrustedCheckJson::of_run(run),
            waits: WaitJson::of_run(known.runner.waits, run),
            waits_inside: at_work.inside.iter().map(InsideWaitJson::of).collect(),
            warnings: self.warnings.clone(),
        }
    }

    /// Its heading.
    #[must_use]
    pub fn heading(&self) -> Document {
        run_heading("status", self.known.run, &self.stands)
    }

    /// Its document, without the heading.
    #[must_use]
    pub fn document(&self) -> Document {
        let run = self.known.run;
        let mut document = Document::default();
        document.indented(2, self.progress_text());
        self.add_activities(&mut document);
        self.add_flights(&mut document);
        self.add_checks(&mut document);
        add_failed(run, &mut document);
        // Otherwise an action names it.
        let rejected = rejected_text(run)
            .filter(|_| run.request.is_none() && run.status == RunStatus::Running);
        let answers = self.answers.iter().rev().take(LISTED_MAX).map(|answer| answer.text(run));
        for text in rejected.into_iter().chain(trusted_text(run)).chain(answers) {
            document.indented(2, (Paint::Notice, text));
        }
        document.append(warnings_document(run, &self.warnings, &self.at_work.repeats));
        document.append(stale_document(run, self.stale.as_deref().unwrap_or_default(), 2));
        if let (Some(left), None) = (self.progress.expected, &self.stands.absence) {
            document.indented(2, format!("about {} more", whole_seconds(left)));
        }
        let (needs, next): (Vec<_>, Vec<_>) =
            self.actions.iter().partition(|action| action.needs_person());
        self.add_actions(self.known.heading_of_person(), &needs, &mut document);
        self.add_actions("next", &next, &mut document);
        document
    }

    fn progress_text(&self) -> String {
        let RunProgress { title, done, steps, continues, .. } = &self.progress;
        let more = if *continues { " so far" } else { "" };
        let spent = self.known.run.spent();
        let spent = if spent == Cost::default() {
            String::new()
        } else {
            format!(", cost {}", cost_text(spent))
        };
        format!("{title}: {done} of {steps} steps{more}{spent}")
    }

    fn add_activities(&self, document: &mut Document) {
        let KnownRun { run, now, ref runner, .. } = *self.known;
        // The heading has the first one, and what waits for people has a list of its own.
        let is_shown =
            |activity: &&Activity| !matches!(activity, Activity::WaitingForPeople { .. });
        for activity in self.stands.others.iter().filter(is_shown) {
            document.indented(2, activity.to_string());
        }
        if let Some(reason) = run.why_stopping().filter(|_| run.status == RunStatus::Running) {
            document.indented(2, format!("stopping: {reason}"));
        }
        for wait in waits_of(runner.waits, run) {
            document.indented(2, (Paint::Notice, wait_text(wait, run, now)));
        }
    }

    fn add_flights(&self, document: &mut Document) {
        let KnownRun { state, run, now, ref runner, .. } = *self.known;
        let gone: BTreeMap<StepNumber, u32> = gone_steps(state, run, runner.gone)
            .into_iter()
            .map(|(number, claim)| (number, claim.process))
            .collect();
        let hosted: Vec<StepNumber> = hosted_steps(state, run).map(|(number, _)| number).collect();
        let absence = runner.absence();
        for (step, _) in steps_in_flight(state, run).take(LISTED_MAX) {
            let end = match (gone.get(&step), self.at_work.left.get(&step)) {
                (Some(process), _) => WorkerEnd::Gone(*process),
                _ if absence.is_none() || !hosted.contains(&step) => WorkerEnd::None,
                _ if !runner.is_absent() => WorkerEnd::Unseen,
                (None, Some(left)) => WorkerEnd::Left(*left),
                (None, None) => WorkerEnd::WithRunner,
            };
            let Some(text) = self.flight_text(step, end) else { continue };
            let is_gone = matches!(end, WorkerEnd::Gone(_));
            document.indented(2, (if is_gone { Paint::Bad } else { Paint::None }, text));
            let inside = self.at_work.inside.iter().find(|(of, _)| *of == step && !is_gone);
            if let Some((_, wait)) = inside {
                document.indented(4, (Paint::Notice, inside_wait_text(wait, now)));
            }
        }
    }

    /// A step in flight, with its worker; `None` if it has no attempt.
    fn flight_text(&self, number: StepNumber, end: WorkerEnd) -> Option<String> {
        let KnownRun { run, now, .. } = *self.known;
        let step = run.step(number)?;
        let (attempts, attempt) = (step.attempts, step.attempt()?);
        let what = match end {
            WorkerEnd::None => "working on",
            WorkerEnd::WithRunner => "in flight when it stopped",
            WorkerEnd::Left(LeftWorker::Process(_)) => "still at work",
            WorkerEnd::Left(LeftWorker::Alone) => "still at work, without its supervisor",
            WorkerEnd::Unseen => "in flight",
            WorkerEnd::Gone(_) => "its worker is gone",
        };
        let again = if attempts > 1 { format!(", attempt {attempts}") } else { String::new() };
        let owner = attempt.second_owner.as_ref();
        let owner = owner.map(|owner| format!(" of {owner}, the second owner")).unwrap_or_default();
        let time = whole_seconds(now.saturating_sub(attempt.dispatched));
        let time = match end {
            WorkerEnd::None => format!("for {time}"),
            WorkerEnd::WithRunner | WorkerEnd::Unseen => format!("begun {time} ago"),
            WorkerEnd::Left(LeftWorker::Process(process)) => {
                let limit = limit_text(run, number);
                format!("begun {time} ago, process {process}, {limit}")
            }
            WorkerEnd::Left(LeftWorker::Alone) => {
                let found = run.plan().zip(run.plan_step(number));
                let is_once =
                    found.is_some_and(|(plan, step)| plan.idempotence_of(step) == Idempotence::No);
                let next = if is_once { "waits for its end" } else { "kills it" };
                format!("begun {time} ago, no time limit; the next runner {next}")
            }
            WorkerEnd::Gone(process) => format!("begun {time} ago, process {process}"),
        };
        let title = title_line(run, number);
        let title = if step.id() == title { String::new() } else { format!(" ({title})") };
        let (name, worker) = (step_name(run, number), &attempt.worker);
        Some(format!("{what}: {name}{title}{again}, by {worker}{owner}, {time}"))
    }

    fn add_checks(&self, document: &mut Document) {
        let KnownRun { run, now, .. } = *self.known;
        for CheckAtWork { step, criterion, process, since } in &self.at_work.checks {
            let place = u64::from(*criterion) + 1;
            let what = step.map_or_else(|| "the plan".to_owned(), |step| step_name(run, step));
            let body = criterion_of(run, *step, *criterion).unwrap_or_default();
            let body = body.lines().next().unwrap_or_default();
            let time = whole_seconds(now.saturating_sub(*since));
            document.indented(
                2,
                format!(
                    "checking {what}, criterion {place}: {body}, process {process}, for {time}"
                ),
            );
        }
    }

    fn add_actions(&self, heading: &str, actions: &[&NextAction], document: &mut Document) {
        // Without a command, the lines above say it; but an agent is told what waits for a person, without the
        // command, and a person how much more there is.
        let is_agent = self.known.is_for_agent();
        let is_shown = |action: &&&NextAction| {
            !action.commands.is_empty() || (is_agent || action.is_rest) && action.needs_person()
        };
        let actions: Vec<_> = actions.iter().filter(is_shown).collect();
        if !actions.is_empty() {
            document.indented(2, (Paint::Notice, heading));
            for action in actions {
                action.add_to(document, 4, "", 2);
            }
        }
    }
}

/// How the worker of a step in flight is known to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerEnd {
    /// It is at work, as far as is known.
    None,
    /// Its runner is gone.
    WithRunner,
    /// Its runner is gone, and it is still at work.
    Left(LeftWorker),
    /// Its runner may be gone, which cannot be seen from here.
    Unseen,
    /// The process that claimed the step is gone.
    Gone(u32),
}

/// The time limit of a step, for people.
fn limit_text(run: &Run, number: StepNumber) -> String {
    let limit = run
        .plan()
        .zip(run.plan_step(number))
        .and_then(|(plan, step)| step.timeout_seconds().or(plan.header().defaults.timeout_seconds));
    match limit {
        Some(seconds) => format!("limit {}", span(Micros::from(seconds) * 1_000_000)),
        None => "no time limit".to_owned(),
    }
}

/// The text of a criterion of a step or of the plan.
fn criterion_of(run: &Run, step: Option<StepNumber>, criterion: u32) -> Option<String> {
    let place = usize::try_from(criterion).ok()?;
    let body = |criteria: &[Criterion]| Some(criteria.get(place)?.body().to_owned());
    match step {
        Some(number) => body(&run.plan_step(number)?.acceptance()),
        None => body(&run.plan()?.header().test_criteria),
    }
}

fn add_failed(run: &Run, document: &mut Document) {
    let failed: Vec<StepNumber> = run.steps_in(StepStatus::Failed).collect();
    for number in failed.iter().take(LISTED_MAX) {
        let failure = run.step(*number).and_then(|step| step.last_failure());
        let why = failure.map_or_else(String::new, |(class, message)| {
            let message = message.lines().next().unwrap_or_default();
            format!(": {}: {message}", variant_words(class, ' '))
        });
        document.indented(2, (Paint::Bad, format!("failed: {}{why}", step_name(run, *number))));
    }
    let rest = failed.len().saturating_sub(LISTED_MAX);
    if rest > 0 {
        document.indented(2, (Paint::Bad, format!("failed: {rest} more")));
    }
}

/// The warnings for a person.
#[must_use]
pub fn warnings_document(
    run: &Run,
    warnings: &[Warning],
    repeats: &[RepeatingAttempt],
) -> Document {
    let texts = warnings.iter().map(|warning| warning_text(run, warning));
    let repeated = repeats.iter().map(|attempt| repeated_text(run, attempt));
    let mut document = Document::default();
    for text in texts.chain(repeated) {
        document.indented(2, (Paint::Notice, format!("warning: {text}")));
    }
    document
}

fn whole_seconds(micros: Micros) -> String {
    span(micros / 1_000_000 * 1_000_000)
}
