//! Prints a view of `ledger inspect`, about one record.
//!
//! The record is `?at=SEQ`, or else the newest one, which is fixed before the view is read: the tag of the response
//! names it. A view of now has no tag: it changes with the processes at work, without a record. Reading takes no lock.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::Value;

use crate::commands::inspect::inspect_words;
use crate::output::for_agents;
use crate::protocol::{Answer, Code, Failure};
use crate::requests::Role;

use super::app::App;
use super::operations::{AtRecord, Read};
use super::problem::{HttpResponse, Problem};
use super::write::{Arrived, json};

/// Prints the view of an operation.
pub(super) async fn read(
    app: Arc<App>,
    operation: &'static Read,
    arrived: Arrived,
) -> HttpResponse {
    let looked = tokio::task::spawn_blocking(move || look(&app, operation, &arrived));
    match looked.await {
        Ok(response) => response.unwrap_or_else(|problem| problem.response()),
        Err(_) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "internal", "the view failed in an unexpected way").response()
        }
    }
}

pub(super) fn usage(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "usage", detail)
}

fn look(app: &App, operation: &Read, arrived: &Arrived) -> Result<HttpResponse, Problem> {
    let (seq, words) = words(app, operation, &arrived.parameters)?;
    let tag = seq.map(|seq| app.tag(seq)).transpose()?;
    if let Some(tag) = tag.as_deref().filter(|tag| is_known(&arrived.headers, tag)) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        set_tag(&mut response, tag);
        return Ok(response);
    }
    let mut text = Vec::new();
    // A client with this role works on steps: it is an agent.
    let code = match arrived.role {
        Role::Worker => for_agents(|| inspect(app, &words, &mut text))?,
        Role::Viewer | Role::Operator => inspect(app, &words, &mut text)?,
    };
    let mut response = if accepts(&arrived.headers, "application/jsonl") {
        let mut response = Response::new(Body::from(text));
        let kind = HeaderValue::from_static("application/jsonl");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    } else {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(serde_json::from_slice).collect::<Result<Vec<Value>, _>>();
        let lines = lines.map_err(|error| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "internal", format!("the view is not JSON: {error}"))
        })?;
        json(StatusCode::OK, &Answer { code, lines, ..Answer::default() })
    };
    if let Some(tag) = &tag {
        set_tag(&mut response, tag);
    }
    Ok(response)
}

/// Prints a view of `ledger inspect`; the result is its exit code.
pub(super) fn inspect(
    app: &App,
    words: &[String],
    out: &mut dyn std::io::Write,
) -> Result<u8, Problem> {
    let dir = app.dir.to_str().ok_or_else(|| {
        Problem::from(Failure::Usage("the path of the ledger is not text".to_owned()))
    })?;
    inspect_words(dir, words, &app.environment, out).map(Code::number).map_err(|failure| {
        let mut problem = Problem::from(failure);
        // The usage text of the command line does not help a client of this interface.
        let words = problem.detail.split("\n\nUsage").next().unwrap_or_default();
        let words = words.split("\n\nFor more information").next().unwrap_or_default();
        let detail = words.trim_start_matches("error: ").to_owned();
        problem.detail = detail;
        app.in_ledger(problem)
    })
}

/// The record that a view is about, if it is about one, and the words of the view.
fn words(
    app: &App,
    operation: &Read,
    parameters: &[(String, String)],
) -> Result<(Option<u64>, Vec<String>), Problem> {
    let (mut seq, mut options) = (None, Vec::new());
    for (name, value) in parameters {
        match name.as_str() {
            "at" if operation.at != AtRecord::None => seq = Some(number("at", value)?),
            _ if operation.query.contains(&name.as_str()) => {
                options.push(format!("--{name}={value}"));
            }
            _ if operation.path.contains(&format!("{{{name}}}")) => {}
            _ => return Err(unknown_parameter(operation, name)),
        }
    }
    let seq = match operation.at {
        AtRecord::Option => Some(seq.unwrap_or_else(|| app.head())),
        AtRecord::Now | AtRecord::None => seq,
    };
    let filled = operation.words.iter().skip(1).map(|word| fill(word, parameters));
    let mut words: Vec<String> =
        operation.words.iter().take(1).map(|&word| word.to_owned()).collect();
    words.push("--json".to_owned());
    words.extend(options);
    // An empty ledger has no record that could be named.
    words.extend(seq.filter(|seq| *seq > 0).map(|seq| format!("--at={seq}")));
    words.extend(filled);
    Ok((seq, words))
}

/// A word with the value of its parameter, if it has one.
fn fill(word: &str, parameters: &[(String, String)]) -> String {
    let parts = word.split_once('{').and_then(|(before, rest)| {
        let (name, after) = rest.split_once('}')?;
        let (_, value) = parameters.iter().find(|(it, _)| it == name)?;
        Some(format!("{before}{value}{after}"))
    });
    parts.unwrap_or_else(|| word.to_owned())
}

fn unknown_parameter(operation: &Read, name: &str) -> Problem {
    let mut known = operation.query.to_vec();
    if operation.at != AtRecord::None {
        known.push("at");
    }
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    usage(format!("unknown parameter {name:?}; the parameters are: {known}"))
}

/// The number in a parameter.
pub(super) fn number(name: &str, value: &str) -> Result<u64, Problem> {
    value.parse().map_err(|_| usage(format!("{name}: expected a whole number, found {value:?}")))
}

/// Whether the client accepts that kind of response, and not only any kind.
pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|part| part.split(';').next().is_some_and(|part| part.trim() == kind))
}

fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known =
        headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok()).unwrap_or_default();
    known.split(',').any(|part| part.trim().trim_start_matches("W/") == tag)
}

pub(super) fn set_tag(response: &mut HttpResponse, tag: &str) {
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(ETAG, tag);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
}
