//! Finds the meaning of an unlisted field from the words of its name: `exit_criteria`, `budgetUsd`,
//! `Needs human review`.
//!
//! The name gives the meaning, and the value decides whether the field requests anything: a number,
//! `true`, a text or a list does. An estimate, a date, a note and the name of a reviewer are data,
//! and so are `false` and words such as *none*.

use serde_json::Value;

use super::described_check::is_empty;

/// The meaning of a field for the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A condition at the end.
    Criterion,
    /// A program or a person that checks, and a test that is a program.
    Judge,
    /// A command, a script or a hook.
    Program,
    /// A command that looks for a result.
    Probe,
    /// A decision of a person.
    Gate,
    /// A limit of costs.
    Cost,
    /// How long the work may take.
    Time,
    /// How often it may be tried.
    Tries,
    /// How much may be in flight.
    Parallel,
    /// Another limit.
    Limit,
    /// A condition at the start.
    Condition,
    /// The consequence of a failure.
    Rule,
    /// Whether the work may be repeated.
    Idempotence,
}

/// Last words of names of fields that describe a check or a limit but request none.
const DATA_WORDS: &[&str] = &[
    "id",
    "ids",
    "url",
    "urls",
    "link",
    "links",
    "href",
    "at",
    "date",
    "status",
    "state",
    "note",
    "notes",
    "reason",
    "description",
    "label",
    "name",
    "names",
    "email",
    "type",
    "kind",
];
/// Those that tell of none only if they do not follow the name of a limit.
const RESULT_WORDS: &[&str] = &[
    "result", "results", "outcome", "comment", "comments", "log", "logs", "history", "count",
    "score", "summary", "file", "files", "path", "paths", "version", "error", "errors", "report",
    "level",
];
const ESTIMATES: &[&str] = &[
    "estimate",
    "estimates",
    "estimated",
    "actual",
    "spent",
    "used",
    "consumed",
    "remaining",
    "current",
];
const COMMANDS: &[&str] = &["command", "commands", "cmd", "cmds", "cmdline"];
const DECISIONS: &[&str] = &[
    "human",
    "humans",
    "hitl",
    "approval",
    "approvals",
    "approve",
    "approver",
    "approvers",
    "signoff",
    "signoffs",
    "gate",
    "gates",
    "gated",
    "confirm",
    "confirmation",
    "confirmations",
    "consent",
];
const DEMANDS: &[&str] = &[
    "require",
    "requires",
    "required",
    "need",
    "needs",
    "needed",
    "must",
    "mandatory",
    "min",
    "max",
];
/// Words of limits: any value except a longer text is a limit.
const BOUNDS: &[&str] =
    &["budget", "budgets", "quota", "quotas", "cap", "timeout", "timeouts", "retry", "retries"];
/// Words of limits if the value has a number.
const AMOUNTS: &[&str] = &[
    "limit",
    "limits",
    "caps",
    "max",
    "maximum",
    "ceiling",
    "cost",
    "costs",
    "spend",
    "spending",
    "threshold",
    "thresholds",
    "throttle",
];
const TIMES: &[&str] = &[
    "time", "timeout", "timeouts", "second", "seconds", "sec", "secs", "ms", "minute", "minutes",
    "hour", "hours", "duration", "clock", "runtime",
];
const TRIES: &[&str] = &[
    "retry",
    "retries",
    "try",
    "tries",
    "attempt",
    "attempts",
    "iter",
    "iteration",
    "iterations",
    "cycles",
    "loops",
];
const FLIGHTS: &[&str] =
    &["rate", "parallel", "concurrency", "concurrent", "workers", "flight", "rpm"];
const COSTS: &[&str] = &[
    "budget", "budgets", "cost", "costs", "spend", "spending", "usd", "eur", "dollars", "money",
    "token", "tokens", "quota", "quotas",
];
const CRITERIA: &[&str] = &[
    "criterion",
    "criteria",
    "acceptance",
    "acceptances",
    "accept",
    "verify",
    "verifies",
    "verification",
    "verifications",
    "validate",
    "validates",
    "validation",
    "validations",
    "check",
    "checks",
    "checklist",
    "checklists",
    "precheck",
    "prechecks",
    "postcheck",
    "postchecks",
    "assert",
    "asserts",
    "assertion",
    "assertions",
    "invariant",
    "invariants",
    "postcondition",
    "postconditions",
    "guardrail",
    "guardrails",
    "expect",
    "expects",
    "expectation",
    "expectations",
];
/// Words before `condition` that make it a criterion.
const ENDS: &[&str] = &["exit", "success", "completion", "done", "post", "acceptance"];
const JUDGES: &[&str] = &["verifier", "verifiers", "validator", "validators"];
const HOOKS: &[&str] = &["hook", "hooks", "callback", "callbacks"];
const SCRIPTS: &[&str] = &["script", "scripts", "shell", "exec", "bash"];
const RUNS: &[&str] = &["run", "runs", "execute", "executes", "script", "scripts", "shell"];
const CONDITIONS: &[&str] = &["if", "when", "unless"];
const REVIEWS: &[&str] = &["review", "reviews"];
const REVIEWERS: &[&str] = &["reviewer", "reviewers"];

