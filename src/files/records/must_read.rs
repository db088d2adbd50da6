//! The fields that must be read: names of checks, commands, gates, probes, budgets, caps, rules and limits,
//! and which of their values are refused. Where real tools use such a word as plain data (the prose of a
//! `test`, the date of a `deadline`, the words of a `failure`), that value stays data of the tool.

use serde_json::{Map, Value};

use super::described_check::{has_command, is_empty};
use super::field_names::CRITERIA;
use super::record_fields::plain_name;

/// A field that cannot be read: its path below the record, and why.
pub(super) type Unread = (String, String);

/// Which values of a field are refused. An empty value and `false` never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// Every value.
    Filled,
    /// Every value but texts: a number, `true`, an object.
    NoText,
    /// An object, or a list with one.
    Structured,
    /// Every value but a number and a truth value, such as the number of a run.
    Runnable,
    /// A text that begins with a program: other texts are prose, and objects are read as criteria.
    Program,
    /// Every value but a word that asks for nothing, or says that the decision was made.
    Decision,
    /// An object, a list with one, or a text that compares something: other texts are prose.
    Condition,
    /// A list `barriers` whose items have `members`, which only native plans have.
    Members,
    /// An object with a command or an expression, at any depth.
    Command,
}

/// Names of fields, which of their values are refused, and what is to be written instead.
type Form = (&'static [&'static str], Refused, &'static str);

pub(super) const CRITERION: &str = "`acceptance: [{command: make test}]`";
const PLAN_CRITERION: &str = "`test_criteria: [{command: make test}]`";
const GATE: &str = "`gate: {question: May it be published?}`";
const COMMAND: &str = "`command: make build`, a text";
const PROBE: &str = "`probe: test -e done`, a text";
const COST: &str = "`cost_limit: {money_micros: 250000}`, or `cost_limit: {tokens: 1000}`";
const BUDGET: &str = "`budget: {attempts: 9}`";
const CAPS: &str = "`caps: {run: 4}`";
const TAG_CAPS: &str = "`tags` of the step and `caps: {tags: {name: 1}}` of the plan";
const RULES: &str = "`failure: {rules: [{id: down, when: {class: transient}, then: retry}]}`";
const PLAN_RULES: &str =
    "`failure: {rules: [{id: down, when: {class: transient}, then: retry}]}` of the plan";
const SECONDS: &str = "`timeout_seconds: 1800`, or `timeout` with a text such as `30m`";
const PLAN_SECONDS: &str = "`defaults: {timeout_seconds: 1800}`";
const RETRY: &str = "`retry: {max_attempts: 2}`";
const PLAN_RETRY: &str = "`defaults: {retry: {max_attempts: 2}}`";
const PLAN_COMMAND: &str = "`defaults: {command: make build}`";

const COMMANDS: &[&str] = &["command", "commands", "cmd", "cmds"];
const RUNNABLES: &[&str] = &["run", "script", "shell", "exec", "bash"];
/// Lists of checks under a name that most tools use for prose and for paths.
pub(super) const TESTS: &[&str] = &["tests", "test"];
const PROBES: &[&str] = &["probe", "probes"];
const GATES: &[&str] = &[
    "gate",
    "gates",
    "qualityGate",
    "qualityGates",
    "approvalGate",
    "approvalGates",
    "reviewGate",
    "reviewGates",
    "humanGate",
    "releaseGate",
];
const APPROVALS: &[&str] = &[
    "approval",
    "approvals",
    "requiresApproval",
    "requireApproval",
    "needsApproval",
    "approvalRequired",
    "humanApproval",
    "manualApproval",
    "requiresHumanApproval",
    "requiresConfirmation",
];
const COSTS: &[&str] = &[
    "budget",
    "budgets",
    "limit",
    "limits",
    "costLimit",
    "costBudget",
    "maxCost",
    "maxTokens",
    "tokenLimit",
    "tokenBudget",
    "maxBudget",
    "budgetLimit",
    "maxSpend",
    "spendLimit",
    "spendingLimit",
    "maxUsd",
];
const TIMES: &[&str] = &[
    "timeLimit",
    "timeBudget",
    "maxTime",
    "maxDuration",
    "maxRuntime",
    "maxSeconds",
    "maxMinutes",
    "maxHours",
    "deadlineSeconds",
    "deadlineMs",
];
const TRIES: &[&str] = &[
    "maxTries",
    "attemptLimit",
    "retryLimit",
    "maxIterations",
    "iterationLimit",
    "maxAttempts",
    "maxRetries",
    "retry",
    "retries",
    "retryPolicy",
];
const CAP_NAMES: &[&str] = &[
    "cap",
    "caps",
    "rateLimit",
    "rateLimits",
    "maxParallel",
    "maxConcurrency",
    "maxConcurrent",
    "concurrencyLimit",
    "maxWorkers",
    "maxInFlight",
];
const RULE_NAMES: &[&str] = &[
    "rule",
    "rules",
    "onFailure",
    "onError",
    "onFail",
    "failurePolicy",
    "failureRules",
    "errorPolicy",
];

