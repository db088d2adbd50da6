//! `ledger inspect DIR variables`: the variables of a run, their origins and their history.

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::{Origin, VariableSet, closest_name};
use plan_ledger::{Event, Run, RunId, Timestamp};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::json::state::VariableStateLine;
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::{not_found, step_name};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::text::units::seconds;
use crate::json::{AnyJson, TimeJson};
use crate::options::RunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, escape_control};
use crate::protocol::Missing;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger variables
  ledger inspect .ledger variables my-plan --at 900
  ledger inspect .ledger variables --history score every value that it had, and its origin";

/// The variables of a run: values, versions and origins; or the history of one
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VariablesArgs {
    #[command(flatten)]
    run: RunArg,
    /// Every value that this variable had
    #[arg(long, value_name = "NAME")]
    history: Option<String>,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn variables(
    args: &VariablesArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    if let Some(name) = &args.history {
        print_history(&mut ledger, id, name, out)?;
        return ledger.finish(out);
    }
    let run = ledger.run(id)?;
    match context.form {
        Form::Json => {
            let mut all = run.variables.iter();
            all.try_for_each(|(name, each)| out.json(&VariableStateLine::of(id, name, each)))?;
        }
        Form::Text => print(&ledger, run, out)?,
    }
    ledger.finish(out)
}

fn print(ledger: &LedgerAt<'_>, run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    ledger.heading("variables", run, out)?;
    if run.variables.is_empty() {
        return out.line("none is set");
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
            (Paint::Heading, escape_control(name)),
            (Paint::None, variable.version.to_string()),
            trusted,
            (Paint::None, origin_text(run, &variable.origin)),
            (Paint::None, seconds(variable.time)),
            (Paint::None, escape_control(variable.value.as_str())),
        ]);
    }
    out.table(&table, 2)
}

pub(crate) fn origin_text(run: &Run, origin: &Origin) -> String {
    match origin {
        Origin::Step { step, .. } => step_name(run, *step),
        Origin::Person { who } | Origin::Agent { who } => escape_control(who),
        Origin::Fallback { step } => format!("fallback of {}", step_name(run, *step)),
    }
}

fn print_history(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    name: &str,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let history = ledger.run_history(id)?;
    let values: Vec<(u64, Timestamp, &VariableSet)> = history
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Some(Event::VariableSet(set)) if set.name == name => {
                Some((record.seq, record.time, set))
            }
            _ => None,
        })
        .collect();
    let run = ledger.run(id)?;
    if values.is_empty() && !run.variables.contains_key(name) {
        let close = closest_name(name, run.variables.keys().map(String::as_str));
        let hint = close.map_or_else(String::new, |other| format!("; did you mean {other}?"));
        let message =
            format!("run {} never set {}{hint}", escape_control(&run.name), escape_control(name));
        return Err(not_found(Missing::Variable, message, ledger.code()));
    }
    if ledger.context.form == Form::Json {
        return values.into_iter().try_for_each(|(seq, time, set)| {
            let VariableSet { run, name, value, version, origin, since } = set;
            out.json(&VariableValueLine {
                name,
                origin,
                run: *run,
                seq,
                since: Some(*since).filter(|since| *since != 0).map(TimeJson::from),
                time: time.into(),
                value: value.value().into(),
                version: *version,
            })
        });
    }
    ledger.heading(&format!("history of {}", escape_control(name)), run, out)?;
    ledger.print_first_record(out)?;
    let mut table = Table::with_headings(&["record", "when", "version", "set by", "value"]);
    for (seq, time, set) in values {
        table.row([
            (Paint::None, seq.to_string()),
            (Paint::None, time_text(time)),
            (Paint::None, set.version.to_string()),
            (Paint::None, origin_text(run, &set.origin)),
            (Paint::None, escape_control(set.value.as_str())),
        ]);
    }
    out.table(&table, 2)
}

/// A value that a variable had.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct VariableValueLine<'a> {
    /// The variable.
    name: &'a str,
    /// The author of the value.
    origin: &'a Origin,
    /// The run.
    run: RunId,
    /// The record that set it.
    seq: u64,
    /// In a forked run: the time when the parent run set it.
    since: Option<TimeJson>,
    /// The time of the record.
    time: TimeJson,
    /// The value: any JSON.
    value: AnyJson,
    /// How often the variable had been set, this time included.
    version: u64,
}
