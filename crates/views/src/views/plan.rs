//! A version of a run's plan: its text, its steps and their statuses, and all versions.

use plan_ledger::plan::{
    CompactStep, Criterion, PlanVersion, Provenance, Review, Texts, VersionSummary,
};
use plan_ledger::{ContentHash, Limits, Plan, Run, RunId, StepNumber, StepStatus};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::plan_diff::PlanDiffJson;
use super::stale::stale_document;
use crate::json::StaleFilesJson;
use crate::layout::{Document, Paint, Table};
use crate::words::{counted, limits_text, status_paint};

/// The differences between two versions of a plan.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct VersionDiffLine<'a> {
    /// The differences.
    #[serde(flatten)]
    pub differences: PlanDiffJson<'a>,
    /// The second version.
    pub new: u32,
    /// The first version.
    pub old: u32,
    /// The run.
    pub run: RunId,
}

/// A version of a plan.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PlanLine<'a> {
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
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PlanStepLine<'a> {
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

/// A version of a plan, and its steps.
#[derive(Debug)]
pub struct PlanView<'a> {
    /// The version.
    pub version: PlanLine<'a>,
    /// Its steps.
    pub steps: Vec<PlanStepLine<'a>>,
    run: &'a Run,
    content: &'a PlanVersion,
    stale: Vec<(StepNumber, Vec<String>)>,
}

impl<'a> PlanView<'a> {
    /// The version of that number. `stale_files`: files of its steps that changed since the plan was made.
    #[must_use]
    pub fn of(
        run: &'a Run,
        number: u32,
        version: &'a PlanVersion,
        stale_files: Option<Vec<(StepNumber, Vec<String>)>>,
    ) -> Self {
        let line = PlanLine {
            active: run.active,
            plan: version.plan.decode(),
            run: run.id,
            run_name: &run.name,
            stale_files: StaleFilesJson::of(stale_files.clone()),
            version: number,
            versions: VersionSummary::of_run(run),
        };
        let step = |(step, place): (CompactStep<'a>, usize)| {
            let number = version.numbers.get(place).copied();
            PlanStepLine {
                hash: version.step_hashes.get(place).copied(),
                id: step.id(),
                run: run.id,
                status: number.and_then(|number| run.step(number)).map(|step| step.status),
                step: number,
            }
        };
        let steps = version.plan.steps().zip(0..).map(step);
        let stale = stale_files.unwrap_or_default();
        Self { version: line, steps: steps.collect(), run, content: version, stale }
    }

    /// Its document.
    #[must_use]
    pub fn document(&self) -> Document {
        let Self { run, content: version, stale, .. } = self;
        let number = self.version.version;
        let mut document = Document::default();
        let what = if number == run.active { "active" } else { "not active" };
        let hash = version.hash.short();
        let count = run.numbered_versions().len();
        document.line(format!("version {number} of {count} ({hash}), {what}"));
        describe_versions(run, &mut document);
        let executed = self.version.plan.executed_text();
        executed.lines().for_each(|line| document.line(line));
        describe_text(version.plan.header(), &mut document);
        document.gap();
        describe_steps(run, version, &mut document);
        document.append(stale_document(run, stale, 0));
        document
    }
}

fn describe_versions(run: &Run, document: &mut Document) {
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
        document.painted(paint, line);
    }
}

/// The source of a version, as part of a line.
fn provenance_text(provenance: &Provenance) -> String {
    let Provenance { author, file, file_hash, confidence, read_with, unmarked_hash: _ } =
        provenance;
    let author = author.as_ref().map(|author| format!(", by {author}"));
    let hash = file_hash.map(|hash| format!(" ({})", hash.short())).unwrap_or_default();
    let words = read_with.iter().map(|word| format!(" {word}")).collect::<String>();
    let file = file.as_ref().map(|file| format!(", from {file}{words}{hash}"));
    let confidence = confidence.map(|percent| format!(", {percent} % sure"));
    [author, file, confidence].into_iter().flatten().collect()
}

fn describe_text(plan: &Plan, document: &mut Document) {
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
            table.row([(Paint::Faint, name.to_owned()), (Paint::None, line.to_owned())]);
        }
    }
    document.table(2, table);
}

fn describe_steps(run: &Run, version: &PlanVersion, document: &mut Document) {
    let mut table = Table::with_headings(&["step", "id", "status", "owner", "after", "title"]);
    for (step, place) in version.plan.steps().zip(0..) {
        let number = version.numbers.get(place).copied();
        table.row(step_cells(run, version, step, number));
    }
    document.table(2, table);
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
        (Paint::None, step.id().to_owned()),
        (
            status.map_or(Paint::None, status_paint),
            status.map_or_else(|| "-".to_owned(), |status: StepStatus| status.to_string()),
        ),
        (Paint::None, owner.to_owned()),
        (Paint::None, some(step.after())),
        (Paint::None, title.to_owned()),
    ]
}

/// The first few of many names.
fn some(names: Texts<'_>) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<_> = names.clone().take(SHOWN).map(str::to_owned).collect();
    match names.count().saturating_sub(SHOWN) {
        0 if shown.is_empty() => "-".to_owned(),
        0 => shown.join(", "),
        more => format!("{} +{more}", shown.join(", ")),
    }
}