/// Programs that can be the first word of a `test`.
const PROGRAMS: &[&str] = &[
    "bash", "bazel", "bun", "bundle", "cargo", "cmake", "composer", "ctest", "curl", "deno",
    "docker", "dotnet", "eslint", "exit", "false", "git", "go", "gradle", "grep", "jest", "just",
    "make", "mix", "mvn", "node", "npm", "npx", "php", "phpunit", "pnpm", "poetry", "pytest",
    "python", "python3", "rake", "rspec", "ruby", "ruff", "sh", "swift", "tox", "true", "tsc",
    "uv", "vitest", "yarn",
];

/// Words that ask for nothing, or say that a decision was made.
const DECIDED: &[&str] = &[
    "no",
    "none",
    "never",
    "n/a",
    "not required",
    "not needed",
    "auto",
    "automatic",
    "approved",
    "granted",
    "false",
    "off",
    "-",
];

/// The meaning of a field by the words of its name; `None` if it is data.
pub(super) fn meaning_of(name: &str, value: &Value) -> Option<Meaning> {
    let words = words(name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let ends = |list: &[&str]| words.last().is_some_and(|word| list.contains(&word.as_str()));
    // `false` says as much as `true`.
    if has(&["idempotent", "idempotency", "nonidempotent"]) {
        return (!value.is_null()).then_some(Meaning::Idempotence);
    }
    if is_empty(value) {
        return None;
    }
    let is_data = ends(DATA_WORDS);
    let is_result = is_data || ends(RESULT_WORDS);
    let plain = words.concat();
    let is_command = has(COMMANDS) || COMMANDS.iter().any(|word| plain.ends_with(word));
    let is_criterion = is_criterion(&words, &plain);
    if is_command && !is_result {
        let is_check = ["test", "verif", "check", "valid"].iter().any(|stem| plain.contains(stem));
        return Some(if is_criterion || is_check { Meaning::Judge } else { Meaning::Program });
    }
    if has(&["probe", "probes"]) && !is_result {
        return Some(Meaning::Probe);
    }
    // `false` is a command, and elsewhere no.
    if is_decided(value) {
        return None;
    }
    let is_decision = has(DECISIONS)
        || has_pair(&words, "sign", "off")
        || ["approval", "approver"].iter().any(|stem| plain.contains(stem));
    if is_decision && !is_result && !has(&["readable", "friendly"]) && !has(ESTIMATES) {
        return Some(Meaning::Gate);
    }
    let is_number = value.is_number();
    if let Some(limit) = limit_of(&words, &plain, value)
        && !is_data
        && (is_number || !is_criterion)
    {
        return Some(limit);
    }
    if has(JUDGES) && !is_result {
        return Some(Meaning::Judge);
    }
    if is_criterion && !is_result {
        return Some(Meaning::Criterion);
    }
    if texts(value).any(is_program) && !is_result {
        if has(&["test", "tests", "testing"]) {
            return Some(Meaning::Judge);
        }
        if has(RUNS) {
            return Some(Meaning::Program);
        }
    }
    if is_prose(value) || is_result {
        return None;
    }
    other_meaning(&words, value)
}

/// The meaning of a short value under the other words.
fn other_meaning(words: &[String], value: &Value) -> Option<Meaning> {
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let ends = |list: &[&str]| words.last().is_some_and(|word| list.contains(&word.as_str()));
    let begins = |list: &[&str]| words.first().is_some_and(|word| list.contains(&word.as_str()));
    if has(HOOKS) || ends(SCRIPTS) && !value.is_boolean() && !value.is_number() {
        return Some(Meaning::Program);
    }
    let is_date = value.as_str().is_some_and(|text| text.starts_with(|c: char| c.is_ascii_digit()));
    let is_condition = has(&["guard", "guards"])
        || (begins(CONDITIONS) || ends(CONDITIONS)) && !is_date
        || ends(&["condition", "conditions"])
            && (words.len() == 1
                || has(&["stop", "abort", "skip", "cancel", "fail", "failure", "start"])
                || is_structured(value)
                || texts(value).any(compares));
    if is_condition {
        return Some(Meaning::Condition);
    }
    let follows = ["fail", "failure", "failed", "error", "errors", "timeout", "reject", "abort"];
    let is_rule = begins(&["on"]) && words.get(1).is_some_and(|it| follows.contains(&it.as_str()))
        || has(&["policy", "policies"]) && has(&follows)
        || ends(&["rule", "rules"]) && is_structured(value);
    if is_rule {
        return Some(Meaning::Rule);
    }
    let is_flag = is_on(value);
    let is_gate = has(REVIEWS)
        || has(REVIEWERS) && (is_flag || value.is_number() || has(DEMANDS))
        || (has(&["manual"]) || begins(&["ask"])) && is_flag;
    is_gate.then_some(Meaning::Gate)
}

fn is_criterion(words: &[String], plain: &str) -> bool {
    let is_check = |(at, word): (usize, &String)| {
        let next = words.get(at.saturating_add(1)).map(String::as_str).unwrap_or_default();
        // To check in is not a check.
        CRITERIA.contains(&word.as_str()) && !["in", "out", "point"].contains(&next)
    };
    let ends = words.last().is_some_and(|word| ["condition", "conditions"].contains(&&**word));
    words.iter().enumerate().any(is_check)
        || ends && words.iter().any(|word| ENDS.contains(&word.as_str()))
        || ["criteria", "acceptance", "verification", "definitionofdone"]
            .iter()
            .any(|stem| plain.contains(stem))
}

/// The limit that a value is.
fn limit_of(words: &[String], plain: &str, value: &Value) -> Option<Meaning> {
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let is_bound =
        has(BOUNDS) || ["budget", "quota", "timeout"].iter().any(|stem| plain.contains(stem));
    let is_deadline = has(&["deadline", "deadlines"]) && !value.is_string();
    let is_limit = is_bound && !is_prose(value) || has(AMOUNTS) && has_amount(value) || is_deadline;
    if !is_limit || has(ESTIMATES) {
        return None;
    }
    Some(if has(TRIES) {
        Meaning::Tries
    } else if has(COSTS) || plain.contains("budget") {
        Meaning::Cost
    } else if has(TIMES) || is_deadline || plain.contains("timeout") {
        Meaning::Time
    } else if has(FLIGHTS) || words == ["cap"] || words == ["caps"] {
        Meaning::Parallel
    } else {
        Meaning::Limit
    })
}

/// Whether the items of such a criterion are written for a program.
pub(super) fn is_command_list(name: &str) -> bool {
    words(name).iter().any(|word| word.starts_with("verif") || word.starts_with("validat"))
}

/// The words of a name: separated by other characters than letters and digits, and by capitals.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before: Option<char> = None;
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        if c.is_alphanumeric() {
            let is_next_small = rest.peek().is_some_and(|next| next.is_lowercase());
            let is_start = before.is_none_or(|before| {
                !before.is_alphanumeric()
                    || c.is_uppercase() && (!before.is_uppercase() || is_next_small)
            });
            if is_start {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        }
        before = Some(c);
    }
    words
}

