//! Fields of a step that other tools write in words: retries, preconditions, effects and triggers.
//!
//! Only an expression, or `NAME exists`, becomes a condition. Other words are added to the goal, so
//! that the worker reads them.

use serde_json::Value;

use plan_ledger::plan::{
    Criterion, Fallback, Gate, Idempotence, OnTimeout, RetryPolicy, Step, expression_problem,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StepField {
    Inputs,
    Outputs,
    Preconditions,
    Condition,
    SideEffects,
    Idempotent,
    Retry,
    Fallback,
    Timeout,
    Estimate,
    FailureClass,
}

impl StepField {
    /// All fields.
    pub(crate) const ALL: [Self; 11] = [
        Self::Inputs,
        Self::Outputs,
        Self::Preconditions,
        Self::Condition,
        Self::SideEffects,
        Self::Idempotent,
        Self::Retry,
        Self::Fallback,
        Self::Timeout,
        Self::Estimate,
        Self::FailureClass,
    ];

    /// The fields that a label in a text can set. Words such as `Output` mean other things there.
    pub(crate) fn is_label(self) -> bool {
        !matches!(self, Self::Inputs | Self::Outputs)
    }

    /// The names that tools use, in words.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Inputs => &["inputs"],
            Self::Outputs => &["outputs"],
            Self::Preconditions => &["preconditions", "precondition"],
            Self::Condition => &["condition", "trigger"],
            Self::SideEffects => &["side effects", "side effect"],
            Self::Idempotent => &["idempotent", "is idempotent"],
            Self::Retry => &["retry", "retries", "retry policy", "max attempts", "max retries"],
            Self::Fallback => &["fallback"],
            Self::Timeout => &["timeout"],
            Self::Estimate => &["estimate", "time estimate"],
            Self::FailureClass => &["failure class"],
        }
    }

    /// The label in a note.
    fn label(self) -> &'static str {
        match self {
            Self::Inputs => "Inputs",
            Self::Outputs => "Outputs",
            Self::Preconditions => "Precondition",
            Self::Condition => "Trigger",
            Self::SideEffects => "Side effects",
            Self::Idempotent => "Idempotent",
            Self::Retry => "Retry",
            Self::Fallback => "Fallback",
            Self::Timeout => "Timeout",
            Self::Estimate => "Estimate",
            Self::FailureClass => "Failure class",
        }
    }

    /// Sets the field of a step. Returns the words that have no typed meaning.
    pub(crate) fn set(self, step: &mut Step, value: &Value) -> Vec<String> {
        let unset = match self {
            Self::Inputs => names_or_rest(value, &mut step.inputs),
            Self::Outputs => names_or_rest(value, &mut step.outputs),
            Self::SideEffects => {
                step.side_effects.change(|list| list.extend(texts(value)));
                Vec::new()
            }
            Self::Preconditions => {
                let mut unset = Vec::new();
                for text in texts(value) {
                    match expression(&text) {
                        Some(found) => step.preconditions.change(|list| list.push(found)),
                        None => unset.push(text),
                    }
                }
                unset
            }
            Self::Condition => one(value, |text| {
                step.condition = Some(expression(text)?);
                Some(())
            }),
            Self::Idempotent => set_idempotent(step, value),
            Self::Retry => set_retry(step, value),
            Self::Timeout => set_timeout(step, value),
            Self::Estimate => one(value, |text| {
                let seconds = duration(text.trim_start_matches(['~', ' '])).filter(|it| *it > 0)?;
                step.estimate_seconds = Some(u32::try_from(seconds).ok()?);
                Some(())
            }),
            Self::FailureClass => one(value, |text| {
                step.failure_class = Some(text.to_owned()).filter(|text| !text.is_empty());
                step.failure_class.as_ref().map(|_| ())
            }),
            Self::Fallback => match serde_json::from_value::<Fallback>(value.clone()) {
                Ok(fallback) => {
                    step.fallback = Some(Box::new(fallback));
                    Vec::new()
                }
                Err(_) => set_fallback(step, value),
            },
        };
        unset.into_iter().map(|text| format!("{}: {text}", self.label())).collect()
    }
}

