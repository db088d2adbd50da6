//! Writes a plan as text that people write: the PLAN artifact, with its outcome, phases, next action
//! and risks; a check list; and the `tasks.md` of spec-kit.
//!
//! These forms leave the dependencies to the order of the text where they can. The writer begins
//! with the shortest text, reads it back, and adds the missing facts: first the dependencies of
//! single steps, then the ids, then that the phases overlap. If all this is not enough, it leaves
//! out the phases.
//!
//! Invariant: the written text reads back with the same ids, dependencies and finished steps
//! ([`Outline`]). Otherwise the form is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::tools::Outline;
use crate::draft::{StepField, signal_text, success_criterion};
use crate::plan_file::{PlanFile, PlanFormat};
use crate::read::parse;
use crate::read_report::OPTIONAL_TAG;
use plan_ledger::plan::{Criterion, Idempotence, Phase, Plan, Step};

/// How often dependencies are added before the writer tries another layout.
const ROUNDS_MAX: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    /// The PLAN artifact.
    Artifact,
    /// A check list, with a heading for each phase.
    Tasks,
    /// The `tasks.md` of spec-kit.
    SpecKit,
}

/// How the id of a step is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ids {
    /// They are not written: the place of the step is enough.
    Placed,
    /// `T001 Title`
    Plain,
    /// `` `pull_credit`: Title ``
    Named,
}

impl TextForm {
    /// The ways to write ids, the best one first.
    fn ids(self) -> &'static [Ids] {
        match self {
            Self::Artifact => &[Ids::Placed, Ids::Named],
            Self::Tasks => &[Ids::Plain, Ids::Named],
            Self::SpecKit => &[Ids::Plain],
        }
    }
}

/// How the phases are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phases {
    /// Each one waits for the one before it.
    InOrder,
    /// With the mark `[P]`: none waits for another one, but by the dependencies of its steps.
    Overlapping,
    /// They are not written: all steps are in one phase.
    Omitted,
}

/// The facts that a text states, and those that follow from the order of its lines.
#[derive(Debug, Clone)]
struct Layout {
    form: TextForm,
    phases: Phases,
    ids: Ids,
    /// Whether texts could read as steps: the text of a step below its title is quoted, and the context
    /// of the plan is left out.
    is_careful: bool,
    /// Whether the first line of each step must read back as it is.
    keeps_heads: bool,
    /// The steps with written dependencies.
    stated: BTreeSet<String>,
}

impl Layout {
    /// The text after the name of a phase.
    fn phase_mark(&self) -> &'static str {
        if self.phases == Phases::Overlapping { " [P]" } else { "" }
    }
}

/// Writes a plan. Returns the reason if the form cannot express it.
pub(super) fn render(file: &PlanFile, outline: &Outline, form: TextForm) -> Result<String, String> {
    for (keeps_heads, is_careful) in [(true, false), (true, true), (false, false), (false, true)] {
        for phases in ways_to_write_phases(&file.plan) {
            for ids in form.ids().iter().copied() {
                let stated = BTreeSet::new();
                let layout = Layout { form, phases, ids, is_careful, keeps_heads, stated };
                if let Some(text) = fitting(file, outline, layout) {
                    return Ok(text);
                }
            }
        }
    }
    let is_spec_kit = |step: &Step| step.id.starts_with('T');
    Err(if form == TextForm::SpecKit && !file.plan.steps.iter().all(is_spec_kit) {
        "its ids are T001, T002 and so on".to_owned()
    } else {
        "ids, dependencies or marks would read back differently".to_owned()
    })
}

/// The text in a layout, once it reads back with the same outline.
fn fitting(file: &PlanFile, outline: &Outline, mut layout: Layout) -> Option<String> {
    for _ in 0..ROUNDS_MAX {
        let text = text(file, outline, &layout);
        let again = parse("plan", &text).ok()?;
        let is_form = layout.form != TextForm::SpecKit || again.format == PlanFormat::SpecKit;
        if !is_form || (layout.keeps_heads && heads(&again.plan) != heads(&file.plan)) {
            return None;
        }
        let different = outline.different(&Outline::of(&again).ok()?)?;
        if different.is_empty() {
            return Some(text);
        }
        let before = layout.stated.len();
        layout.stated.extend(different);
        if layout.stated.len() == before {
            // A stated dependency changes the inferred order of other steps.
            let all = file.plan.steps.iter().map(|step| step.id.clone());
            layout.stated.extend(all);
        }
        if layout.stated.len() == before {
            return None;
        }
    }
    None
}

/// The first line of each step.
fn heads(plan: &Plan) -> BTreeMap<&str, String> {
    plan.steps.iter().map(|step| (step.id.as_str(), one_line(head_and_notes(step).0))).collect()
}

