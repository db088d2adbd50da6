//! Listens, and serves connections on a separate thread.
//!
//! The number of connections is limited, and so is the time of each for a head, for reading and for writing. When the
//! server stops, it answers the requests that have arrived, for at most five seconds.

use std::io;
use std::net::SocketAddr;
use std::net::TcpListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::oneshot::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

use plan_ledger::{Environment, Error, ErrorKind};

#[cfg(feature = "store")]
use crate::commands::serve::Waiting;
use crate::commands::serve::{HttpOptions, HttpServer, Serving};
use crate::commands::store::held::HttpAddress;
use crate::interfaces::http::access::{Access, ROLES, RoleToken, new_tokens, read_tokens};
use crate::interfaces::http::app::App;
use crate::interfaces::http::routes::router;
use crate::protocol::Failure;

#[cfg(feature = "store")]
use super::standby::{Front, front_router};
use super::tls::{TlsAcceptor, acceptor, advice};

/// How many connections are open at once. Further ones wait.
const CONNECTIONS_MAX: usize = 256;

/// How many requests and views are executed at once, each on a thread. Further ones wait.
const THREADS_MAX: usize = 64;

/// The time that a client may take for the head of a request, including the pause before it.
const HEAD_WAIT: Duration = Duration::from_secs(30);

/// How long a connection may be idle while a message is read or written.
const IO_WAIT: Duration = Duration::from_secs(60);

/// How long a client may take to agree on encryption.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// How long a stopping server waits for its last responses.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// The pause after a failed `accept`: the process may be out of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The file with the address and the tokens, in the ledger's folder.
const INFO_NAME: &str = "http.json";

/// The file with the address and the tokens.
#[derive(Debug, Serialize)]
struct HttpInfo<'a> {
    /// The address with its scheme.
    address: &'a str,
    /// The tokens that this server made, by role; null where a token file has them.
    tokens: Option<TokensJson<'a>>,
}

/// The tokens of the roles.
#[derive(Debug, Default, Serialize)]
struct TokensJson<'a> {
    operator: &'a str,
    viewer: &'a str,
    worker: &'a str,
}

/// The server for HTTP of one process.
#[derive(Debug, Default)]
pub(crate) struct Http {
    listening: Option<Listening>,
    /// The handler that answers until this process holds the ledger.
    #[cfg(feature = "store")]
    front: Option<Arc<Front>>,
}

/// A server that listens, until this is dropped.
#[derive(Debug)]
struct Listening {
    address: HttpAddress,
    /// The ledger, once it is served.
    app: Option<Arc<App>>,
    info: PathBuf,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// An address at which no request is answered yet, and its access control.
struct Bound {
    listener: StdListener,
    tls: Option<TlsAcceptor>,
    access: Arc<Access>,
    address: HttpAddress,
    info: PathBuf,
}

impl HttpServer for Http {
    fn serve(&mut self, serving: Serving<'_>) -> Result<HttpAddress, Failure> {
        #[cfg(feature = "store")]
        if let (Some(front), Some(listening)) = (&self.front, &mut self.listening) {
            let app = Arc::new(App::new(serving, Arc::clone(front.access())));
            front.hold(router(&app));
            listening.app = Some(app);
            return Ok(listening.address.clone());
        }
        let bound = bind(serving.dir, &serving.environment, serving.options, serving.address)?;
        let app = Arc::new(App::new(serving, Arc::clone(&bound.access)));
        let listening = bound.listen(router(&app), Some(app))?;
        let address = listening.address.clone();
        self.listening = Some(listening);
        Ok(address)
    }

    #[cfg(feature = "store")]
    fn stand_by(&mut self, waiting: Waiting<'_>) -> Result<HttpAddress, Failure> {
        let Waiting { dir, environment, options, address, store } = waiting;
        let bound = bind(dir, &environment, options, address)?;
        let front = Arc::new(Front::new(Arc::clone(&bound.access), store));
        let listening = bound.listen(front_router(&front), None)?;
        let address = listening.address.clone();
        (self.listening, self.front) = (Some(listening), Some(front));
        Ok(address)
    }

    fn end(&mut self) {
        self.listening = None;
        #[cfg(feature = "store")]
        {
            self.front = None;
        }
    }
}

/// Takes an address.
fn bind(
    dir: &Path,
    environment: &Environment,
    options: &HttpOptions,
    address: SocketAddr,
) -> Result<Bound, Failure> {
    let is_local = address.ip().is_loopback();
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => Some(acceptor(certificate, key)?),
        _ if is_local => None,
        _ => {
            let message = format!(
                "{address} can be reached from other machines, and tokens would cross the network \
                 unencrypted\nhint: {}, or listen at 127.0.0.1",
                advice()
            );
            return Err(Failure::Usage(message));
        }
    };
    let failed = |error: io::Error| {
        Failure::Ledger(Error::new(ErrorKind::Io, format!("cannot listen at {address}: {error}")))
    };
    let listener = StdListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let shown = format!("{scheme}://{bound}");
    let own = options.token_file.is_none();
    let tokens = match &options.token_file {
        Some(path) => read_tokens(path)?,
        None => new_tokens(environment),
    };
    let mut hosts = options.hosts.clone();
    hosts.push(bound.ip().to_string());
    if is_local {
        hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    }
    let access = Arc::new(Access::new(&tokens, hosts));
    let info = dir.join(INFO_NAME);
    write_info(&info, &shown, own.then_some(&tokens)).map_err(|error| {
        Failure::Ledger(Error::io("write the address of the server", &info, error))
    })?;
    let address = HttpAddress { clients: clients_address(scheme, bound, options), bound: shown };
    Ok(Bound { listener, tls, access, address, info })
}

