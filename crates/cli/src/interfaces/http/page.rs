//! The page of a run for a browser.
//!
//! `/` is the same for every reader: it contains nothing about the ledger and asks for a token. With it, it gets the
//! page of a run from `/v1/page`, which is the page of `ledger report`. A browser does not send the token by itself, so
//! a page of another site cannot use it.

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderValue, Response, StatusCode};

use plan_ledger::LedgerView;

use crate::commands::inspect::health::overtaken::beside_prune;
use crate::commands::report::{Audience, PageOf, live_page, live_policy, write_page};
use crate::protocol::Failure;
use crate::requests::Role;

use super::app::App;
use super::problem::{HttpResponse, Problem};
use super::read::{number, usage};
use super::write::Arrived;

/// The parameters of the query.
pub(super) const QUERY: &[(&str, &str)] = &[
    (
        "run",
        "The run; by default the active one, or the newest one if none is active. If several are active, the answer lists them",
    ),
    ("at", "The record after which the run is shown"),
    (
        "known",
        "The record of the page that the client has: steps that have not changed since then are left out",
    ),
];

/// The page that asks for a token.
pub(super) async fn live() -> HttpResponse {
    html(live_page(), &live_policy())
}

/// The page of a run.
pub(super) async fn page(app: Arc<App>, arrived: Arrived) -> HttpResponse {
    let written = tokio::task::spawn_blocking(move || write(&app, &arrived));
    match written.await {
        // The client takes it apart. It cannot run scripts by itself.
        Ok(Ok(page)) => html(page, "default-src 'none'; style-src 'unsafe-inline'; sandbox"),
        Ok(Err(problem)) => problem.response(),
        Err(_) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "internal", "the page failed in an unexpected way").response()
        }
    }
}

fn write(app: &App, arrived: &Arrived) -> Result<String, Problem> {
    let audience = match arrived.role {
        Role::Operator => Audience::Operator,
        Role::Viewer | Role::Worker => Audience::Viewer,
    };
    let mut of = PageOf { run: None, at: None, known: 0, audience };
    for (name, value) in &arrived.parameters {
        match name.as_str() {
            "run" => of.run = Some(value),
            "at" => of.at = Some(number("at", value)?),
            "known" => of.known = number("known", value)?,
            _ => {
                let known: Vec<_> = QUERY.iter().map(|(name, _)| *name).collect();
                let known = known.join(", ");
                return Err(usage(format!(
                    "unknown parameter {name:?}; the parameters are: {known}"
                )));
            }
        }
    }
    let problem = |failure: Failure| app.in_ledger(failure.into());
    // A server that stops does not wait for a long page.
    let mut watch = |_, _| {
        if app.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let page = beside_prune(|| {
        let view = LedgerView::open(&app.dir, &app.environment)?;
        write_page(&view, &app.dir, &app.environment, &of, &mut watch)
    });
    Ok(page.map_err(problem)?.html)
}

fn html(page: String, policy: &str) -> HttpResponse {
    let mut response = Response::new(Body::from(page));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(policy) = HeaderValue::from_str(policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}