/// Applies a text; returns it if it could not be applied.
fn one(value: &Value, mut apply: impl FnMut(&str) -> Option<()>) -> Vec<String> {
    let texts = texts(value);
    match texts.as_slice() {
        [text] if apply(text).is_some() => Vec::new(),
        _ => texts,
    }
}

/// The texts of a value. One text may be written as a list, `[a, b]`.
fn texts(value: &Value) -> Vec<String> {
    let all: Vec<String> = match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::String(text) => {
            let text = text.trim().trim_matches('`');
            match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
                Some(inner) => inner.split(',').map(unquoted).collect(),
                None => vec![text.to_owned()],
            }
        }
        other => vec![other.to_string()],
    };
    let is_none = |text: &str| ["", "none", "n/a", "-"].contains(&text.to_lowercase().as_str());
    all.into_iter().filter(|text| !is_none(text)).collect()
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['"', '\'', '`']).to_owned()
}

/// Takes the names of variables; the rest are words.
fn names_or_rest(value: &Value, names: &mut Vec<String>) -> Vec<String> {
    let mut unset = Vec::new();
    let split = |text: &String| -> Vec<String> {
        if matches!(value, Value::String(_)) {
            text.split(',').map(unquoted).collect()
        } else {
            vec![unquoted(text)]
        }
    };
    for name in texts(value).iter().flat_map(split).filter(|name| !name.is_empty()) {
        if is_name(&name) && !names.contains(&name) {
            names.push(name);
        } else if !is_name(&name) {
            unset.push(name);
        }
    }
    unset
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The expression that a text means: the text itself if it compares something, or `NAME exists`.
fn expression(text: &str) -> Option<String> {
    let text = text.trim().trim_matches('`').trim();
    for word in [" exists", " is set", " is present"] {
        if let Some(name) = text.strip_suffix(word).filter(|name| is_name(name)) {
            return Some(format!("has(variables.{name})"));
        }
    }
    if let Some(interval) = Interval::parse(text) {
        return Some(interval.expression(""));
    }
    let compares = ["==", "!=", ">=", "<=", " in ", "&&", "||", "has(", " > ", " < "];
    let is_plain = compares.iter().any(|word| text.contains(word)) || text == "true";
    (is_plain && expression_problem(text).is_none()).then(|| text.to_owned())
}

/// A range of numbers in words: `score in [300, 850]`, which as an expression would mean two numbers, or
/// `score is an integer between 300 and 850`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval<'a> {
    name: &'a str,
    low: &'a str,
    high: &'a str,
    is_whole: bool,
}

impl<'a> Interval<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (name, rest) = text.trim().split_once(' ')?;
        let rest = rest.trim_start();
        let (is_whole, low, high) = match rest.strip_prefix("in [") {
            Some(list) => {
                let (low, high) = list.strip_suffix(']')?.split_once(',')?;
                (false, low, high)
            }
            None => {
                let words = rest.strip_prefix("is ").unwrap_or(rest);
                let words = words.strip_prefix("an ").unwrap_or(words);
                let words = words.strip_prefix("a ").unwrap_or(words);
                let whole = words.strip_prefix("integer ");
                let whole = whole.or_else(|| words.strip_prefix("whole number "));
                let words = whole.or_else(|| words.strip_prefix("number ")).unwrap_or(words);
                let bounds = words.strip_prefix("between ")?;
                let separators = [" and ", " to ", "-", "\u{2013}"];
                // The first bound may be negative.
                let (low, high) = separators.into_iter().find_map(|separator| {
                    let at = bounds.get(1..)?.find(separator)?.saturating_add(1);
                    Some((bounds.get(..at)?, bounds.get(at.saturating_add(separator.len())..)?))
                })?;
                (whole.is_some(), low, high)
            }
        };
        let (low, high) = (low.trim(), high.trim());
        let is_ordered = number(low)? < number(high)?;
        (is_name(name) && is_ordered).then_some(Self { name, low, high, is_whole })
    }

    /// The expression over a variable, or over a member of `output.`
    fn expression(&self, of: &str) -> String {
        let Self { name, low, high, is_whole } = self;
        let whole = if *is_whole { format!("type({of}{name}) == int && ") } else { String::new() };
        format!("{whole}{of}{name} >= {low} && {of}{name} <= {high}")
    }
}

