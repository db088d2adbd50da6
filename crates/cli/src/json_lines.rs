//! Every line that the commands print with `--json`: its type and the commands that print it.

#[cfg(test)]
use plan_ledger::Event;
#[cfg(test)]
use plan_ledger::Note;
#[cfg(test)]
use plan_ledger::internals::ledger::Kind;
#[cfg(test)]
use plan_ledger::log::{
    ErasureNote, GapNote, RecoveryNote, RetentionNote, SnapshotNote, WriterNote,
};

use crate::commands::get::VariableLine;
use crate::commands::inspect::ledger_at::AsOfLine;
#[cfg(test)]
use crate::commands::inspect::views;
use crate::commands::plan::review::ReviewLine;
use crate::commands::prune::PrunePlanLine;
use crate::commands::root::RootLine;
use crate::commands::store::lines::{
    HeldStoreJson, RejoinLine, ReplicatedLine, RestoredLine, StandbyLine, StoreDamageLine,
    StoreGcLine, StoreHealthLine, StoreLagLine, StoreProbeLine, StorePruneLine, StoreStatusLine,
};
use crate::commands::{
    archive, blobs, drill, erase, init, lab, plan, recover, report, run, serve, setup, verify, work,
};
use crate::json::JsonLine;
#[cfg(test)]
use crate::json::event_definition;
use crate::options::plan_file::ReadLine;
use crate::output::{PlanDiffLine, SummaryLine, WaitsLine};
use crate::protocol::{ErrorLine, RolledBackLine, TrustsLine};
use crate::runner::Progress;
#[cfg(test)]
use plan_ledger_views::BatchKeyJson;
use plan_ledger_views::FindingLine;

/// Gives each line its `type`, and adds all of them to the published schema.
macro_rules! json_lines {
    (
        $($word:literal of $($command:ident),+ => $line:ty;)*
        tagged: $($tagged_command:ident => $tagged:ty;)*
    ) => {
        $(impl JsonLine for $line {
            const TYPE: Option<&'static str> = Some($word);
        })*

        $(impl JsonLine for $tagged {
            const TYPE: Option<&'static str> = None;
        })*

        #[cfg(test)]
        pub(crate) fn add_all(schema: &mut crate::json::PublishedSchema) {
            crate::requests::add_answers(schema);
            views::add_lines(schema);
            $($(schema.add::<$line>(stringify!($command));)+)*
            $(schema.add::<$tagged>(stringify!($tagged_command));)*
            add_findings(schema);
            add_events(schema);
        }
    };
}

json_lines! {
    "archive" of archive => archive::ArchiveLine<'_>;
    "as_of" of budget, inspect, logs, next, questions, status => AsOfLine<'_>;
    "blob" of blobs => blobs::BlobLine;
    "budget_part" of budget, inspect => plan_ledger_views::BudgetLine;
    "check" of drill => drill::kill_report::DrillCheck;
    "comparison" of verify => verify::comparison::ComparisonLine;
    "decision" of questions => plan_ledger_views::DecisionLine<'_>;
    "diff" of plan_diff => PlanDiffLine<'_>;
    "error" of any => ErrorLine;
    "ended" of run => run::EndedLine<'_>;
    "endured" of lab => lab::EnduredLine;
    "every_crash" of drill => drill::every_crash_report::EveryCrashLine<'_>;
    "execution_state" of status => plan_ledger_views::ExecutionStateLine;
    "expectation" of verify => verify::ExpectationLine;
    "fault" of lab => lab::FaultLine<'_>;
    "faults" of lab => lab::FaultsLine;
    "fenced" of recover => recover::FencedLine;
    "health" of inspect => plan_ledger_views::HealthLine<'_>;
    "holding" of run => HeldStoreJson;
    "initialized" of init => init::InitializedLine;
    "lab" of lab => lab::LabLine;
    "ledger" of inspect => plan_ledger_views::LedgerLine<'_>;
    "log" of logs => plan_ledger_views::LogLine<'_>;
    "marked" of plan_export => plan::into::MarkedLine;
    "milestone" of budget, inspect => plan_ledger_views::MilestoneLine;
    "next" of next, questions => plan_ledger_views::NextLine<'_>;
    "opened" of run => run::OpenedLine<'_>;
    "operator_view" of status => plan_ledger_views::OperatorViewLine<'_>;
    "prime" of prime => plan_ledger_views::PrimeLine;
    "erase_plan" of erase => erase::ErasePlanLine;
    "erased" of erase => erase::ErasedLine;
    "prune_plan" of archive, prune => PrunePlanLine;
    "rejoin" of store => RejoinLine;
    "replicated" of replicate => ReplicatedLine;
    "report" of report => report::ReportLine;
    "review" of plan_review => ReviewLine<'_>;
    "rolled_back" of budget, inspect, next, questions, status, verify => RolledBackLine;
    "restored" of restore => RestoredLine;
    "root" of root => RootLine;
    "run" of inspect => plan_ledger_views::RunLine<'_>;
    "run_cost" of inspect, status => plan_ledger_views::RunCostLine;
    "salvaged" of recover => recover::SalvagedLine<'_>;
    "service" of setup => setup::service::ServiceLine;
    "setup" of setup => setup::SetupLine;
    "since" of status => plan_ledger_views::SinceLine;
    "read" of run, plan_lint => ReadLine;
    "serving" of serve => serve::ServingLine;
    "standby" of serve => StandbyLine;
    "step" of inspect => plan_ledger_views::StepLine<'_>;
    "step_cost" of inspect, status => plan_ledger_views::StepCostLine<'_>;
    "store_damage" of replicate, run, serve => StoreDamageLine;
    "store_gc" of store => StoreGcLine;
    "store_health" of serve, status => StoreHealthLine;
    "store_lag" of run, serve => StoreLagLine;
    "store_probe" of store => StoreProbeLine;
    "store_prune" of store => StorePruneLine;
    "store_status" of store => StoreStatusLine;
    "summary" of blobs => blobs::BlobsLine;
    "summary" of drill => drill::kill_report::DrillLine;
    "summary" of plan_lint => plan::lint::LintLine;
    "summary" of next, questions => plan_ledger_views::NextSummaryLine;
    "summary" of run => SummaryLine<'_>;
    "summary" of verify => verify::VerifiedLine;
    "traced" of status => plan_ledger_views::TracedLine<'_>;
    "unavailable" of status => plan_ledger_views::UnavailableLine;
    "trusts" of run => TrustsLine<'_>;
    "user_view" of status => plan_ledger_views::UserViewLine<'_>;
    "variable" of get => VariableLine;
    "waits" of run => WaitsLine<'_>;
    "why" of inspect => plan_ledger_views::WhyLine<'_>;
    "worked" of work => work::WorkedLine<'_>;

    tagged:
    plan_lint => plan::lint::DiagnosticLine<'_>;
    run => Progress;
    verify => FindingLine;
}