/// The ways to write the phases, the best one first. They are in order if the steps of each one follow each
/// other.
fn ways_to_write_phases(plan: &Plan) -> Vec<Phases> {
    let place = |step: &Step| {
        let phase = step.phase.as_ref()?;
        plan.phases.iter().position(|each| each.id == *phase)
    };
    let places: Option<Vec<usize>> = plan.steps.iter().map(place).collect();
    match places {
        Some(places) if places.is_sorted() => {
            vec![Phases::InOrder, Phases::Overlapping, Phases::Omitted]
        }
        Some(_) => vec![Phases::Overlapping, Phases::Omitted],
        None => vec![Phases::Omitted],
    }
}

fn text(file: &PlanFile, outline: &Outline, layout: &Layout) -> String {
    match layout.form {
        TextForm::Artifact => artifact(file, outline, layout),
        TextForm::Tasks | TextForm::SpecKit => tasks(file, outline, layout),
    }
}

/// The phases with their steps; one without a phase for all steps.
fn groups<'a>(plan: &'a Plan, layout: &Layout) -> Vec<(Option<&'a Phase>, Vec<&'a Step>)> {
    if layout.phases == Phases::Omitted {
        return vec![(None, plan.steps.iter().collect())];
    }
    let of = |phase: &'a Phase| {
        let steps = plan.steps.iter().filter(|step| step.phase.as_ref() == Some(&phase.id));
        (Some(phase), steps.collect::<Vec<_>>())
    };
    plan.phases.iter().map(of).filter(|(_, steps)| !steps.is_empty()).collect()
}

