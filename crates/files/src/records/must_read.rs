//! The fields that must be read: checks, commands, gates, probes, budgets, caps, rules and limits,
//! found by a list of names with their refused values, and for all other names by the words in them
//! ([`field_words`](super::field_words)). Such a field is refused at any depth. Where real tools
//! use such a word as plain data (the prose of a `test`, the date of a `deadline`, the words of a
//! `failure`), that value stays data of the tool, and so does everything below `extra` except
//! commands.

use serde_json::{Map, Value};

use super::described_check::{has_command, is_empty};
use super::field_names::CRITERIA;
use super::field_words::{
    Meaning, compares, is_decided, is_program, is_structured, meaning_of, texts,
};
use super::list_finder::is_list;
use super::record_fields::{is_same_name, plain_name};
use crate::draft::{InRecords, NATIVE_FIELDS};

/// A field that cannot be read: its path below the record, and why.
pub(super) type Unread = (String, String);

/// The refused values of a listed field. Empty values and `false` are never refused.
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
    /// An object, a list with one, or a text that compares something: other texts are prose.
    Condition,
    /// A list `barriers` with `members` in its items: only native plans have it.
    Members,
    /// An object with a command or an expression, at any depth.
    Command,
}

/// Names of fields, their refused values, and the form to write instead.
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
const LIMIT: &str =
    "`cost_limit: {money_micros: 250000}`, `timeout_seconds: 1800` or `retry: {max_attempts: 2}`";
const PLAN_LIMIT: &str = "`budget: {attempts: 9}` or `defaults: {timeout_seconds: 1800}`";
const CONDITION: &str = "`condition: has(variables.x)`, or `preconditions`";
const IDEMPOTENT: &str = "`idempotent: no`, or `yes`, `with_key`";
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

/// Fields of a step that must be read, and the form to write instead of an unknown one.
const STEP_FORMS: &[Form] = &[
    (RUNNABLES, Refused::Runnable, COMMAND),
    (TESTS, Refused::Program, CRITERION),
    (&["success", "successSignal"], Refused::Command, CRITERION),
    (&["cel"], Refused::Filled, CRITERION),
    (&["deadline"], Refused::NoText, SECONDS),
    (&["concurrency", "parallelism"], Refused::NoText, TAG_CAPS),
    (RULE_NAMES, Refused::Filled, PLAN_RULES),
    (&["failure"], Refused::NoText, PLAN_RULES),
    (&["defaults"], Refused::Structured, "its fields in the task itself"),
    (&["barriers"], Refused::Structured, "the whole plan in the native form"),
];

/// Fields of a plan that must be read, and the form to write instead of an unknown one.
const PLAN_FORMS: &[Form] = &[
    (&["concurrency", "parallelism"], Refused::NoText, CAPS),
    (RULE_NAMES, Refused::Filled, RULES),
    (&["failure"], Refused::NoText, RULES),
    (RUNNABLES, Refused::Runnable, PLAN_COMMAND),
    (TESTS, Refused::Program, PLAN_CRITERION),
    (&["success", "successSignal"], Refused::Command, PLAN_CRITERION),
    (&["cel"], Refused::Filled, PLAN_CRITERION),
    (&["deadline"], Refused::NoText, PLAN_SECONDS),
    (&["preconditions", "precondition"], Refused::Condition, "`preconditions` of each step"),
    (
        &["defaults"],
        Refused::Structured,
        "`defaults: {command: make build, timeout_seconds: 1800}`",
    ),
    (&["barriers"], Refused::Members, "the whole plan in the native form"),
];

/// Objects with free names of members: variables of a template, and the fields of a schema.
const FREE_NAMES: &[&str] = &["vars", "variables", "env", "environment"];

/// The object with the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Step,
    Plan,
}

/// The fields that are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Search {
    All,
    /// All but criteria in words, which are those of records that are kept.
    NoTexts,
    /// Commands and expressions.
    Commands,
}

/// A search for the fields that must be read, at any depth.
struct Finder {
    owner: Owner,
    /// The place of the form, for fields that have it elsewhere.
    place: &'static str,
    found: Vec<Unread>,
}

/// The fields of a step that must be read and were not taken.
pub(super) fn unread_step_fields(fields: &Map<String, Value>) -> Vec<Unread> {
    Finder::find(fields, Owner::Step, Search::All, "")
}

/// The fields around a list of tasks that must be read and were not taken.
pub(super) fn unread_plan_fields(fields: &Map<String, Value>) -> Vec<Unread> {
    Finder::find(fields, Owner::Plan, Search::All, "")
}

/// The fields that must be read of an object around the tasks that is kept as it is.
pub(super) fn unread_kept_fields(fields: &Map<String, Value>) -> Vec<Unread> {
    Finder::find(fields, Owner::Plan, Search::NoTexts, "in a native plan")
}