/// A decimal number, as expressions have them.
fn number(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_decimal = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.ends_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_decimal.then(|| text.parse().ok()).flatten()
}

/// The notice about a text that may have another meaning: a range of numbers that is written as a list of two.
pub(crate) fn range_note(text: &str) -> Option<String> {
    let Interval { name, low, high, .. } =
        Interval::parse(text).filter(|_| text.contains(" in ["))?;
    Some(format!("`{}` is read as a range: {name} from {low} to {high}", text.trim()))
}

/// The success signal for a criterion over the output; `None` for other criteria.
pub(crate) fn signal_text(criterion: &Criterion) -> Option<String> {
    let Criterion::Cel(body) = criterion else { return None };
    let signal = body.strip_prefix("output.").map(str::to_owned);
    let range = || {
        let (whole, body) = match body.strip_prefix("type(output.") {
            Some(rest) => ("is an integer", rest.split_once(") == int && output.")?.1),
            None => ("is a number", body.strip_prefix("output.")?),
        };
        let (name, rest) = body.split_once(" >= ")?;
        let (low, rest) = rest.split_once(" && output.")?;
        let (_, high) = rest.split_once(" <= ")?;
        Some(format!("{name} {whole} between {low} and {high}"))
    };
    let means = |signal: &String| success_criterion(signal).0 == *criterion;
    signal.filter(means).or_else(|| range().filter(means))
}

/// The criterion that a success signal means, and the variable that it is about. A comparison of
/// one name with constants, or a range of numbers, is evaluated over the output; anything else is text.
pub(crate) fn success_criterion(text: &str) -> (Criterion, Option<String>) {
    let text = text.trim();
    if let Some(interval) = Interval::parse(text) {
        return (Criterion::Cel(interval.expression("output.")), Some(interval.name.to_owned()));
    }
    let name: String =
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let rest = text.get(name.len()..).unwrap_or_default();
    let compares = ["==", "!=", ">=", "<=", "in ", "> ", "< "];
    let is_about = is_name(&name)
        && rest.starts_with(' ')
        && compares.iter().any(|word| rest.trim_start().starts_with(word));
    if !is_about {
        return (Criterion::Text(text.to_owned()), None);
    }
    let constants = rest.trim_start().trim_start_matches(['=', '!', '<', '>']);
    let is_constant = ["in [", "\"", "'", "true", "false"]
        .iter()
        .any(|start| constants.trim_start().starts_with(start))
        || constants.trim().parse::<f64>().is_ok();
    let cel = format!("output.{text}");
    if is_constant && expression(text).is_some() && expression_problem(&cel).is_none() {
        (Criterion::Cel(cel), Some(name))
    } else {
        (Criterion::Text(text.to_owned()), Some(name))
    }
}

fn set_idempotent(step: &mut Step, value: &Value) -> Vec<String> {
    let word = match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.as_str().unwrap_or_default().trim().to_lowercase(),
    };
    let first = word.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    let needs_key = word.contains("key") && !word.contains("no key");
    step.idempotent = Some(match first {
        "with_key" => Idempotence::WithKey,
        // `no (idempotency key required)`: with the key it may be repeated.
        "no" | "false" | "yes" | "true" if needs_key => Idempotence::WithKey,
        "no" | "false" => Idempotence::No,
        "yes" | "true" => Idempotence::Yes,
        _ => return texts(value),
    });
    Vec::new()
}

