//! Requests over HTTP to the servers of a ledger on other machines: one of them holds the ledger, and the others stand
//! by.
//!
//! A request is the message of the socket, at `POST /v1/requests`. It is sent to one server after the other until one
//! executes it, until the patience of the client is over, or until it is asked to stop.
//!
//! Invariants:
//! - The token, and the request itself, go only to an address of the list: an answer that names another one is not
//!   followed.
//! - They leave this machine only encrypted.
//! - A request that is sent again has the same bytes, and so the same key: it is executed once, whichever servers
//!   received it.

use std::fmt;
use std::net::IpAddr;
use std::pin::pin;
use std::str::FromStr;
use std::sync::Once;
use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{StatusCode, Url};
use serde_json::{Map, Value};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::ring;

use plan_ledger::{Error, ErrorKind};

use crate::protocol::{Answer, Code, Failure, text_of_error};

use super::stop::{CallWait, LOOK_INTERVAL, StopCheck};

/// How long a request is sent again while no server executes it: longer than a takeover takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long one server may take to answer. Another server may hold the ledger by then.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// How long a server may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(2);

/// The pause after all servers were asked, which doubles from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The kinds of errors after which another server, or the same one a little later, may execute the request.
const TEMPORARY: [&str; 9] = [
    "busy",
    "disk_full",
    "fenced",
    "io",
    "locked",
    "no_owner",
    "outcome_unknown",
    "poisoned",
    "timeout",
];

/// The address of a server: `https://HOST:PORT`, or `http://` on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress(Url);

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            "expected https://HOST:PORT, or http://127.0.0.1:PORT for a server on this machine";
        let url: Url = text.parse().map_err(|_| expected.to_owned())?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        match (url.scheme(), url.host_str()) {
            ("https", Some(_)) if is_plain => Ok(Self(url)),
            ("http", Some(host)) if is_plain && is_here(host) => Ok(Self(url)),
            ("http", Some(_)) if is_plain => {
                Err(format!("the token would cross the network unencrypted: {expected}"))
            }
            _ => Err(expected.to_owned()),
        }
    }
}

