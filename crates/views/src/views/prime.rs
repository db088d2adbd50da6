//! The prime: the facts that an agent needs to continue, in a text of limited length.
//!
//! Each section lists a few items. If the text is too long, items are left out from the end: first
//! changes, then open questions, risks and steps that can be dispatched, then items that wait for a
//! person, then claims, and last rejections by a person and the outcome.

use std::collections::BTreeSet;

use plan_ledger::plan::{CompactPlan, QuestionAnswer};
use plan_ledger::{Limits, Run, StepNumber, StepState, Timestamp};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::waits::wait_text;
use crate::activity::{RunActivityJson, recorded_status};
use crate::advice::{Advice, Audience};
use crate::approval::is_unapproved;
use crate::next::KnownRun;
use crate::render::{cut, escape_control};
use crate::runner::{gone_steps, hosted_steps, steps_in_flight, waits_of};
use crate::waiting::WaitingItem;
use crate::words::{limits_text, seconds, step_name, step_title};

/// How many items of each kind a prime has.
const LISTED_MAX: usize = 5;

/// The most bytes of a prime.
pub const PRIME_LENGTH_MAX: usize = 2048;

/// The widest line.
const LINE_WIDTH_MAX: usize = 160;

/// The facts that an agent needs to continue. Without a ledger, or without a run, most members are
/// empty.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PrimeLine {
    /// How the run stands; null without one.
    pub activity: Option<RunActivityJson>,
    /// The command that lets it continue, where a runner or a plan is missing.
    #[serde(skip)]
    pub start: Option<Advice>,
    /// Whether the reader works inside an attempt, and claims nothing.
    #[serde(skip)]
    pub is_for_worker: bool,
    /// The active runs, if there are several and none was named.
    pub active_runs: Vec<String>,
    /// Whether other runs are active, too, so that a command has to name the run.
    #[serde(skip)]
    pub is_one_of_several: bool,
    /// What people answered about the steps in `claimed` and `ready`, with a note: the last answer for each.
    pub answers: Vec<AnswerNoteJson>,
    /// The rest of the run's budget; absent limits are unlimited.
    pub budget_left: Limits,
    /// The last changes of the run, newest first.
    pub changes: Vec<ChangeJson>,
    /// The steps in flight, in the order of dispatch: the first five.
    pub claimed: Vec<ClaimedStepJson>,
    /// The number of steps in flight.
    pub claimed_count: usize,
    /// The first damage, or why not all of the ledger can be read; null without either.
    pub damage: Option<String>,
    /// The number of steps that are accepted or skipped.
    pub done: u32,
    /// The steps that can be dispatched, in the order of dispatch: the first five.
    pub ready: Vec<ReadyStepJson>,
    /// The number of steps that can be dispatched.
    pub ready_count: usize,
    /// The plan's description of the work.
    pub plan: PlanNotes,
    /// The versions that a person rejected since the active one became active.
    pub rejections: Vec<RejectionJson>,
    /// The run; null without a run, or if several are active and none was named.
    pub run: Option<String>,
    /// The last record of the ledger.
    pub seq: u64,
    /// The status of the run.
    pub status: Option<String>,
    /// The number of steps of the active version.
    pub steps: u32,
    /// Whether more steps will follow: the plan continues, and the run has not ended.
    pub continues: bool,
    /// The plan's title.
    pub title: String,
    /// The waits of the runner before it dispatches ready steps.
    pub waits: Vec<WaitingJson>,
    /// The items that wait for a person: the first five.
    pub waiting: Vec<WaitingJson>,
    /// The number of items that wait for a person.
    pub waiting_count: usize,
}

/// A plan's description of the work, apart from its steps.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PlanNotes {
    /// The next action: `extra.next_action`.
    next_action: String,
    /// The open questions.
    open_questions: Vec<String>,
    /// The state that the plan leads to.
    outcome: String,
    /// The known risks.
    risks: Vec<String>,
}

/// A version that a person rejected.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RejectionJson {
    /// The note of its reviewer.
    note: String,
    /// The version.
    version: u32,
}

/// An answer of a person about a step.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct AnswerNoteJson {
    /// The answer.
    answer: String,
    /// The person.
    by: String,
    /// What the person noted.
    note: String,
    /// The step number.
    number: StepNumber,
    /// The step's id.
    step: String,
}

