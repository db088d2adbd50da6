//! `ledger store status`: the ledger in a store, from its listings and its last slot.

use std::fmt::Write as _;

use clap::Args;

use plan_ledger::internals::format::SnapshotName;
use plan_ledger::internals::ledger::time_text;
use plan_ledger::internals::store::{
    LedgerIdentity, ListedObject, ObjectName, SlotBytes, SlotHeader, bound_ledger, segment_floor,
};
use plan_ledger::{Error, ErrorKind};

use crate::options::AsJson;
use crate::output::{Code, Failure, print_result};
use plan_ledger_views::count;

use crate::protocol::{counted, hex, size};

use super::hold::owner_of;
use super::lines::StoreStatusLine;
use super::open::OpenStore;
use super::option::{StoreOption, no_ledger};
use super::remote::{at_store, failure_at_store};

const EXAMPLES: &str = "\
Examples:
  ledger store status s3://my-ledgers/night
  ledger store status az://my-ledgers/night --json | jq .seq

It reads the listings, LEDGER.json and the last slot, and verifies these two, but not the whole log.
The exit code is 2 if the prefix has no ledger, 4 if what was read is damaged, and 7 if the store does
not answer.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct StoreStatusArgs {
    #[command(flatten)]
    store: StoreOption,
    #[command(flatten)]
    json: AsJson,
}

pub(super) fn status(args: &StoreStatusArgs) -> Result<Code, Failure> {
    let store = args.store.open_existing()?;
    let url = store.url.to_string();
    let identity = bound_ledger(&*store.objects, &|_| false)
        .map_err(|error| at_store(error, &url))?
        .ok_or_else(|| no_ledger(&store.url))?;
    let line = read(&store, &identity).map_err(|failure| failure_at_store(failure, &url))?;
    print_result(args.json.0, &line, &text(&line))?;
    Ok(Code::Success)
}

/// How many objects a kind has, and their bytes.
#[derive(Debug, Default)]
struct Sum {
    objects: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, listed: &ListedObject) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(listed.length);
    }
}

fn read(store: &OpenStore, identity: &LedgerIdentity) -> Result<StoreStatusLine, Failure> {
    let list = |folder: &str| store.objects.list(folder).map_err(|why| why.error());
    // Listed first: a slot that is collected in the meantime is covered by an object of the later listing.
    let (tail, segments) = (list("tail/")?, list("seg/")?);
    let (mut slots, mut sealed) = (Sum::default(), Sum::default());
    let (mut indexes, mut others) = (Sum::default(), Sum::default());
    let (mut snapshots, mut snapshot_seq) = (Sum::default(), None);
    for listed in list("snap/")? {
        let file = listed.name.strip_prefix("snap/").unwrap_or_default();
        match SnapshotName::parse(file.strip_suffix(".anchor").unwrap_or(file)) {
            Some(name) => {
                snapshots.add(&listed);
                snapshot_seq = snapshot_seq.max(Some(name.seq));
            }
            None => others.add(&listed),
        }
    }
    let mut last = None;
    for listed in tail.iter().chain(&segments) {
        match ObjectName::parse(&listed.name) {
            Some(ObjectName::Slot(first_seq)) => {
                slots.add(listed);
                last = last.max(Some(first_seq));
            }
            Some(ObjectName::Segment(_)) => sealed.add(listed),
            Some(ObjectName::Index(_)) => indexes.add(listed),
            _ => others.add(listed),
        }
    }
    let floor = segment_floor(&segments);
    let slot = match last {
        Some(first_seq) if first_seq > floor => read_slot(store, identity, first_seq)?,
        _ => None,
    };
    Ok(StoreStatusLine {
        chain: slot.as_ref().map(|slot| slot.chain_after.to_string()),
        epoch: slot.as_ref().map(|slot| slot.epoch),
        endpoint: store.endpoint.clone(),
        engine: store.url.engine.word(),
        floor,
        genesis: hex(&identity.genesis),
        index_bytes: indexes.bytes,
        indexes: indexes.objects,
        last_record_micros: slot.as_ref().map(|slot| slot.time),
        ledger: hex(&identity.ledger),
        node: slot.as_ref().map(|slot| hex(&slot.node)),
        other_objects: others.objects,
        owner: owner_of(&*store.objects).map_err(|why| why.error())?,
        segment_bytes: sealed.bytes,
        segments: sealed.objects,
        seq: slot.as_ref().map_or(floor, |slot| slot.last_seq),
        server: store.server(),
        slot_bytes: slots.bytes,
        slots: slots.objects,
        snapshot_bytes: snapshots.bytes,
        snapshot_seq,
        snapshots: snapshots.objects,
        url: store.url.to_string(),
    })
}

/// The header of a slot with valid checksums and a valid name.
fn read_slot(
    store: &OpenStore,
    identity: &LedgerIdentity,
    first_seq: u64,
) -> Result<Option<SlotHeader>, Failure> {
    let name = ObjectName::Slot(first_seq).to_string();
    let Some(found) = store.objects.get(&name, None).map_err(|why| why.error())? else {
        return Ok(None);
    };
    let checked = SlotBytes(found.bytes).check(first_seq, identity).map_err(|fault| {
        let kind = if fault.is_version() { ErrorKind::Unsupported } else { ErrorKind::Corrupt };
        Error::new(kind, fault.to_string()).at_path(name.as_ref()).at_seq(first_seq)
    })?;
    Ok(Some(checked.header().clone()))
}

fn text(line: &StoreStatusLine) -> String {
    let mut text = format!("store {}: ledger {}\n", line.url, line.ledger);
    // Writing to a string does not fail.
    let root = match &line.chain {
        Some(chain) => format!("{}:{chain}", line.seq),
        None => format!("record {}", count(line.seq)),
    };
    let _ = writeln!(text, "  end       {root}");
    if let (Some(epoch), Some(node)) = (line.epoch, &line.node) {
        let _ = writeln!(text, "  writer    epoch {epoch}, process {node}");
    }
    if let Some(owner) = &line.owner {
        let address = owner.http.as_ref().map_or(String::new(), |http| format!(" at {http}"));
        let ended = if owner.free { ", ended in order" } else { "" };
        let _ = writeln!(text, "  owner     {}{address}, ack {}{ended}", owner.process, owner.ack);
    }
    if let Some(time) = line.last_record_micros {
        let _ = writeln!(text, "  written   {}", time_text(time));
    }
    let _ = writeln!(text, "  slots     {}, {}", count(line.slots), size(line.slot_bytes));
    let _ = write!(text, "  segments  {}, {}", count(line.segments), size(line.segment_bytes));
    if line.floor > 0 {
        let _ = write!(text, ", up to record {}", count(line.floor));
    }
    if line.indexes > 0 {
        let _ = write!(text, "\n  indexes   {}, {}", count(line.indexes), size(line.index_bytes));
    }
    if let Some(seq) = line.snapshot_seq {
        let (number, bytes) = (count(line.snapshots), size(line.snapshot_bytes));
        let _ =
            write!(text, "\n  snapshots {number}, {bytes}, the newest at record {}", count(seq));
    }
    if line.other_objects > 0 {
        let _ = write!(text, "\n  unknown   {}", counted(line.other_objects, "object"));
    }
    text
}
