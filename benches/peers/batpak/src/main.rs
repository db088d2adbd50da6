//! One measurement of batpak. The measurements are in the file that all engines share.

#[path = "../../src/measure.rs"]
mod measure;
#[path = "../../src/record.rs"]
mod record;

use std::path::Path;
use std::process::ExitCode;

use batpak::coordinate::{Coordinate, Region};
use batpak::event::EventKind;
use batpak::store::{AppendOptions, BatchAppendItem, CausationRef, Open, Store, StoreConfig};
use clap::Parser as _;
use serde::{Serialize, Serializer};

use measure::{BATCH, Engine, Visit};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(clap::Parser)]
struct Arguments {
    #[command(flatten)]
    options: measure::Options,
}

/// A payload that is encoded as bytes, not as a sequence of numbers.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

struct Batpak {
    store: Store<Open>,
    place: Coordinate,
    kind: EventKind,
}

impl Batpak {
    /// Open with a sync after every commit, which is not the default.
    fn open(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let config = StoreConfig::new(dir.join("peer.batpak"))
            .with_sync_every_n_events(1)
            .with_batch_max_size(u32::try_from(BATCH)?);
        Ok(Self {
            store: Store::open(config)?,
            place: Coordinate::new("run:1", "bench")?,
            kind: EventKind::try_custom(0xF, 1)?,
        })
    }
}

impl Engine for Batpak {
    fn append(&self, _: u64, payloads: &[Vec<u8>]) -> Result<()> {
        if let [payload] = payloads {
            self.store.append(&self.place, self.kind, &Bytes(payload))?;
            return Ok(());
        }
        let item = |payload: &Vec<u8>| {
            let (options, cause) = (AppendOptions::default(), CausationRef::None);
            BatchAppendItem::new(self.place.clone(), self.kind, &Bytes(payload), options, cause)
        };
        let items = payloads.iter().map(item).collect::<std::result::Result<Vec<_>, _>>()?;
        self.store.append_batch(items)?;
        Ok(())
    }
}

/// Read page by page, as its documentation advises.
fn read(dir: &Path, visit: Visit<'_>) -> Result<()> {
    let batpak = Batpak::open(dir)?;
    let mut after = None;
    loop {
        let page = batpak.store.query_entries_after(&Region::entity("run:1"), after, 1000);
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.global_sequence());
        for entry in page {
            let stored = batpak.store.read_raw(entry.event_id())?;
            // The length precedes the bytes.
            let bytes = stored.event.payload.as_slice();
            let payload = bytes.get(bytes.len().saturating_sub(record::LENGTH)..);
            visit(entry.global_sequence(), payload.unwrap_or_default())?;
        }
    }
}

fn main() -> ExitCode {
    let open = |dir: &Path| Ok(Box::new(Batpak::open(dir)?) as Box<dyn Engine>);
    let store = measure::Store { open: &open, read: &read };
    match measure::run(&store, &Arguments::parse().options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