/// A change of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ChangeJson {
    /// The record.
    pub seq: u64,
    /// The change, for people.
    pub text: String,
}

/// A step in flight.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ClaimedStepJson {
    /// When it was dispatched.
    dispatched_micros: Timestamp,
    /// Whether its worker is known to be gone: the process that claimed it, or the runner that started it.
    is_gone: bool,
    /// The end of its lease.
    lease_until_micros: Timestamp,
    /// The step number.
    number: StepNumber,
    /// The step's id.
    step: String,
    /// Its title or goal.
    title: String,
    /// The worker.
    worker: String,
}

/// A step that can be dispatched.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ReadyStepJson {
    /// The step number.
    number: StepNumber,
    /// Its owner.
    owner: Option<String>,
    /// The step's id.
    step: String,
    /// Its title or goal.
    title: String,
}

/// An item that waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct WaitingJson {
    /// The item, for people.
    pub text: String,
}

impl AnswerNoteJson {
    /// An answer of a person about a step; `None` if it has no note.
    #[must_use]
    pub fn of(run: &Run, number: StepNumber, answer: QuestionAnswer) -> Option<Self> {
        let step = run.step(number)?.id().to_owned();
        let QuestionAnswer { answer, by, note, .. } = answer;
        (!note.is_empty()).then_some(Self { answer, by, note, number, step })
    }
}

impl PrimeLine {
    /// The line with a run. `unchecked`: the reported steps that no process checks, and why.
    #[must_use]
    pub fn with_run(self, known: &KnownRun<'_>, unchecked: Vec<(StepNumber, String)>) -> Self {
        let KnownRun { state, run, now, ref runner, .. } = *known;
        let stands = known.activity();
        let progress = known.progress(&stands);
        let items = known.waiting.iter().flatten().filter(|item| item.needs_person());
        let items = items.map(|item: &WaitingItem| WaitingJson { text: item.to_string() });
        let unchecked = unchecked.into_iter().map(|(number, why)| WaitingJson {
            text: format!("{} is reported, and {why}", step_name(run, number)),
        });
        // Unapproved commands are a separate item.
        let waiting: Vec<WaitingJson> =
            items.chain(unchecked.filter(|_| !is_unapproved(run))).collect();
        let gone = gone_of(known);
        let free = free_steps(run);
        let flights = || steps_in_flight(state, run);
        let wait = |wait| WaitingJson { text: wait_text(wait, run, now) };
        Self {
            activity: Some(RunActivityJson::of(&stands)),
            budget_left: budget_left(run, now),
            claimed: flights()
                .filter_map(|(number, step)| ClaimedStepJson::of(run, (number, step), &gone))
                .take(LISTED_MAX)
                .collect(),
            claimed_count: flights().count(),
            done: progress.done,
            plan: run.plan().map(PlanNotes::of).unwrap_or_default(),
            rejections: rejections(run),
            ready: free
                .iter()
                .filter_map(|number| ReadyStepJson::of(run, *number))
                .take(LISTED_MAX)
                .collect(),
            ready_count: free.len(),
            run: Some(run.name.clone()),
            start: stands.start,
            is_for_worker: known.reader == Audience::Worker,
            status: Some(recorded_status(run).to_owned()),
            steps: progress.steps,
            continues: progress.continues,
            title: progress.title,
            waits: waits_of(runner.waits, run).map(wait).collect(),
            waiting_count: waiting.len(),
            waiting: waiting.into_iter().take(LISTED_MAX).collect(),
            ..self
        }
    }

    /// The steps that a prime of the run lists: those in flight, and those that can be dispatched.
    #[must_use]
    pub fn listed_steps(known: &KnownRun<'_>) -> Vec<StepNumber> {
        let flights = steps_in_flight(known.state, known.run).map(|(number, _)| number);
        let free = free_steps(known.run).into_iter().take(LISTED_MAX);
        flights.take(LISTED_MAX).chain(free).collect()
    }
}

