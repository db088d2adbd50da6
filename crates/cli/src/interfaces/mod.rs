//! The interfaces in addition to the command line and the socket: HTTP and the Model Context Protocol.
//!
//! Each is a thin adapter on the typed requests and on the views of `ledger inspect`.

pub(crate) mod http;
pub(crate) mod mcp;
