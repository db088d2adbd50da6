//! All small structures on disk, selected by the first byte: HEAD slots, segment and snapshot headers,
//! notes, names, indexes and footers. No panic; an accepted structure encodes to the same bytes, and an
//! encoded one decodes to the same value and is rejected with any byte changed.
#![cfg_attr(fuzzing, no_main)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use plan_ledger::HeadSync;
use plan_ledger::internals::format::{
    Chain, Codec, FOOTER_SIZE, Footer, HEAD_COPY_SIZE, HEAD_FIELDS_SIZE, HEAD_SLOT_SIZE, Head, HeadCopies, HeadSlots, HeadState, HeaderReplica,
    INDEX_HEADER_SIZE, Index, IndexBuilder, NewRecord, SNAPSHOT_HEADER_SIZE, SegmentHeader,
    SegmentName, SegmentReason, SnapshotBase, SnapshotHeader, SnapshotName, index_crc,
    peek_seek_length, read_seeks,
};
use plan_ledger::log::{GapNote, KIND_RETENTION_NOTE, LogReader, LoggedRecord, LoggedRetentionNote, RecoveryNote, SnapshotNote, list_snapshots};
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::Storage;
use plan_ledger_fuzz::{Fields, is_exact};

fn check(data: &[u8]) {
    let Some((pick, rest)) = data.split_first() else { return };
    match pick % 10 {
        0 => head_bytes(rest),
        1 => head(&mut Fields(rest)),
        2 => segment_bytes(rest),
        3 => segment(&mut Fields(rest)),
        4 => snapshot_bytes(rest),
        5 => snapshot(&mut Fields(rest)),
        6 => notes(rest),
        7 => names(rest),
        8 => footer_bytes(rest),
        _ => footer(rest),
    }
}

fn change(bytes: &mut [u8], fields: &mut Fields<'_>) {
    let place = usize::from(fields.u16()) % bytes.len();
    bytes[place] ^= fields.u8().max(1);
}

fn head_bytes(data: &[u8]) {
    let view = HeadSlots::decode(data);
    let slots = view.slots.iter().zip(view.copies).zip(data.chunks(HEAD_SLOT_SIZE));
    for ((slot, copies), bytes) in slots {
        let whole = slot.as_ref().map(Head::encode);
        assert_eq!(copies == HeadCopies::Equal, whole.is_some_and(|whole| whole == bytes));
        if let Some(head) = slot {
            let copy = &head.encode()[..HEAD_FIELDS_SIZE];
            assert!(bytes.chunks(HEAD_COPY_SIZE).any(|bytes| bytes.starts_with(copy)));
        }
    }
    assert_eq!(view.newest().is_some(), view.slots.iter().any(Option::is_some));
}

fn head(fields: &mut Fields<'_>) {
    let head = Head {
        ledger: fields.array(),
        generation: fields.u64(),
        writer_epoch: fields.u64(),
        mode: fields.pick(&[HeadSync::Interval, HeadSync::EveryCommit]),
        durable_seq: fields.u64(),
        ordinal: fields.u64(),
        segment: fields.array(),
        data_end: fields.u64(),
        chain: Chain(fields.array()),
        state: fields.pick(&[HeadState::Open, HeadState::Clean, HeadState::Poisoned]),
        clock: None,
    };
    let mut bytes = head.encode();
    assert_eq!(Head::decode(&bytes), Some(head.clone()));
    change(&mut bytes, fields);
    assert_eq!(Head::decode(&bytes), Some(head), "the other copies count");
    assert_eq!(HeadSlots::decode(&bytes).copies[0], HeadCopies::Damaged);
}

fn segment_bytes(data: &[u8]) {
    if let Ok(header) = SegmentHeader::decode(data) {
        // Decoding drops the minor version and compatible flags.
        assert_eq!(SegmentHeader::decode(&header.encode()).as_ref(), Ok(&header));
        assert_eq!(SegmentName::parse(&header.name().to_string()), Some(header.name()));
    }
    if let Some(replica) = HeaderReplica::of(data) {
        assert_eq!(replica.bytes()[..], data[..replica.bytes().len()]);
        let _ = replica.header();
    }
}

fn segment(fields: &mut Fields<'_>) {
    let header = SegmentHeader {
        ledger: fields.array(),
        segment: fields.array(),
        ordinal: fields.u64(),
        base_seq: fields.u64(),
        prev_chain: Chain(fields.array()),
        prev_segment: fields.array(),
        prev_data_end: fields.u64(),
        prev_last_seq: fields.u64(),
        writer_epoch: fields.u64(),
        created: fields.u64(),
        prealloc_len: fields.u64(),
        reason: fields.pick(&[
            SegmentReason::Create,
            SegmentReason::Rotate,
            SegmentReason::FenceAfterCrash,
            SegmentReason::FenceAfterIoError,
            SegmentReason::Import,
            SegmentReason::Fork,
        ]),
        born_last: fields.u64(),
        born_end: fields.u64(),
        genesis: fields.array(),
        ro_compat: fields.u32(),
    };
    let mut bytes = header.encode();
    assert_eq!(SegmentHeader::decode(&bytes).as_ref(), Ok(&header));
    let replica = HeaderReplica::of(&bytes).expect("a header is longer than its replica");
    assert_eq!(replica.header(), Ok(header));
    change(&mut bytes, fields);
    assert!(SegmentHeader::decode(&bytes).is_err());
}

