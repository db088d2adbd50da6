//! The HTTP answers of a process while another one holds the ledger: the address of that process.
//!
//! When this process takes over, the same port and the same connections serve the ledger.
//!
//! Invariant: a token is checked here as by the owner, and a request is never executed here.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, LOCATION, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use crate::commands::store::held::StoreView;
use crate::interfaces::http::access::Access;
use crate::interfaces::http::metrics::store_text;
use crate::interfaces::http::problem::{HttpResponse, Problem};
use crate::interfaces::http::routes::{
    METRICS_TYPE, OPEN_PATHS, description, health, store_health, text,
};
use crate::output::Code;

/// When a client tries again that found no owner, in seconds.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Answers at a port of a process that may take over the ledger.
#[derive(Debug)]
pub(super) struct Front {
    access: Arc<Access>,
    store: Arc<dyn StoreView>,
    /// The ledger, once this process holds it.
    ledger: OnceLock<Router>,
}

/// Answers for the ledger, or else with where it is.
pub(super) fn front_router(front: &Arc<Front>) -> Router {
    Router::new().fallback(answer).with_state(Arc::clone(front))
}

async fn answer(State(front): State<Arc<Front>>, request: Request) -> HttpResponse {
    match front.ledger.get() {
        Some(router) => match TowerToHyperService::new(router.clone()).call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        None => front.standing_by(request).await,
    }
}

impl Front {
    pub(super) fn new(access: Arc<Access>, store: Arc<dyn StoreView>) -> Self {
        Self { access, store, ledger: OnceLock::new() }
    }

    pub(super) fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// Serve the ledger from now on.
    pub(super) fn hold(&self, router: Router) {
        // A process takes over once.
        let _ = self.ledger.set(router);
    }

    async fn standing_by(&self, request: Request) -> HttpResponse {
        let path = request.uri().path().to_owned();
        let mut response = match self.checked(&request) {
            Err(problem) => problem.response(),
            Ok(()) => match path.as_str() {
                "/healthz" => health().await,
                "/v1/health" => store_health(&*self.store),
                "/openapi.json" => description().await,
                "/metrics" => match store_text(&self.store.health()) {
                    Ok(body) => text(METRICS_TYPE, body),
                    Err(failure) => Problem::from(failure).response(),
                },
                "/v1/ready" => {
                    let detail = "this process is a standby: another one holds the ledger";
                    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail).response()
                }
                _ => self.elsewhere(&request),
            },
        };
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn checked(&self, request: &Request) -> Result<(), Problem> {
        self.access.expect_own(request.headers(), request.uri())?;
        if OPEN_PATHS.contains(&request.uri().path()) {
            return Ok(());
        }
        self.access.role(request.headers()).map(drop)
    }

    /// The address of the ledger, or the time for the next try.
    fn elsewhere(&self, request: &Request) -> HttpResponse {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let location = self.store.owner().map(|owner| format!("{owner}{path}"));
        if let Some(location) = location
            && let Ok(header) = HeaderValue::from_str(&location)
        {
            let detail = format!("another process holds the ledger: {location}");
            let status = StatusCode::TEMPORARY_REDIRECT;
            let mut response = problem(status, "not_owner", detail).response();
            response.headers_mut().insert(LOCATION, header);
            return response;
        }
        let detail = "this process is a standby, and does not know the address of the process that holds the ledger";
        let mut problem = problem(StatusCode::SERVICE_UNAVAILABLE, "no_owner", detail.to_owned());
        problem.retry_after = Some(RETRY_AFTER_SECONDS.into());
        let mut response = problem.response();
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        response
    }
}

/// A problem with the exit code of a ledger that another process holds.
fn problem(status: StatusCode, kind: &str, detail: String) -> Problem {
    let mut problem = Problem::new(status, kind, detail);
    problem.exit_code = Some(Code::Locked.number().into());
    problem
}

#[cfg(test)]
mod tests {
    //! Goal: a standby gives clients with a valid token the address of the ledger, and executes no
    //! request until it holds the ledger.

    use std::sync::Mutex;

    use axum::body::{Body, to_bytes};
    use axum::routing::any;

    use crate::commands::store::held::HoldDoubt;
    use crate::commands::store::lines::StoreHealthLine;
    use crate::interfaces::http::access::RoleToken;
    use crate::requests::Role;

    use super::*;

    #[derive(Debug, Default)]
    struct Known(Mutex<Option<String>>);

    impl StoreView for Known {
        fn health(&self) -> StoreHealthLine {
            StoreHealthLine::of_standby(7, self.owner())
        }

        fn owner(&self) -> Option<String> {
            self.0.lock().unwrap().clone()
        }

        fn doubt(&self) -> Option<HoldDoubt> {
            None
        }
    }

    fn ask(front: &Arc<Front>, token: &str, path: &str) -> (u16, Option<String>, String) {
        let request = Request::builder()
            .uri(path)
            .header("host", "127.0.0.1:1")
            .header("authorization", format!("Bearer {token}"))
            .body(Body::empty())
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let service = TowerToHyperService::new(front_router(front));
            let response = service.call(request).await.unwrap();
            let headers = response.headers();
            let header = headers.get(LOCATION).or(headers.get(RETRY_AFTER));
            let header = header.map(|value| value.to_str().unwrap().to_owned());
            let status = response.status().as_u16();
            let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
            (status, header, String::from_utf8(body.to_vec()).unwrap())
        })
    }

    #[test]
    fn standby_names_the_owner_until_it_holds_the_ledger() {
        let token = RoleToken { role: Role::Worker, token: "a-token-of-a-worker".to_owned() };
        let access = Arc::new(Access::new(&[token], vec!["127.0.0.1".to_owned()]));
        let known = Arc::new(Known::default());
        let front = Arc::new(Front::new(access, Arc::<Known>::clone(&known)));
        let worker = "a-token-of-a-worker";

        let (status, header, body) = ask(&front, worker, "/v1/requests");
        assert_eq!((status, header.as_deref()), (503, Some("1")));
        let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((&problem["kind"], &problem["retry_after"]), (&"no_owner".into(), &1.into()));

        *known.0.lock().unwrap() = Some("https://a.example.org:8443".to_owned());
        let (status, header, body) = ask(&front, worker, "/v1/runs/r?at=7");
        assert_eq!(status, 307, "{body}");
        assert_eq!(header.as_deref(), Some("https://a.example.org:8443/v1/runs/r?at=7"));
        for path in ["/v1/requests", "/v1/claims", "/mcp", "/none"] {
            assert_eq!(ask(&front, "another-token-of-one", path).0, 401, "{path}");
            assert_eq!(ask(&front, worker, path).0, 307, "{path}");
        }
        assert_eq!(ask(&front, "", "/metrics").0, 401);
        let (status, _, body) = ask(&front, worker, "/metrics");
        assert_eq!(status, 200);
        assert!(body.contains("plan_ledger_store_role{role=\"standby\"} 1\n"), "{body}");
        assert_eq!(ask(&front, "", "/healthz").0, 200);
        assert_eq!(ask(&front, "", "/v1/ready").0, 503);
        let (status, _, body) = ask(&front, "", "/v1/health");
        let health: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (status, &health["role"], &health["epoch"]),
            (200, &"standby".into(), &7.into())
        );
        assert_eq!(health["owner"], "https://a.example.org:8443");

        front.hold(Router::new().fallback(any(|| async { "the ledger" })));
        assert_eq!(ask(&front, worker, "/v1/requests"), (200, None, "the ledger".to_owned()));
    }
}
