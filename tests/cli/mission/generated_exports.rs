//! S28, S29: the plan of a run is written to a file, and the next session starts from that file: for
//! generated plans, every form reads back as the same plan with the same progress, as far as the form
//! can say it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use plan_ledger::plan::{Criterion, Idempotence, Phase, Plan, Step};
use plan_ledger_files::{self as files, ExportFormat, PlanFile, as_written_commands};
use proptest::prelude::*;

/// How the ids of a generated plan look.
#[derive(Debug, Clone, Copy)]
enum IdForm {
    Number,
    SpecKit,
    Key,
    Name,
    Place,
}

impl IdForm {
    fn id(self, index: usize) -> String {
        let number = index + 1;
        match self {
            Self::Number => number.to_string(),
            Self::SpecKit => format!("T{number:03}"),
            Self::Key => format!("API-{number}"),
            Self::Name => ["pull_credit", "a b", "x/y, z", "Review!", "none_yet", "v2", "a.b", "q"]
                [index % 8]
                .to_owned(),
            Self::Place => format!("{}.{}", 1 + index / 3, 1 + index % 3),
        }
    }
}

/// What is generated for one step: flags, the steps before it that it waits for, and its words.
type Parts = ([bool; 8], Vec<usize>, usize);

const TITLES: [&str; 5] = [
    "Check the score",
    "Write `auth.rs`, then test it",
    "**Bold start**: and the rest",
    "Ask: is it (really) so?",
    "Send 3 mails - slowly",
];

fn step(form: IdForm, index: usize, (flags, wanted, words): &Parts, phases: usize) -> Step {
    let [has_title, has_goal, has_notes, has_labels, is_typed, ..] = *flags;
    let title = format!("{} {index}", TITLES[words % TITLES.len()]);
    let goal = match (has_goal, has_notes) {
        (true, true) => format!("Do it well {index}\n\nSecond paragraph.\nIt has two lines."),
        (true, false) => format!("Do it well {index}"),
        (false, _) => String::new(),
    };
    let after: BTreeSet<usize> = wanted.iter().copied().filter(|it| *it < index).collect();
    let mut step = Step {
        id: form.id(index),
        title: if has_title || goal.is_empty() { title } else { String::new() },
        goal,
        after: after.into_iter().map(|it| form.id(it)).collect(),
        phase: (phases > 0).then(|| (1 + index / 3).to_string()),
        ..Step::default()
    };
    if has_labels {
        step.owner = Some("reviewer".to_owned());
        step.tools = vec!["Read".to_owned(), "Edit".to_owned()].into();
        step.changes = vec![format!("src/{index}/*.rs"), "notes, old.md".to_owned()].into();
        step.acceptance = vec![
            Criterion::Text("it is good".to_owned()),
            Criterion::Command("test -e x".to_owned()),
        ];
    }
    if is_typed {
        step.preconditions = vec!["ready == true".to_owned()].into();
        step.idempotent = Some([Idempotence::No, Idempotence::WithKey][words % 2]);
        step.side_effects = vec!["write to loan DB".to_owned()].into();
        step.estimate_seconds = Some(90);
    }
    step
}

fn plans() -> impl Strategy<Value = PlanFile> {
    let form = prop::sample::select(vec![
        IdForm::Number,
        IdForm::SpecKit,
        IdForm::Key,
        IdForm::Name,
        IdForm::Place,
    ]);
    let part = (any::<[bool; 8]>(), prop::collection::vec(0_usize..8, 0..3), 0_usize..100);
    (form, prop::collection::vec(part, 1..8), any::<bool>()).prop_map(
        |(form, parts, has_phases)| {
            let count = if has_phases { parts.len().div_ceil(3) } else { 0 };
            let phase =
                |number: usize| Phase { id: number.to_string(), title: format!("Part {number}") };
            let all = (0..).zip(&parts);
            let plan = Plan {
                title: "Loans".to_owned(),
                outcome: "Every application has a decision.".to_owned(),
                phases: (1..=count).map(phase).collect(),
                risks: vec!["The bureau is slow".to_owned()],
                open_questions: vec!["Who signs?".to_owned()],
                steps: all.clone().map(|(index, part)| step(form, index, part, count)).collect(),
                ..Plan::default()
            };
            let marked = |flag: usize, but: usize| -> BTreeMap<String, String> {
                let all = all.clone().filter(|(_, (flags, ..))| flags[flag] && !flags[but]);
                all.map(|(index, _)| (form.id(index), "run loans".to_owned())).collect()
            };
            PlanFile::of_run(plan, marked(5, 7), marked(6, 5))
        },
    )
}

/// The steps that each step waits for, directly or through a barrier.
fn waits(plan: &Plan) -> BTreeMap<String, BTreeSet<String>> {
    let members = |name: &String| match plan.barriers.iter().find(|it| it.id == *name) {
        Some(barrier) => barrier.members.clone(),
        None => vec![name.clone()],
    };
    let of = |step: &Step| (step.id.clone(), step.after.iter().flat_map(members).collect());
    plan.steps.iter().map(of).collect()
}

fn finished(file: &PlanFile) -> BTreeSet<&String> {
    file.done.keys().chain(file.skipped.keys()).collect()
}

/// The words that a form shows for a step.
fn headlines(file: &PlanFile) -> BTreeMap<&str, &str> {
    file.plan
        .steps
        .iter()
        .map(|step| {
            // Bold words at the start of a goal are read as its title.
            let is_goal = step.title.is_empty() || step.goal.starts_with("**");
            let text = if is_goal { &step.goal } else { &step.title };
            (step.id.as_str(), text.lines().next().unwrap_or_default())
        })
        .collect()
}

