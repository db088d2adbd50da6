//! The options that all commands `ledger store` have.

use std::time::Duration;

use clap::Args;

use crate::options::parse_seconds;
use crate::output::Failure;

use super::open::{OpenStore, expect_no_file, open};
use super::url::{Engine, StoreUrl};

const PLACES: &str =
    "The store: s3://BUCKET/PREFIX, az://CONTAINER/PREFIX, gs://BUCKET/PREFIX or file:///FOLDER";

/// The address of a store. An error does not repeat one that may have a secret in it.
pub(super) fn parse_url(text: &str) -> Result<StoreUrl, Failure> {
    text.parse().map_err(|why| {
        let place = if text.contains('@') { "this" } else { text };
        Failure::Usage(format!("{place} is not the address of a store\nhint: {why}"))
    })
}

/// The address of a store, and the settings of its connection.
#[derive(Debug, Clone, Args)]
pub(super) struct StoreOption {
    #[arg(value_name = "URL", help = PLACES)]
    url: String,
    /// How long to wait for one answer of the store
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_seconds)]
    timeout: u64,
    /// Send requests without encryption also to other machines
    #[arg(long)]
    allow_http: bool,
}

impl StoreOption {
    /// Its address.
    pub(super) fn url(&self) -> Result<StoreUrl, Failure> {
        parse_url(&self.url)
    }

    /// The store of a command for an existing ledger. Opening a store in a folder creates folders, which such a command
    /// does not do.
    pub(super) fn open_existing(&self) -> Result<OpenStore, Failure> {
        let url = self.url()?;
        if url.engine == Engine::Folder && !expect_no_file(&url)?.join("LEDGER.json").is_file() {
            return Err(no_ledger(&url));
        }
        self.open()
    }

    /// The store, after it has answered once.
    pub(super) fn open(&self) -> Result<OpenStore, Failure> {
        let store = open(&self.url()?, Duration::from_secs(self.timeout), self.allow_http)?;
        store.check()?;
        Ok(store)
    }
}

/// The failure at a place without a ledger.
pub(super) fn no_ledger(url: &StoreUrl) -> Failure {
    let hint = "check the address; `ledger store probe` tests a store for a new ledger";
    Failure::Usage(format!("no ledger at {url}\nhint: {hint}"))
}