/// Whether a host is this machine.
fn is_here(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl ServerAddress {
    /// The address for requests.
    fn requests(&self) -> String {
        format!("{}/v1/requests", self.0.as_str().trim_end_matches('/'))
    }

    /// Whether another address is that of the same server, whatever its path.
    fn is_origin_of(&self, other: &Url) -> bool {
        self.0.origin() == other.origin()
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// The servers of a ledger.
pub(crate) struct Servers {
    list: Vec<ServerAddress>,
    /// The header with the token; it is not shown.
    token: Option<HeaderValue>,
    /// The server that is asked first.
    next: usize,
    client: reqwest::Client,
    /// `None` once it ends.
    runtime: Option<Runtime>,
    patience: Duration,
}

impl Drop for Servers {
    fn drop(&mut self) {
        // A name that is still being looked up must not hold up the process.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").field("list", &self.list).finish_non_exhaustive()
    }
}

/// The reaction of one server to a request.
#[derive(Debug)]
enum Asked {
    Answered(Answer),
    /// An answer after which another server may execute the request.
    Later(Answer),
    /// Another server of the list holds the ledger.
    HeldBy(usize),
    /// No answer of a server, and why.
    Nothing(String),
}

impl Servers {
    /// The servers at these addresses; the list is not empty.
    ///
    /// # Errors
    /// The token contains characters that cannot be printed; this machine cannot make a connection.
    pub(crate) fn new(list: Vec<ServerAddress>, token: Option<&str>) -> Result<Self, Failure> {
        static PROVIDER: Once = Once::new();
        // It fails only if a provider is installed already, which is fine.
        PROVIDER.call_once(|| drop(ring::default_provider().install_default()));
        let invalid = |_| Failure::Usage("the token of --server has invalid characters".to_owned());
        let token = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")));
        let token = token.transpose().map_err(invalid)?;
        let is_encrypted = list.iter().any(|address| address.0.scheme() == "https");
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_WAIT)
            .timeout(ANSWER_WAIT)
            .no_proxy()
            .redirect(Policy::none());
        // The certificates of the system are of no use without encryption, and take time to read.
        let builder = if is_encrypted { builder } else { builder.tls_certs_only([]) };
        let failed = |why: &dyn fmt::Display| {
            Error::new(ErrorKind::Io, format!("cannot prepare connections to the servers: {why}"))
        };
        let client = builder.build().map_err(|error| failed(&error))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = Some(runtime.map_err(|error| failed(&error))?);
        Ok(Self { list, token, next: 0, client, runtime, patience: PATIENCE })
    }

    /// The same, with another patience.
    #[cfg(test)]
    fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The addresses, as `--server` takes them.
    pub(crate) fn addresses(&self) -> String {
        self.list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Send a message until a server executes it.
    ///
    /// # Errors
    /// `Locked`: no server did within the patience, or before the process was asked to stop. Errors of the ledger are
    /// answers.
    pub(crate) fn call(&mut self, message: &[u8], stop: &StopCheck) -> Result<Answer, Failure> {
        let mut wait = CallWait::new(stop);
        let deadline = Instant::now() + self.patience;
        let mut pause = PAUSE_MIN;
        loop {
            let mut last = None;
            // Each server once, and the one that another server names.
            for _ in 0..=self.list.len() {
                let asked = self.ask(message, &mut wait);
                let others = (self.next + 1) % self.list.len().max(1);
                match asked {
                    Asked::Answered(answer) => return Ok(answer),
                    Asked::HeldBy(server) => {
                        last.get_or_insert(Asked::HeldBy(server));
                        self.next = server;
                    }
                    asked => {
                        last = Some(asked);
                        self.next = others;
                    }
                }
                if Instant::now() >= deadline || wait.is_over() {
                    break;
                }
            }
            if Instant::now() < deadline {
                wait.pause(pause);
            }
            if Instant::now() >= deadline || wait.is_stopped() {
                return self.given_up(last, &mut wait);
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The outcome of a request that no server executed.
    fn given_up(&self, last: Option<Asked>, wait: &mut CallWait) -> Result<Answer, Failure> {
        let why = match last {
            Some(Asked::Later(answer) | Asked::Answered(answer)) => return Ok(answer),
            Some(Asked::Nothing(why)) => why,
            Some(Asked::HeldBy(_)) | None => "none of them holds the ledger".to_owned(),
        };
        let (list, seconds) = (self.addresses(), self.patience.as_secs());
        let when = if wait.is_stopped() {
            "before this process was asked to stop".to_owned()
        } else {
            format!("within {seconds} s")
        };
        let message = format!("no server of {list} executed the request {when}: {why}");
        let hint = "the request may have been executed; if the same command sends it again, it takes effect only once";
        Err(Error::new(ErrorKind::Locked, message).with_hint(hint).into())
    }

    /// Send a message to the next server.
    fn ask(&self, message: &[u8], wait: &mut CallWait) -> Asked {
        let (Some(server), Some(runtime)) = (self.list.get(self.next), &self.runtime) else {
            return Asked::Nothing("there is no server".to_owned());
        };
        let mut request = self
            .client
            .post(server.requests())
            .header(CONTENT_TYPE, "application/json")
            .body(message.to_vec());
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let exchange = async {
            let response = request.send().await?;
            let (status, location) = (response.status(), response.headers().get(LOCATION).cloned());
            Ok::<_, reqwest::Error>((status, location, response.bytes().await?))
        };
        let answered = runtime.block_on(async {
            let mut exchange = pin!(exchange);
            loop {
                match timeout(LOOK_INTERVAL, exchange.as_mut()).await {
                    Ok(answered) => return Some(answered),
                    Err(_) if wait.is_over() => return None,
                    Err(_) => {}
                }
            }
        });
        let Some(answered) = answered else {
            return Asked::Nothing(format!("{server}: no answer yet"));
        };
        match answered {
            Ok((status, location, _)) if status.is_redirection() => {
                self.redirected(server, location.as_ref())
            }
            Ok((status, _, body)) => read_response(server, status, &body),
            Err(error) => Asked::Nothing(format!("{server}: {}", reason(&error))),
        }
    }

    /// Another server holds the ledger. It is asked only if it is in the list: the token and the request are for no
    /// other.
    fn redirected(&self, server: &ServerAddress, location: Option<&HeaderValue>) -> Asked {
        let location = location.and_then(|it| it.to_str().ok()).unwrap_or_default();
        let Ok(url) = location.parse::<Url>() else {
            return Asked::Nothing(format!(
                "{server} does not name the address of the server that holds the ledger"
            ));
        };
        match self.list.iter().position(|other| other.is_origin_of(&url)) {
            Some(found) => Asked::HeldBy(found),
            None => Asked::Nothing(format!(
                "{server} says that {} holds the ledger; that server is not in the list, so it \
                 gets neither the token nor the request",
                url.origin().ascii_serialization()
            )),
        }
    }
}

/// The reason for a missing answer, with all its causes.
fn reason(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    if error.is_timeout() { "no answer in time".to_owned() } else { text }
}

/// The answer in a response.
fn read_response(server: &ServerAddress, status: StatusCode, body: &[u8]) -> Asked {
    if status.is_success() {
        return match serde_json::from_slice(body) {
            Ok(answer) => Asked::Answered(answer),
            // It may have been executed.
            Err(_) => Asked::Nothing(format!("{server}: the answer cannot be read")),
        };
    }
    let problem = serde_json::from_slice::<Map<String, Value>>(body).ok();
    let Some(answer) = problem.and_then(answer_of_problem) else {
        let what = format!("{server}: status {}", status.as_u16());
        return if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            Asked::Nothing(what)
        } else {
            let message = format!("{what}, which is not an answer of `ledger serve --http`");
            Asked::Answered(Answer::from(Failure::Rejected(message)))
        };
    };
    let kind = answer.lines.first().and_then(|line| line.get("kind")).and_then(Value::as_str);
    let is_temporary = kind.is_some_and(|kind| TEMPORARY.contains(&kind));
    if is_temporary { Asked::Later(answer) } else { Asked::Answered(answer) }
}

/// The error line of a problem, as on the socket.
fn answer_of_problem(mut problem: Map<String, Value>) -> Option<Answer> {
    let kind = problem.get("kind")?.as_str()?.to_owned();
    let message = problem.get("detail")?.clone();
    for member in ["type", "status", "title", "detail", "retry_after"] {
        problem.remove(member);
    }
    // Problems of HTTP itself have no exit code.
    let code =
        problem.get("exit_code").and_then(Value::as_u64).and_then(|code| u8::try_from(code).ok());
    let code = code.unwrap_or_else(|| {
        let code = match kind.as_str() {
            "usage" => Code::Usage,
            "no_owner" => Code::Locked,
            "timeout" | "internal" => Code::Io,
            _ => Code::Rejected,
        };
        code.number()
    });
    problem.insert("type".to_owned(), "error".into());
    problem.insert("message".to_owned(), message);
    problem.insert("exit_code".to_owned(), code.into());
    let line = Value::Object(problem);
    let messages = vec![text_of_error(&line)];
    let lines = vec![line];
    Some(Answer { code, lines, messages, acked_by: None })
}

#[cfg(test)]
mod tests {
    //! Goal: a request reaches the server that holds the ledger, unchanged, and no other machine.

    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The head and the body of each request.
    type Seen = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

    /// A server that gives these answers, one after the other and then the last one, and keeps the requests.
    struct Scripted {
        url: String,
        seen: Seen,
    }

    impl Scripted {
        fn start(answers: Vec<String>) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let seen: Seen = Arc::default();
            let kept = Arc::clone(&seen);
            std::thread::spawn(move || {
                for (number, stream) in listener.incoming().enumerate() {
                    let mut stream = BufReader::new(stream.unwrap());
                    let (mut head, mut line) = (String::new(), String::new());
                    while stream.read_line(&mut line).unwrap() > 2 {
                        head.push_str(&line.to_ascii_lowercase());
                        line.clear();
                    }
                    let length =
                        head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                    stream.read_exact(&mut body).unwrap();
                    kept.lock().unwrap().push((head, body));
                    let answer = answers.get(number).or(answers.last()).unwrap();
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                }
            });
            Self { url, seen }
        }

        fn requests(&self) -> usize {
            self.seen.lock().unwrap().len()
        }
    }

    fn response(status: &str, more: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\n{more}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    fn done() -> String {
        response("200 OK", "", r#"{"code":0,"lines":[{"type":"ticked"}],"said":[]}"#)
    }

    fn problem(status: &str, kind: &str) -> String {
        response(status, "", &format!(r#"{{"kind":"{kind}","rejection":null,"detail":"why"}}"#))
    }

    fn redirect(url: &str) -> String {
        let location = format!("location: {url}/v1/requests\r\n");
        response("307 Temporary Redirect", &location, "")
    }

    fn servers(list: &[&str]) -> Servers {
        let list = list.iter().map(|url| url.parse().unwrap()).collect();
        Servers::new(list, Some("a-token-for-tests")).unwrap()
    }

    fn never() -> StopCheck {
        StopCheck::default()
    }

    #[test]
    fn addresses_are_encrypted_or_of_this_machine() {
        let is_one = |text: &str| text.parse::<ServerAddress>().is_ok();
        for address in [
            "https://ledger.example.org",
            "https://10.0.0.7:8443/ledgers/night/",
            "http://127.0.0.1:8080",
            "http://localhost:8080",
            "http://[::1]:8080",
        ] {
            assert!(is_one(address), "{address}");
        }
        for address in [
            "",
            "ledger.example.org",
            "http://ledger.example.org",
            "http://127.0.0.1.example.org",
            "https://user:secret@ledger.example.org",
            "https://ledger.example.org/?a=b",
            "ftp://127.0.0.1",
        ] {
            assert!(!is_one(address), "{address}");
        }
    }

    #[test]
    fn redirect_to_the_list_is_followed_with_the_same_bytes() {
        let owner = Scripted::start(vec![done()]);
        let standby = Scripted::start(vec![redirect(&owner.url)]);
        let mut servers = servers(&[&standby.url, &owner.url]);
        for _ in 0..2 {
            assert_eq!(servers.call(b"{\"once\":\"1\"}", &never()).unwrap().code, 0);
        }
        // The owner is asked first from then on.
        assert_eq!((standby.requests(), owner.requests()), (1, 2));
        let (head, body) = owner.seen.lock().unwrap()[0].clone();
        assert!(head.contains("authorization: bearer a-token-for-tests"), "{head}");
        assert_eq!(body, standby.seen.lock().unwrap()[0].1);
    }

    /// An answer that names a server outside of the list gets neither the token nor the request.
    #[test]
    fn redirect_to_another_machine_is_not_followed() {
        let foreign = Scripted::start(vec![done()]);
        let standby = Scripted::start(vec![redirect(&foreign.url)]);
        let mut servers = servers(&[&standby.url]).with_patience(Duration::from_millis(300));
        let error = servers.call(b"{}", &never()).unwrap_err();
        assert_eq!(error.code(), Code::Locked);
        assert!(error.to_string().contains("that server is not in the list"), "{error}");
        assert!(standby.requests() > 1);
        assert_eq!(foreign.requests(), 0);
        // Nor one that names none, or the same machine under another scheme.
        for location in ["", "location: /v1/requests\r\n", "location: https://127.0.0.1/\r\n"] {
            let odd = Scripted::start(vec![response("307 Temporary Redirect", location, "")]);
            let list = [odd.url.as_str()];
            let mut servers = super::tests::servers(&list).with_patience(Duration::ZERO);
            assert_eq!(servers.call(b"{}", &never()).unwrap_err().code(), Code::Locked);
        }
    }

    #[test]
    fn next_server_is_asked_after_a_failure() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let gone = format!("http://{gone}");
        let waiting = Scripted::start(vec![problem("503 Service Unavailable", "no_owner")]);
        let fenced = Scripted::start(vec![problem("423 Locked", "fenced")]);
        let cut = Scripted::start(vec![
            "HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{".to_owned(),
            done(),
        ]);
        let list = [gone.as_str(), &waiting.url, &fenced.url, &cut.url];
        assert_eq!(servers(&list).call(b"{\"once\":\"1\"}", &never()).unwrap().code, 0);
        let seen = cut.seen.lock().unwrap();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].1, seen[1].1);
    }

    #[test]
    fn refusals_are_final() {
        for (status, kind, code) in [
            ("401 Unauthorized", "no_access", 6),
            ("403 Forbidden", "wrong_role", 6),
            ("400 Bad", "usage", 2),
        ] {
            let refusing = Scripted::start(vec![problem(status, kind)]);
            let other = Scripted::start(vec![done()]);
            let answer = servers(&[&refusing.url, &other.url]).call(b"{}", &never()).unwrap();
            assert_eq!((answer.code, other.requests()), (code, 0), "{kind}");
            assert_eq!(answer.lines[0]["message"], "why");
            assert_eq!(answer.lines[0]["type"], "error");
        }
    }

    /// An answer that says when to try again is the outcome once the patience is over.
    #[test]
    fn last_answer_is_the_outcome_when_the_patience_is_over() {
        let waiting = Scripted::start(vec![problem("503 Service Unavailable", "no_owner")]);
        let mut servers = servers(&[&waiting.url]).with_patience(Duration::from_millis(100));
        let answer = servers.call(b"{}", &never()).unwrap();
        assert_eq!((answer.code, &answer.lines[0]["kind"]), (5, &Value::from("no_owner")));
    }

    /// Regression: a worker that waited for servers that were not there ended a minute after SIGTERM.
    #[test]
    fn client_that_is_asked_to_stop_asks_each_server_once_more() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        // It accepts connections, but answers no request.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let (gone, silent) =
            (format!("http://{gone}"), format!("http://{}", silent.local_addr().unwrap()));
        // It would outlast every test.
        let patience = Duration::from_secs(36_000);
        let stopped = StopCheck::new(|| true);
        for list in [&[&*gone][..], &[&silent], &[&silent, &gone]] {
            let failure = servers(list).with_patience(patience).call(b"{}", &stopped).unwrap_err();
            assert_eq!(failure.code(), Code::Locked);
            let text = failure.to_string();
            assert!(text.contains("before this process was asked to stop"), "{text}");
        }
        // The results that a worker releases at its end are still accepted.
        let live = Scripted::start(vec![done()]);
        let mut list = servers(&[&gone, &live.url]).with_patience(patience);
        assert_eq!(list.call(b"{}", &stopped).unwrap().code, 0);
    }
}
