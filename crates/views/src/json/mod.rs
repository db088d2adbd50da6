//! The parts of JSON that several views share.

mod time;
mod value;

pub use time::TimeJson;
pub use value::AnyJson;
