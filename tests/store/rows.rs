//! The interleavings of `format/store.md`, section 8, and the promises of section 1, on a real store.
//!
//! Rows 11, 12, 17 and 19 need slots that are days old by the clock of the store: `src/store/tests/rows.rs` has
//! them on a simulated store. W is the writer of epoch 1, which knows the log up to record 9.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plan_ledger::internals::store::{
    LedgerIdentity, ObjectName, Objects, StoreEnd, StoreSession, bind, bound_ledger, probe,
    race_to_create,
};
use plan_ledger::{Environment, ErrorKind};
use plan_ledger_cli::open_objects;

use super::engine::IDENTITY;
use super::faults::{Fault, Faulty};
use super::node::{Node, read_all, session, text};

/// How long a test waits for one answer: the servers share a machine with much other work.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A prefix of its own in the store.
pub(crate) struct Prefix {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) url: String,
    /// Keeps the folder of a store that is one.
    _folder: Option<tempfile::TempDir>,
}

impl Prefix {
    pub(crate) fn new() -> Self {
        let id = Environment::system().ids.next_id();
        let id: String = id.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let (url, folder) = match std::env::var("LEDGER_STORE_URL") {
            Ok(base) => (format!("{base}/{id}"), None),
            Err(_) => {
                let folder = tempfile::tempdir().unwrap();
                (format!("file://{}/{id}", folder.path().display()), Some(folder))
            }
        };
        if let Some(path) = url.strip_prefix("file://") {
            std::fs::create_dir_all(PathBuf::from(path)).unwrap();
        }
        Self { objects: open_objects(&url, TIMEOUT).unwrap(), url, _folder: folder }
    }
}

/// W, with faults between it and the store.
fn writer(prefix: &Prefix) -> (Faulty, Node) {
    let faulty = Faulty::new(&prefix.objects);
    let own: Arc<dyn Objects> = Arc::new(faulty.clone());
    let mut writer = Node::open(&own, 1).unwrap();
    for seq in 2..=9 {
        assert_eq!(writer.append(&format!("w{seq}")).unwrap(), seq);
    }
    (faulty, writer)
}

fn slot(seq: u64) -> String {
    ObjectName::Slot(seq).to_string()
}

