//! Sends the requests of all clients: encrypted, or within this machine. It remembers the name that the server gives
//! itself, and reads the store's clock from each response.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Once, PoisonError};

use jiff::fmt::rfc2822;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use tokio_rustls::rustls::crypto::ring;

use plan_ledger::internals::store::StoreTime;

/// Connects clients, and sees each of their requests.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    allow_http: bool,
    server: Arc<Mutex<Option<String>>>,
}

/// The time in the header `Date` of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseTime(pub(crate) StoreTime);

/// The longest name of a server that is kept.
const SERVER_NAME_MAX: usize = 64;

impl Transport {
    pub(crate) fn new(allow_http: bool) -> Self {
        static PROVIDER: Once = Once::new();
        // It fails only if a provider is installed already, which is fine.
        PROVIDER.call_once(|| drop(ring::default_provider().install_default()));
        Self { allow_http, server: Arc::default() }
    }

    /// The name that the server gave itself in its last response.
    pub(crate) fn server(&self) -> Option<String> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a request may be sent to an address without encryption.
    pub(crate) fn permits(&self, scheme: Option<&str>, host: Option<&str>) -> bool {
        scheme == Some("https") || self.allow_http || host.is_some_and(is_near)
    }

    fn remember(&self, response: &HttpResponse) {
        let name = response.headers().get("server").and_then(|name| name.to_str().ok());
        if let Some(name) = name {
            let name = name.chars().take(SERVER_NAME_MAX).collect();
            *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
        }
    }
}

/// Whether a host is this machine, or the service of a cloud that gives its machines credentials.
fn is_near(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
        }
        Err(_) => ["localhost", "metadata", "metadata.google.internal"].contains(&host),
    }
}

impl HttpConnector for Transport {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Sender { client, transport: self.clone() }))
    }
}

/// A client that inspects its responses.
#[derive(Debug)]
struct Sender {
    client: HttpClient,
    transport: Transport,
}

/// A request that would have left this machine without encryption.
#[derive(Debug)]
pub(crate) struct NotEncrypted;

impl fmt::Display for NotEncrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request would not be encrypted, and was not sent")
    }
}

impl std::error::Error for NotEncrypted {}

impl HttpService for Sender {
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let uri = request.uri();
            if !self.transport.permits(uri.scheme_str(), uri.host()) {
                return Err(HttpError::new(HttpErrorKind::Unknown, NotEncrypted));
            }
            let mut response = self.client.execute(request).await?;
            self.transport.remember(&response);
            let date = response.headers().get("date").and_then(|date| date.to_str().ok());
            if let Some(time) = date.and_then(response_time) {
                response.extensions_mut().insert(ResponseTime(time));
            }
            Ok(response)
        })
    }
}

fn response_time(date: &str) -> Option<StoreTime> {
    let time = rfc2822::parse(date).ok()?.timestamp().as_microsecond();
    u64::try_from(time).ok().map(StoreTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_within_this_machine_may_be_plain() {
        let strict = Transport::new(false);
        let permitted = |scheme, host| strict.permits(Some(scheme), Some(host));
        for host in ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "169.254.169.254"] {
            assert!(permitted("http", host), "{host}");
        }
        for host in ["localhost.example", "10.0.0.1", "store", "0.0.0.0", "[fe80::1]", ""] {
            assert!(!permitted("http", host), "{host}");
            assert!(permitted("https", host), "{host}");
        }
        assert!(Transport::new(true).permits(Some("http"), Some("10.0.0.1")));
        assert!(!strict.permits(None, None));
    }

    #[test]
    fn date_of_a_response_is_read() {
        let time = response_time("Fri, 27 Nov 2026 07:36:15 GMT");
        assert_eq!(time, Some(StoreTime(1_795_764_975_000_000)));
        assert_eq!(response_time("yesterday"), None);
    }
}