/// Fields of a step that must be read, and what is written instead of an unknown form.
const STEP_FORMS: &[Form] = &[
    (COMMANDS, Refused::Filled, COMMAND),
    (RUNNABLES, Refused::Runnable, COMMAND),
    (TESTS, Refused::Program, CRITERION),
    (&["success", "successSignal"], Refused::Command, CRITERION),
    (PROBES, Refused::Filled, PROBE),
    (GATES, Refused::Filled, GATE),
    (APPROVALS, Refused::Decision, GATE),
    (&["onFalse"], Refused::Filled, "`on_false: skip`, or `wait`, `fail`, `abort`"),
    (&["failureHints"], Refused::Filled, "`failure_hints: {timeout: transient}`"),
    (&["optionalOutputs"], Refused::Filled, "`optional_outputs: [name]`"),
    (&["repeatLimit"], Refused::Filled, "`repeat_limit: 50`"),
    (&["leaseSeconds"], Refused::Filled, "`lease_seconds: 900`"),
    (&["costEstimate"], Refused::Filled, "`cost_estimate: {money_micros: 250000}`"),
    (COSTS, Refused::Filled, COST),
    (TIMES, Refused::Filled, SECONDS),
    (&["deadline"], Refused::NoText, SECONDS),
    (TRIES, Refused::Filled, RETRY),
    (CAP_NAMES, Refused::Filled, TAG_CAPS),
    (&["concurrency", "parallelism"], Refused::NoText, TAG_CAPS),
    (RULE_NAMES, Refused::Filled, PLAN_RULES),
    (&["failure"], Refused::NoText, PLAN_RULES),
    (&["defaults"], Refused::Structured, "its fields in the task itself"),
    (&["barriers"], Refused::Structured, "the whole plan in the native form"),
];

/// Fields of a plan that must be read, and what is written instead of an unknown form.
const PLAN_FORMS: &[Form] = &[
    (GATES, Refused::Filled, GATE),
    (APPROVALS, Refused::Decision, GATE),
    (COSTS, Refused::Filled, BUDGET),
    (CAP_NAMES, Refused::Filled, CAPS),
    (&["concurrency", "parallelism"], Refused::NoText, CAPS),
    (RULE_NAMES, Refused::Filled, RULES),
    (&["failure"], Refused::NoText, RULES),
    (COMMANDS, Refused::Filled, PLAN_COMMAND),
    (RUNNABLES, Refused::Runnable, PLAN_COMMAND),
    (TESTS, Refused::Program, PLAN_CRITERION),
    (&["success", "successSignal"], Refused::Command, PLAN_CRITERION),
    (PROBES, Refused::Filled, "`probe` of a step"),
    (TIMES, Refused::Filled, PLAN_SECONDS),
    (&["deadline"], Refused::NoText, PLAN_SECONDS),
    (TRIES, Refused::Filled, PLAN_RETRY),
    (&["preconditions", "precondition"], Refused::Condition, "`preconditions` of each step"),
    (
        &["defaults"],
        Refused::Structured,
        "`defaults: {command: make build, timeout_seconds: 1800}`",
    ),
    (&["barriers"], Refused::Members, "the whole plan in the native form"),
];

/// Criteria where they are not read: those with a command are refused.
const CHECKS: &[Form] =
    &[(CRITERIA, Refused::Command, CRITERION), (TESTS, Refused::Command, CRITERION)];

/// Objects in which tools keep settings: their fields are looked at, too.
const SETTINGS: &[&str] =
    &["metadata", "meta", "config", "configuration", "settings", "options", "execution", "policy"];

/// Programs with which the command of a `test` begins.
const PROGRAMS: &[&str] = &[
    "bash", "bazel", "bun", "bundle", "cargo", "cmake", "composer", "ctest", "curl", "deno",
    "docker", "dotnet", "eslint", "exit", "false", "git", "go", "gradle", "grep", "jest", "just",
    "make", "mix", "mvn", "node", "npm", "npx", "php", "phpunit", "pnpm", "poetry", "pytest",
    "python", "python3", "rake", "rspec", "ruby", "ruff", "sh", "swift", "tox", "true", "tsc",
    "uv", "vitest", "yarn",
];

/// Words of a decision that ask for nothing.
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
    "-",
];

/// What has the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Step,
    Plan,
}

/// The fields of a step that must be read and were not taken.
pub(super) fn unread_step_fields(fields: &Map<String, Value>) -> Vec<Unread> {
    unread(fields, Owner::Step)
}