fn artifact(file: &PlanFile, outline: &Outline, layout: &Layout) -> String {
    let plan = &file.plan;
    let context = if layout.is_careful { "" } else { &plan.context };
    let notes = Notes::of(plan, context);
    let title = if plan.title.is_empty() { "Plan" } else { &plan.title };
    let mut out = format!("# PLAN: {}\n", one_line(title));
    if !notes.from.is_empty() {
        let _ = write!(out, "\nFrom: {}\n", one_line(&notes.from));
    }
    if !notes.before.is_empty() {
        let _ = write!(out, "\n{}\n", notes.before);
    }
    section(&mut out, "Outcome", &plan.outcome);
    section(&mut out, "Goal", &plan.goal);
    out.push_str("\n## Phases\n");
    for (number, (phase, steps)) in (1..).zip(groups(plan, layout)) {
        let name = phase
            .map_or("Work", |phase| if phase.title.is_empty() { &phase.id } else { &phase.title });
        let name = one_line(name);
        let (bold, rest) = name.split_once(" \u{2014} ").unwrap_or((&name, ""));
        let _ = write!(out, "{number}. **Phase {number}: {bold}**{}", layout.phase_mark());
        if !rest.is_empty() {
            let _ = write!(out, " \u{2014} {rest}");
        }
        out.push('\n');
        let indent = " ".repeat(number.to_string().len().saturating_add(2));
        for step in steps {
            write_step(&mut out, step, outline, layout, &indent);
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    section(&mut out, "Next Action", &notes.next_action);
    lists(&mut out, plan);
    list_section(&mut out, "Decisions", notes.decisions.into_iter());
    if !notes.after.is_empty() {
        let _ = write!(out, "\n{}\n", notes.after);
    }
    out
}

/// The criteria, risks and questions of the plan.
fn lists(out: &mut String, plan: &Plan) {
    list_section(out, "Acceptance Criteria", plan.test_criteria.iter().filter_map(criterion));
    let is_question = |text: &String| text.trim_end().ends_with('?');
    let is_plain = |text: &String| {
        let plain = text.trim_start_matches(['*', '_']).to_lowercase();
        !is_question(text) && !plain.starts_with("assum")
    };
    if plan.risks.iter().all(is_plain) && plan.open_questions.iter().all(is_question) {
        let all = plan.open_questions.iter().chain(&plan.risks).cloned();
        list_section(out, "Risks / Open Questions", all);
    } else {
        list_section(out, "Risks", plan.risks.iter().cloned());
        list_section(out, "Open Questions", plan.open_questions.iter().cloned());
    }
}

fn tasks(file: &PlanFile, outline: &Outline, layout: &Layout) -> String {
    let plan = &file.plan;
    let title = if plan.title.is_empty() { "Tasks" } else { &plan.title };
    let mut out = format!("# {}\n", one_line(title));
    if !plan.context.is_empty() && !layout.is_careful {
        let _ = write!(out, "\n{}\n", plan.context);
    }
    section(&mut out, "Outcome", &plan.outcome);
    section(&mut out, "Goal", &plan.goal);
    if layout.phases == Phases::Omitted {
        out.push_str("\n## Tasks\n");
    }
    for (phase, steps) in groups(plan, layout) {
        if let Some(phase) = phase {
            let title = if phase.title.is_empty() { &phase.id } else { &phase.title };
            let _ = write!(out, "\n## {}{}\n", one_line(title), layout.phase_mark());
        }
        out.push('\n');
        for step in steps {
            write_step(&mut out, step, outline, layout, "");
        }
    }
    lists(&mut out, plan);
    out
}

fn section(out: &mut String, title: &str, text: &str) {
    if !text.trim().is_empty() {
        let _ = write!(out, "\n## {title}\n{}\n", text.trim());
    }
}

fn list_section(out: &mut String, title: &str, items: impl Iterator<Item = String>) {
    let items: String = items.map(|item| format!("- {}\n", item.replace('\n', "\n  "))).collect();
    if !items.is_empty() {
        let _ = write!(out, "\n## {title}\n{items}");
    }
}

/// A step: a box, its id and tags, its first line, its fields, and the rest of its goal.
fn write_step(out: &mut String, step: &Step, outline: &Outline, layout: &Layout, indent: &str) {
    let (head, notes) = head_and_notes(step);
    let mark = if outline.is_finished(step) { 'x' } else { ' ' };
    let _ = write!(out, "{indent}- [{mark}]");
    if step.tags.iter().any(|tag| tag == OPTIONAL_TAG) {
        out.push('*');
    }
    match layout.ids {
        Ids::Placed => {}
        // A number alone would be a word of the title.
        Ids::Plain if step.id.bytes().all(|byte| byte.is_ascii_digit()) => {
            let _ = write!(out, " {}.", step.id);
        }
        Ids::Plain => _ = write!(out, " {}", step.id),
        Ids::Named => _ = write!(out, " `{}`:", step.id),
    }
    for tag in step.tags.iter().filter(|tag| *tag != OPTIONAL_TAG) {
        let _ = write!(out, " [{tag}]");
    }
    let _ = writeln!(out, " {}", one_line(head));
    for line in labels(step, outline, layout) {
        let _ = writeln!(out, "{indent}  - {}", one_line(&line));
    }
    if !notes.is_empty() {
        out.push('\n');
        for line in notes.lines() {
            let quote = if layout.is_careful { "> " } else { "" };
            let _ = writeln!(out, "{}", format!("{indent}  {quote}{line}").trim_end());
        }
        out.push('\n');
    }
}

/// The first line of a step, and the rest of its goal.
fn head_and_notes(step: &Step) -> (&str, &str) {
    let goal = step.goal.trim();
    let (first, rest) = goal.split_once('\n').unwrap_or((goal, ""));
    let bold = first.strip_prefix("**").and_then(|rest| rest.split_once("**"));
    let first_title = bold.map_or(first, |(title, _)| title.trim_end_matches(':').trim());
    if goal.is_empty() {
        (if step.title.is_empty() { &step.id } else { &step.title }, "")
    } else if step.title.is_empty() || first_title == step.title {
        (first, rest.trim_matches('\n'))
    } else {
        (&step.title, goal)
    }
}

/// The fields of a step as labels, as far as they read back.
fn labels(step: &Step, outline: &Outline, layout: &Layout) -> Vec<String> {
    let mut lines = Vec::new();
    if layout.stated.contains(&step.id) {
        let names: Vec<String> = outline.of_step(step).map(|id| quoted(id, layout)).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        lines.push(format!("depends on: {names}"));
    }
    lines.extend(step.owner.as_ref().map(|owner| format!("owner: {}", listed(owner))));
    let names = |names: &[String]| names.iter().map(|name| listed(name)).collect::<Vec<_>>();
    if !step.tools.is_empty() {
        lines.push(format!("tools: {}", names(&step.tools).join(", ")));
    }
    if !step.changes.is_empty() {
        lines.push(format!("changes: {}", names(&step.changes).join(", ")));
    }
    for (field, text) in typed(step) {
        let mut tried = Step::default();
        let unset = field.set(&mut tried, &Value::String(text.clone()));
        if unset.is_empty() {
            lines.push(format!("{}: {text}", field.names().first().copied().unwrap_or_default()));
        }
    }
    let priority = match step.priority {
        20 => Some("critical"),
        10 => Some("high"),
        -10 => Some("low"),
        -20 => Some("lowest"),
        _ => None,
    };
    lines.extend(priority.map(|word| format!("priority: {word}")));
    for each in &step.acceptance {
        let signal = signal_text(each).filter(|signal| {
            let name = success_criterion(signal).1;
            name.is_some_and(|name| step.outputs.contains(&name))
        });
        match signal {
            Some(signal) => lines.push(format!("success: {signal}")),
            None => lines.extend(criterion(each).map(|text| format!("acceptance: {text}"))),
        }
    }
    lines
}

/// The fields that are written in words, each with its text.
fn typed(step: &Step) -> Vec<(StepField, String)> {
    let mut fields = Vec::new();
    let each = |field: StepField, texts: &[String]| {
        texts.iter().map(|text| (field, text.clone())).collect::<Vec<_>>()
    };
    fields.extend(each(StepField::Preconditions, &step.preconditions));
    fields.extend(step.condition.clone().map(|text| (StepField::Condition, text)));
    fields.extend(each(StepField::SideEffects, &step.side_effects));
    let idempotent = step.idempotent.map(|word| match word {
        Idempotence::Yes => "yes",
        Idempotence::No => "no",
        Idempotence::WithKey => "with_key",
    });
    fields.extend(idempotent.map(|word| (StepField::Idempotent, word.to_owned())));
    if let Some(retry) = &step.retry {
        let (attempts, seconds) = (retry.max_attempts, retry.backoff_seconds);
        let texts = [
            format!("{attempts} attempts"),
            format!("{attempts} attempts, {seconds}s backoff"),
            format!("{attempts} attempts, exponential backoff"),
        ];
        let reads_back = |text: &String| {
            let mut tried = Step::default();
            StepField::Retry.set(&mut tried, &Value::String(text.clone()));
            tried.retry.as_ref() == Some(retry)
        };
        fields.extend(texts.into_iter().find(reads_back).map(|text| (StepField::Retry, text)));
    }
    fields.extend(step.timeout_seconds.map(|it| (StepField::Timeout, format!("{it}s"))));
    fields.extend(step.estimate_seconds.map(|it| (StepField::Estimate, format!("{it}s"))));
    fields.extend(step.failure_class.clone().map(|text| (StepField::FailureClass, text)));
    fields
}

/// A criterion as text; none for one that has no form in text.
fn criterion(criterion: &Criterion) -> Option<String> {
    match criterion {
        Criterion::Text(text) => Some(text.trim().to_owned()),
        Criterion::Command(command) if !command.contains(['`', '\n']) => {
            Some(format!("`{command}` exits 0"))
        }
        Criterion::Command(_) | Criterion::Cel(_) => None,
    }
}

/// An id as a name in a list.
fn quoted(id: &str, layout: &Layout) -> String {
    if layout.ids == Ids::Named { format!("`{id}`") } else { id.to_owned() }
}

/// A name in a list, in backquotes if it has a comma.
fn listed(name: &str) -> String {
    if name.contains([',', ';', '(', ' ']) { format!("`{name}`") } else { name.to_owned() }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text around the phases, from the fields and the context of a plan that was read from such a text.
#[derive(Debug, Default)]
struct Notes {
    from: String,
    next_action: String,
    decisions: Vec<String>,
    /// Text before the first section.
    before: String,
    /// The other sections.
    after: String,
}

impl Notes {
    fn of(plan: &Plan, context: &str) -> Self {
        let extra = |name: &str| plan.extra.get("markdown").and_then(|fields| fields.get(name));
        let texts = |value: Option<&Value>| -> Vec<String> {
            match value {
                Some(Value::Array(items)) => {
                    items.iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect()
                }
                Some(Value::String(text)) => vec![text.clone()],
                _ => Vec::new(),
            }
        };
        let mut notes = Self {
            from: texts(extra("from")).join(" "),
            decisions: texts(extra("decisions")),
            ..Self::default()
        };
        notes.next_action = match extra("next_action") {
            Some(Value::Array(_)) => {
                let items = texts(extra("next_action")).into_iter();
                items.map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
            }
            value => texts(value).join("\n"),
        };
        // These sections are fields, and stay in the context: they are written once.
        let mut is_written = false;
        let mut is_after = false;
        for line in context.lines() {
            if let Some(title) = line.strip_prefix('#') {
                let title = title.trim_start_matches('#').trim().to_lowercase();
                is_written = ["next action", "next actions", "decisions"].contains(&title.as_str());
                is_after = true;
            }
            let is_from = line.strip_prefix("From:").is_some_and(|text| text.trim() == notes.from);
            if !is_written && !is_from {
                let part = if is_after { &mut notes.after } else { &mut notes.before };
                part.push_str(line);
                part.push('\n');
            }
        }
        for part in [&mut notes.before, &mut notes.after] {
            *part = part.trim().to_owned();
        }
        notes
    }
}
