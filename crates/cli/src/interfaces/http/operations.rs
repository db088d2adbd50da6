//! The operations: each is one method of one path, and one request or one view. A request states its
//! own method and path.
//!
//! A path has its parameters in braces. The parameters of a request's path are members of the request;
//! those of a view's path, and its query, are words of `ledger inspect`.

use std::sync::LazyLock;

use crate::requests::{HttpMethod, HttpOperation, rules_of_requests};

/// An operation that makes a request.
#[derive(Debug)]
pub(super) struct Write {
    /// The request, as `format/socket.md` names it.
    pub(super) act: String,
    pub(super) of: HttpOperation,
}

/// An operation that prints a view.
#[derive(Debug)]
pub(super) struct Read {
    /// The stable name of the operation for generated clients.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test generates the description of it"))]
    pub(super) id: &'static str,
    pub(super) path: &'static str,
    /// The words of the view. A word in braces is a parameter of the path.
    pub(super) words: &'static [&'static str],
    /// The parameters of the query, which are options of the view.
    pub(super) query: &'static [&'static str],
    /// Whether the view is about one record, which `at` selects.
    pub(super) at: AtRecord,
    #[cfg_attr(not(test), expect(dead_code, reason = "a test generates the description of it"))]
    pub(super) summary: &'static str,
    /// The lines that the view prints, beside those that any view may print, as `json-lines.schema.json` names them.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test generates the description of it"))]
    pub(super) lines: &'static [&'static str],
}

/// How a view gets the record that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtRecord {
    /// As its option `--at`.
    Option,
    /// As its option `--at`; without it, the view is about now: also about the runner, of which no record says anything.
    Now,
    /// No run: the view is about the files, or about records that its words name.
    None,
}

/// Every request with its own path. `POST /v1/requests` makes all of them.
pub(super) static WRITES: LazyLock<Vec<Write>> = LazyLock::new(|| {
    rules_of_requests().filter_map(|(act, rules)| Some(Write { act, of: rules.http? })).collect()
});

