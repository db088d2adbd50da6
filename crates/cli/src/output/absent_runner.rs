//! Tells after a decision of a person that no runner is at work, which would act on it, or that the run lacks a plan. The process that makes the
//! answer to a request does not look for runners: the one that prints the answer does.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use plan_ledger::internals::ledger::LedgerTime;
use plan_ledger::{Environment, LedgerView};

use crate::protocol::Answer;
use crate::server::Surroundings;

use super::print::print_note;
use super::reader::reader;

/// How many runs are named.
const NAMED_MAX: usize = 5;

/// Prints [`absent_runners`].
pub(crate) fn print_absent_runners(dir: &Path, answer: &Answer) {
    for text in absent_runners(dir, answer) {
        print_note(&text);
    }
}

/// The runs of the answer to a decision that no runner works on, each with the command that starts one. What cannot be
/// read is left out: the decision itself is recorded.
pub(crate) fn absent_runners(dir: &Path, answer: &Answer) -> Vec<String> {
    texts(dir, answer).unwrap_or_default()
}

fn texts(dir: &Path, answer: &Answer) -> Option<Vec<String>> {
    let names = answer.lines.iter().filter_map(|line| line.get("run").and_then(Value::as_str));
    let names: BTreeSet<&str> = names.collect();
    if names.is_empty() {
        return None;
    }
    let environment = Environment::system();
    let view = LedgerView::open(dir, &environment).ok()?;
    let fold = view.fold_recent().ok().filter(|fold| fold.damage.is_empty())?;
    let now = LedgerTime::of(view.log(), &environment).now.max(fold.state.time);
    let around = Surroundings::now(dir, view.log(), &fold.state, now);
    let text = |name: &str| {
        let of = (&fold.state, fold.state.run_named(name)?);
        let stands = around.known(of, now, false, reader()).activity();
        let start = stands.start?;
        let why = stands.absence.unwrap_or_else(|| stands.activity.to_string());
        Some(format!("run {name}: {why}: `{start}` {}", start.effect))
    };
    Some(names.into_iter().filter_map(text).take(NAMED_MAX).collect())
}
