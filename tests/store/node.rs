//! A process that writes slots with real bytes to any store.

use std::sync::Arc;

use plan_ledger::Result;
use plan_ledger::internals::format::{
    Chain, ChainKey, Codec, NewRecord, Placement, SegmentHeader, SegmentReason, Stamp, Uid,
    encode_frame,
};
use plan_ledger::internals::store::{
    EncodedSlot, HeldStore, KIND_WRITER_NOTE, LedgerIdentity, Objects, SlotPart, SlotWriter,
    StoreEnd, StoreSession, WriterNote, WriterReason,
};

pub(crate) const IDENTITY: LedgerIdentity =
    LedgerIdentity { ledger: [0xB1; 16], genesis: [0xB2; 16] };

/// How often a process asks the store again before it gives up. A create that another process won counts, too.
const PATIENCE: u32 = 100;

pub(crate) fn session(objects: &dyn Objects) -> StoreSession<'_> {
    StoreSession { objects, identity: IDENTITY, retry: &|unclear| unclear < PATIENCE }
}

/// The payloads of the log in order. Those of writer notes name the process.
pub(crate) fn read_all(objects: &dyn Objects) -> Result<Vec<String>> {
    let mut found = Vec::new();
    session(objects).find_end(StoreEnd::start(), &mut |taken| {
        taken.for_each_record(&mut |record| {
            found.push(match record.header.kind {
                KIND_WRITER_NOTE => {
                    let note = WriterNote::from_record(&record.header, record.payload).unwrap();
                    format!("opened by {}", &note.node[..2])
                }
                _ => String::from_utf8(record.payload.to_vec()).unwrap(),
            });
        });
        Ok(())
    })?;
    Ok(found)
}

/// A process in an open epoch.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) held: HeldStore,
    writer: SlotWriter,
    segment: SegmentHeader,
    bytes: Vec<u8>,
    /// What it acknowledged, by sequence number.
    pub(crate) acknowledged: Vec<(u64, String)>,
}

fn new_segment(end: &StoreEnd, uid: Uid, epoch: u64) -> SegmentHeader {
    let next_seq = end.position.next_seq;
    let place = end.place.as_ref();
    SegmentHeader {
        ledger: IDENTITY.ledger,
        segment: uid,
        ordinal: place.map_or(0, |place| place.header.ordinal + 1),
        base_seq: next_seq,
        prev_chain: end.position.chain,
        prev_segment: place.map_or([0; 16], |place| place.header.segment),
        prev_data_end: place.map_or(0, |place| place.end),
        prev_last_seq: next_seq - 1,
        writer_epoch: epoch,
        created: end.time,
        prealloc_len: 1 << 20,
        reason: if place.is_some() { SegmentReason::Rotate } else { SegmentReason::Create },
        born_last: 0,
        born_end: 0,
        genesis: IDENTITY.genesis,
        ro_compat: 0,
    }
}

fn frame(
    record: &NewRecord,
    segment: &SegmentHeader,
    offset: u64,
    (seq, chain, time): (u64, Chain, u64),
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ordinal = u32::try_from(segment.ordinal).unwrap();
    let stamp = Stamp { seq, time, ordinal, inflight: 1, batch_left: 0 };
    let placement = Placement { segment: segment.segment, offset };
    encode_frame(&mut bytes, record, stamp, placement, &ChainKey::new(&segment.genesis), &chain);
    bytes
}

impl Node {
    /// Open an epoch. `number` is below 0x80, and no two processes have the same.
    pub(crate) fn open(objects: &Arc<dyn Objects>, number: u8) -> Result<Self> {
        let mut made = None;
        let held =
            session(&**objects).take_over(StoreEnd::start(), &mut |_| Ok(()), &mut |end| {
                let node = [number; 16];
                let epoch = end.position.epoch + 1;
                let why = if epoch == 1 { WriterReason::Create } else { WriterReason::Takeover };
                let before = (epoch > 1).then_some((epoch - 1, [0xEE; 16]));
                let note = WriterNote::new(epoch, &node, why, before).record();
                let segment = new_segment(end, [number | 0x80; 16], epoch);
                let (last_seq, chain, time) =
                    (end.position.next_seq - 1, end.position.chain, end.time);
                let frames = frame(&note, &segment, 4096, (last_seq + 1, chain, time.max(1_000)));
                let writer = SlotWriter { identity: IDENTITY, node, epoch };
                let part = SlotPart {
                    segment: &segment,
                    offset: 4096,
                    frames: &frames,
                    last_seq,
                    chain,
                    time,
                };
                let slot = writer.encode(&part)?;
                let bytes = [segment.encode(), frames].concat();
                made = Some((writer, segment, bytes));
                Ok(slot)
            })?;
        let (writer, segment, bytes) = made.unwrap();
        let acknowledged =
            vec![(held.end().position.next_seq - 1, format!("opened by {number:02x}"))];
        let objects = Arc::clone(objects);
        Ok(Self { objects, held, writer, segment, bytes, acknowledged })
    }

    /// The slot with one record.
    pub(crate) fn slot(&self, text: &str) -> EncodedSlot {
        let end = self.held.end();
        let (last_seq, chain) = (end.position.next_seq - 1, end.position.chain);
        let (offset, time) = (end.place.as_ref().unwrap().end, end.time);
        let payload = text.as_bytes().to_vec();
        let record = NewRecord { kind: 7, codec: Codec::Raw, schema: 1, payload };
        let frames = frame(&record, &self.segment, offset, (last_seq + 1, chain, time));
        let segment = &self.segment;
        let part = SlotPart { segment, offset, frames: &frames, last_seq, chain, time };
        self.writer.encode(&part).unwrap()
    }

    /// Commit one record, and return its sequence number.
    pub(crate) fn append(&mut self, text: &str) -> Result<u64> {
        let slot = self.slot(text);
        self.held.commit(&session(&*self.objects), slot.clone())?;
        self.committed(&slot, text);
        Ok(slot.header().last_seq)
    }

    pub(crate) fn committed(&mut self, slot: &EncodedSlot, text: &str) {
        self.bytes.extend_from_slice(&slot.bytes()[256..]);
        self.acknowledged.push((slot.header().last_seq, text.to_owned()));
    }

    /// Create the segment object with everything that it committed.
    pub(crate) fn upload_part(&self) {
        self.held.create_part(&session(&*self.objects), &self.bytes).unwrap();
    }

    /// The last committed record.
    pub(crate) fn last(&self) -> u64 {
        self.held.end().position.next_seq - 1
    }
}