fn set_retry(step: &mut Step, value: &Value) -> Vec<String> {
    let (mut policy, mut unset) = (RetryPolicy::default(), Vec::new());
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    match value {
        Value::Number(_) => {
            let Some(count) = number(value).filter(|count| *count > 0) else { return texts(value) };
            policy.max_attempts = count;
        }
        Value::Object(fields) => {
            let get = |names: &[&str]| names.iter().find_map(|name| fields.get(*name));
            let attempts =
                get(&["max_attempts", "maxAttempts", "attempts", "max"]).and_then(number);
            if let Some(count) = attempts.filter(|count| *count > 0) {
                policy.max_attempts = count;
            }
            match get(&["backoff", "backoff_seconds", "backoffSeconds", "delay"]) {
                Some(Value::Number(seconds)) => {
                    let seconds = seconds.as_u64().and_then(|seconds| u32::try_from(seconds).ok());
                    policy.backoff_seconds = seconds.unwrap_or_default();
                }
                Some(Value::String(word)) => set_backoff(&mut policy, word),
                _ => {}
            }
            let is_read = |(name, value): &(&String, &Value)| match name.as_str() {
                "max_attempts" | "maxAttempts" | "attempts" | "max" => number(value) > Some(0),
                "backoff" | "backoff_seconds" | "backoffSeconds" | "delay" => {
                    number(value).is_some() || value.is_string()
                }
                _ => false,
            };
            unset = fields.iter().filter(|field| !is_read(field)).map(field_words).collect();
        }
        Value::String(text) => {
            let Some(count) = text.split_whitespace().find_map(|word| word.parse::<u32>().ok())
            else {
                return texts(value);
            };
            policy.max_attempts = count.max(1);
            set_backoff(&mut policy, text);
            if has_other_words(text) {
                unset = texts(value);
            }
        }
        _ => return texts(value),
    }
    step.retry = Some(Box::new(policy));
    unset
}

/// A field of an object, in words.
fn field_words((name, value): (&String, &Value)) -> String {
    match value.as_str() {
        Some(text) => format!("{name}: {text}"),
        None => format!("{name}: {value}"),
    }
}

/// Reads `5s backoff` or `exponential backoff`.
fn set_backoff(policy: &mut RetryPolicy, text: &str) {
    let text = text.to_lowercase();
    if text.contains("exponential") {
        policy.backoff_seconds = 1;
        policy.backoff_percent = Some(200);
    }
    let words: Vec<&str> =
        text.split([' ', ',', '(', ')']).filter(|word| !word.is_empty()).collect();
    let seconds =
        words.iter().find_map(|word| duration(word)).and_then(|it| u32::try_from(it).ok());
    if let Some(seconds) = seconds {
        policy.backoff_seconds = seconds;
    }
}

/// Whether a text about attempts and backoff has words with another meaning: `3 attempts, then call Ana`.
fn has_other_words(text: &str) -> bool {
    const KNOWN: [&str; 24] = [
        "attempt",
        "attempts",
        "try",
        "tries",
        "time",
        "times",
        "x",
        "retry",
        "retries",
        "max",
        "maximum",
        "up",
        "to",
        "at",
        "most",
        "with",
        "and",
        "backoff",
        "back-off",
        "exponential",
        "delay",
        "of",
        "a",
        "an",
    ];
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| c.is_whitespace() || [',', ';', '(', ')'].contains(&c));
    let mut words =
        words.map(|word| word.trim_matches(['.', ':', '`'])).filter(|it| !it.is_empty());
    let (mut numbers, mut durations) = (0, 0);
    words.any(|word| {
        if word.parse::<u32>().is_ok() {
            numbers += 1;
            return numbers > 1;
        }
        if duration(word).is_some() {
            durations += 1;
            return durations > 1;
        }
        !KNOWN.contains(&word)
    })
}

/// Reads `cached_score` and `cached_score if < 24h old`: the variable that is named first. Returns the words,
/// unless the name and the age are all of them.
fn set_fallback(step: &mut Step, value: &Value) -> Vec<String> {
    let texts = texts(value);
    let [text] = texts.as_slice() else { return texts };
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (name, rest) = (name.trim_matches(['`', ',']), rest.trim());
    // A plain word may be a verb, an owner or a step; the name of a variable has an underscore.
    let is_condition = ["", "if ", "when ", "while ", "("]
        .iter()
        .any(|start| if start.is_empty() { rest.is_empty() } else { rest.starts_with(start) });
    if !is_name(name) || !name.contains('_') || !is_condition {
        return texts;
    }
    let ages: Vec<u64> = rest.split([' ', '(', ')', ',', '<']).filter_map(duration).collect();
    let max_age_seconds = match ages.as_slice() {
        [age] => Some(*age),
        _ => None,
    };
    step.fallback = Some(Box::new(Fallback::Variable { name: name.to_owned(), max_age_seconds }));
    if rest.is_empty() { Vec::new() } else { texts }
}

