//! `ledger serve --http`: the requests and views of a ledger over HTTP.
//!
//! Each operation is a request of the socket or a view of `ledger inspect`. `operations` lists them; the router, the
//! published description and the tests follow from that list. `access` controls access, `write` makes requests, `read`
//! prints views, `records` follows the log, `tools` are those of `ledger mcp`, `page` gives a browser the page of a
//! run, `problem` words failures, and `listen` accepts, limits and ends connections.
//!
//! Invariants:
//! - A request goes through the socket of the ledger, as from any other client, so all promises of the server hold
//!   here.
//! - Without a token, only the health of the ledger is answered.
//! - A response is about one record: its tag names the record and the hash of the state after it.
//! - Input is untrusted: connections, bodies, waits and followers are bounded.

#[cfg(feature = "http")]
mod access;
#[cfg(feature = "http")]
mod app;
#[cfg(feature = "http")]
mod listen;
#[cfg(feature = "http")]
mod metrics;
#[cfg(all(test, feature = "http"))]
mod openapi;
#[cfg(feature = "http")]
mod operations;
#[cfg(feature = "http")]
mod page;
#[cfg(feature = "http")]
mod problem;
#[cfg(feature = "http")]
mod read;
#[cfg(feature = "http")]
mod records;
#[cfg(feature = "http")]
mod routes;
#[cfg(all(feature = "http", feature = "mcp"))]
mod tools;
#[cfg(feature = "http")]
mod write;

#[cfg(all(feature = "http", feature = "mcp"))]
pub use {listen::connections::serve_router, tools::tool_router};

use crate::commands::serve::{self, ServeArgs};
use crate::output::{Code, Failure};

#[cfg(not(feature = "http"))]
pub(crate) fn serve(args: &ServeArgs) -> Result<Code, Failure> {
    serve::serve(args, &mut serve::NoHttp)
}

#[cfg(feature = "http")]
pub(crate) fn serve(args: &ServeArgs) -> Result<Code, Failure> {
    serve::serve(args, &mut listen::connections::Http::default())
}
