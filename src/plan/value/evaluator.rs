//! Evaluates the expressions of one commit, within its budget of steps.
//!
//! An evaluation that the rest of the budget does not cover is left to a later commit, so that a
//! commit delays others for a bounded time, however many expressions it has to evaluate. Programs and
//! converted variables are kept for the other expressions of the commit.
//!
//! Invariants:
//! - Evaluation is bounded: its cost is estimated before it begins, and an expression that is too
//!   expensive is not evaluated. No clock is involved.
//! - The result of an evaluation does not depend on the budget, only the commit that has it.
//! - An expression that cannot be evaluated does not hold, and the evidence gives the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, Program, Value as Cel};
use serde_json::Value;

use super::detached::Salt;
use super::effort::{Estimate, STEPS_MAX, check_steps, size_of, size_of_text};
use super::expression::{ALL, EXPRESSION_MAX, OUTPUT, compile, output_members};
use super::ids::RunId;
use super::json::Json;
use crate::plan::value::text::Text;

/// The steps that count for compiling one byte of an expression.
const COMPILE_STEPS: u64 = 100;

/// The steps that count for any evaluation, and for recording its result.
const EVALUATION_STEPS: u64 = 40;

/// The budget of a commit: less than a tenth of a second. It covers at least one evaluation, so that
/// every commit makes progress.
pub(crate) const COMMIT_STEPS_MAX: u64 = STEPS_MAX + 4096 * COMPILE_STEPS;

/// The result of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Evaluation {
    /// Whether the expression holds.
    pub(crate) holds: bool,
    /// The values that it read, and why it could not be evaluated.
    pub(crate) evidence: Text,
    /// Why it could not be evaluated.
    pub(crate) problem: Option<Text>,
}

impl Evaluation {
    /// The result of an expression that was evaluated.
    fn evaluated(holds: bool, evidence: Text) -> Self {
        Self { holds, evidence, problem: None }
    }

    /// The result of an expression that could not be evaluated.
    fn impossible(evidence: &Text, problem: impl Into<Text>) -> Self {
        let problem = problem.into();
        let evidence = if evidence.is_empty() {
            problem.clone()
        } else {
            Text::concat([evidence, &"; ".into(), &problem])
        };
        Self { holds: false, evidence, problem: Some(problem) }
    }
}

/// The rest of the budget of a commit does not cover an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted;

/// The inputs of an expression.
pub(crate) struct Inputs<'a> {
    pub(crate) run: RunId,
    /// Looks up a variable.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<Json>,
    /// Returns all variables; it is called only if the expression reads `variables`.
    pub(crate) all: &'a dyn Fn() -> BTreeMap<String, Json>,
    pub(crate) output: Option<&'a Json>,
    /// Whether `variable` has values that are not variables of the run.
    pub(crate) is_overlaid: bool,
}

/// Evaluates the expressions of one commit.
pub struct Evaluator {
    steps_left: u64,
    programs: BTreeMap<String, Result<Arc<Program>, String>>,
    /// Scopes by run, by whether the expression can read an output, and by whether it has values
    /// that are not variables.
    scopes: BTreeMap<(RunId, bool, bool), Scope>,
    /// The results of expressions that read no output.
    results: BTreeMap<(RunId, String), KnownResult>,
}

/// A result, with the variables that the expression read.
struct KnownResult {
    read: Vec<(String, Option<Json>)>,
    evaluation: Evaluation,
}

impl Default for Evaluator {
    fn default() -> Self {
        Self::new(COMMIT_STEPS_MAX)
    }
}

impl Evaluator {
    /// An evaluator for one commit with that budget.
    #[must_use]
    pub fn new(steps: u64) -> Self {
        let (programs, scopes) = (BTreeMap::new(), BTreeMap::new());
        Self { steps_left: steps, programs, scopes, results: BTreeMap::new() }
    }

    /// The rest of the budget.
    #[must_use]
    pub fn steps_left(&self) -> u64 {
        self.steps_left
    }

    /// Takes steps from the budget, if it covers them.
    fn take(&mut self, steps: u64) -> Result<(), Exhausted> {
        if steps > self.steps_left && !mutant!(EvaluationBudgetIgnored) {
            return Err(Exhausted);
        }
        self.steps_left = self.steps_left.saturating_sub(steps);
        Ok(())
    }

