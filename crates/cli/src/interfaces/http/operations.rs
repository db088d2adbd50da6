//! The operations: each is one method of one path, and one request or one view.
//!
//! A path has its parameters in braces. The parameters of a request's path are members of the request;
//! those of a view's path, and its query, are words of `ledger inspect`.

/// A method that changes the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Post,
    Put,
    Patch,
    Delete,
}

/// An operation that makes a request.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// The request, as `format/socket.md` names it.
    pub(super) act: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "a test generates the description of it"))]
    pub(super) summary: &'static str,
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

const fn post(path: &'static str, act: &'static str, summary: &'static str) -> Write {
    Write { method: Method::Post, path, act, summary }
}

const fn by(method: Method, path: &'static str, act: &'static str, summary: &'static str) -> Write {
    Write { method, path, act, summary }
}

/// Every request with its own path. `POST /v1/requests` makes all of them.
pub(super) const WRITES: &[Write] = &[
    post("/v1/runs", "propose", "Start a run, or propose a new version of its plan"),
    post("/v1/runs/{run}/cancel", "cancel", "Cancel a run"),
    post("/v1/runs/{run}/pause", "pause", "Stop dispatching the steps of a run"),
    post("/v1/runs/{run}/unpause", "unpause", "Dispatch the steps of a paused run again"),
    post("/v1/runs/{run}/fork", "fork", "Start a run that continues from a point in another one"),
    post("/v1/runs/{run}/plan/reviews", "review", "Approve or reject a proposed version"),
    post("/v1/runs/{run}/plan/requests", "request_plan", "Request a new version of the plan"),
    post("/v1/runs/{run}/plan/withdrawals", "withdraw", "Withdraw the request for a new version"),
    post("/v1/runs/{run}/steps", "add_step", "Propose a further step"),
    post("/v1/runs/{run}/steps/{step}/retry", "retry", "Dispatch a failed step again"),
    post("/v1/runs/{run}/steps/{step}/skip", "skip", "Skip a step"),
    post("/v1/runs/{run}/steps/{step}/answer", "answer_step", "Answer the question of a step"),
    post("/v1/runs/{run}/steps/{step}/judge", "judge", "Accept or reject a reported step"),
    post("/v1/runs/{run}/steps/{step}/decide", "decide", "Decide about a failed step"),
    by(Method::Put, "/v1/runs/{run}/variables/{name}", "set", "Set a variable"),
    by(Method::Patch, "/v1/runs/{run}/budget", "budget", "Change the budget of a run"),
    post("/v1/claims", "claim", "Claim a step; `Prefer: wait=30` waits for one"),
    by(Method::Patch, "/v1/claims/{token}", "renew", "Renew a lease"),
    by(Method::Delete, "/v1/claims/{token}", "release", "Release a claimed step"),
    post("/v1/claims/{token}/receipt", "receipt", "Report the outcome of a claimed step"),
    post("/v1/claims/{token}/effects", "effect", "Record the start or end of a side effect"),
    post("/v1/questions/{question}/answer", "answer", "Answer a question"),
    post("/v1/answers", "answer_all", "Answer all open questions that take an answer"),
    by(Method::Put, "/v1/caps", "cap", "Limit the steps that are in flight at once"),
    post("/v1/notes", "note", "Write a note into the log"),
    post("/v1/ticks", "tick", "Record expired leases, delays and deadlines"),
    post("/v1/snapshots", "snapshot", "Write a snapshot of the current state"),
];

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
            "inspect.ended_run",
            "inspect.derived_damage",
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
        words: &["cost", "--run={run}", "--all"],
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
        id: "listBarriers",
        path: "/v1/runs/{run}/barriers",
        words: &["barriers", "--run={run}"],
        query: &[],
        at: AtRecord::Option,
        summary: "Arrived and missing members",
        lines: &["inspect.barrier"],
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
        id: "getStepHistory",
        path: "/v1/runs/{run}/steps/{step}/history",
        words: &["history", "--run={run}", "--", "{step}"],
        query: &[],
        at: AtRecord::Option,
        summary: "One line for each record of a step",
        lines: &["inspect.history", "inspect.record"],
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
        words: &["record", "--", "{seq}"],
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

impl Method {
    /// Its name in HTTP.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}