/// The fields that a text has labels for.
fn labelled(file: &PlanFile) -> Vec<Step> {
    let plan = as_written_commands(file.plan.clone());
    let only = |step: &Step| Step {
        id: step.id.clone(),
        owner: step.owner.clone(),
        tools: step.tools.clone(),
        changes: step.changes.clone(),
        acceptance: step.acceptance.clone(),
        preconditions: step.preconditions.clone(),
        idempotent: step.idempotent,
        side_effects: step.side_effects.clone(),
        estimate_seconds: step.estimate_seconds,
        ..Step::default()
    };
    plan.steps.iter().map(only).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn s28_every_form_reads_back_as_the_same_plan_and_progress(file in plans()) {
        for format in [ExportFormat::Yaml, ExportFormat::Json, ExportFormat::Markdown] {
            let text = file.render(format).unwrap();
            let again = files::parse("f", &text).unwrap();
            prop_assert_eq!(&again.plan, &file.plan, "{:?}\n{}", format, text);
            prop_assert_eq!((&again.done, &again.skipped), (&file.done, &file.skipped));
        }
        let is_spec_kit = file.plan.steps[0].id.starts_with("T0");
        for format in [
            ExportFormat::Artifact,
            ExportFormat::Tasks,
            ExportFormat::SpecKit,
            ExportFormat::TaskMaster,
            ExportFormat::Beads,
            ExportFormat::Cursor,
        ] {
            let rendered = file.render(format);
            if format == ExportFormat::SpecKit && !is_spec_kit {
                prop_assert!(rendered.unwrap_err().to_string().contains("T001"));
                continue;
            }
            prop_assert!(rendered.is_ok(), "{:?}: {}\n{:#?}", format, rendered.unwrap_err(), file.plan);
            let text = rendered.unwrap();
            let again = files::parse("f", &text).unwrap();
            prop_assert_eq!(waits(&again.plan), waits(&file.plan), "{:?}\n{}", format, text);
            prop_assert_eq!(finished(&again), finished(&file), "{:?}\n{}", format, text);
            if format != ExportFormat::Cursor {
                prop_assert_eq!(headlines(&again), headlines(&file), "{:?}\n{}", format, text);
            }
            if matches!(format, ExportFormat::Artifact | ExportFormat::Tasks | ExportFormat::SpecKit) {
                prop_assert_eq!(labelled(&again), labelled(&file), "{:?}\n{}", format, text);
                prop_assert_eq!(&again.plan.outcome, &file.plan.outcome);
                prop_assert_eq!(&again.plan.risks, &file.plan.risks);
                prop_assert_eq!(&again.plan.open_questions, &file.plan.open_questions);
                prop_assert!(again.report.unread.is_empty(), "{:?}\n{}", again.report, text);
                // What was read once is written unchanged.
                prop_assert_eq!(again.render(format).unwrap(), text);
            }
        }
    }
}

/// Text of a PLAN artifact, with actions that are ticked or not.
fn artifacts() -> impl Strategy<Value = String> {
    let phase = prop::collection::vec((any::<bool>(), any::<bool>()), 1..4);
    (prop::collection::vec(phase, 1..4), any::<[bool; 4]>()).prop_map(|(phases, with)| {
        let mut text = "# PLAN: Ship the cache\n".to_owned();
        if with[0] {
            text.push_str("\nFrom: docs/spec.md\n");
        }
        text.push_str("\n## Outcome\nReads are fast.\n\n## Phases\n");
        for (number, actions) in (1..).zip(&phases) {
            let _ = writeln!(text, "{number}. **Phase {number}: Part {number}** \u{2014} and why");
            for (action, (is_done, is_parallel)) in (1..).zip(actions) {
                let (mark, tag) =
                    (if *is_done { 'x' } else { ' ' }, if *is_parallel { "[P] " } else { "" });
                let _ = writeln!(text, "   - [{mark}] {tag}Action {number} {action}");
            }
            text.push('\n');
        }
        if with[1] {
            text.push_str("## Next Action\nOpen the profiler.\n\n");
        }
        if with[2] {
            text.push_str(
                "## Risks / Open Questions\n- Is there enough memory?\n- It may be stale\n\n",
            );
        }
        if with[3] {
            text.push_str(
                "## Decisions\n- version 1: the first idea\n\n## Notes\n\nMore to read.\n",
            );
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn s29_plan_artifact_is_written_back_as_it_was_read(text in artifacts()) {
        let file = files::parse("PLAN.md", &text).unwrap();
        let written = file.render(ExportFormat::Artifact).unwrap();
        let again = files::parse("PLAN.md", &written).unwrap();
        prop_assert_eq!(&again.plan, &file.plan, "{}\n{}", text, written);
        prop_assert_eq!(finished(&again), finished(&file), "{}", written);
        // Nothing is stated that the order says.
        prop_assert!(!written.contains("depends on"), "{}", written);
        prop_assert_eq!(written.trim_end(), text.trim_end());
        prop_assert_eq!(again.render(ExportFormat::Artifact).unwrap(), written);
        prop_assert_eq!(file.fields_lost_in(&again), []);
    }
}

#[test]
fn s28_fields_that_a_form_has_no_place_for_are_named() {
    let text =
        "steps:\n  - {id: a, goal: do it, outputs: [x], idempotent: no, gate: {question: Go?}}\n";
    let file = files::parse("p.yaml", text).unwrap();
    for (format, expected) in [
        (ExportFormat::Artifact, vec!["gate", "outputs"]),
        (ExportFormat::Beads, vec!["gate", "idempotent", "outputs"]),
        (ExportFormat::Markdown, vec![]),
    ] {
        let again = files::parse("f", &file.render(format).unwrap()).unwrap();
        let lost = file.fields_lost_in(&again);
        let names: Vec<&str> = lost.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected, "{format:?}");
    }
}
