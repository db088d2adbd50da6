//! Groups of options that several commands share.

mod author;
mod dead_claims;
mod default_ledger;
mod folder;
mod form;
mod host;
mod inputs;
mod json_value;
mod ledger;
pub(crate) mod plan_file;
mod request;
mod run;
mod wait;
mod worker;

pub(crate) use crate::protocol::parse_text_policy;
pub(crate) use crate::protocol::{parse_money, parse_seconds};
pub(crate) use crate::requests::{Author, RunArg, RunOption, parse_author, parse_name};
pub(crate) use author::plan_author;
pub(crate) use dead_claims::release_dead_claims;
pub(crate) use default_ledger::{default_ledger, gone_ledger_of, ledger_of};
pub(crate) use folder::LedgerFolder;
pub(crate) use form::AsJson;
pub(crate) use host::Host;
pub(crate) use inputs::InputArgs;
pub(crate) use json_value::{read_json_value, read_text};
pub(crate) use ledger::{
    LedgerArgs, LedgerOption, allow_unsafe_locks, create_parents, environment, open_ledger,
};
pub(crate) use plan_file::ReadPlanArgs;
pub(crate) use request::{FolderRequestArgs, RequestArgs, WorkerRequestArgs};
pub(crate) use run::{OneRunArg, RUN_TWICE, StepArg, without_environment};
pub(crate) use wait::{WaitLimit, WaitLoop, WaitNotice, claim_with_wait, parse_wait_limit};
#[cfg(feature = "store")]
pub(crate) use worker::prefer_folder;
pub(crate) use worker::program as worker_program;
pub(crate) use worker::{
    GuardArgs, RouteArgs, WorkerLedgerArgs, WorkerLimitArgs, WorkerOption, expect_owners_permitted,
};
