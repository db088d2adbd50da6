//! The interleavings of `format/store.md`, section 9, with real bytes: one test for each row.

use std::sync::{Arc, Mutex};

use crate::error::ErrorKind;
use crate::format::Chain;
use crate::sim::{SimStore, StoreFate};
use crate::store::{
    COLLECT_AFTER, CollectPlan, ObjectName, SegmentObject, StoreEnd, StorePosition, StoreTime,
    remove,
};

use super::node::{Node, read_all, read_from, session, text};

/// The writer of epoch 1, which has committed records 1 to 9; its next name is 10.
fn writer() -> (SimStore, Node) {
    let store = SimStore::new();
    let mut writer = Node::open(&store.handle(), 1).unwrap();
    for seq in 2..=9 {
        assert_eq!(writer.append(&format!("w{seq}")).unwrap(), seq);
    }
    (store, writer)
}

fn next_call(node: &Node) -> u64 {
    node.store.calls() + 1
}

fn slot(seq: u64) -> String {
    ObjectName::Slot(seq).to_string()
}

/// The call that creates the opening slot of a new process.
fn opening_call(store: &SimStore) -> u64 {
    let dry = store.fork();
    Node::open(&dry, 0x7F).unwrap();
    dry.creates()[0].call
}

#[track_caller]
fn assert_fenced(node: &mut Node, append: &str) {
    let before = node.acknowledged.len();
    assert_eq!(node.append(append).unwrap_err().kind(), ErrorKind::Fenced);
    assert_eq!(node.acknowledged.len(), before);
    // It stays fenced.
    assert_eq!(node.append(append).unwrap_err().kind(), ErrorKind::Fenced);
}

#[track_caller]
fn assert_log_has(store: &SimStore, nodes: &[&Node]) {
    let log = read_all(&store.handle()).unwrap();
    for (seq, expected) in nodes.iter().flat_map(|node| &node.acknowledged) {
        assert_eq!(text(&log, *seq), expected, "record {seq}");
    }
}

