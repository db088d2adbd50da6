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
    pub(super) path: &'static str,
    /// The words of the view. A word in braces is a parameter of the path.
    pub(super) words: &'static [&'static str],
    /// The parameters of the query, which are options of the view.
    pub(super) query: &'static [&'static str],
    /// Whether the view is about one record, which `at` selects.
    pub(super) at: AtRecord,
    #[cfg_attr(not(test), expect(dead_code, reason = "a test generates the description of it"))]
    pub(super) summary: &'static str,
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

const fn view(
    path: &'static str,
    words: &'static [&'static str],
    query: &'static [&'static str],
    summary: &'static str,
) -> Read {
    Read { path, words, query, at: AtRecord::Option, summary }
}

const fn view_of_now(
    path: &'static str,
    words: &'static [&'static str],
    summary: &'static str,
) -> Read {
    Read { path, words, query: &[], at: AtRecord::Now, summary }
}

const fn of_files(
    path: &'static str,
    words: &'static [&'static str],
    query: &'static [&'static str],
    summary: &'static str,
) -> Read {
    Read { path, words, query, at: AtRecord::None, summary }
}

/// Every view with its own path.
pub(super) const READS: &[Read] = &[
    of_files("/v1/ledger", &[], &[], "The ledger: runs, next actions, health of the log"),
    view(
        "/v1/runs",
        &["runs"],
        &["after", "limit"],
        "Every run, or a page of them: status, progress, cost; and the state as a whole",
    ),
    view_of_now("/v1/runs/{run}", &["status", "--run={run}"], "A run for its user"),
    view(
        "/v1/runs/{run}/operator",
        &["status", "--view=operator", "--run={run}"],
        &[],
        "A run for its operator",
    ),
    view(
        "/v1/runs/{run}/debug",
        &["status", "--view=debug", "--run={run}"],
        &[],
        "Every record of a run, and its changes",
    ),
    view(
        "/v1/runs/{run}/plan",
        &["plan", "--run={run}"],
        &["version"],
        "The plan of a run and its versions",
    ),
    view(
        "/v1/runs/{run}/plan/replans",
        &["plan", "--run={run}", "--replans"],
        &[],
        "Why versions were replaced",
    ),
    view(
        "/v1/runs/{run}/state",
        &["runs", "--run={run}"],
        &[],
        "The whole state of a run: steps, variables, barriers, questions",
    ),
    view(
        "/v1/runs/{run}/queue",
        &["queue", "--run={run}"],
        &[],
        "The ready steps in the order of dispatch",
    ),
    view("/v1/runs/{run}/graph", &["graph", "--run={run}"], &[], "Dependencies and statuses"),
    view(
        "/v1/runs/{run}/timeline",
        &["timeline", "--run={run}"],
        &[],
        "Attempts and waits over time",
    ),
    view(
        "/v1/runs/{run}/progress",
        &["progress", "--run={run}"],
        &[],
        "Progress by phase and over time",
    ),
    of_files("/v1/runs/{run}/metrics", &["metrics", "--run={run}"], &[], "Metrics of a run"),
    view(
        "/v1/runs/{run}/cost",
        &["cost", "--run={run}", "--all"],
        &[],
        "The cost of each step and owner",
    ),
    view("/v1/runs/{run}/budget", &["budget", "--run={run}"], &[], "Spent, reserved, left"),
    view(
        "/v1/runs/{run}/barriers",
        &["barriers", "--run={run}"],
        &[],
        "Arrived and missing members",
    ),
    view(
        "/v1/runs/{run}/variables",
        &["variables", "--run={run}"],
        &["after", "limit"],
        "Values, versions and origins, or a page of them",
    ),
    view(
        "/v1/runs/{run}/variables/{name}",
        &["variables", "--run={run}", "--history={name}"],
        &[],
        "Every value that a variable had",
    ),
    Read {
        query: &["after", "limit"],
        ..view_of_now(
            "/v1/runs/{run}/questions",
            &["questions", "--run={run}", "--decided"],
            "Items that wait for a person, and decisions of people, or a page of them",
        )
    },
    view_of_now(
        "/v1/runs/{run}/steps/{step}",
        &["step", "--run={run}", "--", "{step}"],
        "One step",
    ),
    view_of_now(
        "/v1/runs/{run}/steps/{step}/why",
        &["why", "--run={run}", "--", "{step}"],
        "Why it is not dispatched",
    ),
    view(
        "/v1/runs/{run}/steps/{step}/history",
        &["history", "--run={run}", "--", "{step}"],
        &[],
        "One line for each record of a step",
    ),
    of_files(
        "/v1/diff/{from}/{to}",
        &["diff", "--", "{from}", "{to}"],
        &[],
        "The changes between two records",
    ),
    of_files("/v1/records/{seq}", &["record", "--", "{seq}"], &[], "One record"),
    of_files("/v1/head", &["head"], &[], "The acknowledged position"),
    of_files("/v1/segments", &["segments"], &[], "The files of the log"),
    of_files("/v1/snapshots", &["snapshots"], &[], "The snapshots"),
    of_files(
        "/v1/verify",
        &["verify"],
        &["level", "expect-head"],
        "Check every byte, and list all damage",
    ),
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
