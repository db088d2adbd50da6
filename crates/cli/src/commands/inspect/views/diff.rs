//! `ledger inspect DIR diff`: the changes between two records, or the differences between two runs.

use std::collections::BTreeMap;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use plan_ledger::internals::ledger::{ChangedField, ValueChange};
use plan_ledger::{RunId, State, StepNumber};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::lookup::step_name;
use crate::commands::inspect::output::Output;
use crate::output::render::{Paint, cut, width};
use crate::output::{Code, Failure, escape_control};
use crate::protocol::counted;

use super::compare;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger diff 1200 1300            what changed, and which records changed it
  ledger inspect .ledger diff monday tuesday       where two runs part, and what came of it
  ledger inspect .ledger diff '#1' '#2'            the same, by the runs' numbers";

/// The changes between two records, field by field; or the differences between two runs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DiffArgs {
    /// A record, or a run by name or number (#3)
    #[arg(value_name = "SEQ|RUN")]
    one: String,
    /// A later record, or another run
    #[arg(value_name = "SEQ|RUN")]
    other: String,
}

pub(crate) fn diff(
    args: &DiffArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(&args.one), number(&args.other)) {
        (Some(from), Some(to)) => records(from, to, context, out),
        (None, None) => compare::compare(&args.one, &args.other, context, out),
        _ => {
            let message = "expected two records, or two runs (#3 if the name of one is a number)";
            Err(Failure::Usage(message.to_owned()))
        }
    }
}

fn records(
    from: u64,
    to: u64,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (from, to) = (from.min(to), from.max(to));
    let ledger = LedgerAt::of(context, AtArg { at: Some(to).filter(|to| *to > 0) })?;
    let (changes, state) = ledger.view.changes(from, to)?;
    match context.form {
        Form::Json => {
            for changed in &changes {
                let ChangedField { run, change, by, .. } = changed;
                out.json(&ChangeLine { by, change, run: *run })?;
            }
        }
        Form::Text => {
            let count = u64::try_from(changes.len()).unwrap_or(u64::MAX);
            let text = format!("from record {from} to {to}: {} changed", counted(count, "field"));
            out.painted(Paint::Heading, &text)?;
            print(&changes, &state, out)?;
        }
    }
    ledger.finish(out)
}

/// A field that changed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ChangeLine<'a> {
    /// The records that changed it.
    by: &'a [u64],
    #[serde(flatten)]
    change: &'a ValueChange,
    /// The run; null for the ledger as a whole.
    run: Option<RunId>,
}

/// The subject of a change: a run or the ledger, and in it a step, a variable, or the whole.
type Group = (Option<RunId>, (u8, u64), String);

fn group<'a>(changed: &'a ChangedField, state: &State) -> (Group, &'a [String]) {
    let path = changed.change.path.as_slice();
    let run = changed.run;
    match path {
        [list, number, rest @ ..] if list == "steps" => {
            let place = number.parse().unwrap_or(0);
            let of_run = run.and_then(|run| state.runs.get(&run));
            let step = u32::try_from(place).ok().map(StepNumber);
            let name = of_run.zip(step).map(|(run, step)| format!("step {}", step_name(run, step)));
            ((run, (2, place), name.unwrap_or_else(|| format!("step #{number}"))), rest)
        }
        [list, name, rest @ ..]
            if ["variables", "barriers", "questions", "effects"].contains(&list.as_str()) =>
        {
            let what = list.strip_suffix('s').unwrap_or(list);
            ((run, (1, 0), format!("{what} {}", escape_control(name))), rest)
        }
        all => ((run, (0, 0), String::new()), all),
    }
}

fn print(changes: &[ChangedField], state: &State, out: &mut Output<'_>) -> Result<(), Failure> {
    let mut groups: BTreeMap<Group, Vec<(&[String], &ChangedField)>> = BTreeMap::new();
    for changed in changes {
        let (group, rest) = group(changed, state);
        groups.entry(group).or_default().push((rest, changed));
    }
    let mut shown = None;
    for ((run, _, what), fields) in &groups {
        if shown != Some(*run) {
            shown = Some(*run);
            let name = match run {
                None => "the ledger".to_owned(),
                Some(id) => {
                    let name = state.runs.get(id).map(|run| escape_control(&run.name));
                    format!("run {} ({id})", name.unwrap_or_default())
                }
            };
            out.painted(Paint::Heading, &name)?;
        }
        if !what.is_empty() {
            out.line(&format!("  {what}"))?;
        }
        for (path, changed) in fields {
            print_field(path, changed, out)?;
        }
    }
    Ok(())
}

fn print_field(
    path: &[String],
    changed: &ChangedField,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let name =
        if path.is_empty() { "(all of it)".to_owned() } else { escape_control(&path.join(".")) };
    let (before, after) =
        (shown(changed.change.before.as_ref()), shown(changed.change.after.as_ref()));
    let by: Vec<String> = changed.by.iter().take(BY_MAX).map(u64::to_string).collect();
    let more = if changed.by.len() > BY_MAX { ", ..." } else { "" };
    let by = format!("  (record {}{more})", by.join(", "));
    let text = format!("    {name}: {before} -> {after}");
    let text = out.style.fit(&text, width(&by));
    out.line(&format!("{text}{}", out.style.paint(Paint::Faint, &by)))
}

/// The maximum number of records in a line.
const BY_MAX: usize = 5;
/// The maximum width of a value in a line.
const VALUE_MAX: usize = 72;

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = match value {
        Value::String(text) => escape_control(text),
        other => escape_control(&other.to_string()),
    };
    cut(&text, VALUE_MAX)
}
