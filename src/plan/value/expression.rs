//! CEL expressions: whether they are valid, and which variables they read.
//!
//! An expression can read each variable of the run whose name is an identifier, all variables in
//! the map `variables`, and in a criterion the attempt's `output`.
//!
//! Invariants:
//! - Only `settle` evaluates expressions, and the result becomes an event. Another version of the
//!   evaluator therefore never changes the fold of a log.
//! - The value is a pure function of the expression and its variables: no clock, no randomness, no
//!   I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use cel::common::ast::{ComprehensionExpr, Expr};
use cel::{IdedExpr, Program};

use super::effort::{Estimate, check_steps, nesting, parts};

/// Maximum length of an expression in bytes.
pub(crate) const EXPRESSION_MAX: usize = 4096;

/// Maximum nesting depth of comprehensions.
pub(crate) const NESTED_MAX: usize = 3;

/// The name of the map of all variables.
pub(crate) const ALL: &str = "variables";

/// The name of the output of an attempt.
pub(crate) const OUTPUT: &str = "output";

/// Compiles an expression, or returns an error message.
pub(super) fn compile(expression: &str) -> Result<Program, String> {
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

/// The variables of valid expressions that were compiled before. A plan is checked before it changes
/// a run, which then needs to compile nothing while others wait for it.
static KNOWN: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

/// How many expressions are remembered.
const KNOWN_MAX: usize = 1 << 16;

/// Why an expression is invalid for any variables; `None` if it is valid.
#[must_use]
pub fn problem(expression: &str) -> Option<String> {
    read(expression).err()
}

/// The variables that an expression reads; `variables` means all of them. An invalid expression
/// reads none.
pub(crate) fn variables(expression: &str) -> BTreeSet<String> {
    read(expression).unwrap_or_default()
}

/// The variables of an expression, or an error message.
fn read(expression: &str) -> Result<BTreeSet<String>, String> {
    // Each change of the map is one call, so a panic cannot leave it inconsistent.
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(variables) = known().get(expression) {
        return Ok(variables.clone());
    }
    let program = compile(expression)?;
    let references = program.references();
    let names = references.variables().into_iter().map(str::to_owned);
    let variables: BTreeSet<String> = names.filter(|name| name != OUTPUT).collect();
    let mut known = known();
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.insert(expression.to_owned(), variables.clone());
    Ok(variables)
}

/// The variables that an expression reads by name, without those that it binds itself.
pub(crate) fn free_variables(expression: &str) -> BTreeSet<String> {
    let Ok(program) = compile(expression) else { return BTreeSet::new() };
    let mut bound = BTreeSet::from([ALL.to_owned(), OUTPUT.to_owned()]);
    bound_variables(program.expression(), &mut bound);
    let references = program.references();
    let names = references.variables().into_iter().map(str::to_owned);
    names.filter(|name| !bound.contains(name)).collect()
}

fn bound_variables(expression: &IdedExpr, bound: &mut BTreeSet<String>) {
    match &expression.expr {
        Expr::Comprehension(each) => {
            bound.extend([each.iter_var.clone(), each.accu_var.clone()]);
            bound.extend(each.iter_var2.clone());
            for part in comprehension_parts(each) {
                bound_variables(part, bound);
            }
        }
        _ => parts(expression).into_iter().for_each(|part| bound_variables(part, bound)),
    }
}

fn comprehension_parts(each: &ComprehensionExpr) -> [&IdedExpr; 5] {
    [&each.iter_range, &each.accu_init, &each.loop_cond, &each.loop_step, &each.result]
}

/// The members of the output that an expression reads by name.
pub(super) fn output_members(expression: &IdedExpr) -> BTreeSet<String> {
    let mut members = BTreeSet::new();
    collect_members(expression, OUTPUT, &mut members);
    members
}

/// The variables that an expression reads as members of the map of all variables. An invalid expression reads
/// none.
pub(crate) fn members_of_all(expression: &str) -> BTreeSet<String> {
    let mut members = BTreeSet::new();
    if let Ok(program) = compile(expression) {
        collect_members(program.expression(), ALL, &mut members);
    }
    members
}

/// Collects the members of a map that an expression reads by name.
fn collect_members(expression: &IdedExpr, map: &str, members: &mut BTreeSet<String>) {
    let is_map = |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if name == map);
    match &expression.expr {
        Expr::Select(select) if is_map(&select.operand) => {
            members.insert(select.field.clone());
        }
        Expr::Comprehension(each) => {
            for part in comprehension_parts(each) {
                collect_members(part, map, members);
            }
        }
        _ => parts(expression).into_iter().for_each(|part| collect_members(part, map, members)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_the_map_of_all_variables_are_read_from_the_expression() {
        let members = |body: &str| members_of_all(body).into_iter().collect::<Vec<_>>();
        assert_eq!(members("has(variables.a) && variables.b_2.c > 1"), ["a", "b_2"]);
        assert_eq!(members("[1].exists(x, variables.a == x)"), ["a"]);
        // A text, and a member of another value.
        assert_eq!(members("'variables.a' == x.variables.b"), Vec::<String>::new());
        assert_eq!(members("variables. &&"), Vec::<String>::new());
    }

    #[test]
    fn invalid_expressions_are_found_without_variables() {
        assert!(problem(&"1 + ".repeat(3000)).unwrap().contains("expected at most"));
        assert!(problem(&"(".repeat(2000)).is_some());
        assert_eq!(problem("a && b"), None);
        let deep = "few.all(a, few.all(b, few.all(c, few.all(d, a > 0))))";
        assert!(problem(deep).unwrap().contains("4 deep, expected at most 3"));
        let digits = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]";
        let wide = format!("{digits}.all(a, {digits}.all(b, {digits}.all(c, a + b + c > 0)))");
        assert_eq!(problem(&format!("{digits}.all(a, {digits}.all(b, a + b > 0))")), None);
        let wider = wide.replace(",20]", &format!(",20{}]", ",1".repeat(280)));
        assert!(problem(&wider).unwrap().contains("could take"));
    }

    #[test]
    fn free_variables_are_not_bound_by_the_expression() {
        let names = |text: &str| free_variables(text).into_iter().collect::<Vec<_>>();
        assert_eq!(names("items.all(each, each < most) && output.ok"), ["items", "most"]);
        assert_eq!(names("has(variables.x)"), Vec::<String>::new());
    }

    #[test]
    fn variables_lists_what_an_expression_reads() {
        let names = |text: &str| variables(text).into_iter().collect::<Vec<_>>();
        assert_eq!(names("score > 600 && output.ok && has(variables.x)"), ["score", "variables"]);
        assert_eq!(names("no expression ("), Vec::<String>::new());
    }
}