    /// Evaluates an expression.
    pub(crate) fn evaluate(
        &mut self,
        expression: &str,
        inputs: &Inputs<'_>,
    ) -> Result<Evaluation, Exhausted> {
        let program = match self.program(expression)? {
            Ok(program) => program,
            Err(what) => {
                return Ok(Evaluation::impossible(&Text::default(), format!("not judged: {what}")));
            }
        };
        let references = program.references();
        let names: BTreeSet<&str> = references.variables().into_iter().collect();
        let values = ReadValues::of(&names, inputs);
        let key = (inputs.run, inputs.output.is_some(), inputs.is_overlaid);
        if inputs.is_overlaid {
            // These values are valid for this evaluation only.
            self.scopes.remove(&key);
        }
        let scope = self.scopes.entry(key).or_default();
        let cost = check_steps(values.least_size()).and_then(|()| scope.cost(&values, &program));
        match cost {
            Ok(steps) => self.take(steps)?,
            Err(what) => {
                let evidence = values.evidence(&BTreeSet::new());
                return Ok(Evaluation::impossible(&evidence, format!("not judged: {what}")));
            }
        }
        let evidence = values.evidence(&output_members(program.expression()));
        let scope = self.scopes.entry(key).or_default();
        scope.convert(&values);
        let evaluation = match program.execute(&scope.context) {
            Ok(Cel::Bool(holds)) => Evaluation::evaluated(holds, evidence),
            Ok(other) => {
                let kind = other.type_of();
                let problem = format!("the value is a {kind}, expected true or false");
                Evaluation::impossible(&evidence, problem)
            }
            Err(ExecutionError::UndeclaredReference(name)) => {
                Evaluation::impossible(&evidence, format!("`{name}` is not set"))
            }
            Err(error) => Evaluation::impossible(&evidence, values.error_text(&error)),
        };
        if inputs.output.is_none() && values.all.is_none() {
            let read = names.iter().map(|name| ((*name).to_owned(), (inputs.variable)(name)));
            let known = KnownResult { read: read.collect(), evaluation: evaluation.clone() };
            self.results.insert((inputs.run, expression.to_owned()), known);
        }
        Ok(evaluation)
    }

    /// Evaluates an expression to explain an earlier result. It takes nothing from the budget if this
    /// commit evaluated it, and its variables have not changed since.
    pub(crate) fn evaluate_again(
        &mut self,
        expression: &str,
        inputs: &Inputs<'_>,
    ) -> Result<Evaluation, Exhausted> {
        if inputs.output.is_none()
            && let Some(known) = self.results.get(&(inputs.run, expression.to_owned()))
            && known.read.iter().all(|(name, value)| *value == (inputs.variable)(name))
        {
            return Ok(known.evaluation.clone());
        }
        self.evaluate(expression, inputs)
    }

    /// The compiled expression, or an error message.
    fn program(&mut self, expression: &str) -> Result<Result<Arc<Program>, String>, Exhausted> {
        if let Some(known) = self.programs.get(expression) {
            return Ok(known.clone());
        }
        let length = u64::try_from(expression.len().min(EXPRESSION_MAX)).unwrap_or(u64::MAX);
        self.take(COMPILE_STEPS.saturating_mul(length))?;
        let compiled = compile(expression).map(Arc::new);
        self.programs.insert(expression.to_owned(), compiled.clone());
        Ok(compiled)
    }
}

impl fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator").field("steps_left", &self.steps_left).finish_non_exhaustive()
    }
}

/// The values that the expressions of a run have read so far.
struct Scope {
    /// The values as the interpreter takes them. A value that an expression does not name has no
    /// effect on it.
    context: Context<'static, 'static>,
    values: BTreeMap<String, KnownValue>,
    /// The members of the converted map of all variables.
    all: BTreeMap<String, Json>,
}

/// A value whose size is known.
struct KnownValue {
    json: Json,
    size: u64,
    is_converted: bool,
}

impl Default for Scope {
    fn default() -> Self {
        // It registers the functions of the language, which takes longer than an evaluation.
        static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));
        let context = Context::with_env(Arc::clone(&STANDARD));
        Self { context, values: BTreeMap::new(), all: BTreeMap::new() }
    }
}

