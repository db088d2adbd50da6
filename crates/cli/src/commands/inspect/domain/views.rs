//! `ledger inspect DIR view` and `ledger status`: a run as somebody wants to see it.
//!
//! Invariant: what is shown is what the views of the plan layer hold; nothing is judged here.

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::options::LedgerFolder;
use crate::output::{Code, Failure};
use plan_ledger::ledger::{PartialTrace, RecordedEvent, TracedRecord, time_text};
use plan_ledger::plan::{
    Event, Micros, RequiredAction, RunId, UserView, execution_state, operator_view, user_view,
};

use super::super::Form;
use super::super::page::Page;
use super::super::phrase::phrase;
use super::super::text::{Paint, moment, plain};
use super::Look;
use super::operator;
use super::scene::{At, Scene};
use super::view_json::{execution_json, operator_json, traced_json, untraced_json, user_json};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger view user                 how far it is, and what needs somebody
  ledger inspect .ledger view operator my-plan     what is in flight, spent, stuck
  ledger inspect .ledger view debug my-plan        every record, and what it changed
  ledger inspect .ledger view user --at 900";

/// A run as its user, its operator or its debugger wants to see it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::commands::inspect) struct ViewArgs {
    /// For whom
    #[arg(value_name = "VIEW")]
    view: View,
    /// The run, by name or number (#3); may be left out where there is only one
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    at: At,
}

/// For whom a view is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::commands) enum View {
    /// How far it is, what goes on, what needs somebody, when it may be done
    User,
    /// What is in flight, what was spent, what is stuck
    Operator,
    /// Every record, and what it changed
    Debug,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  ledger status                                    all runs that go on, in the folder .ledger
  ledger status path/to/ledger --view operator
  ledger status --watch                            again whenever something happens
  ledger status --run my-plan --json";

/// `ledger status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(in crate::commands::inspect) folder: LedgerFolder,
    /// For whom
    #[arg(long, value_name = "VIEW", default_value = "user")]
    view: View,
    /// The run, by name or number (#3); without one: all that go on, or else the newest
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Print JSON Lines, as format/inspect-json.md describes them
    #[arg(long)]
    pub(in crate::commands::inspect) json: bool,
    /// Print it again whenever something was recorded, until no run goes on any more
    #[arg(long)]
    pub(in crate::commands::inspect) watch: bool,
}

pub(super) fn view(args: &ViewArgs, look: Look<'_>, page: &mut Page<'_>) -> Result<Code, Failure> {
    let (mut scene, id) = Scene::of_run(look, args.at, args.run.as_deref())?;
    show(&mut scene, id, args.view, page)?;
    scene.end(page)
}

/// `ledger status`.
pub(in crate::commands::inspect) fn status(
    args: &StatusArgs,
    look: Look<'_>,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    if let Some(name) = &args.run {
        let (mut scene, id) = Scene::of_run(look, At::default(), Some(name))?;
        show(&mut scene, id, args.view, page)?;
        return scene.end(page);
    }
    let mut scene = Scene::of(look, At::default())?;
    let mut shown: Vec<RunId> = scene.state.runs.open().collect();
    if shown.is_empty() {
        shown.extend(scene.state.runs.keys().last());
    }
    if shown.is_empty() && look.form == Form::Text {
        page.line("no run has been started")?;
    }
    for (place, id) in shown.into_iter().enumerate() {
        if place > 0 && look.form == Form::Text {
            page.line("")?;
        }
        show(&mut scene, id, args.view, page)?;
    }
    scene.end(page)
}

fn show(scene: &mut Scene<'_>, id: RunId, view: View, page: &mut Page<'_>) -> Result<(), Failure> {
    let (form, now) = (scene.look.form, scene.now);
    match (view, form) {
        (View::User, Form::Json) => {
            let run = scene.run(id)?;
            page.json("user_view", &user_json(id, &user_view(run, now)))
        }
        (View::User, Form::Text) => {
            let run = scene.run(id)?;
            scene.heading("status", run, page)?;
            print_user(&user_view(run, now), now, page)
        }
        (View::Operator, Form::Json) => {
            let run = scene.run(id)?;
            page.json("operator_view", &operator_json(&operator_view(run, now)))
        }
        (View::Operator, Form::Text) => {
            let run = scene.run(id)?;
            scene.heading("status", run, page)?;
            operator::print(run, &operator_view(run, now), now, page)
        }
        (View::Debug, _) => debug(scene, id, page),
    }
}

