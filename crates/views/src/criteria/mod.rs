//! The criteria of steps and plans: those without a verdict, and those that are taken on the worker's word.

mod open;
mod trusted;

pub use open::{
    failed_criteria, may_hold, open_criteria, open_plan_criteria, open_steps, texts_and_commands,
};
pub use trusted::{TrustedCheckJson, TrustsLine, trusted_text};
