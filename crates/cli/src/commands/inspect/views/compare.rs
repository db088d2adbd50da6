//! `ledger inspect DIR diff RUN RUN`: where two runs diverge, and how their results differ.

use serde_json::{Value, json};

use plan_ledger::internals::ledger::{
    AttemptDifference, AttemptEnd, AttemptEndKind, Divergence, DivergenceCause, Pair,
    RunComparison, StepDifference,
};
use plan_ledger::{Cost, RunId, StepStatus};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::json::event::cost_json;
use crate::commands::inspect::json::run::status_word;
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::style::{Paint, Table, cut, words};
use crate::commands::inspect::text::run::run_status_text;
use crate::commands::inspect::text::status::status_paint;
use crate::output::{Code, Failure, cost_text, escape_control, plan_diff_json, plan_diff_text};

pub(crate) fn compare(
    one: &str,
    other: &str,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let ledger = LedgerAt::of(context, AtArg::default())?;
    let runs = [ledger.find_run(one)?, ledger.find_run(other)?];
    let [first, second] = runs;
    let found = ledger.view.compare(first, second)?;
    match context.form {
        Form::Json => print_json(&found, out)?,
        Form::Text => {
            let name = |id: RunId| {
                let known = ledger.state.names.iter().find(|(_, run)| **run == id);
                known.map_or_else(|| id.to_string(), |(name, _)| escape_control(name))
            };
            print(&found, &runs.map(name), out)?;
        }
    }
    ledger.finish(out)
}

fn print_json(found: &RunComparison, out: &mut Output<'_>) -> Result<(), Failure> {
    let RunComparison {
        runs,
        status,
        divergence,
        attempts,
        steps,
        variables,
        versions,
        plan,
        spent,
    } = found;
    let mut plan = plan_diff_json(plan);
    if let Value::Object(fields) = &mut plan {
        fields.remove("type");
    }
    let values = variables.iter().map(|(name, values)| json!({ "name": name, "values": values }));
    out.json(
        "comparison",
        &json!({
            "runs": runs,
            "status": status.map(status_word),
            "parting": divergence.as_ref().map(divergence_json),
            "attempts": attempts.iter().map(attempt_json).collect::<Vec<_>>(),
            "steps": steps.iter().map(step_json).collect::<Vec<_>>(),
            "variables": values.collect::<Vec<_>>(),
            "versions": versions,
            "plan": plan,
            "spent": spent.map(cost_json),
        }),
    )
}

fn divergence_json(divergence: &Divergence) -> Value {
    let Divergence { seqs, what } = divergence;
    match what {
        DivergenceCause::Attempt { step, attempt } => {
            json!({ "is": "attempt", "step": step, "attempt": attempt, "seqs": seqs })
        }
        DivergenceCause::Version(version) => {
            json!({ "is": "version", "version": version, "seqs": seqs })
        }
    }
}

fn attempt_json(difference: &AttemptDifference) -> Value {
    let AttemptDifference { step, attempt, ends } = difference;
    let end = |end: &Option<AttemptEnd>| {
        end.as_ref().map(|end| {
            let AttemptEnd { seq, worker, kind, output, receipt: _ } = end;
            json!({ "seq": seq, "worker": worker, "end": end_word(*kind), "output_hash": output })
        })
    };
    json!({ "step": step, "attempt": attempt, "ends": ends.each_ref().map(end) })
}

fn step_json(difference: &StepDifference) -> Value {
    let StepDifference { step, status, attempts, cost } = difference;
    json!({
        "step": step, "status": status.map(|each| each.map(|status| words(&status, '_'))),
        "attempts": attempts, "cost": cost.map(cost_json),
    })
}

/// The end of an attempt in one word.
fn end_word(kind: AttemptEndKind) -> String {
    match kind {
        AttemptEndKind::InFlight => "in_flight".to_owned(),
        AttemptEndKind::Lost(cause) => format!("lost_{}", words(&cause, '_')),
        AttemptEndKind::Succeeded => "succeeded".to_owned(),
        AttemptEndKind::Failed(class) => format!("failed_{}", words(&class, '_')),
        AttemptEndKind::ReplanRequested => "replan_requested".to_owned(),
    }
}

