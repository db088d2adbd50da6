//! `ledger inspect DIR queue`: what may be dealt, in the order of dealing, and what holds it.

use clap::Args;
use serde_json::json;

use crate::output::{Code, Failure};
use plan_ledger::plan::{
    BlockReason, Explanation, Run, StepNumber, StepState, StepStatus, explain,
};

use super::super::Form;
use super::super::page::{Page, time_json};
use super::super::text::{Paint, Table, counted, moment, plain};
use super::Look;
use super::reasons::reason_json;
use super::scene::{At, Scene, titled};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger queue                     what is dealt next, and what a cap holds back
  ledger inspect .ledger queue my-plan --at 900
  ledger inspect .ledger queue --json | jq -r 'select(.type == \"ready\") | .id'";

/// How many steps are listed for people.
const SHOWN: usize = 40;

/// What may be dealt now, in the order of dealing, and what would still hold it back
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::commands::inspect) struct QueueArgs {
    /// The run, by name or number (#3); may be left out where there is only one
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    at: At,
}

pub(super) fn queue(
    args: &QueueArgs,
    look: Look<'_>,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    let (scene, id) = Scene::of_run(look, args.at, args.run.as_deref())?;
    let run = scene.run(id)?;
    match look.form {
        Form::Json => print_json(&scene, run, page)?,
        Form::Text => print(&scene, run, page)?,
    }
    scene.end(page)
}

/// What would hold a step that is ready.
fn held(scene: &Scene<'_>, run: &Run, number: StepNumber) -> Vec<BlockReason> {
    let found = explain(&scene.state, run.id, number, scene.now).ok();
    found.map_or_else(Vec::new, |found: Explanation| found.run_reasons)
}

fn print_json(scene: &Scene<'_>, run: &Run, page: &mut Page<'_>) -> Result<(), Failure> {
    for ((priority, number), place) in run.ready().zip(1_u64..) {
        let step = run.step(number);
        let held = held(scene, run, number);
        page.json(
            "ready",
            &json!({
                "run": run.id,
                "place": place,
                "step": number,
                "id": step.map(StepState::id),
                "priority": priority.0,
                "owner": step.and_then(|step| step.owner()),
                "tags": step.map(StepState::tags),
                "held": held.iter().map(reason_json).collect::<Vec<_>>(),
            }),
        )?;
    }
    for (number, until) in delayed(run) {
        page.json(
            "delayed",
            &json!({
                "run": run.id,
                "step": number,
                "id": run.step(number).map(StepState::id),
                "until": until.map(time_json),
            }),
        )?;
    }
    Ok(())
}

fn delayed(run: &Run) -> impl Iterator<Item = (StepNumber, Option<plan_ledger::plan::Micros>)> {
    let steps = (1..).map(StepNumber).zip(&run.steps);
    let delayed = steps.filter(|(_, step)| step.status == StepStatus::Delayed);
    delayed.map(|(number, step)| (number, step.hold().delay))
}

fn print(scene: &Scene<'_>, run: &Run, page: &mut Page<'_>) -> Result<(), Failure> {
    scene.heading("queue", run, page)?;
    if run.lanes.is_empty() {
        page.line("nothing may be dealt; `why RUN STEP` says what a step waits for")?;
    } else {
        let mut table =
            Table::with_headings(&["place", "step", "priority", "owner", "held by", ""]);
        for ((priority, number), place) in run.ready().zip(1_u64..).take(SHOWN) {
            let (name, title) = titled(run, number);
            let owner = run.step(number).and_then(|step| step.owner()).unwrap_or("-");
            let held = held(scene, run, number);
            let (paint, held) = match held.first() {
                None => (Paint::Faint, "-".to_owned()),
                Some(reason) => (Paint::Notice, holds(reason).to_owned()),
            };
            table.row([
                (Paint::None, place.to_string()),
                (Paint::Heading, name),
                (Paint::None, priority.0.to_string()),
                (Paint::None, plain(owner)),
                (paint, held),
                (Paint::Faint, title),
            ]);
        }
        page.table(&table, 2)?;
        let rest = run.ready_count().saturating_sub(SHOWN);
        if rest > 0 {
            page.line(&format!("  and {rest} more"))?;
        }
    }
    for (number, until) in delayed(run) {
        let (name, _) = titled(run, number);
        let until = until.map_or_else(String::new, |at| format!(", {}", moment(at, scene.now)));
        page.line(&format!("  delayed: {name}{until}"))?;
    }
    let in_flight = counted(run.in_flight.into(), "attempt");
    page.painted(Paint::Faint, &format!("  {in_flight} in flight"))
}

/// What holds a step that is ready, in a word or two.
fn holds(reason: &BlockReason) -> &'static str {
    match reason {
        BlockReason::RunEnded(_) => "the run's end",
        BlockReason::Paused(_) => "a pause",
        BlockReason::Stopping(_) => "the run stops",
        BlockReason::Cap { .. } => "a cap",
        BlockReason::Budget(_) => "the budget",
        _ => "see why",
    }
}