/// The fields in objects that must be read, of those that a tool updates during the work.
pub(super) fn unread_progress_fields(fields: &Map<String, Value>) -> Vec<Unread> {
    let mut finder = Finder { owner: Owner::Step, place: "in the task itself", found: Vec::new() };
    for (name, value) in fields.iter().filter(|(_, value)| value.is_object()) {
        finder.look_inside(name, value, search_below(name, value, Owner::Step, Search::All));
    }
    finder.found
}

impl Finder {
    fn find(
        fields: &Map<String, Value>,
        owner: Owner,
        search: Search,
        place: &'static str,
    ) -> Vec<Unread> {
        let mut finder = Self { owner, place, found: Vec::new() };
        finder.look(fields, "", search);
        finder.found
    }

    fn look(&mut self, fields: &Map<String, Value>, around: &str, search: Search) {
        if plan_ledger::mutant!(DeepSettingsUnread) && around.contains('.') {
            return;
        }
        let is_range = ["min", "minimum"].iter().any(|name| fields.contains_key(*name));
        for (name, value) in fields {
            if is_range && ["max", "maximum"].contains(&name.as_str()) {
                continue;
            }
            let path = if around.is_empty() { name.clone() } else { format!("{around}.{name}") };
            let search = search_below(name, value, self.owner, search);
            match form_of(name, value, self.owner, search) {
                Some(form) => {
                    let message = self.message(name, value, form, around.is_empty(), search);
                    self.found.push((path, message));
                }
                None => self.look_inside(&path, value, search),
            }
        }
    }

    fn look_inside(&mut self, path: &str, value: &Value, search: Search) {
        match value {
            Value::Object(fields) => self.look(fields, path, search),
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.look_inside(&format!("{path}[{at}]"), item, search);
                }
            }
            _ => {}
        }
    }

    fn message(
        &self,
        name: &str,
        value: &Value,
        form: &str,
        is_top: bool,
        search: Search,
    ) -> String {
        let place = match (self.place, self.owner) {
            ("", _) if is_top => "",
            ("", Owner::Step) => "in the task itself",
            ("", Owner::Plan) => "beside the tasks",
            (place, _) => place,
        };
        let kind = kind_of(value);
        let data = match search {
            // A command stays one there.
            Search::Commands => String::new(),
            _ => format!("; if it is data, name it `extra.{}`", name.escape_debug()),
        };
        if place.is_empty() {
            format!("{kind} cannot be read here; write {form}{data}")
        } else {
            format!("{kind} is not read here; write {form}, {place}{data}")
        }
    }
}

/// The fields that are searched in a field and below it.
fn search_below(name: &str, value: &Value, owner: Owner, search: Search) -> Search {
    let plain = plain_name(name);
    let is_free = FREE_NAMES.contains(&plain.as_str()) || plain.ends_with("schema");
    if plain == "extra" || name.starts_with("extra.") || is_free {
        return Search::Commands;
    }
    // Records beside the tasks are reported, and their criteria in words are theirs.
    let is_records = owner == Owner::Plan && is_list(&[name.to_owned()], value);
    if is_records { search.max(Search::NoTexts) } else { search }
}

/// Where a label of a Markdown text is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RefusedWhere {
    /// Nowhere: it may be meant for the worker, so it is a warning.
    Nowhere,
    /// In a task, and in the text beside the tasks; elsewhere, as in a chapter about the design, it is a warning.
    BesideTasks,
    /// At any depth.
    Everywhere,
}

/// A label of a Markdown text, such as `Gate: ask Bob`, for a meaning that must be read.
pub(crate) struct MeantLabel {
    /// The form to write instead.
    pub(crate) form: &'static str,
    pub(crate) refused: RefusedWhere,
}

/// The meaning of a labelled text that could be a gate, a command, a check, a probe, a limit, a cap
/// or a rule but is not in its form. An amount has a number, a check begins with a program, and
/// other words are prose.
pub(crate) fn meant_label(words: &str, text: &str, owner: Owner) -> Option<MeantLabel> {
    let has_number = || text.contains(|c: char| c.is_ascii_digit());
    let (_, text_of, refused, forms) = LABELS.iter().find(|(names, ..)| is_one_of(words, names))?;
    let is_meant = match text_of {
        TextOf::Any => !text.is_empty(),
        TextOf::Decision => !text.is_empty() && !is_decided(&Value::from(text)),
        TextOf::Amount => has_number(),
        TextOf::Program => is_program(text),
    };
    let form = if owner == Owner::Step { forms.0 } else { forms.1 };
    let is_hidden = owner == Owner::Plan && plan_ledger::mutant!(LabelsAroundTasksIgnored);
    let refused = if is_gate_of_checks(words, text) { RefusedWhere::Nowhere } else { *refused };
    (is_meant && !is_hidden).then_some(MeantLabel { form, refused })
}

/// Whether a label names commands that check the work.
pub(crate) fn names_check_commands(words: &str) -> bool {
    is_one_of(words, CHECK_COMMANDS)
}

