//! Processes of `ledger` that keep running, and a client of their HTTP.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plan_ledger::internals::store::{
    AckMode, BoundLog, DirectoryObjects, MonotonicClock, StoreClient, StoreKeeper, StoreOpening,
    open_bound,
};
use plan_ledger::{Environment, Ledger};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long a test waits for anything: the processes share a machine with much other work.
const WAIT_MAX: Duration = Duration::from_secs(180);

/// Opens the log of a folder as a machine that keeps it in a store: a record counts when the store has it.
pub(crate) fn open_in_store(
    dir: &Path,
    node: u8,
    client: &StoreClient,
    environment: &Environment,
) -> BoundLog {
    let (options, time) = (environment.log_options(), environment.clock.now());
    let clock = MonotonicClock::new(|| Duration::ZERO);
    let opening = StoreOpening { ack: AckMode::Store, node: [node; 16], time, clock };
    open_bound(dir, options, client, &opening).unwrap()
}

/// The same as a ledger.
pub(crate) fn open_ledger_in_store(
    dir: &Path,
    node: u8,
    client: &StoreClient,
    environment: &Environment,
) -> (Ledger, Arc<StoreKeeper>) {
    let BoundLog { log, recovery, keeper, .. } = open_in_store(dir, node, client, environment);
    (Ledger::of_log(log, &recovery, environment).unwrap().0, keeper)
}

/// A place in the store with nothing in it, and folders for machines.
pub(crate) struct Place {
    pub(crate) url: String,
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let id = folder.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.');
        let url = match std::env::var("LEDGER_STORE_URL") {
            Ok(base) => format!("{base}/{id}"),
            Err(_) => format!("file://{}/store", folder.path().display()),
        };
        if let Some(path) = url.strip_prefix("file://") {
            std::fs::create_dir_all(path).unwrap();
        }
        Self { url, folder }
    }

    /// A place whose store is a folder, whatever the environment says.
    pub(crate) fn in_folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}/store", folder.path().display());
        std::fs::create_dir(folder.path().join("store")).unwrap();
        Self { url, folder }
    }

    /// The client of a store that is a folder.
    pub(crate) fn client(&self) -> StoreClient {
        let objects = DirectoryObjects::open(&self.path("store")).unwrap();
        StoreClient::new(self.url.clone(), Arc::new(objects), |_| false)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command with the credentials of the store. `URL` and words that begin with `@` name the store and the
    /// folders of this place.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
        command.env_clear().env("NO_COLOR", "1").env("COLUMNS", "100").env("TZ", "UTC");
        let names = ["AWS_", "AZURE_", "AZURITE_", "PATH"];
        let is_passed = |name: &str| names.iter().any(|start| name.starts_with(start));
        command.envs(std::env::vars().filter(|(name, _)| is_passed(name)));
        for word in line.split(' ') {
            match word.strip_prefix('@') {
                Some(name) => command.arg(self.path(name)),
                None if word == "URL" => command.arg(&self.url),
                None => command.arg(word),
            };
        }
        command
    }

    /// Run a command to its end: exit code, standard output, standard error.
    pub(crate) fn run(&self, line: &str) -> (i32, String, String) {
        let output = self.command(line).stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    /// The standard output of a command that succeeds.
    #[track_caller]
    pub(crate) fn ledger(&self, line: &str) -> String {
        let (code, out, err) = self.run(line);
        assert_eq!(code, 0, "{line}\n{out}\n{err}");
        out
    }

    /// The same as one line of JSON.
    #[track_caller]
    pub(crate) fn json(&self, line: &str) -> Value {
        serde_json::from_str(self.ledger(line).lines().next().unwrap()).unwrap()
    }

    /// Start a command that keeps running. A server ends with this process, even if that is killed.
    pub(crate) fn start(&self, line: &str) -> Running {
        let mut command = self.command(line);
        if line.starts_with("serve ") {
            command.arg("--until-eof");
        }
        Running::start(&mut command)
    }

    /// Create a ledger with this plan as run `r` in a folder.
    pub(crate) fn plan(&self, folder: &str, plan: &str) {
        self.ledger(&format!("init --ledger @{folder}"));
        std::fs::write(self.path("plan.yaml"), plan).unwrap();
        self.ledger(&format!("plan propose @plan.yaml --run r --ledger @{folder}"));
    }
}

/// A process that runs. It is killed with its owner.
pub(crate) struct Running {
    child: Child,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

fn collect(stream: impl Read + Send + 'static, to: &Arc<Mutex<String>>) -> JoinHandle<()> {
    let to = Arc::clone(to);
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).is_ok_and(|length| length > 0) {
            to.lock().unwrap().push_str(&line);
            line.clear();
        }
    })
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (Arc::default(), Arc::default());
        let readers = vec![
            collect(child.stdout.take().unwrap(), &out),
            collect(child.stderr.take().unwrap(), &err),
        ];
        Self { child, out, err, readers }
    }

    pub(crate) fn out(&self) -> String {
        self.out.lock().unwrap().clone()
    }

    pub(crate) fn err(&self) -> String {
        self.err.lock().unwrap().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// The memory that it has in use, in KiB.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Wait until a line of standard output has this in it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + WAIT_MAX;
        while !self.out().contains(text) {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.readers.drain(..).for_each(|reader| reader.join().unwrap());
                if self.out().contains(text) {
                    return;
                }
                panic!("{status} before `{text}`\n{}\n{}", self.out(), self.err());
            }
            assert!(Instant::now() < until, "no `{text}`\n{}\n{}", self.out(), self.err());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Wait for its end. Returns the exit code; -1 if a signal ended it.
    #[track_caller]
    pub(crate) fn end(&mut self) -> i32 {
        let until = Instant::now() + WAIT_MAX;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.readers.drain(..).for_each(|reader| reader.join().unwrap());
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < until, "it does not end\n{}\n{}", self.out(), self.err());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// SIGTERM, and the exit code.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> i32 {
        self.signal(Signal::TERM);
        self.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of this machine that is free.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// One request over HTTP. Status and body; `None` without a whole answer.
pub(crate) fn ask(
    port: u16,
    token: &str,
    line: &str,
    key: &str,
    body: &Value,
) -> Option<(u16, String)> {
    let address = ([127, 0, 0, 1], port).into();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
    let body = body.to_string();
    let text = format!(
        "{line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Idempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let is_whole = length.is_none_or(|length| length.parse() == Ok(body.len()));
    is_whole.then(|| (status, body.to_owned()))
}

/// A file with one token for workers and one for operators.
pub(crate) fn write_tokens(path: &Path) {
    let text = format!("worker {WORKER}\noperator {OPERATOR}\n");
    std::fs::write(path, text).unwrap();
}

pub(crate) const WORKER: &str = "worker-token-for-tests";
pub(crate) const OPERATOR: &str = "operator-token-for-tests";