/// Reads `30m` or `48h -> escalate to manager`.
fn set_timeout(step: &mut Step, value: &Value) -> Vec<String> {
    let text = value.as_str().unwrap_or_default();
    let (time, then) = match text.split_once("->").or_else(|| text.split_once('\u{2192}')) {
        Some((time, then)) => (time, then.trim()),
        None => (text, ""),
    };
    let Some(seconds) = duration(time.trim()).filter(|seconds| *seconds > 0) else {
        return texts(value);
    };
    let then = then.to_lowercase();
    if let Some(person) = then.strip_prefix("escalate to ") {
        let question = if step.title.is_empty() { step.id.clone() } else { step.title.clone() };
        let gate = step.gate.get_or_insert_with(|| Box::new(Gate { question, ..Gate::default() }));
        // The acceptance criterion lists the possible answers of the person.
        gate.options = step.acceptance.iter().find_map(choices).unwrap_or_default();
        gate.deadline_seconds = Some(seconds);
        gate.on_timeout = Some(OnTimeout::EscalateTo(person.trim().to_owned()));
        return Vec::new();
    }
    step.timeout_seconds = u32::try_from(seconds).ok();
    if then.is_empty() { Vec::new() } else { texts(value) }
}

/// The values that `output.NAME in ["one", "other"]` allows.
fn choices(criterion: &Criterion) -> Option<Vec<String>> {
    let Criterion::Cel(body) = criterion else { return None };
    let (_, list) = body.strip_prefix("output.")?.split_once(" in ")?;
    serde_json::from_str(list.trim()).ok()
}

