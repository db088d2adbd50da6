//! The answer of a tool: at most 8 KiB of JSON, since hosts cut longer results.

use serde_json::{Map, Value, json};

/// The most bytes of an answer.
pub(super) const RESULT_LENGTH_MAX: usize = 8 << 10;

/// The lengths for cutting texts, one after the other, until an answer fits.
const TEXT_LENGTHS: [usize; 6] = [4096, 2048, 1024, 512, 200, 80];

/// The numbers of items for cutting lists.
const LIST_LENGTHS: [usize; 3] = [20, 5, 2];

/// The answer, cut to the limit. A member `cut` states that something is missing.
pub(super) fn fitted(answer: Map<String, Value>) -> Map<String, Value> {
    if length(&answer) <= RESULT_LENGTH_MAX {
        return answer;
    }
    let mut answer = answer;
    let hint = "this answer is cut; ledger_show has the rest";
    answer.insert("cut".to_owned(), hint.into());
    for text_max in TEXT_LENGTHS {
        answer.values_mut().for_each(|value| cut(value, text_max, usize::MAX));
        if length(&answer) <= RESULT_LENGTH_MAX {
            return answer;
        }
    }
    for list_max in LIST_LENGTHS {
        answer.values_mut().for_each(|value| cut(value, 80, list_max));
        if length(&answer) <= RESULT_LENGTH_MAX {
            return answer;
        }
    }
    // Only members of unknown depth are left: those that identify the answer are kept.
    answer.retain(|_, value| !value.is_object() && !value.is_array());
    answer
}

fn length(answer: &Map<String, Value>) -> usize {
    serde_json::to_vec(answer).map_or(usize::MAX, |bytes| bytes.len())
}

fn cut(value: &mut Value, text_max: usize, list_max: usize) {
    match value {
        Value::String(text) if text.len() > text_max => {
            let end = (0..=text_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
            text.push_str("...");
        }
        Value::Array(items) => {
            items.truncate(list_max);
            for item in items {
                cut(item, text_max, list_max);
            }
        }
        Value::Object(members) => {
            if members.len() > list_max {
                let names: Vec<String> = members.keys().skip(list_max).cloned().collect();
                for name in names {
                    members.remove(&name);
                }
            }
            members.values_mut().for_each(|member| cut(member, text_max, list_max));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The number of earlier attempts in a task.
const ATTEMPTS_KEPT: usize = 1;

/// The longest end of a log in a task.
const LOG_LENGTH_MAX: usize = 1 << 10;

/// A task as a model needs it: without the parts that a worker process needs only.
pub(super) fn task(mut line: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(attempts)) = line.get_mut("previous_attempts") {
        let more = attempts.len().saturating_sub(ATTEMPTS_KEPT);
        attempts.drain(..more);
        for attempt in attempts.iter_mut() {
            if let Some(log) = attempt.get_mut("log_tail") {
                cut(log, LOG_LENGTH_MAX, usize::MAX);
            }
        }
    }
    for name in ["schema", "exit_code"] {
        line.remove(name);
    }
    line.retain(|_, value| !is_empty(value));
    line.values_mut().for_each(remove_empty);
    line
}

/// Removes members without content: defaults that a plan does not state.
fn remove_empty(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(remove_empty);
            members.retain(|_, member| !is_empty(member));
        }
        Value::Array(items) => items.iter_mut().for_each(remove_empty),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The lines of one page of a text, from a line on; and the first line of the next page. A line
/// that is longer than a page is cut.
pub(super) fn page(text: &str, from: usize, length_max: usize) -> (String, Option<usize>) {
    let (mut page, mut next) = (String::new(), from);
    for line in text.split_inclusive('\n').skip(from) {
        if page.len() + line.len() > length_max && !page.is_empty() {
            return (page, Some(next));
        }
        let end = (0..=length_max.min(line.len())).rev().find(|end| line.is_char_boundary(*end));
        page.push_str(line.get(..end.unwrap_or(0)).unwrap_or_default());
        next += 1;
    }
    (page, None)
}

/// One member with a text.
pub(super) fn text_answer(name: &str, text: &str) -> Map<String, Value> {
    match json!({ name: text }) {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: no answer exceeds the limit, and the members that identify it stay.

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(members) => members,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn answers_are_cut_to_the_limit() {
        let long = "\u{e4}".repeat(9_000);
        let many: Vec<Value> =
            (0..200).map(|number| json!({ "step": number, "why": long })).collect();
        for value in [
            json!({ "token": 7, "goal": long }),
            json!({ "token": 7, "inputs": { "a": long, "b": [long, long] } }),
            json!({ "token": 7, "near": many }),
            json!({ "token": 7, "deep": [[[[many]]]] }),
        ] {
            let fitted = fitted(object(value));
            assert!(length(&fitted) <= RESULT_LENGTH_MAX, "{}", length(&fitted));
            assert_eq!(fitted["token"], 7);
            assert!(fitted.contains_key("cut"));
        }
        let short = object(json!({ "token": 7 }));
        assert_eq!(fitted(short.clone()), short);
    }

    #[test]
    fn pages_are_the_whole_text() {
        let text: String = (0..900).map(|line| format!("line {line} \u{e4}\n")).collect();
        let (mut found, mut from) = (String::new(), Some(0));
        while let Some(at) = from {
            let (part, next) = page(&text, at, 500);
            assert!(part.len() <= 500);
            found.push_str(&part);
            from = next;
        }
        assert_eq!(found, text);
        let (first, next) = page(&"\u{e4}".repeat(900), 0, 501);
        assert_eq!((first.len(), next), (500, None), "a long line is cut");
    }
}