fn snapshot_bytes(data: &[u8]) {
    if let Ok(header) = SnapshotHeader::decode(data) {
        assert_eq!(SnapshotHeader::decode(&header.encode()).as_ref(), Ok(&header));
        assert_eq!(SnapshotName::parse(&header.name().to_string()), Some(header.name()));
    }
}

fn snapshot(fields: &mut Fields<'_>) {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789_";
    let length = 1 + usize::from(fields.u8() % 64);
    let mut header = SnapshotHeader {
        ledger: fields.array(),
        genesis: fields.array(),
        seq: fields.u64().max(1),
        time: fields.u64(),
        chain: Chain(fields.array()),
        state_hash: fields.array(),
        projection: (0..length).map(|_| char::from(fields.pick(LETTERS))).collect(),
        version: fields.u32().max(1),
        body_length: fields.u64(),
        body_hash: fields.array(),
        stored_length: fields.u64(),
        base: None,
    };
    let base = SnapshotBase { seq: fields.u64(), state_hash: fields.array() };
    let is_based = fields.u8() % 2 == 1;
    header.base = Some(base).filter(|base| is_based && (1..header.seq).contains(&base.seq));
    let name = header.name();
    assert_eq!(SnapshotName::parse(&name.to_string()), Some(name));
    let mut bytes = header.encode();
    assert_eq!(bytes.len(), SNAPSHOT_HEADER_SIZE);
    let decoded = SnapshotHeader::decode(&bytes);
    match header.file_length() {
        Some(_) => assert_eq!(decoded, Ok(header)),
        None => assert!(decoded.is_err(), "no file is that long"),
    }
    change(&mut bytes, fields);
    assert!(SnapshotHeader::decode(&bytes).is_err());
}

fn logged(record: NewRecord) -> LoggedRecord {
    LoggedRecord {
        seq: 1,
        time: 1,
        kind: record.kind,
        codec: record.codec,
        schema: record.schema,
        batch_left: 0,
        payload: record.payload,
        chain: Chain::GENESIS,
        segment: 0,
        offset: 4096,
        size: 128,
    }
}

fn notes(data: &[u8]) {
    let kind = plan_ledger::log::KIND_SNAPSHOT_NOTE;
    let record = NewRecord { kind, codec: Codec::Json, schema: 1, payload: data.to_vec() };
    let snapshot = SnapshotNote::from_record(&logged(record));
    let (recovery, gap) = (RecoveryNote::decode(data), GapNote::decode(data));
    let kind = KIND_RETENTION_NOTE;
    let record = NewRecord { kind, codec: Codec::Json, schema: 1, payload: data.to_vec() };
    // An offset far past all data.
    let far = |record| LoggedRecord { seq: 1 << 60, ..logged(record) };
    let retention = LoggedRetentionNote::from_record(&far(record));
    if !is_exact(data) {
        return;
    }
    if let Some(note) = recovery {
        let payload = serde_json::to_vec(&note).expect("strings and numbers");
        assert_eq!(RecoveryNote::decode(&payload), Some(note));
    }
    if let Some(note) = gap {
        assert_eq!(GapNote::decode(&note.record().payload), Some(note));
    }
    if let Some(found) = retention {
        assert_eq!(LoggedRetentionNote::from_record(&far(found.note.record())), Some(found));
    }
    if let Some(note) = snapshot {
        assert_eq!(SnapshotNote::from_record(&logged(note.record())), Some(note));
    }
}

