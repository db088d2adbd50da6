//! A process that writes slots with real bytes: here on the simulated store, and in `tests/store` on real
//! ones. The module `engine` beside it names the engine, the store, the ledger, and how often the store is asked again.

use super::engine::{
    Chain, ChainKey, Codec, EncodedSlot, HeldStore, IDENTITY, KIND_WRITER_NOTE, NewRecord, Objects,
    PATIENCE, Placement, Result, SegmentForm, SegmentHeader, SegmentObject, SegmentReason,
    SlotPart, SlotWriter, Stamp, Store, StoreEnd, StoreSession, Uid, WriterNote, WriterReason,
    encode_frame,
};

pub(super) fn session(objects: &dyn Objects) -> StoreSession<'_> {
    StoreSession { objects, identity: IDENTITY, retry: &|unclear| unclear < PATIENCE }
}

/// The payloads of the log by sequence number, from a position to the end. Those of writer notes are
/// the number of the process.
pub(super) fn read_from(
    objects: &dyn Objects,
    from: StoreEnd,
) -> Result<(Vec<(u64, String)>, StoreEnd)> {
    let mut found = Vec::new();
    let start = from.position.next_seq;
    let end = session(objects).find_end(from, &mut |taken| {
        taken.for_each_record(&mut |record| {
            let seq = record.header.stamp.seq;
            let text = match record.header.kind {
                KIND_WRITER_NOTE => {
                    let note = WriterNote::from_record(&record.header, record.payload).unwrap();
                    format!("opened by {}", &note.node[..2])
                }
                _ => String::from_utf8(record.payload.to_vec()).unwrap(),
            };
            if seq >= start {
                found.push((seq, text));
            }
        });
        Ok(())
    })?;
    Ok((found, end))
}

/// The whole log.
pub(super) fn read_all(objects: &dyn Objects) -> Result<Vec<(u64, String)>> {
    Ok(read_from(objects, StoreEnd::start())?.0)
}

/// The text of a record.
pub(super) fn text(log: &[(u64, String)], seq: u64) -> &str {
    &log.iter().find(|(found, _)| *found == seq).unwrap().1
}

/// A process in an open epoch.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) store: Store,
    pub(super) held: HeldStore,
    writer: SlotWriter,
    /// The clock of its machine.
    pub(super) clock: u64,
    segment: SegmentHeader,
    /// The bytes of its segment, header included.
    bytes: Vec<u8>,
    pub(super) acknowledged: Vec<(u64, String)>,
}

/// The header of the segment that a process begins.
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
    let key = ChainKey::new(&segment.genesis);
    encode_frame(&mut bytes, record, stamp, placement, &key, &chain);
    bytes
}

/// The opening slot of a process at the end of the log, and its segment.
pub(super) fn opening(
    end: &StoreEnd,
    number: u8,
    clock: u64,
) -> Result<(EncodedSlot, SlotWriter, SegmentHeader, Vec<u8>)> {
    let node = [number; 16];
    let epoch = end.position.epoch + 1;
    let why = if epoch == 1 { WriterReason::Create } else { WriterReason::Takeover };
    let before = (epoch > 1).then_some((epoch - 1, [0xEE; 16]));
    let note = WriterNote::new(epoch, &node, why, before).record();
    let segment = new_segment(end, [number | 0x80; 16], epoch);
    let (last_seq, chain) = (end.position.next_seq - 1, end.position.chain);
    let frames = frame(&note, &segment, 4096, (last_seq + 1, chain, clock.max(end.time)));
    let writer = SlotWriter { identity: IDENTITY, node, epoch };
    let (offset, time) = (4096, end.time);
    let part = SlotPart { segment: &segment, offset, frames: &frames, last_seq, chain, time };
    let slot = writer.encode(&part)?;
    let bytes = [segment.encode(), frames].concat();
    Ok((slot, writer, segment, bytes))
}

impl Node {
    /// Open an epoch. `number` is below 0x80, and no two processes have the same.
    pub(super) fn open(store: &Store, number: u8) -> Result<Self> {
        Self::open_with_clock(store, number, 1_000)
    }

    pub(super) fn open_with_clock(store: &Store, number: u8, clock: u64) -> Result<Self> {
        let mut made = None;
        let held =
            session(store.as_ref()).take_over(StoreEnd::start(), &mut |_| Ok(()), &mut |end| {
                let (slot, writer, segment, bytes) = opening(end, number, clock)?;
                made = Some((writer, segment, bytes));
                Ok(slot)
            })?;
        let (writer, segment, bytes) = made.unwrap();
        let seq = held.end().position.next_seq - 1;
        let acknowledged = vec![(seq, format!("opened by {number:02x}"))];
        Ok(Self { store: store.clone(), held, writer, clock, segment, bytes, acknowledged })
    }

    /// A copy of the machine, with a connection of its own.
    pub(super) fn copy(&self, store: &Store) -> Self {
        Self { store: store.clone(), ..self.clone() }
    }

    /// The slot with some records, each in a batch of its own.
    pub(super) fn slot(&self, texts: &[&str]) -> EncodedSlot {
        let end = self.held.end();
        let (last_seq, first_chain) = (end.position.next_seq - 1, end.position.chain);
        let (offset, time) = (end.place.as_ref().unwrap().end, end.time);
        let (mut frames, mut seq, mut chain) = (Vec::new(), last_seq, first_chain);
        for text in texts {
            let payload = text.as_bytes().to_vec();
            let record = NewRecord { kind: 7, codec: Codec::Raw, schema: 1, payload };
            seq += 1;
            let at = offset + u64::try_from(frames.len()).unwrap();
            let one = frame(&record, &self.segment, at, (seq, chain, self.clock.max(time)));
            chain = Chain(*one.last_chunk().unwrap());
            frames.extend(one);
        }
        let segment = &self.segment;
        let part =
            SlotPart { segment, offset, frames: &frames, last_seq, chain: first_chain, time };
        self.writer.encode(&part).unwrap()
    }

    /// Commit one record, and return its sequence number.
    pub(super) fn append(&mut self, text: &str) -> Result<u64> {
        let slot = self.slot(&[text]);
        self.held.commit(&session(self.store.as_ref()), slot.clone())?;
        self.committed(&slot, text);
        Ok(slot.header().last_seq)
    }

    pub(super) fn committed(&mut self, slot: &EncodedSlot, text: &str) {
        self.bytes.extend_from_slice(&slot.bytes()[256..]);
        self.acknowledged.push((slot.header().last_seq, text.to_owned()));
    }

    /// The last committed record.
    pub(super) fn last(&self) -> u64 {
        self.held.end().position.next_seq - 1
    }

    /// The first part of its segment, up to the last committed record.
    pub(super) fn part(&self) -> (SegmentObject, Vec<u8>) {
        let SegmentHeader { base_seq, ordinal, .. } = self.segment;
        let (last_seq, form) = (self.last(), SegmentForm::Part);
        (SegmentObject { base_seq, last_seq, ordinal, form }, self.bytes.clone())
    }

    pub(super) fn upload_part(&self) {
        let object = self.held.create_part(&session(self.store.as_ref()), &self.bytes).unwrap();
        assert_eq!(object, self.part().0);
    }
}
