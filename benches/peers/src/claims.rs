//! Claims and receipts of many clients through one real server. The clients speak the protocols of
//! `format/socket.md`, `format/http.md` and `format/mcp.md` themselves, with one connection each, and
//! for the Model Context Protocol with one process `ledger mcp` each.
//!
//! Each client claims a step, works on it for the given time, reports it, and claims the next one.
//! With a rate, claims are due at fixed times whatever became of earlier ones, and the latency of a
//! claim counts from its due time.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::json;

use crate::Result;
use crate::measure::as_float;
use crate::own::at_share;
use crate::plans::memory_of;
use crate::record::mix;

#[derive(Args)]
pub struct Options {
    /// The program `ledger`
    #[arg(long, default_value = "target/release/ledger")]
    program: PathBuf,
    /// The folder of the ledger, on the device to measure
    #[arg(long, default_value = "target/peers")]
    folder: PathBuf,
    #[arg(long)]
    interface: Interface,
    #[arg(long, default_value_t = 64)]
    clients: u64,
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Steps of the plan: the measurement also ends when all are done
    #[arg(long, default_value_t = 100_000)]
    steps: u64,
    /// Milliseconds from a claim to its receipt
    #[arg(long, default_value_t = 0)]
    work: u64,
    /// Claim the next step in the request that reports the last one, as `ledger work` does
    #[arg(long)]
    chained: bool,
    /// Claims a second that are due, over all clients
    #[arg(long)]
    rate: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Interface {
    Socket,
    Http,
    Mcp,
}

/// How often a request is sent again after a lost connection or a busy server.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);
/// How long the server and the clients may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measure, and print the figures.
pub fn run(options: &Options) -> Result<()> {
    std::fs::create_dir_all(&options.folder)?;
    let folder = tempfile::tempdir_in(&options.folder)?;
    let dir = folder.path().join("claims.ledger");
    let server = Server::start(options, folder.path(), &dir)?;
    let (all, took) = worked(options, &dir)?;
    let distinct: BTreeSet<&str> = all.tokens.iter().map(String::as_str).collect();
    if distinct.len() != all.tokens.len() {
        return Err("two clients got the same attempt".into());
    }
    let peak = memory_of(&server.0.id().to_string(), "VmHWM")?;
    server.end()?;
    let steps = as_float(u64::try_from(all.receipts.len())?) / took;
    let claimed = u64::try_from(all.claims.len())?;
    println!("steps/s\t{steps}");
    println!("requests/s\t{}", as_float(claimed) / took + steps);
    for (name, times) in [("claim", all.claims), ("receipt", all.receipts)] {
        let at = |share| at_share(times.clone(), share) / 1e3;
        println!("{name}, p50, ms\t{}", at(500));
        println!("{name}, p99, ms\t{}", at(990));
        println!("{name}, longest, ms\t{}", at(1000));
    }
    println!("peak memory of the server, MiB\t{}", as_float(peak) / f64::from(1 << 20));
    println!("connections made again\t{}", all.reconnects);
    Ok(())
}

/// A process `ledger serve`. It ends when its standard input is closed, so also when this process is
/// killed.
struct Server(Child);

impl Server {
    /// Create the ledger, start a run, and serve it.
    fn start(options: &Options, folder: &Path, dir: &Path) -> Result<Self> {
        let plan = folder.join("plan.json");
        let step =
            |number: u64| json!({ "id": format!("s{number}"), "goal": "do what a step does" });
        let steps: Vec<_> = (0..options.steps).map(step).collect();
        std::fs::write(&plan, json!({ "title": "Claims", "steps": steps }).to_string())?;
        let call = |words: &[&str]| -> Result<()> {
            let mut command = Command::new(&options.program);
            command.args(words).arg("--ledger").arg(dir).stdin(Stdio::null());
            let output = command.output()?;
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(()) } else { Err(error.into()) }
        };
        call(&["init"])?;
        call(&["plan", "propose", plan.to_str().ok_or("no name")?])?;
        let mut command = Command::new(&options.program);
        command.args(["serve", "--until-eof", "--http", "--ledger"]).arg(dir);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(command.spawn()?);
        let started = Instant::now();
        while !(dir.join("http.json").exists() && socket(dir).is_ok()) {
            if started.elapsed() > PATIENCE {
                return Err("the server did not start".into());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(server)
    }

    fn end(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        if self.0.wait()?.success() { Ok(()) } else { Err("the server failed".into()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the clients saw.
#[derive(Default)]
struct Seen {
    claims: Vec<Duration>,
    receipts: Vec<Duration>,
    tokens: Vec<String>,
    reconnects: u64,
}

/// Let the clients work. Returns what they saw, and the seconds.
fn worked(options: &Options, dir: &Path) -> Result<(Seen, f64)> {
    let begin = Arc::new(Barrier::new(usize::try_from(options.clients)? + 1));
    let time = Duration::from_secs_f64(options.seconds);
    std::thread::scope(|scope| {
        let client = |number: u64| {
            let begin = begin.clone();
            let work = move || -> Result<Seen> {
                let link = Link::new(options, dir, number);
                begin.wait();
                let gap = options.rate.map(|rate| Duration::from_secs(1) / rate.max(1));
                let nth =
                    |gap: Duration, count: u64| gap * u32::try_from(count).unwrap_or(u32::MAX);
                let schedule = gap.map(|gap| Schedule {
                    next: Instant::now() + nth(gap, number),
                    every: nth(gap, options.clients),
                });
                let link = link?;
                let end = Instant::now() + time;
                // Workers do not start together.
                let spread = Duration::from_millis(options.work * number / options.clients.max(1));
                std::thread::sleep(spread);
                serve(link, schedule, options, end)
            };
            std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, work)
        };
        let clients: Vec<_> = (0..options.clients).map(client).collect::<std::io::Result<_>>()?;
        begin.wait();
        let started = Instant::now();
        let mut all = Seen::default();
        for client in clients {
            let seen = client.join().map_err(|_| "a client panicked")??;
            all.claims.extend(seen.claims);
            all.receipts.extend(seen.receipts);
            all.tokens.extend(seen.tokens);
            all.reconnects += seen.reconnects;
        }
        Ok((all, started.elapsed().as_secs_f64()))
    })
}

/// The due times of the claims of a client.
struct Schedule {
    next: Instant,
    every: Duration,
}

impl Schedule {
    /// Wait until a claim is due. Returns the due time.
    fn wait(schedule: &mut Option<Self>) -> Instant {
        let Some(Self { next, every }) = schedule else { return Instant::now() };
        let due = *next;
        *next += *every;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due
    }
}

/// The work of one client, until the time is over or no step is left.
fn serve(
    mut link: Link<'_>,
    mut schedule: Option<Schedule>,
    options: &Options,
    end: Instant,
) -> Result<Seen> {
    let mut seen = Seen::default();
    let mut next = None;
    while Instant::now() < end {
        let task = match next.take() {
            Some(task) => Some(task),
            None => {
                let due = Schedule::wait(&mut schedule);
                let task = link.claim()?;
                seen.claims.push(due.elapsed());
                task
            }
        };
        let Some(token) = task else { break };
        std::thread::sleep(Duration::from_millis(options.work));
        let started = Instant::now();
        next = link.report(&token, options.chained)?;
        seen.receipts.push(started.elapsed());
        seen.tokens.push(token);
        if options.chained && next.is_none() {
            break;
        }
    }
    seen.reconnects = link.reconnects;
    Ok(seen)
}

/// A client's connection.
struct Link<'a> {
    dir: &'a Path,
    transport: Transport,
    worker: String,
    /// The source of keys and secrets.
    last: u64,
    reconnects: u64,
}

enum Transport {
    Socket(BufReader<UnixStream>),
    Http { stream: BufReader<TcpStream>, head: String },
    Mcp { process: Child, to: ChildStdin, from: BufReader<ChildStdout> },
}

/// A response of the socket and of HTTP.
#[derive(Deserialize)]
struct Answer {
    code: i32,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    r#type: String,
    token: Option<serde_json::Value>,
    kind: Option<String>,
    message: Option<String>,
}

/// A response of the Model Context Protocol.
#[derive(Deserialize)]
struct Message {
    result: Option<ToolResult>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct ToolResult {
    #[serde(rename = "isError", default)]
    is_error: bool,
    #[serde(rename = "structuredContent")]
    content: Option<ToolContent>,
}

#[derive(Deserialize)]
struct ToolContent {
    got: Option<bool>,
    token: Option<serde_json::Value>,
    next: Option<Box<Self>>,
}

impl ToolContent {
    fn task(self) -> Option<String> {
        self.token.filter(|_| self.got == Some(true))?.as_str().map(str::to_owned)
    }
}

/// The socket of the server. The path may be too long for an address, so it starts at the open folder.
fn socket(dir: &Path) -> std::io::Result<UnixStream> {
    let folder = File::open(dir)?;
    UnixStream::connect(format!("/proc/self/fd/{}/serve.sock", folder.as_raw_fd()))
}

impl<'a> Link<'a> {
    fn new(options: &Options, dir: &'a Path, number: u64) -> Result<Self> {
        let worker = format!("client-{number}");
        let transport = match options.interface {
            Interface::Socket => Transport::Socket(BufReader::new(socket(dir)?)),
            Interface::Http => http(dir)?,
            Interface::Mcp => mcp(&options.program, dir, &worker)?,
        };
        let mut link = Self { dir, transport, worker, last: number << 32, reconnects: 0 };
        if matches!(link.transport, Transport::Mcp { .. }) {
            let hello = json!({
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": { "name": "bench", "version": "0" },
            });
            link.message("initialize", &hello)?;
            link.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        }
        Ok(link)
    }

    /// Claim a step. Returns its token; `None` if no step is left.
    fn claim(&mut self) -> Result<Option<String>> {
        if matches!(self.transport, Transport::Mcp { .. }) {
            let call = json!({ "name": "ledger_claim", "arguments": {} });
            return Ok(self.tool(&call)?.task());
        }
        let secret = self.secret();
        let claim = json!({ "act": "claim", "worker": self.worker, "secret": secret });
        self.request(claim)
    }

    /// Report a step, and claim the next one if `next`.
    fn report(&mut self, token: &str, next: bool) -> Result<Option<String>> {
        if matches!(self.transport, Transport::Mcp { .. }) {
            let report = json!({
                "token": token, "outcome": "succeeded", "output": "done", "next": next,
            });
            let content = self.tool(&json!({ "name": "ledger_report", "arguments": report }))?;
            return Ok(content.next.and_then(|next| next.task()));
        }
        let receipt = json!({ "outcome": "succeeded", "output": "done" });
        let next = next.then(|| json!({ "secret": self.secret() }));
        self.request(json!({ "act": "receipt", "token": token, "receipt": receipt, "next": next }))
    }

    /// 16 bytes that no other request of this run has.
    fn secret(&mut self) -> String {
        self.last += 1;
        format!("{:016x}{:016x}", mix(self.last), mix(!self.last))
    }

    /// Execute a request under a new key, and send it again after a lost connection. Returns the token
    /// of the task in its answer.
    fn request(&mut self, mut request: serde_json::Value) -> Result<Option<String>> {
        let key = self.secret();
        let is_http = matches!(self.transport, Transport::Http { .. });
        if !is_http && let Some(members) = request.as_object_mut() {
            members.insert("once".to_owned(), json!(key));
        }
        let text = request.to_string();
        for attempt in 0..TRIES {
            let answer = self.send_keyed(&text, &key).and_then(|()| self.receive());
            let answer = match answer {
                Ok(answer) => serde_json::from_str::<Answer>(&answer)?,
                Err(error) if is_http => return Err(error.into()),
                Err(_) => {
                    // The server closes idle connections when it has too many.
                    self.connect_again(if attempt == 0 { Duration::ZERO } else { PAUSE });
                    continue;
                }
            };
            if answer.code == 0 {
                let task = answer.lines.into_iter().find(|line| line.r#type == "task");
                let token = task.and_then(|task| task.token);
                return Ok(token.and_then(|token| token.as_str().map(str::to_owned)));
            }
            let line = answer.lines.into_iter().next().ok_or("an answer without lines")?;
            match line.kind.as_deref() {
                Some("busy") => self.connect_again(PAUSE),
                // No step is ready, or the run has ended.
                None if line.r#type == "nothing" => return Ok(None),
                _ => return Err(line.message.unwrap_or(line.r#type).into()),
            }
        }
        Err("the server answered no repetition of a request".into())
    }

    fn connect_again(&mut self, after: Duration) {
        self.reconnects += 1;
        std::thread::sleep(after);
        if let Ok(stream) = socket(self.dir) {
            self.transport = Transport::Socket(BufReader::new(stream));
        }
    }

    fn tool(&mut self, call: &serde_json::Value) -> Result<ToolContent> {
        let text = self.message("tools/call", call)?;
        let message: Message = serde_json::from_str(&text)?;
        match message.result {
            Some(ToolResult { is_error: false, content: Some(content) }) => Ok(content),
            _ => Err(format!("{:?}: {text}", message.error).into()),
        }
    }

    /// Send a message of the Model Context Protocol. Returns the response.
    fn message(&mut self, method: &str, params: &serde_json::Value) -> Result<String> {
        self.last += 1;
        let id = self.last;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&message.to_string())?;
        Ok(self.receive()?)
    }

    fn send(&mut self, text: &str) -> std::io::Result<()> {
        self.send_keyed(text, "")
    }

    fn send_keyed(&mut self, text: &str, key: &str) -> std::io::Result<()> {
        match &mut self.transport {
            Transport::Socket(stream) => stream.get_mut().write_all(line(text).as_bytes()),
            Transport::Mcp { to, .. } => to.write_all(line(text).as_bytes()),
            Transport::Http { stream, head } => {
                let length = text.len();
                let request = format!(
                    "{head}idempotency-key: {key}\r\ncontent-length: {length}\r\n\r\n{text}"
                );
                stream.get_mut().write_all(request.as_bytes())
            }
        }
    }

    fn receive(&mut self) -> std::io::Result<String> {
        let mut text = String::new();
        let length = match &mut self.transport {
            Transport::Socket(stream) => stream.read_line(&mut text)?,
            Transport::Mcp { from, .. } => from.read_line(&mut text)?,
            Transport::Http { stream, .. } => response(stream, &mut text)?,
        };
        if length == 0 { Err(std::io::ErrorKind::UnexpectedEof.into()) } else { Ok(text) }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if let Self::Mcp { process, .. } = self {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn line(text: &str) -> String {
    format!("{text}\n")
}

/// A connection to the HTTP server, whose address and tokens are in the ledger's folder.
fn http(dir: &Path) -> Result<Transport> {
    let file: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.join("http.json"))?)?;
    let (address, token) = (file["address"].as_str(), file["tokens"]["worker"].as_str());
    let (Some(address), Some(token)) = (address, token) else {
        return Err("http.json has no address or no token".into());
    };
    let host = address.trim_start_matches("http://");
    let stream = TcpStream::connect(host)?;
    stream.set_nodelay(true)?;
    let head = format!(
        "POST /v1/requests HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\n"
    );
    Ok(Transport::Http { stream: BufReader::new(stream), head })
}

/// Read a response of HTTP with a length. Returns the number of its bytes.
fn response(stream: &mut BufReader<TcpStream>, text: &mut String) -> std::io::Result<usize> {
    let (mut read, mut length) = (0, None);
    loop {
        let mut line = String::new();
        read += stream.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    let Some(length) = length else { return Ok(0) };
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    text.push_str(&String::from_utf8_lossy(&body));
    Ok(read + length)
}

/// A process `ledger mcp`, which asks the server.
fn mcp(program: &Path, dir: &Path, worker: &str) -> Result<Transport> {
    let mut command = Command::new(program);
    command.args(["mcp", "--worker", worker, "--ledger"]).arg(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn()?;
    let (to, from) = (process.stdin.take(), process.stdout.take());
    let (Some(to), Some(from)) = (to, from) else { return Err("no pipes".into()) };
    Ok(Transport::Mcp { process, to, from: BufReader::new(from) })
}
