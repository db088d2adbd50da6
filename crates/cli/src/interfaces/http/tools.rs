//! `/mcp`: the tools of the Model Context Protocol over streamable HTTP, each role with its own.
//!
//! A client of the protocol with sessions gets one, which ends when it is idle; the stateless protocol has no sessions.
//! `Host`, `Origin` and the token were checked before.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::any;
use rmcp::handler::server::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use plan_ledger::Environment;

use crate::interfaces::mcp::{LedgerService, tools_over_http};
use crate::requests::Role;

use super::access::{Access, ROLES};
use super::problem::HttpResponse;

/// The largest message.
const MESSAGE_LENGTH_MAX: usize = 1 << 20;

type ToolsOfRole = StreamableHttpService<LedgerService, LocalSessionManager>;

/// The services, one for each role.
pub(super) struct HttpTools {
    services: Vec<(Role, ToolsOfRole)>,
}

impl HttpTools {
    pub(super) fn new(dir: &Path, environment: &Environment) -> Self {
        let of_role = |role| {
            let (dir, environment) = (dir.to_owned(), environment.clone());
            transport(move || tools_over_http(dir.clone(), environment.clone(), role))
        };
        Self { services: ROLES.iter().map(|(role, _)| (*role, of_role(*role))).collect() }
    }

    /// Answers a message with the tools of a role.
    pub(super) async fn answer(&self, role: Role, request: Request) -> Option<HttpResponse> {
        let (_, service) = self.services.iter().find(|(it, _)| *it == role)?;
        Some(service.handle(request).await.map(Body::new))
    }
}

/// The protocol over HTTP; `make` makes the service of each session.
fn transport<S: ServerHandler>(
    make: impl Fn() -> S + Send + Sync + 'static,
) -> StreamableHttpService<S, LocalSessionManager> {
    // The checks of this server know its names.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(MESSAGE_LENGTH_MAX);
    let sessions = Arc::new(LocalSessionManager::default());
    StreamableHttpService::new(move || Ok(make()), sessions, config)
}

/// Another service at `/mcp`, with the transport and the checks of this server, but without tokens: the conformance
/// suite of the protocol prescribes the answers of a service.
pub fn tool_router<S: ServerHandler>(make: impl Fn() -> S + Send + Sync + 'static) -> Router {
    let hosts = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let access = Arc::new(Access::new(&[], hosts.to_vec()));
    let service = transport(make);
    let answer = move |request: Request| async move {
        match access.expect_own(request.headers(), request.uri()) {
            Ok(()) => service.handle(request).await.map(Body::new),
            Err(problem) => problem.response(),
        }
    };
    Router::new().route("/mcp", any(answer))
}

impl std::fmt::Debug for HttpTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpTools").finish_non_exhaustive()
    }
}