/// The steps in flight whose workers are known to be gone: the processes that claimed them, or the runner that
/// started them, have ended.
fn gone_of(known: &KnownRun<'_>) -> BTreeSet<StepNumber> {
    let KnownRun { state, run, ref runner, .. } = *known;
    let claimed = gone_steps(state, run, runner.gone).into_iter().map(|(number, _)| number);
    let hosted = hosted_steps(state, run).filter(|_| runner.is_absent());
    claimed.chain(hosted.map(|(number, _)| number)).collect()
}

/// The ready steps that no pause and no request for a new plan holds, in the order of dispatch.
fn free_steps(run: &Run) -> Vec<StepNumber> {
    let hold = run.replan_hold();
    let is_free = |number: &StepNumber| {
        run.pause.is_none() && hold.as_ref().is_none_or(|hold| !hold.holds(*number))
    };
    run.ready().map(|(_, number)| number).filter(is_free).collect()
}

impl ClaimedStepJson {
    fn of(
        run: &Run,
        (number, step): (StepNumber, &StepState),
        gone: &BTreeSet<StepNumber>,
    ) -> Option<Self> {
        let attempt = step.attempt()?;
        Some(Self {
            dispatched_micros: attempt.dispatched,
            is_gone: gone.contains(&number),
            lease_until_micros: attempt.lease_until,
            number,
            step: step.id().to_owned(),
            title: step_title(run, number),
            worker: attempt.worker.clone(),
        })
    }
}

impl ReadyStepJson {
    fn of(run: &Run, number: StepNumber) -> Option<Self> {
        let step = run.step(number)?;
        Some(Self {
            number,
            owner: step.owner().map(str::to_owned),
            step: step.id().to_owned(),
            title: step_title(run, number),
        })
    }
}

impl PlanNotes {
    fn of(plan: &CompactPlan) -> Self {
        let plan = plan.header();
        let action = plan.extra.get("next_action");
        Self {
            next_action: action.map(value_text).unwrap_or_default(),
            open_questions: plan.open_questions.clone(),
            outcome: plan.outcome.clone(),
            risks: plan.risks.clone(),
        }
    }
}

/// A value of another tool, for people.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(value_text).collect::<Vec<_>>().join("; "),
        value => value.to_string(),
    }
}

fn rejections(run: &Run) -> Vec<RejectionJson> {
    let rejected = run.rejections().into_iter();
    let rejected = rejected.filter(|(version, _)| *version > run.active);
    rejected.map(|(version, note)| RejectionJson { note: note.to_owned(), version }).collect()
}

/// The rest of a run's budget, without the possible costs of attempts in flight.
fn budget_left(run: &Run, now: Timestamp) -> Limits {
    let (limits, account) = (run.limits(), run.account());
    let left = |limit: Option<u64>, spent: u64| limit.map(|limit| limit.saturating_sub(spent));
    let (spent, reserved) = (account.spent, account.reserved);
    Limits {
        money_micros: left(limits.money_micros, spent.money_micros + reserved.money_micros),
        tokens: left(limits.tokens, spent.tokens + reserved.tokens),
        attempts: left(limits.attempts, account.attempts),
        wall_seconds: run.wall_until().map(|until| until.saturating_sub(now) / 1_000_000),
    }
}

/// How to work on a run, for an agent that knows nothing about ledgers.
const HOW_TO_WORK: &str = "\
How to work: claim a step (tool `ledger_claim`, or `ledger claim --worker NAME --json`), do it, then
report it (`ledger_report`, or `ledger receipt TOKEN`). A step is done when the ledger accepts it, not
when it is reported. Release a claim that you do not finish (`ledger_release`, or `ledger release TOKEN`).
";

/// The same for a worker: the runner or the loop that claimed its step records the result.
const HOW_TO_REPORT: &str = "\
This process works on a step. Do it and nothing else: claim and start nothing.
";

/// The instruction to an agent about a ledger that lacks records.
const STOP: &str = "Stop: claim and propose nothing, and tell the user.\n";

/// A heading with the lines below it.
struct Section {
    heading: &'static str,
    lines: Vec<String>,
    /// How many items there are beyond the lines.
    more: usize,
}

impl Section {
    fn new(heading: &'static str, lines: Vec<String>, count: usize) -> Self {
        let more = count.saturating_sub(lines.len());
        Self { heading, lines, more }
    }

