//! `ledger serve`: takes the writer lock and executes the requests of other processes.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::{Environment, Error, ErrorKind, Ledger};

use crate::commands::store::held::{HeldLog, HttpAddress};
use crate::commands::store::lines::HeldStoreJson;
#[cfg(feature = "store")]
use crate::commands::store::lines::StandbyLine;
use crate::commands::store::lines::StoreNewsLine;
#[cfg(feature = "store")]
use crate::commands::store::{Before, HoldOptions, held::StoreView, hold, standby_text};
use crate::commands::work::{JudgeProcess, expect_judge};
use crate::options::{AsJson, LedgerOption, environment, open_ledger};
use crate::output::{Code, Failure, print_message, print_result};
use crate::runner::{StopRequest, keep_left, take_over_dead_claims};
use crate::server::{check_root, expect_outside, expect_unbound, keep_root, while_serving};
use crate::signals::StopSignals;

/// The examples, with those of a store where the program has them.
macro_rules! examples {
    ($store:literal) => {
        concat!(
            "\
Examples:
  ledger serve &                                   keep the ledger open, so that claims are fast
  ledger claim --worker me                         is carried out by the server
  ledger serve --http                              also over HTTP; http.json has address and tokens
  ledger serve --http 127.0.0.1:8080               at this port; a browser shows the run there
  ledger serve --until-eof <pipe                   until the other end of the pipe is closed
  ledger serve --checks                            with a judge that checks what is reported
",
            $store,
            "
The server records expired leases, delays and deadlines, and releases the steps of processes of this
machine that are gone. With --checks a child process of its own is the judge (`ledger work
--judge-only --wait`): it does not start inside an attempt or an agent session. The server ends on Ctrl-C or SIGTERM, and after a failed write; then each command opens
the ledger itself."
        )
    };
}

#[cfg(not(feature = "store"))]
const EXAMPLES: &str = examples!("");

#[cfg(feature = "store")]
const EXAMPLES: &str = examples!(
    "  ledger serve --store s3://my-ledgers/night       a result counts only when the store has it
  ledger serve --store s3://my-ledgers/night --ack bounded:5s
                                                   when it is on this disk, and the store is at most 5 s behind
  ledger serve --store s3://my-ledgers/night --standby
                                                   on a second machine: takes over when the first is gone

With --store the log is in the store, and the folder is a copy: if there is none, it is restored. With --ack
bounded or local the loss of this machine loses what was not shipped yet; the server says when the store lags
and when it is caught up, ships everything before it ends, and fails if it cannot. A standby
takes over when the owner ends, shows no sign of life for the lease, or its HTTP port refuses connections
for a second. The process that it replaced answers no request any more. The exit code is 5 if a live process
holds the ledger, 6 if another process took over, the folder has diverged or the store breaks a promise, and
7 if the store does not answer.
"
);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    place: LedgerOption,
    /// Stop when standard input ends, so that the server ends with the program that started it
    #[arg(long)]
    until_eof: bool,
    /// Check reported steps in a separate process, with commands that a person approved, as `ledger
    /// work --judge-only` does
    #[arg(long)]
    checks: bool,
    #[command(flatten)]
    json: AsJson,
    #[command(flatten)]
    http: HttpOptions,
    #[cfg(feature = "store")]
    #[command(flatten)]
    store: HoldOptions,
    /// Follow the store with this folder, and take over when the owner is gone
    #[cfg(feature = "store")]
    #[arg(long, requires = "store", help_heading = "Object store")]
    standby: bool,
}

/// How the ledger is served over HTTP.
#[derive(Debug, Args)]
#[command(next_help_heading = "HTTP")]
pub(crate) struct HttpOptions {
    /// Serve HTTP, too [default address: 127.0.0.1 and a free port]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0",
        value_parser = address)]
    http: Option<SocketAddr>,
    /// Accept the tokens in this file, `ROLE TOKEN` on each line, instead of new ones
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) token_file: Option<PathBuf>,
    /// A further name under which clients reach the server
    #[arg(long = "http-host", value_name = "NAME", requires = "http")]
    pub(crate) hosts: Vec<String>,
    /// The certificate with its chain, in PEM: required unless only this machine reaches the address
    #[arg(long, value_name = "FILE", requires = "http", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// The address in an argument.
fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an IP address and a port, such as 127.0.0.1:8080 or [::1]:8080; port 0 is a \
                    free one";
    text.parse().map_err(|_| expected.to_owned())
}

