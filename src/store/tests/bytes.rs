//! The bytes of slots: golden, and damaged.

use crate::error::ErrorKind;
use crate::format::content_hash;
use crate::sim::{SimStore, sweep};
use crate::store::{
    LedgerIdentity, ObjectName, SLOT_HEADER_SIZE, SlotBytes, SlotFault, SlotHeader, StoreEnd, bind,
    bound_ledger,
};

use super::engine::IDENTITY;
use super::node::{Node, read_all, read_from};

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(32).map(|chunk| line(chunk) + "\n").collect()
}

/// A store with two writers, a part of a segment and the name of its ledger.
fn golden_store() -> SimStore {
    let store = SimStore::new();
    bind(&store, &IDENTITY, 1_700_000_000_000_000, &|_| false).unwrap();
    let mut first = Node::open_with_clock(&store.handle(), 1, 1_700_000_000_000_000).unwrap();
    first.append("one record").unwrap();
    first.upload_part();
    first.append("another one").unwrap();
    let mut second = Node::open_with_clock(&store.handle(), 2, 1_700_000_001_000_000).unwrap();
    second.append("after the takeover").unwrap();
    store
}

/// Goal: the bytes of a store do not change by accident. `format/golden/store.hex` has every object: a
/// line with its name, and lines of 32 bytes.
#[test]
fn golden_store_has_these_bytes() {
    let store = golden_store();
    let object = |name: String| format!("# {name}\n{}", hex(&store.peek(&name).unwrap()));
    let text: String = store.names().into_iter().map(object).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/format/golden/store.hex");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        text == expected,
        "format/golden/store.hex differs: see UPDATE_GOLDEN in CONTRIBUTING.md"
    );
    assert_eq!(read_all(&store.handle()).unwrap().len(), 5);
}

/// Goal: a flipped bit in any object of the log is damage of that object, and no takeover follows
/// it. (A flip in the magic, and anywhere else.)
#[test]
fn sweep_every_flipped_bit_of_a_store_is_located() {
    let store = golden_store();
    let step = sweep(211, 17, 1);
    for name in store.names().iter().filter(|name| *name != "LEDGER.json") {
        let bytes = store.peek(name).unwrap();
        for bit in (0..bytes.len() * 8).step_by(step) {
            let damaged = store.fork();
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            damaged.tamper(name, Some(changed));
            let read = read_from(&damaged.handle(), StoreEnd::start());
            // The segment object replaces two slots, which are not read then.
            let Err(error) = read else {
                let is_replaced =
                    ["1", "2"].iter().any(|seq| name.ends_with(&format!("{seq:0>20}.slot")));
                assert!(is_replaced, "bit {bit} of {name} is not found");
                continue;
            };
            let is_refusal = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported);
            assert!(is_refusal, "bit {bit} of {name}: {error}");
            assert!(error.to_string().contains(name.as_str()), "bit {bit} of {name}: {error}");
            assert!(Node::open(&damaged.handle(), 3).is_err(), "bit {bit} of {name}");
        }
    }
}

/// Goal: a slot with a rewritten header and valid checksums is refused for its own fault.
#[test]
fn forged_slot_headers_are_refused() {
    let store = golden_store();
    let name = ObjectName::Slot(3).to_string();
    let bytes = store.peek(&name).unwrap();
    let header = SlotHeader::decode(&bytes).unwrap();
    let body = &bytes[SLOT_HEADER_SIZE..];
    assert_eq!(header.body_hash, content_hash(body));
    let forged = [
        (SlotHeader { ledger: [9; 16], ..header.clone() }, "the ledger in LEDGER.json"),
        (SlotHeader { epoch: 2, ..header.clone() }, "an epoch is wrong"),
        (SlotHeader { opens: true, epoch: 2, ..header.clone() }, "end in a note"),
        (SlotHeader { time: header.time + 1, ..header.clone() }, "time or end"),
        (SlotHeader { segment: [9; 16], ..header.clone() }, "another segment"),
        (SlotHeader { offset: 8192, end: 8320, ..header.clone() }, "records before it end"),
        (SlotHeader { first_seq: 2, last_seq: 2, ..header.clone() }, "name of another record"),
        (SlotHeader { last_seq: 4, ..header.clone() }, "last_seq"),
    ];
    for (header, expected) in forged {
        let forged = store.fork();
        forged.tamper(&name, Some([header.encode().as_slice(), body].concat()));
        let error = read_from(&forged.handle(), StoreEnd::start()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}: {expected}");
    }
}

