//! Messages of the JSON and YAML libraries in plain English, with the nearest known name.
//!
//! The libraries report type names and parser states. An author needs the found value, the expected
//! value, and the fix.

use plan_ledger::plan::closest_name;

/// Rewrites a message of a library.
pub(crate) fn plain_message(message: &str) -> String {
    if let Some(text) = SYNTAX_MESSAGES.iter().find(|(known, _)| *known == message) {
        return text.1.to_owned();
    }
    if let Some(rest) = message.strip_prefix("duplicate field ") {
        return format!("duplicate field {rest}; remove one");
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        let form = STRUCTS.iter().find(|(first, ..)| name == format!("`{first}`"));
        return form
            .map_or_else(|| message.to_owned(), |(.., form)| format!("{message}, as in {form}"));
    }
    let Some((start, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let invalid = ["invalid type: ", "invalid value: "];
    if let Some(found) = invalid.iter().find_map(|prefix| start.strip_prefix(prefix)) {
        if ["unit value", "null"].contains(&found) {
            return format!("the value is empty, expected {}", expected_value(expected));
        }
        if is_choice(expected) || found.ends_with(" variant") {
            let of = expected.strip_prefix("struct variant ").and_then(|it| it.split("::").next());
            return form_message(of.and_then(form_of_type));
        }
        let hint = if expected == "a string" { "; write it in quotes" } else { "" };
        return format!(
            "found {}, expected {}{hint}",
            found_value(found),
            expected_value(expected)
        );
    }
    if start.starts_with("unknown ") {
        let name = quoted(start).next().unwrap_or_default();
        if let Some(text) = unknown_value(start, &quoted(expected)) {
            return text;
        }
        let start = start.replacen("unknown variant", "unknown value", 1);
        if let Some(text) = without_list(&start, name, &quoted(expected)) {
            return text;
        }
        let hint = meant_field(name, &quoted(expected));
        return format!("{start}, expected {expected}{hint}");
    }
    message.to_owned()
}

/// The message about an unknown word in a list of known words that includes objects; `None`
/// elsewhere.
pub(super) fn unknown_value<'a>(
    start: &str,
    known: &(impl Iterator<Item = &'a str> + Clone),
) -> Option<String> {
    let start = start.strip_prefix("unknown variant ")?;
    let is_of = |form: &str| {
        let words = || form.split(|c: char| !c.is_alphanumeric() && c != '_');
        known.clone().all(|name| words().any(|word| word == name))
    };
    known.clone().next()?;
    let (.., form) = FORMS.iter().find(|(.., form)| form.contains('{') && is_of(form))?;
    Some(format!("unknown value {start}, expected {form}"))
}

/// A hint with the known names that an unknown one means, and how the whole is written.
pub(super) fn meant_field<'a>(
    written: &str,
    known: &(impl Iterator<Item = &'a str> + Clone),
) -> String {
    let hint = did_you_mean(written, known.clone());
    let is_known = |name: &str| known.clone().any(|known| known == name);
    let form = STRUCTS.iter().find(|(first, other, _)| is_known(first) && is_known(other));
    match form {
        Some((.., form)) if hint.is_empty() => format!("; write {form}"),
        Some((.., form)) => format!("{hint} Write {form}"),
        None => hint,
    }
}

/// Two fields of an object that has fields of its own, the first of them one that it must have or the first of the
/// list, and how it is written.
const STRUCTS: [(&str, &str, &str); 4] = [
    ("question", "on_timeout", "`gate: {question: Deploy?}`"),
    ("then", "when", "`rules: [{id: down, when: {class: transient}, then: retry}]`"),
    (
        "rules",
        "max_replans",
        "`failure: {rules: [{id: down, when: {class: transient}, then: retry}]}`",
    ),
    ("disposition", "class", "`when: {class: transient}`"),
];

/// The message about a list at a path, where an object belongs.
pub(super) fn list_message(path: &str) -> String {
    let field = path.rsplit('.').next().unwrap_or_default();
    let field = field.split('[').next().unwrap_or_default();
    let form = example_of(field).map_or_else(String::new, |form| format!(", such as {form}"));
    format!("found a list, expected an object{form}")
}

/// Whether a library expected one value of a list of words and objects.
fn is_choice(expected: &str) -> bool {
    expected.ends_with("variant")
        || expected.starts_with("struct variant ")
        || ["string or map", "map with a single key", "unit"].contains(&expected)
}

/// The message about a value that the field does not allow.
pub(super) fn form_message(form: Option<&str>) -> String {
    form.map_or_else(|| FORM_EXPECTED.to_owned(), |form| format!("expected {form}"))
}

/// The message about a value that an unknown field does not allow.
const FORM_EXPECTED: &str =
    "expected another value here; `ledger help plan-file` lists what the field takes";

/// The values of a type that is one of several words or objects.
pub(super) fn form_of_type(name: &str) -> Option<&'static str> {
    FORMS.iter().find(|(known, _)| *known == name).map(|(_, form)| *form)
}

/// The types that are one of several words or objects, with their forms.
const FORMS: [(&str, &str); 11] = [
    ("Fallback", "{step: ID}, {owner: NAME}, {value: {value: 3}} or {variable: {name: NAME}}"),
    ("FailureAction", "retry, fallback, {replan: {}}, {escalate: {to: NAME}}, fail or abort"),
    ("OnTimeout", "abort, {answer: TEXT} or {escalate_to: NAME}"),
    ("BarrierNeeds", "all, any or {at_least: 2}"),
    ("OnBreak", "fail or wait"),
    ("OnFalse", "wait, fail, skip or abort"),
    ("Idempotence", "yes, no or with_key"),
    ("Decider", "rules or external"),
    ("Disposition", "did_not_happen, unknown or landed"),
    ("OnStale", "warn, ask or replan"),
    ("FailureClass", "transient, deterministic, assumption_broken, budget_exhausted or unknown"),
];

/// Messages of the JSON library about syntax, and their replacements.
const SYNTAX_MESSAGES: &[(&str, &str)] = &[
    ("EOF while parsing a list", "the file ends inside a list; close it with `]`"),
    ("EOF while parsing an object", "the file ends inside an object; close it with `}`"),
    ("EOF while parsing a string", "the file ends inside a text; close it with a double quote"),
    ("EOF while parsing a value", "the file ends where a value is expected"),
    ("expected ident", "expected true, false or null"),
    ("expected value", "expected a value: an object, a list, a number, or text in double quotes"),
    ("invalid escape", "unknown escape in a text; write a backslash as `\\\\`"),
    ("key must be a string", "expected the name of a field in double quotes"),
    ("trailing comma", "expected another value after the comma; remove the comma"),
    ("trailing characters", "expected the end of the file; remove the text from here on"),
    ("recursion limit exceeded", "the file is nested too deeply: at most 127 levels"),
    (
        "control character (\\u0000-\\u001F) found while parsing a string",
        "a line break or control character in a text; write a line break as `\\n`",
    ),
];

/// A value that a library found.
fn found_value(found: &str) -> String {
    let (kind, value) = found.split_once(' ').unwrap_or((found, ""));
    match kind {
        "integer" => format!("the number {value}"),
        "floating" => format!("the number {}", value.trim_start_matches("point ")),
        "string" => format!("the text {value}"),
        "boolean" => value.to_owned(),
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit" | "null" => "nothing".to_owned(),
        _ => found.to_owned(),
    }
}

/// The value that a library expected.
fn expected_value(expected: &str) -> String {
    if let Some(range) = number_range(expected) {
        return range.to_owned();
    }
    let written = EXAMPLES.iter().find(|(name, ..)| expected.strip_prefix("struct ") == Some(name));
    if let Some((.., example)) = written {
        return format!("an object, such as {example}");
    }
    match expected {
        "a string" => "text",
        "a sequence" => "a list",
        "a map" => "an object",
        "a boolean" => "true or false",
        "string or map" => "text or an object",
        _ if expected.starts_with("struct ") => "an object",
        _ => expected,
    }
    .to_owned()
}

/// Types that people often write as one value, with the fields of plans and an example.
const EXAMPLES: [(&str, &[&str], &str); 9] = [
    ("Gate", &["gate"], "{question: Deploy?}"),
    ("RetryPolicy", &["retry"], "{max_attempts: 3}"),
    ("Budget", &["budget"], "{attempts: 50}"),
    ("Caps", &["caps"], "{run: 4}"),
    ("Cost", &["cost_estimate", "cost_limit"], "{money_micros: 250000}"),
    ("Defaults", &["defaults"], "{timeout_seconds: 1800}"),
    ("FailurePolicy", &["failure"], "{rules: [{id: down, when: {class: transient}, then: retry}]}"),
    ("FailureRule", &["rules"], "{id: down, when: {class: transient}, then: retry}"),
    ("FailureMatch", &["when"], "{class: transient}"),
];

/// An example for a field with an object as its value.
pub(super) fn example_of(field: &str) -> Option<&'static str> {
    let found = EXAMPLES.iter().find(|(_, fields, _)| fields.contains(&field));
    found.map(|(.., example)| *example)
}