#[test]
fn row_01_writer_dies_after_its_create() {
    let (store, mut w) = writer();
    w.store.set_fate(next_call(&w), StoreFate::DiesAfter);
    assert_eq!(w.append("w10").unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let c = Node::open(&store.handle(), 2).unwrap();
    assert_eq!(c.last(), 11);
    let log = read_all(&store.handle()).unwrap();
    assert_eq!((text(&log, 10), text(&log, 11)), ("w10", "opened by 02"));
}

#[test]
fn row_02_lost_answer_is_acknowledged() {
    let (store, mut w) = writer();
    w.store.set_fate(next_call(&w), StoreFate::AnswerLost);
    assert_eq!(w.append("w10").unwrap(), 10);
    assert_eq!(w.append("w11").unwrap(), 11);
    assert_log_has(&store, &[&w]);
}

#[test]
fn row_03_delayed_create_is_fenced() {
    let (store, mut w) = writer();
    let call = next_call(&w);
    w.store.set_fate(call, StoreFate::Late(1_000));
    let other = store.handle();
    w.store.before_call(call + 1, move || {
        assert_eq!(Node::open(&other.handle(), 2).unwrap().last(), 10);
        other.carry_out_all();
    });
    assert_fenced(&mut w, "w10");
    assert_eq!(text(&read_all(&store.handle()).unwrap(), 10), "opened by 02");
}

#[test]
fn row_04_delayed_create_arrives_before_the_takeover() {
    let (store, mut w) = writer();
    let call = next_call(&w);
    w.store.set_fate(call, StoreFate::Late(1_000));
    let (other, opening) = (store.handle(), opening_call(&store));
    w.store.before_call(call + 1, move || {
        let c = other.handle();
        let arrives = other.clone();
        c.before_call(opening, move || arrives.carry_out_all());
        let c = Node::open(&c, 2).unwrap();
        assert_eq!(c.last(), 11);
        // It sent an opening slot for 10, which was refused.
        let sent: Vec<_> = c.store.creates().into_iter().map(|sent| sent.name).collect();
        assert_eq!(sent, [slot(10), slot(11)]);
    });
    assert_eq!(w.append("w10").unwrap(), 10);
    assert_fenced(&mut w, "w11");
    assert_log_has(&store, &[&w]);
}

#[test]
fn row_05_request_that_is_carried_out_twice_is_acknowledged() {
    let (store, mut w) = writer();
    w.store.set_fate(next_call(&w), StoreFate::Twice);
    assert_eq!(w.append("w10").unwrap(), 10);
    assert_log_has(&store, &[&w]);
}

#[test]
fn row_06_refused_repetition_is_acknowledged() {
    let (store, mut w) = writer();
    let call = next_call(&w);
    w.store.set_fate(call, StoreFate::AnswerLost);
    w.store.set_fate(call + 1, StoreFate::Lost);
    assert_eq!(w.append("w10").unwrap(), 10);
    assert_eq!(w.store.calls(), call + 2);
    assert_log_has(&store, &[&w]);
}

#[test]
fn row_07_refusal_without_a_slot_is_sent_again() {
    let (store, mut w) = writer();
    w.store.set_fate(next_call(&w), StoreFate::Refused);
    assert_eq!(w.append("w10").unwrap(), 10);
    assert_log_has(&store, &[&w]);
}

/// Two days and a minute later, every slot that may be collected is collected.
fn collect_later(node: &Node) -> Vec<String> {
    node.store.advance(COLLECT_AFTER + 60_000_000);
    let session = session(&node.store);
    let planned = CollectPlan::of(&session, node.store.now()).unwrap().objects;
    let mut deleted = Vec::new();
    remove(&session, &planned, &mut |object| deleted.push(object.name.clone())).unwrap();
    deleted
}

/// The names of the objects that may be deleted at a time of the store.
fn planned(store: &SimStore, now: StoreTime) -> Vec<String> {
    let plan = CollectPlan::of(&session(store), now).unwrap();
    plan.objects.into_iter().map(|object| object.name).collect()
}

#[test]
fn row_08_writer_that_stopped_for_days_is_fenced() {
    let (store, mut w) = writer();
    let (w_part, other) = (w.part(), store.handle());
    w.store.before_call(next_call(&w), move || {
        let mut c = Node::open(&other.handle(), 2).unwrap();
        for seq in 11..=14 {
            assert_eq!(c.append(&format!("c{seq}")).unwrap(), seq);
        }
        session(&c.store).create_segment(&w_part.0, &w_part.1).unwrap();
        c.upload_part();
        let collected = collect_later(&c);
        let expected: Vec<String> = (2..=9).chain(11..=14).map(slot).collect();
        assert_eq!(collected, expected);
    });
    assert_fenced(&mut w, "w10");
    assert!(store.peek(&slot(10)).is_some() && store.peek(&slot(11)).is_none());
    assert_log_has(&store, &[&w]);
    assert_eq!(text(&read_all(&store.handle()).unwrap(), 14), "c14");
}

/// C found 10 missing and stops; W commits 10 to 12, which are collected; C continues.
fn late_takeover(store: &SimStore, w: Node) -> (Node, Node) {
    let c = store.handle();
    let w = Arc::new(Mutex::new(w));
    let shared = w.clone();
    c.before_call(opening_call(store), move || {
        let mut w = shared.lock().unwrap();
        for seq in 10..=12 {
            assert_eq!(w.append(&format!("w{seq}")).unwrap(), seq);
        }
        w.upload_part();
        assert_eq!(collect_later(&w), (2..=12).map(slot).collect::<Vec<_>>());
    });
    let c = Node::open(&c, 2).unwrap();
    let w = w.lock().unwrap().clone();
    (w, c)
}

#[test]
fn row_09_takeover_under_a_collected_name_is_given_up() {
    let (store, w) = writer();
    let (mut w, c) = late_takeover(&store, w);
    // Its first opening slot is an orphan, and it opened its epoch at the end.
    let sent: Vec<_> = c.store.creates().into_iter().map(|sent| sent.name).collect();
    assert_eq!(sent, [slot(10), slot(13)]);
    assert_eq!(store.peek(&slot(10)).unwrap(), c.store.creates()[0].bytes);
    assert_eq!(c.last(), 13);
    assert_fenced(&mut w, "w13");
    assert_log_has(&store, &[&w, &c]);
}

/// Read from record 10 on, with a reader that stops for days before it gets slot 10.
fn read_slowly(store: &SimStore, meanwhile: impl FnMut() + Send + 'static) -> Vec<String> {
    let at_ten = read_from(&store.handle(), StoreEnd::start()).unwrap().1;
    assert_eq!(at_ten.position.next_seq, 10);
    let reader = store.handle();
    // The reader lists the segment objects first; there are none.
    reader.before_call(2, meanwhile);
    let (log, _) = read_from(&reader, at_ten).unwrap();
    log.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn row_10_slow_reader_skips_an_orphan() {
    let (store, w) = writer();
    let other = store.handle();
    let log = read_slowly(&store, move || {
        late_takeover(&other, w.clone());
        assert!(other.peek(&slot(10)).is_some());
    });
    assert_eq!(log, ["w10", "w11", "w12", "opened by 02"]);
}

/// The machine of W is copied at 9; W commits 10 to 12, which are collected; the copy commits.
fn copy_that_comes_back(store: &SimStore, w: &mut Node) {
    let mut copy = w.copy(&store.handle());
    for seq in 10..=12 {
        assert_eq!(w.append(&format!("w{seq}")).unwrap(), seq);
    }
    w.upload_part();
    assert_eq!(collect_later(w), (2..=12).map(slot).collect::<Vec<_>>());
    assert_fenced(&mut copy, "copy 10");
    // The slot of the copy is under the collected name.
    assert_eq!(store.peek(&slot(10)).unwrap(), copy.store.creates()[0].bytes);
}

#[test]
fn row_11_copy_of_a_machine_does_not_acknowledge_under_a_collected_name() {
    let (store, mut w) = writer();
    copy_that_comes_back(&store, &mut w);
    // W itself was idle for days, and continues.
    assert_eq!(w.append("w13").unwrap(), 13);
    assert_log_has(&store, &[&w]);
}

#[test]
fn row_12_slow_reader_skips_the_slot_of_a_copy() {
    let (store, w) = writer();
    let other = store.handle();
    let log = read_slowly(&store, move || copy_that_comes_back(&other, &mut w.clone()));
    assert_eq!(log, ["w10", "w11", "w12"]);
}

/// Rows 9 to 12 hold wherever a collector stops, and if another one carries out the whole plan again days later, when
/// orphans stand under the names.
#[test]
fn rows_09_to_12_hold_wherever_a_collector_stops() {
    let (origin, w) = writer();
    let at_ten = read_from(&origin.handle(), StoreEnd::start()).unwrap().1;
    let mut w = w.copy(&origin.handle());
    for seq in 10..=12 {
        assert_eq!(w.append(&format!("w{seq}")).unwrap(), seq);
    }
    w.upload_part();
    origin.advance(COLLECT_AFTER + 60_000_000);
    let plan = CollectPlan::of(&session(&origin), origin.now()).unwrap().objects;
    assert_eq!(plan.len(), 11);
    for stop in 0..=plan.len() {
        let store = origin.fork();
        let mut w = w.copy(&store.handle());
        let (before, rest) = plan.split_at(stop);
        remove(&session(&store), before, &mut |_| ()).unwrap();
        // A copy of the machine of W at 9 returns, and so does C, which found 10 missing.
        let (_, stale) = writer();
        let mut copy = stale.copy(&store.handle());
        assert_fenced(&mut copy, "copy 10");
        let c = Node::open(&store.handle(), 2).unwrap();
        assert_eq!(c.last(), 13, "{stop}");
        assert_fenced(&mut w, "w13");
        for late in [rest, &plan[..]] {
            remove(&session(&store), late, &mut |_| ()).unwrap();
            assert_log_has(&store, &[&w, &c]);
            // A slow reader that stood at 10.
            let log = read_from(&store.handle(), at_ten.clone()).unwrap().0;
            let texts: Vec<&str> = log.iter().map(|(_, text)| text.as_str()).collect();
            assert_eq!(texts, ["w10", "w11", "w12", "opened by 02"], "{stop}");
        }
    }
}

#[test]
fn row_13_writer_and_its_copy_part_at_the_first_difference() {
    let (store, mut w) = writer();
    let mut copy = w.copy(&store.handle());
    assert_eq!(w.append("the same").unwrap(), 10);
    assert_eq!(copy.append("the same").unwrap(), 10);
    assert_eq!(copy.append("copy 11").unwrap(), 11);
    assert_fenced(&mut w, "w11");
    assert_log_has(&store, &[&w, &copy]);
}

#[test]
fn row_14_two_takeovers_have_one_winner() {
    let (store, _) = writer();
    let (d, other) = (store.handle(), store.handle());
    let c = Arc::new(Mutex::new(None));
    let winner = c.clone();
    d.before_call(opening_call(&store), move || {
        *winner.lock().unwrap() = Some(Node::open(&other.handle(), 2).unwrap());
    });
    let d = Node::open(&d, 3).unwrap();
    let mut c = c.lock().unwrap().take().unwrap();
    assert_eq!((c.last(), d.last()), (10, 11));
    assert_fenced(&mut c, "c11");
    assert_log_has(&store, &[&c, &d]);
}

#[test]
fn row_15_wrong_clocks_of_machines_change_nothing() {
    let (store, mut w) = writer();
    w.clock = 500_000_000_000;
    assert_eq!(w.append("w10").unwrap(), 10);
    // The clock of C is far behind, and that of D far ahead.
    let mut c = Node::open_with_clock(&store.handle(), 2, 1).unwrap();
    assert_eq!(c.append("c12").unwrap(), 12);
    assert_fenced(&mut w, "w11");
    let d = Node::open_with_clock(&store.handle(), 3, u64::MAX / 2).unwrap();
    assert_eq!(d.last(), 13);
    assert_fenced(&mut c, "c13");
    assert_log_has(&store, &[&w, &c, &d]);
}

#[test]
fn row_16_fenced_writer_commits_nothing() {
    let (store, mut w) = writer();
    let c = Node::open(&store.handle(), 2).unwrap();
    assert_eq!(w.last(), 9, "its state is old");
    assert_fenced(&mut w, "w10");
    assert_log_has(&store, &[&w, &c]);
}

#[test]
fn row_17_fenced_writer_collects_only_what_is_covered() {
    let (store, mut w) = writer();
    w.upload_part();
    let mut c = Node::open(&store.handle(), 2).unwrap();
    assert_eq!(c.append("c11").unwrap(), 11);
    assert_fenced(&mut w, "w10");
    assert_eq!(collect_later(&w), (2..=9).map(slot).collect::<Vec<_>>());
    assert_log_has(&store, &[&w, &c]);
}

#[test]
fn row_18_unwritten_records_are_not_in_a_segment_object() {
    let (_, mut w) = writer();
    w.store.set_fate(next_call(&w), StoreFate::Dies);
    assert!(w.append("w10").is_err() && w.held.is_unresolved());
    assert_eq!(w.part().0.last_seq, 9);
}

#[test]
fn row_19_slots_without_a_segment_object_are_kept() {
    let (store, w) = writer();
    assert_eq!(collect_later(&w), Vec::<String>::new());
    w.upload_part();
    // By the store's clock they are old enough; a second earlier they were not.
    let now = store.now();
    assert_eq!(planned(&store, now).len(), 8);
    let young = StoreTime(1_000_000 + COLLECT_AFTER - 1);
    assert_eq!(planned(&store, young), Vec::<String>::new());
}

/// A segment object ends at the end of a slot: otherwise a reader would not find the slot. An
/// object of another program that ends inside a slot hides the rest of the slot, and nothing is
/// collected.
#[test]
fn segment_object_ends_where_a_slot_does() {
    let (store, mut w) = writer();
    let double = w.slot(&["w10", "w11"]);
    let middle = usize::try_from(double.header().offset).unwrap() + 128;
    w.held.commit(&session(&w.store), double.clone()).unwrap();
    w.committed(&double, "w11");
    let (object, bytes) = w.part();
    for wrong in [&bytes[..middle], &bytes[..bytes.len() - 1], &[]] {
        let refused = w.held.create_part(&session(&w.store), wrong).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
    }
    let foreign = store.fork();
    let half = SegmentObject { last_seq: 10, ..object };
    session(&foreign).create_segment(&half, &bytes[..middle]).unwrap();
    foreign.advance(2 * COLLECT_AFTER);
    let refused = CollectPlan::of(&session(&foreign), foreign.now()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    w.upload_part();
    assert_eq!(collect_later(&w), (2..=10).map(slot).collect::<Vec<_>>());
    assert_log_has(&store, &[&w]);
}

/// A segment object of another history is not read for the records that a reader already has.
#[test]
fn segment_object_of_another_history_is_damage() {
    let (store, w) = writer();
    let at_ten = read_from(&store.handle(), StoreEnd::start()).unwrap().1;
    w.upload_part();
    let at = |next_seq, chain| {
        let position = StorePosition { next_seq, chain, ..at_ten.position };
        read_from(&store.handle(), StoreEnd { position, time: 0, ..at_ten.clone() })
    };
    let chain = read_chain(&store, 4);
    assert_eq!(at(5, chain).unwrap().0.len(), 5);
    for (next_seq, chain) in [(5, Chain([7; 32])), (6, chain)] {
        let error = at(next_seq, chain).unwrap_err();
        assert!(error.to_string().contains("follows other records"), "{error}");
    }
}

/// The chain value of a record.
fn read_chain(store: &SimStore, seq: u64) -> Chain {
    let mut found = None;
    let taken = session(store).find_end(StoreEnd::start(), &mut |taken| {
        taken.for_each_record(&mut |record| {
            if record.header.stamp.seq == seq {
                found = Some(record.chain);
            }
        });
        Ok(())
    });
    assert!(taken.is_ok());
    found.unwrap()
}

#[test]
fn row_20_nothing_is_acknowledged_without_its_slot() {
    let (store, mut w) = writer();
    let call = next_call(&w);
    for call in call..call + 40 {
        w.store.set_fate(call, StoreFate::Lost);
    }
    assert_eq!(w.append("w10").unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert!(w.held.is_unresolved());
    // Nothing else is committed before it is resolved.
    let sent = w.store.creates().len();
    assert_eq!(w.append("w10 again").unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!((w.store.creates().len(), w.acknowledged.len()), (sent, 9));
    assert_eq!(text(&read_all(&store.handle()).unwrap(), 9), "w9");
    // When the store answers again, the same bytes are sent.
    let slot = w.slot(&["w10"]);
    let session = crate::store::StoreSession { retry: &|_| true, ..session(&w.store) };
    w.held.resolve(&session).unwrap();
    w.committed(&slot, "w10");
    assert_log_has(&store, &[&w]);
}

#[test]
fn row_21_bytes_of_a_retry_never_differ() {
    let (store, mut w) = writer();
    let call = next_call(&w);
    // Creates and reads alternate.
    for call in (call..call + 9).step_by(2) {
        w.store.set_fate(call, StoreFate::Refused);
    }
    assert_eq!(w.append("w10").unwrap(), 10);
    let sent: Vec<_> = w.store.creates().into_iter().filter(|sent| sent.name == slot(10)).collect();
    assert!(sent.len() > 2 && sent.iter().all(|each| each.bytes == sent[0].bytes));
    assert_log_has(&store, &[&w]);
}

#[test]
fn row_22_lost_and_changed_objects_are_damage_with_their_place() {
    let (store, w) = writer();
    let read = |store: &SimStore| read_from(&store.handle(), StoreEnd::start());
    for seq in 1..=8 {
        let lost = store.fork();
        lost.tamper(&slot(seq), None);
        let error = read(&lost).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(error.location().seq, Some(seq), "{error}");
        // No process takes over after the gap.
        assert_eq!(Node::open(&lost.handle(), 2).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(lost.names().len(), 8);
    }
    // A slot in the place of another one.
    let swapped = store.fork();
    swapped.tamper(&slot(5), store.peek(&slot(6)));
    assert_eq!(read(&swapped).unwrap_err().location().seq, Some(5));
    // A segment object is lost after its slots were collected.
    w.upload_part();
    collect_later(&w);
    let (part, _) = w.part();
    let part = ObjectName::Segment(part).to_string();
    assert_eq!(read(&store).unwrap().0.len(), 9);
    let bytes = store.peek(&part).unwrap();
    for flip in [300, 5000, bytes.len() - 1] {
        let mut bytes = bytes.clone();
        bytes[flip] ^= 4;
        store.tamper(&part, Some(bytes));
        assert_eq!(read(&store).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    store.tamper(&part, None);
    // Only the opening slot is left: without a root that was kept elsewhere, this is a shorter log.
    assert_eq!(read(&store).unwrap().0.len(), 1);
}

#[test]
fn row_23_hints_may_be_deleted() {
    use crate::store::Objects as _;
    let (store, mut w) = writer();
    for name in ["OWNER.json", "nodes/01.json", "takeover/2.json"] {
        store.put_hint(name, b"{}").unwrap();
    }
    assert_eq!(w.append("w10").unwrap(), 10);
    for name in ["OWNER.json", "nodes/01.json", "takeover/2.json"] {
        store.delete(name).unwrap();
    }
    let c = Node::open(&store.handle(), 2).unwrap();
    assert_eq!(c.last(), 11);
    assert_log_has(&store, &[&w, &c]);
}