impl Scope {
    /// The steps of an evaluation that this commit has not taken yet, or why there are too many for
    /// any commit.
    fn cost(&mut self, values: &ReadValues<'_>, program: &Program) -> Result<u64, String> {
        let (mut estimate, mut read, mut new) = (Estimate::default(), 0_u64, 0_u64);
        for (name, json) in &values.named {
            let KnownValue { size, is_converted, .. } = *self.known(name, json);
            estimate.sizes.insert((*name).to_owned(), size);
            read = read.saturating_add(size);
            new = new.saturating_add(if is_converted { 0 } else { size });
        }
        if let Some(all) = &values.all {
            let size = all.iter().fold(1_u64, |size, (name, json)| {
                let member = size_of_text(name.len()).saturating_add(self.known(name, json).size);
                size.saturating_add(member)
            });
            estimate.sizes.insert(ALL.to_owned(), size);
            read = read.saturating_add(size);
            new = new.saturating_add(if self.has_converted(all) { 0 } else { size });
        }
        let steps = estimate.of(program.expression()).steps.saturating_add(EVALUATION_STEPS);
        check_steps(steps.saturating_add(read))?;
        Ok(steps.saturating_add(new))
    }

    /// The entry of a value.
    fn known(&mut self, name: &str, json: &Json) -> &mut KnownValue {
        let new = || {
            let size = size_of(json.as_str());
            KnownValue { json: json.clone(), size, is_converted: false }
        };
        let known = self.values.entry(name.to_owned()).or_insert_with(new);
        if !is_same(&known.json, json) {
            *known = new();
        }
        known
    }

    /// Whether the converted map of all variables has these members.
    fn has_converted(&self, all: &BTreeMap<String, Json>) -> bool {
        let is_member = |(one, other): ((&String, &Json), (&String, &Json))| {
            one.0 == other.0 && is_same(one.1, other.1)
        };
        !all.is_empty() && self.all.len() == all.len() && self.all.iter().zip(all).all(is_member)
    }

    /// Converts the values that are new.
    fn convert(&mut self, values: &ReadValues<'_>) {
        for (name, json) in &values.named {
            let known = self.known(name, json);
            if !std::mem::replace(&mut known.is_converted, true) {
                self.context.add_variable_from_value((*name).to_owned(), cel(&json.value()));
            }
        }
        if let Some(all) = &values.all
            && !self.has_converted(all)
        {
            let members = all.iter().map(|(name, json)| (name.clone(), cel(&json.value())));
            self.context.add_variable_from_value(ALL.to_owned(), map(members));
            self.all.clone_from(all);
        }
    }
}

/// Whether two values are equal. All copies of a value share its text, which is then not compared.
fn is_same(one: &Json, other: &Json) -> bool {
    std::ptr::eq(one.as_str(), other.as_str()) || one == other
}

/// The values that one evaluation reads.
struct ReadValues<'a> {
    named: Vec<(&'a str, Json)>,
    /// All variables, if the expression reads `variables`.
    all: Option<BTreeMap<String, Json>>,
}

impl<'a> ReadValues<'a> {
    fn of(names: &BTreeSet<&'a str>, inputs: &Inputs<'_>) -> Self {
        let mut values = Self { named: Vec::new(), all: None };
        for name in names {
            match (*name, inputs.output) {
                (OUTPUT, Some(output)) => values.named.push((OUTPUT, output.clone())),
                (ALL, _) => values.all = Some((inputs.all)()),
                // A name without a value is a variable of a comprehension, or not set.
                _ => values.named.extend((inputs.variable)(name).map(|value| (*name, value))),
            }
        }
        values
    }

    /// The variables that the expression names, and these members of the output, with their values.
    fn evidence(&self, of_output: &BTreeSet<String>) -> Text {
        let mut shown: Vec<Text> = Vec::new();
        let mut show = |before: String, value: Option<(&str, Salt)>| {
            let comma = if shown.is_empty() { "" } else { ", " };
            shown.push(format!("{comma}{before}").into());
            shown.extend(value.map(|(text, salt)| quoted(&shortened(text), salt)));
        };
        for (name, json) in &self.named {
            if *name != OUTPUT {
                show(format!("{name} = "), Some((json.as_str(), json.own_salt())));
            } else if !of_output.is_empty() {
                let output = json.value();
                for member in of_output {
                    match output.get(member).map(Value::to_string) {
                        Some(text) => {
                            show(format!("{member} was "), Some((&text, json.own_salt())));
                        }
                        None => show(format!("the output has no `{member}`"), None),
                    }
                }
            }
        }
        Text::concat(&shown)
    }

    /// The text of an error, which may quote the values. It is erased with them.
    fn error_text(&self, error: &ExecutionError) -> Text {
        let all = self.all.iter().flat_map(BTreeMap::values);
        let values = self.named.iter().map(|(_, value)| value).chain(all);
        let salts: BTreeSet<Salt> =
            values.map(Json::own_salt).filter(|salt| salt.is_some()).collect();
        let mut salts = salts.into_iter();
        match (salts.next(), salts.next()) {
            (None, _) => error.to_string().into(),
            (Some(salt), None) => quoted(&error.to_string(), salt),
            // A part of a text has one salt.
            (Some(_), Some(_)) => "it cannot be evaluated with these values".into(),
        }
    }

