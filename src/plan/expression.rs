//! CEL expressions: what they name, and whether they hold.
//!
//! Invariants:
//! - Only `decide` and `settle` judge an expression; what came out is an event, so that another
//!   version of the evaluator never changes what a log folds into.
//! - A value is a pure function of the expression and the values of the names in it: there is no
//!   clock, no randomness and no function that reads anything.
//! - An expression that cannot be evaluated does not hold, and says why.
//!
//! Names: each variable of the run whose name is an identifier, all of them in the map
//! `variables`, and in a criterion `output`, what the attempt returned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cel::{Context, Env, Program, Value as Cel};
use serde_json::Value;

use super::Json;

/// How long an expression may be, in bytes.
pub(super) const EXPRESSION_MAX: usize = 4096;

/// The name of the map of all variables.
pub(super) const ALL: &str = "variables";
/// The name of what an attempt returned.
pub(super) const OUTPUT: &str = "output";

/// What an expression came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judgement {
    /// Whether it holds.
    pub(super) holds: bool,
    /// The values that it was judged by, or why it could not be evaluated.
    pub(super) evidence: String,
}

/// The expression, compiled; or what is wrong with it.
fn compile(expression: &str) -> Result<Program, String> {
    if expression.len() > EXPRESSION_MAX {
        let found = expression.len();
        return Err(format!("{found} bytes long, expected at most {EXPRESSION_MAX}"));
    }
    Program::compile(expression).map_err(|errors| {
        let text = errors.to_string();
        text.lines().next().unwrap_or("it is no CEL expression").to_owned()
    })
}

/// What is wrong with an expression before anything is known about its values.
pub(super) fn problem(expression: &str) -> Option<String> {
    compile(expression).err()
}

/// The variables that an expression names. `variables` stands for all of them. One that cannot be
/// compiled names none.
pub(super) fn variables(expression: &str) -> BTreeSet<String> {
    let Ok(program) = compile(expression) else { return BTreeSet::new() };
    let references = program.references();
    references.variables().into_iter().map(str::to_owned).filter(|name| name != OUTPUT).collect()
}

/// Whether an expression holds. `value` is asked for the variables that it names, `all` for all of
/// them if it names `variables`.
pub(super) fn judge(
    expression: &str,
    value: &dyn Fn(&str) -> Option<Json>,
    all: &dyn Fn() -> BTreeMap<String, Json>,
    output: Option<&Json>,
) -> Judgement {
    let program = match compile(expression) {
        Ok(program) => program,
        Err(what) => return Judgement { holds: false, evidence: format!("not judged: {what}") },
    };
    let mut context = Context::with_env(Arc::new(Env::stdlib()));
    let mut evidence = Vec::new();
    let references = program.references();
    let names: BTreeSet<&str> = references.variables().into_iter().collect();
    for name in names {
        let found = match (name, output) {
            (OUTPUT, Some(output)) => cel(&output.value()),
            (ALL, _) => all_of(all()),
            _ => match value(name) {
                Some(value) => {
                    evidence.push(format!("{name} = {}", shortened(value.as_str())));
                    cel(&value.value())
                }
                // An element of a list that the expression goes through, or not set.
                None => continue,
            },
        };
        context.add_variable_from_value(name.to_owned(), found);
    }
    let evidence = evidence.join(", ");
    match program.execute(&context) {
        Ok(Cel::Bool(holds)) => Judgement { holds, evidence },
        Ok(other) => {
            let kind = other.type_of();
            Judgement {
                holds: false,
                evidence: with(&evidence, &format!("it is a {kind}, expected true or false")),
            }
        }
        Err(error) => Judgement { holds: false, evidence: with(&evidence, &error.to_string()) },
    }
}

fn with(evidence: &str, what: &str) -> String {
    if evidence.is_empty() { what.to_owned() } else { format!("{evidence}; {what}") }
}

/// The most bytes of a value that evidence shows.
const SHOWN: usize = 120;

fn shortened(text: &str) -> String {
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    let end = (0..=SHOWN).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", text.get(..end).unwrap_or_default())
}

fn all_of(values: BTreeMap<String, Json>) -> Cel {
    map(values.into_iter().map(|(name, value)| (name, cel(&value.value()))))
}

#[expect(clippy::disallowed_types, reason = "the evaluator's maps are made from no other")]
fn map(entries: impl Iterator<Item = (String, Cel)>) -> Cel {
    Cel::from(entries.collect::<std::collections::HashMap<_, _>>())
}

/// A JSON value as CEL has it. Whole numbers are `int`, so that they can be compared and added
/// with the numbers that people write.
fn cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Cel::Int(whole),
            (None, Some(float)) => Cel::Float(float),
            (None, None) => Cel::Null,
        },
        Value::String(text) => Cel::from(text.as_str()),
        Value::Array(items) => Cel::from(items.iter().map(cel).collect::<Vec<_>>()),
        Value::Object(members) => {
            map(members.iter().map(|(name, value)| (name.clone(), cel(value))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(expression: &str, values: &Value) -> Judgement {
        let get = |name: &str| values.get(name).map(Json::new);
        let all = || {
            let members = values.as_object().unwrap().iter();
            members.map(|(name, value)| (name.clone(), Json::new(value))).collect()
        };
        judge(
            expression,
            &get,
            &all,
            Some(&Json::new(&serde_json::json!({"score": 700, "ok": true}))),
        )
    }

    #[test]
    fn judges_by_the_values_that_are_there() {
        let values = serde_json::json!({
            "score": 640, "rate": 0.5, "flag": "system_error", "items": [1, 2, 3], "odd-name": 7
        });
        for (expression, expected) in [
            ("score >= 600", true),
            ("score + 60 == 700", true),
            ("rate < 1.0 && score > 1", true),
            ("flag in ['pass', 'fail', 'review']", false),
            ("items.all(each, each < 3)", false),
            ("items.exists(each, each == 3)", true),
            ("variables['odd-name'] == 7", true),
            ("has(variables.nothing)", false),
            ("output.ok && output.score > score", true),
        ] {
            let found = holds(expression, &values);
            assert_eq!(found.holds, expected, "{expression}: {}", found.evidence);
        }
        assert_eq!(holds("score >= 600", &values).evidence, "score = 640");
    }

    #[test]
    fn what_cannot_be_judged_does_not_hold_and_says_why() {
        let values = serde_json::json!({"score": "many"});
        for (expression, expected) in [
            ("missing > 1", "missing"),
            ("score > 1", "score = \"many\"; "),
            ("score", "expected true or false"),
            ("1 / 0 == 1", "Division by zero"),
            ("score >", "not judged: "),
        ] {
            let found = holds(expression, &values);
            assert!(!found.holds && found.evidence.contains(expected), "{expression}: {found:?}");
        }
        assert!(problem(&"1 + ".repeat(3000)).unwrap().contains("expected at most"));
        assert!(problem(&"(".repeat(2000)).is_some());
        assert_eq!(problem("a && b"), None);
    }

    #[test]
    fn names_what_it_depends_on() {
        let names = |text: &str| variables(text).into_iter().collect::<Vec<_>>();
        assert_eq!(names("score > 600 && output.ok && has(variables.x)"), ["score", "variables"]);
        assert_eq!(names("no expression ("), Vec::<String>::new());
    }
}