fn print_user(view: &UserView, now: Micros, page: &mut Page<'_>) -> Result<(), Failure> {
    // Its own words, and the deadlines that it only has as data.
    let text = view.to_string();
    text.lines().try_for_each(|line| page.line(&plain(line)))?;
    for need in &view.needs {
        if let RequiredAction::Answer { question, deadline: Some(deadline), .. } = need {
            let until = moment(*deadline, now);
            page.painted(
                Paint::Notice,
                &format!("  question {} is open until {until}", question.0),
            )?;
        }
    }
    Ok(())
}

/// What the log still has of a run, and how the view tells it.
struct Story {
    /// Up to which record what each of them changed is not told, since they were pruned.
    untold: u64,
    /// Records, and what they changed.
    traced: Vec<TracedRecord>,
    /// Records behind what could not be read: what they changed is not known.
    behind: Vec<RecordedEvent>,
}

impl Story {
    /// All there is up to the record of the scene; what is missing is noted there.
    fn of(scene: &mut Scene<'_>, id: RunId) -> Result<Self, Failure> {
        let last = scene.state.seq;
        let PartialTrace { after: untold, records: mut traced, cut } =
            scene.view.partial_trace(id)?;
        traced.retain(|record| record.seq <= last);
        let Some(cut) = cut else { return Ok(Self { untold, traced, behind: Vec::new() }) };
        scene.miss(format!("what changed is only known as far as it can be folded: {cut}"));
        let told = traced.last().map_or(untold, |record| record.seq);
        let mut behind = scene.chronicle(id)?.records;
        behind.retain(|record| record.seq > told);
        Ok(Self { untold, traced, behind })
    }
}

fn debug(scene: &mut Scene<'_>, id: RunId, page: &mut Page<'_>) -> Result<(), Failure> {
    let Story { untold, traced, behind } = Story::of(scene, id)?;
    let run = scene.run(id)?;
    let behind = behind.iter().filter_map(|record| Some((record, record.event.as_ref()?)));
    if scene.look.form == Form::Json {
        page.json("execution_state", &execution_json(id, &execution_state(run, scene.now)))?;
        if untold > 0 {
            page.json("untold", &json!({ "run": id, "through": untold }))?;
        }
        traced.iter().try_for_each(|record| page.json("traced", &traced_json(record)))?;
        let mut behind = behind.map(|(record, event)| untraced_json(record, event));
        return behind.try_for_each(|fields| page.json("traced", &fields));
    }
    scene.heading("every record", run, page)?;
    scene.since(page)?;
    if untold > 0 {
        let text = format!("what changed is told from record {} on", untold.saturating_add(1));
        page.painted(Paint::Notice, &text)?;
    }
    for TracedRecord { seq, time, event, changes, replan } in &traced {
        print_record(*seq, *time, event, page)?;
        for change in changes {
            let text = format!("           {}", plain(&change.to_string()));
            page.painted(Paint::Faint, &page.style.fit(&text, 0))?;
        }
        let replan = replan.as_ref().map(ToString::to_string).unwrap_or_default();
        for line in replan.lines() {
            page.painted(Paint::Notice, &format!("           {}", plain(line)))?;
        }
    }
    for (record, event) in behind {
        print_record(record.seq, record.time, event, page)?;
    }
    Ok(())
}

fn print_record(seq: u64, time: Micros, event: &Event, page: &mut Page<'_>) -> Result<(), Failure> {
    let text = format!("{seq:>7}  {}  {}", time_text(time), phrase(event));
    page.line(&page.style.fit(&text, 0))
}