/// The fields around a list of tasks that must be read and were not taken.
pub(super) fn unread_plan_fields(fields: &Map<String, Value>) -> Vec<Unread> {
    unread(fields, Owner::Plan)
}

/// The fields that must be read of an object around the tasks that is kept as it is.
pub(super) fn unread_kept_fields(fields: &Map<String, Value>) -> Vec<Unread> {
    let mut found = unread_plan_fields(fields);
    for (name, value) in fields {
        if let Some(form) = listed(name, CHECKS).and_then(|row| refused_form(row, value)) {
            found.push((name.clone(), format!("this check is not read here; write {form}")));
        }
    }
    found
}

fn unread(fields: &Map<String, Value>, owner: Owner) -> Vec<Unread> {
    let mut found = Vec::new();
    for (name, value) in fields.iter().filter(|(_, value)| !is_empty(value)) {
        if let Some(form) = form_of(name, value, owner) {
            let message = format!("{} cannot be read here; write {form}", kind_of(value));
            found.push((name.clone(), message));
        } else if is_one_of(name, SETTINGS) {
            found.extend(unread_settings(name, value, owner));
        }
    }
    found
}

/// The fields in objects with settings that must be read, of those that a tool updates during the work.
pub(super) fn unread_progress_fields(fields: &Map<String, Value>) -> Vec<Unread> {
    let settings = fields.iter().filter(|(name, _)| is_one_of(name, SETTINGS));
    settings.flat_map(|(name, value)| unread_settings(name, value, Owner::Step)).collect()
}

/// The fields at any depth of an object with settings that must be read, which they are only outside of it.
fn unread_settings(name: &str, value: &Value, owner: Owner) -> Vec<Unread> {
    let place = match owner {
        Owner::Step => "in the task itself",
        Owner::Plan => "beside the tasks",
    };
    let mut found = Vec::new();
    if mutant!(DeepSettingsUnread) && name.contains('.') {
        return found;
    }
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    for (at, item) in (0..).zip(items) {
        found.extend(unread_settings(&format!("{name}[{at}]"), item, owner));
    }
    let fields = value.as_object().into_iter().flatten();
    for (inner, value) in fields.filter(|(_, value)| !is_empty(value)) {
        let path = format!("{name}.{inner}");
        let check = listed(inner, CHECKS).and_then(|row| refused_form(row, value));
        if let Some(form) = check.or_else(|| form_of(inner, value, owner)) {
            let message = format!("{} is not read here; write {form}, {place}", kind_of(value));
            found.push((path, message));
        } else {
            found.extend(unread_settings(&path, value, owner));
        }
    }
    found
}

/// Where a label of a Markdown text is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RefusedWhere {
    /// Nowhere: it may be meant for the worker, so it is a warning.
    Nowhere,
    /// In a task, and in the text beside the tasks; elsewhere, as in a chapter about the design, it is a warning.
    BesideTasks,
    /// Wherever it stands.
    Everywhere,
}

/// A label of a Markdown text, such as `Gate: ask Bob`, that names what must be read.
pub(crate) struct MeantLabel {
    /// What is to be written instead.
    pub(crate) form: &'static str,
    pub(crate) refused: RefusedWhere,
}

/// What a labelled text means if it is a gate, a command, a check, a probe, a limit, a cap or a rule: such a text is
/// none. An amount has a number, a check begins with a program, and other words are prose.
pub(crate) fn meant_label(words: &str, text: &str, owner: Owner) -> Option<MeantLabel> {
    let has_number = || text.contains(|c: char| c.is_ascii_digit());
    let (_, text_of, refused, forms) = LABELS.iter().find(|(names, ..)| is_one_of(words, names))?;
    let is_meant = match text_of {
        TextOf::Any => !text.is_empty(),
        TextOf::Decision => !text.is_empty() && is_refused(Refused::Decision, &Value::from(text)),
        TextOf::Amount => has_number(),
        TextOf::Program => is_program(text),
    };
    let form = if owner == Owner::Step { forms.0 } else { forms.1 };
    let is_hidden = owner == Owner::Plan && mutant!(LabelsAroundTasksIgnored);
    (is_meant && !is_hidden).then_some(MeantLabel { form, refused: *refused })
}

/// What a labelled text must be so that it is more than prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextOf {
    Any,
    /// Not a word that asks for nothing.
    Decision,
    Amount,
    Program,
}

/// Names of labels, their texts, where they are refused, and the forms of a task and of a plan.
type LabelRow = (&'static [&'static str], TextOf, RefusedWhere, (&'static str, &'static str));

