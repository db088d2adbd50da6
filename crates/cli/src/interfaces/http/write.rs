//! Makes a request: the body, the parameters of the path and some headers are its members.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, IF_MATCH, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use plan_ledger_files::list_for_object;
use serde_json::{Map, Value};

use crate::output::Code;
use crate::protocol::{Answer, expect_short_numbers};
use crate::requests::{Request, Role};
use crate::server::verdict_without_its_process;

use super::access::expect_role;
use super::app::App;
use super::operations::Write;
use super::problem::{HttpResponse, Problem};

/// The longest time that a claim waits for a step.
const WAIT_MAX: Duration = Duration::from_secs(50);

/// The pause between two claims of a client that waits.
const CLAIM_PAUSE: Duration = Duration::from_millis(200);

/// The longest idempotency key.
const KEY_LENGTH_MAX: usize = 64;

/// A request as it arrives.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) role: Role,
    pub(super) headers: HeaderMap,
    /// The parameters of the path and of the query.
    pub(super) parameters: Vec<(String, String)>,
    pub(super) body: Bytes,
}

/// Makes the request of an operation.
pub(super) async fn write(
    app: Arc<App>,
    operation: &'static Write,
    arrived: Arrived,
) -> HttpResponse {
    let made = match members(&app, operation, &arrived) {
        Ok(members) => make(app, members, &arrived).await,
        Err(problem) => Err(problem),
    };
    made.map_or_else(|problem| problem.response(), |answer| response(&answer, operation))
}

/// Makes the request that a body is, as on the socket.
pub(super) async fn write_raw(app: Arc<App>, arrived: Arrived) -> HttpResponse {
    let made = match object(&arrived) {
        Ok(members) => make(app, members, &arrived).await,
        Err(problem) => Err(problem),
    };
    made.map_or_else(|problem| problem.response(), |answer| json(StatusCode::OK, &answer))
}

fn usage(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "usage", detail)
}

/// The members of a body. An empty body has none, and needs no type.
fn object(arrived: &Arrived) -> Result<Map<String, Value>, Problem> {
    let body = &arrived.body;
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    expect_json(&arrived.headers)?;
    let value = serde_json::from_slice(body)
        .map_err(|error| usage(format!("the body is not JSON: {error}")))?;
    // Valid JSON is UTF-8.
    expect_short_numbers(str::from_utf8(body).unwrap_or_default())?;
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(usage("the body: expected a JSON object")),
    }
}

/// Rejects a body that its client calls something else than JSON, as a form of a page does.
fn expect_json(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default();
    let word = kind.split(';').next().unwrap_or_default().trim();
    if word.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let text = format!(
        "the body: expected JSON, found {kind:?}\nhint: send it with `Content-Type: application/json`"
    );
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "wrong_content_type", text))
}

/// The members of the request of an operation.
fn members(app: &App, operation: &Write, arrived: &Arrived) -> Result<Map<String, Value>, Problem> {
    let mut members = object(arrived)?;
    let named = [("act", operation.act.clone())];
    let named = named.into_iter().map(|(name, value)| (name.to_owned(), value));
    for (name, value) in named.chain(arrived.parameters.iter().cloned()) {
        // Questions and versions are numbers; names that look like numbers are texts.
        let is_number = matches!(name.as_str(), "question" | "if_version");
        let value = match value.parse::<u64>() {
            Ok(number) if is_number => Value::from(number),
            _ => Value::from(value),
        };
        match members.get(&name) {
            Some(other) if *other != value => {
                let detail = format!("{name}: the body has {other}, and the path has {value}");
                return Err(usage(detail));
            }
            _ => drop(members.insert(name, value)),
        }
    }
    if operation.act == "claim" && !members.contains_key("secret") {
        if is_keyed(arrived, &members) {
            let detail = "secret: a claim with a key needs a secret, which its repetition sends again: 32 \
                          hexadecimal digits, from 16 random bytes";
            return Err(usage(detail));
        }
        let secret = serde_json::to_value(app.environment.new_secret()).unwrap_or_default();
        members.insert("secret".to_owned(), secret);
    }
    if let Some(tag) = arrived.headers.get(IF_MATCH) {
        let tag = tag.to_str().unwrap_or_default().trim_matches('"');
        let (name, value) = match operation.act.as_str() {
            "set" => {
                let version: u64 = tag.parse().map_err(|_| {
                    usage(format!("If-Match: expected the version of the variable, found {tag:?}"))
                })?;
                ("if_version", Value::from(version))
            }
            "review" => ("shown", Value::from(tag)),
            _ => return Err(usage("If-Match: only for variables and reviews")),
        };
        members.insert(name.to_owned(), value);
    }
    Ok(members)
}

