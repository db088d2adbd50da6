//! CEL expressions: which variables they read, and whether they hold.
//!
//! An expression can read each variable of the run whose name is an identifier, all variables in
//! the map `variables`, and in a criterion the attempt's `output`.
//!
//! Invariants:
//! - Only `decide` and `settle` evaluate expressions, and the result becomes an event. Another
//!   version of the evaluator therefore never changes the fold of a log.
//! - The value is a pure function of the expression and its variables: no clock, no randomness, no
//!   I/O.
//! - An expression that cannot be evaluated does not hold, and the evidence gives the reason.
//! - Evaluation is bounded: its cost is estimated from the expression and the sizes of its
//!   variables, and an expression that is too expensive is not evaluated. No clock is involved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::{Context, Env, IdedExpr, Program, Value as Cel};
use serde_json::Value;

use super::json::Json;

/// Maximum length of an expression in bytes.
pub(crate) const EXPRESSION_MAX: usize = 4096;

/// Maximum nesting depth of comprehensions.
pub(crate) const NESTED_MAX: usize = 3;

/// Maximum estimated number of steps of an evaluation.
pub(crate) const STEPS_MAX: u64 = 5_000_000;

/// The name of the map of all variables.
pub(crate) const ALL: &str = "variables";

/// The name of the output of an attempt.
pub(crate) const OUTPUT: &str = "output";

/// The result of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Evaluation {
    /// Whether the expression holds.
    pub(crate) holds: bool,
    /// The values that it read, or why it could not be evaluated.
    pub(crate) evidence: String,
}

/// Compiles an expression, or returns what is wrong with it.
fn compile(expression: &str) -> Result<Program, String> {
    if expression.len() > EXPRESSION_MAX {
        let found = expression.len();
        return Err(format!("{found} bytes long, expected at most {EXPRESSION_MAX}"));
    }
    let program = Program::compile(expression).map_err(|errors| {
        let text = errors.to_string();
        text.lines().next().unwrap_or("not a CEL expression").to_owned()
    })?;
    let found = nesting(program.expression());
    if found > NESTED_MAX {
        return Err(format!("nested comprehensions {found} deep, expected at most {NESTED_MAX}"));
    }
    check_steps(Estimate::default().of(program.expression()).steps)?;
    Ok(program)
}

fn check_steps(steps: u64) -> Result<(), String> {
    if steps <= STEPS_MAX {
        return Ok(());
    }
    Err(format!("could take {steps} steps with these values, expected at most {STEPS_MAX}"))
}

/// Why an expression is invalid for any variables; `None` if it is valid.
pub(crate) fn problem(expression: &str) -> Option<String> {
    compile(expression).err()
}

/// The variables that an expression reads; `variables` means all of them. An invalid expression
/// reads none.
pub(crate) fn variables(expression: &str) -> BTreeSet<String> {
    let Ok(program) = compile(expression) else { return BTreeSet::new() };
    let references = program.references();
    references.variables().into_iter().map(str::to_owned).filter(|name| name != OUTPUT).collect()
}

/// Evaluates an expression. `value` looks up a variable; `all` returns all of them and is called
/// only if the expression reads `variables`.
pub(crate) fn evaluate(
    expression: &str,
    value: &dyn Fn(&str) -> Option<Json>,
    all: &dyn Fn() -> BTreeMap<String, Json>,
    output: Option<&Json>,
) -> Evaluation {
    let program = match compile(expression) {
        Ok(program) => program,
        Err(what) => return Evaluation { holds: false, evidence: format!("not judged: {what}") },
    };
    let mut context = Context::with_env(Arc::new(Env::stdlib()));
    let mut estimate = Estimate::default();
    let mut evidence = Vec::new();
    let references = program.references();
    let names: BTreeSet<&str> = references.variables().into_iter().collect();
    for name in names {
        let found = match (name, output) {
            (OUTPUT, Some(output)) => output.value(),
            (ALL, _) => {
                let members = all().into_iter().map(|(name, value)| (name, value.value()));
                Value::Object(members.collect())
            }
            _ => match value(name) {
                Some(value) => {
                    evidence.push(format!("{name} = {}", shortened(value.as_str())));
                    value.value()
                }
                // A variable of a comprehension, or not set.
                None => continue,
            },
        };
        estimate.sizes.insert(name.to_owned(), size(&found));
        context.add_variable_from_value(name.to_owned(), cel(&found));
    }
    let evidence = evidence.join(", ");
    if let Err(what) = check_steps(estimate.of(program.expression()).steps) {
        return Evaluation {
            holds: false,
            evidence: with(&evidence, &format!("not judged: {what}")),
        };
    }
    match program.execute(&context) {
        Ok(Cel::Bool(holds)) => Evaluation { holds, evidence },
        Ok(other) => {
            let kind = other.type_of();
            Evaluation {
                holds: false,
                evidence: with(
                    &evidence,
                    &format!("the value is a {kind}, expected true or false"),
                ),
            }
        }
        Err(error) => Evaluation { holds: false, evidence: with(&evidence, &error.to_string()) },
    }
}