/// Whether a field has an object with its own fields, not a list of them.
pub(super) fn is_object_field(field: &str) -> bool {
    field != "rules" && example_of(field).is_some()
}

/// The numbers that a type can hold.
pub(super) fn number_range(name: &str) -> Option<&'static str> {
    match name {
        "u8" | "u16" | "u32" | "u64" | "usize" => Some("a whole number, 0 or more"),
        "i8" | "i16" | "i32" | "i64" | "isize" => Some("a whole number"),
        "f32" | "f64" | "floating point" => Some("a number"),
        "bool" | "boolean" => Some("true or false"),
        _ => None,
    }
}

/// The texts between pairs of backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.split('`').skip(1).step_by(2)
}

/// The words of other plan formats for a field, without case and separators. They stand for the
/// first of these fields that the place has.
const MEANT: [(&[&str], &[&str]); 23] = [
    (
        &[
            "dependson",
            "depends",
            "dependencies",
            "dependency",
            "deps",
            "needs",
            "requires",
            "blockedby",
            "prerequisites",
            "parents",
            "depend",
        ],
        &["after"],
    ),
    (&["run", "cmd", "script", "shell", "exec", "commands", "runs"], &["command"]),
    (&["name"], &["id", "title"]),
    (
        &[
            "description",
            "desc",
            "details",
            "prompt",
            "instructions",
            "task",
            "objective",
            "purpose",
        ],
        &["goal"],
    ),
    (&["summary"], &["goal", "title"]),
    (
        &[
            "criteria",
            "acceptancecriteria",
            "checks",
            "check",
            "verify",
            "validation",
            "success",
            "successcriteria",
            "donewhen",
            "tests",
            "test",
        ],
        &["acceptance", "test_criteria"],
    ),
    (&["retries", "maxretries", "retrypolicy", "attempts"], &["retry", "max_attempts"]),
    (&["timeout", "timelimit", "maxtime"], &["timeout_seconds", "deadline_seconds"]),
    (&["lease", "leasetime"], &["lease_seconds"]),
    (&["repeats", "maxrepeats", "repetitions"], &["repeat_limit"]),
    (&["deadline", "expires", "due"], &["deadline_seconds"]),
    (&["assignee", "agent", "role", "worker", "executor", "assigned"], &["owner"]),
    (&["if", "when", "runif", "only"], &["condition", "when", "rules"]),
    (&["files", "filestomodify", "filestocreate", "writes", "modifies"], &["changes"]),
    (
        &["approval", "approve", "question", "ask", "manual", "human", "review"],
        &["gate", "question"],
    ),
    (&["labels", "label", "resources", "tag"], &["tags"]),
    (&["parallel", "maxparallel", "concurrency", "limits", "limit", "cap"], &["caps", "run"]),
    (&["tasks", "todos", "items", "stories", "jobs"], &["steps"]),
    (&["idempotency", "repeatable", "rerun", "safetoretry"], &["idempotent"]),
    (&["onfailure", "onerror", "onfail", "failures"], &["fallback", "failure"]),
    (&["money", "cost", "budgetusd", "price"], &["money_micros", "cost_estimate", "budget"]),
    (&["backoff", "delay", "wait"], &["backoff_seconds"]),
    (&["prio"], &["priority"]),
];

