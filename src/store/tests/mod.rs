//! Tests of the protocol: every order of events in a small scope, the interleavings of the
//! specification, and every fate of every call.

mod bytes;
mod fates;
mod model;
mod node;
mod rows;