/// Adds the faults that views report.
#[cfg(test)]
fn add_findings(schema: &mut crate::json::PublishedSchema) {
    schema.add_some::<FindingLine>("inspect", &["damage", "derived", "lost"]);
    for command in ["budget", "logs", "next", "questions", "status"] {
        schema.add_some::<FindingLine>(command, &["damage", "lost"]);
    }
}

/// Adds the contents of records, by the names of their kinds.
#[cfg(test)]
fn add_events(schema: &mut crate::json::PublishedSchema) {
    schema.define_all(Event::schemas, event_definition);
    let note = |kind: Kind| event_definition(kind.name());
    schema.define::<RecoveryNote>(&note(Kind::RecoveryNote));
    schema.define::<GapNote>(&note(Kind::Gap));
    schema.define::<SnapshotNote>(&note(Kind::SnapshotNote));
    schema.define::<RetentionNote>(&note(Kind::RetentionNote));
    schema.define::<BatchKeyJson<'_>>(&note(Kind::BatchKey));
    schema.define::<Note>(&note(Kind::Note));
    schema.define::<ErasureNote>(&note(Kind::Erasure));
    schema.define::<WriterNote>(&note(Kind::WriterNote));
}

#[cfg(test)]
mod tests {
    //! Goal: the published schemas are those of the types.

    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use plan_ledger::Event;
    use schemars::SchemaGenerator;
    use serde_json::{Value, json};

    use super::add_all;
    use crate::json::{PublishedSchema, event_definition};
    use crate::runner;

    fn path(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format").join(name)
    }

    fn read(name: &str) -> Value {
        serde_json::from_str(&std::fs::read_to_string(path(name)).unwrap()).unwrap()
    }

