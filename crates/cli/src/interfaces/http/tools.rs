//! `/mcp`: the tools of the Model Context Protocol over streamable HTTP, each role with its own.
//!
//! A client of the protocol with sessions gets one, which ends when it is idle; the stateless protocol
//! has none. `Host`, `Origin` and the token were checked before.

use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use plan_ledger::Environment;

use crate::interfaces::mcp::{LedgerService, tools_over_http};
use crate::requests::Role;

use super::access::ROLES;
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
            let config = StreamableHttpServerConfig::default()
                .disable_allowed_hosts()
                .with_max_request_body_bytes(MESSAGE_LENGTH_MAX);
            let make = move || Ok(tools_over_http(dir.clone(), environment.clone(), role));
            StreamableHttpService::new(make, Arc::new(LocalSessionManager::default()), config)
        };
        Self { services: ROLES.iter().map(|(role, _)| (*role, of_role(*role))).collect() }
    }

    /// Answers a message with the tools of a role.
    pub(super) async fn answer(&self, role: Role, request: Request) -> Option<HttpResponse> {
        let (_, service) = self.services.iter().find(|(it, _)| *it == role)?;
        Some(service.handle(request).await.map(Body::new))
    }
}

impl std::fmt::Debug for HttpTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpTools").finish_non_exhaustive()
    }
}
