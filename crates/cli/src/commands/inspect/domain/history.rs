//! `ledger inspect DIR history RUN STEP`: what happened to a step, one line for each record.

use clap::Args;
use serde_json::json;

use crate::output::{Code, Failure};
use plan_ledger::plan::{Micros, Run, StepState};

use super::super::Form;
use super::super::content::{content_text, record_json};
use super::super::page::Page;
use super::super::step::{Moment, history as moments};
use super::super::text::{Paint, Table, seconds, span};
use super::Look;
use super::scene::{At, Scene, StepOf};

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger history my-plan deploy    every record of it, and how long it took
  ledger inspect .ledger history my-plan 37 --at 900
  ledger inspect .ledger history my-plan 37 --json | jq -c .event";

/// What happened to a step: one line for each record, and the time between them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::commands::inspect) struct HistoryArgs {
    #[command(flatten)]
    of: StepOf,
    #[command(flatten)]
    at: At,
}

pub(super) fn history(
    args: &HistoryArgs,
    look: Look<'_>,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    let (mut scene, id) = Scene::of_run(look, args.at, args.of.run())?;
    let number = scene.step(scene.run(id)?, args.of.step())?;
    let found = moments(&mut scene, id, number)?;
    let run = scene.run(id)?;
    match look.form {
        Form::Json => {
            for Moment { record, proof, content } in &found {
                page.json("record", &record_json(record, *proof, content))?;
            }
            let step = run.step(number).map(StepState::id);
            let fields = json!({ "run": id, "step": number, "id": step, "records": found.len() });
            page.json("history", &fields)?;
        }
        Form::Text => {
            scene.heading(&format!("history of #{number}"), run, page)?;
            scene.since(page)?;
            print(run, &found, page)?;
        }
    }
    scene.end(page)
}

fn print(run: &Run, found: &[Moment], page: &mut Page<'_>) -> Result<(), Failure> {
    if found.is_empty() {
        return page.line("nothing has happened to it yet");
    }
    let mut table = Table::with_headings(&["record", "when", "after", "what"]);
    let mut last: Option<Micros> = None;
    for Moment { record, content, .. } in found {
        let after = match last {
            None => format!("{} in", gap(record.time.saturating_sub(run.started))),
            Some(last) => format!("+{}", gap(record.time.saturating_sub(last))),
        };
        last = Some(record.time);
        let (paint, text) = content_text(record, content);
        table.row([
            (Paint::None, record.seq.to_string()),
            (Paint::None, seconds(record.time)),
            (Paint::Faint, after),
            (paint, text),
        ]);
    }
    page.table(&table, 2)
}

/// A time between two records; microseconds are noise beside seconds.
fn gap(micros: Micros) -> String {
    span(if micros >= 1_000 { micros / 1_000 * 1_000 } else { micros })
}