    fn text(&self) -> String {
        if self.lines.is_empty() && self.more == 0 {
            return String::new();
        }
        let mut text = format!("{}\n", self.heading);
        for line in &self.lines {
            text.extend(["  ", &cut(&escape_control(line), LINE_WIDTH_MAX), "\n"]);
        }
        if self.more > 0 {
            text.extend(["  and ", &self.more.to_string(), " more\n"]);
        }
        text
    }
}

/// The text of a prime with at most that many bytes.
#[must_use]
pub fn prime_text(line: &PrimeLine, length_max: usize) -> String {
    let (head, end) = (head(line), end(line));
    let mut sections = sections(line);
    loop {
        let body: String = sections.iter().map(Section::text).collect();
        let text = format!("{head}{body}{end}");
        if text.len() <= length_max {
            return text;
        }
        let longest = sections.iter_mut().rev().find(|section| !section.lines.is_empty());
        let Some(section) = longest else { return at_most(&text, length_max) };
        section.lines.pop();
        section.more += 1;
    }
}

fn head(line: &PrimeLine) -> String {
    let mut head = match (&line.run, &line.activity) {
        (Some(run), Some(stands)) if line.damage.is_some() => {
            format!("plan-ledger: run {run}: {}.", stands.text)
        }
        (Some(run), Some(stands)) => format!(
            "plan-ledger: run {run} ({}): {}. {} of {} steps are done{}.{}",
            line.title,
            stands.text,
            line.done,
            line.steps,
            if line.continues { "; the plan continues" } else { "" },
            match &line.start {
                Some(start) => format!(" `{start}` {}.", start.effect),
                None => String::new(),
            }
        ),
        _ if line.active_runs.is_empty() && line.damage.is_some() => {
            "plan-ledger: not all of the ledger can be read, and no run is known.".to_owned()
        }
        _ if line.active_runs.is_empty() => "plan-ledger: the ledger has no run yet.".to_owned(),
        _ => format!(
            "plan-ledger: {} runs are active; `ledger prime RUN` shows one of them: {}.",
            line.active_runs.len(),
            line.active_runs.join(", ")
        ),
    };
    head = cut(&escape_control(&head), 2 * LINE_WIDTH_MAX);
    head.push('\n');
    if let Some(damage) = &line.damage {
        head.push_str(&cut(&escape_control(&format!("Damage: {damage}")), LINE_WIDTH_MAX));
        head.push('\n');
    }
    head
}

/// The sections of what is known. Nothing is concluded from records that are missing.
fn sections(line: &PrimeLine) -> Vec<Section> {
    if line.damage.is_some() {
        return Vec::new();
    }
    let claimed = line.claimed.iter().map(|step| {
        let until = seconds(step.lease_until_micros);
        let (number, id, worker) = (step.number, &step.step, &step.worker);
        let gone = if step.is_gone { ", which is gone" } else { "" };
        format!("#{number} {id}: by {worker}{gone}, lease until {until}: {}", step.title)
    });
    let answered = line.answers.iter().map(|answer| {
        let AnswerNoteJson { answer, by, note, number, step } = answer;
        format!("#{number} {step}: {answer}, by {by}: {note}")
    });
    let waiting = line.waiting.iter().map(|item| item.text.clone());
    let waits = line.waits.iter().map(|item| item.text.clone());
    let ready = line.ready.iter().map(|step| {
        let owner = step.owner.as_ref().map_or_else(String::new, |it| format!(" (for {it})"));
        format!("#{} {}{owner}: {}", step.number, step.step, step.title)
    });
    let changes =
        line.changes.iter().map(|change| format!("record {}: {}", change.seq, change.text));
    let rejected = line.rejections.iter().map(|rejected| {
        let note = if rejected.note.is_empty() { "without a reason" } else { &rejected.note };
        format!("version {}: {note}", rejected.version)
    });
    let plan = &line.plan;
    let noted = |heading, texts: &[String]| Section::new(heading, texts.to_vec(), texts.len());
    let one = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    vec![
        noted("Outcome:", one(&plan.outcome).as_slice()),
        Section::new("Rejected by a person:", rejected.collect(), line.rejections.len()),
        Section::new("Claimed:", claimed.collect(), line.claimed_count),
        Section::new("Answered by a person:", answered.collect(), line.answers.len()),
        Section::new("Waits for a person:", waiting.collect(), line.waiting_count),
        Section::new("Waits until a time or an answer:", waits.collect(), line.waits.len()),
        Section::new("Next:", ready.collect(), line.ready_count),
        noted("Next action of the plan:", one(&plan.next_action).as_slice()),
        noted("Risks:", &plan.risks),
        noted("Open questions:", &plan.open_questions),
        Section::new("Last changes:", changes.collect(), 0),
    ]
}