/// The common parts for the servers of all interfaces.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only a server of HTTP reads it"))]
pub(crate) struct Serving<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) environment: Environment,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) options: &'a HttpOptions,
    pub(crate) address: SocketAddr,
    /// The log in a store, if it has one.
    #[cfg(feature = "store")]
    pub(crate) store: Option<Arc<dyn StoreView>>,
}

/// The common parts for the servers of all interfaces while another process holds the ledger.
#[cfg(feature = "store")]
pub(crate) struct Waiting<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) environment: Environment,
    pub(crate) options: &'a HttpOptions,
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<dyn StoreView>,
}

pub(crate) trait HttpServer {
    /// Serve a ledger.
    fn serve(&mut self, serving: Serving<'_>) -> Result<HttpAddress, Failure>;

    /// Listen already while another process holds the ledger, and tell clients its address.
    #[cfg(feature = "store")]
    fn stand_by(&mut self, waiting: Waiting<'_>) -> Result<HttpAddress, Failure>;

    /// Stop to listen, and let go of the ledger.
    fn end(&mut self);
}

/// A program without a server for HTTP.
#[cfg(not(feature = "http"))]
pub(crate) struct NoHttp;

#[cfg(not(feature = "http"))]
impl HttpServer for NoHttp {
    fn serve(&mut self, _serving: Serving<'_>) -> Result<HttpAddress, Failure> {
        Err(crate::protocol::failure::left_out::LeftOut::HTTP.failure("--http"))
    }

    fn end(&mut self) {}
}

/// Ends a server for HTTP when it is dropped.
struct EndOnDrop<'a>(&'a mut dyn HttpServer);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The server is ready.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ServingLine {
    /// Whether a judge of the server checks reported steps.
    checks: bool,
    /// The address for HTTP.
    http: Option<String>,
    /// The last record of the ledger.
    seq: u64,
    /// The log in a store; null if the log is in the folder alone.
    store: Option<HeldStoreJson>,
}

/// How often the server checks for due timers and for signals.
const TICK_INTERVAL: Duration = Duration::from_millis(50);

/// How often it looks for claims of processes that are gone: their leases may last for hours.
const DEAD_CLAIMS_EVERY: Duration = Duration::from_secs(2);

/// Ends the claims of dead processes, and keeps the results of a dead runner's workers. Damage does
/// not end the server: each affected request gets the error.
fn end_dead_claims(ledger: &Ledger, dir: &Path) -> Result<(), Failure> {
    let kept = keep_left(ledger, dir, None).and_then(|()| take_over_dead_claims(ledger, dir));
    let notes = match kept.map_err(Failure::from) {
        Err(failure) if failure.code() == Code::Damaged => Vec::new(),
        found => found?,
    };
    for note in notes {
        print_message(&note);
    }
    Ok(())
}

/// Serves a ledger until a signal.
pub(crate) fn serve(args: &ServeArgs, http: &mut dyn HttpServer) -> Result<Code, Failure> {
    let http = EndOnDrop(http);
    let dir = &args.place.dir;
    let signals = StopSignals::register(dir)?;
    expect_outside(std::process::id(), dir)?;
    if args.checks {
        expect_judge(dir)?;
    }
    if args.until_eof {
        signals.stop_when_input_ends(dir)?;
    }
    let is_stopped = || signals.request() != StopRequest::None;
    let opened = {
        // A store that gives no answer, or another lock holder, must not hold up the end.
        let ending = stopped_early(dir, Code::Success);
        let _wait = signals.end_waits(dir, ending)?;
        open(args, &mut *http.0, &is_stopped)?
    };
    let Some((ledger, mut store)) = opened else { return Ok(Code::Success) };
    let ledger = Arc::new(ledger);
    check_root(dir, &ledger, &environment())?;
    // The worker that starts this server may be the next of one that was killed.
    end_dead_claims(&ledger, dir)?;
    let seq = ledger.head().seq;
    let unserved = Cell::new(None);
    let note = |error: &str| unserved.set(Some(error.to_owned()));
    let served = while_serving(&ledger, dir, note, || {
        // It ends before the ledger is closed.
        let http = http;
        if let Some(error) = unserved.take() {
            return Err(Error::new(ErrorKind::Io, error).into());
        }
        let listening = args.http.http.map(|address| {
            http.0.serve(Serving {
                dir,
                environment: environment(),
                ledger: Arc::clone(&ledger),
                options: &args.http,
                address,
                #[cfg(feature = "store")]
                store: store.as_ref().map(|store| store.view()),
            })
        });
        let address = listening.transpose()?;
        if let Some(store) = &mut store {
            store.start(address.as_ref())?;
        }
        let held = store.as_ref().map(|store| store.json());
        let checks = args.checks;
        let mut judge = checks.then(|| JudgeProcess::start(dir, args.json.0)).transpose()?;
        let line = ServingLine { checks, http: address.map(|it| it.bound), seq, store: held };
        print_result(args.json.0, &line, &serving_text(dir, &line))?;
        let mut looked = Instant::now();
        while !is_stopped() {
            if let Some(store) = &mut store {
                for news in store.check()? {
                    match news {
                        StoreNewsLine::Lag(lag) => print_result(args.json.0, &lag, &lag.text())?,
                        StoreNewsLine::Damage(damage) => {
                            print_result(args.json.0, &damage, &damage.text())?;
                        }
                    }
                }
            }
            ledger.tick()?;
            if looked.elapsed() >= DEAD_CLAIMS_EVERY {
                looked = Instant::now();
                end_dead_claims(&ledger, dir)?;
                if let Some(judge) = &mut judge {
                    judge.restart_if_ended()?;
                }
            }
            // After a failed write, stop and release the lock, so that another process can open the
            // ledger.
            ledger.flush()?;
            std::thread::sleep(TICK_INTERVAL);
        }
        Ok(Code::Success)
    });
    let served = match &store {
        Some(store) => served.map_err(|failure| store.explain(failure)),
        None => served,
    };
    keep_root(dir, &ledger);
    let served = match &mut store {
        Some(store) => {
            let finished = store.finish(served.is_err());
            served.and_then(|code| finished.map(|()| code))
        }
        None => served,
    };
    // A view that is still being read keeps the ledger; dropping it then releases the lock.
    let closed = Arc::into_inner(ledger).map(Ledger::close);
    if let (Some(store), Some(Ok(()))) = (&mut store, &closed) {
        store.release();
    }
    match closed {
        Some(Err(error)) if served.is_ok() => Err(error.into()),
        _ => served,
    }
}

/// Ends a process that was asked to stop before it had the ledger.
pub(super) fn stopped_early(dir: &Path, code: Code) -> impl FnOnce() -> u8 + Send + 'static {
    let text = format!("stopped before {} was open", dir.display());
    move || {
        print_message(&text);
        code.number()
    }
}

