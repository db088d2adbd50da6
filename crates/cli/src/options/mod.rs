//! Groups of options that several commands share.

mod folder;
mod json_value;
mod ledger;
mod run;
mod text_policy;
mod wait;
mod worker;

pub(crate) use folder::LedgerFolder;
pub(crate) use json_value::{read_json_value, read_text};
pub(crate) use ledger::{AuthorArgs, LedgerArgs, environment, environment_for, open_ledger};
pub(crate) use run::RunOption;
pub(crate) use text_policy::TextPolicyChoice;
pub(crate) use wait::{WaitLimit, WaitLoop, claim_with_wait, parse_wait_limit};
pub(crate) use worker::{LeaseOption, TokenArg, WorkerOption};
