//! The tools that read: status and show. They take no lock.

use crate::commands::inspect::inspect_words;
use crate::commands::prime::{PRIME_LENGTH_MAX, ReadFrom, prime_text, read_prime};
use crate::output::for_agents;
use crate::protocol::Failure;

use super::arguments::{ShowArguments, ShowWhat, StatusArguments};
use super::call::{ToolCall, ToolOutcome, ToolRefusal, ToolServer};
use super::result::{page, text_answer};

/// The most bytes of a page, so that its JSON has less than 8 KiB.
const PAGE_LENGTH_MAX: usize = 6 << 10;

pub(super) fn status(call: &ToolCall<'_>, arguments: StatusArguments) -> ToolOutcome {
    let read = ReadFrom::open(&call.server.dir, &call.server.environment)?;
    let run = call.run(arguments.run);
    let prime = read_prime(&read, run.as_deref())?;
    let mut answer = text_answer("status", &prime_text(&prime, PRIME_LENGTH_MAX));
    answer.insert("seq".to_owned(), read.state().seq.into());
    Ok(answer)
}

pub(super) fn show(call: &ToolCall<'_>, arguments: ShowArguments) -> ToolOutcome {
    let ShowArguments { what, id, run, at, cursor } = arguments;
    // A page continues the answer of the first one: both are of the same record.
    let read = ReadFrom::open(&call.server.dir, &call.server.environment)?;
    let last = read.state().seq;
    if last == 0 && read.damage().is_some() {
        return Err(ToolRefusal::new("no_such_run", "no run can be read: records are damaged"));
    }
    if last == 0 {
        return Err(ToolRefusal::new("no_such_run", "the ledger has no run yet"));
    }
    let is_now = at.is_none() && cursor.is_none();
    let (from, cursor_seq) = match cursor.as_deref() {
        Some(cursor) => parse_cursor(cursor)?,
        None => (0, None),
    };
    let at = at.or(cursor_seq).unwrap_or(last);
    let run = call.run(run);
    let shown = |past: Option<u64>| -> Result<_, ToolRefusal> {
        let words = words_of((what, id.clone()), run.as_deref(), (past, at))?;
        Ok(page(&inspect_text(call.server, &words)?, from, PAGE_LENGTH_MAX))
    };
    let (mut text, mut next) = shown(Some(at).filter(|_| !is_now))?;
    // A view of now says whether a runner is at work, but is never the same again.
    if is_now && next.is_some() {
        (text, next) = shown(Some(at))?;
    }
    let mut answer = text_answer("text", &text);
    answer.insert("seq".to_owned(), at.into());
    if let Some(next) = next {
        answer.insert("next_cursor".to_owned(), format!("{next}@{at}").into());
    }
    Ok(answer)
}

/// The text of a view of `ledger inspect`, which begins with these words.
pub(super) fn inspect_text(server: &ToolServer, words: &[String]) -> Result<String, ToolRefusal> {
    let dir = server.dir.to_str().ok_or_else(|| {
        ToolRefusal::from(Failure::Usage("the path of the ledger is not text".to_owned()))
    })?;
    let mut text = Vec::new();
    for_agents(|| inspect_words(dir, words, &server.environment, &mut text))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The words of the view that shows it: as it was after a record, or as it is; records up to `at`.
fn words_of(
    (what, id): (ShowWhat, Option<String>),
    run: Option<&str>,
    (past, at): (Option<u64>, u64),
) -> Result<Vec<String>, ToolRefusal> {
    let view = match what {
        ShowWhat::Step => "step",
        ShowWhat::Why => "why",
        ShowWhat::Plan => "plan",
        ShowWhat::Queue => "queue",
        ShowWhat::Variables => "variables",
        ShowWhat::Questions => "questions",
        ShowWhat::Records => "records",
    };
    let mut words = vec![view.to_owned()];
    if matches!(what, ShowWhat::Questions) {
        words.push("--decided".to_owned());
    }
    match (what, id) {
        (ShowWhat::Step | ShowWhat::Why, Some(id)) => {
            words.extend(run.map(|run| format!("--run={run}")));
            words.extend(past.map(|at| format!("--at={at}")));
            words.extend(["--".to_owned(), id]);
        }
        (ShowWhat::Step | ShowWhat::Why, None) => {
            let message = format!("id: `what` {view} needs the id or the number of a step");
            return Err(ToolRefusal::arguments(&message));
        }
        (_, Some(_)) => {
            return Err(ToolRefusal::arguments("id: only for step and why"));
        }
        (ShowWhat::Records, None) => {
            words.extend(run.map(|run| format!("--run={run}")));
            words.push(format!("--to={at}"));
        }
        (_, None) => {
            words.extend(run.map(|run| format!("--run={run}")));
            words.extend(past.map(|at| format!("--at={at}")));
        }
    }
    Ok(words)
}

/// `LINE@RECORD`.
fn parse_cursor(cursor: &str) -> Result<(usize, Option<u64>), ToolRefusal> {
    let parsed = cursor.split_once('@').and_then(|(line, seq)| {
        Some((line.parse().ok()?, Some(seq.parse().ok().filter(|seq| *seq > 0)?)))
    });
    parsed.ok_or_else(|| ToolRefusal::arguments("cursor: expected the next_cursor of an answer"))
}