/// Labels that name what must be read.
const LABELS: &[LabelRow] = &[
    (GATES, TextOf::Decision, RefusedWhere::Everywhere, (GATE, GATE)),
    (APPROVALS, TextOf::Decision, RefusedWhere::BesideTasks, (GATE, GATE)),
    (COMMANDS, TextOf::Any, RefusedWhere::BesideTasks, (COMMAND, PLAN_COMMAND)),
    (CHECK_COMMANDS, TextOf::Any, RefusedWhere::BesideTasks, (CRITERION, PLAN_CRITERION)),
    (CHECK_LABELS, TextOf::Program, RefusedWhere::BesideTasks, (CRITERION, PLAN_CRITERION)),
    (PROBES, TextOf::Any, RefusedWhere::BesideTasks, (PROBE, "`probe` of a step")),
    (COSTS, TextOf::Amount, RefusedWhere::BesideTasks, (COST, BUDGET)),
    (TIMES, TextOf::Amount, RefusedWhere::BesideTasks, (SECONDS, PLAN_SECONDS)),
    (&["timeout"], TextOf::Amount, RefusedWhere::BesideTasks, (SECONDS, PLAN_SECONDS)),
    (TRIES, TextOf::Amount, RefusedWhere::BesideTasks, (RETRY, PLAN_RETRY)),
    (CAP_NAMES, TextOf::Amount, RefusedWhere::BesideTasks, (TAG_CAPS, CAPS)),
    (RULE_LABELS, TextOf::Decision, RefusedWhere::Nowhere, (PLAN_RULES, RULES)),
];

/// Labels of commands that check the work.
const CHECK_COMMANDS: &[&str] = &[
    "testCommand",
    "testCommands",
    "testCmd",
    "verifyCommand",
    "verifyCommands",
    "verificationCommand",
    "verificationCommands",
    "checkCommand",
    "checkCommands",
    "validationCommand",
    "validationCommands",
];

/// Labels of checks whose text is mostly prose.
const CHECK_LABELS: &[&str] =
    &["check", "checks", "test", "tests", "verify", "verification", "validation"];

/// Labels of rules; `Rules` alone is mostly prose.
const RULE_LABELS: &[&str] =
    &["onFailure", "onError", "onFail", "failurePolicy", "failureRules", "errorPolicy"];

/// What is to be written instead of a value that is refused.
fn form_of(name: &str, value: &Value, owner: Owner) -> Option<&'static str> {
    let (forms, check, command, seconds) = match owner {
        Owner::Step => (STEP_FORMS, CRITERION, COMMAND, SECONDS),
        Owner::Plan => (PLAN_FORMS, PLAN_CRITERION, PLAN_COMMAND, PLAN_SECONDS),
    };
    if let Some(row) = listed(name, forms) {
        return refused_form(row, value);
    }
    // Every name of a command and of a time limit: `testCommand`, `verify_cmd`, `timeout_ms`.
    let plain = plain_name(name);
    if COMMANDS.iter().any(|word| plain.ends_with(word)) {
        let is_check = ["test", "verif", "check", "valid"].iter().any(|word| plain.contains(word));
        return Some(if is_check { check } else { command });
    }
    plain.starts_with("timeout").then_some(seconds)
}

/// The row of a name.
fn listed<'a>(name: &str, forms: &'a [Form]) -> Option<&'a Form> {
    forms.iter().find(|(names, ..)| is_one_of(name, names))
}

/// What is to be written instead of this value, if the row refuses it.
fn refused_form((_, refused, form): &Form, value: &Value) -> Option<&'static str> {
    is_refused(*refused, value).then_some(*form)
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    let plain = plain_name(name);
    names.iter().any(|known| plain_name(known) == plain)
}

fn is_refused(refused: Refused, value: &Value) -> bool {
    match refused {
        Refused::Filled => true,
        Refused::NoText => !value.is_string() && !is_texts(value),
        Refused::Structured => is_structured(value),
        Refused::Runnable => !value.is_number() && !value.is_boolean(),
        Refused::Program => texts(value).any(is_program),
        Refused::Decision => {
            let word = value.as_str().map(|word| word.trim().to_lowercase());
            !word.is_some_and(|word| DECIDED.contains(&word.as_str()))
        }
        Refused::Condition => is_structured(value) || texts(value).any(compares),
        Refused::Members => {
            value.as_array().into_iter().flatten().any(|item| item.get("members").is_some())
        }
        Refused::Command => has_command(value),
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

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(Value::as_str)
}

fn is_program(text: &str) -> bool {
    let text = text.trim().trim_start_matches(['`', '$', ' ']);
    let first = text.split_whitespace().next().unwrap_or_default().trim_end_matches('`');
    first.starts_with("./") && text.contains(' ') || PROGRAMS.contains(&first)
}

fn compares(text: &str) -> bool {
    ["==", "!=", ">=", "<=", "&&", "||", "has(", " > ", " < "].iter().any(|it| text.contains(it))
        || text.trim_end().ends_with(" exists")
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "this text",
        Value::Array(_) => "this list",
        Value::Object(_) => "this object",
    }
}
