//! One row for each tool that writes tasks as records: how its files are recognized, and where
//! they differ from the common field names.
//!
//! All rows share one reader, so a new tool is a new row. `format/plan-files.md` has the rows.

use serde_json::Value;

use super::record_fields::field;
use crate::plan_file::PlanFormat;

/// How a tool writes tasks.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) format: PlanFormat,
    /// The key in `extra`.
    pub(super) extra: &'static str,
    /// Sets of fields. A record of this tool has all fields of one set.
    signatures: &'static [&'static [&'static str]],
    /// Fields that the tool updates during the work, beside the common ones.
    pub(super) progress: &'static [&'static str],
    pub(super) priority: Priority,
    /// Whether the order of the file, or this field, orders the tasks if they state no dependencies.
    pub(super) order: Order,
    /// Types of records that are not work.
    pub(super) idle_types: &'static [&'static str],
}

/// How a tool writes priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// Words: critical, high, medium, low.
    Words,
    /// Numbers from 0, the highest; 2 is the usual one.
    FromZero,
    /// Numbers from 1, the highest.
    FromOne,
}

/// The order of tasks without dependencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// A number in this field, or else the order of the list.
    Field(&'static str),
    /// Nothing: the tool states dependencies, and its order has no meaning. The time of creation
    /// gives the order of the steps.
    Stated,
}

/// How a dependency orders the steps.
pub(super) enum EdgeKind {
    Blocks,
    ConditionalBlocks,
    Parent,
    Unordered,
}

/// The meaning of the word for a type of dependencies.
pub(super) fn edge_kind(word: &str) -> EdgeKind {
    let word: String =
        word.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_lowercase()).collect();
    match word.as_str() {
        "" | "blocks" | "block" | "blockedby" | "isblockedby" | "blocker" | "dependson"
        | "dependency" | "waitsfor" | "hard" | "requires" | "finishtostart" => EdgeKind::Blocks,
        "conditionalblocks" => EdgeKind::ConditionalBlocks,
        "parentchild" | "parent" | "childof" => EdgeKind::Parent,
        _ => EdgeKind::Unordered,
    }
}

const COMMON: Mapping = Mapping {
    format: PlanFormat::Records,
    extra: "json",
    signatures: &[],
    progress: &[],
    priority: Priority::Words,
    order: Order::Field("order"),
    idle_types: &[],
};

/// Any list of tasks.
pub(super) static RECORDS: Mapping = COMMON;

pub(super) static TASK_MASTER: Mapping = Mapping {
    format: PlanFormat::TaskMaster,
    extra: "taskmaster",
    progress: &[
        "completedCount",
        "complexity",
        "complexityScore",
        "recommendedSubtasks",
        "expansionPrompt",
        "complexityReasoning",
    ],
    order: Order::Stated,
    ..COMMON
};

pub(super) static RALPH: Mapping = Mapping {
    format: PlanFormat::Ralph,
    extra: "ralph",
    progress: &["notes"],
    priority: Priority::FromOne,
    order: Order::Field("priority"),
    ..COMMON
};

pub(super) static BEADS: Mapping = Mapping {
    format: PlanFormat::Beads,
    extra: "beads",
    progress: &[
        "notes",
        "closedAt",
        "closedBy",
        "closeReason",
        "closedBySession",
        "assignee",
        "comments",
        "commentCount",
        "dependentCount",
        "dependencyCount",
        "compactionLevel",
        "compactedAt",
        "compactedAtCommit",
        "originalSize",
        "contentHash",
    ],
    priority: Priority::FromZero,
    order: Order::Stated,
    idle_types: &[
        "gate", "message", "agent", "template", "role", "rig", "slot", "event", "molecule",
    ],
    ..COMMON
};

/// Tools with records that their fields identify.
static RECOGNIZED: &[Mapping] = &[
    Mapping {
        format: PlanFormat::Shrimp,
        extra: "shrimp",
        signatures: &[
            &["implementationGuide"],
            &["verificationCriteria"],
            &["relatedFiles", "name"],
        ],
        progress: &["summary", "notes", "analysisResult", "completionDetails"],
        order: Order::Stated,
        ..COMMON
    },
    Mapping {
        format: PlanFormat::ClaudeTasks,
        extra: "claude",
        signatures: &[
            &["subject", "blocks"],
            &["subject", "blockedBy"],
            &["subject", "activeForm"],
        ],
        order: Order::Stated,
        ..COMMON
    },
    Mapping {
        format: PlanFormat::Taskwarrior,
        extra: "taskwarrior",
        signatures: &[&["uuid", "entry", "status"]],
        progress: &["id", "urgency", "modified", "entry", "start", "end"],
        order: Order::Stated,
        ..COMMON
    },
    // The columns of the export of issues as comma-separated values.
    Mapping {
        format: PlanFormat::Linear,
        extra: "linear",
        signatures: &[&["id", "team", "title", "status", "creator"]],
        progress: &[
            "created",
            "started",
            "triaged",
            "completed",
            "canceled",
            "archived",
            "slaStatus",
            "timeInStatus(minutes)",
        ],
        order: Order::Stated,
        ..COMMON
    },
    Mapping {
        format: PlanFormat::CrewAi,
        extra: "crewai",
        signatures: &[&["expectedOutput", "agent", "description"]],
        ..COMMON
    },
    Mapping {
        format: PlanFormat::Dex,
        extra: "dex",
        signatures: &[&["parent_id", "blockedBy"], &["parent_id", "completed"]],
        progress: &["result", "metadata", "children"],
        priority: Priority::FromOne,
        order: Order::Stated,
        ..COMMON
    },
    Mapping {
        format: PlanFormat::Backlog,
        extra: "backlog",
        signatures: &[&["created_date", "title"], &["ordinal", "title"]],
        progress: &["implementationNotes", "finalSummary", "notes"],
        order: Order::Stated,
        ..COMMON
    },
];

/// How many records show the tool.
pub(super) const SAMPLE: usize = 100;

/// The row for a list of records.
pub(super) fn of_records(records: &[&Value], list: &str) -> &'static Mapping {
    if list == "userStories" {
        return &RALPH;
    }
    let has_all = |names: &&[&str]| {
        records.iter().any(|record| names.iter().all(|name| field(record, &[name]).is_some()))
    };
    let found = RECOGNIZED.iter().find(|mapping| mapping.signatures.iter().any(has_all));
    found.unwrap_or(&RECORDS)
}