/// The number of known names that a message lists. If there are more, it lists those that are
/// similar.
const LISTED_MAX: usize = 8;

/// The message about an unknown name if there are too many known names to list: the similar names, and where the list
/// is. None for a short list.
pub(super) fn without_list<'a>(
    start: &str,
    written: &str,
    known: &(impl Iterator<Item = &'a str> + Clone),
) -> Option<String> {
    if known.clone().count() <= LISTED_MAX {
        return None;
    }
    Some(match meant_field(written, known).as_str() {
        "" => format!("{start}; `ledger help plan-file` lists the fields"),
        hint => format!("{start}{hint} `ledger help plan-file` lists the fields"),
    })
}

/// A hint with the known names that an unknown one means, or the one that is nearest to it, or nothing.
pub(super) fn did_you_mean<'a>(
    written: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let word: String =
        written.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let fields = MEANT.iter().find(|(words, _)| words.contains(&word.as_str()));
    let fields = fields.map_or(&[][..], |(_, fields)| fields);
    let mut meant: Vec<&str> =
        fields.iter().filter_map(|field| known.clone().find(|name| name == field)).collect();
    if meant.is_empty() {
        meant.extend(closest_name(written, known));
    }
    if meant.is_empty() {
        return String::new();
    }
    let names: Vec<String> = meant.iter().map(|name| format!("`{name}`")).collect();
    format!("; did you mean {}?", names.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_formats_mean_fields_of_a_plan() {
        let step = ["id", "title", "goal", "after", "command", "timeout_seconds", "acceptance"];
        for (written, meant) in [
            ("timeout", "timeout_seconds"),
            ("dependsOn", "after"),
            ("needs", "after"),
            ("blocked-by", "after"),
            ("run", "command"),
            ("acceptance_criteria", "acceptance"),
            ("comand", "command"),
        ] {
            let hint = did_you_mean(written, step.into_iter());
            assert_eq!(hint, format!("; did you mean `{meant}`?"), "{written}");
        }
        let both = "; did you mean `goal` or `title`?";
        assert_eq!(did_you_mean("summary", step.into_iter()), both);
        assert_eq!(did_you_mean("xyzzy", step.into_iter()), "");
        assert_eq!(did_you_mean("retries", ["id"].into_iter()), "", "a field of another place");
    }

    /// Story: a plan's step has more than thirty fields, and a message that listed them all hid the
    /// fault.
    #[test]
    fn long_list_of_names_is_replaced_by_the_nearest_and_the_place_of_the_list() {
        let names = ["id", "after", "a", "b", "c", "d", "e", "f", "g"];
        let list = names.map(|name| format!("`{name}`")).join(", ");
        for (written, hint) in [("aftr", "; did you mean `after`?"), ("xyzzy", ";")] {
            let message =
                plain_message(&format!("unknown field `{written}`, expected one of {list}"));
            let expected =
                format!("unknown field `{written}`{hint} `ledger help plan-file` lists the fields");
            assert_eq!(message, expected);
            assert!(message.len() < 100, "{message}");
        }
    }

    #[test]
    fn library_messages_become_plain() {
        for (message, expected) in [
            (
                "invalid type: integer `1`, expected a string",
                "found the number `1`, expected text; write it in quotes",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "found the number `-1`, expected a whole number, 0 or more",
            ),
            (
                "invalid type: sequence, expected struct RetryPolicy",
                "found a list, expected an object, such as {max_attempts: 3}",
            ),
            (
                "invalid type: string \"yes\", expected struct Gate",
                "found the text \"yes\", expected an object, such as {question: Deploy?}",
            ),
            (
                "unknown field `depends_on`, expected one of `id`, `after`",
                "unknown field `depends_on`, expected one of `id`, `after`; did you mean `after`?",
            ),
            (
                "unknown variant `with-key`, expected one of `yes`, `no`, `with_key`",
                "unknown value `with-key`, expected one of `yes`, `no`, `with_key`; did you mean \
                 `with_key`?",
            ),
            ("missing field `id`", "missing field `id`"),
            ("trailing comma", "expected another value after the comma; remove the comma"),
        ] {
            assert_eq!(plain_message(message), expected);
        }
    }
}