fn has_pair(words: &[String], first: &str, second: &str) -> bool {
    words.windows(2).any(|pair| matches!(pair, [a, b] if a == first && b == second))
}

/// Whether a value is a word that asks for nothing, or says that the decision was made.
pub(super) fn is_decided(value: &Value) -> bool {
    let word = value.as_str().map(|word| word.trim().to_lowercase());
    word.is_some_and(|word| DECIDED.contains(&word.as_str()))
}

fn is_on(value: &Value) -> bool {
    let word = value.as_str().map(|word| word.trim().to_lowercase());
    *value == Value::Bool(true) || word.is_some_and(|word| ["true", "yes", "on"].contains(&&*word))
}

/// Whether a value is a text of several lines.
fn is_prose(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.trim().contains('\n'))
}

fn has_amount(value: &Value) -> bool {
    match value {
        Value::Bool(is_on) => *is_on,
        Value::Number(_) => true,
        Value::String(text) => !is_prose(value) && text.contains(|c: char| c.is_ascii_digit()),
        Value::Array(items) => items.iter().any(has_amount),
        Value::Object(fields) => fields.values().any(has_amount),
        Value::Null => false,
    }
}

/// Whether a value is an object, or a list with one.
pub(super) fn is_structured(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(items) => items.iter().any(is_structured),
        _ => false,
    }
}