#[track_caller]
fn assert_fenced(node: &mut Node, append: &str) {
    for _ in 0..2 {
        let before = node.acknowledged.len();
        assert_eq!(node.append(append).unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(node.acknowledged.len(), before);
    }
}

#[track_caller]
fn assert_log_has(prefix: &Prefix, nodes: &[&Node]) {
    let log = read_all(&*prefix.objects).unwrap();
    for (seq, expected) in nodes.iter().flat_map(|node| &node.acknowledged) {
        assert_eq!(text(&log, *seq), expected, "record {seq}");
    }
}

/// Delete the slots of these records, as a collector does that is not bound to a time.
fn collect(objects: &dyn Objects, records: impl Iterator<Item = u64>) {
    records.for_each(|seq| objects.delete(&slot(seq)).unwrap());
}

#[test]
fn store_passes_the_probe() {
    assert_eq!(probe(&*Prefix::new().objects, "rows"), Vec::<String>::new());
}

#[test]
fn concurrent_creates_have_one_winner() {
    let prefix = Prefix::new();
    for name in 0..20 {
        let name = format!("probe/race-{name}");
        let winners = race_to_create(&*prefix.objects, &name, 3000);
        assert_eq!(winners.len(), 1, "{name}");
        let found = prefix.objects.get(&name, None).unwrap().unwrap();
        assert_eq!(found.bytes, [winners[0]; 3000], "{name}");
    }
}

#[test]
fn objects_are_read_whole_in_parts_and_with_their_times() {
    let Prefix { objects, _folder, .. } = Prefix::new();
    assert_eq!(objects.get("tail/none", None).unwrap(), None);
    assert_eq!(objects.list("tail/").unwrap(), []);
    let created = objects.create("tail/one", b"0123456789").unwrap();
    let read = |range| objects.get("tail/one", range).unwrap().unwrap();
    let whole = read(None);
    assert_eq!(whole.bytes, b"0123456789");
    assert_eq!(read(Some(3..6)).bytes, b"345");
    assert_eq!(read(Some(8..90)).bytes, b"89");
    assert_eq!(read(Some(10..90)).bytes, b"");
    let listing = objects.list("tail/").unwrap();
    assert_eq!((listing.len(), listing[0].name.as_str(), listing[0].length), (1, "tail/one", 10));
    // Clocks of one store agree within its resolution.
    let times = [created.at, whole.at, listing[0].at].map(|at| at.unwrap().0);
    let spread = times.iter().max().unwrap() - times.iter().min().unwrap();
    assert!(spread <= 3_000_000, "{times:?}");
    objects.delete("tail/one").unwrap();
    objects.delete("tail/one").unwrap();
    assert_eq!(objects.get("tail/one", None).unwrap(), None);
}

#[test]
fn hints_are_overwritten_and_large_objects_kept() {
    let Prefix { objects, _folder, .. } = Prefix::new();
    for hint in [&b"1"[..], b"22"] {
        objects.put_hint("OWNER.json", hint).unwrap();
        assert_eq!(objects.get("OWNER.json", None).unwrap().unwrap().bytes, hint);
    }
    let large: Vec<u8> = (0..8_u32 << 20).map(|at| u8::try_from(at % 251).unwrap()).collect();
    objects.create("seg/large", &large).unwrap();
    assert!(objects.create("seg/large", b"other").is_err());
    assert!(objects.get("seg/large", None).unwrap().unwrap().bytes == large);
    let end = u64::try_from(large.len()).unwrap();
    let tail = objects.get("seg/large", Some(end - 5..end)).unwrap().unwrap().bytes;
    assert_eq!(tail, large[large.len() - 5..]);
}

/// A page of S3 has 1,000 names.
#[test]
fn listing_has_all_pages() {
    let Prefix { objects, _folder, .. } = Prefix::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let objects = &objects;
            scope.spawn(move || {
                for number in (thread..1_050).step_by(4) {
                    objects.create(&slot(number), b"x").unwrap();
                }
            });
        }
    });
    let names: BTreeSet<String> =
        objects.list("tail/").unwrap().into_iter().map(|listed| listed.name).collect();
    assert_eq!(names, (0..1_050).map(slot).collect());
    // A listing may begin in the middle, at a name or between two of them.
    for first in [0, 20, 900, 1_049, 1_050] {
        for after in [format!("tail/{first:020}"), slot(first)] {
            let listing = objects.list_after("tail/", &after).unwrap();
            let names: BTreeSet<String> = listing.into_iter().map(|listed| listed.name).collect();
            let expected = (0..1_050).map(slot).filter(|name| *name > after).collect();
            assert_eq!(names, expected, "after {after}");
        }
    }
}

#[test]
fn prefix_is_bound_to_one_ledger() {
    let Prefix { objects, _folder, .. } = Prefix::new();
    let bind = |identity: &LedgerIdentity| bind(&*objects, identity, 7, &|unclear| unclear < 3);
    assert_eq!(bound_ledger(&*objects, &|_| false).unwrap(), None);
    bind(&IDENTITY).unwrap();
    bind(&IDENTITY).unwrap();
    let other = LedgerIdentity { ledger: [9; 16], ..IDENTITY };
    assert_eq!(bind(&other).unwrap_err().kind(), ErrorKind::Rejected);
    assert_eq!(bound_ledger(&*objects, &|_| false).unwrap(), Some(IDENTITY));
}

#[test]
fn row_01_writer_dies_after_its_create() {
    let prefix = Prefix::new();
    let (_, w) = writer(&prefix);
    // Its last act is this create.
    prefix.objects.create(&slot(10), w.slot(&["w10"]).bytes()).unwrap();
    let c = Node::open(&prefix.objects, 2).unwrap();
    assert_eq!(c.last(), 11);
    let log = read_all(&*prefix.objects).unwrap();
    assert_eq!((text(&log, 10), text(&log, 11)), ("w10", "opened by 02"));
}

#[test]
fn rows_02_05_06_07_unclear_answers_are_resolved_by_reading() {
    for fault in [Fault::AnswerLost, Fault::Twice, Fault::Lost] {
        let prefix = Prefix::new();
        let (faulty, mut w) = writer(&prefix);
        faulty.set(1, fault);
        assert_eq!(w.append("w10").unwrap(), 10, "{fault:?}");
        assert_eq!(w.append("w11").unwrap(), 11, "{fault:?}");
        assert_log_has(&prefix, &[&w]);
    }
}