/// Every view with its own path.
pub(super) const READS: &[Read] = &[
    Read {
        id: "getLedger",
        path: "/v1/ledger",
        words: &[],
        query: &[],
        at: AtRecord::None,
        summary: "The ledger: runs, next actions, health of the log",
        lines: &[
            "inspect.ledger",
            "inspect.health",
            "inspect.run",
            "inspect.run_row",
            "inspect.derived",
        ],
    },
    Read {
        id: "listRuns",
        path: "/v1/runs",
        words: &["runs"],
        query: &["after", "limit"],
        at: AtRecord::Option,
        summary: "Every run, or a page of them: status, progress, cost; and the state as a whole",
        lines: &["inspect.run_row", "inspect.state"],
    },
    Read {
        id: "getRun",
        path: "/v1/runs/{run}",
        words: &["status", "--run={run}"],
        query: &[],
        at: AtRecord::Now,
        summary: "A run for its user",
        lines: &["status.user_view", "status.unavailable"],
    },
    Read {
        id: "getRunForOperator",
        path: "/v1/runs/{run}/operator",
        words: &["status", "--view=operator", "--run={run}"],
        query: &[],
        at: AtRecord::Option,
        summary: "A run for its operator",
        lines: &["status.operator_view", "status.unavailable"],
    },
    Read {
        id: "traceRun",
        path: "/v1/runs/{run}/debug",
        words: &["status", "--view=debug", "--run={run}"],
        query: &[],
        at: AtRecord::Option,
        summary: "Every record of a run, and its changes",
        lines: &[
            "status.traced",
            "status.execution_state",
            "status.run_cost",
            "status.step_cost",
            "status.unavailable",
        ],
    },
    Read {
        id: "getPlan",
        path: "/v1/runs/{run}/plan",
        words: &["plan", "--run={run}"],
        query: &["version"],
        at: AtRecord::Option,
        summary: "The plan of a run and its versions",
        lines: &["inspect.plan", "inspect.plan_step", "inspect.plan_diff"],
    },
    Read {
        id: "listReplans",
        path: "/v1/runs/{run}/plan/replans",
        words: &["plan", "--run={run}", "--replans"],
        query: &[],
        at: AtRecord::Option,
        summary: "Why versions were replaced",
        lines: &["inspect.replan_record"],
    },
    Read {
        id: "getState",
        path: "/v1/runs/{run}/state",
        words: &["runs", "--run={run}"],
        query: &[],
        at: AtRecord::Option,
        summary: "The whole state of a run: steps, variables, barriers, questions",
        lines: &[
            "inspect.state",
            "inspect.budget_part",
            "inspect.milestone",
            "inspect.run_state",
            "inspect.step_state",
            "inspect.variable",
            "inspect.barrier",
            "inspect.question",
        ],
    },
    Read {
        id: "getQueue",
        path: "/v1/runs/{run}/queue",
        words: &["queue", "--run={run}"],
        query: &[],
        at: AtRecord::Option,
        summary: "The ready steps in the order of dispatch",
        lines: &["inspect.ready", "inspect.delayed"],
    },
    Read {
        id: "getGraph",
        path: "/v1/runs/{run}/graph",
        words: &["graph", "--run={run}"],
        query: &[],
        at: AtRecord::Option,
        summary: "Dependencies and statuses",
        lines: &["inspect.node"],
    },
    Read {
        id: "getTimeline",
        path: "/v1/runs/{run}/timeline",
        words: &["timeline", "--run={run}"],
        query: &[],
        at: AtRecord::Option,
        summary: "Attempts and waits over time",
        lines: &["inspect.interval"],
    },
    Read {
        id: "getProgress",
        path: "/v1/runs/{run}/progress",
        words: &["progress", "--run={run}"],
        query: &[],
        at: AtRecord::Option,
        summary: "Progress by phase and over time",
        lines: &["inspect.progress", "inspect.milestone"],
    },
    Read {
        id: "getRunMetrics",
        path: "/v1/runs/{run}/metrics",
        words: &["metrics", "--run={run}"],
        query: &[],
        at: AtRecord::None,
        summary: "Metrics of a run",
        lines: &["inspect.metrics"],
    },
    Read {
        id: "getCost",
        path: "/v1/runs/{run}/cost",
        words: &["cost", "--run={run}"],
        query: &[],
        at: AtRecord::Option,
        summary: "The cost of each step and owner",
        lines: &["inspect.run_cost", "inspect.step_cost"],
    },
    Read {
        id: "getBudget",
        path: "/v1/runs/{run}/budget",
        words: &["budget", "--run={run}"],
        query: &[],
        at: AtRecord::Option,
        summary: "Spent, reserved, left",
        lines: &["budget.budget_part", "budget.milestone"],
    },
    Read {
        id: "listVariables",
        path: "/v1/runs/{run}/variables",
        words: &["variables", "--run={run}"],
        query: &["after", "limit"],
        at: AtRecord::Option,
        summary: "Values, versions and origins, or a page of them",
        lines: &["inspect.variable"],
    },
    Read {
        id: "getVariableHistory",
        path: "/v1/runs/{run}/variables/{name}",
        words: &["variables", "--run={run}", "--history={name}"],
        query: &[],
        at: AtRecord::Option,
        summary: "Every value that a variable had",
        lines: &["inspect.variable_value"],
    },
    Read {
        id: "listQuestions",
        path: "/v1/runs/{run}/questions",
        words: &["questions", "--run={run}", "--decided"],
        query: &["after", "limit"],
        at: AtRecord::Now,
        summary: "Items that wait for a person, and decisions of people, or a page of them",
        lines: &["questions.next", "questions.decision", "questions.summary"],
    },
    Read {
        id: "getStep",
        path: "/v1/runs/{run}/steps/{step}",
        words: &["step", "--run={run}", "--", "{step}"],
        query: &[],
        at: AtRecord::Now,
        summary: "One step",
        lines: &["inspect.step", "inspect.attempt", "inspect.record"],
    },
    Read {
        id: "explainStep",
        path: "/v1/runs/{run}/steps/{step}/why",
        words: &["why", "--run={run}", "--", "{step}"],
        query: &[],
        at: AtRecord::Now,
        summary: "Why it is not dispatched",
        lines: &["inspect.why"],
    },
    Read {
        id: "compareRecords",
        path: "/v1/diff/{from}/{to}",
        words: &["diff", "--", "{from}", "{to}"],
        query: &[],
        at: AtRecord::None,
        summary: "The changes between two records",
        lines: &["inspect.change", "inspect.comparison"],
    },
    Read {
        id: "getRecord",
        path: "/v1/records/{seq}",
        words: &["records", "--", "{seq}"],
        query: &[],
        at: AtRecord::None,
        summary: "One record",
        lines: &["inspect.record"],
    },
    Read {
        id: "getHead",
        path: "/v1/head",
        words: &["head"],
        query: &[],
        at: AtRecord::None,
        summary: "The acknowledged position",
        lines: &["inspect.head_slot", "inspect.holder", "inspect.health"],
    },
    Read {
        id: "listSegments",
        path: "/v1/segments",
        words: &["segments"],
        query: &[],
        at: AtRecord::None,
        summary: "The files of the log",
        lines: &["inspect.segment", "inspect.health"],
    },
    Read {
        id: "listSnapshots",
        path: "/v1/snapshots",
        words: &["snapshots"],
        query: &[],
        at: AtRecord::None,
        summary: "The snapshots",
        lines: &["inspect.snapshots", "inspect.snapshot_file", "inspect.health"],
    },
    Read {
        id: "verifyLedger",
        path: "/v1/verify",
        words: &["verify"],
        query: &["level", "expect-head"],
        at: AtRecord::None,
        summary: "Check every byte, and list all damage",
        lines: &[
            "verify.summary",
            "verify.damage",
            "verify.derived",
            "verify.expectation",
            "verify.lost",
            "verify.newer",
            "verify.rolled_back",
            "verify.warning",
            "verify.comparison",
        ],
    },
];

/// The name of a method in HTTP.
pub(super) fn method_word(method: HttpMethod) -> &'static str {
    match method {
        HttpMethod::Post => "POST",
        HttpMethod::Put => "PUT",
        HttpMethod::Patch => "PATCH",
        HttpMethod::Delete => "DELETE",
    }
}