/// A text, or the texts of a list.
pub(super) fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(Value::as_str)
}

/// Whether a text begins with a program.
pub(super) fn is_program(text: &str) -> bool {
    let text = text.trim().trim_start_matches(['`', '$', ' ']);
    let first = text.split_whitespace().next().unwrap_or_default().trim_end_matches('`');
    first.starts_with("./") && text.contains(' ') || PROGRAMS.contains(&first)
}

/// Whether a text compares something.
pub(super) fn compares(text: &str) -> bool {
    ["==", "!=", ">=", "<=", "&&", "||", "has(", " > ", " < "].iter().any(|it| text.contains(it))
        || text.trim_end().ends_with(" exists")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_split_at_marks_and_capitals() {
        for name in ["max_cost_usd", "maxCostUSD", "Max cost (USD)", "max-cost.usd", "MAX_COST_USD"]
        {
            assert_eq!(words(name), ["max", "cost", "usd"], "{name}");
        }
        assert_eq!(words("URLLimit2"), ["url", "limit2"]);
    }

    #[test]
    fn words_of_a_name_and_its_value_say_what_is_meant() {
        for (name, value, meaning) in [
            ("exit_criteria", json!("it works"), Meaning::Criterion),
            ("acceptanceTests", json!(["a"]), Meaning::Criterion),
            ("post_conditions", json!({"command": "x"}), Meaning::Criterion),
            ("quality check", json!("it shines"), Meaning::Criterion),
            ("validator", json!("ana"), Meaning::Judge),
            ("budgetUsd", json!(5), Meaning::Cost),
            ("cost_cap", json!(0.01), Meaning::Cost),
            ("spend limit", json!("5 dollars"), Meaning::Cost),
            ("wall_clock_limit", json!(5), Meaning::Time),
            ("maxExecutionTime", json!(60), Meaning::Time),
            ("max_iter", json!(3), Meaning::Tries),
            ("retry_count", json!(3), Meaning::Tries),
            ("max_turns", json!(3), Meaning::Limit),
            ("guardrail_max_retries", json!(3), Meaning::Tries),
            ("needs_human", json!(true), Meaning::Gate),
            ("Sign off", json!("ana"), Meaning::Gate),
            ("requiresReview", json!("yes"), Meaning::Gate),
            ("reviewers_required", json!(2), Meaning::Gate),
            ("abort_if", json!("it rains"), Meaning::Condition),
            ("guard", json!("x > 5"), Meaning::Condition),
            ("hooks", json!({"before": "x"}), Meaning::Program),
            ("command", json!("false"), Meaning::Program),
            ("setup_script", json!("make"), Meaning::Program),
            ("non_idempotent", json!(false), Meaning::Idempotence),
        ] {
            assert_eq!(meaning_of(name, &value), Some(meaning), "{name}: {value}");
        }
    }

    #[test]
    fn estimates_dates_notes_and_names_are_data() {
        for (name, value) in [
            ("estimated_cost", json!(5)),
            ("Remaining budget", json!(5)),
            ("reviewer", json!("ana")),
            ("reviewers", json!(["ana", "bob"])),
            ("Linked pull requests", json!("x/1")),
            ("approved_by", json!("ana")),
            ("verified", json!(true)),
            ("approval_date", json!("2026-12-24")),
            ("check_in_date", json!("2026-12-24")),
            ("verification_status", json!("passed")),
            ("test_results", json!({"passed": 3})),
            ("needs_review", json!(false)),
            ("review", json!("none")),
            ("budget", json!(null)),
            ("Retry logic", json!("It waits.\n\nThen it tries again.")),
            ("webhook", json!("x")),
            ("capacity", json!(5)),
            ("transcript", json!("hello")),
            ("when", json!("2026-12-24")),
            ("priority", json!(1)),
            ("requirements", json!(["1.1"])),
            ("delimiter", json!("5")),
            ("limits", json!("as few as possible")),
        ] {
            assert_eq!(meaning_of(name, &value), None, "{name}: {value}");
        }
    }
}
