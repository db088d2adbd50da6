//! `ledger inspect DIR plan RUN`: the plan of a run, its versions, and their differences.

use std::collections::BTreeMap;

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::plan::{
    CompactStep, Criterion, PlanVersion, Provenance, ReplanRequested, Review, Texts, VersionSummary,
};
use plan_ledger::{ContentHash, Event, Limits, Plan, Run, RunId, StepNumber, StepStatus};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::json::views::StaleFilesJson;
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::commands::inspect::views::status::{stale_files, stale_lines};
use crate::options::RunArg;
use crate::output::render::{Paint, Table};
use crate::output::{Code, Failure, PlanDiffJson, escape_control, limits_text, plan_diff_text};
use crate::protocol::counted;
use plan_ledger_views::status_paint;

const EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger plan my-plan              the active version, and the status of its steps
  ledger inspect .ledger plan my-plan --version 1  the text of the first version
  ledger inspect .ledger plan --json | jq .versions   where each version comes from, and its review
  ledger inspect .ledger plan my-plan --diff 1 2   what the second version changed
  ledger inspect .ledger plan my-plan --replans    why it changed, and what stayed trusted";

/// The plan of a run: its text, its steps and their status, its versions and their changes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    run: RunArg,
    /// Show this version instead of the active one
    #[arg(long, value_name = "N")]
    version: Option<u32>,
    /// The differences between two versions, as in `ledger plan diff`
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "version")]
    diff: Vec<u32>,
    /// Why each version replaced the one before it, which work it discarded and kept
    #[arg(long, conflicts_with_all = ["version", "diff"])]
    replans: bool,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn plan(
    args: &PlanArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.run.name())?;
    if args.replans {
        print_replans(&mut ledger, id, out)?;
        return ledger.finish(out);
    }
    let run = ledger.run(id)?;
    if let [old, new] = args.diff.as_slice() {
        print_diff(&ledger, run, (*old, *new), out)?;
        return ledger.finish(out);
    }
    let newest = || run.newest_proposal().map_or(run.active, |(number, _)| number);
    let number = args.version.unwrap_or(if run.active == 0 { newest() } else { run.active });
    let version = version_of(run, number)?;
    match context.form {
        Form::Json => print_json(&ledger, run, number, version, out)?,
        Form::Text => print(&ledger, run, number, version, out)?,
    }
    ledger.finish(out)
}

/// The replacement of a plan version by another one, with the names of the steps.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ReplanRecordLine<'a> {
    /// Steps whose work was discarded, and steps that are gone.
    invalidated_steps: Vec<&'a str>,
    /// The new version.
    new_plan_version: u32,
    /// Steps that no earlier version had.
    new_steps: Vec<&'a str>,
    /// The version before.
    old_plan_version: u32,
    /// Steps whose work was kept.
    preserved_steps: Vec<&'a str>,
    /// The run.
    run: RunId,
    /// The record of the activation.
    seq: u64,
    /// Why the plan changed.
    trigger: String,
    /// The cause: the `is` of a replan trigger; null for a version that nothing requested.
    trigger_kind: Option<String>,
    /// Variables that are still trusted.
    trusted_state: Vec<&'a str>,
    /// Variables that are no longer trusted.
    untrusted_state: Vec<&'a str>,
}

fn print_replans(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let history = ledger.run_history(id)?;
    let run = ledger.run(id)?;
    let names = |numbers: &[StepNumber]| -> Vec<&str> {
        numbers.iter().filter_map(|number| Some(run.step(*number)?.id())).collect()
    };
    let mut requests: BTreeMap<u64, &ReplanRequested> = BTreeMap::new();
    let mut reasons: BTreeMap<u32, &str> = BTreeMap::new();
    let (mut active, mut lines) = (0, Vec::new());
    for record in &history.records {
        match &record.event {
            Some(Event::ReplanRequested(requested)) => drop(requests.insert(record.seq, requested)),
            Some(Event::PlanProposed(proposed)) => {
                reasons.insert(proposed.version, &proposed.reason);
            }
            Some(Event::PlanActivated(activated)) => {
                let old = std::mem::replace(&mut active, activated.version);
                if old == 0 {
                    continue;
                }
                let request = requests.get(&activated.request);
                let reason = request.map(|request| &*request.reason);
                let reason = reason.or_else(|| reasons.get(&activated.version).copied());
                let gone = [&activated.invalidated[..], &activated.removed[..]].concat();
                let kind = request.and_then(|it| serde_json::to_value(&it.trigger).ok());
                lines.push(ReplanRecordLine {
                    invalidated_steps: names(&gone),
                    new_plan_version: activated.version,
                    new_steps: names(&activated.added),
                    old_plan_version: old,
                    preserved_steps: names(&activated.preserved),
                    run: id,
                    seq: record.seq,
                    trigger: reason.unwrap_or_default().to_owned(),
                    trigger_kind: kind.and_then(|kind| Some(kind.get("is")?.as_str()?.to_owned())),
                    trusted_state: shown_variables(&activated.trusted),
                    untrusted_state: shown_variables(&activated.untrusted),
                });
            }
            _ => {}
        }
    }
    if ledger.context.form == Form::Json {
        return lines.iter().try_for_each(|line| out.json(line));
    }
    ledger.heading("replans", run, out)?;
    let max = run.max_replans().map(|max| format!(" of at most {max}"));
    out.line(&format!(
        "{}{} count",
        counted(run.replans.into(), "replan"),
        max.unwrap_or_default()
    ))?;
    for line in &lines {
        out.line("")?;
        out.line("replan_record:")?;
        let list = |names: &[&str]| format!("[{}]", names.join(", "));
        let fields = [
            ("trigger", line.trigger.clone()),
            ("old_plan_version", line.old_plan_version.to_string()),
            ("new_plan_version", line.new_plan_version.to_string()),
            ("invalidated_steps", list(&line.invalidated_steps)),
            ("preserved_steps", list(&line.preserved_steps)),
            ("new_steps", list(&line.new_steps)),
            ("trusted_state", format!("{{{}}}", line.trusted_state.join(", "))),
        ];
        for (name, text) in fields {
            out.line(&format!("  {name}: {}", escape_control(&text)))?;
        }
    }
    Ok(())
}