fn end(line: &PrimeLine) -> String {
    if line.damage.is_some() {
        return STOP.to_owned();
    }
    let mut end = String::new();
    if line.budget_left != Limits::default() {
        end.extend(["Budget left: ", &limits_text(line.budget_left), "\n"]);
    }
    if line.is_for_worker {
        end.push_str(HOW_TO_REPORT);
        return end;
    }
    let has_work = line.status.as_ref().is_some_and(|status| status == "running");
    if has_work || !line.active_runs.is_empty() {
        let is_only = line.active_runs.is_empty() && !line.is_one_of_several;
        let claim = if is_only { "ledger claim --worker" } else { "ledger claim RUN --worker" };
        end.push_str(&HOW_TO_WORK.replace("ledger claim --worker", claim));
    }
    end
}

/// The text, cut at a character.
fn at_most(text: &str, length_max: usize) -> String {
    let end = (0..=length_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    //! Goal: a prime has at most its limit of bytes, whatever the plan says.

    use super::*;
    use crate::activity::{Activity, RunActivity};
    use plan_ledger::StepNumber;

    fn full(words: &str) -> PrimeLine {
        let many = |count: u32| (1..=count).map(StepNumber);
        let claimed = many(5).map(|number| ClaimedStepJson {
            dispatched_micros: 0,
            is_gone: true,
            lease_until_micros: 1,
            number,
            step: words.to_owned(),
            title: words.to_owned(),
            worker: words.to_owned(),
        });
        let ready = many(5).map(|number| ReadyStepJson {
            number,
            owner: Some(words.to_owned()),
            step: words.to_owned(),
            title: words.to_owned(),
        });
        let change =
            |number: StepNumber| ChangeJson { seq: u64::from(number.0), text: words.to_owned() };
        let waiting = || WaitingJson { text: words.to_owned() };
        let stands = RunActivity {
            activity: Activity::Working { attempts: 5 },
            others: Vec::new(),
            for_people: 5,
            absence: None,
            start: None,
        };
        PrimeLine {
            activity: Some(RunActivityJson::of(&stands)),
            changes: many(5).map(change).collect(),
            claimed: claimed.collect(),
            claimed_count: 40,
            ready: ready.collect(),
            ready_count: 400,
            run: Some(words.to_owned()),
            status: Some("running".to_owned()),
            title: words.to_owned(),
            waiting: (0..5).map(|_| waiting()).collect(),
            waiting_count: 5,
            ..PrimeLine::default()
        }
    }

    #[test]
    fn prime_never_exceeds_its_limit() {
        for words in ["x", &"word ".repeat(400), &"\u{1f980}".repeat(300), "a\nb\u{1b}[2J"] {
            let line = full(words);
            for limit in [PRIME_LENGTH_MAX, 900, 100, 3, 0] {
                let text = prime_text(&line, limit);
                assert!(text.len() <= limit, "{} bytes of {limit}", text.len());
            }
            let text = prime_text(&line, PRIME_LENGTH_MAX);
            assert!(text.contains("Claimed:"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
            let damaged = PrimeLine { damage: Some(words.to_owned()), ..line };
            let text = prime_text(&damaged, PRIME_LENGTH_MAX);
            assert!(text.contains("Stop:") && !text.contains("Claimed:"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
        }
    }

    #[test]
    fn changes_are_left_out_before_claims() {
        let line = full(&"word ".repeat(400));
        let text = prime_text(&line, PRIME_LENGTH_MAX);
        assert!(!text.contains("record 5:") && text.contains("#1 word"), "{text}");
    }
}
