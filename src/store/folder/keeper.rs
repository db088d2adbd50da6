//! Committing to a store what an open log writes: a slot for each group.

use std::sync::{Mutex, PoisonError};

use crate::error::ErrorKind;
use crate::format::{SEGMENT_HEADER_SIZE, to_u64};
use crate::log::{Keeper, KeptGroup, NotKept};
use crate::store::session::{HeldStore, StoreEnd};
use crate::store::slot::{SLOT_HEADER_SIZE, SLOT_SIZE_MAX, SlotPart, SlotWriter};

use super::blobs::blob_name;
use super::client::StoreClient;

/// Commits each group of records to a store, in an open epoch, before the log acknowledges it.
#[derive(Debug)]
pub struct StoreKeeper {
    client: StoreClient,
    writer: SlotWriter,
    held: Mutex<HeldStore>,
}

impl StoreKeeper {
    pub(super) fn new(client: StoreClient, writer: SlotWriter, held: HeldStore) -> Self {
        Self { client, writer, held: Mutex::new(held) }
    }

    /// Where the log ends in the store.
    #[must_use]
    pub fn end(&self) -> StoreEnd {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).end().clone()
    }
}

impl Keeper for StoreKeeper {
    fn keep(&self, group: &KeptGroup<'_>) -> Result<(), NotKept> {
        let KeptGroup { segment, offset, frames, last_seq, chain, time } = *group;
        let part = SlotPart { segment, offset, frames, last_seq, chain, time };
        let unknown = |error: crate::error::Error| NotKept::Unknown(error.to_string());
        let slot = self.writer.encode(&part).map_err(unknown)?;
        let session = self.client.session(self.writer.identity);
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.commit(&session, slot).map_err(|error| match error.kind() {
            ErrorKind::Fenced => NotKept::Fenced(error.message().to_owned()),
            _ => unknown(error),
        })
    }

    fn keep_blob(&self, hash: &str, bytes: &[u8]) -> Result<(), String> {
        let session = self.client.session(self.writer.identity);
        session.create_same(&blob_name(hash), bytes).map_err(|error| error.to_string())
    }

    fn size_max(&self) -> u64 {
        to_u64(SLOT_SIZE_MAX - SLOT_HEADER_SIZE - SEGMENT_HEADER_SIZE)
    }
}
