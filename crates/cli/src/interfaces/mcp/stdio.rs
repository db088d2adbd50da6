//! The connection to one client: JSON-RPC messages, one on each line of standard input and output.
//!
//! A thread reads the lines. A line that is not JSON, or that is too long, is answered with an error
//! and changes nothing; a line without its end was cut off and is never acted upon.

use std::fmt;
use std::io::{self, BufRead, Read as _, Write as _};
use std::sync::Arc;

use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage, serve_server};
use rmcp::transport::Transport;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use plan_ledger::Error;

use crate::protocol::{Failure, MESSAGE_LENGTH_MAX};

use super::call::ToolServer;
use super::service::LedgerService;

/// The longest line of a client.
const LINE_LENGTH_MAX: usize = 1 << 20;

/// How many messages wait for the server before the reader stops reading.
const WAITING_MAX: usize = 64;

/// Serves the client on standard input and output until its input ends.
pub(super) fn serve(server: ToolServer) -> Result<(), Failure> {
    let failed = |error| Failure::Output(error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(failed)?;
    let server = Arc::new(server);
    let (sender, messages) = channel(WAITING_MAX);
    let of_reader = Arc::clone(&server);
    std::thread::Builder::new()
        .name("read".to_owned())
        .spawn(move || {
            read_lines(&mut io::stdin().lock(), &sender);
            // The client has disconnected: waiting calls must not claim for it.
            of_reader.close();
        })
        .map_err(failed)?;
    let served = runtime.block_on(async {
        match serve_server(LedgerService::new(Arc::clone(&server)), Stdio { messages }).await {
            // The input ended before the first message, or in the middle of it.
            Err(_) => Ok(()),
            Ok(running) => running.waiting().await.map(drop),
        }
    });
    server.close();
    runtime.shutdown_background();
    served.map_err(|error| {
        Failure::Ledger(Error::new(
            plan_ledger::ErrorKind::Io,
            format!("the server failed: {error}"),
        ))
    })
}

/// The connection, for the protocol.
struct Stdio {
    messages: Receiver<RxJsonRpcMessage<RoleServer>>,
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        // A client that does not read stops its own calls only.
        let written = tokio::task::spawn_blocking(move || write_line(&message));
        async { written.await.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())) }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.messages.close();
        Ok(())
    }
}

fn write_line(message: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

fn read_lines(from: &mut impl BufRead, to: &Sender<RxJsonRpcMessage<RoleServer>>) {
    let mut line = Vec::new();
    while let Some(whole) = read_line(from, &mut line) {
        let message = match whole {
            Whole::Line if line.iter().all(u8::is_ascii_whitespace) => continue,
            Whole::Line => parse(&line),
            Whole::TooLong(id) => {
                let message = format!(
                    "a message has at most {LINE_LENGTH_MAX} bytes, found more: write large results to files, and \
                     report their paths"
                );
                Err(ErrorData::new(ErrorCode::INVALID_REQUEST, message, None).into_response(id))
            }
        };
        match message {
            Ok(Some(message)) => {
                if to.blocking_send(message).is_err() {
                    return;
                }
            }
            Ok(None) => {}
            Err(response) => {
                if write_line(&response).is_err() {
                    return;
                }
            }
        }
    }
}

/// A line with its end.
enum Whole {
    Line,
    /// It is too long, and was dropped; its identifier, by which the client knows the answer.
    TooLong(Value),
}

/// Reads the next line. `None` at the end of the input, or if it ends within a line.
fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> Option<Whole> {
    line.clear();
    let limit = u64::try_from(LINE_LENGTH_MAX).unwrap_or(u64::MAX);
    from.by_ref().take(limit + 1).read_until(b'\n', line).ok()?;
    if line.last() == Some(&b'\n') {
        return Some(Whole::Line);
    }
    if line.len() <= LINE_LENGTH_MAX {
        return None;
    }
    let mut rest = RestOfLine { from, is_over: false };
    let id = identifier(io::Cursor::new(&line).chain((&mut rest).take(MESSAGE_LENGTH_MAX)));
    io::copy(&mut rest, &mut io::sink()).ok()?;
    rest.is_over.then_some(Whole::TooLong(id))
}

/// The bytes up to the end of a line.
struct RestOfLine<'a, R> {
    from: &'a mut R,
    /// Whether the end of the line was read.
    is_over: bool,
}

impl<R: BufRead> io::Read for RestOfLine<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_over {
            return Ok(0);
        }
        let bytes = self.from.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let mut part = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
        let length = part.read(into)?;
        self.is_over = end == Some(length);
        self.from.consume(length + usize::from(self.is_over));
        Ok(length)
    }
}

/// The member `id` of a message, which is read piece by piece and not kept; null if it has none.
fn identifier(message: impl io::Read) -> Value {
    let mut found = Value::Null;
    // An error after the identifier does not matter: the message is refused in any case.
    let _ = Identifier(&mut found).deserialize(&mut serde_json::Deserializer::from_reader(message));
    found
}

struct Identifier<'a>(&'a mut Value);

impl<'de> DeserializeSeed<'de> for Identifier<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Identifier<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            if name == "id" {
                *self.0 = members.next_value()?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A message; or the response to a line that is not a message.
fn parse(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Value> {
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        let message = format!("not JSON: column {}", error.column());
        ErrorData::new(ErrorCode::PARSE_ERROR, message, None).into_response(Value::Null)
    })?;
    let id = value.get("id").cloned().unwrap_or_default();
    match serde_json::from_value(value) {
        Ok(message) => Ok(Some(message)),
        // A notification that is not understood has no answer.
        Err(_) if id.is_null() => Ok(None),
        Err(_) => {
            let message = "not a request of the protocol, or its parameters are missing";
            Err(ErrorData::new(ErrorCode::INVALID_REQUEST, message, None).into_response(id))
        }
    }
}

/// An error as the response to a message.
trait IntoResponse {
    fn into_response(self, id: Value) -> Value;
}

impl IntoResponse for ErrorData {
    fn into_response(self, id: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": id, "error": self })
    }
}
