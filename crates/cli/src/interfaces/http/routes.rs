//! The router: every operation, and the checks before each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, patch, post, put};

#[cfg(feature = "store")]
use crate::commands::store::held::StoreView;
use crate::protocol::MESSAGE_LENGTH_MAX;
use crate::requests::{HttpMethod, Role};

use super::app::App;
#[cfg(feature = "store")]
use super::metrics::register_store;
use super::operations::{READS, WRITES, method_word};
use super::page::{live, page};
use super::problem::{HttpResponse, Problem};
use super::read::read;
use super::records::records;
use super::write::{Arrived, write, write_raw};

/// How long a client may take to send a body.
const BODY_WAIT: Duration = Duration::from_secs(60);

/// The paths that need no token: their answers are not secret.
pub(super) const OPEN_PATHS: [&str; 5] =
    ["/", "/healthz", "/v1/health", "/v1/ready", "/openapi.json"];

/// The description of the interface, `format/http.openapi.json`, which a test generates.
const OPENAPI: &str = include_str!("openapi.json");

pub(super) const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All operations.
pub(super) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for operation in WRITES.iter() {
        let handler = move |State(app): State<Arc<App>>, parameters: RawPathParams, request| async move {
            match arrived(&parameters, request).await {
                Ok(arrived) => write(app, operation, arrived).await,
                Err(problem) => problem.response(),
            }
        };
        router = router.route(operation.of.path, by_method(operation.of.method, handler));
    }
    for operation in READS {
        let handler = move |State(app): State<Arc<App>>, parameters: RawPathParams, request| async move {
            match arrived(&parameters, request).await {
                Ok(arrived) => read(app, operation, arrived).await,
                Err(problem) => problem.response(),
            }
        };
        router = router.route(operation.path, get(handler));
    }
    let raw = |State(app): State<Arc<App>>, parameters: RawPathParams, request: Request| async move {
        match arrived(&parameters, request).await {
            Ok(arrived) => write_raw(app, arrived).await,
            Err(problem) => problem.response(),
        }
    };
    let follow = |State(app): State<Arc<App>>, parameters: RawPathParams, request: Request| async move {
        match arrived(&parameters, request).await {
            Ok(arrived) => records(app, arrived).await,
            Err(problem) => problem.response(),
        }
    };
    let shown = |State(app): State<Arc<App>>, parameters: RawPathParams, request: Request| async move {
        match arrived(&parameters, request).await {
            Ok(arrived) => page(app, arrived).await,
            Err(problem) => problem.response(),
        }
    };
    #[cfg(feature = "mcp")]
    let router = router.route("/mcp", axum::routing::any(tools));
    let router = router
        .route("/v1/requests", post(raw))
        .route("/", get(live))
        .route("/v1/page", get(shown))
        .route("/v1/records", get(follow))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/v1/health", get(detailed_health))
        .route("/v1/ready", get(ready))
        .route("/openapi.json", get(description));
    router
        .fallback(missing)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(app), check))
        .with_state(Arc::clone(app))
}

fn by_method<H, T>(method: HttpMethod, handler: H) -> MethodRouter<Arc<App>>
where
    H: axum::handler::Handler<T, Arc<App>>,
    T: 'static,
{
    match method {
        HttpMethod::Post => post(handler),
        HttpMethod::Put => put(handler),
        HttpMethod::Patch => patch(handler),
        HttpMethod::Delete => delete(handler),
    }
}

/// Checks access, and counts requests. Every response forbids browsers to guess another content type.
async fn check(State(app): State<Arc<App>>, mut request: Request, next: Next) -> HttpResponse {
    let begun = Instant::now();
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let path = path.unwrap_or_else(|| "other".to_owned());
    let method = request.method().to_string();
    let checked = app.access.expect_own(request.headers(), request.uri()).and_then(|()| {
        if OPEN_PATHS.contains(&request.uri().path()) {
            return Ok(Role::Viewer);
        }
        app.access.role(request.headers())
    });
    let mut response = match checked {
        Ok(role) => {
            request.extensions_mut().insert(role);
            next.run(request).await
        }
        Err(problem) => problem.response(),
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    app.metrics.count(&method, &path, response.status().as_u16(), begun.elapsed());
    response
}

/// A request with its parameters and its whole body.
async fn arrived(parameters: &RawPathParams, request: Request) -> Result<Arrived, Problem> {
    let invalid = |detail: String| Problem::new(StatusCode::BAD_REQUEST, "usage", detail);
    let mut named: Vec<_> =
        parameters.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let query = request.uri().query().unwrap_or_default();
    named.extend(form_urlencoded::parse(query.as_bytes()).into_owned());
    if let Some((name, _)) = named.iter().find(|(_, value)| value.contains('\0')) {
        return Err(invalid(format!("{name}: null characters are not allowed")));
    }
    let (parts, body) = request.into_parts();
    let role = parts.extensions.get::<Role>().copied().unwrap_or(Role::Viewer);
    let body = whole_body(body).await?;
    Ok(Arrived { role, headers: parts.headers, parameters: named, body })
}

async fn whole_body(body: Body) -> Result<Bytes, Problem> {
    let limit = usize::try_from(MESSAGE_LENGTH_MAX).unwrap_or(usize::MAX);
    let read = tokio::time::timeout(BODY_WAIT, to_bytes(body, limit)).await;
    match read {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => {
            let detail = format!("the body: expected at most {limit} bytes, all of them sent");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail))
        }
        Err(_) => {
            let detail = "the body did not arrive in time";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail))
        }
    }
}