    /// `UPDATE_GOLDEN=1` writes the file again.
    fn expect_published(name: &str, id: &str, mut generated: Value) {
        generated["$id"] = json!(id);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path(name), format!("{generated:#}\n")).unwrap();
        }
        assert!(read(name) == generated, "format/{name} is stale; run with UPDATE_GOLDEN=1");
    }

    /// Collects, by name, where a member is a time, and where it is something else.
    fn sort_members(
        place: &str,
        part: &Value,
        found: &mut BTreeMap<String, [BTreeSet<String>; 2]>,
    ) {
        fn is_time(member: &Value) -> bool {
            let name = member["$ref"].as_str().unwrap_or_default();
            let variants = member["anyOf"].as_array().into_iter().flatten();
            name.ends_with("/UtcTime") || variants.into_iter().any(is_time)
        }
        for (name, member) in part["properties"].as_object().into_iter().flatten() {
            let places = &mut found.entry(name.clone()).or_default()[usize::from(!is_time(member))];
            places.insert(place.to_owned());
            if name.ends_with("_micros") {
                let kind = member["type"].to_string();
                let target = member["$ref"].to_string();
                let is_number = kind.contains("integer") || !target.is_empty();
                assert!(is_number && !is_time(member), "{place}.{name} is no whole number");
            }
        }
        match part {
            Value::Object(members) => {
                members.values().for_each(|member| sort_members(place, member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| sort_members(place, item, found)),
            _ => {}
        }
    }

    /// The rules of `format/cli-json.md`: a name is a time in all lines or in none, `..._micros` is a
    /// number, and no line but the hand-off has a version.
    #[test]
    fn members_of_lines_follow_the_rules_about_times_and_versions() {
        let mut schema = PublishedSchema::new();
        add_all(&mut schema);
        let schema = schema.finish_lines("", "");
        let definitions = schema["$defs"].as_object().unwrap();
        let mut found = BTreeMap::new();
        for (name, definition) in definitions {
            sort_members(name, definition, &mut found);
            let is_hand_off = name.split_once('.').is_some_and(|(_, word)| word == "task");
            let is_line = name.contains('.');
            if is_line && !is_hand_off {
                assert!(definition["properties"].get("schema").is_none(), "{name} has a version");
            }
        }
        for (name, definition) in definitions.iter().filter(|(name, _)| name.contains('.')) {
            // A line of a view has the same members in each command that prints it.
            let of_inspect = name.split_once('.').map(|(_, word)| format!("inspect.{word}"));
            let is_view = ["inspect.", "logs.", "status."].iter().any(|it| name.starts_with(it))
                || of_inspect.is_some_and(|name| definitions.get(&name) == Some(definition));
            let variants = definition["oneOf"].as_array();
            for part in variants.map_or(std::slice::from_ref(definition), Vec::as_slice) {
                for member in ["run", "step"] {
                    let text = part["properties"][member].to_string();
                    let is_number = text.contains("/StepNumber") || text.contains("/RunId");
                    let is_there = text != "null";
                    assert!(!is_there || is_number == is_view, "{name}.{member}: {text}");
                }
            }
        }
        let both =
            found.iter().filter(|(_, [times, others])| !times.is_empty() && !others.is_empty());
        assert_eq!(both.collect::<Vec<_>>(), []);
        assert!(found.values().filter(|[times, _]| !times.is_empty()).count() > 10);
    }

    #[test]
    fn published_schema_of_lines_matches_the_types() {
        let mut schema = PublishedSchema::new();
        add_all(&mut schema);
        let generated = schema.finish_lines(
            "What the commands of `ledger` print with --json, line by line",
            "Version 1. A definition is named by command and type; one without a dot is a part of \
             others. Members and types may be added: readers ignore unknown ones. This file is \
             generated from the types of the program.",
        );
        expect_published("json-lines.schema.json", "urn:plan-ledger:json-lines/1", generated);
    }

    /// The table of events in the page has the members of the types, in their order. `UPDATE_GOLDEN=1`
    /// writes the table again.
    #[test]
    fn published_page_of_events_matches_the_types() {
        let definitions = &read("json-lines.schema.json")["$defs"];
        let kinds = Event::schemas(&mut SchemaGenerator::default());
        let rows: String = kinds
            .iter()
            .map(|(kind, _)| {
                let members = definitions[event_definition(kind)]["required"].as_array();
                let members: Vec<_> = members.unwrap().iter().filter_map(Value::as_str).collect();
                // The page says once which members all events of a step have.
                let common = if members.contains(&"previous") { 3 } else { 0 };
                format!("| `{kind}` | `{}` |\n", members[common..].join("`, `"))
            })
            .collect();
        let page = std::fs::read_to_string(path("inspect-json.md")).unwrap();
        let (before, rest) = page.split_once("| `run_started` |").unwrap();
        let (_, after) = rest.split_once("| `gap` |").unwrap();
        let generated = format!("{before}{rows}| `gap` |{after}");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path("inspect-json.md"), &generated).unwrap();
        }
        assert!(page == generated, "format/inspect-json.md is stale; run with UPDATE_GOLDEN=1");
    }

    #[test]
    fn published_schema_of_hand_offs_matches_the_types() {
        let mut schema = PublishedSchema::new();
        runner::define_hand_offs(&mut schema);
        let generated = schema.finish(
            &["hand_off", "judge_question", "planner_request"],
            "The input of workers, judges and planners, and the replies of judges",
            "Version 1 of the hand-off (hand-off.md). Readers ignore unknown members. This file is \
             generated from the types of the program.",
        );
        expect_published("hand-off.schema.json", "urn:plan-ledger:hand-off/1", generated);
    }
}