/// A duration such as `5s`, `30 min` or `48h`, in seconds.
fn duration(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let factor = match unit.trim().trim_end_matches('.') {
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(field: StepField, value: &Value) -> (Step, Vec<String>) {
        let mut step = Step { id: "review".into(), ..Step::default() };
        let notes = field.set(&mut step, value);
        (step, notes)
    }

    #[test]
    fn words_become_typed_fields() {
        let (step, _) = set(StepField::Retry, &json!("2 attempts, 5s backoff"));
        let retry = step.retry.unwrap();
        assert_eq!((retry.max_attempts, retry.backoff_seconds), (2, 5));
        let (step, _) =
            set(StepField::Retry, &json!({"max_attempts": 3, "backoff": "exponential"}));
        assert_eq!(step.retry.unwrap().backoff_percent, Some(200));
        let (step, _) = set(StepField::Timeout, &json!("48h -> escalate to manager"));
        let gate = step.gate.unwrap();
        assert_eq!(gate.deadline_seconds, Some(172_800));
        assert_eq!(gate.on_timeout, Some(OnTimeout::EscalateTo("manager".into())));
        let variable = |text: &str| {
            let (step, notes) = set(StepField::Fallback, &json!(text));
            let Some(Fallback::Variable { name, max_age_seconds }) = step.fallback.as_deref()
            else {
                return format!("none; {}", notes.join(" "));
            };
            format!("{name} {max_age_seconds:?}; {}", notes.join(" "))
        };
        for (text, expected) in [
            ("cached_score", "cached_score None; "),
            ("cached_score if fresh", "cached_score None; Fallback: cached_score if fresh"),
            (
                "cached_score if < 24h old",
                "cached_score Some(86400); Fallback: cached_score if < 24h old",
            ),
            ("use the old score", "none; Fallback: use the old score"),
            ("manual review_team", "none; Fallback: manual review_team"),
            ("else escalate", "none; Fallback: else escalate"),
        ] {
            assert_eq!(variable(text), expected, "{text}");
        }
        for (value, expected) in [
            (json!(true), Idempotence::Yes),
            (json!(false), Idempotence::No),
            (json!("no (a key is required)"), Idempotence::WithKey),
            (json!("true (only reads)"), Idempotence::Yes),
        ] {
            assert_eq!(set(StepField::Idempotent, &value).0.idempotent, Some(expected));
        }
        let (step, _) = set(StepField::SideEffects, &json!("[send mail, write table]"));
        assert_eq!(*step.side_effects, ["send mail", "write table"]);
    }

    #[test]
    fn words_after_the_attempts_are_kept() {
        for text in ["3 attempts", "up to 3 tries, exponential backoff", "3 times (5s delay)", "2"]
        {
            assert!(set(StepField::Retry, &json!(text)).1.is_empty(), "{text}");
        }
        for text in ["3 attempts, then call Ana", "3 attempts only on timeouts", "3 or 4 attempts"]
        {
            let (step, notes) = set(StepField::Retry, &json!(text));
            assert_eq!(notes, [format!("Retry: {text}")]);
            assert_eq!(step.retry.unwrap().max_attempts, 3);
        }
    }

    #[test]
    fn only_expressions_become_conditions() {
        let (step, notes) =
            set(StepField::Preconditions, &json!(["x exists", "y == true", "all is well"]));
        assert_eq!(*step.preconditions, ["has(variables.x)", "y == true"]);
        assert_eq!(notes, ["Precondition: all is well"]);
        let (step, notes) = set(StepField::Condition, &json!("flag == \"review\""));
        assert_eq!((step.condition.as_deref(), notes.len()), (Some("flag == \"review\""), 0));
        let (step, notes) = set(StepField::Condition, &json!("score in [1, 9]"));
        assert_eq!(step.condition.as_deref(), Some("score >= 1 && score <= 9"));
        assert!(notes.is_empty());
    }

    #[test]
    fn success_signals_compare_the_output_or_stay_text() {
        let of = |text: &str| success_criterion(text);
        assert_eq!(of("ok == true").0, Criterion::Cel("output.ok == true".into()));
        assert_eq!(of("a in [\"x\", \"y\"]").1.as_deref(), Some("a"));
        assert_eq!(of("it works == well").1, None);
        assert_eq!(of("all tests pass"), (Criterion::Text("all tests pass".into()), None));
    }

    /// `[300, 850]` are bounds, as they are for a reader of the words; as an expression they would be two
    /// numbers.
    #[test]
    fn ranges_of_numbers_are_checked_over_the_output() {
        let range = "output.score >= 300 && output.score <= 850";
        let whole = format!("type(output.score) == int && {range}");
        for (signal, expected) in [
            ("score in [300, 850]", range),
            ("score is between 300 and 850", range),
            ("score is a number between 300 and 850", range),
            ("score is integer between 300-850", &whole),
            ("score is an integer between 300 and 850", &whole),
            ("score is a whole number between 300\u{2013}850", &whole),
            ("t in [-1.5, 2]", "output.t >= -1.5 && output.t <= 2"),
            ("t between -5 and -1", "output.t >= -5 && output.t <= -1"),
            // A set of three numbers, or of texts, is not a range.
            ("score in [1, 2, 3]", "output.score in [1, 2, 3]"),
            ("score in [\"a\", \"b\"]", "output.score in [\"a\", \"b\"]"),
            // An empty range is not a range.
            ("score in [850, 300]", "output.score in [850, 300]"),
        ] {
            let (criterion, name) = success_criterion(signal);
            assert_eq!(criterion, Criterion::Cel(expected.into()), "{signal}");
            assert!(name.is_some(), "{signal}");
            let written = signal_text(&criterion).unwrap();
            assert_eq!(success_criterion(&written).0, criterion, "{signal}: {written}");
        }
        for text in ["the score is between 300 and 850", "score between low and high"] {
            assert!(matches!(success_criterion(text).0, Criterion::Text(_)), "{text}");
        }
        assert_eq!(
            range_note("score in [300, 850]").unwrap(),
            "`score in [300, 850]` is read as a range: score from 300 to 850"
        );
        assert_eq!(range_note("score is between 300 and 850"), None);
    }
}