/// A ledger, and its log in a store if it has one.
type Opened = (Ledger, Option<Box<dyn HeldLog>>);

/// Opens the ledger. `None` if the server is asked to stop before.
fn open(
    args: &ServeArgs,
    http: &mut dyn HttpServer,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<Opened>, Failure> {
    let (dir, environment) = (&args.place.dir, environment());
    #[cfg(feature = "store")]
    if args.store.is_given() {
        let mut news = |line: StandbyLine, store: &Arc<dyn StoreView>| {
            let listening = args.http.http.map(|address| {
                let (environment, store) = (environment.clone(), Arc::clone(store));
                http.stand_by(Waiting { dir, environment, options: &args.http, address, store })
            });
            let line = line.with_http(listening.transpose()?.map(|address| address.bound));
            print_result(args.json.0, &line, &standby_text(dir, &line))
        };
        let before = if args.standby { Before::StandBy } else { Before::Look };
        let held = hold((&args.store, before), dir, &environment, is_stopped, &mut news)?;
        return Ok(held.map(|held| {
            held.report.notes.iter().for_each(|note| print_message(note));
            (held.ledger, Some(held.log))
        }));
    }
    #[cfg(not(feature = "store"))]
    let _ = (http, is_stopped);
    expect_unbound(dir, &environment, "ledger serve")?;
    Ok(Some((open_ledger(dir, &environment)?, None)))
}

fn serving_text(dir: &Path, line: &ServingLine) -> String {
    let mut text = format!("serving {}", dir.display());
    if let Some(address) = &line.http {
        text = format!("{text}, and at {address}");
    }
    if let Some(store) = &line.store {
        text = format!("{text}, with its log in {}", store.text());
    }
    if line.checks {
        text.push_str("; a judge checks what is reported, with commands that a person approved");
    }
    text
}