/// Words of a gate that is passed by checks, and those of one that a person decides.
const PASSED: &[&str] = &["pass", "passes", "passing", "green", "succeed", "succeeds"];
const OF_PEOPLE: &[&str] = &[
    "approv", "review", "sign", "ask", "confirm", "agree", "decid", "human", "person", "manual",
    "user",
];

/// Whether a label is a gate of checks, which no person decides: `Gate: all tests pass`. It is a criterion.
pub(crate) fn is_gate_of_checks(words: &str, text: &str) -> bool {
    let text = text.to_lowercase();
    let all = || text.split(|c: char| !c.is_alphanumeric());
    let is_of_people = |word: &str| OF_PEOPLE.iter().any(|start| word.starts_with(start));
    is_one_of(words, GATES)
        && all().any(|word| PASSED.contains(&word))
        && !all().any(is_of_people)
        && !text.contains('?')
}

/// The conditions under which a labelled text is more than prose.
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

/// Labels for meanings that must be read.
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

/// Labels of checks that are mostly prose.
const CHECK_LABELS: &[&str] =
    &["check", "checks", "test", "tests", "verify", "verification", "validation"];

/// Labels of rules; `Rules` alone is mostly prose.
const RULE_LABELS: &[&str] =
    &["onFailure", "onError", "onFail", "failurePolicy", "failureRules", "errorPolicy"];

/// The form to write instead of a refused value.
fn form_of(name: &str, value: &Value, owner: Owner, search: Search) -> Option<&'static str> {
    let (forms, criterion) = match owner {
        Owner::Step => (STEP_FORMS, CRITERION),
        Owner::Plan => (PLAN_FORMS, PLAN_CRITERION),
    };
    if search == Search::Commands {
        let is_command = is_one_of(name, &["cel"]) || COMMANDS.iter().any(|it| ends(name, it));
        let is_run = is_one_of(name, RUNNABLES) && texts(value).any(is_program);
        let is_text = texts(value).any(|text| !text.trim().is_empty());
        return (is_command && is_text || is_run).then_some(criterion);
    }
    if let Some((_, refused, form)) = listed(name, forms) {
        return (!is_empty(value) && is_refused(*refused, value)).then_some(*form);
    }
    let native = NATIVE_FIELDS.iter().find(|(known, _)| is_same_name(known, name));
    if let (Owner::Step, Some((_, InRecords::Only(form)))) = (owner, native) {
        return (!is_empty(value)).then_some(*form);
    }
    let is_named = is_one_of(name, CRITERIA) && !is_empty(value);
    let meaning = is_named.then_some(Meaning::Criterion).or_else(|| meaning_by_words(name, value));
    let is_words = search == Search::NoTexts && !has_command(value) && !value.is_boolean();
    meaning.filter(|it| *it != Meaning::Criterion || !is_words).map(|it| form_for(it, owner))
}

/// The meaning of a field by the words of its name.
pub(super) fn meaning_by_words(name: &str, value: &Value) -> Option<Meaning> {
    if plan_ledger::mutant!(FieldWordsIgnored) {
        return None;
    }
    meaning_of(name, value)
}

/// The form in which a step or a plan states a meaning.
fn form_for(meaning: Meaning, owner: Owner) -> &'static str {
    let (step, plan) = match meaning {
        Meaning::Criterion | Meaning::Judge => (CRITERION, PLAN_CRITERION),
        Meaning::Program => (COMMAND, PLAN_COMMAND),
        Meaning::Probe => (PROBE, "`probe` of a step"),
        Meaning::Gate => (GATE, GATE),
        Meaning::Cost => (COST, BUDGET),
        Meaning::Time => (SECONDS, PLAN_SECONDS),
        Meaning::Tries => (RETRY, PLAN_RETRY),
        Meaning::Parallel => (TAG_CAPS, CAPS),
        Meaning::Limit => (LIMIT, PLAN_LIMIT),
        Meaning::Condition => (CONDITION, "`condition` of each step"),
        Meaning::Rule => (PLAN_RULES, RULES),
        Meaning::Idempotence => (IDEMPOTENT, "`idempotent` of each step"),
    };
    if owner == Owner::Step { step } else { plan }
}

/// The row of a name.
fn listed<'a>(name: &str, forms: &'a [Form]) -> Option<&'a Form> {
    forms.iter().find(|(names, ..)| is_one_of(name, names))
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| is_same_name(known, name))
}

fn ends(name: &str, word: &str) -> bool {
    plain_name(name).ends_with(word)
}

fn is_refused(refused: Refused, value: &Value) -> bool {
    match refused {
        Refused::Filled => true,
        Refused::NoText => !value.is_string() && !is_texts(value),
        Refused::Structured => is_structured(value),
        Refused::Runnable => !value.is_number() && !value.is_boolean(),
        Refused::Program => texts(value).any(is_program),
        Refused::Condition => is_structured(value) || texts(value).any(compares),
        Refused::Members => {
            value.as_array().into_iter().flatten().any(|item| item.get("members").is_some())
        }
        Refused::Command => has_command(value),
    }
}

fn is_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
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