/// The variables of the run without those that the program keeps for itself.
fn shown_variables(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).filter(|name| !name.starts_with("ledger.")).collect()
}

fn version_of(run: &Run, number: u32) -> Result<&PlanVersion, Failure> {
    let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    place.and_then(|place| run.versions.get(place)).ok_or_else(|| {
        let (name, count) = (escape_control(&run.name), run.versions.len());
        Failure::Usage(format!("run {name} has no version {number} of its plan; it has {count}"))
    })
}

fn print_diff(
    ledger: &LedgerAt<'_>,
    run: &Run,
    (old, new): (u32, u32),
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    let found = plan_ledger::plan::diff(
        &version_of(run, old)?.plan.decode(),
        &version_of(run, new)?.plan.decode(),
    );
    match ledger.context.form {
        Form::Json => {
            let differences = (&found).into();
            out.json(&VersionDiffLine { differences, new, old, run: run.id })
        }
        Form::Text => {
            ledger.heading(&format!("plan version {old} compared with {new}"), run, out)?;
            let text = plan_diff_text(&found);
            text.lines().try_for_each(|line| out.line(&escape_control(line)))
        }
    }
}

fn print_json(
    ledger: &LedgerAt<'_>,
    run: &Run,
    number: u32,
    version: &PlanVersion,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    out.json(&PlanLine {
        active: run.active,
        plan: version.plan.decode(),
        run: run.id,
        run_name: &run.name,
        stale_files: StaleFilesJson::of(stale_of(ledger, run, number)),
        version: number,
        versions: VersionSummary::of_run(run),
    })?;
    for (step, place) in version.plan.steps().zip(0..) {
        let number = version.numbers.get(place).copied();
        out.json(&PlanStepLine {
            hash: version.step_hashes.get(place).copied(),
            id: step.id(),
            run: run.id,
            status: number.and_then(|number| run.step(number)).map(|step| step.status),
            step: number,
        })?;
    }
    Ok(())
}

/// The differences between two versions of a plan.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct VersionDiffLine<'a> {
    #[serde(flatten)]
    differences: PlanDiffJson<'a>,
    /// The second version.
    new: u32,
    /// The first version.
    old: u32,
    /// The run.
    run: RunId,
}

/// A version of a plan.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct PlanLine<'a> {
    /// The active version; 0 before the first.
    active: u32,
    /// The content of the version, as in a plan file.
    plan: Plan,
    /// The run.
    run: RunId,
    /// The name of the run.
    run_name: &'a str,
    /// The steps that did not begin and have files that changed since the plan was made although no
    /// other step may change them; null if that is not known, or the version is not the active one.
    stale_files: Option<Vec<StaleFilesJson>>,
    /// The version.
    version: u32,
    /// All versions.
    versions: Vec<VersionSummary>,
}

/// A step of a version.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct PlanStepLine<'a> {
    /// The hash of its work.
    hash: Option<ContentHash>,
    /// Its id.
    id: &'a str,
    /// The run.
    run: RunId,
    /// Its status now.
    status: Option<StepStatus>,
    /// Its number; null before the version became active.
    step: Option<StepNumber>,
}

fn print(
    ledger: &LedgerAt<'_>,
    run: &Run,
    number: u32,
    version: &PlanVersion,
    out: &mut Output<'_>,
) -> Result<(), Failure> {
    ledger.heading("plan", run, out)?;
    let what = if number == run.active { "active" } else { "not active" };
    let hash = version.hash.short();
    out.line(&format!("version {number} of {} ({hash}), {what}", run.versions.len()))?;
    print_versions(run, out)?;
    let executed = version.plan.decode().executed_text();
    executed.lines().try_for_each(|line| out.line(&escape_control(line)))?;
    print_text(version.plan.header(), out)?;
    out.line("")?;
    print_steps(run, version, out)?;
    let stale = stale_of(ledger, run, number).unwrap_or_default();
    stale_lines(run, &stale).iter().try_for_each(|line| out.painted(Paint::Notice, line))
}

