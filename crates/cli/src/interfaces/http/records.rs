//! The records of the log: once, or as they become durable.
//!
//! A follower gets every record after the one that it names, in order, each exactly once: the number of
//! a record is the identifier of its event, so a client that connects again continues where it stopped.
//! A thread prints the lines of `ledger inspect records` into a bounded channel: a client that does not
//! read stops its own thread only.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::app::App;
use super::problem::{HttpResponse, Problem};
use super::read::{accepts, inspect, number, usage};
use super::write::Arrived;

/// How many lines wait for a client.
const WAITING_MAX: usize = 64;

/// How often a stream without records sends a comment.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The longest time that a client waits for a record.
const WAIT_MAX: Duration = Duration::from_secs(50);

/// The pause between two checks for a new record.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// The parameters of the query.
pub(super) const QUERY: &[(&str, &str)] = &[
    ("after", "Only records after this one"),
    ("to", "The last record"),
    ("run", "Only records of this run"),
    ("step", "Only records of this step"),
    ("kind", "Only records of this kind; may be given several times"),
    ("limit", "At most this many records"),
    ("wait", "Wait up to this many seconds, at most 50, for a record after `after`"),
];

/// Answers with the records, as JSON Lines or as events.
pub(super) async fn records(app: Arc<App>, arrived: Arrived) -> HttpResponse {
    match look(app, &arrived).await {
        Ok(response) => response,
        Err(problem) => problem.response(),
    }
}

async fn look(app: Arc<App>, arrived: &Arrived) -> Result<HttpResponse, Problem> {
    let (after, wait, mut words) = words(arrived)?;
    let follows = accepts(&arrived.headers, "text/event-stream");
    if follows {
        words.push("--follow".to_owned());
    }
    let permit = Arc::clone(&app.followers).try_acquire_owned().map_err(|_| {
        let detail = "too many clients follow the log; try again";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "busy", detail)
    })?;
    let head = app.head();
    if after > head {
        let text = format!(
            "record {after} is not in the log, which ends with record {head}: the ledger was made anew or restored\n\
             hint: read it from its start, without `Last-Event-ID` and `after`"
        );
        return Err(Problem::new(StatusCode::NOT_FOUND, "out_of_range", text));
    }
    let until = Instant::now() + wait;
    while !follows && app.head() <= after && Instant::now() < until && !app.is_stopping() {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    let mut lines = print(app, words, permit)?;
    // Errors in the words of the view are found before the first line, or before the view waits for one.
    let first = match lines.recv().await {
        Some(Err(problem)) => return Err(problem),
        Some(Ok(line)) => Some(line),
        None => None,
    };
    let rest = ReceiverStream::new(lines).filter_map(Result::ok);
    let lines = tokio_stream::iter(first).chain(rest).filter(|line| !line.is_empty());
    if follows {
        let events = lines.map(|line| Ok::<_, io::Error>(event_of(&line)));
        let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
        let mut response = Sse::new(events).keep_alive(keep_alive).into_response();
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        return Ok(response);
    }
    let mut response = Response::new(Body::from_stream(lines.map(Ok::<_, io::Error>)));
    let kind = HeaderValue::from_static("application/jsonl");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

/// The record after which the answer begins, the time to wait for another one, and the words of the view.
fn words(arrived: &Arrived) -> Result<(u64, Duration, Vec<String>), Problem> {
    let (mut after, mut wait) = (last_event(&arrived.headers)?, Duration::ZERO);
    let mut words = vec!["records".to_owned(), "--json".to_owned()];
    for (name, value) in &arrived.parameters {
        match name.as_str() {
            // A client that connects again sends the later record at which it stopped.
            "after" => after = after.max(number("after", value)?),
            "wait" => wait = Duration::from_secs(number("wait", value)?).min(WAIT_MAX),
            "to" | "run" | "step" | "kind" | "limit" => words.push(format!("--{name}={value}")),
            _ => {
                let known: Vec<_> = QUERY.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                let detail = format!("unknown parameter {name:?}; the parameters are: {known}");
                return Err(usage(detail));
            }
        }
    }
    words.push(format!("--from={}", after.saturating_add(1)));
    Ok((after, wait, words))
}

fn last_event(headers: &HeaderMap) -> Result<u64, Problem> {
    match headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default()) {
        None | Some("") => Ok(0),
        Some(id) => number("Last-Event-ID", id),
    }
}

/// Prints the view on a separate thread.
fn print(
    app: Arc<App>,
    words: Vec<String>,
    permit: OwnedSemaphorePermit,
) -> Result<Receiver<Result<Bytes, Problem>>, Problem> {
    let (sender, lines) = channel(WAITING_MAX);
    let work = move || {
        let mut out =
            LineSender { app: &app, sender: &sender, line: Vec::new(), has_waited: false };
        if let Err(problem) = inspect(&app, &words, &mut out) {
            // The client may be gone.
            let _ = sender.blocking_send(Err(problem));
        }
        drop(permit);
    };
    let spawned = std::thread::Builder::new().name("records".to_owned()).spawn(work);
    spawned.map_err(|error| {
        let detail = format!("cannot start a thread: {error}");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
    })?;
    Ok(lines)
}

/// Sends whole lines to a client.
struct LineSender<'a> {
    app: &'a App,
    sender: &'a Sender<Result<Bytes, Problem>>,
    line: Vec<u8>,
    /// Whether the view has waited for a record.
    has_waited: bool,
}

impl io::Write for LineSender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if self.line.last() == Some(&b'\n') {
            let lines = std::mem::take(&mut self.line);
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                let line = Bytes::copy_from_slice(line);
                let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
                self.sender.blocking_send(Ok(line)).map_err(gone)?;
            }
        }
        Ok(bytes.len())
    }

    /// A follower flushes while it waits: it ends when its client or the server does.
    fn flush(&mut self) -> io::Result<()> {
        if self.sender.is_closed() || self.app.is_stopping() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if !std::mem::replace(&mut self.has_waited, true) {
            // The response begins, though there is nothing to send: its client sees that it is connected.
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            self.sender.blocking_send(Ok(Bytes::new())).map_err(gone)?;
        }
        Ok(())
    }
}

/// The members of a line that make an event of it.
#[derive(Debug, Default, Deserialize)]
struct LineName {
    #[serde(rename = "type", default)]
    word: String,
    #[serde(default)]
    seq: Option<u64>,
}

/// The event of a line. Only a record has an identifier: damage is sent again after a new connection.
fn event_of(line: &[u8]) -> Event {
    let name: LineName = serde_json::from_slice(line).unwrap_or_default();
    let data = String::from_utf8_lossy(line);
    let event = Event::default().event(&name.word).data(data.trim_end());
    match name.seq.filter(|_| name.word == "record") {
        Some(seq) => event.id(seq.to_string()),
        None => event,
    }
}