/// Goal: bytes are a slot only under their own name, in their own ledger, and as a whole.
#[test]
fn slot_is_checked_against_its_name_ledger_and_length() {
    let store = golden_store();
    let bytes = store.peek(&ObjectName::Slot(3).to_string()).unwrap();
    let check = |bytes: &[u8], seq, identity| SlotBytes(bytes.to_vec()).check(seq, identity).err();
    assert_eq!(check(&bytes, 3, &IDENTITY), None);
    assert_eq!(check(&bytes, 4, &IDENTITY), Some(SlotFault::Name));
    let other = LedgerIdentity { genesis: [1; 16], ..IDENTITY };
    assert_eq!(check(&bytes, 3, &other), Some(SlotFault::Ledger));
    for length in [0, 1, 255, 256, bytes.len() - 1] {
        assert_eq!(check(&bytes[..length], 3, &IDENTITY), Some(SlotFault::Length), "{length}");
    }
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert_eq!(check(&flipped, 3, &IDENTITY), Some(SlotFault::BodyHash));
    let longer = [bytes.as_slice(), &[0]].concat();
    assert_eq!(check(&longer, 3, &IDENTITY), Some(SlotFault::Length));
}

/// Goal: a prefix belongs to the ledger that was bound to it first, regardless of lost answers.
#[test]
fn prefix_belongs_to_one_ledger() {
    let store = golden_store();
    let other = LedgerIdentity { ledger: [1; 16], ..IDENTITY };
    bind(&store, &IDENTITY, 5, &|_| false).unwrap();
    assert_eq!(bind(&store, &other, 5, &|_| false).unwrap_err().kind(), ErrorKind::Rejected);
    let bytes = store.peek("LEDGER.json").unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        store.tamper("LEDGER.json", Some(changed));
        let bound = bind(&store, &IDENTITY, 5, &|_| false);
        // The time of creation is for information only.
        let created = bytes.windows(9).position(|text| text == b"\"created\"").unwrap() + 10;
        let is_time = (created..created + 16).contains(&(bit / 8));
        assert!(bound.is_err() || is_time, "bit {bit}");
    }
    for fate in crate::sim::StoreFate::ALL {
        for call in [1, 2] {
            let store = SimStore::new();
            let process = store.handle();
            process.set_fate(call, fate);
            let bound = bind(&process, &IDENTITY, 5, &|unclear| unclear < 5);
            assert_eq!(bound.is_err(), process.is_dead(), "{fate:?}");
            bind(&store.handle(), &IDENTITY, 6, &|_| false).unwrap();
        }
    }
}

/// Goal: a log without `LEDGER.json`, or with a wrong one, is neither "no ledger" nor taken over by another ledger; a process
/// of this ledger makes it again.
#[test]
fn lost_ledger_object_is_told_and_made_again() {
    let golden = golden_store();
    let whole = golden.peek("LEDGER.json").unwrap();
    let own = |store: &SimStore| bind(store, &IDENTITY, 1_700_000_000_000_000, &|_| false);
    let other = LedgerIdentity { ledger: [7; 16], ..IDENTITY };
    for folder in ["seg/", "tail/"] {
        let store = golden.fork();
        store.tamper("LEDGER.json", None);
        for name in store.names().iter().filter(|name| !name.starts_with(folder)) {
            store.tamper(name, None);
        }
        let names = store.names();
        let error = bound_ledger(&store, &|_| false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("the object is missing"), "{error}");
        assert_eq!(bind(&store, &other, 5, &|_| false).unwrap_err().kind(), ErrorKind::Rejected);
        assert_eq!(store.names(), names);
        own(&store).unwrap();
        assert_eq!(store.peek("LEDGER.json"), Some(whole.clone()));
        // The object names another ledger than the log.
        store.tamper("LEDGER.json", None);
        let empty = SimStore::new();
        bind(&empty, &other, 5, &|_| false).unwrap();
        store.tamper("LEDGER.json", empty.peek("LEDGER.json"));
        let error = own(&store).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(
            error.hint().unwrap().contains("move this object, and nothing else, out of the prefix")
        );
    }
}