/// A response with a body of a type.
pub(super) fn text(kind: &'static str, body: String) -> HttpResponse {
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The answer that the server runs.
pub(super) async fn health() -> HttpResponse {
    text("text/plain; charset=utf-8", "ok\n".to_owned())
}

/// Reports that the server runs and, if the log is in a store, its role.
async fn detailed_health(State(app): State<Arc<App>>) -> HttpResponse {
    #[cfg(feature = "store")]
    if let Some(store) = &app.store {
        return store_health(&**store);
    }
    let _ = app;
    health().await
}

/// The role of a process for a ledger in a store.
#[cfg(feature = "store")]
pub(super) fn store_health(store: &dyn StoreView) -> HttpResponse {
    text("application/json", store.health().line())
}

/// Whether records can still be written.
async fn ready(State(app): State<Arc<App>>) -> HttpResponse {
    let flushed = tokio::task::spawn_blocking(move || app.ledger.flush()).await;
    match flushed {
        Ok(Ok(())) => text("text/plain; charset=utf-8", "ready\n".to_owned()),
        Ok(Err(error)) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", error.to_string()).response()
        }
        Err(_) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", "the check failed")
            .response(),
    }
}

async fn metrics(State(app): State<Arc<App>>) -> HttpResponse {
    let write = move || {
        app.metrics.text(&app.ledger, |registry| {
            #[cfg(feature = "store")]
            if let Some(store) = &app.store {
                register_store(registry, &store.health());
            }
            #[cfg(not(feature = "store"))]
            let _ = registry;
        })
    };
    let written = tokio::task::spawn_blocking(write).await;
    match written {
        Ok(Ok(body)) => text(METRICS_TYPE, body),
        Ok(Err(failure)) => Problem::from(failure).response(),
        Err(_) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "internal", "the metrics failed in an unexpected way").response()
        }
    }
}

#[cfg(feature = "mcp")]
async fn tools(State(app): State<Arc<App>>, request: Request) -> HttpResponse {
    let role = request.extensions().get::<Role>().copied().unwrap_or(Role::Viewer);
    match app.tools.answer(role, request).await {
        Some(response) => response,
        None => missing_role(),
    }
}

#[cfg(feature = "mcp")]
fn missing_role() -> HttpResponse {
    Problem::new(StatusCode::FORBIDDEN, "wrong_role", "the role has no tools").response()
}

/// The description of all operations.
pub(super) async fn description() -> HttpResponse {
    text("application/json", OPENAPI.to_owned())
}

async fn missing(request: Request) -> HttpResponse {
    let path = request.uri().path().to_owned();
    let detail = format!("there is no path {path:?}\nhint: /openapi.json lists the paths");
    Problem::new(StatusCode::NOT_FOUND, "no_such_path", detail).response()
}

async fn wrong_method(request: Request) -> HttpResponse {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let detail = format!("{path:?} has no method {method}\nhint: /openapi.json lists the methods");
    let mut response =
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "no_such_method", detail).response();
    let methods = methods_of(request.extensions().get::<MatchedPath>().map(MatchedPath::as_str));
    if let Ok(methods) = HeaderValue::from_str(&methods) {
        response.headers_mut().insert(ALLOW, methods);
    }
    response
}

fn methods_of(path: Option<&str>) -> String {
    let path = path.unwrap_or_default();
    let writes = WRITES.iter().filter(|operation| operation.of.path == path);
    let writes = writes.map(|operation| method_word(operation.of.method));
    let reads = READS.iter().filter(|operation| operation.path == path).map(|_| "GET, HEAD");
    let other = match path {
        "/v1/requests" => Some("POST"),
        _ if reads.clone().next().is_none() && writes.clone().next().is_none() => Some("GET, HEAD"),
        _ => None,
    };
    reads.chain(writes).chain(other).collect::<Vec<_>>().join(", ")
}