/// The address for clients on other machines: the first name that the user gave, otherwise the IP address, unless that
/// stands for all addresses of this machine.
fn clients_address(scheme: &str, bound: SocketAddr, options: &HttpOptions) -> Option<String> {
    let port = bound.port();
    match options.hosts.first() {
        Some(name) => Some(format!("{scheme}://{name}:{port}")),
        None if bound.ip().is_unspecified() => None,
        None => Some(format!("{scheme}://{bound}")),
    }
}

impl Bound {
    /// Starts to answer.
    fn listen(self, router: Router, app: Option<Arc<App>>) -> Result<Listening, Failure> {
        let Self { listener, tls, address, info, .. } = self;
        let shown = address.bound.clone();
        let failed = |error: io::Error| {
            Failure::Ledger(Error::new(ErrorKind::Io, format!("cannot listen at {shown}: {error}")))
        };
        let (stop, stopped) = channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(THREADS_MAX)
            .build()
            .map_err(failed)?;
        let work = move || {
            runtime.block_on(async move {
                if let Ok(listener) = TcpListener::from_std(listener) {
                    accept(listener, tls, router, stopped).await;
                }
            });
            runtime.shutdown_timeout(STOP_WAIT);
        };
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(work);
        let thread = Some(thread.map_err(failed)?);
        Ok(Listening { address, app, info, stop: Some(stop), thread })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(app) = &self.app {
            app.stop();
        }
        if let Some(stop) = self.stop.take() {
            // The thread may have ended.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // A reader that finds the file takes the address for one that is served.
        let _ = std::fs::remove_file(&self.info);
    }
}

/// Writes the file with the address and the tokens, for its owner only.
fn write_info(path: &Path, address: &str, tokens: Option<&Vec<RoleToken>>) -> io::Result<()> {
    let mut json = TokensJson::default();
    for RoleToken { role, token } in tokens.into_iter().flatten() {
        let word = ROLES.iter().find(|(it, _)| it == role).map_or("", |(_, word)| *word);
        match word {
            "operator" => json.operator = token,
            "worker" => json.worker = token,
            _ => json.viewer = token,
        }
    }
    let info = HttpInfo { address, tokens: tokens.map(|_| json) };
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    // A temporary file has mode 0600, and replaces the file of an earlier server.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, &info)?;
    io::Write::write_all(&mut file, b"\n")?;
    file.persist(path)?;
    Ok(())
}

/// Serves a router on the connections of this server until the process ends.
///
/// # Errors
/// The address cannot be used.
#[cfg(feature = "mcp")]
pub fn serve_router(address: SocketAddr, router: Router) -> io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let (_stop, stopped) = channel();
        accept(TcpListener::bind(address).await?, None, router, stopped).await;
        Ok(())
    })
}

/// Accepts connections until the server stops.
async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    mut stopped: Receiver<()>,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            _ = &mut stopped => break,
        };
        let (Ok(permit), Ok((stream, _))) = (permit, accepted) else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (router, watcher, tls) = (router.clone(), graceful.watcher(), tls.clone());
        tokio::spawn(async move {
            // A response is one write, and a client waits for it.
            let _ = stream.set_nodelay(true);
            match tls {
                None => serve(stream, router, watcher, permit).await,
                Some(tls) => {
                    let agreed = tokio::time::timeout(HANDSHAKE_WAIT, tls.accept(stream)).await;
                    if let Ok(Ok(stream)) = agreed {
                        serve(stream, router, watcher, permit).await;
                    }
                }
            }
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(STOP_WAIT, graceful.shutdown()).await;
}

/// Serves one connection.
async fn serve<S>(stream: S, router: Router, watcher: Watcher, permit: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let mut stream = TimeoutStream::new(stream);
    stream.set_read_timeout(Some(IO_WAIT));
    stream.set_write_timeout(Some(IO_WAIT));
    let stream = TokioIo::new(Box::pin(stream));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT);
    let connection = http.serve_connection(stream, TowerToHyperService::new(router));
    // An error is the client's fault: it sent invalid HTTP, was too slow, or disconnected.
    let _ = watcher.watch(connection).await;
    drop(permit);
}