fn with(evidence: &str, what: &str) -> String {
    if evidence.is_empty() { what.to_owned() } else { format!("{evidence}; {what}") }
}

/// How many bytes of a value the evidence shows.
const SHOWN: usize = 120;

fn shortened(text: &str) -> String {
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    let end = (0..=SHOWN).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", text.get(..end).unwrap_or_default())
}

#[expect(clippy::disallowed_types, reason = "the evaluator takes its maps only from this type")]
fn map(entries: impl Iterator<Item = (String, Cel)>) -> Cel {
    Cel::from(entries.collect::<std::collections::HashMap<_, _>>())
}

/// Converts a JSON value. Whole numbers become `int`, so that they can be compared with and added
/// to literals.
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

/// The number of values in a value; long strings count more.
fn size(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => size_of_text(text.len()),
        Value::Array(items) => items.iter().map(size).fold(1, u64::saturating_add),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                size_of_text(name.len()).saturating_add(size(value))
            };
            members.iter().map(member).fold(1, u64::saturating_add)
        }
    }
}

fn size_of_text(length: usize) -> u64 {
    u64::try_from(length / 16).unwrap_or(u64::MAX).saturating_add(1)
}

/// Upper bound of the cost of an evaluation.
#[derive(Debug, Clone, Copy)]
struct Effort {
    steps: u64,
    /// Upper bound of the size of its value.
    size: u64,
}

/// Estimates costs from the sizes of the variables; an unknown size counts as 1.
#[derive(Debug, Default)]
struct Estimate {
    sizes: BTreeMap<String, u64>,
}

impl Estimate {
    fn of(&mut self, expression: &IdedExpr) -> Effort {
        match &expression.expr {
            Expr::Ident(name) => {
                Effort { steps: 1, size: self.sizes.get(name).copied().unwrap_or(1) }
            }
            Expr::Literal(LiteralValue::String(text)) => {
                Effort { steps: 1, size: size_of_text(text.inner().len()) }
            }
            Expr::Call(call) => {
                let all = self.all(&parts(expression));
                let is_logic = matches!(
                    call.func_name.as_str(),
                    operators::LOGICAL_AND
                        | operators::LOGICAL_OR
                        | operators::LOGICAL_NOT
                        | operators::NOT_STRICTLY_FALSE
                        | operators::CONDITIONAL
                        | operators::INDEX
                );
                // Any other function may read all of its arguments.
                let looks = if is_logic { 0 } else { all.size };
                Effort { steps: all.steps.saturating_add(looks), ..all }
            }
            Expr::Comprehension(each) => self.comprehension(each),
            _ => self.all(&parts(expression)),
        }
    }

    /// The parts evaluated in sequence, combined to one value.
    fn all(&mut self, parts: &[&IdedExpr]) -> Effort {
        parts.iter().fold(Effort { steps: 1, size: 1 }, |all, part| {
            let Effort { steps, size } = self.of(part);
            Effort { steps: all.steps.saturating_add(steps), size: all.size.saturating_add(size) }
        })
    }

