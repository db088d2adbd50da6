//! `ledger inspect DIR barriers`: which barriers are closed, and who is missing.

use clap::Args;

use crate::output::{Code, Failure};
use plan_ledger::plan::{BarrierState, BarrierStatus, Run};

use super::super::Form;
use super::super::page::Page;
use super::super::reference::{barrier_word, step_name};
use super::super::text::{Paint, Table, moment, plain, words};
use super::Look;
use super::scene::{At, Scene};
use super::state_lines::{barrier_json, barrier_paint};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger barriers
  ledger inspect .ledger barriers my-plan --json | jq 'select(.status == \"closed\") | .missing'";

/// The barriers of a run: how they stand, who arrived, who is missing, until when
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::commands::inspect) struct BarriersArgs {
    /// The run, by name or number (#3); may be left out where there is only one
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    at: At,
}

pub(super) fn barriers(
    args: &BarriersArgs,
    look: Look<'_>,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    let (scene, id) = Scene::of_run(look, args.at, args.run.as_deref())?;
    let run = scene.run(id)?;
    match look.form {
        Form::Json => {
            let mut all = run.barriers.iter();
            all.try_for_each(|(id, each)| page.json("barrier", &barrier_json(run, id, each)))?;
        }
        Form::Text => {
            scene.heading("barriers", run, page)?;
            if run.barriers.is_empty() {
                page.line("the active version has none")?;
            }
            for (id, barrier) in &run.barriers {
                print(&scene, run, id, barrier, page)?;
            }
        }
    }
    scene.end(page)
}

fn print(
    scene: &Scene<'_>,
    run: &Run,
    id: &str,
    barrier: &BarrierState,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    let (arrived, needed) = (barrier.arrived.len(), barrier.needed);
    let status = page.style.paint(barrier_paint(barrier.status), barrier_word(barrier.status));
    let name = page.style.paint(Paint::Heading, &plain(id));
    let late = if barrier.is_late { ", its deadline has passed" } else { "" };
    let of = barrier.members.len();
    page.line(&format!(
        "  {name}: {status}, {arrived} of {needed} needed arrived ({of} members){late}"
    ))?;
    if barrier.status == BarrierStatus::Closed {
        let on_break = words(&barrier.on_break, ' ');
        let until = barrier.deadline.map(|at| format!("due {}; ", moment(at, scene.now)));
        let until = until.unwrap_or_default();
        page.line(&format!("    {until}if it cannot be met: {on_break}"))?;
    }
    if let Some(question) = barrier.question {
        page.line(&format!("    question {} is open about it", question.0))?;
    }
    let mut table = Table::default();
    for number in barrier.members.iter().filter(|number| !barrier.arrived.contains(number)) {
        let status = run.step(*number).map(|step| step.status);
        let paint = if barrier.failed.contains(number) { Paint::Bad } else { Paint::None };
        table.row([
            (Paint::Faint, "missing".to_owned()),
            (Paint::None, step_name(run, *number)),
            (paint, status.map_or_else(String::new, |status| status.to_string())),
        ]);
    }
    page.table(&table, 4)
}