/// Binds a claim only to its lease, because the client may be on any machine. Its folder is also unknown, so a judge
/// checks the work in the plan's folder.
fn bind_to_lease(members: &mut Map<String, Value>) -> Result<(), Problem> {
    let claim = match members.get("act").and_then(Value::as_str) {
        Some("claim") => Some(members),
        Some("receipt") => members.get_mut("next").and_then(Value::as_object_mut),
        _ => None,
    };
    let Some(claim) = claim else { return Ok(()) };
    if claim.insert("bound_to".to_owned(), "lease".into()).is_some_and(|it| it != "lease") {
        return Err(usage("bound_to: over HTTP the lease alone decides".to_owned()));
    }
    Ok(())
}

/// Whether the client may send the request again.
fn is_keyed(arrived: &Arrived, members: &Map<String, Value>) -> bool {
    arrived.headers.contains_key("idempotency-key") || members.contains_key("once")
}

/// Makes a request, again until a step is ready if the client waits for one.
async fn make(
    app: Arc<App>,
    mut members: Map<String, Value>,
    arrived: &Arrived,
) -> Result<Answer, Problem> {
    let once = match members.remove("once") {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => Some(key),
        Some(_) => return Err(usage("once: expected a text")),
    };
    let key = match arrived.headers.get("idempotency-key") {
        Some(key) => Some(key.to_str().unwrap_or_default().trim_matches('"').to_owned()),
        None => once,
    };
    if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > KEY_LENGTH_MAX) {
        let detail = format!("Idempotency-Key: expected 1 to {KEY_LENGTH_MAX} bytes");
        return Err(usage(detail));
    }
    bind_to_lease(&mut members)?;
    let members = Value::Object(members);
    let mut request: Request = serde_json::from_value(members.clone())
        .map_err(|error| usage(format!("invalid request: {error}")))?;
    let read = serde_json::to_value(&request).unwrap_or_default();
    if let Some((path, message)) = list_for_object(&members, &read) {
        return Err(usage(format!("invalid request: {path}: {message}")));
    }
    expect_role(arrived.role, request.rules().role)?;
    if arrived.role < Role::Operator {
        request.wait_for_approval();
    }
    if matches!(request, Request::Verdict(_)) {
        // The socket would take it for one of this process.
        return Err(verdict_without_its_process().into());
    }
    let wait = preferred_wait(&arrived.headers)?;
    // All attempts of one request have one key, so that an answer that was lost is given again.
    let until = Instant::now() + wait;
    loop {
        let (app, request, key) = (Arc::clone(&app), request.clone(), key.clone());
        let call = tokio::task::spawn_blocking({
            let app = Arc::clone(&app);
            move || app.call(&request, key.as_deref())
        });
        let failed = |_| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "internal", "the request failed in an unexpected way")
        };
        let answer = call.await.map_err(failed)??;
        let left = until.saturating_duration_since(Instant::now());
        if Code::of(answer.code) != Code::Waiting || left.is_zero() || app.is_stopping() {
            return Ok(answer);
        }
        tokio::time::sleep(CLAIM_PAUSE.min(left)).await;
    }
}

/// The time of `Prefer: wait=SECONDS`, bounded.
fn preferred_wait(headers: &HeaderMap) -> Result<Duration, Problem> {
    let Some(prefer) = headers.get("prefer") else { return Ok(Duration::ZERO) };
    let prefer = prefer.to_str().unwrap_or_default();
    let wait = prefer.split(',').find_map(|part| part.trim().strip_prefix("wait="));
    let Some(wait) = wait else { return Ok(Duration::ZERO) };
    let seconds: u64 = wait
        .parse()
        .map_err(|_| usage(format!("Prefer: wait: expected seconds, found {wait:?}")))?;
    Ok(Duration::from_secs(seconds).min(WAIT_MAX))
}

/// The response to an operation.
fn response(answer: &Answer, operation: &Write) -> HttpResponse {
    let has =
        |word: &str| answer.lines.iter().any(|line| line.get("type").is_some_and(|it| it == word));
    match operation.act.as_str() {
        "claim" if has("task") => json(StatusCode::CREATED, answer),
        // No step is ready now. After the end of the run, this would be a response.
        "claim" if Code::of(answer.code) == Code::Waiting => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
        _ if operation.of.creates => json(StatusCode::CREATED, answer),
        _ => json(StatusCode::OK, answer),
    }
}

/// A response with a body of JSON.
pub(super) fn json(status: StatusCode, body: &impl serde::Serialize) -> HttpResponse {
    let mut response = Response::new(Body::from(serde_json::to_vec(body).unwrap_or_default()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