fn print(found: &RunComparison, names: &Pair<String>, out: &mut Output<'_>) -> Result<(), Failure> {
    let [one, other] = names;
    out.painted(Paint::Heading, &format!("run {one} and run {other}"))?;
    match &found.divergence {
        None => out.line("  no decision differs")?,
        Some(Divergence { seqs, what }) => {
            let what = match what {
                DivergenceCause::Attempt { step, attempt } => {
                    format!("attempt {attempt} of {}", escape_control(step))
                }
                DivergenceCause::Version(version) => format!("version {version} of the plan"),
            };
            let seq = |seq: &Option<u64>| {
                seq.map_or_else(|| "never".to_owned(), |seq| format!("record {seq}"))
            };
            let [first, second] = seqs.each_ref().map(seq);
            out.painted(
                Paint::Notice,
                &format!("  they diverge at {what}: {first} of {one}, {second} of {other}"),
            )?;
        }
    }
    print_sides(found, names, out)?;
    print_attempts(&found.attempts, out)?;
    print_variables(found, out)?;
    if !found.plan.is_empty() {
        out.line("")?;
        out.painted(Paint::Faint, "  the active plans")?;
        let text = plan_diff_text(&found.plan);
        text.lines().try_for_each(|line| out.line(&format!("  {}", escape_control(line))))?;
    }
    Ok(())
}

/// Values of both runs, side by side.
fn print_sides(
    found: &RunComparison,
    names: &Pair<String>,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let [one, other] = names;
    let mut table = Table::with_headings(&["", one.as_str(), other.as_str()]);
    let mut row = |what: String, [left, right]: Pair<(Paint, String)>| {
        table.row([(Paint::None, what), left, right]);
    };
    row("status".to_owned(), found.status.map(run_status_text));
    row("spent".to_owned(), found.spent.map(|cost| (Paint::None, cost_text(cost))));
    for StepDifference { step, status, attempts, cost } in &found.steps {
        let [left, right] = status.map(status_cell);
        row(escape_control(step), [left, right]);
        if attempts.first() != attempts.last() {
            row("  attempts".to_owned(), attempts.map(|count| (Paint::None, count.to_string())));
        }
        if cost.first() != cost.last() {
            row("  cost".to_owned(), cost.map(|cost: Cost| (Paint::None, cost_text(cost))));
        }
    }
    out.table(&table, 2)
}

fn status_cell(status: Option<StepStatus>) -> (Paint, String) {
    match status {
        None => (Paint::Faint, "no such step".to_owned()),
        Some(status) => (status_paint(status), status.to_string()),
    }
}

fn print_attempts(attempts: &[AttemptDifference], out: &mut Output<'_>) -> Result<(), Failure> {
    if attempts.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::with_headings(&["attempts that differ", "", ""]);
    for AttemptDifference { step, attempt, ends } in attempts {
        let [left, right] = ends.each_ref().map(|end| match end {
            None => "not there".to_owned(),
            Some(end) => {
                format!("{} (record {})", end_word(end.kind).replace('_', " "), end.seq)
            }
        });
        let name = format!("{} attempt {attempt}", escape_control(step));
        table.row([(Paint::None, name), (Paint::None, left), (Paint::None, right)]);
    }
    out.table(&table, 2)
}

fn print_variables(found: &RunComparison, out: &mut Output<'_>) -> Result<(), Failure> {
    if found.variables.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::with_headings(&["variables that differ", "", ""]);
    for (name, values) in &found.variables {
        let [left, right] = values.each_ref().map(|value| {
            let text = value.as_ref().map_or("not set", |value| value.as_str());
            cut(&escape_control(text), 40)
        });
        table.row([(Paint::None, escape_control(name)), (Paint::None, left), (Paint::None, right)]);
    }
    out.table(&table, 2)
}
