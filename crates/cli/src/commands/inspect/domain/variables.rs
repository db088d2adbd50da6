//! `ledger inspect DIR variables`: what is known in a run, who said so, and what it was before.

use clap::Args;
use serde_json::json;

use crate::output::{Code, Failure};
use plan_ledger::ledger::time_text;
use plan_ledger::plan::{Event, Micros, Origin, Run, RunId, VariableSet, nearest};

use super::super::Form;
use super::super::event_json::origin_json;
use super::super::page::{Page, time_json};
use super::super::reference::{not_found, step_name};
use super::super::text::{Paint, Table, plain, seconds};
use super::Look;
use super::scene::{At, Scene};
use super::state_lines::variable_json;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger variables
  ledger inspect .ledger variables my-plan --at 900
  ledger inspect .ledger variables --history score every value that it had, and who set it";

/// The variables of a run: values, versions, who set them; or the history of one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::commands::inspect) struct VariablesArgs {
    /// The run, by name or number (#3); may be left out where there is only one
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Every value that this variable had
    #[arg(long, value_name = "NAME")]
    history: Option<String>,
    #[command(flatten)]
    at: At,
}

pub(super) fn variables(
    args: &VariablesArgs,
    look: Look<'_>,
    page: &mut Page<'_>,
) -> Result<Code, Failure> {
    let (mut scene, id) = Scene::of_run(look, args.at, args.run.as_deref())?;
    if let Some(name) = &args.history {
        print_history(&mut scene, id, name, page)?;
        return scene.end(page);
    }
    let run = scene.run(id)?;
    match look.form {
        Form::Json => {
            let mut all = run.variables.iter();
            all.try_for_each(|(name, each)| page.json("variable", &variable_json(id, name, each)))?;
        }
        Form::Text => print(&scene, run, page)?,
    }
    scene.end(page)
}

fn print(scene: &Scene<'_>, run: &Run, page: &mut Page<'_>) -> Result<(), Failure> {
    scene.heading("variables", run, page)?;
    if run.variables.is_empty() {
        return page.line("none is set");
    }
    let headings = ["variable", "version", "trusted", "set by", "when", "value"];
    let mut table = Table::with_headings(&headings);
    for (name, variable) in &run.variables {
        let trusted = if variable.is_trusted {
            (Paint::None, "yes".to_owned())
        } else {
            (Paint::Notice, "no".to_owned())
        };
        table.row([
            (Paint::Heading, plain(name)),
            (Paint::None, variable.version.to_string()),
            trusted,
            (Paint::None, origin_text(run, &variable.origin)),
            (Paint::None, seconds(variable.time)),
            (Paint::None, plain(variable.value.as_str())),
        ]);
    }
    page.table(&table, 2)
}

/// Who set a variable.
pub(super) fn origin_text(run: &Run, origin: &Origin) -> String {
    match origin {
        Origin::Step { step, .. } => step_name(run, *step),
        Origin::Person(who) => plain(who),
        Origin::Fallback { step } => format!("fallback of {}", step_name(run, *step)),
    }
}

fn print_history(
    scene: &mut Scene<'_>,
    id: RunId,
    name: &str,
    page: &mut Page<'_>,
) -> Result<(), Failure> {
    let chronicle = scene.chronicle(id)?;
    let values: Vec<(u64, Micros, &VariableSet)> = chronicle
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Some(Event::VariableSet(set)) if set.name == name => {
                Some((record.seq, record.time, set))
            }
            _ => None,
        })
        .collect();
    let run = scene.run(id)?;
    if values.is_empty() && !run.variables.contains_key(name) {
        let close = nearest(name, run.variables.keys().map(String::as_str));
        let hint = close.map_or_else(String::new, |other| format!("; did you mean {other}?"));
        let message = format!("run {} never set {}{hint}", plain(&run.name), plain(name));
        return Err(not_found(message, scene.code()));
    }
    if scene.look.form == Form::Json {
        return values.into_iter().try_for_each(|(seq, time, set)| {
            let VariableSet { run, name, value, version, origin, since } = set;
            let fields = json!({
                "seq": seq, "time": time_json(time), "run": run, "name": name, "value": value,
                "version": version, "origin": origin_json(origin),
                "since": (*since != 0).then(|| time_json(*since)),
            });
            page.json("variable_value", &fields)
        });
    }
    scene.heading(&format!("history of {}", plain(name)), run, page)?;
    scene.since(page)?;
    let mut table = Table::with_headings(&["record", "when", "version", "set by", "value"]);
    for (seq, time, set) in values {
        table.row([
            (Paint::None, seq.to_string()),
            (Paint::None, time_text(time)),
            (Paint::None, set.version.to_string()),
            (Paint::None, origin_text(run, &set.origin)),
            (Paint::None, plain(set.value.as_str())),
        ]);
    }
    page.table(&table, 2)
}