/// Lines as file names in `log/`, `snap/` and `blob/`. Each name is known, unknown or a staging file, and
/// a known name has only one spelling.
fn names(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (disk, dir) = (SimDisk::new(), Path::new("names.ledger"));
    let folders = [dir.to_owned(), dir.join("log"), dir.join("snap"), dir.join("blob")];
    let made = |path: &Path| disk.create_dir(path).is_ok();
    assert!(folders.iter().all(|folder| made(folder)));
    let mut count = [0, 0, 0];
    for line in text.lines().take(16) {
        if let Some(name) = SegmentName::parse(line) {
            assert_eq!(name.to_string(), line);
        }
        if let Some(name) = SnapshotName::parse(line) {
            assert_eq!(name.to_string(), line);
        }
        if line.is_empty() || line.contains(['/', '\0']) || line == "." || line == ".." {
            continue;
        }
        let first: String = line.chars().take(2).collect();
        let shelf = dir.join("blob").join(first);
        let places = [dir.join("log"), dir.join("snap"), shelf.clone()];
        let has_shelf = shelf.file_name().is_some() && made(&shelf);
        for (place, count) in places.iter().zip(&mut count) {
            if has_shelf && disk.create(&place.join(line)).is_ok() {
                *count += 1;
            }
        }
    }
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let snapshots = list_snapshots(&*storage, dir).expect("a folder that can be listed");
    let found = snapshots.names.len() + snapshots.temporary.len() + snapshots.unknown.len();
    assert_eq!(found, count[1]);
    let Ok(reader) = LogReader::open(&storage, dir) else { return };
    let blobs = reader.blobs();
    let list = blobs.list().expect("a folder that can be listed");
    for blob in &list.blobs {
        assert_eq!(blobs.path(&blob.id), blob.path);
    }
    assert!(list.blobs.len() + list.unfinished.len() + list.unknown.len() <= 2 * count[2]);
    // Empty files contain no record.
    let items = reader.walk(1).take(64);
    let records =
        items.filter(|item| matches!(item, Ok(plan_ledger::log::LogItem::Record(..))));
    assert_eq!(records.count(), 0);
}

/// Any bytes as index and footer of a sealed segment: an accepted one encodes to the same bytes, and finds
/// its entries.
fn footer_bytes(data: &[u8]) {
    let Some((index, bytes)) = data.split_last_chunk::<FOOTER_SIZE>() else { return };
    // The offset at which it must be.
    let word = |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).copied();
    let number = |at| word(at).map_or(0, u64::from_le_bytes);
    let offset = number(56).saturating_add(number(64));
    let Ok(footer) = Footer::decode(bytes, offset) else { return };
    let header = footer.header().expect("a footer that decodes has a header");
    assert_eq!(footer.encode(&header), bytes);
    if let Some(length) =
        index.get(..INDEX_HEADER_SIZE).and_then(|head| peek_seek_length(head, &footer))
    {
        let _ = index.get(..length).and_then(|bytes| read_seeks(bytes, &footer));
    }
    let Ok(index) = Index::decode(index.to_vec(), &footer) else { return };
    let records = footer.last_seq + 1 - header.base_seq;
    let mut found = 0;
    for kind in 0..=u16::MAX {
        for place in index.of_kind(kind) {
            assert!(place < footer.data_end);
            found += 1;
        }
    }
    assert_eq!(found, records);
    assert!(index.seeks().all(|seek| seek.seq <= footer.last_seq));
}

fn sealed_header() -> SegmentHeader {
    SegmentHeader {
        ledger: [1; 16],
        segment: [2; 16],
        ordinal: 0,
        base_seq: 1,
        prev_chain: Chain::GENESIS,
        prev_segment: [0; 16],
        prev_data_end: 0,
        prev_last_seq: 0,
        writer_epoch: 1,
        created: 1,
        prealloc_len: 1 << 20,
        reason: SegmentReason::Create,
        born_last: 0,
        born_end: 0,
        genesis: [1; 16],
        ro_compat: 0,
    }
}

fn footer(data: &[u8]) {
    let (mut builder, mut offset, mut records) = (IndexBuilder::default(), 4096_u64, Vec::new());
    for (seq, bytes) in (1_u64..).zip(data.chunks_exact(4)) {
        let &[size, more, kind, stream] = bytes else { continue };
        let stream = (stream > 0).then_some(u64::from(stream) << 50);
        let kind = u16::from(kind) * 256;
        builder.push(seq, offset, kind, stream);
        records.push((offset, kind, stream));
        offset += 128 + 64 * (u64::from(size) + 16 * u64::from(more));
    }
    let Some(bytes) = builder.finish(offset) else { return };
    let header = sealed_header();
    let long = |length: usize| u64::try_from(length).expect("no longer slices");
    let footer = Footer {
        replica: HeaderReplica::of(&header.encode()).expect("a header is longer"),
        last_seq: long(records.len()),
        data_end: offset,
        index_length: long(bytes.len()),
        index_crc: index_crc(header.segment, offset, &bytes),
        stream_rule: 1,
        time_first: 0,
        time_last: 0,
        chain_last: Chain::GENESIS,
        data_hash: [0; 32],
    };
    let again = Footer::decode(&footer.encode(&header), footer.offset());
    assert_eq!(again.as_ref(), Ok(&footer));
    let index = Index::decode(bytes, &footer).expect("what was built decodes");
    for kind in records.iter().map(|record| record.1).collect::<BTreeSet<_>>() {
        let of = records.iter().filter(|record| record.1 == kind).map(|record| record.0);
        assert!(index.of_kind(kind).eq(of));
    }
    for stream in records.iter().filter_map(|record| record.2).collect::<BTreeSet<_>>() {
        let of = records.iter().filter(|record| record.2 == Some(stream)).map(|record| record.0);
        assert!(index.of_stream(stream).eq(of));
    }
}

plan_ledger_fuzz::target!(check);