#[test]
fn row_03_delayed_create_is_fenced() {
    let prefix = Prefix::new();
    let (faulty, mut w) = writer(&prefix);
    faulty.set(1, Fault::Late);
    let (objects, late) = (Arc::clone(&prefix.objects), faulty.clone());
    faulty.before(2, move || {
        assert_eq!(Node::open(&objects, 2).unwrap().last(), 10);
        late.carry_out_late();
    });
    assert_fenced(&mut w, "w10");
    assert_eq!(text(&read_all(&*prefix.objects).unwrap(), 10), "opened by 02");
}

#[test]
fn row_04_delayed_create_arrives_before_the_takeover() {
    let prefix = Prefix::new();
    let (faulty, mut w) = writer(&prefix);
    faulty.set(1, Fault::Late);
    let (objects, late) = (Arc::clone(&prefix.objects), faulty.clone());
    faulty.before(2, move || {
        let c = Faulty::new(&objects);
        c.before(1, move || late.carry_out_late());
        let own: Arc<dyn Objects> = Arc::new(c.clone());
        assert_eq!(Node::open(&own, 2).unwrap().last(), 11);
        // It sent an opening slot for 10, which was refused.
        let sent: Vec<_> = c.sent().into_iter().map(|(name, _)| name).collect();
        assert_eq!(sent, [slot(10), slot(11)]);
    });
    assert_eq!(w.append("w10").unwrap(), 10);
    assert_fenced(&mut w, "w11");
    assert_log_has(&prefix, &[&w]);
}

#[test]
fn row_08_writer_that_stopped_long_ago_is_fenced() {
    let prefix = Prefix::new();
    let (_, mut w) = writer(&prefix);
    w.upload_part();
    let mut c = Node::open(&prefix.objects, 2).unwrap();
    for seq in 11..=14 {
        assert_eq!(c.append(&format!("c{seq}")).unwrap(), seq);
    }
    c.upload_part();
    collect(&*prefix.objects, (2..=9).chain(11..=14));
    assert_fenced(&mut w, "w10");
    assert_log_has(&prefix, &[&w, &c]);
}

#[test]
fn rows_09_10_takeover_under_a_collected_name_is_given_up() {
    let prefix = Prefix::new();
    let (_, w) = writer(&prefix);
    let before = session(&*prefix.objects).find_end(StoreEnd::start(), &mut |_| Ok(())).unwrap();
    let c = Faulty::new(&prefix.objects);
    let (w, objects) = (Arc::new(Mutex::new(w)), Arc::clone(&prefix.objects));
    let shared = Arc::clone(&w);
    c.before(1, move || {
        let mut w = shared.lock().unwrap();
        for seq in 10..=12 {
            assert_eq!(w.append(&format!("w{seq}")).unwrap(), seq);
        }
        w.upload_part();
        collect(&*objects, 2..=12);
    });
    let own: Arc<dyn Objects> = Arc::new(c.clone());
    let c_node = Node::open(&own, 2).unwrap();
    // Its first opening slot is an orphan, and it opened its epoch at the end.
    let sent: Vec<_> = c.sent().into_iter().map(|(name, _)| name).collect();
    assert_eq!(sent, [slot(10), slot(13)]);
    assert_eq!(prefix.objects.get(&slot(10), None).unwrap().unwrap().bytes, c.sent()[0].1);
    let mut w = w.lock().unwrap().clone();
    assert_fenced(&mut w, "w13");
    assert_log_has(&prefix, &[&w, &c_node]);
    // A reader that stood before record 10 does not read the orphan.
    let mut seen = Vec::new();
    let end = session(&*prefix.objects).find_end(before, &mut |taken| {
        taken.for_each_record(&mut |record| seen.push(record.header.stamp.seq));
        Ok(())
    });
    assert_eq!(end.unwrap().position.next_seq, 14);
    assert_eq!(seen.last(), Some(&13));
}

#[test]
fn row_13_writer_and_its_copy_part_at_the_first_difference() {
    let prefix = Prefix::new();
    let (_, mut w) = writer(&prefix);
    let mut copy = w.copy(&prefix.objects);
    assert_eq!(w.append("the same").unwrap(), 10);
    assert_eq!(copy.append("the same").unwrap(), 10);
    assert_eq!(copy.append("copy 11").unwrap(), 11);
    assert_fenced(&mut w, "w11");
    assert_log_has(&prefix, &[&w, &copy]);
}