/// The files of steps that changed since the plan was made, if this is the version that counts.
fn stale_of(
    ledger: &LedgerAt<'_>,
    run: &Run,
    number: u32,
) -> Option<Vec<(StepNumber, Vec<String>)>> {
    if number == run.active { stale_files(ledger, run) } else { None }
}

fn print_versions(run: &Run, out: &mut Output<'_>) -> Result<(), Failure> {
    for of in VersionSummary::of_run(run) {
        let (paint, status) = match of.review {
            _ if of.version == run.active => (Paint::Good, "active"),
            Some(Review::Rejected) => (Paint::Bad, "rejected"),
            None if of.version > run.active => (Paint::Notice, "waits for approval"),
            Some(Review::Approved) | None => (Paint::None, "replaced"),
        };
        let from = of.provenance.as_ref().map(provenance_text).unwrap_or_default();
        let note = Some(&of.note).filter(|note| status == "rejected" && !note.is_empty());
        let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
        let reason = Some(&of.reason).filter(|reason| !reason.is_empty());
        let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        let (hash, steps) = (of.hash.short(), counted(u64::from(of.steps), "step"));
        let line =
            format!("  version {} ({hash}), {steps}{from}, {status}{note}{reason}", of.version);
        out.painted(paint, &escape_control(&line))?;
    }
    Ok(())
}

/// Where a version comes from, as part of a line.
fn provenance_text(provenance: &Provenance) -> String {
    let Provenance { author, file, file_hash, confidence } = provenance;
    let author = author.as_ref().map(|author| format!(", by {author}"));
    let hash = file_hash.map(|hash| format!(" ({})", hash.short())).unwrap_or_default();
    let file = file.as_ref().map(|file| format!(", from {file}{hash}"));
    let confidence = confidence.map(|percent| format!(", {percent} % sure"));
    [author, file, confidence].into_iter().flatten().collect()
}

fn print_text(plan: &Plan, out: &mut Output<'_>) -> Result<(), Failure> {
    let criteria: Vec<_> = plan.test_criteria.iter().map(Criterion::body).collect();
    let phases: Vec<_> = plan.phases.iter().map(|phase| phase.id.as_str()).collect();
    let limits = Limits::from(plan.budget);
    let budget = if limits == Limits::default() { String::new() } else { limits_text(limits) };
    let fields = [
        ("title", plan.title.clone()),
        ("outcome", plan.outcome.clone()),
        ("goal", plan.goal.clone()),
        ("context", plan.context.clone()),
        ("phases", phases.join(", ")),
        ("budget", budget),
        ("criteria", criteria.join("\n")),
        ("risks", plan.risks.join("\n")),
        ("open questions", plan.open_questions.join("\n")),
    ];
    let mut table = Table::default();
    for (name, text) in fields.iter().filter(|(_, text)| !text.is_empty()) {
        for (place, line) in text.lines().enumerate() {
            let name = if place == 0 { *name } else { "" };
            table.row([(Paint::Faint, name.to_owned()), (Paint::None, escape_control(line))]);
        }
    }
    out.table(&table, 2)
}

fn print_steps(run: &Run, version: &PlanVersion, out: &mut Output<'_>) -> Result<(), Failure> {
    let mut table = Table::with_headings(&["step", "id", "status", "owner", "after", "title"]);
    for (step, place) in version.plan.steps().zip(0..) {
        let number = version.numbers.get(place).copied();
        table.row(step_cells(run, version, step, number));
    }
    out.table(&table, 2)
}

fn step_cells(
    run: &Run,
    version: &PlanVersion,
    step: CompactStep<'_>,
    number: Option<StepNumber>,
) -> [(Paint, String); 6] {
    let status = number.and_then(|number| run.step(number)).map(|step| step.status);
    let title = if step.title().is_empty() { step.goal() } else { step.title() };
    let owner = version.plan.owner_of(step).unwrap_or("-");
    [
        (Paint::None, number.map_or_else(|| "-".to_owned(), |number| format!("#{number}"))),
        (Paint::None, escape_control(step.id())),
        (
            status.map_or(Paint::None, status_paint),
            status.map_or_else(|| "-".to_owned(), |status: StepStatus| status.to_string()),
        ),
        (Paint::None, escape_control(owner)),
        (Paint::None, some(step.after())),
        (Paint::None, escape_control(title)),
    ]
}

/// The first few of many names.
fn some(names: Texts<'_>) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<_> = names.clone().take(SHOWN).map(escape_control).collect();
    match names.count().saturating_sub(SHOWN) {
        0 if shown.is_empty() => "-".to_owned(),
        0 => shown.join(", "),
        more => format!("{} +{more}", shown.join(", ")),
    }
}