    /// The loop body evaluated once per element.
    fn comprehension(&mut self, each: &ComprehensionExpr) -> Effort {
        let range = self.of(&each.iter_range);
        let start = self.of(&each.accu_init);
        // All elements together are as large as the list. Only a nested comprehension can cost more
        // than that.
        let has_nested = nesting(&each.loop_step) > 0 || nesting(&each.result) > 0;
        let element = if has_nested { range.size } else { 1 };
        let mut inner = Self { sizes: self.sizes.clone() };
        let names = std::iter::once(&each.iter_var).chain(&each.iter_var2);
        inner.sizes.extend(names.map(|name| (name.clone(), element)));
        inner.sizes.insert(each.accu_var.clone(), start.size);
        let turn = inner.all(&[&each.loop_cond, &each.loop_step]);
        let end = inner.of(&each.result);
        let turns = range.size.saturating_mul(turn.steps);
        let around = range.steps.saturating_add(start.steps).saturating_add(end.steps);
        Effort {
            steps: turns.saturating_add(around),
            size: range.size.saturating_mul(turn.size).saturating_add(end.size),
        }
    }
}

/// Nesting depth of comprehensions.
fn nesting(expression: &IdedExpr) -> usize {
    let deepest = |parts: &[&IdedExpr]| parts.iter().map(|part| nesting(part)).max().unwrap_or(0);
    match &expression.expr {
        Expr::Comprehension(each) => {
            let within = deepest(&[&each.loop_cond, &each.loop_step, &each.result]);
            deepest(&[&each.iter_range, &each.accu_init]).max(within.saturating_add(1))
        }
        _ => deepest(&parts(expression)),
    }
}

fn of_entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// The subexpressions, except those of a comprehension.
fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Select(select) => vec![&*select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|each| of_entry(&each.expr)).collect(),
        Expr::Struct(new) => new.entries.iter().flat_map(|each| of_entry(&each.expr)).collect(),
        Expr::Unspecified | Expr::Comprehension(_) | Expr::Ident(_) | Expr::Literal(_) => {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(expression: &str, values: &Value) -> Evaluation {
        let get = |name: &str| values.get(name).map(Json::new);
        let all = || {
            let members = values.as_object().unwrap().iter();
            members.map(|(name, value)| (name.clone(), Json::new(value))).collect()
        };
        evaluate(
            expression,
            &get,
            &all,
            Some(&Json::new(&serde_json::json!({"score": 700, "ok": true}))),
        )
    }

    #[test]
    fn expressions_read_variables_and_output() {
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
    fn invalid_expressions_do_not_hold_and_give_a_reason() {
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

    /// A short expression over a list of a few thousand elements could otherwise run for years.
    #[test]
    fn expensive_expressions_are_not_evaluated() {
        let many: Vec<u32> = (0..3_000).collect();
        let values =
            serde_json::json!({ "items": many, "text": "x".repeat(1 << 20), "few": [1, 2] });
        for within in [
            "items.all(a, items.all(b, items.all(c, a + b + c >= 0)))",
            "items.all(a, items.all(b, a + b >= 0))",
            "items.map(a, text + text).size() > 0",
            "items.map(a, items.map(b, [a, b])).size() > 0",
            "variables.items.all(a, variables.items.all(b, a + b >= 0))",
        ] {
            let found = holds(within, &values);
            assert!(!found.holds && found.evidence.contains("not judged: could take"), "{found:?}");
            assert_eq!(problem(within), None, "with less data it may be judged");
        }
        let deep = "few.all(a, few.all(b, few.all(c, few.all(d, a > 0))))";
        assert!(problem(deep).unwrap().contains("4 deep, expected at most 3"));
        let digits = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]";
        let wide = format!("{digits}.all(a, {digits}.all(b, {digits}.all(c, a + b + c > 0)))");
        let wider = wide.replace(",20]", &format!(",20{}]", ",1".repeat(280)));
        assert!(problem(&wider).unwrap().contains("could take"));
        // Ordinary expressions are evaluated, also over long lists.
        for (good, expected) in [
            ("items.all(each, each < 3000)", true),
            ("items.exists(each, each == 2999) && text.size() > 5", true),
            ("few.all(a, items.exists(b, a == b))", true),
            ("few.all(a, few.all(b, few.all(c, a + b + c > 2)))", true),
        ] {
            let found = holds(good, &values);
            assert_eq!(found.holds, expected, "{good}: {}", found.evidence);
        }
    }

    #[test]
    fn variables_lists_what_an_expression_reads() {
        let names = |text: &str| variables(text).into_iter().collect::<Vec<_>>();
        assert_eq!(names("score > 600 && output.ok && has(variables.x)"), ["score", "variables"]);
        assert_eq!(names("no expression ("), Vec::<String>::new());
    }
}
