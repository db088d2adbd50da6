//! The maximum number of steps that the evaluation of an expression takes.
//!
//! A step is one node of the expression that is evaluated once, or one value that is read. The
//! number follows from the expression and the sizes of its variables alone: no clock is involved, so
//! that every machine decides the same.

use std::cell::Cell;
use std::collections::BTreeMap;

use cel::IdedExpr;
use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};

/// The maximum number of steps of one evaluation: those of the expression, and the sizes of the
/// values that it reads. A step takes 40 to 60 ns, and the longest text that a record can hold is
/// read.
pub(crate) const STEPS_MAX: u64 = 1_200_000;

/// Rejects an evaluation that takes too many steps.
pub(super) fn check_steps(steps: u64) -> Result<(), String> {
    if steps <= STEPS_MAX {
        return Ok(());
    }
    Err(format!("could take {steps} steps with these values, expected at most {STEPS_MAX}"))
}

/// Evaluation steps that several commits share, so that together they delay others no longer than one
/// commit does.
#[derive(Debug)]
pub struct EvaluationPool(Cell<u64>);

impl EvaluationPool {
    /// The steps of one round of a server's event loop. They are a fraction of the budget of a commit,
    /// since a round may have to wait for a commit of another thread.
    pub const ROUND: u64 = 200_000;

    /// A pool with that many steps.
    #[must_use]
    pub fn new(steps: u64) -> Self {
        Self(Cell::new(steps))
    }

    /// The steps that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.0.get()
    }

    /// Keeps the steps that a commit has left.
    pub(crate) fn keep(&self, left: u64) {
        self.0.set(left.min(self.left()));
    }
}

/// Upper bound of the number of values in a JSON text; long strings count more. The text is not
/// parsed: this takes a fraction of the time of a conversion.
pub(super) fn size_of(json: &str) -> u64 {
    let mut values = size_of_text(json.len());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            // Each of them comes before one more value, or a name.
            b',' | b':' | b'[' | b'{' if !is_quoted => values = values.saturating_add(1),
            _ => {}
        }
    }
    values
}

/// The size of a text with that many bytes, without its parts.
pub(super) fn size_of_text(length: usize) -> u64 {
    u64::try_from(length / 16).unwrap_or(u64::MAX).saturating_add(1)
}

/// Upper bound of the cost of an evaluation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    pub(super) steps: u64,
    /// Upper bound of the size of its value.
    size: u64,
}

/// Estimates costs from the sizes of the variables; an unknown size counts as 1.
#[derive(Debug, Default)]
pub(super) struct Estimate {
    pub(super) sizes: BTreeMap<String, u64>,
}

impl Estimate {
    pub(super) fn of(&mut self, expression: &IdedExpr) -> Effort {
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
pub(super) fn nesting(expression: &IdedExpr) -> usize {
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
pub(super) fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
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