#[test]
fn row_14_two_takeovers_have_one_winner() {
    let prefix = Prefix::new();
    writer(&prefix);
    let d = Faulty::new(&prefix.objects);
    let c = Arc::new(Mutex::new(None));
    let (winner, objects) = (Arc::clone(&c), Arc::clone(&prefix.objects));
    d.before(1, move || *winner.lock().unwrap() = Some(Node::open(&objects, 2).unwrap()));
    let own: Arc<dyn Objects> = Arc::new(d);
    let d = Node::open(&own, 3).unwrap();
    let mut c = c.lock().unwrap().take().unwrap();
    assert_eq!((c.last(), d.last()), (10, 11));
    assert_fenced(&mut c, "c11");
    assert_log_has(&prefix, &[&c, &d]);
}

#[test]
fn row_16_fenced_writer_commits_nothing() {
    let prefix = Prefix::new();
    let (_, mut w) = writer(&prefix);
    let mut c = Node::open(&prefix.objects, 2).unwrap();
    assert_eq!(w.last(), 9, "its state is old");
    assert_fenced(&mut w, "w10");
    assert_eq!(c.append("c11").unwrap(), 11);
    assert_log_has(&prefix, &[&w, &c]);
}

#[test]
fn rows_20_21_nothing_is_acknowledged_without_its_slot_and_its_bytes_never_change() {
    let prefix = Prefix::new();
    let (faulty, mut w) = writer(&prefix);
    (1..=400).for_each(|create| faulty.set(create, Fault::Lost));
    let slot_ten = w.slot(&["w10"]);
    assert_eq!(w.append("w10").unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert!(w.held.is_unresolved());
    let sent = faulty.sent().len();
    assert_eq!(w.append("other").unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert_eq!((faulty.sent().len(), w.acknowledged.len()), (sent, 9));
    assert_eq!(read_all(&*prefix.objects).unwrap().len(), 9);
    faulty.heal();
    w.held.resolve(&StoreSession { retry: &|_| true, ..session(&*prefix.objects) }).unwrap();
    w.committed(&slot_ten, "w10");
    assert_log_has(&prefix, &[&w]);
    let sent: Vec<_> = faulty.sent().into_iter().filter(|(name, _)| *name == slot(10)).collect();
    assert!(sent.len() > 2 && sent.iter().all(|(_, bytes)| bytes == slot_ten.bytes()));
}

#[test]
fn row_22_lost_object_is_damage_with_its_place() {
    let prefix = Prefix::new();
    writer(&prefix);
    prefix.objects.delete(&slot(5)).unwrap();
    let error = read_all(&*prefix.objects).unwrap_err();
    assert_eq!((error.kind(), error.location().seq), (ErrorKind::Corrupt, Some(5)));
    // No process takes over after the gap.
    assert_eq!(Node::open(&prefix.objects, 2).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(prefix.objects.list("tail/").unwrap().len(), 8);
}

#[test]
fn row_23_hints_may_be_deleted() {
    let prefix = Prefix::new();
    let (_, mut w) = writer(&prefix);
    prefix.objects.put_hint("OWNER.json", b"{}").unwrap();
    assert_eq!(w.append("w10").unwrap(), 10);
    prefix.objects.delete("OWNER.json").unwrap();
    assert_eq!(Node::open(&prefix.objects, 2).unwrap().last(), 11);
}

/// Processes take the log over from each other at any moment, each from a thread and with a client of its
/// own.
#[test]
fn fleet_loses_and_invents_nothing() {
    let prefix = Prefix::new();
    let nodes: Vec<Node> = std::thread::scope(|scope| {
        let fleet: Vec<_> = (1..=6_u8)
            .map(|number| {
                let objects = &prefix.objects;
                scope.spawn(move || {
                    let mut lives = Vec::new();
                    for life in 0..3 {
                        let mut node = Node::open(objects, number + 8 * life).unwrap();
                        for commit in 0..12 {
                            let text = format!("{number}/{life}/{commit}");
                            match node.append(&text) {
                                Ok(_) => {}
                                Err(error) if error.kind() == ErrorKind::Fenced => break,
                                Err(error) => panic!("{error}"),
                            }
                        }
                        lives.push(node);
                    }
                    lives
                })
            })
            .collect();
        fleet.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let log = read_all(&*prefix.objects).unwrap();
    let nodes: Vec<&Node> = nodes.iter().collect();
    assert_log_has(&prefix, &nodes);
    let acknowledged: usize = nodes.iter().map(|node| node.acknowledged.len()).sum();
    assert_eq!(log.len(), acknowledged, "records that no process acknowledged: {log:?}");
    assert_eq!(
        log.iter().map(|(_, text)| text).collect::<BTreeSet<_>>().len(),
        log.len(),
        "doubled: {log:?}"
    );
}
