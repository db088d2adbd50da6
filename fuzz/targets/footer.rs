//! Any bytes as the end of a sealed segment, index and footer: no panic, and whatever is accepted
//! encodes to the same bytes again, and finds what was put in.
#![cfg_attr(fuzzing, no_main)]

use std::collections::BTreeSet;

use plan_ledger::format::{
    Chain, FOOTER_SIZE, Footer, HeaderReplica, INDEX_HEADER_SIZE, Index, IndexBuilder, Reason,
    SegmentHeader, index_crc, peek_seek_length, read_seeks,
};

fn check(data: &[u8]) {
    if let Some((index, footer)) = data.split_last_chunk::<FOOTER_SIZE>() {
        decode(index, footer);
    }
    // Most inputs fail the CRCs: take the bytes as records too, and check the way back.
    build(data);
}

fn decode(index: &[u8], bytes: &[u8]) {
    // Where it would have to stand.
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

fn header() -> SegmentHeader {
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
        reason: Reason::Create,
        born_last: 0,
        born_end: 0,
        genesis: [1; 16],
        ro_compat: 0,
    }
}

fn build(data: &[u8]) {
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
    let header = header();
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