    /// Lower bound of the sizes of all values, which is known without looking into them.
    fn least_size(&self) -> u64 {
        let named = self.named.iter().map(|(_, value)| value);
        let all = self.all.iter().flat_map(BTreeMap::values);
        named
            .chain(all)
            .map(|value| size_of_text(value.as_str().len()))
            .fold(0, u64::saturating_add)
    }
}

/// A quoted value, which is erased with it.
fn quoted(text: &str, salt: Salt) -> Text {
    mutant!(EvidenceKeepsValue => return Text::from(text));
    Text::salted(text, salt)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::value::expression::problem;

    fn evaluate(
        evaluator: &mut Evaluator,
        expression: &str,
        values: &Value,
    ) -> Result<Evaluation, Exhausted> {
        let variable = |name: &str| values.get(name).map(Json::new);
        let all = || {
            let members = values.as_object().unwrap().iter();
            members.map(|(name, value)| (name.clone(), Json::new(value))).collect()
        };
        let output = Json::new(&json!({"score": 700, "ok": true}));
        let output = Some(&output);
        evaluator.evaluate(
            expression,
            &Inputs { run: RunId(1), variable: &variable, all: &all, output, is_overlaid: false },
        )
    }

    fn holds(expression: &str, values: &Value) -> Evaluation {
        evaluate(&mut Evaluator::default(), expression, values).unwrap()
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

    /// A verdict names the value that it saw, so that a person sees why it was given.
    #[test]
    fn evidence_has_the_members_of_the_output() {
        let found = holds("output.ok && output.score > 1000", &json!({}));
        assert_eq!(found.evidence, "ok was true, score was 700");
        assert_eq!((found.holds, found.problem), (false, None));
        let found = holds("output.absent == 1", &json!({}));
        assert!(found.evidence.starts_with("the output has no `absent`"), "{found:?}");
        assert!(found.problem.is_some());
    }

    #[test]
    fn invalid_expressions_do_not_hold_and_give_a_reason() {
        let values = serde_json::json!({"score": "many"});
        for (expression, expected) in [
            ("missing > 1", "`missing` is not set"),
            ("score > 1", "score = \"many\"; "),
            ("score", "expected true or false"),
            ("1 / 0 == 1", "Division by zero"),
            ("score >", "not judged: "),
        ] {
            let found = holds(expression, &values);
            assert!(!found.holds && found.evidence.contains(expected), "{expression}: {found:?}");
        }
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

    /// The size of a text is never below the number of its values, and close to it.
    #[test]
    fn sizes_cover_all_values() {
        fn count(value: &Value) -> u64 {
            match value {
                Value::Array(items) => 1 + items.iter().map(count).sum::<u64>(),
                Value::Object(members) => 1 + members.values().map(|it| 1 + count(it)).sum::<u64>(),
                _ => 1,
            }
        }
        let long = "a, b: [c] {d} \\\" e".repeat(100);
        for value in [
            json!(1),
            json!([]),
            json!({}),
            json!([[], [1, [2, {"a": null}]], {}]),
            json!({"a": {"b": [true, false]}, "c": "x,y"}),
            json!([&long, &long]),
        ] {
            let json = Json::new(&value);
            let (found, least) = (size_of(json.as_str()), count(&value));
            let text = u64::try_from(json.as_str().len() / 16).unwrap();
            assert!((least..=least + text + 2).contains(&found), "{json}: {found}, {least}");
        }
    }

    #[test]
    fn budget_covers_what_is_converted_once() {
        let items: Vec<u32> = (0..1000).collect();
        let values = json!({ "items": items });
        let mut evaluator = Evaluator::default();
        let mut costs = Vec::new();
        for expression in ["items.size() > 1", "items.size() > 2", "items.size() > 1"] {
            let before = evaluator.steps_left();
            assert!(evaluate(&mut evaluator, expression, &values).unwrap().holds);
            costs.push(before - evaluator.steps_left());
        }
        let [first, second, third] = costs[..] else { panic!("{costs:?}") };
        assert!(first - second > 1000 && second - third == 16 * COMPILE_STEPS, "{costs:?}");
        let mut small = Evaluator::new(first - 1);
        assert_eq!(evaluate(&mut small, "items.size() > 1", &values), Err(Exhausted));
        assert!(evaluate(&mut small, "1 > 2", &values).is_ok(), "a cheaper one still fits");
    }
}
